#pragma once
// Operations on each element by itself. activation.hpp has those that networks are made of.
//
// All of them: any shapes that broadcast as in NumPy (trailing axes align, size 1 stretches); types promote by the
// Array API table; the result is new and contiguous. Gradients of broadcast operands are summed back to their shape,
// and are themselves differentiable, to any order.
// Throws DTypeError for undefined mixes and types an operation is not defined for, ShapeError for shapes that do not
// broadcast, DeviceError for operands on different devices. Accuracy of float32 and float64 is within 4 ULP of the
// exact value unless the entry says otherwise (docs/numerics.md has what was measured); special values are those of
// IEEE 754 and the Array API. Defined in autograd/elementwise.cpp and comparison.cpp; the rules are in lib/kernels.
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- one operand; "floating" means float16, bfloat16, float32 and float64 ----------------------------------------

Tensor abs(const Tensor& x, Where where = Where::current());         ///< |x|; numbers; gradient g*sign(x), 0 at 0
Tensor cbrt(const Tensor& x, Where where = Where::current());        ///< floating; gradient g/(3y*y), infinite at 0
Tensor exp(const Tensor& x, Where where = Where::current());         ///< floating; gradient g*y
Tensor exp2(const Tensor& x, Where where = Where::current());        ///< 2 to the x; floating; gradient g*y*log(2)
Tensor expm1(const Tensor& x, Where where = Where::current());       ///< exp(x)-1, exact near 0 too; floating
Tensor log(const Tensor& x, Where where = Where::current());         ///< natural; floating; gradient g/x
Tensor log10(const Tensor& x, Where where = Where::current());       ///< floating; gradient g/(x*log(10))
Tensor log1p(const Tensor& x, Where where = Where::current());       ///< log(1+x), exact near 0 too; floating
Tensor log2(const Tensor& x, Where where = Where::current());        ///< floating; gradient g/(x*log(2))
Tensor neg(const Tensor& x, Where where = Where::current());         ///< -x; numbers
Tensor reciprocal(const Tensor& x, Where where = Where::current());  ///< 1/x; floating; gradient -g*y*y
Tensor relu(const Tensor& x, Where where = Where::current());        ///< max(x, 0); numbers; gradient 0 at 0; NaN stays
Tensor rsqrt(const Tensor& x, Where where = Where::current());       ///< 1/sqrt(x); floating; gradient -g*y*y*y/2
Tensor sigmoid(const Tensor& x, Where where = Where::current());     ///< 1/(1+exp(-x)); floating; no overflow
Tensor sqrt(const Tensor& x, Where where = Where::current());        ///< floating; gradient g/(2y)
Tensor square(const Tensor& x, Where where = Where::current());      ///< x*x; numbers

// Trigonometry, in radians, and hyperbolic functions. Floating.
Tensor acos(const Tensor& x, Where where = Where::current());   ///< gradient -g/sqrt(1-x*x)
Tensor acosh(const Tensor& x, Where where = Where::current());  ///< gradient g/sqrt(x*x-1)
Tensor asin(const Tensor& x, Where where = Where::current());   ///< gradient g/sqrt(1-x*x)
Tensor asinh(const Tensor& x, Where where = Where::current());  ///< gradient g/sqrt(x*x+1)
Tensor atan(const Tensor& x, Where where = Where::current());   ///< gradient g/(1+x*x)
Tensor atanh(const Tensor& x, Where where = Where::current());  ///< gradient g/(1-x*x)
Tensor cos(const Tensor& x, Where where = Where::current());    ///< gradient -g*sin(x)
Tensor cosh(const Tensor& x, Where where = Where::current());   ///< gradient g*sinh(x)
Tensor sin(const Tensor& x, Where where = Where::current());    ///< gradient g*cos(x)
Tensor sinh(const Tensor& x, Where where = Where::current());   ///< gradient g*cosh(x)
Tensor tan(const Tensor& x, Where where = Where::current());    ///< gradient g*(1+y*y)
Tensor tanh(const Tensor& x, Where where = Where::current());   ///< gradient g*(1-y*y)

