// Products that are a line or two of other operations.
#include <algorithm>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/ops/decompose.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/elementwise.hpp"
#include "autograd/linalg.hpp"

namespace capstan {

namespace {

/// Throws unless they can be multiplied element by element.
void require_factors(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  core::require_same_device(op, a, b, where);
  for (const DType type : {a.dtype, b.dtype}) autograd::check_domain(op, kernels::Domain::numbers, type, where);
  autograd::require_mixing(op, a.dtype, b.dtype, where);
}

/// How far from the end an axis of the broadcast shape stands. Both operands must have it, with one size.
int shared_axis(const char* op, const TensorImpl& a, const TensorImpl& b, int axis, Where where) {
  const int rank = std::max(a.rank(), b.rank());
  const int from_end = rank - core::normalize_axis(op, axis, rank, where);
  if (a.rank() < from_end || b.rank() < from_end || a.shape[a.rank() - from_end] != b.shape[b.rank() - from_end])
    base::fail<ShapeError>(where, op, ": a is ", a.shape, " and b is ", b.shape, "; both must have axis ", -from_end,
                           ", of one size.");
  return from_end;
}

}  // namespace

Tensor vecdot(const Tensor& a, const Tensor& b, int axis, Where where) {
  const TensorImpl &x = core::defined("vecdot", a, where), &y = core::defined("vecdot", b, where);
  require_factors("vecdot", x, y, where);
  const int from_end = shared_axis("vecdot", x, y, axis, where);
  const autograd::Rollback rollback;
  const bool half = is_half(x.dtype) && is_half(y.dtype);  // in 16 bits a product may overflow where the sum does not
  const Tensor products =
      half ? mul(a.to(DType::float32, where), b.to(DType::float32, where), where) : mul(a, b, where);
  const DType dtype = half ? promote(x.dtype, y.dtype, where) : products.dtype();
  return sum(products, -from_end, {}, where).to(dtype, where);
}

Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl &x = core::defined("outer", a, where), &y = core::defined("outer", b, where);
  require_factors("outer", x, y, where);
  if (x.rank() != 1 || y.rank() != 1)
    base::fail<ShapeError>(where, "outer: a is ", x.shape, " and b is ", y.shape, "; both must have one axis.");
  const autograd::Rollback rollback;
  return mul(expand_dims(a, 1, where), expand_dims(b, 0, where), where);
}

Tensor kron(const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl &x = core::defined("kron", a, where), &y = core::defined("kron", b, where);
  require_factors("kron", x, y, where);
  const int rank = std::max(x.rank(), y.rank());
  std::int64_t left[2 * kMaxRank], right[2 * kMaxRank], sizes[kMaxRank];
  std::size_t count = 0;
  for (int axis = 0; axis < rank; ++axis) {  // a's axis, then b's; sizes of 1 are left out
    const int ia = axis - (rank - x.rank()), ib = axis - (rank - y.rank());
    const std::int64_t sa = ia < 0 ? 1 : x.shape[ia], sb = ib < 0 ? 1 : y.shape[ib];
    if (__builtin_mul_overflow(sa, sb, &sizes[axis]))
      base::fail<ShapeError>(where, "kron: sizes ", sa, " and ", sb, " multiply to 2^63 or more.");
    if (sa != 1) left[count] = sa, right[count++] = 1;
    if (sb != 1) left[count] = 1, right[count++] = sb;
  }
  if (count > kMaxRank)
    base::fail<ShapeError>(where, "kron: a is ", x.shape, " and b is ", y.shape, "; together they have ", count,
                           " axes above size 1, and the most is ", kMaxRank, ".");
  const autograd::Rollback rollback;
  const Tensor factor = reshape(a, Shape(std::span<const std::int64_t>(left, count), where), where);
  const Tensor other = reshape(b, Shape(std::span<const std::int64_t>(right, count), where), where);
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  return reshape(mul(factor, other, where), shape, where);
}

Tensor cross(const Tensor& a, const Tensor& b, int axis, Where where) {
  const TensorImpl &x = core::defined("cross", a, where), &y = core::defined("cross", b, where);
  require_factors("cross", x, y, where);
  const int from_end = shared_axis("cross", x, y, axis, where);
  if (x.shape[x.rank() - from_end] != 3)
    base::fail<ShapeError>(where, "cross: a is ", x.shape, " and b is ", y.shape, "; axis ", -from_end,
                           " must have size 3.");
  const autograd::Rollback rollback;
  Tensor u[3], v[3];
  for (int i = 0; i < 3; ++i) u[i] = narrow(a, -from_end, i, 1, where), v[i] = narrow(b, -from_end, i, 1, where);
  const auto part = [&](int i, int j) { return sub(mul(u[i], v[j], where), mul(u[j], v[i], where), where); };
  return concat({part(1, 2), part(2, 0), part(0, 1)}, -from_end, where);
}

Tensor matrix_power(const Tensor& x, std::int64_t n, Where where) {
  const TensorImpl& impl = core::defined("matrix_power", x, where);
  autograd::require_floating("matrix_power", impl, where);
  autograd::require_square("matrix_power", impl, where);
  const autograd::Rollback rollback;
  if (n == 0) {
    const std::int64_t size = autograd::rows_of(impl);
    return broadcast_to(eye(size, size, {impl.dtype, impl.device()}, where), impl.shape, where).copy(where);
  }
  Tensor power = n < 0 ? inverse(x, where) : x, result;
  for (std::uint64_t left = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);;) {
    if ((left & 1u) != 0) result = result.defined() ? matmul(result, power, where) : power;
    left >>= 1;
    if (left == 0) return result;
    power = matmul(power, power, where);
  }
}

}  // namespace capstan
