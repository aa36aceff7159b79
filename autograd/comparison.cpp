// Comparisons, questions, logic and bits: what has no gradient.
#include <cmath>

#include <capstan/tape.hpp>

#include "autograd/elementwise.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::like;
using autograd::Operands;
using kernels::Bitwise;
using kernels::Compare;
using kernels::Domain;
using kernels::Predicate;

namespace {

/// `exchanged`: the sides of `kind` are exchanged, so that less serves greater too.
Tensor compare(const char* op, Compare kind, const Tensor& x, const Tensor& y, Where where, bool exchanged = false) {
  const autograd::Rollback rollback;  // conversions are recorded before the rest is known to work
  const Operands operands(op, x, y, where);
  const bool order = kind == Compare::less || kind == Compare::less_equal;
  if (order && operands.dtype() == DType::bool8) autograd::wrong_type(op, Domain::numbers, DType::bool8, where);
  const TensorImpl &a = *operands.a->impl(), &b = *operands.b->impl();
  Tensor out = autograd::result_like(a, operands.shape(), DType::bool8, where);
  backend_of(a, where).compare(kind, exchanged ? b : a, exchanged ? a : b, *out.impl());
  autograd::note(op, where, {operands.a, operands.b}, {&out});
  return out;
}

Tensor logical(const char* op, int kind, const Tensor& x, const Tensor& y, Where where) {
  const autograd::Rollback rollback;
  const Operands operands(op, x, y, where);
  autograd::check_domain(op, Domain::boolean, operands.dtype(), where);
  Tensor out = autograd::result_like(*x.impl(), operands.shape(), DType::bool8, where);
  backend_of(*x.impl(), where).logical(kind, *x.impl(), *y.impl(), *out.impl());
  if (x.is_same(y)) autograd::note(op, where, {&x}, {&out});
  else autograd::note(op, where, {&x, &y}, {&out});
  return out;
}

Tensor bitwise(const char* op, Bitwise kind, const Tensor& x, const Tensor& y, Where where) {
  const autograd::Rollback rollback;
  const Operands operands(op, x, y, where);
  const bool shift = kind == Bitwise::left_shift || kind == Bitwise::right_shift;
  const DType dtype = operands.dtype();
  if (!is_integer(dtype) && (shift || dtype != DType::bool8))
    base::fail<DTypeError>(where, op, ": the tensor is ", dtype,
                           shift ? "; it must be an integer type." : "; it must be an integer type or bool.");
  const TensorImpl &a = *operands.a->impl(), &b = *operands.b->impl();
  Tensor out = autograd::result_like(a, operands.shape(), dtype, where);
  backend_of(a, where).bitwise(kind, a, b, *out.impl());
  if (kind == Bitwise::inverse) autograd::note(op, where, {&x}, {&out});
  else autograd::note(op, where, {operands.a, operands.b}, {&out});
  return out;
}

Tensor predicate(const char* op, Predicate kind, const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  Tensor out = autograd::result_like(impl, impl.shape, DType::bool8, where);
  backend_of(impl, where).predicate(kind, impl, *out.impl());
  autograd::note(op, where, {&x}, {&out});
  return out;
}

}  // namespace

// --- questions, logic ---

Tensor isfinite(const Tensor& x, Where where) { return predicate("isfinite", Predicate::finite, x, where); }
Tensor isinf(const Tensor& x, Where where) { return predicate("isinf", Predicate::infinite, x, where); }
Tensor isnan(const Tensor& x, Where where) { return predicate("isnan", Predicate::nan, x, where); }

Tensor logical_and(const Tensor& a, const Tensor& b, Where where) { return logical("logical_and", 0, a, b, where); }
Tensor logical_or(const Tensor& a, const Tensor& b, Where where) { return logical("logical_or", 1, a, b, where); }
Tensor logical_not(const Tensor& x, Where where) { return logical("logical_not", 2, x, x, where); }
Tensor logical_xor(const Tensor& a, const Tensor& b, Where where) { return logical("logical_xor", 3, a, b, where); }

// --- bits ---

Tensor bitwise_and(const Tensor& a, const Tensor& b, Where where) {
  return bitwise("bitwise_and", Bitwise::both, a, b, where);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b, Where where) {
  return bitwise("bitwise_or", Bitwise::either, a, b, where);
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Where where) {
  return bitwise("bitwise_xor", Bitwise::one, a, b, where);
}
Tensor bitwise_not(const Tensor& x, Where where) { return bitwise("bitwise_not", Bitwise::inverse, x, x, where); }
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b, Where where) {
  return bitwise("bitwise_left_shift", Bitwise::left_shift, a, b, where);
}
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b, Where where) {
  return bitwise("bitwise_right_shift", Bitwise::right_shift, a, b, where);
}

