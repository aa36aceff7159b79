// Bad input to convolutions: the right exception, word for word, the operands as they were.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_convolution_test.cpp";

struct Operands {
  Tensor x = ones({2, 3, 8, 8}), w = ones({4, 3, 3, 3}), b = ones({4});
  ~Operands() {
    CHECK(same(x, ones({2, 3, 8, 8})));
    CHECK(same(w, ones({4, 3, 3, 3})));
  }
};

}  // namespace

TEST_CASE("convolutions refuse operands that do not fit", "[errors][convolution]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, ones({32, 1, 5, 5})); },
       "conv2d: input has 3 channels but the kernel [32, 1, 5, 5] expects 1"},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, ones({4, 3, 3, 3}), {}, {.groups = 2}); },
       "conv2d: input has 3 channels but the kernel [4, 3, 3, 3] with 2 groups expects 6; the input is [2, 3, 8, 8]."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.groups = 3}); },
       "conv2d: the kernel [4, 3, 3, 3] has 4 channels along its first axis; 3 groups must divide them."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.groups = 0}); }, "conv2d: groups is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.groups = -1}); }, "conv2d: groups is -1; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, ones({4, 3, 9, 3})); },
       "conv2d: the kernel reaches over 9 places of spatial axis 0 (size 9, dilation 1) and the padded input has 8 (8 with padding 0 and 0); it must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.padding = {{0, 0}, {0, 1}}, .dilation = {1, 5}}); },
       "conv2d: the kernel reaches over 11 places of spatial axis 1 (size 3, dilation 5) and the padded input has 9 (8 with padding 0 and 1); it must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.stride = 0}); }, "conv2d: the stride of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.stride = {1, -2}}); }, "conv2d: the stride of spatial axis 1 is -2; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.stride = {1, 1, 1}}); },
       "conv2d: the stride has 3 values; it must have 1 or 2, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.dilation = 0}); }, "conv2d: the dilation of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.padding = -1}); },
       "conv2d: the padding of spatial axis 0 is -1 and -1; it must not be negative."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.padding = {1, 2, 3}}); },
       "conv2d: the padding has 3 values; it must have 1 or 2, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(ones({8, 8}), o.w); },
       "conv2d: the input is [8, 8]; it must be [batch, channels, rows, columns] or [channels, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { conv1d(o.x, o.w); },
       "conv1d: the input is [2, 3, 8, 8]; it must be [batch, channels, columns] or [channels, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, ones({4, 3, 3})); }, "conv2d: the kernel is [4, 3, 3]; it must have 4 axes."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, zeros({4, 3, 0, 3})); },
       "conv2d: the kernel's size along spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, zeros({0, 3, 3, 3})); }, "conv2d: the kernel is [0, 3, 3, 3]; it must have channels."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, ones({3})); },
       "conv2d: the bias is [3] and the result has 4 channels; the bias must be [4]."},
      {__LINE__, message_of<DTypeError>, [&] { conv2d(o.x, o.w.to(DType::float64)); },
       "conv2d: the input is float32 and the kernel is float64; all must have one type."},
      {__LINE__, message_of<DTypeError>, [&] { conv2d(o.x, o.w, o.b.to(DType::float64)); },
       "conv2d: the input is float32 and the bias is float64; all must have one type."},
      {__LINE__, message_of<DTypeError>, [&] { conv2d(o.x.to(DType::int32), o.w); }, "conv2d: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { conv2d(Tensor(), o.w); }, "conv2d: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [&] { conv2d(o.x, Tensor()); }, "conv2d: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [&] { depthwise_conv2d(o.x, ones({3, 1, 3, 3}), {}, {.groups = 3}); },
       "depthwise_conv2d: groups is 3; leave it alone, every channel is a group of its own."},
      {__LINE__, message_of<ShapeError>, [&] { depthwise_conv2d(o.x, ones({4, 1, 3, 3})); },
       "depthwise_conv2d: the input has 3 channels and the kernel is [4, 1, 3, 3]; it must be [a multiple of 3, 1, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { depthwise_conv2d(o.x, ones({3, 3, 3, 3})); },
       "depthwise_conv2d: the input has 3 channels and the kernel is [3, 3, 3, 3]; it must be [a multiple of 3, 1, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { separable_conv2d(o.x, ones({3, 1, 3, 3}), ones({4, 3, 3, 3})); },
       "separable_conv2d: the pointwise kernel is [4, 3, 3, 3]; it must be [out, channels, 1, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.stride = {}}); },
       "conv2d: no stride is given; it must have 1 or 2 values, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { conv2d(o.x, o.w, {}, {.dilation = {}}); },
       "conv2d: no dilation is given; it must have 1 or 2 values, one for each spatial axis."},
  }, file);
}

TEST_CASE("a kernel that reaches over 2^31 elements of the input is refused", "[errors][convolution]") {
  const std::int64_t far = std::int64_t{1} << 32;  // the product of two of them is no number of 64 bits
  const std::string message = message_of<ShapeError>([&] {
    conv2d(ones({1, 1, 4, 4}), ones({1, 1, 2, 2}), {}, {.stride = 2 * far, .padding = far, .dilation = far - 1});
  });
  INFO(message);
  CHECK(message.find("a kernel reaches over a part [1, 1, 4294967296, 4294967296] of the padded input; "
                     "it must have fewer than 2^31 elements.") != std::string::npos);
}

