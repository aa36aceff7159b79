// Bad input to resampling, unfolding and changes of layout: the right exception, word for word, the operands as they
// were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_resampling_test.cpp";
const std::string floating = "; it must be a floating type.";
const std::string undefined = "the tensor is undefined; give it a value first.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor image = ones({1, 2, 3, 4});
  Tensor integers = ones({1, 2, 3, 4}, {.dtype = DType::int32});
  Tensor line = ones({1, 2, 5});
  Tensor volume = ones({1, 1, 2, 3, 4});
  Tensor hollow = zeros({1, 2, 0, 4});
  Tensor flat = ones({2, 3});
  Tensor grid = zeros({1, 5, 6, 2});
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(image, ones({1, 2, 3, 4})));
    for (const Tensor& x : {image, integers, line, volume, flat, grid}) CHECK(x.version() == 0);
  }
};

}  // namespace

TEST_CASE("interpolate refuses tensors that it cannot resample", "[errors][resampling]") {
  const Operands o;
  const std::string spatial = "; it must be [batch, channels, ...] with 1 to 3 spatial axes.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { interpolate(o.none, {.size = 2}); }, "interpolate: " + undefined},
      {__LINE__, message_of<DTypeError>, [&] { interpolate(o.integers, {.size = 2, .mode = InterpolateMode::linear}); },
       "interpolate: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.flat, {.size = 2}); }, "interpolate: x is [2, 3]" + spatial},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(ones({1, 1, 1, 1, 1, 1}), {.size = 2}); },
       "interpolate: x is [1, 1, 1, 1, 1, 1]" + spatial},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.hollow, {.size = 2}); },
       "interpolate: x is [1, 2, 0, 4]; each spatial axis must have size 1 or more to be read from."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.line, {.size = 2, .mode = InterpolateMode::cubic}); },
       "interpolate: x is [1, 2, 5]; mode cubic is for 2 spatial axes."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.image, {.size = {2, 3, 4}}); },
       "interpolate: the size has 3 values; it must have 1 or 2, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.image, {.size = {2, 0}}); },
       "interpolate: the size of spatial axis 1 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.image, {.size = -3}); },
       "interpolate: the size of spatial axis 0 is -3; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.image, {.size = std::int64_t{1} << 40}); },
       "Shape: [1, 2, 1099511627776, 1099511627776] has 2^63 elements or more; "
       "the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.volume, {.scale_factor = {2, 2}}); },
       "interpolate: the scale factor has 2 values; it must have 1 or 3, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.image, {.scale_factor = {1, 0.2}}); },
       "interpolate: 0.2 times spatial axis 1 of shape [1, 2, 3, 4] is 0 places; "
       "there must be at least 1 and at most 2^40."},
      {__LINE__, message_of<ShapeError>, [&] { interpolate(o.line, {.scale_factor = 1e30}); },
       "interpolate: 1e+30 times spatial axis 0 of shape [1, 2, 5] is 5e+30 places; "
       "there must be at least 1 and at most 2^40."},
      {__LINE__, message_of<ShapeError>, [&] { Scales({1, 2, 3, 4}); },
       "Scales: there are 4 values; there must be 1 to 3, one for each axis."},
  }, file);
}

TEST_CASE("interpolate refuses settings that do not go together", "[errors][resampling]") {
  const Operands o;
  using Mode = InterpolateMode;
  const std::string above = "; it must be above 0 and finite.", smooth = "; it goes with linear and cubic.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {}); },
       "interpolate: neither a size nor a scale factor was given; it takes one of them."},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.size = 2, .scale_factor = 2}); },
       "interpolate: both a size and a scale factor was given; it takes one of them."},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.scale_factor = 0}); },
       "interpolate: the scale factor of spatial axis 0 is 0" + above},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.scale_factor = {1, -2}}); },
       "interpolate: the scale factor of spatial axis 1 is -2" + above},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.scale_factor = kNaN}); },
       "interpolate: the scale factor of spatial axis 0 is nan" + above},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.scale_factor = kInfinity}); },
       "interpolate: the scale factor of spatial axis 0 is inf" + above},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.size = 2, .align_corners = true}); },
       "interpolate: align_corners was set with mode nearest" + smooth},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.size = 2, .mode = Mode::nearest_exact, .align_corners = true}); },
       "interpolate: align_corners was set with mode nearest_exact" + smooth},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.size = 2, .mode = Mode::area, .antialias = true}); },
       "interpolate: antialias was set with mode area" + smooth},
      {__LINE__, message_of<Error>, [&] { interpolate(o.image, {.size = 2, .recompute_scale_factor = true}); },
       "interpolate: recompute_scale_factor was set with a size; it goes with a scale factor."},
  }, file);
}

