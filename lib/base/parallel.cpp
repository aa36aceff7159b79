#include "lib/base/parallel.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <capstan/threads.hpp>

#include "lib/base/control_groups.hpp"
#include "lib/base/signals.hpp"
#include "lib/base/text.hpp"

// Of an OpenBLAS that is linked, if it has threads of its own.
extern "C" {
[[gnu::weak]] int openblas_get_num_threads();
[[gnu::weak]] int blas_thread_shutdown_();
}

namespace capstan {
namespace base {
namespace {

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

constexpr std::uint32_t kSpinsBeforeYield = 2048;  // some 30 us

/// One turn of a wait for a thread that is at work, unless it waits for this processor.
void wait_a_turn(std::uint32_t& turns) noexcept {
  if (++turns % kSpinsBeforeYield == 0) sched_yield();
  else relax();
}

constexpr int kSpinsBeforeSleep = 10000;       // some 150 us: longer than the pauses between the operations of a step
constexpr std::int64_t kPiecesPerThread = 32;  // so that the last ones are small

/// Of a thread's share, rounded up: the caller's is never empty.
std::int64_t first_piece(std::int64_t pieces, std::int64_t share, std::int64_t shares) noexcept {
  return (pieces * share + shares - 1) / shares;
}

}  // namespace

/// Workers that claim pieces of one loop at a time. The caller works too and never waits for a worker that has not
/// begun: one that wakes late finds nothing left. Each thread begins with a share of its own, the same part of every
/// loop, since that is what its caches hold, and then takes what others have left.
class Pool {
 public:
  explicit Pool(int workers) : shares_used_(std::min(workers + 1, kShares)) {
    try {
      const NoSignals none;
      for (int i = 1; i <= workers; ++i) workers_.emplace_back([this, i] { work(i); });
    } catch (...) {  // the system has no more threads: go on with those there are
    }
  }
  ~Pool() { end_workers(); }

  /// What is given afterwards is done by the thread that gives it, and so is what they leave of a loop that runs.
  void end_workers() noexcept {
    stop_.store(true);
    wake_all();
    for (std::thread& worker : workers_) {
      if (worker.get_id() == std::this_thread::get_id()) worker.detach();  // which called exit()
      else worker.join();
    }
    workers_.clear();
  }
  /// In a forked child, where they do not exist. It may have been taken from the thread that forked in a replay.
  void forget_workers() noexcept { job_taken_.store(false); }

  void run(std::int64_t count, std::uint32_t pieces, RangeFunction body, void* context) noexcept {
    ++generation_;
    const std::uint64_t opened = std::uint64_t{generation_} << 32;
    // closed first: nobody can claim a piece, of this loop or the last, while the fields change
    for (int i = 0; i < shares_used_; ++i) shares_[i].ticket.store(opened - 1, std::memory_order_relaxed);
    run_ = body;
    context_ = context;
    count_ = count;
    pieces_ = pieces;
    done_.store(0, std::memory_order_relaxed);
    for (int i = shares_used_ - 1; i >= 0; --i) {  // the first one last, since workers look at that
      const auto first = static_cast<std::uint32_t>(first_piece(pieces, i, shares_used_));
      shares_[i].end.store(static_cast<std::uint32_t>(first_piece(pieces, i + 1, shares_used_)),
                           std::memory_order_release);
      shares_[i].ticket.store(opened + first, i > 0 ? std::memory_order_release : std::memory_order_seq_cst);
    }
    if (sleepers_.load(std::memory_order_seq_cst) > 0) wake_all();
    claim_pieces(0, generation_);
    std::uint32_t turns = 0;
    while (done_.load(std::memory_order_acquire) != pieces) wait_a_turn(turns);
  }

  bool has_workers() const noexcept { return !workers_.empty(); }

