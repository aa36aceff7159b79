#include "tests/gradient_check.hpp"

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

}  // namespace tests
