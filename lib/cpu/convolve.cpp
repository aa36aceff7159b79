// Convolution without an unfolded copy of the input: a block of it is brought into the cache with its borders, and the
// inner loops read the taps at offsets there. Most depthwise kernels read the planes as they lie instead. Sums run over
// channels and taps in one order, whatever the threads do.
#include "lib/cpu/convolve.hpp"

#include <atomic>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

/// Weights of some channels of the result, `used` of a panel's `width`, and where their tensor ends.
template <class T>
struct PanelWeights {
  const T *first, *end;
  std::int64_t used, width;
};

/// Those of the channels from .. from + count, one of the result beside the other: [count x kernel, width], zeros
/// beyond. Writes up to kTurned - 1 rows more.
template <class T>
void turn_weights(const PanelWeights<T>& w, const Channels& c, std::int64_t kernel, std::int64_t from,
                  std::int64_t count, T* to) {
  const bool joined = c.from_stride == kernel;  // what the channels have follows one another
  const std::int64_t runs = joined ? 1 : count, rows = joined ? count * kernel : kernel;
  for (std::int64_t run = 0; run < runs; ++run)
    load_places(w.first + (from + run) * c.from_stride, c.to_stride, w.used, rows, to + run * rows * w.width, w.width,
                w.end);
}

/// Room for the weights that are turned at once.
struct Turned {
  std::int64_t channels, elements;
  Turned(std::int64_t kernel, std::int64_t width)
      : channels(std::max<std::int64_t>(128 / kernel, 1)), elements((channels * kernel + kTurned) * width) {}
};

/// The weights of a panel as its products take them: [from x taps, width]; with tiles [products, from x taps, width].
template <class T>
void pack_weights(const PanelWeights<T>& w, const Pass& pass, const Blocks& blocks, const Channels& c, T* turned,
                  T* packed) {
  if (pass.taps() == 0) return;
  const PassAxis &depth = pass.axis[0], &height = pass.axis[1], &columns = pass.axis[2];
  const std::int64_t kernel = depth.kernel * height.kernel * columns.kernel;
  const std::int64_t at_once = Turned(kernel, w.width).channels, plane = c.from * blocks.taps(pass) * w.width;
  const Shares shares(static_cast<std::int64_t>(columns.taps.size()));
  std::int64_t taps[5];
  for (std::size_t k = 0; blocks.tile != 0 && k < columns.taps.size(); ++k) taps[k] = columns.taps[k].weight;
  for (std::int64_t from = 0; from < c.from; from += at_once) {
    const std::int64_t count = std::min(at_once, c.from - from);
    turn_weights(w, c, kernel, from, count, turned);
    for (std::int64_t channel = 0; channel < count; ++channel)
      for (const Tap& d : depth.taps)
        for (const Tap& h : height.taps) {
          const std::int64_t line = (d.weight * height.kernel + h.weight) * columns.kernel;
          const T* const row = turned + (channel * kernel + line) * w.width;
          if (blocks.tile != 0) {
            simd().of<T>().filter_weights(row, taps, static_cast<int>(columns.taps.size()), shares.of, w.width, packed,
                                          plane);
            packed += w.width;
            continue;
          }
          for (const Tap& tap : columns.taps) packed = std::copy_n(row + tap.weight * w.width, w.width, packed);
        }
  }
}

/// In how many shares tasks take the panels of few blocks, so that the threads end together: up to two tasks a thread.
std::int64_t panel_shares(std::int64_t blocks, std::int64_t panels) {
  const std::int64_t most = threads() == 1 ? 1 : std::clamp<std::int64_t>(parts(2 * threads(), blocks), 1, panels);
  const auto longest = [&](std::int64_t shares) { return parts(blocks * shares, threads()) * parts(panels, shares); };
  std::int64_t best = 1;
  for (std::int64_t shares = 2; shares <= most; ++shares)
    if (longest(shares) <= longest(best)) best = shares;
  return best;
}

