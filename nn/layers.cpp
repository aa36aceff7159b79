#include <capstan/nn/layers.hpp>

#include <capstan/ops/bilinear.hpp>
#include <capstan/ops/linalg.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

Linear::Linear(std::int64_t inputs, std::int64_t outputs, const LinearOptions& options, Rng& rng, Where where) {
  check_floating("Linear", options.dtype, where);
  if (inputs < 1 || outputs < 1)
    base::fail<ShapeError>(where, "Linear: ", inputs, " inputs and ", outputs,
                           " outputs were asked for; both must be >= 1.");
  const TensorOptions type{options.dtype};
  weight = Parameter(options.weight_init(Shape({inputs, outputs}, where), rng, type, where), where);
  if (options.bias) bias = Parameter(options.bias_init(Shape({outputs}, where), rng, type, where), where);
}

Tensor Linear::operator()(const Tensor& x, Where where) const { return linear(x, weight, bias, where); }

Bilinear::Bilinear(const BilinearOptions& options, Rng& rng, Where where) {
  check_floating("Bilinear", options.dtype, where);
  const std::int64_t in1 = options.in1, in2 = options.in2, out = options.out;
  if (in1 < 1 || in2 < 1 || out < 1)
    base::fail<ShapeError>(where, "Bilinear: ", in1, " and ", in2, " inputs and ", out,
                           " outputs were asked for; all must be >= 1.");
  const TensorOptions type{options.dtype};
  const Fans fans{static_cast<double>(in1) * static_cast<double>(in2), static_cast<double>(out)};
  weight = Parameter(options.weight_init(Shape({out, in1, in2}, where), fans, rng, type, where), where);
  if (options.bias) bias = Parameter(options.bias_init(Shape({out}, where), rng, type, where), where);
}

Tensor Bilinear::operator()(const Tensor& x1, const Tensor& x2, Where where) const {
  return bilinear(x1, x2, weight, bias, where);
}

Tensor Flatten::operator()(const Tensor& x, Where where) const { return flatten(x, begin, end, where); }

Tensor Unflatten::operator()(const Tensor& x, Where where) const { return unflatten(x, axis_, sizes_, where); }

}  // namespace capstan::nn
