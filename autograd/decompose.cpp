// QR, singular values, eigenvalues, and what is made of them.
#include <capstan/create.hpp>
#include <capstan/ops/decompose.hpp>
#include <capstan/ops/linalg.hpp>

#include "autograd/linalg.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::columns_of;
using autograd::computing_type;
using autograd::lapack;
using autograd::record;
using autograd::Replay;
using autograd::result_like;
using autograd::rows_of;
using autograd::turned;
using autograd::with_sizes;
using core::BadMatrix;

namespace {

const TensorImpl& checked(const char* op, const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  autograd::require_matrices(op, impl, where);
  return impl;
}

std::int64_t lesser_size(const TensorImpl& x) { return rows_of(x) < columns_of(x) ? rows_of(x) : columns_of(x); }

/// Whether a tape will want gradients of what is computed from x.
bool followed(const Tensor& x) {
  const Tensor* const inputs[] = {&x};
  return autograd::listening() && autograd::followers(inputs) != 0;
}

/// x with its columns, or its rows, multiplied by s.
Tensor scale_columns(const Tensor& x, const Tensor& s, Where where) { return mul(x, expand_dims(s, -2, where), where); }
Tensor scale_rows(const Tensor& x, const Tensor& s, Where where) { return mul(x, expand_dims(s, -1, where), where); }

Tensor skew(const Tensor& x, Where where) { return sub(x, turned(x, where), where); }

/// x[i, j] / (v[j] - v[i]), and x[i, i] on the diagonal.
Tensor over_differences(const Tensor& x, const Tensor& v, Where where) {
  const std::int64_t n = columns_of(*x.impl());
  const Tensor differences = sub(expand_dims(v, -2, where), expand_dims(v, -1, where), where);
  return div(x, add(differences, eye(n, n, {v.dtype(), v.device()}, where), where), where);
}

// --- QR ---

/// Rows not fewer than columns: (gq + q s) r^-T, where s is the upper triangle of gr r^T - q^T gq, mirrored.
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr, Where where) {
  const Tensor both = sub(matmul(gr, turned(r, where), where), matmul(turned(q, where), gq, where), where);
  const Tensor s = add(triu(both, 0, where), turned(triu(both, 1, where), where), where);
  const Tensor sum_of_both = add(gq, matmul(q, s, where), where);
  return turned(solve_triangular(r, turned(sum_of_both, where), {.upper = true}, where), where);
}

void qr_replay(Replay& replay) {
  const Where where = replay.where();
  const Tensor &q = replay.saved(0), &r = replay.saved(1);
  const std::int64_t m = rows_of(*q.impl()), n = columns_of(*r.impl());
  if (columns_of(*q.impl()) > n)
    base::fail<TapeError>(where, "qr: q is ", q.shape(), " and r is ", r.shape(),
                          "; the complete form for more rows than columns has no gradient. Use the reduced one.");
  const Tensor gq = replay.grad(0).defined() ? replay.grad(0) : zeros_like(q, where);
  const Tensor gr = replay.grad(1).defined() ? replay.grad(1) : zeros_like(r, where);
  if (m >= n) {
    replay.give(0, tall_gradient(q, r, gq, gr, where));
    return;
  }
  // x = [y z] = q [u v], where only y decides q, and v = q^T z
  const Tensor u = narrow(r, -1, 0, m, where), v = narrow(r, -1, m, n - m, where);
  const Tensor gu = narrow(gr, -1, 0, m, where), gv = narrow(gr, -1, m, n - m, where);
  const Tensor through_v = matmul(q, matmul(v, turned(gv, where), where), where);
  const Tensor gy = tall_gradient(q, u, add(gq, through_v, where), gu, where);
  replay.give(0, concat({gy, matmul(q, gv, where)}, -1, where));
}

// --- singular values ---

