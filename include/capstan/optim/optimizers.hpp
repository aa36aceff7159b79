#pragma once
// Optimizers: they hold handles to parameters and change them in place, in one pass over each.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;  ///< 0 <= momentum
  bool nesterov = false;
  double weight_decay = 0;  ///< adds weight_decay * parameter to the gradient
  bool lazy = false;        ///< of gradients held as row slices, change only those rows; see ops/update.hpp
};

/// Stochastic gradient descent. v = momentum*v + g; p -= learning_rate*v (Nesterov: p -= learning_rate*(g + momentum*v)).
/// The first step sets v = g. Sutskever et al. 2013, in PyTorch's form.
class Sgd {
 public:
  explicit Sgd(std::vector<Tensor> parameters, SgdOptions options = {}, Where where = Where::current());
  /// One step. Gradients in the order of `parameters()`; undefined ones leave their parameter alone.
  /// Throws ShapeError for a wrong count or shape, DTypeError, DeviceError; then nothing has changed.
  void apply(std::span<const Tensor> gradients, Where where = Where::current());
  void apply(const std::vector<Tensor>& gradients, Where where = Where::current()) {
    apply(std::span<const Tensor>(gradients), where);
  }
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  SgdOptions& options() noexcept { return options_; }  ///< may be changed between steps
  std::int64_t steps() const noexcept { return steps_; }

 private:
  std::vector<Tensor> parameters_, velocity_;
  SgdOptions options_;
  std::int64_t steps_ = 0;
};

struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  ///< adds weight_decay * parameter to the gradient
  bool lazy = false;        ///< of gradients held as row slices, change only those rows; see ops/update.hpp
};

/// Adam (Kingma, Ba 2015, algorithm 1).
///
///   m = beta1*m + (1-beta1)*g;  v = beta2*v + (1-beta2)*g*g
///   p -= learning_rate * (m / (1-beta1^t)) / (sqrt(v / (1-beta2^t)) + epsilon)
class Adam {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {}, Where where = Where::current());
  /// One step; as `Sgd::apply`.
  void apply(std::span<const Tensor> gradients, Where where = Where::current());
  void apply(const std::vector<Tensor>& gradients, Where where = Where::current()) {
    apply(std::span<const Tensor>(gradients), where);
  }
  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  AdamOptions& options() noexcept { return options_; }  ///< may be changed between steps
  std::int64_t steps() const noexcept { return steps_; }

 private:
  std::vector<Tensor> parameters_, mean_, square_;
  AdamOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace optim
}  // namespace capstan
