#include "autograd/contract.hpp"

#include <capstan/ops/linalg.hpp>

namespace capstan {
namespace autograd {
namespace {

bool has(IndexSet set, int label) { return (set >> label & 1u) != 0; }

/// x without the axes of size 1 that broadcast against larger ones of `other`.
Labeled without_ones(const Labeled& x, const Labeled& other, Where where) {
  Labeled result = x;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const int theirs = other.axis_of(x.labels[axis]);
    if (theirs < 0 || x.size(axis) != 1 || other.size(theirs) == 1) continue;
    result.tensor = squeeze(result.tensor, axis, where);
    for (int i = axis; i < result.rank(); ++i) result.labels[i] = result.labels[i + 1];
  }
  return result;
}

/// Axes that become one: their indices, and the product of their sizes.
struct Group {
  int labels[kMaxRank] = {};
  int count = 0;
  std::int64_t size = 1;

  /// Those of x's indices that are in `chosen`.
  Group(const Labeled& x, IndexSet chosen) {
    for (int axis = 0; axis < x.rank(); ++axis)
      if (has(chosen, x.labels[axis])) {
        labels[count++] = x.labels[axis];
        size *= x.size(axis);
      }
  }
};

/// x with one axis for each group.
Tensor grouped(const Labeled& x, std::initializer_list<const Group*> groups, Where where) {
  int order[kMaxRank], rank = 0;
  std::int64_t sizes[kMaxRank];
  std::size_t count = 0;
  bool moved = false;
  for (const Group* group : groups) {
    sizes[count++] = group->size;
    for (int i = 0; i < group->count; ++i) {
      order[rank] = x.axis_of(group->labels[i]);
      moved = moved || order[rank] != rank;
      ++rank;
    }
  }
  const Tensor turned_axes =
      moved ? permute(x.tensor, std::span<const int>(order, static_cast<std::size_t>(rank)), where) : x.tensor;
  const Shape shape(std::span<const std::int64_t>(sizes, count), where);
  return turned_axes.shape() == shape ? turned_axes : reshape(turned_axes, shape, where);
}

}  // namespace

Labeled sum_over(const Labeled& x, IndexSet gone, Where where) {
  int axes[kMaxRank], kept = 0;
  std::size_t count = 0;
  Labeled result;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (has(gone, x.labels[axis])) axes[count++] = axis;
    else result.labels[kept++] = x.labels[axis];
  }
  if (count == 0) return x;
  result.tensor = sum(x.tensor, Axes(std::span<const int>(axes, count), where), {}, where);
  return result;
}

Labeled contract(const char* op, const Labeled& x, const Labeled& y, IndexSet wanted, Where where) {
  Labeled a = without_ones(x, y, where), b = without_ones(y, x, where);
  // what only one has and nobody wants goes first, which makes the product smaller
  a = sum_over(a, a.set() & ~b.set() & ~wanted, where);
  b = sum_over(b, b.set() & ~a.set() & ~wanted, where);
  const IndexSet shared = a.set() & b.set();
  const Group batch(a, shared & wanted), inner(a, shared & ~wanted), left(a, ~shared), right(b, ~shared);
  const int rank = batch.count + left.count + right.count;
  if (rank > kMaxRank)
    base::fail<ShapeError>(where, op, ": a product of ", x.tensor.shape(), " and ", y.tensor.shape(), " would have ",
                           rank, " axes; a tensor has at most ", kMaxRank, ".");

  Labeled result;
  std::int64_t sizes[kMaxRank];
  int at = 0;
  for (const Group* group : {&batch, &left, &right})
    for (int i = 0; i < group->count; ++i) {
      const int label = group->labels[i], axis = a.axis_of(label);
      result.labels[at] = label;
      sizes[at++] = axis >= 0 ? a.size(axis) : b.size(b.axis_of(label));
    }
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);

  Tensor product;
  if (inner.count == 0)  // [batch, left, 1] * [batch, 1, right]
    product = mul(expand_dims(grouped(a, {&batch, &left}, where), 2, where),
                  expand_dims(grouped(b, {&batch, &right}, where), 1, where), where);
  else if (batch.count == 0)
    product = matmul(grouped(a, {&left, &inner}, where), grouped(b, {&inner, &right}, where), where);
  else product = matmul(grouped(a, {&batch, &left, &inner}, where), grouped(b, {&batch, &inner, &right}, where), where);
  result.tensor = reshape(product, shape, where);
  return result;
}

}  // namespace autograd

