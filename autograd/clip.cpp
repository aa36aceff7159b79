#include <capstan/optim/clip.hpp>

#include <cmath>
#include <optional>
#include <utility>

#include <capstan/sparse.hpp>

#include "autograd/elementwise.hpp"
#include "autograd/lists.hpp"

namespace capstan::optim {

using autograd::Replay;

namespace {

void check_order(const char* op, double order, Where where) {
  if (!(order > 0))
    base::fail<Error>(where, op, ": the order is ", order,
                      "; it must be above 0, or infinite for the largest element.");
}

// --- norms ---

struct Norm {
  double order;
  std::int64_t count;  // of tensors
};

/// Adds to the gradient for each tensor what `weight`, the gradient for their norm, makes of it. Tensors are the first
/// `count` saved values; weight and norm have one type.
void give_norm_gradients(Replay& r, Norm norm, const Tensor& value, const Tensor& weight) {
  const Where where = r.where();
  const Tensor none = equal(value, 0, where), divisor = capstan::where(none, 1, value, where);
  const Tensor share = capstan::where(none, 0, weight, where);
  const auto wide = [&](int i) { return r.saved(i).to(value.dtype(), where); };
  const int count = static_cast<int>(norm.count);
  Tensor ties;  // of an infinite order: how many elements are as large as the norm
  if (std::isinf(norm.order))
    for (int i = 0; i < count; ++i) {
      const Tensor found = sum(cast(equal(abs(wide(i), where), value, where), value.dtype(), where), {}, {}, where);
      ties = ties.defined() ? add(ties, found, where) : found;
    }
  for (int i = 0; i < count; ++i) {
    if (!r.needs(i)) continue;
    const Tensor x = wide(i);
    Tensor slope;
    if (norm.order == 2) {
      slope = mul(x, div(share, divisor, where), where);
    } else if (std::isinf(norm.order)) {
      const Tensor best = cast(equal(abs(x, where), value, where), value.dtype(), where);
      slope = mul(mul(sign(x, where), best, where), div(share, ties, where), where);
    } else if (norm.order == 1) {
      slope = mul(sign(x, where), share, where);
    } else {
      // the powers of x and the norm alone may overflow; of 0 they would be infinite for an order below 1
      const Tensor zero = logical_or(equal(x, 0, where), none, where);
      const Tensor ratio = capstan::where(zero, 1, div(abs(x, where), divisor, where), where);
      const Tensor power = mul(sign(x, where), pow(ratio, norm.order - 1, where), where);
      slope = mul(capstan::where(zero, 0, power, where), share, where);
    }
    r.give(i, slope.to(r.saved(i).dtype(), where));
  }
}

void global_norm_replay(Replay& r) {
  const auto norm = r.attributes<Norm>();
  give_norm_gradients(r, norm, r.saved(static_cast<int>(norm.count)), r.grad());
}

/// A norm in double, and as the operation's result.
struct Measured {
  double number;
  Tensor tensor;
};

/// The powers of all elements added up, one float64 on their device; and the type of the norm.
struct Powers {
  Tensor total;
  DType dtype = DType::float32;
};
Powers powers_of(const std::vector<const Tensor*>& tensors, double order, Where where) {
  const Device device = tensors.empty() ? cpu() : tensors[0]->impl()->device();
  Powers powers{core::make_tensor(Shape(), DType::float64, device, where)};
  const core::Backend& backend = core::backend_of(device, where);
  core::note_start();
  backend.fill(*powers.total.impl(), 0);
  for (const Tensor* x : tensors) {
    if (x->impl()->dtype == DType::float64) powers.dtype = DType::float64;
    backend.add_powers(*autograd::values_once(*x, where).impl(), order, *powers.total.impl());
  }
  return powers;
}

/// The norm of the defined ones among the tensors; a tape records it.
Measured measure(const char* op, const std::vector<const Tensor*>& tensors, double order, Where where) {
  const auto [total, dtype] = powers_of(tensors, order, where);
  const Device device = total.impl()->device();
  const double sum = total.item<double>(where);
  const double number = order == 2 ? std::sqrt(sum) : order == 1 || std::isinf(order) ? sum : std::pow(sum, 1 / order);
  Measured result{number, core::scalar_tensor(op, number, dtype, device, where)};
  if (!autograd::attended()) return result;
  std::vector<const Tensor*> saved = tensors;
  saved.push_back(&result.tensor);
  Tensor* const outputs[] = {&result.tensor};
  const Norm attributes{order, static_cast<std::int64_t>(tensors.size())};
  autograd::append(
      {"global_norm", where, &global_norm_replay, tensors, outputs, saved, &attributes, sizeof attributes});
  return result;
}

}  // namespace

Tensor global_norm(const std::vector<Tensor>& gradients, double order, Where where) {
  const std::vector<const Tensor*> tensors = autograd::defined_ones("global_norm", gradients, where);
  check_order("global_norm", order, where);
  return measure("global_norm", tensors, order, where).tensor;
}

// --- clipping by a norm ---

namespace {

struct Clip {
  Norm norm;
  double limit, epsilon;
  bool clips;
};

void clip_replay(Replay& r) {
  const Where where = r.where();
  const auto clip = r.attributes<Clip>();
  const int count = static_cast<int>(clip.norm.count);
  if (!clip.clips) {
    for (int i = 0; i < count; ++i)
      if (r.needs(i) && r.grad(i).defined()) r.give(i, r.grad(i));
    return;
  }
  const Tensor& value = r.saved(count);
  const Tensor room = add(value, clip.epsilon, where), scale = mul(reciprocal(room, where), clip.limit, where);
  Tensor products;  // of gradients and tensors
  for (int i = 0; i < count; ++i) {
    if (!r.grad(i).defined()) continue;
    const Tensor wide = r.grad(i).to(value.dtype(), where);
    const Tensor product = sum(mul(wide, r.saved(i).to(value.dtype(), where), where), {}, {}, where);
    products = products.defined() ? add(products, product, where) : product;
    if (r.needs(i)) r.give(i, mul(wide, scale, where).to(r.grad(i).dtype(), where));
  }
  // d scale / d norm = -scale / room
  give_norm_gradients(r, clip.norm, value, neg(mul(products, div(scale, room, where), where), where));
}

/// limit / (norm + epsilon), at most 1; 1 where there is nothing to clip, NaN for a norm that is NaN.
double scale_of(double norm, double limit, double epsilon) {
  if (norm + epsilon == 0 || std::isinf(limit)) return 1;
  const double scale = limit / (norm + epsilon);
  return scale >= 1 ? 1 : scale;
}

void check_options(const char* op, double limit, const ClipOptions& options, Where where) {
  if (!(limit >= 0)) base::fail<Error>(where, op, ": the limit is ", limit, "; it must be >= 0.");
  check_order(op, options.order, where);
  if (!(options.epsilon >= 0 && std::isfinite(options.epsilon)))
    base::fail<Error>(where, op, ": epsilon is ", options.epsilon, "; it must be finite and >= 0.");
}

/// Replaces the gradients by scaled ones, and tells tapes and watchers.
void scale_recorded(const char* op, std::vector<Tensor>& gradients, const Tensor& norm, double scale, Clip clip,
                    Where where) {
  std::vector<Tensor> results(gradients.size());
  const Tensor factor = autograd::factor_of(scale, *norm.impl(), where);
  std::vector<const Tensor*> saved;
  std::vector<Tensor*> outputs;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    results[i] = autograd::times(gradients[i], factor, {}, where);
    saved.push_back(&gradients[i]);
    outputs.push_back(&results[i]);
  }
  if (outputs.empty()) return;
  const std::vector<const Tensor*> inputs = saved;
  saved.push_back(&norm);
  autograd::append({op, where, &clip_replay, inputs, outputs, saved, &clip, sizeof clip});
  gradients = std::move(results);
}

/// On a GPU nobody waits for the norm: the gradients are multiplied by what stands on the device.
ClippedGradients clipped_on_device(std::vector<Tensor> gradients, const std::vector<const Tensor*>& tensors,
                                   double limit, const ClipOptions& options, Where where) {
  const auto [total, dtype] = powers_of(tensors, options.order, where);
  const Tensor norm = options.order == 2                                ? sqrt(total, where)
                      : options.order == 1 || std::isinf(options.order) ? total
                                                                        : pow(total, 1 / options.order, where);
  if (!std::isinf(limit)) {
    const Tensor room = add(norm, options.epsilon, where);
    const Tensor scale = minimum(mul(reciprocal(room, where), limit, where), 1, where);
    const Tensor factor = capstan::where(equal(room, 0, where), 1, scale, where);
    for (Tensor& x : gradients)
      if (x.defined()) x = autograd::times(std::move(x), factor, {}, where);
  }
  return {std::move(gradients), norm.to(dtype, where)};
}

ClippedGradients clipped(const char* op, std::vector<Tensor> gradients, double limit, const ClipOptions& options,
                         Where where) {
  for (Tensor& x : gradients)  // the optimizer needs each row once too
    if (x.defined() && x.impl()->device().kind == DeviceKind::cpu && !autograd::attended())
      if (const std::optional<RowSlices> slices = find_row_slices(x, where))
        x = core::make_sliced(coalesce(*slices, where), x.impl()->shape, where);
  const std::vector<const Tensor*> tensors = autograd::defined_ones(op, gradients, where);
  const bool on_gpu = !tensors.empty() && tensors[0]->impl()->device().kind != DeviceKind::cpu;
  if (on_gpu && !options.error_if_nonfinite && !autograd::attended())
    return clipped_on_device(std::move(gradients), tensors, limit, options, where);
  const autograd::Rollback rollback;
  Measured norm = measure(op, tensors, options.order, where);
  if (options.error_if_nonfinite && !std::isfinite(norm.number))
    base::fail<NumericError>(where, op, ": the norm of order ", options.order, " of all gradients is ", norm.number,
                             "; it must be finite.");
  const double scale = scale_of(norm.number, limit, options.epsilon);
  const bool clips = scale != 1;
  if (autograd::attended()) {
    const Norm of{options.order, static_cast<std::int64_t>(tensors.size())};
    scale_recorded(op, gradients, norm.tensor, scale, {of, limit, options.epsilon, clips}, where);
  } else if (clips) {
    const Tensor factor = autograd::factor_of(scale, *norm.tensor.impl(), where);
    for (Tensor& x : gradients)
      if (x.defined()) x = autograd::times(std::move(x), factor, {}, where);
  }
  return {std::move(gradients), std::move(norm.tensor)};
}

}  // namespace