/// One pass with the channels of the result in the lanes.
template <class T>
class ChannelLanes {
 public:
  ChannelLanes(const Pass& pass, const Channels& c, const T* weight, const T* bias, int tile)
      : pass_(pass),
        c_(c),
        blocks_(pass, c.from, tile),
        steps_(tap_offsets(pass, blocks_, c.from)),
        lanes_(simd().of<T>().lanes),
        width_(std::min(simd().of<T>().panel, padded(c.to, lanes_))),
        panels_(parts(c.to, width_)),
        count_(c.from * blocks_.taps(pass)),
        panel_(blocks_.products() * count_ * width_ + width_),
        packed_(c.groups * panels_ * panel_, core::calling_place()) {
    const std::int64_t kernel = pass.axis[0].kernel * pass.axis[1].kernel * pass.axis[2].kernel;
    const std::int64_t room = Turned(kernel, width_).elements * static_cast<std::int64_t>(sizeof(T));
    const T* const end_of_weights = weight + c.groups * c.from * c.to * kernel;
    for_lanes(c.groups * panels_, 65536 / panel_ + 1, room,
              [&](std::byte* turned, std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t group = i / panels_, first = i % panels_ * width_;
                  T* const start = packed_.data() + i * panel_;
                  for (std::int64_t lane = 0; lane < width_; ++lane)
                    start[lane] = bias != nullptr && first + lane < c.to ? bias[group * c.to + first + lane] : T(0);
                  const T* const own = weight + group * c.group_stride + first * c.to_stride;
                  pack_weights({own, end_of_weights, std::min(width_, c.to - first), width_}, pass, blocks_, c,
                               reinterpret_cast<T*>(turned), start + width_);
                }
              });
  }

  /// False if tiles gave a result that is not finite. They bring such elements, and very large ones, to results whose
  /// windows do not have them; the results are to be made anew without.
  bool run(const T* in, T* out, std::int64_t batch) const {
    std::atomic<bool> all_good{true};
    const std::int64_t blocks = batch * c_.groups * blocks_.total();
    const std::int64_t shares = panel_shares(blocks, panels_);
    const Tasks all(blocks * shares,
                    static_cast<double>(blocks) * static_cast<double>(blocks_.results() * count_ * c_.to));
    const std::int64_t input = padded(blocks_.input(c_.from), 16), plane = blocks_.places() * width_;
    const std::int64_t sums = blocks_.products() * plane;
    // a row of the input is made products of where later the results stand
    const std::int64_t results = blocks_.tile == 0 ? 0 : std::max(blocks_.room() * width_, blocks_.spare());
    const std::int64_t slot_size = padded(input + sums + results, 16);
    core::Scratch<T> scratch(all.slots() * slot_size, core::calling_place());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), core::calling_place());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T *const x = scratch.data() + slot * slot_size, *const products = x + input, *const spare = products + sums;
      std::int32_t* const places = offsets.data() + slot * blocks_.places();
      const std::int64_t share = task % shares, plane_number = task / shares / blocks_.total();
      const std::int64_t image = plane_number / c_.groups, group = plane_number % c_.groups;
      const Block block(pass_, blocks_, task / shares % blocks_.total());
      load_block(pass_, blocks_, block, in + (image * c_.groups + group) * c_.from * pass_.in_plane(), c_.from, x,
                 spare);
      const std::int64_t count = place_offsets(pass_, blocks_, block, places);
      for (std::int64_t panel = panels_ * share / shares; panel < panels_ * (share + 1) / shares; ++panel) {
        const T* const bias = packed_.data() + (group * panels_ + panel) * panel_;
        for (std::int64_t product = 0; product < blocks_.products(); ++product)
          multiply(bias + width_ + product * count_ * width_, blocks_.tile == 0 ? bias : nullptr,
                   x + product * blocks_.phase, places, count, products + product * plane);
        const T* const result = blocks_.tile == 0 ? products : spare;
        if (blocks_.tile != 0) simd().of<T>().filter_output(products, plane, count, blocks_.tile, width_, bias, spare);
        const std::int64_t first = panel * width_;
        T* const to = out + ((image * c_.groups + group) * c_.to + first) * pass_.out_plane();
        for_out_runs(pass_, blocks_, block, [&](std::int64_t at, std::int64_t offset, std::int64_t run_length) {
          if (blocks_.tile != 0 && simd().of<T>().any_bad(result + at * width_, run_length * width_, true))
            all_good.store(false, std::memory_order_relaxed);
          store_places(result + at * width_, width_, std::min(width_, c_.to - first), run_length, to + offset,
                       pass_.out_plane(), pass_.axis[2].out_step);
        });
      }
    });
    return all_good.load(std::memory_order_relaxed);
  }

 private:
  void multiply(const T* weights, const T* bias, const T* x, const std::int32_t* places, std::int64_t place_count,
                T* sums) const {
    const auto registers = static_cast<int>(width_ / lanes_);
    for (std::int64_t k = 0; k == 0 || k < count_; k += kSteps)
      simd().of<T>().offset_gemm({x, places, place_count, steps_.data() + k, std::min(kSteps, count_ - k),
                                  weights + k * width_, bias, sums, registers,
                                  k > 0 ? SumStart::onward : SumStart::anew});
  }

  const Pass& pass_;
  Channels c_;
  Blocks blocks_;
  core::ScratchVector<std::int32_t> steps_;
  std::int64_t lanes_, width_, panels_, count_;
  std::int64_t panel_;  // elements: the biases, then the weights
  mutable core::Scratch<T> packed_;
};

