// The gradient of a convolution for its weights: products of inputs and gradients, summed over places and images.
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/convolve.hpp"

namespace capstan::on_cpu {
namespace {

/// A task takes some images and some of the channels summed over; what it adds up is [panels][products][channels x
/// taps][width].
template <class T>
class WeightGradient {
 public:
  WeightGradient(const Pass& pass, const Channels& c, std::int64_t batch, int tile)
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
        blocks_(pass, slice_, tile),
        steps_(tap_offsets(pass, blocks_, slice_)),
        rows_(slice_ * blocks_.taps(pass)) {
    slices_ = parts(c.from, slice_);
  }

  /// False if tiles gave a number that is not finite, which reaches taps that do not see what made it; they are to be
  /// made anew without.
  bool run(const T* in, const T* grad, T* dweight) const {
    const std::int64_t part = panels_ * blocks_.products() * rows_ * width_, tasks = shares_ * c_.groups * slices_;
    const double operations =
        static_cast<double>(batch_ * c_.groups * c_.from * c_.to) * static_cast<double>(pass_.taps() * pass_.results());
    const Tasks all(tasks, operations);
    const std::int64_t input = padded(blocks_.input(slice_), 16);
    const std::int64_t columns = std::max(blocks_.room() * width_, blocks_.spare());  // a row of the input, then grad
    const std::int64_t products = blocks_.tile == 0 ? 0 : kProducts * blocks_.places() * width_;
    const std::int64_t slot_size = padded(input + columns + products, 16);
    core::Scratch<T> partial(tasks * part, core::calling_place());
    core::Scratch<T> scratch(all.slots() * slot_size, core::calling_place());
    core::Scratch<std::int32_t> offsets(all.slots() * blocks_.places(), core::calling_place());
    all.run([&](std::int64_t task, std::int64_t slot) {
      T* const x = scratch.data() + slot * slot_size;
      T* const sums = partial.data() + task * part;
      std::fill(sums, sums + part, T(0));
      add_images(in, grad, task, {x, x + input, x + input + columns, offsets.data() + slot * blocks_.places(), sums});
    });
    const std::int64_t pieces = parts(rows_, kRowsAtOnce);
    base::parallel_for(c_.groups * panels_ * slices_ * pieces, 65536 / (kRowsAtOnce * width_ * shares_) + 1,
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t i = begin; i < end; ++i)
                           total(partial.data(), part, i / pieces, i % pieces * kRowsAtOnce, dweight);
                       });
    return blocks_.tile == 0 || !simd().of<T>().any_bad(dweight, c_.groups * c_.to * c_.from * pass_.taps(), true);
  }

 private:
  static constexpr std::int64_t kPartials = 1 << 19;  // elements: the images are shared out as far as these suffice
  static constexpr std::int64_t kRowsAtOnce = 16, kMostColumns = 5;  // whose gradients are turned

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
                                    registers, SumStart::apart});
    }
  }

  /// The gradients of some rows of a slice, from what the shares of the images gave.
  void total(const T* partial, std::int64_t part, std::int64_t number, std::int64_t first, T* dweight) const {
    const std::int64_t slice = number % slices_, panel = number / slices_ % panels_, group = number / slices_ / panels_;
    const std::int64_t taps = blocks_.taps(pass_), columns = pass_.taps() / taps, row = slice * rows_ + first;
    const std::int64_t count = std::min({kRowsAtOnce, rows_ - first, c_.from * taps - row});
    Shares shares(columns);
    if (blocks_.tile == 0) shares.of[0][0] = 1;
    T values[kRowsAtOnce * kMostColumns * kMostPanel];
    for (std::int64_t i = 0; i < count; ++i)
      simd().of<T>().total_weights(
          partial + (group * slices_ + slice) * part + (panel * blocks_.products() * rows_ + first + i) * width_,
          static_cast<int>(blocks_.products()), rows_ * width_, shares_, c_.groups * slices_ * part,
          static_cast<int>(columns), shares.of, width_, values + i * columns * width_);
    const std::int64_t used = std::min(width_, c_.to - panel * width_), line = c_.from * taps * columns;
    T* const out = dweight + (group * c_.to + panel * width_) * line + row * columns;
    store_places(values, width_, used, count * columns, out, line);
  }

  const Pass& pass_;
  Channels c_;
  std::int64_t batch_, lanes_, width_, panels_, shares_, slices_, slice_;
  Blocks blocks_;
  core::ScratchVector<std::int32_t> steps_;
  std::int64_t rows_;  // channels of a slice x taps
};

