// Cells around cells whose gradients are checked: for the input and all parameters, through steps and whole sequences.
#include <memory>

#include "tests/gradient_check.hpp"
#include "tests/own_cells.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;
constexpr DType f64 = DType::float64;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, f64, seed); }

nn::RnnCell rnn_cell(std::int64_t inputs, std::int64_t hidden) {
  Rng rng(4);
  return nn::RnnCell(inputs, hidden, {.bias_init = nn::init::uniform(-1, 1), .dtype = f64}, rng);
}
nn::LstmCell lstm_cell(std::int64_t inputs, std::int64_t hidden) {
  Rng rng(4);
  return nn::LstmCell(inputs, hidden, {.dtype = f64}, rng);
}

enum class Run { steps, sequence };

/// Outputs and last state, all in a row.
template <class State>
Tensor flat(const Tensor& outputs, const State& last) {
  Tensors parts = {reshape(outputs, {-1})};
  for (const Tensor* part : nn::detail::state_tensors(last)) parts.push_back(reshape(*part, {-1}));
  return square(concat(parts));
}

/// A cell run over x [3, 2, ...] as a function of x, if it is floating, and of all parameters. What it draws is always
/// the same.
template <class Cell>
void add_cell(std::vector<GradientCase>& cases, const std::string& op, const std::string& usage, const Cell& cell,
              const Tensor& x, Run run = Run::steps) {
  const auto own = std::make_shared<Cell>(cell);
  const bool through_x = is_floating(x.dtype());
  Tensors inputs;
  if (through_x) inputs.push_back(x);
  for (const Tensor& parameter : nn::parameters(*own)) inputs.push_back(parameter.copy());
  cases.push_back({op, usage,
                   [=](const Tensors& in) {
                     std::size_t next = through_x ? 1 : 0;
                     const nn::detail::Outline outline = nn::detail::outline_of(*own);
                     for (const nn::detail::Leaf& leaf : outline.leaves)
                       if (leaf.parameter && leaf.value.defined()) *leaf.slot = in[next++];
                     default_rng().set_position(0);
                     const Tensor& seen = through_x ? in[0] : x;
                     typename Cell::State state = own->zero_state(3);
                     if constexpr (nn::detail::OffersSequence<Cell>) {
                       if (run == Run::sequence) {
                         const auto result = own->sequence(seen, state, {.lengths = Tensor{2, 1, 0}});
                         return flat(result.first, result.second);
                       }
                     }
                     Tensors outputs;
                     for (std::int64_t t = 0; t < 2; ++t) {
                       auto result = (*own)(seen.index({all, t}), state);
                       outputs.push_back(std::move(result.first));
                       state = std::move(result.second);
                     }
                     return flat(stack(outputs), state);
                   },
                   std::move(inputs)});
}

void add_stacks(std::vector<GradientCase>& cases) {
  using Deep = nn::StackedCell<nn::RnnCell>;
  using Residual = nn::ResidualCell<Deep>;
  const Tensor x = random({3, 2, 2}, 501);
  add_cell(cases, "tanh", "nn::StackedCell of one's own", nn::StackedCell<OwnCell>{{OwnCell{}, OwnCell{}}}, x);
  const nn::StackedCell<nn::RnnCell, OwnCell> mixed{{rnn_cell(3, 2), OwnCell{}}};
  add_cell(cases, "tanh", "nn::StackedCell of several types", mixed, random({3, 2, 3}, 502));
  const Deep deep{{rnn_cell(2, 3), rnn_cell(3, 2)}};
  add_cell(cases, "where", "nn::StackedCell in wrappers, a sequence", nn::StackedCell<Residual>{{Residual(deep)}}, x,
           Run::sequence);
}

