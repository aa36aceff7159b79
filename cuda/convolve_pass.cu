// Convolutions, and their gradients for the images, as products of matrices that are never written down: weights
// [channels, terms] by patches [terms, places], where a term is a channel summed over and a tap.
#include <type_traits>

#include "cuda/convolve.hpp"
#include "cuda/convolve_tile.cuh"
#include "cuda/launch.cuh"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

constexpr std::int64_t kEnoughTiles = 132;  // from here on large ones keep a GPU busy

/// What is read for a term. `weight` is below 0 behind the last one.
template <class I>
struct Term {
  I weight, plane, d, h, w;
};
template <class I>
__device__ inline Term<I> term_of(const ConvolvePass<I>& pass, const ConvolveTaps<I> (&taps)[3], I number) {
  const I w = split_off(number, taps[2].count);
  const I h = split_off(number, taps[1].count);
  const I d = split_off(number, taps[0].count);
  if (number >= pass.from) return {-1, 0, 0, 0, 0};
  const I depth = taps[0].first + d * taps[0].step, row = taps[1].first + h * taps[1].step;
  const I tap = (depth * pass.axis[1].kernel + row) * pass.axis[2].kernel + taps[2].first + w * taps[2].step;
  return {number * pass.from_stride + tap, number * pass.in_plane, taps[0].offset + d * taps[0].offset_step,
          taps[1].offset + h * taps[1].offset_step, taps[2].offset + w * taps[2].offset_step};
}

/// The place that a thread brings patches for. No image: none.
template <class T, class I>
struct Source {
  const T* image;
  I d, h, w;
};
template <class T, class I>
__device__ inline Source<T, I> source_of(const ConvolvePass<I>& pass, const ConvolveSpot<I>& spot, const T* x,
                                         I number) {
  if (number >= pass.places) return {nullptr, 0, 0, 0};
  const ConvolvePlace<I> p = pass.place(number);
  const std::int64_t plane = (std::int64_t{p.image} * pass.groups + spot.group) * pass.from;
  return {x + plane * pass.in_plane, pass.axis[0].in_step * p.d, pass.axis[1].in_step * p.h,
          pass.axis[2].in_step * p.w};
}

template <class T, class I>
__device__ __forceinline__ Compute<T> load_patch(const ConvolvePass<I>& pass, const Source<T, I>& from,
                                                 const Term<I>& term) {
  using Unsigned = std::make_unsigned_t<I>;  // compares with both ends at once
  const I d = from.d + term.d, h = from.h + term.h, w = from.w + term.w;
  const bool inside = from.image != nullptr && term.weight >= 0 &&
                      static_cast<Unsigned>(d) < static_cast<Unsigned>(pass.axis[0].in) &&
                      static_cast<Unsigned>(h) < static_cast<Unsigned>(pass.axis[1].in) &&
                      static_cast<Unsigned>(w) < static_cast<Unsigned>(pass.axis[2].in);
  return inside ? widen(from.image[term.plane + (d * pass.axis[1].in + h) * pass.axis[2].in + w]) : Compute<T>(0);
}

template <class Shape, class T, class I>
__device__ __forceinline__ void load_slice(const ConvolvePass<I>& pass, const Source<T, I>& from, const T* weights,
                                           I channels, const Term<I> (&terms)[Shape::kK], TileLoads<Shape>& loads) {
  for (int i = 0; i < Shape::kLoadsA; ++i) {
    const int channel = line_of_load<Shape>(i);
    const I at = terms[term_of_load<Shape>(i)].weight;
    loads.a[i] = at >= 0 && channel < channels ? widen(weights[channel * pass.to_stride + at]) : Compute<T>(0);
  }
  const int first = static_cast<int>(threadIdx.x) / Shape::kN;
  for (int i = 0; i < Shape::kLoadsB; ++i)
    loads.b[i] = load_patch(pass, from, terms[first + i * (Shape::kThreads / Shape::kN)]);
}
template <class Shape>
__device__ __forceinline__ void store_slice(const TileLoads<Shape>& loads, TileMemory<Shape>& memory, int slice) {
  for (int i = 0; i < Shape::kLoadsA; ++i) memory.a[slice][term_of_load<Shape>(i)][line_of_load<Shape>(i)] = loads.a[i];
  const int first = static_cast<int>(threadIdx.x) / Shape::kN, place = static_cast<int>(threadIdx.x) % Shape::kN;
  for (int i = 0; i < Shape::kLoadsB; ++i)
    memory.b[slice][first + i * (Shape::kThreads / Shape::kN)][place] = loads.b[i];
}
template <class Shape, class I>
__device__ __forceinline__ void fill_terms(const ConvolvePass<I>& pass, const ConvolveTaps<I> (&taps)[3], I slice,
                                           Term<I> (&terms)[Shape::kK]) {
  const int k = static_cast<int>(threadIdx.x);
  if (k < Shape::kK) terms[k] = term_of(pass, taps, static_cast<I>(slice * Shape::kK + k));
}

