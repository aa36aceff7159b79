#include <capstan/nn/dropout.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {

using detail::Drop;

namespace {

/// The operation, and the name of its module.
struct Row {
  const char* name;
  Tensor (*function)(const Tensor& x, double keep, Rng& rng, Where where);
};

constexpr Row row_of(Drop kind) {
  switch (kind) {
    case Drop::channels1d: return {"Dropout1d", &dropout1d};
    case Drop::channels2d: return {"Dropout2d", &dropout2d};
    case Drop::channels3d: return {"Dropout3d", &dropout3d};
    case Drop::alpha: return {"AlphaDropout", &alpha_dropout};
    case Drop::feature_alpha: return {"FeatureAlphaDropout", &feature_alpha_dropout};
    case Drop::gaussian: return {"GaussianDropout", &gaussian_dropout};
    case Drop::path: return {"DropPath", &drop_path};
    case Drop::elements: break;
  }
  return {"Dropout", &dropout};
}

}  // namespace

template <Drop kind>
DropoutLayer<kind>::DropoutLayer(DropoutOptions options, Where where) : keep_(options.keep) {
  if (!(keep_ > 0 && keep_ <= 1))
    base::fail<Error>(where, row_of(kind).name, ": keep is ", keep_, "; it must be in (0, 1].");
}

template <Drop kind>
Tensor DropoutLayer<kind>::operator()(const Tensor& x, Where where) const {
  return training_ ? row_of(kind).function(x, keep_, default_rng(), where) : x;
}

template class DropoutLayer<Drop::elements>;
template class DropoutLayer<Drop::channels1d>;
template class DropoutLayer<Drop::channels2d>;
template class DropoutLayer<Drop::channels3d>;
template class DropoutLayer<Drop::alpha>;
template class DropoutLayer<Drop::feature_alpha>;
template class DropoutLayer<Drop::gaussian>;
template class DropoutLayer<Drop::path>;

GaussianNoise::GaussianNoise(GaussianNoiseOptions options, Where where) : stddev_(options.stddev) {
  if (!(stddev_ >= 0))
    base::fail<Error>(where, "GaussianNoise: the standard deviation is ", stddev_, "; it must be >= 0.");
}

Tensor GaussianNoise::operator()(const Tensor& x, Where where) const {
  return training_ ? gaussian_noise(x, stddev_, default_rng(), where) : x;
}

}  // namespace capstan::nn
