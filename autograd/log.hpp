#pragma once
// The log behind the tapes of one thread.
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "autograd/tape.hpp"

namespace capstan {
namespace autograd {

inline constexpr int kMostTapes = 32;
inline constexpr int kSerialBits = 32;  // of a block of numbers that one log draws from; above it the block's number

/// Memory for the entries' payloads: grows in chunks, shrinks from its end, and is kept from step to step.
class Arena {
 public:
  struct Mark {
    std::uint32_t chunk = 0, used = 0;
  };
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  Mark mark() const noexcept { return at_; }
  void rewind(Mark mark) noexcept { at_ = mark; }
  /// 8-byte aligned. Throws OutOfMemoryError.
  std::byte* take(std::size_t bytes, Where where);

 private:
  struct Chunk {
    std::byte* data;
    std::uint32_t size;
  };
  std::vector<Chunk> chunks_;
  Mark at_;
};

/// One operation. The payload holds, one behind the other: the saved tensors, the inputs' slots, the first output's
/// sizes, the attributes.
struct Entry {
  const char* op;
  Where where;
  ReplayFunction replay;
  std::byte* payload;
  Arena::Mark before;  // of the arena, to give the payload back
  TapeBits tapes;      // 0: nobody needs it any more and the saved tensors are gone
  std::uint32_t first_output, inputs, outputs, saved, rank;

  Saved* saved_values() const noexcept { return reinterpret_cast<Saved*>(payload); }
  std::uint32_t* input_slots() const noexcept {
    return reinterpret_cast<std::uint32_t*>(payload + saved * sizeof(Saved));
  }
  std::int64_t* sizes() const noexcept {
    return reinterpret_cast<std::int64_t*>(payload + saved * sizeof(Saved) + (inputs + 1u) / 2 * 8);
  }
  std::byte* attributes() const noexcept { return reinterpret_cast<std::byte*>(sizes() + rank); }
  void drop_saved() noexcept;
};

/// One tensor that tapes follow.
struct Slot {
  TapeBits tapes;
  TensorImpl* leaf;  // watched, not computed: kept alive. Null for outputs of entries
};

/// A run of slots with consecutive serial numbers. A number is never used twice, so a tensor with an old one is on no
/// tape; each time slots were given back, the next ones begin a new run. There is one run as a rule.
struct Run {
  std::uint64_t first_serial;
  std::uint32_t first_slot;
};

class Log {
 public:
  Log();
  ~Log();

  static Log& of_this_thread();  // made on first use
  static Log* of_this_thread_if_any() noexcept;

  /// The slot of a tensor, or kNoSlot.
  std::uint32_t find(const TensorImpl& tensor) const noexcept;
  /// The slot of a tensor, made now if it has none, with the bits added.
  std::uint32_t follow(TensorImpl& tensor, TapeBits tapes);
  TapeBits tapes_of(const TensorImpl& tensor) const noexcept;
  TapeBits followers(std::span<const Tensor* const> inputs);
  void append(const Record& record);

  void open(TapeState& tape, Where where);
  /// Takes a tape's bit off everything; frees what nobody needs any more.
  void forget(TapeState& tape) noexcept;
  void close(TapeState& tape) noexcept;
  void refresh_recording() noexcept;
  /// Ends tapes that were destroyed on other threads.
  void bury_orphans() noexcept;
  /// Ends a tape that is destroyed on another thread than its own: now if that thread is over, else when it comes by.
  void end_from_elsewhere(TapeState* tape) noexcept;
  void end_thread() noexcept;
  /// Takes back what was recorded behind that number of entries and slots.
  void rewind(std::size_t entry_count, std::size_t slot_count) noexcept;

  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  std::vector<Entry> entries;
  std::vector<Slot> slots;
  int no_grad = 0;
  GradientWork* spare_work = nullptr;  // buffers of the last gradient, for the next

 private:
  std::uint64_t add_slot(TapeBits tapes, TensorImpl* leaf);
  bool is_own(std::uint64_t serial) const noexcept { return serial >> kSerialBits == next_serial_ >> kSerialBits; }
  void set_bits(std::uint32_t slot, TapeBits tapes);
  void pop_dead_tail() noexcept;
  void pop_entry() noexcept;
  void pop_slots(std::size_t keep) noexcept;

  Arena arena_;
  std::vector<Run> runs_;
  // Leaves that carry another log's number, because another thread follows or followed them too: found by address.
  std::unordered_map<const TensorImpl*, std::uint32_t> foreign_;
  TapeState* tapes_[kMostTapes] = {};
  TapeBits watching_parameters_ = 0;
  std::uint64_t next_serial_;
  std::atomic<int> references_{1};
  std::mutex orphan_mutex_;
  std::atomic<bool> has_orphans_{false};
  TapeState* orphans_ = nullptr;
  bool thread_ended_ = false;
};

/// Deletes a closed tape, or leaves that to the Pause that still holds it.
void dispose(TapeState* tape) noexcept;

}  // namespace autograd

/// What a GradientTape owns.
struct TapeState {
  autograd::Log* log;
  autograd::TapeBits bit = 0;
  TapeOptions options;
  Where where;
  std::size_t first_entry = 0, first_slot = 0;
  std::vector<std::uint32_t> early_slots = {};  // older than the tape, but followed by it
  int paused = 0;
  bool spent = false;
  bool destroyed = false;  // but a Pause still holds it
  TapeState* next_orphan = nullptr;
};

}  // namespace capstan
