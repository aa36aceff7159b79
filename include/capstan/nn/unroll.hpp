#pragma once
// Running a cell over sequences: in one direction, in both, and in both on several layers.
//
// A cell is any type with
//     struct State { Tensor h; };                                               tensors [batch, ...]; see states.hpp
//     std::pair<Tensor, State> operator()(const Tensor& x, const State& s);     one step: x [batch, ...]
//     State zero_state(std::int64_t batch) const;
// Both functions may take a `Where` as their last argument, and are then told where their caller stands. A cell may
// also offer its whole sequence at once, with the same results, which is used unless `on_step` is set:
//     std::pair<Tensor, State> sequence(const Tensor& x, const State& s, const SequenceOptions& options, Where where);
//     bool has_sequence() const;                                                optional: whether it does, as it is now
//
// Lengths   Rows with fewer steps than x has. Outputs past a row's end are 0, and its state stops at its last valid
//     step. What x has there is never read, whatever it is: the cell sees zeros in its place, and what it makes of them
//     is dropped, values and gradients. Steps that no row has are not made (one is, if there are none at all). The
//     state's tensors must then keep their shapes; those without axes, and what a step makes where there was none, are
//     taken as they come.
// Reverse   From each row's last valid step to its first. Outputs stay at the places of their inputs; the last state is
//     the one after the first step.
// Throws    Error       x is undefined
//           ShapeError  x has fewer than two axes or no steps, lengths are not [batch], or an initial state has not the
//                       shapes of the cell's `zero_state` (where that has no axes: another batch)
//           DTypeError  lengths are not int32 or int64      IndexError  a length outside 0..time
//           and whatever the cell throws. All of the above is checked before the first step.
// Defined in nn/unroll.cpp.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/nn/states.hpp>
#include <capstan/ops/recurrent.hpp>
#include <capstan/random.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

template <class State>
struct UnrollOptions {
  Tensor lengths = {};                      ///< [batch] int32 or int64: valid steps of each row; undefined for all
  std::optional<State> initial_state = {};  ///< `zero_state` if absent
  bool time_major = false;                  ///< x and the outputs are [time, batch, ...] instead of [batch, time, ...]
  bool reverse = false;                     ///< from each row's last valid step to its first
  /// Called after every step, with its place in time, its output as the result will have it and the state after it.
  Callback<void(std::int64_t step, const Tensor& output, const State& state)> on_step = {};
};

namespace detail {

/// What is known of a sequence from its sizes and lengths.
struct UnrollPlan {
  const char* op;  // who asks, for messages
  std::int64_t batch, time;
  std::int64_t full;   // steps that every row has
  std::int64_t steps;  // steps to be made: those that some row has, at least one
};

/// Throws Error, ShapeError, DTypeError or IndexError unless x is [batch, time, ...] with time >= 1 and lengths fit it.
UnrollPlan check_unroll(const char* op, const Tensor& x, const Tensor& lengths, bool time_major, Where where);

/// Who starts from an initial state, for messages.
struct StateOwner {
  const char* direction = nullptr;  // "forward", "backward"
  std::int64_t layer = -1;          // counted from 0 in a stack
};
/// Throws ShapeError or Error unless the tensors of the given state have the shapes of those with the same names in the
/// cell's own, and the batch in front if there are none such with axes. What a list lacks is the cell's own affair.
void check_state(const UnrollPlan& plan, const StateOwner& owner, const Tensor& x, std::span<const NamedTensor> given,
                 std::span<const NamedTensor> own, Where where);

/// While one lives nothing is recorded; in the end this thread's default generator stands where it stood.
class Probe {
 public:
  Probe();
  ~Probe();
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

 private:
  NoGrad off_;
  RngState before_;
};

/// Puts a generator back to where it stood if an exception leaves the scope.
class Rewind {
 public:
  explicit Rewind(Rng& rng) noexcept;
  ~Rewind();
  Rewind(const Rewind&) = delete;
  Rewind& operator=(const Rewind&) = delete;

