// Interpolation, samples at places, and channels that become pixels, against published examples and plain loops.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Mode = InterpolateMode;
using Doubles = std::vector<double>;

Tensor counting(const Shape& shape) { return reshape(arange(0.0, shape.numel(), 1, {.dtype = DType::float64}), shape); }
Tensor noise(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

double keys(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * (x * x * x - 5 * x * x + 8 * x - 4) : 0;
}

/// How much of input place i is in place o of the result, straight from the contract. `factor` 0 is for a size.
struct Axis {
  std::int64_t n, m;
  double factor;
  Mode mode;
  bool corners, antialias;

  double step() const {
    if (corners) return m > 1 ? static_cast<double>(n - 1) / static_cast<double>(m - 1) : 0;
    return factor > 0 ? 1 / factor : static_cast<double>(n) / static_cast<double>(m);
  }
  double weight(std::int64_t i, std::int64_t o) const {
    const double place = static_cast<double>(i), out = static_cast<double>(o), last = static_cast<double>(n - 1);
    const double at = corners ? out * step() : (out + 0.5) * step() - 0.5;
    switch (mode) {
      case Mode::nearest: return i == std::min(factor > 0 ? nearest_by_factor(out) : o * n / m, n - 1) ? 1 : 0;
      case Mode::nearest_exact:
        return i == std::min(factor > 0 ? nearest_by_factor(out + 0.5) : (2 * o + 1) * n / (2 * m), n - 1) ? 1 : 0;
      case Mode::area: return i >= o * n / m && i * m < (o + 1) * n ? 1 : 0;  // shared out below
      case Mode::linear:
        if (antialias) return std::max(1 - std::fabs(distance(place, out)), 0.0);
        if (n == m) return i == o ? 1 : 0;
        return std::max(1 - std::fabs(place - std::clamp(at, 0.0, last)), 0.0);
      case Mode::cubic: break;
    }
    if (antialias) return keys(distance(place, out), -0.5);
    double sum = 0;
    for (double k = std::floor(at) - 1; k <= std::floor(at) + 2; ++k)
      if (std::clamp(k, 0.0, last) == place) sum += keys(at - k, -0.75);
    return sum;
  }
  std::int64_t nearest_by_factor(double out) const { return static_cast<std::int64_t>(std::floor(out / factor)); }
  double distance(double place, double out) const {
    return (place + 0.5 - (out + 0.5) * step()) / std::max(step(), 1.0);
  }
  /// Row o of the matrix; where the weights are shares they are divided by their sum.
  Doubles row(std::int64_t o) const {
    Doubles weights;
    for (std::int64_t i = 0; i < n; ++i) weights.push_back(weight(i, o));
    if (mode != Mode::area && !antialias) return weights;
    double sum = 0;
    for (const double w : weights) sum += w;
    for (double& w : weights) w /= sum;
    return weights;
  }
};

/// x with the matrix of an axis applied to its axis number `along`.
Tensor applied(const Tensor& x, int along, const Axis& axis) {
  const Doubles from = values(x);
  std::int64_t inner = 1, sizes[kMaxRank];
  for (int i = 0; i < x.rank(); ++i) sizes[i] = i == along ? axis.m : x.size(i);
  for (int i = along + 1; i < x.rank(); ++i) inner *= x.size(i);
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(x.rank())));
  Doubles to;
  for (std::int64_t k = 0; k < shape.numel(); ++k) {
    const std::int64_t o = k / inner % axis.m, outer = k / inner / axis.m;
    const Doubles weights = axis.row(o);
    double sum = 0;
    for (std::int64_t i = 0; i < axis.n; ++i)
      if (weights[static_cast<std::size_t>(i)] != 0)
        sum += weights[static_cast<std::size_t>(i)] *
               from[static_cast<std::size_t>((outer * axis.n + i) * inner + k % inner)];
    to.push_back(sum);
  }
  return from_vector(to, shape);
}

