#pragma once
// A search along a line for a point that satisfies the strong Wolfe conditions.
#include <capstan/callback.hpp>
#include <capstan/tensor.hpp>

namespace capstan::optim {

/// A function along a line: where, its value, its derivative by the step, and its gradient there.
struct Trial {
  double step = 0, loss = 0, slope = 0;
  Tensor gradient;
};

struct LineTask {
  const Callback<Trial(double)>& at;
  Trial start;       // step 0
  double first = 1;  // the step to try first
  double size = 1;   // of the direction's largest element
};

struct LineResult {
  Trial best;
  std::int64_t evaluations = 0;
};

/// Brackets a minimum, then narrows the bracket by cubic interpolation; 25 trials at most.
LineResult search_strong_wolfe(const LineTask& task);

}  // namespace capstan::optim