TEST_CASE("grid_sample refuses grids that do not fit", "[errors][resampling]") {
  const Operands o;
  const std::string images =
      "; it must be [batch, channels, rows, columns] or [batch, channels, depth, rows, columns].";
  const std::string must = "; the grid must have 4 axes, a batch of 1, and 2 coordinates last.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { grid_sample(o.none, o.grid); }, "grid_sample: " + undefined},
      {__LINE__, message_of<Error>, [&] { grid_sample(o.image, o.none); }, "grid_sample: " + undefined},
      {__LINE__, message_of<DTypeError>, [&] { grid_sample(o.integers, o.grid); },
       "grid_sample: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { grid_sample(o.image, zeros({1, 5, 6, 2}, {.dtype = DType::float64})); },
       "grid_sample: x is float32 and the grid is float64; both must have one type."},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.line, o.grid); }, "grid_sample: x is [1, 2, 5]" + images},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.image, o.line); },
       "grid_sample: x is [1, 2, 3, 4] and the grid is [1, 2, 5]" + must},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.image, zeros({2, 5, 6, 2})); },
       "grid_sample: x is [1, 2, 3, 4] and the grid is [2, 5, 6, 2]" + must},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.image, zeros({1, 5, 6, 3})); },
       "grid_sample: x is [1, 2, 3, 4] and the grid is [1, 5, 6, 3]" + must},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.volume, o.grid); },
       "grid_sample: x is [1, 1, 2, 3, 4] and the grid is [1, 5, 6, 2]; "
       "the grid must have 5 axes, a batch of 1, and 3 coordinates last."},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.hollow, o.grid); },
       "grid_sample: x is [1, 2, 0, 4]; each spatial axis must have size 1 or more to be read from."},
      {__LINE__, message_of<ShapeError>, [&] { grid_sample(o.volume, zeros({1, 2, 2, 2, 3}), {.mode = SampleMode::cubic}); },
       "grid_sample: x is [1, 1, 2, 3, 4]; mode cubic is for 2 spatial axes."},
  }, file);
}

TEST_CASE("affine_grid refuses maps and sizes that do not fit", "[errors][resampling]") {
  const Tensor theta = ones({1, 2, 3}), deep = ones({1, 3, 4});
  const std::int64_t many = std::int64_t{1} << 61;
  check_errors({
      {__LINE__, message_of<Error>, [&] { affine_grid(Tensor(), {1, 1, 2, 2}); }, "affine_grid: " + undefined},
      {__LINE__, message_of<DTypeError>, [&] { affine_grid(cast(theta, DType::int64), {1, 1, 2, 2}); },
       "affine_grid: the tensor is int64" + floating},
      {__LINE__, message_of<ShapeError>, [&] { affine_grid(theta, {1, 2, 2}); },
       "affine_grid: the size is [1, 2, 2]; "
       "it must be [batch, channels, rows, columns] or [batch, channels, depth, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { affine_grid(theta, {2, 1, 4, 4}); },
       "affine_grid: theta is [1, 2, 3]; for the size [2, 1, 4, 4] it must be [2, 2, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { affine_grid(theta, {1, 1, 2, 4, 4}); },
       "affine_grid: theta is [1, 2, 3]; for the size [1, 1, 2, 4, 4] it must be [1, 3, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { affine_grid(theta, {1, 1, 0, 4}); },
       "affine_grid: the size is [1, 1, 0, 4]; each spatial axis must have 1 or more."},
      {__LINE__, message_of<OutOfMemoryError>, [&] { affine_grid(theta, {1, 1, many, 1}); },
       "allocate: [1, 2305843009213693952, 3] of float64 would take more than 2^63 bytes."},
      {__LINE__, message_of<ShapeError>, [&] { affine_grid(deep, {1, 1, many, 1, 1}); },
       "Shape: [1, 2305843009213693952, 4] has 2^63 elements or more; "
       "the product of the sizes above 0 must be below 2^63."},
  }, file);
}

