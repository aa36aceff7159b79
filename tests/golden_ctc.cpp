// Connectionist temporal classification against PyTorch: log_softmax, and then ctc_loss.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

CtcOptions options_of(const GoldenCall& c) {
  const std::string reduction = c.option<std::string>("reduction", "mean");
  return {.blank = c.option("blank", std::int64_t{0}),
          .reduction = reduction == "none"  ? Reduction::none
                       : reduction == "sum" ? Reduction::sum
                                            : Reduction::mean,
          .infeasible = c.option("zero_infinity", false) ? CtcInfeasible::zero : CtcInfeasible::infinite,
          .from_logits = true,
          .time_major = true};
}

const GoldenOps ops = {
    {"ctc_loss_from_logits",
     [](const GoldenCall& c) {
       const Tensor loss = ctc_loss(c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), options_of(c));
       if (!all_of(isfinite(loss)).item<bool>()) throw LeftOut{"PyTorch's gradient of an infinite loss is NaN, not 0"};
       return std::vector<Tensor>{loss};
     }},
};

}  // namespace

TEST_CASE("the loss of alignments gives PyTorch's values and gradients", "[golden]") {
  run_goldens("losses of alignments", {"ctc_loss"}, ops);
}
