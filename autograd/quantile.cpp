// Medians and quantiles: a sort and what stands at a few positions of it, all in public operations.
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/ops/order.hpp>

#include "autograd/ops.hpp"

namespace capstan {
namespace {

/// The reduced axes last and made one: [kept..., count].
struct Flattened {
  Tensor rows;
  Shape result;  // without them, or with size 1 for each if they are kept
  std::int64_t count = 1;
};

unsigned mask_of(const char* op, const TensorImpl& x, const Axes& axes, Where where) {
  if (axes.every()) return (1u << x.rank()) - 1;
  unsigned mask = 0;
  for (const int axis : axes.list()) {
    const unsigned bit = 1u << core::normalize_axis(op, axis, x.rank(), where);
    if (mask & bit)
      base::fail<ShapeError>(where, op, ": axis ", axis, " is named twice for shape ", x.shape, "; name each once.");
    mask |= bit;
  }
  return mask;
}

Flattened flattened(const char* op, const Tensor& x, const Axes& axes, bool keepdims, Where where) {
  const TensorImpl& impl = *x.impl();
  const unsigned mask = mask_of(op, impl, axes, where);
  Flattened flat;
  int order[kMaxRank];
  std::int64_t row_sizes[kMaxRank + 1], result_sizes[kMaxRank];
  std::size_t placed = 0, kept = 0, results = 0;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    const bool reduced = (mask >> axis & 1u) != 0;
    if (reduced) flat.count *= impl.shape[axis];
    else order[placed++] = axis, row_sizes[kept++] = impl.shape[axis];
    if (!reduced || keepdims) result_sizes[results++] = reduced ? 1 : impl.shape[axis];
  }
  if (flat.count == 0)
    base::fail<ShapeError>(where, op, ": shape ", impl.shape,
                           " has no elements to reduce; each reduced axis must have size 1 or more.");
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (mask >> axis & 1u) order[placed++] = axis;
  row_sizes[kept++] = flat.count;
  const Shape rows(std::span<const std::int64_t>(row_sizes, kept), where);
  flat.result = Shape(std::span<const std::int64_t>(result_sizes, results), where);
  flat.rows = reshape(permute(x, std::span<const int>(order, placed), where), rows, where);
  return flat;
}

/// The two neighbours of each quantile, and how far it stands from the lower one: 0 .. 1.
struct Neighbours {
  std::vector<std::int64_t> lower, upper;
  std::vector<double> shares;
  bool between = false;  // whether any share is above 0
};

Neighbours neighbours_of(std::span<const double> quantiles, std::int64_t count, QuantileMethod method) {
  Neighbours n;
  for (const double q : quantiles) {
    double position = q * static_cast<double>(count - 1);
    if (method == QuantileMethod::lower) position = std::floor(position);
    if (method == QuantileMethod::higher) position = std::ceil(position);
    if (method == QuantileMethod::nearest) position = std::nearbyint(position);
    const double below = std::floor(position);
    double share = position - below;
    if (method == QuantileMethod::midpoint && share > 0) share = 0.5;
    n.lower.push_back(static_cast<std::int64_t>(below));
    n.upper.push_back(static_cast<std::int64_t>(std::ceil(position)));
    n.shares.push_back(share);
    n.between = n.between || share > 0;
  }
  return n;
}

/// Positions of the last axis, side by side: [kept..., positions].
Tensor at_positions(const Tensor& sorted, std::span<const std::int64_t> positions, Where where) {
  if (positions.empty()) return narrow(sorted, -1, 0, 0, where);
  std::vector<Tensor> parts;
  parts.reserve(positions.size());
  for (const std::int64_t position : positions) parts.push_back(narrow(sorted, -1, position, 1, where));
  return parts.size() == 1 ? parts[0] : concat(parts, -1, where);
}

/// [kept..., quantiles]
Tensor between_neighbours(const Tensor& sorted, const Neighbours& n, QuantileMethod method, Where where) {
  const Tensor lower = at_positions(sorted, n.lower, where);
  if (!n.between) return lower;
  const Tensor upper = at_positions(sorted, n.upper, where);
  const Tensor shares = from_vector(n.shares, where).to(sorted.dtype(), where).to(sorted.device(), where);
  const Tensor value = method == QuantileMethod::midpoint
                           ? add(mul(lower, 0.5, where), mul(upper, 0.5, where), where)
                           : add(lower, mul(sub(upper, lower, where), shares, where), where);
  // at a position that is whole the difference is no matter, and may be one of two infinities
  return n.shares.size() == 1 ? value : capstan::where(greater(shares, 0, where), value, lower, where);
}

/// `listed`: the quantiles are an axis of the result, the first.
Tensor quantiles_of(const char* op, const Tensor& x, std::span<const double> quantiles, bool listed, const Axes& axes,
                    QuantileOptions options, Where where) {
  autograd::require_floating(op, core::defined(op, x, where), where);
  for (const double q : quantiles)
    if (!(q >= 0 && q <= 1)) base::fail<Error>(where, op, ": q is ", q, "; it must be in [0, 1].");
  const autograd::Rollback rollback;
  const Flattened flat = flattened(op, x, axes, options.keepdims, where);
  const Tensor sorted = sort(flat.rows, -1, {}, where);
  const Neighbours neighbours = neighbours_of(quantiles, flat.count, options.method);
  Tensor value = between_neighbours(sorted, neighbours, options.method, where);
  const Tensor last = narrow(sorted, -1, flat.count - 1, 1, where);  // NaN if there is one
  value = capstan::where(not_equal(last, last, where), last, value, where);
  if (!listed) return reshape(value, flat.result, where);

  int order[kMaxRank];
  for (int i = 0; i < value.rank(); ++i) order[i] = i == 0 ? value.rank() - 1 : i - 1;
  std::int64_t sizes[kMaxRank + 1] = {static_cast<std::int64_t>(quantiles.size())};
  std::size_t rank = 1;
  for (const std::int64_t size : flat.result) sizes[rank++] = size;
  return reshape(permute(value, std::span<const int>(order, static_cast<std::size_t>(value.rank())), where),
                 Shape(std::span<const std::int64_t>(sizes, rank), where), where);
}

}  // namespace

Tensor median(const Tensor& x, Axes axes, ReduceOptions options, Where where) {
  const double half[] = {0.5};
  return quantiles_of("median", x, half, false, axes,
                      {.method = QuantileMethod::midpoint, .keepdims = options.keepdims}, where);
}

Tensor quantile(const Tensor& x, double q, Axes axes, QuantileOptions options, Where where) {
  const double one[] = {q};
  return quantiles_of("quantile", x, one, false, axes, options, where);
}

Tensor quantile(const Tensor& x, const Tensor& q, Axes axes, QuantileOptions options, Where where) {
  core::defined("quantile", x, where);
  const TensorImpl& impl = core::defined("quantile", q, where);
  if (!is_floating(impl.dtype))
    base::fail<DTypeError>(where, "quantile: q is ", impl.dtype, "; it must be a floating type.");
  if (impl.rank() > 1) base::fail<ShapeError>(where, "quantile: q is ", impl.shape, "; it must have at most one axis.");
  std::vector<double> list;
  {
    const NoGrad off;
    list = q.to(DType::float64, where).to(cpu(), where).to_vector<double>(where);
  }
  return quantiles_of("quantile", x, list, impl.rank() == 1, axes, options, where);
}

}  // namespace capstan
