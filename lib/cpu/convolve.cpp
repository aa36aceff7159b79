// Convolution without an unfolded copy of the input: a block of it is brought into the cache with its borders, and the
// inner loops read the taps at offsets there. Sums run over channels and taps in one order, whatever the threads do.
#include "lib/cpu/convolve.hpp"

#include "lib/base/text.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kSteps = 256;      // products between loads and stores of the sums
constexpr std::int64_t kFewChannels = 4;  // of a register's lanes, one in so many used: then lanes go along the columns

/// Channels of one group, and where their weights stand: `from` are summed over, `to` are those of the result.
struct Channels {
  std::int64_t groups, from, to;
  std::int64_t from_stride, to_stride, group_stride;  // in the weights
};

// The powers of the points of minimal filtering, over what makes the six products add up to the results.
constexpr double kA = 0.75, kB = 1.5;
constexpr double kAtA = 1 / (2 * kA * kA * (kA * kA - kB * kB)), kAtB = 1 / (2 * kB * kB * (kB * kB - kA * kA));
constexpr double kAtZero = 1 / (kA * kA * kB * kB);

/// How much each tap counts in the weights of each product.
struct Shares {
  double of[kProducts][5] = {};

  explicit Shares(std::int64_t taps) {
    double a = kAtA, negative_a = kAtA, b = kAtB, negative_b = kAtB;  // times the powers
    for (std::int64_t tap = 0; tap < std::min<std::int64_t>(taps, 5); ++tap) {
      of[1][tap] = a, of[2][tap] = negative_a, of[3][tap] = b, of[4][tap] = negative_b;
      a *= kA, negative_a *= -kA, b *= kB, negative_b *= -kB;
    }
    of[0][0] = kAtZero;
    of[5][std::clamp<std::int64_t>(taps - 1, 0, 4)] = 1;
  }
};

/// The weights of `to` channels first .. first + width of a group: [from x taps, width], zeros beyond; with tiles
/// [products, from x taps, width].
template <class T>
void pack_weights(const T* weight, const Pass& pass, const Blocks& blocks, const Channels& c, std::int64_t first,
                  std::int64_t width, T* packed) {
  const std::vector<Tap>& taps = pass.axis[2].taps;
  const Shares shares(static_cast<std::int64_t>(taps.size()));
  const std::int64_t used = std::min(width, c.to - first);
  for (std::int64_t product = 0; product < blocks.products(); ++product)
    for (std::int64_t from = 0; from < c.from; ++from)
      for (const Tap& d : pass.axis[0].taps)
        for (const Tap& h : pass.axis[1].taps) {
          const T* row = weight + first * c.to_stride + from * c.from_stride +
                         (d.weight * pass.axis[1].kernel + h.weight) * pass.axis[2].kernel;
          for (std::size_t k = 0; blocks.tile == 0 && k < taps.size(); ++k, packed += width) {
            for (std::int64_t i = 0; i < used; ++i) packed[i] = row[taps[k].weight + i * c.to_stride];
            std::fill(packed + used, packed + width, T(0));
          }
          if (blocks.tile == 0) continue;
          for (std::int64_t i = 0; i < used; ++i, row += c.to_stride) {
            double sum = 0;
            for (std::size_t k = 0; k < taps.size(); ++k)
              sum += shares.of[product][k] * static_cast<double>(row[taps[k].weight]);
            packed[i] = static_cast<T>(sum);
          }
          std::fill(packed + used, packed + width, T(0));
          packed += width;
        }
}

