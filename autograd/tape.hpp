#pragma once
// The tape of one thread, and how operations write on it.
//
// All tapes of a thread share one log: entries in the order they ran, and slots, one for every tensor that some tape
// follows. A GradientTape is a bit; an entry and a slot carry the bits of the tapes that they belong to. So recording
// is one append however many tapes listen, and the replay of an inner tape is recorded by the outer ones like anything
// else. A tensor knows its slot's number; the log owns what the replay needs; nothing points back.
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/tape.hpp>

#include "lib/core/observe.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan::autograd {

using TapeBits = std::uint32_t;
inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

/// The tapes that record on this thread just now; 0 is the fast path of every operation.
extern constinit thread_local TapeBits recording;
inline bool listening() noexcept { return recording != 0; }
/// What products are computed in on this thread; float32: autocast, of which autocast.hpp speaks, is off.
extern constinit thread_local DType autocast_type;
inline bool autocasting() noexcept { return autocast_type != DType::float32; }

class Replay;
using ReplayFunction = void (*)(Replay&);

/// A tensor that the replay needs, and the version it had.
struct Saved {
  Tensor tensor;
  std::uint32_t version;
};

/// What an operation hands over. `inputs` and `outputs` are what gradients flow between; `attributes` are plain bytes.
/// `all_results`: if some results have no gradient all of them, in the caller's order; the chains of those end here.
struct Record {
  const char* op;
  Where where;
  ReplayFunction replay;
  std::span<const Tensor* const> inputs;
  std::span<Tensor* const> outputs;
  std::span<const Tensor* const> saved;
  const void* attributes = nullptr;
  std::size_t attribute_bytes = 0;
  std::span<const Tensor* const> all_results = {};

  std::span<const Tensor* const> followed_results() const noexcept {
    const Tensor* const* first = outputs.data();
    return {first, outputs.size()};
  }
  std::span<const Tensor* const> results() const noexcept {
    return all_results.empty() ? followed_results() : all_results;
  }
};

/// The tapes that follow one of the inputs: 0 means that there is nothing to record.
TapeBits followers(std::span<const Tensor* const> inputs);
/// Whether any tape follows it.
inline bool is_followed(const Tensor& x) {
  const Tensor* const one[] = {&x};
  return followers(one) != 0;
}
/// What a product saves of its operands: each for the gradient of the other, if that is followed.
struct ProductSaves {
  ProductSaves(const Tensor& a, const Tensor& b)
      : left(is_followed(b) ? &a : &none), right(is_followed(a) ? &b : &none) {}
  ProductSaves(const ProductSaves&) = delete;
  ProductSaves& operator=(const ProductSaves&) = delete;

  Tensor none;
  const Tensor *left, *right;
};
/// Tells watchers of an operation, then appends an entry if a tape follows an input. Strong guarantee.
void append(const Record& record);
/// Whether anybody wants to know.
inline bool attended() noexcept { return listening() || core::observed(); }

struct NoAttributes {};

/// `record("mul", where, &replay, {&a, &b}, {&out}, {&a, &b}, attributes)`: costs a test and nothing else when no tape
/// listens.
template <class A = NoAttributes>
inline void record(const char* op, Where where, ReplayFunction replay, std::initializer_list<const Tensor*> inputs,
                   std::initializer_list<Tensor*> outputs, std::initializer_list<const Tensor*> saved,
                   const A& attributes = {}, std::initializer_list<const Tensor*> all_results = {}) {
  static_assert(std::is_trivially_copyable_v<A> && alignof(A) <= 8);
  if (!attended()) return;
  append({op,
          where,
          replay,
          {inputs.begin(), inputs.size()},
          {outputs.begin(), outputs.size()},
          {saved.begin(), saved.size()},
          &attributes,
          std::is_empty_v<A> ? 0 : sizeof(A),
          {all_results.begin(), all_results.size()}});
}

/// An operation without a gradient, or whose result is no floating tensor: watchers see it, and a tape that follows an
/// input remembers that the chain ended here.
void append_note(const char* op, Where where, std::span<const Tensor* const> inputs,
                 std::span<const Tensor* const> outputs);
inline void note(const char* op, Where where, std::initializer_list<const Tensor*> inputs,
                 std::initializer_list<const Tensor*> outputs) {
  if (attended()) append_note(op, where, {inputs.begin(), inputs.size()}, {outputs.begin(), outputs.size()});
}

/// What runs in the scope of a Rollback.
enum class Inside : std::uint8_t { operations, user_code };

/// Around operations that are made of others: if an exception leaves the scope, what was recorded in it is taken back.
/// Autocast, which decides about an operation as a whole, is off in it, unless what runs there is the user's code.
class Log;
class Rollback {
 public:
  explicit Rollback(Inside inside = Inside::operations) noexcept : on_(listening() || autocasting()) {
    if (on_) begin(inside);
  }
  ~Rollback() {
    if (on_) end();
  }
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;

 private:
  void begin(Inside inside) noexcept;
  void end() noexcept;

  bool on_;         // or there is nothing to take back; the others are then not set
  DType autocast_;  // that was on
  int exceptions_;
  Log* log_;  // null: no tape listens
  std::size_t entries_, slots_;
};

struct Entry;
struct GradientWork;

/// One entry's replay: what a gradient rule sees.
class Replay {
 public:
  Replay(const Entry& entry, GradientWork& work) noexcept : entry_(entry), work_(work) {}

  /// Gradient for an output; undefined if nothing that matters used that output.
  const Tensor& grad(int output = 0) const;
  const Tensor& saved(int i) const noexcept;
  template <class A>
  A attributes() const noexcept {
    A value;
    std::memcpy(static_cast<void*>(&value), raw_attributes(), sizeof(A));
    return value;
  }
  const void* raw_attributes() const noexcept;  ///< for attributes of varying length; 8-byte aligned
  Where where() const noexcept;
  /// Whether some source depends on that input.
  bool needs(int input) const noexcept;
  /// Adds to the gradient for an input, which must be needed and have the gradient's shape.
  void give(int input, Tensor gradient);
  /// Adds rows to the gradient for an input: it stays row slices as long as they are fewer than its rows.
  void give_rows(int input, const RowSlices& slices, const Shape& shape);
  /// The gradient for an input so far, if it may be added to in place, else null. Only when no other tape listens. Like
  /// all that adds to a gradient, it waits for what was given beside, and throws OutOfMemoryError if that did.
  TensorImpl* accumulator(int input) const;
  /// Adds the matrices' product a @ b to the gradient for an input while the replay goes on. False where that cannot be
  /// or gains nothing.
  bool give_beside(int input, const Tensor& a, const Tensor& b);
  /// The replay of the entry that made an input by that rule, if nobody else asks for that input's gradient: then a rule
  /// may give on its behalf. While no other tape listens.
  std::optional<Replay> behind(int input, ReplayFunction rule) const;
  /// Ends what goes on beside the replay, for who lets the user's code run.
  void settle() const;

 private:
  Tensor& sum_of(int input) const;

  const Entry& entry_;
  GradientWork& work_;
};

/// Throws TapeError if an operation in place on `target`, with `value` if it is not null, would go past a tape.
void check_in_place(const char* op, const Tensor& target, const Tensor* value, Where where);

}  // namespace capstan::autograd