Tensor resampled(const Tensor& x, const InterpolateOptions& o) {
  Tensor result = x;
  for (int i = 0; i + 2 < x.rank(); ++i) {
    const std::int64_t n = x.size(2 + i);
    const bool by_factor = o.size.count() == 0;
    const std::int64_t m =
        by_factor ? static_cast<std::int64_t>(static_cast<double>(n) * o.scale_factor[i]) : o.size[i];
    const double factor = by_factor && !o.recompute_scale_factor ? o.scale_factor[i] : 0;
    result = applied(result, 2 + i, {n, m, factor, o.mode, o.align_corners, o.antialias});
  }
  return result;
}

/// Settings that go together, with sizes or factors drawn.
std::vector<InterpolateOptions> settings(int axes, std::mt19937_64& bits) {
  std::vector<InterpolateOptions> list;
  const double factors[] = {0.5, 0.75, 1.5, 2, 2.5, 3};
  for (const Mode mode : {Mode::nearest, Mode::nearest_exact, Mode::linear, Mode::cubic, Mode::area})
    for (const bool corners : {false, true})
      for (const bool antialias : {false, true})
        for (const bool by_factor : {false, true}) {
          const bool smooth = mode == Mode::linear || mode == Mode::cubic;
          if (((corners || antialias) && !smooth) || (mode == Mode::cubic && axes != 2)) continue;
          InterpolateOptions o{.mode = mode, .align_corners = corners, .antialias = antialias};
          std::vector<std::int64_t> sizes;
          Doubles scales;
          for (int i = 0; i < axes; ++i) {
            sizes.push_back(1 + static_cast<std::int64_t>(bits() % 9));
            scales.push_back(factors[bits() % 6]);
          }
          if (by_factor) o.scale_factor = Scales(scales);
          else o.size = Sizes(sizes);
          o.recompute_scale_factor = by_factor && bits() % 3 == 0;
          list.push_back(o);
        }
  return list;
}

}  // namespace

TEST_CASE("interpolation of four pixels gives the published values", "[resampling]") {
  const Tensor x = {{{{1.0, 2.0}, {3.0, 4.0}}}};  // the examples of torch.nn.Upsample
  CHECK(same(interpolate(x, {.scale_factor = 2}),
             {{{{1.0, 1.0, 2.0, 2.0}, {1.0, 1.0, 2.0, 2.0}, {3.0, 3.0, 4.0, 4.0}, {3.0, 3.0, 4.0, 4.0}}}}));
  CHECK(same(interpolate(x, {.scale_factor = 2, .mode = Mode::linear}),
             {{{{1.0, 1.25, 1.75, 2.0}, {1.5, 1.75, 2.25, 2.5}, {2.5, 2.75, 3.25, 3.5}, {3.0, 3.25, 3.75, 4.0}}}}));
  const double t = 1.0 / 3;
  CHECK(close(
      interpolate(x, {.scale_factor = 2, .mode = Mode::linear, .align_corners = true}),
      {{{{1.0, 1 + t, 2 - t, 2.0}, {2 - t, 2.0, 2 + t, 3 - t}, {2 + t, 3 - t, 3.0, 3 + t}, {3.0, 3 + t, 4 - t, 4.0}}}},
      tolerance::roundings64));
}

