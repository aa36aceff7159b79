#include "lib/core/page_heap.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace capstan::core {
namespace {

constexpr std::uintptr_t kHugePage = 2 << 20;
constexpr std::uintptr_t kFirstChunk = 8 << 20, kLargestChunk = 64 << 20;  // address space: pages come when touched

constexpr std::uintptr_t rounded_up(std::uintptr_t x, std::uintptr_t unit) { return (x + unit - 1) / unit * unit; }

void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

void unmap(std::uintptr_t begin, std::uintptr_t end) noexcept {
  if (begin < end) munmap(pointer_to(begin), end - begin);
}

/// Where whole huge pages begin, `bytes` of them; 0 if the system has no more.
std::uintptr_t map_huge_pages(std::uintptr_t bytes) noexcept {
  void* const mapped =
      mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped), first = rounded_up(begin, kHugePage);
  unmap(begin, first);
  unmap(first + bytes, begin + bytes + kHugePage);
#if defined(__linux__)
  madvise(pointer_to(first), bytes, MADV_HUGEPAGE);
#endif
  return first;
}

}  // namespace

bool PageHeap::add_chunk(std::uintptr_t bytes) {
  chunks_.reserve(chunks_.size() + 1);
  const std::uintptr_t wanted = std::min(kFirstChunk << std::min<std::size_t>(chunks_.size(), 3), kLargestChunk);
  const std::uintptr_t size = rounded_up(std::max(bytes, wanted), kHugePage), begin = map_huge_pages(size);
  if (begin == 0) return false;
  for (std::vector<Range>* ranges : {&chunks_, &free_})
    ranges->insert(std::upper_bound(ranges->begin(), ranges->end(), begin,
                                    [](std::uintptr_t at, const Range& range) { return at < range.begin; }),
                   {begin, begin + size});
  return true;
}

void* PageHeap::allocate(std::int64_t bytes) noexcept {
  const auto size = static_cast<std::uintptr_t>(bytes);
  const auto find = [&] {
    return std::find_if(free_.begin(), free_.end(), [&](const Range& range) { return range.end - range.begin >= size; });
  };
  try {
    const std::size_t most = (blocks_ + 1) + (chunks_.size() + 1);
    if (free_.capacity() < most) free_.reserve(2 * most);
    if (find() == free_.end() && !add_chunk(size)) return nullptr;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  const auto found = find();
  const std::uintptr_t block = found->begin;
  found->begin += size;
  if (found->begin == found->end) free_.erase(found);
  ++blocks_;
  return pointer_to(block);
}

/// The free range that the block is part of now.
std::vector<PageHeap::Range>::iterator PageHeap::give_back(const Range& chunk, const Range& block) noexcept {
  const auto next = std::upper_bound(free_.begin(), free_.end(), block.begin,
                                     [](std::uintptr_t at, const Range& range) { return at < range.begin; });
  const bool joins_next = next != free_.end() && next->begin == block.end && block.end < chunk.end;
  const bool joins_last = next != free_.begin() && (next - 1)->end == block.begin && block.begin > chunk.begin;
  if (joins_last) {
    (next - 1)->end = joins_next ? next->end : block.end;
    return joins_next ? free_.erase(next) - 1 : next - 1;
  }
  if (!joins_next) return free_.insert(next, block);
  next->begin = block.begin;
  return next;
}

bool PageHeap::deallocate(void* block, std::int64_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(block), end = begin + static_cast<std::uintptr_t>(bytes);
  const auto chunk = std::find_if(chunks_.begin(), chunks_.end(),
                                  [&](const Range& range) { return range.begin <= begin && begin < range.end; });
  if (chunk == chunks_.end()) return false;
  --blocks_;
  const auto free = give_back(*chunk, {begin, end});
  if (free->begin == chunk->begin && free->end == chunk->end) {
    unmap(chunk->begin, chunk->end);
    free_.erase(free);
    chunks_.erase(chunk);
    return true;
  }
#if defined(__linux__)
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = std::max(rounded_up(free->begin, page), begin / page * page),
                       last = std::min(free->end / page * page, rounded_up(end, page));
  if (first < last) madvise(pointer_to(first), last - first, MADV_DONTNEED);
#endif
  return true;
}

}  // namespace capstan::core
