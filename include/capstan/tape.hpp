#pragma once
// GradientTape: records operations as they run and replays them in reverse.
#include <array>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// What `gradient` returns for a source that the target does not depend on.
enum class Unconnected : std::uint8_t { undefined, zeros };

struct TapeOptions {
  bool persistent = false;       ///< allow several calls of `gradient`; keeps everything until reset or destruction
  bool watch_parameters = true;  ///< watch every trainable Parameter that an operation uses
};

struct GradientOptions {
  Tensor output_gradient = {};  ///< gradient of something with respect to the target; ones if undefined
  Unconnected unconnected = Unconnected::undefined;
};

struct JacobianOptions {
  Unconnected unconnected = Unconnected::undefined;
};

/// What the operations on one line of a program keep for the replay.
struct LineMemory {
  std::string line;             ///< "train.cpp:57"
  std::int64_t operations = 0;  ///< recorded there
  std::int64_t bytes = 0;       ///< of tensors; storage that several of the line's operations keep counts once
};
/// One line for each: file:line, operations, bytes.
std::string to_string(const std::vector<LineMemory>& lines);

/// A tensor that goes into an operation or comes out of it, as the tape knows it.
struct RecordedValue {
  std::int64_t id = -1;             ///< the same number, the same tensor; -1: one that the tape does not follow
  std::optional<Shape> shape = {};  ///< if the tape knows it: of what is watched, and of first results, it does
  std::optional<DType> dtype = {};  ///< known whenever the shape is
};
/// An operation that gradients flow through.
struct RecordedOperation {
  std::string name;                    ///< "matmul"
  std::string where;                   ///< "train.cpp:57"
  std::vector<RecordedValue> inputs;   ///< in the operation's order; data, constants and what is undefined have id -1
  std::vector<RecordedValue> outputs;  ///< those that have a gradient
};

/// Records what runs on its thread from its construction to its end, as long as it depends on a watched tensor.
///
/// Lifetime and moving  It records until it is destroyed, `reset` aside. A moved-from tape is empty: destroying and
///     assigning to it is all it allows. Moving does not disturb the recording.
/// Nesting   Any number up to 32 on one thread, ended in any order. Each records for itself; the replay of an inner
///     tape is recorded by the outer ones, which gives gradients of gradients. A tape never records its own replay.
/// Threads   A tape records its own thread only. Calling it from another thread is a TapeError; destroying it there
///     is allowed and frees its memory when its own thread next uses a tape or ends.
/// Exceptions  An operation that throws leaves the tape as it was. `gradient` checks its arguments and all saved
///     values before it replays anything: if these checks throw, the tape is as it was. If an operation of the replay
///     itself throws (out of memory, say), a persistent tape is as it was and any other is spent. What other tapes
///     recorded of that replay is taken back.
/// Depth     Replay walks a list: no recursion, no limit.
/// Functions of yours that run in a replay (hooks, custom gradients) may end the tape, which then ends behind the
///     replay; they may not reset it (TapeError).
class GradientTape {
 public:
  explicit GradientTape(TapeOptions options = {}, Where where = Where::current());
  ~GradientTape();
  GradientTape(GradientTape&& other) noexcept;
  GradientTape& operator=(GradientTape&& other) noexcept;

  /// Follows a tensor from here on. Floating types only (DTypeError).
  void watch(const Tensor& x, Where where = Where::current());
  void watch(std::initializer_list<Tensor> xs, Where where = Where::current());