TEST_CASE("interpolation of nine pixels gives the published values", "[resampling]") {
  const Tensor x = {{{{1.0, 2.0, 0.0}, {3.0, 4.0, 0.0}, {0.0, 0.0, 0.0}}}};  // the examples of torch.nn.Upsample
  CHECK(same(interpolate(x, {.scale_factor = 2, .mode = Mode::linear}), {{{{1.0, 1.25, 1.75, 1.5, 0.5, 0.0},
                                                                           {1.5, 1.75, 2.25, 1.875, 0.625, 0.0},
                                                                           {2.5, 2.75, 3.25, 2.625, 0.875, 0.0},
                                                                           {2.25, 2.4375, 2.8125, 2.25, 0.75, 0.0},
                                                                           {0.75, 0.8125, 0.9375, 0.75, 0.25, 0.0},
                                                                           {0.0, 0.0, 0.0, 0.0, 0.0, 0.0}}}}));
  const Tensor row = interpolate(x, {.scale_factor = 2, .mode = Mode::linear, .align_corners = true})[0][0][0];
  CHECK(close(row, {1.0, 1.4, 1.8, 1.6, 0.8, 0.0}, tolerance::roundings64));
}

TEST_CASE("interpolation agrees with the weights of its contract for random settings", "[resampling]") {
  std::mt19937_64 bits(401);
  const Shape shapes[] = {{2, 2, 6}, {1, 2, 5, 4}, {2, 1, 3, 4, 2}};
  int count = 0;
  for (int round = 0; round < 6; ++round)
    for (const Shape& shape : shapes) {
      const Tensor x = noise(shape, bits());
      for (const InterpolateOptions& o : settings(shape.rank() - 2, bits)) {
        INFO("mode " << static_cast<int>(o.mode) << " of " << to_string(shape) << ", corners " << o.align_corners
                     << ", antialias " << o.antialias << ", size " << o.size[0] << ", factor " << o.scale_factor[0]);
        CHECK(close(interpolate(x, o), resampled(x, o), tolerance::roundings64));
        CHECK(close(interpolate(x.to(DType::float32), o), resampled(x.to(DType::float32), o), tolerance::roundings32));
        ++count;
      }
    }
  CHECK(count > 150);
}

TEST_CASE("each mode at its own size gives the elements back", "[resampling]") {
  const Tensor x = noise({1, 2, 3, 4}, 402);
  for (const Mode mode : {Mode::nearest, Mode::nearest_exact, Mode::linear, Mode::cubic, Mode::area}) {
    CHECK(same(interpolate(x, {.size = {3, 4}, .mode = mode}), x));
    CHECK_FALSE(interpolate(x, {.size = {3, 4}, .mode = mode}).shares_storage(x));
  }
  CHECK(same(interpolate(x, {.scale_factor = 1.2, .mode = Mode::linear}), x));  // floor(3 * 1.2) is 3: PyTorch copies
  const InterpolateOptions filtered{.scale_factor = 1.2, .mode = Mode::linear, .antialias = true};  // and here filters
  CHECK(close(interpolate(x, filtered), resampled(x, filtered), tolerance::roundings64));
  CHECK(number(max(abs(interpolate(x, filtered) - x))) > 0.01);
}

TEST_CASE("the nearest place is not missed by a rounding", "[resampling]") {
  // 11 * (30 / 22) is 15, and in double 14.999999999999998; 39 / 2.6 is 15 likewise
  CHECK(interpolate(counting({1, 1, 30}), {.size = 22}).at<double>(0, 0, 11) == 15);
  CHECK(interpolate(counting({1, 1, 20}), {.scale_factor = 2.6}).at<double>(0, 0, 39) == 15);
}

TEST_CASE("the step comes from the factor unless it is recomputed", "[resampling]") {
  const Tensor x = {{{0.0, 1.0, 2.0, 3.0, 4.0}}};
  const Tensor by_factor = interpolate(x, {.scale_factor = 1.7, .mode = Mode::linear});  // 8 places
  const Tensor by_size = interpolate(x, {.scale_factor = 1.7, .mode = Mode::linear, .recompute_scale_factor = true});
  CHECK(by_factor.at<double>(0, 0, 3) == Approx(3.5 / 1.7 - 0.5));
  CHECK(by_size.at<double>(0, 0, 3) == Approx(3.5 * 5 / 8 - 0.5));
  CHECK(same(by_size, interpolate(x, {.size = 8, .mode = Mode::linear})));
}