/// out[channel * plane + i * step] = sums[i * width + channel] for `count` places.
template <class T>
void store_places(const T* sums, std::int64_t width, std::int64_t channels, std::int64_t count, T* out,
                  std::int64_t plane, std::int64_t step) {
  std::int64_t done = 0;
  if (step == 1)
    for (; done + 16 <= count; done += 16) {
      std::int64_t channel = 0;
      for (; channel + 16 <= channels; channel += 16)
        simd().of<T>().transpose_tile(sums + done * width + channel, width, out + channel * plane + done, plane);
      for (; channel < channels; ++channel)
        for (std::int64_t i = done; i < done + 16; ++i) out[channel * plane + i] = sums[i * width + channel];
    }
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t i = done; i < count; ++i) out[channel * plane + i * step] = sums[i * width + channel];
}

/// to [count, width] = the transpose of from [channels, ...], zeros beyond the channels.
template <class T>
void load_places(const T* from, std::int64_t plane, std::int64_t channels, std::int64_t count, T* to,
                 std::int64_t width) {
  std::int64_t done = 0;
  for (; done + 16 <= count; done += 16) {
    std::int64_t channel = 0;
    for (; channel + 16 <= channels; channel += 16)
      simd().of<T>().transpose_tile(from + channel * plane + done, plane, to + done * width + channel, width);
    for (; channel < channels; ++channel)
      for (std::int64_t i = done; i < done + 16; ++i) to[i * width + channel] = from[channel * plane + i];
  }
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t i = done; i < count; ++i) to[i * width + channel] = from[channel * plane + i];
  if (channels < width)
    for (std::int64_t i = 0; i < count; ++i) std::fill(to + i * width + channels, to + (i + 1) * width, T(0));
}

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

std::int64_t parts(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }
std::int64_t padded(std::int64_t count, std::int64_t size) { return parts(count, size) * size; }

void require_offsets(std::int64_t elements) {
  if (elements > INT32_MAX)
    base::fail<BackendError>(Where::current(), "convolution: ", elements,
                             " elements of the input meet in one result; it must be fewer than 2^31.");
}

