#pragma once
// Activations as modules, for Sequential and for models that choose among them. Each but PRelu is a struct of the
// function's options: `LeakyRelu{.slope = 0.2}`, `Softmax{}`. ops/activation.hpp has the formulas.
#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/activation.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct Relu {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Relu6 {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Selu {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Sigmoid {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Tanh {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct LogSigmoid {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct HardSigmoid {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct HardSwish {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Mish {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Softsign {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct TanhShrink {
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};

struct LeakyRelu {
  double slope = 0.01;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Elu {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Celu {
  double alpha = 1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Gelu {
  GeluForm form = GeluForm::exact;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Softplus {
  double beta = 1, threshold = 20;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct HardTanh {
  double low = -1, high = 1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct HardShrink {
  double bound = 0.5;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct SoftShrink {
  double bound = 0.5;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Threshold {
  double limit = 0, value = 0;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};

struct Softmax {
  int axis = -1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct LogSoftmax {
  int axis = -1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Glu {
  int axis = -1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};
struct Maxout {
  std::int64_t pieces = 2;
  int axis = -1;
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
};

struct PReluOptions {
  std::int64_t channels = 1;  ///< slopes: one for all, or one for each place along axis 1 of x
  Initializer weight_init = init::constant(0.25);
  DType dtype = DType::float32;
};

/// `prelu` with slopes that are learned: weight [channels].
/// Throws  ShapeError unless channels >= 1, or if x does not fit     DTypeError  a type that is not floating
class PRelu {
 public:
  explicit PRelu(const PReluOptions& options = {}, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight;
  CAPSTAN_FIELDS(weight);
};

}  // namespace nn
}  // namespace capstan
