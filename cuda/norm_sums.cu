// Sums over units that are normalized; see norm_units.hpp. In double, and in an order that depends on sizes alone.
#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {
namespace {

constexpr std::int64_t kFewElements = 1024;  // elements of a part, of which a warp takes care

/// x - base and its square.
template <class T>
struct Deviations {
  using Element = T;
  static constexpr int kKinds = 2;
  const T* x;
  std::int64_t inner;
  bool centered;

  __device__ double base(std::int64_t unit) const {
    return centered ? distance_base(static_cast<double>(widen(x[unit * inner]))) : 0.0;
  }
  template <int V>
  __device__ void add(std::int64_t at, std::int64_t, double base_of_unit, double (&sums)[kKinds]) const {
    T values[V];
    load_run<V>(x + at, values);
    for (int v = 0; v < V; ++v) {
      const double distance = static_cast<double>(widen(values[v])) - base_of_unit;
      sums[0] += distance;
      sums[1] += distance * distance;
    }
  }
};

/// g, g * (x - mean) and x - mean.
template <class T>
struct Products {
  using Element = T;
  static constexpr int kKinds = 3;
  const T *grad, *x;
  NormNumbers weight, mean;
  std::int64_t share;

  __device__ double base(std::int64_t unit) const { return mean.at_or(unit / share, 0); }
  template <int V>
  __device__ void add(std::int64_t at, std::int64_t place, double base_of_unit, double (&sums)[kKinds]) const {
    T grads[V], values[V];
    load_run<V>(grad + at, grads);
    load_run<V>(x + at, values);
    Compute<T> through[V];
    for (int v = 0; v < V; ++v) through[v] = widen(grads[v]);
    scale_run<T>(weight, NormNumbers(), place, through);
    for (int v = 0; v < V; ++v) {
      const double g = static_cast<double>(through[v]);
      const double distance = static_cast<double>(widen(values[v])) - base_of_unit;
      sums[0] += g;
      sums[1] += g * distance;
      sums[2] += distance;
    }
  }
};

/// kGroup threads for each part of a unit, which they walk by packs of V elements.
template <class Terms, int V, int kGroup>
__global__ void __launch_bounds__(kThreads) plane_sums_kernel(Terms terms, NormUnits u, NormCut cut, double* sums) {
  constexpr int kKinds = Terms::kKinds, kGroups = static_cast<int>(kThreads) / kGroup;
  const std::int64_t lane = threadIdx.x % kGroup, across = u.inner / V, positions = u.samples * across;
  const std::int64_t sample_step = kGroup / across, place_step = kGroup % across;
  const std::int64_t first = std::int64_t{blockIdx.x} * kGroups + threadIdx.x / kGroup;
  for (std::int64_t item = first; item < cut.parts * u.units; item += std::int64_t{gridDim.x} * kGroups) {
    const std::int64_t unit = item % u.units, part = item / u.units, begin = part * cut.share;
    const std::int64_t end = positions - begin < cut.share ? positions : begin + cut.share;
    const double base = terms.base(unit);
    double totals[kKinds] = {};
    std::int64_t sample = (begin + lane) / across, place = (begin + lane) % across;
    for (std::int64_t position = begin + lane; position < end; position += kGroup) {
      terms.template add<V>((sample * u.units + unit) * u.inner + place * V, place * V, base, totals);
      sample += sample_step;
      place += place_step;
      if (place >= across) {
        place -= across;
        ++sample;
      }
    }
    group_sum<kGroup>(totals);
    if (lane == 0)
      for (int kind = 0; kind < kKinds; ++kind) sums[(part * kKinds + kind) * u.units + unit] = totals[kind];
  }
}

/// A block for 32 columns of each part of the rows.
template <class Terms>
__global__ void __launch_bounds__(kThreads) column_sums_kernel(Terms terms, NormUnits u, NormCut cut, double* sums) {
  constexpr int kKinds = Terms::kKinds, kLines = static_cast<int>(kThreads) / kWarp;
  __shared__ double partial[kKinds][kLines][kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, line = static_cast<int>(threadIdx.x) / kWarp;
  const std::int64_t columns = u.units * u.inner, tiles = (columns + kWarp - 1) / kWarp;
  for (std::int64_t item = blockIdx.x; item < tiles * cut.parts; item += gridDim.x) {
    const std::int64_t column = item % tiles * kWarp + lane, part = item / tiles, begin = part * cut.share;
    const std::int64_t end = u.samples - begin < cut.share ? u.samples : begin + cut.share;
    double totals[kKinds] = {};
    if (column < columns) {
      const double base = terms.base(column / u.inner);
      for (std::int64_t row = begin + line; row < end; row += kLines)
        terms.template add<1>(row * columns + column, column % u.inner, base, totals);
    }
    for (int kind = 0; kind < kKinds; ++kind) partial[kind][line][lane] = totals[kind];
    __syncthreads();
    if (line == 0 && column < columns)
      for (int kind = 0; kind < kKinds; ++kind) {
        double total = partial[kind][0][lane];
        for (int other = 1; other < kLines; ++other) total += partial[kind][other][lane];
        sums[(part * kKinds + kind) * columns + column] = total;
      }
    __syncthreads();
  }
}

/// `packs`: whether elements can be read by packs.
template <class Terms>
NormSums sum_up(const Terms& terms, const NormUnits& u, bool packs) {
  constexpr int kWide = kPack<typename Terms::Element>;
  const NormCut single(u, 1);
  const bool few = !single.columns && single.share <= kFewElements, wide = packs && !few && !single.columns;
  const NormCut cut = wide ? NormCut(u, kWide) : single;
  const Tensor memory = workspace(cut.parts * Terms::kKinds * u.units * cut.width, DType::float64);
  auto* const sums = memory.impl()->as<double>();
  const std::int64_t items = cut.parts * u.units;
  if (cut.columns) {
    const std::int64_t tiles = parts_of(u.units * u.inner, NormCut::kColumns);
    launch(column_sums_kernel<Terms>, shape_for(tiles * cut.parts * kThreads), terms, u, cut, sums);
  } else if (few) {
    launch(plane_sums_kernel<Terms, 1, kWarp>, norm_warps(items), terms, u, cut, sums);
  } else if (wide) {
    launch(plane_sums_kernel<Terms, kWide, kThreads>, shape_for(items * kThreads), terms, u, cut, sums);
  } else {
    launch(plane_sums_kernel<Terms, 1, kThreads>, shape_for(items * kThreads), terms, u, cut, sums);
  }
  return {memory, {sums, cut.parts, u.units, cut.width}};
}

}  // namespace

NormSums distance_sums(const TensorImpl& x, const NormUnits& units, bool centered) {
  return core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const bool packs = units.inner % kPack<T> == 0 && aligned16(x.data);
    return sum_up(Deviations<T>{x.as<T>(), units.inner, centered}, units, packs);
  });
}

NormSums product_sums(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                      std::int64_t share, const NormUnits& units) {
  return core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const NormNumbers w(weight), m(mean);
    const bool packs = units.inner % kPack<T> == 0 && aligned16(grad.data, x.data, w.address());
    return sum_up(Products<T>{grad.as<T>(), x.as<T>(), w, m, share}, units, packs);
  });
}

}  // namespace capstan::on_cuda
