// Bad input to what normalizes: the right exception, word for word, and the operands as they were.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_normalization_test.cpp";
const std::string floating = "; it must be a floating type.";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string types = "; the types must be equal (float32 will also do beside 16 bits).";
const std::string plain_number = "; it must be finite and >= 0.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor three = ones({3}), four = ones({4}), wide = ones({3}, {.dtype = DType::float64});
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(same(three, {1.0f, 1.0f, 1.0f}));
    CHECK(x.version() == 0);
    CHECK(three.version() == 0);
  }
};

}  // namespace

TEST_CASE("normalization of rows refuses axes, weights and numbers that do not fit", "[errors][nn]") {
  const Operands o;
  const std::string axes = " axes were asked for and x is [2, 3]; there must be 1 or more, and not more than x has.";
  const std::string sizes = " and x is [2, 3]; they must be the last sizes of x, one or more.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { layer_norm(o.none); }, "layer_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { rms_norm(o.none); }, "rms_norm" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { layer_norm(o.integers); }, "layer_norm: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { rms_norm(o.integers); }, "rms_norm: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, 0); }, "layer_norm: 0" + axes},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, 3); }, "layer_norm: 3" + axes},
      {__LINE__, message_of<ShapeError>, [&] { rms_norm(o.x, -1); }, "rms_norm: -1" + axes},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, {4}); }, "layer_norm: the sizes are [4]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, {1, 2, 3}); }, "layer_norm: the sizes are [1, 2, 3]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, Shape()); }, "layer_norm: the sizes are []" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(Tensor(1.0f)); },
       "layer_norm: 1 axes were asked for and x is []; there must be 1 or more, and not more than x has."},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, 1, o.four); },
       "layer_norm: the weight is [4]; with x [2, 3] it must be [3]."},
      {__LINE__, message_of<ShapeError>, [&] { layer_norm(o.x, 2, o.none, o.three); },
       "layer_norm: the bias is [3]; with x [2, 3] it must be [2, 3]."},
      {__LINE__, message_of<DTypeError>, [&] { rms_norm(o.x, 1, o.wide); },
       "rms_norm: x is float32 and the weight float64" + types},
      {__LINE__, message_of<DTypeError>, [&] { layer_norm(o.x, 1, o.three, o.three.to(DType::float16)); },
       "layer_norm: x is float32 and the bias float16" + types},
      {__LINE__, message_of<Error>, [&] { layer_norm(o.x, 1, o.none, o.none, -0.5); }, "layer_norm: epsilon is -0.5" + plain_number},
      {__LINE__, message_of<Error>, [&] { rms_norm(o.x, 1, o.none, kNaN); }, "rms_norm: epsilon is nan" + plain_number},
      {__LINE__, message_of<Error>, [&] { rms_norm(o.x, 1, o.none, kInfinity); }, "rms_norm: epsilon is inf" + plain_number},
  }, file);
}