/// The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x. Floating; gradient
/// g*2/sqrt(pi)*exp(-x*x).
Tensor erf(const Tensor& x, Where where = Where::current());
/// 1 - erf(x), with all its digits in the tail.
Tensor erfc(const Tensor& x, Where where = Where::current());
/// The x with erf(x) = y: infinite at -1 and 1, NaN outside. Floating; gradient g*sqrt(pi)/2*exp(x*x) of the result x.
Tensor erfinv(const Tensor& y, Where where = Where::current());
/// log(|gamma(x)|): infinity at 0 and the whole numbers below. Floating; gradient g*digamma(x).
Tensor lgamma(const Tensor& x, Where where = Where::current());
/// The derivative of lgamma: -infinity at 0, infinity at -0, NaN at the whole numbers below (as PyTorch). Floating;
/// gradient g*polygamma(1, x). Close to its zeros below 0 the error is 4 ULP of 1, not of the value.
Tensor digamma(const Tensor& x, Where where = Where::current());
/// The n-th derivative of digamma; polygamma(1, x) is trigamma. Floating; gradient g*polygamma(n+1, x). For even n and
/// x < 0 it has zeros; close to them the error is 4 ULP of what stands around them. At 0 and the whole numbers below,
/// odd n give infinity; even n -infinity at 0, infinity at -0 and NaN below. Error unless 0 <= n <= 100.
Tensor polygamma(int n, const Tensor& x, Where where = Where::current());

/// log(x/(1-x)), the inverse of sigmoid: infinite at 0 and 1, NaN outside. Floating; gradient g/(x*(1-x)).
Tensor logit(const Tensor& x, Where where = Where::current());
/// The same of x limited to [epsilon, 1-epsilon]; gradient 0 outside of it. Error unless 0 <= epsilon <= 0.5.
Tensor logit(const Tensor& x, double epsilon, Where where = Where::current());

// Steps. Numbers; integers are what they are. Their gradient is zeros, as in PyTorch (TensorFlow has none).
Tensor ceil(const Tensor& x, Where where = Where::current());
Tensor floor(const Tensor& x, Where where = Where::current());
Tensor round(const Tensor& x, Where where = Where::current());  ///< half to even
Tensor sign(const Tensor& x, Where where = Where::current());   ///< -1, 0 or 1; NaN stays
Tensor trunc(const Tensor& x, Where where = Where::current());  ///< toward zero

// Questions with a bool answer, for any type: integers and bool are neither NaN nor infinite. Not differentiable.
Tensor isfinite(const Tensor& x, Where where = Where::current());
Tensor isinf(const Tensor& x, Where where = Where::current());
Tensor isnan(const Tensor& x, Where where = Where::current());

