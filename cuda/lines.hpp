#pragma once
// Rows along an axis of a contiguous tensor, and how scans cut them into parts. No CUDA headers, so that it is tested
// on the host.
#include <algorithm>
#include <cstdint>
#include <span>

#include "cuda/backend.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// [outer, count, inner]: rows of `count` elements, `inner` elements apart.
struct Lines {
  std::int64_t rows = 0, count = 0, inner = 1;

  Lines(std::int64_t row_count, std::int64_t elements) : rows(row_count), count(elements) {}
  Lines(const Shape& shape, int axis) : rows(1), count(shape[axis]) {
    for (int i = 0; i < shape.rank(); ++i)
      if (i != axis) rows *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
  /// Where a row begins in a tensor [outer, length, inner].
  CAPSTAN_HD static std::int64_t start_of(std::int64_t row, std::int64_t length, std::int64_t between) {
    return between == 1 ? row * length : row / between * length * between + row % between;
  }
  CAPSTAN_HD std::int64_t start(std::int64_t row) const { return start_of(row, count, inner); }
};

/// How rows are walked: part p of a row are the steps from p * length on. Rows that are short or lie side by side are
/// walked by one thread a part, others by one block.
struct Walking {
  bool by_threads;
  std::int64_t parts, length;

  /// Rows up to this length are no work for a block.
  static constexpr std::int64_t kShort = 64;

  explicit Walking(const Lines& lines) : by_threads(lines.inner > 1 || lines.count <= kShort), parts(1) {
    // enough to do for the whole GPU, but parts that are worth the two passes more that they cost
    const std::int64_t wanted = by_threads ? std::int64_t{1} << 17 : 132 * 8, least = by_threads ? 256 : 8192;
    if (lines.rows > 0)
      parts = std::max<std::int64_t>(1, std::min(wanted / lines.rows, (lines.count + least - 1) / least));
    length = std::max<std::int64_t>(1, (lines.count + parts - 1) / parts);
    parts = std::max<std::int64_t>(1, (lines.count + length - 1) / length);
  }
};

/// A view with the axis last.
inline Tensor axis_last(const TensorImpl& x, int axis) {
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) sizes[rank] = x.shape[i], strides[rank++] = x.strides[i];
  sizes[rank] = x.shape[axis], strides[rank++] = x.strides[axis];
  return core::make_view(x, Shape(std::span<const std::int64_t>(sizes, rank)), strides, 0, Where::current());
}
/// The view itself if it is contiguous, else a copy.
inline Tensor packed(Tensor view) {
  const TensorImpl& impl = *view.impl();
  if (impl.contiguous) return view;
  Tensor result = core::make_workspace(impl.shape, impl.dtype, impl.device(), Where::current());
  copy(impl, *result.impl());
  return result;
}
inline Tensor packed(const TensorImpl& x) {
  return packed(core::make_view(x, x.shape, x.strides, 0, Where::current()));
}

}  // namespace capstan::on_cuda
