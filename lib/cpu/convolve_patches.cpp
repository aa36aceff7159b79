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

/// Calls use(elements of a row that windows meet with one tap, in a plane; where they stand among [taps, windows]) for all
/// rows and taps: `stride` apart, as many as a row has windows.
template <class Use>
void for_rows_of_taps(const core::Window& window, Use use) {
  core::WindowAxis axis[3];
  for (int i = 0; i < window.axes; ++i) axis[3 - window.axes + i] = window.axis[i];
  const auto& [d, h, w] = axis;
  for (std::int64_t z = 0; z < d.out; ++z)
    for (std::int64_t y = 0; y < h.out; ++y)
      for (std::int64_t tap = 0; tap < d.kernel * h.kernel; ++tap) {
        const std::int64_t depth = z * d.stride + tap / h.kernel * d.dilation;
        const std::int64_t row = y * h.stride + tap % h.kernel * h.dilation;
        use((depth * h.in + row) * w.in, ((tap * w.kernel * d.out + z) * h.out + y) * w.out, w);
      }
}

/// Whether what windows meet lies as they do: a window for each place, or one for all.
bool meets_as_is(const core::Window& window) {
  return window.in() == window.kernel() * window.out() && (window.kernel() == 1 || window.out() == 1);
}

/// Calls use(T, x's plane, what windows meet of it [taps, windows]) for all planes.
template <class Use>
void for_planes(const TensorImpl& x, const TensorImpl& met, const core::Window& window, Use use) {
  const std::int64_t taken = window.kernel() * window.out();
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(x.shape[0] * x.shape[1], kCheapGrain / taken + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) use(x.as<T>() + i * window.in(), met.as<T>() + i * taken);
    });
  });
}

/// What windows meet: [batch, channels, taps, windows].
Tensor gather(const TensorImpl& x, const core::Window& window) {
  if (meets_as_is(window)) return core::make_view(x, x.shape, x.strides, 0, core::calling_place());
  Tensor met = core::make_workspace({x.shape[0], x.shape[1], window.kernel(), window.out()}, x.dtype, x.device(),
                                    core::calling_place());
  for_planes(x, *met.impl(), window, [&](const auto* plane, auto* taken) {
    for_rows_of_taps(window, [&](std::int64_t in, std::int64_t at, const core::WindowAxis& w) {
      for (std::int64_t tap = 0; tap < w.kernel; ++tap)
        take_every(w.stride, plane + in + tap * w.dilation, 0, w.out, taken + at + tap * window.out());
    });
  });
  return met;
}
/// Back to where it was met.
void scatter(const TensorImpl& met, const core::Window& window, TensorImpl& x) {
  for_planes(x, met, window, [&](auto* plane, const auto* taken) {
    for_rows_of_taps(window, [&](std::int64_t in, std::int64_t at, const core::WindowAxis& w) {
      auto* const row = plane + in;
      const auto *from = taken + at, *next = from + window.out();
      if (w.kernel == 2 && w.stride == 2 && w.dilation == 1)  // which compilers vectorize
        for (std::int64_t i = 0; i < w.out; ++i) row[2 * i] = from[i], row[2 * i + 1] = next[i];
      else
        for (std::int64_t tap = 0; tap < w.kernel; ++tap, from += window.out())
          for (std::int64_t i = 0; i < w.out; ++i) row[i * w.stride + tap * w.dilation] = from[i];
    });
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
  const bool copied = window.kernel() > 1 && !meets_as_is(window);
  if (from < kFewestRows || to < (copied ? worth_a_copy : kFewestRows)) return false;
  std::int64_t places = 1;
  for (const core::WindowAxis& a : window.axis) places = bounded_product(places, std::max<std::int64_t>(a.out, 1));
  if (places < kFewestPlaces && !(window.out() == 1 && groups == 1)) return false;
  return all_axes(window, [](const core::WindowAxis& a) {
    return a.before == 0 && a.extent() <= a.in &&
           (a.out <= 1 || (a.extent() <= a.stride && a.stride <= (a.in - a.extent()) / (a.out - 1)));
  });
}

void convolve_patches(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
                      std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[1] * window.kernel(), to = weight.shape[0] / groups;
  const std::int64_t strides[] = {to * from, from, 1};
  const Tensor met = gather(x, window);
  if (window.out() == 1 && groups == 1)
    return matmul(*matrix(*met.impl(), x.shape[0], from).impl(), *matrix(weight, to, from, true).impl(), bias,
                  *matrix(out, x.shape[0], to).impl(), false);
  mix(*met.impl(), core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place()), bias, window, groups,
      out);
}

void convolve_patches_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                                 const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = weight.shape[0] / groups, to = weight.shape[1] * window.kernel();
  const std::int64_t strides[] = {from * to, 1, to};
  const bool direct = meets_as_is(window);
  const Tensor results = direct ? core::make_view(out, out.shape, out.strides, 0, core::calling_place())
                                : core::make_workspace({out.shape[0], out.shape[1], window.kernel(), window.out()},
                                                       out.dtype, out.device(), core::calling_place());
  if (window.out() == 1 && groups == 1) {
    if (bias != nullptr) begin_with(bias, *results.impl());
    matmul(*matrix(grad, grad.shape[0], from).impl(), *matrix(weight, from, to).impl(), nullptr,
           *matrix(*results.impl(), grad.shape[0], to).impl(), bias != nullptr);
  } else {
    mix(grad, packed(core::make_view(weight, {groups, to, from}, strides, 0, core::calling_place())), bias, window,
        groups, *results.impl());
  }
  if (direct) return;
  if (!takes_all(window)) begin_with(bias, out);
  scatter(*results.impl(), window, out);
}

void convolve_patches_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window,
                             std::int64_t groups, TensorImpl& out) {
  const std::int64_t from = out.shape[1] * window.kernel(), to = out.shape[0] / groups;
  const Tensor met = gather(x, window);
  if (window.out() == 1 && groups == 1)
    return matmul(*matrix(grad, x.shape[0], to, true).impl(), *matrix(*met.impl(), x.shape[0], from).impl(), nullptr,
                  *matrix(out, to, from).impl(), false);
  const std::int64_t places = window.out(), of_result[] = {to * from, from, 1}, of_grad[] = {to * places, places, 1},
                     of_met[] = {from * places, 1, places};
  const Tensor result = core::make_view(out, {groups, to, from}, of_result, 0, core::calling_place());
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    const Tensor left = core::make_view(grad, {groups, to, places}, of_grad, i * groups * to * places,
                                        core::calling_place()),
                 right = core::make_view(*met.impl(), {groups, places, from}, of_met, i * groups * from * places,
                                         core::calling_place());
    matmul(*left.impl(), *right.impl(), nullptr, *result.impl(), i > 0);
  }
}

}  // namespace capstan::on_cpu
