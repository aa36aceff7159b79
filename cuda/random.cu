// Random numbers: element i comes from block i / n of the stream, n values a block. The formulas are those of every
// backend, and so are the bits: this file is compiled with -fmad=false.
#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/drawing.cuh"
#include "cuda/elements.cuh"
#include "cuda/launch.cuh"
#include "cuda/words.hpp"
#include "lib/kernels/draws.hpp"

namespace capstan::on_cuda {
namespace {

// What the values of a block are: kValues of them, from the block's number in the stream and in the task.
template <class T>
struct RealDraw {
  using Value = T;
  static constexpr int kValues = 2;
  RandomTask task;
  __device__ void operator()(std::uint64_t block, std::int64_t, T* values) const {
    kernels::draw_pair(task, block, values);
  }
};
template <class Word>
struct IntegerDraw {
  using Value = Word;
  static constexpr int kValues = 2;
  RandomTask task;
  __device__ void operator()(std::uint64_t block, std::int64_t, Word* values) const {
    const auto bits = kernels::random_block(task.seed, block, task.stream);
    values[0] = kernels::integer_of<Word>(task, bits[0], bits[1]);
    values[1] = kernels::integer_of<Word>(task, bits[2], bits[3]);
  }
};
/// The bits of 1 for a hit, else 0.
template <class Word>
struct HitDraw {
  using Value = Word;
  static constexpr int kValues = 4;
  RandomTask task;
  std::uint64_t threshold;
  Word one;
  __device__ void operator()(std::uint64_t block, std::int64_t, Word* values) const {
    const auto bits = kernels::random_block(task.seed, block, task.stream);
    for (int i = 0; i < 4; ++i) values[i] = bits[static_cast<std::size_t>(i)] < threshold ? one : Word{0};
  }
};
/// The same with a probability for each element.
template <class T>
struct TrialDraw {
  using Value = T;
  static constexpr int kValues = 4;
  RandomTask task;
  const T* probability;
  std::int64_t count;
  __device__ void operator()(std::uint64_t block, std::int64_t own, T* values) const {
    const auto bits = kernels::random_block(task.seed, block, task.stream);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t at = 4 * own + i;
      const double p = at < count ? static_cast<double>(widen(probability[at])) : 0;
      values[i] = narrow<T>(bits[static_cast<std::size_t>(i)] < kernels::threshold_of(p) ? 1 : 0);
    }
  }
};

template <class Draw>
__global__ void __launch_bounds__(kThreads)
    draw_kernel(Draw draw, typename Draw::Value* to, std::int64_t count, bool in_packs) {
  using T = typename Draw::Value;
  constexpr int kOwn = kPack < T >> Draw::kValues ? kPack<T> : Draw::kValues, kBlocks = kOwn / Draw::kValues;
  const std::uint64_t first = first_block_of(draw.task);
  for (std::int64_t i = first_index(); i * kOwn < count; i += index_step()) {
    T values[kOwn];
    for (int k = 0; k < kBlocks; ++k) {
      const std::int64_t block = i * kBlocks + k;
      draw(first + static_cast<std::uint64_t>(block), block, values + k * Draw::kValues);
    }
    store_values(values, to, i * kOwn, count, in_packs);
  }
}

template <class Draw>
void draw_all(const Draw& draw, TensorImpl& out) {
  using T = typename Draw::Value;
  constexpr int kOwn = kPack < T >> Draw::kValues ? kPack<T> : Draw::kValues;
  launch(draw_kernel<Draw>, shape_for(out.numel(), kOwn), draw, out.as<T>(), out.numel(), aligned16(out.data));
}

/// The bits of 1 in an element type.
std::uint64_t one_of(DType dtype) {
  switch (dtype) {
    case DType::float64: return 0x3FF0000000000000u;
    case DType::float32: return 0x3F800000u;
    case DType::float16: return 0x3C00u;
    case DType::bfloat16: return 0x3F80u;
    default: return 1;
  }
}

// --- classes ---

constexpr std::int64_t kPiece = kernels::kClassesInPiece;
constexpr std::int64_t kFewClasses = 32;  // a row of them is no work for a block

/// The running sums of exp(logit - largest), in the order that kernels::kClassesInPiece says: a row by each thread.
__global__ void __launch_bounds__(kThreads)
    few_steps_kernel(const void* logits, DType dtype, std::int64_t rows, std::int64_t classes, double* steps) {
  for (std::int64_t row = first_index(); row < rows; row += index_step()) {
    const std::int64_t start = row * classes;
    double largest = read_real(logits, dtype, start), sum = 0;
    for (std::int64_t k = 1; k < classes; ++k) largest = Larger{}(largest, read_real(logits, dtype, start + k));
    for (std::int64_t k = 0; k < classes; ++k) {
      sum += kernels::portable::exp(read_real(logits, dtype, start + k) - largest);
      steps[start + k] = sum;
    }
  }
}

/// The same by a block for each row, with a thread for each piece.
__global__ void __launch_bounds__(kThreads)
    steps_kernel(const void* logits, DType dtype, std::int64_t rows, std::int64_t classes, double* steps) {
  __shared__ double of_pieces[kThreads];
  __shared__ double next;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t start = row * classes;
    double* const to = steps + start;
    double largest = read_real(logits, dtype, start);
    for (std::int64_t k = threadIdx.x; k < classes; k += kThreads)
      largest = Larger{}(largest, read_real(logits, dtype, start + k));
    largest = block_reduce<kThreads>(largest, Larger{});
    for (std::int64_t k = threadIdx.x; k < classes; k += kThreads)
      to[k] = kernels::portable::exp(read_real(logits, dtype, start + k) - largest);
    __syncthreads();
    double before = 0;
    for (std::int64_t tile = 0; tile < classes; tile += kThreads * kPiece) {
      const std::int64_t begin = tile + threadIdx.x * kPiece, stop = begin + kPiece;
      const std::int64_t end = stop < classes ? stop : classes;
      double within = 0;
      for (std::int64_t k = begin; k < end; ++k) to[k] = within += to[k];
      of_pieces[threadIdx.x] = within;
      __syncthreads();
      double own = before;
      for (unsigned piece = 0; piece < threadIdx.x; ++piece) own += of_pieces[piece];
      for (std::int64_t k = begin; k < end; ++k) to[k] = own + to[k];
      if (threadIdx.x == kThreads - 1) next = own + within;
      __syncthreads();
      before = next;
    }
  }
}

