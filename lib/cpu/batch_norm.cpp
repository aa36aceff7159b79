// Batch normalization: numbers for each channel, over all samples and places. Channels are planes, or columns if there
// is one place only. Samples are cut into blocks at fixed places, and what is found in them is put together in order.
#include <algorithm>
#include <cmath>

#include "lib/cpu/normalizing.hpp"
#include "lib/cpu/parts.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kPlaneValues = 4096;  // of one channel, about, in a block
constexpr std::int64_t kColumnRows = 256;    // of a block, which stays in the cache, times
constexpr std::int64_t kColumnPiece = 256;   // columns

/// How samples and channels are cut.
struct Cut {
  Images images;
  bool columns;
  std::int64_t block, blocks;  // samples in a block; blocks

  explicit Cut(const TensorImpl& x) : images(x), columns(images.inner == 1) {
    const std::int64_t wanted = columns ? kColumnRows : blocks_of(kPlaneValues, images.inner);
    block = wanted < images.samples ? wanted : images.samples;
    blocks = blocks_of(images.samples, block);
  }
  std::int64_t samples_in(std::int64_t b) const {
    return images.samples - b * block < block ? images.samples - b * block : block;
  }
  /// Where channel c of a block begins, and how far its planes (rows) are from each other.
  std::int64_t begin(std::int64_t b, std::int64_t c) const { return b * block * step() + c * images.inner; }
  std::int64_t step() const { return images.channels * images.inner; }
  double count() const { return static_cast<double>(images.samples) * static_cast<double>(images.inner); }
};

/// Calls `use(block, first channel, channels)` for what is worked on in one go: a plane, or a piece of columns.
template <class Use>
void for_pieces(const Cut& cut, Use use) {
  const std::int64_t width = cut.columns ? kColumnPiece : 1, pieces = blocks_of(cut.images.channels, width);
  const std::int64_t work = cut.block * cut.images.inner * std::min(width, cut.images.channels);
  base::parallel_for(cut.blocks * pieces, kCheapGrain / 4 / work + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % pieces * width, left = cut.images.channels - first;
      use(item / pieces, first, left < width ? left : width);
    }
  });
}

// --- statistics ---

template <class T>
Part plane_part(const Cut& cut, const T* x, std::int64_t planes) {
  T shift;
  double first, second;
  simd().of<T>().plane_moments(x, planes, cut.step(), cut.images.inner, &shift, &first, &second);
  const double count = static_cast<double>(planes) * static_cast<double>(cut.images.inner);
  return part_of(count, static_cast<double>(shift), first, second);
}

template <class T>
void column_parts(const Cut& cut, const T* x, std::int64_t rows, std::int64_t width, Part* parts) {
  const FloatKernels<T>& k = simd().of<T>();
  const auto count = static_cast<double>(rows);
  T shifts[kColumnPiece];
  double first[kColumnPiece] = {}, second[kColumnPiece] = {};
  k.add_rows(first, x, cut.step(), rows, width);
  for (std::int64_t j = 0; j < width; ++j) {
    shifts[j] = shift_of(first[j], count, x[j]);
    first[j] = 0;
  }
  k.column_distances(x, cut.step(), rows, shifts, width, first, second);
  for (std::int64_t j = 0; j < width; ++j) {
    if (!(second[j] - second[j] == 0)) {  // squares that only double can hold
      first[j] = second[j] = 0;
      k.spread_rows(x + j, cut.step(), rows, shifts + j, 1, first + j, second + j);
    }
    parts[j] = part_of(count, static_cast<double>(shifts[j]), first[j], second[j]);
  }
}

/// Count, mean and squares of every channel, in the first row of `parts` [blocks, channels].
template <class T>
void find_parts(const Cut& cut, const T* x, Part* parts) {
  const std::int64_t channels = cut.images.channels;
  for_pieces(cut, [&](std::int64_t b, std::int64_t first, std::int64_t width) {
    const T* from = x + cut.begin(b, first);
    Part* to = parts + b * channels + first;
    if (cut.columns) column_parts(cut, from, cut.samples_in(b), width, to);
    else *to = plane_part(cut, from, cut.samples_in(b));
  });
  base::parallel_for(channels, kCheapGrain / (8 * cut.blocks) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = 1; b < cut.blocks; ++b)
      for (std::int64_t c = begin; c < end; ++c) parts[c] = joined(parts[c], parts[b * channels + c]);
  });
}

