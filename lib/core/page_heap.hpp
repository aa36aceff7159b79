#pragma once
// Memory of the system for blocks that share huge pages.
//
// Blocks of some KB up to a few MB would lie on pages of 4 KiB, of which a step of a network touches thousands, more
// than a processor knows the places of. Here they lie side by side in chunks of 2 MiB pages, if the system has those.
#include <cstdint>
#include <vector>

namespace capstan::core {

/// Takes the first place that is large enough. For one thread at a time. Sizes are multiples of 64 bytes; so are the
/// addresses.
class PageHeap {
 public:
  /// Null if the system has no more.
  void* allocate(std::int64_t bytes) noexcept;
  /// Takes a block back, and gives the pages that no other block lies on to the system. False if it is not from here.
  bool deallocate(void* block, std::int64_t bytes) noexcept;

 private:
  struct Range {
    std::uintptr_t begin, end;
  };

  bool add_chunk(std::uintptr_t bytes);
  std::vector<Range>::iterator give_back(const Range& chunk, const Range& block) noexcept;

  // By address. A chunk with n blocks has up to n + 1 free ranges, and there is room for all, so none is added in vain.
  std::vector<Range> chunks_, free_;
  std::size_t blocks_ = 0;
};

}  // namespace capstan::core
