#pragma once
// Where pooling windows stand, worked out once for all planes. Axes that are missing in front have one place.
#include "lib/core/allocator.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {

/// One axis. Window o holds begin[o], begin[o] + dilation, ... below end[o]; its other places lie outside the input.
struct PoolAxis : core::WindowAxis {
  const std::int64_t *begin = nullptr, *end = nullptr;
  std::int64_t whole_begin = 0, whole_end = 0;  // windows all of whose places lie inside; none if windows adapt

  std::int64_t start(std::int64_t o) const { return o * stride - before; }
  /// How many places of window o lie in front of the input.
  std::int64_t first_tap(std::int64_t o) const {
    const std::int64_t distance = begin[o] - start(o);
    return distance == 0 ? 0 : distance / dilation;
  }
};

class PoolPlan {
  core::Scratch<std::int64_t> memory_;

 public:
  PoolAxis depth, rows, columns;

  explicit PoolPlan(const PoolTask& task) : memory_(2 * results_of(task.window), core::calling_place()) {
    std::int64_t* next = memory_.data();
    PoolAxis* const own[] = {&depth, &rows, &columns};
    const int missing = 3 - task.window.axes;
    for (int i = 0; i < 3; ++i) {
      static_cast<core::WindowAxis&>(*own[i]) = i < missing ? core::WindowAxis() : task.window.axis[i - missing];
      next = fill(*own[i], task.adaptive && i >= missing, next);
    }
  }
  std::int64_t result_rows() const { return depth.out * rows.out; }
  /// Rows of results below which another thread is not worth it.
  std::int64_t row_grain() const {
    std::int64_t work = columns.out;
    for (const PoolAxis* a : {&depth, &rows, &columns}) work *= a->end[0] - a->begin[0];
    return kCheapGrain / (work + 1) + 1;
  }

 private:
  static std::int64_t results_of(const core::Window& window) {
    std::int64_t count = 3;
    for (int i = 0; i < window.axes; ++i) count += window.axis[i].out;
    return count;
  }
  static std::int64_t* fill(PoolAxis& a, bool adaptive, std::int64_t* next) {
    std::int64_t *const begin = next, *const end = next + a.out;
    for (std::int64_t o = 0; o < a.out; ++o) {
      const std::int64_t start = a.start(o), stop = start + a.extent();
      if (adaptive) {
        begin[o] = o * a.in / a.out, end[o] = ((o + 1) * a.in + a.out - 1) / a.out;
      } else {
        begin[o] = start >= 0 ? start : start + (a.dilation - 1 - start) / a.dilation * a.dilation;
        end[o] = stop < a.in ? stop : a.in;
      }
    }
    a.begin = begin, a.end = end;
    if (!adaptive) {
      const std::int64_t first = (a.before + a.stride - 1) / a.stride, room = a.in + a.before - a.extent();
      const std::int64_t last = room < 0 ? 0 : room / a.stride + 1;
      a.whole_begin = first < a.out ? first : a.out;
      a.whole_end = last < a.out ? last : a.out;
      if (a.whole_end < a.whole_begin) a.whole_end = a.whole_begin;
    }
    return next + 2 * a.out;
  }
};

/// A row of results, counted through all planes.
struct ResultRow {
  std::int64_t plane, depth, row;

  ResultRow(const PoolPlan& plan, std::int64_t number)
      : plane(number / plan.result_rows()),
        depth(number % plan.result_rows() / plan.rows.out),
        row(number % plan.rows.out),
        plan_(plan) {}
  void next() {
    if (++row < plan_.rows.out) return;
    row = 0;
    if (++depth < plan_.depth.out) return;
    depth = 0;
    ++plane;
  }

 private:
  const PoolPlan& plan_;
};

/// The input rows that the windows of a row of results reach over, and the numbers of their first places in the window;
/// for windows that fit PoolTask::fits_byte.
template <class T>
struct WindowRows {
  const T* rows[PoolTask::kByteTaps];
  std::int32_t codes[PoolTask::kByteTaps];
  std::int64_t count = 0;

  WindowRows(const PoolPlan& plan, const T* plane, const ResultRow& at) {
    const PoolAxis &d = plan.depth, &h = plan.rows, &w = plan.columns;
    const std::int64_t h_tap = h.first_tap(at.row);
    std::int64_t d_tap = d.first_tap(at.depth);
    for (std::int64_t i = d.begin[at.depth]; i < d.end[at.depth]; i += d.dilation, ++d_tap) {
      std::int64_t code = (d_tap * h.kernel + h_tap) * w.kernel;
      for (std::int64_t j = h.begin[at.row]; j < h.end[at.row]; j += h.dilation, code += w.kernel) {
        rows[count] = plane + (i * h.in + j) * w.in;
        codes[count++] = static_cast<std::int32_t>(code);
      }
    }
  }
};

}  // namespace capstan::on_cpu
