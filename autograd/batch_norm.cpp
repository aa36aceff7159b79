#include <capstan/ops/normalization.hpp>

#include "autograd/normalizing.hpp"

namespace capstan {

using autograd::along_channels;
using autograd::backend_of;
using autograd::dense;
using autograd::dense_or_none;
using autograd::Replay;
using autograd::Standardized;

namespace {

/// What a replay must know besides what is saved.
struct ChannelNorm {
  double epsilon;
  DType bias;  // its type
};

/// What the kernel finds: the gradient for x, and the sums of grad * result and of grad for each channel.
struct Sums {
  Tensor dx, value, grad;
};

Sums fused_gradients(Replay& r, const Tensor& weight, const Tensor& mean, const Tensor& inverse, bool training,
                     bool sums) {
  const Where where = r.where();
  const Tensor x = dense(r.saved(0), where), grad = dense(r.grad(), where), w = dense_or_none(weight, where);
  const Tensor center = dense(mean, where);
  Sums result;
  if (r.needs(0)) result.dx = autograd::result_like(*x.impl(), where);
  if (sums) result.value = autograd::result_like(*inverse.impl(), where);
  if (sums) result.grad = autograd::result_like(*inverse.impl(), where);
  backend_of(*x.impl(), where)
      .batch_norm_backward(*grad.impl(), *x.impl(), w.impl(), *center.impl(), *inverse.impl(), training,
                           result.dx.impl(), result.value.impl(), result.grad.impl());
  return result;
}

// --- statistics of the batch ---

/// Recorded, or for gradients that come through the statistics. Inputs: x, weight, bias; results: output, mean and
/// variance.
void training_in_public(Replay& r, const ChannelNorm& norm) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &weight = r.saved(1);
  const DType type = autograd::computing_type(x.dtype());
  const Axes axes = autograd::all_but_channels(x.rank(), where);
  const Standardized channels(x.to(type, where), axes, norm.epsilon, true, where);
  const double share = static_cast<double>(x.shape()[1]) / static_cast<double>(x.numel());
  Tensor dx;
  const auto add_up = [&](const Tensor& part) { dx = dx.defined() ? add(dx, part, where) : part; };
  if (r.grad(0).defined()) {
    const Tensor grad = r.grad(0).to(type, where);
    if (r.needs(0)) {
      const Tensor through =
          weight.defined() ? mul(grad, along_channels(weight.to(type, where), x.rank(), where), where) : grad;
      add_up(channels.back(through, where));
    }
    if (r.needs(1)) r.give(1, sum(mul(grad, channels.value, where), axes, {}, where).to(weight.dtype(), where));
    if (r.needs(2)) r.give(2, sum(grad, axes, {}, where).to(norm.bias, where));
  }
  if (!r.needs(0)) return;
  if (r.grad(1).defined())
    add_up(broadcast_to(along_channels(mul(r.grad(1), share, where), x.rank(), where), x.shape(), where));
  if (r.grad(2).defined())
    add_up(mul(channels.distance, along_channels(mul(r.grad(2), 2 * share, where), x.rank(), where), where));
  r.give(0, dx.to(x.dtype(), where));
}

void training_replay(Replay& r) {
  const auto norm = r.attributes<ChannelNorm>();
  const bool plain = r.grad(0).defined() && !r.grad(1).defined() && !r.grad(2).defined();
  if (r.saved(0).numel() > 0 && (autograd::listening() || !plain)) return training_in_public(r, norm);
  if (!r.grad(0).defined()) {  // statistics of nothing
    if (r.needs(0)) r.give(0, autograd::result_like(*r.saved(0).impl(), r.where()));
    return;
  }
  Sums sums = fused_gradients(r, r.saved(1), r.saved(2), r.saved(3), true, r.needs(1) || r.needs(2));
  if (r.needs(0)) r.give(0, std::move(sums.dx));
  if (r.needs(1)) r.give(1, autograd::converted(sums.value, r.saved(1).dtype(), r.where()));
  if (r.needs(2)) r.give(2, autograd::converted(sums.grad, norm.bias, r.where()));
}

// --- given statistics ---

/// Inputs: x, mean, variance, weight, bias.
void given_in_public(Replay& r, const ChannelNorm& norm) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &weight = r.saved(1), &mean = r.saved(2), &variance = r.saved(4);
  const DType type = autograd::computing_type(x.dtype());
  const int rank = x.rank();
  const Axes axes = autograd::all_but_channels(rank, where);
  const Tensor inverse = rsqrt(add(variance.to(type, where), norm.epsilon, where), where);
  const Tensor factor = weight.defined() ? mul(inverse, weight.to(type, where), where) : inverse;
  const Tensor grad = r.grad().to(type, where), center = along_channels(mean.to(type, where), rank, where);
  const Tensor distance = sub(x.to(type, where), center, where);
  if (r.needs(0)) r.give(0, mul(grad, along_channels(factor, rank, where), where).to(x.dtype(), where));
  const Tensor sums = sum(grad, axes, {}, where);
  if (r.needs(1)) r.give(1, neg(mul(sums, factor, where), where).to(mean.dtype(), where));
  if (r.needs(4)) r.give(4, sums.to(norm.bias, where));
  if (!r.needs(2) && !r.needs(3)) return;
  const Tensor values = mul(sum(mul(grad, distance, where), axes, {}, where), inverse, where);
  if (r.needs(2)) {
    const Tensor slope = mul(mul(factor, inverse, where), -0.5, where);
    r.give(2, mul(values, slope, where).to(variance.dtype(), where));
  }
  if (r.needs(3)) r.give(3, values.to(weight.dtype(), where));
}

