#pragma once
// A training step that is recorded once as a CUDA graph and then replayed: one launch in place of hundreds.
//
//   auto step = cs::cuda::capture([&](const Tensor& x, const Tensor& labels) {
//     GradientTape tape;
//     Tensor loss = cross_entropy(net(x), labels);
//     adam.apply(tape.gradient(loss, adam.parameters()));
//     return loss;
//   });
//   for (auto [x, labels] : batches) Tensor loss = step(x, labels);
#include <array>
#include <tuple>
#include <utility>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace detail {

/// What Captured does whatever the function is.
class CapturedStep {
 public:
  CapturedStep(Device device, Where where);
  ~CapturedStep();
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;

  enum class Next { run, capture, replay };
  Next next() const noexcept { return next_; }
  /// An input where the step runs.
  Tensor here(const Tensor& x, Where where) const;
  /// The next call after one that ran captures, if the device can.
  void has_run() noexcept;
  /// Checks inputs and copies them to where the captured step reads them. The tensors to call the function with.
  std::vector<Tensor> take_inputs(const Tensor* const* inputs, std::size_t count, Where where);
  void begin(Where where);
  void end(const std::vector<Tensor>& results, Where where);
  void abandon() noexcept;
  void replay(Where where);
  std::int64_t kernels() const noexcept;

 private:
  Device device_;
  Next next_ = Next::run;
  void* step_ = nullptr;
  std::vector<Tensor> inputs_;
};

/// Whether this thread captures a step now.
bool capturing() noexcept;
/// Of host work that belongs to a step which is being captured: `again` runs before each replay, `undo` if the step
/// cannot be captured. Does nothing if none is.
void at_replay(Callback<void()> again, Callback<void()> undo);

void list_results(std::vector<Tensor>& all, const Tensor& x);
void list_results(std::vector<Tensor>& all, const std::vector<Tensor>& x);
template <std::size_t N>
void list_results(std::vector<Tensor>& all, const std::array<Tensor, N>& x) {
  for (const Tensor& each : x) list_results(all, each);
}
template <class... T>
void list_results(std::vector<Tensor>& all, const std::tuple<T...>& x) {
  std::apply([&](const auto&... each) { (list_results(all, each), ...); }, x);
}
template <class A, class B>
void list_results(std::vector<Tensor>& all, const std::pair<A, B>& x) {
  list_results(all, x.first);
  list_results(all, x.second);
}

}  // namespace detail

/// What `cuda::capture` returns: a function that takes the same tensors and gives the same results as the one that was
/// captured, call for call.
///
/// The first call runs the function as it is, so that whatever is made once (optimizer states, tables) is made. The
/// second one records it, and from then on calls replay the recording: the tape, the optimizers, dropout and every other
/// use of an Rng with it. Learning rates, schedules and step counts of optimizers go on as they would have, and
/// generators give the same numbers as without capturing. Both must live as long as this object; default_rng() is that
/// of the thread which made the recording.
///
/// Inputs may be on any device. They are copied to where the recording reads them, and what the function writes into
/// one stays there; their shapes, types and number must stay (ShapeError, DTypeError). Results are the same tensors at
/// every call, with new values: `copy()` what is to be kept. Tensors that the function reads otherwise are read where
/// they were when it was captured: change them in place. Numbers and tensors of the host stay as they were then,
/// whatever becomes of them. A tape around the call sees nothing of a replay.
///
/// What cannot be recorded is an error of the second call, which names the line: reading a value on the host (item,
/// to_vector, printing, clipping that asks for the norm), operations that do so (nonzero, unique, masks as indices), and
/// tensors made by the function that are still held afterwards without being its results, because a replay would not
/// make them again: assign to a tensor that was there before (`state.assign(...)`).
///
/// Without a GPU every call runs the function.
template <class F>
class Captured {
 public:
  Captured(F function, Device device, Where where) : function_(std::move(function)), step_(device, where) {}

  auto operator()(Where where = Where::current()) { return call(where); }
  template <class... More>
  auto operator()(const Operand& first, const More&... more) {
    return call(first.where, first.tensor, more...);
  }
  /// The same with the place that errors name.
  template <class... Inputs>
  auto call(Where where, const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, const Tensor&> && ...), "a captured step takes tensors");
    using Result = std::invoke_result_t<F&, std::conditional_t<true, const Tensor&, Inputs>...>;
    if (step_.next() == detail::CapturedStep::Next::run)
      return run<Result>(step_.here(static_cast<const Tensor&>(inputs), where)...);
    const Tensor* const given[] = {&static_cast<const Tensor&>(inputs)..., nullptr};
    const std::vector<Tensor> own = step_.take_inputs(given, sizeof...(Inputs), where);
    if (step_.next() == detail::CapturedStep::Next::capture)
      record<Result>(own, where, std::index_sequence_for<Inputs...>());
    step_.replay(where);
    if constexpr (!std::is_void_v<Result>) return *static_cast<Result*>(result_.get());
  }

  /// Kernels and copies of the recording; 0 before it is made.
  std::int64_t kernels() const noexcept { return step_.kernels(); }

 private:
  template <class Result, class... Inputs>
  Result run(const Inputs&... inputs) {
    if constexpr (std::is_void_v<Result>) {
      function_(inputs...);
      step_.has_run();
    } else {
      Result result = function_(inputs...);
      step_.has_run();
      return result;
    }
  }
  /// The result of the recorded call, of whatever type.
  class Kept {
   public:
    template <class R>
    void set(R value) {
      reset();
      value_ = new R(std::move(value));
      drop_ = [](void* held) { delete static_cast<R*>(held); };
    }
    void* get() const noexcept { return value_; }
    void reset() noexcept {
      if (value_ != nullptr) drop_(std::exchange(value_, nullptr));
    }
    Kept() = default;
    Kept(Kept&& other) noexcept : value_(std::exchange(other.value_, nullptr)), drop_(other.drop_) {}
    Kept& operator=(Kept&&) = delete;
    ~Kept() { reset(); }

   private:
    void* value_ = nullptr;
    void (*drop_)(void*) = nullptr;
  };

  template <class Result, std::size_t... I>
  void record([[maybe_unused]] const std::vector<Tensor>& inputs, Where where, std::index_sequence<I...>) {
    step_.begin(where);
    try {
      std::vector<Tensor> results;
      if constexpr (std::is_void_v<Result>) {
        function_(inputs[I]...);
      } else {
        result_.set(function_(inputs[I]...));
        detail::list_results(results, *static_cast<Result*>(result_.get()));
      }
      step_.end(results, where);
    } catch (...) {
      result_.reset();
      step_.abandon();
      throw;
    }
  }

  F function_;
  detail::CapturedStep step_;
  Kept result_;
};

template <class F>
Captured<F> cuda::capture(F function, Device device, Where where) {
  return Captured<F>(std::move(function), device, where);
}

}  // namespace capstan
