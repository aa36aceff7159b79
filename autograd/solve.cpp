// Systems of equations, inverses, determinants and Cholesky factors.
#include <capstan/create.hpp>
#include <capstan/ops/decompose.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::computing_type;
using autograd::lapack;
using autograd::place_of;
using autograd::record;
using autograd::Replay;
using autograd::turned;
using core::BadMatrix;

std::string autograd::place_of(const Shape& shape, int dropped, std::int64_t index) {
  std::string place;
  for (int axis = shape.rank() - dropped - 1; axis >= 0; --axis) {
    place = std::to_string(index % shape[axis]) + (place.empty() ? "" : ", " + place);
    index /= shape[axis];
  }
  return place.empty() ? place : " at [" + place + "]";
}

namespace {

/// Both sides of a @ x = b in the type to compute in, b with an axis for its columns.
struct System {
  Tensor a, b;
  Shape shape;     // of x, with the batch of both
  DType dtype;     // of the result
  bool is_vector;  // b was one

  System(const char* op, const Tensor& x, const Tensor& y, Where where) : a(x), b(y) {
    const TensorImpl &left = core::defined(op, x, where), &right = core::defined(op, y, where);
    autograd::require_floating(op, left, where);
    autograd::require_floating(op, right, where);
    core::require_same_device(op, left, right, where);
    autograd::require_matrices(op, left, where);
    is_vector = right.rank() == 1;
    if (right.rank() == 0 || right.shape[is_vector ? 0 : right.rank() - 2] != autograd::rows_of(left))
      base::fail<ShapeError>(where, op, ": a is ", left.shape, " and b is ", right.shape,
                             "; b must have as many rows, ", autograd::rows_of(left), ".");
    dtype = promote(left.dtype, right.dtype, where);
    a = a.to(computing_type(dtype), where);
    b = b.to(computing_type(dtype), where);
    if (is_vector) b = expand_dims(b, 1, where);
    const Shape batch = autograd::broadcast_leading(op, left, *b.impl(), where);
    shape = autograd::with_sizes(batch, 0, {autograd::columns_of(left), autograd::columns_of(*b.impl())}, where);
  }

  Tensor finish(const Tensor& x, Where where) const { return (is_vector ? squeeze(x, -1, where) : x).to(dtype, where); }
};

[[noreturn]] void fail_singular(const char* op, const Shape& a, const Shape& shape, BadMatrix bad, const char* hint,
                                Where where) {
  base::fail<NumericError>(where, op, ": the matrix", place_of(shape, 2, bad.index), " is singular: a is ", a,
                           ", and pivot ", bad.info - 1, " is 0; it must have full rank.", hint);
}

/// One matrix for each number: [...] as [..., 1, 1].
Tensor as_matrices(const Tensor& x, Where where) { return expand_dims(expand_dims(x, -1, where), -1, where); }

void solve_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &a = r.saved(0), &x = r.saved(1);
  const Tensor gb = solve(turned(a, where), r.grad(), where);
  if (r.needs(0)) r.give(0, autograd::sum_to(neg(matmul(gb, turned(x, where), where), where), a.shape(), where));
  if (r.needs(1)) r.give(1, autograd::sum_to(gb, r.attributes<Shape>(), where));
}

struct Triangular {
  Shape b;
  TriangularOptions options;
};

void triangular_replay(Replay& r) {
  const Where where = r.where();
  const auto [b_shape, options] = r.attributes<Triangular>();
  const Tensor &a = r.saved(0), &x = r.saved(1);
  const Tensor gb = solve_triangular(turned(a, where), r.grad(), {!options.upper, options.unit_diagonal}, where);
  if (r.needs(0)) {
    const Tensor full = neg(matmul(gb, turned(x, where), where), where);
    const std::int64_t beside = options.unit_diagonal ? 1 : 0;
    const Tensor part = options.upper ? triu(full, beside, where) : tril(full, -beside, where);
    r.give(0, autograd::sum_to(part, a.shape(), where));
  }
  if (r.needs(1)) r.give(1, autograd::sum_to(gb, b_shape, where));
}

