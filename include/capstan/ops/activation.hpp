#pragma once
// Activations: nonlinear functions of each element; relu, sigmoid and tanh are in elementwise.hpp.
//
// All of them: floating types (DTypeError otherwise) unless the entry says more; the result is new and contiguous;
// within 4 ULP in float32 and float64; gradients are differentiable, to any order. Where a function has a kink, the
// entry says what its gradient is there: PyTorch's choice. At -infinity silu, mish and gelu are NaN, as 0 times infinity
// is; so are, at both infinities, the gradients of silu, mish and the exact gelu.
// 16-bit types are computed in float32 and rounded once.
// Defined in autograd/activation.cpp; the rules are in lib/kernels/activation_ops.hpp and parametric_ops.hpp.
#include <cstdint>

#include <capstan/ops/elementwise.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// x above 0, alpha*(exp(x/alpha) - 1) below (Barron 2017). Error unless alpha > 0.
Tensor celu(const Tensor& x, double alpha = 1, Where where = Where::current());

/// x above 0, alpha*(exp(x) - 1) below (Clevert et al. 2015). Gradient alpha*g at 0.
Tensor elu(const Tensor& x, double alpha = 1, Where where = Where::current());

enum class GeluForm : std::uint8_t {
  exact,  ///< x times the normal distribution function, x/2 * erfc(-x/sqrt(2))
  tanh    ///< x/2 * (1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))), within 5e-4 of it
};
/// Hendrycks and Gimpel, "Gaussian error linear units", 2016.
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::exact, Where where = Where::current());

/// Half of x times the sigmoid of the other half: a * sigmoid(b), where a and b are the halves of `axis` (Dauphin et
/// al. 2016). Throws IndexError for the axis, ShapeError unless its size is even.
Tensor glu(const Tensor& x, int axis = -1, Where where = Where::current());

/// 0 where |x| <= bound, else x. Gradient 0 at the bounds. Error unless bound >= 0.
Tensor hard_shrink(const Tensor& x, double bound = 0.5, Where where = Where::current());

/// (x+3)/6 limited to [0, 1]. Gradient 0 at -3 and 3.
Tensor hard_sigmoid(const Tensor& x, Where where = Where::current());

/// x times hard_sigmoid(x) (Howard et al. 2019). Gradient 0 at -3, g at 3.
Tensor hard_swish(const Tensor& x, Where where = Where::current());

/// x limited to [low, high]. Gradient 0 at the bounds, unlike `clip`. Error if low > high or NaN.
Tensor hard_tanh(const Tensor& x, double low = -1, double high = 1, Where where = Where::current());

/// x above 0, slope*x below. Gradient slope*g at 0.
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Where where = Where::current());

/// log(sigmoid(x)), without underflow.
Tensor log_sigmoid(const Tensor& x, Where where = Where::current());

/// The largest of each `pieces` places side by side along an axis (Goodfellow et al. 2013; TensorFlow's Maxout):
/// out[..., i] = max of x[..., pieces*i] to x[..., pieces*i + pieces - 1]. Ties share the gradient evenly. Numbers.
/// Throws IndexError for the axis, ShapeError unless pieces >= 1 and divides its size, DTypeError for bool.
Tensor maxout(const Tensor& x, std::int64_t pieces, int axis = -1, Where where = Where::current());

/// x * tanh(log(1 + exp(x))) (Misra 2019).
Tensor mish(const Tensor& x, Where where = Where::current());

/// x above 0, weight*x below (He et al. 2015).
///
/// Shapes    x any; weight [] or [1] for one slope, or [channels], one for each place along axis 1 of x (along axis 0
///           of a vector)
/// Gradient  for both; weight*g at 0
/// Throws    ShapeError if the weight fits neither, DTypeError, DeviceError
Tensor prelu(const Tensor& x, const Tensor& weight, Where where = Where::current());

/// x limited to [0, 6]. Numbers. Gradient 0 at the bounds; NaN stays.
Tensor relu6(const Tensor& x, Where where = Where::current());

/// 1.0507*x above 0, 1.7581*(exp(x) - 1) below, with all digits (Klambauer et al. 2017). Gradient 1.7581*g at 0.
Tensor selu(const Tensor& x, Where where = Where::current());

Tensor silu(const Tensor& x, Where where = Where::current());  ///< x*sigmoid(x), also called swish

/// x moved toward 0 by `bound`, 0 where |x| <= bound. Gradient 0 at the bounds. Error unless bound >= 0.
Tensor soft_shrink(const Tensor& x, double bound = 0.5, Where where = Where::current());

struct SoftplusOptions {
  double beta = 1;        ///< how sharp; > 0. Powers of 2 keep the 4 ULP; else the rounding of beta*x comes in
  double threshold = 20;  ///< x itself where beta*x is larger
};
/// log(1 + exp(beta*x)) / beta, without overflow. Error unless beta > 0.
Tensor softplus(const Tensor& x, const SoftplusOptions& options = {}, Where where = Where::current());

/// x / (1 + |x|); NaN at infinities.
Tensor softsign(const Tensor& x, Where where = Where::current());

/// x - tanh(x), with all its digits near 0.
Tensor tanh_shrink(const Tensor& x, Where where = Where::current());

/// x above `limit`, else `value`. Gradient 0 at the limit.
Tensor threshold(const Tensor& x, double limit, double value, Where where = Where::current());

}  // namespace capstan
