// Connectionist temporal classification (Graves et al. 2006): sums over alignments, in double and by their logarithms.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();
constexpr std::int64_t kGrainOfSteps = 512;  // steps of one state: two exponentials and a logarithm each

/// log(exp(a) + exp(b) + exp(c)); NaN if one of them is.
double log_sum(double a, double b, double c) {
  const double high = a < b ? b : a, low = a < b ? a : b;  // comparisons that lose no NaN, unlike std::min
  const double most = high < c ? c : high, rest = high < c ? high : c;
  if (most == kLogZero) return a + b + c;
  return most + std::log(1 + std::exp(low - most) + std::exp(rest - most));
}

/// One sequence. Its states are its labels with blanks before, between and behind them; a path goes from state to
/// state, and may pass over a blank between different labels.
template <class T>
struct Alignments {
  const T* x;
  std::int64_t row, column;  // strides of x
  std::int64_t steps, count, blank;
  const std::int64_t* labels;

  std::int64_t states() const { return 2 * count + 1; }
  std::int64_t class_of(std::int64_t s) const { return s % 2 != 0 ? labels[s / 2] : blank; }
  double at(std::int64_t t, std::int64_t s) const { return static_cast<double>(x[t * row + class_of(s) * column]); }
  bool skips_to(std::int64_t s) const { return s % 2 != 0 && s >= 3 && labels[s / 2] != labels[s / 2 - 1]; }
  // states that are reached by step t and from which the end can be reached
  std::int64_t first(std::int64_t t) const { return std::max(std::int64_t{0}, states() - 2 * (steps - t)); }
  std::int64_t last(std::int64_t t) const { return std::min(states() - 1, 2 * t + 1); }
};

template <class T>
Alignments<T> alignments(const core::CtcTask& task, std::int64_t b) {
  const auto* const bounds = task.bounds.as<std::int64_t>();
  return {task.x.as<T>() + b * task.x.strides[0],    task.x.strides[1],         task.x.strides[2],
          task.steps.as<std::int64_t>()[b],          bounds[b + 1] - bounds[b], task.blank,
          task.labels.as<std::int64_t>() + bounds[b]};
}

/// Log-probabilities of the beginnings of paths that are in each state at step t, from those of the step before, which
/// may stand in the same place.
template <class T>
void advance(const Alignments<T>& a, std::int64_t t, const double* before, double* now) {
  const std::int64_t last = a.last(t);
  for (std::int64_t s = last; s >= a.first(t); --s) {
    double paths = 0;
    if (t > 0) paths = log_sum(before[s], s > 0 ? before[s - 1] : kLogZero, a.skips_to(s) ? before[s - 2] : kLogZero);
    now[s] = paths + a.at(t, s);
  }
  for (std::int64_t s = last + 1; s <= last + 2 && s < a.states(); ++s) now[s] = kLogZero;  // the next step reads them
}

/// Log-probability of all paths, from the states at the last step.
template <class T>
double total(const Alignments<T>& a, const double* states) {
  return log_sum(states[2 * a.count], a.count > 0 ? states[2 * a.count - 1] : kLogZero, kLogZero);
}

template <class T>
double log_likelihood(const Alignments<T>& a, double* states) {
  if (a.steps == 0) return a.count == 0 ? 0 : kLogZero;
  if (a.count > a.steps) return kLogZero;
  for (std::int64_t t = 0; t < a.steps; ++t) advance(a, t, states, states);
  return total(a, states);
}

/// Where a gradient goes.
template <class T>
struct Target {
  T* out;
  std::int64_t row, column;  // strides
};

/// -scale times the share of each class at each step, for the classes of the sequence. `forward` is room for all steps
/// of all states, `back` for the states and one more, `shares` for the classes.
template <class T>
void add_shares(const Alignments<T>& a, double scale, const Target<T>& to, double* forward, double* back,
                double* shares) {
  const std::int64_t states = a.states();
  for (std::int64_t t = 0; t < a.steps; ++t)
    advance(a, t, t == 0 ? nullptr : forward + (t - 1) * states, forward + t * states);
  const double all = total(a, forward + (a.steps - 1) * states);
  if (all == kLogZero) return;
  std::fill(back, back + states + 1, kLogZero);  // ends of paths from each state on, with its own step
  for (std::int64_t t = a.steps - 1; t >= 0; --t) {
    const std::int64_t first = a.first(t), last = a.last(t);
    for (std::int64_t s = first; s <= last; ++s) {
      double behind = 0;
      if (t + 1 < a.steps)
        behind = log_sum(back[s], back[s + 1], s + 2 < states && a.skips_to(s + 2) ? back[s + 2] : kLogZero);
      shares[a.class_of(s)] += std::exp(forward[t * states + s] + behind - all);
      back[s] = behind + a.at(t, s);
    }
    for (std::int64_t s = first; s <= last; ++s)
      to.out[t * to.row + a.class_of(s) * to.column] = static_cast<T>(-scale * shares[a.class_of(s)]);
    for (std::int64_t s = first; s <= last; ++s) shares[a.class_of(s)] = 0;
  }
}

