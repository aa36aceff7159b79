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

/// Channels whose weights are turned at once, and room for them.
struct Turned {
  std::int64_t channels, elements;
  Turned(std::int64_t kernel, std::int64_t width, std::int64_t rows)
      : channels(std::max<std::int64_t>(rows / kernel, 1)), elements((channels * kernel + kTurned) * width) {}
};

/// The weights of a panel's channels from .. from + count as its products take them: [count x taps, width]; with tiles
/// [products, count x taps, width], `plane` apart.
template <class T>
void pack_weights(const PanelWeights<T>& w, const Pass& pass, const Blocks& blocks, const Channels& c,
                  std::int64_t from, std::int64_t count, std::int64_t plane, T* turned, T* packed) {
  const PassAxis &depth = pass.axis[0], &height = pass.axis[1], &columns = pass.axis[2];
  const std::int64_t kernel = pass.kernel();
  const Shares shares(static_cast<std::int64_t>(columns.taps.size()));
  std::int64_t taps[5];
  for (std::size_t k = 0; blocks.tile != 0 && k < columns.taps.size(); ++k) taps[k] = columns.taps[k].weight;
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

/// In how many shares tasks take the panels of few blocks, so that the threads end together: up to two tasks a thread.
std::int64_t panel_shares(std::int64_t blocks, std::int64_t panels) {
  const std::int64_t most = threads() == 1 ? 1 : std::clamp<std::int64_t>(parts(2 * threads(), blocks), 1, panels);
  const auto longest = [&](std::int64_t shares) { return parts(blocks * shares, threads()) * parts(panels, shares); };
  std::int64_t best = 1;
  for (std::int64_t shares = 2; shares <= most; ++shares)
    if (longest(shares) <= longest(best)) best = shares;
  return best;
}

/// One pass with the channels of the result in the lanes. Few weights are packed once, and a block is done with all of
/// them while its input is in the cache. Of many weights some channels of a panel are packed at a time, and many blocks
/// are done with them while they are there.
template <class T>
class ChannelLanes {
 public:
  ChannelLanes(const Pass& pass, const Channels& c, const T* weight, const T* bias, std::int64_t batch, int tile)
      : pass_(pass),
        c_(c),
        weight_(weight),
        bias_(bias),
        batch_(batch),
        lanes_(simd().of<T>().lanes),
        width_(std::min(simd().of<T>().panel, padded(c.to, lanes_))),
        panels_(parts(c.to, width_)),
        many_(has_many_weights(tile)),
        turned_(pass.kernel(), width_, many_ ? kSteps : kSteps / 2),  // as long a sum as there is between its stores
        at_once_(many_ ? std::min(turned_.channels, c.from) : c.from),
        blocks_(pass, c.from, tile, at_once_),
        steps_(tap_offsets(pass, blocks_, at_once_)),
        count_(c.from * blocks_.taps(pass)) {}

  /// False if tiles gave a result that is not finite. They bring such elements, and very large ones, to results whose
  /// windows do not have them; the results are to be made anew without.
  bool run(const T* in, T* out) const {
    std::atomic<bool> all_good{true};
    if (many_) run_panels(in, out, all_good);
    else run_blocks(in, out, all_good);
    return all_good.load(std::memory_order_relaxed);
  }

 private:
  /// Sums for each channel, and elements of the input, that are at hand at once.
  static constexpr std::int64_t kSumsAtOnce = 1 << 13, kInputAtOnce = 1 << 21;

  /// Whether weights, as products take them, are more than a second-level cache keeps. Of few results each weight is
  /// used so seldom that it pays with fewer, too.
  bool has_many_weights(int tile) const {
    constexpr std::int64_t kMany = 1 << 19, kManyOfFew = 1 << 17;
    const std::int64_t columns = static_cast<std::int64_t>(pass_.axis[2].taps.size()), count = pass_.axis[2].count;
    const std::int64_t weights = c_.from * c_.to * (tile == 0 ? pass_.taps() : pass_.taps() / columns * kProducts);
    const std::int64_t in_row = tile == 0 ? count : parts(count, tile) * kProducts;
    const bool few = batch_ <= kSumsAtOnce / (pass_.axis[0].count * pass_.axis[1].count * in_row);
    return weights >= (few ? kManyOfFew : kMany);
  }
  double operations(std::int64_t blocks) const {
    return static_cast<double>(blocks) * static_cast<double>(blocks_.results() * count_ * c_.to);
  }
  // Room for what a block has: sums; results of tiles; a row of the input before it is made products of.
  std::int64_t sums_room() const { return blocks_.products() * blocks_.places() * width_; }
  std::int64_t results_room() const { return blocks_.tile == 0 ? 0 : blocks_.room() * width_; }
  std::int64_t line_room() const { return blocks_.tile == 0 ? 0 : blocks_.spare(); }

  /// The weights of a panel; those of the second group follow those of the first.
  PanelWeights<T> weights_of(std::int64_t i) const {
    const std::int64_t first = i % panels_ * width_;
    return {weight_ + i / panels_ * c_.group_stride + first * c_.to_stride,
            weight_ + c_.groups * c_.from * c_.to * pass_.kernel(), std::min(width_, c_.to - first), width_};
  }
  void put_bias(std::int64_t i, T* to) const {
    const std::int64_t first = i % panels_ * width_, count = std::min(width_, c_.to - first);
    if (bias_ == nullptr) return void(std::fill_n(to, width_, T(0)));
    std::fill(std::copy_n(bias_ + i / panels_ * c_.to + first, count, to), to + width_, T(0));
  }

  void run_blocks(const T* in, T* out, std::atomic<bool>& all_good) const {
    const std::int64_t panel_size = blocks_.products() * count_ * width_ + width_;  // its biases, then its weights
    core::Scratch<T> packed(c_.groups * panels_ * panel_size, core::calling_place());
    for_lanes(c_.groups * panels_, 65536 / panel_size + 1, turned_.elements * static_cast<std::int64_t>(sizeof(T)),
              [&](std::byte* turned, std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  T* const own = packed.data() + i * panel_size;
                  put_bias(i, own);
                  for (std::int64_t from = 0; from < c_.from && count_ > 0; from += turned_.channels)
                    pack_weights(weights_of(i), pass_, blocks_, c_, from, std::min(turned_.channels, c_.from - from),
                                 count_ * width_, reinterpret_cast<T*>(turned),
                                 own + width_ + from * blocks_.taps(pass_) * width_);
                }
              });

    const std::int64_t blocks = batch_ * c_.groups * blocks_.total();
    const std::int64_t shares = panel_shares(blocks, panels_);
    const Tasks all(blocks * shares, operations(blocks));
    const std::int64_t input = padded(blocks_.input(c_.from), 16);
    const std::int64_t slot_size = padded(input + sums_room() + std::max(results_room(), line_room()), 16);
    core::Scratch<T> scratch(all.slots() * slot_size, core::calling_place());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), core::calling_place());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T *const x = scratch.data() + slot * slot_size, *const products = x + input,
               *const spare = products + sums_room();
      std::int32_t* const places = offsets.data() + slot * blocks_.places();
      const std::int64_t share = task % shares, plane = task / shares / blocks_.total(), group = plane % c_.groups;
      const Block block(pass_, blocks_, task / shares % blocks_.total());
      load_block(pass_, blocks_, block, in + plane * c_.from * pass_.in_plane(), c_.from, x, spare);
      const std::int64_t count = place_offsets(pass_, blocks_, block, places);
      for (std::int64_t panel = panels_ * share / shares; panel < panels_ * (share + 1) / shares; ++panel) {
        const T* const bias = packed.data() + (group * panels_ + panel) * panel_size;
        multiply(bias + width_, count_ * width_, bias, x, places, count, count_, false, products);
        finish(block, plane, panel, bias, products, count, spare, out, all_good);
      }
    });
  }

  /// Some blocks of all images.
  struct Round {
    std::int64_t begin, end;
    std::int64_t count() const { return end - begin; }
    Round part(std::int64_t number, std::int64_t of) const {
      return {begin + count() * number / of, begin + count() * (number + 1) / of};
    }
  };

  void run_panels(const T* in, T* out, std::atomic<bool>& all_good) const {
    constexpr std::int64_t kFewPlaces = 512;  // packing the weights of a round anew takes far less than these
    const Round all{0, batch_ * blocks_.total()};
    const std::int64_t input = padded(blocks_.input(c_.from), 16), places = blocks_.places();
    const std::int64_t most =
        std::max({std::min(kSumsAtOnce / (blocks_.products() * places), kInputAtOnce / (c_.groups * input)),
                  parts(kFewPlaces, places), parts(2 * threads(), c_.groups * panels_)});
    const std::int64_t rounds = parts(all.count(), most);
    core::Scratch<T> inputs(parts(all.count(), rounds) * c_.groups * input, core::calling_place());
    for (std::int64_t i = 0; i < rounds; ++i) {
      const Round round = all.part(i, rounds);
      load_inputs(round, in, inputs.data(), input);
      run_round(round, inputs.data(), input, out, all_good);
    }
  }

  /// The blocks' inputs [blocks, groups, input].
  void load_inputs(const Round& round, const T* in, T* to, std::int64_t input) const {
    const std::int64_t pieces = parts(c_.from, at_once_);  // of a group's channels
    for_lanes(round.count() * c_.groups * pieces, kExpensiveGrain / (blocks_.input(at_once_) + 1) + 1,
              line_room() * static_cast<std::int64_t>(sizeof(T)),
              [&](std::byte* spare, std::int64_t begin, std::int64_t end) {
                for (std::int64_t i = begin; i < end; ++i) {
                  const std::int64_t number = round.begin + i / pieces / c_.groups, group = i / pieces % c_.groups;
                  const std::int64_t from = i % pieces * at_once_;
                  const std::int64_t plane = (number / blocks_.total() * c_.groups + group) * c_.from + from;
                  load_block(pass_, blocks_, Block(pass_, blocks_, number % blocks_.total()),
                             in + plane * pass_.in_plane(), std::min(at_once_, c_.from - from),
                             to + i / pieces * input + from * blocks_.plane, reinterpret_cast<T*>(spare));
                }
              });
  }

  /// In how many parts threads take a round's blocks for each panel, so that they end together. Each packs the weights.
  std::int64_t round_parts(std::int64_t blocks) const {
    constexpr std::int64_t kPacking = 32;  // packing a weight takes as long as so many multiplications
    const std::int64_t panels = c_.groups * panels_, most = std::min<std::int64_t>(blocks, threads());
    const auto longest = [&](std::int64_t of) {
      return parts(panels * of, threads()) * (parts(blocks, of) * blocks_.places() + kPacking);
    };
    std::int64_t best = 1;
    for (std::int64_t of = 2; of <= most; ++of)
      if (longest(of) < longest(best)) best = of;
    return best;
  }

  void run_round(const Round& round, const T* inputs, std::int64_t input, T* out, std::atomic<bool>& all_good) const {
    const std::int64_t of = round_parts(round.count()), most = parts(round.count(), of);
    const Tasks all(c_.groups * panels_ * of, operations(round.count() * c_.groups));
    const std::int64_t taps = blocks_.taps(pass_), plane = at_once_ * taps * width_;
    const std::int64_t packed = width_ + blocks_.products() * plane;
    const bool as_turned = blocks_.tile == 0 && pass_.takes_kernel_in_order();
    const std::int64_t turned_room = as_turned ? kTurned * width_ : turned_.elements;  // rows that are too many
    const std::int64_t slot_size = padded(packed + turned_room + most * sums_room() + results_room(), 16);
    core::Scratch<T> scratch(all.slots() * slot_size, core::calling_place());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), core::calling_place());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T *const bias = scratch.data() + slot * slot_size, *const weights = bias + width_, *const turned = bias + packed;
      T *const products = turned + turned_room, *const spare = products + most * sums_room();
      std::int32_t* const places = offsets.data() + slot * blocks_.places();
      const std::int64_t i = task / of, group = i / panels_;
      const Round own = round.part(task % of, of);
      const auto each_block = [&](auto use) {
        for (std::int64_t number = own.begin; number < own.end; ++number) {
          const Block block(pass_, blocks_, number % blocks_.total());
          use(block, number, place_offsets(pass_, blocks_, block, places),
              products + (number - own.begin) * sums_room());
        }
      };
      put_bias(i, bias);
      for (std::int64_t from = 0; from < c_.from; from += at_once_) {
        const std::int64_t channels = std::min(at_once_, c_.from - from);
        if (as_turned) turn_weights(weights_of(i), c_, pass_.kernel(), from, channels, weights);
        else pack_weights(weights_of(i), pass_, blocks_, c_, from, channels, plane, turned, weights);
        each_block([&](const Block&, std::int64_t number, std::int64_t count, T* to) {
          const T* const x = inputs + ((number - round.begin) * c_.groups + group) * input + from * blocks_.plane;
          multiply(weights, plane, bias, x, places, count, channels * taps, from > 0, to);
        });
      }
      each_block([&](const Block& block, std::int64_t number, std::int64_t count, T* from) {
        finish(block, number / blocks_.total() * c_.groups + group, i % panels_, bias, from, count, spare, out,
               all_good);
      });
    });
  }

  /// The sums of a block over the channels at x, which have so many taps; `onward` from those before. A product's
  /// weights lie `plane` behind those of the one before it.
  void multiply(const T* weights, std::int64_t plane, const T* bias, const T* x, const std::int32_t* places,
                std::int64_t count, std::int64_t taps, bool onward, T* sums) const {
    const auto registers = static_cast<int>(width_ / lanes_);
    for (std::int64_t product = 0; product < blocks_.products(); ++product)
      for (std::int64_t k = 0; k == 0 || k < taps; k += kSteps)
        simd().of<T>().offset_gemm({x + product * blocks_.phase, places, count, steps_.data() + k,
                                    std::min(kSteps, taps - k), weights + product * plane + k * width_,
                                    blocks_.tile == 0 ? bias : nullptr, sums + product * blocks_.places() * width_,
                                    registers, onward || k > 0 ? SumStart::onward : SumStart::anew});
  }

  /// Results of a block, from its sums, to where they belong.
  void finish(const Block& block, std::int64_t plane, std::int64_t panel, const T* bias, const T* sums,
              std::int64_t count, T* spare, T* out, std::atomic<bool>& all_good) const {
    const T* const result = blocks_.tile == 0 ? sums : spare;
    if (blocks_.tile != 0)
      simd().of<T>().filter_output(sums, blocks_.places() * width_, count, blocks_.tile, width_, bias, spare);
    const std::int64_t first = panel * width_;
    T* const to = out + (plane * c_.to + first) * pass_.out_plane();
    for_out_runs(pass_, blocks_, block, [&](std::int64_t at, std::int64_t offset, std::int64_t run_length) {
      if (blocks_.tile != 0 && simd().of<T>().any_bad(result + at * width_, run_length * width_, true))
        all_good.store(false, std::memory_order_relaxed);
      store_places(result + at * width_, width_, std::min(width_, c_.to - first), run_length, to + offset,
                   pass_.out_plane(), pass_.axis[2].out_step);
    });
  }

  const Pass& pass_;
  Channels c_;
  const T *weight_, *bias_;
  std::int64_t batch_, lanes_, width_, panels_;
  bool many_;
  Turned turned_;
  std::int64_t at_once_;  // channels that a block goes over
  Blocks blocks_;
  core::ScratchVector<std::int32_t> steps_;
  std::int64_t count_;
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
  const bool good = ChannelLanes<T>(pass, c, weight, bias, batch, tile).run(in, out);
  if (!good || (tile != 0 && base::rehearses())) ChannelLanes<T>(pass, c, weight, bias, batch, 0).run(in, out);
}

