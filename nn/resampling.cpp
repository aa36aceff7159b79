#include <capstan/nn/resampling.hpp>

#include <cmath>

#include "lib/base/text.hpp"

namespace capstan::nn {
namespace {

/// What can be told of settings before there is something to resample.
void check_settings(const InterpolateOptions& o, Where where) {
  const bool by_size = o.size.count() > 0, by_factor = o.scale_factor.count() > 0;
  if (by_size == by_factor)
    base::fail<Error>(where, "Upsample: ", by_size ? "both a size and" : "neither a size nor",
                      " a scale factor was given; it takes one of them.");
  for (int axis = 0; axis < o.size.count(); ++axis)
    if (o.size[axis] < 1)
      base::fail<ShapeError>(where, "Upsample: the size of spatial axis ", axis, " is ", o.size[axis],
                             "; it must be at least 1.");
  for (int axis = 0; axis < o.scale_factor.count(); ++axis)
    if (!(o.scale_factor[axis] > 0 && std::isfinite(o.scale_factor[axis])))
      base::fail<Error>(where, "Upsample: the scale factor of spatial axis ", axis, " is ", o.scale_factor[axis],
                        "; it must be above 0 and finite.");
  if (o.recompute_scale_factor && by_size)
    base::fail<Error>(where, "Upsample: recompute_scale_factor was set with a size; it goes with a scale factor.");
  const bool smooth = o.mode == InterpolateMode::linear || o.mode == InterpolateMode::cubic;
  if ((o.align_corners || o.antialias) && !smooth)
    base::fail<Error>(where, "Upsample: ", o.align_corners ? "align_corners" : "antialias",
                      " was set with another mode; it goes with linear and cubic.");
}

std::int64_t checked_factor(const char* module, std::int64_t factor, Where where) {
  if (factor < 1) base::fail<ShapeError>(where, module, ": the factor is ", factor, "; it must be at least 1.");
  return factor;
}

}  // namespace

Upsample::Upsample(const InterpolateOptions& options, Where where) : options_(options) {
  check_settings(options, where);
}
Tensor Upsample::operator()(const Tensor& x, Where where) const { return interpolate(x, options_, where); }

PixelShuffle::PixelShuffle(std::int64_t factor, Where where) : factor_(checked_factor("PixelShuffle", factor, where)) {}
Tensor PixelShuffle::operator()(const Tensor& x, Where where) const { return pixel_shuffle(x, factor_, where); }

PixelUnshuffle::PixelUnshuffle(std::int64_t factor, Where where)
    : factor_(checked_factor("PixelUnshuffle", factor, where)) {}
Tensor PixelUnshuffle::operator()(const Tensor& x, Where where) const { return pixel_unshuffle(x, factor_, where); }

}  // namespace capstan::nn
