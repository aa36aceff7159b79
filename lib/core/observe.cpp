#include "lib/core/observe.hpp"

#include <pthread.h>

#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/text.hpp"

namespace capstan::core {

constinit std::atomic<unsigned> observers{0};

namespace {

using OriginKey = std::tuple<const char*, const char*, std::uint_least32_t, bool>;  // operation, file, line, replay

struct Registry {
  std::shared_mutex mutex;       // held shared while watchers are told
  std::atomic<int> changing{0};  // threads that wait to have it alone, which is when nobody new may share it
  std::vector<Watcher*> watchers;
  std::mutex memory_mutex;
  std::vector<MemoryWatcher*> memory_watchers;
  std::uint32_t memory_periods = 0;  // times that a memory watcher was added
  std::mutex origins_mutex;
  std::map<OriginKey, Origin> origins;  // tensors point into it
};

void forget_watchers() noexcept;

/// Never destroyed, so that tensors with static lifetime may go at any time.
Registry& registry() {
  static auto* const instance = new Registry;
  static const int done = pthread_atfork(nullptr, nullptr, &forget_watchers);
  static_cast<void>(done);
  return *instance;
}

/// Alone with the watchers. The system's lock by itself lets in threads that come later, and they may come for ever.
class Alone {
 public:
  explicit Alone(Registry& all) : all_(all) {
    all_.changing.fetch_add(1);
    all_.mutex.lock();
  }
  ~Alone() {
    all_.mutex.unlock();
    all_.changing.fetch_sub(1);
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

 private:
  Registry& all_;
};

constinit std::atomic<ResultCheck> result_check{nullptr};
constinit std::atomic<std::uint32_t> clock_periods{0};  // times that a watcher was added
constinit std::atomic<int> threads_seen{0};

/// Origins that were asked for lately, at the places of their hashes.
constexpr unsigned kRecentBits = 8;
constinit std::atomic<const Origin*> recent_origins[1u << kRecentBits] = {};

/// What is known of the calling thread.
struct ThreadState {
  std::int64_t start = 0;            // of the operation that runs; 0: none is known to
  std::uint32_t start_period = 0;    // a start from an earlier period is worth nothing,
  std::uint32_t start_failures = 0;  // nor is that of an operation which has failed
  int number = 0;                    // 0: not seen yet
  bool telling = false;              // what watchers compute is not watched
  bool shares = false;               // whether it has the registry's lock with others
  const char* replayed = nullptr;    // the operation whose gradient runs
  std::int64_t own = 0;              // nanoseconds in reported operations
  std::int64_t watching = 0;         // nanoseconds in watchers
  std::int64_t reports = 0;
  std::int64_t reads = 0;          // elements, of the operation that is about to be reported
  std::int64_t device = 0;         // nanoseconds that a GPU took for it
  std::int64_t replay_device = 0;  // and for what the replay that runs computes by itself
};
constinit thread_local ThreadState this_thread;

/// In a forked child, whose other threads are gone, wherever they were: nobody watches it. What was there stays in
/// memory, for tensors point into it.
void forget_watchers() noexcept {
  Registry& all = registry();
  const std::uint32_t periods = all.memory_periods;
  new (&all) Registry;
  all.memory_periods = periods;
  if (this_thread.shares) all.mutex.lock_shared();  // a watcher forks
  observers.fetch_and(kWatchResults, std::memory_order_relaxed);
}

/// While one lives, this thread reports nothing. `begin` is 0 if nobody asks for times.
class Telling {
 public:
  explicit Telling(std::int64_t begin) noexcept : begin_(begin) { this_thread.telling = true; }
  ~Telling() {
    this_thread.telling = false;
    if (begin_ != 0) this_thread.watching += nanoseconds() - begin_;
  }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