/// u (skew(u^T gu) / E s + s skew(vh gvh^T) / E + diag(gs)) vh with E[i, j] = s[j]^2 - s[i]^2, and what gu and gvh have
/// outside of the space of u and vh.
void svd_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &s = r.saved(1), &gs = r.grad(1);
  const std::int64_t k = s.shape()[s.rank() - 1];
  const Tensor u = narrow(r.saved(0), -1, 0, k, where), vh = narrow(r.saved(2), -2, 0, k, where);
  const bool has_u = r.grad(0).defined(), has_vh = r.grad(2).defined();
  if (!has_u && !has_vh) {
    r.give(0, matmul(scale_columns(u, gs, where), vh, where));
    return;
  }
  const Tensor gu = has_u ? narrow(r.grad(0), -1, 0, k, where) : zeros_like(u, where);
  const Tensor gvh = has_vh ? narrow(r.grad(2), -2, 0, k, where) : zeros_like(vh, where);
  const Tensor squares = square(s, where);
  const Tensor from_u = over_differences(skew(matmul(turned(u, where), gu, where), where), squares, where);
  const Tensor from_vh = over_differences(skew(matmul(vh, turned(gvh, where), where), where), squares, where);
  Tensor middle = add(scale_columns(from_u, s, where), scale_rows(from_vh, s, where), where);
  if (gs.defined()) {
    const int rank = middle.rank();
    middle = add(middle, autograd::embed_diagonal(gs, middle.shape(), 0, rank - 2, rank - 1, where), where);
  }
  Tensor left = matmul(u, middle, where);
  if (has_u && rows_of(*u.impl()) > k) {
    const Tensor scaled = div(gu, expand_dims(s, -2, where), where);
    left = add(left, sub(scaled, matmul(u, matmul(turned(u, where), scaled, where), where), where), where);
  }
  Tensor result = matmul(left, vh, where);
  if (has_vh && columns_of(*vh.impl()) > k) {
    const Tensor scaled = div(gvh, expand_dims(s, -1, where), where);
    const Tensor outside = sub(scaled, matmul(matmul(scaled, turned(vh, where), where), vh, where), where);
    result = add(result, matmul(u, outside, where), where);
  }
  r.give(0, std::move(result));
}

/// What singular values are small beside: a negative rtol stands for the rounding of the type.
double limit_of(const TensorImpl& x, double rtol) {
  if (rtol >= 0) return rtol;
  const std::int64_t most = rows_of(x) < columns_of(x) ? columns_of(x) : rows_of(x);
  return static_cast<double>(most) * (x.dtype == DType::float64 ? 0x1p-52 : 0x1p-23);
}

/// Whether each singular value counts. There is at least one.
Tensor large_ones(const Tensor& s, double limit, Where where) {
  return greater(s, mul(max(s, -1, {.keepdims = true}, where), limit, where), where);
}

void check_limit(const char* op, double rtol, Where where) {
  if (rtol != rtol) base::fail<Error>(where, op, ": rtol is nan; it must be a number.");
}

/// Golub and Pereyra 1973: -p^T g p^T + (1 - x p) g^T p p^T + p^T p g^T (1 - p x).
void pinv_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &p = r.saved(1);
  const auto product = [where](const Tensor& a, const Tensor& b) { return matmul(a, b, where); };
  const Tensor pt = turned(p, where), gt = turned(r.grad(), where);
  const Tensor first = product(product(pt, r.grad()), pt);
  const Tensor second = product(product(gt, p), pt), third = product(pt, product(p, gt));
  const Tensor inside = add(product(x, product(p, second)), product(product(third, p), x), where);
  r.give(0, sub(sub(add(second, third, where), inside, where), first, where));
}

// --- eigenvalues ---

/// v (diag(gw) + skew(v^T gv) / (2 E)) v^T with E[i, j] = w[j] - w[i].
void eigh_replay(Replay& r) {
  const Where where = r.where();
  const Tensor &w = r.saved(0), &v = r.saved(1), &gw = r.grad(0), &gv = r.grad(1);
  Tensor left;
  if (gv.defined()) {
    const Tensor half = mul(skew(matmul(turned(v, where), gv, where), where), 0.5, where);
    left = matmul(v, over_differences(half, w, where), where);
  }
  if (gw.defined()) {
    const Tensor scaled = scale_columns(v, gw, where);
    left = left.defined() ? add(left, scaled, where) : scaled;
  }
  r.give(0, matmul(left, turned(v, where), where));
}

}  // namespace

