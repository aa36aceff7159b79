#pragma once
// Sliding windows: where they stand over an input, checked.
#include <capstan/ops/window.hpp>

#include "lib/base/text.hpp"
#include "lib/core/window.hpp"

namespace capstan::autograd {

/// What a caller asks of a window. `kernel` has a number for each axis.
struct WindowRequest {
  Sizes stride = 1;
  Borders padding;
  Sizes dilation = 1;
  bool ceil = false;  // a last window may reach beyond the padded input, if it begins inside it or in front of it
};

/// The windows over the last `axes` axes of `input`, with kernel sizes for each. Throws ShapeError: sizes for another
/// number of axes, kernel, stride or dilation below 1 or missing, padding below 0, a kernel that exceeds the padded
/// input, with `ceil` by the stride or more.
core::Window resolve_window(const char* op, const Shape& input, int axes, const std::int64_t* kernel,
                            const WindowRequest& request, Where where);
/// Throws ShapeError for all of these but a kernel that exceeds the input.
void check_window_settings(const char* op, int axes, const std::int64_t* kernel, const WindowRequest& request,
                           Where where);
/// Throws ShapeError unless there are none, one or `axes` of them, each at least `least`.
void check_sizes(const char* op, const char* what, const Sizes& sizes, int axes, std::int64_t least, Where where);

}  // namespace capstan::autograd
