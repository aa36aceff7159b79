#pragma once
// How a convolution is cut into pieces that fit the cache.
//
// A pass computes the results on a grid of places: result j of an axis is a sum over taps, each of which reads the input
// at `in_step * j + offset`. A convolution is one pass. Its transpose, which is also the gradient for its input, is one
// pass for every combination of places modulo the stride, each with the taps that meet those places.
//
// Kernels with three or five columns go through minimal filtering where that pays: tiles of four or two results in a row
// come from six products, each of sums of inputs and of sums of weights (lib/cpu/simd/convolve.hpp). Then the input's
// part holds those sums, and the six take the place of the columns' taps.
#include <algorithm>

#include "lib/core/allocator.hpp"
#include "lib/core/tensor_impl.hpp"
#include "lib/core/window.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/cpu/tasks.hpp"

namespace capstan::on_cpu {

struct Tap {
  std::int64_t offset, weight;  // where it reads the input, and its place in the kernel
};
struct PassAxis {
  std::int64_t in = 1, out = 1, kernel = 1;  // sizes of the planes and of the kernel
  std::int64_t count = 1, out_start = 0, out_step = 1, in_step = 1;
  core::ScratchVector<Tap> taps;

  std::int64_t first() const { return taps.empty() ? 0 : taps.front().offset; }
  bool takes_kernel_in_order() const {
    for (std::size_t t = 0; t < taps.size(); ++t)
      if (taps[t].weight != static_cast<std::int64_t>(t)) return false;
    return static_cast<std::int64_t>(taps.size()) == kernel;
  }
  /// Input places that `results` results in a row read.
  std::int64_t reach(std::int64_t results) const {
    return taps.empty() ? 1 : in_step * (results - 1) + taps.back().offset - taps.front().offset + 1;
  }
};
struct Pass {
  PassAxis axis[3];  // depth, rows, columns
  std::int64_t in_plane() const { return axis[0].in * axis[1].in * axis[2].in; }
  std::int64_t out_plane() const { return axis[0].out * axis[1].out * axis[2].out; }
  std::int64_t taps() const {
    return static_cast<std::int64_t>(axis[0].taps.size() * axis[1].taps.size() * axis[2].taps.size());
  }
  std::int64_t results() const { return axis[0].count * axis[1].count * axis[2].count; }
  std::int64_t kernel() const { return axis[0].kernel * axis[1].kernel * axis[2].kernel; }
  bool takes_kernel_in_order() const {
    return std::all_of(axis, axis + 3, [](const PassAxis& a) { return a.takes_kernel_in_order(); });
  }
};

// convolve_patches.cpp: whether a convolution is best made as products of matrices, which sum over `from` rows and give
// `to`, each a channel or a tap of one. Elements that do not lie as windows meet them are copied side by side, which so
// many rows of the result are worth. And the products, of contiguous tensors.
inline constexpr std::int64_t kRowsWorthCopy = 256;  // else they are read where they lie, or of gradients for weights
inline constexpr std::int64_t kRowsWorthCopyForWeight = 64;
inline constexpr std::int64_t kRowsWorthCopyBack = 1;  // else there is a pass for every tap
bool is_of_patches(const core::Window& window, std::int64_t from, std::int64_t to, std::int64_t groups,
                   std::int64_t worth_a_copy);
void convolve_patches(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
                      std::int64_t groups, TensorImpl& out);
void convolve_patches_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                                 const core::Window& window, std::int64_t groups, TensorImpl& out);
void convolve_patches_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window,
                             std::int64_t groups, TensorImpl& out);

Pass forward_pass(const core::Window& window);
core::ScratchVector<Pass> transposed_passes(const core::Window& window);

/// 3 or 5 for windows of so many rows and columns that move one place at a time over planes, which have kernels of their
/// own (lib/cpu/simd/depthwise.hpp); else 0.
int plane_kernel(const Pass& pass);
/// A plane of the input as those kernels take it.
template <class T>
Plane<T> plane_of(const Pass& pass, const T* x) {
  const PassAxis &h = pass.axis[1], &w = pass.axis[2];
  return {x, h.in, w.in, h.first(), w.first(), plane_kernel(pass)};
}

inline constexpr int kProducts = 6;  // of a tile
/// The results of a tile if minimal filtering serves a pass over so many images with that many channels, else 0.
int tile_of(const Pass& pass, std::int64_t from, std::int64_t to, std::int64_t batch);

/// a * b for a >= 0 and b >= 1, or 2^60 if that is less: far more elements than any memory holds.
inline std::int64_t bounded_product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t most = std::int64_t{1} << 60;
  return a > most / b ? most : a * b;
}

/// Blocks of results, and how the part of the input that one needs lies in scratch memory, zeros at the borders
/// included: [channels, depth, rows, columns]. Of a stride s along the columns, every s-th stands together, so that
/// neighbouring results read neighbouring elements; with tiles, a row is [products, tiles]. A place is a result, or a
/// tile.
struct Blocks {
  std::int64_t size[3], count[3];            // of results; the last block of an axis may be smaller
  std::int64_t depth, rows, columns, phase;  // of the input's part; elements from one phase or product to the next
  std::int64_t row, plane;                   // elements from one row and one channel to the next
  int tile;                                  // 0 for none

