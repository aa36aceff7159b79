// Convolution against plain loops: random settings, borders, groups, strides, blocks, threads, types.
#include <algorithm>
#include <random>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// One axis of a random setting.
struct Axis {
  std::int64_t in = 1, kernel = 1, stride = 1, dilation = 1, before = 0, after = 0;
  std::int64_t extent() const { return (kernel - 1) * dilation + 1; }
  std::int64_t out() const { return (in + before + after - extent()) / stride + 1; }
};

/// Depth, rows and columns, the first ones of size 1 where there are fewer.
struct Setting {
  int axes = 2;
  Axis axis[3];
  std::int64_t batch = 1, groups = 1, in = 1, out = 1;  // channels of a group
  bool same = false;

  Shape shape(std::int64_t first, std::int64_t second, std::int64_t Axis::*size) const {
    std::vector<std::int64_t> sizes = {first, second};
    for (int i = 3 - axes; i < 3; ++i) sizes.push_back(axis[i].*size);
    return Shape(sizes);
  }
  Shape out_shape() const {
    std::vector<std::int64_t> sizes = {batch, groups * out};
    for (int i = 3 - axes; i < 3; ++i) sizes.push_back(axis[i].out());
    return Shape(sizes);
  }
  template <class Value>
  std::vector<std::int64_t> each(Value value) const {
    std::vector<std::int64_t> list;
    for (int i = 3 - axes; i < 3; ++i) list.push_back(value(axis[i]));
    return list;
  }
  Sizes strides() const {
    return Sizes(each([](const Axis& a) { return a.stride; }));
  }
  Sizes dilations() const {
    return Sizes(each([](const Axis& a) { return a.dilation; }));
  }
  Borders padding() const {
    if (same) return PaddingRule::same;
    const auto p = [&](int i) { return Padding{axis[i].before, axis[i].after}; };
    if (axes == 1) return {p(2)};
    if (axes == 2) return {p(1), p(2)};
    return {p(0), p(1), p(2)};
  }
  std::string text() const {
    std::string s = "batch " + std::to_string(batch) + ", groups " + std::to_string(groups) + ", channels " +
                    std::to_string(in) + " to " + std::to_string(out) + (same ? ", same" : "");
    for (int i = 3 - axes; i < 3; ++i)
      s += "; " + std::to_string(axis[i].in) + " kernel " + std::to_string(axis[i].kernel) + " stride " +
           std::to_string(axis[i].stride) + " dilation " + std::to_string(axis[i].dilation) + " padding " +
           std::to_string(axis[i].before) + " " + std::to_string(axis[i].after);
    return s;
  }
};

/// Calls visit(place in x, place in the weights, place in the result) for every product of a convolution.
template <class Visit>
void for_products(const Setting& s, Visit visit) {
  const Axis &d = s.axis[0], &h = s.axis[1], &w = s.axis[2];
  const std::int64_t in_plane = d.in * h.in * w.in, out_plane = d.out() * h.out() * w.out();
  const std::int64_t window = d.kernel * h.kernel * w.kernel;
  for (std::int64_t y = 0; y < out_plane; ++y)
    for (std::int64_t t = 0; t < window; ++t) {
      const std::int64_t at[] = {y / w.out() / h.out() * d.stride + t / w.kernel / h.kernel * d.dilation - d.before,
                                 y / w.out() % h.out() * h.stride + t / w.kernel % h.kernel * h.dilation - h.before,
                                 y % w.out() * w.stride + t % w.kernel * w.dilation - w.before};
      if (at[0] < 0 || at[0] >= d.in || at[1] < 0 || at[1] >= h.in || at[2] < 0 || at[2] >= w.in) continue;
      const std::int64_t place = (at[0] * h.in + at[1]) * w.in + at[2];
      for (std::int64_t n = 0; n < s.batch; ++n)
        for (std::int64_t o = 0; o < s.groups * s.out; ++o)
          for (std::int64_t i = 0; i < s.in; ++i)
            visit(static_cast<std::size_t>((n * s.groups * s.in + o / s.out * s.in + i) * in_plane + place),
                  static_cast<std::size_t>((o * s.in + i) * window + t),
                  static_cast<std::size_t>((n * s.groups * s.out + o) * out_plane + y));
    }
}

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