  /// Of the thread that has the queue. Jobs are numbered from 0, through all that ever had it.
  void give(JobQueue::Job job, void* context) noexcept {
    const std::uint32_t number = jobs_given_.load(std::memory_order_relaxed);
    jobs_[number % JobQueue::kRoom] = {job, context};
    jobs_given_.store(number + 1, std::memory_order_seq_cst);
    if (first_sleeps_.load(std::memory_order_seq_cst)) wake(first_signal_);
  }
  std::uint32_t jobs_left() const noexcept {
    return jobs_given_.load(std::memory_order_relaxed) - jobs_done_.load(std::memory_order_acquire);
  }
  void finish_jobs() noexcept {
    std::uint32_t turns = 0;
    while (jobs_left() > 0)
      if (!do_job()) wait_a_turn(turns);
  }

  std::mutex in_use;
  std::atomic<bool> queue_in_use{false};

 private:
  /// Does the next job, if there is one and no other thread is at one.
  bool do_job() noexcept {
    if (job_taken_.exchange(true, std::memory_order_acquire)) return false;
    const std::uint32_t next = jobs_done_.load(std::memory_order_relaxed);
    const bool any = next != jobs_given_.load(std::memory_order_acquire);
    if (any) {
      const auto [job, context] = jobs_[next % JobQueue::kRoom];
      job(context);
      jobs_done_.store(next + 1, std::memory_order_release);
    }
    job_taken_.store(false, std::memory_order_release);
    return any;
  }
  bool has_jobs(std::memory_order order) const noexcept {
    return jobs_given_.load(order) != jobs_done_.load(std::memory_order_relaxed);
  }

  static void wake(std::atomic<std::uint32_t>& signal) noexcept {
    signal.fetch_add(1, std::memory_order_seq_cst);
    signal.notify_all();
  }
  void wake_all() noexcept {
    wake(first_signal_);
    wake(signal_);
  }

  /// Pieces [.., end) of a loop. The ticket holds the loop's generation and the next piece, so that a late worker cannot
  /// claim from a newer loop, and what it reads after a claim cannot change before it reports the piece done.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> ticket{0};
    std::atomic<std::uint32_t> end{0};
  };

  void claim_pieces(int own, std::uint32_t generation) noexcept {
    for (int i = 0; i < shares_used_; ++i) claim_from(shares_[(own + i) % shares_used_], generation);
  }
  void claim_from(Share& share, std::uint32_t generation) noexcept {
    std::uint64_t ticket = share.ticket.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(ticket >> 32) == generation) {
      const auto piece = static_cast<std::uint32_t>(ticket);
      if (piece >= share.end.load(std::memory_order_acquire)) return;
      if (!share.ticket.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
      run_(context_, count_ * piece / pieces_, count_ * (piece + std::int64_t{1}) / pieces_);
      done_.fetch_add(1, std::memory_order_release);
      ticket = share.ticket.load(std::memory_order_acquire);
    }
  }

  void work(int number) noexcept;
  /// Whether a worker has seen the loop that is open, and there is no job, which the first one does.
  bool is_idle(bool first, std::uint32_t seen, std::memory_order order) const noexcept {
    return current(order) == seen && !(first && has_jobs(order));
  }
  /// The loop that is open, or was the last one.
  std::uint32_t current(std::memory_order order) const noexcept {
    return static_cast<std::uint32_t>(shares_[0].ticket.load(order) >> 32);
  }

  static constexpr int kShares = 64;

  int shares_used_;
  std::vector<std::thread> workers_;
  RangeFunction run_ = nullptr;
  void* context_ = nullptr;
  std::int64_t count_ = 0, pieces_ = 0;
  std::uint32_t generation_ = 0;
  alignas(64) std::atomic<std::uint32_t> done_{0};
  Share shares_[kShares];
  alignas(64) std::atomic<std::uint32_t> signal_{0}, first_signal_{0};  // the second for the first worker
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};

  struct Queued {
    JobQueue::Job job;
    void* context;
  };
  alignas(64) std::atomic<std::uint32_t> jobs_given_{0};
  std::atomic<bool> first_sleeps_{false};
  Queued jobs_[JobQueue::kRoom];
  alignas(64) std::atomic<std::uint32_t> jobs_done_{0};
  std::atomic<bool> job_taken_{false};
};

