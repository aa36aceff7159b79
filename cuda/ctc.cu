// Connectionist temporal classification (Graves et al. 2006). The gradient has two parts: each sequence's block finds
// the shares of its states step by step; then all steps at once add up those of each class, in fixed order.
#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/context.hpp"
#include "cuda/ctc_paths.cuh"
#include "cuda/launch.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace {

// --- the loss --------------------------------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads) loss_kernel(CtcBatch<T> batch, bool zero_infinity, double* far, T* losses) {
  __shared__ double near_lines[2 * kNearStates];
  for (std::int64_t b = blockIdx.x; b < batch.count; b += gridDim.x) {
    const CtcSequence<T> a = batch.at(b);
    double all = a.steps == 0 && a.count == 0 ? 0.0 : log_zero();
    if (a.fits()) all = run_forward(a, CtcLines(a, b, near_lines, far), nullptr);
    if (threadIdx.x == 0) losses[b] = all == log_zero() && zero_infinity ? T(0) : static_cast<T>(0 - all);
  }
}

// --- its gradient ----------------------------------------------------------------------------------------------------

struct CtcTables {
  double* shares;      // [steps, states] of each sequence: `time` steps have room
  double* far;         // see CtcLines
  double* all;         // [batch]
  std::int64_t* next;  // [labels]: see link_labels

  /// Where the shares of sequence b begin; `begin`: its labels among all.
  __device__ double* of(std::int64_t b, std::int64_t begin, std::int64_t time) const {
    return shares + (2 * begin + b) * time;
  }
};

/// For each label the place of its next appearance in the sequence, `count` for none. Less 1 and with a minus sign if
/// it stands before, too.
template <class T>
__device__ void link_labels(const CtcSequence<T>& a, std::int64_t* next) {
  for (std::int64_t i = threadIdx.x; i < a.count; i += blockDim.x) {
    std::int64_t after = i + 1, before = i - 1;
    while (after < a.count && a.labels[after] != a.labels[i]) ++after;
    while (before >= 0 && a.labels[before] != a.labels[i]) --before;
    next[i] = before < 0 ? after : -1 - after;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) shares_kernel(CtcBatch<T> batch, CtcTables tables) {
  __shared__ double near_lines[2 * kNearStates];
  for (std::int64_t b = blockIdx.x; b < batch.count; b += gridDim.x) {
    const CtcSequence<T> a = batch.at(b);
    double all = log_zero();
    if (a.fits()) {
      const CtcLines lines(a, b, near_lines, tables.far);
      double* const table = tables.of(b, a.begin, batch.time);
      link_labels(a, tables.next + a.begin);
      all = run_forward(a, lines, table);
      if (all != log_zero()) run_backward(a, lines, all, table);
    }
    if (threadIdx.x == 0) tables.all[b] = all;
  }
}

/// Where a gradient goes.
template <class T>
struct Target {
  T* out;
  std::int64_t sequence, row, column;  // strides
};

/// A warp for each step of each sequence: -scale times the share of each of its classes. All others are 0 already.
template <class T>
__global__ void __launch_bounds__(kThreads)
    classes_kernel(CtcBatch<T> batch, CtcTables tables, const T* grad, Target<T> to) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t item = first_index() / kWarp; item < batch.count * batch.time; item += index_step() / kWarp) {
    const std::int64_t b = item / batch.time, t = item - b * batch.time;
    const CtcSequence<T> a = batch.at(b);
    const double scale = static_cast<double>(grad[b]);
    if (t >= a.steps || !a.fits() || tables.all[b] == log_zero() || scale == 0) continue;
    const double* const shares = tables.of(b, a.begin, batch.time) + t * a.states();
    const std::int64_t* const next = tables.next + a.begin;
    const std::int64_t first = a.first(t), last = a.last(t), first_blank = first + first % 2;
    T* const row = to.out + b * to.sequence + t * to.row;
    double blanks = 0;
    for (std::int64_t s = first_blank + 2 * lane; s <= last; s += 2 * kWarp) blanks += shares[s];
    blanks = warp_reduce(blanks, Add{});
    if (lane == 0 && first_blank <= last) row[a.blank * to.column] = static_cast<T>(-scale * blanks);
    for (std::int64_t i = lane; i < a.count; i += kWarp) {
      if (next[i] < 0) continue;  // is added up where its label stands first
      double sum = 0;
      bool any = false;
      for (std::int64_t label = i; label < a.count; label = next[label] < 0 ? -1 - next[label] : next[label]) {
        const std::int64_t s = 2 * label + 1;
        if (s < first || s > last) continue;
        sum += shares[s];
        any = true;
      }
      if (any) row[a.labels[i] * to.column] = static_cast<T>(-scale * sum);
    }
  }
}

// --- the best class of each step -------------------------------------------------------------------------------------

template <class T>
struct Choice {
  T value;
  std::int64_t index;

  /// The first largest, or the first NaN.
  __device__ bool before(const Choice& other) const {
    const bool bad = value != value, other_bad = other.value != other.value;
    if (bad || other_bad) return bad && (!other_bad || index < other.index);
    return value > other.value || (value == other.value && index < other.index);
  }
};

template <class T>
struct Choosing {
  const T* x;
  std::int64_t sequence, row, column;  // strides of x
  std::int64_t count, time, classes;
  const std::int64_t* steps;
  std::int64_t* best;  // [count, time]
  double* values;      // likewise
};

