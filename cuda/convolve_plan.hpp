#pragma once
// How a convolution is computed: in which way, and how our own kernels cut it up. No CUDA headers, so that it is tested
// on the host.
//
// A convolution joins images [batch, groups * in, places], weights [groups * out, in, kernel] and results
// [batch, groups * out, places]. Each of the three can be computed from the other two: the result itself, and the
// gradients for the images and for the weights.
#include <algorithm>
#include <cstdint>
#include <numeric>

#include "cuda/geometry.hpp"
#include "cuda/index_range.hpp"
#include "lib/core/window.hpp"

namespace capstan::on_cuda {

enum class ConvolveTarget : std::uint8_t { result, image, weight };

struct Convolution {
  DType dtype;
  std::int64_t batch, groups, in, out;  // channels of a group
  core::WindowAxis axis[3];             // depth, rows, columns; those missing in front have one place

  Convolution(DType type, std::int64_t images, std::int64_t group_count, std::int64_t from, std::int64_t to,
              const core::Window& window)
      : dtype(type), batch(images), groups(group_count), in(from), out(to) {
    for (int i = 0; i < window.axes; ++i) axis[3 - window.axes + i] = window.axis[i];
    for (core::WindowAxis& a : axis)
      if (a.kernel == 1) a.dilation = 1;
  }
  std::int64_t in_plane() const { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t out_plane() const { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t kernel() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
  std::int64_t weights() const { return groups * out * in * kernel(); }
  // elements of one image, and of its results
  std::int64_t image() const { return groups * in * in_plane(); }
  std::int64_t result() const { return groups * out * out_plane(); }
};

// --- which way ---

/// Whether numbers of elements and coordinates fit 32 bits, and products of two strides.
inline bool fits_32_bits(const Convolution& c) {
  for (const core::WindowAxis& a : c.axis)
    if (a.in > kFarthest || a.out > kFarthest || a.before > kFarthest || a.after > kFarthest ||
        a.extent() > kFarthest || a.stride > (1 << 15))
      return false;
  return c.batch * c.image() <= kIndexed && c.batch * c.result() <= kIndexed && c.weights() <= kIndexed;
}

/// As many images as 32-bit indices reach; one if it exceeds them alone.
inline std::int64_t images_at_once(const Convolution& c) {
  return std::max<std::int64_t>(kIndexed / std::max({c.image(), c.result(), std::int64_t{1}}), 1);
}

/// One result reads as many elements of an image as this, borders included. Not an integer: it may exceed all.
inline double reach_of(const Convolution& c) {
  double reach = static_cast<double>(c.in);
  for (const core::WindowAxis& a : c.axis) reach *= static_cast<double>(a.extent());
  return reach;
}

enum class ConvolveRoute : std::uint8_t { whole, pointwise, depthwise, library, tiles };

/// Each result reads its whole image: a product of matrices [batch, in * kernel] and [in * kernel, out].
inline bool reads_whole(const Convolution& c) {
  for (const core::WindowAxis& a : c.axis)
    if (a.in != a.kernel || a.out != 1 || a.before != 0 || a.dilation != 1) return false;
  return c.groups == 1 && c.batch > 0;
}
/// Each result reads one place: products of matrices [out, in] and [in, places], one for each image.
inline bool reads_points(const Convolution& c) {
  for (const core::WindowAxis& a : c.axis)
    if (a.kernel != 1 || a.stride != 1 || a.before != 0 || a.in != a.out) return false;
  return c.groups == 1 && c.batch > 0 && c.in_plane() > 0;
}
/// cuDNN wants the same zeros on both sides of an axis.
inline bool library_can(const Convolution& c) {
  if (c.batch < 1 || !fits_32_bits(c)) return false;
  for (const core::WindowAxis& a : c.axis) {
    const std::int64_t room = a.in + 2 * a.before - a.extent();
    if (a.in < 1 || a.out < 1 || room < 0 || room / a.stride + 1 != a.out) return false;
  }
  return true;
}

/// `library`: whether there is cuDNN.
inline ConvolveRoute choose_route(const Convolution& c, ConvolveTarget target, bool library) {
  constexpr std::int64_t kMaps = 8;  // results' channels of a group up to which a tile would mostly be empty
  if (c.groups > 1 && c.in == 1 && c.out <= kMaps && fits_32_bits(c)) return ConvolveRoute::depthwise;
  if (reads_whole(c)) return ConvolveRoute::whole;
  // what cuBLAS does with small or odd planes cuDNN does better
  const std::int64_t plane = c.in_plane();
  const bool wide = library ? plane >= 256 && plane * size_of(c.dtype) % 16 == 0 : plane >= 32;
  if (target != ConvolveTarget::weight && reads_points(c) && wide) return ConvolveRoute::pointwise;
  // few sums of very many terms: our own kernel joins parts of them in float64
  const bool long_sums =
      target == ConvolveTarget::weight && c.weights() <= 1024 && c.batch * c.out_plane() >= (1 << 17);
  return library && !long_sums && library_can(c) ? ConvolveRoute::library : ConvolveRoute::tiles;
}

// --- tiles: results and images ---
//
// A pass computes the results of a grid of places: result j of an axis is a sum over taps, of which each reads the
// place in_step * j + offset. A convolution is one pass. Its transpose is one for each combination of places modulo
// the stride, its phases, each with the taps that meet those places.

/// The remainder; `number` becomes the quotient.
template <class I>
CAPSTAN_HD I split_off(I& number, I size) {
  const I quotient = number / size, rest = number - quotient * size;
  number = quotient;
  return rest;
}

template <class I>
struct ConvolveTaps {
  I count, first, step;   // in the kernel
  I offset, offset_step;  // in the plane that is read
};

template <class I>
struct ConvolvePassAxis {
  bool transposed;
  I in, out, kernel;  // places of the planes that are read and written; taps
  I count, phases;    // results of a phase, at most
  I in_step, out_step;
  I before, dilation;
  I period, offset_step;  // from one tap to the next that meets a phase

  ConvolvePassAxis(const core::WindowAxis& a, bool backward) : transposed(backward) {
    const std::int64_t common = std::gcd(a.dilation, a.stride);
    in = static_cast<I>(backward ? a.out : a.in);
    out = static_cast<I>(backward ? a.in : a.out);
    kernel = static_cast<I>(a.kernel);
    count = static_cast<I>(backward ? (a.in + a.stride - 1) / a.stride : a.out);
    phases = static_cast<I>(backward ? std::min(a.stride, a.in) : 1);
    in_step = static_cast<I>(backward ? 1 : a.stride);
    out_step = static_cast<I>(backward ? a.stride : 1);
    before = static_cast<I>(a.before);
    dilation = static_cast<I>(a.dilation);
    period = static_cast<I>(a.stride / common);
    offset_step = static_cast<I>(a.dilation / common);
  }
  /// Those of the results phase, phase + out_step, ...
  CAPSTAN_HD ConvolveTaps<I> taps(I phase) const {
    if (!transposed) return {kernel, 0, 1, -before, dilation};
    const I most = kernel < period ? kernel : period;
    I first = 0, distance = phase + before;  // to the place that the tap carries to the phase
    while (first < most && distance % out_step != 0) ++first, distance -= dilation;
    if (first == most) return {0, 0, 1, 0, 0};
    return {(kernel - 1 - first) / period + 1, first, period, distance / out_step, -offset_step};
  }
};

/// A tile: its phase, its group, and its number among those of the channels and of the places.
template <class I>
struct ConvolveSpot {
  I phase[3];
  I group, row, column;
};

/// A result's image, and its place on the grid of its phase.
template <class I>
struct ConvolvePlace {
  I image, d, h, w;
};

template <class I>
struct ConvolvePass {
  ConvolvePassAxis<I> axis[3];
  Divider<I> by_count[3];
  I groups, from, to;                      // channels of a group: those summed over, and those of the result
  I from_stride, to_stride, group_stride;  // in the weights
  I in_plane, out_plane;                   // elements
  I places;                                // results of a phase, in all images

  ConvolvePass(const Convolution& c, bool transposed)
      : axis{{c.axis[0], transposed}, {c.axis[1], transposed}, {c.axis[2], transposed}},
        groups(static_cast<I>(c.groups)),
        from(static_cast<I>(transposed ? c.out : c.in)),
        to(static_cast<I>(transposed ? c.in : c.out)),
        from_stride(static_cast<I>(transposed ? c.in * c.kernel() : c.kernel())),
        to_stride(static_cast<I>(transposed ? c.kernel() : c.in * c.kernel())),
        group_stride(static_cast<I>(c.out * c.in * c.kernel())),
        in_plane(static_cast<I>(transposed ? c.out_plane() : c.in_plane())),
        out_plane(static_cast<I>(transposed ? c.in_plane() : c.out_plane())) {
    std::int64_t all = c.batch;
    for (int i = 0; i < 3; ++i) {
      by_count[i] = Divider<I>(axis[i].count > 0 ? axis[i].count : 1);
      all *= axis[i].count;
    }
    places = static_cast<I>(all);
  }

  std::int64_t row_tiles(int channels) const { return (std::int64_t{to} + channels - 1) / channels; }
  std::int64_t column_tiles(int results) const { return (std::int64_t{places} + results - 1) / results; }
  std::int64_t tiles(int channels, int results) const {
    const std::int64_t phases = std::int64_t{axis[0].phases} * axis[1].phases * axis[2].phases;
    return phases * column_tiles(results) * groups * row_tiles(channels);
  }
  /// Channels go fastest: tiles that read the same places run side by side.
  CAPSTAN_HD ConvolveSpot<I> spot(I tile, I rows, I columns) const {
    ConvolveSpot<I> s;
    s.row = split_off(tile, rows);
    s.group = split_off(tile, groups);
    s.column = split_off(tile, columns);
    s.phase[2] = split_off(tile, axis[2].phases);
    s.phase[1] = split_off(tile, axis[1].phases);
    s.phase[0] = tile;
    return s;
  }
  CAPSTAN_HD ConvolvePlace<I> place(I number) const {
    ConvolvePlace<I> p;
    I next = by_count[2].quotient(number);
    p.w = number - next * axis[2].count;
    number = next;
    next = by_count[1].quotient(number);
    p.h = number - next * axis[1].count;
    p.image = by_count[0].quotient(next);
    p.d = next - p.image * axis[0].count;
    return p;
  }
  /// Where a result of a phase stands in its plane, or -1 for places of the grid that the plane does not have.
  CAPSTAN_HD I offset(const ConvolvePlace<I>& p, const I (&phase)[3]) const {
    const I d = phase[0] + axis[0].out_step * p.d, h = phase[1] + axis[1].out_step * p.h;
    const I w = phase[2] + axis[2].out_step * p.w;
    if (d >= axis[0].out || h >= axis[1].out || w >= axis[2].out) return -1;
    return (d * axis[1].out + h) * axis[2].out + w;
  }
};

// --- tiles: weights ---

template <class I>
struct ConvolveWeightAxis {
  I in, out, kernel, stride, dilation, before;
  Divider<I> by_out, by_kernel;
  explicit ConvolveWeightAxis(const core::WindowAxis& a)
      : in(static_cast<I>(a.in)),
        out(static_cast<I>(a.out)),
        kernel(static_cast<I>(a.kernel)),
        stride(static_cast<I>(a.stride)),
        dilation(static_cast<I>(a.dilation)),
        before(static_cast<I>(a.before)),
        by_out(std::max<std::int64_t>(a.out, 1)),
        by_kernel(a.kernel) {}
};

/// A place of the results in one of the images, and the first place in the input that its kernel reads.
template <class I>
struct ConvolveTerm {
  I image, place, d, h, w;
};
/// A channel and a tap: what the latter adds to the place.
template <class I>
struct ConvolveColumn {
  I channel, d, h, w;
};

/// The gradient for the weights: matrices [out, in * kernel] of sums over the places of all images.
template <class I>
struct ConvolveWeights {
  ConvolveWeightAxis<I> axis[3];
  I groups, from, to, in_plane, out_plane;
  I columns, terms;

  explicit ConvolveWeights(const Convolution& c)
      : axis{ConvolveWeightAxis<I>(c.axis[0]), ConvolveWeightAxis<I>(c.axis[1]), ConvolveWeightAxis<I>(c.axis[2])},
        groups(static_cast<I>(c.groups)),
        from(static_cast<I>(c.in)),
        to(static_cast<I>(c.out)),
        in_plane(static_cast<I>(c.in_plane())),
        out_plane(static_cast<I>(c.out_plane())),
        columns(static_cast<I>(c.in * c.kernel())),
        terms(static_cast<I>(c.batch * c.out_plane())) {}

  CAPSTAN_HD ConvolveTerm<I> term(I number) const {
    ConvolveTerm<I> t;
    I next = axis[2].by_out.quotient(number);
    t.w = number - next * axis[2].out;
    I last = next;
    next = axis[1].by_out.quotient(last);
    t.h = last - next * axis[1].out;
    t.image = axis[0].by_out.quotient(next);
    t.d = next - t.image * axis[0].out;
    t.place = number - t.image * out_plane;
    t.d = t.d * axis[0].stride - axis[0].before;
    t.h = t.h * axis[1].stride - axis[1].before;
    t.w = t.w * axis[2].stride - axis[2].before;
    return t;
  }
  CAPSTAN_HD ConvolveColumn<I> column(I number) const {
    ConvolveColumn<I> c;
    I next = axis[2].by_kernel.quotient(number);
    c.w = (number - next * axis[2].kernel) * axis[2].dilation;
    I last = next;
    next = axis[1].by_kernel.quotient(last);
    c.h = (last - next * axis[1].kernel) * axis[1].dilation;
    c.channel = axis[0].by_kernel.quotient(next);
    c.d = (next - c.channel * axis[0].kernel) * axis[0].dilation;
    return c;
  }
};

/// Sums of `terms` products are shared out among blocks, so that all of the GPU has something to do and no float32 sum
/// becomes long; the parts are then added in float64. Terms of a part, a multiple of `slice`; `blocks` take one part of
/// all `sums`.
inline std::int64_t terms_of_part(std::int64_t terms, std::int64_t blocks, std::int64_t sums, std::int64_t slice) {
  constexpr std::int64_t kBlocks = 2 * 132, kShort = 512, kLong = 1024;
  constexpr std::int64_t kMemory = 1 << 26;  // elements that the parts may take
  const auto over = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t parts = std::max(over(kBlocks, blocks), over(terms, kLong));
  parts = std::min({parts, std::max<std::int64_t>(terms / kShort, 1), std::max<std::int64_t>(kMemory / sums, 1)});
  return std::max(over(over(terms, parts), slice) * slice, slice);
}

}  // namespace capstan::on_cuda
