#pragma once
// From basic indices to the geometry of a view.
#include <span>

#include "lib/core/tensor_impl.hpp"

namespace capstan::core {

struct ViewGeometry {
  Shape shape;
  std::int64_t strides[kMaxRank] = {};
  std::int64_t offset = 0;  // in elements, from the base's first
};

/// Throws IndexError (positions, too many indices, step 0, two ellipses) and ShapeError (more than 8 axes).
ViewGeometry index_geometry(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where);

/// The address of one element. Throws IndexError.
std::byte* element_address(const char* op, const TensorImpl& impl, std::span<const std::int64_t> index, Where where);

}  // namespace capstan::core
