// The gradient of a convolution for its weights, as a product of matrices: gradients [channels, terms] by patches
// [terms, channels x taps], where a term is a place of one of the images. The terms are shared out among blocks.
#include <type_traits>

#include "cuda/convolve.hpp"
#include "cuda/convolve_tile.cuh"
#include "cuda/launch.cuh"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

/// How the work is cut up: tiles of the sums, and parts of the terms.
template <class I>
struct WeightTiles {
  I rows, columns, terms_of_part;
  std::int64_t total;  // of all groups and parts
};

/// What threads need to know of a slice's terms and of a tile's columns. `place` and `channel` are below 0 beyond.
template <class I, class Shape>
struct WeightMemory {
  ConvolveTerm<I> terms[2][Shape::kK];
  ConvolveColumn<I> columns[Shape::kN];
};

template <class Shape, class I>
__device__ __forceinline__ void fill_terms(const ConvolveWeights<I>& plan, I first, I last,
                                           ConvolveTerm<I> (&terms)[Shape::kK]) {
  const int k = static_cast<int>(threadIdx.x);
  if (k >= Shape::kK) return;
  terms[k] = first + k < last ? plan.term(first + k) : ConvolveTerm<I>{0, -1, 0, 0, 0};
}

/// x begins at the group's first channel in the first image.
template <class T, class I>
__device__ __forceinline__ Compute<T> load_patch(const ConvolveWeights<I>& plan, const T* x,
                                                 const ConvolveTerm<I>& term, const ConvolveColumn<I>& column) {
  using Unsigned = std::make_unsigned_t<I>;  // compares with both ends at once
  const I d = term.d + column.d, h = term.h + column.h, w = term.w + column.w;
  const bool inside = term.place >= 0 && column.channel >= 0 &&
                      static_cast<Unsigned>(d) < static_cast<Unsigned>(plan.axis[0].in) &&
                      static_cast<Unsigned>(h) < static_cast<Unsigned>(plan.axis[1].in) &&
                      static_cast<Unsigned>(w) < static_cast<Unsigned>(plan.axis[2].in);
  if (!inside) return Compute<T>(0);
  const I plane = (term.image * plan.groups * plan.from + column.channel) * plan.in_plane;
  return widen(x[plane + (d * plan.axis[1].in + h) * plan.axis[2].in + w]);
}

/// grad begins at the tile's first channel in the first image, of which `channels` are left.
template <class Shape, class T, class I>
__device__ __forceinline__ void load_slice(const ConvolveWeights<I>& plan, const T* x, const T* grad, I channels,
                                           const WeightMemory<I, Shape>& own, int slice, TileLoads<Shape>& loads) {
  for (int i = 0; i < Shape::kLoadsA; ++i) {
    const int channel = line_of_load<Shape>(i);
    const ConvolveTerm<I>& term = own.terms[slice][term_of_load<Shape>(i)];
    loads.a[i] = Compute<T>(0);
    if (term.place >= 0 && channel < channels)
      loads.a[i] = widen(grad[(term.image * plan.groups * plan.to + channel) * plan.out_plane + term.place]);
  }
  for (int i = 0; i < Shape::kLoadsB; ++i)
    loads.b[i] = load_patch(plan, x, own.terms[slice][term_of_load<Shape>(i)], own.columns[line_of_load<Shape>(i)]);
}
template <class Shape>
__device__ __forceinline__ void store_lines(const TileLoads<Shape>& loads, TileMemory<Shape>& memory, int slice) {
  for (int i = 0; i < Shape::kLoadsA; ++i) memory.a[slice][term_of_load<Shape>(i)][line_of_load<Shape>(i)] = loads.a[i];
  for (int i = 0; i < Shape::kLoadsB; ++i) memory.b[slice][term_of_load<Shape>(i)][line_of_load<Shape>(i)] = loads.b[i];
}

/// Adds up the terms first ... last - 1. While a slice is multiplied, the next one is under way from global memory.
template <class Shape, class T, class I>
__device__ __forceinline__ void add_terms(const ConvolveWeights<I>& plan, const T* x, const T* grad, I channels,
                                          I first, I last, TileMemory<Shape>& memory, WeightMemory<I, Shape>& own,
                                          typename Shape::Number (&sums)[Shape::kRows][Shape::kColumns]) {
  TileLoads<Shape> loads;
  fill_terms<Shape>(plan, first, last, own.terms[0]);
  __syncthreads();
  load_slice(plan, x, grad, channels, own, 0, loads);
  store_lines(loads, memory, 0);
  fill_terms<Shape>(plan, static_cast<I>(first + Shape::kK), last, own.terms[1]);
  __syncthreads();
  int now = 0;
  for (; first < last; first += Shape::kK, now = 1 - now) {
    const bool more = first + Shape::kK < last;
    if (more) load_slice(plan, x, grad, channels, own, 1 - now, loads);
    multiply_slice(memory, now, sums);
    if (more) {
      store_lines(loads, memory, 1 - now);
      fill_terms<Shape>(plan, static_cast<I>(first + 2 * Shape::kK), last, own.terms[now]);
    }
    __syncthreads();
  }
}

