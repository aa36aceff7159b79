// TensorFlow's order of axes and the one here: every element in its place, there and back.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor counting(const Shape& shape) { return reshape(arange(shape.numel()), shape); }

/// Whether f(i, j, k, l) holds for all positions in a shape of four axes.
template <class F>
bool everywhere(const Shape& shape, F f) {
  bool right = true;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t j = 0; j < shape[1]; ++j)
      for (std::int64_t k = 0; k < shape[2]; ++k)
        for (std::int64_t l = 0; l < shape[3]; ++l) right = right && f(i, j, k, l);
  return right;
}

std::int64_t element(const Tensor& x, std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) {
  return x.at<std::int64_t>(i, j, k, l);
}

}  // namespace

TEST_CASE("channels move between the last axis and the second", "[layout]") {
  const Tensor nhwc = counting({2, 3, 4, 5}), nchw = nchw_from_nhwc(nhwc);
  REQUIRE(nchw.shape() == Shape{2, 5, 3, 4});
  CHECK(everywhere(nhwc.shape(), [&](auto n, auto h, auto w, auto c) {
    return element(nhwc, n, h, w, c) == element(nchw, n, c, h, w);
  }));
  CHECK(nchw.shares_storage(nhwc));
  CHECK(same(nhwc_from_nchw(nchw), nhwc));
  CHECK(nchw_from_nhwc(zeros({2, 7, 3})).shape() == Shape{2, 3, 7});
  CHECK(nchw_from_nhwc(zeros({2, 7, 8, 9, 3})).shape() == Shape{2, 3, 7, 8, 9});
  CHECK(nhwc_from_nchw(zeros({2, 3, 7})).shape() == Shape{2, 7, 3});
  CHECK(nhwc_from_nchw(zeros({2, 3, 7, 8, 9})).shape() == Shape{2, 7, 8, 9, 3});
}

TEST_CASE("kernels of convolutions change their order of axes", "[layout]") {
  const Tensor hwio = counting({2, 3, 4, 5}), ours = conv_kernel_from_hwio(hwio);
  REQUIRE(ours.shape() == Shape{5, 4, 2, 3});
  CHECK(everywhere(hwio.shape(), [&](auto h, auto w, auto in, auto out) {
    return element(hwio, h, w, in, out) == element(ours, out, in, h, w);
  }));
  CHECK(same(hwio_from_conv_kernel(ours), hwio));
  const Tensor hwoi = counting({2, 3, 4, 5}), transposed = conv_transpose_kernel_from_hwoi(hwoi);
  REQUIRE(transposed.shape() == Shape{5, 4, 2, 3});
  CHECK(everywhere(hwoi.shape(), [&](auto h, auto w, auto out, auto in) {
    return element(hwoi, h, w, out, in) == element(transposed, in, out, h, w);
  }));
  CHECK(same(hwoi_from_conv_transpose_kernel(transposed), hwoi));
  CHECK(conv_kernel_from_hwio(zeros({7, 4, 5})).shape() == Shape{5, 4, 7});
  CHECK(hwio_from_conv_kernel(zeros({5, 4, 7, 8, 9})).shape() == Shape{7, 8, 9, 4, 5});
}

TEST_CASE("kernels of depthwise convolutions keep each input's outputs together", "[layout]") {
  const Tensor hwim = counting({2, 3, 4, 5}), ours = depthwise_kernel_from_hwim(hwim);
  REQUIRE(ours.shape() == Shape{20, 1, 2, 3});
  CHECK(everywhere(hwim.shape(), [&](auto h, auto w, auto in, auto m) {
    return element(hwim, h, w, in, m) == element(ours, in * 5 + m, std::int64_t{0}, h, w);
  }));
  CHECK(same(hwim_from_depthwise_kernel(ours, 5), hwim));
  CHECK(depthwise_kernel_from_hwim(zeros({7, 4, 2})).shape() == Shape{8, 1, 7});
  CHECK(hwim_from_depthwise_kernel(zeros({8, 1, 7}), 2).shape() == Shape{7, 4, 2});
  CHECK(hwim_from_depthwise_kernel(zeros({0, 1, 7}), 2).shape() == Shape{7, 0, 2});
}

TEST_CASE("a grouped convolution with a turned kernel is TensorFlow's depthwise convolution", "[layout]") {
  const Tensor image = random_in(-1, 1, {1, 4, 5, 2}, DType::float64, 521);  // [batch, rows, columns, channels]
  const Tensor kernel = random_in(-1, 1, {2, 3, 2, 3}, DType::float64, 522);
  const Tensor ours = depthwise_kernel_from_hwim(kernel);
  const Tensor y = nhwc_from_nchw(conv2d(nchw_from_nhwc(image), ours, Tensor(), {.groups = 2}));
  REQUIRE(y.shape() == Shape{1, 3, 3, 6});
  std::vector<double> expected;  // out[r, c, k*3 + q] = sum(i, j) image[r+i, c+j, k] * kernel[i, j, k, q]
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      for (int channel = 0; channel < 6; ++channel) {
        double sum = 0;
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 3; ++j)
            sum += image.at<double>(0, r + i, c + j, channel / 3) * kernel.at<double>(i, j, channel / 3, channel % 3);
        expected.push_back(sum);
      }
  CHECK(close(y, from_vector(expected, y.shape()), tolerance::product64));
}
