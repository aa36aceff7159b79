#include <capstan/ops/elementwise.hpp>

#include <cmath>

#include "autograd/ops.hpp"
#include "autograd/rule_value.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::listening;
using autograd::record;
using autograd::Replay;
using autograd::Value;
using kernels::Domain;
using kernels::Saves;

namespace {

[[noreturn]] void wrong_type(const char* op, Domain domain, DType dtype, Where where) {
  const char* rule = domain == Domain::floating  ? "it must be float32 or float64."
                     : domain == Domain::numbers ? "it must be a number type, not bool."
                                                 : "it must be bool.";
  base::fail<DTypeError>(where, op, ": the tensor is ", dtype, "; ", rule);
}

void check_domain(const char* op, Domain domain, DType dtype, Where where) {
  const bool fits =
      domain == Domain::floating ? is_floating(dtype) : (dtype == DType::bool8) == (domain == Domain::boolean);
  if (!fits) wrong_type(op, domain, dtype, where);
}

// --- one operand ---

template <class Op>
void unary_replay(Replay& r) {
  const Tensor& saved = Op::saves == Saves::nothing ? r.grad() : r.saved(0);
  if (listening()) {
    r.give(0, Op::backward(Value(r.grad(), r.where()), Value(saved, r.where())).take());
    return;
  }
  const Tensor grad = autograd::dense(r.grad(), r.where()), value = autograd::dense(saved, r.where());
  Tensor out = autograd::result_like(*grad.impl(), r.where());
  backend_of(*grad.impl(), r.where()).unary_backward(kernels::kUnaryId<Op>, *grad.impl(), *value.impl(), *out.impl());
  r.give(0, std::move(out));
}

template <class Op>
Tensor unary(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined(Op::name, x, where);
  check_domain(Op::name, Op::domain, impl.dtype, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).unary(kernels::kUnaryId<Op>, impl, *out.impl());
  if constexpr (Op::saves == Saves::nothing) record(Op::name, where, &unary_replay<Op>, {&x}, {&out}, {});
  else record(Op::name, where, &unary_replay<Op>, {&x}, {&out}, {Op::saves == Saves::input ? &x : &out});
  return out;
}

// --- two operands ---

struct BinaryShapes {
  Shape a, b;
};

/// Shape and operands of one type; `a` and `b` are replaced if they must be converted.
struct Operands {
  const Tensor *a, *b;
  Tensor converted_a, converted_b;
  Shape shape;

  Operands(const char* op, const Tensor& x, const Tensor& y, Where where) : a(&x), b(&y) {
    const TensorImpl &ix = core::defined(op, x, where), &iy = core::defined(op, y, where);
    core::require_same_device(op, ix, iy, where);
    shape = core::broadcast_shapes(op, ix.shape, iy.shape, where);
    if (ix.dtype != iy.dtype) convert(op, where);
  }
  DType dtype() const { return a->impl()->dtype; }

 private:
  void convert(const char* op, Where where) {
    const DType left = a->impl()->dtype, right = b->impl()->dtype;
    if (is_floating(left) != is_floating(right) || left == DType::bool8 || right == DType::bool8)
      base::fail<DTypeError>(where, op, ": types do not mix: a is ", left, " and b is ", right,
                             "; the Array API table has no common type for them. Convert one with x.to(dtype).");
    const DType common = promote(left, right, where);
    converted_a = a->to(common, where);
    converted_b = b->to(common, where);
    a = &converted_a;
    b = &converted_b;
  }
};

/// `Shapes` is BinaryShapes if an operand was stretched, else NoAttributes.
template <class Op, class Shapes>
void binary_replay(Replay& r) {
  // saved: those of a, b and the result that some needed side reads; the others are undefined
  const Where where = r.where();
  const Value grad(r.grad(), where), a(r.saved(0), where), b(r.saved(1), where), y(r.saved(2), where);
  const auto give = [&](int input, Tensor gradient) {
    if constexpr (!std::is_empty_v<Shapes>) {
      const auto shapes = r.attributes<Shapes>();
      gradient = autograd::sum_to(gradient, input == 0 ? shapes.a : shapes.b, where);
    }
    r.give(input, std::move(gradient));
  };
  if (r.needs(0)) give(0, Op::left(grad, a, b, y).take());
  if (r.needs(1)) give(1, Op::right(grad, a, b, y).take());
}

template <class Op>
Tensor binary(const Tensor& x, const Tensor& y, Where where) {
  const autograd::Rollback rollback;  // conversions are recorded before the rest is known to work
  const Operands operands(Op::name, x, y, where);
  check_domain(Op::name, Op::domain, operands.dtype(), where);
  const TensorImpl &a = *operands.a->impl(), &b = *operands.b->impl();
  Tensor out = autograd::result_like(a, operands.shape, a.dtype, where);
  backend_of(a, where).binary(kernels::kBinaryId<Op>, a, b, *out.impl());
  if (listening()) {
    const Tensor none;
    const Tensor* left[] = {operands.a};
    const Tensor* right[] = {operands.b};
    const unsigned reads =
        (autograd::followers(left) != 0 ? Op::left_reads : 0) | (autograd::followers(right) != 0 ? Op::right_reads : 0);
    const std::initializer_list<const Tensor*> saved = {reads & kernels::kReadsA ? operands.a : &none,
                                                        reads & kernels::kReadsB ? operands.b : &none,
                                                        reads & kernels::kReadsResult ? &out : &none};
    if (a.shape == b.shape)
      record(Op::name, where, &binary_replay<Op, autograd::NoAttributes>, {operands.a, operands.b}, {&out}, saved);
    else
      record(Op::name, where, &binary_replay<Op, BinaryShapes>, {operands.a, operands.b}, {&out}, saved,
             BinaryShapes{a.shape, b.shape});
  }
  return out;
}

Tensor like(const char* op, const Tensor& x, Scalar value, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  return core::scalar_tensor(op, value, impl.dtype, impl.device(), where);
}

/// `exchanged`: the sides of `kind` are exchanged, so that less serves greater too.
Tensor compare(const char* op, kernels::Compare kind, const Tensor& x, const Tensor& y, Where where,
               bool exchanged = false) {
  const Operands operands(op, x, y, where);
  const bool order = kind == kernels::Compare::less || kind == kernels::Compare::less_equal;
  if (order && operands.dtype() == DType::bool8) wrong_type(op, Domain::numbers, DType::bool8, where);
  const TensorImpl &a = *operands.a->impl(), &b = *operands.b->impl();
  Tensor out = autograd::result_like(a, operands.shape, DType::bool8, where);
  backend_of(a, where).compare(kind, exchanged ? b : a, exchanged ? a : b, *out.impl());
  return out;
}

Tensor logical(const char* op, int kind, const Tensor& x, const Tensor& y, Where where) {
  const Operands operands(op, x, y, where);
  check_domain(op, Domain::boolean, operands.dtype(), where);
  Tensor out = autograd::result_like(*x.impl(), operands.shape, DType::bool8, where);
  backend_of(*x.impl(), where).logical(kind, *x.impl(), *y.impl(), *out.impl());
  return out;
}

}  // namespace

