// Windows of pooling, places of planes and taps of resampling, beside plain loops and the CPU.
#include <set>
#include <utility>

#include "cuda/planes.hpp"
#include "cuda/pool_plan.hpp"
#include "cuda/taps.hpp"
#include "tests/gpu/paper.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;
using namespace tests;

namespace {

/// The places of window o along an axis, and which of its taps each of them is.
std::vector<std::pair<std::int64_t, std::int64_t>> plain_window(const core::WindowAxis& a, bool adaptive,
                                                                std::int64_t o) {
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  if (adaptive) {
    for (std::int64_t i = o * a.in / a.out; i < ((o + 1) * a.in + a.out - 1) / a.out; ++i) places.push_back({i, 0});
    return places;
  }
  for (std::int64_t tap = 0; tap < a.kernel; ++tap) {
    const std::int64_t place = o * a.stride + tap * a.dilation - a.before;
    if (place >= 0 && place < a.in) places.push_back({place, tap});
  }
  return places;
}

template <class I>
void check_axis(const core::WindowAxis& a, bool adaptive) {
  const PoolAxis<I> axis(a, adaptive);
  INFO("in " << a.in << ", out " << a.out << ", kernel " << a.kernel << ", stride " << a.stride << ", dilation "
             << a.dilation << ", before " << a.before << (adaptive ? ", adaptive" : ""));
  for (std::int64_t o = 0; o < a.out; ++o) {
    const auto expected = plain_window(a, adaptive, o);
    const PoolRange<I> range = axis.window(static_cast<I>(o));
    Numbers places;
    for (I i = range.begin; i < range.end; i += axis.dilation) places.push_back(i);
    REQUIRE(places.size() == expected.size());
    for (std::size_t k = 0; k < places.size(); ++k) {
      const auto [place, tap] = expected[k];
      REQUIRE(places[k] == place);
      const auto i = static_cast<I>(place), result = static_cast<I>(o);
      REQUIRE(axis.first_window(i) <= result);
      REQUIRE(axis.last_window(i) > result);
      if (adaptive) continue;
      REQUIRE(range.tap + static_cast<I>(k) == tap);
      REQUIRE(axis.tap_of(result, i) == tap);
      REQUIRE(axis.place_of(result, static_cast<I>(tap)) == place);
    }
  }
}

/// The places that windows of means count, borders included: what lies beyond them does not count.
double plain_count(const core::WindowAxis& a, std::int64_t o, bool padded) {
  double count = 0;
  for (std::int64_t tap = 0; tap < a.kernel; ++tap) {
    const std::int64_t place = o * a.stride + tap - a.before;
    if (padded ? place < a.in + a.after : place >= 0 && place < a.in) ++count;
  }
  return count;
}

/// Windows in which something stands, as pooling makes them.
bool has_places(const core::WindowAxis& a) {
  for (std::int64_t o = 0; o < a.out; ++o)
    if (plain_window(a, false, o).empty()) return false;
  return a.out > 0;
}

/// Axes of sliding windows; the last window may reach beyond the borders, as with `ceil`.
std::vector<core::WindowAxis> sliding_axes() {
  std::vector<core::WindowAxis> list;
  for (std::int64_t in = 1; in <= 8; ++in)
    for (std::int64_t kernel = 1; kernel <= 4; ++kernel)
      for (std::int64_t stride = 1; stride <= 4; ++stride)
        for (std::int64_t dilation = 1; dilation <= 3; ++dilation)
          for (std::int64_t before = 0; before <= 2; ++before)
            for (const std::int64_t further : {0, 1}) {
              core::WindowAxis a{in, 1, kernel, stride, kernel == 1 ? 1 : dilation, before, before};
              const std::int64_t room = in + 2 * before - a.extent();
              if (room < 0) continue;
              a.out = room / stride + 1 + (room % stride != 0 ? further : 0);
              if (has_places(a)) list.push_back(a);
            }
  return list;
}

core::PoolTask random_task(PaperRandom& random, const std::vector<core::WindowAxis>& axes) {
  core::PoolTask task;
  task.adaptive = random.one_in(3);
  task.window.axes = 1 + static_cast<int>(random.below(3));
  for (int i = 0; i < task.window.axes; ++i) {
    core::WindowAxis& a = task.window.axis[i];
    a = axes[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(axes.size())))];
    if (task.adaptive) a = {1 + random.below(8), 1 + random.below(8), 1, 1, 1, 0, 0};
  }
  return task;
}

/// The places of a window in the plane, in the order in which they lie there.
Numbers plain_places(const core::PoolTask& task, const std::int64_t* at) {
  Numbers places = {0};
  for (int i = 0; i < task.window.axes; ++i) {
    const core::WindowAxis& a = task.window.axis[i];
    Numbers next;
    for (const std::int64_t before : places)
      for (const auto& [place, tap] : plain_window(a, task.adaptive, at[i])) next.push_back(before * a.in + place);
    places = next;
  }
  return places;
}