/// The weights of each channel of the result one behind the other, for passes that take one channel at a time.
template <class T>
void pack_channels(const T* weight, const Pass& pass, const Channels& c, T* packed) {
  for (std::int64_t i = 0; i < c.groups * c.to; ++i)
    for (std::int64_t from = 0; from < c.from; ++from) {
      const T* const own = weight + i / c.to * c.group_stride + i % c.to * c.to_stride + from * c.from_stride;
      for (const Tap& d : pass.axis[0].taps)
        for (const Tap& h : pass.axis[1].taps)
          for (const Tap& w : pass.axis[2].taps)
            *packed++ = own[(d.weight * pass.axis[1].kernel + h.weight) * pass.axis[2].kernel + w.weight];
    }
}

/// One pass whose results are each of one plane of the input, with a window that `plane_kernel` knows.
template <class T>
void run_planes(const Pass& pass, const Channels& c, const T* weight, const T* bias, const T* in, T* out,
                std::int64_t batch) {
  constexpr std::int64_t kPieceResults = 16384, kPieceRows = 8;
  const std::int64_t count = pass.taps(), height = pass.axis[1].count, width = pass.axis[2].count;
  core::Scratch<T> packed(c.groups * c.to * count, core::calling_place());
  pack_channels(weight, pass, c, packed.data());

  const std::int64_t rows = padded(kPieceResults / width + 1, kPieceRows), pieces = parts(height, rows);
  const std::int64_t planes = batch * c.groups * c.to;
  const Tasks all(planes * pieces, static_cast<double>(planes * count) * static_cast<double>(pass.results()));
  all.run([&](std::int64_t task, std::int64_t) {
    const std::int64_t plane = task / pieces, number = plane % (c.groups * c.to), begin = task % pieces * rows;
    simd().of<T>().slide_plane({plane_of(pass, in + plane / c.to * pass.in_plane()), packed.data() + number * count,
                                bias != nullptr ? bias[number] : T(0), out + plane * pass.out_plane(), begin,
                                std::min(begin + rows, height), width});
  });
}

