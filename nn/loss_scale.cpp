#include <capstan/optim/loss_scale.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/lists.hpp>

#include "nn/optimizer_state.hpp"

namespace capstan::optim {
namespace {

constexpr const char* kName = "LossScaler";
// what a float32 loss can be multiplied with, and its gradients be divided by
constexpr double kLeast = std::numeric_limits<float>::min(), kLargest = std::numeric_limits<float>::max();

bool is_scale(double value) { return value >= kLeast && value <= kLargest; }

}  // namespace

LossScaler::LossScaler(LossScaleOptions options, Where where) : options_(options), scale_(options.scale) {
  if (!is_scale(options.scale))
    base::fail<Error>(where, kName, ": the scale is ", options.scale, "; it must be a normal float32 number above 0.");
  if (!(options.growth >= 1 && std::isfinite(options.growth)))
    base::fail<Error>(where, kName, ": the growth is ", options.growth, "; it must be finite and >= 1.");
  if (!(options.backoff > 0 && options.backoff < 1))
    base::fail<Error>(where, kName, ": the backoff is ", options.backoff, "; it must be in (0, 1).");
  if (options.interval < 1)
    base::fail<Error>(where, kName, ": the interval is ", options.interval, "; it must be >= 1.");
}

Tensor LossScaler::scale(const Tensor& loss, Where where) const {
  if (!loss.defined()) base::fail<Error>(where, "LossScaler::scale: the loss is undefined; give it a value first.");
  const DType dtype = loss.dtype(where);
  if (!is_floating(dtype))
    base::fail<DTypeError>(where, "LossScaler::scale: the loss is ", dtype, "; it must be a floating type.");
  return mul(loss.to(is_half(dtype) ? DType::float32 : dtype, where), scale_, where);
}

UnscaledGradients LossScaler::unscale(std::vector<Tensor> gradients, Where where) {
  ScaledResult result = scale_each(std::move(gradients), 1 / scale_, where);
  unscaled_ = true;
  finite_ = finite_ && result.finite;
  return {std::move(result.tensors), result.finite};
}

void LossScaler::update(Where where) {
  if (!unscaled_)
    base::fail<Error>(where, "LossScaler::update: nothing was unscaled since the last update; call unscale first.");
  const bool finite = std::exchange(finite_, true);
  unscaled_ = false;
  if (!finite) ++skipped_;
  if (!options_.dynamic) return;
  if (!finite) {
    scale_ = std::max(scale_ * options_.backoff, kLeast);
    good_ = 0;
  } else if (++good_ >= options_.interval) {
    if (scale_ * options_.growth <= kLargest) scale_ *= options_.growth;
    good_ = 0;
  }
}

std::vector<NamedTensor> LossScaler::state(Where where) const {
  return {{"scale", detail::real_number(scale_, where)},
          {"good", detail::whole_number(good_, where)},
          {"skipped", detail::whole_number(skipped_, where)}};
}

void LossScaler::load_state(std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader(kName, state, where);
  const double scale = reader.number("scale");
  const std::int64_t good = reader.whole("good"), skipped = reader.whole("skipped");
  reader.finish();
  if (!is_scale(scale))
    base::fail<Error>(where, kName, "::load_state: \"scale\" is ", scale,
                      "; it must be a normal float32 number above 0.");
  scale_ = scale;
  good_ = good;
  skipped_ = skipped;
  unscaled_ = false;  // a step that had begun is not part of it
  finite_ = true;
}

}  // namespace capstan::optim
