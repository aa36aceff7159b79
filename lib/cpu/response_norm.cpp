// Local response normalization: each element is divided by a power of the squares around it, along the channels.
#include "lib/cpu/along.hpp"
#include "lib/cpu/normalizing.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kPlaces = 64;  // of all channels, worked on together

/// The channels around c that `before` and `after` reach.
struct Reach {
  std::int64_t first, end;

  Reach(std::int64_t c, std::int64_t before, std::int64_t after, std::int64_t channels)
      : first(c < before ? 0 : c - before), end(channels - c <= after ? channels : c + after + 1) {}
};

/// Some places of one sample, of all channels.
struct Places {
  std::int64_t channels, step, count;  // step: from channel to channel
  const ResponseNorm& norm;

  std::int64_t before() const { return norm.size / 2; }
  std::int64_t after() const { return (norm.size - 1) / 2; }
};

/// scale = k + alpha / size * (squares of the channels around c); power = scale^-beta.
template <class T>
void scales(const Places& p, const T* x, std::int64_t c, T* scale, T* power) {
  double totals[kPlaces] = {};
  const Reach reach(c, p.before(), p.after(), p.channels);
  for (std::int64_t other = reach.first; other < reach.end; ++other)
    for (std::int64_t i = 0; i < p.count; ++i) {
      const auto value = static_cast<double>(x[other * p.step + i]);
      totals[i] += value * value;
    }
  const double share = p.norm.alpha / static_cast<double>(p.norm.size);
  for (std::int64_t i = 0; i < p.count; ++i) scale[i] = static_cast<T>(p.norm.k + share * totals[i]);
  const T exponent = static_cast<T>(-p.norm.beta);
  simd().of<T>().binary[kernels::kBinaryId<kernels::Pow>](scale, 1, &exponent, 0, power, p.count);
}

template <class T>
void normalize_places(const Places& p, const T* x, T* out) {
  T scale[kPlaces], power[kPlaces];
  for (std::int64_t c = 0; c < p.channels; ++c) {
    scales(p, x, c, scale, power);
    for (std::int64_t i = 0; i < p.count; ++i) out[c * p.step + i] = x[c * p.step + i] * power[i];
  }
}

/// `ratios` [channels, kPlaces]: grad * x * scale^(-beta - 1); `powers` likewise.
template <class T>
void gradient_of_places(const Places& p, const T* grad, const T* x, double* ratios, T* powers, T* dx) {
  for (std::int64_t c = 0; c < p.channels; ++c) {
    T scale[kPlaces], *power = powers + c * kPlaces;
    scales(p, x, c, scale, power);
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::int64_t at = c * p.step + i;
      ratios[c * kPlaces + i] = static_cast<double>(grad[at]) * static_cast<double>(x[at]) *
                                static_cast<double>(power[i]) / static_cast<double>(scale[i]);
    }
  }
  const double share = 2 * p.norm.alpha * p.norm.beta / static_cast<double>(p.norm.size);
  for (std::int64_t c = 0; c < p.channels; ++c) {
    double totals[kPlaces] = {};
    const Reach reach(c, p.after(), p.before(), p.channels);  // whose squares hold this one
    for (std::int64_t other = reach.first; other < reach.end; ++other)
      for (std::int64_t i = 0; i < p.count; ++i) totals[i] += ratios[other * kPlaces + i];
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::int64_t at = c * p.step + i;
      dx[at] = static_cast<T>(static_cast<double>(grad[at]) * static_cast<double>(powers[c * kPlaces + i]) -
                              share * static_cast<double>(x[at]) * totals[i]);
    }
  }
}

/// Calls `use(places, offset, memory)` for all places, each with `bytes` of memory that nobody else uses then.
template <class Use>
void for_places(const Images& images, const ResponseNorm& norm, std::int64_t bytes, Use use) {
  const std::int64_t pieces = blocks_of(images.inner, kPlaces);
  const std::int64_t grain = kExpensiveGrain / (images.channels * kPlaces) + 1;
  for_lanes(images.samples * pieces, grain, bytes, [&](std::byte* memory, std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t first = item % pieces * kPlaces, left = images.inner - first;
      const Places places{images.channels, images.inner, left < kPlaces ? left : kPlaces, norm};
      use(places, item / pieces * images.channels * images.inner + first, memory);
    }
  });
}

}  // namespace

void response_norm(const ResponseNorm& norm, const TensorImpl& x, TensorImpl& out) {
  if (x.numel() == 0) return;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    for_places(Images(x), norm, 0, [&](const Places& places, std::int64_t offset, std::byte*) {
      normalize_places<T>(places, x.as<T>() + offset, out.as<T>() + offset);
    });
  });
}

void response_norm_backward(const ResponseNorm& norm, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  if (x.numel() == 0) return;
  const Images images(x);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t numbers = images.channels * kPlaces;
    const std::int64_t bytes = numbers * static_cast<std::int64_t>(sizeof(double) + sizeof(T));
    for_places(images, norm, bytes, [&](const Places& places, std::int64_t offset, std::byte* memory) {
      auto* const ratios = reinterpret_cast<double*>(memory);
      gradient_of_places<T>(places, grad.as<T>() + offset, x.as<T>() + offset, ratios,
                            reinterpret_cast<T*>(ratios + numbers), out.as<T>() + offset);
    });
  });
}

}  // namespace capstan::on_cpu
