// Distinct elements, searching, and counting: what has no gradient.
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/ops/order.hpp>

#include "autograd/reducing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::converted;
using autograd::dense;
using autograd::note;
using autograd::result_like;

namespace {

/// All elements as [n]; no tape sees it.
Tensor flat(const Tensor& x, Where where) {
  const Tensor whole = dense(x, where);
  const std::int64_t sizes[] = {whole.impl()->numel()}, strides[] = {1};
  return core::make_view(*whole.impl(), Shape(sizes, where), strides, 0, where);
}

Shape list_of(std::int64_t size, Where where) { return Shape({size}, where); }

/// The weights as float64 [n], or an undefined tensor.
Tensor weights_for(const char* op, const TensorImpl& x, const Tensor& weights, Where where) {
  if (!weights.defined()) return {};
  const TensorImpl& impl = core::defined(op, weights, where);
  if (!is_floating(impl.dtype))
    base::fail<DTypeError>(where, op, ": the weights are ", impl.dtype, "; they must be of a floating type.");
  if (!(impl.shape == x.shape))
    base::fail<ShapeError>(where, op, ": the weights are ", impl.shape, " and the tensor ", x.shape,
                           "; the shapes must be equal.");
  core::require_same_device(op, x, impl, where);
  return flat(converted(weights, DType::float64, where), where);
}

}  // namespace

// --- distinct elements ---

Tensor unique(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("unique", x, where);
  const Tensor elements = flat(x, where);
  const core::Backend& backend = backend_of(impl, where);
  const Tensor sorted = result_like(*elements.impl(), where);
  backend.sort(*elements.impl(), 0, false, sorted.impl(), nullptr);
  const Shape shape = list_of(backend.count_distinct(*sorted.impl()), where);
  Tensor values = result_like(impl, shape, impl.dtype, where);
  backend.distinct(*sorted.impl(), nullptr, *values.impl(), nullptr, nullptr, nullptr);
  note("unique", where, {&x}, {&values});
  return values;
}

UniqueResult unique_all(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("unique_all", x, where);
  const Tensor elements = flat(x, where);
  const core::Backend& backend = backend_of(impl, where);
  const Tensor sorted = result_like(*elements.impl(), where);
  const Tensor order = result_like(impl, elements.impl()->shape, DType::int64, where);
  backend.sort(*elements.impl(), 0, false, sorted.impl(), order.impl());
  const Shape shape = list_of(backend.count_distinct(*sorted.impl()), where);
  const UniqueResult result{result_like(impl, shape, impl.dtype, where), result_like(impl, shape, DType::int64, where),
                            result_like(impl, impl.shape, DType::int64, where),
                            result_like(impl, shape, DType::int64, where)};
  backend.distinct(*sorted.impl(), order.impl(), *result.values.impl(), result.indices.impl(),
                   result.inverse_indices.impl(), result.counts.impl());
  note("unique_all", where, {&x}, {&result.values, &result.indices, &result.inverse_indices, &result.counts});
  return result;
}

// --- searching ---

