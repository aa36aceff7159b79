#include <capstan/nn/activation.hpp>

#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/reduce.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

Tensor Relu::operator()(const Tensor& x, Where where) const { return relu(x, where); }
Tensor Relu6::operator()(const Tensor& x, Where where) const { return relu6(x, where); }
Tensor Selu::operator()(const Tensor& x, Where where) const { return selu(x, where); }
Tensor Sigmoid::operator()(const Tensor& x, Where where) const { return sigmoid(x, where); }
Tensor Tanh::operator()(const Tensor& x, Where where) const { return tanh(x, where); }
Tensor LogSigmoid::operator()(const Tensor& x, Where where) const { return log_sigmoid(x, where); }
Tensor HardSigmoid::operator()(const Tensor& x, Where where) const { return hard_sigmoid(x, where); }
Tensor HardSwish::operator()(const Tensor& x, Where where) const { return hard_swish(x, where); }
Tensor Mish::operator()(const Tensor& x, Where where) const { return mish(x, where); }
Tensor Softsign::operator()(const Tensor& x, Where where) const { return softsign(x, where); }
Tensor TanhShrink::operator()(const Tensor& x, Where where) const { return tanh_shrink(x, where); }

Tensor LeakyRelu::operator()(const Tensor& x, Where where) const { return leaky_relu(x, slope, where); }
Tensor Elu::operator()(const Tensor& x, Where where) const { return elu(x, alpha, where); }
Tensor Celu::operator()(const Tensor& x, Where where) const { return celu(x, alpha, where); }
Tensor Gelu::operator()(const Tensor& x, Where where) const { return gelu(x, form, where); }
Tensor Softplus::operator()(const Tensor& x, Where where) const {
  return softplus(x, {.beta = beta, .threshold = threshold}, where);
}
Tensor HardTanh::operator()(const Tensor& x, Where where) const { return hard_tanh(x, low, high, where); }
Tensor HardShrink::operator()(const Tensor& x, Where where) const { return hard_shrink(x, bound, where); }
Tensor SoftShrink::operator()(const Tensor& x, Where where) const { return soft_shrink(x, bound, where); }
Tensor Threshold::operator()(const Tensor& x, Where where) const { return capstan::threshold(x, limit, value, where); }

Tensor Softmax::operator()(const Tensor& x, Where where) const { return softmax(x, axis, where); }
Tensor LogSoftmax::operator()(const Tensor& x, Where where) const { return log_softmax(x, axis, where); }
Tensor Glu::operator()(const Tensor& x, Where where) const { return glu(x, axis, where); }
Tensor Maxout::operator()(const Tensor& x, Where where) const { return maxout(x, pieces, axis, where); }

PRelu::PRelu(const PReluOptions& options, Rng& rng, Where where) {
  check_floating("PRelu", options.dtype, where);
  if (options.channels < 1)
    base::fail<ShapeError>(where, "PRelu: ", options.channels, " channels were asked for; the count must be >= 1.");
  weight = Parameter(options.weight_init(Shape({options.channels}, where), rng, {options.dtype}, where), where);
}

Tensor PRelu::operator()(const Tensor& x, Where where) const { return prelu(x, weight, where); }

}  // namespace capstan::nn
