#pragma once
// What `freeze` records: the calls of the CPU's entries, with copies of their arguments, so that they can be made again.
//
// While a thread records, `backend_of` gives it a table of its own: its entries run those of the CPU and then keep the
// call (recorded_backend.cpp). Operations know nothing of it, but for those that the host does behind the table's back:
// making storage, and reading or writing elements.
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_set>
#include <vector>

#include "lib/core/backend.hpp"

namespace capstan::core {

/// A tensor among the arguments of a recorded call: its geometry, which the kernel is given, and where it lay.
struct RecordedOperand {
  TensorImpl impl;
  Storage* storage;
  std::int64_t first, end;  // bytes of the storage that it may reach
  bool written;

  RecordedOperand(const TensorImpl& x, bool is_written);
};

/// A call to be made again.
class RecordedCall {
 public:
  virtual ~RecordedCall() = default;
  virtual void run() = 0;

  std::deque<RecordedOperand> operands;  // they stay where they are
  Where where{};
};

/// A recording in progress, of one thread. Storages among the operands live as long as it does, and what was there before
/// is in the end as it was.
class Recording {
 public:
  Recording() = default;
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  /// That of this thread, or null.
  static Recording* current() noexcept;

  void begins(Where where) noexcept { where_ = where; }
  Where where() const noexcept { return where_; }
  /// Before the kernel runs: what it writes is kept as it was, if it is not the recording's own.
  void about_to(RecordedCall& call);
  void add(std::unique_ptr<RecordedCall> call);
  void made(const Storage* storage) { made_.insert(storage); }
  /// The elements of an input: from here on, all that follows from it changes from run to run.
  void will_change(Storage* storage);
  bool changes(const Storage* storage) const { return changing_.contains(storage); }
  bool is_own(const Storage* storage) const { return made_.contains(storage); }
  /// Before the host reads elements. What they may depend on is known when all has run.
  void host_reads(const char* op, const TensorImpl& x, Where where);
  /// Whether a storage was made here and no call has used it.
  bool is_untouched(const Storage* storage) const { return is_own(storage) && !kept_.contains(storage); }
  /// The host has written the elements of a tensor that was just made.
  void host_wrote(const TensorImpl& x);

  /// Storages that were there before and are written: their elements before the first write.
  struct Written {
    Storage* storage;
    std::uint32_t version;
    Where last_write;
    std::vector<std::byte> before;
  };
  /// Follows what changes through all calls, and leaves out calls that need not be repeated.
  std::vector<std::unique_ptr<RecordedCall>> finish();
  const std::vector<Written>& written() const noexcept { return written_; }

 private:
  friend class RecordingScope;
  struct HostRead {
    const char* op;
    Shape shape;
    const Storage* storage;
    Where where;
  };
  void keep(Storage* storage);
  bool spread();

  std::vector<std::unique_ptr<RecordedCall>> calls_;
  std::unordered_set<const Storage*> made_, changing_, kept_;
  std::vector<Written> written_;
  std::vector<HostRead> host_reads_;
  Where where_{};
};

/// Makes a recording that of this thread.
class RecordingScope {
 public:
  RecordingScope(Recording& recording, Where where);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;
};

/// The recording of this thread, or null; a load and a branch while nobody records.
inline Recording* recording() noexcept {
  return recordings.load(std::memory_order_relaxed) == 0 ? nullptr : Recording::current();
}

/// Called before the host reads elements: an Error, now or in the end, if they depend on what changes from run to run.
inline void host_access(const char* op, const TensorImpl& x, Where where) {
  if (Recording* now = recording()) [[unlikely]]
    now->host_reads(op, x, where);
}
/// Called when the host has written elements.
inline void host_wrote(const TensorImpl& x) {
  if (Recording* now = recording()) [[unlikely]]
    now->host_wrote(x);
}

/// The table whose entries record.
const Backend& recording_backend();

}  // namespace capstan::core