/// One pass with the channels of the result in the lanes.
template <class T>
class ChannelLanes {
 public:
  ChannelLanes(const Pass& pass, const Channels& c, const T* weight, const T* bias)
      : pass_(pass),
        c_(c),
        blocks_(pass, c.from, tile_of(pass, c.from, c.to)),
        steps_(tap_offsets(pass, blocks_, c.from)),
        lanes_(simd().of<T>().lanes),
        width_(std::min(simd().of<T>().panel, padded(c.to, lanes_))),
        panels_(parts(c.to, width_)),
        count_(c.from * blocks_.taps(pass)),
        panel_(blocks_.products() * count_ * width_ + width_),
        packed_(c.groups * panels_ * panel_, Where::current()) {
    require_offsets(blocks_.input(c.from));
    base::parallel_for(c.groups * panels_, 65536 / panel_ + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t group = i / panels_, first = i % panels_ * width_;
        T* const start = packed_.data() + i * panel_;
        for (std::int64_t lane = 0; lane < width_; ++lane)
          start[lane] = bias != nullptr && first + lane < c.to ? bias[group * c.to + first + lane] : T(0);
        pack_weights(weight + group * c.group_stride, pass, blocks_, c, first, width_, start + width_);
      }
    });
  }

  void run(const T* in, T* out, std::int64_t batch) const {
    const std::int64_t tasks = batch * c_.groups * blocks_.total();
    const Tasks all(tasks, static_cast<double>(tasks) * static_cast<double>(blocks_.results() * count_ * c_.to));
    const std::int64_t input = padded(blocks_.input(c_.from), 16), plane = blocks_.places() * width_;
    const std::int64_t sums = blocks_.products() * plane;
    // a row of the input is made products of where later the results stand
    const std::int64_t results = blocks_.tile == 0 ? 0 : std::max(blocks_.room() * width_, blocks_.columns);
    const std::int64_t slot_size = padded(input + sums + results, 16);
    core::Scratch<T> scratch(all.slots() * slot_size, Where::current());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), Where::current());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T *const x = scratch.data() + slot * slot_size, *const products = x + input, *const spare = products + sums;
      std::int32_t* const places = offsets.data() + slot * blocks_.places();
      const std::int64_t image = task / blocks_.total() / c_.groups, group = task / blocks_.total() % c_.groups;
      const Block block(pass_, blocks_, task % blocks_.total());
      load_block(pass_, blocks_, block, in + (image * c_.groups + group) * c_.from * pass_.in_plane(), c_.from, x,
                 spare);
      const std::int64_t count = place_offsets(pass_, blocks_, block, places);
      for (std::int64_t panel = 0; panel < panels_; ++panel) {
        const T* const bias = packed_.data() + (group * panels_ + panel) * panel_;
        for (std::int64_t product = 0; product < blocks_.products(); ++product)
          multiply(bias + width_ + product * count_ * width_, blocks_.tile == 0 ? bias : nullptr,
                   x + product * blocks_.phase, places, count, products + product * plane);
        const T* const result = blocks_.tile == 0 ? products : spare;
        if (blocks_.tile != 0) simd().of<T>().filter_output(products, plane, count, blocks_.tile, width_, bias, spare);
        const std::int64_t first = panel * width_;
        T* const to = out + ((image * c_.groups + group) * c_.to + first) * pass_.out_plane();
        for_out_runs(pass_, blocks_, block, [&](std::int64_t at, std::int64_t offset, std::int64_t run_length) {
          store_places(result + at * width_, width_, std::min(width_, c_.to - first), run_length, to + offset,
                       pass_.out_plane(), pass_.axis[2].out_step);
        });
      }
    });
  }

 private:
  void multiply(const T* weights, const T* bias, const T* x, const std::int32_t* places, std::int64_t place_count,
                T* sums) const {
    const auto registers = static_cast<int>(width_ / lanes_);
    for (std::int64_t k = 0; k == 0 || k < count_; k += kSteps)
      simd().of<T>().offset_gemm({x, places, place_count, steps_.data() + k, std::min(kSteps, count_ - k),
                                  weights + k * width_, bias, sums, registers, k > 0});
  }

  const Pass& pass_;
  Channels c_;
  Blocks blocks_;
  std::vector<std::int32_t> steps_;
  std::int64_t lanes_, width_, panels_, count_;
  std::int64_t panel_;  // elements: the biases, then the weights
  mutable core::Scratch<T> packed_;
};

/// One pass with the columns of the result in the lanes, one channel after another: for few channels in a group.
template <class T>
void run_column_lanes(const Pass& pass, const Channels& c, const T* weight, const T* bias, const T* in, T* out,
                      std::int64_t batch) {
  const Blocks blocks(pass, c.from);
  require_offsets(blocks.input(c.from));
  const std::vector<std::int32_t> steps = tap_offsets(pass, blocks, c.from);
  const std::int64_t count = c.from * pass.taps();
  core::Scratch<T> packed(c.groups * c.to * count + 1, Where::current());
  for (std::int64_t i = 0; i < c.groups * c.to; ++i)
    pack_weights(weight + i / c.to * c.group_stride, pass, blocks, c, i % c.to, 1, packed.data() + i * count);

  const std::int64_t tasks = batch * c.groups * blocks.total(), over = 4 * simd().of<T>().lanes;
  const Tasks all(tasks, static_cast<double>(tasks) * static_cast<double>(blocks.results() * count * c.to));
  const std::int64_t input = padded(blocks.input(c.from) + over, 16);
  const std::int64_t slot_size = input + padded(blocks.results(), 16);
  core::Scratch<T> scratch(all.slots() * slot_size, Where::current());
  all.run([&](std::int64_t task, std::int64_t slot) {
    T *const x = scratch.data() + slot * slot_size, *const results = x + input;
    const std::int64_t image = task / blocks.total() / c.groups, group = task / blocks.total() % c.groups;
    const Block block(pass, blocks, task % blocks.total());
    load_block(pass, blocks, block, in + (image * c.groups + group) * c.from * pass.in_plane(), c.from, x);
    for (std::int64_t channel = 0; channel < c.to; ++channel) {
      const std::int64_t number = group * c.to + channel;
      T* const to = out + (image * c.groups * c.to + number) * pass.out_plane();
      Slide<T> s{x,
                 pass.axis[1].in_step * blocks.row,
                 steps.data(),
                 packed.data() + number * count,
                 count,
                 nullptr,
                 block.size[2],
                 block.size[1],
                 block.size[2],
                 bias != nullptr ? bias[number] : T(0)};
      for (std::int64_t i = 0; i < block.size[0]; ++i) {
        s.x = x + i * pass.axis[0].in_step * blocks.rows * blocks.row;
        s.out = results + i * block.size[1] * block.size[2];
        simd().of<T>().slide(s);
      }
      for_out_runs(pass, blocks, block, [&](std::int64_t at, std::int64_t offset, std::int64_t length) {
        const std::int64_t step = pass.axis[2].out_step;
        if (step == 1) std::copy(results + at, results + at + length, to + offset);
        for (std::int64_t k = 0; step != 1 && k < length; ++k) to[offset + k * step] = results[at + k];
      });
    }
  });
}