Setting random_setting(std::mt19937& random) {
  Setting s;
  s.axes = static_cast<int>(between(random, 1, 3));
  s.batch = between(random, 1, 3);
  s.groups = between(random, 0, 2) == 0 ? between(random, 2, 5) : 1;
  const std::int64_t most = s.axes == 3 ? 6 : 12;
  s.in = between(random, 0, 2) == 0 ? 1 : between(random, 1, most);
  s.out = between(random, 0, 2) == 0 ? 1 : between(random, 1, s.axes == 3 ? 9 : 70);
  s.same = between(random, 0, 3) == 0;
  for (int i = 3 - s.axes; i < 3; ++i) {
    Axis& a = s.axis[i];
    a.kernel = between(random, 1, 4), a.stride = between(random, 1, 3), a.dilation = between(random, 1, 2);
    a.in = between(random, 1, s.axes == 3 ? 7 : 14);
    if (s.same) {  // TensorFlow's rule: ceil(in / stride) results, the odd zero at the end
      const std::int64_t out = (a.in + a.stride - 1) / a.stride;
      const std::int64_t zeros = std::max<std::int64_t>((out - 1) * a.stride + a.extent() - a.in, 0);
      a.before = zeros / 2, a.after = zeros - a.before;
      continue;
    }
    a.before = between(random, 0, 3), a.after = between(random, 0, 3);
    a.in = std::max(a.in, a.extent() - a.before - a.after);
  }
  return s;
}

Tensor run(const Setting& s, const Tensor& x, const Tensor& w, const Tensor& b) {
  const ConvOptions o{.stride = s.strides(), .padding = s.padding(), .dilation = s.dilations(), .groups = s.groups};
  if (s.axes == 1) return conv1d(x, w, b, o);
  return s.axes == 2 ? conv2d(x, w, b, o) : conv3d(x, w, b, o);
}
Tensor run_transposed(const Setting& s, const Tensor& g, const Tensor& w, const Tensor& b) {
  const ConvTransposeOptions o{.stride = s.strides(),
                               .padding = s.padding(),
                               .output_size = Sizes(s.each([](const Axis& a) { return a.in; })),
                               .dilation = s.dilations(),
                               .groups = s.groups};
  if (s.axes == 1) return conv_transpose1d(g, w, b, o);
  return s.axes == 2 ? conv_transpose2d(g, w, b, o) : conv_transpose3d(g, w, b, o);
}

/// What the loops give: results, and the gradients of sum(g * result).
struct Expected {
  std::vector<double> out, dx, dw, db;
};
Expected expected(const Setting& s, const std::vector<double>& x, const std::vector<double>& w,
                  const std::vector<double>& b, const std::vector<double>& g) {
  Expected e{std::vector<double>(g.size()), std::vector<double>(x.size()), std::vector<double>(w.size()),
             std::vector<double>(b.size())};
  const std::size_t plane = g.size() / (static_cast<std::size_t>(s.batch) * b.size());
  for (std::size_t i = 0; i < g.size(); ++i) e.out[i] = b[i / plane % b.size()], e.db[i / plane % b.size()] += g[i];
  for_products(s, [&](std::size_t in, std::size_t weight, std::size_t out) {
    e.out[out] += x[in] * w[weight];
    e.dx[in] += g[out] * w[weight];
    e.dw[weight] += g[out] * x[in];
  });
  return e;
}

void check_setting(const Setting& s, DType dtype, std::uint64_t seed, double allowed) {
  INFO(s.text() << " in " << name(dtype));
  const std::int64_t channels = s.groups * s.out;
  const Tensor x = random_in(-1, 1, s.shape(s.batch, s.groups * s.in, &Axis::in), dtype, seed);
  const Tensor w = random_in(-1, 1, s.shape(channels, s.in, &Axis::kernel), dtype, seed + 1);
  const Tensor b = random_in(-1, 1, {channels}, dtype, seed + 2), g = random_in(-1, 1, s.out_shape(), dtype, seed + 3);
  const Expected e = expected(s, values(x), values(w), values(b), values(g));
  const auto near = [&](const Tensor& actual, const std::vector<double>& numbers) {
    return close(actual, from_doubles(numbers, actual.shape(), dtype), allowed);
  };

  const PoisonedBuffers poison(kNaN);
  GradientTape tape({.persistent = true});
  for (const Tensor* source : {&x, &w, &b, &g}) tape.watch(*source);
  const Tensor out = run(s, x, w, b);
  REQUIRE(out.shape() == s.out_shape());
  CHECK(near(out, e.out));
  const std::vector<Tensor> back = tape.gradient(sum(out * g), {x, w, b});
  CHECK(near(back[0], e.dx));
  CHECK(near(back[1], e.dw));
  CHECK(near(back[2], e.db));

  // the transpose: from g to the gradient for x; its gradient for g is the convolution of what is seeded
  const Tensor turned = run_transposed(s, g, w, Tensor());
  CHECK(near(turned, e.dx));
  const std::vector<Tensor> forth = tape.gradient(sum(turned * x), {g, w});
  CHECK(near(forth[0] + reshape(b, s.axes == 1   ? Shape{channels, 1}
                                   : s.axes == 2 ? Shape{channels, 1, 1}
                                                 : Shape{channels, 1, 1, 1}),
             e.out));
  CHECK(near(forth[1], e.dw));
}

/// A setting of two axes.
Setting images(std::int64_t batch, Axis h, Axis w, std::int64_t groups, std::int64_t in, std::int64_t out) {
  return {2, {{}, h, w}, batch, groups, in, out, false};
}

}  // namespace