__global__ void __launch_bounds__(kThreads) choose_kernel(RandomTask task, const double* steps, std::int64_t classes,
                                                          std::int64_t count, std::int64_t choices, std::int64_t* out) {
  const std::uint64_t first = first_block_of(task);
  for (std::int64_t i = first_index(); i < choices; i += index_step()) {
    const kernels::NumberPair u = kernels::unit_pair(task, first + static_cast<std::uint64_t>(i / 2));
    out[i] = kernels::class_of(i % 2 == 0 ? u.first : u.second, steps + i / count * classes, classes);
  }
}

}  // namespace

void random(const RandomTask& task, TensorImpl& out) {
  if (task.kind == core::RandomKind::integers) {
    visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) { draw_all(IntegerDraw<Word>{task}, out); });
  } else if (task.kind == core::RandomKind::bernoulli) {
    visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
      draw_all(HitDraw<Word>{task, kernels::threshold_of(task.a), static_cast<Word>(one_of(out.dtype))}, out);
    });
  } else {
    core::visit_real(out.dtype, [&]<class T>(core::Type<T>) { draw_all(RealDraw<T>{task}, out); });
  }
}

void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    draw_all(TrialDraw<T>{task, probability.as<T>(), out.numel()}, out);
  });
}

void categorical(const RandomTask& task, const TensorImpl& logits, TensorImpl& out) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1], count = out.shape[1];
  if (out.numel() == 0) return;
  const Tensor room = workspace(rows * classes, DType::float64);
  auto* const steps = room.impl()->as<double>();
  if (classes <= kFewClasses)
    launch(few_steps_kernel, shape_for(rows), logits.data, logits.dtype, rows, classes, steps);
  else launch(steps_kernel, block_each(rows), logits.data, logits.dtype, rows, classes, steps);
  launch(choose_kernel, shape_for(out.numel()), task, steps, classes, count, out.numel(), out.as<std::int64_t>());
}

}  // namespace capstan::on_cuda
