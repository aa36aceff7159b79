// Dropout: decisions from a stream of random numbers, and the elements that they keep. Compiled with -fmad=false, so
// that values have the CPU's bits.
#include "cuda/backend.hpp"
#include "cuda/drawing.cuh"
#include "cuda/launch.cuh"
#include "lib/kernels/philox.hpp"

namespace capstan::on_cuda {
namespace {

/// How decisions become values.
template <class T>
struct Fate {
  Compute<T> scale, shift, dropped;
  __device__ T operator()(bool kept, T x) const { return narrow<T>(kept ? scale * widen(x) + shift : dropped); }
};
template <class T>
Fate<T> fate_of(double scale, double shift, double dropped) {
  using C = Compute<T>;
  return {static_cast<C>(scale), static_cast<C>(shift), static_cast<C>(dropped)};
}

/// The four decisions of a block.
struct Decisions {
  RandomTask draw;
  std::uint32_t threshold;  // a probability below 1
  __device__ void operator()(std::uint64_t block, bool (&kept)[4]) const {
    const auto bits = kernels::random_block(draw.seed, block, draw.stream);
    for (int i = 0; i < 4; ++i) kept[i] = bits[static_cast<std::size_t>(i)] < threshold;
  }
};

/// One decision for each element; x is null if there is nothing but decisions to make.
template <class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(Decisions decide, Fate<T> fate, const T* x, bool* kept, T* out, std::int64_t count, bool in_packs) {
  const std::uint64_t first = first_block_of(decide.draw);
  for (std::int64_t i = first_index(); 4 * i < count; i += index_step()) {
    bool decided[4];
    T values[4] = {};
    if (x != nullptr) load_values(values, x, 4 * i, count, in_packs);
    decide(first + static_cast<std::uint64_t>(i), decided);
    store_values(decided, kept, 4 * i, count, in_packs);
    if (x == nullptr) continue;
    for (int k = 0; k < 4; ++k) values[k] = fate(decided[k], values[k]);
    store_values(values, out, 4 * i, count, in_packs);
  }
}

/// One decision for each `group` of elements side by side.
template <class T>
__global__ void __launch_bounds__(kThreads) keep_kernel(const bool* kept, std::int64_t group, Fate<T> fate, const T* x,
                                                        T* out, std::int64_t count, bool in_packs) {
  for (std::int64_t i = first_index(); 4 * i < count; i += index_step()) {
    T values[4] = {};
    load_values(values, x, 4 * i, count, in_packs);
    std::int64_t decision = group == 1 ? 4 * i : 4 * i / group, left = (decision + 1) * group - 4 * i;
    for (int k = 0; k < 4; ++k) {
      if (left == 0) {
        ++decision;
        left = group;
      }
      --left;
      if (4 * i + k < count) values[k] = fate(kept[decision], values[k]);
    }
    store_values(values, out, 4 * i, count, in_packs);
  }
}

template <class T>
void keep_all(const TensorImpl& kept, std::int64_t group, const Fate<T>& fate, const TensorImpl& x, TensorImpl& out) {
  launch(keep_kernel<T>, shape_for(out.numel(), 4), kept.as<bool>(), group, fate, x.as<T>(), out.as<T>(), out.numel(),
         aligned16(x.data, out.data));
}

}  // namespace

void dropout(const core::DropoutTask& task, const TensorImpl& x, TensorImpl& kept, TensorImpl& out) {
  const std::int64_t count = kept.numel();
  const Decisions decide{task.draw, static_cast<std::uint32_t>(task.draw.a * 0x1p32)};
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    const Fate<T> fate = fate_of<T>(task.scale, task.shift, task.dropped);
    const T* const direct = task.group == 1 ? x.as<T>() : nullptr;
    launch(dropout_kernel<T>, shape_for(count, 4), decide, fate, direct, kept.as<bool>(), out.as<T>(), count,
           aligned16(x.data, kept.data, out.data));
    if (task.group > 1) keep_all(kept, task.group, fate, x, out);
  });
}

void keep(const TensorImpl& kept, std::int64_t group, double scale, const TensorImpl& x, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) { keep_all(kept, group, fate_of<T>(scale, 0, 0), x, out); });
}

}  // namespace capstan::on_cuda
