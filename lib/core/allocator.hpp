#pragma once
// The caching allocator of the CPU: size classes, a cache for each thread, a shared cache behind it.
//
// Blocks start at multiples of 64 bytes. Whoever frees a block says how large it was, so blocks carry no header.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <capstan/error.hpp>
#include <capstan/memory.hpp>

#if defined(__SANITIZE_ADDRESS__)
#define CAPSTAN_ADDRESS_SANITIZER
#elif defined(__has_feature)  // so clang says it
#if __has_feature(address_sanitizer)
#define CAPSTAN_ADDRESS_SANITIZER
#endif
#endif
#if defined(CAPSTAN_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace capstan::core {

/// What size classes from 4 KiB on have room for beside powers of two and the quarters between them.
inline constexpr std::int64_t kHeaderRoom = 256;

/// The line that errors of a kernel name, which is not told its caller's: where this thread last asked for a table of
/// kernels. In a thread that did not, the line of the call itself.
Where calling_place(Where here = Where::current()) noexcept;

/// At least `bytes` bytes. Throws OutOfMemoryError. `bytes` = 0 gives a block too.
void* allocate(std::int64_t bytes, Where where);
void deallocate(void* block, std::int64_t bytes) noexcept;

/// A block for the duration of a kernel; never throws while it is held.
template <class T>
class Scratch {
 public:
  Scratch(std::int64_t count, Where where)
      : bytes_(count * static_cast<std::int64_t>(sizeof(T))),
        data_(count == 0 ? nullptr : static_cast<T*>(allocate(bytes_, where))) {}
  ~Scratch() { deallocate(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() noexcept { return data_; }
  const T* data() const noexcept { return data_; }
  T& operator[](std::int64_t i) noexcept { return data_[i]; }

 private:
  std::int64_t bytes_;
  T* data_;
};

/// The same for a standard container that a kernel fills.
template <class T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() noexcept = default;
  template <class U>
  ScratchAllocator(const ScratchAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(core::allocate(static_cast<std::int64_t>(count * sizeof(T)), calling_place()));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    core::deallocate(block, static_cast<std::int64_t>(count * sizeof(T)));
  }
  friend bool operator==(const ScratchAllocator&, const ScratchAllocator&) noexcept { return true; }
};
template <class T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

struct ThreadCache;

/// Free blocks that belong to nobody else. While a `Use` of it lives, this thread takes blocks from there and gives them
/// back there, without a lock; only what is not there comes from the caches behind.
class BlockCache {
 public:
  BlockCache();
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  class Use {
   public:
    explicit Use(BlockCache& cache) noexcept;
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ThreadCache* before_;
  };

 private:
  ThreadCache* cache_;
};

memory::Stats cpu_memory_stats();
std::int64_t cpu_total_memory() noexcept;  // bytes of the machine, or what control groups allow; 0 if unknown
void set_cpu_memory_limit(std::int64_t bytes);
void set_cpu_cache_limit(std::int64_t bytes);
void release_cpu_cache();
void reset_cpu_peak();

}  // namespace capstan::core

namespace capstan::testing {
/// Fills fresh blocks with that value, so that tests find elements that are read before they are written.
void poison_buffers(bool on, double value = 0);
}  // namespace capstan::testing
