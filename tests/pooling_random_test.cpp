// Pooling against plain loops: values, places and gradients for random settings, of views too.
#include "tests/support.hpp"

#include <algorithm>
#include <random>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;

// --- plain loops -------------------------------------------------------------------------------------------------

struct AxisSetting {
  std::int64_t in = 1, kernel = 1, stride = 1, dilation = 1;
  Padding padding = {};
};
struct Setting {
  std::vector<AxisSetting> axes;
  bool same = false, ceil = false, count_padding = true;
  std::int64_t divisor = 0;
};

/// The inputs of a window, row-major, and the places of the padded input that it covers.
struct Window {
  std::vector<std::int64_t> places;
  std::int64_t covered = 1;
};

/// PyTorch's rules, and TensorFlow's for SAME. None if the kernel exceeds the padded input, for `ceil` by the stride.
std::vector<Window> windows_of(const AxisSetting& a, bool is_same, bool ceil) {
  const std::int64_t extent = (a.kernel - 1) * a.dilation + 1;
  Padding padding = a.padding;
  std::int64_t count = 0;
  if (is_same) {
    count = (a.in + a.stride - 1) / a.stride;
    const std::int64_t zeros = std::max<std::int64_t>(0, (count - 1) * a.stride + extent - a.in);
    padding = {zeros / 2, zeros - zeros / 2};
  } else {
    const std::int64_t total = padding.before + a.in + padding.after;
    while (count * a.stride + extent <= total) ++count;
    const bool left_over = count > 0 ? (count - 1) * a.stride + extent < total : extent - total < a.stride;
    if (ceil && left_over && count * a.stride < padding.before + a.in) ++count;
  }
  std::vector<Window> windows;
  for (std::int64_t o = 0; o < count; ++o) {
    const std::int64_t start = o * a.stride - padding.before;
    Window window;
    for (std::int64_t k = 0; k < a.kernel; ++k) {
      const std::int64_t place = start + k * a.dilation;
      if (place >= 0 && place < a.in) window.places.push_back(place);
    }
    window.covered = std::min(start + extent, a.in + padding.after) - start;
    windows.push_back(window);
  }
  return windows;
}

/// PyTorch's adaptive windows.
std::vector<Window> adaptive_windows_of(std::int64_t in, std::int64_t count) {
  std::vector<Window> windows;
  for (std::int64_t o = 0; o < count; ++o) {
    Window window;
    for (std::int64_t place = o * in / count; place * count < (o + 1) * in; ++place) window.places.push_back(place);
    windows.push_back(window);
  }
  return windows;
}

/// Windows over another axis behind those that `outer` is of.
std::vector<Window> crossed(const std::vector<Window>& outer, const std::vector<Window>& inner, std::int64_t in) {
  std::vector<Window> windows;
  for (const Window& a : outer)
    for (const Window& b : inner) {
      Window window;
      for (const std::int64_t i : a.places)
        for (const std::int64_t k : b.places) window.places.push_back(i * in + k);
      window.covered = a.covered * b.covered;
      windows.push_back(window);
    }
  return windows;
}

std::vector<Window> windows_of(const Setting& s) {
  std::vector<Window> windows = {Window{{0}, 1}};
  for (const AxisSetting& a : s.axes) windows = crossed(windows, windows_of(a, s.same, s.ceil), a.in);
  return windows;
}

struct Expected {
  Numbers values, gradient;
  std::vector<std::int64_t> indices;
};

/// `grad` is that of the results.
Expected expected_max(const Numbers& x, const Numbers& grad, const std::vector<Window>& windows, std::size_t in) {
  Expected e;
  e.gradient.resize(x.size());
  for (std::size_t plane = 0; plane * in < x.size(); ++plane)
    for (const Window& window : windows) {
      std::int64_t best = -1;
      double value = 0;
      for (const std::int64_t place : window.places) {
        const double v = x[plane * in + static_cast<std::size_t>(place)];
        if (best >= 0 && (std::isnan(value) || v <= value)) continue;
        best = place, value = v;
      }
      e.gradient[plane * in + static_cast<std::size_t>(best)] += grad[e.values.size()];
      e.values.push_back(value);
      e.indices.push_back(best);
    }
  return e;
}