TEST_CASE("convolutions with random settings give the values and gradients of plain loops", "[convolution]") {
  std::mt19937 random(20);
  for (std::uint64_t i = 0; i < 150; ++i) {
    const Setting s = random_setting(random);
    check_setting(s, DType::float64, 10 * i, tolerance::roundings64);
    check_setting(s, DType::float32, 10 * i, tolerance::blocked_sum32);
  }
}

TEST_CASE("large convolutions are cut into blocks that leave nothing out", "[convolution][blocks]") {
  const Axis image{75, 3, 1, 1, 1, 1}, wide{67, 5, 1, 1, 2, 2}, strided{71, 4, 2, 1, 0, 3};
  const auto setting = [](int axes, Axis d, Axis h, Axis w, std::int64_t groups, std::int64_t in, std::int64_t out) {
    return Setting{axes, {d, h, w}, 2, groups, in, out, false};
  };
  for (const Setting& s :
       {setting(2, {}, image, wide, 1, 9, 70), setting(2, {}, strided, wide, 1, 5, 33),
        setting(2, {}, wide, strided, 1, 130, 5), setting(1, {}, {}, {4000, 7, 3, 2, 5, 1}, 1, 3, 17),
        setting(1, {}, {}, {4000, 7, 2, 1, 0, 0}, 4, 1, 1), setting(2, {}, image, wide, 6, 1, 2),
        setting(3, {17, 3, 2, 1, 1, 0}, {19, 2, 1, 1, 0, 1}, {18, 3, 1, 2, 2, 2}, 1, 4, 9),
        setting(1, {}, {}, {400, 3, 1, 130, 0, 0}, 1, 300, 17),
        setting(2, {}, {4, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}, 1, 1400, 17)})
    check_setting(s, DType::float32, 7, tolerance::blocked_sum32);
}

TEST_CASE("convolutions of few places and many channels agree with plain loops", "[convolution][blocks]") {
  const Axis seven{7, 3, 1, 1, 1, 1}, single{7, 1, 1, 1, 0, 0}, halved{8, 3, 2, 1, 1, 1}, large{13, 12, 1, 1, 5, 5};
  for (const Setting& s :
       {images(1, seven, seven, 1, 70, 150), images(1, seven, seven, 1, 16, 16), images(2, single, single, 1, 140, 70),
        images(1, halved, halved, 2, 24, 34),
        images(2, {9, 2, 3, 1, 0, 1}, {8, 1, 3, 1, 0, 0}, 1, 40, 33),  // places that no tap meets
        images(1, large, large, 1, 20, 36),                            // more taps than are turned at once
        images(1, {7, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}, 2, 33, 65), images(3, {1, 1, 1, 1, 0, 0}, single, 3, 17, 33),
        images(1, {9, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}, 1, 80, 100)}) {  // enough for minimal filtering
    check_setting(s, DType::float64, 4, tolerance::roundings64);
    check_setting(s, DType::float32, 4, tolerance::blocked_sum32);
  }
}

TEST_CASE("convolutions of many weights agree with plain loops", "[convolution][blocks]") {
  const Axis five{5, 3, 1, 1, 1, 1}, halved{7, 3, 2, 1, 1, 1}, single{3, 1, 1, 1, 0, 0}, large{13, 12, 1, 1, 0, 0};
  for (const Setting& s :
       {images(2, five, five, 1, 130, 150), images(1, five, five, 2, 97, 151),
        images(2, halved, {9, 3, 1, 2, 2, 2}, 1, 180, 150), images(3, single, single, 1, 310, 430),
        images(1, large, large, 1, 20, 60),                                // one channel at a time
        images(2, {}, {8010, 3, 1, 4000, 0, 0}, 1, 300, 150),              // an image is as much as is at hand at once
        images(2, {9, 3, 1, 1, 1, 1}, {8, 3, 1, 1, 1, 1}, 2, 70, 130)}) {  // minimal filtering
    check_setting(s, DType::float64, 4, tolerance::roundings64);
    check_setting(s, DType::float32, 4, tolerance::blocked_sum32);
  }
}