/// A warp for each step of each sequence.
template <class T>
__global__ void __launch_bounds__(kThreads) best_kernel(Choosing<T> task) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t item = first_index() / kWarp; item < task.count * task.time; item += index_step() / kWarp) {
    const std::int64_t b = item / task.time, t = item - b * task.time;
    if (t >= task.steps[b]) continue;
    const T* const row = task.x + b * task.sequence + t * task.row;
    Choice<T> best{-std::numeric_limits<T>::infinity(), task.classes};
    for (std::int64_t c = lane; c < task.classes; c += kWarp) {
      const Choice<T> own{row[c * task.column], c};
      if (own.before(best)) best = own;
    }
    for (int away = kWarp / 2; away > 0; away /= 2) {
      const T value = __shfl_xor_sync(kAllLanes, best.value, away);
      const std::int64_t index = __shfl_xor_sync(kAllLanes, best.index, away);
      const Choice<T> other{value, index};
      if (other.before(best)) best = other;
    }
    if (lane == 0) {
      task.best[item] = best.index;
      task.values[item] = static_cast<double>(best.value);
    }
  }
}

/// A block for each sequence: the best classes without blanks and, if `merge`, without repetitions.
template <class T>
__global__ void __launch_bounds__(kThreads) tokens_kernel(Choosing<T> task, std::int64_t blank, bool merge,
                                                          std::int64_t* tokens, std::int64_t* lengths, T* scores) {
  constexpr int kWarps = static_cast<int>(kThreads) / kWarp;
  __shared__ int counts[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t b = blockIdx.x; b < task.count; b += gridDim.x) {
    const std::int64_t* const best = task.best + b * task.time;
    std::int64_t* const to = tokens + b * task.time;
    const std::int64_t steps = task.steps[b];
    std::int64_t count = 0;
    double score = 0;
    for (std::int64_t begin = 0; begin < steps; begin += kThreads) {
      const std::int64_t t = begin + threadIdx.x;
      bool kept = false;
      if (t < steps) {
        kept = best[t] != blank && !(merge && t > 0 && best[t] == best[t - 1]);
        score += task.values[b * task.time + t];
      }
      const unsigned all = __ballot_sync(kAllLanes, kept);
      if (lane == 0) counts[warp] = __popc(all);
      __syncthreads();
      std::int64_t place = count + __popc(all & ((1u << lane) - 1));
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) place += counts[w];
        count += counts[w];
      }
      if (kept) to[place] = best[t];
      __syncthreads();
    }
    for (std::int64_t t = count + threadIdx.x; t < task.time; t += kThreads) to[t] = -1;
    score = block_reduce<static_cast<int>(kThreads)>(score, Add{});
    if (threadIdx.x == 0) {
      lengths[b] = count;
      scores[b] = static_cast<T>(score);
    }
  }
}

}  // namespace

void ctc_loss(const core::CtcTask& task, TensorImpl& losses) {
  const std::int64_t batch = losses.numel(), numbers = ctc_far_numbers(batch, task.x.shape[1], task.labels.numel());
  const Tensor memory = numbers == 0 ? Tensor() : workspace(numbers, DType::float64);
  double* const far = numbers == 0 ? nullptr : memory.impl()->as<double>();
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) {
    launch(loss_kernel<T>, block_each(batch), CtcBatch<T>(task), task.zero_infinity, far, losses.as<T>());
  });
}

void ctc_loss_backward(const core::CtcTask& task, const TensorImpl& grad, TensorImpl& out) {
  if (out.numel() == 0) return;
  fill(out, 0);
  const std::int64_t batch = out.shape[0], time = out.shape[1], labels = task.labels.numel();
  const std::int64_t numbers = ctc_far_numbers(batch, time, labels), cells = (2 * labels + batch) * time;
  const Tensor memory = workspace(cells + numbers + batch, DType::float64);
  const Tensor links = workspace(labels > 0 ? labels : 1, DType::int64);
  auto* const cell = memory.impl()->as<double>();
  const CtcTables tables{cell, cell + cells, cell + cells + numbers, links.impl()->as<std::int64_t>()};
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const CtcBatch<T> sequences(task);
    const Target<T> to{out.as<T>(), out.strides[0], out.strides[1], out.strides[2]};
    launch(shares_kernel<T>, block_each(batch), sequences, tables);
    launch(classes_kernel<T>, shape_for(batch * time * kWarp), sequences, tables, grad.as<T>(), to);
  });
}

void ctc_greedy(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores) {
  const TensorImpl& x = task.x;
  const std::int64_t batch = x.shape[0], time = x.shape[1], places = batch * time > 0 ? batch * time : 1;
  const Tensor best = workspace(places, DType::int64), values = workspace(places, DType::float64);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const Choosing<T> choosing{x.as<T>(),
                               x.strides[0],
                               x.strides[1],
                               x.strides[2],
                               batch,
                               time,
                               x.shape[2],
                               task.steps.as<std::int64_t>(),
                               best.impl()->as<std::int64_t>(),
                               values.impl()->as<double>()};
    launch(best_kernel<T>, shape_for(batch * time * kWarp), choosing);
    launch(tokens_kernel<T>, block_each(batch), choosing, task.blank, task.merge_repeated, tokens.as<std::int64_t>(),
           lengths.as<std::int64_t>(), scores.as<T>());
  });
}

}  // namespace capstan::on_cuda
