#include "autograd/window.hpp"

#include <algorithm>

namespace capstan {
namespace {

template <class T, class From>
int take_each(const char* type, T (&to)[3], From first, std::size_t count, Where where) {
  if (count < 1 || count > 3)
    base::fail<ShapeError>(where, type, ": there are ", count, " values; there must be 1 to 3, one for each axis.");
  for (std::size_t i = 0; i < count; ++i) to[i] = first[i];
  return static_cast<int>(count);
}

}  // namespace

Sizes::Sizes(std::initializer_list<std::int64_t> each, Where where)
    : count_(take_each("Sizes", values_, each.begin(), each.size(), where)) {}
Sizes::Sizes(std::span<const std::int64_t> each, Where where)
    : count_(take_each("Sizes", values_, each.begin(), each.size(), where)) {}

Borders::Borders(std::initializer_list<std::int64_t> each, Where where) {
  std::int64_t both[3] = {};
  count_ = take_each("Borders", both, each.begin(), each.size(), where);
  for (int axis = 0; axis < count_; ++axis) values_[axis] = {both[axis], both[axis]};
}
Borders::Borders(std::initializer_list<Padding> each, Where where)
    : count_(take_each("Borders", values_, each.begin(), each.size(), where)) {}

namespace autograd {
namespace {

// Larger settings are mistakes, and sums of them overflow.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

void check_padding(const char* op, const Borders& padding, int axes, Where where) {
  if (padding.same()) return;
  if (padding.count() != 1 && padding.count() != axes)
    base::fail<ShapeError>(where, op, ": the padding has ", padding.count(), " values; it must have 1 or ", axes,
                           ", one for each spatial axis.");
  for (int axis = 0; axis < padding.count(); ++axis) {
    const Padding p = padding[axis];
    if (p.before < 0 || p.after < 0 || p.before > kLargest || p.after > kLargest)
      base::fail<ShapeError>(
          where, op, ": the padding of spatial axis ", axis, " is ", p.before, " and ", p.after,
          p.before > kLargest || p.after > kLargest ? "; it must be at most 2^40." : "; it must not be negative.");
  }
}

core::WindowAxis resolve_axis(const char* op, int number, std::int64_t in, std::int64_t kernel,
                              const WindowRequest& request, Where where) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 62;  // views and tensors without elements can be as long
  if (in > kLongest)
    base::fail<ShapeError>(where, op, ": spatial axis ", number, " has ", in, " places; there must be at most 2^62.");
  core::WindowAxis a{in, 0, kernel, request.stride[number], request.dilation[number], 0, 0};
  if (request.padding.same()) {
    a.out = (in + a.stride - 1) / a.stride;
    const std::int64_t zeros = std::max<std::int64_t>((a.out - 1) * a.stride + a.extent() - in, 0);
    a.before = zeros / 2, a.after = zeros - zeros / 2;
    return a;
  }
  a.before = request.padding[number].before, a.after = request.padding[number].after;
  const std::int64_t room = in + a.before + a.after - a.extent();
  if (room < 0 && !(request.ceil && room > -a.stride))
    base::fail<ShapeError>(
        where, op, ": the kernel reaches over ", a.extent(), " places of spatial axis ", number, " (size ", kernel,
        ", dilation ", a.dilation, ") and the padded input has ", in + a.before + a.after, " (", in, " with padding ",
        a.before, " and ", a.after,
        request.ceil ? "); with ceil it must exceed them by less than the stride." : "); it must not exceed them.");
  a.out = room < 0 ? 1 : room / a.stride + 1;
  if (room > 0 && request.ceil && room % a.stride != 0 && a.out * a.stride < in + a.before) ++a.out;
  return a;
}

}  // namespace

void check_sizes(const char* op, const char* what, const Sizes& sizes, int axes, std::int64_t least, Where where) {
  if (sizes.count() > 1 && sizes.count() != axes)
    base::fail<ShapeError>(where, op, ": the ", what, " has ", sizes.count(), " values; it must have 1 or ", axes,
                           ", one for each spatial axis.");
  for (int axis = 0; axis < sizes.count(); ++axis)
    if (sizes[axis] < least || sizes[axis] > kLargest)
      base::fail<ShapeError>(where, op, ": the ", what, " of spatial axis ", axis, " is ", sizes[axis],
                             "; it must be at least ", least, sizes[axis] > kLargest ? " and below 2^40." : ".");
}

void check_window_settings(const char* op, int axes, const std::int64_t* kernel, const WindowRequest& request,
                           Where where) {
  check_sizes(op, "stride", request.stride, axes, 1, where);
  check_sizes(op, "dilation", request.dilation, axes, 1, where);
  check_padding(op, request.padding, axes, where);
  for (int i = 0; i < axes; ++i)
    if (kernel[i] < 1 || kernel[i] > kLargest)
      base::fail<ShapeError>(where, op, ": the kernel's size along spatial axis ", i, " is ", kernel[i],
                             kernel[i] < 1 ? "; it must be at least 1." : "; it must be at most 2^40.");
  if (request.stride.count() == 0 || request.dilation.count() == 0)
    base::fail<ShapeError>(where, op, ": no ", request.stride.count() == 0 ? "stride" : "dilation",
                           " is given; it must have 1 or ", axes, " values, one for each spatial axis.");
  for (int i = 0; i < axes; ++i) {
    if (kernel[i] > kLargest / request.dilation[i])
      base::fail<ShapeError>(where, op, ": the kernel ", kernel[i], " of spatial axis ", i, " with a dilation of ",
                             request.dilation[i], " is too large.");
  }
}

core::Window resolve_window(const char* op, const Shape& input, int axes, const std::int64_t* kernel,
                            const WindowRequest& request, Where where) {
  check_window_settings(op, axes, kernel, request, where);
  core::Window window;
  window.axes = axes;
  for (int i = 0; i < axes; ++i)
    window.axis[i] = resolve_axis(op, i, input[input.rank() - axes + i], kernel[i], request, where);
  return window;
}

}  // namespace autograd
}  // namespace capstan