/// The same for few channels in a group: pairs of channels, the columns in the lanes.
template <class T>
class PairedChannels {
 public:
  PairedChannels(const Pass& pass, const Channels& c, std::int64_t batch)
      : pass_(pass),
        c_(c),
        batch_(batch),
        taps_(pass.taps()),
        all_(c.groups * c.to * c.from,
             static_cast<double>(c.groups * c.to * c.from * taps_) * static_cast<double>(batch * pass.results())) {}

  void run(const T* in, const T* grad, T* dweight) const {
    if (plane_kernel(pass_) != 0 && pass_.axis[2].count <= kOverlapColumns) add_planes(in, grad, dweight);
    else add_blocks(in, grad, dweight);
  }

 private:
  /// Planes as they lie.
  void add_planes(const T* in, const T* grad, T* dweight) const {
    each_plane(in, grad, dweight, [&](const T* x, const T* g, std::int64_t, double* sums) {
      simd().of<T>().overlap_plane({plane_of(pass_, x), g, pass_.axis[1].count, pass_.axis[2].count, sums});
    });
  }

  /// Copies of their blocks, with the borders.
  void add_blocks(const T* in, const T* grad, T* dweight) const {
    const Blocks blocks(pass_, 1);
    const core::ScratchVector<std::int32_t> steps = tap_offsets(pass_, blocks, 1);
    const std::int64_t input = padded(blocks.input(1) + 4 * simd().of<T>().lanes, 16);
    core::Scratch<T> scratch(all_.slots() * input, core::calling_place());
    const PassAxis &d = pass_.axis[0], &h = pass_.axis[1], &w = pass_.axis[2];
    each_plane(in, grad, dweight, [&](const T* from, const T* g, std::int64_t slot, double* sums) {
      T* const x = scratch.data() + slot * input;
      for (std::int64_t number = 0; number < blocks.total(); ++number) {
        const Block block(pass_, blocks, number);
        load_block(pass_, blocks, block, from, 1, x);
        for (std::int64_t i = 0; i < block.size[0]; ++i) {
          const std::int64_t offset = ((block.begin[0] + i) * h.out + block.begin[1]) * w.out + block.begin[2];
          simd().of<T>().overlap({x + i * d.in_step * blocks.rows * blocks.row, h.in_step * blocks.row, g + offset,
                                  w.out, block.size[1], block.size[2], steps.data(), taps_, sums});
        }
      }
    });
  }

  /// Calls add(plane of the input, plane of the gradient, slot, sums) for each pair in every image; writes the sums.
  template <class Add>
  void each_plane(const T* in, const T* grad, T* dweight, Add add) const {
    core::Scratch<double> sums(all_.slots() * taps_, core::calling_place());
    all_.run([&](std::int64_t pair, std::int64_t slot) {
      double* const total = sums.data() + slot * taps_;
      std::fill(total, total + taps_, 0.0);
      const std::int64_t to = pair / c_.from, from = to / c_.to * c_.from + pair % c_.from;
      for (std::int64_t image = 0; image < batch_; ++image)
        add(in + (image * c_.groups * c_.from + from) * pass_.in_plane(),
            grad + (image * c_.groups * c_.to + to) * pass_.out_plane(), slot, total);
      for (std::int64_t tap = 0; tap < taps_; ++tap) dweight[pair * taps_ + tap] = static_cast<T>(total[tap]);
    });
  }

  const Pass& pass_;
  Channels c_;
  std::int64_t batch_, taps_;
  Tasks all_;
};

}  // namespace

void convolve_weight(const TensorImpl& x, const TensorImpl& grad, const core::Window& window, std::int64_t groups,
                     TensorImpl& out) {
  if (x.numel() == 0 || grad.numel() == 0) return fill(out, Scalar(0));
  const std::int64_t from = out.shape[1], to = out.shape[0] / groups;
  if (is_of_patches(window, from * window.kernel(), to, groups, kRowsWorthCopyForWeight))
    return convolve_patches_weight(x, grad, window, groups, out);
  const Pass pass = forward_pass(window);
  const Channels c{groups, from, to, 0, 0, 0};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t batch = x.shape[0];
    if (c.to * kFewChannels <= simd().of<T>().lanes)
      return PairedChannels<T>(pass, c, batch).run(x.as<T>(), grad.as<T>(), out.as<T>());
    const int tile = tile_of(pass, from, to, batch);
    const bool good = WeightGradient<T>(pass, c, batch, tile).run(x.as<T>(), grad.as<T>(), out.as<T>());
    if (!good || (tile != 0 && base::rehearses()))
      WeightGradient<T>(pass, c, batch, 0).run(x.as<T>(), grad.as<T>(), out.as<T>());
  });
}

}  // namespace capstan::on_cpu
