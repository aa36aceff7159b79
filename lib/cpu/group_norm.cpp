// Group and instance normalization: a row is a group of channels of one sample.
#include <cmath>

#include "lib/cpu/normalizing.hpp"
#include "lib/cpu/parts.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kFewChannels = 64;  // whose numbers are worked out together
constexpr std::int64_t kBlockValues = 64;  // of one channel, at least, in a block of samples

/// A group's channels [channels, inner] of one sample: by_grad * grad + by_x * (x - shift) + offset, where `rule` says
/// by_grad, by_x and offset of a channel. `grad` may be null.
template <class T, class Rule>
void apply_rule(const T* grad, const T* x, T shift, std::int64_t channels, std::int64_t inner, T* out, Rule rule) {
  T shifts[kFewChannels], by_grad[kFewChannels], by_x[kFewChannels], offset[kFewChannels];
  for (std::int64_t first = 0; first < channels; first += kFewChannels) {
    const std::int64_t few = channels - first < kFewChannels ? channels - first : kFewChannels;
    for (std::int64_t c = 0; c < few; ++c) {
      shifts[c] = shift;
      rule(first + c, &by_grad[c], &by_x[c], &offset[c]);
    }
    const std::int64_t at = first * inner;
    simd().of<T>().plane_rule({shifts, by_grad, by_x, offset}, grad == nullptr ? nullptr : grad + at, x + at, few,
                              inner, out + at);
  }
}

template <class T>
struct Group {
  const T *weight, *bias;  // of its channels, or null
  std::int64_t channels, inner;

  std::int64_t count() const { return channels * inner; }
  double weight_of(std::int64_t c) const { return weight == nullptr ? 1 : static_cast<double>(weight[c]); }
  double bias_of(std::int64_t c) const { return bias == nullptr ? 0 : static_cast<double>(bias[c]); }
};

template <class T>
void normalize_group(const Group<T>& group, const T* x, double epsilon, T* out, T* mean, T* inverse) {
  T shift;
  double first, second;
  simd().of<T>().plane_moments(x, 1, 0, group.count(), &shift, &first, &second);
  const Part part = part_of(static_cast<double>(group.count()), static_cast<double>(shift), first, second);
  const double factor = 1 / std::sqrt(part.squares / part.count + epsilon);
  const T center = static_cast<T>(part.mean);
  *mean = center;
  *inverse = static_cast<T>(factor);
  const double rest = (static_cast<double>(center) - part.mean) * factor;  // what rounding the mean took
  const T* const no_grad = nullptr;
  apply_rule(no_grad, x, center, group.channels, group.inner, out, [&](std::int64_t c, T* by_grad, T* by_x, T* offset) {
    *by_grad = T(0);
    *by_x = static_cast<T>(factor * group.weight_of(c));
    *offset = static_cast<T>(rest * group.weight_of(c) + group.bias_of(c));
  });
}

/// Sums for each channel of a group: of a block of samples those that weight and bias want, of one sample raw ones.
struct GroupSums {
  double *value, *grad;            // of grad * result, of grad: added to
  double *own_grad, *own_product;  // of grad, of grad * (x - mean)
};

template <class T>
void group_gradient(const Group<T>& group, const T* grad, const T* x, T center, T scale, T* dx, const GroupSums& sums) {
  const auto count = static_cast<double>(group.count()), inverse = static_cast<double>(scale);
  double distance = 0;
  for (std::int64_t c = 0; c < group.channels; ++c) {
    double totals[3];
    simd().of<T>().plane_products(grad + c * group.inner, x + c * group.inner, center, 1, 0, group.inner, totals);
    sums.own_grad[c] = totals[0];
    sums.own_product[c] = totals[1];
    distance += totals[2];
  }
  const double rest = distance / count;
  double level = 0, slope = 0;
  for (std::int64_t c = 0; c < group.channels; ++c) {
    const double value = (sums.own_product[c] - rest * sums.own_grad[c]) * inverse;
    sums.value[c] += value;
    sums.grad[c] += sums.own_grad[c];
    level += group.weight_of(c) * sums.own_grad[c];
    slope += group.weight_of(c) * value;
  }
  if (dx == nullptr) return;
  const double by_distance = -inverse * inverse * slope / count, constant = -inverse * level / count;
  apply_rule(grad, x, center, group.channels, group.inner, dx, [&](std::int64_t c, T* by_grad, T* by_x, T* offset) {
    *by_grad = static_cast<T>(inverse * group.weight_of(c));
    *by_x = static_cast<T>(by_distance);
    *offset = static_cast<T>(constant - by_distance * rest);
  });
}

