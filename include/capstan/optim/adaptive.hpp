#pragma once
// Learning rates that follow the gradients' squares: Adagrad, Adadelta, RmsProp.
#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

// What the options of all optimizers mean stands in optim/sgd.hpp.

struct AdagradOptions {
  double learning_rate = 0.01;
  double learning_rate_decay = 0;  ///< >= 0
  double initial_accumulator = 0;  ///< >= 0: what s begins with
  double epsilon = 1e-10;
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// s += g*g;  p -= learning_rate / (1 + (t-1)*learning_rate_decay) * g / (sqrt(s) + epsilon)
///
/// States   sum
/// Source   Duchi, Hazan, Singer 2011, in PyTorch's form
class Adagrad final : public detail::Fused<AdagradOptions> {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, AdagradOptions options = {}, Where where = Where::current());
  explicit Adagrad(std::vector<Group<AdagradOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Adagrad"; }

 private:
  void check_options(const AdagradOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AdagradOptions& options, std::int64_t step, double carried) const override;
};

struct AdadeltaOptions {
  double learning_rate = 1;
  double rho = 0.9;  ///< in [0, 1]
  double epsilon = 1e-6;
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// s = rho*s + (1-rho)*g*g;  d = sqrt(u + epsilon) / sqrt(s + epsilon) * g;  u = rho*u + (1-rho)*d*d
/// p -= learning_rate * d
///
/// States   square, change
/// Source   Zeiler 2012, in PyTorch's form
class Adadelta final : public detail::Fused<AdadeltaOptions> {
 public:
  explicit Adadelta(std::vector<Tensor> parameters, AdadeltaOptions options = {}, Where where = Where::current());
  explicit Adadelta(std::vector<Group<AdadeltaOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Adadelta"; }

 private:
  void check_options(const AdadeltaOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AdadeltaOptions& options, std::int64_t step, double carried) const override;
};

struct RmsPropOptions {
  double learning_rate = 0.01;
  double alpha = 0.99;  ///< in [0, 1]; TensorFlow calls it rho
  double epsilon = 1e-8;
  double momentum = 0;    ///< >= 0
  bool centered = false;  ///< divides by the spread of the gradient instead of its size
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// s = alpha*s + (1-alpha)*g*g;  d = g / (sqrt(s) + epsilon), centered g / (sqrt(s - m*m) + epsilon) with
/// m = alpha*m + (1-alpha)*g;  with momentum v = momentum*v + d in place of d;  p -= learning_rate * d
///
/// States   square; mean if centered; velocity with momentum
/// Source   Hinton 2012, lecture 6; Graves 2013 for the centered form; in PyTorch's form
class RmsProp final : public detail::Fused<RmsPropOptions> {
 public:
  explicit RmsProp(std::vector<Tensor> parameters, RmsPropOptions options = {}, Where where = Where::current());
  explicit RmsProp(std::vector<Group<RmsPropOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "RmsProp"; }

 private:
  void check_options(const RmsPropOptions& options, Where where) const override;
  detail::StepPlan plan_step(const RmsPropOptions& options, std::int64_t step, double carried) const override;
};

}  // namespace optim
}  // namespace capstan
