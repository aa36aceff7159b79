#pragma once
// An event file that grows while a run goes on: records in memory, and a thread that takes them to the file.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include <capstan/error.hpp>

namespace capstan::io {

/// Seconds since 1970.
double wall_time() noexcept;

inline constexpr std::size_t kRecordHead = 12;  // its length, and the checksum of that
/// Puts the head of a record of TFRecord files before the data from `start + kRecordHead` on, and its tail behind them.
void finish_record(std::string& out, std::size_t start);

/// A record whose data `encode(std::string&)` appends. If that throws nothing is added.
template <class Encode>
void append_record(std::string& out, const Encode& encode) {
  const std::size_t start = out.size();
  try {
    out.append(kRecordHead, '\0');
    encode(out);
    finish_record(out, start);
  } catch (...) {
    out.resize(start);
    throw;
  }
}

struct EventOutputOptions {
  double seconds;      // >= 0
  std::int64_t bytes;  // >= 1
  std::string suffix;
};

/// What becomes of records where memory is full of others that do not go to the file.
enum class WhenFull {
  drop,  // once somebody was told
  fail   // IoError if the file does not take them now, either
};

class EventOutput {
 public:
  /// A new file in that folder, which is made if it is missing, with the first record in it.
  EventOutput(const char* op, const std::string& folder, const EventOutputOptions& options, Where where);
  /// Closes it, and swallows errors.
  ~EventOutput();
  EventOutput(const EventOutput&) = delete;
  EventOutput& operator=(const EventOutput&) = delete;

  const std::string& path() const noexcept { return path_; }

  /// Adds a record whose data `encode(std::string&)` appends, under a lock. May be called from any thread, as all else.
  template <class Encode>
  void add(const char* op, Where where, const Encode& encode) {
    std::unique_lock lock(mutex_);
    if (!has_room(op, where, lock, WhenFull::drop)) return;
    const std::size_t before = buffer_.size();
    append_record(buffer_, encode);
    added(before);
  }
  /// Adds records that append_record made.
  void add_records(const char* op, Where where, WhenFull when_full, const std::string& records);
  void flush(const char* op, Where where);
  void close(const char* op, Where where);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  /// Closes the file by itself.
  struct Descriptor {
    Descriptor() = default;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number = -1;
  };

  bool has_room(const char* op, Where where, Lock& lock, WhenFull when_full);
  void added(std::size_t before) noexcept;
  bool due() const noexcept;
  void work() noexcept;
  void drain(Lock& lock) noexcept;
  int write_pending() noexcept;
  void check_open(const char* op, Where where) const;
  [[noreturn]] void fail(const char* op, Where where, int code) const;

  std::string path_;
  Descriptor file_;
  const Clock::duration period_;
  const std::size_t limit_;  // bytes that are written at once ...
  const std::size_t most_;   // ... and those for which a call waits

  std::mutex mutex_;
  std::condition_variable wake_, emptied_;  // of the thread, and of who waits for it
  std::string buffer_;                      // whole records
  Clock::time_point due_{};                 // when it is to be written
  bool writing_ = false;                    // somebody is writing, and has the next three for himself
  bool closed_ = false;
  int failure_ = 0;             // of errno, why the last attempt to write failed; 0 if it did not
  bool told_ = false;           // a call has thrown it
  std::int64_t failed_at_ = 0;  // offset
  std::int64_t dropped_ = 0;    // calls whose records memory had no room for

  std::string pending_;      // on its way to the file ...
  std::size_t written_ = 0;  // ... and so much of it is there
  std::int64_t offset_ = 0;  // bytes in the file

  std::thread thread_;
};

}  // namespace capstan::io