/// One pass with the columns of the result in the lanes, one channel after another: for few channels in a group.
template <class T>
void run_column_lanes(const Pass& pass, const Channels& c, const T* weight, const T* bias, const T* in, T* out,
                      std::int64_t batch) {
  const Blocks blocks(pass, c.from);
  const core::ScratchVector<std::int32_t> steps = tap_offsets(pass, blocks, c.from);
  const std::int64_t count = c.from * pass.taps();
  core::Scratch<T> packed(c.groups * c.to * count + 1, core::calling_place());
  pack_channels(weight, pass, c, packed.data());

  const std::int64_t tasks = batch * c.groups * blocks.total(), over = 4 * simd().of<T>().lanes;
  const Tasks all(tasks, static_cast<double>(tasks) * static_cast<double>(blocks.results() * count * c.to));
  const std::int64_t input = padded(blocks.input(c.from) + over, 16);
  const bool direct = pass.axis[2].out_step == 1;  // results go where they belong
  const std::int64_t slot_size = input + (direct ? 0 : padded(blocks.results(), 16));
  core::Scratch<T> scratch(all.slots() * slot_size, core::calling_place());
  const PassAxis &d = pass.axis[0], &h = pass.axis[1], &w = pass.axis[2];
  all.run([&](std::int64_t task, std::int64_t slot) {
    T *const x = scratch.data() + slot * slot_size, *const results = x + input;
    const std::int64_t image = task / blocks.total() / c.groups, group = task / blocks.total() % c.groups;
    const Block block(pass, blocks, task % blocks.total());
    load_block(pass, blocks, block, in + (image * c.groups + group) * c.from * pass.in_plane(), c.from, x);
    for (std::int64_t channel = 0; channel < c.to; ++channel) {
      const std::int64_t number = group * c.to + channel;
      T* const to = out + (image * c.groups * c.to + number) * pass.out_plane();
      Slide<T> s{x,
                 h.in_step * blocks.row,
                 steps.data(),
                 packed.data() + number * count,
                 count,
                 nullptr,
                 direct ? h.out_step * w.out : block.size[2],
                 block.size[1],
                 block.size[2],
                 bias != nullptr ? bias[number] : T(0)};
      for (std::int64_t i = 0; i < block.size[0]; ++i) {
        const std::int64_t depth = d.out_start + d.out_step * (block.begin[0] + i);
        const std::int64_t row = h.out_start + h.out_step * block.begin[1];
        s.x = x + i * d.in_step * blocks.rows * blocks.row;
        s.out = direct ? to + (depth * h.out + row) * w.out + w.out_start + block.begin[2]
                       : results + i * block.size[1] * block.size[2];
        simd().of<T>().slide(s);
      }
      if (!direct)
        for_out_runs(pass, blocks, block, [&](std::int64_t at, std::int64_t offset, std::int64_t length) {
          for (std::int64_t k = 0; k < length; ++k) to[offset + k * w.out_step] = results[at + k];
        });
    }
  });
}

template <class T>
void run_pass(const Pass& pass, const Channels& c, const T* weight, const T* bias, const T* in, T* out,
              std::int64_t batch) {
  if (pass.results() == 0 || batch == 0 || c.to == 0) return;
  if (c.to * kFewChannels <= simd().of<T>().lanes) {
    if (c.from == 1 && plane_kernel(pass) != 0) run_planes(pass, c, weight, bias, in, out, batch);
    else run_column_lanes(pass, c, weight, bias, in, out, batch);
    return;
  }
  const int tile = tile_of(pass, c.from, c.to, batch);
  const bool good = ChannelLanes<T>(pass, c, weight, bias, tile).run(in, out, batch);
  if (!good || (tile != 0 && base::rehearses())) ChannelLanes<T>(pass, c, weight, bias, 0).run(in, out, batch);
}

template <class T>
const T* elements(const TensorImpl* x) {
  return x != nullptr ? x->as<T>() : nullptr;
}

}  // namespace

void convolve(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
              std::int64_t groups, TensorImpl& out) {
  const Pass pass = forward_pass(window);
  const std::int64_t kernel = window.kernel(), from = weight.shape[1], to = weight.shape[0] / groups;
  const Channels c{groups, from, to, kernel, from * kernel, to * from * kernel};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    run_pass(pass, c, weight.as<T>(), elements<T>(bias), x.as<T>(), out.as<T>(), out.shape[0]);
  });
}

void convolve_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                         const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const std::int64_t kernel = window.kernel(), from = weight.shape[0] / groups, to = weight.shape[1];
  const Channels c{groups, from, to, to * kernel, kernel, to * from * kernel};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    for (const Pass& pass : transposed_passes(window))
      run_pass(pass, c, weight.as<T>(), elements<T>(bias), grad.as<T>(), out.as<T>(), out.shape[0]);
  });
}

}  // namespace capstan::on_cpu
