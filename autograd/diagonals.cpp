// Diagonals and triangles of matrices.
#include <algorithm>

#include <capstan/create.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;

namespace {

/// Which diagonal of which axes, and the shape that they belong to.
struct Diagonal {
  Shape base;
  std::int64_t offset;
  int axis0, axis1;  // from the front
};

/// An unrecorded view.
Tensor view_of(const Tensor& x, const Diagonal& at, Where where) {
  const TensorImpl& impl = *x.impl();
  const std::int64_t rows = at.base[at.axis0], columns = at.base[at.axis1];
  const std::int64_t down = at.offset < 0 ? -std::max(at.offset, -rows) : 0;
  const std::int64_t across = at.offset > 0 ? std::min(at.offset, columns) : 0;
  const std::int64_t count = std::min(rows - down, columns - across);
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (axis != at.axis0 && axis != at.axis1) sizes[rank] = impl.shape[axis], strides[rank++] = impl.strides[axis];
  sizes[rank] = count;
  strides[rank++] = impl.strides[at.axis0] + impl.strides[at.axis1];
  const std::int64_t first = count > 0 ? down * impl.strides[at.axis0] + across * impl.strides[at.axis1] : 0;
  return core::make_view(impl, Shape(std::span<const std::int64_t>(sizes, rank), where), strides, first, where);
}

void diagonal_replay(Replay& r) {
  const auto at = r.attributes<Diagonal>();
  r.give(0, autograd::embed_diagonal(r.grad(), at.base, at.offset, at.axis0, at.axis1, r.where()));
}

void embed_replay(Replay& r) {
  const auto at = r.attributes<Diagonal>();
  r.give(0, diagonal(r.grad(), at.offset, at.axis0, at.axis1, r.where()));
}

Tensor triangle(const char* op, bool upper, const Tensor& x, std::int64_t offset, autograd::ReplayFunction replay,
                Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_matrices(op, impl, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).triangle(upper, offset, impl, *out.impl());
  record(op, where, replay, {&x}, {&out}, {}, offset);
  return out;
}

}  // namespace

Tensor autograd::embed_diagonal(const Tensor& values, const Shape& shape, std::int64_t offset, int axis0, int axis1,
                                Where where) {
  const TensorImpl& impl = *values.impl();
  Tensor out = zeros(shape, {impl.dtype, impl.device()}, where);
  const Diagonal at{shape, offset, axis0, axis1};
  const Tensor place = view_of(out, at, where);
  backend_of(impl, where).copy(impl, *place.impl());
  record("embed_diagonal", where, &embed_replay, {&values}, {&out}, {}, at);
  return out;
}

Tensor diagonal(const Tensor& x, std::int64_t offset, int axis0, int axis1, Where where) {
  const TensorImpl& impl = core::defined("diagonal", x, where);
  autograd::require_matrices("diagonal", impl, where);
  const int first = core::normalize_axis("diagonal", axis0, impl.rank(), where);
  const int second = core::normalize_axis("diagonal", axis1, impl.rank(), where);
  if (first == second)
    base::fail<ShapeError>(where, "diagonal: axes ", axis0, " and ", axis1, " of shape ", impl.shape,
                           " are the same; they must be two.");
  const Diagonal at{impl.shape, offset, first, second};
  Tensor out = view_of(x, at, where);
  record("diagonal", where, &diagonal_replay, {&x}, {&out}, {}, at);
  return out;
}

Tensor diag(const Tensor& x, std::int64_t offset, Where where) {
  const TensorImpl& impl = core::defined("diag", x, where);
  if (impl.rank() == 2) return diagonal(x, offset, 0, 1, where);
  if (impl.rank() != 1)
    base::fail<ShapeError>(where, "diag: the tensor is ", impl.shape, "; it must have one axis or two.");
  std::int64_t size = 0;
  if (offset == INT64_MIN || __builtin_add_overflow(impl.shape[0], offset < 0 ? -offset : offset, &size))
    base::fail<ShapeError>(where, "diag: diagonal ", offset, " is beyond any matrix.");
  const std::int64_t sizes[] = {size, size};
  return autograd::embed_diagonal(x, Shape(sizes, where), offset, 0, 1, where);
}

Tensor trace(const Tensor& x, std::int64_t offset, Where where) {
  autograd::require_matrices("trace", core::defined("trace", x, where), where);
  const autograd::Rollback rollback;
  return sum(diagonal(x, offset, -2, -1, where), -1, {}, where);
}

Tensor tril(const Tensor& x, std::int64_t offset, Where where) {
  return triangle(
      "tril", false, x, offset, [](Replay& r) { r.give(0, tril(r.grad(), r.attributes<std::int64_t>(), r.where())); },
      where);
}

Tensor triu(const Tensor& x, std::int64_t offset, Where where) {
  return triangle(
      "triu", true, x, offset, [](Replay& r) { r.give(0, triu(r.grad(), r.attributes<std::int64_t>(), r.where())); },
      where);
}

}  // namespace capstan
