#pragma once
// Cells around cells: stacks, residual connections, embeddings and projections; dropout_cell.hpp has dropout.
//
// A wrapper holds what it wraps by value, in a field `cell` or `cells`, and is a cell itself: wrappers go around
// wrappers, and around cells of one's own (unroll.hpp says what a cell is). nn::set_training and all else that walks
// models reaches the cells inside; parameters are named by the fields: `cells.0.cell.wx`.
//
// Sizes      A cell may tell how many features it takes and gives: `std::int64_t inputs() const`, `outputs() const`.
//     Then sizes that do not fit are refused when a wrapper is made, and options that say the same may be left out;
//     wrappers hand them on. Otherwise the operations refuse them at the first step.
// Sequences  A wrapper does a whole sequence at once if all its cells do: `has_sequence` says so.
// Throws     ShapeError, DTypeError and Error as the entries say, and whatever the cells throw
// Defined in nn/cell_wrappers.cpp.
#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/nn/embedding.hpp>
#include <capstan/nn/layers.hpp>
#include <capstan/nn/states.hpp>
#include <capstan/nn/unroll.hpp>
#include <capstan/ops/recurrent.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {
namespace detail {

template <class Cell>
concept TellsInputs = requires(const Cell& cell) {
  { cell.inputs() } -> std::convertible_to<std::int64_t>;
};
template <class Cell>
concept TellsOutputs = requires(const Cell& cell) {
  { cell.outputs() } -> std::convertible_to<std::int64_t>;
};

inline constexpr std::int64_t kUnknownSize = -1;
struct CellSizes {
  std::int64_t inputs = kUnknownSize, outputs = kUnknownSize;
};
template <class Cell>
CellSizes sizes_of([[maybe_unused]] const Cell& cell) {
  CellSizes sizes;
  if constexpr (TellsInputs<Cell>) sizes.inputs = cell.inputs();
  if constexpr (TellsOutputs<Cell>) sizes.outputs = cell.outputs();
  return sizes;
}

/// A size that an option gives, or the cell if the option is 0, or both. Throws Error if neither does, ShapeError if
/// they differ or the option is below 0. `of_cell` is "inputs" or "outputs".
std::int64_t agreed_size(const char* wrapper, const char* option, std::int64_t given, const char* of_cell,
                         std::int64_t known, Where where);

/// Zeros in the places of a sequence that are past the end of their row.
Tensor within_lengths(const Tensor& sequence, const SequenceOptions& options, Where where);

// --- stacks ----------------------------------------------------------------------------------------------------

/// Throws Error if there are none, ShapeError unless each takes what the one before gives.
void check_stack(std::span<const CellSizes> cells, Where where);
/// Throws Error unless there is a state for each cell.
void check_stack_state(std::size_t states, std::size_t cells, Where where);

}  // namespace detail

/// Cells one behind the other: each takes the output of the one before, and the last one's is that of the stack. Of one
/// type they stand in a vector, of several in a tuple; the state has theirs in the same order.
///
///   cs::nn::StackedCell<cs::nn::LstmCell> deep{{cs::nn::LstmCell(3, 8), cs::nn::LstmCell(8, 8)}};
///   cs::nn::StackedCell<cs::nn::LstmCell, MyCell> mixed{{cs::nn::LstmCell(3, 8), MyCell()}};
///
/// Throws  Error       no cells; a state of another number of cells
///         ShapeError  a cell that tells its inputs behind one that tells other outputs
template <class... Cells>
class StackedCell {
  static_assert(sizeof...(Cells) > 0, "capstan: a StackedCell is made of one type of cells or of several");
  using First = std::tuple_element_t<0, std::tuple<Cells...>>;
  using Last = std::tuple_element_t<sizeof...(Cells) - 1, std::tuple<Cells...>>;

