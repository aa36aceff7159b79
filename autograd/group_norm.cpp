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

/// What a replay must know besides what is saved: x, weight, mean and inverse.
struct GroupNorm {
  double epsilon;
  std::int64_t groups;
  DType bias;  // its type
};

void group_norm_in_public(Replay& r, const GroupNorm& norm) {
  const Where where = r.where();
  const Tensor &x = r.saved(0), &weight = r.saved(1);
  const DType type = autograd::computing_type(x.dtype());
  const Axes axes = autograd::all_but_channels(x.rank(), where);
  const Shape rows({x.shape()[0], norm.groups, x.numel() / (x.shape()[0] * norm.groups)}, where);
  const Standardized groups(reshape(x.to(type, where), rows, where), -1, norm.epsilon, true, where);
  const Tensor grad = r.grad().to(type, where);
  if (r.needs(0)) {
    const Tensor through =
        weight.defined() ? mul(grad, along_channels(weight.to(type, where), x.rank(), where), where) : grad;
    const Tensor dx = groups.back(reshape(through, rows, where), where);
    r.give(0, reshape(dx, x.shape(), where).to(x.dtype(), where));
  }
  if (r.needs(1)) {
    const Tensor value = reshape(groups.value, x.shape(), where);
    r.give(1, sum(mul(grad, value, where), axes, {}, where).to(weight.dtype(), where));
  }
  if (r.needs(2)) r.give(2, sum(grad, axes, {}, where).to(norm.bias, where));
}

void group_norm_replay(Replay& r) {
  const Where where = r.where();
  const auto norm = r.attributes<GroupNorm>();
  if (autograd::listening() && r.saved(0).numel() > 0) return group_norm_in_public(r, norm);
  const Tensor x = dense(r.saved(0), where), grad = dense(r.grad(), where), weight = dense_or_none(r.saved(1), where);
  Tensor dx = r.needs(0) ? autograd::result_like(*x.impl(), where) : Tensor();
  Tensor dweight = r.needs(1) ? autograd::result_like(*weight.impl(), where) : Tensor();
  Tensor dbias;
  if (r.needs(2)) dbias = autograd::result_like(*x.impl(), Shape({x.shape()[1]}, where), norm.bias, where);
  backend_of(*x.impl(), where)
      .group_norm_backward(*grad.impl(), *x.impl(), weight.impl(), *r.saved(2).impl(), *r.saved(3).impl(), norm.groups,
                           dx.impl(), dweight.impl(), dbias.impl());
  if (r.needs(0)) r.give(0, std::move(dx));
  if (r.needs(1)) r.give(1, std::move(dweight));
  if (r.needs(2)) r.give(2, std::move(dbias));
}

/// x is floating and has channels, which `groups` divides.
Tensor normalize_groups(const char* op, const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                        double epsilon, Where where) {
  if (autograd::raises(x, weight, bias)) [[unlikely]]
    return autograd::raised(&normalize_groups, where, op, x, groups, weight, bias, epsilon);
  const TensorImpl& impl = *x.impl();
  const Shape channels({impl.shape[1]}, where);
  autograd::check_epsilon(op, epsilon, where);
  autograd::check_beside(op, "weight", weight, impl, channels, where);
  autograd::check_beside(op, "bias", bias, impl, channels, where);
  const Tensor in = dense(x, where), w = dense_or_none(weight, where), b = dense_or_none(bias, where);
  const DType type = autograd::computing_type(impl.dtype);
  const Shape rows({impl.shape[0], groups}, where);
  Tensor out = autograd::result_like(impl, where);
  const Tensor mean = autograd::result_like(impl, rows, type, where);
  const Tensor inverse = autograd::result_like(impl, rows, type, where);
  backend_of(impl, where)
      .group_norm(*in.impl(), w.impl(), b.impl(), groups, epsilon, *out.impl(), *mean.impl(), *inverse.impl());
  autograd::record(op, where, &group_norm_replay, {&x, &weight, &bias}, {&out}, {&x, &weight, &mean, &inverse},
                   GroupNorm{epsilon, groups, autograd::type_or_any(bias)});
  return out;
}

}  // namespace

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias, double epsilon,
                  Where where) {
  constexpr const char* op = "group_norm";
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const std::int64_t channels = autograd::channels_of(op, impl, 2, where)[0];
  if (groups < 1 || channels % groups != 0)
    base::fail<ShapeError>(where, op, ": ", groups, " groups were asked for and x ", impl.shape, " has ", channels,
                           " channels; groups must be 1 or more and divide the channels.");
  return normalize_groups(op, x, groups, weight, bias, epsilon, where);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon, Where where) {
  constexpr const char* op = "instance_norm";
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const std::int64_t channels = autograd::channels_of(op, impl, 3, where)[0];
  if (impl.numel() > 0 && impl.numel() == impl.shape[0] * channels)
    base::fail<ShapeError>(where, op, ": x is ", impl.shape,
                           ", which is one value for each channel of a sample; there must be two or more.");
  return normalize_groups(op, x, channels > 0 ? channels : 1, weight, bias, epsilon, where);
}

}  // namespace capstan
