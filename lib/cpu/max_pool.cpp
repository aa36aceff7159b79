// Max pooling. Windows that lie within the input, 1 or 2 apart, are compared in lanes; the others one by one. Those of
// 2 by 2 side by side have a kernel that takes many rows.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/pooling.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kLongRow = 32;  // from here on it pays to look for the maximum first and then for its place

template <class T>
bool beats(T x, T best) {
  if constexpr (std::is_floating_point_v<T>) return best == best && !(x <= best);  // the first NaN stays
  else return x > best;
}

template <class T>
struct Winner {
  T value;
  std::int64_t at;  // in the plane
};

/// Lets the elements begin, begin + step, ... below `end` of a row try, which stands at `row_at` in the plane.
template <class T>
void challenge(const T* row, std::int64_t row_at, std::int64_t begin, std::int64_t end, std::int64_t step,
               Winner<T>& best) {
  if constexpr (std::is_floating_point_v<T>) {
    if (step == 1 && end - begin >= kLongRow) {
      const T top = simd().of<T>().max(row + begin, end - begin);
      if (!beats(top, best.value)) return;
      std::int64_t k = begin;
      while (row[k] != top && row[k] == row[k]) ++k;
      best = {row[k], row_at + k};
      return;
    }
  }
  for (std::int64_t k = begin; k < end; k += step)
    if (beats(row[k], best.value)) best = {row[k], row_at + k};
}

template <class T>
Winner<T> winner_of(const PoolPlan& plan, const T* plane, const ResultRow& at, std::int64_t column) {
  const PoolAxis &d = plan.depth, &h = plan.rows, &w = plan.columns;
  const std::int64_t first = (d.begin[at.depth] * h.in + h.begin[at.row]) * w.in + w.begin[column];
  Winner<T> best{plane[first], first};
  for (std::int64_t i = d.begin[at.depth]; i < d.end[at.depth]; i += d.dilation)
    for (std::int64_t j = h.begin[at.row]; j < h.end[at.row]; j += h.dilation) {
      const std::int64_t row_at = (i * h.in + j) * w.in;
      challenge(plane + row_at, row_at, w.begin[column], w.end[column], w.dilation, best);
    }
  return best;
}

/// Writes where result number `i` comes from.
void write_place(const PoolPlan& plan, const TensorImpl& places, std::int64_t i, std::int64_t winner,
                 const ResultRow& at, std::int64_t column) {
  if (places.dtype == DType::int32) {
    places.as<std::int32_t>()[i] = static_cast<std::int32_t>(winner);
  } else if (places.dtype == DType::int64) {
    places.as<std::int64_t>()[i] = winner;
  } else {
    const PoolAxis &d = plan.depth, &h = plan.rows, &w = plan.columns;
    const std::int64_t d_tap = (winner / (h.in * w.in) - d.start(at.depth)) / d.dilation;
    const std::int64_t h_tap = (winner / w.in % h.in - h.start(at.row)) / h.dilation;
    const std::int64_t w_tap = (winner % w.in - w.start(column)) / w.dilation;
    places.as<std::uint8_t>()[i] = static_cast<std::uint8_t>((d_tap * h.kernel + h_tap) * w.kernel + w_tap);
  }
}

/// One row of results. `lanes`: whether windows within the input are compared in lanes.
template <class T>
void max_row(const PoolPlan& plan, const T* plane, const ResultRow& at, bool lanes, TensorImpl& out,
             TensorImpl* places) {
  const PoolAxis& w = plan.columns;
  const std::int64_t first = ((at.plane * plan.depth.out + at.depth) * plan.rows.out + at.row) * w.out;
  T* to = out.as<T>() + first;
  const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t column = begin; column < end; ++column) {
      const Winner<T> winner = winner_of(plan, plane, at, column);
      to[column] = winner.value;
      if (places != nullptr) write_place(plan, *places, first + column, winner.at, at, column);
    }
  };
  if constexpr (std::is_floating_point_v<T>) {
    if (lanes && w.whole_begin < w.whole_end) {
      const WindowRows<T> reach(plan, plane, at);
      const PoolRow<T> row{reach.rows, reach.codes, reach.count, w.start(w.whole_begin),
                           w.kernel,   w.stride,    w.dilation,  w.whole_end - w.whole_begin};
      std::uint8_t* codes = places == nullptr ? nullptr : places->as<std::uint8_t>() + first + w.whole_begin;
      simd().of<T>().max_pool_row(row, to + w.whole_begin, codes);
      one_by_one(0, w.whole_begin);
      one_by_one(w.whole_end, w.out);
      return;
    }
  }
  one_by_one(0, w.out);
}

/// Whether windows are pairs of neighbours, one behind the other.
bool pairs(const PoolAxis& a) {
  return a.kernel == 2 && a.stride == 2 && a.dilation == 1 && a.before == 0 && a.whole_end == a.out;
}
/// Whether each place is a window.
bool stands_still(const PoolAxis& a) { return a.kernel == 1 && a.stride == 1 && a.before == 0 && a.out == a.in; }

/// All rows of results, of windows of 2 by 2 side by side.
template <class T>
void max_pairs(const PoolPlan& plan, const T* x, std::int64_t rows, T* out, std::uint8_t* codes) {
  const PoolAxis &h = plan.rows, &w = plan.columns;
  base::parallel_for(rows, plan.row_grain(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin, count = 0; i < end; i += count) {
      const std::int64_t plane = i / h.out, row = i % h.out, first = i * w.out;
      count = std::min(h.out - row, end - i);
      simd().of<T>().max_pool_pairs({x + (plane * h.in + 2 * row) * w.in, w.in, out + first,
                                     codes == nullptr ? nullptr : codes + first, count, w.out});
    }
  });
}