  /// For inputs of so many channels, of which some are gone over at once. Throws ShapeError if one result's part of the
  /// input is too large for 32-bit offsets.
  Blocks(const Pass& pass, std::int64_t channels, int tile_size, std::int64_t at_once);
  explicit Blocks(const Pass& pass, std::int64_t channels, int tile_size = 0)
      : Blocks(pass, channels, tile_size, channels) {}
  std::int64_t total() const { return count[0] * count[1] * count[2]; }
  std::int64_t results() const { return size[0] * size[1] * size[2]; }
  std::int64_t in_row(std::int64_t results) const { return tile == 0 ? results : (results + tile - 1) / tile; }
  std::int64_t places() const { return size[0] * size[1] * in_row(size[2]); }
  std::int64_t products() const { return tile == 0 ? 1 : kProducts; }
  /// Elements of a row that is to be made products of, with those read beyond its end.
  std::int64_t spare() const { return columns + 80; }
  /// Room for one result beside the other, those of a row's last tile included.
  std::int64_t room() const { return tile == 0 ? places() : places() * tile; }
  std::int64_t input(std::int64_t channels) const { return bounded_product(channels, plane); }
  /// Of those that a place meets one by one: all, or those of depth and rows.
  std::int64_t taps(const Pass& pass) const {
    return tile == 0 ? pass.taps() : static_cast<std::int64_t>(pass.axis[0].taps.size() * pass.axis[1].taps.size());
  }
};

/// One block: where it begins, and its size.
struct Block {
  std::int64_t begin[3], size[3];
  Block(const Pass& pass, const Blocks& blocks, std::int64_t number);
};

/// The offsets of `channels` x taps in a block's part of the input, channels outermost.
core::ScratchVector<std::int32_t> tap_offsets(const Pass& pass, const Blocks& blocks, std::int64_t channels);
/// The offsets of a block's places in its part of the input; how many they are.
std::int64_t place_offsets(const Pass& pass, const Blocks& blocks, const Block& block, std::int32_t* offsets);

/// A column, and how many of a phase (0 .. step - 1) stand before it.
struct Column {
  std::int64_t whole, rest;
  Column(std::int64_t column, std::int64_t step) : whole(column / step), rest(column % step) {}
  std::int64_t before(std::int64_t phase) const { return whole + (phase < rest ? 1 : 0); }
};
/// to[i] = from[step * i]
template <class T>
void take_every(std::int64_t step, const T* from, std::int64_t begin, std::int64_t end, T* to) {
  if (step == 2)  // which compilers vectorize
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[2 * i];
  else
    for (std::int64_t i = begin; i < end; ++i) to[i] = from[step * i];
}

/// Copies the part of the input that a block needs. `spare` has room for `blocks.spare()` elements: with tiles a row
/// before it is made products of, and zeros.
template <class T>
void load_block(const Pass& pass, const Blocks& blocks, const Block& block, const T* in, std::int64_t channels, T* to,
                T* spare = nullptr) {
  const PassAxis &d = pass.axis[0], &h = pass.axis[1], &w = pass.axis[2];
  const std::int64_t d0 = d.in_step * block.begin[0] + d.first(), h0 = h.in_step * block.begin[1] + h.first();
  const std::int64_t tiles = blocks.in_row(block.size[2]);
  const std::int64_t w0 = w.in_step * block.begin[2] + w.first();
  const std::int64_t columns = blocks.tile == 0 ? w.reach(block.size[2]) : (tiles - 1) * blocks.tile + kProducts;
  const std::int64_t begin = std::clamp<std::int64_t>(-w0, 0, columns);  // columns that lie inside the input
  const std::int64_t end = std::clamp<std::int64_t>(w.in - w0, begin, columns);
  const std::int64_t step = w.in_step, depths = d.reach(block.size[0]), rows = h.reach(block.size[1]);
  const Column at_begin(begin, step), at_end(end, step), at_columns(columns, step);
  // what is read behind a row; numbers below the normal ones, as may be there, would be slow
  if (blocks.tile != 0) std::fill(spare + columns, spare + blocks.spare(), T(0));
  for (std::int64_t channel = 0; channel < channels; ++channel, in += pass.in_plane()) {
    T* line = to + channel * blocks.plane;
    for (std::int64_t i = d0; i < d0 + depths; ++i, line += (blocks.rows - rows) * blocks.row)
      for (std::int64_t j = h0; j < h0 + rows; ++j, line += blocks.row) {
        if (i < 0 || i >= d.in || j < 0 || j >= h.in) {
          std::fill(line, line + blocks.row, T(0));
          continue;
        }
        const T* from = in + (i * h.in + j) * w.in + w0;
        if (step == 1) {
          T* const plain = blocks.tile == 0 ? line : spare;
          std::fill(plain, plain + begin, T(0));
          std::copy(from + begin, from + end, plain + begin);
          std::fill(plain + end, plain + columns, T(0));
          if (blocks.tile != 0) simd().of<T>().filter_input(spare, tiles, blocks.tile, line, blocks.phase);
          continue;
        }
        for (std::int64_t phase = 0; phase < std::min(step, columns); ++phase) {
          T* const part = line + phase * blocks.phase;
          std::fill(part, part + at_begin.before(phase), T(0));
          take_every(step, from + phase, at_begin.before(phase), at_end.before(phase), part);
          std::fill(part + at_end.before(phase), part + at_columns.before(phase), T(0));
        }
      }
  }
}

