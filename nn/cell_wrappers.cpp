#include <capstan/nn/cell_wrappers.hpp>

#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn::detail {

std::int64_t agreed_size(const char* wrapper, const char* option, std::int64_t given, const char* of_cell,
                         std::int64_t known, Where where) {
  if (given < 0) base::fail<ShapeError>(where, wrapper, ": the option ", option, " is ", given, "; it must be >= 1.");
  if (given == 0 && known == kUnknownSize)
    base::fail<Error>(where, wrapper, ": the cell does not tell how many ", of_cell, " it has; give the option ",
                      option, ".");
  if (given != 0 && known != kUnknownSize && given != known)
    base::fail<ShapeError>(where, wrapper, ": the option ", option, " is ", given, " and the cell has ", known, " ",
                           of_cell, "; they must be equal.");
  return given != 0 ? given : known;
}

Tensor within_lengths(const Tensor& sequence, const SequenceOptions& options, Where where) {
  // lengths and sequences of other shapes are left to the cell, whose operations say what is wrong
  if (!options.lengths.defined() || options.lengths.rank() != 1 || sequence.rank(where) < 2) return sequence;
  const std::int64_t time = sequence.size(options.time_major ? 0 : 1);
  if (options.lengths.size(0) != sequence.size(options.time_major ? 1 : 0)) return sequence;
  Tensor valid = sequence_mask(options.lengths.to(sequence.device(), where), time, DType::bool8, where);
  if (options.time_major) valid = transpose(valid, where);
  while (valid.rank() < sequence.rank()) valid = expand_dims(valid, -1, where);
  return capstan::where(valid, sequence, 0, where);
}

// --- stacks ---

void check_stack(std::span<const CellSizes> cells, Where where) {
  if (cells.empty()) base::fail<Error>(where, "StackedCell: there are no cells; give one or more.");
  for (std::size_t i = 1; i < cells.size(); ++i) {
    const std::int64_t given = cells[i - 1].outputs, taken = cells[i].inputs;
    if (given != kUnknownSize && taken != kUnknownSize && given != taken)
      base::fail<ShapeError>(where, "StackedCell: cell ", i - 1, " has ", given, " outputs and cell ", i, " has ",
                             taken, " inputs; they must be equal.");
  }
}

void check_stack_state(std::size_t states, std::size_t cells, Where where) {
  if (states != cells)
    base::fail<Error>(where, "StackedCell: the state is one of ", states, " cells and the stack has ", cells,
                      "; the numbers must be equal.");
}

// --- residual connections ---

void check_residual(CellSizes cell, Where where) {
  if (cell.inputs != kUnknownSize && cell.outputs != kUnknownSize && cell.inputs != cell.outputs)
    base::fail<ShapeError>(where, "ResidualCell: the cell has ", cell.inputs, " inputs and ", cell.outputs,
                           " outputs; they must be equal.");
}

Tensor add_residual(const Tensor& output, const Tensor& x, Where where) {
  if (!(output.shape(where) == x.shape(where)))
    base::fail<ShapeError>(where, "ResidualCell: the input is ", x.shape(), " and the output of the cell ",
                           output.shape(), "; the shapes must be equal.");
  return add(output, x, where);
}

// --- embeddings ---

EmbeddingOptions embedding_for(EmbeddingOptions options, CellSizes cell, Where where) {
  options.size = agreed_size("EmbeddingCell", "size", options.size, "inputs", cell.inputs, where);
  return options;
}

// --- projections ---

namespace {

Linear make_projection(const char* wrapper, std::int64_t inputs, std::int64_t outputs,
                       const CellProjectionOptions& options, Rng& rng, Where where) {
  check_floating(wrapper, options.dtype, where);
  if (inputs < 1 || outputs < 1)
    base::fail<ShapeError>(where, wrapper, ": a projection of ", inputs, " inputs to ", outputs,
                           " outputs was asked for; both must be >= 1.");
  return Linear(inputs, outputs,
                {.bias = options.bias,
                 .weight_init = options.weight_init,
                 .bias_init = options.bias_init,
                 .dtype = options.dtype},
                rng, where);
}

}  // namespace

Linear projection_to(const CellProjectionOptions& options, CellSizes cell, Rng& rng, Where where) {
  constexpr const char* wrapper = "InputProjectionCell";
  const std::int64_t outputs = agreed_size(wrapper, "outputs", options.outputs, "inputs", cell.inputs, where);
  return make_projection(wrapper, options.inputs, outputs, options, rng, where);
}

Linear projection_from(const CellProjectionOptions& options, CellSizes cell, Rng& rng, Where where) {
  constexpr const char* wrapper = "OutputProjectionCell";
  const std::int64_t inputs = agreed_size(wrapper, "inputs", options.inputs, "outputs", cell.outputs, where);
  return make_projection(wrapper, inputs, options.outputs, options, rng, where);
}

Tensor project(const Linear& projection, const CellActivation& activation, const Tensor& x, Where where) {
  const auto of_rows = [&](const Tensor& rows) {
    Tensor y = projection(rows, where);
    if (activation) y = activation(y, where);
    return y;
  };
  if (x.rank(where) <= 2) return of_rows(x);
  // all steps as one matrix: the activation sees rows of features, as in a step
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis + 1 < sizes.size(); ++axis) count *= sizes[axis];
  const Tensor y = of_rows(reshape(x, {count, sizes.back()}, where));
  sizes.back() = y.size(-1, where);
  return reshape(y, Shape(std::span<const std::int64_t>(sizes), where), where);
}

}  // namespace capstan::nn::detail
