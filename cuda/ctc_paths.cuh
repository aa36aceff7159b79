#pragma once
// Alignments of a sequence with its labels, for connectionist temporal classification: sums over paths in double and by
// their logarithms, as in lib/cpu/ctc.cpp. A block takes a sequence: its threads share the states, and go through the
// steps together.
#include <cuda_runtime.h>

#include <cstdint>
#include <limits>

#include "cuda/launch_shape.hpp"
#include "lib/core/backend.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

__device__ constexpr double log_zero() { return -std::numeric_limits<double>::infinity(); }
inline constexpr std::int64_t kNearStates = 1024;  // so many have room in shared memory

/// log(exp(a) + exp(b) + exp(c)); NaN if one of them is.
__device__ inline double log_sum(double a, double b, double c) {
  const double high = a < b ? b : a, low = a < b ? a : b;
  const double most = high < c ? c : high, rest = high < c ? high : c;
  if (most == log_zero()) return a + b + c;
  return most + kernels::log(1 + kernels::exp(low - most) + kernels::exp(rest - most));
}

/// One sequence. Its states are its labels with blanks before, between and behind them; a path goes from state to
/// state, and may pass over a blank between different labels.
template <class T>
struct CtcSequence {
  const T* x;
  std::int64_t row, column;  // strides of x
  std::int64_t steps, count, blank;
  const std::int64_t* labels;
  std::int64_t begin;  // of its labels among all

  __device__ std::int64_t states() const { return 2 * count + 1; }
  __device__ std::int64_t class_of(std::int64_t s) const { return s % 2 != 0 ? labels[s / 2] : blank; }
  __device__ double at(std::int64_t t, std::int64_t s) const {
    return static_cast<double>(x[t * row + class_of(s) * column]);
  }
  __device__ bool skips_to(std::int64_t s) const { return s % 2 != 0 && s >= 3 && labels[s / 2] != labels[s / 2 - 1]; }
  /// Whether there are steps enough for the labels, and any.
  __device__ bool fits() const { return steps > 0 && count <= steps; }
  // states that are reached by step t and from which the end can be reached
  __device__ std::int64_t first(std::int64_t t) const {
    const std::int64_t s = states() - 2 * (steps - t);
    return s < 0 ? 0 : s;
  }
  __device__ std::int64_t last(std::int64_t t) const { return states() - 1 < 2 * t + 1 ? states() - 1 : 2 * t + 1; }
};

/// A CtcTask as kernels take it.
template <class T>
struct CtcBatch {
  const T* x;
  std::int64_t sequence, row, column;  // strides of x
  std::int64_t count, time, blank;     // count: of sequences
  const std::int64_t *steps, *labels, *bounds;

  explicit CtcBatch(const core::CtcTask& task)
      : x(task.x.as<T>()),
        sequence(task.x.strides[0]),
        row(task.x.strides[1]),
        column(task.x.strides[2]),
        count(task.x.shape[0]),
        time(task.x.shape[1]),
        blank(task.blank),
        steps(task.steps.as<std::int64_t>()),
        labels(task.labels.as<std::int64_t>()),
        bounds(task.bounds.as<std::int64_t>()) {}
  __device__ CtcSequence<T> at(std::int64_t b) const {
    const std::int64_t begin = bounds[b];
    return {x + b * sequence, row, column, steps[b], bounds[b + 1] - begin, blank, labels + begin, begin};
  }
};

/// Room for the states of two steps, and for two more behind them: `two` lines, `pitch` apart. In shared memory, or for
/// sequences with many labels in `far`, where those of all sequences lie side by side.
struct CtcLines {
  double* two;
  std::int64_t pitch;

  template <class T>
  __device__ CtcLines(const CtcSequence<T>& a, std::int64_t b, double* near_lines, double* far)
      : two(near_lines), pitch(kNearStates) {
    if (a.states() + 2 <= kNearStates) return;
    pitch = a.states() + 2;
    two = far + 2 * (2 * a.begin + 3 * b);
  }
  __device__ double* of(std::int64_t t) const { return two + t % 2 * pitch; }
};
/// How many numbers `far` has; 0 if no sequence needs it: its labels are no more than all, and than its steps.
inline std::int64_t ctc_far_numbers(std::int64_t batch, std::int64_t time, std::int64_t labels) {
  const std::int64_t most = labels < time ? labels : time;
  return 2 * most + 3 <= kNearStates ? 0 : 2 * (2 * labels + 3 * batch);
}

/// The logarithm of the probability of all paths of a sequence that fits. Log-probabilities of the beginnings of paths
/// that are in each state at each step go to `table` [steps, states], unless it is null.
template <class T>
__device__ double run_forward(const CtcSequence<T>& a, const CtcLines& lines, double* table) {
  const std::int64_t states = a.states(), thread = threadIdx.x;
  double ahead = thread < states ? a.at(0, thread) : 0.0;  // is on its way while the threads wait for each other
  for (std::int64_t t = 0; t < a.steps; ++t) {
    const double* const before = lines.of(t + 1);
    double* const now = lines.of(t);
    const std::int64_t first = a.first(t), last = a.last(t);
    const double here = ahead;
    if (t + 1 < a.steps && thread < states) ahead = a.at(t + 1, thread);
    for (std::int64_t s = thread; s < states; s += blockDim.x) {
      double value = log_zero();
      if (s >= first && s <= last) {
        double paths = 0;
        if (t > 0)
          paths = log_sum(before[s], s > 0 ? before[s - 1] : log_zero(), a.skips_to(s) ? before[s - 2] : log_zero());
        value = paths + (s == thread ? here : a.at(t, s));
      }
      now[s] = value;
      if (table != nullptr) table[t * states + s] = value;
    }
    __syncthreads();
  }
  const double* const end = lines.of(a.steps - 1);
  const double all = log_sum(end[states - 1], a.count > 0 ? end[states - 2] : log_zero(), log_zero());
  __syncthreads();  // the lines will be written again
  return all;
}

/// In the table, log-probabilities of beginnings become the shares of their states in all paths.
template <class T>
__device__ void run_backward(const CtcSequence<T>& a, const CtcLines& lines, double all, double* table) {
  const std::int64_t states = a.states(), thread = threadIdx.x;
  double ahead = thread < states ? a.at(a.steps - 1, thread) : 0.0;
  for (std::int64_t t = a.steps - 1; t >= 0; --t) {
    const double* const behind = lines.of(t + 1);  // ends of paths from each state on, with its own step
    double* const now = lines.of(t);
    const std::int64_t first = a.first(t), last = a.last(t);
    const double here = ahead;
    if (t > 0 && thread < states) ahead = a.at(t - 1, thread);
    for (std::int64_t s = thread; s <= states; s += blockDim.x) {
      double value = log_zero();
      if (s >= first && s <= last) {
        double ends = 0;
        if (t + 1 < a.steps)
          ends = log_sum(behind[s], behind[s + 1], s + 2 < states && a.skips_to(s + 2) ? behind[s + 2] : log_zero());
        double& cell = table[t * states + s];
        cell = kernels::exp(cell + ends - all);
        value = ends + (s == thread ? here : a.at(t, s));
      }
      now[s] = value;
    }
    __syncthreads();
  }
}

}  // namespace capstan::on_cuda
