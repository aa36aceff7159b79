#pragma once
// Resampling along axes, and samples at places, in numbers.
#include <capstan/ops/resampling.hpp>

namespace capstan::core {

/// An axis of `in` places becomes one of `out`, each `step` places of the input apart.
struct ResampledAxis {
  std::int64_t in = 1, out = 1;
  double step = 1;
};

struct Resample {
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false, antialias = false;
  bool adjoint = false;  // the transposed map, from `out` places to `in`
  int axes = 0;
  ResampledAxis axis[3];
};

struct GridSample {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;
  int axes = 0;
  int order[3] = {};  // which derivative of the weights by the coordinate, for each spatial axis
};

}  // namespace capstan::core