/// Sums of grad, of grad * (x - mean) and of x - mean: `totals` [3, channels], the first of its [blocks, 3, channels].
template <class T>
void find_totals(const Cut& cut, const T* grad, const T* x, const T* mean, double* totals) {
  const std::int64_t channels = cut.images.channels;
  for_pieces(cut, [&](std::int64_t b, std::int64_t first, std::int64_t width) {
    const FloatKernels<T>& k = simd().of<T>();
    const std::int64_t at = cut.begin(b, first);
    double* to = totals + 3 * b * channels + first;
    if (cut.columns) {
      for (int kind = 0; kind < 3; ++kind)
        for (std::int64_t j = 0; j < width; ++j) to[kind * channels + j] = 0;
      k.column_products(grad + at, x + at, cut.step(), cut.samples_in(b), mean + first, width, to, channels);
    } else {
      double found[3];
      k.plane_products(grad + at, x + at, mean[first], cut.samples_in(b), cut.step(), cut.images.inner, found);
      for (int kind = 0; kind < 3; ++kind) to[kind * channels] = found[kind];
    }
  });
  for (std::int64_t b = 1; b < cut.blocks; ++b)
    for (std::int64_t i = 0; i < 3 * channels; ++i) totals[i] += totals[3 * b * channels + i];
}

// --- results ---

/// What each channel's elements become, as in ChannelRule. All begin as zeros.
template <class T>
class Rules {
 public:
  explicit Rules(std::int64_t channels) : channels_(channels), numbers_(4 * channels, core::calling_place()) {
    for (std::int64_t i = 0; i < 4 * channels; ++i) numbers_[i] = T(0);
  }
  T& shift(std::int64_t c) { return numbers_[c]; }
  T& by_grad(std::int64_t c) { return numbers_[channels_ + c]; }
  T& by_x(std::int64_t c) { return numbers_[2 * channels_ + c]; }
  T& offset(std::int64_t c) { return numbers_[3 * channels_ + c]; }
  /// The rules from channel c on.
  ChannelRule<T> from(std::int64_t c) { return {&shift(c), &by_grad(c), &by_x(c), &offset(c)}; }

 private:
  std::int64_t channels_;
  core::Scratch<T> numbers_;
};

/// `grad` may be null.
template <class T>
void apply_rules(const Images& images, Rules<T>& rules, const T* grad, const T* x, T* out) {
  const FloatKernels<T>& k = simd().of<T>();
  const std::int64_t channels = images.channels, inner = images.inner;
  const auto moved = [&](std::int64_t by) { return grad == nullptr ? nullptr : grad + by; };
  if (inner == 1) {
    base::parallel_for(images.samples, kCheapGrain / 2 / channels + 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t at = begin * channels;
      k.column_rule(rules.from(0), moved(at), x + at, end - begin, channels, out + at);
    });
    return;
  }
  base::parallel_for(images.samples * channels, kCheapGrain / 2 / inner + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end;) {
      const std::int64_t c = plane % channels, left = end - plane, at = plane * inner;
      const std::int64_t planes = left < channels - c ? left : channels - c;
      k.plane_rule(rules.from(c), moved(at), x + at, planes, inner, out + at);
      plane += planes;
    }
  });
}

template <class T>
double number_or(const T* numbers, std::int64_t c, double otherwise) {
  return numbers == nullptr ? otherwise : static_cast<double>(numbers[c]);
}

}  // namespace

