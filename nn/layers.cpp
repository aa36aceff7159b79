#include <capstan/nn/layers.hpp>

#include <capstan/ops/linalg.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {

Linear::Linear(std::int64_t inputs, std::int64_t outputs, const LinearOptions& options, Rng& rng, Where where) {
  if (inputs < 1 || outputs < 1)
    base::fail<ShapeError>(where, "Linear: ", inputs, " inputs and ", outputs,
                           " outputs were asked for; both must be >= 1.");
  const TensorOptions type{options.dtype, cpu()};
  weight = Parameter(options.weight_init(Shape({inputs, outputs}), rng, type, where), where);
  if (options.bias) bias = Parameter(options.bias_init(Shape({outputs}), rng, type, where), where);
}

Tensor Linear::operator()(const Tensor& x, Where where) const { return linear(x, weight, bias, where); }

Dropout::Dropout(DropoutOptions options, Where where) : keep_(options.keep) {
  if (!(keep_ > 0 && keep_ <= 1)) base::fail<Error>(where, "Dropout: keep is ", keep_, "; it must be in (0, 1].");
}

Tensor Dropout::operator()(const Tensor& x, Where where) const {
  return training_ ? dropout(x, keep_, default_rng(), where) : x;
}

}  // namespace capstan::nn