Expected expected_mean(const Numbers& x, const Numbers& grad, const std::vector<Window>& windows, std::size_t in,
                       const Setting& s) {
  Expected e;
  e.gradient.resize(x.size());
  for (std::size_t plane = 0; plane * in < x.size(); ++plane)
    for (const Window& window : windows) {
      const auto inside = static_cast<std::int64_t>(window.places.size());
      const std::int64_t count = s.divisor != 0 ? s.divisor : s.count_padding && !s.same ? window.covered : inside;
      double sum = 0;
      for (const std::int64_t place : window.places) {
        const std::size_t at = plane * in + static_cast<std::size_t>(place);
        sum += x[at];
        e.gradient[at] += grad[e.values.size()] / static_cast<double>(count);
      }
      e.values.push_back(sum / static_cast<double>(count));
    }
  return e;
}

// --- the operations for a number of axes -------------------------------------------------------------------------

Tensor max_pool(std::size_t axes, const Tensor& x, Sizes kernel, const MaxPoolOptions& options) {
  if (axes == 1) return max_pool1d(x, kernel, options);
  return axes == 2 ? max_pool2d(x, kernel, options) : max_pool3d(x, kernel, options);
}
MaxPoolResult max_pool_with_indices(std::size_t axes, const Tensor& x, Sizes kernel, const MaxPoolOptions& options) {
  if (axes == 1) return max_pool1d_with_indices(x, kernel, options);
  return axes == 2 ? max_pool2d_with_indices(x, kernel, options) : max_pool3d_with_indices(x, kernel, options);
}
Tensor avg_pool(std::size_t axes, const Tensor& x, Sizes kernel, const AvgPoolOptions& options) {
  if (axes == 1) return avg_pool1d(x, kernel, options);
  return axes == 2 ? avg_pool2d(x, kernel, options) : avg_pool3d(x, kernel, options);
}
Tensor adaptive_avg_pool(std::size_t axes, const Tensor& x, Sizes size) {
  if (axes == 1) return adaptive_avg_pool1d(x, size);
  return axes == 2 ? adaptive_avg_pool2d(x, size) : adaptive_avg_pool3d(x, size);
}
MaxPoolResult adaptive_max_pool(std::size_t axes, const Tensor& x, Sizes size) {
  if (axes == 1) return adaptive_max_pool1d_with_indices(x, size);
  return axes == 2 ? adaptive_max_pool2d_with_indices(x, size) : adaptive_max_pool3d_with_indices(x, size);
}

Sizes sizes_of(const std::vector<std::int64_t>& list) { return Sizes(std::span<const std::int64_t>(list)); }

template <class Get>
Sizes sizes_of(const Setting& s, Get get) {
  std::vector<std::int64_t> list;
  for (const AxisSetting& a : s.axes) list.push_back(get(a));
  return sizes_of(list);
}
Sizes kernel_of(const Setting& s) {
  return sizes_of(s, [](const AxisSetting& a) { return a.kernel; });
}
Sizes stride_of(const Setting& s) {
  return sizes_of(s, [](const AxisSetting& a) { return a.stride; });
}
Borders padding_of(const Setting& s) {
  if (s.same) return nn::same;
  if (s.axes.size() == 1) return {s.axes[0].padding};
  if (s.axes.size() == 2) return {s.axes[0].padding, s.axes[1].padding};
  return {s.axes[0].padding, s.axes[1].padding, s.axes[2].padding};
}
MaxPoolOptions max_options(const Setting& s) {
  return {.stride = stride_of(s),
          .padding = padding_of(s),
          .dilation = sizes_of(s, [](const AxisSetting& a) { return a.dilation; }),
          .ceil = s.ceil};
}
AvgPoolOptions mean_options(const Setting& s) {
  return {.stride = stride_of(s),
          .padding = padding_of(s),
          .ceil = s.ceil,
          .count_include_pad = s.count_padding,
          .divisor_override = s.divisor};
}