TEST_CASE("nearest interpolation moves elements of every type", "[resampling]") {
  const Tensor x = {{{{0, 1, 1}, {1, 0, 1}}}};
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8, DType::bool8}) {
    const Tensor y = interpolate(cast(x, type), {.size = {4, 2}, .mode = Mode::nearest});
    CHECK(same(y, cast(Tensor{{{{0, 1}, {0, 1}, {1, 0}, {1, 0}}}}, type)));
  }
  const Tensor big = from_vector<std::int64_t>({INT64_MAX, INT64_MIN}, {1, 1, 2});
  CHECK(interpolate(big, {.size = 3, .mode = Mode::nearest_exact}).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{INT64_MAX, INT64_MIN, INT64_MIN});  // 0.5 * 2/3, 1.5 * 2/3, 2.5 * 2/3
}

TEST_CASE("16-bit types are resampled in float32 and rounded once", "[resampling]") {
  const Tensor x = random_in(-1, 1, {1, 2, 3, 4}, DType::float32, 403), grid = random_in(-1, 1, {1, 5, 1, 2});
  for (const DType type : {DType::float16, DType::bfloat16}) {
    const Tensor half = x.to(type), wide = half.to(DType::float32), places = grid.to(type);
    const InterpolateOptions o{.size = {5, 5}, .mode = Mode::cubic};
    CHECK(same(interpolate(half, o), interpolate(wide, o).to(type)));
    CHECK(same(grid_sample(half, places), grid_sample(wide, places.to(DType::float32)).to(type)));
    const Tensor columns = unfold(half, 2);
    CHECK(same(columns, unfold(wide, 2).to(type)));
    CHECK(same(fold(columns, {3, 4}, 2), fold(columns.to(DType::float32), {3, 4}, 2).to(type)));
  }
}

TEST_CASE("what has no weight is not read", "[resampling]") {
  const Tensor x = {{{1.0, kInfinity, 3.0}}};
  CHECK(same(interpolate(x, {.size = 5, .mode = Mode::linear, .align_corners = true}),
             {{{1.0, kInfinity, kInfinity, kInfinity, 3.0}}}));  // the outermost stand on the outermost
  const Tensor image = {{{{1.0, kNaN}, {2.0, kNaN}}}};
  const Tensor on_the_left = {{{{-1.0, -1.0}, {-1.0, 0.0}}}};
  CHECK(same(grid_sample(image, on_the_left, {.align_corners = true}), {{{{1.0, 1.5}}}}));
}

TEST_CASE("resampling takes views, and no elements at all", "[resampling]") {
  const Tensor x = noise({2, 3, 4, 5}, 404), turned = flip(transpose(x, 0, 3), 2);  // [5, 3, 4, 2]
  const Tensor stretched = broadcast_to(noise({1, 2, 1, 3}, 405), {2, 2, 4, 3});
  const Tensor grid_view = transpose(noise({5, 3, 2, 2}, 407), 1, 2);
  for (const Mode mode : {Mode::nearest, Mode::linear, Mode::cubic, Mode::area})
    for (const Tensor& view : {turned, stretched})
      CHECK(same(interpolate(view, {.size = {3, 7}, .mode = mode}),
                 interpolate(view.copy(), {.size = {3, 7}, .mode = mode})));
  CHECK(same(grid_sample(turned, grid_view), grid_sample(turned.copy(), grid_view.copy())));
  CHECK(same(unfold(turned, 2), unfold(turned.copy(), 2)));
  CHECK(interpolate(zeros({0, 3, 4, 5}), {.size = 2}).shape() == Shape{0, 3, 2, 2});
  CHECK(interpolate(zeros({2, 0, 4}), {.scale_factor = 2, .mode = Mode::linear}).shape() == Shape{2, 0, 8});
  CHECK(grid_sample(zeros({0, 3, 4, 5}), zeros({0, 2, 2, 2})).shape() == Shape{0, 3, 2, 2});
  CHECK(grid_sample(x, zeros({2, 0, 2, 2}, {.dtype = DType::float64})).shape() == Shape{2, 3, 0, 2});
  CHECK(pixel_shuffle(zeros({0, 4, 2, 3}), 2).shape() == Shape{0, 1, 4, 6});
  CHECK(pixel_unshuffle(zeros({3, 0, 2}), 2).shape() == Shape{12, 0, 1});
  CHECK(channel_shuffle(zeros({2, 0, 3}), 5).shape() == Shape{2, 0, 3});
}

