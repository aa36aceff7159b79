// Sliding windows as columns, and columns added up where they came from. Each element of the result is gathered by one
// thread, in fixed order.
#include "cuda/backend.hpp"
#include "cuda/elements.cuh"
#include "cuda/launch.cuh"
#include "cuda/planes.hpp"
#include "cuda/words.hpp"

namespace capstan::on_cuda {
namespace {

using core::WindowAxis;

/// Three axes, those that are missing in front with one place.
struct Windows {
  WindowAxis axis[3];

  explicit Windows(const core::Window& window) {
    for (int i = 0; i < window.axes; ++i) axis[3 - window.axes + i] = window.axis[i];
  }
  PlaceSizes in() const { return {{axis[0].in, axis[1].in, axis[2].in}}; }
  PlaceSizes out() const { return {{axis[0].out, axis[1].out, axis[2].out}}; }
};

/// Where a window's tap lies on an axis, and whether that is inside.
struct WindowTap {
  std::int64_t place;
  bool inside;

  __device__ WindowTap(const WindowAxis& a, std::int64_t window, std::int64_t tap)
      : place(window * a.stride + tap * a.dilation - a.before), inside(place >= 0 && place < a.in) {}
};

/// A thread for each window of a plane, for all taps.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    unfold_kernel(Windows windows, PlaceSizes out_sizes, PlaneStrides strides, std::int64_t channels,
                  std::int64_t planes, const Word* x, Word* out) {
  const std::int64_t count = out_sizes.count();
  const auto& [depth, rows, columns] = windows.axis;
  const std::int64_t taps = depth.kernel * rows.kernel * columns.kernel;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PlaceOf window = out_sizes.place(i);
    for (std::int64_t plane = blockIdx.y; plane < planes; plane += gridDim.y) {
      const Word* const from = x + plane / channels * strides.batch + plane % channels * strides.channel;
      Word* to = out + plane * taps * count + i;
      for (std::int64_t a = 0; a < depth.kernel; ++a) {
        const WindowTap z(depth, window.axis[0], a);
        for (std::int64_t b = 0; b < rows.kernel; ++b) {
          const WindowTap y(rows, window.axis[1], b);
          for (std::int64_t c = 0; c < columns.kernel; ++c, to += count) {
            const WindowTap w(columns, window.axis[2], c);
            const bool inside = z.inside && y.inside && w.inside;
            *to = inside ? from[strides.at({{z.place, y.place, w.place}})] : Word(0);
          }
        }
      }
    }
  }
}

/// The window that has a tap at a place, or -1.
__device__ std::int64_t window_at(const WindowAxis& a, std::int64_t tap, std::int64_t place) {
  const std::int64_t begin = place + a.before - tap * a.dilation;
  if (begin < 0) return -1;
  const std::int64_t window = a.stride == 1 ? begin : begin / a.stride;
  return window * a.stride == begin && window < a.out ? window : -1;
}

/// Where columns x [batch, channels * kernel, windows] have what belongs to a plane.
struct PatchColumns {
  const void* x;
  DType dtype;
  std::int64_t batch, row, window;  // strides

  __device__ double at(std::int64_t offset) const { return read_real(x, dtype, offset); }
};

__device__ double folded_at(const Windows& windows, const PatchColumns& x, std::int64_t plane, const PlaceOf& place) {
  const auto& [depth, rows, columns] = windows.axis;
  double sum = 0;
  for (std::int64_t a = 0; a < depth.kernel; ++a) {
    const std::int64_t first = window_at(depth, a, place.axis[0]);
    if (first < 0) continue;
    for (std::int64_t b = 0; b < rows.kernel; ++b) {
      const std::int64_t second = window_at(rows, b, place.axis[1]);
      if (second < 0) continue;
      const std::int64_t line = (first * rows.out + second) * columns.out;
      const std::int64_t tap = (a * rows.kernel + b) * columns.kernel;
      for (std::int64_t c = 0; c < columns.kernel; ++c) {
        const std::int64_t third = window_at(columns, c, place.axis[2]);
        if (third >= 0) sum += x.at(plane + (tap + c) * x.row + (line + third) * x.window);
      }
    }
  }
  return sum;
}

/// A thread for each place of a plane.
__global__ void __launch_bounds__(kThreads) fold_kernel(Windows windows, PlaceSizes sizes, PatchColumns x,
                                                        std::int64_t channels, std::int64_t planes, void* out) {
  const auto& [depth, rows, columns] = windows.axis;
  const std::int64_t count = sizes.count(), taps = depth.kernel * rows.kernel * columns.kernel;
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    const PlaceOf place = sizes.place(i);
    for (std::int64_t plane = blockIdx.y; plane < planes; plane += gridDim.y) {
      const std::int64_t from = plane / channels * x.batch + plane % channels * taps * x.row;
      write_real(out, x.dtype, plane * count + i, folded_at(windows, x, from, place));
    }
  }
}

}  // namespace

void unfold(const TensorImpl& x, const core::Window& window, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Windows windows(window);
  const std::int64_t channels = x.shape[1], planes = x.shape[0] * channels;
  const PlaneGrid grid(windows.out().count(), planes);
  visit_unsigned(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
    launch(unfold_kernel<Word>, dim3(grid.places, grid.planes), dim3(kThreads), windows, windows.out(), PlaneStrides(x),
           channels, planes, x.as<Word>(), out.as<Word>());
  });
}

void fold(const TensorImpl& x, const core::Window& window, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Windows windows(window);
  const std::int64_t channels = out.shape[1], planes = out.shape[0] * channels;
  const PlaneGrid grid(windows.in().count(), planes);
  const PatchColumns columns{x.data, x.dtype, x.strides[0], x.strides[1], x.strides[2]};
  launch(fold_kernel, dim3(grid.places, grid.planes), dim3(kThreads), windows, windows.in(), columns, channels, planes,
         out.data);
}

}  // namespace capstan::on_cuda
