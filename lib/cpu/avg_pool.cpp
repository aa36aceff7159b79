// Average pooling, and its transpose, which hands each mean back to what it was made of.
#include <algorithm>
#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/pooling.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kFlatTaps = 64;  // windows of so many places may add up in their own type
constexpr std::int64_t kLongRun = 64;   // contiguous elements from which on lanes pay
constexpr std::int64_t kPieces = 64;    // of the planes, each with scratch memory of its own

/// What the sum of a window is divided by: a factor for each axis.
class Divisors {
 public:
  Divisors(const PoolTask& task, const PoolPlan& plan)
      : memory_(plan.depth.out + plan.rows.out + plan.columns.out, core::calling_place()) {
    double* next = memory_.data();
    const PoolAxis* const axes[] = {&plan.depth, &plan.rows, &plan.columns};
    for (int i = 0; i < 3; ++i) {
      const PoolAxis& a = *axes[i];
      factors_[i] = next;
      for (std::int64_t o = 0; o < a.out; ++o) {
        const std::int64_t start = a.start(o), stop = start + a.kernel, limit = a.in + a.after;
        const bool padded = task.count_padding && !task.adaptive;
        const std::int64_t count = padded ? (stop < limit ? stop : limit) - start : a.end[o] - a.begin[o];
        next[o] = static_cast<double>(task.divisor == 0 ? count : i == 0 ? task.divisor : 1);
      }
      next += a.out;
    }
  }
  double factor(int axis, std::int64_t o) const { return factors_[axis][o]; }
  double of(const ResultRow& at, std::int64_t column) const {
    return factors_[0][at.depth] * factors_[1][at.row] * factors_[2][column];
  }

 private:
  core::Scratch<double> memory_;
  const double* factors_[3];
};

template <class T>
double sum_of_run(const T* x, std::int64_t count) {
  if (count >= kLongRun) return simd().of<T>().sum(x, count);
  double total = 0;
  for (std::int64_t i = 0; i < count; ++i) total += static_cast<double>(x[i]);
  return total;
}

template <class T>
double sum_of_window(const PoolPlan& plan, const T* plane, const ResultRow& at, std::int64_t column) {
  const PoolAxis &d = plan.depth, &h = plan.rows, &w = plan.columns;
  const std::int64_t height = h.end[at.row] - h.begin[at.row], width = w.end[column] - w.begin[column];
  double total = 0;
  for (std::int64_t i = d.begin[at.depth]; i < d.end[at.depth]; ++i) {
    const T* corner = plane + (i * h.in + h.begin[at.row]) * w.in + w.begin[column];
    if (width == w.in) {  // whole rows, one behind the other
      total += sum_of_run(corner, height * width);
    } else {
      for (std::int64_t j = 0; j < height; ++j) total += sum_of_run(corner + j * w.in, width);
    }
  }
  return total;
}

/// One row of results. `lanes`: whether windows within the input are added up in lanes.
template <class T>
void avg_row(const PoolPlan& plan, const Divisors& divisors, const T* plane, const ResultRow& at, bool lanes, T* out) {
  const PoolAxis& w = plan.columns;
  T* to = out + ((at.plane * plan.depth.out + at.depth) * plan.rows.out + at.row) * w.out;
  const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column)
      to[column] = static_cast<T>(sum_of_window(plan, plane, at, column) / divisors.of(at, column));
  };
  if (!lanes || w.whole_begin == w.whole_end) return one_by_one(0, w.out);
  const WindowRows<T> reach(plan, plane, at);
  const PoolRow<T> row{reach.rows, reach.codes, reach.count, w.start(w.whole_begin),
                       w.kernel,   w.stride,    w.dilation,  w.whole_end - w.whole_begin};
  simd().of<T>().avg_pool_row(row, static_cast<T>(divisors.of(at, w.whole_begin)), to + w.whole_begin);
  one_by_one(0, w.whole_begin);
  one_by_one(w.whole_end, w.out);
}

// --- the transpose ---

/// Whether every input is in one window at most, and no window reaches out.
bool tiles(const PoolAxis& a) { return a.before == 0 && a.stride == a.kernel && a.out * a.kernel <= a.in; }

/// to[o * kernel .. (o + 1) * kernel) = grad[o] / divisor
template <class T>
void stretch_row(const T* grad, std::int64_t count, std::int64_t kernel, T divisor, T* to) {
  if (kernel == 2) {  // spelled out: only loops with known steps vectorize
    for (std::int64_t o = 0; o < count; ++o) {
      const T share = grad[o] / divisor;
      to[2 * o] = share;
      to[2 * o + 1] = share;
    }
    return;
  }
  for (std::int64_t o = 0; o < count; ++o) to = std::fill_n(to, kernel, grad[o] / divisor);
}

template <class T>
void scatter_tiles(const PoolPlan& plan, T divisor, const T* grad, T* to) {
  const PoolAxis &d = plan.depth, &h = plan.rows, &w = plan.columns;
  const bool leftover = d.out * d.kernel < d.in || h.out * h.kernel < h.in || w.out * w.kernel < w.in;
  if (leftover) std::memset(to, 0, sizeof(T) * static_cast<std::size_t>(d.in * h.in * w.in));
  const std::size_t bytes = sizeof(T) * static_cast<std::size_t>(w.out * w.kernel);
  for (std::int64_t depth = 0; depth < d.out; ++depth)
    for (std::int64_t row = 0; row < h.out; ++row, grad += w.out) {
      T* corner = to + (depth * d.kernel * h.in + row * h.kernel) * w.in;
      stretch_row(grad, w.out, w.kernel, divisor, corner);
      for (std::int64_t i = 0; i < d.kernel; ++i)
        for (std::int64_t j = 0; j < h.kernel; ++j)
          if (i + j > 0) std::memcpy(corner + (i * h.in + j) * w.in, corner, bytes);
    }
}