  /// Gradients of the sum of `target` (weighted by `output_gradient`) with respect to the sources, in their order.
  /// Without `persistent` this ends the recording and frees what was saved as the replay goes.
  /// Throws TapeError   a second call without `persistent`; a target that is not on the tape (none of what it was
  ///                    computed from was watched); a saved value that was changed in place, naming both lines
  ///        DTypeError  a target or source that is not floating        ShapeError  output_gradient does not fit
  std::vector<Tensor> gradient(const Tensor& target, std::span<const Tensor> sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  std::vector<Tensor> gradient(const Tensor& target, const std::vector<Tensor>& sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  std::vector<Tensor> gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                               const GradientOptions& options = {}, Where where = Where::current());
  /// One source.
  Tensor gradient(const Tensor& target, const Tensor& source, const GradientOptions& options = {},
                  Where where = Where::current());
  /// Two or more sources, for structured bindings: `auto [dx, dy] = tape.gradient(f, x, y);`
  template <class... More>
  requires(sizeof...(More) >= 1 && (std::is_convertible_v<const More&, const Tensor&> &&
                                    ...)) std::array<Tensor, 1 + sizeof...(More)> gradient(const Operand& target,
                                                                                           const Tensor& first,
                                                                                           const More&... more) {
    const Tensor sources[] = {first, static_cast<const Tensor&>(more)...};
    std::array<Tensor, 1 + sizeof...(More)> result;
    gradient_into(target.tensor, sources, result.data(), {}, target.where);
    return result;
  }
  /// Several targets: the gradient of the sum of all of them. With output gradients, one for each target.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> output_gradients = {},
                               Unconnected unconnected = Unconnected::undefined, Where where = Where::current());
  std::vector<Tensor> gradient(std::initializer_list<Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> output_gradients = {},
                               Unconnected unconnected = Unconnected::undefined, Where where = Where::current());

  /// All partial derivatives: result[i..., j...] = d target[i...] / d source[j...].
  ///
  /// Shapes    result target.shape + source.shape, together at most 8 axes
  /// Types     the source's
  /// Gradient  outer tapes record it, so its own gradients exist
  /// Cost      one replay for each element of the target; the tape need not be persistent, and is spent after the last
  /// Throws    as `gradient`, and ShapeError for more than 8 axes
  Tensor jacobian(const Tensor& target, const Tensor& source, const JacobianOptions& options = {},
                  Where where = Where::current());
  /// Several sources: one Jacobian for each, in their order.
  std::vector<Tensor> jacobian(const Tensor& target, std::span<const Tensor> sources,
                               const JacobianOptions& options = {}, Where where = Where::current());
  std::vector<Tensor> jacobian(const Tensor& target, const std::vector<Tensor>& sources,
                               const JacobianOptions& options = {}, Where where = Where::current());
  std::vector<Tensor> jacobian(const Tensor& target, std::initializer_list<Tensor> sources,
                               const JacobianOptions& options = {}, Where where = Where::current());
  /// The Jacobian of each example by itself, where row b of the target depends on row b of the source alone, as in
  /// TensorFlow: result[b, i..., j...] = d target[b, i...] / d source[b, j...]. Where rows mix, it is the sum over the
  /// target's rows, which is of little use.
  ///
  /// Shapes    target [b, t...], source [b, s...]; result [b, t..., s...]
  /// Cost      one replay for each element of one row of the target
  /// Throws    as `jacobian`, and ShapeError if one has no axes or the first axes differ
  Tensor batch_jacobian(const Tensor& target, const Tensor& source, const JacobianOptions& options = {},
                        Where where = Where::current());

  /// Calls `hook(gradient)` in every replay in which the gradient for `x` is needed, as soon as it is complete and
  /// before it flows on. A tensor that the hook returns takes the gradient's place; an undefined one, or a hook that
  /// returns nothing, leaves it as it is. The hooks of one tensor run in the order in which they were given, each with
  /// what the one before it left. A hook must not write into the gradient. `reset` removes hooks, and so does the end
  /// of the recording. For anything the tape follows: watched tensors, Parameters, results on the way.
  ///
  /// Throws Error      the hook is empty     TapeError  the tape does not follow x
  ///        `gradient` throws ShapeError, DTypeError, DeviceError, naming this line, for a replacement that does not
  ///        fit, and whatever the hook throws.
  template <class F>
  requires std::is_invocable_v < std::decay_t<F>
  &, const Tensor& > void on_gradient(const Tensor& x, F&& hook, Where where = Where::current()) {
    if constexpr (std::is_void_v<std::invoke_result_t<std::decay_t<F>&, const Tensor&>>) {
      const Callback<void(const Tensor&)> told(std::forward<F>(hook));
      Callback<Tensor(const Tensor&)> replacing_nothing;
      if (told)
        replacing_nothing = [told](const Tensor& complete) {
          told(complete);
          return Tensor();
        };
      add_hook(x, std::move(replacing_nothing), where);
    } else {
      add_hook(x, std::forward<F>(hook), where);
    }
  }

