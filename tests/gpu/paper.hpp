#pragma once
// Tensors on paper, which plans look at as at others, and plain loops over their places.
#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "lib/core/tensor_impl.hpp"

namespace tests {

using Numbers = std::vector<std::int64_t>;

inline capstan::Shape shape_of(const Numbers& sizes) { return capstan::Shape(std::span<const std::int64_t>(sizes)); }

inline Numbers row_major(const capstan::Shape& shape) {
  Numbers steps(static_cast<std::size_t>(shape.rank()));
  capstan::core::row_major_strides(shape, steps.data());
  return steps;
}

/// Shape, strides, type and address, and no elements.
struct PaperTensor : capstan::TensorImpl {
  static constexpr std::uintptr_t kAddress = std::uintptr_t{1} << 40;

  explicit PaperTensor(const capstan::Shape& sizes, capstan::DType type = capstan::DType::float32)
      : TensorImpl(sizes, type) {
    contiguous = true;
    data = reinterpret_cast<std::byte*>(kAddress);
    storage = nullptr;
    std::fill_n(strides, capstan::kMaxRank, 0);
    capstan::core::row_major_strides(sizes, strides);
  }
  /// The first element lies `offset` elements behind an address that everything divides.
  PaperTensor(const capstan::Shape& sizes, const Numbers& steps, capstan::DType type = capstan::DType::float32,
              std::int64_t offset = 0)
      : PaperTensor(sizes, type) {
    std::copy(steps.begin(), steps.end(), strides);
    contiguous = capstan::core::is_row_major(sizes, strides);
    data = reinterpret_cast<std::byte*>(kAddress + static_cast<std::uintptr_t>(offset * capstan::size_of(type)));
  }

  std::uintptr_t address_of(std::int64_t place) const {
    return reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(place * capstan::size_of(dtype));
  }
};

class PaperRandom {
 public:
  explicit PaperRandom(std::uint64_t seed) : bits_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(count));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }

  /// Up to `axes` sizes of up to `longest`, with at most `elements` places; now and then one of 0.
  capstan::Shape shape(std::int64_t axes, std::int64_t longest, std::int64_t elements) {
    Numbers sizes;
    std::int64_t places = 1;
    const std::int64_t rank = below(axes + 1);
    for (std::int64_t axis = 0; axis < rank; ++axis) {
      const std::int64_t size = std::min(1 + below(longest), elements / places);
      sizes.push_back(one_in(60) ? 0 : size);
      places *= size;
    }
    return shape_of(sizes);
  }

  /// Those of a view: axes in any order, some with gaps, backwards, or stretched.
  Numbers strides(const capstan::Shape& shape) {
    std::vector<int> order;
    for (int axis = 0; axis < shape.rank(); ++axis) order.push_back(axis);
    if (one_in(2)) std::shuffle(order.begin(), order.end(), bits_);
    Numbers steps(order.size(), 0);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto axis = static_cast<std::size_t>(order[i]);
      if (one_in(5)) step *= 2;
      steps[axis] = one_in(6) ? 0 : one_in(6) ? -step : step;
      step *= std::max<std::int64_t>(shape[order[i]], 1);
    }
    return steps;
  }

  /// One that broadcasts to the shape: axes in front may be missing, others have size 1.
  PaperTensor operand(const capstan::Shape& shape) {
    const std::int64_t missing = one_in(3) ? below(shape.rank() + 1) : 0;
    Numbers sizes;
    for (int axis = static_cast<int>(missing); axis < shape.rank(); ++axis)
      sizes.push_back(one_in(5) ? 1 : shape[axis]);
    const capstan::Shape own = shape_of(sizes);
    return PaperTensor(own, strides(own));
  }

 private:
  std::mt19937_64 bits_;
};

/// Calls `use(index)` for every place of a shape in row-major order.
template <class Use>
void each_place(const capstan::Shape& shape, Use&& use) {
  if (shape.numel() == 0) return;
  std::int64_t index[capstan::kMaxRank] = {};
  for (;;) {
    use(static_cast<const std::int64_t*>(index));
    int axis = shape.rank() - 1;
    for (; axis >= 0 && ++index[axis] == shape[axis]; --axis) index[axis] = 0;
    if (axis < 0) return;
  }
}

/// Where the element lies that x, broadcast to a shape of so many axes, has at a place.
inline std::int64_t offset_at(const capstan::TensorImpl& x, int rank, const std::int64_t* index) {
  std::int64_t offset = 0;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.shape[axis] != 1) offset += index[axis + rank - x.rank()] * x.strides[axis];
  return offset;
}

}  // namespace tests