/// The windows that each place of an axis lies in, first[i] <= o < last[i], and one over their factors.
struct Shares {
  core::Scratch<std::int64_t> first, last;
  core::Scratch<double> share;

  Shares(const PoolAxis& a, const Divisors& divisors, int axis)
      : first(a.in, core::calling_place()), last(a.in, core::calling_place()), share(a.out, core::calling_place()) {
    std::int64_t ended = 0, begun = 0;
    for (std::int64_t i = 0; i < a.in; ++i) {
      while (ended < a.out && a.end[ended] <= i) ++ended;
      while (begun < a.out && a.begin[begun] <= i) ++begun;
      first[i] = ended, last[i] = begun;
    }
    for (std::int64_t o = 0; o < a.out; ++o) share[o] = 1 / divisors.factor(axis, o);
  }
};

/// Adds up in double, rows of results first, in `sums`, which has room for one.
template <class T>
void scatter_plane(const PoolPlan& plan, Shares& d, Shares& h, Shares& w, const T* grad, T* to, double* sums) {
  const std::int64_t width = plan.columns.out;
  for (std::int64_t i = 0; i < plan.depth.in; ++i)
    for (std::int64_t j = 0; j < plan.rows.in; ++j) {
      for (std::int64_t o = 0; o < width; ++o) sums[o] = 0;
      for (std::int64_t depth = d.first[i]; depth < d.last[i]; ++depth)
        for (std::int64_t row = h.first[j]; row < h.last[j]; ++row) {
          const double share = d.share[depth] * h.share[row];
          const T* from = grad + (depth * plan.rows.out + row) * width;
          for (std::int64_t o = 0; o < width; ++o) sums[o] += share * static_cast<double>(from[o]);
        }
      for (std::int64_t o = 0; o < width; ++o) sums[o] *= w.share[o];
      for (std::int64_t k = 0; k < plan.columns.in; ++k) {
        double total = 0;
        for (std::int64_t o = w.first[k]; o < w.last[k]; ++o) total += sums[o];
        *to++ = static_cast<T>(total);
      }
    }
}

template <class T>
void scatter_overlapping(const PoolPlan& plan, const Divisors& divisors, const T* grad, std::int64_t planes, T* out) {
  const std::int64_t in = plan.depth.in * plan.rows.in * plan.columns.in;
  const std::int64_t results = plan.result_rows() * plan.columns.out, width = plan.columns.out;
  Shares d(plan.depth, divisors, 0), h(plan.rows, divisors, 1), w(plan.columns, divisors, 2);
  std::int64_t pieces = planes * in / kCheapGrain + 1;
  if (pieces > kPieces) pieces = kPieces;
  if (pieces > planes) pieces = planes;
  core::Scratch<double> sums(pieces * width, core::calling_place());
  base::parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece)
      for (std::int64_t plane = piece * planes / pieces; plane < (piece + 1) * planes / pieces; ++plane)
        scatter_plane(plan, d, h, w, grad + plane * results, out + plane * in, sums.data() + piece * width);
  });
}

}  // namespace

void avg_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out) {
  if (out.numel() == 0) return;
  const PoolPlan plan(task);
  const Divisors divisors(task, plan);
  const std::int64_t planes = out.numel() / task.window.out(), in = task.window.in();
  const bool lanes = task.fits_byte() && plan.columns.stride <= 2 && task.window.kernel() <= kFlatTaps;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const T* from = x.as<T>();
    T* to = out.as<T>();
    base::parallel_for(planes * plan.result_rows(), plan.row_grain(), [&](std::int64_t begin, std::int64_t end) {
      ResultRow at(plan, begin);
      for (std::int64_t i = begin; i < end; ++i, at.next())
        avg_row(plan, divisors, from + at.plane * in, at, lanes, to);
    });
  });
}

void avg_pool_scatter(const PoolTask& task, const TensorImpl& grad, TensorImpl& out) {
  if (out.numel() == 0) return;
  const PoolPlan plan(task);
  const Divisors divisors(task, plan);
  const std::int64_t in = task.window.in(), planes = out.numel() / in, results = task.window.out();
  const bool apart = !task.adaptive && results > 0 && tiles(plan.depth) && tiles(plan.rows) && tiles(plan.columns);
  core::visit_floating(grad.dtype, [&]<class T>(core::Type<T>) {
    const T* from = grad.as<T>();
    T* to = out.as<T>();
    if (!apart) return scatter_overlapping(plan, divisors, from, planes, to);
    const auto divisor = static_cast<T>(divisors.of(ResultRow(plan, 0), 0));
    base::parallel_for(planes, kCheapGrain / in + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane)
        scatter_tiles(plan, divisor, from + plane * results, to + plane * in);
    });
  });
}

}  // namespace capstan::on_cpu
