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

/// One operation, or a break: one that a tape followed up to here and no further. A break has no replay, keeps no
/// tensor, and exists for `explain` alone. The payload holds, one behind the other: the saved tensors, the inputs'
/// slots, the first output's sizes, the attributes.
struct Entry {
  const char* op;
  Where where;
  ReplayFunction replay;  // null: a break
  std::byte* payload;
  Arena::Mark before;  // of the arena, to give the payload back
  TapeBits tapes;      // 0: nobody needs it any more and the saved tensors are gone
  std::uint32_t first_output, inputs, outputs, saved;
  std::uint8_t rank;
  DType dtype;  // of the first output
  bool behind;  // a break behind another one: would have been recorded if its operand were followed

  bool replays_on(TapeBits tape) const noexcept { return replay != nullptr && (tapes & tape) != 0; }
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

/// One tensor that tapes follow, or whose chain they saw end.
struct Slot {
  TapeBits tapes;
  TapeBits severed;  // the tapes that a break cut it off from: no gradient flows, but `explain` finds the way
  TensorImpl* leaf;  // watched, not computed: kept alive. Null for outputs of entries
};

/// A run of slots with consecutive serial numbers. A number is never used twice, so a tensor with an old one is on no
/// tape; each time slots were given back, the next ones begin a new run. There is one run as a rule.
struct Run {
  std::uint64_t first_serial;
  std::uint32_t first_slot;
};

/// A tensor that a tape follows only from slot `since` on, though entries of that tape used it before, for other tapes.
struct LateWatch {
  TapeBits tape;
  std::uint32_t slot, since;
};

class Probe;

class Log {
 public:
  Log();
  ~Log();

  static Log& of_this_thread();  // made on first use
  static Log* of_this_thread_if_any() noexcept;

  /// The slot of a tensor, or kNoSlot.
  std::uint32_t find(const TensorImpl& tensor) const noexcept {
    const std::uint64_t serial = tensor.serial.load(std::memory_order_relaxed);
    if (serial == 0) return kNoSlot;
    if (!runs_.empty()) {  // as a rule it is in the last run
      const std::uint64_t offset = serial - runs_.back().first_serial;
      if (offset < slots.size() - runs_.back().first_slot)
        return runs_.back().first_slot + static_cast<std::uint32_t>(offset);
    }
    return find_in_runs(tensor, serial);
  }
  /// The slot of a tensor, made now if it has none, with the bits added.
  std::uint32_t follow(TensorImpl& tensor, TapeBits tapes);
  TapeBits tapes_of(const TensorImpl& tensor) const noexcept;
  /// Whether a tape follows the slot, and did so when the entry used it.
  bool follows_use(TapeBits tape, const Entry& entry, std::uint32_t slot) const noexcept;
  /// The tapes among those given that follow one of the inputs, and those that were cut off from one.
  struct Bits {
    TapeBits tapes = 0, severed = 0;
  };
  Bits bits_of(std::span<const Tensor* const> inputs, TapeBits among) const noexcept;
  /// Tapes that record, and those that a Probe has silenced.
  TapeBits heard() const noexcept;
  TapeBits watching_parameters() const noexcept { return watching_parameters_; }
  TapeBits open_tapes() const noexcept;
  void append(const Record& record);
  void append_break(const char* op, Where where, std::span<const Tensor* const> inputs,
                    std::span<const Tensor* const> outputs, TapeBits tapes, bool behind);
  /// The entry that made a slot, or null for a leaf.
  const Entry* maker(std::uint32_t slot) const noexcept;
  /// The first entry whose outputs begin at that slot or above it.
  std::size_t first_from(std::uint32_t slot) const noexcept;

