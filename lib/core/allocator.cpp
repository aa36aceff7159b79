#include "lib/core/allocator.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "lib/base/control_groups.hpp"
#include "lib/base/text.hpp"
#include "lib/core/page_heap.hpp"

namespace capstan::core {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kHugePage = 2 << 20, kHugeBytes = 2 * kHugePage;  // blocks with huge pages of their own
[[maybe_unused]] constexpr std::int64_t kSharingBytes = 4 << 10;         // blocks from there on share them,
[[maybe_unused]] constexpr std::int64_t kFewBytes = 1 << 20;  // once so much is reserved: small programs stay small
constexpr std::int64_t kUnreleasedBytes = 16 << 20;  // that the system gets back together, beyond the limit of a cache
constexpr std::int64_t kBareBytes = 7 << 9;          // of the largest class without room for a header
constexpr int kLinearClasses = 16;                   // 64, 128, ..., 1024
constexpr std::int64_t kLinearBytes = kLinearClasses * kAlignment;
constexpr int kClasses = kLinearClasses + 4 * 38;
constexpr std::int64_t kLargestCachedByThread = (64 << 10) + kHeaderRoom;
constexpr std::int64_t kThreadCacheBytes = 272 << 10;  // of one class: four blocks of the largest

/// Multiples of 64 bytes up to 1 KiB, then four classes for every doubling. From 4 KiB on they have room for a header,
/// too: otherwise a tensor of 4 MiB would take 5.
int class_of(std::int64_t bytes) noexcept {
  if (bytes <= kLinearBytes) return static_cast<int>((bytes - (bytes > 0 ? 1 : 0)) >> 6);
  if (bytes > kBareBytes) bytes = std::max(bytes - kHeaderRoom, kBareBytes + 1);
  const int log = std::bit_width(static_cast<std::uint64_t>(bytes - 1)) - 1;  // 2^log < bytes <= 2^(log+1), log >= 10
  return kLinearClasses + (log - 10) * 4 + static_cast<int>(((bytes - 1) >> (log - 2)) & 3);
}

constexpr std::int64_t class_bytes(int index) noexcept {
  if (index < kLinearClasses) return (index + 1) * kAlignment;
  const int log = (index - kLinearClasses) / 4 + 10, quarter = (index - kLinearClasses) % 4;
  const std::int64_t bytes = (std::int64_t{1} << (log - 2)) * (5 + quarter);
  return bytes > kBareBytes ? bytes + kHeaderRoom : bytes;
}

/// How many blocks of each class a thread keeps.
constexpr auto kThreadLimits = [] {
  std::array<std::int32_t, kClasses> limits{};
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const std::int64_t bytes = class_bytes(static_cast<int>(i));
    limits[i] = bytes > kLargestCachedByThread ? 0 : static_cast<std::int32_t>(kThreadCacheBytes / bytes);
  }
  return limits;
}();
std::int32_t thread_limit(int index) noexcept { return kThreadLimits[static_cast<std::size_t>(index)]; }

struct FreeBlock {
  FreeBlock* next;
};

/// Blocks of one class. Only the thread whose they are changes them; others read how many there are.
struct Bin {
  FreeBlock* head = nullptr;
  std::atomic<std::int32_t> room{0};  // for so many more blocks

  void push(FreeBlock* block) noexcept {
    block->next = head;
    head = block;
    room.store(room.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  }
  FreeBlock* pop() noexcept {
    FreeBlock* const block = head;
    head = block->next;
    room.store(room.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return block;
  }
};

/// What all threads share. Never destroyed, so that tensors with static lifetime may go at any time.
struct Shared {
  std::mutex mutex;
  FreeBlock* bins[kClasses] = {};
  ThreadCache* threads = nullptr;  // all that live
  std::int64_t cached = 0;
  std::int64_t limit = 0;
  std::int64_t cache_limit = 0;
  std::int64_t peak = 0;
  std::int64_t system_allocations = 0;
  std::atomic<std::int64_t> reserved{0};
  PageHeap pages;

  Shared() {
    const std::int64_t total = cpu_total_memory();
    cache_limit = total > 0 ? total / 4 : std::int64_t{1} << 30;
  }
};

void keep_whole_when_forked() noexcept;

Shared& shared() {
  alignas(Shared) static unsigned char place[sizeof(Shared)];
  static Shared* instance = [] {
    keep_whole_when_forked();
    return new (place) Shared;
  }();
  return *instance;
}

constinit std::atomic<std::uint32_t> release_requests{0};
constinit std::atomic<bool> poison{false};
constinit std::atomic<double> poison_value{0};

}  // namespace

/// Blocks that are taken and given without a lock: those of a thread, or of a BlockCache.
struct ThreadCache {
  Bin bins[kClasses];
  std::uint32_t seen_requests = 0;
  const bool keeps_all;  // whatever their size and number, and whoever asks for them
  ThreadCache* next = nullptr;
  ThreadCache* previous = nullptr;