template <class I>
void check_windows(const core::PoolTask& task) {
  const PoolPlan<I> plan(task);
  Numbers sizes = {2};  // planes
  for (int i = 0; i < task.window.axes; ++i) sizes.push_back(task.window.axis[i].out);
  REQUIRE(plan.results.count() * 2 == shape_of(sizes).numel());
  I number = 0;
  each_place(shape_of(sizes), [&](const std::int64_t* index) {
    const PoolSpot<I> at = plan.results.find(number);
    REQUIRE(at.plane == index[0]);
    REQUIRE(plan.out_at(at.d, at.h, at.w) == number % plan.out_plane);
    const Numbers expected = plain_places(task, index + 1);
    const PoolWindow<I> window(plan, at);
    REQUIRE(window.count == static_cast<I>(expected.size()));
    for (I k = 0; k < window.count; ++k) REQUIRE(window.place(k) == expected[static_cast<std::size_t>(k)]);
    ++number;
  });
}

// --- resampling ---

/// How much of place i is in place o, as the CPU has it: [i, o].
Tensor weights_on_cpu(std::int64_t in, const InterpolateOptions& options) {
  const Tensor ones_in_turn = reshape(eye(in, -1, {DType::float64, cpu()}), {in, 1, in, 1});
  const Tensor y = interpolate(ones_in_turn, options);
  return reshape(y, {in, y.size(2)});
}

void check_taps(std::int64_t in, double step, const InterpolateOptions& options) {
  const Tensor table = weights_on_cpu(in, options);
  const std::vector<double> expected = values(table);
  const std::int64_t out = table.size(1);
  core::Resample task;
  task.mode = options.mode, task.align_corners = options.align_corners, task.antialias = options.antialias;
  const TapRule rule(task, {in, out, step});
  INFO("from " << in << " to " << out << ", mode " << static_cast<int>(options.mode) << ", align_corners "
               << options.align_corners << ", antialias " << options.antialias);
  std::vector<TapSpan> spans;
  for (std::int64_t o = 0; o < out; ++o) {
    const TapSpan span = rule.reads(o);
    spans.push_back(span);
    REQUIRE((span.begin >= 0 && span.begin < span.end && span.end <= in));
    REQUIRE(span.end - span.begin <= rule.most(false));
    for (std::int64_t i = 0; i < in; ++i) {
      const bool read = i >= span.begin && i < span.end;
      const double weight = read ? rule.weight(o, i) / rule.total(o) : 0;
      REQUIRE(std::fabs(weight - expected[static_cast<std::size_t>(i * out + o)]) <= 1e-12);
    }
  }
  for (std::int64_t i = 0; i < in; ++i) {
    const TapSpan readers = rule.readers(i);
    REQUIRE(readers.end - readers.begin <= rule.most(true));
    for (std::int64_t o = 0; o < out; ++o) {
      const TapSpan& span = spans[static_cast<std::size_t>(o)];
      REQUIRE((o >= readers.begin && o < readers.end) == (i >= span.begin && i < span.end));
    }
  }
}

double step_between(std::int64_t in, std::int64_t out, bool align_corners) {
  if (!align_corners) return static_cast<double>(in) / static_cast<double>(out);
  return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
}

}  // namespace

TEST_CASE("windows along an axis have their places, and places their windows", "[gpu][plans]") {
  for (const core::WindowAxis& a : sliding_axes()) {
    check_axis<std::int32_t>(a, false);
    check_axis<std::int64_t>(a, false);
  }
  for (std::int64_t in = 1; in <= 20; ++in)
    for (std::int64_t out = 1; out <= 20; ++out) check_axis<std::int32_t>({in, out, 1, 1, 1, 0, 0}, true);
}

TEST_CASE("windows of means count what they are to count", "[gpu][plans]") {
  for (const core::WindowAxis& a : sliding_axes()) {
    if (a.dilation != 1) continue;
    const PoolAxis<std::int32_t> axis(a, false);
    for (std::int64_t o = 0; o < a.out; ++o)
      for (const bool padded : {false, true})
        REQUIRE(axis.counted(static_cast<std::int32_t>(o), padded) == plain_count(a, o, padded));
  }
}

TEST_CASE("windows over planes of up to three axes have their places in order", "[gpu][plans]") {
  PaperRandom random(41);
  const std::vector<core::WindowAxis> axes = sliding_axes();
  for (int trial = 0; trial < 400; ++trial) {
    const core::PoolTask task = random_task(random, axes);
    check_windows<std::int32_t>(task);
    check_windows<std::int64_t>(task);
  }
}

TEST_CASE("runs of inputs side by side have all inputs", "[gpu][plans]") {
  PaperRandom random(42);
  const std::vector<core::WindowAxis> axes = sliding_axes();
  for (int trial = 0; trial < 200; ++trial) {
    const PoolPlan<std::int32_t> plan(random_task(random, axes));
    for (const int length : {1, 2, 4, 8}) {
      const PoolGrid<std::int32_t> runs = plan.runs(length);
      std::set<std::int32_t> seen;
      for (std::int32_t number = 0; number < runs.count(); ++number) {
        const PoolSpot<std::int32_t> at = runs.find(number);
        REQUIRE(at.plane == 0);
        for (std::int32_t k = at.w * length; k < std::min((at.w + 1) * length, plan.w.in); ++k)
          REQUIRE(seen.insert(plan.in_at(at.d, at.h, k)).second);
      }
      REQUIRE(static_cast<std::int32_t>(seen.size()) == plan.in_plane);
    }
  }
}

