#pragma once
// What the pooling operations share: where their windows stand, checked.
#include <capstan/ops/pooling.hpp>

#include "autograd/ops.hpp"
#include "autograd/window.hpp"

namespace capstan::autograd {

struct Pooling {
  core::PoolTask task;
  Shape input, result;  // whole shapes: the planes' axes in front of the windows'
};

/// Throws ShapeError unless there are `axes` spatial axes behind channels, or behind batch and channels.
void check_images(const char* op, const Shape& shape, int axes, Where where);
/// The shape with other sizes of its last `axes` axes.
Shape with_spatial_sizes(const Shape& shape, int axes, const std::int64_t* sizes, Where where);

/// Windows of one size. `request.stride` without values means the kernel. Throws ShapeError, also for windows that hold
/// no input.
Pooling pool_windows(const char* op, const Shape& shape, int axes, const Sizes& kernel, WindowRequest request,
                     Where where);
/// As many windows as asked for, which cover the input. Throws ShapeError.
Pooling adaptive_windows(const char* op, const Shape& shape, int axes, const Sizes& results, Where where);
/// One window over all axes behind batch and channels. Throws ShapeError.
Pooling global_window(const char* op, const Shape& shape, ReduceOptions options, Where where);

/// Tells who watches how many elements the windows hold. Right before the operation is recorded.
void note_windows(const Pooling& pooling) noexcept;

}  // namespace capstan::autograd
