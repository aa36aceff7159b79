#include "autograd/elementwise.hpp"

#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/core/scalars.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::binary;
using autograd::like;
using autograd::Operands;
using autograd::parametric;
using autograd::record;
using autograd::Replay;
using autograd::unary;
using kernels::Domain;

namespace autograd {

void wrong_type(const char* op, Domain domain, DType dtype, Where where) {
  const char* rule = domain == Domain::floating  ? "it must be a floating type."
                     : domain == Domain::numbers ? "it must be a number type, not bool."
                                                 : "it must be bool.";
  base::fail<DTypeError>(where, op, ": the tensor is ", dtype, "; ", rule);
}

Tensor like(const char* op, const Tensor& x, Scalar value, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  return core::number_tensor(op, value, impl.dtype, impl.device(), where);
}

Parameters limits_of(DType dtype, Scalar low, Scalar high, Where where) {
  const auto rounded = [&](Scalar limit) {
    const core::Element element = core::to_element("clip", limit, dtype, where);
    return core::visit_real(dtype, [&]<class T>(core::Type<T>) {
      T value;
      std::memcpy(&value, element.bytes, sizeof value);
      return core::convert<double>(value);
    });
  };
  return {rounded(low), rounded(high)};
}

void require_mixing(const char* op, DType left, DType right, Where where) {
  if (left != right && (is_floating(left) != is_floating(right) || left == DType::bool8 || right == DType::bool8))
    base::fail<DTypeError>(where, op, ": types do not mix: a is ", left, " and b is ", right,
                           "; the Array API table has no common type for them. Convert one with x.to(dtype).");
}

void Operands::convert(const char* op, Where where) {
  const DType left = a->impl()->dtype, right = b->impl()->dtype;
  require_mixing(op, left, right, where);
  const DType common = promote(left, right, where);
  converted_ = {a->to(common, where), b->to(common, where)};
  a = &converted_->a;
  b = &converted_->b;
}

}  // namespace autograd

// --- one operand ---

Tensor abs(const Tensor& x, Where where) { return unary<kernels::Abs>(x, where); }
Tensor cbrt(const Tensor& x, Where where) { return unary<kernels::Cbrt>(x, where); }
Tensor exp(const Tensor& x, Where where) { return unary<kernels::Exp>(x, where); }
Tensor exp2(const Tensor& x, Where where) { return unary<kernels::Exp2>(x, where); }
Tensor expm1(const Tensor& x, Where where) { return unary<kernels::Expm1>(x, where); }
Tensor log(const Tensor& x, Where where) { return unary<kernels::Log>(x, where); }
Tensor log10(const Tensor& x, Where where) { return unary<kernels::Log10>(x, where); }
Tensor log1p(const Tensor& x, Where where) { return unary<kernels::Log1p>(x, where); }
Tensor log2(const Tensor& x, Where where) { return unary<kernels::Log2>(x, where); }
Tensor neg(const Tensor& x, Where where) { return unary<kernels::Neg>(x, where); }
Tensor reciprocal(const Tensor& x, Where where) { return unary<kernels::Reciprocal>(x, where); }
Tensor relu(const Tensor& x, Where where) { return unary<kernels::Relu>(x, where); }
Tensor rsqrt(const Tensor& x, Where where) { return unary<kernels::Rsqrt>(x, where); }
Tensor sigmoid(const Tensor& x, Where where) { return unary<kernels::Sigmoid>(x, where); }
Tensor sqrt(const Tensor& x, Where where) { return unary<kernels::Sqrt>(x, where); }
Tensor square(const Tensor& x, Where where) { return unary<kernels::Square>(x, where); }