  explicit ThreadCache(bool keeps);
  ~ThreadCache();
  std::int32_t limit(int index) const noexcept { return keeps_all ? INT32_MAX : thread_limit(index); }
  std::int32_t count(int index) const noexcept {
    return limit(index) - bins[index].room.load(std::memory_order_relaxed);
  }
  std::int64_t cached() const noexcept {  // bytes
    std::int64_t sum = 0;
    for (int i = 0; i < kClasses; ++i) sum += class_bytes(i) * count(i);
    return sum;
  }
  bool is_asked() const noexcept { return seen_requests != release_requests.load(std::memory_order_relaxed); }
  void give(int index, FreeBlock* block) noexcept {
    ASAN_POISON_MEMORY_REGION(block + 1, static_cast<std::size_t>(class_bytes(index)) - sizeof(FreeBlock));
    bins[index].push(block);
  }
  /// One must be there.
  FreeBlock* take(int index) noexcept {
    ASAN_UNPOISON_MEMORY_REGION(bins[index].head, static_cast<std::size_t>(class_bytes(index)));
    return bins[index].pop();
  }
  void flush(int index, std::int32_t keep) noexcept;
  void flush_all() noexcept {
    for (int i = 0; i < kClasses; ++i) flush(i, 0);
  }
};

namespace {

constinit thread_local ThreadCache* this_thread = nullptr;
constinit thread_local bool thread_is_over = false;
constinit thread_local ThreadCache* own_cache = nullptr;  // also while a BlockCache is used

/// The cache of a thread, which goes with it.
struct OwnCache : ThreadCache {
  OwnCache() : ThreadCache(false) { own_cache = this; }
  ~OwnCache() {
    this_thread = own_cache = nullptr;
    thread_is_over = true;
  }
};

/// In a forked child, which has the memory of the other threads' caches only until it starts threads itself. What is in
/// them may be half changed: it is lost, and no longer counted.
void forget_other_threads(Shared& all) noexcept {
  for (const ThreadCache* cache = all.threads; cache != nullptr; cache = cache->next) {
    if (cache->keeps_all || cache == own_cache) continue;  // a BlockCache goes with its plan
    all.reserved.fetch_sub(cache->cached(), std::memory_order_relaxed);
    (cache->previous != nullptr ? cache->previous->next : all.threads) = cache->next;
    if (cache->next != nullptr) cache->next->previous = cache->previous;
  }
}

/// Nobody is in the middle of a change of the shared cache at a fork.
void keep_whole_when_forked() noexcept {
  pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); },
                 [] {
                   forget_other_threads(shared());
                   shared().mutex.unlock();
                 });
}

void free_to_system(FreeBlock* block, std::int64_t bytes) noexcept {
  ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(bytes));
  if (!shared().pages.deallocate(block, bytes)) std::free(block);
  shared().reserved.fetch_sub(bytes, std::memory_order_relaxed);
}

void trim_shared(Shared& all, std::int64_t target) noexcept {
  for (int i = kClasses - 1; i >= 0 && all.cached > target; --i) {
    while (all.bins[i] != nullptr && all.cached > target) {
      FreeBlock* block = all.bins[i];
      all.bins[i] = block->next;
      all.cached -= class_bytes(i);
      free_to_system(block, class_bytes(i));
    }
  }
}

/// All that is in the shared cache, and what was trimmed before, goes back to the system.
void release_shared() noexcept {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  trim_shared(all, 0);
  all.pages.release();
}

void give_to_shared(Shared& all, int index, FreeBlock* block) noexcept {
  block->next = all.bins[index];
  all.bins[index] = block;
  all.cached += class_bytes(index);
  if (all.cached <= all.cache_limit) return;
  trim_shared(all, all.cache_limit);
  if (all.pages.unreleased() > kUnreleasedBytes) all.pages.release();
}

}  // namespace

