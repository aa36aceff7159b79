#pragma once
// Operations on each element by itself.
//
// All of them: any shapes that broadcast as in NumPy (trailing axes align, size 1 stretches); types promote by the
// Array API table; the result is new and contiguous. Gradients of broadcast operands are summed back to their shape.
// Throws DTypeError for undefined mixes and types an operation is not defined for, ShapeError for shapes that do not
// broadcast, DeviceError for operands on different devices. Accuracy of float32 and float64 is within 4 ULP of the
// exact value unless the entry says otherwise. Defined in autograd/elementwise.cpp; the rules are in lib/kernels.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- one operand; "floating" means float32 and float64 ---------------------------------------------------------

Tensor abs(const Tensor& x, Where where = Where::current());         ///< |x|; numbers; gradient g*sign(x), 0 at 0
Tensor exp(const Tensor& x, Where where = Where::current());         ///< floating; gradient g*y
Tensor log(const Tensor& x, Where where = Where::current());         ///< natural; floating; gradient g/x
Tensor neg(const Tensor& x, Where where = Where::current());         ///< -x; numbers
Tensor reciprocal(const Tensor& x, Where where = Where::current());  ///< 1/x; floating; gradient -g*y*y
Tensor relu(const Tensor& x, Where where = Where::current());        ///< max(x, 0); numbers; gradient 0 at 0; NaN stays
Tensor sigmoid(const Tensor& x, Where where = Where::current());     ///< 1/(1+exp(-x)); floating; no overflow
Tensor sqrt(const Tensor& x, Where where = Where::current());        ///< floating; gradient g/(2y)
Tensor square(const Tensor& x, Where where = Where::current());      ///< x*x; numbers
Tensor tanh(const Tensor& x, Where where = Where::current());        ///< floating; gradient g*(1-y*y)
Tensor logical_not(const Tensor& x, Where where = Where::current());  ///< bool only

/// x limited to [low, high]. Gradient passes inside and at the bounds, is 0 outside. Error if low > high or NaN.
Tensor clip(const Tensor& x, Scalar low, Scalar high, Where where = Where::current());

/// Values converted to another type; float to integer truncates toward zero (out of range and NaN: the nearest value
/// of the type, NaN gives 0), anything to bool is `x != 0`. Differentiable between floating types.
Tensor cast(const Tensor& x, DType dtype, Where where = Where::current());

// --- two operands ------------------------------------------------------------------------------------------------

Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< numbers
Tensor sub(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< numbers
Tensor mul(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< numbers
/// a / b. Floating types; integers are a DTypeError (cast first): the Array API leaves them undefined.
Tensor div(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a to the power b; floating. At a = 0 the gradient for `a` is the limit b*a^(b-1), 0 for b = 0; that for `b` is 0.
Tensor pow(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The larger; NaN if either is NaN. Numbers. At ties each operand gets half of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The smaller; NaN if either is NaN. Numbers. At ties each operand gets half of the gradient.
Tensor minimum(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logical_and(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< bool only
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = Where::current());   ///< bool only

// The same with a number, which takes the tensor's type.
Tensor add(const Tensor& a, Scalar b, Where where = Where::current());
Tensor sub(const Tensor& a, Scalar b, Where where = Where::current());
Tensor mul(const Tensor& a, Scalar b, Where where = Where::current());
Tensor div(const Tensor& a, Scalar b, Where where = Where::current());
Tensor pow(const Tensor& a, Scalar b, Where where = Where::current());
Tensor pow(Scalar a, const Tensor& b, Where where = Where::current());
Tensor maximum(const Tensor& a, Scalar b, Where where = Where::current());
Tensor minimum(const Tensor& a, Scalar b, Where where = Where::current());

// Comparisons give bool and are not differentiable. Bool operands compare for (in)equality only.
Tensor equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor not_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor equal(const Tensor& a, Scalar b, Where where = Where::current());
Tensor not_equal(const Tensor& a, Scalar b, Where where = Where::current());
Tensor less(const Tensor& a, Scalar b, Where where = Where::current());
Tensor less_equal(const Tensor& a, Scalar b, Where where = Where::current());
Tensor greater(const Tensor& a, Scalar b, Where where = Where::current());
Tensor greater_equal(const Tensor& a, Scalar b, Where where = Where::current());

/// Elements of `a` where `condition` (bool) is true, of `b` elsewhere. All three broadcast. The gradient of the side
/// not taken is exactly 0, whatever that side's value.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where = Where::current());
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where = Where::current());

// --- whole-tensor questions; no broadcasting ---------------------------------------------------------------------

/// Same shape, type and values. NaN differs from everything.
bool array_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
/// Same shape, and |a-b| <= absolute + relative*|b| everywhere (NumPy's allclose, which broadcasts; this does not).
bool all_close(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
               Where where = Where::current());

// --- operators -------------------------------------------------------------------------------------------------

#define CAPSTAN_BINARY_OPERATOR(symbol, function)                                                             \
  inline Tensor operator symbol(const Operand& a, const Tensor& b) { return function(a.tensor, b, a.where); } \
  inline Tensor operator symbol(const Operand& a, Scalar b) { return function(a.tensor, b, a.where); }        \
  Tensor operator symbol(const ScalarOperand& a, const Tensor& b);
CAPSTAN_BINARY_OPERATOR(+, add)
CAPSTAN_BINARY_OPERATOR(-, sub)
CAPSTAN_BINARY_OPERATOR(*, mul)
CAPSTAN_BINARY_OPERATOR(/, div)
CAPSTAN_BINARY_OPERATOR(<, less)
CAPSTAN_BINARY_OPERATOR(<=, less_equal)
CAPSTAN_BINARY_OPERATOR(>, greater)
CAPSTAN_BINARY_OPERATOR(>=, greater_equal)
#undef CAPSTAN_BINARY_OPERATOR
#define CAPSTAN_EQUALITY_OPERATOR(symbol, function)                                                             \
  inline Tensor operator symbol(const Operand& a, const RightOperand& b) {                                      \
    return b.tensor != nullptr ? function(a.tensor, *b.tensor, a.where) : function(a.tensor, b.value, a.where); \
  }                                                                                                             \
  inline Tensor operator symbol(const ScalarOperand& a, const RightTensor& b) {                                 \
    return function(b.tensor, a.value, a.where);                                                                \
  }
CAPSTAN_EQUALITY_OPERATOR(==, equal)
CAPSTAN_EQUALITY_OPERATOR(!=, not_equal)
#undef CAPSTAN_EQUALITY_OPERATOR
inline Tensor operator-(const Operand& x) { return neg(x.tensor, x.where); }
inline Tensor operator!(const Operand& x) { return logical_not(x.tensor, x.where); }

}  // namespace capstan