TEST_CASE("shuffles of channels and pixels refuse what does not divide", "[errors][resampling]") {
  const Operands o;
  const std::string image = "; it must be [..., channels, rows, columns].", least = "; it must be at least 1.";
  const std::string groups = " groups of 2 channels were asked for; they must be at least 1, and divide the channels.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { pixel_shuffle(o.none, 2); }, "pixel_shuffle: " + undefined},
      {__LINE__, message_of<ShapeError>, [&] { pixel_shuffle(o.flat, 2); }, "pixel_shuffle: x is [2, 3]" + image},
      {__LINE__, message_of<ShapeError>, [&] { pixel_shuffle(o.image, 0); }, "pixel_shuffle: the factor is 0" + least},
      {__LINE__, message_of<ShapeError>, [&] { pixel_shuffle(o.image, 2); },
       "pixel_shuffle: x is [1, 2, 3, 4] and the factor 2; the channels, 2, must be a multiple of 4."},
      {__LINE__, message_of<ShapeError>, [&] { pixel_shuffle(o.image, INT64_MAX); },
       "pixel_shuffle: 9223372036854775807 times 9223372036854775807 places would be 2^63 or more."},
      {__LINE__, message_of<Error>, [&] { pixel_unshuffle(o.none, 2); }, "pixel_unshuffle: " + undefined},
      {__LINE__, message_of<ShapeError>, [&] { pixel_unshuffle(o.flat, 2); }, "pixel_unshuffle: x is [2, 3]" + image},
      {__LINE__, message_of<ShapeError>, [&] { pixel_unshuffle(o.image, -1); }, "pixel_unshuffle: the factor is -1" + least},
      {__LINE__, message_of<ShapeError>, [&] { pixel_unshuffle(o.image, 2); },
       "pixel_unshuffle: x is [1, 2, 3, 4] and the factor 2; it must divide the rows, 3, and the columns, 4."},
      {__LINE__, message_of<Error>, [&] { channel_shuffle(o.none, 2); }, "channel_shuffle: " + undefined},
      {__LINE__, message_of<ShapeError>, [&] { channel_shuffle(ones({4}), 2); },
       "channel_shuffle: x is [4]; it must be [batch, channels, ...]."},
      {__LINE__, message_of<ShapeError>, [&] { channel_shuffle(o.image, 0); }, "channel_shuffle: 0" + groups},
      {__LINE__, message_of<ShapeError>, [&] { channel_shuffle(o.image, 3); }, "channel_shuffle: 3" + groups},
  }, file);
}

TEST_CASE("unfold refuses windows that do not fit", "[errors][unfold]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { unfold(o.none, 2); }, "unfold: " + undefined},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.flat, 2); },
       "unfold: x is [2, 3]; it must be [batch, channels, ...] with 1 to 3 spatial axes."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, {2, 2, 2}); },
       "unfold: the kernel has 3 values; it must have 1 or 2, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, 0); },
       "unfold: the kernel of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, {2, 6}); },
       "unfold: the kernel reaches over 6 places of spatial axis 1 (size 6, dilation 1) and the padded input has 4 "
       "(4 with padding 0 and 0); it must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, 2, {.stride = 0}); },
       "unfold: the stride of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, 2, {.stride = Sizes()}); },
       "unfold: no stride is given; it must have 1 or 2 values, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, 2, {.dilation = {1, -1}}); },
       "unfold: the dilation of spatial axis 1 is -1; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { unfold(o.image, 2, {.padding = {0, -1}}); },
       "unfold: the padding of spatial axis 1 is -1 and -1; it must not be negative."},
  }, file);
}

TEST_CASE("fold refuses columns that no image has", "[errors][unfold]") {
  const Tensor columns = ones({2, 12, 9}), integers = ones({2, 12, 9}, {.dtype = DType::int64});
  check_errors({
      {__LINE__, message_of<Error>, [&] { fold(Tensor(), {4, 4}, 2); }, "fold: " + undefined},
      {__LINE__, message_of<DTypeError>, [&] { fold(integers, {4, 4}, 2); }, "fold: the tensor is int64" + floating},
      {__LINE__, message_of<ShapeError>, [&] { fold(ones({12, 9}), {4, 4}, 2); },
       "fold: x is [12, 9]; it must be [batch, channels * places of the kernel, windows]."},
      {__LINE__, message_of<ShapeError>, [&] { fold(columns, Sizes(), 2); },
       "fold: no output size was given; it must have a number for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { fold(columns, {4, 0}, 2); },
       "fold: the output size of spatial axis 1 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { fold(columns, {4, 4}, 5); },
       "fold: the kernel reaches over 5 places of spatial axis 0 (size 5, dilation 1) and the padded input has 4 "
       "(4 with padding 0 and 0); it must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { fold(columns, {4, 6}, {1, 5}); },
       "fold: x is [2, 12, 9] and the kernel has 5 places; the size of axis 1 must be a multiple of them."},
      {__LINE__, message_of<ShapeError>, [&] { fold(columns, {4, 5}, 2); },
       "fold: x is [2, 12, 9], and with these settings an image of [4, 5] has 12 windows; "
       "the size of axis 2 must be the same."},
  }, file);
}

