#include <capstan/nn/pool.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {
namespace {

/// Settings of the layer `name` over `axes` axes: "MaxPool", 2.
struct Layer {
  const char* name;
  int axes;
  Where where;

  /// `may_lack`: whether none at all may be given.
  void check(const char* what, const Sizes& sizes, std::int64_t least, bool may_lack = false) const {
    const int count = sizes.count();
    if (count != 1 && count != axes && !(count == 0 && may_lack))
      base::fail<ShapeError>(where, name, axes, "d: the ", what, " has ", count, " values; it must have 1 or ", axes,
                             ", one for each spatial axis.");
    for (int axis = 0; axis < count; ++axis)
      if (sizes[axis] < least)
        base::fail<ShapeError>(where, name, axes, "d: the ", what, " of spatial axis ", axis, " is ", sizes[axis],
                               "; it must be at least ", least, ".");
  }
  void check(const Borders& padding) const {
    if (padding.same()) return;
    if (padding.count() != 1 && padding.count() != axes)
      base::fail<ShapeError>(where, name, axes, "d: the padding has ", padding.count(), " values; it must have 1 or ",
                             axes, ", one for each spatial axis.");
    for (int axis = 0; axis < padding.count(); ++axis) {
      const Padding p = padding[axis];
      if (p.before < 0 || p.after < 0)
        base::fail<ShapeError>(where, name, axes, "d: the padding of spatial axis ", axis, " is ", p.before, " and ",
                               p.after, "; it must not be negative.");
    }
  }
};

}  // namespace

template <int Axes>
MaxPool<Axes>::MaxPool(Sizes kernel, const MaxPoolOptions& options, Where where) : kernel_(kernel), options_(options) {
  const Layer layer{"MaxPool", Axes, where};
  layer.check("kernel", kernel, 1);
  layer.check("stride", options.stride, 1, true);
  layer.check("dilation", options.dilation, 1);
  layer.check(options.padding);
}
template <int Axes>
Tensor MaxPool<Axes>::operator()(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return max_pool1d(x, kernel_, options_, where);
  else if constexpr (Axes == 2) return max_pool2d(x, kernel_, options_, where);
  else return max_pool3d(x, kernel_, options_, where);
}
template <int Axes>
MaxPoolResult MaxPool<Axes>::with_indices(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return max_pool1d_with_indices(x, kernel_, options_, where);
  else if constexpr (Axes == 2) return max_pool2d_with_indices(x, kernel_, options_, where);
  else return max_pool3d_with_indices(x, kernel_, options_, where);
}

template <int Axes>
MaxUnpool<Axes>::MaxUnpool(Sizes kernel, const MaxUnpoolOptions& options, Where where)
    : kernel_(kernel), options_(options) {
  const Layer layer{"MaxUnpool", Axes, where};
  layer.check("kernel", kernel, 1);
  layer.check("stride", options.stride, 1, true);
  layer.check("output size", options.output_size, 0, true);
  layer.check(options.padding);
}
template <int Axes>
Tensor MaxUnpool<Axes>::operator()(const Tensor& x, const Tensor& indices, Sizes output_size, Where where) const {
  MaxUnpoolOptions options = options_;
  if (output_size.count() > 0) options.output_size = output_size;
  if constexpr (Axes == 1) return max_unpool1d(x, indices, kernel_, options, where);
  else if constexpr (Axes == 2) return max_unpool2d(x, indices, kernel_, options, where);
  else return max_unpool3d(x, indices, kernel_, options, where);
}

template <int Axes>
AvgPool<Axes>::AvgPool(Sizes kernel, const AvgPoolOptions& options, Where where) : kernel_(kernel), options_(options) {
  const Layer layer{"AvgPool", Axes, where};
  layer.check("kernel", kernel, 1);
  layer.check("stride", options.stride, 1, true);
  layer.check(options.padding);
}
template <int Axes>
Tensor AvgPool<Axes>::operator()(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return avg_pool1d(x, kernel_, options_, where);
  else if constexpr (Axes == 2) return avg_pool2d(x, kernel_, options_, where);
  else return avg_pool3d(x, kernel_, options_, where);
}

template <int Axes>
LpPool<Axes>::LpPool(double norm, Sizes kernel, const LpPoolOptions& options, Where where)
    : norm_(norm), kernel_(kernel), options_(options) {
  if (!(norm > 0 && norm < __builtin_inf()))
    base::fail<Error>(where, "LpPool", Axes, "d: the norm is ", norm, "; it must be above 0 and finite.");
  const Layer layer{"LpPool", Axes, where};
  layer.check("kernel", kernel, 1);
  layer.check("stride", options.stride, 1, true);
}
template <int Axes>
Tensor LpPool<Axes>::operator()(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return lp_pool1d(x, norm_, kernel_, options_, where);
  else if constexpr (Axes == 2) return lp_pool2d(x, norm_, kernel_, options_, where);
  else return lp_pool3d(x, norm_, kernel_, options_, where);
}

template <int Axes>
AdaptiveAvgPool<Axes>::AdaptiveAvgPool(Sizes output_size, Where where) : output_size_(output_size) {
  Layer{"AdaptiveAvgPool", Axes, where}.check("output size", output_size, -1);
}
template <int Axes>
Tensor AdaptiveAvgPool<Axes>::operator()(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return adaptive_avg_pool1d(x, output_size_, where);
  else if constexpr (Axes == 2) return adaptive_avg_pool2d(x, output_size_, where);
  else return adaptive_avg_pool3d(x, output_size_, where);
}

template <int Axes>
AdaptiveMaxPool<Axes>::AdaptiveMaxPool(Sizes output_size, Where where) : output_size_(output_size) {
  Layer{"AdaptiveMaxPool", Axes, where}.check("output size", output_size, -1);
}
template <int Axes>
Tensor AdaptiveMaxPool<Axes>::operator()(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return adaptive_max_pool1d(x, output_size_, where);
  else if constexpr (Axes == 2) return adaptive_max_pool2d(x, output_size_, where);
  else return adaptive_max_pool3d(x, output_size_, where);
}
template <int Axes>
MaxPoolResult AdaptiveMaxPool<Axes>::with_indices(const Tensor& x, Where where) const {
  if constexpr (Axes == 1) return adaptive_max_pool1d_with_indices(x, output_size_, where);
  else if constexpr (Axes == 2) return adaptive_max_pool2d_with_indices(x, output_size_, where);
  else return adaptive_max_pool3d_with_indices(x, output_size_, where);
}

Tensor GlobalAvgPool::operator()(const Tensor& x, Where where) const { return global_avg_pool(x, options_, where); }
Tensor GlobalMaxPool::operator()(const Tensor& x, Where where) const { return global_max_pool(x, options_, where); }

#define CAPSTAN_POOL_MODULES(axes)      \
  template class MaxPool<axes>;         \
  template class MaxUnpool<axes>;       \
  template class AvgPool<axes>;         \
  template class LpPool<axes>;          \
  template class AdaptiveAvgPool<axes>; \
  template class AdaptiveMaxPool<axes>;
CAPSTAN_POOL_MODULES(1)
CAPSTAN_POOL_MODULES(2)
CAPSTAN_POOL_MODULES(3)
#undef CAPSTAN_POOL_MODULES

}  // namespace capstan::nn
