// Gradients against central differences, for users and for the tests.
#include <capstan/create.hpp>
#include <capstan/differentiate.hpp>
#include <capstan/random.hpp>
#include <capstan/tape.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/owner.hpp"
#include "autograd/scopes.hpp"
#include "lib/base/text.hpp"

namespace capstan {

namespace {

using detail::Function;
using detail::Tensors;

constexpr const char* kOp = "check_gradient";

double dot(const Tensors& weights, const Tensors& values) {
  double total = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!weights[i].defined() || !values[i].defined()) continue;
    const std::vector<double> w = weights[i].to_vector<double>(), v = values[i].to_vector<double>();
    for (std::size_t j = 0; j < std::min(v.size(), w.size()); ++j) total += w[j] * v[j];
  }
  return total;
}

class Checker {
 public:
  Checker(const Function& function, std::span<const Tensor> inputs, const GradientCheck& options, Where where)
      : function_(function),
        inputs_(autograd::told_apart(inputs, where)),
        options_(options),
        where_(where),
        start_(default_rng()) {}
  ~Checker() { default_rng() = start_; }
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  GradientReport run() {
    Rng rng(options_.seed);
    weights_ = weights_like(run_once(inputs_), rng);
    compare(1, first_gradient(inputs_), [this](const Tensors& x) { return dot(weights_, run_once(x)); });
    if (options_.order > 1) {
      directions_ = weights_like(inputs_, rng);
      compare(2, second_gradient(), [this](const Tensors& x) { return dot(directions_, first_gradient(x)); });
    }
    report_.ok = report_.worst <= 1 && report_.problem.empty();
    return report_;
  }

 private:
  Tensors run_once(const Tensors& inputs) {
    default_rng() = start_;
    Tensors results = autograd::checked_results(kOp, function_(inputs), where_);
    if (!weights_.empty() && results.size() != weights_.size())
      base::fail<ShapeError>(where_, kOp, ": the function returned ", results.size(), " tensors and before ",
                             weights_.size(), "; every run must do the same.");
    for (std::size_t i = 0; i < results.size(); ++i)
      if (results[i].dtype() != DType::float64)
        base::fail<DTypeError>(where_, kOp, ": result ", i, " is ", results[i].dtype(), "; it must be float64.");
    return results;
  }

  Tensors weights_like(const Tensors& tensors, Rng& rng) const {
    Tensors weights;
    for (const Tensor& x : tensors)
      weights.push_back(uniform(x.shape(), -1, 1, rng, {DType::float64, x.device()}, where_));
    return weights;
  }

  /// Of sum(w * function(inputs)); zeros where nothing depends.
  Tensors first_gradient(const Tensors& inputs) {
    GradientTape tape({.watch_parameters = false}, where_);
    for (const Tensor& x : inputs) tape.watch(x, where_);
    return gradient_of(tape, run_once(inputs), weights_, inputs);
  }

  /// Of sum(u * first gradient).
  Tensors second_gradient() {
    GradientTape outer({.watch_parameters = false}, where_);
    for (const Tensor& x : inputs_) outer.watch(x, where_);
    return gradient_of(outer, first_gradient(inputs_), directions_, inputs_);
  }

  Tensors gradient_of(GradientTape& tape, const Tensors& values, const Tensors& weights, const Tensors& inputs) const {
    Tensors targets, seeds;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (!tape.follows(values[i], where_)) continue;
      targets.push_back(values[i]);
      seeds.push_back(weights[i]);
    }
    if (!targets.empty()) return tape.gradient(targets, inputs, seeds, Unconnected::zeros, where_);
    Tensors none;
    for (const Tensor& x : inputs) none.push_back(zeros_like(x, where_));
    return none;
  }

  /// `value` of the inputs, differentiated along each of their elements, against the gradients.
  template <class F>
  void compare(int order, const Tensors& gradients, F value) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor &x = inputs_[i], &gradient = gradients[i];
      if (gradient.shape() != x.shape() || gradient.dtype() != x.dtype()) {
        report_.problem = base::join("gradient ", i, " of order ", order, " is ", gradient.shape(), " ",
                                     gradient.dtype(), " and its input ", x.shape(), " ", x.dtype());
        return;
      }
      const std::vector<double> by_tape = gradient.to_vector<double>();
      std::vector<double> elements = x.to_vector<double>();
      Tensors moved = inputs_;
      const auto at = [&](std::size_t j, double place) {
        const double before = std::exchange(elements[j], place);
        moved[i] = from_vector(elements, x.shape(), where_).to(x.device(), where_);
        elements[j] = before;
        return value(moved);
      };
      for (std::size_t j = 0; j < elements.size(); ++j) {
        const double h = options_.step * std::max(1.0, std::fabs(elements[j]));
        const double up = elements[j] + h, down = elements[j] - h;
        judge(order, i, j, by_tape[j], (at(j, up) - at(j, down)) / (up - down), elements[j]);
      }
    }
  }

  void judge(int order, std::size_t input, std::size_t element, double by_tape, double by_differences, double value) {
    const double allowed =
        options_.absolute + options_.relative * std::max(std::fabs(by_tape), std::fabs(by_differences));
    const double error = std::fabs(by_tape - by_differences);
    double share = error == 0 ? 0 : error / allowed;
    if (!std::isfinite(by_tape) || !std::isfinite(by_differences)) share = std::numeric_limits<double>::infinity();
    if (report_.order != 0 && share <= report_.worst) return;
    report_.worst = share;
    report_.order = order;
    report_.input = input;
    report_.element = static_cast<std::int64_t>(element);
    report_.shape = inputs_[input].shape();
    report_.by_tape = by_tape;
    report_.by_differences = by_differences;
    report_.value = value;
  }

  const Function& function_;
  const Tensors inputs_;
  const GradientCheck& options_;
  const Where where_;
  const Rng start_;
  Tensors weights_, directions_;
  GradientReport report_;
};

}  // namespace

GradientReport detail::check_gradient(const Function& function, std::span<const Tensor> inputs,
                                      const GradientCheck& options, Where where) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const DType dtype = core::defined(kOp, inputs[i], where).dtype; dtype != DType::float64)
      base::fail<DTypeError>(where, kOp, ": input ", i, " is ", dtype,
                             "; it must be float64: differences of shorter numbers say little.");
  if (!(options.step > 0) || !(options.relative >= 0) || !(options.absolute >= 0))
    base::fail<Error>(where, kOp, ": the step is ", options.step, ", the tolerances are ", options.relative, " and ",
                      options.absolute, "; the step must be positive, and no tolerance negative.");
  if (options.order != 1 && options.order != 2)
    base::fail<Error>(where, kOp, ": the order is ", options.order, "; it must be 1 or 2.");
  const autograd::Awake awake(autograd::Others::silent);
  return Checker(function, inputs, options, where).run();
}

std::string GradientReport::text() const {
  if (!problem.empty()) return base::join("wrong: ", problem, ".");
  if (order == 0) return "ok: there are no elements to compare.";
  return base::join(ok ? "ok: the worst is " : "wrong: ", order == 1 ? "the gradient" : "the gradient's gradient",
                    " for input ", input, " of shape ", shape, ", element ", element, ": the tape says ", by_tape,
                    ", differences say ", by_differences, ", the input there is ", value, "; the error is ", worst,
                    " times what is allowed.");
}

}  // namespace capstan