 private:
  Rng& rng_;
  RngState before_;
  int exceptions_;
};

/// x where `running`, of x's first sizes, is true; 0 or false elsewhere.
Tensor running_or_zero(const Tensor& running, const Tensor& x, Where where);

/// The part of the loop over steps that is the same for all cells.
class Steps {
 public:
  Steps(const UnrollPlan& plan, const Tensor& x, const Tensor& lengths, bool time_major, Where where);
  const Tensor& input(std::int64_t step) const { return inputs_[static_cast<std::size_t>(step)]; }
  /// For rows that do not have this step: the output becomes 0, the state what it was before.
  void hold(std::int64_t step, Tensor& output, std::span<Tensor* const> after, std::span<Tensor* const> before) const;
  void keep(std::int64_t step, Tensor output) { outputs_[static_cast<std::size_t>(step)] = std::move(output); }
  /// All outputs side by side, zeros where no row has a step.
  Tensor outputs();

 private:
  UnrollPlan plan_;
  int time_axis_;
  Where where_;
  std::vector<Tensor> inputs_, outputs_;
  std::vector<Tensor> running_;  // for each step, bool [batch]: the rows that have it
};

template <class Cell>
concept OffersSequence = requires(Cell& cell, const Tensor& x, const StateOf<Cell>& state,
                                  const SequenceOptions& options, Where where) {
  cell.sequence(x, state, options, where);
};
template <class Cell>
bool runs_sequences([[maybe_unused]] const Cell& cell) {
  if constexpr (!OffersSequence<Cell>) return false;
  else if constexpr (requires { cell.has_sequence(); }) return cell.has_sequence();
  else return true;
}

/// The state to start from: the one given if there is one and it fits, else the cell's own.
template <class Cell>
StateOf<Cell> start_of(const UnrollPlan& plan, const StateOwner& owner, Cell& cell, const StateOf<Cell>* given,
                       const Tensor& x, Where where) {
  if (given == nullptr) return detail::first_state(cell, plan.batch, where);
  const Probe probe;  // of the cell's own only the shapes are needed
  const StateOf<Cell> own = detail::first_state(cell, plan.batch, where);
  check_state(plan, owner, x, named_tensors(*given), named_tensors(own), where);
  return *given;
}

/// `unroll` after all checks.
template <class Cell>
std::pair<Tensor, StateOf<Cell>> run_steps(Cell& cell, const Tensor& x, StateOf<Cell> state, const UnrollPlan& plan,
                                           const UnrollOptions<StateOf<Cell>>& options, Where where) {
  if constexpr (OffersSequence<Cell>) {
    if (!options.on_step && runs_sequences(cell)) {
      const Tensor lengths = plan.full == plan.time ? Tensor() : options.lengths;
      auto [outputs, last] =
          cell.sequence(x, state, SequenceOptions{lengths, options.reverse, options.time_major}, where);
      return {std::move(outputs), std::move(last)};
    }
  }
  Steps steps(plan, x, options.lengths, options.time_major, where);
  for (std::int64_t i = 0; i < plan.steps; ++i) {
    const std::int64_t t = options.reverse ? plan.steps - 1 - i : i;
    auto [output, after] = detail::step(cell, steps.input(t), state, where);
    if (t >= plan.full) steps.hold(t, output, state_tensors(after), state_tensors(state));
    if (options.on_step) options.on_step(t, output, after);
    steps.keep(t, std::move(output));
    state = std::move(after);
  }
  return {steps.outputs(), std::move(state)};
}

}  // namespace detail

/// Runs a cell over a sequence: [batch, time, ...] -> (outputs [batch, time, ...], last state). Integers
/// [batch, time] will do for a cell that takes tokens [batch].
///
/// Truncated back-propagation carries the state from window to window:
///
///   for (std::int64_t begin = 0; begin < time; begin += size) {
///     const cs::Tensor part = cs::narrow(x, 1, begin, std::min(size, time - begin));
///     auto [outputs, state] = cs::nn::unroll(cell, part, {.lengths = cs::clip(lengths - begin, 0, part.size(1)),
///                                                         .initial_state = carried});
///     ...
///     carried = cs::stop_gradient(state);
///   }
template <class Cell>
std::pair<Tensor, typename Cell::State> unroll(Cell& cell, const Tensor& x,
                                               const UnrollOptions<typename Cell::State>& options = {},
                                               Where where = Where::current()) {
  const detail::UnrollPlan plan = detail::check_unroll("unroll", x, options.lengths, options.time_major, where);
  const auto* given = options.initial_state ? &*options.initial_state : nullptr;
  return detail::run_steps(cell, x, detail::start_of(plan, {}, cell, given, x, where), plan, options, where);
}

// --- both directions -------------------------------------------------------------------------------------------