// --- random settings ---------------------------------------------------------------------------------------------

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : bits_(seed) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(std::int64_t one_of) { return between(1, one_of) == 1; }

  Setting setting(std::size_t axes, bool dilates) {
    const std::int64_t largest[] = {75, 37, 9};
    Setting s;
    s.same = chance(4), s.ceil = chance(3), s.count_padding = chance(2);
    if (chance(5)) s.divisor = between(1, 7);
    const bool halves = chance(3);  // the commonest setting by far: windows of 2, side by side
    for (std::size_t i = 0; i < axes; ++i) {
      AxisSetting a{.in = between(2, largest[axes - 1])};
      a.kernel = halves ? 2 : between(1, 5);
      a.stride = halves ? 2 : between(1, 3);
      a.dilation = dilates && chance(3) ? between(2, 3) : 1;
      if (!halves && chance(2)) a.padding = {between(0, 2), between(0, 2)};
      s.axes.push_back(a);
    }
    return s;
  }
  /// x [batch, channels, in...]; `plain`: no equal elements, and no NaN.
  Tensor input(const Setting& s, DType dtype, bool plain) {
    std::vector<std::int64_t> sizes = {between(0, 2), between(1, 3)};
    if (chance(4)) sizes.erase(sizes.begin());  // no batch
    for (const AxisSetting& a : s.axes) sizes.push_back(a.in);
    const Shape shape{std::span<const std::int64_t>(sizes)};
    Tensor x = random_in(-4, 4, shape, dtype, bits_());
    if (!plain && chance(2)) x = round(x);
    if (!plain && chance(3)) x = where(random_in(0, 1, shape, DType::float64, bits_()) < 0.05, kNaN, x);
    return chance(3) ? strided(x) : x;
  }

 private:
  std::mt19937_64 bits_;
};

std::string text_of(const Setting& s) {
  std::string text = std::string(s.same ? "SAME " : "") + (s.ceil ? "ceil " : "") +
                     (s.count_padding ? "counted " : "") + "divisor " + std::to_string(s.divisor);
  for (const AxisSetting& a : s.axes)
    text += "; in " + std::to_string(a.in) + " kernel " + std::to_string(a.kernel) + " stride " +
            std::to_string(a.stride) + " dilation " + std::to_string(a.dilation) + " padding " +
            std::to_string(a.padding.before) + " " + std::to_string(a.padding.after);
  return text;
}

std::size_t places_of(const Setting& s) {
  std::size_t count = 1;
  for (const AxisSetting& a : s.axes) count *= static_cast<std::size_t>(a.in);
  return count;
}

/// Whether each window holds an input; the operations refuse others.
bool possible(const std::vector<Window>& windows) {
  const auto is_empty = [](const Window& w) { return w.places.empty(); };
  return !windows.empty() && std::none_of(windows.begin(), windows.end(), is_empty);
}

double rounding(DType dtype) { return dtype == DType::float64 ? tolerance::roundings64 : tolerance::roundings32; }

/// Runs `pool`, and its gradient for results that weigh differently.
template <class Pool, class Expect>
void check_pooling(const Tensor& x, Pool pool, Expect expect) {
  const Tensor silent = pool(x);  // no tape: other code may run
  GradientTape tape;
  tape.watch(x);
  const Tensor y = pool(x);
  CHECK(same(silent, y));
  const Tensor grad = random_in(-2, 2, y.shape(), x.dtype(), 5);
  const Expected e = expect(values(x), values(grad));
  CHECK(close(y, from_doubles(e.values, y.shape(), x.dtype()), rounding(x.dtype())));
  const Tensor dx = tape.gradient(y, x, {.output_gradient = grad});
  CHECK(dx.dtype() == x.dtype());
  CHECK(close(dx, from_doubles(e.gradient, x.shape(), x.dtype()), rounding(x.dtype())));
}

}  // namespace

TEST_CASE("max pooling is a loop over windows, for random settings", "[pooling]") {
  Draw draw(101);
  int ran = 0;
  for (int i = 0; i < 240; ++i) {
    const std::size_t axes = static_cast<std::size_t>(i) % 3 + 1;
    const DType dtype = draw.chance(2) ? DType::float32 : DType::float64;
    const Setting s = draw.setting(axes, true);
    const Tensor x = draw.input(s, dtype, false);
    INFO(text_of(s) << " for " << to_string(x.shape()) << " " << name(dtype));
    const std::vector<Window> windows = windows_of(s);
    const MaxPoolOptions options = max_options(s);
    if (!possible(windows)) {
      CHECK_THROWS_AS(max_pool(axes, x, kernel_of(s), options), ShapeError);
      continue;
    }
    const auto expect = [&](const Numbers& in, const Numbers& grad) {
      return expected_max(in, grad, windows, places_of(s));
    };
    check_pooling(
        x, [&](const Tensor& t) { return max_pool(axes, t, kernel_of(s), options); }, expect);
    check_pooling(
        x, [&](const Tensor& t) { return max_pool_with_indices(axes, t, kernel_of(s), options).values; }, expect);

    const MaxPoolResult found = max_pool_with_indices(axes, x, kernel_of(s), options);
    const Expected e = expect(values(x), Numbers(static_cast<std::size_t>(found.values.numel())));
    CHECK(same(found.values, from_doubles(e.values, found.values.shape(), dtype)));
    CHECK(same(found.indices, from_vector(e.indices, found.values.shape())));
    ++ran;
  }
  CHECK(ran > 120);
}

