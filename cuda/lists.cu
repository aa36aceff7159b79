// What the tools of training do with whole tensors: scale, blend, exchange, and add up powers for norms.
#include <cmath>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/map.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
struct Scaling {
  const double* factor;
  bool* bad;  // may be null
};
template <class T>
struct ScaleRule {
  using Numbers = Scaling<T>;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers& n, T x) {
    const Compute<T> v = widen(x);
    if (n.bad != nullptr && !(v - v == Compute<T>(0))) *n.bad = true;  // whoever writes writes the same
    return narrow<T>(static_cast<Compute<T>>(static_cast<double>(v) * *n.factor));
  }
};

template <class T>
struct BlendRule {
  using Numbers = double;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers& weight, T value, T average) {
    const auto old = static_cast<double>(widen(average));
    const auto next = static_cast<double>(widen(value));
    return narrow<T>(static_cast<Compute<T>>(old == next ? old : old + weight * (next - old)));
  }
};

using Bytes16 = Pack<std::uint64_t, 2>;

/// `packs` at the beginning move together, the bytes behind them one by one.
__global__ void exchange_kernel(std::uint8_t* a, std::uint8_t* b, std::int64_t packs, std::int64_t bytes) {
  auto *const packs_a = reinterpret_cast<Bytes16*>(a), *const packs_b = reinterpret_cast<Bytes16*>(b);
  for (std::int64_t i = first_index(); i < packs; i += index_step()) {
    const Bytes16 held = packs_a[i];
    packs_a[i] = packs_b[i];
    packs_b[i] = held;
  }
  for (std::int64_t i = packs * 16 + first_index(); i < bytes; i += index_step()) {
    const std::uint8_t held = a[i];
    a[i] = b[i];
    b[i] = held;
  }
}

// --- powers ---

struct Magnitude {
  static constexpr bool kLong = false;
  __device__ double operator()(double x) const { return kernels::abs(x); }
};
struct SquareOf {
  static constexpr bool kLong = false;
  __device__ double operator()(double x) const { return x * x; }
};
struct PowerOf {
  static constexpr bool kLong = true;
  double order;
  __device__ double operator()(double x) const { return kernels::pow(kernels::abs(x), order); }
};

/// Each block combines a part; a single one adds it to the total at once. 0 changes neither sums nor largest sizes.
template <class T, class Term, class Combine>
__global__ void powers_kernel(const T* x, std::int64_t count, std::int64_t packs, Term term, Combine combine,
                              double* parts, double* total) {
  constexpr int kW = Term::kLong ? 1 : kPack<T>;
  double sum = 0;
  for (std::int64_t i = first_index(); i < packs; i += index_step()) {
    const auto pack = reinterpret_cast<const Pack<T, kW>*>(x)[i];
    CAPSTAN_UNROLL
    for (int k = 0; k < kW; ++k) sum = combine(sum, term(static_cast<double>(widen(pack.values[k]))));
  }
  for (std::int64_t i = packs * kW + first_index(); i < count; i += index_step())
    sum = combine(sum, term(static_cast<double>(widen(x[i]))));
  sum = block_reduce<static_cast<int>(kThreads)>(sum, combine);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) *total = combine(*total, sum);
  else parts[blockIdx.x] = sum;
}

template <class Combine>
__global__ void combine_parts_kernel(const double* parts, std::int64_t count, Combine combine, double* total) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum = combine(sum, parts[i]);
  sum = block_reduce<static_cast<int>(kThreads)>(sum, combine);
  if (threadIdx.x == 0) *total = combine(*total, sum);
}

/// The same parts for the same count, in the same order.
template <class T, class Term, class Combine>
void add_terms(const TensorImpl& x, Term term, Combine combine, double* total) {
  constexpr int kW = Term::kLong ? 1 : kPack<T>;
  const std::int64_t count = x.numel(), packs = kW == 1 ? count : aligned16(x.data) ? count / kW : 0;
  LaunchShape shape = shape_for(count, 8 * kPack<T>);
  if (shape.blocks > kMostBlocks / 4) shape.blocks = static_cast<unsigned>(kMostBlocks / 4);
  const std::int64_t blocks = shape.blocks;
  Tensor room;
  double* parts = nullptr;
  if (blocks > 1) {
    room = workspace(blocks, DType::float64);
    parts = room.impl()->as<double>();
  }
  launch(powers_kernel<T, Term, Combine>, shape, x.as<T>(), count, packs, term, combine, parts, total);
  if (blocks > 1) launch(combine_parts_kernel<Combine>, LaunchShape{1, kThreads}, parts, blocks, combine, total);
}

}  // namespace

void scale(const TensorImpl& x, const TensorImpl& factor, TensorImpl& out, TensorImpl* bad) {
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const Scaling<T> numbers{factor.as<double>(), bad != nullptr ? bad->as<bool>() : nullptr};
    row_of<ScaleRule<T>, T, T>().run(numbers, {&out, &x});
  });
}

void blend(const TensorImpl& value, double weight, TensorImpl& average) {
  core::visit_real(average.dtype, [&]<class T>(core::Type<T>) {
    row_of<BlendRule<T>, T, T, T>().run(weight, {&average, &value, &average});
  });
}

void exchange(TensorImpl& a, TensorImpl& b) {
  const std::int64_t bytes = a.numel() * size_of(a.dtype), packs = aligned16(a.data, b.data) ? bytes / 16 : 0;
  launch(exchange_kernel, shape_for(packs > 0 ? packs : bytes), a.as<std::uint8_t>(), b.as<std::uint8_t>(), packs,
         bytes);
}

void add_powers(const TensorImpl& x, double order, TensorImpl& total) {
  if (x.numel() == 0) return;
  double* const sum = total.as<double>();
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    if (std::isinf(order)) add_terms<T>(x, Magnitude{}, Larger{}, sum);
    else if (order == 1) add_terms<T>(x, Magnitude{}, Add{}, sum);
    else if (order == 2) add_terms<T>(x, SquareOf{}, Add{}, sum);
    else add_terms<T>(x, PowerOf{order}, Add{}, sum);
  });
}

}  // namespace capstan::on_cuda