TEST_CASE("normalization of channels refuses shapes and statistics that do not fit", "[errors][nn]") {
  const Operands o;
  const std::string images = ": x is [3]; it must be [batch, channels, ...] with ";
  check_errors({
      {__LINE__, message_of<Error>, [&] { batch_norm(o.none, o.three, o.three); }, "batch_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { batch_norm(o.x, o.none, o.three); }, "batch_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { batch_norm(o.x, o.three, o.none); }, "batch_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { batch_norm_training(o.none); }, "batch_norm_training" + undefined},
      {__LINE__, message_of<Error>, [&] { group_norm(o.none, 1); }, "group_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { instance_norm(o.none); }, "instance_norm" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { batch_norm(o.integers, o.three, o.three); }, "batch_norm: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { group_norm(o.integers, 1); }, "group_norm: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm(o.three, o.three, o.three); }, "batch_norm" + images + "2 axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm_training(o.three); }, "batch_norm_training" + images + "2 axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { group_norm(o.three, 1); }, "group_norm" + images + "2 axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { instance_norm(o.x); },
       "instance_norm: x is [2, 3]; it must be [batch, channels, ...] with 3 axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm(o.x, o.four, o.three); },
       "batch_norm: the mean is [4]; with x [2, 3] it must be [3]."},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm(o.x, o.three, ones({1, 3})); },
       "batch_norm: the variance is [1, 3]; with x [2, 3] it must be [3]."},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm_training(o.x, o.three, o.four); },
       "batch_norm_training: the bias is [4]; with x [2, 3] it must be [3]."},
      {__LINE__, message_of<DTypeError>, [&] { batch_norm(o.x, o.three, o.wide); },
       "batch_norm: x is float32 and the variance float64" + types},
      {__LINE__, message_of<DTypeError>, [&] { group_norm(o.x, 1, o.wide); },
       "group_norm: x is float32 and the weight float64" + types},
      {__LINE__, message_of<Error>, [&] { batch_norm_training(o.x, o.none, o.none, -1); }, "batch_norm_training: epsilon is -1" + plain_number},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm_training(ones({1, 3})); },
       "batch_norm_training: x is [1, 3], which is one value for each channel; there must be two or more."},
      {__LINE__, message_of<ShapeError>, [&] { batch_norm_training(ones({1, 3, 1, 1})); },
       "batch_norm_training: x is [1, 3, 1, 1], which is one value for each channel; there must be two or more."},
      {__LINE__, message_of<ShapeError>, [&] { instance_norm(ones({2, 3, 1})); },
       "instance_norm: x is [2, 3, 1], which is one value for each channel of a sample; there must be two or more."},
      {__LINE__, message_of<ShapeError>, [&] { group_norm(o.x, 2); },
       "group_norm: 2 groups were asked for and x [2, 3] has 3 channels; groups must be 1 or more and divide the channels."},
      {__LINE__, message_of<ShapeError>, [&] { group_norm(o.x, 0); },
       "group_norm: 0 groups were asked for and x [2, 3] has 3 channels; groups must be 1 or more and divide the channels."},
      {__LINE__, message_of<ShapeError>, [&] { local_response_norm(o.x, 3); },
       "local_response_norm: x is [2, 3]; it must be [batch, channels, ...] with 3 axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { local_response_norm(ones({2, 3, 4}), 0); },
       "local_response_norm: the size is 0; it must be 1 or more."},
      {__LINE__, message_of<DTypeError>, [&] { local_response_norm(o.integers, 1); },
       "local_response_norm: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { local_response_norm(o.none, 1); }, "local_response_norm" + undefined},
      {__LINE__, message_of<Error>, [&] { normalize(o.none); }, "normalize" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { normalize(o.integers); }, "normalize: the tensor is int32" + floating},
      {__LINE__, message_of<Error>, [&] { normalize(o.x, 2, -1, -1); }, "normalize: epsilon is -1" + plain_number},
      {__LINE__, message_of<IndexError>, [&] { normalize(o.x, 2, 2); },
       "vector_norm: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
  }, file);
}

TEST_CASE("layers that normalize refuse settings out of range", "[errors][nn]") {
  const std::string sizes = "; there must be one or more, each >= 1.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::LayerNorm layer{{.epsilon = 1}}; }, "LayerNorm: the sizes are []" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { nn::RmsNorm layer{{.sizes = {3, 0}}}; }, "RmsNorm: the sizes are [3, 0]" + sizes},
      {__LINE__, message_of<Error>, [&] { nn::LayerNorm layer{{.sizes = {3}, .epsilon = -1}}; }, "LayerNorm: epsilon is -1" + plain_number},
      {__LINE__, message_of<Error>, [&] { nn::RmsNorm layer{{.sizes = {3}, .epsilon = kNaN}}; }, "RmsNorm: epsilon is nan" + plain_number},
      {__LINE__, message_of<ShapeError>, [&] { nn::BatchNorm2d layer{{.epsilon = 1}}; }, "BatchNorm2d: channels is 0; it must be >= 1."},
      {__LINE__, message_of<Error>, [&] { nn::BatchNorm layer{{.channels = 3, .epsilon = kInfinity}}; }, "BatchNorm: epsilon is inf" + plain_number},
      {__LINE__, message_of<Error>, [&] { nn::BatchNorm1d layer{{.channels = 3, .momentum = 1.5}}; },
       "BatchNorm1d: the momentum is 1.5; it must be in [0, 1], or none."},
      {__LINE__, message_of<Error>, [&] { nn::InstanceNorm3d layer{{.channels = 3, .momentum = kNaN}}; },
       "InstanceNorm3d: the momentum is nan; it must be in [0, 1], or none."},
      {__LINE__, message_of<ShapeError>, [&] { nn::InstanceNorm layer{{.channels = -1}}; }, "InstanceNorm: channels is -1; it must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::GroupNorm layer{{.groups = 2, .channels = 3}}; },
       "GroupNorm: there are 2 groups and 3 channels; groups must be 1 or more and divide the channels."},
      {__LINE__, message_of<ShapeError>, [&] { nn::GroupNorm layer{{.channels = 3}}; },
       "GroupNorm: there are 0 groups and 3 channels; groups must be 1 or more and divide the channels."},
      {__LINE__, message_of<ShapeError>, [&] { nn::LocalResponseNorm layer(0); }, "LocalResponseNorm: the size is 0; it must be 1 or more."},
      {__LINE__, message_of<DTypeError>, [&] { nn::BatchNorm layer{{.channels = 3, .dtype = DType::int32}}; },
       "BatchNorm: the dtype is int32; it must be a floating type."},
  }, file);
}

