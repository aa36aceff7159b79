#pragma once
// Pooling: what stands in a sliding window becomes one value, for every channel by itself.
//
// Shapes    x [batch, channels, columns] for 1d, [batch, channels, rows, columns] for 2d, [batch, channels, depth,
//           rows, columns] for 3d, or the same without the batch, as in PyTorch; results have the same axes. With n
//           inputs along an axis, kernel k, stride s and dilation d there are
//               floor((n + before + after - d*(k-1) - 1) / s) + 1    results, or with `ceil` that rounded up, without
//                                                                    windows that begin behind the input,
//               ceil(n / s)                                          with PaddingRule::same
// Cost      one pass over the input, and for its gradient another; threads share the planes [batch, channels]
// Throws    ShapeError   another rank; sizes for another number of axes; kernel, stride or dilation below 1; padding
//                        below 0; a kernel that exceeds the padded input, with `ceil` by the stride or more; a window
//                        that holds padding only. (Padding may exceed half of the kernel, which PyTorch refuses.)
//           DTypeError   a type that is not listed          Error   an undefined tensor
// All gradients exist to any order. Defined in autograd/max_pool.cpp and avg_pool.cpp.
#include <capstan/ops/window.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- the largest -------------------------------------------------------------------------------------------------

struct MaxPoolOptions {
  Sizes stride = {};    ///< from one window to the next, >= 1; if none is given, the kernel
  Borders padding = 0;  ///< places around the input that never win
  Sizes dilation = 1;   ///< from one element of a window to the next, >= 1
  bool ceil = false;    ///< whether a last window may reach beyond the padded input
};
struct MaxPoolResult {
  Tensor values;
  Tensor indices;  ///< int64: where each value stands among the channel's inputs, counted in row-major order
};

/// The largest element of every window: of equal ones the first, and the first NaN before all.
///
/// Types     numbers
/// Gradient  to the element that won. Keeps a byte for each result (four if windows have more than 256 places), and
///           neither input nor result; nothing is kept, nor computed beside the result, while no tape follows x
Tensor max_pool1d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {}, Where where = Where::current());
Tensor max_pool2d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {}, Where where = Where::current());
Tensor max_pool3d(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {}, Where where = Where::current());
/// The same with its places: what max_unpool takes, PyTorch's return_indices.
MaxPoolResult max_pool1d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {},
                                      Where where = Where::current());
MaxPoolResult max_pool2d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {},
                                      Where where = Where::current());
MaxPoolResult max_pool3d_with_indices(const Tensor& x, Sizes kernel, const MaxPoolOptions& options = {},
                                      Where where = Where::current());

struct MaxUnpoolOptions {
  Sizes stride = {};       ///< of the pooling that is reversed; if none is given, the kernel
  Borders padding = 0;     ///< of that pooling
  Sizes output_size = {};  ///< of the spatial axes; if none is given, what the windows cover
};

/// The reverse of max pooling: each value at its place, zeros elsewhere. Where indices name a place several times, the
/// last value stays, and only that one has a gradient.
///
/// Shapes    indices as x, integers; along each axis the result has (n-1)*stride - before - after + kernel places, or
///           the given size, which must differ from that by less than the stride: as much as pooling cannot tell
/// Types     numbers; gradient for floating ones, for x
/// Throws    besides: ShapeError  indices of another shape, a size that no pooling takes to x's
///                    IndexError  an index outside [0, places of the result)
///                    DTypeError  indices that are no integers
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options = {},
                    Where where = Where::current());
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options = {},
                    Where where = Where::current());
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Sizes kernel, const MaxUnpoolOptions& options = {},
                    Where where = Where::current());

// --- the mean ----------------------------------------------------------------------------------------------------

struct AvgPoolOptions {
  Sizes stride = {};    ///< from one window to the next, >= 1; if none is given, the kernel
  Borders padding = 0;  ///< zeros around the input
  bool ceil = false;    ///< whether a last window may reach beyond the padded input
  /// Whether the zeros count where sums are divided, as in PyTorch. What lies beyond them never counts, nor does what
  /// PaddingRule::same adds, as in TensorFlow.
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;  ///< what sums are divided by instead, if it is not 0
};

/// The mean of every window.
///
/// Types     floating. Windows of more than 64 places add up in double
/// Gradient  grad / divisor to every element of the window; nothing is kept
Tensor avg_pool1d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options = {}, Where where = Where::current());
Tensor avg_pool2d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options = {}, Where where = Where::current());
Tensor avg_pool3d(const Tensor& x, Sizes kernel, const AvgPoolOptions& options = {}, Where where = Where::current());

struct LpPoolOptions {
  Sizes stride = {};  ///< from one window to the next, >= 1; if none is given, the kernel
  bool ceil = false;  ///< whether a last window may reach beyond the input: what it lacks counts as its mean
};

/// The p-th root of the sum of p-th powers in every window, for p = `norm`. PyTorch's formula: there are no absolute
/// values, so that odd powers keep their sign, and the root of what is negative is NaN.
///
/// Types     floating
/// Gradient  grad * (x/y)^(p-1); 0 for a window whose powers add up to 0, and for p < 1 at elements that are 0, where
///           PyTorch has NaN and infinity
/// Throws    besides: Error  the norm is not above 0, or not finite
Tensor lp_pool1d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options = {},
                 Where where = Where::current());
Tensor lp_pool2d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options = {},
                 Where where = Where::current());
Tensor lp_pool3d(const Tensor& x, double norm, Sizes kernel, const LpPoolOptions& options = {},
                 Where where = Where::current());

// --- a given number of results -----------------------------------------------------------------------------------
//
// Result o of m along an axis of n inputs covers [floor(o*n/m), ceil((o+1)*n/m)), as in PyTorch: all inputs, in windows
// that differ in size by at most one and may overlap. An output size of -1 is the input's (PyTorch's None).

/// The mean of every window; floating. Gradient grad / window's size.
Tensor adaptive_avg_pool1d(const Tensor& x, Sizes output_size, Where where = Where::current());
Tensor adaptive_avg_pool2d(const Tensor& x, Sizes output_size, Where where = Where::current());
Tensor adaptive_avg_pool3d(const Tensor& x, Sizes output_size, Where where = Where::current());
/// The largest element of every window, as max_pool has it; numbers. Keeps four bytes for each result.
Tensor adaptive_max_pool1d(const Tensor& x, Sizes output_size, Where where = Where::current());
Tensor adaptive_max_pool2d(const Tensor& x, Sizes output_size, Where where = Where::current());
Tensor adaptive_max_pool3d(const Tensor& x, Sizes output_size, Where where = Where::current());
MaxPoolResult adaptive_max_pool1d_with_indices(const Tensor& x, Sizes output_size, Where where = Where::current());
MaxPoolResult adaptive_max_pool2d_with_indices(const Tensor& x, Sizes output_size, Where where = Where::current());
MaxPoolResult adaptive_max_pool3d_with_indices(const Tensor& x, Sizes output_size, Where where = Where::current());

/// The mean of all places of each channel (Lin et al., "Network In Network", 2014); floating.
/// Shapes    x [batch, channels, ...] with one spatial axis or more (ShapeError); result [batch, channels], or with
///           `keepdims` x's axes with spatial sizes of 1
Tensor global_avg_pool(const Tensor& x, ReduceOptions options = {}, Where where = Where::current());
/// The largest of all places of each channel, at ties the first; numbers. Shapes as above.
Tensor global_max_pool(const Tensor& x, ReduceOptions options = {}, Where where = Where::current());

}  // namespace capstan
