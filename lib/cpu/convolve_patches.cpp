// Convolutions whose windows do not overlap, as of kernels of one place, which mix the channels of every place, and of
// patches: products of matrices. What a window meets is a column of [channels and taps, windows], one such matrix for
// each image and group; where an image has one window, it is a row of [images, channels and taps].
#include <algorithm>
#include <span>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/convolve.hpp"

namespace capstan::on_cpu {
namespace {

/// Whether what windows meet lies as they do: a window for each place, or one for all.
bool meets_as_is(const core::Window& window) {
  return window.in() == window.kernel() * window.out() && (window.kernel() == 1 || window.out() == 1);
}

/// Some images of x, from one on.
Tensor images_of(const TensorImpl& x, std::int64_t first, std::int64_t count) {
  std::int64_t sizes[kMaxRank];
  std::copy_n(x.shape.begin(), x.rank(), sizes);
  sizes[0] = count;
  return core::make_view(x, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(x.rank()))), x.strides,
                         first * x.strides[0], core::calling_place());
}
Tensor view(const TensorImpl& x) { return images_of(x, 0, x.shape[0]); }

/// Calls use(images of x, their results in y, whether they are the first) for all images: some at a time where what
/// their windows meet is copied.
template <class Use>
void for_images(const TensorImpl& x, const TensorImpl& y, const core::Window& window, Use use) {
  constexpr std::int64_t kAtOnce = 1 << 21;  // elements that are met
  const std::int64_t batch = x.shape[0], met = bounded_product(x.shape[1], window.kernel() * window.out());
  const std::int64_t most = meets_as_is(window) ? batch : std::max<std::int64_t>(kAtOnce / (met + 1), 1);
  for (std::int64_t first = 0; first < batch; first += most) {
    const std::int64_t count = std::min(most, batch - first);
    use(*images_of(x, first, count).impl(), *images_of(y, first, count).impl(), first == 0);
  }
}

/// Calls use(elements, met, columns) for what all rows of windows meet with all rows of taps: where the first window
/// has its first tap, in x and in `met` [batch, channels, taps, windows]. `columns` has the taps and windows of a row.
template <class Use>
void for_rows(const TensorImpl& x, const TensorImpl& met, const core::Window& window, Use use) {
  core::WindowAxis axis[3];
  for (int i = 0; i < window.axes; ++i) axis[3 - window.axes + i] = window.axis[i];
  const auto& [d, h, w] = axis;
  const std::int64_t rows = d.out * h.out, taps = window.kernel(), next_row = w.kernel * window.out();
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const auto run = [&](std::int64_t begin, std::int64_t end) {
      const core::WindowAxis columns = w;  // of its own: no store can change it
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t plane = i / rows, row = i % rows, z = row / h.out, y = row % h.out;
        T* const elements = x.as<T>() + plane * window.in() + (z * d.stride * h.in + y * h.stride) * w.in;
        T* taken = met.as<T>() + plane * taps * window.out() + row * w.out;
        for (std::int64_t depth = 0; depth < d.kernel; ++depth)
          for (std::int64_t tap = 0; tap < h.kernel; ++tap, taken += next_row)
            use(elements + (depth * d.dilation * h.in + tap * h.dilation) * w.in, taken, columns);
      }
    };
    base::parallel_for(x.shape[0] * x.shape[1] * rows, kCheapGrain / (taps * w.out) + 1, run);
  });
}

/// What windows meet: [batch, channels, taps, windows].
Tensor gather(const TensorImpl& x, const core::Window& window) {
  if (meets_as_is(window)) return view(x);
  Tensor met = core::make_workspace({x.shape[0], x.shape[1], window.kernel(), window.out()}, x.dtype, x.device(),
                                    core::calling_place());
  for_rows(x, *met.impl(), window, [&](const auto* from, auto* to, const core::WindowAxis& columns) {
    for (std::int64_t tap = 0; tap < columns.kernel; ++tap)
      take_every(columns.stride, from + tap * columns.dilation, 0, columns.out, to + tap * window.out());
  });
  return met;
}
/// Back to where it was met.
void scatter(const TensorImpl& met, const core::Window& window, TensorImpl& x) {
  for_rows(x, met, window, [&](auto* to, const auto* from, const core::WindowAxis& columns) {
    if (columns.kernel == 2 && columns.stride == 2 && columns.dilation == 1) {  // which compilers vectorize
      const auto* const next = from + window.out();
      for (std::int64_t i = 0; i < columns.out; ++i) to[2 * i] = from[i], to[2 * i + 1] = next[i];
    } else {
      for (std::int64_t tap = 0; tap < columns.kernel; ++tap, from += window.out())
        for (std::int64_t i = 0; i < columns.out; ++i) to[i * columns.stride + tap * columns.dilation] = from[i];
    }
  });
}

/// [batch, groups, rows, places] of images, whose last axes are so many places.
Tensor matrices(const TensorImpl& x, std::int64_t groups, std::int64_t places) {
  const std::int64_t batch = x.shape[0], rows = x.numel() / (batch * groups * places);
  const std::int64_t strides[] = {groups * rows * places, rows * places, places, 1};
  return core::make_view(x, {batch, groups, rows, places}, strides, 0, core::calling_place());
}
/// [rows, columns] of what lies so in one piece.
Tensor matrix(const TensorImpl& x, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  const std::int64_t strides[] = {transposed ? 1 : columns, transposed ? columns : 1};
  return core::make_view(x, transposed ? Shape{columns, rows} : Shape{rows, columns}, strides, 0,
                         core::calling_place());
}

