#pragma once
// What losses share: rows of lib/kernels/loss_ops.hpp as operations, checks of operands, weights and reductions.
#include <capstan/ops/losses.hpp>

#include "autograd/elementwise.hpp"
#include "autograd/linalg.hpp"

namespace capstan::autograd {

/// Throws unless both are floating, of one shape and on one device: "mse_loss: the prediction is [2] and the target
/// [3]; ..." if `first` is "prediction is" and `second` "target".
void require_alike(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b,
                   Where where);
/// Throws unless a weight is floating, stretches to the shape of the losses and is on their device.
void require_weight(const char* op, const char* name, const TensorImpl& losses, const Tensor& weight, Where where);

/// The sum divided by `count`, which may be 0; taken in float32 for the 16-bit types.
Tensor sum_over(const Tensor& losses, double count, Where where);
/// Means over the last axis, which may be empty.
Tensor mean_of_rows(const Tensor& x, Where where);
Tensor reduced(const Tensor& losses, Reduction reduction, Where where);
/// The same, times the weight before, if it is defined.
Tensor reduced(const char* op, const Tensor& losses, const Tensor& weight, Reduction reduction, Where where);

/// Two operands of a loss, and the type of its result. If losses are added up both have the type that it is computed in,
/// and so have the losses: one of them may leave 16 bits where their sum or mean does not.
struct Pair {
  DType type;
  Tensor a, b;

  Pair(const Tensor& x, const Tensor& y, Reduction reduction, Where where)
      : Pair(x, y, reduction != Reduction::none, where) {}
  Pair(const Tensor& x, const Tensor& y, bool added_up, Where where)
      : type(promote(x.dtype(where), y.dtype(where), where)), a(x), b(y) {
    if (!added_up) return;
    a = x.to(computing_type(type), where);
    b = y.to(computing_type(type), where);
  }
};

/// x where it is above 0, else 0. At 0 the gradient passes.
inline Tensor positive_part(const Tensor& x, Where where) { return capstan::where(less(x, 0, where), 0, x, where); }

/// Whether all elements are one: what the gradient of a sum or a mean is.
inline bool is_one_value(const TensorImpl& x) {
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.shape[axis] != 1 && x.strides[axis] != 0) return false;
  return true;
}

template <class Row>
void loss_replay(Replay& r) {
  const Where where = r.where();
  const auto p = r.attributes<double>();
  for (const int side : {0, 1}) {
    if (!r.needs(side)) continue;
    if (listening()) {
      const Value grad = in_rule(r.grad(), where), x = in_rule(r.saved(0), where), target = in_rule(r.saved(1), where),
                  number(p);
      r.give(side, out_of_rule(side == 0 ? Row::left(grad, x, target, number) : Row::right(grad, x, target, number),
                               r.saved(0).dtype(), where));
      continue;
    }
    const Tensor x = dense(r.saved(0), where), target = dense(r.saved(1), where);
    const Tensor grad = is_one_value(*r.grad().impl()) ? r.grad() : dense(r.grad(), where);
    Tensor out = result_like(*x.impl(), where);
    backend_of(*x.impl(), where)
        .loss_backward(kernels::kLossId<Row>, side == 1, p, *grad.impl(), *x.impl(), *target.impl(), *out.impl());
    r.give(side, std::move(out));
  }
}

/// A loss of each element by itself, shown as `op`. The operands are checked; a Rollback is around.
template <class Row>
Tensor loss_of_pairs(const char* op, const Tensor& x, const Tensor& target, double p, Where where) {
  const Operands operands(op, x, target, where);
  const Tensor a = dense(*operands.a, where), b = dense(*operands.b, where);
  Tensor out = result_like(*a.impl(), where);
  backend_of(*a.impl(), where).loss(kernels::kLossId<Row>, p, *a.impl(), *b.impl(), *out.impl());
  record(op, where, &loss_replay<Row>, {operands.a, operands.b}, {&out}, {operands.a, operands.b}, p);
  return out;
}

}  // namespace capstan::autograd