template <class T>
void run_pass(const Pass& pass, const Channels& c, const T* weight, const T* bias, const T* in, T* out,
              std::int64_t batch) {
  if (pass.results() == 0 || batch == 0 || c.to == 0) return;
  if (c.to * kFewChannels <= simd().of<T>().lanes) run_column_lanes(pass, c, weight, bias, in, out, batch);
  else ChannelLanes<T>(pass, c, weight, bias).run(in, out, batch);
}

template <class T>
const T* elements(const TensorImpl* x) {
  return x != nullptr ? x->as<T>() : nullptr;
}

// --- the gradient for the weights ---

/// A task takes some images and some of the channels summed over; what it adds up is [panels][products][channels x
/// taps][width].
template <class T>
class WeightGradient {
 public:
  WeightGradient(const Pass& pass, const Channels& c, std::int64_t batch)
      : pass_(pass),
        c_(c),
        batch_(batch),
        lanes_(simd().of<T>().lanes),
        width_(std::min(simd().of<T>().panel, padded(c.to, lanes_))),
        panels_(parts(c.to, width_)),
        shares_(std::clamp<std::int64_t>(kPartials / (c.groups * panels_ * width_ * c.from * pass.taps() + 1), 1,
                                         std::clamp<std::int64_t>(batch, 1, 8))),
        slices_(std::clamp<std::int64_t>(16 / (shares_ * c.groups), 1, parts(c.from, 8))),
        slice_(parts(c.from, slices_)),
        blocks_(pass, slice_, tile_of(pass, c.from, c.to)),
        steps_(tap_offsets(pass, blocks_, slice_)),
        rows_(slice_ * blocks_.taps(pass)) {
    slices_ = parts(c.from, slice_);
    require_offsets(blocks_.input(slice_));
  }

