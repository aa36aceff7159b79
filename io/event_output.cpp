#include "io/event_output.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "io/crc32c.hpp"
#include "io/event_wire.hpp"
#include "io/io_error.hpp"
#include "lib/base/signals.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {

double wall_time() noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

namespace {

void put_little_endian(unsigned char* to, int count, std::uint64_t value) {
  for (int i = 0; i < count; ++i) to[i] = static_cast<unsigned char>((value >> (8 * i)) & 0xFF);
}

std::uint32_t masked_crc(const unsigned char* bytes, std::size_t count) {
  return mask_crc(crc32c(std::span<const unsigned char>(bytes, count)));
}

std::string reason_of(int code) { return std::generic_category().message(code); }

/// This machine's name, of which no character is special to files.
std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  std::string host = name.data();
  for (char& c : host) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!letter && !(c >= '0' && c <= '9') && c != '-' && c != '.') c = '_';
  }
  return host;
}

/// A file that was not there before; its descriptor, or -1.
int open_new(const std::string& folder, const std::string& suffix, std::string& path) {
  static std::atomic<unsigned> count = 0;
  std::array<char, 16> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%010lld", static_cast<long long>(wall_time()));
  const std::string start =
      base::join("events.out.tfevents.", seconds.data(), ".", host_name(), ".", std::int64_t{getpid()}, ".");
  for (;;) {
    path = (std::filesystem::path(folder) / (start + std::to_string(count++) + suffix)).string();
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
}

std::chrono::steady_clock::duration period_of(double seconds) {
  constexpr double longest = 1e9;  // 31 years: the clock has no room for much more
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::min(seconds, longest)));
}

constexpr std::size_t kWaitAbove = 16;  // times the bytes that are written at once

/// Where nothing overflows.
std::size_t limit_of(std::int64_t bytes) {
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / (4 * kWaitAbove);
  return static_cast<std::size_t>(std::min(static_cast<std::uint64_t>(bytes), std::uint64_t{most}));
}

}  // namespace

void finish_record(std::string& out, std::size_t start) {
  const std::size_t count = out.size() - start - kRecordHead;
  out.append(4, '\0');
  auto* const head = reinterpret_cast<unsigned char*>(out.data() + start);
  unsigned char* const data = head + kRecordHead;
  put_little_endian(head, 8, count);
  put_little_endian(head + 8, 4, masked_crc(head, 8));
  put_little_endian(data + count, 4, masked_crc(data, count));
}

EventOutput::Descriptor::~Descriptor() {
  if (number >= 0) ::close(number);
}

EventOutput::EventOutput(const char* op, const std::string& folder, const EventOutputOptions& options, Where where)
    : period_(period_of(options.seconds)), limit_(limit_of(options.bytes)), most_(kWaitAbove * limit_) {
  if (const std::size_t zero = folder.find('\0'); zero != std::string::npos)
    fail_io(op, folder.substr(0, zero), where,
            "cannot be made: the name goes on behind a zero byte; no folder's does.");
  std::error_code none;
  std::filesystem::create_directories(folder, none);
  if (none)
    fail_io(op, folder, where, base::join("cannot be made: ", none.message(), "; it must be a folder, or become one."));
  file_.number = open_new(folder, options.suffix, path_);
  if (file_.number < 0)
    fail_io(op, path_, where, base::join("cannot be made: ", reason_of(errno), "; its folder must be writable."));
  append_record(pending_, [](std::string& out) { append_version_event(out, wall_time()); });
  if (const int code = write_pending(); code != 0) {
    unlink(path_.c_str());
    failed_at_ = offset_;
    fail(op, where, code);
  }
  const std::size_t room = std::min(limit_, std::size_t{1} << 20) + 4096;  // a call finds room as a rule
  buffer_.reserve(room);
  pending_.reserve(room);
  try {
    const base::NoSignals no_signals;
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    unlink(path_.c_str());
    base::fail<BackendError>(where, op, ": no thread can be started: ", error.what(), "; one more must be possible.");
  }
}

EventOutput::~EventOutput() {
  try {
    close("SummaryWriter", Where::current());
  } catch (...) {}  // NOLINT(bugprone-empty-catch): who wants to hear of errors closes it before
}

// --- calls ---------------------------------------------------------------------------------------------------------

void EventOutput::check_open(const char* op, Where where) const {
  if (closed_) base::fail<Error>(where, op, ": ", path_, " is closed; a run is logged before that.");
}

void EventOutput::fail(const char* op, Where where, int code) const {
  fail_io(op, path_, where,
          base::join("cannot be written: ", reason_of(code), " at offset ", failed_at_,
                     "; the disk must have room for it. What was written before stays."));
}