// --- places of a grid ---

namespace {

/// The place of the inside that lies at k, or -1 for none.
std::int64_t place_of(std::int64_t k, std::int64_t n, const GridSampleOptions& o) {
  if (o.padding == SamplePadding::zeros) return k >= 0 && k < n ? k : -1;
  if (o.padding == SamplePadding::border) return std::clamp<std::int64_t>(k, 0, n - 1);
  while (k < 0 || k >= n) {
    if (n == 1) return 0;
    if (k < 0) k = o.align_corners ? -k : -1 - k;
    else k = o.align_corners ? 2 * (n - 1) - k : 2 * n - 1 - k;
  }
  return k;
}

/// What each place of an axis weighs for a coordinate: the outside is looked up place by place.
Doubles sample_weights(double g, std::int64_t n, const GridSampleOptions& o) {
  const double size = static_cast<double>(n);
  const double at = o.align_corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
  const auto below = static_cast<std::int64_t>(std::floor(at));
  Doubles weights(static_cast<std::size_t>(n));
  for (std::int64_t k = below - 1; k <= below + 2; ++k) {
    const double distance = at - static_cast<double>(k);
    double weight = std::max(1 - std::fabs(distance), 0.0);
    if (o.mode == SampleMode::nearest) weight = static_cast<double>(k) == std::nearbyint(at) ? 1 : 0;
    if (o.mode == SampleMode::cubic) weight = keys(distance, -0.75);
    const std::int64_t place = place_of(k, n, o);
    if (place >= 0) weights[static_cast<std::size_t>(place)] += weight;
  }
  return weights;
}

/// By loops over all elements of x, for every place.
Tensor sampled(const Tensor& x, const Tensor& grid, const GridSampleOptions& o) {
  const Doubles from = values(x), at = values(grid);
  const int axes = x.rank() - 2;
  std::int64_t plane = 1, places = 1, sizes[5] = {x.size(0), x.size(1)};
  for (int i = 0; i < axes; ++i) plane *= x.size(2 + i), places *= grid.size(1 + i), sizes[2 + i] = grid.size(1 + i);
  Doubles to;
  for (std::int64_t n = 0; n < x.size(0); ++n)
    for (std::int64_t c = 0; c < x.size(1); ++c)
      for (std::int64_t p = 0; p < places; ++p) {
        std::vector<Doubles> weights;
        for (int i = 0; i < axes; ++i) {
          const double g = at[static_cast<std::size_t>((n * places + p) * axes + axes - 1 - i)];
          weights.push_back(sample_weights(g, x.size(2 + i), o));
        }
        double sum = 0;
        for (std::int64_t e = 0; e < plane; ++e) {
          double weight = from[static_cast<std::size_t>((n * x.size(1) + c) * plane + e)];
          std::int64_t rest = e;
          for (int i = axes - 1; i >= 0; --i) {
            weight *= weights[static_cast<std::size_t>(i)][static_cast<std::size_t>(rest % x.size(2 + i))];
            rest /= x.size(2 + i);
          }
          sum += weight;
        }
        to.push_back(sum);
      }
  return from_vector(to, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(2 + axes))));
}

