#pragma once
// Lbfgs: a quasi-Newton method for whole batches.
#include <capstan/callback.hpp>
#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

enum class LineSearch : std::uint8_t {
  none,         ///< every step is learning_rate long
  strong_wolfe  ///< looks along the direction for enough decrease (c1 = 1e-4) and a small slope (c2 = 0.9), in 25
                ///< trials at most, and not between points whose elements are within 1e-9 of each other
};

struct LbfgsOptions {
  double learning_rate = 1;
  std::int64_t max_iterations = 20;  ///< of one `minimize`, >= 1
  std::int64_t max_evaluations = 0;  ///< of one `minimize`; 0 for 5/4 of max_iterations
  double gradient_tolerance = 1e-7;  ///< ends where no element of the gradient is larger
  double change_tolerance = 1e-9;    ///< ends where loss, parameters or the slope change by less
  std::int64_t history = 100;        ///< steps that are remembered, >= 1
  LineSearch line_search = LineSearch::none;
};

/// What a function to be minimized gives where the parameters stand.
struct Evaluation {
  Tensor loss;                    ///< one number
  std::vector<Tensor> gradients;  ///< in the order of the parameters; undefined ones count as zero
};

/// The method of Broyden, Fletcher, Goldfarb and Shanno with limited memory: directions from the last steps and the
/// changes of the gradient along them. One group only.
///
///   optim::Lbfgs lbfgs(nn::parameters(net), {.line_search = optim::LineSearch::strong_wolfe});
///   Tensor loss = lbfgs.minimize([&] {
///     GradientTape tape;
///     const Tensor value = mse_loss(net(x), y);
///     return optim::Evaluation{value, tape.gradient(value, lbfgs.parameters())};
///   });
///
/// Cost      2*history vectors of the parameters' size, and 4*history passes over them an iteration; float64 if one of
///           the parameters is, else float32
/// Source    Liu, Nocedal 1989; Nocedal, Wright 2006, algorithm 7.4; the line search is that of Schmidt's minFunc; in
///           PyTorch's form
class Lbfgs final : public Optimizer {
 public:
  using Function = Callback<Evaluation()>;

  /// Throws Error  no parameters, one undefined or given twice, options out of range    DTypeError, ShapeError  as
  ///        other optimizers do    DeviceError  parameters on different devices
  explicit Lbfgs(std::vector<Tensor> parameters, LbfgsOptions options = {}, Where where = Where::current());
  const char* name() const noexcept override { return "Lbfgs"; }

  /// Up to max_iterations iterations; the loss where it began. Counts as one step. The function is called several
  /// times, with the parameters in different places, and makes a tape of its own each time.
  /// Throws what the function throws, and ShapeError, DTypeError, DeviceError, Error for what it gives; then parameters
  ///        and memory are as before.
  Tensor minimize(const Function& function, Where where = Where::current());

  LbfgsOptions& options() noexcept { return options_; }  ///< may be changed between steps
  const LbfgsOptions& options() const noexcept { return options_; }
  std::int64_t iterations() const noexcept { return memory_.iterations; }    ///< of all steps
  std::int64_t evaluations() const noexcept { return memory_.evaluations; }  ///< of all steps

 private:
  struct Pair {  // of a step: how far parameters and gradient went, and 1 / their product
    Tensor change, difference;
    double weight;
  };
  /// Tensors in it are never written to, so that copies may share them.
  struct Memory {
    std::int64_t iterations = 0, evaluations = 0;
    Tensor direction, gradient;    // of the last iteration, flat
    double length = 0, scale = 1;  // of its step; of the first guess of the inverse Hessian
    std::vector<Pair> pairs;
  };
  struct Point {
    Tensor loss, gradient;
    double value = 0;
  };

  double rate(std::size_t group) const noexcept override;
  void set_rate(std::size_t group, double rate) noexcept override;
  void check_group(std::size_t group, Where where) const override;
  /// One iteration without a line search: what `apply` does.
  void step(std::span<const Tensor> gradients, Where where) override;
  void save(std::vector<NamedTensor>& all, Where where) const override;
  void load(detail::StateReader& reader) override;

  Point evaluate(const Function& function, Memory& memory, Where where) const;
  void remember(Memory& memory, const Tensor& gradient, Where where) const;
  double choose_direction(Memory& memory, const Tensor& gradient, Where where) const;
  Tensor iterate(Memory& memory, const Function& function, Where where) const;
  std::int64_t walk(Memory& memory, Point& now, double slope, const Function& function, bool last, Where where) const;

  LbfgsOptions options_;
  Memory memory_;
};

}  // namespace optim
}  // namespace capstan
