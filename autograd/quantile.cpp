// Medians and quantiles: a sort and what stands at a few positions of it, all in public operations.
#include <algorithm>
#include <cmath>

#include <capstan/create.hpp>
#include <capstan/ops/order.hpp>

#include "autograd/reducing.hpp"

namespace capstan {
namespace {

/// The reduced axes last and made one: [kept..., count].
Tensor rows_of(const Tensor& x, const autograd::Plan& plan, Where where) {
  int order[kMaxRank];
  std::size_t placed = 0;
  for (const unsigned reduced : {0u, 1u})
    for (int axis = 0; axis < x.rank(); ++axis)
      if ((plan.mask >> axis & 1u) == reduced) order[placed++] = axis;
  std::int64_t sizes[kMaxRank + 1];
  std::copy(plan.kept.begin(), plan.kept.end(), sizes);
  sizes[plan.kept.rank()] = plan.count;
  const Shape rows(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(plan.kept.rank()) + 1), where);
  return reshape(permute(x, std::span<const int>(order, placed), where), rows, where);
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
  Tensor value;
  if (method == QuantileMethod::midpoint) {
    // half of the sum, which rounds once; where that is infinite, the sum of the halves
    const Tensor sum = add(lower, upper, where), halves = add(mul(lower, 0.5, where), mul(upper, 0.5, where), where);
    value = capstan::where(isfinite(sum, where), mul(sum, 0.5, where), halves, where);
  } else {
    // by their difference, which leaves equal ones as they are; where that is infinite, each for its share
    const Tensor difference = sub(upper, lower, where), rest = add(neg(shares, where), 1, where);
    const Tensor apart = add(mul(lower, rest, where), mul(upper, shares, where), where);
    value =
        capstan::where(isfinite(difference, where), add(lower, mul(difference, shares, where), where), apart, where);
  }
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
  const autograd::Plan plan(op, *x.impl(), axes, {.keepdims = options.keepdims}, where);
  autograd::refuse_empty(op, *x.impl(), plan, where);
  const Tensor sorted = sort(rows_of(x, plan, where), -1, {}, where);
  const Neighbours neighbours = neighbours_of(quantiles, plan.count, options.method);
  Tensor value = between_neighbours(sorted, neighbours, options.method, where);
  const Tensor last = narrow(sorted, -1, plan.count - 1, 1, where);  // NaN if there is one
  value = capstan::where(not_equal(last, last, where), last, value, where);
  if (!listed) return reshape(value, plan.result, where);

  int order[kMaxRank];
  for (int i = 0; i < value.rank(); ++i) order[i] = i == 0 ? value.rank() - 1 : i - 1;
  std::int64_t sizes[kMaxRank + 1] = {static_cast<std::int64_t>(quantiles.size())};
  std::size_t rank = 1;
  for (const std::int64_t size : plan.result) sizes[rank++] = size;
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