Tensor abs(const Tensor& x, Where where) { return unary<kernels::Abs>(x, where); }
Tensor exp(const Tensor& x, Where where) { return unary<kernels::Exp>(x, where); }
Tensor log(const Tensor& x, Where where) { return unary<kernels::Log>(x, where); }
Tensor neg(const Tensor& x, Where where) { return unary<kernels::Neg>(x, where); }
Tensor reciprocal(const Tensor& x, Where where) { return unary<kernels::Reciprocal>(x, where); }
Tensor relu(const Tensor& x, Where where) { return unary<kernels::Relu>(x, where); }
Tensor sigmoid(const Tensor& x, Where where) { return unary<kernels::Sigmoid>(x, where); }
Tensor sqrt(const Tensor& x, Where where) { return unary<kernels::Sqrt>(x, where); }
Tensor square(const Tensor& x, Where where) { return unary<kernels::Square>(x, where); }
Tensor tanh(const Tensor& x, Where where) { return unary<kernels::Tanh>(x, where); }
Tensor logical_not(const Tensor& x, Where where) { return logical("logical_not", 2, x, x, where); }

Tensor add(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Add>(a, b, where); }
Tensor sub(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Sub>(a, b, where); }
Tensor mul(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Mul>(a, b, where); }
Tensor div(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Div>(a, b, where); }
Tensor pow(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Pow>(a, b, where); }
Tensor maximum(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Maximum>(a, b, where); }
Tensor minimum(const Tensor& a, const Tensor& b, Where where) { return binary<kernels::Minimum>(a, b, where); }
Tensor logical_and(const Tensor& a, const Tensor& b, Where where) { return logical("logical_and", 0, a, b, where); }
Tensor logical_or(const Tensor& a, const Tensor& b, Where where) { return logical("logical_or", 1, a, b, where); }

Tensor add(const Tensor& a, Scalar b, Where where) { return add(a, like("add", a, b, where), where); }
Tensor sub(const Tensor& a, Scalar b, Where where) { return sub(a, like("sub", a, b, where), where); }
Tensor mul(const Tensor& a, Scalar b, Where where) { return mul(a, like("mul", a, b, where), where); }
Tensor div(const Tensor& a, Scalar b, Where where) { return div(a, like("div", a, b, where), where); }
Tensor pow(const Tensor& a, Scalar b, Where where) { return pow(a, like("pow", a, b, where), where); }
Tensor pow(Scalar a, const Tensor& b, Where where) { return pow(like("pow", b, a, where), b, where); }
Tensor maximum(const Tensor& a, Scalar b, Where where) { return maximum(a, like("maximum", a, b, where), where); }
Tensor minimum(const Tensor& a, Scalar b, Where where) { return minimum(a, like("minimum", a, b, where), where); }

