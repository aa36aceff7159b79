#pragma once
// Running means of the gradient and of its square: Adam, AdamW, Adamax, Nadam, RAdam, Lamb.
#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

// What the options of all optimizers mean stands in optim/sgd.hpp. Here 0 <= beta1, beta2 < 1. In the formulas
//
//   m = beta1*m + (1-beta1)*g;  v = beta2*v + (1-beta2)*g*g;  m^ = m / (1-beta1^t);  v^ = v / (1-beta2^t)

struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;  ///< divides by the largest v so far
  bool maximize = false;
  bool lazy = false;
};

/// p -= learning_rate * m^ / (sqrt(v^) + epsilon)
///
/// States   mean, square; with amsgrad largest_square
/// Source   Kingma, Ba 2015, algorithm 1; Reddi, Kale, Kumar 2018 for AMSGrad
class Adam final : public detail::Fused<AdamOptions> {
 public:
  explicit Adam(std::vector<Tensor> parameters, AdamOptions options = {}, Where where = Where::current());
  explicit Adam(std::vector<Group<AdamOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Adam"; }

 private:
  void check_options(const AdamOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AdamOptions& options, std::int64_t step, double carried) const override;
};

struct AdamWOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.01;  ///< decoupled: p = (1 - learning_rate*weight_decay) * p before the step
  bool amsgrad = false;
  bool maximize = false;
  bool lazy = false;
};

/// Adam with decoupled decay.
/// Source   Loshchilov, Hutter 2019, in PyTorch's form
class AdamW final : public detail::Fused<AdamWOptions> {
 public:
  explicit AdamW(std::vector<Tensor> parameters, AdamWOptions options = {}, Where where = Where::current());
  explicit AdamW(std::vector<Group<AdamWOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "AdamW"; }

 private:
  void check_options(const AdamWOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AdamWOptions& options, std::int64_t step, double carried) const override;
};

struct AdamaxOptions {
  double learning_rate = 2e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool maximize = false;
  bool lazy = false;
};

/// u = max(beta2*u, |g| + epsilon);  p -= learning_rate * m^ / u
///
/// States   mean, norm
/// Source   Kingma, Ba 2015, algorithm 2, in PyTorch's form
class Adamax final : public detail::Fused<AdamaxOptions> {
 public:
  explicit Adamax(std::vector<Tensor> parameters, AdamaxOptions options = {}, Where where = Where::current());
  explicit Adamax(std::vector<Group<AdamaxOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Adamax"; }

 private:
  void check_options(const AdamaxOptions& options, Where where) const override;
  detail::StepPlan plan_step(const AdamaxOptions& options, std::int64_t step, double carried) const override;
};

struct NadamOptions {
  double learning_rate = 2e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;         ///< >= 0
  bool decoupled_weight_decay = false;  ///< as in AdamW
  bool pytorch_1 = false;               ///< M(t+1) takes mu(t) twice, as PyTorch did before 2.0
  bool maximize = false;
  bool lazy = false;
};

/// Adam with Nesterov's momentum.
///
///   mu(t) = beta1 * (1 - 0.96^(t*momentum_decay) / 2);  M(t) = mu(1) * ... * mu(t)
///   p -= learning_rate * (mu(t+1) / (1 - M(t+1)) * m + (1 - mu(t)) / (1 - M(t)) * g) / (sqrt(v^) + epsilon)
///
/// States   momentum_product M(t), mean, square
/// Source   Dozat 2016, as PyTorch 2.0 has it
class Nadam final : public detail::Fused<NadamOptions> {
 public:
  explicit Nadam(std::vector<Tensor> parameters, NadamOptions options = {}, Where where = Where::current());
  explicit Nadam(std::vector<Group<NadamOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Nadam"; }

 private:
  void check_options(const NadamOptions& options, Where where) const override;
  detail::StepPlan plan_step(const NadamOptions& options, std::int64_t step, double carried) const override;
};

struct RAdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< as in AdamW
  bool maximize = false;
  bool lazy = false;
};

/// Adam whose first steps, while v says little, do without it.
///
///   R = 2/(1-beta2) - 1;  r = R - 2*t*beta2^t / (1-beta2^t)
///   r > 5:  p -= learning_rate * c * m^ * sqrt(1-beta2^t) / (sqrt(v) + epsilon)
///           with c = sqrt((r-4)*(r-2)*R / ((R-4)*(R-2)*r));     else p -= learning_rate * m^
///
/// States   mean, square
/// Source   Liu et al. 2020, in PyTorch's form
class RAdam final : public detail::Fused<RAdamOptions> {
 public:
  explicit RAdam(std::vector<Tensor> parameters, RAdamOptions options = {}, Where where = Where::current());
  explicit RAdam(std::vector<Group<RAdamOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "RAdam"; }

 private:
  void check_options(const RAdamOptions& options, Where where) const override;
  detail::StepPlan plan_step(const RAdamOptions& options, std::int64_t step, double carried) const override;
};

struct LambOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  double weight_decay = 0.01;  ///< added to the direction, not to the gradient
  bool maximize = false;
};

/// Adam for large batches: each parameter moves in proportion to its norm.
///
///   d = m^ / (sqrt(v^) + epsilon) + weight_decay*p;  p -= learning_rate * |p|/|d| * d, and d itself if |p| or |d| is 0
///
/// States   mean, square
/// Cost     two passes; the norms are added up in float64
/// Source   You et al. 2020, algorithm 2
class Lamb final : public detail::Fused<LambOptions> {
 public:
  explicit Lamb(std::vector<Tensor> parameters, LambOptions options = {}, Where where = Where::current());
  explicit Lamb(std::vector<Group<LambOptions>> groups, Where where = Where::current());
  const char* name() const noexcept override { return "Lamb"; }

 private:
  void check_options(const LambOptions& options, Where where) const override;
  detail::StepPlan plan_step(const LambOptions& options, std::int64_t step, double carried) const override;
};

}  // namespace optim
}  // namespace capstan
