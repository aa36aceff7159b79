// Convolutions with one image channel in each group: every result is a sum over the taps alone, so tiles of products
// would be empty. A thread computes a few results one below the other, the lanes of a warp those side by side.
#include "cuda/blocks.cuh"
#include "cuda/convolve.hpp"
#include "cuda/launch.cuh"
#include "cuda/unroll.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

using I = std::int32_t;  // choose_route takes only what fits

constexpr int kDown = 4;   // results of a thread
constexpr int kTaps = 16;  // taps that a block adds up together

struct Axis {
  I read, written, kernel, stride, dilation, before;
  Divider<I> by_stride;

  Axis(const core::WindowAxis& a, bool transposed)
      : read(static_cast<I>(transposed ? a.out : a.in)),
        written(static_cast<I>(transposed ? a.in : a.out)),
        kernel(static_cast<I>(a.kernel)),
        stride(static_cast<I>(a.stride)),
        dilation(static_cast<I>(a.dilation)),
        before(static_cast<I>(a.before)),
        by_stride(a.stride) {}
  /// What a tap reads for a place that is written, or -1 for nothing.
  template <bool kTransposed>
  __device__ I source(I place, I tap) const {
    I at = kTransposed ? place + before - tap * dilation : place * stride + tap * dilation - before;
    if (at < 0) return -1;
    if constexpr (kTransposed) {
      const I distance = at;
      at = by_stride.quotient(distance);
      if (at * stride != distance) return -1;
    }
    return at < read ? at : -1;
  }
};

/// Numbers along several axes as one, the last going fastest.
template <int N>
struct Counter {
  Divider<I> by[N];
  I sizes[N];
  explicit Counter(const std::int64_t (&counts)[N]) {
    for (int i = 0; i < N; ++i) {
      by[i] = Divider<I>(counts[i] > 0 ? counts[i] : 1);
      sizes[i] = static_cast<I>(counts[i]);
    }
  }
  /// What is left is the number along an axis in front of them.
  __device__ I find(I number, I (&at)[N]) const {
    for (int i = N - 1; i >= 0; --i) {
      const I next = by[i].quotient(number);
      at[i] = number - next * sizes[i];
      number = next;
    }
    return number;
  }
};

// --- results and images ---

struct Depthwise {
  Axis axis[3];
  Counter<4> threads;  // channels that are written, depth, threads one below the other, columns
  I groups, maps, kernel, read_plane, written_plane;

  Depthwise(const Convolution& c, bool transposed)
      : axis{{c.axis[0], transposed}, {c.axis[1], transposed}, {c.axis[2], transposed}},
        threads({transposed ? c.groups : c.groups * c.out, axis[0].written, (axis[1].written + kDown - 1) / kDown,
                 axis[2].written}),
        groups(static_cast<I>(c.groups)),
        maps(static_cast<I>(c.out)),
        kernel(static_cast<I>(c.kernel())),
        read_plane(static_cast<I>(transposed ? c.out_plane() : c.in_plane())),
        written_plane(static_cast<I>(transposed ? c.in_plane() : c.out_plane())) {}
};

template <bool kTransposed, class T>
__device__ __forceinline__ void add_taps(const Depthwise& plan, I depth, I row, I column, const T* plane,
                                         const T* weight, Compute<T> (&sums)[kDown]) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  for (I i = 0; i < d.kernel; ++i) {
    const I from_depth = d.source<kTransposed>(depth, i);
    if (from_depth < 0) continue;
    for (I j = 0; j < h.kernel; ++j) {
      I rows[kDown];
      CAPSTAN_UNROLL
      for (int n = 0; n < kDown; ++n) rows[n] = row + n < h.written ? h.source<kTransposed>(row + n, j) : -1;
      for (I k = 0; k < w.kernel; ++k) {
        const I from_column = w.source<kTransposed>(column, k);
        if (from_column < 0) continue;
        const Compute<T> factor = widen(weight[(i * h.kernel + j) * w.kernel + k]);
        CAPSTAN_UNROLL
        for (int n = 0; n < kDown; ++n)
          if (rows[n] >= 0) sums[n] += factor * widen(plane[(from_depth * h.read + rows[n]) * w.read + from_column]);
      }
    }
  }
}

