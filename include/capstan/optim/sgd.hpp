#pragma once
// Gradient descent, with momentum, averaging, or by signs: Sgd, Asgd, Lion, Rprop.
#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

// In all optimizers: g is the gradient, t counts the steps of a parameter from 1. `weight_decay` adds weight_decay * p
// to the gradient where nothing else is said. `maximize` climbs: the gradient counts with the other sign. `lazy`: of a
// gradient held as row slices change those rows only; see ops/update.hpp. Options are checked by the constructor and
// before each step (Error). Defaults are PyTorch's, but for the rate of Sgd (there 0.001); those of Lion and Lamb are
// their papers'. Float16 and bfloat16 parameters have states in float32.

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;    ///< >= 0
  double dampening = 0;   ///< takes its share off the gradients that momentum sums up, the first one excepted
  bool nesterov = false;  ///< needs momentum, and no dampening
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// Stochastic gradient descent.
///
///   v = momentum*v + (1-dampening)*g, at the first step with momentum v = g;  p -= learning_rate * v
///
/// without momentum v = g; with Nesterov's p -= learning_rate * (g + momentum*v).
/// States   velocity, once a step was taken with momentum
/// Source   Sutskever, Martens, Dahl, Hinton 2013, in PyTorch's form
class Sgd final : public detail::Fused<SgdOptions> {
 public:
  /// Throws, as all optimizers do, Error for an undefined parameter, one that is given twice or shares elements with
  ///        another, and options out of range; DTypeError unless all are floating; ShapeError unless all are contiguous
  explicit Sgd(std::vector<Tensor> parameters, SgdOptions options = {}, Where where = Where::current());
  explicit Sgd(std::vector<Group<SgdOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Sgd"; }

 private:
  void check_options(const SgdOptions& options, Where where) const override;
  detail::StepPlan plan_step(const SgdOptions& options, std::int64_t step, double carried) const override;
};

struct AsgdOptions {
  double learning_rate = 0.01;
  double lambda = 1e-4;  ///< decay of the parameter
  double alpha = 0.75;   ///< the power by which the step size falls
  double start = 1e6;    ///< step from which on the average is one: PyTorch's t0
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// Averaged stochastic gradient descent.
///
///   e = learning_rate / (1 + lambda*learning_rate*(t-1))^alpha;  p = (1 - lambda*e)*p - e*g
///   average += (p - average) / max(1, t - 1 - start)
///
/// States   average
/// Source   Polyak, Juditsky 1992; Bottou 2010, in PyTorch's form
class Asgd final : public detail::Fused<AsgdOptions> {
 public:
  explicit Asgd(std::vector<Tensor> parameters, AsgdOptions options = {}, Where where = Where::current());
  explicit Asgd(std::vector<Group<AsgdOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Asgd"; }
  /// The averages, as handles, in the order of `parameters()`; of a parameter that has taken no step itself.
  std::vector<Tensor> averages() const;

 private:
  void check_options(const AsgdOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AsgdOptions& options, std::int64_t step, double carried) const override;
};

struct LionOptions {
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;  ///< in [0, 1)
  double weight_decay = 0;           ///< decoupled: p = (1 - learning_rate*weight_decay) * p before the step
  bool maximize = false;
  bool lazy = false;
};

/// Evolved sign momentum: steps of one size, a third to a tenth of Adam's.
///
///   p -= learning_rate * sign(beta1*m + (1-beta1)*g);  m = beta2*m + (1-beta2)*g
///
/// States   mean
/// Source   Chen et al.: Symbolic discovery of optimization algorithms, 2023; defaults as there
class Lion final : public detail::Fused<LionOptions> {
 public:
  explicit Lion(std::vector<Tensor> parameters, LionOptions options = {}, Where where = Where::current());
  explicit Lion(std::vector<Group<LionOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Lion"; }

 private:
  void check_options(const LionOptions& options, Where where) const override;
  detail::StepPlan plan_step(const LionOptions& options, std::int64_t step, double carried) const override;
};

struct RpropOptions {
  double learning_rate = 0.01;           ///< the size of the first step of each element; schedules change nothing more
  double shrink = 0.5, grow = 1.2;       ///< 0 < shrink < 1 < grow: PyTorch's etas
  double smallest = 1e-6, largest = 50;  ///< of a step
  bool maximize = false;
  bool lazy = false;
};

/// Resilient propagation, for whole batches: every element has a step size of its own and goes against the sign of its
/// gradient. The size grows while signs agree; when one turns, the size shrinks and the element waits for a step.
///
/// States   previous (gradient), step_size
/// Source   Riedmiller, Braun 1993, in PyTorch's form
class Rprop final : public detail::Fused<RpropOptions> {
 public:
  explicit Rprop(std::vector<Tensor> parameters, RpropOptions options = {}, Where where = Where::current());
  explicit Rprop(std::vector<Group<RpropOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Rprop"; }

 private:
  void check_options(const RpropOptions& options, Where where) const override;
  detail::StepPlan plan_step(const RpropOptions& options, std::int64_t step, double carried) const override;
};

}  // namespace optim
}  // namespace capstan