namespace {

constinit thread_local bool inside_loop = false, real_time = false, rehearsal = false;

/// Of this thread, whose processors the workers inherit.
int allowed_processors() noexcept {
  for (int most = 1024; most <= 1 << 20; most *= 2) {  // the kernel refuses sets that are smaller than its own
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(most));
    if (set == nullptr) return 1;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return count;
  }
  return 1;
}

int default_threads() noexcept {
  if (const char* text = std::getenv("CAPSTAN_NUM_THREADS")) {
    const int count = std::atoi(text);
    if (count >= 1) return count < 1024 ? count : 1024;
  }
  const int count = std::min(allowed_processors(), 1024);
  const std::int64_t quota = ControlGroups().processors();
  return quota > 0 && quota < count ? static_cast<int>(quota) : count;
}

constinit std::atomic<int> budget{0};  // 0: not read yet

}  // namespace

void Pool::work(int number) noexcept {
  inside_loop = true;
  const bool first = number == 1;
  std::atomic<std::uint32_t>& signal = first ? first_signal_ : signal_;
  std::uint32_t seen = 0, turns = 0;
  while (!stop_.load()) {
    for (int spin = 0; spin < kSpinsBeforeSleep && is_idle(first, seen, std::memory_order_relaxed); ++spin) relax();
    if (is_idle(first, seen, std::memory_order_relaxed)) {
      const std::uint32_t before = signal.load(std::memory_order_seq_cst);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      if (first) first_sleeps_.store(true, std::memory_order_seq_cst);
      if (is_idle(first, seen, std::memory_order_seq_cst) && !stop_.load())
        signal.wait(before, std::memory_order_seq_cst);
      if (first) first_sleeps_.store(false, std::memory_order_seq_cst);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    seen = current(std::memory_order_acquire);
    claim_pieces(number % shares_used_, seen);
    if (first && has_jobs(std::memory_order_relaxed) && !do_job()) wait_a_turn(turns);
  }
}

namespace {

/// Never destroyed, and neither is its last pool: other threads may go on with both while the process exits.
struct PoolHolder {
  std::mutex mutex;
  Pool* pool = nullptr;
  int size = 0;
  std::atomic<bool> closed{false};

  void close() noexcept;
  void reset_in_child() noexcept;
};

/// At exit. Nobody makes workers from then on, and those there are end.
void PoolHolder::close() noexcept {
  closed.store(true);
  std::unique_lock lock(mutex, std::defer_lock);
  // not for ever: this thread may hold it, if a handler of a signal called exit(); workers then go with the process
  for (int i = 0; i < 1000 && !lock.try_lock(); ++i) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (lock && pool != nullptr) pool->end_workers();
}

/// In a forked child the workers do not exist; the old pool is left behind.
void PoolHolder::reset_in_child() noexcept {
  new (&mutex) std::mutex;
  if (pool != nullptr) pool->forget_workers();
  pool = nullptr;
}

PoolHolder& holder() noexcept;

struct AtExit {
  ~AtExit() { holder().close(); }
};

PoolHolder* make_holder(void* place) noexcept {
  static const AtExit at_exit{};
  pthread_atfork(nullptr, nullptr, [] { holder().reset_in_child(); });
  return new (place) PoolHolder;
}

PoolHolder& holder() noexcept {
  alignas(PoolHolder) static unsigned char place[sizeof(PoolHolder)];
  static PoolHolder* const instance = make_holder(place);
  return *instance;
}

/// OpenBLAS makes its threads as it is loaded, and for a tenth of a second they look for work on the processors that
/// our loops want. Where the program or this library links it they end here, if the process has no others that could be
/// using them. It makes new ones when it needs any: for products of the user's own, or before the first LAPACK routine.
void end_idle_threads() noexcept {
  struct stat tasks;
  if (blas_thread_shutdown_ == nullptr || openblas_get_num_threads == nullptr) return;
  if (stat("/proc/self/task", &tasks) != 0) return;
  const int count = static_cast<int>(tasks.st_nlink) - 2;  // a folder each
  if (count > 1 && count == openblas_get_num_threads()) blas_thread_shutdown_();
}

/// The pool, of which `take` has taken what it wants, or null if that is in use or the pool cannot be had.
template <class Take>
Pool* acquire_pool(Take take) noexcept {
  PoolHolder& owner = holder();
  std::unique_lock lock(owner.mutex, std::try_to_lock);
  if (!lock || owner.closed.load()) return nullptr;
  const int size = threads();
  // one whose queue is in use stays as it is, since that may take as long as a replay
  if (owner.pool == nullptr || (owner.size != size && !owner.pool->queue_in_use.load())) {
    if (owner.pool == nullptr) end_idle_threads();
    if (owner.pool != nullptr && !owner.pool->in_use.try_lock()) return nullptr;
    if (owner.pool != nullptr) owner.pool->in_use.unlock();
    delete owner.pool;
    owner.pool = new (std::nothrow) Pool(size - 1);
    owner.size = size;
    if (owner.pool == nullptr) return nullptr;
  }
  return take(*owner.pool) ? owner.pool : nullptr;
}

}  // namespace

RealTimeScope::RealTimeScope(bool is_rehearsal) noexcept
    : inside_before_(std::exchange(inside_loop, true)),
      real_time_before_(std::exchange(real_time, true)),
      rehearsal_before_(std::exchange(rehearsal, is_rehearsal)) {}
RealTimeScope::~RealTimeScope() {
  inside_loop = inside_before_;
  real_time = real_time_before_;
  rehearsal = rehearsal_before_;
}

bool in_real_time() noexcept { return real_time; }
bool rehearses() noexcept { return rehearsal; }

bool splits(std::int64_t count, std::int64_t grain) noexcept {
  return count >= 2 * grain && !inside_loop && threads() > 1;
}

namespace {

std::int64_t pieces_of(std::int64_t count, std::int64_t grain) noexcept {
  const std::int64_t size = threads(), pieces = std::min(count / grain, size * kPiecesPerThread);
  return pieces > size ? pieces - pieces % size : pieces;  // as many for each
}

}  // namespace

Range share_of(std::int64_t thread, std::int64_t count) noexcept {
  const std::int64_t pieces = pieces_of(count, 1), size = threads();
  const auto first = [=](std::int64_t share) { return count * first_piece(pieces, share, size) / pieces; };
  return {first(thread), first(thread + 1)};
}

void parallel_ranges(std::int64_t count, std::int64_t grain, RangeFunction run, void* context) noexcept {
  const std::int64_t pieces = pieces_of(count, grain);
  Pool* pool = acquire_pool([](Pool& of) { return of.in_use.try_lock(); });
  if (pool == nullptr) {
    run(context, 0, count);
    return;
  }
  inside_loop = true;
  pool->run(count, static_cast<std::uint32_t>(pieces), run, context);
  inside_loop = false;
  pool->in_use.unlock();
}

JobQueue::JobQueue() noexcept
    : pool_(inside_loop || threads() == 1 ? nullptr : acquire_pool([](Pool& of) {
        return of.has_workers() && !of.queue_in_use.exchange(true, std::memory_order_acquire);
      })) {}
JobQueue::~JobQueue() {
  if (pool_ == nullptr) return;
  finish();
  pool_->queue_in_use.store(false, std::memory_order_release);
}
void JobQueue::give(Job job, void* context) noexcept {
  ++given_;
  pool_->give(job, context);
}
std::uint32_t JobQueue::done() const noexcept { return given_ - pool_->jobs_left(); }
void JobQueue::finish() noexcept { pool_->finish_jobs(); }

}  // namespace base

int threads() noexcept {
  if (base::real_time) return 1;
  int count = base::budget.load(std::memory_order_relaxed);
  if (count == 0) {
    count = base::default_threads();
    base::budget.store(count, std::memory_order_relaxed);
  }
  return count;
}

void set_threads(int count, Where where) {
  if (count < 1)
    base::fail<Error>(where, "set_threads: ", count, " threads were asked for; the count must be at least 1.");
  base::budget.store(count < 1024 ? count : 1024, std::memory_order_relaxed);
}

}  // namespace capstan