/// States of two cells, the first of which goes forward; a state itself.
template <class Forward, class Backward>
struct BidirectionalState {
  Forward forward;
  Backward backward;
};
template <class Forward, class Backward>
struct BidirectionalOptions {
  Tensor lengths = {};                          ///< as in UnrollOptions
  std::optional<Forward> forward_state = {};    ///< where the forward cell starts; its `zero_state` if absent
  std::optional<Backward> backward_state = {};  ///< where the backward cell starts, at each row's last valid step
  bool time_major = false;                      ///< as in UnrollOptions
};
template <class Forward, class Backward>
struct BidirectionalResult {
  Tensor outputs;  ///< the forward cell's, and behind them, on the last axis, the backward cell's
  BidirectionalState<Forward, Backward> state;  ///< after the last step of each, which for the backward cell is step 0
};

namespace detail {

template <class Forward, class Backward>
using BothStates = BidirectionalState<StateOf<Forward>, StateOf<Backward>>;

/// One behind the other on the last axis. ShapeError if the steps' outputs have no axis but the batch.
Tensor join_directions(const UnrollPlan& plan, const Tensor& forward, const Tensor& backward, Where where);

template <class Forward, class Backward>
BidirectionalResult<StateOf<Forward>, StateOf<Backward>> run_both(const UnrollPlan& plan, Forward& forward,
                                                                  Backward& backward, const Tensor& x,
                                                                  BothStates<Forward, Backward> start,
                                                                  const Tensor& lengths, bool time_major, Where where) {
  auto [ahead, last] = run_steps(forward, x, std::move(start.forward), plan,
                                 UnrollOptions<StateOf<Forward>>{.lengths = lengths, .time_major = time_major}, where);
  auto [back, first] =
      run_steps(backward, x, std::move(start.backward), plan,
                UnrollOptions<StateOf<Backward>>{.lengths = lengths, .time_major = time_major, .reverse = true}, where);
  return {join_directions(plan, ahead, back, where), {std::move(last), std::move(first)}};
}

}  // namespace detail

/// Two cells, which may be of different types, over the same sequence: one from its begin, one from its end.
///
///   auto [outputs, state] = cs::nn::unroll_bidirectional(ahead, back, x, {.lengths = lengths});
///
/// Throws  as `unroll`, and ShapeError if the outputs of a step have no axis but the batch
/// Source  M. Schuster and K. Paliwal, "Bidirectional recurrent neural networks", 1997
template <class Forward, class Backward>
BidirectionalResult<typename Forward::State, typename Backward::State> unroll_bidirectional(
    Forward& forward, Backward& backward, const Tensor& x,
    const BidirectionalOptions<typename Forward::State, typename Backward::State>& options = {},
    Where where = Where::current()) {
  const detail::UnrollPlan plan =
      detail::check_unroll("unroll_bidirectional", x, options.lengths, options.time_major, where);
  const auto* ahead = options.forward_state ? &*options.forward_state : nullptr;
  const auto* back = options.backward_state ? &*options.backward_state : nullptr;
  detail::BothStates<Forward, Backward> start{
      detail::start_of(plan, {.direction = "forward"}, forward, ahead, x, where),
      detail::start_of(plan, {.direction = "backward"}, backward, back, x, where)};
  return detail::run_both(plan, forward, backward, x, std::move(start), options.lengths, options.time_major, where);
}

// --- both directions on several layers -------------------------------------------------------------------------

namespace detail {

template <class Forwards, class Backwards>
struct LayerStatesOf {
  using type = std::vector<BothStates<typename Forwards::value_type, typename Backwards::value_type>>;
};
template <class... Forward, class... Backward>
struct LayerStatesOf<std::tuple<Forward...>, std::tuple<Backward...>> {
  static_assert(sizeof...(Forward) == sizeof...(Backward), "capstan: as many cells are needed in both directions");
  using type = std::tuple<BothStates<Forward, Backward>...>;
};
/// A BidirectionalState for each layer: a vector of them for vectors of cells, a tuple for tuples.
template <class Forwards, class Backwards>
using LayerStates = typename LayerStatesOf<std::remove_cvref_t<Forwards>, std::remove_cvref_t<Backwards>>::type;

}  // namespace detail