TEST_CASE("average pooling is a loop over windows, for random settings", "[pooling]") {
  Draw draw(102);
  int ran = 0;
  for (int i = 0; i < 240; ++i) {
    const std::size_t axes = static_cast<std::size_t>(i) % 3 + 1;
    const DType dtype = draw.chance(2) ? DType::float32 : DType::float64;
    const Setting s = draw.setting(axes, false);
    const Tensor x = draw.input(s, dtype, true);
    INFO(text_of(s) << " for " << to_string(x.shape()) << " " << name(dtype));
    const std::vector<Window> windows = windows_of(s);
    const AvgPoolOptions options = mean_options(s);
    if (!possible(windows)) {
      CHECK_THROWS_AS(avg_pool(axes, x, kernel_of(s), options), ShapeError);
      continue;
    }
    check_pooling(
        x, [&](const Tensor& t) { return avg_pool(axes, t, kernel_of(s), options); },
        [&](const Numbers& in, const Numbers& grad) { return expected_mean(in, grad, windows, places_of(s), s); });
    ++ran;
  }
  CHECK(ran > 120);
}

TEST_CASE("adaptive pooling is a loop over windows, for random sizes", "[pooling]") {
  Draw draw(103);
  for (int i = 0; i < 60; ++i) {
    const std::size_t axes = static_cast<std::size_t>(i) % 3 + 1;
    const DType dtype = draw.chance(2) ? DType::float32 : DType::float64;
    Setting s = draw.setting(axes, false);
    s.divisor = 0, s.count_padding = false;
    std::vector<std::int64_t> sizes;
    std::vector<Window> windows = {Window{{0}, 1}};
    for (const AxisSetting& a : s.axes) {
      sizes.push_back(draw.between(1, 7));
      windows = crossed(windows, adaptive_windows_of(a.in, sizes.back()), a.in);
    }
    INFO(text_of(s) << " to " << sizes.size() << " sizes, first " << sizes[0]);
    const Tensor x = draw.input(s, dtype, true), ties = draw.input(s, dtype, false);
    const auto mean = [&](const Numbers& in, const Numbers& grad) {
      return expected_mean(in, grad, windows, places_of(s), s);
    };
    const auto largest = [&](const Numbers& in, const Numbers& grad) {
      return expected_max(in, grad, windows, places_of(s));
    };
    check_pooling(
        x, [&](const Tensor& t) { return adaptive_avg_pool(axes, t, sizes_of(sizes)); }, mean);
    check_pooling(
        ties, [&](const Tensor& t) { return adaptive_max_pool(axes, t, sizes_of(sizes)).values; }, largest);
    const Tensor indices = adaptive_max_pool(axes, ties, sizes_of(sizes)).indices;
    const Expected e = largest(values(ties), Numbers(static_cast<std::size_t>(indices.numel())));
    CHECK(same(indices, from_vector(e.indices, indices.shape())));
  }
}

TEST_CASE("windows of more places than a byte counts are pooled too", "[pooling]") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    Setting s;
    s.axes = {AxisSetting{.in = 1000, .kernel = 300, .stride = 70, .padding = {40, 7}}};
    const std::vector<Window> windows = windows_of(s);
    Tensor x = random_in(-1, 1, {2, 1, 1000}, dtype, 7);
    check_pooling(
        x, [&](const Tensor& t) { return avg_pool1d(t, kernel_of(s), mean_options(s)); },
        [&](const Numbers& in, const Numbers& grad) { return expected_mean(in, grad, windows, 1000, s); });
    const auto largest = [&](const Numbers& in, const Numbers& grad) { return expected_max(in, grad, windows, 1000); };
    const auto pool = [&](const Tensor& t) { return max_pool1d(t, kernel_of(s), max_options(s)); };
    check_pooling(x, pool, largest);
    x.index_put({0, 0, 555}, kNaN);
    x.index_put({0, 0, 558}, kNaN);
    check_pooling(x, pool, largest);
    check_pooling(round(x * 3), pool, largest);  // many are equal
  }
}
