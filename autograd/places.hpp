#pragma once
// Elements that index tensors choose, as geometry. Reading them and adding to them are each other's gradient.
#include "autograd/ops.hpp"
#include "lib/core/indexing.hpp"

namespace capstan::autograd {

/// For every place of `result` an element of a tensor of shape `base`: it stands `offset`, and for each axis of
/// `result` the index times `strides`, and the position there times `rule.scale`, behind the first.
struct Places {
  Shape base = {}, result = {};
  std::int64_t offset = 0;
  std::int64_t strides[kMaxRank] = {};           // of the base: 0 along axes where only positions choose
  std::int64_t position_strides[kMaxRank] = {};  // of the positions: 0 along axes where they do not vary
  core::PositionRule rule = {};
};
struct Selection {
  Places places = {};
  Tensor positions = {};  // int32 or int64
};

struct RowMajor {
  std::int64_t strides[kMaxRank];
  explicit RowMajor(const Shape& shape) { core::row_major_strides(shape, strides); }
};

/// Integers beside x, as int32 or int64. Throws DTypeError, DeviceError.
Tensor index_tensor(const char* op, const TensorImpl& x, const Tensor& indices, Where where);
/// "1, 0": where the element number `position` stands.
std::string place_text(const Shape& shape, std::int64_t position);
/// Throws IndexError, naming the first index outside [low, high) and its place.
void require_inside(const char* op, const Shape& shape, int axis, const Tensor& indices, std::int64_t low,
                    std::int64_t high, Where where);
/// Throws DTypeError unless the values are of x's type, DeviceError.
void require_same_type(const char* op, const TensorImpl& x, const Tensor& values, const char* what, Where where);
/// Throws ShapeError unless a value of shape `from` broadcasts to `to`.
void require_broadcast(const char* op, const Shape& from, const Shape& to, Where where);

/// A contiguous copy; no tape sees it.
Tensor fresh_copy(const Tensor& x, DType dtype, Where where);

/// A mask, contiguous, with what counting it has shown.
struct CountedMask {
  Tensor mask, before;
  std::int64_t count;
};
CountedMask count_mask(const Tensor& mask, Where where);
/// The elements of x, behind the mask's axes rows, where it is true. Recorded.
Tensor compress(const char* op, const Tensor& x, const Tensor& mask, Where where);

// --- choosing ---

/// Positions along one axis for every place of `result`, which both broadcast to but for that axis: take_along_axis.
Selection choose_along(const Shape& base, const std::int64_t* strides, int axis, const Tensor& indices,
                       const Shape& result);
/// Positions along one axis whose own axes replace it: gather.
Selection choose_slices(const char* op, const Shape& base, const std::int64_t* strides, int axis, const Tensor& indices,
                        Where where);
/// Positions of several axes side by side in the last axis of the indices, in range: gather_nd.
Selection choose_nd(const char* op, const Shape& base, const std::int64_t* strides, const Tensor& indices, Where where);

/// Index tensors made ready: masks have become flat positions.
struct ReadyIndices {
  Tensor list[kMaxRank];
  Shape shape;  // that they broadcast to
};
/// `check`: whether each index is in range.
ReadyIndices make_ready(const char* op, const TensorImpl& x, const core::IndexPlan& plan, bool check, Where where);
/// What an index, with tensors or without, chooses from x; `strides` are x's own or those of a contiguous tensor.
Selection choose(const char* op, const core::IndexPlan& plan, const ReadyIndices& ready, const TensorImpl& x,
                 const std::int64_t* strides, Where where);

// --- reading and writing ---

void take_replay(Replay& r);
/// The chosen elements of x: `here` by x's own strides, `plain` as of a contiguous tensor, needed while a tape listens.
/// Undefined if a position is out of range.
Tensor take_chosen(const char* op, const Tensor& x, const Selection& here, const Selection& plain, Where where,
                   ReplayFunction replay = &take_replay);
/// The same of a gradient, by what is chosen of a contiguous tensor in range.
Tensor taken(const Tensor& x, const Selection& chosen, Where where);
/// Where x is the best; a NaN is.
Tensor hits(const Tensor& x, const Tensor& best, Where where);
/// Zeros with the values added at their places, in order: the gradient of take_chosen.
Tensor add_chosen(const char* op, const Tensor& values, const Selection& chosen, Where where);
/// Without a tape, into `target`, not of a 16-bit type unless it is set; the values broadcast to the places.
void combine_into(core::Combine kind, const TensorImpl& target, const Tensor& values, const Selection& chosen,
                  Where where);
/// out = x, and then the same into it; each place has a position of its own. False if one is out of range.
bool scatter_into(core::Combine kind, const Tensor& out, const Tensor& x, const Tensor& values, const Selection& chosen,
                  Where where);
/// Whether each place keeps what is written there, where some do not; else undefined. Broadcasts to the places.
Tensor last_writers(const Selection& chosen, Where where);

/// Tensor::index where an entry is a tensor, and writing through such an index in place.
Tensor index_by_tensors(const char* op, const Tensor& x, std::span<const Index> indices, Where where);
void put_by_tensors(const Tensor& target, std::span<const Index> indices, const Tensor& value, bool accumulate,
                    Where where);

}  // namespace capstan::autograd
