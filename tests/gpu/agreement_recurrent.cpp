// Recurrent steps and sequences, and alignments of labels, on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"
#include "tests/recurrent_use.hpp"

using namespace capstan;

namespace tests {

namespace {

using core::RecurrentKind;

/// A use that is made on the device of its operands, of which some are undefined.
void add(AgreementCases& cases, const std::string& text, const RecurrentUse& use, RecurrentRun run,
         const Tensors& operands, const std::vector<std::string>& slots, Types types) {
  const auto run_there = [use, run, operands](const Tensors& in) {
    const DeviceScope there(in[0].device());  // lengths are made here
    Tensors given(operands.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < given.size(); ++i)
      if (operands[i].defined()) given[i] = in[next++];
    return run(use, given);
  };
  cases.push_back({text, slots, existing(operands), run_there, Nearness::chained, types});
}

void add_use(AgreementCases& cases, const RecurrentUse& use, Types types = Types::wide) {
  const bool plain = use.kind == RecurrentKind::rnn_tanh || use.kind == RecurrentKind::rnn_relu;
  std::vector<std::string> slots = {"recurrent_forward", "recurrent_backward"};
  if (plain && !use.cell && !use.reverse && !use.time_major && use.lengths.empty())
    slots = {"rnn_forward", "rnn_backward"};
  add(cases, use.text(), use, &run_recurrent, recurrent_operands(use, 300), slots, types);
}

void add_both(AgreementCases& cases, const RecurrentUse& use) {
  add(cases, use.text() + ", both directions", use, &run_both_directions, both_operands(use),
      {"recurrent_both_forward", "recurrent_both_backward"}, Types::wide);
}

void add_kinds(AgreementCases& cases, const RecurrentUse& base) {
  for (const RecurrentUse& use : recurrent_uses(base)) add_use(cases, use);
}

void add_edges(AgreementCases& cases) {
  for (const RecurrentKind kind : {RecurrentKind::rnn_tanh, RecurrentKind::gru, RecurrentKind::lstm}) {
    RecurrentUse use{.kind = kind, .batch = 3, .time = 4, .inputs = 2, .hidden = 5};
    add_use(cases, use, Types::floating);
    use.b = use.bn = false;
    add_use(cases, use);
    use.reverse = true;
    add_use(cases, use);
    use.lengths = {0, 4, 2};
    add_use(cases, use);
    use.lengths = {0, 0, 0};
    add_use(cases, use);
    use = {.kind = kind, .batch = 0, .time = 3};
    add_use(cases, use);
    use = {.kind = kind, .batch = 2, .time = 1, .inputs = 3, .hidden = 70};
    add_use(cases, use);
    use = {.kind = kind, .batch = 9, .time = 2, .inputs = 3, .hidden = 4, .time_major = true};
    add_use(cases, use);
  }
}

}  // namespace

AgreementCases recurrent_agreement_cases() {
  AgreementCases cases;
  add_kinds(cases, {.batch = 3, .time = 5, .inputs = 4, .hidden = 5});   // few units
  add_kinds(cases, {.batch = 2, .time = 4, .inputs = 3, .hidden = 40});  // resident, in wider registers
  add_kinds(cases, {.batch = 5, .time = 3, .inputs = 3, .hidden = 67});  // tiled
  for (const RecurrentKind kind : {RecurrentKind::gru, RecurrentKind::lstm})
    add_use(cases, {.kind = kind, .batch = 23, .time = 3, .inputs = 3, .hidden = 66});  // several tiles
  add_edges(cases);
  for (const bool lengths : {false, true}) {
    RecurrentUse use{.batch = 3, .time = 4, .inputs = 2, .hidden = 5, .time_major = lengths};
    if (lengths) use.lengths = {0, 4, 2};
    add_both(cases, use);
    use.kind = RecurrentKind::gru;
    add_both(cases, use);
  }
  return cases;
}

AgreementCases sequence_agreement_cases() {
  AgreementCases cases;
  const Tensor logits = noise({4, 9, 6}, 1) * 2;  // [batch, time, classes]
  const Tensor targets = {{1, 2, 2, 3}, {5, 0, 0, 0}, {4, 4, 1, 0}, {1, 2, 3, 0}}, counts = {4, 1, 3, 0},
               lengths = {9, 5, 8, 0};
  cases.push_back(
      {"alignments of labels",
       {"ctc_loss", "ctc_loss_backward"},
       {logits, targets, lengths, counts},
       [](const Tensors& in) {
         const Tensor logs = log_softmax(in[0]), &labels = in[1];
         const Tensor in_a_row = concat({labels[0], labels[1].index({until(1)}), labels[2].index({until(3)})});
         return Tensors{
             ctc_loss(logs, labels, in[2], in[3], {.reduction = Reduction::none}), ctc_loss(logs, labels, {}, in[3]),
             ctc_loss(transpose(in[0], 0, 1), labels, in[2], in[3], {.from_logits = true, .time_major = true}),
             ctc_loss(logs, in_a_row, in[2], in[3], {.reduction = Reduction::sum})};
       },
       Nearness::summed,
       Types::wide});
  for (const CtcInfeasible what : {CtcInfeasible::zero, CtcInfeasible::infinite})
    cases.push_back(
        {std::string("alignments that do not exist, ") + (what == CtcInfeasible::zero ? "zero" : "infinite"),
         {"ctc_loss", "ctc_loss_backward"},
         {logits, Tensor{{1, 2, 2, 3}, {4, 1, 1, 1}, {4, 4, 1, 2}, {1, 2, 3, 3}}, Tensor{3, 9, 8, 2}},
         [what](const Tensors& in) {
           const CtcOptions options{.reduction = Reduction::none, .infeasible = what};
           return Tensors{ctc_loss(log_softmax(in[0]), in[1], in[2], {}, options)};
         },
         Nearness::summed,
         Types::wide});
  cases.push_back({"labels that are read off",
                   {"ctc_greedy", "ctc_beam_search"},
                   {logits, lengths},
                   [](const Tensors& in) {
                     const NoGrad off;
                     const Tensor logs = log_softmax(in[0]);
                     const CtcGreedyResult first = ctc_greedy_decode(logs, in[1]),
                                           second = ctc_greedy_decode(logs, {}, {.blank = 3, .merge_repeated = false});
                     const CtcBeamResult beams = ctc_beam_search_decode(logs, in[1], {.beams = 8, .top_paths = 2});
                     return Tensors{first.tokens,  first.lengths, first.scores,  second.tokens,          second.lengths,
                                    second.scores, beams.tokens,  beams.lengths, beams.log_probabilities};
                   },
                   Nearness::summed,
                   Types::wide});
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on recurrent operations", "[gpu][agreement]") {
  tests::check_agreement(&tests::recurrent_agreement_cases);
}

TEST_CASE("GPU and CPU agree on alignments of labels", "[gpu][agreement]") {
  tests::check_agreement(&tests::sequence_agreement_cases);
}