void inverse_replay(Replay& r) {
  const Where where = r.where();
  const Tensor y = turned(r.saved(0), where);
  r.give(0, neg(matmul(matmul(y, r.grad(), where), y, where), where));
}

/// The cofactors of matrices of which some are singular: with x = u diag(s) vh they are det(u vh) u diag(t) vh, where
/// t[i] is the product of all s but s[i].
Tensor cofactors_by_svd(const Tensor& x, Where where) {
  const auto [u, s, vh] = svd(x, {.full_matrices = false}, where);
  const std::int64_t n = autograd::rows_of(*x.impl());
  const Tensor own = eye(n, n, {DType::bool8, x.device()}, where);
  const Tensor others = prod(capstan::where(own, 1, expand_dims(s, -2, where), where), -1, {}, where);
  const Tensor sign = slogdet(stop_gradient(matmul(u, vh, where), where), where).sign;
  const Tensor scales = mul(others, expand_dims(sign, -1, where), where);
  return matmul(mul(u, expand_dims(scales, -2, where), where), vh, where);
}

/// The cofactors of regular matrices, whose determinants are y.
Tensor cofactors_by_inverse(const Tensor& x, const Tensor& y, Where where) {
  return mul(as_matrices(y, where), turned(inverse(x, where), where), where);
}

void det_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &y = r.saved(1);
  const Tensor singular = equal(stop_gradient(y, where), 0, where);
  Tensor cofactors;
  if (any_of(singular, {}, {}, where).item<bool>(where)) {
    // each way gets harmless matrices in place of the other's, whose second derivatives may not be finite there
    const std::int64_t n = autograd::rows_of(*x.impl());
    const TensorOptions options{x.dtype(), x.device()};
    const Tensor which = as_matrices(singular, where), identity = eye(n, n, options, where);
    const Tensor uneven = diag(linspace(0.5, 1, n, options, where), 0, where);
    cofactors = capstan::where(which, cofactors_by_svd(capstan::where(which, x, uneven, where), where),
                               cofactors_by_inverse(capstan::where(which, identity, x, where), y, where), where);
  } else {
    cofactors = cofactors_by_inverse(x, y, where);
  }
  r.give(0, mul(as_matrices(r.grad(), where), cofactors, where));
}

/// With P the lower triangle of l^T g, its diagonal halved: l^-T (P + P^T)/2 l^-1.
void cholesky_replay(Replay& r) {
  const Where where = r.where();
  const Tensor upper = turned(r.saved(0), where);
  const Tensor p = tril(matmul(upper, r.grad(), where), 0, where);
  const Tensor middle = mul(add(p, turned(tril(p, -1, where), where), where), 0.5, where);
  const Tensor left = solve_triangular(upper, middle, {.upper = true}, where);
  r.give(0, turned(solve_triangular(upper, turned(left, where), {.upper = true}, where), where));
}

struct LeastSquares {
  Shape b;
  bool full_rank;
};

