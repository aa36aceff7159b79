#pragma once
// Pooling as modules: they hold the settings of ops/pooling.hpp and no parameters, and fit into Sequential.
//
//   nn::Sequential net{nn::Conv2d{{.in = 1, .out = 32, .kernel = 5}}, nn::MaxPool2d{2}, nn::GlobalAvgPool{}};
//
// Constructors throw ShapeError for kernels, strides, dilations and paddings that are out of range or for another
// number of axes; calls throw what the operations throw. Defined in nn/pool.cpp, for one, two and three axes.
#include <capstan/nn/fields.hpp>
#include <capstan/ops/pooling.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// `max_pool1d`, `max_pool2d`, `max_pool3d`.
template <int Axes>
class MaxPool {
 public:
  explicit MaxPool(Sizes kernel, const MaxPoolOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  /// The same with the places of the values, for MaxUnpool.
  MaxPoolResult with_indices(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  Sizes kernel_;
  MaxPoolOptions options_;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;
using MaxPool3d = MaxPool<3>;

/// `max_unpool1d`, `max_unpool2d`, `max_unpool3d`. A size given with a call comes before that of the options.
template <int Axes>
class MaxUnpool {
 public:
  explicit MaxUnpool(Sizes kernel, const MaxUnpoolOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Tensor& indices, Sizes output_size = {},
                    Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  Sizes kernel_;
  MaxUnpoolOptions options_;
};
using MaxUnpool1d = MaxUnpool<1>;
using MaxUnpool2d = MaxUnpool<2>;
using MaxUnpool3d = MaxUnpool<3>;

/// `avg_pool1d`, `avg_pool2d`, `avg_pool3d`.
template <int Axes>
class AvgPool {
 public:
  explicit AvgPool(Sizes kernel, const AvgPoolOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  Sizes kernel_;
  AvgPoolOptions options_;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;
using AvgPool3d = AvgPool<3>;

/// `lp_pool1d`, `lp_pool2d`, `lp_pool3d`. Error unless the norm is above 0 and finite.
template <int Axes>
class LpPool {
 public:
  LpPool(double norm, Sizes kernel, const LpPoolOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  double norm_;
  Sizes kernel_;
  LpPoolOptions options_;
};
using LpPool1d = LpPool<1>;
using LpPool2d = LpPool<2>;
using LpPool3d = LpPool<3>;

/// `adaptive_avg_pool1d`, `adaptive_avg_pool2d`, `adaptive_avg_pool3d`.
template <int Axes>
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(Sizes output_size, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  Sizes output_size_;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;
using AdaptiveAvgPool3d = AdaptiveAvgPool<3>;

/// `adaptive_max_pool1d`, `adaptive_max_pool2d`, `adaptive_max_pool3d`.
template <int Axes>
class AdaptiveMaxPool {
 public:
  explicit AdaptiveMaxPool(Sizes output_size, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  MaxPoolResult with_indices(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  Sizes output_size_;
};
using AdaptiveMaxPool1d = AdaptiveMaxPool<1>;
using AdaptiveMaxPool2d = AdaptiveMaxPool<2>;
using AdaptiveMaxPool3d = AdaptiveMaxPool<3>;

/// `global_avg_pool`.
class GlobalAvgPool {
 public:
  explicit GlobalAvgPool(ReduceOptions options = {}) noexcept : options_(options) {}
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  ReduceOptions options_;
};
/// `global_max_pool`.
class GlobalMaxPool {
 public:
  explicit GlobalMaxPool(ReduceOptions options = {}) noexcept : options_(options) {}
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  CAPSTAN_FIELDS();

 private:
  ReduceOptions options_;
};

}  // namespace nn
}  // namespace capstan
