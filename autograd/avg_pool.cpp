// Average pooling, and the pooling by powers that is made of it.
#include "autograd/pooling.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::Pooling;
using autograd::record;
using autograd::Replay;
using autograd::WindowRequest;

namespace {

// Taking means and handing them back are linear, and each is the other's gradient.

Tensor hand_back(const Tensor& grad, const Pooling& pooling, Where where);

Tensor averaged(const char* op, const Tensor& x, const Pooling& pooling, Where where) {
  const Tensor packed = autograd::dense(x, where);
  const TensorImpl& impl = *packed.impl();
  Tensor out = autograd::result_like(impl, pooling.result, impl.dtype, where);
  backend_of(impl, where).avg_pool(pooling.task, impl, *out.impl());
  autograd::note_windows(pooling);
  record(
      op, where, [](Replay& r) { r.give(0, hand_back(r.grad(), r.attributes<Pooling>(), r.where())); }, {&x}, {&out},
      {}, pooling);
  return out;
}

/// Windows that adapt are those of plain pooling where each of them holds as many places, and no two hold the same.
core::PoolTask plain_if_even(const core::PoolTask& task) {
  core::PoolTask plain = task;
  plain.adaptive = false;
  for (int i = 0; task.adaptive && i < task.window.axes; ++i) {
    core::WindowAxis& a = plain.window.axis[i];
    if (a.out == 0 || a.in % a.out != 0) return task;
    a.kernel = a.stride = a.in / a.out;
  }
  return plain;
}

Tensor hand_back(const Tensor& grad, const Pooling& pooling, Where where) {
  const Tensor packed = autograd::dense(grad, where);
  const TensorImpl& impl = *packed.impl();
  Tensor out = autograd::result_like(impl, pooling.input, impl.dtype, where);
  backend_of(impl, where).avg_pool_scatter(plain_if_even(pooling.task), impl, *out.impl());
  record(
      "avg_pool_scatter", where,
      [](Replay& r) { r.give(0, averaged("avg_pool", r.grad(), r.attributes<Pooling>(), r.where())); }, {&grad}, {&out},
      {}, pooling);
  return out;
}

Tensor avg_pool(const char* op, int axes, const Tensor& x, const Sizes& kernel, const AvgPoolOptions& options,
                Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  const WindowRequest request{.stride = options.stride, .padding = options.padding, .ceil = options.ceil};
  Pooling pooling = autograd::pool_windows(op, impl.shape, axes, kernel, request, where);
  pooling.task.count_padding = options.count_include_pad && !options.padding.same();
  pooling.task.divisor = options.divisor_override;
  return averaged(op, x, pooling, where);
}

Tensor lp_pool(const char* op, const char* mean_op, int axes, const Tensor& x, double norm, const Sizes& kernel,
               const LpPoolOptions& options, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  if (!(norm > 0 && norm < __builtin_inf()))
    base::fail<Error>(where, op, ": the norm is ", norm, "; it must be above 0 and finite.");
  const WindowRequest request{.stride = options.stride, .padding = Borders(), .ceil = options.ceil};
  const Pooling pooling = autograd::pool_windows(op, impl.shape, axes, kernel, request, where);
  const autograd::Rollback rollback;
  const Tensor wide = x.to(autograd::computing_type(impl.dtype), where);  // powers may leave 16 bits where roots do not
  Tensor powers;
  if (norm < 2 && norm != 1) {  // slopes of the power at 0, or theirs, are infinite
    const Tensor zero = equal(wide, 0, where);
    powers = capstan::where(zero, 0, pow(capstan::where(zero, 1, wide, where), norm, where), where);
  } else {
    powers = pow(wide, norm, where);
  }
  double places = 1;  // of a kernel, which with ceil may be far larger than x
  for (const core::WindowAxis& a : pooling.task.window.axis) places *= static_cast<double>(a.kernel);
  const Tensor sums = mul(averaged(mean_op, powers, pooling, where), places, where);
  const Tensor none = equal(sums, 0, where);  // there the root has no slope
  const Tensor roots = pow(capstan::where(none, 1, sums, where), 1 / norm, where);
  return capstan::where(none, 0, roots, where).to(impl.dtype, where);
}

Tensor adaptive_avg_pool(const char* op, int axes, const Tensor& x, const Sizes& output_size, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  autograd::require_floating(op, impl, where);
  return averaged(op, x, autograd::adaptive_windows(op, impl.shape, axes, output_size, where), where);
}

}  // namespace

Tensor avg_pool1d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options, Where where) {
  return avg_pool("avg_pool1d", 1, x, kernel, options, where);
}
Tensor avg_pool2d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options, Where where) {
  return avg_pool("avg_pool2d", 2, x, kernel, options, where);
}
Tensor avg_pool3d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options, Where where) {
  return avg_pool("avg_pool3d", 3, x, kernel, options, where);
}

Tensor lp_pool1d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options, Where where) {
  return lp_pool("lp_pool1d", "avg_pool1d", 1, x, norm, kernel, options, where);
}
Tensor lp_pool2d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options, Where where) {
  return lp_pool("lp_pool2d", "avg_pool2d", 2, x, norm, kernel, options, where);
}
Tensor lp_pool3d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options, Where where) {
  return lp_pool("lp_pool3d", "avg_pool3d", 3, x, norm, kernel, options, where);
}

Tensor adaptive_avg_pool1d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_avg_pool("adaptive_avg_pool1d", 1, x, output_size, where);
}
Tensor adaptive_avg_pool2d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_avg_pool("adaptive_avg_pool2d", 2, x, output_size, where);
}
Tensor adaptive_avg_pool3d(const Tensor& x, Sizes output_size, Where where) {
  return adaptive_avg_pool("adaptive_avg_pool3d", 3, x, output_size, where);
}

Tensor global_avg_pool(const Tensor& x, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("global_avg_pool", x, where);
  autograd::require_floating("global_avg_pool", impl, where);
  return averaged("global_avg_pool", x, autograd::global_window("global_avg_pool", impl.shape, options, where), where);
}

}  // namespace capstan
