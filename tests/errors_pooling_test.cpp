// Bad input to pooling: the right exception, word for word, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_pooling_test.cpp";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string floating = ": the tensor is int32; it must be a floating type.";
const std::string a_number = ": the tensor is bool; it must be a number type, not bool.";
const std::string one_axis = "; it must be [batch, channels, columns] or [channels, columns].";
const std::string two_axes = "; it must be [batch, channels, rows, columns] or [channels, rows, columns].";
const std::string three_axes =
    "; it must be [batch, channels, depth, rows, columns] or [channels, depth, rows, columns].";
const std::string each = ", one for each spatial axis.";
const std::string must_hold = "; every window must hold an input.";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = reshape(arange(16), {1, 1, 4, 4}).to(DType::float32);
  Tensor line = x[0][0];                       // [4, 4]: four channels
  Tensor cube = reshape(x, {1, 1, 1, 4, 4});
  Tensor integers = {{{{1, 2}, {3, 4}}}};
  Tensor flags = {{{{true, false}, {false, true}}}};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(x.version() == 0);
    CHECK(integers.version() == 0);
  }
};

}  // namespace

TEST_CASE("pooling refuses what is undefined", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { max_pool1d(o.none, 2); }, "max_pool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { max_pool2d(o.none, 2); }, "max_pool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { max_pool3d(o.none, 2); }, "max_pool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { max_pool1d_with_indices(o.none, 2); }, "max_pool1d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { max_pool2d_with_indices(o.none, 2); }, "max_pool2d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { max_pool3d_with_indices(o.none, 2); }, "max_pool3d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { max_unpool1d(o.none, o.integers, 2); }, "max_unpool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { max_unpool2d(o.integers, o.none, 2); }, "max_unpool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { max_unpool3d(o.none, o.none, 2); }, "max_unpool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { avg_pool1d(o.none, 2); }, "avg_pool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { avg_pool2d(o.none, 2); }, "avg_pool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { avg_pool3d(o.none, 2); }, "avg_pool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { lp_pool1d(o.none, 2, 2); }, "lp_pool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { lp_pool2d(o.none, 2, 2); }, "lp_pool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { lp_pool3d(o.none, 2, 2); }, "lp_pool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_avg_pool1d(o.none, 2); }, "adaptive_avg_pool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_avg_pool2d(o.none, 2); }, "adaptive_avg_pool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_avg_pool3d(o.none, 2); }, "adaptive_avg_pool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool1d(o.none, 2); }, "adaptive_max_pool1d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool2d(o.none, 2); }, "adaptive_max_pool2d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool3d(o.none, 2); }, "adaptive_max_pool3d" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool1d_with_indices(o.none, 2); },
       "adaptive_max_pool1d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool2d_with_indices(o.none, 2); },
       "adaptive_max_pool2d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { adaptive_max_pool3d_with_indices(o.none, 2); },
       "adaptive_max_pool3d_with_indices" + undefined},
      {__LINE__, message_of<Error>, [&] { global_avg_pool(o.none); }, "global_avg_pool" + undefined},
      {__LINE__, message_of<Error>, [&] { global_max_pool(o.none); }, "global_max_pool" + undefined},
  }, file);
}