void batch_norm_training(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                         TensorImpl& out, TensorImpl& mean, TensorImpl& variance, TensorImpl& inverse) {
  if (x.numel() == 0) {
    for (TensorImpl* numbers : {&mean, &variance, &inverse}) fill(*numbers, 0);
    return;
  }
  const Cut cut(x);
  const std::int64_t channels = cut.images.channels;
  core::Scratch<Part> parts(cut.blocks * channels, core::calling_place());
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    find_parts(cut, x.as<T>(), parts.data());
    Rules<T> rules(channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      const Part& part = parts[c];
      const double spread = part.squares / part.count, factor = 1 / std::sqrt(spread + epsilon);
      const double w = number_or(data_or_null<T>(weight), c, 1), b = number_or(data_or_null<T>(bias), c, 0);
      const T center = static_cast<T>(part.mean);
      mean.as<T>()[c] = rules.shift(c) = center;
      variance.as<T>()[c] = static_cast<T>(spread);
      inverse.as<T>()[c] = static_cast<T>(factor);
      rules.by_x(c) = static_cast<T>(factor * w);
      // with what rounding the mean took
      rules.offset(c) = static_cast<T>((static_cast<double>(center) - part.mean) * factor * w + b);
    }
    const T* const no_grad = nullptr;
    apply_rules(cut.images, rules, no_grad, x.as<T>(), out.as<T>());
  });
}

void batch_norm(const TensorImpl& x, const TensorImpl& mean, const TensorImpl& variance, const TensorImpl* weight,
                const TensorImpl* bias, double epsilon, TensorImpl& out, TensorImpl& inverse) {
  const Images images(x);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    Rules<T> rules(images.channels);
    for (std::int64_t c = 0; c < images.channels; ++c) {
      const double factor = 1 / std::sqrt(static_cast<double>(variance.as<T>()[c]) + epsilon);
      inverse.as<T>()[c] = static_cast<T>(factor);
      rules.shift(c) = mean.as<T>()[c];
      rules.by_x(c) = static_cast<T>(factor * number_or(data_or_null<T>(weight), c, 1));
      rules.offset(c) = static_cast<T>(number_or(data_or_null<T>(bias), c, 0));
    }
    if (x.numel() == 0) return;
    const T* const no_grad = nullptr;
    apply_rules(images, rules, no_grad, x.as<T>(), out.as<T>());
  });
}

void batch_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, bool training, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const Cut cut(x);
  const std::int64_t channels = cut.images.channels;
  const bool sums_wanted = training || dweight != nullptr || dbias != nullptr;
  core::Scratch<double> totals(3 * cut.blocks * channels, core::calling_place());
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    if (sums_wanted) find_totals(cut, grad.as<T>(), x.as<T>(), mean.as<T>(), totals.data());
    Rules<T> rules(channels);
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto factor = static_cast<double>(inverse.as<T>()[c]);
      const double by_grad = factor * number_or(data_or_null<T>(weight), c, 1);
      if (!training) rules.by_x(c) = static_cast<T>(by_grad);  // of the gradient, which takes x's place
      if (!sums_wanted) continue;
      const double rest = training ? totals[2 * channels + c] / cut.count() : 0;  // what rounding the mean took
      const double value = (totals[channels + c] - rest * totals[c]) * factor;
      if (dweight != nullptr) dweight->as<T>()[c] = static_cast<T>(value);
      if (dbias != nullptr) dbias->as<T>()[c] = static_cast<T>(totals[c]);
      if (!training) continue;
      const double by_x = -by_grad * factor * value / cut.count();
      rules.shift(c) = mean.as<T>()[c];
      rules.by_grad(c) = static_cast<T>(by_grad);
      rules.by_x(c) = static_cast<T>(by_x);
      rules.offset(c) = static_cast<T>(-by_grad * totals[c] / cut.count() - by_x * rest);
    }
    if (dx == nullptr) return;
    const T* const no_grad = nullptr;
    if (training) apply_rules(cut.images, rules, grad.as<T>(), x.as<T>(), dx->as<T>());
    else apply_rules(cut.images, rules, no_grad, grad.as<T>(), dx->as<T>());
  });
}

}  // namespace capstan::on_cpu