TEST_CASE("all channels count where a kernel of many weights reaches far", "[errors][convolution][host]") {
  const std::int64_t far = 10'000'000;
  const std::string message = message_of<ShapeError>(
      [&] { conv1d(ones({1, 300, 10}), ones({150, 300, 3}), {}, {.padding = far, .dilation = far}); });
  INFO(message);
  CHECK(message.find("reaches over a part [300, 1, 1, 20000001]") != std::string::npos);
}

TEST_CASE("transposed convolutions refuse sizes that no convolution gives", "[errors][convolution]") {
  const Tensor x = ones({1, 2, 3, 3}), w = ones({2, 4, 3, 3});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.stride = 2, .output_size = 9}); },
       "conv_transpose2d: spatial axis 0 of the result would have size 9, from which no convolution with these settings gives the input's 3; it must be in [7, 8]."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.stride = 2, .output_size = {8, 6}}); },
       "conv_transpose2d: spatial axis 1 of the result would have size 6, from which no convolution with these settings gives the input's 3; it must be in [7, 8]."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.stride = 2, .output_padding = 2}); },
       "conv_transpose2d: spatial axis 0 of the result would have size 9, from which no convolution with these settings gives the input's 3; it must be in [7, 8]."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.padding = 3}); },
       "conv_transpose2d: the padding crops spatial axis 0 away: of 5 places it takes 3 and 3; one must be left."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.output_padding = -1}); },
       "conv_transpose2d: the output padding of spatial axis 0 is -1; it must be at least 0."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.stride = 2, .padding = nn::same, .output_padding = 1}); },
       "conv_transpose2d: an output padding of 1 was given with PaddingRule::same; ask for an output size instead."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, ones({3, 4, 3, 3})); },
       "conv_transpose2d: input has 2 channels but the kernel [3, 4, 3, 3] expects 3"},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, ones({2})); },
       "conv_transpose2d: the bias is [2] and the result has 4 channels; the bias must be [4]."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose2d(x, w, {}, {.stride = 0}); },
       "conv_transpose2d: the stride of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose1d(zeros({0, 1, 1 << 30}), ones({1, 1, 1}), {}, {.stride = std::int64_t{1} << 40}); },
       "conv_transpose1d: the input's 1073741824 places along spatial axis 0 with a stride of 1099511627776 give a result of more than 2^62."},
      {__LINE__, message_of<ShapeError>, [&] { Sizes{1, 2, 3, 4}; }, "Sizes: there are 4 values; there must be 1 to 3, one for each axis."},
  }, file);
}

TEST_CASE("convolution layers refuse settings that no input could fit", "[errors][convolution]") {
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::Conv2d({.in = 0, .out = 3, .kernel = 3}); },
       "Conv2d: 0 input and 3 output channels were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Conv1d({.in = 4, .out = 6, .kernel = 3, .groups = 4}); },
       "Conv1d: 4 groups were asked for; they must divide the 4 input and 6 output channels."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Conv2d({.in = 4, .out = 6}); },
       "Conv2d: the kernel has 0 values; it must have 1 or 2, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Conv2d({.in = 4, .out = 6, .kernel = 3, .stride = 0}); },
       "Conv2d: the stride of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Conv3d({.in = 4, .out = 6, .kernel = 3, .padding = {1, -1, 1}}); },
       "Conv3d: the padding of spatial axis 1 is -1 and -1; it must not be negative."},
      {__LINE__, message_of<ShapeError>, [&] { nn::ConvTranspose2d({.in = 4, .out = 6, .kernel = 3, .output_padding = -1}); },
       "ConvTranspose2d: the output padding of spatial axis 0 is -1; it must be at least 0."},
      {__LINE__, message_of<ShapeError>, [&] { nn::DepthwiseConv2d({.in = 4, .multiplier = 0, .kernel = 3}); },
       "DepthwiseConv2d: 4 input and 0 output channels were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { const std::int64_t many = std::int64_t{1} << 40; nn::DepthwiseConv2d({.in = many, .multiplier = many, .kernel = 3}); },
       "DepthwiseConv2d: 1099511627776 input channels times 1099511627776 are 2^63 or more."},
  }, file);
}

TEST_CASE("depthwise layers take the channels that they were made for", "[errors][convolution]") {
  const nn::DepthwiseConv2d depthwise({.in = 8, .multiplier = 2, .kernel = 3});
  const nn::SeparableConv2d separable({.in = 8, .out = 4, .kernel = 3});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { depthwise(zeros({1, 16, 8, 8})); },
       "DepthwiseConv2d: the input is [1, 16, 8, 8], which has 16 channels; the layer was made for 8."},
      {__LINE__, message_of<ShapeError>, [&] { depthwise(zeros({4, 8, 8})); },
       "DepthwiseConv2d: the input is [4, 8, 8], which has 4 channels; the layer was made for 8."},
      {__LINE__, message_of<ShapeError>, [&] { separable(zeros({1, 1, 8, 8})); },
       "SeparableConv2d: the input is [1, 1, 8, 8], which has 1 channels; the layer was made for 8."},
  }, file);
  CHECK(depthwise(zeros({8, 8, 8})).shape() == Shape{16, 6, 6});
  CHECK(separable(zeros({2, 8, 8, 8})).shape() == Shape{2, 4, 6, 6});
}