  /// Stops recording until the returned object is destroyed: on the thread of the tape, which it may outlive.
  class Pause {
   public:
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    friend class GradientTape;
    explicit Pause(struct TapeState* tape) noexcept : tape_(tape) {}
    struct TapeState* tape_;
  };
  [[nodiscard]] Pause stop_recording(Where where = Where::current());

  /// Forgets everything recorded and watched, and records on.
  void reset(Where where = Where::current());

  std::int64_t size(Where where = Where::current()) const;  ///< operations recorded
  /// Bytes of tensors kept for the replay; shared storage counts once an entry.
  std::int64_t bytes_kept(Where where = Where::current()) const;
  bool recording() const noexcept;
  /// Whether `x` is watched, or was computed from something watched, while the tape recorded. A Parameter that the tape
  /// watches by itself counts from its first use on.
  bool follows(const Tensor& x, Where where = Where::current()) const;

  /// How `target` was computed from `source`, or where that chain ends. The first line is the answer; the others are
  /// the operations from the target back, each with its shape, file and line; of long chains the first and the last.
  ///
  ///   The target [] depends on the source [784, 10]:
  ///     mean [] at train.cpp:60
  ///     matmul [64, 10] at train.cpp:57
  ///
  ///   The chain ends at stop_gradient at train.cpp:41, which lets no gradient through:
  ///
  /// Of several ways it shows the one with the fewest breaks, then the shortest. It says so too if the source is not
  /// watched, if the target is not on the tape, or if `gradient` has spent the tape.
  /// Cost      linear in the number of operations between the two; no recursion
  std::string explain(const Tensor& target, const Tensor& source, Where where = Where::current()) const;
  /// What it has recorded, in the order in which it ran: each operation with what goes in and what comes out, so that a
  /// graph can be drawn. Nothing on a tape that `gradient` has spent. Operations through which no gradient flows are
  /// not among them.
  /// Cost      linear in the number of operations and tensors
  std::vector<RecordedOperation> operations(Where where = Where::current()) const;
  /// The number of `x` among the values of `operations`, or -1 if the tape does not follow it. Valid until `reset`.
  std::int64_t id_of(const Tensor& x, Where where = Where::current()) const;
  /// The lines of the program that keep memory, the largest first: `std::cout << to_string(tape.memory_by_line())`.
  std::vector<LineMemory> memory_by_line(Where where = Where::current()) const;

  /// One line an operation: name, shapes, bytes kept, file:line.
  friend CAPSTAN_PUBLIC std::ostream& operator<<(std::ostream& out, const GradientTape& tape);

 private:
  void gradient_into(const Tensor& target, std::span<const Tensor> sources, Tensor* result,
                     const GradientOptions& options, Where where);
  void add_hook(const Tensor& x, Callback<Tensor(const Tensor&)> hook, Where where);
  struct TapeState* state_ = nullptr;  // owned; hidden in autograd/tape.hpp
};

/// While one lives, no tape on the thread that made it records. It is to be destroyed there: elsewhere, or behind that
/// thread's end, its own end does nothing.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  const void* log_;  // of its thread
};

/// The same values, cut off from every tape. `explain` finds the place.
[[nodiscard]] Tensor stop_gradient(const Tensor& x, Where where = Where::current());

}  // namespace capstan