/// Waits until there is. False if what does not go to the file fills memory, and somebody was told of it.
bool EventOutput::has_room(const char* op, Where where, Lock& lock, WhenFull when_full) {
  bool tried = false;
  for (;;) {
    check_open(op, where);
    if (failure_ != 0 && !std::exchange(told_, true)) fail(op, where, failure_);
    if (buffer_.size() < most_) return true;
    if (failure_ == 0) {
      emptied_.wait(lock);
    } else if (when_full == WhenFull::drop) {
      ++dropped_;
      return false;
    } else {
      if (std::exchange(tried, true)) fail(op, where, failure_);
      drain(lock);
    }
  }
}

void EventOutput::add_records(const char* op, Where where, WhenFull when_full, const std::string& records) {
  Lock lock(mutex_);
  if (!has_room(op, where, lock, when_full)) return;
  const std::size_t before = buffer_.size();
  buffer_ += records;
  added(before);
}

/// Records stand behind so many bytes. Wakes the thread if it has to look at the clock, or to write.
void EventOutput::added(std::size_t before) noexcept {
  if (before == 0 && failure_ == 0) due_ = Clock::now() + period_;
  if (before == 0 || (before < limit_ && buffer_.size() >= limit_)) wake_.notify_one();
}

void EventOutput::flush(const char* op, Where where) {
  Lock lock(mutex_);
  check_open(op, where);
  drain(lock);
  if (failure_ == 0) return;
  told_ = true;
  fail(op, where, failure_);
}

void EventOutput::close(const char* op, Where where) {
  {
    Lock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    drain(lock);
  }
  wake_.notify_all();
  emptied_.notify_all();
  if (thread_.joinable()) thread_.join();
  Lock lock(mutex_);
  emptied_.wait(lock, [this] { return !writing_; });  // a flush that had begun
  if (::close(std::exchange(file_.number, -1)) != 0 && failure_ == 0) {
    failure_ = errno;
    failed_at_ = offset_;
  }
  if (failure_ != 0) fail(op, where, failure_);
  if (dropped_ > 0)
    fail_io(op, path_, where,
            base::join("cannot be written: there was no room at offset ", failed_at_, " for a while, and what ",
                       dropped_, " calls logged then is lost; the disk must have room for it. All else is there."));
}

// --- the thread ----------------------------------------------------------------------------------------------------

/// After a failure only the clock counts: a disk stays full for a while.
bool EventOutput::due() const noexcept { return (failure_ == 0 && buffer_.size() >= limit_) || Clock::now() >= due_; }

void EventOutput::work() noexcept {
  Lock lock(mutex_);
  while (!closed_) {
    if (buffer_.empty() && failure_ == 0) wake_.wait(lock);
    else if (due()) drain(lock);
    else wake_.wait_until(lock, due_);
  }
}

/// Takes all that is there to the file, or as much of it as goes: what an earlier failure has left, then the buffer.
void EventOutput::drain(Lock& lock) noexcept {
  emptied_.wait(lock, [this] { return !writing_; });
  if (file_.number < 0) return;  // it was closed meanwhile
  writing_ = true;
  int code = 0;
  for (int round = 0; round < 2 && code == 0; ++round) {
    if (pending_.empty()) pending_.swap(buffer_);
    if (pending_.empty()) break;
    emptied_.notify_all();  // there is room again
    lock.unlock();
    code = write_pending();
    lock.lock();
  }
  writing_ = false;
  if (code != 0) {
    if (failure_ == 0) told_ = false;
    failed_at_ = offset_;
    due_ = Clock::now() + std::max<Clock::duration>(period_, std::chrono::seconds(1));
  } else if (failure_ != 0) {
    due_ = Clock::now() + period_;
  }
  failure_ = code;
  emptied_.notify_all();
}

/// 0, or errno. Then what is left is whole but for its beginning, which goes on where the file ends.
int EventOutput::write_pending() noexcept {
  constexpr std::size_t keep = std::size_t{4} << 20;
  while (written_ < pending_.size()) {
    const ssize_t count = write(file_.number, pending_.data() + written_, pending_.size() - written_);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : EIO;
    written_ += static_cast<std::size_t>(count);
    offset_ += static_cast<std::int64_t>(count);
  }
  written_ = 0;
  if (pending_.capacity() > keep && pending_.capacity() / 4 > limit_) std::string().swap(pending_);  // once in a while
  else pending_.clear();
  return 0;
}

}  // namespace capstan::io
