#pragma once
// Inference with a bound on its time: a network's operations for inputs of fixed shapes, recorded once and then repeated
// without memory from the system, locks, threads or a tape.
//
//   nn::set_training(net, false);
//   auto plan = cs::freeze(net, {{1, 3, 32, 32}});
//   std::span<float> image = plan.input<float>();       // write the input here
//   plan.run();
//   std::span<const float> scores = plan.output<float>();
//
// Defined in lib/core/plan.cpp.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/states.hpp>
#include <capstan/tape.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// What `freeze` must know of an input: its shape and type; while the plan is made the input is zero. Or a tensor, which
/// also gives the values that it has then.
struct PlanInput {
  PlanInput(std::initializer_list<std::int64_t> sizes, DType type = DType::float32, Where where = Where::current())
      : shape(sizes, where), dtype(type) {}
  PlanInput(const Shape& sizes, DType type = DType::float32) : shape(sizes), dtype(type) {}
  PlanInput(const Tensor& value, Where where = Where::current())
      : shape(value.shape(where)), dtype(value.dtype(where)), example(value) {}

  Shape shape;
  DType dtype;
  Tensor example;
};

namespace detail {
struct PlanState;
class PlanRecorder;
}  // namespace detail

/// What `freeze` returns. It has memory of its own, the weights as they were included, and keeps nothing of the network.
/// One thread at a time may use a plan; different plans are independent. One that was moved from can only be assigned to.
class Plan {
 public:
  Plan(Plan&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Plan& operator=(Plan&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~Plan();

  /// The elements of an input, row-major, to be written before `run`: they stay where they are, and so does what was
  /// written, unless the network itself writes there. Throws IndexError, DTypeError.
  template <class T>
  std::span<T> input(std::size_t number = 0, Where where = Where::current());
  /// The elements of a result after `run`, row-major. Throws IndexError, DTypeError.
  template <class T>
  std::span<const T> output(std::size_t number = 0, Where where = Where::current()) const;
  /// The same as tensors. They share the plan's memory, and so show what the last run left there.
  const std::vector<Tensor>& inputs() const noexcept;
  const std::vector<Tensor>& outputs() const noexcept;

  /// Computes the results of the inputs, on this thread alone. Allocates nothing, takes no lock, and starts nothing, from
  /// the first run on and on any thread. Throws IndexError if an index among the inputs is out of range; the states are
  /// then undetermined until `reset`.
  void run(Where where = Where::current());
  /// States begin again as they did when the plan was made.
  void reset() noexcept;

  std::size_t operations() const noexcept;  ///< that a run makes
  std::int64_t bytes() const noexcept;      ///< of weights, inputs, results and all that lies between them

 private:
  friend class detail::PlanRecorder;
  explicit Plan(detail::PlanState* state) noexcept : state_(state) {}
  detail::PlanState* state_;  // owned
};

namespace detail {

/// Records what this thread's operations do while it lives. For `freeze`.
class PlanRecorder {
 public:
  PlanRecorder(const std::vector<PlanInput>& inputs, Where where);
  ~PlanRecorder();
  PlanRecorder(const PlanRecorder&) = delete;
  PlanRecorder& operator=(const PlanRecorder&) = delete;

  const std::vector<Tensor>& inputs() const noexcept;
  /// An input that begins with a value, and takes that of a result after each run.
  Tensor state(const Tensor& initial);
  /// A result; `next_state` says what the next of the states becomes.
  void result(const Tensor& x);
  void next_state(const Tensor& x);
  Plan finish();

 private:
  PlanState* state_;  // owned
  NoGrad off_;
  Where where_;
};

[[noreturn]] void fail_plan_inputs(std::size_t given, Where where);

[[noreturn]] void fail_plan_state(Where where);

/// Numbers, pointers, text, and lists of them.
template <class T>
constexpr bool can_be_compared() {
  if constexpr (std::is_scalar_v<T>) return true;
  else if constexpr (requires(const T& x) {
                       typename T::value_type;
                       requires std::is_same_v<decltype(x == x), bool>;
                     })
    return std::is_scalar_v<typename T::value_type>;
  else return false;
}
template <class T>
bool is_same(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return a == b || (a != a && b != b);  // NaN is NaN
  else return a == b;
}

/// Calls `use(field)` for what a state holds beside tensors, if it can be compared.
template <class State, class Use>
void for_each_number(const State& state, Use&& use) {
  if constexpr (!nn::detail::kIsTensor<State>)
    nn::detail::for_each_field(state, [&](std::string_view, const auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (nn::detail::kInState<Field>) for_each_number(field, use);
      else if constexpr (can_be_compared<Field>()) use(field);
    });
}
template <class T>
inline constexpr char kTypeMark = 0;

/// Whether a step left everything but tensors as it was. A run of a plan does.
template <class State>
bool keeps_numbers(const State& before, const State& after) {
  struct Seen {
    const char* type;  // its mark
    const void* value;
  };
  std::vector<Seen> fields;
  for_each_number(before, [&]<class T>(const T& field) { fields.push_back({&kTypeMark<T>, &field}); });
  std::size_t next = 0;
  bool same = true;
  for_each_number(after, [&]<class T>(const T& field) {
    same = same && next < fields.size() && fields[next].type == &kTypeMark<T> &&
           is_same(*static_cast<const T*>(fields[next].value), field);
    ++next;
  });
  return same && next == fields.size();
}

template <class F, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, decltype((void(I), std::declval<const Tensor&>()))...>;
}

/// Calls the network with as many tensors as there are inputs, and lists the results.
template <std::size_t N, class Net>
void record_call(Net& net, PlanRecorder& recorder, Where where) {
  if constexpr (N > 8) {
    fail_plan_inputs(recorder.inputs().size(), where);
  } else if (recorder.inputs().size() != N) {
    record_call<N + 1>(net, recorder, where);
  } else if constexpr (takes<Net>(std::make_index_sequence<N>())) {
    const auto results = [&]<std::size_t... I>(std::index_sequence<I...>) { return net(recorder.inputs()[I]...); }
    (std::make_index_sequence<N>());
    nn::detail::for_each_tensor(results, [&](const Tensor& x) { recorder.result(x); });
  } else {
    fail_plan_inputs(N, where);
  }
}

/// One step of a cell, from its zero state.
template <class Cell>
void record_step(Cell& cell, PlanRecorder& recorder, Where where) {
  if (recorder.inputs().size() != 1 || recorder.inputs()[0].rank() == 0)
    fail_plan_inputs(recorder.inputs().size(), where);
  auto state = nn::detail::first_state(cell, recorder.inputs()[0].size(0), where);
  nn::detail::for_each_tensor(state, [&](Tensor& x) {
    if (x.defined()) x = recorder.state(x);
  });
  const auto [output, next] = nn::detail::step(cell, recorder.inputs()[0], state, where);
  if (!keeps_numbers(state, next)) fail_plan_state(where);
  recorder.result(output);
  nn::detail::for_each_tensor(next, [&](const Tensor& x) { recorder.next_state(x); });
}

/// Anything that makes a step from an input and a state, as nn/unroll.hpp says.
template <class Net>
concept StepsFromState = !std::is_invocable_v<Net&, const Tensor&> && requires(Net & net, const Tensor& x) {
  nn::detail::step(net, x, nn::detail::first_state(net, 1, Where()), Where());
};

}  // namespace detail

/// Records the operations that `net` runs for inputs of these shapes and types, on the CPU.
///
/// `net` is anything that is called with tensors and returns tensors, or structs, pairs, vectors of them. Or a cell
/// (nn/unroll.hpp): then there is one input [batch, ...], and the plan holds the state, begins with `zero_state(batch)`
/// and takes what each run made of it to the next.
///
/// The network runs once. What does not depend on the inputs is computed then and never again; what it writes in place to
/// tensors that were there before (`hidden.assign(...)`) becomes a state of the plan, and they are as before afterwards.
/// Weights are copied: later training changes nothing. Values are those that the network gives, products up to rounding.
///
/// What cannot be repeated is an Error that names the line: reading a value that depends on the inputs or on a state
/// (item, at, to_vector, printing), writing elements on the host (mutable_span), operations whose results have no fixed
/// shape (nonzero, unique, masks as indices), random numbers (dropout in training), LAPACK's decompositions, optimizers,
/// gradients of whole layers, other devices, numbers of a cell's state that a step changes, and keeping a tensor that
/// depends on the inputs, be it a result: a run would not change it. The network must compute on the thread that
/// freezes it. While it is frozen, everything between inputs and results is held at once.
/// Throws    Error, as said; ShapeError if the network takes another number of inputs; whatever the network throws
template <class Net>
Plan freeze(Net&& net, const std::vector<PlanInput>& inputs, Where where = Where::current()) {
  detail::PlanRecorder recorder(inputs, where);
  if constexpr (detail::StepsFromState<std::remove_reference_t<Net>>) detail::record_step(net, recorder, where);
  else detail::record_call<1>(net, recorder, where);
  return recorder.finish();
}

}  // namespace capstan
