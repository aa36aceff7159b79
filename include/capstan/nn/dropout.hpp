#pragma once
// The modules of ops/dropout.hpp: what they do in training, and nothing otherwise. They draw from the calling thread's
// default generator.
#include <capstan/nn/fields.hpp>
#include <capstan/ops/dropout.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct DropoutOptions {
  double keep = 0.5;  ///< probability that something stays, in (0, 1]
};

namespace detail {
enum class Drop : std::uint8_t { elements, channels1d, channels2d, channels3d, alpha, feature_alpha, gaussian, path };
}

/// The layers below. Throws Error unless 0 < keep <= 1.
template <detail::Drop kind>
class DropoutLayer {
 public:
  explicit DropoutLayer(DropoutOptions options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }
  CAPSTAN_FIELDS();

 private:
  double keep_;
  bool training_ = true;
};

extern template class DropoutLayer<detail::Drop::elements>;
extern template class DropoutLayer<detail::Drop::channels1d>;
extern template class DropoutLayer<detail::Drop::channels2d>;
extern template class DropoutLayer<detail::Drop::channels3d>;
extern template class DropoutLayer<detail::Drop::alpha>;
extern template class DropoutLayer<detail::Drop::feature_alpha>;
extern template class DropoutLayer<detail::Drop::gaussian>;
extern template class DropoutLayer<detail::Drop::path>;

using Dropout = DropoutLayer<detail::Drop::elements>;                   ///< `dropout`
using Dropout1d = DropoutLayer<detail::Drop::channels1d>;               ///< `dropout1d`
using Dropout2d = DropoutLayer<detail::Drop::channels2d>;               ///< `dropout2d`
using Dropout3d = DropoutLayer<detail::Drop::channels3d>;               ///< `dropout3d`
using AlphaDropout = DropoutLayer<detail::Drop::alpha>;                 ///< `alpha_dropout`
using FeatureAlphaDropout = DropoutLayer<detail::Drop::feature_alpha>;  ///< `feature_alpha_dropout`
using GaussianDropout = DropoutLayer<detail::Drop::gaussian>;           ///< `gaussian_dropout`
using DropPath = DropoutLayer<detail::Drop::path>;                      ///< `drop_path`

struct GaussianNoiseOptions {
  double stddev = 1;  ///< >= 0
};

/// `gaussian_noise`. Throws Error unless stddev >= 0.
class GaussianNoise {
 public:
  explicit GaussianNoise(GaussianNoiseOptions options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }
  CAPSTAN_FIELDS();

 private:
  double stddev_;
  bool training_ = true;
};

}  // namespace nn
}  // namespace capstan
