#pragma once
// Memory of the system for blocks that share huge pages.
//
// Blocks of some KB up to a few MB would lie on pages of 4 KiB, of which a step of a network touches thousands, more
// than a processor knows the places of. Here they lie side by side in chunks of 2 MiB pages, if the system has those.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace capstan::core {

/// Memory straight from the C library: a handler of `new` may ask for what the caller has locked.
template <class T>
struct MallocAllocator {
  using value_type = T;
  MallocAllocator() noexcept = default;
  template <class U>
  MallocAllocator(const MallocAllocator<U>&) noexcept {}
  T* allocate(std::size_t count) {
    void* const block = std::malloc(count * sizeof(T));
    if (block == nullptr) throw std::bad_alloc();
    return static_cast<T*>(block);
  }
  void deallocate(T* block, std::size_t) noexcept { std::free(block); }
  friend bool operator==(const MallocAllocator&, const MallocAllocator&) noexcept { return true; }
};

/// For one thread at a time, and for good: it has no end. A block takes the first place that is large enough. Sizes are
/// multiples of 64 bytes; so are addresses.
class PageHeap {
 public:
  PageHeap() = default;
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  /// Null if the system has no more.
  void* allocate(std::int64_t bytes) noexcept;
  /// Takes a block back, for other blocks; false if it is not from here.
  bool deallocate(void* block, std::int64_t bytes) noexcept;
  /// Gives the system the huge pages that no block lies on.
  void release() noexcept;
  /// Bytes of blocks that came back since the last release, but for those that were taken again at once.
  std::int64_t unreleased() const noexcept { return unreleased_; }

 private:
  struct Range {
    std::uintptr_t begin, end;
  };
  using Ranges = std::vector<Range, MallocAllocator<Range>>;

  Ranges::iterator place_for(std::uintptr_t bytes) noexcept;
  bool add_chunk(std::uintptr_t bytes);
  void join() noexcept;

  // By address, but for `back_`: blocks that came back and are not joined to `free_` yet. Whoever takes a block sees to
  // it that all blocks have room in both.
  Ranges chunks_, free_, back_;
  std::size_t blocks_ = 0;
  std::int64_t unreleased_ = 0;
};

}  // namespace capstan::core