  void run(const T* in, const T* grad, T* dweight) const {
    const std::int64_t part = panels_ * blocks_.products() * rows_ * width_, tasks = shares_ * c_.groups * slices_;
    const double operations =
        static_cast<double>(batch_ * c_.groups * c_.from * c_.to) * static_cast<double>(pass_.taps() * pass_.results());
    const Tasks all(tasks, operations);
    const std::int64_t input = padded(blocks_.input(slice_), 16);
    const std::int64_t columns = std::max(blocks_.room() * width_, blocks_.columns);  // a row of the input, then grad
    const std::int64_t products = blocks_.tile == 0 ? 0 : kProducts * blocks_.places() * width_;
    const std::int64_t slot_size = padded(input + columns + products, 16);
    core::Scratch<T> partial(tasks * part, Where::current());
    core::Scratch<T> scratch(all.slots() * slot_size, Where::current());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), Where::current());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T* const x = scratch.data() + slot * slot_size;
      T* const sums = partial.data() + task * part;
      std::fill(sums, sums + part, T(0));
      add_images(in, grad, task, {x, x + input, x + input + columns, offsets.data() + slot * blocks_.places(), sums});
    });
    base::parallel_for(c_.groups * c_.from * blocks_.taps(pass_), 65536 / (c_.to * shares_) + 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i) total(partial.data(), part, i, dweight);
                       });
  }

 private:
  static constexpr std::int64_t kPartials = 1 << 19;  // elements: the images are shared out as far as these suffice

  struct Memory {
    T *x, *columns, *products;
    std::int32_t* places;
    T* sums;
  };

  void add_images(const T* in, const T* grad, std::int64_t task, const Memory& m) const {
    const std::int64_t slice = task % slices_, group = task / slices_ % c_.groups, share = task / slices_ / c_.groups;
    const std::int64_t first = slice * slice_, channels = std::min(slice_, c_.from - first);
    for (std::int64_t image = batch_ * share / shares_; image < batch_ * (share + 1) / shares_; ++image)
      for (std::int64_t number = 0; number < blocks_.total(); ++number) {
        const Block block(pass_, blocks_, number);
        const std::int64_t in_channel = (image * c_.groups + group) * c_.from + first;
        load_block(pass_, blocks_, block, in + in_channel * pass_.in_plane(), channels, m.x, m.columns);
        const std::int64_t count = place_offsets(pass_, blocks_, block, m.places);
        for (std::int64_t panel = 0; panel < panels_; ++panel) {
          const std::int64_t to = (image * c_.groups + group) * c_.to + panel * width_;
          load_gradient(grad + to * pass_.out_plane(), block, std::min(width_, c_.to - panel * width_), count, m);
          add_products(channels, count, panel, m);
        }
      }
  }

  /// The gradient of the results in a block: [places, width], or [products][places, width].
  void load_gradient(const T* grad, const Block& block, std::int64_t channels, std::int64_t places,
                     const Memory& m) const {
    if (blocks_.tile != 0 && block.size[2] % blocks_.tile != 0)  // what tiles reach beyond the rows
      std::fill(m.columns, m.columns + places * blocks_.tile * width_, T(0));
    for_out_runs(pass_, blocks_, block, [&](std::int64_t at, std::int64_t offset, std::int64_t count) {
      load_places(grad + offset, pass_.out_plane(), channels, count, m.columns + at * width_, width_);
    });
    if (blocks_.tile != 0)
      simd().of<T>().filter_gradient(m.columns, places, blocks_.tile, width_, m.products, blocks_.places() * width_);
  }

  void add_products(std::int64_t channels, std::int64_t places, std::int64_t panel, const Memory& m) const {
    const auto registers = static_cast<int>(width_ / lanes_);
    for (std::int64_t product = 0; product < blocks_.products(); ++product) {
      const T* const grad = blocks_.tile == 0 ? m.columns : m.products + product * blocks_.places() * width_;
      T* const sums = m.sums + (panel * blocks_.products() + product) * rows_ * width_;
      for (std::int64_t k = 0; k < places; k += kSteps)
        simd().of<T>().offset_gemm({m.x + product * blocks_.phase, steps_.data(), channels * blocks_.taps(pass_),
                                    m.places + k, std::min(kSteps, places - k), grad + k * width_, nullptr, sums,
                                    registers, true});
    }
  }

  /// The gradients of one channel and tap of depth and rows, from what the shares of the images gave.
  void total(const T* partial, std::int64_t part, std::int64_t number, T* dweight) const {
    const std::int64_t taps = blocks_.taps(pass_), columns = pass_.taps() / taps, products = blocks_.products();
    const std::int64_t group = number / (c_.from * taps), row = number % (c_.from * taps), slice = row / rows_;
    const Shares shares(columns);
    for (std::int64_t to = 0; to < c_.to; ++to) {
      double sums[kProducts] = {};
      for (std::int64_t share = 0; share < shares_; ++share) {
        const T* const first = partial + ((share * c_.groups + group) * slices_ + slice) * part +
                               (to / width_ * products * rows_ + row % rows_) * width_ + to % width_;
        for (std::int64_t product = 0; product < products; ++product)
          sums[product] += static_cast<double>(first[product * rows_ * width_]);
      }
      T* const out = dweight + ((group * c_.to + to) * c_.from * taps + row) * columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        double sum = blocks_.tile == 0 ? sums[0] : 0;
        for (std::int64_t product = 0; blocks_.tile != 0 && product < products; ++product)
          sum += shares.of[product][column] * sums[product];
        out[column] = static_cast<T>(sum);
      }
    }
  }

  const Pass& pass_;
  Channels c_;
  std::int64_t batch_, lanes_, width_, panels_, shares_, slices_, slice_;
  Blocks blocks_;
  std::vector<std::int32_t> steps_;
  std::int64_t rows_;  // channels of a slice x taps
};

