// Local response normalization, and vectors divided by their norm.
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/normalization.hpp>
#include <capstan/ops/rearranging.hpp>

#include "autograd/normalizing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::computing_type;
using autograd::dense;
using autograd::Replay;
using core::ResponseNorm;

namespace {

constexpr const char* kResponseNorm = "local_response_norm";

/// Sums of `size` channels each: from c - before on, where channels that are not there are zeros.
Tensor sum_around(const Tensor& x, std::int64_t size, std::int64_t before, Where where) {
  const std::int64_t channels = x.shape()[1], after = size - 1 - before;
  const std::int64_t first = before < channels ? -before : 1 - channels, last = after < channels ? after : channels - 1;
  Tensor total;
  for (std::int64_t step = first; step <= last; ++step) {
    const std::int64_t kept = channels - (step < 0 ? -step : step);
    Padding padding[kMaxRank] = {};
    padding[1] = step < 0 ? Padding{-step, 0} : Padding{0, step};
    const Tensor part =
        pad(narrow(x, 1, step < 0 ? 0 : step, kept, where),
            std::span<const Padding>(padding, static_cast<std::size_t>(x.rank())), PadMode::constant, 0, where);
    total = total.defined() ? add(total, part, where) : part;
  }
  return total;
}

void response_norm_replay(Replay& r) {
  const Where where = r.where();
  const auto norm = r.attributes<ResponseNorm>();
  if (autograd::listening() && r.saved(0).numel() > 0) {
    const DType type = computing_type(r.saved(0).dtype());
    const Tensor x = r.saved(0).to(type, where), grad = r.grad().to(type, where);
    const double share = norm.alpha / static_cast<double>(norm.size);
    const Tensor squares = sum_around(square(x, where), norm.size, norm.size / 2, where);
    const Tensor scale = add(mul(squares, share, where), norm.k, where), power = pow(scale, -norm.beta, where);
    const Tensor ratio = div(mul(mul(grad, x, where), power, where), scale, where);
    const Tensor sums = sum_around(ratio, norm.size, (norm.size - 1) / 2, where);
    const Tensor dx = sub(mul(grad, power, where), mul(mul(x, sums, where), 2 * share * norm.beta, where), where);
    r.give(0, dx.to(r.saved(0).dtype(), where));
    return;
  }
  const Tensor x = dense(r.saved(0), where), grad = dense(r.grad(), where);
  Tensor out = autograd::result_like(*x.impl(), where);
  backend_of(*x.impl(), where).response_norm_backward(norm, *grad.impl(), *x.impl(), *out.impl());
  r.give(0, std::move(out));
}

}  // namespace

Tensor local_response_norm(const Tensor& x, std::int64_t size, const ResponseNormOptions& options, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&local_response_norm, where, x, size, options);
  const TensorImpl& impl = core::defined(kResponseNorm, x, where);
  autograd::require_floating(kResponseNorm, impl, where);
  autograd::channels_of(kResponseNorm, impl, 3, where);
  if (size < 1) base::fail<ShapeError>(where, kResponseNorm, ": the size is ", size, "; it must be 1 or more.");
  const ResponseNorm norm{size, options.alpha, options.beta, options.k};
  const Tensor in = dense(x, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).response_norm(norm, *in.impl(), *out.impl());
  autograd::record(kResponseNorm, where, &response_norm_replay, {&x}, {&out}, {&x}, norm);
  return out;
}

Tensor normalize(const Tensor& x, double order, Axes axes, double epsilon, Where where) {
  if (autograd::raises(x)) [[unlikely]]
    return autograd::raised(&normalize, where, x, order, axes, epsilon);
  const TensorImpl& impl = core::defined("normalize", x, where);
  autograd::require_floating("normalize", impl, where);
  autograd::check_epsilon("normalize", epsilon, where);
  const autograd::Rollback rollback;
  const Tensor wide = x.to(computing_type(impl.dtype), where);
  const Tensor norm = vector_norm(wide, order, axes, {.keepdims = true}, where);
  return div(wide, maximum(norm, epsilon, where), where).to(impl.dtype, where);
}

}  // namespace capstan
