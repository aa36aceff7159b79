#pragma once
// Dropout around a cell: on its input, its state and its output.
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/cell_wrappers.hpp>
#include <capstan/random.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct DropoutCellOptions {
  double input_keep = 1;     ///< probability that an element of the input stays, in (0, 1]
  double state_keep = 1;     ///< of the state that a step leaves behind
  double output_keep = 1;    ///< of the output
  bool variational = false;  ///< one decision for all steps of a sequence
  bool drop_memory = false;  ///< `state_keep` is also for tensors named c, what an LSTM remembers
  /// Features of the input and of the output: needed for variational masks of those if the cell does not tell them.
  std::int64_t inputs = 0, outputs = 0;
};

namespace detail {

/// What stays for a whole sequence, and how much larger: elements are 0 or 1 / keep.
struct DropoutMasks {
  std::vector<Tensor> input, state, output;  // one, or none; of the state one for each tensor
  CAPSTAN_FIELDS(input, state, output);
};

inline constexpr int kOneStep = -1;  // in the place of an axis of time

/// All of DropoutCell that does not depend on its cell.
class CellDropout {
 public:
  CellDropout(const DropoutCellOptions& options, CellSizes cell, Where where);
  bool drops_state() const noexcept { return training && options_.state_keep < 1; }
  bool drops_memory() const noexcept { return options_.drop_memory; }
  bool variational() const noexcept { return options_.variational; }

  Tensor input(const Tensor& x, const DropoutMasks& masks, int time_axis, Where where) const {
    return apply("input", x, options_.input_keep, masks.input, 0, time_axis, where);
  }
  Tensor output(const Tensor& x, const DropoutMasks& masks, int time_axis, Where where) const {
    return apply("output", x, options_.output_keep, masks.output, 0, time_axis, where);
  }
  Tensor state(const Tensor& x, const DropoutMasks& masks, std::size_t index, Where where) const {
    return apply("state", x, options_.state_keep, masks.state, index, kOneStep, where);
  }
  /// `floating` are the tensors of a state that can be dropped, `dropped` those that are. A batch of kUnknownSize is
  /// theirs.
  DropoutMasks draw(std::int64_t batch, const std::vector<Tensor>& floating, const std::vector<Tensor>& dropped,
                    Where where) const;
  /// Throws Error: there is no `sequence` now.
  [[noreturn]] void refuse_sequence(Where where) const;

  bool training = true;

 private:
  Tensor apply(const char* part, const Tensor& x, double keep, const std::vector<Tensor>& masks, std::size_t index,
               int time_axis, Where where) const;

  DropoutCellOptions options_;
};

/// Calls `use(tensor)` for the floating tensors of a state, without the masks of other wrappers, and without those
/// named c unless `memory`. A name is that of the field, or of what holds the tensor if it has none of its own.
template <class Part, class Use>
void for_each_droppable([[maybe_unused]] Part& part, [[maybe_unused]] std::string_view name,
                        [[maybe_unused]] bool memory, [[maybe_unused]] Use& use) {
  if constexpr (kIsTensor<Part>) {
    if (part.defined() && is_floating(part.dtype()) && (memory || name != "c")) use(part);
  } else if constexpr (!std::is_same_v<Part, DropoutMasks>) {
    for_each_field(part, [&](std::string_view field, auto& value) {
      if constexpr (kInState<std::remove_reference_t<decltype(value)>>)
        for_each_droppable(value, field.empty() ? name : field, memory, use);
    });
  }
}

}  // namespace detail