template <class Holds>
bool all_axes(const core::Window& window, Holds holds) {
  return std::all_of(window.axis, window.axis + 3, holds);
}
/// Whether windows meet every element.
bool takes_all(const core::Window& window) {
  return all_axes(window, [](const core::WindowAxis& a) { return a.dilation == 1 && a.in == a.out * a.kernel; });
}

/// All elements of a channel become that channel's bias, or zero.
void begin_with(const TensorImpl* bias, TensorImpl& out) {
  if (bias == nullptr) return fill(out, Scalar(0));
  if (out.numel() == 0) return;
  const std::int64_t planes = out.shape[0] * out.shape[1], places = out.numel() / planes;
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(planes, kCheapGrain / places + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        std::fill_n(out.as<T>() + i * places, places, bias->as<T>()[i % out.shape[1]]);
    });
  });
}

/// Weights [groups, to, from] times what the windows meet.
void mix(const TensorImpl& x, const Tensor& weight, const TensorImpl* bias, const core::Window& window,
         std::int64_t groups, TensorImpl& out) {
  if (out.numel() == 0) return;
  if (bias != nullptr) begin_with(bias, out);
  const Tensor from = matrices(x, groups, window.out()), to = matrices(out, groups, window.out());
  matmul(*weight.impl(), *from.impl(), nullptr, *to.impl(), bias != nullptr);
}

}  // namespace

bool is_of_patches(const core::Window& window, std::int64_t from, std::int64_t to, std::int64_t groups,
                   std::int64_t worth_a_copy) {
  constexpr std::int64_t kFewestRows = 16;    // of fewer, products are mostly copies
  constexpr std::int64_t kFewestPlaces = 16;  // of fewer, columns fill too little of a tile
  const bool apart = all_axes(window, [](const core::WindowAxis& a) {
    return a.before == 0 && a.extent() <= a.in &&
           (a.out <= 1 || (a.extent() <= a.stride && a.stride <= (a.in - a.extent()) / (a.out - 1)));
  });
  if (!apart || from < kFewestRows || to < kFewestRows) return false;
  if (window.kernel() > 1 && !meets_as_is(window) && to < worth_a_copy) return false;
  return window.out() >= kFewestPlaces || (window.out() == 1 && groups == 1);
}

void convolve_patches(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
                      std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[1] * window.kernel(), to = weight.shape[0] / groups;
  const std::int64_t strides[] = {to * from, from, 1};
  const Tensor weights = core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place());
  for_images(x, out, window, [&](const TensorImpl& images, TensorImpl& results, bool) {
    const Tensor met = gather(images, window);
    if (window.out() != 1 || groups != 1) return mix(*met.impl(), weights, bias, window, groups, results);
    matmul(*matrix(*met.impl(), images.shape[0], from).impl(), *matrix(weight, to, from, true).impl(), bias,
           *matrix(results, images.shape[0], to).impl(), false);
  });
}

void convolve_patches_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                                 const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[0] / groups, to = weight.shape[1] * window.kernel();
  const std::int64_t strides[] = {from * to, 1, to};
  const bool one = window.out() == 1 && groups == 1;
  const Tensor turned = core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place());
  const Tensor weights = one ? turned : packed(turned);
  for_images(out, grad, window, [&](TensorImpl& images, const TensorImpl& grads, bool) {
    const std::int64_t count = images.shape[0];
    const Tensor results = meets_as_is(window)
                               ? view(images)
                               : core::make_workspace({count, images.shape[1], window.kernel(), window.out()},
                                                      out.dtype, out.device(), core::calling_place());
    if (one) {
      if (bias != nullptr) begin_with(bias, *results.impl());
      matmul(*matrix(grads, count, from).impl(), *matrix(weight, from, to).impl(), nullptr,
             *matrix(*results.impl(), count, to).impl(), bias != nullptr);
    } else {
      mix(grads, weights, bias, window, groups, *results.impl());
    }
    if (meets_as_is(window)) return;
    if (!takes_all(window)) begin_with(bias, images);
    scatter(*results.impl(), window, images);
  });
}

void convolve_patches_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window,
                             std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = out.shape[1] * window.kernel(), to = out.shape[0] / groups, places = window.out();
  const std::int64_t of_result[] = {to * from, from, 1}, of_grad[] = {to * places, places, 1},
                     of_met[] = {from * places, 1, places};
  const Tensor result = core::make_view(out, {groups, to, from}, of_result, 0, core::calling_place());
  for_images(x, grad, window, [&](const TensorImpl& images, const TensorImpl& grads, bool first) {
    const std::int64_t count = images.shape[0];
    const Tensor met = gather(images, window);
    if (places == 1 && groups == 1)
      return matmul(*matrix(grads, count, to, true).impl(), *matrix(*met.impl(), count, from).impl(), nullptr,
                    *matrix(out, to, from).impl(), !first);
    for (std::int64_t i = 0; i < count; ++i) {
      const Tensor left = core::make_view(grads, {groups, to, places}, of_grad, i * groups * to * places,
                                          core::calling_place()),
                   right = core::make_view(*met.impl(), {groups, places, from}, of_met, i * groups * from * places,
                                           core::calling_place());
      matmul(*left.impl(), *right.impl(), nullptr, *result.impl(), !first || i > 0);
    }
  });
}

}  // namespace capstan::on_cpu