TEST_CASE("kernels of one place mix channels as plain loops do", "[convolution]") {
  const Axis nine{9, 1, 1, 1, 0, 0}, five{5, 1, 1, 1, 0, 0}, every_second{9, 1, 2, 1, 0, 0}, third{8, 1, 3, 1, 0, 0};
  const Axis zeros_behind{7, 1, 2, 1, 0, 1}, last_of_zeros{8, 1, 2, 1, 0, 1}, zeros_before{9, 1, 2, 1, 1, 0};
  const auto setting = [](int axes, Axis d, Axis h, Axis w, std::int64_t batch, std::int64_t groups) {
    return Setting{axes, {d, h, w}, batch, groups, 18, 35, false};
  };
  for (const Setting& s :
       {setting(2, {}, nine, five, 3, 1), setting(2, {}, five, nine, 2, 3),
        setting(1, {}, {}, {1300, 1, 1, 1, 0, 0}, 2, 1), setting(3, five, third, nine, 2, 2),
        setting(2, {}, every_second, third, 3, 2), setting(1, {}, {}, third, 1, 1),
        setting(2, {}, zeros_behind, nine, 2, 1), setting(2, {}, last_of_zeros, nine, 2, 1),
        setting(2, {}, nine, zeros_before, 2, 1), setting(2, {}, {1, 1, 1, 1, 0, 0}, {1, 1, 1, 1, 0, 0}, 5, 1),
        setting(2, {}, {2, 1, 2, 1, 0, 0}, {3, 1, 4, 1, 0, 0}, 5, 1),  // one place of six
        setting(2, {}, {3, 1, 2, 1, 0, 0}, {1, 1, 1, 1, 0, 0}, 3, 3)}) {
    check_setting(s, DType::float64, 4, tolerance::roundings64);
    check_setting(s, DType::float32, 4, tolerance::blocked_sum32);
  }
}

TEST_CASE("windows that do not overlap agree with plain loops", "[convolution]") {
  const Axis pairs{9, 2, 2, 1, 0, 0}, threes{12, 3, 3, 1, 0, 0}, with_gaps{13, 2, 3, 1, 0, 0}, apart{15, 2, 3, 2, 0, 0};
  const Axis zeros_behind{11, 2, 2, 1, 0, 1}, zeros_before{10, 2, 2, 1, 1, 1}, all{5, 5, 1, 1, 0, 0},
      some{7, 4, 9, 1, 0, 0};
  const Axis overlap{13, 2, 2, 2, 0, 0}, beyond{1, 2, 2, 1, 0, 1}, long_one{40, 2, 2, 1, 0, 0};
  const auto setting = [](int axes, Axis d, Axis h, Axis w, std::int64_t batch, std::int64_t groups, std::int64_t out) {
    return Setting{axes, {d, h, w}, batch, groups, 5, out, false};
  };
  for (const std::int64_t out : {20, 70, 260})  // transposed; gradients for weights, too; forward, too
    for (const Setting& s :
         {setting(2, {}, pairs, threes, 3, 1, out), setting(2, {}, threes, pairs, 2, 2, out),
          setting(2, {}, with_gaps, apart, 2, 1, out), setting(1, {}, {}, {128, 8, 8, 1, 0, 0}, 2, 1, out),
          setting(3, pairs, {5, 1, 2, 1, 0, 0}, threes, 2, 1, out), setting(2, {}, zeros_behind, pairs, 2, 1, out),
          setting(2, {}, zeros_before, pairs, 2, 1, out), setting(2, {}, all, all, 4, 1, out),
          setting(2, {}, all, all, 2, 2, out), setting(2, {}, some, all, 3, 1, out),
          setting(3, {7, 2, 3, 2, 0, 0}, pairs, threes, 1, 1, out), setting(2, {}, overlap, threes, 2, 1, out),
          setting(2, {}, beyond, long_one, 1, 1, out)}) {
      check_setting(s, DType::float64, 4, tolerance::roundings64);
      check_setting(s, DType::float32, 4, tolerance::blocked_sum32);
    }
}

TEST_CASE("a batch of many weights that takes several rounds has the results of its parts", "[convolution][host]") {
  const Tensor x = random_in(-1, 1, {210, 260, 7, 7}, DType::float32, 1);
  const Tensor w = random_in(-1, 1, {256, 260, 3, 3}, DType::float32, 2),
               b = random_in(-1, 1, {256}, DType::float32, 3);
  for (const std::int64_t stride : {1, 2}) {  // with minimal filtering and without
    const ConvOptions options{.stride = stride, .padding = 1};
    const Tensor all_images = conv2d(x, w, b, options);
    for (const int threads : {1, 3}) {
      const ThreadCount count(threads);
      CHECK(same_bits(conv2d(x, w, b, options).to_vector<float>(), all_images.to_vector<float>()));
    }
    for (const std::int64_t first : {0, 90, 180}) {
      const Range some{first, first + 30};
      CHECK(same(conv2d(x.index({some}), w, b, options), all_images.index({some})));
    }
  }
}

