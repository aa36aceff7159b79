#pragma once
// Tensors [batch, channels, axes...] with up to three axes: planes, number batch * channels + channel each, and the
// places in them. Axes that are missing stand in front. No CUDA headers, so that it is tested on the host.
#include <cstdint>

#include "cuda/launch_shape.hpp"
#include "lib/core/tensor_impl.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

struct PlaceOf {
  std::int64_t axis[3];
};

/// Sizes of three axes.
struct PlaceSizes {
  std::int64_t axis[3] = {1, 1, 1};

  CAPSTAN_HD std::int64_t count() const { return axis[0] * axis[1] * axis[2]; }
  CAPSTAN_HD PlaceOf place(std::int64_t number) const {
    const std::int64_t line = number / axis[2], first = line / axis[1];
    return {{first, line - first * axis[1], number - line * axis[2]}};
  }
};

/// Where planes and their places lie, for any strides.
struct PlaneStrides {
  std::int64_t batch, channel, axis[3] = {0, 0, 0};

  explicit PlaneStrides(const TensorImpl& x) : batch(x.strides[0]), channel(x.strides[1]) {
    for (int i = 2; i < x.rank(); ++i) axis[3 - x.rank() + i] = x.strides[i];
  }
  CAPSTAN_HD std::int64_t at(const PlaceOf& place) const {
    return place.axis[0] * axis[0] + place.axis[1] * axis[1] + place.axis[2] * axis[2];
  }
};

/// Threads find out what their place needs once, and use it for planes: blocks side by side take the places, blocks in
/// the grid's second axis every so many-th plane each.
struct PlaneGrid {
  unsigned places, planes;

  PlaneGrid(std::int64_t place_count, std::int64_t plane_count) : places(shape_for(place_count).blocks), planes(1) {
    constexpr std::int64_t kMostInAxis = 65535;
    if (places == 0) return;
    const std::int64_t room = kMostBlocks / places, most = plane_count < kMostInAxis ? plane_count : kMostInAxis;
    const std::int64_t wanted = room < most ? room : most;
    planes = static_cast<unsigned>(wanted < 1 ? 1 : wanted);
  }
};

}  // namespace capstan::on_cuda