/// The same for few channels in a group: pairs of channels, the columns in the lanes.
template <class T>
void overlap_weights(const Pass& pass, const Channels& c, const T* in, const T* grad, T* dweight, std::int64_t batch) {
  const Blocks blocks(pass, 1);
  require_offsets(blocks.input(1));
  const std::vector<std::int32_t> steps = tap_offsets(pass, blocks, 1);
  const std::int64_t taps = pass.taps(), pairs = c.groups * c.to * c.from;
  const Tasks all(pairs, static_cast<double>(pairs * taps) * static_cast<double>(batch * pass.results()));
  const std::int64_t input = padded(blocks.input(1) + 4 * simd().of<T>().lanes, 16);
  core::Scratch<T> scratch(all.slots() * input, Where::current());
  core::Scratch<double> sums(all.slots() * taps, Where::current());
  all.run([&](std::int64_t pair, std::int64_t slot) {
    T* const x = scratch.data() + slot * input;
    double* const total = sums.data() + slot * taps;
    std::fill(total, total + taps, 0.0);
    const std::int64_t to = pair / c.from, from = to / c.to * c.from + pair % c.from;
    for (std::int64_t image = 0; image < batch; ++image)
      for (std::int64_t number = 0; number < blocks.total(); ++number) {
        const Block block(pass, blocks, number);
        load_block(pass, blocks, block, in + (image * c.groups * c.from + from) * pass.in_plane(), 1, x);
        const T* const g = grad + (image * c.groups * c.to + to) * pass.out_plane();
        for (std::int64_t i = 0; i < block.size[0]; ++i) {
          const std::int64_t depth = block.begin[0] + i;
          const std::int64_t offset = (depth * pass.axis[1].out + block.begin[1]) * pass.axis[2].out + block.begin[2];
          simd().of<T>().overlap({x + i * pass.axis[0].in_step * blocks.rows * blocks.row,
                                  pass.axis[1].in_step * blocks.row, g + offset, pass.axis[2].out, block.size[1],
                                  block.size[2], steps.data(), taps, total});
        }
      }
    for (std::int64_t tap = 0; tap < taps; ++tap) dweight[pair * taps + tap] = static_cast<T>(total[tap]);
  });
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

void convolve_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                     TensorImpl& out) {
  const Pass pass = forward_pass(window);
  const std::int64_t from = out.shape[1], to = out.shape[0] / groups;
  const Channels c{groups, from, to, 0, 0, 0};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    if (c.to * kFewChannels <= simd().of<T>().lanes)
      overlap_weights(pass, c, x.as<T>(), grad.as<T>(), out.as<T>(), x.shape[0]);
    else WeightGradient<T>(pass, c, x.shape[0]).run(x.as<T>(), grad.as<T>(), out.as<T>());
  });
}

}  // namespace capstan::on_cpu