TEST_CASE("convolutions of planes that stand alone agree with plain loops at all borders", "[convolution]") {
  const auto setting = [](Axis h, Axis w, std::int64_t groups, std::int64_t out) {
    return Setting{2, {{}, h, w}, 2, groups, 1, out, false};
  };
  for (const Setting& s :
       {setting({75, 3, 1, 1, 1, 1}, {67, 3, 1, 1, 1, 1}, 6, 2),
        setting({30, 5, 1, 1, 2, 2}, {19, 5, 1, 1, 2, 2}, 6, 1),
        setting({20, 3, 1, 1, 3, 3}, {37, 3, 1, 1, 3, 3}, 5, 1),  // windows beyond the plane
        setting({1, 3, 1, 1, 1, 1}, {2, 3, 1, 1, 1, 1}, 3, 2), setting({2, 5, 1, 1, 4, 4}, {1, 5, 1, 1, 4, 4}, 3, 1),
        setting({4, 3, 1, 1, 20, 0}, {5, 3, 1, 1, 20, 1}, 2, 1),  // registers beyond the plane
        setting({9, 5, 1, 1, 0, 0}, {20, 5, 1, 1, 0, 3}, 4, 2), setting({7, 3, 1, 1, 0, 0}, {18, 3, 1, 1, 0, 0}, 7, 1),
        setting({611, 3, 1, 1, 1, 1}, {67, 3, 1, 1, 1, 1}, 1, 1),  // rows in pieces
        setting({5, 5, 1, 1, 2, 2}, {601, 5, 1, 1, 2, 2}, 2, 1)}) {
    check_setting(s, DType::float64, 5, tolerance::roundings64);
    check_setting(s, DType::float32, 5, tolerance::blocked_sum32);
  }
}

TEST_CASE("large windows over planes of any width agree with plain loops", "[convolution]") {
  const Axis rows{19, 7, 1, 1, 3, 3}, dilated{21, 3, 1, 2, 2, 2}, halved{38, 4, 2, 1, 1, 1};
  for (const std::int64_t width : {5, 12, 21, 29, 55, 100}) {
    const Axis wide{width, 7, 1, 1, 3, 3}, thin{width, 3, 1, 2, 2, 2}, strided{2 * width, 4, 2, 1, 1, 1};
    for (const Setting& s :
         {Setting{2, {{}, rows, wide}, 2, 3, 1, 1, false}, Setting{2, {{}, dilated, thin}, 1, 2, 1, 2, false},
          Setting{2, {{}, halved, strided}, 1, 2, 2, 1, false}, Setting{2, {{}, halved, wide}, 1, 2, 1, 1, false},
          Setting{3, {{3, 2, 1, 1, 1, 0}, halved, wide}, 1, 2, 1, 1, false}}) {
      check_setting(s, DType::float64, 6, tolerance::roundings64);
      check_setting(s, DType::float32, 6, tolerance::blocked_sum32);
    }
  }
}

TEST_CASE("the gradient for a weight keeps its digits over a long signal", "[convolution]") {
  // 0.1 in float32, 2^18 times: added one by one they lose 0.25 %
  const std::int64_t places = 1 << 18;
  const Tensor x =
      from_doubles(std::vector<double>(static_cast<std::size_t>(places), 0.1), {1, 1, places}, DType::float32);
  const Tensor w = ones({20, 1, 1});
  GradientTape tape;
  tape.watch(w);
  const std::vector<Tensor> gradients = tape.gradient(sum(conv1d(x, w)), {w});
  const double expected_sum = static_cast<double>(places) * static_cast<double>(0.1f);
  CHECK(close(gradients[0], from_doubles(std::vector<double>(20, expected_sum), {20, 1, 1}, DType::float32), 1e-4));
}

TEST_CASE("kernels of three and five columns agree with plain loops where six products make a tile",
          "[convolution][blocks]") {
  const auto setting = [](int axes, Axis d, Axis h, Axis w, std::int64_t groups, std::int64_t in, std::int64_t out) {
    return Setting{axes, {d, h, w}, 3, groups, in, out, false};
  };
  for (const Setting& s :
       {setting(2, {}, {9, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 1, 1}, 1, 12, 64),
        setting(2, {}, {6, 5, 1, 1, 2, 2}, {14, 5, 1, 1, 2, 2}, 1, 20, 17),
        setting(2, {}, {9, 3, 2, 1, 1, 1}, {29, 5, 1, 1, 0, 3}, 1, 16, 70),
        setting(2, {}, {40, 1, 1, 1, 0, 0}, {33, 3, 1, 1, 2, 0}, 2, 33, 20),
        setting(1, {}, {}, {611, 3, 1, 1, 1, 1}, 1, 40, 33), setting(1, {}, {}, {1300, 5, 1, 1, 4, 4}, 1, 36, 16),
        setting(3, {5, 2, 1, 1, 0, 1}, {6, 3, 1, 2, 1, 0}, {15, 3, 1, 1, 1, 1}, 1, 8, 24)}) {
    check_setting(s, DType::float64, 3, tolerance::roundings64);
    check_setting(s, DType::float32, 3, tolerance::blocked_sum32);
  }
}