 public:
  struct State {
    std::tuple<detail::StateOf<Cells>...> cells;
    CAPSTAN_FIELDS(cells);
  };
  explicit StackedCell(std::tuple<Cells...> parts, Where where = Where::current()) : cells(std::move(parts)) {
    std::apply(
        [&](const Cells&... cell) {
          const detail::CellSizes sizes[] = {detail::sizes_of(cell)...};
          detail::check_stack(sizes, where);
        },
        cells);
  }

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    return pass(x, before,
                [&](auto& cell, const Tensor& h, const auto& state) { return detail::step(cell, h, state, where); });
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires(detail::OffersSequence<Cells>&&...) {
    return pass(x, before, [&](auto& cell, const Tensor& h, const auto& state) {
      return cell.sequence(h, state, options, where);
    });
  }
  bool has_sequence() const {
    return std::apply([](const Cells&... cell) { return (detail::runs_sequences(cell) && ...); }, cells);
  }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    return std::apply(
        [&](const Cells&... cell) {
          return State{std::tuple<detail::StateOf<Cells>...>{detail::first_state(cell, batch, where)...}};
        },
        cells);
  }
  std::int64_t inputs() const requires detail::TellsInputs<First> { return std::get<0>(cells).inputs(); }
  std::int64_t outputs() const requires detail::TellsOutputs<Last> {
    return std::get<sizeof...(Cells) - 1>(cells).outputs();
  }

  std::tuple<Cells...> cells;
  CAPSTAN_FIELDS(cells);

 private:
  /// Hands x from cell to cell.
  template <class Use>
  std::pair<Tensor, State> pass(const Tensor& x, const State& before, Use use) {
    Tensor h = x;
    const auto advance = [&](auto& cell, const auto& state) {
      auto result = use(cell, h, state);
      h = std::move(result.first);
      return std::move(result.second);
    };
    State after = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return State{std::tuple<detail::StateOf<Cells>...>{advance(std::get<I>(cells), std::get<I>(before.cells))...}};
    }
    (std::index_sequence_for<Cells...>());
    return {std::move(h), std::move(after)};
  }
};

template <class Cell>
class StackedCell<Cell> {
 public:
  struct State {
    std::vector<detail::StateOf<Cell>> cells;
    CAPSTAN_FIELDS(cells);
  };
  explicit StackedCell(std::vector<Cell> parts, Where where = Where::current()) : cells(std::move(parts)) {
    std::vector<decltype(detail::sizes_of(cells.front()))> sizes;  // of what Cell tells, compiled where it is used
    sizes.reserve(cells.size());
    for (const Cell& cell : cells) sizes.push_back(detail::sizes_of(cell));
    detail::check_stack(sizes, where);
  }

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    return pass(x, before, where, [&](Cell& cell, const Tensor& h, const detail::StateOf<Cell>& state) {
      return detail::step(cell, h, state, where);
    });
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    return pass(x, before, where, [&](Cell& cell, const Tensor& h, const detail::StateOf<Cell>& state) {
      return cell.sequence(h, state, options, where);
    });
  }
  bool has_sequence() const {
    for (const Cell& cell : cells)
      if (!detail::runs_sequences(cell)) return false;
    return true;
  }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    State state;
    state.cells.reserve(cells.size());
    for (const Cell& cell : cells) state.cells.push_back(detail::first_state(cell, batch, where));
    return state;
  }
  std::int64_t inputs() const requires detail::TellsInputs<Cell> { return cells.front().inputs(); }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> { return cells.back().outputs(); }

  std::vector<Cell> cells;
  CAPSTAN_FIELDS(cells);

 private:
  template <class Use>
  std::pair<Tensor, State> pass(const Tensor& x, const State& before, Where where, Use use) {
    detail::check_stack_state(before.cells.size(), cells.size(), where);
    Tensor h = x;
    State after;
    after.cells.reserve(cells.size());
    for (std::size_t i = 0; i < cells.size(); ++i) {
      auto result = use(cells[i], h, before.cells[i]);
      h = std::move(result.first);
      after.cells.push_back(std::move(result.second));
    }
    return {std::move(h), std::move(after)};
  }
};