/// While a slice is multiplied, the next one is under way from global memory, and the terms behind that are worked out.
template <class Shape, class T, class I>
__device__ __forceinline__ void add_terms(const ConvolvePass<I>& pass, const ConvolveTaps<I> (&taps)[3],
                                          const Source<T, I>& from, const T* weights, I channels,
                                          TileMemory<Shape>& memory, Term<I> (&terms)[2][Shape::kK],
                                          typename Shape::Number (&sums)[Shape::kRows][Shape::kColumns]) {
  const I count = pass.from * taps[0].count * taps[1].count * taps[2].count;
  const I slices = (count + Shape::kK - 1) / Shape::kK;
  if (slices == 0) return;  // no tap meets this phase
  TileLoads<Shape> loads;
  fill_terms<Shape>(pass, taps, I(0), terms[0]);
  __syncthreads();
  load_slice<Shape>(pass, from, weights, channels, terms[0], loads);
  store_slice(loads, memory, 0);
  fill_terms<Shape>(pass, taps, I(1), terms[1]);
  __syncthreads();
  for (I slice = 0; slice < slices; ++slice) {
    const int now = static_cast<int>(slice % 2);
    const bool more = slice + 1 < slices;
    if (more) load_slice<Shape>(pass, from, weights, channels, terms[1 - now], loads);
    multiply_slice(memory, now, sums);
    if (more) {
      store_slice(loads, memory, 1 - now);
      fill_terms<Shape>(pass, taps, static_cast<I>(slice + 2), terms[now]);
    }
    __syncthreads();
  }
}

template <class Shape, class T, class I>
__device__ __forceinline__ void store_results(const ConvolvePass<I>& pass, const ConvolveSpot<I>& spot, const T* bias,
                                              const Compute<T> (&sums)[Shape::kRows][Shape::kColumns], T* out) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const I first = spot.row * Shape::kM + warp * Shape::kRows;
  for (int j = 0; j < Shape::kColumns; ++j) {
    const I number = spot.column * Shape::kN + lane + j * kWarp;
    if (number >= pass.places) continue;
    const ConvolvePlace<I> p = pass.place(number);
    const I offset = pass.offset(p, spot.phase);
    if (offset < 0) continue;
    const std::int64_t plane = (std::int64_t{p.image} * pass.groups + spot.group) * pass.to + first;
    T* const to = out + plane * pass.out_plane + offset;
    for (int i = 0; i < Shape::kRows; ++i) {
      if (first + i >= pass.to) continue;
      const Compute<T> start = bias != nullptr ? widen(bias[spot.group * pass.to + first + i]) : Compute<T>(0);
      to[i * std::int64_t{pass.out_plane}] = narrow<T>(sums[i][j] + start);
    }
  }
}

template <class T, class I, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    pass_kernel(ConvolvePass<I> pass, I rows, I columns, std::int64_t tiles, const T* __restrict__ x,
                const T* __restrict__ weight, const T* __restrict__ bias, T* __restrict__ out) {
  __shared__ TileMemory<Shape> memory;
  __shared__ Term<I> terms[2][Shape::kK];
  __shared__ ConvolveTaps<I> taps[3];
  for (std::int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const ConvolveSpot<I> spot = pass.spot(static_cast<I>(tile), rows, columns);
    __syncthreads();  // the tile before needs its taps no more
    for (int i = 0; i < 3; ++i)
      if (static_cast<int>(threadIdx.x) == i) taps[i] = pass.axis[i].taps(spot.phase[i]);
    __syncthreads();
    const I place = spot.column * Shape::kN + static_cast<int>(threadIdx.x) % Shape::kN;
    const Source<T, I> from = source_of(pass, spot, x, place);
    const I channel = spot.row * Shape::kM;
    const std::int64_t filters = std::int64_t{spot.group} * pass.group_stride + std::int64_t{channel} * pass.to_stride;
    Compute<T> sums[Shape::kRows][Shape::kColumns] = {};
    add_terms(pass, taps, from, weight + filters, static_cast<I>(pass.to - channel), memory, terms, sums);
    store_results<Shape>(pass, spot, bias, sums, out);
  }
}

template <class T, class I, class Shape>
void start(const ConvolvePass<I>& pass, const T* x, const T* weight, const T* bias, T* out) {
  const std::int64_t tiles = pass.tiles(Shape::kM, Shape::kN);
  launch(pass_kernel<T, I, Shape>, block_each(tiles, Shape::kThreads), pass, pass.row_tiles(Shape::kM),
         pass.column_tiles(Shape::kN), tiles, x, weight, bias, out);
}

template <class T>
void run(const Convolution& c, bool transposed, const T* x, const T* weight, const T* bias, T* out) {
  using Large = LargeTile<Compute<T>>;
  using Small = SmallTile<Compute<T>>;
  if (fits_32_bits(c)) {
    const ConvolvePass<std::int32_t> pass(c, transposed);
    const std::int64_t large = pass.tiles(Large::kM, Large::kN), small = pass.tiles(Small::kM, Small::kN);
    if (pass.to > Large::kM / 2 && large >= kEnoughTiles && large <= kIndexed)
      return start<T, std::int32_t, Large>(pass, x, weight, bias, out);
    if (small <= kIndexed) return start<T, std::int32_t, Small>(pass, x, weight, bias, out);
  }
  start<T, std::int64_t, Small>(ConvolvePass<std::int64_t>(c, transposed), x, weight, bias, out);
}

}  // namespace

void convolve_by_tiles(const Convolution& c, ConvolveTarget target, const void* x, const void* weight, const void* bias,
                       void* out) {
  core::visit_real(c.dtype, [&]<class T>(core::Type<T>) {
    run(c, target == ConvolveTarget::image, static_cast<const T*>(x), static_cast<const T*>(weight),
        static_cast<const T*>(bias), static_cast<T*>(out));
  });
}

}  // namespace capstan::on_cuda