Tensor logical_not(const Tensor& x, Where where = Where::current());  ///< bool only
Tensor bitwise_not(const Tensor& x, Where where = Where::current());  ///< every bit of an integer; not of a bool

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
/// The larger; the other if one is NaN. Numbers. At ties each operand gets half of the gradient.
Tensor fmax(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The smaller; the other if one is NaN. Numbers. At ties each operand gets half of the gradient.
Tensor fmin(const Tensor& a, const Tensor& b, Where where = Where::current());

// Division with a whole quotient. Numbers. A divisor 0 gives 0 with integers, as in NumPy, and what IEEE 754 says with
// floating types; the smallest integer divided by -1 wraps around.
/// floor(a/b), from the exact remainder: with floating types a/b may have rounded up. Gradient 0 for both.
Tensor floor_divide(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a - b*floor(a/b): the sign is b's, as Python's % and the Array API have it. Gradient g for a, -g*floor(a/b) for b.
Tensor remainder(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a - b*trunc(a/b), exact: the sign is a's, as in C. Gradient g for a, -g*trunc(a/b) for b.
Tensor fmod(const Tensor& a, const Tensor& b, Where where = Where::current());

/// The angle of the point (b, a), in (-pi, pi]. Floating. Gradient g*b/(a*a+b*b) for a, -g*a/(a*a+b*b) for b, both 0 at
/// the origin.
Tensor atan2(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The size of a with the sign of b. Floating. Gradient g or -g for a, 0 where a is 0; 0 for b.
Tensor copysign(const Tensor& a, const Tensor& b, Where where = Where::current());
/// sqrt(a*a + b*b) without overflow. Floating. Gradient g*a/y and g*b/y, both 0 at the origin.
Tensor hypot(const Tensor& a, const Tensor& b, Where where = Where::current());
/// log(exp(a) + exp(b)) without overflow. Floating. Gradient g*sigmoid(a-b) and g*sigmoid(b-a), both 0 where a and b
/// are the same infinity. Where the result is near 0 the error is 4 ULP of 1, not of the result.
Tensor logaddexp(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The number next to a in the direction of b. float32 and float64. Not differentiable.
Tensor nextafter(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a*log(b), 0 where a is 0 (unless b is NaN). Floating. Gradient g*log(b) and g*a/b, both 0 where a is 0 and b <= 0.
Tensor xlogy(const Tensor& a, const Tensor& b, Where where = Where::current());

Tensor logical_and(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< bool only
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = Where::current());   ///< bool only
Tensor logical_xor(const Tensor& a, const Tensor& b, Where where = Where::current());  ///< bool only

// Bit by bit, of integers or of bool. Not differentiable.
Tensor bitwise_and(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_or(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a shifted by b places; integers. As in NumPy, by the width of the type or more, or by a negative number, the result
/// is 0.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The sign moves in from the left: beyond the width, and by a negative number, the result is 0, or -1 for a < 0.
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b, Where where = Where::current());

// The same with a number, which takes the tensor's type.
Tensor add(const Tensor& a, Scalar b, Where where = Where::current());
Tensor sub(const Tensor& a, Scalar b, Where where = Where::current());
Tensor mul(const Tensor& a, Scalar b, Where where = Where::current());
Tensor div(const Tensor& a, Scalar b, Where where = Where::current());
Tensor pow(const Tensor& a, Scalar b, Where where = Where::current());
Tensor pow(Scalar a, const Tensor& b, Where where = Where::current());
Tensor maximum(const Tensor& a, Scalar b, Where where = Where::current());
Tensor minimum(const Tensor& a, Scalar b, Where where = Where::current());
Tensor fmax(const Tensor& a, Scalar b, Where where = Where::current());
Tensor fmin(const Tensor& a, Scalar b, Where where = Where::current());
Tensor floor_divide(const Tensor& a, Scalar b, Where where = Where::current());
Tensor remainder(const Tensor& a, Scalar b, Where where = Where::current());
Tensor fmod(const Tensor& a, Scalar b, Where where = Where::current());
Tensor atan2(const Tensor& a, Scalar b, Where where = Where::current());
Tensor copysign(const Tensor& a, Scalar b, Where where = Where::current());
Tensor hypot(const Tensor& a, Scalar b, Where where = Where::current());
Tensor logaddexp(const Tensor& a, Scalar b, Where where = Where::current());
Tensor xlogy(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_and(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_or(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_xor(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_left_shift(const Tensor& a, Scalar b, Where where = Where::current());
Tensor bitwise_right_shift(const Tensor& a, Scalar b, Where where = Where::current());

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

/// |a-b| <= absolute + relative*|b| for each element, computed in float64; numbers. Equal infinities are close, NaN is
/// close to NaN only if asked for. Not differentiable. NumPy's isclose.
Tensor is_close(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
                bool equal_nan = false, Where where = Where::current());

/// Elements of `a` where `condition` (bool) is true, of `b` elsewhere. All three broadcast. The gradient of the side
/// not taken is exactly 0, whatever that side's value. What that side was computed from may make NaN of the 0, as in
/// PyTorch and TensorFlow: sqrt does at 0, where its slope is infinite. Keep such values out of it as well:
/// where(x > 0, sqrt(where(x > 0, x, 1)), 0).
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where = Where::current());
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where = Where::current());
/// Of two numbers, in a type that both go with (DTypeError): see scalar.hpp.
Tensor where(const Tensor& condition, Scalar a, Scalar b, DType dtype = DType::float32, Where where = Where::current());

// --- whole-tensor questions; no broadcasting ---------------------------------------------------------------------

/// Same shape, type and values. NaN differs from everything.
bool array_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
/// Same shape, and |a-b| <= absolute + relative*|b| everywhere (NumPy's allclose, which broadcasts; this does not).
bool all_close(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8,
               Where where = Where::current());

// --- operators -------------------------------------------------------------------------------------------------

// x % y is remainder. & | ^ and ~ work bit by bit, and so on bool tensors as `and`, `or`, `xor` and `not`.
#define CAPSTAN_BINARY_OPERATOR(symbol, function)                                                             \
  inline Tensor operator symbol(const Operand& a, const Tensor& b) { return function(a.tensor, b, a.where); } \
  inline Tensor operator symbol(const Operand& a, Scalar b) { return function(a.tensor, b, a.where); }        \
  Tensor operator symbol(const ScalarOperand& a, const Tensor& b);
CAPSTAN_BINARY_OPERATOR(+, add)
CAPSTAN_BINARY_OPERATOR(-, sub)
CAPSTAN_BINARY_OPERATOR(*, mul)
CAPSTAN_BINARY_OPERATOR(/, div)
CAPSTAN_BINARY_OPERATOR(%, remainder)
CAPSTAN_BINARY_OPERATOR(&, bitwise_and)
CAPSTAN_BINARY_OPERATOR(|, bitwise_or)
CAPSTAN_BINARY_OPERATOR(^, bitwise_xor)
CAPSTAN_BINARY_OPERATOR(<<, bitwise_left_shift)
CAPSTAN_BINARY_OPERATOR(>>, bitwise_right_shift)
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
inline Tensor operator~(const Operand& x) { return bitwise_not(x.tensor, x.where); }

}  // namespace capstan