using kernels::Compare;

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
Tensor equal(const Tensor& a, Scalar b, Where where) { return equal(a, like("equal", a, b, where), where); }
Tensor not_equal(const Tensor& a, Scalar b, Where where) { return not_equal(a, like("not_equal", a, b, where), where); }
Tensor less(const Tensor& a, Scalar b, Where where) { return less(a, like("less", a, b, where), where); }
Tensor less_equal(const Tensor& a, Scalar b, Where where) {
  return less_equal(a, like("less_equal", a, b, where), where);
}
Tensor greater(const Tensor& a, Scalar b, Where where) { return greater(a, like("greater", a, b, where), where); }
Tensor greater_equal(const Tensor& a, Scalar b, Where where) {
  return greater_equal(a, like("greater_equal", a, b, where), where);
}

#define CAPSTAN_SCALAR_ON_THE_LEFT(symbol, function)                   \
  Tensor operator symbol(const ScalarOperand& a, const Tensor& b) {    \
    return function(like(#function, b, a.value, a.where), b, a.where); \
  }
CAPSTAN_SCALAR_ON_THE_LEFT(+, add)
CAPSTAN_SCALAR_ON_THE_LEFT(-, sub)
CAPSTAN_SCALAR_ON_THE_LEFT(*, mul)
CAPSTAN_SCALAR_ON_THE_LEFT(/, div)
CAPSTAN_SCALAR_ON_THE_LEFT(<, less)
CAPSTAN_SCALAR_ON_THE_LEFT(<=, less_equal)
CAPSTAN_SCALAR_ON_THE_LEFT(>, greater)
CAPSTAN_SCALAR_ON_THE_LEFT(>=, greater_equal)
#undef CAPSTAN_SCALAR_ON_THE_LEFT

// --- with a condition, between types, within limits ---

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  const TensorImpl& c = core::defined("where", condition, where);
  if (c.dtype != DType::bool8) base::fail<DTypeError>(where, "where: the condition is ", c.dtype, "; it must be bool.");
  const autograd::Rollback rollback;
  const Operands operands("where", a, b, where);
  core::require_same_device("where", c, *a.impl(), where);
  const Shape shape = core::broadcast_shapes("where", c.shape, operands.shape, where);
  Tensor out = autograd::result_like(*operands.a->impl(), shape, operands.dtype(), where);
  backend_of(c, where).select(c, *operands.a->impl(), *operands.b->impl(), *out.impl());
  if (is_floating(operands.dtype()))
    record(
        "where", where,
        [](Replay& r) {
          const auto shapes = r.attributes<BinaryShapes>();
          if (r.needs(0))
            r.give(0, autograd::sum_to(capstan::where(r.saved(0), r.grad(), 0, r.where()), shapes.a, r.where()));
          if (r.needs(1))
            r.give(1, autograd::sum_to(capstan::where(r.saved(0), 0, r.grad(), r.where()), shapes.b, r.where()));
        },
        {operands.a, operands.b}, {&out}, {&condition}, BinaryShapes{operands.a->shape(), operands.b->shape()});
  return out;
}
Tensor where(const Tensor& condition, const Tensor& a, Scalar b, Where where) {
  return capstan::where(condition, a, like("where", a, b, where), where);
}
Tensor where(const Tensor& condition, Scalar a, const Tensor& b, Where where) {
  return capstan::where(condition, like("where", b, a, where), b, where);
}

Tensor cast(const Tensor& x, DType dtype, Where where) {
  const TensorImpl& impl = core::defined("cast", x, where);
  Tensor out = autograd::result_like(impl, impl.shape, dtype, where);
  backend_of(impl, where).copy(impl, *out.impl());
  if (is_floating(dtype) && is_floating(impl.dtype))
    record(
        "cast", where, [](Replay& r) { r.give(0, cast(r.grad(), r.attributes<DType>(), r.where())); }, {&x}, {&out}, {},
        impl.dtype);
  return out;
}

Tensor clip(const Tensor& x, Scalar low, Scalar high, Where where) {
  const TensorImpl& impl = core::defined("clip", x, where);
  check_domain("clip", Domain::numbers, impl.dtype, where);
  if (!(low.as_double() <= high.as_double()))
    base::fail<Error>(where, "clip: the limits are ", low, " and ", high, "; low must not exceed high.");
  const Tensor least = like("clip", x, low, where), most = like("clip", x, high, where);
  Tensor out = autograd::result_like(impl, where);
  const core::Backend& backend = backend_of(impl, where);
  backend.binary(kernels::kBinaryId<kernels::Maximum>, impl, *least.impl(), *out.impl());
  backend.binary(kernels::kBinaryId<kernels::Minimum>, *out.impl(), *most.impl(), *out.impl());
  struct Limits {
    double low, high;
  };
  record(
      "clip", where,
      [](Replay& r) {
        const auto limits = r.attributes<Limits>();
        const Tensor inside = logical_and(greater_equal(r.saved(0), limits.low, r.where()),
                                          less_equal(r.saved(0), limits.high, r.where()), r.where());
        r.give(0, capstan::where(inside, r.grad(), 0, r.where()));
      },
      {&x}, {&out}, {&x}, Limits{low.as_double(), high.as_double()});
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
