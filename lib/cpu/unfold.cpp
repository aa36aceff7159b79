// Sliding windows as columns, and columns added up where they came from.
#include <algorithm>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/positions.hpp"

namespace capstan::on_cpu {
namespace {

using core::WindowAxis;

/// Windows [begin, end) of an axis have a tap inside the input; window w has it at w * stride + shift.
struct Reach {
  std::int64_t shift, begin, end;
  Reach(const WindowAxis& a, std::int64_t tap) : shift(tap * a.dilation - a.before), begin(0), end(0) {
    if (shift < 0) begin = std::min((-shift + a.stride - 1) / a.stride, a.out);
    if (shift < a.in) end = std::min((a.in - 1 - shift) / a.stride + 1, a.out);
    end = std::max(begin, end);
  }
  bool holds(std::int64_t window) const noexcept { return window >= begin && window < end; }
};

/// Three axes, those that are missing in front with one place.
struct Windows {
  WindowAxis axis[3];
  explicit Windows(const core::Window& window) {
    for (int i = 0; i < window.axes; ++i) axis[3 - window.axes + i] = window.axis[i];
  }
  std::int64_t in() const noexcept { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t out() const noexcept { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t kernel() const noexcept { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
};

/// What one tap sees of a plane, window by window.
template <class Word>
void unfold_tap(const Word* plane, const Windows& windows, std::int64_t tap, Word* to) {
  const auto& [depth, rows, columns] = windows.axis;
  const Reach z(depth, tap / (rows.kernel * columns.kernel)), y(rows, tap / columns.kernel % rows.kernel),
      x(columns, tap % columns.kernel);
  for (std::int64_t i = 0; i < depth.out; ++i)
    for (std::int64_t j = 0; j < rows.out; ++j, to += columns.out) {
      if (!z.holds(i) || !y.holds(j)) {
        std::fill(to, to + columns.out, Word(0));
        continue;
      }
      const std::int64_t row = (i * depth.stride + z.shift) * rows.in + j * rows.stride + y.shift;
      const Word* from = plane + row * columns.in;
      std::fill(to, to + x.begin, Word(0));
      for (std::int64_t k = x.begin; k < x.end; ++k) to[k] = from[k * columns.stride + x.shift];
      std::fill(to + x.end, to + columns.out, Word(0));
    }
}

/// The window that has a tap at a place, or -1.
std::int64_t window_at(const WindowAxis& a, std::int64_t tap, std::int64_t place) {
  const std::int64_t begin = place + a.before - tap * a.dilation;
  return begin >= 0 && begin % a.stride == 0 && begin / a.stride < a.out ? begin / a.stride : -1;
}

/// Adds to a row of sums, at (depth, row) of a plane, what windows have there. Their columns are [kernel, out] at x.
template <class T>
void fold_row(const T* x, const Windows& windows, std::int64_t depth, std::int64_t row, double* sums) {
  const auto& [a, b, c] = windows.axis;
  for (std::int64_t i = 0; i < a.kernel; ++i) {
    const std::int64_t first = window_at(a, i, depth);
    if (first < 0) continue;
    for (std::int64_t j = 0; j < b.kernel; ++j) {
      const std::int64_t second = window_at(b, j, row);
      if (second < 0) continue;
      for (std::int64_t k = 0; k < c.kernel; ++k) {
        const Reach reach(c, k);
        const std::int64_t tap = (i * b.kernel + j) * c.kernel + k;
        const T* from = x + ((tap * a.out + first) * b.out + second) * c.out;
        for (std::int64_t w = reach.begin; w < reach.end; ++w)
          sums[w * c.stride + reach.shift] += static_cast<double>(from[w]);
      }
    }
  }
}

}  // namespace

void unfold(const TensorImpl& x, const core::Window& window, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor dense = packed(x);
  const Windows windows(window);
  const std::int64_t taps = windows.kernel(), count = windows.out(), plane = windows.in();
  visit_words(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
    const Word* from = dense.impl()->as<Word>();
    Word* to = out.as<Word>();
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row)
        unfold_tap(from + row / taps * plane, windows, row % taps, to + row * count);
    };
    base::parallel_for(out.numel() / count, kCheapGrain / count + 1, run);
  });
}

void fold(const TensorImpl& x, const core::Window& window, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor dense = packed(x);
  const Windows windows(window);
  const std::int64_t width = windows.axis[2].in, height = windows.axis[1].in, rows = windows.axis[0].in * height;
  const std::int64_t columns = windows.kernel() * windows.out(), work = width + columns / rows;
  const std::int64_t bytes = width * static_cast<std::int64_t>(sizeof(double));
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const T* from = dense.impl()->as<T>();
    T* to = out.as<T>();
    const auto run = [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
      auto* sums = reinterpret_cast<double*>(scratch);
      for (std::int64_t row = begin; row < end; ++row) {
        std::fill(sums, sums + width, 0.0);
        fold_row(from + row / rows * columns, windows, row % rows / height, row % height, sums);
        for (std::int64_t i = 0; i < width; ++i) to[row * width + i] = static_cast<T>(sums[i]);
      }
    };
    for_lanes(out.numel() / width, kExpensiveGrain / work + 1, bytes, run);
  });
}

}  // namespace capstan::on_cpu