TEST_CASE("minimal filtering rounds no worse than one and a half times the plain sum", "[convolution][host]") {
  for (const std::int64_t kernel : {3, 5}) {
    const Tensor x = random_in(-1, 1, {2, 64, 24, 24}, DType::float32, 1);
    const Tensor w = random_in(-1, 1, {32, 64, kernel, kernel}, DType::float32, 2);
    const Tensor exact = conv2d(x.to(DType::float64), w.to(DType::float64), {}, {.padding = nn::same});
    const auto deviation = [&](const Tensor& y) { return number(capstan::std(y.to(DType::float64) - exact)); };
    // dilation by 1 of a kernel widened with zeros: the same sums without tiles
    const Tensor plain = conv2d(x, pad(w, {{0, 0}, {0, 0}, {0, 0}, {0, 1}}), {},
                                {.padding = {{kernel / 2, kernel / 2}, {kernel / 2, kernel / 2 + 1}}});
    const double ratio = deviation(conv2d(x, w, {}, {.padding = nn::same})) / deviation(plain);
    CAPTURE(kernel, ratio);
    CHECK(ratio < 1.5);
    CHECK(ratio > 0.5);  // the two are computed in different ways
  }
}

TEST_CASE("what is not finite, or nearly too large, reaches no result whose window does not have it",
          "[convolution][host]") {
  const Tensor clean = random_in(-1, 1, {2, 40, 9, 24}, DType::float32, 5);
  for (const std::int64_t kernel : {3, 5}) {
    const Tensor w = random_in(0.5, 1, {32, 40, kernel, kernel}, DType::float32, 6);
    const ConvOptions same_size{.padding = nn::same};
    const auto all_of = [&](const Tensor& x) {
      GradientTape tape;
      tape.watch({x, w});
      const Tensor y = conv2d(x, w, {}, same_size);
      std::vector<Tensor> results = tape.gradient({y}, std::vector{x, w}, std::vector{x.index({all, until(32)})});
      results.push_back(y);
      return results;
    };
    const std::vector<Tensor> usual = all_of(clean);
    for (const double odd : {kNaN, kInfinity, -kInfinity, 3e38}) {
      CAPTURE(kernel, odd);
      Tensor x = clean.copy();
      x.index_put({0, 3, 4, 12}, static_cast<float>(odd));
      x.index_put({1, 5, 0, 0}, static_cast<float>(odd));
      const std::vector<Tensor> results = all_of(x);
      // the windows that hold an odd element, in whatever channel
      const Tensor marks = cast(not_equal(where(isfinite(x), x, 0), clean), DType::float32);
      const Tensor seen = conv2d(sum(marks, 1, {.keepdims = true}), ones({1, 1, kernel, kernel}), {}, same_size);
      const Tensor apart = equal(seen, 0);
      for (const std::size_t i : {0u, 2u}) {
        const Tensor difference = abs(results[i] - usual[i]);
        CHECK(number(max(where(apart, difference, 0))) < 1e-3);
        CHECK(number(sum(apart)) > 300);
      }
      // the last columns of taps never meet the element of channel 5, which stands in the first column; results 3 and 5
      // have odd gradients themselves
      const auto unmet = [&](const Tensor& dw) { return dw.index({from(6), 5, all, from(kernel / 2 + 1)}); };
      CHECK(number(max(abs(unmet(results[1]) - unmet(usual[1])))) < 1e-3);
    }
  }
}