ThreadCache::ThreadCache(bool keeps) : keeps_all(keeps) {
  for (int i = 0; i < kClasses; ++i) bins[i].room.store(limit(i), std::memory_order_relaxed);
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  next = all.threads;
  if (next != nullptr) next->previous = this;
  all.threads = this;
  seen_requests = release_requests.load(std::memory_order_relaxed);
}

ThreadCache::~ThreadCache() {
  flush_all();
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  (previous != nullptr ? previous->next : all.threads) = next;
  if (next != nullptr) next->previous = previous;
}

void ThreadCache::flush(int index, std::int32_t keep) noexcept {
  if (count(index) <= keep) return;
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  while (count(index) > keep) give_to_shared(all, index, bins[index].pop());
}

namespace {

ThreadCache* make_thread_cache() noexcept {
  if (thread_is_over) return nullptr;
  thread_local OwnCache cache;
  this_thread = &cache;
  return &cache;
}

/// Moves some blocks of a class from the shared cache to the thread's; true if there was one.
bool refill(ThreadCache& cache, Shared& all, int index) noexcept {
  const std::int32_t want = 1 + thread_limit(index) / 4;
  std::int32_t moved = 0;
  for (; moved < want && all.bins[index] != nullptr; ++moved) {
    FreeBlock* block = all.bins[index];
    all.bins[index] = block->next;
    cache.bins[index].push(block);
  }
  all.cached -= class_bytes(index) * moved;
  return moved > 0;
}

[[noreturn]] __attribute__((noinline, cold)) void out_of_memory(std::int64_t bytes, bool limited, Where where) {
  const memory::Stats now = cpu_memory_stats();
  base::fail<OutOfMemoryError>(where, "allocate: ", bytes, " bytes on cpu were asked for with ", now.in_use,
                               " in use and ", now.cached, " cached; ",
                               limited
                                   ? base::join("the limit is ", std::int64_t{shared().limit}, " (memory::set_limit).")
                                   : std::string("the system has no more."));
}

/// Null if the system has no more.
void* new_block([[maybe_unused]] Shared& all, std::int64_t bytes) noexcept {
#if !defined(CAPSTAN_ADDRESS_SANITIZER)  // which looks after the ends of what is allocated one by one
  if (bytes >= kSharingBytes && bytes < kHugeBytes && all.reserved.load(std::memory_order_relaxed) >= kFewBytes)
    if (void* const block = all.pages.allocate(bytes); block != nullptr) return block;
#endif
  const std::int64_t alignment = bytes >= kHugeBytes ? kHugePage : kAlignment;
  void* block = nullptr;
  if (posix_memalign(&block, static_cast<std::size_t>(alignment), static_cast<std::size_t>(bytes)) != 0) return nullptr;
#if defined(__linux__)
  if (bytes >= kHugeBytes) madvise(block, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);  // fewer page-table misses
#endif
  return block;
}

void* system_allocate(std::int64_t bytes, std::int64_t asked, Where where) {
  Shared& all = shared();
  void* block = nullptr;
  bool limited = false;
  for (int attempt = 0; attempt < 2 && block == nullptr; ++attempt) {
    if (attempt == 1) release_cpu_cache();
    const std::lock_guard lock(all.mutex);
    limited = all.limit > 0 && all.reserved.load(std::memory_order_relaxed) + bytes > all.limit;
    if (limited) continue;
    block = new_block(all, bytes);
    if (block == nullptr) continue;
    const std::int64_t reserved = all.reserved.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (reserved > all.peak) all.peak = reserved;
    ++all.system_allocations;
  }
  if (block == nullptr) out_of_memory(asked, limited, where);
  return block;
}

__attribute__((noinline, cold)) void fill_with_poison(void* block, std::int64_t bytes) noexcept {
  const double value = poison_value.load(std::memory_order_relaxed);
  for (std::int64_t i = 0; i < bytes / 8; ++i) static_cast<double*>(block)[i] = value;
}

void answer_release_request(ThreadCache& cache) noexcept {
  cache.seen_requests = release_requests.load(std::memory_order_relaxed);
  cache.flush_all();
  release_shared();
}

__attribute__((noinline)) void* allocate_slowly(int index, std::int64_t asked, Where where) {
  ThreadCache* cache = this_thread != nullptr ? this_thread : make_thread_cache();
  Shared& all = shared();
  if (cache != nullptr && !cache->keeps_all && cache->is_asked()) answer_release_request(*cache);
  if (cache != nullptr) {
    const std::lock_guard lock(all.mutex);
    if (!refill(*cache, all, index)) cache = nullptr;
  }
  return cache == nullptr ? system_allocate(class_bytes(index), asked, where) : cache->take(index);
}

/// Of a thread that has no cache yet or was asked for its blocks, or of a class that it keeps no more of.
__attribute__((noinline)) void deallocate_slowly(int index, FreeBlock* block) noexcept {
  ThreadCache* cache = this_thread != nullptr ? this_thread : make_thread_cache();
  if (cache == nullptr || cache->limit(index) == 0) {
    Shared& all = shared();
    const std::lock_guard lock(all.mutex);
    give_to_shared(all, index, block);
    return;
  }
  cache->give(index, block);
  if (cache->keeps_all) cache->seen_requests = release_requests.load(std::memory_order_relaxed);
  else if (cache->is_asked()) answer_release_request(*cache);
  else if (cache->count(index) > cache->limit(index)) cache->flush(index, cache->count(index) / 2);
}

}  // namespace

