#pragma once
// Kernels that work along one axis: rows for those that want their elements side by side, and memory for each of them.
#include <cstdint>
#include <span>

#include <capstan/threads.hpp>

#include "lib/base/parallel.hpp"
#include "lib/core/allocator.hpp"
#include "lib/cpu/backend.hpp"

namespace capstan::on_cpu {

/// A contiguous tensor around an axis: [outer, count, inner].
struct Around {
  std::int64_t outer = 1, count, inner = 1;
  Around(const Shape& shape, int axis) : count(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

/// A view with the axis last.
inline Tensor axis_last(const TensorImpl& x, int axis) {
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) sizes[rank] = x.shape[i], strides[rank++] = x.strides[i];
  sizes[rank] = x.shape[axis], strides[rank++] = x.strides[axis];
  return core::make_view(x, Shape(std::span<const std::int64_t>(sizes, rank)), strides, 0, core::calling_place());
}

/// The view itself if it is contiguous, else a copy.
inline Tensor packed(Tensor view) {
  const TensorImpl& impl = *view.impl();
  if (impl.contiguous) return view;
  Tensor result = core::make_workspace(impl.shape, impl.dtype, impl.device(), core::calling_place());
  copy(impl, *result.impl());
  return result;
}
inline Tensor packed(const TensorImpl& x) {
  return packed(core::make_view(x, x.shape, x.strides, 0, core::calling_place()));
}
/// Contiguous with the axis last.
inline Tensor rows_along(const TensorImpl& x, int axis) { return packed(axis_last(x, axis)); }

/// Where a kernel writes rows that belong along an axis of `out`, which may be null; `store` takes them there.
class RowsFor {
 public:
  RowsFor(TensorImpl* out, int axis) {
    if (out == nullptr) return;
    place_ = axis_last(*out, axis);
    const TensorImpl& place = *place_.impl();
    rows_ = place.contiguous ? place_
                             : core::make_workspace(place.shape, place.dtype, place.device(), core::calling_place());
  }
  template <class T>
  T* data() const noexcept {
    return rows_.defined() ? rows_.impl()->as<T>() : nullptr;
  }
  void store() const {
    if (!rows_.is_same(place_)) copy(*rows_.impl(), *place_.impl());
  }

 private:
  Tensor place_, rows_;
};

/// Calls `body(scratch, begin, end)` for ranges of [0, rows), each with `bytes` of memory that nobody else uses then.
template <class Body>
void for_lanes(std::int64_t rows, std::int64_t grain, std::int64_t bytes, Body body) {
  constexpr std::int64_t kLarge = 1 << 20, kLine = 64;
  const std::int64_t own = (bytes + kLine - 1) / kLine * kLine;
  const std::int64_t most = std::int64_t{threads()} * (own > kLarge ? 1 : 4), wanted = (rows + grain - 1) / grain;
  const std::int64_t lanes = wanted < most ? wanted : most;
  core::Scratch<std::byte> scratch(lanes * own, core::calling_place());
  base::parallel_for(lanes, 1, [&](std::int64_t begin, std::int64_t end) {
    body(scratch.data() + begin * own, rows * begin / lanes, rows * end / lanes);
  });
}

}  // namespace capstan::on_cpu