namespace {

using autograd::Labeled;

void check_operands(const char* op, const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl &x = core::defined(op, a, where), &y = core::defined(op, b, where);
  autograd::require_floating(op, x, where);
  autograd::require_floating(op, y, where);
  core::require_same_device(op, x, y, where);
}

/// axes_a[i] of a and axes_b[i] of b are one index; both from the front.
Tensor sum_pairs(const char* op, const Tensor& a, const Tensor& b, std::span<const int> axes_a,
                 std::span<const int> axes_b, Where where) {
  if (autograd::lowers(a, b)) [[unlikely]]
    return autograd::lowered(&sum_pairs, where, op, a, b, axes_a, axes_b);
  const autograd::Rollback rollback;
  Labeled x{a, {}}, y{b, {}};
  autograd::IndexSet wanted = ~autograd::IndexSet{0};
  for (int axis = 0; axis < a.rank(); ++axis) x.labels[axis] = axis;
  for (int axis = 0; axis < b.rank(); ++axis) y.labels[axis] = kMaxRank + axis;
  for (std::size_t i = 0; i < axes_a.size(); ++i) {
    const std::int64_t size = a.shape()[axes_a[i]], other = b.shape()[axes_b[i]];
    if (size != other)
      base::fail<ShapeError>(where, op, ": sizes differ: a is ", a.shape(), " and b is ", b.shape(), "; a.size(",
                             axes_a[i], ") = ", size, " must equal b.size(", axes_b[i], ") = ", other, ".");
    y.labels[axes_b[i]] = axes_a[i];
    wanted &= ~autograd::set_of(axes_a[i]);
  }
  return autograd::contract(op, x, y, wanted, where).tensor;
}

/// Axes from the front, none twice.
std::vector<int> checked_axes(const Tensor& x, std::span<const int> axes, Where where) {
  std::vector<int> list;
  for (const int axis : axes) {
    const int at = core::normalize_axis("tensordot", axis, x.rank(), where);
    for (const int before : list)
      if (before == at)
        base::fail<ShapeError>(where, "tensordot: axis ", axis, " is named twice for shape ", x.shape(),
                               "; name each once.");
    list.push_back(at);
  }
  return list;
}

}  // namespace

Tensor tensordot(const Tensor& a, const Tensor& b, std::span<const int> axes_a, std::span<const int> axes_b,
                 Where where) {
  check_operands("tensordot", a, b, where);
  if (axes_a.size() != axes_b.size())
    base::fail<ShapeError>(where, "tensordot: ", axes_a.size(), " axes of a and ", axes_b.size(),
                           " of b were given; they go in pairs.");
  return sum_pairs("tensordot", a, b, checked_axes(a, axes_a, where), checked_axes(b, axes_b, where), where);
}
Tensor tensordot(const Tensor& a, const Tensor& b, std::initializer_list<int> axes_a, std::initializer_list<int> axes_b,
                 Where where) {
  return tensordot(a, b, std::span<const int>(axes_a.begin(), axes_a.size()),
                   std::span<const int>(axes_b.begin(), axes_b.size()), where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int axes, Where where) {
  check_operands("tensordot", a, b, where);
  if (axes < 0 || axes > a.rank() || axes > b.rank())
    base::fail<ShapeError>(where, "tensordot: ", axes, " axes were asked for: a is ", a.shape(), " and b is ",
                           b.shape(), "; the count must be >= 0 and at most either rank.");
  int last[kMaxRank] = {}, first[kMaxRank] = {};
  for (int i = 0; i < axes; ++i) {
    last[i] = a.rank() - axes + i;
    first[i] = i;
  }
  const auto count = static_cast<std::size_t>(axes);
  return sum_pairs("tensordot", a, b, std::span<const int>(last, count), std::span<const int>(first, count), where);
}

Tensor dot(const Tensor& a, const Tensor& b, Where where) {
  check_operands("dot", a, b, where);
  if (a.rank() == 0 || b.rank() == 0) return mul(a, b, where);
  const int last[] = {a.rank() - 1}, other[] = {b.rank() == 1 ? 0 : b.rank() - 2};
  return sum_pairs("dot", a, b, last, other, where);
}

}  // namespace capstan
