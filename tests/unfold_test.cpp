// Windows as columns and back, against plain loops over random settings.
#include <random>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<std::int64_t>;

/// Windows over up to three axes; missing ones in front have one place.
struct Setting {
  int axes = 1;
  Numbers in, kernel, stride, dilation, before, after;

  std::int64_t windows(std::size_t i) const {
    return (in[i] + before[i] + after[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1;
  }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t all_windows() const { return windows(0) * windows(1) * windows(2); }
  std::int64_t places() const { return in[0] * in[1] * in[2]; }
  Numbers spatial(const Numbers& list) const { return Numbers(list.end() - axes, list.end()); }

  /// Of the place that tap `k` of window `w` sees, or -1 outside.
  std::int64_t place(std::int64_t k, std::int64_t w) const {
    std::int64_t position[3];
    for (std::size_t i = 3; i-- > 0;) {
      position[i] = w % windows(i) * stride[i] + k % kernel[i] * dilation[i] - before[i];
      w /= windows(i);
      k /= kernel[i];
      if (position[i] < 0 || position[i] >= in[i]) return -1;
    }
    return (position[0] * in[1] + position[1]) * in[2] + position[2];
  }
  UnfoldOptions options() const {
    std::vector<Padding> padding;
    for (std::size_t i = 3 - static_cast<std::size_t>(axes); i < 3; ++i) padding.push_back({before[i], after[i]});
    UnfoldOptions o;
    o.stride = Sizes(spatial(stride));
    o.dilation = Sizes(spatial(dilation));
    if (axes == 1) o.padding = {padding[0]};
    if (axes == 2) o.padding = {padding[0], padding[1]};
    if (axes == 3) o.padding = {padding[0], padding[1], padding[2]};
    return o;
  }
};

Setting draw(int axes, std::mt19937_64& bits) {
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (;;) {
    Setting s{axes, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
    bool fits = true;
    for (std::size_t i = 3 - static_cast<std::size_t>(axes); i < 3; ++i) {
      s.in[i] = number(1, 7), s.kernel[i] = number(1, 3), s.stride[i] = number(1, 3), s.dilation[i] = number(1, 2);
      s.before[i] = number(0, 3), s.after[i] = number(0, 3);
      fits = fits && s.in[i] + s.before[i] + s.after[i] > s.dilation[i] * (s.kernel[i] - 1);
    }
    if (fits) return s;
  }
}

Shape image_shape(std::int64_t batch, std::int64_t channels, const Setting& s) {
  Numbers sizes = {batch, channels};
  for (const std::int64_t size : s.spatial(s.in)) sizes.push_back(size);
  return Shape(std::span<const std::int64_t>(sizes));
}

/// Calls `use(place, column)` for flat positions in an image [planes, places] and in its columns
/// [planes, taps, windows].
template <class F>
void for_pairs(std::int64_t planes, const Setting& s, F use) {
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t k = 0; k < s.taps(); ++k)
      for (std::int64_t w = 0; w < s.all_windows(); ++w)
        if (const std::int64_t place = s.place(k, w); place >= 0)
          use(static_cast<std::size_t>(plane * s.places() + place),
              static_cast<std::size_t>((plane * s.taps() + k) * s.all_windows() + w));
}

}  // namespace

TEST_CASE("unfold and fold agree with plain loops for random settings", "[unfold]") {
  std::mt19937_64 bits(501);
  for (int round = 0; round < 240; ++round) {
    const Setting s = draw(1 + round % 3, bits);
    const std::int64_t batch = round % 2 + 1, channels = round % 5 + 1, planes = batch * channels;
    INFO("round " << round << ", kernel " << s.kernel[0] << " " << s.kernel[1] << " " << s.kernel[2]);
    const Tensor x = random_in(-1, 1, image_shape(batch, channels, s), DType::float64, bits());
    const Shape column_shape({batch, channels * s.taps(), s.all_windows()});
    const Tensor columns = random_in(-1, 1, column_shape, DType::float64, bits());
    const std::vector<double> from = values(x), back = values(columns);
    std::vector<double> unfolded(back.size()), folded(from.size());
    for_pairs(planes, s, [&](std::size_t place, std::size_t column) {
      unfolded[column] = from[place];
      folded[place] += back[column];
    });
    const Sizes kernel(s.spatial(s.kernel)), size(s.spatial(s.in));
    CHECK(same(unfold(x, kernel, s.options()), from_vector(unfolded, column_shape)));
    CHECK(close(fold(columns, size, kernel, s.options()), from_vector(folded, x.shape()), tolerance::roundings64));

    GradientTape tape;
    tape.watch({x, columns});
    const auto [dx, dcolumns] = tape.gradient(
        sum(unfold(x, kernel, s.options()) * columns) + sum(fold(columns, size, kernel, s.options()) * x), x, columns);
    CHECK(close(dx, from_vector(folded, x.shape()) * 2, tolerance::roundings64));
    CHECK(same(dcolumns, from_vector(unfolded, column_shape) * 2));
  }
}

TEST_CASE("unfold lays out a small image in PyTorch's order", "[unfold]") {
  const Tensor x = reshape(arange(12), {1, 2, 2, 3});  // channels 0 1 2 / 3 4 5 and 6 7 8 / 9 10 11
  CHECK(
      same(unfold(x, 2), Tensor{{{0, 1}, {1, 2}, {3, 4}, {4, 5}, {6, 7}, {7, 8}, {9, 10}, {10, 11}}}.to(DType::int64)));
  CHECK(same(unfold(Tensor{{{1, 2, 3}}}, 3, {.padding = 1}), {{{0, 1, 2}, {1, 2, 3}, {2, 3, 0}}}));
  CHECK(unfold(zeros({2, 5, 3, 4}), {2, 3}).shape() == Shape{2, 30, 4});    // torch.nn.Unfold's example
  CHECK(fold(zeros({1, 12, 12}), {4, 5}, 2).shape() == Shape{1, 3, 4, 5});  // torch.nn.Fold's
}

TEST_CASE("folding what was unfolded counts the windows of each place", "[unfold]") {
  const Tensor ones_image = ones({1, 1, 4, 4}, {.dtype = DType::float64});
  const Tensor counts = fold(unfold(ones_image, 3), {4, 4}, 3);
  CHECK(same(counts, {{{{1.0, 2.0, 2.0, 1.0}, {2.0, 4.0, 4.0, 2.0}, {2.0, 4.0, 4.0, 2.0}, {1.0, 2.0, 2.0, 1.0}}}}));
}

TEST_CASE("a convolution is a product with the columns", "[unfold]") {
  const Tensor x = random_in(-1, 1, {2, 3, 6, 5}, DType::float64, 511);
  const Tensor weight = random_in(-1, 1, {4, 3, 3, 2}, DType::float64, 512);
  for (const Borders& padding : {Borders(1), Borders(PaddingRule::same), Borders({Padding{0, 2}, Padding{1, 0}})}) {
    const Tensor columns = unfold(x, {3, 2}, {.stride = {2, 1}, .padding = padding});
    const Tensor expected = conv2d(x, weight, Tensor(), {.stride = {2, 1}, .padding = padding});
    CHECK(close(reshape(matmul(reshape(weight, {4, 18}), columns), expected.shape()), expected, tolerance::product64));
  }
}

TEST_CASE("unfold moves elements of every type, and a border of zeros", "[unfold]") {
  const Tensor x = {{{1, 0, 1}}};
  for (const DType type : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::int16,
                           DType::int32, DType::int64, DType::uint8, DType::bool8})
    CHECK(same(unfold(cast(x, type), 2, {.padding = 1}), cast(Tensor{{{0, 1, 0, 1}, {1, 0, 1, 0}}}, type)));
  CHECK(unfold(zeros({0, 3, 4, 4}), 2).shape() == Shape{0, 12, 9});
  CHECK(unfold(zeros({2, 0, 4}), 3).shape() == Shape{2, 0, 2});
  CHECK(fold(zeros({0, 12, 9}), {4, 4}, 2).shape() == Shape{0, 3, 4, 4});
  CHECK(fold(zeros({2, 0, 2}), 4, 3).shape() == Shape{2, 0, 4});
}
