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

/// The logits, whose gradient becomes NaN where PyTorch's is and ours 0: in the steps of sequences of infinite loss.
Tensor with_its_gradient(const GoldenCall& c) {
  const Tensor &logits = c.tensor(0), &steps = c.tensor(2);
  CtcOptions options = options_of(c);
  options.reduction = Reduction::none;
  const Tensor lost = isinf(ctc_loss(logits, c.tensor(1), steps, c.tensor(3), options));  // [batch]
  const Tensor running = transpose(sequence_mask(steps, logits.size(0)));                 // [time, batch]
  const Tensor places = expand_dims(logical_and(running, lost), -1);
  return custom_gradient(
      logits, [](const Tensor& x) { return x.copy(); },
      [places](const Tensor& gradient, const Tensor&, const Tensor&) { return where(places, kNaN, gradient); });
}

const GoldenOps ops = {
    {"ctc_loss_from_logits",
     [](const GoldenCall& c) {
       const Tensor logits = with_its_gradient(c);
       return std::vector<Tensor>{ctc_loss(logits, c.tensor(1), c.tensor(2), c.tensor(3), options_of(c))};
     }},
};

}  // namespace

TEST_CASE("the loss of alignments gives PyTorch's values and gradients", "[golden]") {
  run_goldens("losses of alignments", {"ctc_loss"}, ops);
}