template <class T>
const T* elements(const TensorImpl* x) {
  return x != nullptr ? x->as<T>() : nullptr;
}

}  // namespace

void convolve(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const core::Window& window,
              std::int64_t groups, TensorImpl& out) {
  const std::int64_t kernel = window.kernel(), from = weight.shape[1], to = weight.shape[0] / groups;
  if (is_of_patches(window, from * kernel, to, groups, kRowsWorthCopy))
    return convolve_patches(x, weight, bias, window, groups, out);
  const Pass pass = forward_pass(window);
  const Channels c{groups, from, to, kernel, from * kernel, to * from * kernel};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    run_pass(pass, c, weight.as<T>(), elements<T>(bias), x.as<T>(), out.as<T>(), out.shape[0]);
  });
}

void convolve_transposed(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                         const core::Window& window, std::int64_t groups, TensorImpl& out) {
  const std::int64_t kernel = window.kernel(), from = weight.shape[0] / groups, to = weight.shape[1];
  if (is_of_patches(window, from, to * kernel, groups, kRowsWorthCopyBack))
    return convolve_patches_transposed(grad, weight, bias, window, groups, out);
  const Channels c{groups, from, to, to * kernel, kernel, to * from * kernel};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    for (const Pass& pass : transposed_passes(window))
      run_pass(pass, c, weight.as<T>(), elements<T>(bias), grad.as<T>(), out.as<T>(), out.shape[0]);
  });
}

}  // namespace capstan::on_cpu