/// The most that a sequence of the batch needs.
struct Largest {
  std::int64_t states = 1, cells = 0;  // cells: states of all steps
  explicit Largest(const core::CtcTask& task) {
    const auto* const bounds = task.bounds.as<std::int64_t>();
    for (std::int64_t b = 0; b < task.x.shape[0]; ++b) {
      const std::int64_t own = 2 * (bounds[b + 1] - bounds[b]) + 1;
      states = std::max(states, own);
      cells = std::max(cells, own * task.steps.as<std::int64_t>()[b]);
    }
  }
  std::int64_t grain() const { return kGrainOfSteps / (cells + 1) + 1; }
};

/// The first largest element, or the first NaN.
template <class T>
std::int64_t best_of(const T* x, std::int64_t count, std::int64_t stride) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < count; ++i) {
    const T value = x[i * stride], most = x[best * stride];
    if (value > most || (std::isnan(value) && !std::isnan(most))) best = i;
  }
  return best;
}

}  // namespace

void ctc_loss(const core::CtcTask& task, TensorImpl& losses) {
  const Largest largest(task);
  const auto bytes = largest.states * static_cast<std::int64_t>(sizeof(double));
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) {
    for_lanes(losses.numel(), largest.grain(), bytes, [&](std::byte* room, std::int64_t begin, std::int64_t end) {
      auto* const states = reinterpret_cast<double*>(room);
      for (std::int64_t b = begin; b < end; ++b) {
        const double all = log_likelihood(alignments<T>(task, b), states);
        losses.as<T>()[b] = all == kLogZero && task.zero_infinity ? T(0) : static_cast<T>(0 - all);
      }
    });
  });
}

void ctc_loss_backward(const core::CtcTask& task, const TensorImpl& grad, TensorImpl& out) {
  if (out.numel() == 0) return;  // its classes may be more than any memory holds
  const Largest largest(task);
  const std::int64_t time = out.shape[1], classes = out.shape[2];
  const std::int64_t numbers = largest.cells + largest.states + 1 + classes;
  const auto bytes = numbers * static_cast<std::int64_t>(sizeof(double));
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    for_lanes(out.shape[0], largest.grain(), bytes, [&](std::byte* room, std::int64_t begin, std::int64_t end) {
      auto* const forward = reinterpret_cast<double*>(room);
      double* const back = forward + largest.cells;
      double* const shares = back + largest.states + 1;
      std::fill(shares, shares + classes, 0.0);
      for (std::int64_t b = begin; b < end; ++b) {
        const Target<T> to{out.as<T>() + b * out.strides[0], out.strides[1], out.strides[2]};
        for (std::int64_t t = 0; t < time; ++t)
          for (std::int64_t c = 0; c < classes; ++c) to.out[t * to.row + c * to.column] = T(0);
        const Alignments<T> a = alignments<T>(task, b);
        const double scale = static_cast<double>(grad.as<T>()[b]);
        if (a.steps > 0 && a.count <= a.steps && scale != 0) add_shares(a, scale, to, forward, back, shares);
      }
    });
  });
}

void ctc_greedy(const core::CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores) {
  const TensorImpl& x = task.x;
  const std::int64_t time = x.shape[1], classes = x.shape[2];
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(x.shape[0], kCheapGrain / (time * classes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        auto* const to = tokens.as<std::int64_t>() + b * time;
        std::int64_t count = 0, previous = -1;
        double score = 0;
        for (std::int64_t t = 0; t < task.steps.as<std::int64_t>()[b]; ++t) {
          const T* const row = x.as<T>() + b * x.strides[0] + t * x.strides[1];
          const std::int64_t best = best_of(row, classes, x.strides[2]);
          score += static_cast<double>(row[best * x.strides[2]]);
          if (best != task.blank && !(task.merge_repeated && best == previous)) to[count++] = best;
          previous = best;
        }
        std::fill(to + count, to + time, std::int64_t{-1});
        lengths.as<std::int64_t>()[b] = count;
        scores.as<T>()[b] = static_cast<T>(score);
      }
    });
  });
}

}  // namespace capstan::on_cpu
