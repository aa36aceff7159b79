// Convolutions that are products of what their windows meet: biases, and batches that are copied in parts.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

TEST_CASE("patches of a batch that is copied some images at a time have the results of its parts",
          "[convolution][host]") {
  const std::int64_t batch = 5, size = 512;  // of 2^19 + 2^18 elements an image, two of which are copied at a time
  const Tensor x = random_in(-1, 1, {batch, 3, size, size}, DType::float32, 1);
  const Tensor w = random_in(-1, 1, {260, 3, 32, 32}, DType::float32, 2);
  const auto run = [&](const Tensor& images) {
    GradientTape tape;
    tape.watch({images, w});
    const Tensor y = conv2d(images, w, {}, {.stride = 32});
    std::vector<Tensor> results = tape.gradient(sum(square(y)), {images, w});
    results.push_back(y);
    return results;
  };
  const std::vector<Tensor> all_of_them = run(x);
  Tensor weights = zeros_like(w);
  for (std::int64_t i = 0; i < batch; ++i) {
    const std::vector<Tensor> one = run(narrow(x, 0, i, 1).contiguous());
    CHECK(close(narrow(all_of_them[0], 0, i, 1), one[0], tolerance::blocked_sum32));
    CHECK(close(narrow(all_of_them[2], 0, i, 1), one[2], tolerance::blocked_sum32));
    weights = weights + one[1];
  }
  CHECK(close(all_of_them[1], weights, tolerance::blocked_sum32));
}

TEST_CASE("a bias of a transposed convolution reaches all elements of its channel", "[convolution]") {
  const Tensor x = random_in(-1, 1, {2, 32, 4, 5}, DType::float64, 1);
  for (const std::int64_t kernel : {1, 2}) {
    const Tensor w = random_in(-1, 1, {32, 30, kernel, kernel}, DType::float64, 2);
    for (const Tensor& of : {x, x.index({all, all, until(1), until(1)})})
      for (const std::int64_t groups : {1, 2})
        for (const std::int64_t stride : {1, 2, 3}) {
          const Tensor b = random_in(-1, 1, {30 * groups}, DType::float64, 3);
          const ConvTransposeOptions options{.stride = stride, .output_padding = stride - 1, .groups = groups};
          CHECK(close(conv_transpose2d(of, w, b, options),
                      conv_transpose2d(of, w, {}, options) + reshape(b, {30 * groups, 1, 1}), tolerance::roundings64));
        }
  }
}
