#pragma once
// How rows of lib/kernels become differentiable operations: check, compute, record.
#include <optional>

#include "autograd/ops.hpp"
#include "autograd/rule_value.hpp"

namespace capstan::autograd {

using kernels::Domain;
using kernels::Saves;

[[noreturn]] void wrong_type(const char* op, Domain domain, DType dtype, Where where);
inline void check_domain(const char* op, Domain domain, DType dtype, Where where) {
  const bool fits =
      domain == Domain::floating ? is_floating(dtype) : (dtype == DType::bool8) == (domain == Domain::boolean);
  if (!fits) [[unlikely]]
    wrong_type(op, domain, dtype, where);
}
/// Throws DTypeError if two operands have no common type.
void require_mixing(const char* op, DType left, DType right, Where where);
/// A number as a tensor of shape [] and of x's type.
Tensor like(const char* op, const Tensor& x, Scalar value, Where where);

template <class Op, class... Rows>
inline constexpr bool kIsOneOf = (std::is_same_v<Op, Rows> || ...);
/// The rows that autocast computes in float32: those of PyTorch's list, and exp2 as exp.
template <class Op>
inline constexpr bool kNeedsRange =
    kIsOneOf<Op, kernels::Acos, kernels::Asin, kernels::Cosh, kernels::Erfinv, kernels::Exp, kernels::Exp2,
             kernels::Expm1, kernels::Log, kernels::Log10, kernels::Log1p, kernels::Log2, kernels::Pow, kernels::Power,
             kernels::Reciprocal, kernels::Rsqrt, kernels::Sinh, kernels::Softplus, kernels::Tan>;

// --- rules as operations, for tapes that listen ---

/// 16-bit types in float32, which kernels compute them in as well: so both round once.
inline Value in_rule(const Tensor& x, Where where) {
  if (x.defined() && is_half(x.impl()->dtype)) return {x.to(DType::float32, where), where};
  return {x, where};
}
inline Tensor out_of_rule(Value&& gradient, DType dtype, Where where) {
  return std::move(gradient).take().to(dtype, where);
}

// --- one operand ---

template <class Op>
void unary_replay(Replay& r) {
  const Tensor& saved = Op::saves == Saves::nothing ? r.grad() : r.saved(0);
  if (listening()) {
    const Where where = r.where();
    r.give(0, out_of_rule(Op::backward(in_rule(r.grad(), where), in_rule(saved, where)), r.grad().dtype(), where));
    return;
  }
  const Tensor grad = dense(r.grad(), r.where()), value = dense(saved, r.where());
  Tensor out = result_like(*grad.impl(), r.where());
  backend_of(*grad.impl(), r.where()).unary_backward(kernels::kUnaryId<Op>, *grad.impl(), *value.impl(), *out.impl());
  r.give(0, std::move(out));
}

template <class Op>
Tensor unary(const Tensor& x, Where where) {
  if constexpr (kNeedsRange<Op>) {
    if (raises(x)) [[unlikely]]
      return raised(&unary<Op>, where, x);
  }
  const TensorImpl& impl = core::defined(Op::name, x, where);
  check_domain(Op::name, Op::domain, impl.dtype, where);
  Tensor out = result_like(impl, where);
  backend_of(impl, where).unary(kernels::kUnaryId<Op>, impl, *out.impl());
  if constexpr (Op::saves == Saves::nothing) record(Op::name, where, &unary_replay<Op>, {&x}, {&out}, {});
  else record(Op::name, where, &unary_replay<Op>, {&x}, {&out}, {Op::saves == Saves::input ? &x : &out});
  return out;
}

// --- one operand and two numbers ---

struct Parameters {
  double p, q;
};

/// The limits of `clip` as numbers of the tensor's type, which its values are compared with.
Parameters limits_of(DType dtype, Scalar low, Scalar high, Where where);

template <class Op>
void parametric_replay(Replay& r) {
  const auto [p, q] = r.attributes<Parameters>();
  const Where where = r.where();
  if (listening()) {
    r.give(0, out_of_rule(Op::backward(in_rule(r.grad(), where), in_rule(r.saved(0), where), Value(p), Value(q)),
                          r.grad().dtype(), where));
    return;
  }
  const Tensor grad = dense(r.grad(), where), x = dense(r.saved(0), where);
  Tensor out = result_like(*grad.impl(), where);
  backend_of(*grad.impl(), where)
      .parametric_backward(kernels::kParametricId<Op>, p, q, *grad.impl(), *x.impl(), *out.impl());
  r.give(0, std::move(out));
}

template <class Op>
Tensor parametric(const Tensor& x, Parameters parameters, Where where) {
  if constexpr (kNeedsRange<Op>) {
    if (raises(x)) [[unlikely]]
      return raised(&parametric<Op>, where, x, parameters);
  }
  const TensorImpl& impl = core::defined(Op::name, x, where);
  check_domain(Op::name, Domain::floating, impl.dtype, where);
  Tensor out = result_like(impl, where);
  backend_of(impl, where).parametric(kernels::kParametricId<Op>, parameters.p, parameters.q, impl, *out.impl());
  record(Op::name, where, &parametric_replay<Op>, {&x}, {&out}, {&x}, parameters);
  return out;
}

// --- two operands ---

struct BinaryShapes {
  Shape a, b;
};

/// Shape and operands of one type; `a` and `b` are replaced if they must be converted.
struct Operands {
  const Tensor *a, *b;