/// Dropout around a cell, in training: on its input, on the state that a step leaves behind and on its output.
///
///   cs::nn::DropoutCell<cs::nn::LstmCell> cell(cs::nn::LstmCell(200, 200), {.output_keep = 0.5});
///
/// Without `variational` each step decides anew, by `dropout`, for input, state and output in this order. The output is
/// made of what the cell gives: what is dropped from the state shows in the next step.
///
/// Variational  One mask for all steps of a sequence, for each row its own: [batch, features], 0 or 1 / keep (Gal and
///     Ghahramani, "A theoretically grounded application of dropout in recurrent neural networks", 2016; TensorFlow has
///     one for all rows). The masks belong to the state. `zero_state` draws them; `redraw` does for a state of one's
///     own, and for one that is carried from a sequence to the next, which would keep its masks. Those made outside of
///     training keep everything.
/// State        Floating tensors, but not those in fields named c unless `drop_memory` is set, as in TensorFlow: what
///     an LSTM remembers would be gone in a few steps. Masks of other wrappers are not dropped from.
/// Sequence     at once unless the state is dropped from; the decisions then come in another order
/// Random       from the calling thread's default generator, which an exception leaves where it was
/// Throws       Error       a probability outside (0, 1]; a mask of unknown size; a state without masks, which neither
///                          zero_state nor redraw has made
///              ShapeError  sizes that differ from the cell's; masks of another batch     DTypeError  x not floating
/// Source       TensorFlow's DropoutWrapper; Zaremba et al., "Recurrent neural network regularization", 2014
/// Defined in nn/dropout_cell.cpp.
template <class Cell>
class DropoutCell {
 public:
  struct State {
    detail::StateOf<Cell> cell;
    detail::DropoutMasks masks = {};  ///< empty unless `variational`
    CAPSTAN_FIELDS(cell, masks);
  };
  DropoutCell(Cell inner, const DropoutCellOptions& options, Where where = Where::current())
      : cell(std::move(inner)), dropout_(options, detail::sizes_of(cell), where) {}

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    const detail::Rewind rewind(default_rng());
    const detail::DropoutMasks& masks = before.masks;
    auto result = detail::step(cell, dropout_.input(x, masks, detail::kOneStep, where), before.cell, where);
    State after{std::move(result.second), masks};
    if (dropout_.drops_state()) {
      std::size_t next = 0;
      auto drop = [&](Tensor& part) { part = dropout_.state(part, masks, next++, where); };
      detail::for_each_droppable(after.cell, {}, dropout_.drops_memory(), drop);
    }
    return {dropout_.output(result.first, masks, detail::kOneStep, where), std::move(after)};
  }
  /// Error while the state is dropped from.
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) requires detail::OffersSequence<Cell> {
    if (dropout_.drops_state()) dropout_.refuse_sequence(where);
    const detail::Rewind rewind(default_rng());
    const int time_axis = options.time_major ? 0 : 1;
    auto result = cell.sequence(dropout_.input(x, before.masks, time_axis, where), before.cell, options, where);
    return {dropout_.output(result.first, before.masks, time_axis, where),
            State{std::move(result.second), before.masks}};
  }
  bool has_sequence() const { return !dropout_.drops_state() && detail::runs_sequences(cell); }

  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    State state{detail::first_state(cell, batch, where), {}};
    draw(state, batch, where);
    return state;
  }
  /// The same state with masks of its own: what a sequence begins with. Without `variational` it is the state itself.
  State redraw(State state, Where where = Where::current()) const {
    draw(state, detail::kUnknownSize, where);
    return state;
  }
  /// Of this cell alone; nn::set_training reaches what is inside as well.
  void set_training(bool training) noexcept { dropout_.training = training; }
  bool training() const noexcept { return dropout_.training; }
  std::int64_t inputs() const requires detail::TellsInputs<Cell> { return cell.inputs(); }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> { return cell.outputs(); }

  Cell cell;
  CAPSTAN_FIELDS(cell);

 private:
  void draw(State& state, std::int64_t batch, Where where) const {
    if (!dropout_.variational()) return;
    std::vector<Tensor> floating, dropped;
    auto list = [&](const auto& part) { floating.push_back(part); };
    auto list_dropped = [&](const auto& part) { dropped.push_back(part); };
    detail::for_each_droppable(state.cell, {}, true, list);
    detail::for_each_droppable(state.cell, {}, dropout_.drops_memory(), list_dropped);
    state.masks = dropout_.draw(batch, floating, dropped, where);
  }

  detail::CellDropout dropout_;
};

}  // namespace nn
}  // namespace capstan
