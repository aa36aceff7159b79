#include "tests/gradient_check.hpp"

#include <algorithm>
#include <cmath>

#include "tests/support.hpp"

namespace tests {

using namespace capstan;

namespace {

using Lists = std::vector<std::vector<double>>;  // for every input, its elements
using Value = std::function<double(const std::vector<Tensor>&)>;

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

/// (f(x + h) - f(x - h)) / 2h for every element of every input.
Lists differences(const Value& f, const std::vector<Tensor>& inputs) {
  Lists result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<double> host = inputs[i].to_vector<double>(), slopes;
    const auto at = [&](std::size_t element, double x) {
      std::vector<Tensor> moved = inputs;
      const double before = std::exchange(host[element], x);
      moved[i] = from_vector(host, inputs[i].shape());
      host[element] = before;
      return f(moved);
    };
    for (std::size_t j = 0; j < host.size(); ++j) {
      const double h = tolerance::difference_step * std::max(1.0, std::fabs(host[j]));
      const double up = host[j] + h, down = host[j] - h;
      slopes.push_back((at(j, up) - at(j, down)) / (up - down));
    }
    result.push_back(slopes);
  }
  return result;
}

void watch_all(GradientTape& tape, const std::vector<Tensor>& inputs) {
  for (const Tensor& x : inputs) tape.watch(x);
}

std::vector<Tensor> first_gradient(const TensorFunction& function, const std::vector<Tensor>& inputs, const Tensor& w) {
  GradientTape tape;
  watch_all(tape, inputs);
  const Tensor y = function(inputs);
  return tape.gradient(y, inputs, {.output_gradient = w, .unconnected = Unconnected::zeros});
}

/// Gradient of sum(u * first gradient).
std::vector<Tensor> second_gradient(const TensorFunction& function, const std::vector<Tensor>& inputs, const Tensor& w,
                                    const std::vector<Tensor>& u) {
  GradientTape outer;
  watch_all(outer, inputs);
  const std::vector<Tensor> first = first_gradient(function, inputs, w);
  Tensor total = zeros({}, {.dtype = DType::float64});
  for (std::size_t i = 0; i < inputs.size(); ++i)
    total = total + sum(first[i] * u[i]) + sum(inputs[i] * 0.0);  // the last term keeps a constant gradient on the tape
  return outer.gradient(total, inputs, {.unconnected = Unconnected::zeros});
}

void compare(const char* which, const std::vector<Tensor>& gradients, const Lists& expected,
             const std::vector<Tensor>& inputs) {
  REQUIRE(gradients.size() == inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    INFO(which << " gradient for input " << i << " of shape " << to_string(inputs[i].shape()));
    REQUIRE(gradients[i].defined());
    REQUIRE(gradients[i].shape() == inputs[i].shape());
    REQUIRE(gradients[i].dtype() == inputs[i].dtype());
    const std::vector<double> actual = gradients[i].to_vector<double>();
    double worst = 0;
    std::size_t where_worst = 0;
    for (std::size_t j = 0; j < actual.size(); ++j) {
      const double scale = std::max({1.0, std::fabs(actual[j]), std::fabs(expected[i][j])});
      const double error = std::fabs(actual[j] - expected[i][j]) / scale;
      if (error <= worst) continue;  // false for NaN
      worst = std::isnan(error) ? kInfinity : error;
      where_worst = j;
    }
    if (!actual.empty()) {
      INFO("worst at element " << where_worst << ": the tape says " << actual[where_worst] << ", differences say "
                               << expected[i][where_worst] << ", the input there is "
                               << inputs[i].to_vector<double>()[where_worst]);
      CHECK(worst <= tolerance::gradient);
    }
  }
}

void check_once(const TensorFunction& function, const std::vector<Tensor>& inputs, int order) {
  const Shape shape = function(inputs).shape();
  const Tensor w = random_in(-1, 1, shape, DType::float64, 901);
  const std::vector<double> weights = values(w);
  const Lists slopes =
      differences([&](const std::vector<Tensor>& x) { return dot(weights, values(function(x))); }, inputs);
  compare("first", first_gradient(function, inputs, w), slopes, inputs);
  if (order < 2) return;

  std::vector<Tensor> u;
  Lists directions;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    u.push_back(random_in(-1, 1, inputs[i].shape(), DType::float64, 902 + i));
    directions.push_back(values(u.back()));
  }
  const Value directional = [&](const std::vector<Tensor>& x) {
    const std::vector<Tensor> first = first_gradient(function, x, w);
    double total = 0;
    for (std::size_t i = 0; i < first.size(); ++i) total += dot(directions[i], values(first[i]));
    return total;
  };
  compare("second", second_gradient(function, inputs, w, u), differences(directional, inputs), inputs);
}

}  // namespace

void check_gradient(const TensorFunction& function, const std::vector<Tensor>& inputs, int order) {
  for (const double poison : {kNaN, 1.0}) {
    INFO("fresh memory is full of " << poison);
    const PoisonedBuffers poisoned(poison);
    check_once(function, inputs, order);
  }
}

}  // namespace tests