 private:
  std::int64_t begin_;
};

/// One for each operation and line.
const Origin* origin_of(const Operation& operation) {
  const OriginKey key(operation.op, operation.where.file_name(), operation.where.line(), operation.backward);
  const auto& [op, file, line, backward] = key;
  const std::uint64_t sum = reinterpret_cast<std::uintptr_t>(op) * std::uint64_t{3} +
                            reinterpret_cast<std::uintptr_t>(file) + line * std::uint64_t{2} + std::uint64_t{backward};
  std::atomic<const Origin*>& recent = recent_origins[sum * 0x9E3779B97F4A7C15u >> (64 - kRecentBits)];
  const Origin* origin = recent.load(std::memory_order_acquire);
  if (origin != nullptr && origin->op == op && origin->where.file_name() == file && origin->where.line() == line &&
      origin->backward == backward)
    return origin;
  Registry& all = registry();
  const std::lock_guard lock(all.origins_mutex);
  origin = &all.origins.try_emplace(key, Origin{operation.op, operation.where, operation.backward}).first->second;
  recent.store(origin, std::memory_order_release);
  return origin;
}

/// Writes on results where they come from, for messages about what becomes of them.
void label(const Operation& operation) {
  const Origin* origin = nullptr;
  for (const Tensor* output : operation.outputs) {
    TensorImpl* impl = output->impl();
    if (impl == nullptr) continue;
    // a gradient that is only passed on keeps its origin
    if (operation.backward && impl->references.load(std::memory_order_relaxed) != 1) continue;
    if (origin == nullptr) origin = origin_of(operation);
    impl->origin.store(origin, std::memory_order_relaxed);
  }
}

/// When an operation ran; nothing if nobody asks for times.
struct Times {
  std::int64_t begin = 0, end = 0, own = 0;
  bool composed = false;
  std::int64_t reads = 0, device = 0;
};

void tell_watchers(const Operation& operation, const Times& times) {
  ThreadState& me = this_thread;
  const int thread = thread_number();
  Registry& all = registry();
  // Not without end: who waits may wait for a thread that a watcher holds up until this one goes on.
  for (int i = 0; i < 1000 && all.changing.load() != 0; ++i) std::this_thread::yield();
  const std::shared_lock lock(all.mutex);
  struct Shares {
    Shares() { this_thread.shares = true; }
    ~Shares() { this_thread.shares = false; }
  } const shares;
  const Event event{operation,   times.begin,    times.end,   times.own,   thread,
                    me.replayed, times.composed, times.reads, times.device};
  for (Watcher* watcher : all.watchers) watcher->see(event);
}

void tell(const Operation& operation, const Times& times) {
  ThreadState& me = this_thread;
  me.start = 0;
  me.own += times.own;
  ++me.reports;
  const Telling telling(times.end);
  label(operation);
  if (times.end != 0) tell_watchers(operation, times);
  if (!watched(kWatchResults)) return;
  if (const ResultCheck check = result_check.load(std::memory_order_acquire); check != nullptr)
    check(operation, me.replayed);
}

/// Whether the start that is known is that of the operation which runs.
bool has_start(const ThreadState& me) noexcept {
  return me.start != 0 && me.start_period == clock_periods.load(std::memory_order_relaxed) &&
         me.start_failures == base::failures;
}

}  // namespace

std::int64_t nanoseconds() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// --- operations ---

void operation_starts() noexcept {
  ThreadState& me = this_thread;
  if (me.telling || has_start(me)) return;
  me.start = nanoseconds();
  me.device = 0;  // what there is belongs to one that has failed, or to none
  me.start_period = clock_periods.load(std::memory_order_relaxed);
  me.start_failures = base::failures;
}

void operation_reads(std::int64_t elements) noexcept {
  if (!this_thread.telling && watched(kWatchTimes)) this_thread.reads = elements;
}

void operation_took(std::int64_t nanoseconds) noexcept {
  if (!this_thread.telling) this_thread.device += nanoseconds;
}

void replay_computed() noexcept {
  ThreadState& me = this_thread;
  if (me.telling || me.replayed == nullptr) return;
  me.start = 0;
  me.replay_device += std::exchange(me.device, 0);
}

void operation_ends(const Operation& operation) {
  const ThreadState& me = this_thread;
  if (me.telling) return;
  if (!watched(kWatchTimes)) return tell(operation, {});
  const std::int64_t end = nanoseconds();
  const bool timed = has_start(me);
  const std::int64_t begin = timed ? me.start : end;
  const std::int64_t device = std::exchange(this_thread.device, 0);  // of a view: that of what had to be made for it
  tell(operation, {begin, end, end - begin, !timed, std::exchange(this_thread.reads, 0), timed ? device : 0});
}

ReplayWatch::ReplayWatch(const char* op) noexcept
    : outer_(this_thread.replayed),
      begin_(watched(kWatchTimes) ? nanoseconds() : 0),
      own_before_(this_thread.own),
      watching_before_(this_thread.watching),
      reports_before_(this_thread.reports),
      device_before_(std::exchange(this_thread.replay_device, 0)) {
  this_thread.replayed = op;
  this_thread.start = 0;
  this_thread.device = 0;
}

ReplayWatch::~ReplayWatch() {
  this_thread.replayed = outer_;
  this_thread.replay_device = device_before_;
}

void ReplayWatch::ends(const Operation& operation) {
  ThreadState& me = this_thread;
  me.replayed = outer_;
  if (me.telling) return;
  if (!watched(kWatchTimes)) return tell(operation, {});
  const std::int64_t end = nanoseconds();
  const std::int64_t begin = begin_ != 0 ? begin_ : end;  // 0: the first watcher came while it ran
  const std::int64_t own = end - begin - (me.own - own_before_) - (me.watching - watching_before_);
  tell(operation, {begin, end, own > 0 ? own : 0, me.reports != reports_before_, 0,
                   me.replay_device + std::exchange(me.device, 0)});
}

int thread_number() noexcept {
  int& number = this_thread.number;
  if (number == 0) number = threads_seen.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

void add_watcher(Watcher& watcher) {
  Registry& all = registry();
  const Alone alone(all);
  all.watchers.push_back(&watcher);
  clock_periods.fetch_add(1, std::memory_order_relaxed);
  observers.fetch_or(kWatchTimes, std::memory_order_relaxed);
}

void remove_watcher(Watcher& watcher) noexcept {
  Registry& all = registry();
  const Alone alone(all);
  std::erase(all.watchers, &watcher);
  if (all.watchers.empty()) observers.fetch_and(~kWatchTimes, std::memory_order_relaxed);
}

void set_result_check(ResultCheck check) noexcept {
  result_check.store(check, std::memory_order_release);
  if (check != nullptr) observers.fetch_or(kWatchResults, std::memory_order_relaxed);
  else observers.fetch_and(~kWatchResults, std::memory_order_relaxed);
}

// --- memory ---

namespace {

/// Of elements. Blocks of tensors held as row slices have none.
std::int64_t bytes_in(const Storage& storage) noexcept {
  return storage.block_bytes > kStorageHeader ? storage.block_bytes - kStorageHeader : 0;
}

}  // namespace

void add_memory_watcher(MemoryWatcher& watcher) {
  Registry& all = registry();
  const std::lock_guard lock(all.memory_mutex);
  all.memory_watchers.push_back(&watcher);
  watcher.since_ = ++all.memory_periods;
  observers.fetch_or(kWatchMemory, std::memory_order_relaxed);
}

void remove_memory_watcher(MemoryWatcher& watcher) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.memory_mutex);
  std::erase(all.memory_watchers, &watcher);
  if (all.memory_watchers.empty()) observers.fetch_and(~kWatchMemory, std::memory_order_relaxed);
}

void storage_made(Storage& storage, Where where) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.memory_mutex);
  if (all.memory_watchers.empty()) return;
  storage.made_at = where;
  storage.watched_since = all.memory_periods;
  for (MemoryWatcher* watcher : all.memory_watchers) {
    try {
      watcher->made(where, bytes_in(storage));
    } catch (const std::bad_alloc&) {  // this watcher misses a block
    }
  }
}

void storage_gone(const Storage& storage) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.memory_mutex);
  for (MemoryWatcher* watcher : all.memory_watchers)
    if (watcher->since_ <= storage.watched_since) watcher->gone(storage.made_at, bytes_in(storage));
}

}  // namespace capstan::core