// --- comparisons ---

Tensor equal(const Tensor& a, const Tensor& b, Where where) { return compare("equal", Compare::equal, a, b, where); }
Tensor not_equal(const Tensor& a, const Tensor& b, Where where) {
  return compare("not_equal", Compare::not_equal, a, b, where);
}
Tensor less(const Tensor& a, const Tensor& b, Where where) { return compare("less", Compare::less, a, b, where); }
Tensor less_equal(const Tensor& a, const Tensor& b, Where where) {
  return compare("less_equal", Compare::less_equal, a, b, where);
}
Tensor greater(const Tensor& a, const Tensor& b, Where where) {
  return compare("greater", Compare::less, a, b, where, true);
}
Tensor greater_equal(const Tensor& a, const Tensor& b, Where where) {
  return compare("greater_equal", Compare::less_equal, a, b, where, true);
}

#define CAPSTAN_NUMBER_ON_THE_RIGHT(function)                         \
  Tensor function(const Tensor& a, Scalar b, Where where) {           \
    return capstan::function(a, like(#function, a, b, where), where); \
  }
CAPSTAN_NUMBER_ON_THE_RIGHT(bitwise_and)
CAPSTAN_NUMBER_ON_THE_RIGHT(bitwise_or)
CAPSTAN_NUMBER_ON_THE_RIGHT(bitwise_xor)
CAPSTAN_NUMBER_ON_THE_RIGHT(bitwise_left_shift)
CAPSTAN_NUMBER_ON_THE_RIGHT(bitwise_right_shift)
CAPSTAN_NUMBER_ON_THE_RIGHT(equal)
CAPSTAN_NUMBER_ON_THE_RIGHT(not_equal)
CAPSTAN_NUMBER_ON_THE_RIGHT(less)
CAPSTAN_NUMBER_ON_THE_RIGHT(less_equal)
CAPSTAN_NUMBER_ON_THE_RIGHT(greater)
CAPSTAN_NUMBER_ON_THE_RIGHT(greater_equal)
#undef CAPSTAN_NUMBER_ON_THE_RIGHT

Tensor is_close(const Tensor& a, const Tensor& b, double relative, double absolute, bool equal_nan, Where where) {
  const autograd::Rollback rollback;
  const Operands operands("is_close", a, b, where);
  autograd::check_domain("is_close", Domain::numbers, operands.dtype(), where);
  const auto wide = [&](const Tensor& x) { return cast(stop_gradient(x, where), DType::float64, where); };
  const Tensor x = wide(*operands.a), y = wide(*operands.b);
  const Tensor allowed = add(mul(abs(y, where), relative, where), absolute, where);
  const Tensor near = logical_and(less_equal(abs(sub(x, y, where), where), allowed, where), isfinite(y, where), where);
  Tensor out = logical_or(near, equal(x, y, where), where);  // infinities of one sign
  if (equal_nan) out = logical_or(out, logical_and(isnan(x, where), isnan(y, where), where), where);
  autograd::note("is_close", where, {&a, &b}, {&out});
  return out;
}

// --- whole tensors ---

bool array_equal(const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl &x = core::defined("array_equal", a, where), &y = core::defined("array_equal", b, where);
  if (x.shape != y.shape || x.dtype != y.dtype) return false;
  return all_of(equal(a, b, where), {}, {}, where).item<bool>(where);
}

bool all_close(const Tensor& a, const Tensor& b, double relative, double absolute, Where where) {
  const TensorImpl &x = core::defined("all_close", a, where), &y = core::defined("all_close", b, where);
  if (x.shape != y.shape) return false;
  const std::vector<double> left = cast(stop_gradient(a, where), DType::float64, where).to_vector<double>(where);
  const std::vector<double> right = cast(stop_gradient(b, where), DType::float64, where).to_vector<double>(where);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] == right[i]) continue;  // infinities of one sign
    if (!(std::fabs(left[i] - right[i]) <= absolute + relative * std::fabs(right[i]))) return false;
    if (std::isinf(right[i])) return false;
  }
  return true;
}

}  // namespace capstan
