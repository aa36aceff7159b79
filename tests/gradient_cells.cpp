// Recurrent cells whose gradients are checked: steps and sequences, with every option.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

constexpr DType f64 = DType::float64;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, f64, seed); }

/// Output and last state of a step, or of a sequence if x is [batch, time, inputs], as one vector. The inputs are x,
/// the state and all parameters.
template <class Cell>
GradientCase cell_case(const std::string& op, const std::string& usage, const Cell& cell, const Shape& x,
                       const SequenceOptions& options = {}) {
  using State = typename Cell::State;
  const auto own = std::make_shared<Cell>(cell);
  std::uint64_t seed = 801;
  Tensors inputs = {random(x, seed++)};
  State start = own->zero_state(x[0]);
  nn::detail::for_each_tensor(start, [&](const Tensor& t) { inputs.push_back(random(t.shape(), seed++)); });
  for (const Tensor& p : nn::parameters(*own)) inputs.push_back(random(p.shape(), seed++));
  return {op, usage,
          [own, options](const Tensors& in) {
            std::size_t next = 1;
            State before;
            nn::detail::for_each_tensor(before, [&](Tensor& t) { t = in[next++]; });
            const nn::detail::Outline outline = nn::detail::outline_of(*own);
            for (const nn::detail::Leaf& leaf : outline.leaves)
              if (leaf.parameter && leaf.value.defined()) *leaf.slot = in[next++];
            const bool whole = in[0].rank() == 3;
            auto [output, after] = whole ? own->sequence(in[0], before, options) : (*own)(in[0], before);
            Tensors parts = {flatten(square(output))};
            nn::detail::for_each_tensor(after, [&](const Tensor& t) { parts.push_back(flatten(t)); });
            return concat(parts);
          },
          std::move(inputs)};
}

const Shape kStep = {2, 2}, kSequence = {2, 3, 2};  // 2 rows of 2 inputs

void add_simple_cells(std::vector<GradientCase>& cases) {
  const SequenceOptions with_lengths{.lengths = Tensor{1, 3}, .reverse = true};
  for (const Activation activation : {Activation::tanh, Activation::relu}) {
    const std::string usage = activation == Activation::tanh ? "nn::RnnCell, tanh" : "nn::RnnCell, relu";
    const nn::RnnCell cell(2, 2, {.activation = activation, .dtype = f64});
    cases.push_back(cell_case("rnn_cell", usage, cell, kStep));
    cases.push_back(cell_case("rnn", usage, cell, kSequence, with_lengths));
  }
  cases.push_back(
      cell_case("rnn_cell", "nn::RnnCell, no bias", nn::RnnCell(2, 3, {.use_bias = false, .dtype = f64}), kStep));

  for (const bool reset_after : {true, false}) {
    const std::string usage = reset_after ? "nn::GruCell, reset after" : "nn::GruCell, reset before";
    const nn::GruCell cell(2, 2, {.reset_after = reset_after, .dtype = f64});
    cases.push_back(cell_case("gru_cell", usage, cell, kStep));
    cases.push_back(cell_case("gru", usage, cell, kSequence, with_lengths));
    const nn::GruCell without(2, 2, {.reset_after = reset_after, .use_bias = false, .dtype = f64});
    cases.push_back(cell_case("gru_cell", usage + ", no bias", without, kStep));
  }
}

struct LstmRow {
  const char* op;  // what shows in a step
  const char* usage;
  nn::LstmCellOptions options;
  std::int64_t hidden = 2;
};

void add_lstm_cells(std::vector<GradientCase>& cases) {
  // epsilons that keep higher derivatives small
  const LstmRow rows[] = {{"lstm_cell", "plain", {.dtype = f64}},
                          {"lstm_cell", "no bias", {.use_bias = false, .dtype = f64}},
                          {"lstm_cell", "projection", {.projection = 1, .dtype = f64}, 3},
                          {"sigmoid", "relu", {.activation = Activation::relu, .dtype = f64}},
                          {"sigmoid", "peepholes", {.peepholes = true, .dtype = f64}},
                          {"sigmoid", "coupled", {.coupled_gates = true, .dtype = f64}},
                          {"sigmoid",
                           "coupled, peepholes, no bias",
                           {.use_bias = false, .peepholes = true, .coupled_gates = true, .dtype = f64}},
                          {"clip", "clip", {.cell_clip = 0.25, .dtype = f64}, 3},
                          {"clip", "projection and its clip", {.projection = 3, .projection_clip = 0.1, .dtype = f64}},
                          {"layer_norm", "layer norm", {.layer_norm = true, .norm_epsilon = 0.2, .dtype = f64}, 3},
                          {"layer_norm",
                           "all but coupled",
                           {.peepholes = true,
                            .cell_clip = 0.6,
                            .projection = 2,
                            .projection_clip = 0.15,
                            .layer_norm = true,
                            .norm_epsilon = 0.2,
                            .dtype = f64},
                           3},
                          {"layer_norm",
                           "all",
                           {.peepholes = true,
                            .cell_clip = 0.6,
                            .projection = 2,
                            .projection_clip = 0.15,
                            .coupled_gates = true,
                            .layer_norm = true,
                            .norm_epsilon = 0.2,
                            .dtype = f64},
                           3}};
  for (const LstmRow& row : rows)
    cases.push_back(
        cell_case(row.op, std::string("nn::LstmCell, ") + row.usage, nn::LstmCell(2, row.hidden, row.options), kStep));

  const SequenceOptions with_lengths{.lengths = Tensor{1, 3}, .reverse = true};
  cases.push_back(
      cell_case("lstm", "nn::LstmCell", nn::LstmCell(2, 2, {.projection = 1, .dtype = f64}), kSequence, with_lengths));
  cases.push_back(cell_case("sigmoid", "a sequence of nn::LstmCell, peepholes",
                            nn::LstmCell(2, 2, {.peepholes = true, .dtype = f64}), kSequence, with_lengths));
}

}  // namespace

std::vector<GradientCase> cell_gradient_cases() {
  std::vector<GradientCase> cases;
  add_simple_cells(cases);
  add_lstm_cells(cases);
  return cases;
}

}  // namespace tests