TEST_CASE("pooling refuses types and ranks that it is not defined for", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { max_pool2d(o.flags, 2); }, "max_pool2d" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { adaptive_max_pool2d(o.flags, 1); }, "adaptive_max_pool2d" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { global_max_pool(o.flags); }, "global_max_pool" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { max_unpool2d(o.flags, o.integers, 2); }, "max_unpool2d" + a_number},
      {__LINE__, message_of<DTypeError>, [&] { avg_pool2d(o.integers, 2); }, "avg_pool2d" + floating},
      {__LINE__, message_of<DTypeError>, [&] { lp_pool2d(o.integers, 2, 2); }, "lp_pool2d" + floating},
      {__LINE__, message_of<DTypeError>, [&] { adaptive_avg_pool2d(o.integers, 1); }, "adaptive_avg_pool2d" + floating},
      {__LINE__, message_of<DTypeError>, [&] { global_avg_pool(o.integers); }, "global_avg_pool" + floating},
      {__LINE__, message_of<ShapeError>, [&] { max_pool1d(o.x, 2); },
       "max_pool1d: the tensor is [1, 1, 4, 4]" + one_axis},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool2d(o.line, 2); },
       "avg_pool2d: the tensor is [4, 4]" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { max_pool3d_with_indices(o.line, 2); },
       "max_pool3d_with_indices: the tensor is [4, 4]" + three_axes},
      {__LINE__, message_of<ShapeError>, [&] { lp_pool2d(o.cube, 2, 2); },
       "lp_pool2d: the tensor is [1, 1, 1, 4, 4]" + two_axes},
      {__LINE__, message_of<ShapeError>, [&] { adaptive_avg_pool1d(o.x, 2); },
       "adaptive_avg_pool1d: the tensor is [1, 1, 4, 4]" + one_axis},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool1d(o.x, o.x, 2); },
       "max_unpool1d: the tensor is [1, 1, 4, 4]" + one_axis},
      {__LINE__, message_of<ShapeError>, [&] { global_avg_pool(o.line); },
       "global_avg_pool: the tensor is [4, 4]; it must be [batch, channels, ...] with at least one place in each "
       "channel."},
      {__LINE__, message_of<ShapeError>, [&] { global_max_pool(zeros({2, 3, 0})); },
       "global_max_pool: the tensor is [2, 3, 0]; it must be [batch, channels, ...] with at least one place in each "
       "channel."},
  }, file);
}

TEST_CASE("pooling refuses settings out of range and for another number of axes", "[errors]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 0); },
       "max_pool2d: the kernel of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool2d(o.x, {2, -1}); },
       "avg_pool2d: the kernel of spatial axis 1 is -1; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, Sizes()); },
       "max_pool2d: the kernel's size along spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, {2, 2, 2}); },
       "max_pool2d: the kernel has 3 values; it must have 1 or 2" + each},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 2, {.stride = {1, 0}}); },
       "max_pool2d: the stride of spatial axis 1 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { lp_pool2d(o.x, 2, 2, {.stride = -2}); },
       "lp_pool2d: the stride of spatial axis 0 is -2; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 2, {.dilation = 0}); },
       "max_pool2d: the dilation of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool3d(o.cube, 1, {.dilation = {1, 1}}); },
       "max_pool3d: the dilation has 2 values; it must have 1 or 3" + each},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 2, {.dilation = Sizes()}); },
       "max_pool2d: no dilation is given; it must have 1 or 2 values" + each},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 2, {.padding = std::int64_t{1} << 41}); },
       "max_pool2d: the padding of spatial axis 0 is 2199023255552 and 2199023255552; it must be at most 2^40."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 2, {.padding = -1}); },
       "max_pool2d: the padding of spatial axis 0 is -1 and -1; it must not be negative."},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool2d(o.x, 2, {.padding = {1, 2, 3}}); },
       "avg_pool2d: the padding has 3 values; it must have 1 or 2" + each},
      {__LINE__, message_of<Error>, [&] { lp_pool2d(o.x, 0, 2); },
       "lp_pool2d: the norm is 0; it must be above 0 and finite."},
      {__LINE__, message_of<Error>, [&] { lp_pool2d(o.x, kNaN, 2); },
       "lp_pool2d: the norm is nan; it must be above 0 and finite."},
      {__LINE__, message_of<Error>, [&] { lp_pool2d(o.x, kInfinity, 2); },
       "lp_pool2d: the norm is inf; it must be above 0 and finite."},
      {__LINE__, message_of<ShapeError>, [&] { adaptive_avg_pool2d(o.x, {2, -2}); },
       "adaptive_avg_pool2d: the output size of spatial axis 1 is -2; it must be at least -1."},
      {__LINE__, message_of<ShapeError>, [&] { adaptive_max_pool2d(o.x, {1, 2, 3}); },
       "adaptive_max_pool2d: the output size has 3 values; it must have 1 or 2" + each},
      {__LINE__, message_of<ShapeError>, [&] { adaptive_max_pool2d(o.x, Sizes()); },
       "adaptive_max_pool2d: no output size is given; it must have 1 or 2 values" + each},
  }, file);
}