ClippedGradients clip_by_global_norm(std::vector<Tensor> gradients, double limit, const ClipOptions& options,
                                     Where where) {
  check_options("clip_by_global_norm", limit, options, where);
  autograd::defined_ones("clip_by_global_norm", gradients, where);
  return clipped("clip_by_global_norm", std::move(gradients), limit, options, where);
}

Tensor clip_by_norm(Tensor gradient, double limit, const ClipOptions& options, Where where) {
  core::described("clip_by_norm", gradient, where);
  std::vector<Tensor> list;
  list.push_back(std::move(gradient));
  return std::move(clip_by_norm(std::move(list), limit, options, where)[0]);
}

std::vector<Tensor> clip_by_norm(std::vector<Tensor> gradients, double limit, const ClipOptions& options, Where where) {
  constexpr const char* op = "clip_by_norm";
  check_options(op, limit, options, where);
  autograd::defined_ones(op, gradients, where);
  const autograd::Rollback rollback;
  for (Tensor& x : gradients) {
    if (!x.defined()) continue;
    std::vector<Tensor> one;
    one.push_back(std::move(x));
    x = std::move(clipped(op, std::move(one), limit, options, where).gradients[0]);
  }
  return gradients;
}

// --- clipping by value ---

namespace {

/// `clip`, in place where that may be.
Tensor limited(Tensor x, double low, double high, Where where) {
  TensorImpl& impl = *x.impl();
  if (!autograd::may_reuse(impl) || autograd::attended()) return clip(x, low, high, where);
  const autograd::Parameters limits = autograd::limits_of(impl.dtype, low, high, where);
  autograd::backend_of(impl, where).parametric(kernels::kParametricId<kernels::Clip>, limits.p, limits.q, impl, impl);
  return x;
}

}  // namespace

std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double low, double high, Where where) {
  constexpr const char* op = "clip_by_value";
  if (!(low <= high))
    base::fail<Error>(where, op, ": the limits are ", low, " and ", high, "; low must not exceed high.");
  autograd::defined_ones(op, gradients, where);
  const autograd::Rollback rollback;
  for (Tensor& x : gradients) {
    if (!x.defined()) continue;
    const bool by_rows = !autograd::is_followed(x) && low <= 0 && 0 <= high;  // zeros stay zeros
    if (const auto slices = by_rows ? find_row_slices(x, where) : std::nullopt) {
      RowSlices once = coalesce(*slices, where);
      once.values = clip(once.values, low, high, where);
      x = core::make_sliced(std::move(once), x.impl()->shape, where);
    } else {
      x = limited(std::move(x), low, high, where);
    }
  }
  return gradients;
}

std::vector<Tensor> clip_by_value(std::vector<Tensor> gradients, double limit, Where where) {
  if (!(limit >= 0)) base::fail<Error>(where, "clip_by_value: the limit is ", limit, "; it must be >= 0.");
  return clip_by_value(std::move(gradients), -limit, limit, where);
}

}  // namespace capstan::optim