void lstsq_replay(Replay& r) {
  const Where where = r.where();
  const auto task = r.attributes<LeastSquares>();
  const Tensor &a = r.saved(0), &b = r.saved(1), &x = r.saved(2), &g = r.grad();
  if (!task.full_rank)
    base::fail<NumericError>(where, "lstsq: a is ", a.shape(),
                             ", and the rank of a matrix is less than it could be; the gradient needs full rank.");
  const auto product = [where](const Tensor& left, const Tensor& right) { return matmul(left, right, where); };
  const auto flipped = [where](const Tensor& t) { return turned(t, where); };
  const bool tall = autograd::rows_of(*a.impl()) >= autograd::columns_of(*a.impl());
  const Tensor factor = qr(tall ? a : flipped(a), QrMode::reduced, where).r;
  const auto divided = [&](const Tensor& t) {  // (factor^T factor)^-1 t
    return solve_triangular(factor, solve_triangular(flipped(factor), t, {}, where), {.upper = true}, where);
  };
  Tensor ga, gb;
  if (tall) {  // x = (a^T a)^-1 a^T b
    const Tensor z = divided(g);
    gb = product(a, z);
    ga = sub(product(sub(b, product(a, x), where), flipped(z)), product(gb, flipped(x)), where);
  } else {  // x = a^T (a a^T)^-1 b
    gb = divided(product(a, g));
    const Tensor rest = sub(g, product(flipped(a), gb), where);
    ga = sub(product(divided(b), flipped(rest)), product(gb, flipped(x)), where);
  }
  if (r.needs(0)) r.give(0, autograd::sum_to(ga, a.shape(), where));
  if (r.needs(1)) r.give(1, autograd::sum_to(gb, task.b, where));
}

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b, Where where) {
  autograd::require_square("solve", core::defined("solve", a, where), where);
  const autograd::Rollback rollback;
  const System system("solve", a, b, where);
  const TensorImpl &left = *system.a.impl(), &right = *system.b.impl();
  Tensor out = autograd::result_like(left, system.shape, left.dtype, where);
  const BadMatrix bad = lapack("solve", backend_of(left, where).solve, where)(left, right, *out.impl());
  if (bad.index >= 0) fail_singular("solve", left.shape, system.shape, bad, " lstsq takes any matrix.", where);
  record("solve", where, &solve_replay, {&system.a, &system.b}, {&out}, {&system.a, &out}, right.shape);
  return system.finish(out, where);
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, TriangularOptions options, Where where) {
  autograd::require_square("solve_triangular", core::defined("solve_triangular", a, where), where);
  const autograd::Rollback rollback;
  const System system("solve_triangular", a, b, where);
  const TensorImpl &left = *system.a.impl(), &right = *system.b.impl();
  Tensor out = autograd::result_like(left, system.shape, left.dtype, where);
  const BadMatrix bad = lapack("solve_triangular", backend_of(left, where).solve_triangular, where)(
      options.upper, options.unit_diagonal, left, right, *out.impl());
  if (bad.index >= 0) fail_singular("solve_triangular", left.shape, system.shape, bad, "", where);
  record("solve_triangular", where, &triangular_replay, {&system.a, &system.b}, {&out}, {&system.a, &out},
         Triangular{right.shape, options});
  return system.finish(out, where);
}

LstsqResult lstsq(const Tensor& a, const Tensor& b, double rcond, Where where) {
  autograd::require_matrices("lstsq", core::defined("lstsq", a, where), where);
  if (rcond != rcond) base::fail<Error>(where, "lstsq: rcond is nan; it must be a number.");
  const autograd::Rollback rollback;
  const System system("lstsq", a, b, where);
  const TensorImpl &left = *system.a.impl(), &right = *system.b.impl();
  const std::int64_t m = autograd::rows_of(left), n = autograd::columns_of(left), least = m < n ? m : n;
  const Shape batch = autograd::with_sizes(system.shape, 2, {}, where);
  Tensor out = autograd::result_like(left, system.shape, left.dtype, where);
  const Tensor rank = autograd::result_like(left, batch, DType::int64, where);
  const Tensor values = autograd::result_like(left, autograd::with_sizes(batch, 0, {least}, where), left.dtype, where);
  const BadMatrix bad = lapack("lstsq", backend_of(left, where).lstsq, where)(left, right, rcond, *out.impl(),
                                                                              *rank.impl(), *values.impl());
  if (bad.index >= 0) autograd::fail_to_converge("lstsq", system.shape, bad, where);
  // a matrix that is not finite, which has NaN for singular values, does not take the residuals from the others
  const Tensor unknown = any_of(isnan(values, where), -1, {}, where);
  const Tensor good = logical_or(equal(rank, least, where), unknown, where);
  const bool full_rank = all_of(good, {}, {}, where).item<bool>(where);
  record("lstsq", where, &lstsq_replay, {&system.a, &system.b}, {&out}, {&system.a, &system.b, &out},
         LeastSquares{right.shape, full_rank}, {&out, &rank, &values});
  Tensor residuals;
  if (m > n && full_rank) {
    const Tensor distance = sub(system.b, matmul(system.a, out, where), where);
    residuals = sum(square(distance, where), -2, {}, where).to(system.dtype, where);
  } else {
    residuals = zeros({0}, {system.dtype, left.device()}, where);
  }
  return {system.finish(out, where), residuals, rank, values.to(system.dtype, where)};
}