Tensor acos(const Tensor& x, Where where) { return unary<kernels::Acos>(x, where); }
Tensor acosh(const Tensor& x, Where where) { return unary<kernels::Acosh>(x, where); }
Tensor asin(const Tensor& x, Where where) { return unary<kernels::Asin>(x, where); }
Tensor asinh(const Tensor& x, Where where) { return unary<kernels::Asinh>(x, where); }
Tensor atan(const Tensor& x, Where where) { return unary<kernels::Atan>(x, where); }
Tensor atanh(const Tensor& x, Where where) { return unary<kernels::Atanh>(x, where); }
Tensor cos(const Tensor& x, Where where) { return unary<kernels::Cos>(x, where); }
Tensor cosh(const Tensor& x, Where where) { return unary<kernels::Cosh>(x, where); }
Tensor sin(const Tensor& x, Where where) { return unary<kernels::Sin>(x, where); }
Tensor sinh(const Tensor& x, Where where) { return unary<kernels::Sinh>(x, where); }
Tensor tan(const Tensor& x, Where where) { return unary<kernels::Tan>(x, where); }
Tensor tanh(const Tensor& x, Where where) { return unary<kernels::Tanh>(x, where); }

Tensor digamma(const Tensor& x, Where where) { return unary<kernels::Digamma>(x, where); }
Tensor erf(const Tensor& x, Where where) { return unary<kernels::Erf>(x, where); }
Tensor erfc(const Tensor& x, Where where) { return unary<kernels::Erfc>(x, where); }
Tensor erfinv(const Tensor& y, Where where) { return unary<kernels::Erfinv>(y, where); }
Tensor lgamma(const Tensor& x, Where where) { return unary<kernels::Lgamma>(x, where); }

Tensor polygamma(int n, const Tensor& x, Where where) {
  constexpr int kLargest = 100;  // the factorial is a double
  core::defined("polygamma", x, where);
  if (n < 0 || n > kLargest)
    base::fail<Error>(where, "polygamma: the order is ", n, "; it must be in [0, ", kLargest, "].");
  return autograd::polygamma_of(n, x, where);
}
Tensor autograd::polygamma_of(double order, const Tensor& x, Where where) {
  return parametric<kernels::Polygamma>(x, {order, 0}, where);
}

Tensor logit(const Tensor& x, Where where) { return unary<kernels::Logit>(x, where); }
Tensor logit(const Tensor& x, double epsilon, Where where) {
  core::defined("logit", x, where);
  autograd::require_floating("logit", *x.impl(), where);
  if (!(epsilon >= 0 && epsilon <= 0.5))
    base::fail<Error>(where, "logit: epsilon is ", epsilon, "; it must be in [0, 0.5].");
  const autograd::Rollback rollback;
  const DType wide = autograd::computing_type(x.dtype());  // 16 bits may round 1 - epsilon to 1
  return logit(clip(x.to(wide, where), epsilon, 1 - epsilon, where), where).to(x.dtype(), where);
}

Tensor ceil(const Tensor& x, Where where) { return unary<kernels::Ceil>(x, where); }
Tensor floor(const Tensor& x, Where where) { return unary<kernels::Floor>(x, where); }
Tensor round(const Tensor& x, Where where) { return unary<kernels::Round>(x, where); }
Tensor sign(const Tensor& x, Where where) { return unary<kernels::Sign>(x, where); }
Tensor trunc(const Tensor& x, Where where) { return unary<kernels::Trunc>(x, where); }

// --- two operands ---

Tensor add(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Add>(a, b, where); }
Tensor sub(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Sub>(a, b, where); }
Tensor mul(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Mul>(a, b, where); }
Tensor div(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Div>(a, b, where); }
Tensor pow(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Pow>(a, b, where); }
Tensor maximum(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Maximum>(a, b, where); }
Tensor minimum(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Minimum>(a, b, where); }
Tensor fmax(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Fmax>(a, b, where); }
Tensor fmin(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Fmin>(a, b, where); }
Tensor floor_divide(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::FloorDivide>(a, b, where); }
Tensor remainder(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Remainder>(a, b, where); }
Tensor fmod(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Fmod>(a, b, where); }
Tensor atan2(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Atan2>(a, b, where); }
Tensor copysign(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Copysign>(a, b, where); }
Tensor hypot(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Hypot>(a, b, where); }
Tensor logaddexp(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Logaddexp>(a, b, where); }
Tensor xlogy(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Xlogy>(a, b, where); }