TEST_CASE("layers that normalize refuse inputs of another rank, size or type, and stay as they are", "[errors][nn]") {
  const Operands o;
  nn::BatchNorm any{{.channels = 3}};
  nn::BatchNorm1d one{{.channels = 3}};
  nn::BatchNorm2d two{{.channels = 3}};
  nn::BatchNorm3d three{{.channels = 3}};
  nn::InstanceNorm1d instance{{.channels = 3, .track_running_stats = true}};
  const nn::GroupNorm group{{.groups = 3, .channels = 3}};
  check_errors({
      {__LINE__, message_of<Error>, [&] { any(o.none); }, "batch_norm_training" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { any(o.three); }, "BatchNorm: x is [3]; it must be [batch, channels, ...]."},
      {__LINE__, message_of<ShapeError>, [&] { any(ones({2, 4})); },
       "BatchNorm: x is [2, 4] and the layer has 3 channels; axis 1 must have that size."},
      {__LINE__, message_of<ShapeError>, [&] { one(ones({2, 3, 4, 5})); },
       "BatchNorm1d: x is [2, 3, 4, 5]; it must be [batch, channels] or [batch, channels, length]."},
      {__LINE__, message_of<ShapeError>, [&] { two(o.x); }, "BatchNorm2d: x is [2, 3]; it must be [batch, channels, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { three(ones({2, 3, 4, 5})); },
       "BatchNorm3d: x is [2, 3, 4, 5]; it must be [batch, channels, depth, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { instance(o.x); }, "InstanceNorm1d: x is [2, 3]; it must be [batch, channels, length]."},
      {__LINE__, message_of<ShapeError>, [&] { instance(ones({2, 3, 1})); },
       "instance_norm: x is [2, 3, 1], which is one value for each channel of a sample; there must be two or more."},
      {__LINE__, message_of<ShapeError>, [&] { group(ones({2, 4})); },
       "GroupNorm: x is [2, 4] and the layer has 3 channels; axis 1 must have that size."},
      {__LINE__, message_of<ShapeError>, [&] { any(ones({1, 3})); },
       "batch_norm_training: x is [1, 3], which is one value for each channel; there must be two or more."},
      {__LINE__, message_of<DTypeError>, [&] { any(ones({2, 3}, {.dtype = DType::float64})); },
       "BatchNorm: x is float64 and the running statistics are float32; the types must be equal (float32 also goes with 16 bits)."},
      {__LINE__, message_of<DTypeError>, [&] { any(o.integers); }, "batch_norm_training: the tensor is int32" + floating},
  }, file);
  CHECK(any.num_batches_tracked.item<std::int64_t>() == 0);
  CHECK(same(any.running_mean, zeros({3})));
  CHECK(same(instance.running_var, ones({3})));
}

TEST_CASE("running statistics of another shape are refused before one of them moves", "[errors][nn]") {
  nn::BatchNorm layer{{.channels = 3}};
  nn::InstanceNorm1d instance{{.channels = 3, .track_running_stats = true}};
  layer.running_var = Buffer(ones({1}));  // which would broadcast
  instance.running_var = Buffer(ones({1}));
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { layer(ones({2, 3})); }, "BatchNorm: the running statistics are [1]; they must be [3]."},
      {__LINE__, message_of<ShapeError>, [&] { instance(ones({2, 3, 4})); },
       "InstanceNorm1d: the running statistics are [1]; they must be [3]."},
  }, file);
  CHECK(same(layer.running_mean, zeros({3})));
  CHECK(same(instance.running_mean, zeros({3})));
  CHECK(layer.num_batches_tracked.item<std::int64_t>() == 0);
}
