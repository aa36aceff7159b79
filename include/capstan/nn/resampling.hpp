#pragma once
// Layers that change the size of images, and have no parameters.
#include <capstan/nn/fields.hpp>
#include <capstan/ops/resampling.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// `interpolate` with fixed settings: `nn::Upsample up{{.scale_factor = 2, .mode = InterpolateMode::linear}};`.
///
/// Throws  Error       both a size and a factor or neither, a factor that is not above 0 and finite, align_corners or
///                     antialias with a mode that has none, recomputing without a factor
///         ShapeError  a size below 1
class Upsample {
 public:
  explicit Upsample(const InterpolateOptions& options, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  InterpolateOptions options_;
};

/// `pixel_shuffle` by a fixed factor. ShapeError for one below 1.
class PixelShuffle {
 public:
  explicit PixelShuffle(std::int64_t factor, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  std::int64_t factor_;
};

/// `pixel_unshuffle` by a fixed factor. ShapeError for one below 1.
class PixelUnshuffle {
 public:
  explicit PixelUnshuffle(std::int64_t factor, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  std::int64_t factor_;
};

}  // namespace nn
}  // namespace capstan
