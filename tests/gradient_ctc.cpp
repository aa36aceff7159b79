// Uses of the loss of alignments whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor logs(const Shape& shape, std::uint64_t seed) { return random_in(-2, 0.5, shape, DType::float64, seed); }

}  // namespace

std::vector<GradientCase> ctc_gradient_cases() {
  std::vector<GradientCase> cases;
  const Tensor targets = {{1, 2}, {2, 2}}, steps = {3, 4};
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
    cases.push_back({"ctc_loss",
                     "reduction " + std::to_string(static_cast<int>(reduction)),
                     [=](const Tensors& in) { return ctc_loss(in[0], targets, steps, {}, {.reduction = reduction}); },
                     {logs({2, 4, 3}, 701)}});
  cases.push_back({"ctc_loss",
                   "of logits, time-major, blank last, labels in one axis",
                   [](const Tensors& in) {
                     return ctc_loss(
                         in[0], Tensor{0, 1, 1}, Tensor{3, 2}, Tensor{2, 1},
                         {.blank = 2, .reduction = Reduction::none, .from_logits = true, .time_major = true});
                   },
                   {logs({3, 2, 3}, 702)}});
  cases.push_back({"ctc_loss",
                   "of views, a row without labels, one without steps, one without paths",
                   [](const Tensors& in) {
                     return ctc_loss(transpose(in[0], 0, 1), Tensor{1, 1, 1}, Tensor{3, 0, 2}, Tensor{0, 0, 3},
                                     {.reduction = Reduction::none, .infeasible = CtcInfeasible::zero});
                   },
                   {logs({3, 3, 2}, 703)}});
  cases.push_back({"ctc_loss",
                   "of squares",
                   [](const Tensors& in) { return ctc_loss(neg(square(in[0])), Tensor{1}, {}, Tensor{1}); },
                   {logs({1, 2, 2}, 704)}});
  cases.push_back(
      {"ctc_loss",
       "of nothing",
       [](const Tensors& in) {
         return ctc_loss(in[0], zeros({2, 0}, {.dtype = DType::int64}), {}, {}, {.reduction = Reduction::none});
       },
       {logs({2, 0, 3}, 705)}});
  return cases;
}

}  // namespace tests