Tensor inverse(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("inverse", x, where);
  autograd::require_floating("inverse", impl, where);
  autograd::require_square("inverse", impl, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const std::int64_t n = autograd::rows_of(impl);
  const Tensor identity = eye(n, n, {a.dtype(), impl.device()}, where);
  Tensor out = autograd::result_like(*a.impl(), where);
  const BadMatrix bad =
      lapack("inverse", backend_of(impl, where).solve, where)(*a.impl(), *identity.impl(), *out.impl());
  if (bad.index >= 0) fail_singular("inverse", impl.shape, impl.shape, bad, " pinv takes any matrix.", where);
  record("inverse", where, &inverse_replay, {&a}, {&out}, {&out});
  return out.to(impl.dtype, where);
}

Tensor det(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("det", x, where);
  autograd::require_floating("det", impl, where);
  autograd::require_square("det", impl, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  Tensor out = autograd::result_like(impl, autograd::with_sizes(impl.shape, 2, {}, where), a.dtype(), where);
  lapack("det", backend_of(impl, where).determinant, where)(*a.impl(), out.impl(), nullptr, nullptr);
  record("det", where, &det_replay, {&a}, {&out}, {&a, &out});
  return out.to(impl.dtype, where);
}

SlogdetResult slogdet(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("slogdet", x, where);
  autograd::require_floating("slogdet", impl, where);
  autograd::require_square("slogdet", impl, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const Shape shape = autograd::with_sizes(impl.shape, 2, {}, where);
  const Tensor sign = autograd::result_like(impl, shape, a.dtype(), where);
  Tensor logabs = autograd::result_like(impl, shape, a.dtype(), where);
  lapack("slogdet", backend_of(impl, where).determinant, where)(*a.impl(), nullptr, sign.impl(), logabs.impl());
  record("slogdet", where,
         [](Replay& r) {
           const Tensor scaled = turned(inverse(r.saved(0), r.where()), r.where());
           r.give(0, mul(as_matrices(r.grad(), r.where()), scaled, r.where()));
         },
         {&a}, {&logabs}, {&a}, autograd::NoAttributes{}, {&sign, &logabs});
  return {sign.to(impl.dtype, where), logabs.to(impl.dtype, where)};
}

Tensor cholesky(const Tensor& x, CholeskyOptions options, Where where) {
  const TensorImpl& impl = core::defined("cholesky", x, where);
  autograd::require_floating("cholesky", impl, where);
  autograd::require_square("cholesky", impl, where);
  const autograd::Rollback rollback;
  if (options.upper) return turned(cholesky(turned(x, where), {}, where), where);
  const Tensor a = x.to(computing_type(impl.dtype), where);
  Tensor out = autograd::result_like(*a.impl(), where);
  const BadMatrix bad = lapack("cholesky", backend_of(impl, where).cholesky, where)(*a.impl(), *out.impl());
  if (bad.index >= 0)
    base::fail<NumericError>(where, "cholesky: the matrix", place_of(impl.shape, 2, bad.index),
                             " is not positive definite: x is ", impl.shape, ", and its leading minor of order ",
                             bad.info, " is not positive; all of them must be.");
  record("cholesky", where, &cholesky_replay, {&a}, {&out}, {&out});
  return out.to(impl.dtype, where);
}

}  // namespace capstan