/// Into `partial`, if there are several parts, or into out.
template <class Shape, class T, class I>
__device__ __forceinline__ void store_sums(const ConvolveWeights<I>& plan, I group, I row, I column, I part,
                                           const Compute<T> (&sums)[Shape::kRows][Shape::kColumns], Compute<T>* partial,
                                           T* out) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t all = std::int64_t{plan.groups} * plan.to * plan.columns;
  for (int i = 0; i < Shape::kRows; ++i) {
    const I channel = row * Shape::kM + warp * Shape::kRows + i;
    for (int j = 0; j < Shape::kColumns; ++j) {
      const I own = column * Shape::kN + lane + j * kWarp;
      if (channel >= plan.to || own >= plan.columns) continue;
      const std::int64_t at = (std::int64_t{group} * plan.to + channel) * plan.columns + own;
      if (partial != nullptr) partial[part * all + at] = sums[i][j];
      else out[at] = narrow<T>(sums[i][j]);
    }
  }
}

template <class T, class I, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    weight_kernel(ConvolveWeights<I> plan, WeightTiles<I> tiles, const T* __restrict__ x, const T* __restrict__ grad,
                  Compute<T>* __restrict__ partial, T* __restrict__ out) {
  __shared__ TileMemory<Shape> memory;
  __shared__ WeightMemory<I, Shape> own;
  for (std::int64_t tile = blockIdx.x; tile < tiles.total; tile += gridDim.x) {
    I part = static_cast<I>(tile);
    const I column = split_off(part, tiles.columns);
    const I row = split_off(part, tiles.rows);
    const I group = split_off(part, plan.groups);
    const int thread = static_cast<int>(threadIdx.x);
    const I mine = column * Shape::kN + thread;
    // add_terms waits once for all threads before it reads this, and at its end
    if (thread < Shape::kN)
      own.columns[thread] = mine < plan.columns ? plan.column(mine) : ConvolveColumn<I>{-1, 0, 0, 0};
    const I first = part * tiles.terms_of_part, rest = plan.terms - first, channel = row * Shape::kM;
    const I last = first + (rest < tiles.terms_of_part ? rest : tiles.terms_of_part);
    const T* const images = x + std::int64_t{group} * plan.from * plan.in_plane;
    const T* const gradients = grad + (std::int64_t{group} * plan.to + channel) * plan.out_plane;
    Compute<T> sums[Shape::kRows][Shape::kColumns] = {};
    add_terms(plan, images, gradients, static_cast<I>(plan.to - channel), first, last, memory, own, sums);
    store_sums<Shape>(plan, group, row, column, part, sums, partial, out);
  }
}

template <class T>
__global__ void add_parts_kernel(const Compute<T>* __restrict__ partial, std::int64_t parts, std::int64_t count,
                                 T* __restrict__ out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    double total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += static_cast<double>(partial[part * count + i]);
    out[i] = narrow<T>(static_cast<Compute<T>>(total));
  }
}

template <class T, class I, class Shape>
void start(const Convolution& c, const T* x, const T* grad, T* out) {
  const ConvolveWeights<I> plan(c);
  const std::int64_t rows = (c.out + Shape::kM - 1) / Shape::kM;
  const std::int64_t columns = (std::int64_t{plan.columns} + Shape::kN - 1) / Shape::kN;
  const std::int64_t terms = plan.terms, tiles = c.groups * rows * columns, sums = c.weights();
  const std::int64_t share = terms_of_part(terms, tiles, sums, Shape::kK);
  const std::int64_t parts = terms > 0 ? (terms + share - 1) / share : 1;
  const WeightTiles<I> cut{static_cast<I>(rows), static_cast<I>(columns), static_cast<I>(share), tiles * parts};
  const LaunchShape shape = block_each(cut.total, Shape::kThreads);
  if (parts == 1) {
    launch(weight_kernel<T, I, Shape>, shape, plan, cut, x, grad, nullptr, out);
    return;
  }
  const Tensor partial = workspace(parts * sums, dtype_of<Compute<T>>());
  launch(weight_kernel<T, I, Shape>, shape, plan, cut, x, grad, partial.impl()->as<Compute<T>>(), out);
  add_parts(c.dtype, partial.impl()->data, parts, sums, out);
}

template <class T>
void run(const Convolution& c, const T* x, const T* grad, T* out) {
  using Large = LargeTile<Compute<T>>;
  using Small = SmallTile<Compute<T>>;
  if (!fits_32_bits(c)) return start<T, std::int64_t, Small>(c, x, grad, out);
  if (c.out > Large::kM / 2) return start<T, std::int32_t, Large>(c, x, grad, out);
  start<T, std::int32_t, Small>(c, x, grad, out);
}

}  // namespace

void add_parts(DType dtype, const void* partial, std::int64_t parts, std::int64_t count, void* out) {
  core::visit_real(dtype, [&]<class T>(core::Type<T>) {
    launch(add_parts_kernel<T>, shape_for(count), static_cast<const Compute<T>*>(partial), parts, count,
           static_cast<T*>(out));
  });
}

void convolve_weight_by_tiles(const Convolution& c, const void* x, const void* grad, void* out) {
  core::visit_real(c.dtype, [&]<class T>(core::Type<T>) {
    run(c, static_cast<const T*>(x), static_cast<const T*>(grad), static_cast<T*>(out));
  });
}

}  // namespace capstan::on_cuda