TEST_CASE("pooling refuses windows that the input does not fill", "[errors]") {
  const Operands o;
  const std::int64_t far = std::int64_t{1} << 39;  // a loop over all windows would not end
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { max_pool1d(o.line, 7, {.stride = 3, .ceil = true}); },
       "max_pool1d: the kernel reaches over 7 places of spatial axis 0 (size 7, dilation 1) and the padded input has 4 "
       "(4 with padding 0 and 0); with ceil it must exceed them by less than the stride."},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool1d(o.line, far + 1, {.stride = 1, .padding = {{far, far + 1}}}); },
       "avg_pool1d: window 549755813892 of spatial axis 0 begins at 4 and holds padding only (4 inputs, kernel "
       "549755813889, dilation 1)" + must_hold},
      {__LINE__, message_of<ShapeError>, [&] { max_pool1d(zeros({0, 1, INT64_MAX}), 2, {.padding = 1}); },
       "max_pool1d: spatial axis 0 has 9223372036854775807 places; there must be at most 2^62."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool2d(o.x, 5); },
       "max_pool2d: the kernel reaches over 5 places of spatial axis 0 (size 5, dilation 1) and the padded input has 4 "
       "(4 with padding 0 and 0); it must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { max_pool1d(o.line, 2, {.padding = 2}); },
       "max_pool1d: window 0 of spatial axis 0 begins at -2 and holds padding only (4 inputs, kernel 2, dilation 1)" +
       must_hold},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool1d(o.line, 2, {.padding = {{0, 3}}}); },
       "avg_pool1d: window 2 of spatial axis 0 begins at 4 and holds padding only (4 inputs, kernel 2, dilation 1)" +
       must_hold},
      {__LINE__, message_of<ShapeError>, [&] { max_pool1d(ones({1, 1}), 2, {.padding = 1, .dilation = 2}); },
       "max_pool1d: window 0 of spatial axis 0 begins at -1 and holds padding only (1 inputs, kernel 2, dilation 2)" +
       must_hold},
      {__LINE__, message_of<ShapeError>, [&] { avg_pool1d(zeros({2, 3, 0}), 1, {.padding = 1}); },
       "avg_pool1d: window 0 of spatial axis 0 begins at -1 and holds padding only (0 inputs, kernel 1, dilation 1)" +
       must_hold},
      {__LINE__, message_of<ShapeError>, [&] { adaptive_avg_pool1d(zeros({2, 3, 0}), 2); },
       "adaptive_avg_pool1d: 2 windows along spatial axis 0 of the tensor [2, 3, 0], which has no places" + must_hold},
  }, file);
}