TEST_CASE("a stride may be far larger than the kernel and the input", "[convolution]") {
  const Tensor x = ones({1, 64, 1000}), w = ones({64, 64, 3});
  GradientTape tape;
  tape.watch({x, w});
  const Tensor y = conv1d(x, w, {}, {.stride = 1'000'000'000});
  CHECK(same(y, full({1, 64, 1}, 192)));
  const auto [dx, dw] = tape.gradient(y, x, w);
  CHECK(same(dw, ones({64, 64, 3})));
  CHECK(same(dx, where(arange(1000) < 3, full({1, 64, 1000}, 64), 0)));
  const Tensor ramp = reshape(arange(50.0), {1, 1, 50});
  CHECK(
      same(conv1d(ramp, ones({2, 1, 3}), {}, {.stride = 40}), reshape(Tensor{3.0f, 123.0f, 3.0f, 123.0f}, {1, 2, 2})));
}

TEST_CASE("a convolution gives the same bits for any number of threads", "[convolution][threads]") {
  struct Sizes {
    Shape x, w;
  };
  for (const Sizes& sizes : {Sizes{{6, 20, 30, 31}, {40, 20, 3, 3}}, Sizes{{1, 70, 9, 8}, {330, 70, 3, 3}},
                             Sizes{{2, 30, 7, 7}, {192, 30, 3, 3}}, Sizes{{5, 20, 30, 31}, {200, 20, 3, 3}},
                             Sizes{{3, 130, 7, 7}, {160, 130, 3, 3}}, Sizes{{5, 40, 12, 11}, {50, 40, 1, 1}},
                             Sizes{{5, 20, 12, 11}, {260, 20, 2, 2}}}) {
    const Tensor x = random_in(-1, 1, sizes.x, DType::float32, 1), w = random_in(-1, 1, sizes.w, DType::float32, 2);
    const Tensor depthwise = random_in(-1, 1, {sizes.x[1], 1, 3, 3}, DType::float32, 3);
    const auto all = [&](std::int64_t stride) {
      GradientTape tape;
      for (const Tensor* source : {&x, &w, &depthwise}) tape.watch(*source);
      const Tensor y =
          conv2d(depthwise_conv2d(x, depthwise), w, Tensor(), {.stride = stride, .padding = (sizes.w[2] - 1) / 2});
      std::vector<Tensor> results = tape.gradient(sum(square(y)), {x, w, depthwise});
      results.push_back(y);
      return results;
    };
    for (const std::int64_t stride : {1, 2}) {
      std::vector<Tensor> first;
      for (const int threads : {1, 2, 3, 5}) {
        const ThreadCount count(threads);
        const std::vector<Tensor> results = all(stride);
        if (first.empty()) first = results;
        for (std::size_t i = 0; i < results.size(); ++i)
          CHECK(same_bits(results[i].to_vector<float>(), first[i].to_vector<float>()));
      }
    }
  }
}

TEST_CASE("convolution of a four by four image gives the published numbers", "[convolution]") {
  const Tensor image =
      reshape(Tensor{{4., 3., 1., 0.}, {2., 1., 0., 1.}, {1., 2., 4., 1.}, {3., 1., 0., 2.}}, {1, 1, 4, 4});
  const Tensor kernel = reshape(Tensor{{1., 0., 1.}, {2., 1., 0.}, {0., 0., 1.}}, {1, 1, 3, 3});
  CHECK(same(reshape(conv2d(image, kernel), {2, 2}), {{14., 6.}, {6., 12.}}));
}

TEST_CASE("SAME has ceil(size / stride) results and VALID ceil((size - kernel + 1) / stride)", "[convolution]") {
  for (std::int64_t size = 1; size <= 12; ++size)
    for (std::int64_t kernel = 1; kernel <= 5; ++kernel)
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        const Tensor x = ones({1, 1, size}), w = ones({1, 1, kernel});
        CHECK(conv1d(x, w, {}, {.stride = stride, .padding = nn::same}).size(2) == (size + stride - 1) / stride);
        if (kernel <= size)
          CHECK(conv1d(x, w, {}, {.stride = stride, .padding = nn::valid}).size(2) ==
                (size - kernel + 1 + stride - 1) / stride);
      }
  // an even kernel: the zero stands at the end, so the last result sees one element only
  CHECK(same(conv1d(reshape(Tensor{1.f, 2.f, 3.f}, {1, 1, 3}), ones({1, 1, 2}), {}, {.padding = nn::same}),
             reshape(Tensor{3.f, 5.f, 3.f}, {1, 1, 3})));
}

TEST_CASE("a transposed convolution of 3 by 3 with stride 2 may have 5 or 6 rows under SAME, and no other number",
          "[convolution]") {
  const Tensor x = ones({1, 1, 3, 3}), w = ones({1, 3, 2, 2});
  const auto sized = [&](std::int64_t size) {
    return conv_transpose2d(x, w, {}, {.stride = 2, .padding = nn::same, .output_size = size});
  };
  CHECK(sized(5).shape() == Shape{1, 3, 5, 5});
  CHECK(sized(6).shape() == Shape{1, 3, 6, 6});
  CHECK(conv_transpose2d(x, w, {}, {.stride = 2, .padding = nn::same}).shape() == Shape{1, 3, 6, 6});
  CHECK(message_of<ShapeError>([&] { sized(7); }).find("must be in [5, 6]") != std::string::npos);
  CHECK_THROWS_AS(sized(4), ShapeError);
}

TEST_CASE("convolutions take views, images without a batch, empty batches and the 16-bit types", "[convolution]") {
  const Tensor x = random_in(-1, 1, {2, 3, 6, 5}), w = random_in(-1, 1, {4, 3, 2, 3}, DType::float64, 2);
  const Tensor y = conv2d(x, w);
  CHECK(same(conv2d(strided(x), strided(w)), y));
  CHECK(same(conv2d(x[1], w), y[1]));
  CHECK(conv2d(zeros({0, 3, 6, 5}), zeros({4, 3, 2, 3})).shape() == Shape{0, 4, 5, 3});
  CHECK(same(conv_transpose2d(y[0], w), conv_transpose2d(y, w)[0]));
  for (const std::int64_t places : {1, 8})
    CHECK(conv_transpose2d(zeros({0, 16, places, 4}), ones({16, 16, 1, 1}), ones({16}), {.stride = 2}).shape() ==
          Shape{0, 16, 2 * places - 1, 7});
  for (const DType half : {DType::float16, DType::bfloat16}) {
    const Tensor result = conv2d(x.to(half), w.to(half));
    CHECK(result.dtype() == half);
    CHECK(close(result.to(DType::float64), conv2d(x.to(half).to(DType::float64), w.to(half).to(DType::float64)),
                half == DType::float16 ? 1e-3 : 8e-3));  // one rounding to 11 or 8 bits
  }
  GradientTape tape;
  const Tensor none = zeros({0, 3, 6, 5}), kernel = ones({4, 3, 2, 3});
  tape.watch(none);
  tape.watch(kernel);
  const std::vector<Tensor> gradients = tape.gradient(sum(conv2d(none, kernel)), {none, kernel});
  CHECK(gradients[0].shape() == none.shape());
  CHECK(same(gradients[1], zeros({4, 3, 2, 3})));
}

TEST_CASE("images without places have gradients of zeros", "[convolution][gradient]") {
  for (const DType type : {DType::float32, DType::float64})
    for (const auto& [channels, groups, kernel] : {std::tuple{4, 4, 3}, {4, 4, 5}, {4, 1, 3}, {40, 1, 3}})
      for (const Shape& shape : {Shape{2, channels, 0, 6}, Shape{2, channels, 5, 0}})
        for (const Borders& padding : {Borders(nn::same), Borders(kernel - 1)}) {
          INFO(to_string(shape) << ", " << groups << " groups, kernel " << kernel << ", " << name(type));
          const Tensor x = zeros(shape, {.dtype = type}), b = full({channels}, 3, {.dtype = type});
          const Tensor w = ones({channels, channels / groups, kernel, kernel}, {.dtype = type});
          GradientTape tape;
          for (const Tensor& t : {x, w, b}) tape.watch(t);
          const Tensor y = conv2d(x, w, b, {.padding = padding, .groups = groups});
          const std::vector<Tensor> gradients = tape.gradient(sum(y), {x, w, b});
          CHECK(same(y, full(y.shape(), 3, {.dtype = type})));
          CHECK(gradients[0].shape() == x.shape());
          CHECK(same(gradients[1], zeros(w.shape(), {.dtype = type})));
          CHECK(same(gradients[2], full({channels}, y.numel() / channels, {.dtype = type})));
        }
}

TEST_CASE("a separable convolution is a depthwise one and a mixing of channels", "[convolution]") {
  const Tensor x = random_in(-1, 1, {2, 3, 7, 6}), d = random_in(-1, 1, {6, 1, 3, 3}, DType::float64, 2);
  const Tensor p = random_in(-1, 1, {4, 6, 1, 1}, DType::float64, 3), b = random_in(-1, 1, {4}, DType::float64, 4);
  std::vector<Tensor> channels;
  for (std::int64_t i = 0; i < 6; ++i)
    channels.push_back(conv2d(x.index({all, range(i / 2, i / 2 + 1)}), d.index({range(i, i + 1)}), {}, {.stride = 2}));
  const Tensor deep = concat(channels, 1);
  CHECK(close(depthwise_conv2d(x, d, {}, {.stride = 2}), deep, tolerance::roundings64));
  CHECK(close(separable_conv2d(x, d, p, b, {.stride = 2}), conv2d(deep, p, b), tolerance::roundings64));
}

TEST_CASE("convolution layers hold kernels with the fans of their windows", "[convolution][nn]") {
  Rng rng(3);
  nn::Conv2d conv({.in = 6, .out = 8, .kernel = {3, 5}, .stride = 2, .padding = nn::same, .groups = 2}, rng);
  CHECK(conv.weight.shape() == Shape{8, 3, 3, 5});
  CHECK(same(conv.bias, zeros({8})));
  const double bound = std::sqrt(6.0 / (3 * 15 + 4 * 15));  // Glorot: +-sqrt(6 / (fan in + fan out))
  CHECK(number(max(conv.weight)) <= bound);
  CHECK(number(max(conv.weight)) > 0.9 * bound);
  const Tensor x = random_in(-1, 1, {2, 6, 7, 9}, DType::float32);
  CHECK(same(conv(x), conv2d(x, conv.weight, conv.bias, {.stride = 2, .padding = nn::same, .groups = 2})));
  CHECK(conv(x).shape() == Shape{2, 8, 4, 5});

  const nn::ConvTranspose2d back({.in = 8, .out = 6, .kernel = 4, .stride = 2, .padding = nn::same}, rng);
  CHECK(back(conv(x)).shape() == Shape{2, 6, 8, 10});
  CHECK(back(conv(x), {7, 9}).shape() == x.shape());
  CHECK_THROWS_AS(back(conv(x), {6, 9}), ShapeError);

  nn::SeparableConv2d separable({.in = 6, .out = 4, .multiplier = 2, .kernel = 3, .bias = false}, rng);
  CHECK(nn::parameters(separable).size() == 2);
  CHECK(nn::named_parameters(separable)[0].name == "depthwise");
  CHECK(separable(x).shape() == Shape{2, 4, 5, 7});
  const nn::DepthwiseConv2d depthwise({.in = 6, .kernel = 3}, rng);
  CHECK(depthwise(x).shape() == Shape{2, 6, 5, 7});
}