template <bool kTransposed, class T>
__global__ void __launch_bounds__(kThreads)
    depthwise_kernel(Depthwise plan, std::int64_t count, const T* __restrict__ x, const T* __restrict__ weight,
                     const T* __restrict__ bias, T* __restrict__ out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    I at[4];
    const std::int64_t image = plan.threads.find(static_cast<I>(i), at);
    const I channel = at[0], row = at[2] * kDown;
    Compute<T> sums[kDown] = {};
    for (I map = 0; map < (kTransposed ? plan.maps : 1); ++map) {
      const I filter = kTransposed ? channel * plan.maps + map : channel;
      const std::int64_t from =
          kTransposed ? image * plan.groups * plan.maps + filter : image * plan.groups + channel / plan.maps;
      add_taps<kTransposed>(plan, at[1], row, at[3], x + from * plan.read_plane, weight + filter * plan.kernel, sums);
    }
    const Compute<T> start = bias != nullptr ? widen(bias[channel]) : Compute<T>(0);
    T* const plane = out + (image * plan.threads.sizes[0] + channel) * plan.written_plane;
    CAPSTAN_UNROLL
    for (int n = 0; n < kDown; ++n) {
      const I place = (at[1] * plan.axis[1].written + row + n) * plan.axis[2].written + at[3];
      if (row + n < plan.axis[1].written) plane[place] = narrow<T>(sums[n] + start);
    }
  }
}

template <bool kTransposed, class T>
void start(const Convolution& c, const void* x, const void* weight, const void* bias, void* out) {
  const Depthwise plan(c, kTransposed);
  std::int64_t count = c.batch;
  for (const I size : plan.threads.sizes) count *= size;
  launch(depthwise_kernel<kTransposed, T>, shape_for(count), plan, count, static_cast<const T*>(x),
         static_cast<const T*>(weight), static_cast<const T*>(bias), static_cast<T*>(out));
}

// --- weights ---

struct DepthwiseWeights {
  Axis axis[3];
  Counter<3> places;   // of results
  Counter<3> in_taps;  // depth, rows, columns of the kernel
  I groups, maps, kernel, in_plane, out_plane;
  I terms, terms_of_part;

  DepthwiseWeights(const Convolution& c, std::int64_t share)
      : axis{{c.axis[0], false}, {c.axis[1], false}, {c.axis[2], false}},
        places({c.axis[0].out, c.axis[1].out, c.axis[2].out}),
        in_taps({c.axis[0].kernel, c.axis[1].kernel, c.axis[2].kernel}),
        groups(static_cast<I>(c.groups)),
        maps(static_cast<I>(c.out)),
        kernel(static_cast<I>(c.kernel())),
        in_plane(static_cast<I>(c.in_plane())),
        out_plane(static_cast<I>(c.out_plane())),
        terms(static_cast<I>(c.batch * c.out_plane())),
        terms_of_part(static_cast<I>(share)) {}
};

/// What a tap adds to the first place that a kernel reads.
struct Tap {
  I d, h, w;
};

/// Every thread adds up some of the terms of a part, for `count` taps of one channel.
template <class T>
__device__ __forceinline__ void add_terms(const DepthwiseWeights& plan, I channel, I part, const Tap (&taps)[kTaps],
                                          int count, const T* x, const T* grad, Compute<T> (&sums)[kTaps]) {
  const Axis &d = plan.axis[0], &h = plan.axis[1], &w = plan.axis[2];
  const I first = part * plan.terms_of_part, rest = plan.terms - first;
  const I last = first + (rest < plan.terms_of_part ? rest : plan.terms_of_part);
  for (I term = first + static_cast<I>(threadIdx.x); term < last; term += static_cast<I>(kThreads)) {
    I at[3];
    const std::int64_t image = plan.places.find(term, at);
    const I place = (at[0] * h.written + at[1]) * w.written + at[2];
    const Compute<T> g = widen(grad[(image * plan.groups * plan.maps + channel) * plan.out_plane + place]);
    const T* const plane = x + (image * plan.groups + channel / plan.maps) * plan.in_plane;
    const I depth = at[0] * d.stride - d.before, row = at[1] * h.stride - h.before;
    const I column = at[2] * w.stride - w.before;
    for (int t = 0; t < kTaps; ++t) {
      if (t >= count) continue;  // no break: sums stay in registers
      const I i = depth + taps[t].d, j = row + taps[t].h, k = column + taps[t].w;
      const bool inside = i >= 0 && i < d.read && j >= 0 && j < h.read && k >= 0 && k < w.read;
      if (inside) sums[t] += g * widen(plane[(i * h.read + j) * w.read + k]);
    }
  }
}