Tensor nextafter(const Tensor& a, const Tensor& b, Where where) {
  const autograd::Rollback rollback;
  const Operands operands("nextafter", a, b, where);
  const DType dtype = operands.dtype();
  if (dtype != DType::float32 && dtype != DType::float64)  // a 16-bit type computes in float32, whose steps it loses
    base::fail<DTypeError>(where, "nextafter: the tensor is ", dtype, "; it must be float32 or float64.");
  const TensorImpl &x = *operands.a->impl(), &y = *operands.b->impl();
  Tensor out = autograd::result_like(x, operands.shape(), dtype, where);
  backend_of(x, where).binary(kernels::kBinaryId<kernels::Nextafter>, x, y, *out.impl());
  autograd::note("nextafter", where, {operands.a, operands.b}, {&out});
  return out;
}

#define CAPSTAN_NUMBER_ON_THE_RIGHT(function)                         \
  Tensor function(const Tensor& a, Scalar b, Where where) {           \
    return capstan::function(a, like(#function, a, b, where), where); \
  }
CAPSTAN_NUMBER_ON_THE_RIGHT(add)
CAPSTAN_NUMBER_ON_THE_RIGHT(sub)
CAPSTAN_NUMBER_ON_THE_RIGHT(mul)
CAPSTAN_NUMBER_ON_THE_RIGHT(div)
CAPSTAN_NUMBER_ON_THE_RIGHT(maximum)
CAPSTAN_NUMBER_ON_THE_RIGHT(minimum)
CAPSTAN_NUMBER_ON_THE_RIGHT(fmax)
CAPSTAN_NUMBER_ON_THE_RIGHT(fmin)
CAPSTAN_NUMBER_ON_THE_RIGHT(floor_divide)
CAPSTAN_NUMBER_ON_THE_RIGHT(remainder)
CAPSTAN_NUMBER_ON_THE_RIGHT(fmod)
CAPSTAN_NUMBER_ON_THE_RIGHT(atan2)
CAPSTAN_NUMBER_ON_THE_RIGHT(copysign)
CAPSTAN_NUMBER_ON_THE_RIGHT(hypot)
CAPSTAN_NUMBER_ON_THE_RIGHT(logaddexp)
CAPSTAN_NUMBER_ON_THE_RIGHT(xlogy)
#undef CAPSTAN_NUMBER_ON_THE_RIGHT
/// As one operation whose gradient is one, too, but for the exponent 0: there it is 0 even where x^-1 is infinite.
Tensor pow(const Tensor& a, Scalar b, Where where) {
  const DType dtype = core::defined("pow", a, where).dtype;
  autograd::check_domain("pow", Domain::floating, dtype, where);
  const core::Element element = core::to_element("pow", b, dtype, where);
  const double exponent = core::visit_real(dtype, [&]<class T>(core::Type<T>) {
    T value;
    std::memcpy(&value, element.bytes, sizeof value);
    return static_cast<double>(value);
  });
  if (exponent == 0) return pow(a, like("pow", a, b, where), where);
  return parametric<kernels::Power>(a, {exponent, 0}, where);
}
Tensor pow(Scalar a, const Tensor& b, Where where) { return pow(like("pow", b, a, where), b, where); }

#define CAPSTAN_NUMBER_ON_THE_LEFT(symbol, function)                   \
  Tensor operator symbol(const ScalarOperand& a, const Tensor& b) {    \
    return function(like(#function, b, a.value, a.where), b, a.where); \
  }
CAPSTAN_NUMBER_ON_THE_LEFT(+, add)
CAPSTAN_NUMBER_ON_THE_LEFT(-, sub)
CAPSTAN_NUMBER_ON_THE_LEFT(*, mul)
CAPSTAN_NUMBER_ON_THE_LEFT(/, div)
CAPSTAN_NUMBER_ON_THE_LEFT(%, remainder)
CAPSTAN_NUMBER_ON_THE_LEFT(&, bitwise_and)
CAPSTAN_NUMBER_ON_THE_LEFT(|, bitwise_or)
CAPSTAN_NUMBER_ON_THE_LEFT(^, bitwise_xor)
CAPSTAN_NUMBER_ON_THE_LEFT(<<, bitwise_left_shift)
CAPSTAN_NUMBER_ON_THE_LEFT(>>, bitwise_right_shift)
CAPSTAN_NUMBER_ON_THE_LEFT(<, less)
CAPSTAN_NUMBER_ON_THE_LEFT(<=, less_equal)
CAPSTAN_NUMBER_ON_THE_LEFT(>, greater)
CAPSTAN_NUMBER_ON_THE_LEFT(>=, greater_equal)
#undef CAPSTAN_NUMBER_ON_THE_LEFT

// --- with a condition, between types, within limits ---

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl& c = core::defined("where", condition, where);
  if (c.dtype != DType::bool8) base::fail<DTypeError>(where, "where: the condition is ", c.dtype, "; it must be bool.");
  const autograd::Rollback rollback;
  const Operands operands("where", a, b, where);
  core::require_same_device("where", c, *a.impl(), where);
  const Shape shape = core::broadcast_shapes("where", c.shape, operands.shape(), where);
  Tensor out = autograd::result_like(*operands.a->impl(), shape, operands.dtype(), where);
  backend_of(c, where).select(c, *operands.a->impl(), *operands.b->impl(), *out.impl());
  if (is_floating(operands.dtype()))
    record(
        "where", where,
        [](Replay& r) {
          const auto shapes = r.attributes<autograd::BinaryShapes>();
          if (r.needs(0))
            r.give(0, autograd::sum_to(capstan::where(r.saved(0), r.grad(), 0, r.where()), shapes.a, r.where()));
          if (r.needs(1))
            r.give(1, autograd::sum_to(capstan::where(r.saved(0), 0, r.grad(), r.where()), shapes.b, r.where()));
        },
        {operands.a, operands.b}, {&out}, {&condition},
        autograd::BinaryShapes{operands.a->shape(), operands.b->shape()});
  else autograd::note("where", where, {&condition, operands.a, operands.b}, {&out});
  return out;
}
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where) {
  return capstan::where(condition, a, like("where", a, b, where), where);
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where) {
  return capstan::where(condition, like("where", b, a, where), b, where);
}
Tensor where(const Tensor& condition, Scalar a, Scalar b, DType dtype, Where where) {
  const Device device = core::described("where", condition, where).device();
  const auto number = [&](Scalar value) { return core::number_tensor("where", value, dtype, device, where); };
  return capstan::where(condition, number(a), number(b), where);
}

Tensor cast(const Tensor& x, DType dtype, Where where) {
  const TensorImpl& impl = core::defined("cast", x, where);
  Tensor out = autograd::result_like(impl, impl.shape, dtype, where);
  backend_of(impl, where).copy(impl, *out.impl());
  if (is_floating(dtype) && is_floating(impl.dtype))
    record(
        "cast", where, [](Replay& r) { r.give(0, cast(r.grad(), r.attributes<DType>(), r.where())); }, {&x}, {&out}, {},
        impl.dtype);
  else autograd::note("cast", where, {&x}, {&out});
  return out;
}

Tensor clip(const Tensor& x, Scalar low, Scalar high, Where where) {
  const TensorImpl& impl = core::defined("clip", x, where);
  autograd::check_domain("clip", Domain::numbers, impl.dtype, where);
  const bool whole = low.kind() == Scalar::Kind::integer && high.kind() == Scalar::Kind::integer && !low.too_large() &&
                     !high.too_large();  // doubles would not tell large ones apart
  if (whole ? low.as_int64() > high.as_int64() : !(low.as_double() <= high.as_double()))
    base::fail<Error>(where, "clip: the limits are ", low, " and ", high, "; low must not exceed high.");
  if (is_floating(impl.dtype))
    return parametric<kernels::Clip>(x, autograd::limits_of(impl.dtype, low, high, where), where);
  const Tensor least = like("clip", x, low, where), most = like("clip", x, high, where);
  Tensor out = autograd::result_like(impl, where);
  const core::Backend& backend = backend_of(impl, where);
  backend.binary(kernels::kBinaryId<kernels::Maximum>, impl, *least.impl(), *out.impl());
  backend.binary(kernels::kBinaryId<kernels::Minimum>, *out.impl(), *most.impl(), *out.impl());
  autograd::note("clip", where, {&x}, {&out});
  return out;
}

}  // namespace capstan