void given_replay(Replay& r) {
  const Where where = r.where();
  const auto norm = r.attributes<ChannelNorm>();
  if (autograd::listening()) return given_in_public(r, norm);
  const Tensor &weight = r.saved(1), &inverse = r.saved(3);
  const bool statistics = r.needs(1) || r.needs(2);
  Sums sums = fused_gradients(r, weight, r.saved(2), inverse, false, statistics || r.needs(3) || r.needs(4));
  if (statistics) {
    const Tensor factor = weight.defined() ? mul(inverse, weight.to(inverse.dtype(), where), where) : inverse;
    if (r.needs(1)) r.give(1, neg(mul(sums.grad, factor, where), where).to(r.saved(2).dtype(), where));
    if (r.needs(2)) {
      const Tensor slope = mul(mul(factor, inverse, where), -0.5, where);
      r.give(2, mul(sums.value, slope, where).to(r.saved(4).dtype(), where));
    }
  }
  if (r.needs(0)) r.give(0, std::move(sums.dx));
  if (r.needs(3)) r.give(3, autograd::converted(sums.value, weight.dtype(), where));
  if (r.needs(4)) r.give(4, autograd::converted(sums.grad, norm.bias, where));
}

/// What both forms check. Returns [channels].
Shape check(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const Shape channels = autograd::channels_of(op, impl, 2, where);
  autograd::check_epsilon(op, epsilon, where);
  autograd::check_beside(op, "weight", weight, impl, channels, where);
  autograd::check_beside(op, "bias", bias, impl, channels, where);
  return channels;
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight, const Tensor& bias,
                  double epsilon, Where where) {
  if (autograd::raises(x, mean, variance, weight, bias)) [[unlikely]]
    return autograd::raised(&batch_norm, where, x, mean, variance, weight, bias, epsilon);
  constexpr const char* op = "batch_norm";
  const Shape channels = check(op, x, weight, bias, epsilon, where);
  const TensorImpl& impl = *x.impl();
  core::defined(op, mean, where);
  core::defined(op, variance, where);
  autograd::check_beside(op, "mean", mean, impl, channels, where);
  autograd::check_beside(op, "variance", variance, impl, channels, where);
  const Tensor in = dense(x, where), m = dense(mean, where), v = dense(variance, where);
  const Tensor w = dense_or_none(weight, where), b = dense_or_none(bias, where);
  Tensor out = autograd::result_like(impl, where);
  const Tensor inverse = autograd::result_like(impl, channels, autograd::computing_type(impl.dtype), where);
  backend_of(impl, where)
      .batch_norm(*in.impl(), *m.impl(), *v.impl(), w.impl(), b.impl(), epsilon, *out.impl(), *inverse.impl());
  autograd::record(op, where, &given_replay, {&x, &mean, &variance, &weight, &bias}, {&out},
                   {&x, &weight, &mean, &inverse, &variance}, ChannelNorm{epsilon, autograd::type_or_any(bias)});
  return out;
}

BatchNormResult batch_norm_training(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon,
                                    Where where) {
  if (autograd::raises(x, weight, bias)) [[unlikely]]
    return autograd::raised(&batch_norm_training, where, x, weight, bias, epsilon);
  constexpr const char* op = "batch_norm_training";
  const Shape channels = check(op, x, weight, bias, epsilon, where);
  const TensorImpl& impl = *x.impl();
  if (impl.numel() > 0 && impl.numel() == channels[0])
    base::fail<ShapeError>(where, op, ": x is ", impl.shape,
                           ", which is one value for each channel; there must be two or more.");
  const Tensor in = dense(x, where), w = dense_or_none(weight, where), b = dense_or_none(bias, where);
  const DType type = autograd::computing_type(impl.dtype);
  BatchNormResult result{autograd::result_like(impl, where), autograd::result_like(impl, channels, type, where),
                         autograd::result_like(impl, channels, type, where)};
  const Tensor inverse = autograd::result_like(impl, channels, type, where);
  backend_of(impl, where)
      .batch_norm_training(*in.impl(), w.impl(), b.impl(), epsilon, *result.output.impl(), *result.mean.impl(),
                           *result.variance.impl(), *inverse.impl());
  autograd::record(op, where, &training_replay, {&x, &weight, &bias}, {&result.output, &result.mean, &result.variance},
                   {&x, &weight, &result.mean, &inverse}, ChannelNorm{epsilon, autograd::type_or_any(bias)});
  return result;
}

}  // namespace capstan
