#pragma once
// GradientTape: records operations as they run and replays them in reverse.
#include <array>
#include <cstdint>
#include <iosfwd>
#include <span>
#include <vector>

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
///     itself throws (out of memory, say), a persistent tape is as it was and any other is spent.
/// Depth     Replay walks a list: no recursion, no limit.
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
                               const GradientOptions& options = {}, Where where = Where::current()) {
    return gradient(target, std::span<const Tensor>(sources), options, where);
  }
  std::vector<Tensor> gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                               const GradientOptions& options = {}, Where where = Where::current()) {
    return gradient(target, std::span<const Tensor>(sources.begin(), sources.size()), options, where);
  }
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
  std::vector<Tensor> gradient(std::initializer_list<Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> output_gradients = {},
                               Unconnected unconnected = Unconnected::undefined, Where where = Where::current());

  /// Stops recording until the returned object is destroyed.
  class Pause {
   public:
    Pause(Pause&& other) noexcept : tape_(std::exchange(other.tape_, nullptr)) {}
    Pause& operator=(Pause&&) = delete;
    ~Pause();

   private:
    friend class GradientTape;
    explicit Pause(struct TapeState* tape) noexcept : tape_(tape) {}
    struct TapeState* tape_;
  };
  [[nodiscard]] Pause stop_recording(Where where = Where::current());

  /// Forgets everything recorded and watched, and records on.
  void reset(Where where = Where::current());

  std::int64_t size() const;        ///< operations recorded
  std::int64_t bytes_kept() const;  ///< bytes of tensors kept for the replay; shared storage counts once an entry
  bool recording() const noexcept;

  /// One line an operation: name, shapes, bytes kept, file:line.
  friend CAPSTAN_PUBLIC std::ostream& operator<<(std::ostream& out, const GradientTape& tape);

 private:
  void gradient_into(const Tensor& target, std::span<const Tensor> sources, Tensor* result,
                     const GradientOptions& options, Where where);
  struct TapeState* state_ = nullptr;  // owned; hidden in autograd/tape.hpp
};

/// While one lives, no tape on this thread records.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
};

/// The same values, cut off from every tape.
Tensor stop_gradient(const Tensor& x, Where where = Where::current());

}  // namespace capstan
