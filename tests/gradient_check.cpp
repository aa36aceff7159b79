#include "tests/gradient_check.hpp"

#include <random>

#include "tests/support.hpp"

namespace tests {

using namespace capstan;

void expect_gradient(const TensorFunction& function, const std::vector<Tensor>& inputs, int order) {
  for (const double poison : {kNaN, 1.0}) {
    INFO("fresh memory is full of " << poison);
    const PoisonedBuffers poisoned(poison);
    const GradientReport report = check_gradient(function, inputs,
                                                 {.step = tolerance::difference_step,
                                                  .relative = tolerance::gradient,
                                                  .absolute = tolerance::gradient,
                                                  .order = order});
    INFO(report.text());
    CHECK(report.ok);
  }
}

Tensor spaced(const Shape& shape, std::uint64_t seed) {
  std::vector<double> numbers(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 0.3 * (static_cast<double>(i) - static_cast<double>(numbers.size()) / 2 + 0.25);
  std::mt19937_64 bits(seed);
  for (std::size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[bits() % i]);
  return from_doubles(numbers, shape);
}

}  // namespace tests
