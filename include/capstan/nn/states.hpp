#pragma once
// States of cells: plain structs of tensors, looked into by reflection as models are (fields.hpp).
//
// A state is a struct of tensors [batch, ...]; it may hold other states, and std::vector, std::array, std::tuple,
// std::pair and std::optional of tensors and states. Whatever else it holds (numbers, generators, pointers) goes along
// as it is. A class that is no aggregate lists its fields with CAPSTAN_FIELDS.
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/fields.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/parameter.hpp>
#include <capstan/tape.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {
namespace detail {

/// std::optional, which holds what it points to.
template <class T>
concept IsOptional = PointsToOne<T> && requires(T& t) {
  t.has_value();
};
/// Whether a field of this type is a part of the state: a tensor, or what may hold some by value.
template <class T>
inline constexpr bool kInState = [] {
  if constexpr (RefersToOne<T> || (PointsToOne<T> && !IsOptional<T>)) return false;
  else return kTakesPart<T>;
}();

template <class Cell>
using StateOf = typename std::remove_cvref_t<Cell>::State;

/// Calls `use(tensor)` for every tensor of a state, undefined ones too, in the order of the fields.
template <class State, class Use>
void for_each_tensor(State& state, Use&& use) {
  if constexpr (kIsTensor<State>) use(state);
  else
    for_each_field(state, [&](std::string_view, auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (kInState<Field>) for_each_tensor(field, use);
    });
}

template <class State>
auto state_tensors(State& state) {
  std::vector<std::conditional_t<std::is_const_v<State>, const Tensor*, Tensor*>> list;
  for_each_tensor(state, [&](auto& tensor) { list.push_back(&tensor); });
  return list;
}

/// The same with their names: "h", "0.c", "lower.h".
template <class State>
void name_tensors(const State& state, const std::string& name, std::vector<NamedTensor>& list) {
  if constexpr (kIsTensor<State>) list.push_back({name, state});
  else
    for_each_field(state, [&](std::string_view field, auto& value) {
      using Field = std::remove_cvref_t<decltype(value)>;
      if constexpr (kInState<Field>) {
        std::string longer = name;
        if (!name.empty() && !field.empty()) longer += '.';
        longer += field;
        name_tensors(value, longer, list);
      }
    });
}
template <class State>
std::vector<NamedTensor> named_tensors(const State& state) {
  std::vector<NamedTensor> list;
  name_tensors(state, std::string(), list);
  return list;
}

/// One step of a cell; a cell that takes a place is told the caller's.
template <class Cell>
auto step(Cell& cell, const Tensor& x, const StateOf<Cell>& state, [[maybe_unused]] Where where) {
  if constexpr (requires { cell(x, state, where); }) return cell(x, state, where);
  else return cell(x, state);
}

/// The state before the first step, likewise.
template <class Cell>
StateOf<Cell> first_state(Cell& cell, std::int64_t batch, [[maybe_unused]] Where where) {
  if constexpr (requires { cell.zero_state(batch, where); }) return cell.zero_state(batch, where);
  else return cell.zero_state(batch);
}

}  // namespace detail

/// A state with f(tensor) in the place of each tensor. Undefined tensors stay undefined.
///
///   const Net::State half = cs::nn::map_state(state, [](const cs::Tensor& t) { return t * 0.5; });
template <class State, class F>
requires std::is_invocable_r_v<Tensor, F&, const Tensor&> State map_state(const State& state, F&& f) {
  State result = state;
  detail::for_each_tensor(result, [&](Tensor& tensor) {
    if (tensor.defined()) tensor = f(std::as_const(tensor));
  });
  return result;
}

/// The rows (axis 0) of each tensor that `rows` names, integers [n]: row i of the result is row rows[i] of the state.
/// Tensors without axes stay as they are. Throws as `gather`.
template <class State>
State gather_state(const State& state, const Tensor& rows, Where where = Where::current()) {
  return map_state(state, [&](const Tensor& t) { return t.rank(where) == 0 ? t : gather(t, rows, 0, where); });
}

/// Each row `count` times in succession: [batch, ...] -> [batch * count, ...]. Tensors without axes stay as they are.
/// Throws as `repeat`.
template <class State>
State repeat_state(const State& state, std::int64_t count, Where where = Where::current()) {
  return map_state(state, [&](const Tensor& t) { return t.rank(where) == 0 ? t : repeat(t, count, 0, where); });
}

}  // namespace nn

/// The same state, cut off from every tape: what the next window of truncated back-propagation starts from. Also for
/// vectors, tuples and the like of tensors and states.
template <class State>
requires(std::is_class_v<State> && !std::is_base_of_v<Tensor, State> && !std::is_convertible_v<const State&, Tensor> &&
         nn::detail::kInState<State>) State stop_gradient(const State& state, Where where = Where::current()) {
  return nn::map_state(state, [&](const Tensor& t) { return stop_gradient(t, where); });
}

}  // namespace capstan