template <class Cell>
StackedCell(std::vector<Cell>) -> StackedCell<Cell>;

// --- residual connections --------------------------------------------------------------------------------------

namespace detail {
/// Throws ShapeError if both sizes are known and differ.
void check_residual(CellSizes cell, Where where);
/// output + x. ShapeError unless their shapes are equal.
Tensor add_residual(const Tensor& output, const Tensor& x, Where where);
}  // namespace detail

/// A cell whose input is added to its output. Wu et al., "Google's neural machine translation system", 2016.
///
/// Throws  ShapeError  a cell that does not give what it takes
template <class Cell>
class ResidualCell {
 public:
  using State = detail::StateOf<Cell>;
  explicit ResidualCell(Cell inner, Where where = Where::current()) : cell(std::move(inner)) {
    detail::check_residual(detail::sizes_of(cell), where);
  }

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    auto result = detail::step(cell, x, before, where);
    return {detail::add_residual(result.first, x, where), std::move(result.second)};
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    auto result = cell.sequence(x, before, options, where);
    return {detail::within_lengths(detail::add_residual(result.first, x, where), options, where),
            std::move(result.second)};
  }
  bool has_sequence() const { return detail::runs_sequences(cell); }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    return detail::first_state(cell, batch, where);
  }
  std::int64_t inputs() const requires detail::TellsInputs<Cell> { return cell.inputs(); }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> { return cell.outputs(); }

  Cell cell;
  CAPSTAN_FIELDS(cell);
};

// --- embeddings ------------------------------------------------------------------------------------------------

namespace detail {
/// The options with the size of a row, which the cell may tell. Throws Error or ShapeError.
EmbeddingOptions embedding_for(EmbeddingOptions options, CellSizes cell, Where where);
}  // namespace detail

/// A cell that reads tokens: their rows of a table that is learned are its input.
///
///   cs::nn::EmbeddingCell<cs::nn::GruCell> cell(cs::nn::GruCell(64, 64), {.count = 10000, .size = 64});
///
/// Shapes    x [batch], integers; in a sequence [batch, time]. `size` may be left out if the cell tells its inputs
/// Sequence  at once, but not with `scale_by_frequency`, which counts within a step. Past the end of a row token 0 is
///           looked up, and dropped; `scale_by_frequency` counts it, and `max_norm` scales its row
/// Throws    IndexError  a token outside [0, count)     DTypeError  tokens that are no integers
///           ShapeError  a `size` that differs from the cell's inputs, and whatever nn::Embedding refuses
template <class Cell>
class EmbeddingCell {
 public:
  using State = detail::StateOf<Cell>;
  EmbeddingCell(Cell inner, const EmbeddingOptions& options, Rng& rng = default_rng(), Where where = Where::current())
      : embedding(detail::embedding_for(options, detail::sizes_of(inner), where), rng, where),
        cell(std::move(inner)),
        by_frequency_(options.scale_by_frequency) {}

  std::pair<Tensor, State> operator()(const Tensor& tokens, const State& before, Where where = Where::current()) {
    return detail::step(cell, embedding(tokens, where), before, where);
  }
  std::pair<Tensor, State> sequence(const Tensor& tokens, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    return cell.sequence(embedding(detail::within_lengths(tokens, options, where), where), before, options, where);
  }
  bool has_sequence() const { return !by_frequency_ && detail::runs_sequences(cell); }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    return detail::first_state(cell, batch, where);
  }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> { return cell.outputs(); }

  Embedding embedding;
  Cell cell;
  CAPSTAN_FIELDS(embedding, cell);

 private:
  bool by_frequency_;
};

// --- projections -----------------------------------------------------------------------------------------------

