#include <algorithm>

#include "lib/base/text.hpp"
#include "lib/cpu/convolve.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kBlockInput = 1 << 16, kBlockResults = 1024;  // elements that stay in the second-level cache

/// The window with its axes at the end, as depth, rows, columns.
core::WindowAxis axis_of(const core::Window& window, int axis) {
  const int own = axis - (3 - window.axes);
  return own < 0 ? core::WindowAxis() : window.axis[own];
}

/// The results at places `phase`, `phase` + stride, ... of the input.
PassAxis transposed_axis(const core::WindowAxis& a, std::int64_t phase) {
  PassAxis axis;
  axis.in = a.out, axis.out = a.in, axis.kernel = a.kernel;
  axis.out_start = phase, axis.out_step = a.stride;
  axis.count = phase < a.in ? (a.in - phase + a.stride - 1) / a.stride : 0;
  for (std::int64_t t = a.kernel - 1; t >= 0; --t) {
    const std::int64_t distance = phase + a.before - t * a.dilation;  // to the place that tap t carries to phase
    if (distance % a.stride == 0) axis.taps.push_back({distance / a.stride, t});
  }
  return axis;
}

// The powers of the points of minimal filtering, over what makes the six products add up to the results.
constexpr double kA = 0.75, kB = 1.5;
constexpr double kAtA = 1 / (2 * kA * kA * (kA * kA - kB * kB)), kAtB = 1 / (2 * kB * kB * (kB * kB - kA * kA));
constexpr double kAtZero = 1 / (kA * kA * kB * kB);

}  // namespace

Pass forward_pass(const core::Window& window) {
  Pass pass;
  for (int i = 0; i < 3; ++i) {
    const core::WindowAxis a = axis_of(window, i);
    PassAxis& axis = pass.axis[i];
    axis.in = a.in, axis.out = axis.count = a.out, axis.kernel = a.kernel, axis.in_step = a.stride;
    for (std::int64_t t = 0; t < a.kernel; ++t) axis.taps.push_back({t * a.dilation - a.before, t});
  }
  return pass;
}

core::ScratchVector<Pass> transposed_passes(const core::Window& window) {
  const core::WindowAxis a[] = {axis_of(window, 0), axis_of(window, 1), axis_of(window, 2)};
  core::ScratchVector<Pass> passes;
  for (std::int64_t i = 0; i < std::min(a[0].stride, a[0].in); ++i)
    for (std::int64_t j = 0; j < std::min(a[1].stride, a[1].in); ++j)
      for (std::int64_t k = 0; k < std::min(a[2].stride, a[2].in); ++k)
        passes.push_back({{transposed_axis(a[0], i), transposed_axis(a[1], j), transposed_axis(a[2], k)}});
  return passes;
}

int plane_kernel(const Pass& pass) {
  const PassAxis& d = pass.axis[0];
  if (d.in != 1 || d.out != 1 || d.taps.size() != 1 || d.first() != 0) return 0;
  const auto kernel = static_cast<std::int64_t>(pass.axis[1].taps.size());
  for (const PassAxis* a : {&pass.axis[1], &pass.axis[2]}) {
    if (static_cast<std::int64_t>(a->taps.size()) != kernel || a->in_step != 1 || a->out_step != 1) return 0;
    if (kernel == 0 || a->taps.back().offset - a->taps.front().offset != kernel - 1) return 0;  // dilated
  }
  return kernel == 3 || kernel == 5 ? static_cast<int>(kernel) : 0;
}

int tile_of(const Pass& pass, std::int64_t from, std::int64_t to, std::int64_t batch) {
  const PassAxis& w = pass.axis[2];
  const auto taps = static_cast<std::int64_t>(w.taps.size());
  if ((taps != 3 && taps != 5) || w.in_step != 1 || w.out_step != 1) return 0;
  if (w.taps.back().offset - w.taps.front().offset != taps - 1) return 0;  // dilated
  const auto others = static_cast<std::int64_t>(pass.axis[0].taps.size() * pass.axis[1].taps.size());
  if (from * others < 32 || to < 16) return 0;  // too little to do with the sums once they are made
  const std::int64_t tile = kProducts + 1 - taps;
  const std::int64_t plain = w.count * taps, saved = plain - parts(w.count, tile) * kProducts;
  if (saved * 8 < plain) return 0;
  // each weight's sums take as long as so many multiplications
  constexpr std::int64_t kFiltering = 32;
  return bounded_product(batch, pass.results()) >= kFiltering * plain / saved ? static_cast<int>(tile) : 0;
}

