#include "lib/core/page_heap.hpp"

#include <sys/mman.h>

#include <algorithm>

namespace capstan::core {
namespace {

constexpr std::uintptr_t kHugePage = 2 << 20;
constexpr std::uintptr_t kFirstChunk = 4 * kHugePage;  // of addresses, which take memory when they are touched
constexpr std::size_t kDoublings = 3;  // of further chunks, for at the end of each may be no place for another block

constexpr std::uintptr_t rounded_up(std::uintptr_t x, std::uintptr_t unit) { return (x + unit - 1) / unit * unit; }

void* pointer_to(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

bool unmap(std::uintptr_t begin, std::uintptr_t end) noexcept {
  return begin == end || munmap(pointer_to(begin), end - begin) == 0;
}

/// So many bytes from the beginning of a huge page on; 0 if the system has no more.
std::uintptr_t map_huge_pages(std::uintptr_t bytes) noexcept {
  void* const mapped = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped), first = rounded_up(begin, kHugePage);
  unmap(begin, first);
  unmap(first + bytes, begin + bytes + kHugePage);
#if defined(__linux__)
  madvise(pointer_to(first), bytes, MADV_HUGEPAGE);
#endif
  return first;
}

void leave_empty([[maybe_unused]] std::uintptr_t begin, [[maybe_unused]] std::uintptr_t end) noexcept {
#if defined(__linux__)
  if (begin < end) madvise(pointer_to(begin), end - begin, MADV_DONTNEED);
#endif
}

constexpr auto kByAddress = [](const auto& a, const auto& b) { return a.begin < b.begin; };

}  // namespace

PageHeap::Ranges::iterator PageHeap::place_for(std::uintptr_t bytes) noexcept {
  return std::find_if(free_.begin(), free_.end(), [&](const Range& range) { return range.end - range.begin >= bytes; });
}

bool PageHeap::add_chunk(std::uintptr_t bytes) {
  chunks_.reserve(chunks_.size() + 1);
  const std::uintptr_t wanted = kFirstChunk << std::min(chunks_.size(), kDoublings);
  const std::uintptr_t size = rounded_up(std::max(bytes, wanted), kHugePage), begin = map_huge_pages(size);
  if (begin == 0) return false;
  const Range chunk{begin, begin + size};
  for (Ranges* ranges : {&chunks_, &free_})
    ranges->insert(std::upper_bound(ranges->begin(), ranges->end(), chunk, kByAddress), chunk);
  return true;
}

void* PageHeap::allocate(std::int64_t bytes) noexcept {
  const auto size = static_cast<std::uintptr_t>(bytes);
  if (!back_.empty() && back_.back().end - back_.back().begin == size) {  // still in the caches
    const std::uintptr_t block = back_.back().begin;
    back_.pop_back();
    ++blocks_;
    unreleased_ -= bytes;
    return pointer_to(block);
  }
  try {
    // There may be a free place before each block and one behind the last block of a chunk, and this may add a block
    // and a chunk. What came back counts twice, since `join` adds it before it makes fewer of all.
    const std::size_t most = 2 * (blocks_ + 1 + back_.size()) + chunks_.size() + 1;
    for (Ranges* ranges : {&free_, &back_})
      if (ranges->capacity() < most) ranges->reserve(2 * most);
    if (place_for(size) == free_.end()) join();
    if (place_for(size) == free_.end() && !add_chunk(size)) return nullptr;
  } catch (const std::bad_alloc&) { return nullptr; }
  const auto found = place_for(size);
  const std::uintptr_t block = found->begin;
  found->begin += size;
  if (found->begin == found->end) free_.erase(found);
  ++blocks_;
  return pointer_to(block);
}

bool PageHeap::deallocate(void* block, std::int64_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(block);
  const auto behind = std::upper_bound(chunks_.begin(), chunks_.end(), Range{begin, begin}, kByAddress);
  if (behind == chunks_.begin() || begin >= (behind - 1)->end) return false;
  back_.push_back({begin, begin + static_cast<std::uintptr_t>(bytes)});
  --blocks_;
  unreleased_ += bytes;
  return true;
}

/// What came back becomes free. Places side by side in a chunk become one.
void PageHeap::join() noexcept {
  if (back_.empty()) return;
  free_.insert(free_.end(), back_.begin(), back_.end());
  back_.clear();
  std::sort(free_.begin(), free_.end(), kByAddress);
  auto last = free_.begin();
  for (auto next = last + 1; next != free_.end(); ++next) {
    const bool other_chunk = std::binary_search(chunks_.begin(), chunks_.end(), *next, kByAddress);
    if (last->end == next->begin && !other_chunk) last->end = next->end;
    else *++last = *next;
  }
  free_.erase(last + 1, free_.end());
}

void PageHeap::release() noexcept {
  join();
  unreleased_ = 0;
  std::erase_if(free_, [&](const Range& range) {
    const auto chunk = std::lower_bound(chunks_.begin(), chunks_.end(), range, kByAddress);
    const bool is_chunk = chunk != chunks_.end() && chunk->begin == range.begin && chunk->end == range.end;
    if (!is_chunk || !unmap(range.begin, range.end)) {
      leave_empty(rounded_up(range.begin, kHugePage), range.end / kHugePage * kHugePage);
      return false;
    }
    chunks_.erase(chunk);
    return true;
  });
}

}  // namespace capstan::core
