// Local response normalization: each element is divided by a power of the squares around it, along the channels.
#include "cuda/backend.hpp"
#include "cuda/context.hpp"
#include "cuda/launch.cuh"
#include "cuda/norm_units.hpp"
#include "cuda/values.cuh"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {
namespace {

struct Around {
  ResponseNorm norm;
  std::int64_t channels, inner, count;

  Around(const ResponseNorm& settings, const TensorImpl& x) : norm(settings), count(x.numel()) {
    const NormUnits units = channels_of(x);
    channels = units.units;
    inner = units.inner;
  }
  /// The sum of `value` over channels c - before to c + after; element i lies in channel c.
  template <class Value>
  __device__ double sum(std::int64_t i, std::int64_t before, std::int64_t after, Value value) const {
    const std::int64_t c = i / inner % channels;
    const std::int64_t first = c < before ? 0 : c - before, last = channels - c <= after ? channels - 1 : c + after;
    double total = 0;
    for (std::int64_t other = first; other <= last; ++other) total += value(i + (other - c) * inner);
    return total;
  }
  __device__ std::int64_t before() const { return norm.size / 2; }
  __device__ std::int64_t after() const { return (norm.size - 1) / 2; }
};

template <class T>
struct Square {
  const T* x;
  __device__ double operator()(std::int64_t i) const {
    const auto value = static_cast<double>(widen(x[i]));
    return value * value;
  }
};
struct Element {
  const double* values;
  __device__ double operator()(std::int64_t i) const { return values[i]; }
};

/// scale = k + alpha / size * (the squares around); power = scale^-beta.
template <class T>
struct Scale {
  Compute<T> scale, power;
  __device__ Scale(const Around& around, const T* x, std::int64_t i) {
    const double share = around.norm.alpha / static_cast<double>(around.norm.size);
    const double squares = around.sum(i, around.before(), around.after(), Square<T>{x});
    scale = static_cast<Compute<T>>(around.norm.k + share * squares);
    power = kernels::pow(scale, static_cast<Compute<T>>(-around.norm.beta));
  }
};

template <class T>
__global__ void response_kernel(Around around, const T* x, T* out) {
  for (std::int64_t i = first_index(); i < around.count; i += index_step())
    out[i] = narrow<T>(widen(x[i]) * Scale<T>(around, x, i).power);
}

/// ratio = grad * x * scale^(-beta - 1)
template <class T>
__global__ void ratio_kernel(Around around, const T* grad, const T* x, double* ratios, Compute<T>* powers) {
  for (std::int64_t i = first_index(); i < around.count; i += index_step()) {
    const Scale<T> own(around, x, i);
    powers[i] = own.power;
    ratios[i] = static_cast<double>(widen(grad[i])) * static_cast<double>(widen(x[i])) *
                static_cast<double>(own.power) / static_cast<double>(own.scale);
  }
}
template <class T>
__global__ void response_backward_kernel(Around around, const T* grad, const T* x, const double* ratios,
                                         const Compute<T>* powers, T* out) {
  const double share = 2 * around.norm.alpha * around.norm.beta / static_cast<double>(around.norm.size);
  for (std::int64_t i = first_index(); i < around.count; i += index_step()) {
    const double total =
        around.sum(i, around.after(), around.before(), Element{ratios});  // whose squares hold this one
    const double through = static_cast<double>(widen(grad[i])) * static_cast<double>(powers[i]);
    const double slope = through - share * static_cast<double>(widen(x[i])) * total;
    out[i] = narrow<T>(static_cast<Compute<T>>(slope));
  }
}

}  // namespace

void response_norm(const ResponseNorm& norm, const TensorImpl& x, TensorImpl& out) {
  if (x.numel() == 0) return;
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    launch(response_kernel<T>, shape_for(x.numel()), Around(norm, x), x.as<T>(), out.as<T>());
  });
}

void response_norm_backward(const ResponseNorm& norm, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  if (x.numel() == 0) return;
  const Around around(norm, x);
  const LaunchShape shape = shape_for(x.numel());
  const Tensor memory = workspace(x.numel(), DType::float64);
  auto* const ratios = memory.impl()->as<double>();
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const Tensor powers = workspace(x.numel(), dtype_of<Compute<T>>());
    auto* const power = powers.impl()->as<Compute<T>>();
    launch(ratio_kernel<T>, shape, around, grad.as<T>(), x.as<T>(), ratios, power);
    launch(response_backward_kernel<T>, shape, around, grad.as<T>(), x.as<T>(), ratios, power, out.as<T>());
  });
}

}  // namespace capstan::on_cuda