TEST_CASE("changes of layout refuse other ranks and sizes", "[errors][layout]") {
  const Operands o;
  const std::string axes = "; it must have 1 to 3 spatial axes and two others.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { nchw_from_nhwc(o.none); }, "nchw_from_nhwc: " + undefined},
      {__LINE__, message_of<ShapeError>, [&] { nchw_from_nhwc(o.flat); }, "nchw_from_nhwc: x is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { nhwc_from_nchw(o.flat); }, "nhwc_from_nchw: x is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { conv_kernel_from_hwio(o.flat); },
       "conv_kernel_from_hwio: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { hwio_from_conv_kernel(o.flat); },
       "hwio_from_conv_kernel: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { conv_transpose_kernel_from_hwoi(o.flat); },
       "conv_transpose_kernel_from_hwoi: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { hwoi_from_conv_transpose_kernel(o.flat); },
       "hwoi_from_conv_transpose_kernel: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { depthwise_kernel_from_hwim(o.flat); },
       "depthwise_kernel_from_hwim: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { hwim_from_depthwise_kernel(o.flat, 1); },
       "hwim_from_depthwise_kernel: the kernel is [2, 3]" + axes},
      {__LINE__, message_of<ShapeError>, [&] { hwim_from_depthwise_kernel(o.image, 1); },
       "hwim_from_depthwise_kernel: the kernel is [1, 2, 3, 4]; its second axis must have size 1."},
      {__LINE__, message_of<ShapeError>, [&] { hwim_from_depthwise_kernel(ones({6, 1, 2, 2}), 4); },
       "hwim_from_depthwise_kernel: the kernel is [6, 1, 2, 2] and the multiplier 4; "
       "it must be at least 1, and divide the first axis."},
      {__LINE__, message_of<ShapeError>, [&] { hwim_from_depthwise_kernel(ones({6, 1, 2, 2}), 0); },
       "hwim_from_depthwise_kernel: the kernel is [6, 1, 2, 2] and the multiplier 0; "
       "it must be at least 1, and divide the first axis."},
  }, file);
}

TEST_CASE("modules that resample refuse bad settings before there is anything to resample", "[errors][resampling][nn]") {
  const Operands o;
  using Mode = InterpolateMode;
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::Upsample(InterpolateOptions{}); },
       "Upsample: neither a size nor a scale factor was given; it takes one of them."},
      {__LINE__, message_of<Error>, [&] { nn::Upsample({.size = 2, .scale_factor = 2}); },
       "Upsample: both a size and a scale factor was given; it takes one of them."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Upsample({.size = {2, 0}}); },
       "Upsample: the size of spatial axis 1 is 0; it must be at least 1."},
      {__LINE__, message_of<Error>, [&] { nn::Upsample({.scale_factor = -1}); },
       "Upsample: the scale factor of spatial axis 0 is -1; it must be above 0 and finite."},
      {__LINE__, message_of<Error>, [&] { nn::Upsample({.size = 2, .recompute_scale_factor = true}); },
       "Upsample: recompute_scale_factor was set with a size; it goes with a scale factor."},
      {__LINE__, message_of<Error>, [&] { nn::Upsample({.size = 2, .mode = Mode::area, .align_corners = true}); },
       "Upsample: align_corners was set with another mode; it goes with linear and cubic."},
      {__LINE__, message_of<Error>, [&] { nn::Upsample({.size = 2, .antialias = true}); },
       "Upsample: antialias was set with another mode; it goes with linear and cubic."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Upsample({.size = {2, 3}})(o.line); },
       "interpolate: the size has 2 values; it must have 1 or 1, one for each spatial axis."},
      {__LINE__, message_of<ShapeError>, [&] { nn::PixelShuffle(0); },
       "PixelShuffle: the factor is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::PixelUnshuffle(-2); },
       "PixelUnshuffle: the factor is -2; it must be at least 1."},
  }, file);
}