  void open(TapeState& tape, Where where);
  /// Takes a tape's bit off everything; frees what nobody needs any more. That may run code of the user's, and end
  /// other tapes.
  void forget(TapeState& tape) noexcept;
  void close(TapeState& tape) noexcept;
  /// Closes and deletes a tape, or leaves that to the replay that it is in.
  void end_here(TapeState* tape) noexcept;
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
  std::vector<LateWatch> late_watches;  // few, or none
  int no_grad = 0;
  TapeBits silenced = 0;  // tapes that do not record for now; see scopes.hpp
  void set_probe(Probe* probe) noexcept;
  Probe* probe() const noexcept { return probe_; }
  GradientWork* spare_work = nullptr;  // buffers of the last gradient, for the next

 private:
  std::uint32_t find_in_runs(const TensorImpl& tensor, std::uint64_t serial) const noexcept;
  struct Room {
    Arena::Mark before;
    std::byte* payload;
  };
  Room make_room(std::span<const Tensor* const> inputs, std::size_t outputs, std::size_t payload_bytes, Where where);
  void fill_in(const Entry& entry, std::span<const Tensor* const> inputs, const Shape& shape) const noexcept;
  void forget_unfollowed(const Entry& entry) noexcept;
  bool has_used(const TapeState& tape, std::uint32_t slot) const noexcept;
  std::uint64_t add_slot(Bits bits, TensorImpl* leaf);
  /// Left behind by a break or by tapes that are gone: its tensor may get another.
  bool is_loose(std::uint32_t slot) const noexcept { return slots[slot].tapes == 0 && slots[slot].leaf == nullptr; }
  bool may_renumber(const TensorImpl& tensor) const noexcept;
  void attend(std::span<const Tensor* const> inputs);
  bool is_own(std::uint64_t serial) const noexcept { return serial >> kSerialBits == next_serial_ >> kSerialBits; }
  void set_bits(std::uint32_t slot, TapeBits tapes);
  void pop_dead_tail() noexcept;
  void pop_entry() noexcept;
  void pop_slots(std::size_t keep) noexcept;
  void pop_empty_runs() noexcept;
  bool is_over(bool& flag, bool value) noexcept;

  Arena arena_;
  std::vector<Run> runs_;
  // Leaves that carry another log's number, because another thread follows or followed them too: found by address.
  std::unordered_map<const TensorImpl*, std::uint32_t> foreign_;
  TapeState* tapes_[kMostTapes] = {};
  TapeBits watching_parameters_ = 0;
  TapeBits partly_ = 0;  // tapes with entries that keep an input's slot for other tapes alone
  std::uint64_t next_serial_;
  int emptying_ = 0;  // functions that are just taking things off, one called by what another let go; the first pops
  std::atomic<int> references_{1};
  std::mutex orphan_mutex_;
  std::atomic<bool> attention_{false};  // there are orphans or a probe: the next operation looks
  Probe* probe_ = nullptr;
  TapeState* orphans_ = nullptr;
  bool thread_ended_ = false;
  bool burying_ = false;  // after that, a thread that ends what others bring, one tape after the other
};

/// Deletes a closed tape, or leaves that to the Pause that still holds it.
void dispose(TapeState* tape) noexcept;
/// Ends a tape, or leaves that to the replay that it is in. Null is allowed.
void end_tape(TapeState* tape) noexcept;

/// What `on_gradient` was given.
struct GradientHook {
  std::uint32_t slot;
  Callback<Tensor(const Tensor&)> run;
  Where where;
};

}  // namespace autograd

/// What a GradientTape owns.
struct TapeState {
  autograd::Log* log;
  autograd::TapeBits bit = 0;
  TapeOptions options;
  Where where;
  std::size_t first_entry = 0, first_slot = 0;
  std::vector<std::uint32_t> early_slots = {};  // older than the tape, but followed by it
  std::vector<autograd::GradientHook> hooks = {};
  int paused = 0;
  int replaying = 0;
  int held = 0;  // by replays, some of which make several passes
  bool spent = false;
  bool destroyed = false;  // but a Pause still holds it
  bool ended = false;      // but held
  Where paused_at = {};    // by stop_recording, the last time; line 0 for never
  Where spent_at = {};
  TapeState* next_orphan = nullptr;
};

}  // namespace capstan