template <class States>
struct StackedBidirectionalOptions {
  Tensor lengths = {};                        ///< as in UnrollOptions
  std::optional<States> initial_states = {};  ///< where each layer starts; `zero_state`s if absent
  bool time_major = false;                    ///< as in UnrollOptions
};
template <class States>
struct StackedBidirectionalResult {
  Tensor outputs;  ///< of the topmost layer, as of `unroll_bidirectional`
  States states;   ///< of all layers, the lowest first
};

namespace detail {

/// Throws Error unless there are cells, as many in both directions, and as many states if there are any.
void check_layers(const UnrollPlan& plan, std::size_t forward, std::size_t backward, std::optional<std::size_t> states,
                  Where where);

template <class List>
std::size_t count_of(const List& list) {
  if constexpr (kIsTuple<List>) return std::tuple_size_v<List>;
  else return list.size();
}

template <class Forwards, class Backwards, class Use>
void for_each_layer(Forwards& forward, Backwards& backward, LayerStates<Forwards, Backwards>& states, Use&& use) {
  if constexpr (kIsTuple<std::remove_const_t<Forwards>>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(std::get<I>(forward), std::get<I>(backward), std::get<I>(states)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_const_t<Forwards>>>{});
  } else {
    for (std::size_t i = 0; i < states.size(); ++i) use(forward[i], backward[i], states[i]);
  }
}

/// The states that the layers start from.
template <class Forwards, class Backwards>
LayerStates<Forwards, Backwards> start_layers(const UnrollPlan& plan, Forwards& forward, Backwards& backward,
                                              const LayerStates<Forwards, Backwards>* given, const Tensor& x,
                                              Where where) {
  const auto start = [&](std::size_t i, auto& ahead, auto& back, const auto* state) {
    const auto layer = static_cast<std::int64_t>(i);
    const auto* from = state != nullptr ? &state->forward : nullptr;
    const auto* to = state != nullptr ? &state->backward : nullptr;
    return BothStates<decltype(ahead), decltype(back)>{start_of(plan, {"forward", layer}, ahead, from, x, where),
                                                       start_of(plan, {"backward", layer}, back, to, x, where)};
  };
  using States = LayerStates<Forwards, Backwards>;
  if constexpr (kIsTuple<std::remove_const_t<Forwards>>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return States{
          start(I, std::get<I>(forward), std::get<I>(backward), given != nullptr ? &std::get<I>(*given) : nullptr)...};
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_const_t<Forwards>>>{});
  } else {
    States states;
    states.reserve(forward.size());
    for (std::size_t i = 0; i < forward.size(); ++i)
      states.push_back(start(i, forward[i], backward[i], given != nullptr ? &(*given)[i] : nullptr));
    return states;
  }
}

}  // namespace detail

/// Layers of bidirectional cells: each runs over the outputs of the one below (TensorFlow's
/// stack_bidirectional_dynamic_rnn). Cells of one type come in a std::vector or std::array, of several in a std::tuple
/// (std::tie for cells that stand elsewhere); the i-th of both belong to layer i.
///
/// Throws  as `unroll_bidirectional`, and Error for no cells, or other numbers of cells or states in the two directions
template <class Forwards, class Backwards>
StackedBidirectionalResult<detail::LayerStates<Forwards, Backwards>> unroll_stacked_bidirectional(
    Forwards&& forward, Backwards&& backward, const Tensor& x,
    const StackedBidirectionalOptions<detail::LayerStates<Forwards, Backwards>>& options = {},
    Where where = Where::current()) {
  const detail::UnrollPlan plan =
      detail::check_unroll("unroll_stacked_bidirectional", x, options.lengths, options.time_major, where);
  const auto* given = options.initial_states ? &*options.initial_states : nullptr;
  std::optional<std::size_t> states_given;
  if (given != nullptr) states_given = detail::count_of(*given);
  detail::check_layers(plan, detail::count_of(forward), detail::count_of(backward), states_given, where);
  StackedBidirectionalResult<detail::LayerStates<Forwards, Backwards>> result{
      x, detail::start_layers(plan, forward, backward, given, x, where)};
  detail::for_each_layer(forward, backward, result.states, [&](auto& ahead, auto& back, auto& state) {
    auto both = detail::run_both(plan, ahead, back, result.outputs, std::move(state), options.lengths,
                                 options.time_major, where);
    result.outputs = std::move(both.outputs);
    state = std::move(both.state);
  });
  return result;
}

}  // namespace nn
}  // namespace capstan