/// Places of any kind as places in the plane.
class PlaceReader {
 public:
  PlaceReader(const PoolTask& task, const TensorImpl& places) : plan_(task), places_(places) {
    if (places.dtype != DType::uint8) return;
    const PoolAxis &d = plan_.depth, &h = plan_.rows, &w = plan_.columns;
    std::int64_t tap = 0;
    for (std::int64_t i = 0; i < d.kernel; ++i)
      for (std::int64_t j = 0; j < h.kernel; ++j)
        for (std::int64_t k = 0; k < w.kernel; ++k)
          offsets_[tap++] = (i * d.dilation * h.in + j * h.dilation) * w.in + k * w.dilation;
  }

  std::int64_t in() const { return plan_.depth.in * plan_.rows.in * plan_.columns.in; }
  std::int64_t results() const { return plan_.result_rows() * plan_.columns.out; }

  /// Calls `use(number of the result, its place)`, both within the plane, for every result of the plane.
  template <class Use>
  void each(std::int64_t plane, Use use) const {
    if (places_.dtype == DType::uint8) each_of_bytes(places_.as<std::uint8_t>() + plane * results(), use);
    else if (places_.dtype == DType::int32) each_of(places_.as<std::int32_t>() + plane * results(), use);
    else each_of(places_.as<std::int64_t>() + plane * results(), use);
  }

 private:
  template <class Place, class Use>
  void each_of(const Place* places, Use& use) const {
    const std::int64_t count = results();
    for (std::int64_t i = 0; i < count; ++i) use(i, std::int64_t{places[i]});
  }
  template <class Use>
  void each_of_bytes(const std::uint8_t* taps, Use& use) const {
    const PoolAxis &d = plan_.depth, &h = plan_.rows, &w = plan_.columns;
    const std::int64_t width = w.out, stride = w.stride;
    std::int64_t i = 0;
    for (std::int64_t depth = 0; depth < d.out; ++depth)
      for (std::int64_t row = 0; row < h.out; ++row) {
        std::int64_t corner = (d.start(depth) * h.in + h.start(row)) * w.in + w.start(0);
        for (const std::int64_t end = i + width; i < end; ++i, corner += stride) use(i, corner + offsets_[taps[i]]);
      }
  }

  PoolPlan plan_;
  const TensorImpl& places_;
  std::int64_t offsets_[PoolTask::kByteTaps];  // of the places of a window from its first
};

}  // namespace

void max_pool(const PoolTask& task, const TensorImpl& x, TensorImpl& out, TensorImpl* places) {
  if (out.numel() == 0) return;
  const PoolPlan plan(task);
  const std::int64_t planes = out.numel() / task.window.out(), in = task.window.in();
  const bool lanes = task.fits_byte() && plan.columns.stride <= 2;
  const bool in_pairs = stands_still(plan.depth) && pairs(plan.rows) && pairs(plan.columns);
  core::visit_native(x.dtype, [&]<class T>(core::Type<T>) {
    const T* from = x.as<T>();
    if constexpr (std::is_floating_point_v<T>) {
      std::uint8_t* const codes = places == nullptr ? nullptr : places->as<std::uint8_t>();
      if (in_pairs) return max_pairs(plan, from, planes * plan.result_rows(), out.as<T>(), codes);
    }
    base::parallel_for(planes * plan.result_rows(), plan.row_grain(), [&](std::int64_t begin, std::int64_t end) {
      ResultRow at(plan, begin);
      for (std::int64_t i = begin; i < end; ++i, at.next()) max_row(plan, from + at.plane * in, at, lanes, out, places);
    });
  });
}

void max_pool_positions(const PoolTask& task, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  const PlaceReader reader(task, places);
  const std::int64_t count = reader.results();
  base::parallel_for(out.numel() / count, kCheapGrain / count + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      std::int64_t* to = out.as<std::int64_t>() + plane * count;
      reader.each(plane, [=](std::int64_t i, std::int64_t at) { to[i] = at; });
    }
  });
}

void max_pool_gather(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  const PlaceReader reader(task, places);
  const std::int64_t count = reader.results(), in = reader.in();
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(out.numel() / count, kCheapGrain / count + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* from = x.as<T>() + plane * in;
        T* to = out.as<T>() + plane * count;
        reader.each(plane, [=](std::int64_t i, std::int64_t at) { to[i] = from[at]; });
      }
    });
  });
}

void max_pool_scatter(const PoolTask& task, const TensorImpl& grad, const TensorImpl& places, TensorImpl& out) {
  if (out.numel() == 0) return;
  const PlaceReader reader(task, places);
  const std::int64_t count = reader.results(), in = reader.in();
  core::visit_floating(grad.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(out.numel() / in, kCheapGrain / (in + count) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t plane = begin; plane < end; ++plane) {
        const T* from = grad.as<T>() + plane * count;
        T* to = out.as<T>() + plane * in;
        std::memset(to, 0, sizeof(T) * static_cast<std::size_t>(in));
        reader.each(plane, [=](std::int64_t i, std::int64_t at) { to[at] += from[i]; });
      }
    });
  });
}

}  // namespace capstan::on_cpu
