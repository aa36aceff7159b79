#pragma once
// From indices to geometry: views by basic indices, and what index tensors leave of a tensor's axes.
#include <span>

#include "lib/core/tensor_impl.hpp"

namespace capstan::core {

struct ViewGeometry {
  Shape shape;
  std::int64_t strides[kMaxRank] = {};
  std::int64_t offset = 0;  // in elements, from the base's first
};

/// The axes that one index tensor chooses from: one for integers, as many as it has itself for a mask.
struct ChosenAxes {
  Tensor indices;
  int axis = 0, count = 1;
};

/// NumPy's advanced indexing, short of looking at the tensors' elements.
struct IndexPlan {
  ViewGeometry rest;  // the axes that no tensor chooses from
  int at = 0;         // the chosen elements' axes stand before this one of `rest`
  int count = 0;      // of index tensors
  ChosenAxes chosen[kMaxRank];
};

bool has_tensors(std::span<const Index> indices) noexcept;

/// Without tensors among the indices.
/// Throws IndexError (positions, too many indices, step 0, two ellipses) and ShapeError (more than 8 axes).
ViewGeometry index_geometry(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where);
/// With or without. `shape` and `strides` are the base's. Throws also DTypeError for a tensor that is neither of
/// integers nor a mask, and ShapeError for a mask that does not fit its axes.
IndexPlan plan_index(const char* op, const Shape& shape, const std::int64_t* strides, std::span<const Index> indices,
                     Where where);

/// The address of one element. Throws IndexError.
std::byte* element_address(const char* op, const TensorImpl& impl, std::span<const std::int64_t> index, Where where);

}  // namespace capstan::core