TEST_CASE("planes are pooled in parts that 32 bits reach, and windows by one thread, a warp or a block",
          "[gpu][plans]") {
  core::PoolTask task;
  task.window.axes = 2;
  for (core::WindowAxis* a : {&task.window.axis[0], &task.window.axis[1]}) *a = {1 << 14, 1 << 13, 2, 2, 1, 0, 0};
  std::int64_t next = 0;
  for_planes(task, 100, [&](std::int64_t first, std::int64_t planes) {
    CHECK(first == next);
    CHECK(planes * task.window.in() < std::int64_t{1} << 31);
    next += planes;
  });
  CHECK(next == 100);
  CHECK(fits_32_bits(task));
  CHECK(threads_of_window(task) == 1);
  task.window.axis[0] = task.window.axis[1] = {56, 1, 56, 1, 1, 0, 0};
  CHECK(threads_of_window(task) == 256);
  task.window.axis[0] = task.window.axis[1] = {1, 1, 1, 1, 1, 0, 0};
  CHECK(threads_of_window(task) == 1);
  task.window.axis[0].in = std::int64_t{1} << 33;
  CHECK_FALSE(fits_32_bits(task));
}

TEST_CASE("places of planes are counted row by row", "[gpu][plans]") {
  for (const PlaceSizes& sizes : {PlaceSizes{{1, 1, 7}}, PlaceSizes{{1, 4, 5}}, PlaceSizes{{3, 4, 5}}}) {
    std::int64_t number = 0;
    each_place({sizes.axis[0], sizes.axis[1], sizes.axis[2]}, [&](const std::int64_t* index) {
      const PlaceOf place = sizes.place(number++);
      for (int i = 0; i < 3; ++i) REQUIRE(place.axis[i] == index[i]);
    });
    CHECK(number == sizes.count());
  }
  const PaperTensor x({2, 3, 4, 5}, {1000, 100, -7, 2});
  const PlaneStrides strides(x);
  CHECK(strides.batch == 1000);
  CHECK(strides.channel == 100);
  CHECK(strides.at({{9, 3, 4}}) == -7 * 3 + 2 * 4);  // the axis in front is missing
}

TEST_CASE("grids over places and planes have blocks for all, within the limits of a grid", "[gpu][plans]") {
  for (const std::int64_t places : {0, 1, 255, 256, 257, 100000, 1 << 24})
    for (const std::int64_t planes : {1, 2, 100, 65535, 65536, 1 << 24}) {
      const PlaneGrid grid(places, planes);
      INFO(places << " places, " << planes << " planes");
      REQUIRE((grid.places == 0) == (places == 0));
      REQUIRE((grid.planes >= 1 && grid.planes <= 65535u));
      REQUIRE(grid.planes <= planes);
      REQUIRE(std::int64_t{grid.places} * grid.planes <= kMostBlocks);
    }
}

TEST_CASE("places that are resampled read what they read on the CPU, and know their readers", "[gpu][plans]") {
  const DeviceScope on_cpu(cpu());
  for (std::int64_t in = 1; in <= 11; ++in)
    for (const std::int64_t out : {1, 2, 3, 4, 5, 7, 10, 11, 16, 23}) {
      const auto check = [&](InterpolateMode mode, bool align_corners, bool antialias) {
        check_taps(in, step_between(in, out, align_corners),
                   {.size = {out, 1}, .mode = mode, .align_corners = align_corners, .antialias = antialias});
      };
      for (const InterpolateMode mode :
           {InterpolateMode::nearest, InterpolateMode::nearest_exact, InterpolateMode::area})
        check(mode, false, false);
      for (const InterpolateMode mode : {InterpolateMode::linear, InterpolateMode::cubic})
        for (const bool align_corners : {false, true})
          for (const bool antialias : {false, true}) check(mode, align_corners, antialias);
    }
}

TEST_CASE("factors of all kinds lead to the places that they lead to on the CPU", "[gpu][plans]") {
  const DeviceScope on_cpu(cpu());
  for (const std::int64_t in : {1, 3, 10, 13})
    for (const double factor : {0.3, 0.5, 1.0, 1.7, 3.0}) {
      if (std::floor(static_cast<double>(in) * factor) < 1) continue;
      for (const InterpolateMode mode :
           {InterpolateMode::nearest, InterpolateMode::nearest_exact, InterpolateMode::linear, InterpolateMode::cubic})
        for (const bool antialias : {false, true}) {
          const bool smooth = mode == InterpolateMode::linear || mode == InterpolateMode::cubic;
          if (antialias && !smooth) continue;
          check_taps(in, 1 / factor, {.scale_factor = {factor, 1.0}, .mode = mode, .antialias = antialias});
        }
    }
}
