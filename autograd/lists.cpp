#include "autograd/lists.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <capstan/ops/lists.hpp>
#include <capstan/sparse.hpp>

#include "autograd/overlap.hpp"

namespace capstan {
namespace autograd {

std::vector<const Tensor*> defined_ones(const char* op, std::span<const Tensor> list, Where where) {
  std::vector<const Tensor*> found;
  found.reserve(list.size());
  for (const Tensor& x : list) {
    if (!x.defined()) continue;
    require_floating(op, *x.impl(), where);
    if (!found.empty()) core::require_same_device(op, *found[0]->impl(), *x.impl(), where);
    found.push_back(&x);
  }
  return found;
}

Tensor factor_of(double number, const TensorImpl& x, Where where) {
  return core::scalar_tensor("scale_each", number, DType::float64, x.device(), where);
}

Tensor values_once(const Tensor& x, Where where) {
  std::optional<RowSlices> slices = find_row_slices(x, where);
  if (!slices.has_value()) return dense(x, where);
  if (x.impl()->device().kind == DeviceKind::cpu) return coalesce(*slices, where).values;
  const Tensor whole = core::make_sliced(*std::move(slices), x.impl()->shape, where);
  core::fill_in(*whole.impl(), where);
  return whole;
}

Tensor times(Tensor x, const Tensor& factor, const Tensor& bad, Where where) {
  const core::Backend& backend = backend_of(*x.impl(), where);
  if (std::optional<RowSlices> slices = find_row_slices(x, where)) {
    const Tensor values = std::exchange(slices->values, result_like(*slices->values.impl(), where));
    backend.scale(*values.impl(), *factor.impl(), *slices->values.impl(), bad.impl());
    return core::make_sliced(*std::move(slices), x.impl()->shape, where);
  }
  if (may_reuse(*x.impl())) {
    backend.scale(*x.impl(), *factor.impl(), *x.impl(), bad.impl());
    return x;
  }
  const Tensor from = dense(x, where);
  Tensor result = result_like(*from.impl(), where);
  backend.scale(*from.impl(), *factor.impl(), *result.impl(), bad.impl());
  return result;
}

namespace {

void check_pair(const char* op, std::size_t i, const Tensor& total, const Tensor& value, Where where) {
  const TensorImpl &a = core::described(op, total, where), &b = core::described(op, value, where);
  if (a.shape != b.shape)
    base::fail<ShapeError>(where, op, ": tensor ", i, " is ", a.shape, " in the first list and ", b.shape,
                           " in the second; the shapes must be equal.");
  if (a.dtype != b.dtype)
    base::fail<DTypeError>(where, op, ": tensor ", i, " is ", a.dtype, " in the first list and ", b.dtype,
                           " in the second; the types must be equal.");
  core::require_same_device(op, a, b, where);
}

void check_lengths(const char* op, std::size_t first, std::size_t second, Where where) {
  if (first != second)
    base::fail<ShapeError>(where, op, ": the first list has ", first, " tensors and the second ", second,
                           "; they must be as long as each other.");
}

/// One that is written in place.
void check_written(const char* op, std::size_t i, const Tensor& x, Where where) {
  if (!core::defined(op, x, where).contiguous)
    base::fail<ShapeError>(where, op, ": tensor ", i, " of shape ", x.shape(), " is not contiguous; it must be.");
  check_in_place(op, x, nullptr, where);
}

/// What becomes of one total: `target`, to which `whole` and `rows` are still to be added.
struct Sum {
  Tensor target, whole;
  RowSlices rows;
};

/// A tensor with x's elements that may be written to: x itself, if nobody else holds it.
Tensor own(const Tensor& x, bool sole, Where where) {
  if (sole) return x;
  if (std::optional<RowSlices> slices = find_row_slices(x, where))
    return core::make_sliced(*std::move(slices), x.impl()->shape, where);
  Tensor copy = result_like(*x.impl(), where);
  backend_of(*x.impl(), where).copy(*x.impl(), *copy.impl());
  return copy;
}

/// The slices of both, or the sum of both if those would be no fewer than the tensor has rows.
Tensor joined_slices(const RowSlices& a, const RowSlices& b, const Shape& shape, Where where) {
  RowSlices both = {concat({a.indices, b.indices}, 0, where), concat({a.values, b.values}, 0, where)};
  const bool many = both.indices.numel() >= shape[0];
  Tensor result = core::make_sliced(std::move(both), shape, where);
  if (many) core::fill_in(*result.impl(), where);
  return result;
}

/// Everything that can fail.
Sum prepare(const Tensor& total, const Tensor& value, Where where) {
  if (!value.defined()) return {total, {}, {}};
  const bool slices = has_row_slices(value) && (!total.defined() || has_row_slices(total));
  if (is_followed(value) || (total.defined() && is_followed(total)) || (attended() && !slices))
    return {total.defined() ? add(total, value, where) : value.copy(where), {}, {}};
  const auto sole = [](const Tensor& x) { return !has_row_slices(x) && may_reuse(*x.impl()); };
  if (!total.defined()) return {own(value, sole(value), where), {}, {}};
  std::optional<RowSlices> of_total = find_row_slices(total, where), of_value = find_row_slices(value, where);
  if (of_total && of_value) return {joined_slices(*of_total, *of_value, total.impl()->shape, where), {}, {}};
  if (of_total) return {own(value, sole(value), where), {}, *std::move(of_total)};
  if (of_value) return {own(total, sole(total), where), {}, *std::move(of_value)};
  return {own(total, sole(total), where), dense(value, where), {}};
}

void scale_replay(Replay& r) {
  const auto factor = r.attributes<double>();
  const Tensor grad = r.grad();
  Tensor out = times(grad, factor_of(factor, *grad.impl(), r.where()), {}, r.where());
  if (listening()) record("scale_each", r.where(), &scale_replay, {&grad}, {&out}, {}, factor);
  r.give(0, std::move(out));
}

}  // namespace
}  // namespace autograd

ScaledResult scale_each(std::vector<Tensor> tensors, double factor, Where where) {
  constexpr const char* op = "scale_each";
  const std::vector<const Tensor*> given = autograd::defined_ones(op, tensors, where);
  if (std::isnan(factor)) base::fail<Error>(where, op, ": the factor is nan; it must be a number.");
  if (given.empty()) return {std::move(tensors), true};
  const autograd::Rollback rollback;
  const TensorImpl& first = *given[0]->impl();
  const Tensor bad = core::scalar_tensor(op, false, DType::bool8, first.device(), where);
  const Tensor by = autograd::factor_of(factor, first, where);
  ScaledResult result{std::move(tensors), true};
  for (Tensor& x : result.tensors) {
    if (!x.defined()) continue;
    if (!autograd::attended()) {
      x = autograd::times(std::move(x), by, bad, where);
      continue;
    }
    Tensor out = autograd::times(x, by, bad, where);
    autograd::record(op, where, &autograd::scale_replay, {&x}, {&out}, {}, factor);
    x = std::move(out);
  }
  result.finite = !bad.item<bool>(where);  // the one value that is read, however many tensors there are
  return result;
}

void add_each(std::vector<Tensor>& totals, std::vector<Tensor> values, Where where) {
  constexpr const char* op = "add_each";
  autograd::check_lengths(op, totals.size(), values.size(), where);
  autograd::defined_ones(op, totals, where);
  autograd::defined_ones(op, values, where);
  for (std::size_t i = 0; i < totals.size(); ++i)
    if (totals[i].defined() && values[i].defined()) autograd::check_pair(op, i, totals[i], values[i], where);
  const autograd::Rollback rollback;
  std::vector<autograd::Sum> sums;
  sums.reserve(totals.size());
  for (std::size_t i = 0; i < totals.size(); ++i) sums.push_back(autograd::prepare(totals[i], values[i], where));
  for (std::size_t i = 0; i < totals.size(); ++i) {
    autograd::Sum& sum = sums[i];
    if (sum.whole.defined())
      autograd::backend_of(*sum.target.impl(), where).accumulate(*sum.target.impl(), *sum.whole.impl());
    if (sum.rows.indices.defined())
      autograd::backend_of(*sum.target.impl(), where)
          .gather_backward(*sum.rows.values.impl(), *sum.rows.indices.impl(), *sum.target.impl());
    totals[i] = std::move(sum.target);
  }
}

void blend_each(std::span<const Tensor> averages, std::span<const Tensor> values, double weight, Where where) {
  constexpr const char* op = "blend_each";
  if (std::isnan(weight)) base::fail<Error>(where, op, ": the weight is nan; it must be a number.");
  autograd::check_lengths(op, averages.size(), values.size(), where);
  std::vector<const TensorImpl*> targets;
  targets.reserve(averages.size());
  for (std::size_t i = 0; i < averages.size(); ++i) {
    autograd::check_pair(op, i, averages[i], values[i], where);
    autograd::check_written(op, i, averages[i], where);
    core::defined(op, values[i], where);
    targets.push_back(averages[i].impl());
  }
  const autograd::Written written(std::move(targets));
  std::vector<Tensor> packed;
  packed.reserve(values.size());
  for (const Tensor& value : values)
    packed.push_back(written.changes(*value.impl()) ? autograd::own(value, false, where)
                                                    : autograd::dense(value, where));
  for (std::size_t i = 0; i < averages.size(); ++i) {
    TensorImpl& average = *averages[i].impl();
    const core::Backend& backend = autograd::backend_of(average, where);
    if (is_floating(average.dtype) && weight != 1) backend.blend(*packed[i].impl(), weight, average);
    else backend.copy(*packed[i].impl(), average);
    core::note_write(average, where);
    autograd::note(op, where, {&values[i]}, {&averages[i]});
  }
}

void exchange_each(std::span<const Tensor> a, std::span<const Tensor> b, Where where) {
  constexpr const char* op = "exchange_each";
  autograd::check_lengths(op, a.size(), b.size(), where);
  for (std::size_t i = 0; i < a.size(); ++i) {
    autograd::check_pair(op, i, a[i], b[i], where);
    autograd::check_written(op, i, a[i], where);
    autograd::check_written(op, i, b[i], where);
    if (autograd::may_overlap(*a[i].impl(), *b[i].impl()))
      base::fail<Error>(where, op, ": tensor ", i, " shares its elements in both lists; they must be apart.");
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    autograd::backend_of(*a[i].impl(), where).exchange(*a[i].impl(), *b[i].impl());
    core::note_write(*a[i].impl(), where);
    core::note_write(*b[i].impl(), where);
  }
  for (std::size_t i = 0; i < a.size(); ++i) autograd::note(op, where, {&a[i], &b[i]}, {&a[i], &b[i]});
}

}  // namespace capstan
