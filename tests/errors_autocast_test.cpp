#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

TEST_CASE("a scope refuses a type that is not of 16 bits and floating", "[autocast][errors]") {
  const std::string rule = "; it must be float16 or bfloat16.";
  check_errors({
      {__LINE__, message_of<DTypeError>, [] { const AutocastScope scope(DType::float32); }, "AutocastScope: the type is float32" + rule},
      {__LINE__, message_of<DTypeError>, [] { const AutocastScope scope(DType::float64); }, "AutocastScope: the type is float64" + rule},
      {__LINE__, message_of<DTypeError>, [] { const AutocastScope scope(DType::int16); }, "AutocastScope: the type is int16" + rule},
      {__LINE__, message_of<DTypeError>, [] { const AutocastScope scope(DType::float32, false); }, "AutocastScope: the type is float32" + rule},
  }, "errors_autocast_test.cpp");
  CHECK_FALSE(autocast_dtype().has_value());
}

TEST_CASE("operations say in autocast what they say without it", "[autocast][errors]") {
  const Tensor x = ones({2, 3}), half = ones({2, 3}, {DType::float16}), wide = ones({2, 3}, {DType::float64});
  const Tensor integers = {1, 2, 3};
  const AutocastScope scope(DType::bfloat16);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { matmul(x, half); },
       "matmul: inner sizes differ: a is [2, 3] and b is [2, 3]; a.size(1) = 3 must equal b.size(0) = 2. transpose(b) would fit."},
      {__LINE__, message_of<DTypeError>, [&] { matmul(x, integers); }, "matmul: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { softmax(integers); }, "softmax: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { pow(half, integers); },
       "pow: types do not mix: a is float16 and b is int32; the Array API table has no common type for them. Convert one with x.to(dtype)."},
      {__LINE__, message_of<DTypeError>, [&] { conv1d(half, ones({1, 1, 3}, {DType::float64})); },
       "conv1d: the input is float16 and the kernel is float64; all must have one type."},
      {__LINE__, message_of<DTypeError>, [&] { scaled_dot_product_attention(half, wide, half); },
       "scaled_dot_product_attention: the query is float16 and the key float64; all three must have one type."},
      {__LINE__, message_of<ShapeError>, [&] { mse_loss(half, ones({3})); },
       "mse_loss: the prediction is [2, 3] and the target [3]; the shapes must be equal."},
  }, "errors_autocast_test.cpp");
}
// clang-format on
