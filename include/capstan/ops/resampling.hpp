#pragma once
// Images and volumes of other sizes, and at other places: interpolation, grids of places, channels that become pixels.
//
// Layout [batch, channels, (depth,) (rows,) columns]; the axes behind the first two are spatial. Everything here is
// differentiable to any order and gives the same for any number of threads. Floating types unless an entry says
// otherwise (DTypeError); sums run in double. Defined in autograd/resampling.cpp and grid_sample.cpp.
#include <capstan/ops/window.hpp>

namespace capstan CAPSTAN_PUBLIC {

// --- other sizes -------------------------------------------------------------------------------------------------

/// What a place of the result is made of. An axis has n places, the result m of them; `interpolate` says what step is.
enum class InterpolateMode : std::uint8_t {
  nearest,        ///< place floor(i * step): PyTorch's "nearest", which leans to the front
  nearest_exact,  ///< place floor((i + 0.5) * step), whose centre is the nearest
  linear,         ///< the 2 places around, along each axis: linear, bilinear, trilinear
  cubic,          ///< the 4 places around, along each of 2 axes: bicubic, with Keys' a = -0.75
  area            ///< the mean of places floor(i*n/m) up to ceil((i+1)*n/m): adaptive average pooling
};

/// A factor for every spatial axis: one for all of them, or one for each. Converted from a number or from braces: `2`,
/// `{2, 1.5}`.
class Scales {
 public:
  constexpr Scales() noexcept = default;  ///< none
  template <class T>
  requires std::is_arithmetic_v<T>
  constexpr Scales(T value) noexcept : values_{static_cast<double>(value)}, count_(1) {}
  Scales(std::initializer_list<double> each, Where where = Where::current());  ///< ShapeError for more than 3
  explicit Scales(std::span<const double> each, Where where = Where::current());

  constexpr int count() const noexcept { return count_; }  ///< 0 for none, 1 for one for all
  /// The factor for a spatial axis, counted from 0; no check.
  constexpr double operator[](int axis) const noexcept { return values_[count_ == 1 ? 0 : axis]; }

 private:
  double values_[3] = {};
  int count_ = 0;
};

struct InterpolateOptions {
  Sizes size = {};           ///< of the result's spatial axes; or
  Scales scale_factor = {};  ///< what their sizes are multiplied by, rounded down
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;           ///< linear, cubic: the outermost places of x and of the result coincide
  bool recompute_scale_factor = false;  ///< the step comes from the sizes, though a factor was given
  bool antialias = false;               ///< linear, cubic: where the result is smaller, each place reads all it covers
};

/// The tensor at another size along its spatial axes (PyTorch's interpolate, by its rules for coordinates).
///
/// Place i of m reads x, which has n places, around s = (i + 0.5) * step - 0.5, or s = i * step with align_corners.
///   step    n / m with a size; 1 / scale_factor with a factor, unless it is recomputed; (n - 1) / (m - 1) with
///           align_corners, 0 for m = 1
///   linear  s below 0 counts as 0; where n = m the axis stays as it is, but for antialias
///   border  places outside stand for the outermost ones
///   antialias  weights are the triangle on [-1, 1], or Keys' cubic with a = -0.5 on [-2, 2], stretched by max(step, 1)
///              around (i + 0.5) * step - 0.5, with align_corners too, and divided by their sum (PyTorch, Pillow)
/// What has weight 0 is not read.
///
/// Shapes    x [batch, channels, 1 to 3 axes], at least 1 place each; result [batch, channels, m...] with m the size
///           asked for, or floor(n * scale_factor)
/// Types     floating; any type for nearest and nearest_exact
/// Gradient  the transposed map, which is as cheap
/// Cost      each row of the result reads the rows around it once; no temporary but one row for each thread
/// Throws    ShapeError  a rank below 3 or above 5, an axis without places, a size below 1, sizes or factors for
///                       another number of axes, cubic for other than 2 spatial axes
///           Error       both a size and a factor or neither, a factor that is not above 0 and finite, recomputing
///                       without a factor, align_corners or antialias with nearest, nearest_exact or area
/// Source    Keys, Cubic convolution interpolation for digital image processing (1981)
Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where = Where::current());

// --- other places ------------------------------------------------------------------------------------------------

