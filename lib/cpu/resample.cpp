// Resampling along axes. A place of the result is a weighted sum of places of the input, and its weights are products
// of one for each axis: so each axis has a table of what its places read. The transposed map has the tables transposed.
//
// A row of the result sums the rows of the input around it in double, and then reads that sum along the last axis: one
// row of memory for each thread, and no result depends on their number.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/positions.hpp"

namespace capstan::on_cpu {
namespace {

using core::Resample;
using core::ResampledAxis;

struct Tap {
  std::int64_t place;
  double weight;
};

/// What a place reads that reads one other, or two; else the second has no weight.
struct TwoTaps {
  Tap first, second;
};

/// What each place of a result reads along one axis.
class Taps {
 public:
  /// For the place at hand. What has no weight is not read: 0 times infinity would be NaN.
  void add(std::int64_t place, double weight) {
    if (weight != 0) taps_.push_back({place, weight});
  }
  void close_place() { ends_.push_back(taps_.size()); }

  std::span<const Tap> of(std::int64_t place) const noexcept {
    const auto i = static_cast<std::size_t>(place);
    return {taps_.data() + ends_[i], ends_[i + 1] - ends_[i]};
  }
  /// The list of what each place reads, or an empty one if some place reads nothing or more than two.
  core::ScratchVector<TwoTaps> by_two() const {
    core::ScratchVector<TwoTaps> list;
    list.reserve(ends_.size() - 1);
    for (std::size_t i = 0; i + 1 < ends_.size(); ++i) {
      const std::size_t count = ends_[i + 1] - ends_[i];
      if (count < 1 || count > 2) return {};
      const Tap& first = taps_[ends_[i]];
      list.push_back({first, count == 2 ? taps_[ends_[i] + 1] : Tap{first.place, 0}});
    }
    return list;
  }
  /// Who reads each of `places`, in ascending order.
  Taps transposed(std::int64_t places) const {
    Taps result;
    core::ScratchVector<std::size_t> next(static_cast<std::size_t>(places) + 1, 0);
    for (const Tap& tap : taps_) ++next[static_cast<std::size_t>(tap.place) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    result.ends_ = next;
    result.taps_.resize(taps_.size());
    for (std::size_t reader = 0; reader + 1 < ends_.size(); ++reader)
      for (std::size_t k = ends_[reader]; k < ends_[reader + 1]; ++k) {
        std::size_t& at = next[static_cast<std::size_t>(taps_[k].place)];
        result.taps_[at++] = {static_cast<std::int64_t>(reader), taps_[k].weight};
      }
    return result;
  }

 private:
  core::ScratchVector<Tap> taps_;
  core::ScratchVector<std::size_t> ends_ = {0};
};

/// x >= 0 rounded down, and up if only roundings keep it below: 3 * (1 / 0.3) is 10.
std::int64_t whole_part(double x) { return static_cast<std::int64_t>(std::floor(x + x * 0x1p-50)); }

/// Keys' cubic convolution kernel.
double keys(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

void add_linear(Taps& taps, const ResampledAxis& axis, double at) {
  const double inside = std::max(at, 0.0);
  const std::int64_t below = std::min(static_cast<std::int64_t>(inside), axis.in - 1);
  const double part = below + 1 < axis.in ? inside - static_cast<double>(below) : 0;
  taps.add(below, 1 - part);
  taps.add(below + 1, part);
}

void add_cubic(Taps& taps, const ResampledAxis& axis, double at) {
  const double below = std::floor(at), part = at - below;
  for (int k = -1; k <= 2; ++k) {
    const std::int64_t place = static_cast<std::int64_t>(below) + k;
    taps.add(std::clamp<std::int64_t>(place, 0, axis.in - 1), keys(part - k, -0.75));
  }
}

void add_mean(Taps& taps, const ResampledAxis& axis, std::int64_t place) {
  const std::int64_t begin = place * axis.in / axis.out, end = ((place + 1) * axis.in + axis.out - 1) / axis.out;
  for (std::int64_t i = begin; i < end; ++i) taps.add(i, 1 / static_cast<double>(end - begin));
}

/// All that a place covers, by a kernel that is stretched as far as places are apart.
void add_filtered(Taps& taps, bool cubic, const ResampledAxis& axis, double centre) {
  const double stretch = std::max(axis.step, 1.0), reach = (cubic ? 2 : 1) * stretch;
  const std::int64_t begin = std::max<std::int64_t>(static_cast<std::int64_t>(centre - reach + 0.5), 0);
  const std::int64_t end = std::min(static_cast<std::int64_t>(centre + reach + 0.5), axis.in);
  const auto weight = [=](std::int64_t place) {
    const double x = (static_cast<double>(place) + 0.5 - centre) / stretch;
    return cubic ? keys(x, -0.5) : std::max(1 - std::fabs(x), 0.0);
  };
  double total = 0;
  for (std::int64_t i = begin; i < end; ++i) total += weight(i);
  for (std::int64_t i = begin; i < end; ++i) taps.add(i, weight(i) / total);
}

void add_place(Taps& taps, const Resample& task, const ResampledAxis& axis, std::int64_t place) {
  const double number = static_cast<double>(place), centre = (number + 0.5) * axis.step;
  const double at = task.align_corners ? number * axis.step : centre - 0.5;
  switch (task.mode) {
    case InterpolateMode::nearest: taps.add(std::min(whole_part(number * axis.step), axis.in - 1), 1); break;
    case InterpolateMode::nearest_exact: taps.add(std::min(whole_part(centre), axis.in - 1), 1); break;
    case InterpolateMode::area: add_mean(taps, axis, place); break;
    case InterpolateMode::linear:
      if (task.antialias) add_filtered(taps, false, axis, centre);
      else if (axis.in == axis.out) taps.add(place, 1);
      else add_linear(taps, axis, at);
      break;
    case InterpolateMode::cubic:
      if (task.antialias) add_filtered(taps, true, axis, centre);
      else add_cubic(taps, axis, at);
      break;
  }
  taps.close_place();
}

/// Three axes, those that are missing in front with one place.
struct Plan {
  std::int64_t planes = 0, from[3] = {1, 1, 1}, to[3] = {1, 1, 1};
  Taps taps[3];

  Plan(std::int64_t count, const Resample& task) : planes(count) {
    for (int i = 0; i < 3; ++i) {
      const int own = i - (3 - task.axes);
      if (own < 0) {
        taps[i].add(0, 1);
        taps[i].close_place();
        continue;
      }
      const ResampledAxis& axis = task.axis[own];
      for (std::int64_t place = 0; place < axis.out; ++place) add_place(taps[i], task, axis, place);
      if (task.adjoint) taps[i] = taps[i].transposed(axis.in);
      from[i] = task.adjoint ? axis.out : axis.in;
      to[i] = task.adjoint ? axis.in : axis.out;
    }
  }
  std::int64_t rows() const { return planes * to[0] * to[1]; }
  std::int64_t grain() const { return kExpensiveGrain / (from[2] + to[2]) + 1; }
};

/// A row of the result, by its number: its place along the first two axes, and where its plane of the input begins.
struct Row {
  std::int64_t first, second, plane;
  Row(const Plan& plan, std::int64_t number)
      : first(number / plan.to[1] % plan.to[0]),
        second(number % plan.to[1]),
        plane(number / (plan.to[0] * plan.to[1]) * plan.from[0] * plan.from[1] * plan.from[2]) {}
};

template <class T>
void sum_rows(const T* plane, const Plan& plan, const Row& row, double* sums) {
  const std::int64_t count = plan.from[2];
  bool first = true;
  for (const Tap& outer : plan.taps[0].of(row.first))
    for (const Tap& inner : plan.taps[1].of(row.second)) {
      const double weight = outer.weight * inner.weight;
      const T* from = plane + (outer.place * plan.from[1] + inner.place) * count;
      if (first)
        for (std::int64_t i = 0; i < count; ++i) sums[i] = weight * static_cast<double>(from[i]);
      else
        for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<double>(from[i]);
      first = false;
    }
  if (first) std::fill(sums, sums + count, 0.0);  // nobody reads this place: its gradient is 0
}

/// Reads sums of rows along the last axis. A second tap without weight does not count, whatever it reads: 0 times
/// infinity would be NaN.
template <class T>
void read_by_two(const double* sums, const TwoTaps* taps, std::int64_t width, T* to) {
  for (std::int64_t i = 0; i < width; ++i) {
    const Tap first = taps[i].first, second = taps[i].second;
    const double more = second.weight * sums[second.place];
    to[i] = static_cast<T>(first.weight * sums[first.place] + (second.weight != 0 ? more : 0.0));
  }
}
template <class T>
void read_all(const double* sums, const Taps& taps, std::int64_t width, T* to) {
  for (std::int64_t i = 0; i < width; ++i) {
    double sum = 0;
    for (const Tap& tap : taps.of(i)) sum += tap.weight * sums[tap.place];
    to[i] = static_cast<T>(sum);
  }
}

template <class T>
void resample_rows(const T* x, const Plan& plan, T* out) {
  const std::int64_t bytes = plan.from[2] * static_cast<std::int64_t>(sizeof(double)), width = plan.to[2];
  constexpr std::int64_t kWorthAList = 4;  // rows that read it
  const auto by_two = plan.rows() < kWorthAList ? core::ScratchVector<TwoTaps>() : plan.taps[2].by_two();
  for_lanes(plan.rows(), plan.grain(), bytes, [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
    auto* sums = reinterpret_cast<double*>(scratch);
    for (std::int64_t number = begin; number < end; ++number) {
      const Row row(plan, number);
      sum_rows(x + row.plane, plan, row, sums);
      if (by_two.empty()) read_all(sums, plan.taps[2], width, out + number * width);
      else read_by_two(sums, by_two.data(), width, out + number * width);
    }
  });
}

/// The same where each place reads one other as it is. Rows that read the same one are copies of the first of them.
template <class Word>
void pick_rows(const Word* x, const Plan& plan, Word* out) {
  const std::int64_t width = plan.to[2];
  core::ScratchVector<std::int64_t> list;
  list.reserve(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < width; ++i) list.push_back(plan.taps[2].of(i)[0].place);
  const std::int64_t* const places = list.data();
  base::parallel_for(plan.rows(), plan.grain(), [&](std::int64_t begin, std::int64_t end) {
    const Word* before = nullptr;
    for (std::int64_t number = begin; number < end; ++number) {
      const Row row(plan, number);
      const std::int64_t first = plan.taps[0].of(row.first)[0].place, second = plan.taps[1].of(row.second)[0].place;
      const Word* const from = x + row.plane + (first * plan.from[1] + second) * plan.from[2];
      Word* const to = out + number * width;
      if (from == before) copy_run(to - width, to, width);
      else
        for (std::int64_t i = 0; i < width; ++i) to[i] = from[places[i]];
      before = from;
    }
  });
}

}  // namespace

void resample(const TensorImpl& x, const Resample& task, TensorImpl& out) {
  if (out.numel() == 0) return;
  const Tensor dense = packed(x);
  const TensorImpl& from = *dense.impl();
  const Plan plan(x.shape[0] * x.shape[1], task);
  const bool nearest = task.mode == InterpolateMode::nearest || task.mode == InterpolateMode::nearest_exact;
  if (nearest && !task.adjoint)
    visit_words(size_of(x.dtype),
                [&]<class Word>(core::Type<Word>) { pick_rows<Word>(from.as<Word>(), plan, out.as<Word>()); });
  else
    core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) { resample_rows<T>(from.as<T>(), plan, out.as<T>()); });
}

}  // namespace capstan::on_cpu
