#include <capstan/ops/activation.hpp>

#include "autograd/elementwise.hpp"

namespace capstan {

using autograd::parametric;
using autograd::unary;

namespace {

/// Throws Error unless `holds`, which NaN never does.
void require_number(const char* op, const char* what, double number, bool holds, const char* rule, Where where) {
  if (!holds) base::fail<Error>(where, op, ": ", what, " is ", number, "; it must be ", rule, ".");
}

}  // namespace

Tensor gelu(const Tensor& x, GeluForm form, Where where) {
  return form == GeluForm::exact ? unary<kernels::Gelu>(x, where) : unary<kernels::GeluTanh>(x, where);
}
Tensor hard_sigmoid(const Tensor& x, Where where) { return unary<kernels::HardSigmoid>(x, where); }
Tensor hard_swish(const Tensor& x, Where where) { return unary<kernels::HardSwish>(x, where); }
Tensor log_sigmoid(const Tensor& x, Where where) { return unary<kernels::LogSigmoid>(x, where); }
Tensor mish(const Tensor& x, Where where) { return unary<kernels::Mish>(x, where); }
Tensor relu6(const Tensor& x, Where where) { return unary<kernels::Relu6>(x, where); }
Tensor selu(const Tensor& x, Where where) { return unary<kernels::Selu>(x, where); }
Tensor silu(const Tensor& x, Where where) { return unary<kernels::Silu>(x, where); }
Tensor softsign(const Tensor& x, Where where) { return unary<kernels::Softsign>(x, where); }
Tensor tanh_shrink(const Tensor& x, Where where) { return unary<kernels::TanhShrink>(x, where); }

// --- with numbers ---

Tensor celu(const Tensor& x, double alpha, Where where) {
  require_number("celu", "alpha", alpha, alpha > 0, "above 0", where);
  return parametric<kernels::Celu>(x, {alpha, 0}, where);
}
Tensor elu(const Tensor& x, double alpha, Where where) { return parametric<kernels::Elu>(x, {alpha, 0}, where); }
Tensor hard_shrink(const Tensor& x, double bound, Where where) {
  require_number("hard_shrink", "the bound", bound, bound >= 0, ">= 0", where);
  return parametric<kernels::HardShrink>(x, {bound, 0}, where);
}
Tensor hard_tanh(const Tensor& x, double low, double high, Where where) {
  if (!(low <= high))
    base::fail<Error>(where, "hard_tanh: the limits are ", low, " and ", high, "; low must not exceed high.");
  return parametric<kernels::HardTanh>(x, {low, high}, where);
}
Tensor leaky_relu(const Tensor& x, double slope, Where where) {
  return parametric<kernels::LeakyRelu>(x, {slope, 0}, where);
}
Tensor soft_shrink(const Tensor& x, double bound, Where where) {
  require_number("soft_shrink", "the bound", bound, bound >= 0, ">= 0", where);
  return parametric<kernels::SoftShrink>(x, {bound, 0}, where);
}
Tensor softplus(const Tensor& x, const SoftplusOptions& options, Where where) {
  require_number("softplus", "beta", options.beta, options.beta > 0, "above 0", where);
  return parametric<kernels::Softplus>(x, {options.beta, options.threshold}, where);
}
Tensor threshold(const Tensor& x, double limit, double value, Where where) {
  return parametric<kernels::Threshold>(x, {limit, value}, where);
}

// --- made of others ---

Tensor glu(const Tensor& x, int axis, Where where) {
  const TensorImpl& impl = core::defined("glu", x, where);
  autograd::require_floating("glu", impl, where);
  const int at = core::normalize_axis("glu", axis, impl.rank(), where);
  const std::int64_t half = impl.shape[at] / 2;
  if (impl.shape[at] % 2 != 0)
    base::fail<ShapeError>(where, "glu: axis ", axis, " of shape ", impl.shape, " has size ", impl.shape[at],
                           "; it must be even.");
  const autograd::Rollback rollback;
  return mul(narrow(x, at, 0, half, where), sigmoid(narrow(x, at, half, half, where), where), where);
}

Tensor maxout(const Tensor& x, std::int64_t pieces, int axis, Where where) {
  const TensorImpl& impl = core::defined("maxout", x, where);
  if (impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, "maxout: the tensor is bool; it must be a number type, not bool.");
  const int at = core::normalize_axis("maxout", axis, impl.rank(), where);
  if (pieces < 1 || impl.shape[at] % pieces != 0)
    base::fail<ShapeError>(where, "maxout: axis ", axis, " of shape ", impl.shape, " does not divide into groups of ",
                           pieces, "; its size must be a multiple of that, which must be >= 1.");
  std::int64_t before = 1, behind = 1;
  for (int i = 0; i < impl.rank(); ++i)
    if (i != at) (i < at ? before : behind) *= impl.shape[i];
  const std::int64_t groups = impl.shape[at] / pieces;
  const autograd::Rollback rollback;
  const Tensor grouped = reshape(x, {before, groups, pieces, behind}, where);
  return reshape(max(grouped, 2, {}, where), autograd::with_size(impl.shape, at, groups, where), where);
}

Tensor prelu(const Tensor& x, const Tensor& weight, Where where) {
  const TensorImpl &impl = core::defined("prelu", x, where), &slopes = core::defined("prelu", weight, where);
  autograd::require_floating("prelu", impl, where);
  autograd::require_floating("prelu", slopes, where);
  core::require_same_device("prelu", impl, slopes, where);
  const int axis = impl.rank() > 1 ? 1 : 0;
  const bool one = slopes.numel() == 1 && slopes.rank() <= 1;
  if (!one && !(slopes.rank() == 1 && impl.rank() > 0 && slopes.shape[0] == impl.shape[axis]))
    base::fail<ShapeError>(where, "prelu: x is ", impl.shape, " and the weight ", slopes.shape,
                           "; the weight must be [] or [1], or have one slope for each place along axis ", axis,
                           " of x.");
  const autograd::Rollback rollback;
  std::int64_t sizes[kMaxRank];
  for (int i = 0; i < impl.rank(); ++i) sizes[i] = i == axis && !one ? slopes.shape[0] : 1;
  const Shape stretched(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank())), where);
  return autograd::binary<kernels::Prelu>(x, reshape(weight, stretched, where), where);
}

}  // namespace capstan