inline constexpr std::int64_t kTurned = 16;  // rows and columns that `transpose_tile` takes

/// to [count, width] = the transpose of from [channels, ...], whose rows stand `plane` apart; zeros beyond the channels.
/// With `end`, up to which `from` may be read, writes up to kTurned - 1 rows more.
template <class T>
void load_places(const T* from, std::int64_t plane, std::int64_t channels, std::int64_t count, T* to,
                 std::int64_t width, const T* end = nullptr) {
  for (std::int64_t i = 0; i < count; i += kTurned)
    for (std::int64_t channel = 0; channel < channels; channel += kTurned) {
      const T* const source = from + channel * plane + i;
      T* const turned = to + i * width + channel;
      const std::int64_t rows = std::min(kTurned, count - i), columns = std::min(kTurned, channels - channel);
      const bool whole = rows == kTurned || (end != nullptr && source + (kTurned - 1) * plane + kTurned <= end);
      if (whole && columns == kTurned) simd().of<T>().transpose_tile(source, plane, turned, width);
      else
        for (std::int64_t k = 0; k < columns; ++k)
          for (std::int64_t j = 0; j < rows; ++j) turned[j * width + k] = source[k * plane + j];
    }
  if (channels < width)
    for (std::int64_t i = 0; i < count; ++i) std::fill(to + i * width + channels, to + (i + 1) * width, T(0));
}
/// out[channel * plane + i * step] = sums[i * width + channel] for `count` places.
template <class T>
void store_places(const T* sums, std::int64_t width, std::int64_t channels, std::int64_t count, T* out,
                  std::int64_t plane, std::int64_t step = 1) {
  for (std::int64_t i = 0; i < count; i += kTurned)
    for (std::int64_t channel = 0; channel < channels; channel += kTurned) {
      const T* const source = sums + i * width + channel;
      T* const turned = out + channel * plane + i * step;
      const std::int64_t rows = std::min(kTurned, count - i), columns = std::min(kTurned, channels - channel);
      if (rows == kTurned && columns == kTurned && step == 1)
        simd().of<T>().transpose_tile(source, width, turned, plane);
      else
        for (std::int64_t k = 0; k < columns; ++k)
          for (std::int64_t j = 0; j < rows; ++j) turned[k * plane + j * step] = source[j * width + k];
    }
}

inline constexpr std::int64_t kSteps = 256;  // products between loads and stores of the sums
/// Results with fewer channels a group than a register has lanes, divided by this, take the columns as lanes instead.
inline constexpr std::int64_t kFewChannels = 4;

/// Channels of one group, and where their weights stand: `from` are summed over, `to` are those of the result.
struct Channels {
  std::int64_t groups, from, to;
  std::int64_t from_stride, to_stride, group_stride;  // in the weights
};

/// Calls use(first result in the block's room, its offset in the output's plane, results) for runs of results that stand
/// `out_step` of the columns apart.
template <class Use>
void for_out_runs(const Pass& pass, const Blocks& blocks, const Block& block, Use use) {
  const PassAxis &d = pass.axis[0], &h = pass.axis[1], &w = pass.axis[2];
  const std::int64_t line = blocks.tile == 0 ? block.size[2] : blocks.in_row(block.size[2]) * blocks.tile;
  const bool rows_join = w.out_step == 1 && h.out_step == 1 && block.size[2] == w.out && line == w.out;
  const std::int64_t joined = rows_join ? block.size[1] : 1;
  for (std::int64_t i = 0; i < block.size[0]; ++i)
    for (std::int64_t j = 0; j < block.size[1]; j += joined) {
      const std::int64_t depth = d.out_start + d.out_step * (block.begin[0] + i);
      const std::int64_t row = h.out_start + h.out_step * (block.begin[1] + j);
      const std::int64_t column = w.out_start + w.out_step * block.begin[2];
      use((i * block.size[1] + j) * line, (depth * h.out + row) * w.out + column, joined * block.size[2]);
    }
}

inline std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }
inline std::int64_t padded(std::int64_t count, std::int64_t size) { return parts(count, size) * size; }

/// How much each tap counts in the weights of each product of a tile.
struct Shares {
  double of[kProducts][5] = {};
  explicit Shares(std::int64_t taps);
};

}  // namespace capstan::on_cpu