/// A block for each channel, kTaps taps and part of the terms.
template <class T>
__global__ void __launch_bounds__(kThreads)
    depthwise_weight_kernel(DepthwiseWeights plan, std::int64_t blocks, const T* __restrict__ x,
                            const T* __restrict__ grad, Compute<T>* __restrict__ partial, T* __restrict__ out) {
  __shared__ Tap taps[kTaps];
  const I channels = plan.groups * plan.maps, sets = (plan.kernel + kTaps - 1) / kTaps;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    I part = static_cast<I>(block);
    const I channel = split_off(part, channels), first = split_off(part, sets) * kTaps;
    const int count = static_cast<int>(plan.kernel - first < kTaps ? plan.kernel - first : kTaps);
    const int thread = static_cast<int>(threadIdx.x);
    __syncthreads();  // the taps of the block before are still read
    if (thread < count) {
      I at[3];
      plan.in_taps.find(first + thread, at);
      taps[thread] = {at[0] * plan.axis[0].dilation, at[1] * plan.axis[1].dilation, at[2] * plan.axis[2].dilation};
    }
    __syncthreads();
    Compute<T> sums[kTaps] = {};
    add_terms(plan, channel, part, taps, count, x, grad, sums);
    for (int t = 0; t < kTaps; ++t) {
      if (t >= count) continue;
      const double total = block_reduce<static_cast<int>(kThreads)>(static_cast<double>(sums[t]), Add{});
      if (thread != 0) continue;
      const I at = channel * plan.kernel + first + t;
      if (partial != nullptr)
        partial[std::int64_t{part} * channels * plan.kernel + at] = static_cast<Compute<T>>(total);
      else out[at] = narrow<T>(static_cast<Compute<T>>(total));
    }
  }
}

template <class T>
void start_weight(const Convolution& c, const T* x, const T* grad, T* out) {
  constexpr std::int64_t kBlocks = 4 * 132, kShort = 2048, kLong = 1 << 16;
  const auto over = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  const std::int64_t terms = c.batch * c.out_plane(), own = c.groups * c.out * over(c.kernel(), kTaps);
  std::int64_t parts = std::max(over(kBlocks, own), over(terms, kLong));
  parts = std::max<std::int64_t>(std::min(parts, over(terms, kShort)), 1);
  const std::int64_t share = std::max<std::int64_t>(over(terms, parts), 1);
  parts = std::max<std::int64_t>(over(terms, share), 1);
  const DepthwiseWeights plan(c, share);
  const LaunchShape shape = block_each(own * parts);
  if (parts == 1) {
    launch(depthwise_weight_kernel<T>, shape, plan, own, x, grad, nullptr, out);
    return;
  }
  const Tensor partial = workspace(parts * c.weights(), dtype_of<Compute<T>>());
  launch(depthwise_weight_kernel<T>, shape, plan, own * parts, x, grad, partial.impl()->as<Compute<T>>(), out);
  add_parts(c.dtype, partial.impl()->data, parts, c.weights(), out);
}

}  // namespace

void convolve_depthwise(const Convolution& c, ConvolveTarget target, const void* x, const void* weight,
                        const void* bias, void* out) {
  core::visit_real(c.dtype, [&]<class T>(core::Type<T>) {
    if (target == ConvolveTarget::image) start<true, T>(c, x, weight, bias, out);
    else start<false, T>(c, x, weight, bias, out);
  });
}

void convolve_weight_depthwise(const Convolution& c, const void* x, const void* grad, void* out) {
  core::visit_real(c.dtype, [&]<class T>(core::Type<T>) {
    start_weight(c, static_cast<const T*>(x), static_cast<const T*>(grad), static_cast<T*>(out));
  });
}

}  // namespace capstan::on_cuda