/// What a sample is made of: the 2 places around along each axis, the nearest one (of two the even one), or 4 along
/// each of 2 axes with Keys' a = -0.75. PyTorch's bilinear, nearest and bicubic.
enum class SampleMode : std::uint8_t { linear, nearest, cubic };

/// What lies outside.
enum class SamplePadding : std::uint8_t {
  zeros,      ///< zeros
  border,     ///< the outermost places
  reflection  ///< the inside, mirrored at the outer edges, or at the outermost places with align_corners
};

struct GridSampleOptions {
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;  ///< -1 and 1 are the outermost places' centres, and not their outer edges
};

/// x at the places of a grid (PyTorch's grid_sample).
///
/// A place's coordinates are in [-1, 1], those of columns first, then rows, then depth. Coordinate g of an axis with n
/// places is its place ((g + 1) * n - 1) / 2, or (g + 1) / 2 * (n - 1) with align_corners.
///
/// Shapes    x [batch, channels, rows, columns], grid [batch, h, w, 2]; result [batch, channels, h, w]
///           x [batch, channels, depth, rows, columns], grid [batch, d, h, w, 3]; result [batch, channels, d, h, w]
/// Types     floating, the same for both
/// Gradient  for both; for the grid 0 with nearest, and along an axis where border or reflection holds a place at the
///           outermost ones
/// Special   where a coordinate is NaN the result is NaN, and x gets no gradient. Infinite ones lie outside; with
///           reflection they count as NaN
/// Cost      2, 4 or 16 reads for each value (8 for linear with depth); weights are computed once for all channels
/// Throws    ShapeError  shapes that do not fit, a spatial axis of x without places, cubic with depth
///           DTypeError, DeviceError
/// Source    Jaderberg et al., Spatial transformer networks (2015)
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {},
                   Where where = Where::current());

struct AffineGridOptions {
  bool align_corners = false;  ///< as in `grid_sample`
};

/// The places that an affine map sends a regular grid to, for `grid_sample` (PyTorch's affine_grid).
///
///   grid[n, y, x] = theta[n] @ (cx, cy, 1)     with depth: theta[n] @ (cx, cy, cz, 1)
///
/// where the c are the coordinates of the result's places: (2*i + 1 - m) / m for place i of m, or
/// (2*i + 1 - m) / (m - 1) with align_corners, 0 for m = 1.
///
/// Shapes    theta [batch, 2, 3], size [batch, channels, h, w] of the result of grid_sample; grid [batch, h, w, 2]
///           theta [batch, 3, 4], size [batch, channels, d, h, w]; grid [batch, d, h, w, 3]
/// Gradient  for theta
/// Throws    ShapeError  shapes that do not fit, a spatial size below 1     DTypeError
Tensor affine_grid(const Tensor& theta, const Shape& size, AffineGridOptions options = {},
                   Where where = Where::current());

// --- channels and pixels -----------------------------------------------------------------------------------------
//
// These move elements only: any type. The result is a view where strides allow, else a copy. ShapeError for a factor
// or a number of groups below 1, or one that does not divide.

/// Groups of factor^2 channels become squares of pixels (PyTorch's pixel_shuffle; Shi et al. 2016).
///
///   out[..., c, y*factor + i, x*factor + j] = x[..., (c*factor + i)*factor + j, y, x]
///
/// Shapes    [..., channels * factor^2, rows, columns] -> [..., channels, rows * factor, columns * factor]
/// TensorFlow's depth_to_space orders the channels otherwise: it is pixel_shuffle(channel_shuffle(x, r*r), r).
Tensor pixel_shuffle(const Tensor& x, std::int64_t factor, Where where = Where::current());

/// The reverse of `pixel_shuffle`.
///
/// Shapes    [..., channels, rows, columns] -> [..., channels * factor^2, rows / factor, columns / factor]
/// TensorFlow's space_to_depth of c channels is channel_shuffle(pixel_unshuffle(x, r), c).
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor, Where where = Where::current());

/// Channels dealt out: of each group the first, then of each the second, and so on (ShuffleNet, Zhang et al. 2018).
///
///   out[n, k*groups + g] = x[n, g*(channels/groups) + k]
///
/// Shapes    [batch, channels, ...], as the result
Tensor channel_shuffle(const Tensor& x, std::int64_t groups, Where where = Where::current());

}  // namespace capstan