struct CellProjectionOptions {
  std::int64_t inputs = 0;   ///< features before the projection: may be left out if they are a cell's that tells them
  std::int64_t outputs = 0;  ///< features behind it; likewise
  bool bias = true;
  /// Behind the projection, on rows [n, outputs], such as `nn::Tanh{}`; none if empty. It must have no parameters: they
  /// would not be found.
  Callback<Tensor(const Tensor& x, Where where)> activation = {};
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

namespace detail {
using CellActivation = Callback<Tensor(const Tensor& x, Where where)>;
/// The layer in front of a cell, or behind it. Throws Error or ShapeError for sizes.
Linear projection_to(const CellProjectionOptions& options, CellSizes cell, Rng& rng, Where where);
Linear projection_from(const CellProjectionOptions& options, CellSizes cell, Rng& rng, Where where);
Tensor project(const Linear& projection, const CellActivation& activation, const Tensor& x, Where where);
}  // namespace detail

/// A cell that takes activation(x @ weight + bias) for its input.
///
///   cs::nn::InputProjectionCell<MyCell> cell(MyCell(), {.inputs = 40, .outputs = 128});
///
/// Throws  Error       a size that is left out, and that the cell does not tell
///         ShapeError  sizes below 1, or that differ from the cell's     DTypeError  a type that is not floating
template <class Cell>
class InputProjectionCell {
 public:
  using State = detail::StateOf<Cell>;
  InputProjectionCell(Cell inner, const CellProjectionOptions& options, Rng& rng = default_rng(),
                      Where where = Where::current())
      : projection(detail::projection_to(options, detail::sizes_of(inner), rng, where)),
        cell(std::move(inner)),
        activation_(options.activation) {}

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    return detail::step(cell, detail::project(projection, activation_, x, where), before, where);
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    const Tensor steps = detail::within_lengths(x, options, where);
    return cell.sequence(detail::project(projection, activation_, steps, where), before, options, where);
  }
  bool has_sequence() const { return detail::runs_sequences(cell); }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    return detail::first_state(cell, batch, where);
  }
  std::int64_t inputs() const { return projection.weight.size(0); }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> { return cell.outputs(); }

  Linear projection;
  Cell cell;
  CAPSTAN_FIELDS(projection, cell);

 private:
  detail::CellActivation activation_;
};

/// A cell whose output is activation(y @ weight + bias) of its own output y. The state is not touched.
///
///   cs::nn::OutputProjectionCell<MyCell> cell(MyCell(), {.inputs = 128, .outputs = 40});
///
/// Throws  Error       a size that is left out, and that the cell does not tell
///         ShapeError  sizes below 1, or that differ from the cell's     DTypeError  a type that is not floating
template <class Cell>
class OutputProjectionCell {
 public:
  using State = detail::StateOf<Cell>;
  OutputProjectionCell(Cell inner, const CellProjectionOptions& options, Rng& rng = default_rng(),
                       Where where = Where::current())
      : cell(std::move(inner)),
        projection(detail::projection_from(options, detail::sizes_of(cell), rng, where)),
        activation_(options.activation) {}

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    auto result = detail::step(cell, x, before, where);
    return {detail::project(projection, activation_, result.first, where), std::move(result.second)};
  }
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    auto result = cell.sequence(x, before, options, where);
    const Tensor projected = detail::project(projection, activation_, result.first, where);
    return {detail::within_lengths(projected, options, where), std::move(result.second)};
  }
  bool has_sequence() const { return detail::runs_sequences(cell); }
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    return detail::first_state(cell, batch, where);
  }
  std::int64_t inputs() const requires detail::TellsInputs<Cell> { return cell.inputs(); }
  std::int64_t outputs() const { return projection.weight.size(1); }

  Cell cell;
  Linear projection;
  CAPSTAN_FIELDS(cell, projection);

 private:
  detail::CellActivation activation_;
};

}  // namespace nn
}  // namespace capstan