namespace {

void check_search(const char* op, const TensorImpl& sorted, const TensorImpl& values, Where where) {
  core::require_same_device(op, sorted, values, where);
  if (sorted.rank() == 0)
    base::fail<ShapeError>(where, op, ": the sorted tensor is []; it must have at least one axis.");
  bool fits = sorted.rank() == 1 || sorted.rank() == values.rank();
  for (int axis = 0; fits && axis < sorted.rank() - 1; ++axis) fits = sorted.shape[axis] == values.shape[axis];
  if (!fits)
    base::fail<ShapeError>(where, op, ": the sorted tensor is ", sorted.shape, " and the values are ", values.shape,
                           "; it must have one axis, or all axes but the last must be equal.");
  const DType a = sorted.dtype, b = values.dtype;
  if (a != b && (is_floating(a) != is_floating(b) || a == DType::bool8 || b == DType::bool8))
    base::fail<DTypeError>(where, op, ": types do not mix: the sorted tensor is ", a, " and the values are ", b,
                           "; the Array API table has no common type for them. Convert one with x.to(dtype).");
}

Tensor search(const char* op, const Tensor& sorted, const Tensor& values, SearchOptions options, Where where) {
  const TensorImpl &table = core::defined(op, sorted, where), &impl = core::defined(op, values, where);
  check_search(op, table, impl, where);
  const DType common = promote(table.dtype, impl.dtype, where);
  const Tensor in = dense(converted(sorted, common, where), where), x = dense(converted(values, common, where), where);
  Tensor out = result_like(impl, impl.shape, DType::int64, where);
  backend_of(impl, where).searchsorted(*in.impl(), *x.impl(), options.right, *out.impl());
  note(op, where, {&sorted, &values}, {&out});
  return out;
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, SearchOptions options, Where where) {
  return search("searchsorted", sorted, values, options, where);
}

Tensor bucketize(const Tensor& x, const Tensor& boundaries, SearchOptions options, Where where) {
  if (const TensorImpl& impl = core::defined("bucketize", boundaries, where); impl.rank() != 1)
    base::fail<ShapeError>(where, "bucketize: the boundaries are ", impl.shape, "; they must have one axis.");
  return search("bucketize", boundaries, x, options, where);
}

// --- counting ---

namespace {

/// x as [n], of a floating type.
Tensor histogram_input(const Tensor& x, std::int64_t bins, Where where) {
  const TensorImpl& impl = core::defined("histogram", x, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, "histogram: the tensor is bool; it must be a number type, not bool.");
  if (bins < 1) base::fail<ShapeError>(where, "histogram: ", bins, " bins were asked for; there must be at least 1.");
  return flat(is_floating(impl.dtype) ? x : converted(x, DType::float64, where), where);
}

/// The edges of equal intervals between the limits: [bins + 1].
Tensor edges_between(double low, double high, std::int64_t bins, DType dtype, Where where) {
  const Tensor edges = linspace(low, high, bins + 1, {dtype, cpu()}, where);
  const Tensor exact = converted(edges, DType::float64, where);
  const double* at = exact.impl()->as<double>();
  for (std::int64_t i = 0; i < bins; ++i)
    if (!(at[i] < at[i + 1]))
      base::fail<Error>(where, "histogram: ", bins, " bins between ", low, " and ", high, " have no width in ", dtype,
                        "; take fewer, or wider limits.");
  return edges;
}

HistogramResult histogram_of(const Tensor& x, const Tensor& elements, std::int64_t bins, double low, double high,
                             const Tensor& weights, Where where) {
  const TensorImpl &impl = *x.impl(), &flat_impl = *elements.impl();
  const Tensor weight = weights_for("histogram", impl, weights, where);
  if (low == high) low -= 0.5, high += 0.5;
  const DType exact = weight.defined() ? DType::float64 : DType::int64;
  const Tensor counts = result_like(impl, list_of(bins, where), exact, where);  // refuses what no memory holds
  const Tensor edges = edges_between(low, high, bins, flat_impl.dtype, where).to(impl.device(), where);
  const Tensor limits = converted(edges, DType::float64, where);
  backend_of(impl, where).histogram(flat_impl, weight.impl(), *limits.impl(), *counts.impl());
  HistogramResult result{weight.defined() ? converted(counts, weights.dtype(), where) : counts, edges};
  if (weight.defined()) note("histogram", where, {&x, &weights}, {&result.counts, &result.edges});
  else note("histogram", where, {&x}, {&result.counts, &result.edges});
  return result;
}

}  // namespace

HistogramResult histogram(const Tensor& x, std::int64_t bins, double low, double high, const Tensor& weights,
                          Where where) {
  const Tensor elements = histogram_input(x, bins, where);
  if (!(low <= high) || !std::isfinite(high - low))
    base::fail<Error>(where, "histogram: the limits are ", low, " and ", high,
                      "; both and their difference must be finite, and low must not exceed high.");
  return histogram_of(x, elements, bins, low, high, weights, where);
}

HistogramResult histogram(const Tensor& x, std::int64_t bins, const Tensor& weights, Where where) {
  const Tensor elements = histogram_input(x, bins, where);
  double low = 0, high = 1;
  if (elements.impl()->numel() > 0) {
    low = autograd::extreme_of(kernels::Reduction::min, *elements.impl(), where);
    high = autograd::extreme_of(kernels::Reduction::max, *elements.impl(), where);
  }
  if (!std::isfinite(high - low))
    base::fail<Error>(where, "histogram: the elements reach from ", low, " to ", high,
                      "; both and their difference must be finite, or limits must be given.");
  return histogram_of(x, elements, bins, low, high, weights, where);
}

Tensor bincount(const Tensor& x, std::int64_t minlength, const Tensor& weights, Where where) {
  const TensorImpl& impl = core::defined("bincount", x, where);
  if (!is_integer(impl.dtype))
    base::fail<DTypeError>(where, "bincount: the tensor is ", impl.dtype, "; it must be an integer type.");
  if (minlength < 0) base::fail<ShapeError>(where, "bincount: minlength is ", minlength, "; it must be >= 0.");
  const Tensor weight = weights_for("bincount", impl, weights, where);
  const Tensor elements = flat(converted(x, DType::int64, where), where);
  const core::Backend& backend = backend_of(impl, where, "bincount");
  const core::BadIndex bad = backend.check_indices(*elements.impl(), 0, INT64_MAX);
  if (bad.position >= 0)
    base::fail<IndexError>(where, "bincount: element ", bad.position, " is ", bad.value,
                           "; it must be >= 0 and below 2^63 - 1.");
  std::int64_t length = minlength;
  if (elements.impl()->numel() > 0) {
    const Tensor largest = result_like(impl, Shape(), DType::int64, where);
    backend.reduce(kernels::Reduction::max, *elements.impl(), 1, *largest.impl());
    const std::int64_t needed = largest.item<std::int64_t>(where) + 1;
    length = needed > length ? needed : length;
  }
  const DType exact = weight.defined() ? DType::float64 : DType::int64;
  const Tensor counts = result_like(impl, list_of(length, where), exact, where);
  backend.bincount(*elements.impl(), weight.impl(), *counts.impl());
  Tensor out = weight.defined() ? converted(counts, weights.dtype(), where) : counts;
  if (weight.defined()) note("bincount", where, {&x, &weights}, {&out});
  else note("bincount", where, {&x}, {&out});
  return out;
}

}  // namespace capstan