void* allocate(std::int64_t bytes, Where where) {
  if (bytes > (std::int64_t{1} << 47)) [[unlikely]]
    out_of_memory(bytes, false, where);
  const int index = class_of(bytes);
  ThreadCache* cache = this_thread;
  void* block;
  if (cache != nullptr && cache->bins[index].head != nullptr) [[likely]]
    block = cache->take(index);
  else block = allocate_slowly(index, bytes, where);
  if (poison.load(std::memory_order_relaxed)) [[unlikely]]
    fill_with_poison(block, class_bytes(index));
  return block;
}

void deallocate(void* block, std::int64_t bytes) noexcept {
  if (block == nullptr) return;
  const int index = class_of(bytes);
  auto* free_block = static_cast<FreeBlock*>(block);
  ThreadCache* cache = this_thread;
  if (cache == nullptr || cache->bins[index].room.load(std::memory_order_relaxed) <= 0 || cache->is_asked())
      [[unlikely]]
    return deallocate_slowly(index, free_block);
  cache->give(index, free_block);
}

BlockCache::BlockCache() : cache_(new ThreadCache(true)) {}
BlockCache::~BlockCache() { delete cache_; }
BlockCache::Use::Use(BlockCache& cache) noexcept : before_(std::exchange(this_thread, cache.cache_)) {}
BlockCache::Use::~Use() { this_thread = before_; }

std::int64_t cpu_total_memory() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const std::int64_t machine = pages > 0 && page > 0 ? std::int64_t{pages} * page : 0;
  const std::int64_t allowed = base::ControlGroups().memory_bytes();
  return machine > 0 && allowed > 0 ? std::min(machine, allowed) : std::max(machine, allowed);
}

memory::Stats cpu_memory_stats() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  memory::Stats stats;
  stats.reserved = all.reserved.load(std::memory_order_relaxed);
  stats.cached = all.cached;
  for (const ThreadCache* cache = all.threads; cache != nullptr; cache = cache->next) stats.cached += cache->cached();
  stats.in_use = stats.reserved - stats.cached;
  stats.peak_reserved = all.peak;
  stats.system_allocations = all.system_allocations;
  return stats;
}

void set_cpu_memory_limit(std::int64_t bytes) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.limit = bytes;
}

void set_cpu_cache_limit(std::int64_t bytes) {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.cache_limit = bytes;
  trim_shared(all, bytes);
  all.pages.release();
}

void release_cpu_cache() {
  release_requests.fetch_add(1, std::memory_order_relaxed);
  if (this_thread != nullptr && !this_thread->keeps_all) {
    answer_release_request(*this_thread);
    return;
  }
  release_shared();
}

void reset_cpu_peak() {
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  all.peak = all.reserved.load(std::memory_order_relaxed);
}

}  // namespace capstan::core

namespace capstan::testing {

void poison_buffers(bool on, double value) {
  core::poison_value.store(value);
  core::poison.store(on);
}

}  // namespace capstan::testing