/// to[c] = the sum over blocks of sums[block][c]; null is passed over.
template <class T>
void join_blocks(const double* sums, std::int64_t blocks, std::int64_t step, std::int64_t channels, T* to) {
  if (to == nullptr) return;
  for (std::int64_t c = 0; c < channels; ++c) {
    double total = 0;
    for (std::int64_t b = 0; b < blocks; ++b) total += sums[b * step + c];
    to[c] = static_cast<T>(total);
  }
}

}  // namespace

void group_norm(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, std::int64_t groups,
                double epsilon, TensorImpl& out, TensorImpl& mean, TensorImpl& inverse) {
  if (x.numel() == 0) return;
  const Images images(x);
  const std::int64_t channels = images.channels / groups, count = channels * images.inner;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(images.samples * groups, rows_worth_sharing(count), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row % groups * channels;
        const Group<T> group{weight == nullptr ? nullptr : weight->as<T>() + first,
                             bias == nullptr ? nullptr : bias->as<T>() + first, channels, images.inner};
        normalize_group(group, x.as<T>() + row * count, epsilon, out.as<T>() + row * count, mean.as<T>() + row,
                        inverse.as<T>() + row);
      }
    });
  });
}

void group_norm_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl& mean,
                         const TensorImpl& inverse, std::int64_t groups, TensorImpl* dx, TensorImpl* dweight,
                         TensorImpl* dbias) {
  if (x.numel() == 0) {
    for (TensorImpl* sums : {dweight, dbias})
      if (sums != nullptr) fill(*sums, 0);
    return;
  }
  const Images images(x);
  const std::int64_t all = images.channels, channels = all / groups, count = channels * images.inner;
  const std::int64_t wanted = blocks_of(kBlockValues, images.inner);
  const std::int64_t block = wanted < images.samples ? wanted : images.samples;
  const std::int64_t blocks = blocks_of(images.samples, block);
  core::Scratch<double> sums(blocks * 4 * all, core::calling_place());  // as in GroupSums, each [channels]
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(
        blocks * groups, rows_worth_sharing(count) / block + 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t item = begin; item < end; ++item) {
            const std::int64_t b = item / groups, g = item % groups, first = g * channels;
            double* own = sums.data() + b * 4 * all + first;
            const GroupSums group_sums{own, own + all, own + 2 * all, own + 3 * all};
            for (std::int64_t c = 0; c < channels; ++c) group_sums.value[c] = group_sums.grad[c] = 0;
            const Group<T> group{weight == nullptr ? nullptr : weight->as<T>() + first, nullptr, channels,
                                 images.inner};
            for (std::int64_t n = b * block; n < images.samples && n < (b + 1) * block; ++n) {
              const std::int64_t row = n * groups + g, at = row * count;
              group_gradient(group, grad.as<T>() + at, x.as<T>() + at, mean.as<T>()[row], inverse.as<T>()[row],
                             dx == nullptr ? nullptr : dx->as<T>() + at, group_sums);
            }
          }
        });
    join_blocks(sums.data(), blocks, 4 * all, all, data_or_null<T>(dweight));
    join_blocks(sums.data() + all, blocks, 4 * all, all, data_or_null<T>(dbias));
  });
}

}  // namespace capstan::on_cpu