  Operands(const char* op, const Tensor& x, const Tensor& y, Where where) : a(&x), b(&y) {
    const TensorImpl &ix = core::defined(op, x, where), &iy = core::defined(op, y, where);
    core::require_same_device(op, ix, iy, where);
    if (!(ix.shape == iy.shape)) broadcast_ = core::broadcast_shapes(op, ix.shape, iy.shape, where);
    if (ix.dtype != iy.dtype) [[unlikely]]
      convert(op, where);
  }
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  DType dtype() const { return a->impl()->dtype; }
  const Shape& shape() const { return broadcast_ ? *broadcast_ : a->impl()->shape; }

 private:
  void convert(const char* op, Where where);

  struct Converted {
    Tensor a, b;
  };
  std::optional<Converted> converted_;
  std::optional<Shape> broadcast_;  // if the operands are of several shapes
};

/// The rows whose gradients are one operation, or none.
template <class Op>
inline constexpr bool kRoundsOnce = kIsOneOf<Op, kernels::Add, kernels::Copysign, kernels::Fmax, kernels::Fmin,
                                             kernels::Maximum, kernels::Minimum, kernels::Mul, kernels::Sub>;

/// `Shapes` is BinaryShapes if an operand was stretched, else NoAttributes.
template <class Op, class Shapes>
void binary_replay(Replay& r) {
  // saved: those of a, b and the result that some needed side reads; the others are undefined
  const Where where = r.where();
  const auto value = [where](const Tensor& x) { return kRoundsOnce<Op> ? Value(x, where) : in_rule(x, where); };
  const Value grad = value(r.grad()), a = value(r.saved(0)), b = value(r.saved(1)), y = value(r.saved(2));
  const auto give = [&](int input, Tensor gradient) {
    if constexpr (!std::is_empty_v<Shapes>) {
      const auto shapes = r.attributes<Shapes>();
      gradient = sum_to(gradient, input == 0 ? shapes.a : shapes.b, where);
    }
    if constexpr (!kRoundsOnce<Op>) gradient = gradient.to(r.grad().dtype(), where);
    r.give(input, std::move(gradient));
  };
  if (r.needs(0)) give(0, Op::left(grad, a, b, y).take());
  if (r.needs(1)) give(1, Op::right(grad, a, b, y).take());
}

/// Away from the operation itself, which is short as long as nobody attends.
template <class Op>
__attribute__((noinline)) void record_binary(const Operands& operands, Tensor& out, Where where) {
  const Shape &a = operands.a->impl()->shape, &b = operands.b->impl()->shape;
  const Tensor none;
  const unsigned reads =
      (is_followed(*operands.a) ? Op::left_reads : 0) | (is_followed(*operands.b) ? Op::right_reads : 0);
  const std::initializer_list<const Tensor*> saved = {reads & kernels::kReadsA ? operands.a : &none,
                                                      reads & kernels::kReadsB ? operands.b : &none,
                                                      reads & kernels::kReadsResult ? &out : &none};
  if (a == b) record(Op::name, where, &binary_replay<Op, NoAttributes>, {operands.a, operands.b}, {&out}, saved);
  else
    record(Op::name, where, &binary_replay<Op, BinaryShapes>, {operands.a, operands.b}, {&out}, saved,
           BinaryShapes{a, b});
}

template <class Op>
Tensor binary(const Tensor& x, const Tensor& y, Where where) {
  if constexpr (kNeedsRange<Op>) {
    if (raises(x, y)) [[unlikely]]
      return raised(&binary<Op>, where, x, y);
  }
  const Rollback rollback;  // conversions are recorded before the rest is known to work
  const Operands operands(Op::name, x, y, where);
  check_domain(Op::name, Op::domain, operands.dtype(), where);
  const TensorImpl &a = *operands.a->impl(), &b = *operands.b->impl();
  Tensor out = result_like(a, operands.shape(), a.dtype, where);
  backend_of(a, where).binary(kernels::kBinaryId<Op>, a, b, *out.impl());
  if (attended()) record_binary<Op>(operands, out, where);
  return out;
}

}  // namespace capstan::autograd