QrResult qr(const Tensor& x, QrMode mode, Where where) {
  const TensorImpl& impl = checked("qr", x, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const std::int64_t m = rows_of(impl), n = columns_of(impl), k = mode == QrMode::complete ? m : lesser_size(impl);
  Tensor q = result_like(impl, with_sizes(impl.shape, 2, {m, k}, where), a.dtype(), where);
  Tensor r = result_like(impl, with_sizes(impl.shape, 2, {k, n}, where), a.dtype(), where);
  lapack("qr", backend_of(impl, where).qr, where)(*a.impl(), *q.impl(), *r.impl());
  record("qr", where, &qr_replay, {&a}, {&q, &r}, {&q, &r});
  return {q.to(impl.dtype, where), r.to(impl.dtype, where)};
}

SvdResult svd(const Tensor& x, SvdOptions options, Where where) {
  const TensorImpl& impl = checked("svd", x, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const std::int64_t m = rows_of(impl), n = columns_of(impl), k = lesser_size(impl);
  const bool full = options.full_matrices;
  Tensor u = result_like(impl, with_sizes(impl.shape, 2, {m, full ? m : k}, where), a.dtype(), where);
  Tensor s = result_like(impl, with_sizes(impl.shape, 2, {k}, where), a.dtype(), where);
  Tensor vh = result_like(impl, with_sizes(impl.shape, 2, {full ? n : k, n}, where), a.dtype(), where);
  const BadMatrix bad = lapack("svd", backend_of(impl, where).svd, where)(*a.impl(), u.impl(), *s.impl(), vh.impl());
  if (bad.index >= 0) autograd::fail_to_converge("svd", impl.shape, bad, where);
  record("svd", where, &svd_replay, {&a}, {&u, &s, &vh}, {&u, &s, &vh});
  return {u.to(impl.dtype, where), s.to(impl.dtype, where), vh.to(impl.dtype, where)};
}

Tensor svdvals(const Tensor& x, Where where) {
  const TensorImpl& impl = checked("svdvals", x, where);
  if (followed(x)) return svd(x, {.full_matrices = false}, where).s;  // the gradient needs the vectors
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const Tensor s = result_like(impl, with_sizes(impl.shape, 2, {lesser_size(impl)}, where), a.dtype(), where);
  const BadMatrix bad = lapack("svdvals", backend_of(impl, where).svd, where)(*a.impl(), nullptr, *s.impl(), nullptr);
  if (bad.index >= 0) autograd::fail_to_converge("svdvals", impl.shape, bad, where);
  autograd::note("svdvals", where, {&a}, {&s});
  return s.to(impl.dtype, where);
}

Tensor pinv(const Tensor& x, double rtol, Where where) {
  const TensorImpl& impl = checked("pinv", x, where);
  check_limit("pinv", rtol, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  Tensor out;
  if (lesser_size(impl) == 0) {
    out = zeros(with_sizes(impl.shape, 2, {columns_of(impl), rows_of(impl)}, where), {a.dtype(), a.device()}, where);
  } else {
    const NoGrad off;
    const auto [u, s, vh] = svd(a, {.full_matrices = false}, where);
    const Tensor large = large_ones(s, limit_of(*a.impl(), rtol), where);
    const Tensor inverses = capstan::where(large, reciprocal(capstan::where(large, s, 1, where), where), 0, where);
    out = matmul(scale_columns(turned(vh, where), inverses, where), turned(u, where), where);
  }
  record("pinv", where, &pinv_replay, {&a}, {&out}, {&a, &out});
  return out.to(impl.dtype, where);
}

Tensor matrix_rank(const Tensor& x, double rtol, Where where) {
  const TensorImpl& impl = checked("matrix_rank", x, where);
  check_limit("matrix_rank", rtol, where);
  Tensor out;
  if (lesser_size(impl) == 0) {
    out = zeros(with_sizes(impl.shape, 2, {}, where), {DType::int64, impl.device()}, where);
  } else {
    const NoGrad off;
    const Tensor a = x.to(computing_type(impl.dtype), where);
    out = sum(large_ones(svdvals(a, where), limit_of(*a.impl(), rtol), where), -1, {}, where);
  }
  autograd::note("matrix_rank", where, {&x}, {&out});
  return out;
}

EighResult eigh(const Tensor& x, Where where) {
  const TensorImpl& impl = checked("eigh", x, where);
  autograd::require_square("eigh", impl, where);
  const autograd::Rollback rollback;
  const Tensor a = x.to(computing_type(impl.dtype), where);
  Tensor w = result_like(impl, with_sizes(impl.shape, 1, {}, where), a.dtype(), where);
  Tensor v = result_like(impl, impl.shape, a.dtype(), where);
  const BadMatrix bad = lapack("eigh", backend_of(impl, where).eigh, where)(*a.impl(), *w.impl(), v.impl());
  if (bad.index >= 0) autograd::fail_to_converge("eigh", impl.shape, bad, where);
  record("eigh", where, &eigh_replay, {&a}, {&w, &v}, {&w, &v});
  return {w.to(impl.dtype, where), v.to(impl.dtype, where)};
}

Tensor eigvalsh(const Tensor& x, Where where) {
  const TensorImpl& impl = checked("eigvalsh", x, where);
  autograd::require_square("eigvalsh", impl, where);
  if (followed(x)) return eigh(x, where).eigenvalues;  // the gradient needs the vectors
  const Tensor a = x.to(computing_type(impl.dtype), where);
  const Tensor w = result_like(impl, with_sizes(impl.shape, 1, {}, where), a.dtype(), where);
  const BadMatrix bad = lapack("eigvalsh", backend_of(impl, where).eigh, where)(*a.impl(), *w.impl(), nullptr);
  if (bad.index >= 0) autograd::fail_to_converge("eigvalsh", impl.shape, bad, where);
  autograd::note("eigvalsh", where, {&a}, {&w});
  return w.to(impl.dtype, where);
}

}  // namespace capstan
