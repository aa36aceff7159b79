#pragma once
// Recurrent cells and running them over sequences.
//
// A cell is any type with
//     struct State { Tensor ...; };                                      one or more tensors [batch, ...]
//     std::pair<Tensor, State> operator()(const Tensor& x, const State& s);     one step: x [batch, inputs]
//     State zero_state(std::int64_t batch) const;
// It may also offer `std::pair<Tensor, State> sequence(const Tensor& x, const State& s)`, x [batch, time, inputs], with
// the same results for a whole sequence; `unroll` uses it where it can.
#include <optional>
#include <utility>
#include <vector>

#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/neural.hpp>
#include <capstan/ops/shaping.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct RnnCellOptions {
  Activation activation = Activation::tanh;
  Initializer input_init = init::glorot_uniform();
  Initializer recurrent_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// h' = activation(x @ wx + h @ wh + b); the output is h' too. Elman 1990.
///
/// Shapes  x [batch, inputs]; h [batch, hidden]; wx [inputs, hidden]; wh [hidden, hidden]; b [hidden]
class RnnCell {
 public:
  struct State {
    Tensor h;
  };
  RnnCell(std::int64_t inputs, std::int64_t hidden, const RnnCellOptions& options = {}, Rng& rng = default_rng(),
          Where where = Where::current());

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) const;
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;

  Parameter wx, wh, b;
  CAPSTAN_FIELDS(wx, wh, b);

 private:
  Activation activation_;
};

template <class State>
struct UnrollOptions {
  Tensor lengths = {};                      ///< [batch] int32 or int64: valid steps of each row; undefined for all
  std::optional<State> initial_state = {};  ///< `zero_state` if absent
  bool time_major = false;                  ///< input and output are [time, batch, ...] instead of [batch, time, ...]
};

namespace detail {

/// A condition of `rank` axes: true for rows that are still running at `step`.
Tensor still_running(const Tensor& lengths, std::int64_t step, int rank, Where where);
/// Throws ShapeError or DTypeError unless x is [batch, time, ...] with time >= 1, and lengths fit it.
void check_unroll(const Tensor& x, const Tensor& lengths, bool time_major, Where where);

/// For every tensor of a state: where(running, after, before).
template <class State>
State select_state(const Tensor& lengths, std::int64_t step, State& after, State& before, Where where) {
  State result = after;
  auto to = tie_fields(result);
  auto from = tie_fields(before);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((std::get<I>(to) = capstan::where(still_running(lengths, step, std::get<I>(to).rank(), where), std::get<I>(to),
                                       std::get<I>(from), where)),
     ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(to)>>{});
  return result;
}

template <class Cell>
concept RunsSequences = requires(Cell& cell, const Tensor& x, const typename Cell::State& s, Where w) {
  cell.sequence(x, s, w);
};

/// One step of a cell; a cell that takes a place is told the caller's.
template <class Cell>
auto step(Cell& cell, const Tensor& x, const typename Cell::State& state, Where where) {
  if constexpr (requires { cell(x, state, where); }) return cell(x, state, where);
  else return cell(x, state);
}

/// The state before the first step, likewise.
template <class Cell>
typename Cell::State first_state(Cell& cell, std::int64_t batch, Where where) {
  if constexpr (requires { cell.zero_state(batch, where); }) return cell.zero_state(batch, where);
  else return cell.zero_state(batch);
}

}  // namespace detail

/// Runs a cell over a sequence: [batch, time, ...] -> (outputs [batch, time, ...], final state).
///
/// With `lengths`, outputs past a row's end are zero and its state stops at its last valid step.
/// Throws  ShapeError  x has fewer than two axes or no steps; lengths are not [batch]     DTypeError  lengths not integer
template <class Cell>
std::pair<Tensor, typename Cell::State> unroll(Cell& cell, const Tensor& x,
                                               const UnrollOptions<typename Cell::State>& options = {},
                                               Where where = Where::current()) {
  detail::check_unroll(x, options.lengths, options.time_major, where);
  const int time_axis = options.time_major ? 0 : 1;
  typename Cell::State state =
      options.initial_state ? *options.initial_state : detail::first_state(cell, x.size(1 - time_axis), where);
  if constexpr (detail::RunsSequences<Cell>) {
    if (!options.lengths.defined()) {
      if (!options.time_major) return cell.sequence(x, state, where);
      auto [outputs, last] = cell.sequence(transpose(x, 0, 1, where), state, where);
      return {transpose(outputs, 0, 1, where), std::move(last)};
    }
  }
  const std::vector<Tensor> steps = unstack(x, time_axis, where);
  std::vector<Tensor> outputs;
  outputs.reserve(steps.size());
  for (std::size_t t = 0; t < steps.size(); ++t) {
    auto [output, after] = detail::step(cell, steps[t], state, where);
    if (options.lengths.defined()) {
      const auto step = static_cast<std::int64_t>(t);
      output = capstan::where(detail::still_running(options.lengths, step, output.rank(), where), output, 0, where);
      after = detail::select_state(options.lengths, step, after, state, where);
    }
    outputs.push_back(std::move(output));
    state = std::move(after);
  }
  return {stack(outputs, time_axis, where), std::move(state)};
}

}  // namespace nn
}  // namespace capstan