Blocks::Blocks(const Pass& pass, std::int64_t channels, int tile_size, std::int64_t at_once) : tile(tile_size) {
  const auto place = [&] {
    const PassAxis& w = pass.axis[2];
    depth = pass.axis[0].reach(size[0]), rows = pass.axis[1].reach(size[1]);
    columns = tile == 0 ? w.reach(size[2]) : in_row(size[2]) * tile + kProducts;
    phase = tile == 0 ? parts(columns, w.in_step) : in_row(size[2]);
    row = tile != 0 ? phase * kProducts : phase == 1 ? columns : phase * w.in_step;
    // lines of the cache: of an even number the channels would meet in few of its sets
    const std::int64_t lines = parts(bounded_product(bounded_product(depth, rows), row), 16);
    plane = (lines % 2 == 0 ? lines + 1 : lines) * 16;
  };
  const std::int64_t most = tile == 0 ? kBlockResults : kBlockResults / 2;
  for (int i = 0; i < 3; ++i) size[i] = 1;
  place();
  // a part much larger than one result's is brought in for many; smaller ones are mostly what their neighbours need too
  const std::int64_t most_input = std::clamp<std::int64_t>(2 * input(at_once), kBlockInput, INT32_MAX);
  const auto large = [&] { return input(at_once) > most_input || input(channels) > INT32_MAX || results() > most; };
  for (int i = 0; i < 3; ++i) size[i] = std::max<std::int64_t>(pass.axis[i].count, 1);
  place();
  for (int i = 0; i < 3; ++i)
    for (; large() && size[i] > 1; place()) size[i] = (size[i] + 1) / 2;
  for (int i = 0; i < 3; ++i) {
    count[i] = parts(std::max<std::int64_t>(pass.axis[i].count, 1), size[i]);
    size[i] = parts(std::max<std::int64_t>(pass.axis[i].count, 1), count[i]);  // all about as large
    count[i] = parts(pass.axis[i].count, size[i]);
  }
  place();
  if (input(channels) > INT32_MAX)
    base::fail<ShapeError>(core::calling_place(), "convolution: a kernel reaches over a part [", channels, ", ", depth,
                           ", ", rows, ", ", columns, "] of the padded input; it must have fewer than 2^31 elements.");
}

Block::Block(const Pass& pass, const Blocks& blocks, std::int64_t number) {
  for (int i = 2; i >= 0; --i) {
    begin[i] = number % blocks.count[i] * blocks.size[i];
    size[i] = std::min(blocks.size[i], pass.axis[i].count - begin[i]);
    number /= blocks.count[i];
  }
}

core::ScratchVector<std::int32_t> tap_offsets(const Pass& pass, const Blocks& blocks, std::int64_t channels) {
  const PassAxis &d = pass.axis[0], &h = pass.axis[1], &w = pass.axis[2];
  core::ScratchVector<std::int64_t> columns;
  for (const Tap& tap : w.taps) {
    const std::int64_t column = tap.offset - w.first();
    columns.push_back(column % w.in_step * blocks.phase + column / w.in_step);
  }
  if (blocks.tile != 0) columns.assign(1, 0);
  core::ScratchVector<std::int32_t> offsets;
  offsets.reserve(static_cast<std::size_t>(channels * blocks.taps(pass)));
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (const Tap& depth : d.taps)
      for (const Tap& row : h.taps)
        for (const std::int64_t column : columns) {
          const std::int64_t line = (depth.offset - d.first()) * blocks.rows + row.offset - h.first();
          offsets.push_back(static_cast<std::int32_t>(channel * blocks.plane + line * blocks.row + column));
        }
  return offsets;
}

std::int64_t place_offsets(const Pass& pass, const Blocks& blocks, const Block& block, std::int32_t* offsets) {
  const std::int32_t* const first = offsets;
  for (std::int64_t i = 0; i < block.size[0]; ++i)
    for (std::int64_t j = 0; j < block.size[1]; ++j) {
      const std::int64_t line = (i * pass.axis[0].in_step * blocks.rows + j * pass.axis[1].in_step) * blocks.row;
      for (std::int64_t k = 0; k < blocks.in_row(block.size[2]); ++k) *offsets++ = static_cast<std::int32_t>(line + k);
    }
  return offsets - first;
}

Shares::Shares(std::int64_t taps) {
  double a = kAtA, negative_a = kAtA, b = kAtB, negative_b = kAtB;  // times the powers
  for (std::int64_t tap = 0; tap < std::min<std::int64_t>(taps, 5); ++tap) {
    of[1][tap] = a, of[2][tap] = negative_a, of[3][tap] = b, of[4][tap] = negative_b;
    a *= kA, negative_a *= -kA, b *= kB, negative_b *= -kB;
  }
  of[0][0] = kAtZero;
  of[5][std::clamp<std::int64_t>(taps - 1, 0, 4)] = 1;
}

}  // namespace capstan::on_cpu