TEST_CASE("unpooling refuses places that do not fit and sizes that no pooling takes", "[errors]") {
  const Operands o;
  const Tensor x = {{{{1.0f, 2.0f}, {3.0f, 4.0f}}}};
  const Tensor far = {{{{0, 3}, {16, 5}}}}, negative = {{{{0, -1}, {2, 5}}}};
  const Tensor endless = zeros({0, 1, INT64_MAX});
  const std::string sizes = "; pooling takes sizes from ";
  const PaddingRule rule = nn::same;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { max_unpool2d(x, x, 2); },
       "max_unpool2d: the indices are float32; they must be integers."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers[0], 2); },
       "max_unpool2d: the tensor is [1, 1, 2, 2] and the indices are [1, 2, 2]; the shapes must be equal."},
      {__LINE__, message_of<IndexError>, [&] { max_unpool2d(x, far, 2); },
       "max_unpool2d: index 16 at [0, 0, 1, 0] is out of range for axis 2 of shape [1, 1, 16]; it must be in [0, 16)."},
      {__LINE__, message_of<IndexError>, [&] { max_unpool2d(x, negative, 2); },
       "max_unpool2d: index -1 at [0, 0, 0, 1] is out of range for axis 2 of shape [1, 1, 16]; it must be in [0, 16)."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 0); },
       "max_unpool2d: the kernel of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 2, {.stride = 0}); },
       "max_unpool2d: the stride of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 2, {.output_size = {4, 2}}); },
       "max_unpool2d: the output size of spatial axis 1 is 2" + sizes + "3 to 5 to the tensor's 2."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 2, {.output_size = 6}); },
       "max_unpool2d: the output size of spatial axis 0 is 6" + sizes + "3 to 5 to the tensor's 2."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 2, {.padding = rule, .output_size = 5}); },
       "max_unpool2d: the output size of spatial axis 0 is 5" + sizes + "3 to 4 to the tensor's 2."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool1d(endless, endless.to(DType::int64), 2); },
       "max_unpool1d: 9223372036854775807 windows along spatial axis 0, 2 apart, reach over 2^62 places or more."},
      {__LINE__, message_of<ShapeError>, [&] { max_unpool2d(x, o.integers, 2, {.output_size = -1}); },
       "max_unpool2d: the output size of spatial axis 0 is -1; it must be at least 0."},
  }, file);
}

TEST_CASE("pooling modules refuse settings when they are made", "[errors]") {
  check_errors({
      {__LINE__, message_of<ShapeError>, [] { nn::MaxPool2d(0); },
       "MaxPool2d: the kernel of spatial axis 0 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [] { nn::MaxPool2d{Sizes()}; },
       "MaxPool2d: the kernel has 0 values; it must have 1 or 2" + each},
      {__LINE__, message_of<ShapeError>, [] { nn::MaxPool3d(2, {.stride = {1, 2}}); },
       "MaxPool3d: the stride has 2 values; it must have 1 or 3" + each},
      {__LINE__, message_of<ShapeError>, [] { nn::MaxPool2d(2, {.dilation = {1, 0}}); },
       "MaxPool2d: the dilation of spatial axis 1 is 0; it must be at least 1."},
      {__LINE__, message_of<ShapeError>, [] { nn::AvgPool2d(2, {.padding = {{0, 1}, {0, -1}}}); },
       "AvgPool2d: the padding of spatial axis 1 is 0 and -1; it must not be negative."},
      {__LINE__, message_of<ShapeError>, [] { nn::AvgPool3d(2, {.padding = {1, 2}}); },
       "AvgPool3d: the padding has 2 values; it must have 1 or 3" + each},
      {__LINE__, message_of<Error>, [] { nn::LpPool1d(-1, 2); },
       "LpPool1d: the norm is -1; it must be above 0 and finite."},
      {__LINE__, message_of<ShapeError>, [] { nn::LpPool1d(1, {2, 2}); },
       "LpPool1d: the kernel has 2 values; it must have 1 or 1" + each},
      {__LINE__, message_of<ShapeError>, [] { nn::AdaptiveAvgPool2d(-2); },
       "AdaptiveAvgPool2d: the output size of spatial axis 0 is -2; it must be at least -1."},
      {__LINE__, message_of<ShapeError>, [] { nn::AdaptiveMaxPool2d({1, 2, 3}); },
       "AdaptiveMaxPool2d: the output size has 3 values; it must have 1 or 2" + each},
      {__LINE__, message_of<ShapeError>, [] { nn::MaxUnpool2d(2, {.output_size = -1}); },
       "MaxUnpool2d: the output size of spatial axis 0 is -1; it must be at least 0."},
  }, file);
}