template <class F>
void for_sample_options(F f) {
  for (const SampleMode mode : {SampleMode::linear, SampleMode::nearest, SampleMode::cubic})
    for (const SamplePadding padding : {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
      for (const bool corners : {false, true}) {
        INFO("mode " << static_cast<int>(mode) << ", padding " << static_cast<int>(padding) << ", corners " << corners);
        f(GridSampleOptions{.mode = mode, .padding = padding, .align_corners = corners});
      }
}

}  // namespace

TEST_CASE("samples at a grid agree with plain loops over all elements", "[resampling]") {
  const Tensor image = noise({2, 3, 4, 5}, 411), volume = noise({2, 2, 3, 2, 4}, 412), dot = noise({1, 2, 1, 1}, 413);
  const Tensor grid = random_in(-2.7, 2.7, {2, 6, 7, 2}, DType::float64, 414);
  const Tensor deep = random_in(-2.7, 2.7, {2, 3, 2, 5, 3}, DType::float64, 415);
  for_sample_options([&](const GridSampleOptions& o) {
    CHECK(close(grid_sample(image, grid, o), sampled(image, grid, o), tolerance::roundings64));
    CHECK(close(grid_sample(dot, grid.index({range(0, 1)}), o), sampled(dot, grid.index({range(0, 1)}), o),
                tolerance::roundings64));
    if (o.mode != SampleMode::cubic)
      CHECK(close(grid_sample(volume, deep, o), sampled(volume, deep, o), tolerance::roundings64));
  });
}

TEST_CASE("a grid's corners are edges of the outermost places, or their centres", "[resampling]") {
  const Tensor x = {{{{1.0, 2.0}, {3.0, 4.0}}}};
  const Tensor corners = {{{{-1.0, -1.0}, {1.0, -1.0}, {-1.0, 1.0}, {0.0, 0.0}}}};
  CHECK(same(grid_sample(x, corners, {.align_corners = true}), {{{{1.0, 2.0, 3.0, 2.5}}}}));
  CHECK(same(grid_sample(x, corners), {{{{0.25, 0.5, 0.75, 2.5}}}}));  // half of each is outside, along both axes
  CHECK(same(grid_sample(x, corners, {.padding = SamplePadding::border}), {{{{1.0, 2.0, 3.0, 2.5}}}}));
}

TEST_CASE("the nearest of two places is the even one", "[resampling]") {
  const Tensor x = {{{{10.0, 11.0, 12.0, 13.0}}}};
  const Tensor between = {{{{-0.5, 0.0}, {0.0, 0.0}, {0.5, 0.0}}}};  // 0.5, 1.5, 2.5
  CHECK(same(grid_sample(x, between, {.mode = SampleMode::nearest}), {{{{10.0, 12.0, 12.0}}}}));
}

TEST_CASE("places that are NaN give NaN, and infinite ones lie outside", "[resampling]") {
  const Tensor x = {{{{1.0, 2.0}, {3.0, 4.0}}}};
  const Tensor grid = {{{{kNaN, 0.0}, {0.0, kNaN}, {kInfinity, -1e300}, {-kInfinity, 1e300}}}};
  for_sample_options([&](const GridSampleOptions& o) {
    GradientTape tape;
    tape.watch({x, grid});
    const Tensor y = grid_sample(x, grid, o);
    const bool reflects = o.padding == SamplePadding::reflection, zero = o.padding == SamplePadding::zeros;
    CHECK(std::isnan(y.at<double>(0, 0, 0, 0)));
    CHECK(std::isnan(y.at<double>(0, 0, 0, 1)));
    if (reflects) CHECK(std::isnan(y.at<double>(0, 0, 0, 2)));
    if (zero) CHECK(same(y.index({0, 0, 0, range(2, 4)}), {0.0, 0.0}));
    if (!zero && !reflects) CHECK(same(y.index({0, 0, 0, range(2, 4)}), {2.0, 3.0}));  // top right, bottom left
    if (zero || reflects) return;
    const auto [dx, dgrid] = tape.gradient(y, x, grid);
    CHECK(number(sum(dx)) == Approx(2));  // of the two places that are some
    CHECK(dgrid.at<double>(0, 0, 2, 0) == 0);
    CHECK(dgrid.at<double>(0, 0, 3, 1) == 0);
  });
}

TEST_CASE("a grid that border holds at the outermost place has no gradient there", "[resampling]") {
  const Tensor x = {{{{1.0, 5.0, 9.0}}}};
  const Tensor grid = {{{{-2.0, 0.0}, {-0.25, 0.0}, {2.0, 0.0}}}};
  GradientTape tape;
  tape.watch(grid);
  const Tensor y = grid_sample(x, grid, {.padding = SamplePadding::border, .align_corners = true});
  CHECK(same(y, {{{{1.0, 4.0, 9.0}}}}));
  CHECK(same(tape.gradient(y, grid), {{{{0.0, 0.0}, {4.0, 0.0}, {0.0, 0.0}}}}));  // slope 4 a place, 1 place a unit
}

TEST_CASE("the grid of the identity samples an image as it is", "[resampling]") {
  const Tensor image = noise({2, 3, 4, 5}, 421), volume = noise({1, 2, 2, 3, 4}, 422);
  const Tensor flat = stack({Tensor{{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}, Tensor{{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}});
  const Tensor deep = {{{1.0, 0.0, 0.0, 0.0}, {0.0, 1.0, 0.0, 0.0}, {0.0, 0.0, 1.0, 0.0}}};
  for (const bool corners : {false, true}) {
    const Tensor grid = affine_grid(flat, image.shape(), {.align_corners = corners});
    const Tensor places = affine_grid(deep, volume.shape(), {.align_corners = corners});
    CHECK(close(grid_sample(image, grid, {.align_corners = corners}), image, tolerance::roundings64));
    CHECK(close(grid_sample(volume, places, {.align_corners = corners}), volume, tolerance::roundings64));
  }
}

TEST_CASE("affine_grid applies its map to the centres of places", "[resampling]") {
  const Tensor turn = {{{0.0, -1.0, 0.5}, {1.0, 0.0, 0.0}}};  // (x, y) -> (0.5 - y, x)
  CHECK(same(affine_grid(turn, {1, 1, 2, 2}),
             {{{{1.0, -0.5}, {1.0, 0.5}}, {{0.0, -0.5}, {0.0, 0.5}}}}));  // centres at -0.5 and 0.5
  CHECK(same(affine_grid(turn, {1, 1, 2, 3}, {.align_corners = true}),
             {{{{1.5, -1.0}, {1.5, 0.0}, {1.5, 1.0}}, {{-0.5, -1.0}, {-0.5, 0.0}, {-0.5, 1.0}}}}));
  CHECK(same(affine_grid(turn, {1, 7, 1, 1}, {.align_corners = true}), {{{{0.5, 0.0}}}}));  // one place: the middle
  CHECK(affine_grid(turn.to(DType::float16), {1, 1, 2, 2}).dtype() == DType::float16);
  CHECK(affine_grid(zeros({0, 2, 3}), {0, 1, 4, 5}).shape() == Shape{0, 4, 5, 2});
}

// --- channels and pixels ---

TEST_CASE("pixel_shuffle and pixel_unshuffle put each element where the formula says", "[resampling]") {
  const std::int64_t r = 3, h = 2, w = 4, channels = 2;
  const Tensor x = counting({2, channels * r * r, h, w}), y = pixel_shuffle(x, r);
  REQUIRE(y.shape() == Shape{2, channels, h * r, w * r});
  bool right = true;
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t row = 0; row < h * r; ++row)
        for (std::int64_t column = 0; column < w * r; ++column)
          right = right && y.at<double>(n, c, row, column) ==
                               x.at<double>(n, (c * r + row % r) * r + column % r, row / r, column / r);
  CHECK(right);
  CHECK(same(pixel_unshuffle(y, r), x));
  CHECK(same(pixel_shuffle(x[0], r), y[0]));  // any leading axes
  CHECK(same(pixel_shuffle(reshape(x, {1, 2, 1, 18, h, w}), r), reshape(y, {1, 2, 1, channels, h * r, w * r})));
  CHECK(pixel_shuffle(zeros({4, 2, 2}, {.dtype = DType::bool8}), 2).shape() == Shape{1, 4, 4});
}

TEST_CASE("channel_shuffle deals out the channels of each group, as published", "[resampling]") {
  const Tensor x = reshape(arange(1, 17), {1, 4, 2, 2});  // torch.nn.ChannelShuffle's example, with 2 groups
  CHECK(same(channel_shuffle(x, 2), gather(x, Tensor{0, 2, 1, 3}, 1)));
  CHECK(same(channel_shuffle(reshape(arange(6), {1, 6}), 3), Tensor{{0, 2, 4, 1, 3, 5}}.to(DType::int64)));
}

TEST_CASE("depth_to_space and space_to_depth are shuffles of channels and pixels, as published", "[resampling]") {
  const auto depth_to_space = [](const Tensor& x, std::int64_t r) {
    return nhwc_from_nchw(pixel_shuffle(channel_shuffle(nchw_from_nhwc(x), r * r), r));
  };
  const auto space_to_depth = [](const Tensor& x, std::int64_t r) {
    return nhwc_from_nchw(channel_shuffle(pixel_unshuffle(nchw_from_nhwc(x), r), x.size(-1)));
  };
  const Tensor deep = {{{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}}};  // tf.nn.depth_to_space's and space_to_depth's
  const Tensor wide = {{{{1, 2, 3}, {4, 5, 6}}, {{7, 8, 9}, {10, 11, 12}}}};
  CHECK(same(depth_to_space(deep, 2), wide));
  CHECK(same(space_to_depth(wide, 2), deep));
}

// --- threads and modules ---

TEST_CASE("resampling gives the same for any number of threads", "[resampling][threads]") {
  const Tensor x = random_in(-1, 1, {2, 5, 67, 71}, DType::float32, 431);
  const Tensor grid = random_in(-1.3, 1.3, {2, 90, 83, 2}, DType::float32, 432);
  const auto run = [&] {
    GradientTape tape;
    tape.watch({x, grid});
    const Tensor smooth = interpolate(x, {.size = {140, 31}, .mode = Mode::cubic});
    const Tensor sample = grid_sample(x, grid), columns = unfold(x, 3, {.stride = 2, .padding = 1});
    const Tensor back = fold(columns, {67, 71}, 3, {.stride = 2, .padding = 1});
    const auto [dx, dgrid] = tape.gradient(sum(square(smooth)) + sum(square(sample)) + sum(square(back)), x, grid);
    return std::vector<Tensor>{smooth, sample, columns, back, dx, dgrid};
  };
  const auto with_threads = [&](int count) {
    const ThreadCount threads(count);
    return run();
  };
  const std::vector<Tensor> one = with_threads(1);
  for (const int count : {2, 3, 8}) {
    const std::vector<Tensor> many = with_threads(count);
    for (std::size_t i = 0; i < one.size(); ++i)
      CHECK(same_bits(one[i].to_vector<float>(), many[i].to_vector<float>()));
  }
}

TEST_CASE("the modules do what the functions do, and have no parameters", "[resampling][nn]") {
  const Tensor x = noise({1, 4, 3, 2}, 441);
  nn::Sequential net{nn::Upsample{{.scale_factor = {2, 3}, .mode = Mode::linear}}, nn::PixelShuffle{2},
                     nn::PixelUnshuffle{2}};
  CHECK(same(net(x), interpolate(x, {.scale_factor = {2, 3}, .mode = Mode::linear})));
  CHECK(nn::parameters(net).empty());
}