void add_dropout(std::vector<GradientCase>& cases) {
  const nn::DropoutCellOptions anew{.input_keep = 0.7, .state_keep = 0.6, .output_keep = 0.7, .drop_memory = true};
  const nn::DropoutCellOptions once{
      .input_keep = 0.7, .state_keep = 0.6, .output_keep = 0.7, .variational = true, .inputs = 2, .outputs = 2};
  const nn::DropoutCellOptions whole{.input_keep = 0.7, .output_keep = 0.7};
  const Tensor x = random({3, 2, 2}, 511);
  add_cell(cases, "dropout", "nn::DropoutCell", nn::DropoutCell<OwnCell>(OwnCell{}, anew), x);
  add_cell(cases, "mul", "nn::DropoutCell, variational", nn::DropoutCell<OwnCell>(OwnCell{}, once), x);
  add_cell(cases, "dropout", "nn::DropoutCell of an LSTM", nn::DropoutCell<nn::LstmCell>(lstm_cell(2, 2), anew), x);
  add_cell(cases, "dropout", "nn::DropoutCell, a sequence", nn::DropoutCell<nn::LstmCell>(lstm_cell(2, 2), whole), x,
           Run::sequence);
  nn::DropoutCellOptions masks = once;
  masks.state_keep = 1;
  add_cell(cases, "mul", "nn::DropoutCell, variational, a sequence",
           nn::DropoutCell<nn::RnnCell>(rnn_cell(2, 2), masks), x, Run::sequence);
}

void add_residual(std::vector<GradientCase>& cases) {
  const Tensor x = random({3, 2, 2}, 521);
  add_cell(cases, "add", "nn::ResidualCell", nn::ResidualCell<OwnCell>(OwnCell{}), x);
  for (const Run run : {Run::steps, Run::sequence})
    add_cell(cases, "add", run == Run::steps ? "nn::ResidualCell of an RNN" : "nn::ResidualCell, a sequence",
             nn::ResidualCell<nn::RnnCell>(rnn_cell(2, 2)), x, run);
}

void add_embedding(std::vector<GradientCase>& cases) {
  const nn::EmbeddingOptions table{.count = 4, .size = 2, .dtype = f64};
  const Tensor tokens = {{1, 3}, {3, 3}, {0, 1}};
  Rng rng(5);
  add_cell(cases, "embedding", "nn::EmbeddingCell", nn::EmbeddingCell<OwnCell>(OwnCell{}, table, rng), tokens);
  add_cell(cases, "embedding", "nn::EmbeddingCell, a sequence",
           nn::EmbeddingCell<nn::RnnCell>(rnn_cell(2, 2), table, rng), tokens, Run::sequence);
}

void add_projections(std::vector<GradientCase>& cases) {
  const nn::CellProjectionOptions to{.inputs = 3, .outputs = 2, .activation = nn::Tanh{}, .dtype = f64};
  const nn::CellProjectionOptions from{.inputs = 2, .outputs = 3, .activation = nn::Tanh{}, .dtype = f64};
  const Tensor wide = random({3, 2, 3}, 531), x = random({3, 2, 2}, 532);
  Rng rng(6);
  add_cell(cases, "linear", "nn::InputProjectionCell", nn::InputProjectionCell<OwnCell>(OwnCell{}, to, rng), wide);
  add_cell(cases, "linear", "nn::InputProjectionCell, a sequence",
           nn::InputProjectionCell<nn::RnnCell>(rnn_cell(2, 2), to, rng), wide, Run::sequence);
  add_cell(cases, "linear", "nn::OutputProjectionCell", nn::OutputProjectionCell<OwnCell>(OwnCell{}, from, rng), x);
  add_cell(cases, "linear", "nn::OutputProjectionCell, a sequence",
           nn::OutputProjectionCell<nn::RnnCell>(rnn_cell(2, 2), from, rng), x, Run::sequence);
}

}  // namespace

std::vector<GradientCase> cell_wrapper_gradient_cases() {
  std::vector<GradientCase> cases;
  add_stacks(cases);
  add_dropout(cases);
  add_residual(cases);
  add_embedding(cases);
  add_projections(cases);
  return cases;
}

}  // namespace tests
