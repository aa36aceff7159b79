// Blocks that share huge pages: where they lie, what is given back, and that nothing of a neighbour goes with it.
#include "lib/core/page_heap.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "lib/core/allocator.hpp"
#include "tests/address_limit.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kKilobyte = 1 << 10, kMegabyte = 1 << 20, kHugePage = 2 * kMegabyte, kFirstChunk = 4 * kHugePage;

std::uintptr_t address(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

enum class Page { resident, empty, unmapped };
Page page_at(const void* at) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  if (mincore(reinterpret_cast<void*>(address(at) / page * page), page, &resident) != 0) return Page::unmapped;
  return (resident & 1) != 0 ? Page::resident : Page::empty;
}

/// The flags that the system shows for the mapping with that address, such as "hg": huge pages are asked for.
[[maybe_unused]] std::string mapping_flags(const void* at) {
  std::ifstream maps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-')
      is_there = begin <= address(at) && address(at) < end;
    if (is_there && line.starts_with("VmFlags:")) return line;
  }
  return {};
}

/// A block whose bytes all have one value.
struct Block {
  unsigned char* data;
  std::int64_t bytes;
  unsigned char value;

  Block(core::PageHeap& heap, std::int64_t size, unsigned char fill)
      : data(static_cast<unsigned char*>(heap.allocate(size))), bytes(size), value(fill) {
    REQUIRE(data != nullptr);
    std::memset(data, value, static_cast<std::size_t>(bytes));
  }
  unsigned char* end() const { return data + bytes; }
  bool is_whole() const {
    return std::all_of(data, end(), [this](unsigned char byte) { return byte == value; });
  }
  bool leave(core::PageHeap& heap) const { return heap.deallocate(data, bytes); }
};

}  // namespace

TEST_CASE("blocks of a page heap lie one behind the other, and then where others were", "[memory]") {
  core::PageHeap heap;
  const Block a(heap, 4 * kKilobyte, 1), b(heap, 192, 2), c(heap, 3 * kMegabyte, 3);
  CHECK(address(a.data) % static_cast<std::uintptr_t>(kHugePage) == 0);
  CHECK(b.data == a.end());
  CHECK(c.data == b.end());
  const Block rest(heap, kFirstChunk - 4 * kKilobyte - 192 - 3 * kMegabyte, 4);
  CHECK(rest.data == c.end());  // the chunk is full

  CHECK(a.leave(heap));
  CHECK(heap.allocate(kKilobyte) == a.data);
  CHECK(heap.allocate(3 * kKilobyte) == a.data + kKilobyte);
  CHECK(c.leave(heap));
  CHECK(b.leave(heap));
  CHECK(heap.allocate(192 + 3 * kMegabyte) == b.data);  // two places that have become one
}

TEST_CASE("a page heap knows what is not from it", "[memory]") {
  core::PageHeap heap, other;
  alignas(64) unsigned char own[64];
  CHECK_FALSE(heap.deallocate(own, sizeof own));
  const Block one(heap, 64, 1), another(other, 64, 2);
  CHECK_FALSE(heap.deallocate(own, sizeof own));
  CHECK_FALSE(another.leave(heap));
  CHECK_FALSE(heap.deallocate(one.data + kFirstChunk, 64));
  CHECK(one.leave(heap));
  CHECK(another.leave(other));
}

TEST_CASE("a page heap has place for what is larger than its chunks, and none for what nobody has", "[memory]") {
  core::PageHeap heap;
  const Block small(heap, 64, 1), large(heap, 20 * kMegabyte, 2), next(heap, kKilobyte, 3);
  CHECK(next.data == small.end());
  CHECK(heap.allocate(std::int64_t{1} << 50) == nullptr);
  CHECK(large.leave(heap));
  CHECK(large.is_whole());
  CHECK(heap.unreleased() == large.bytes);
  heap.release();
  CHECK(heap.unreleased() == 0);
  CHECK(page_at(large.data) == Page::unmapped);
  CHECK(page_at(large.end() - 1) == Page::unmapped);
  CHECK(small.is_whole());
}

#if !defined(CAPSTAN_ADDRESS_SANITIZER) && !defined(__SANITIZE_THREAD__)  // whose own memory has no end
TEST_CASE("a page heap that the system refuses a chunk has no place until it gets one", "[memory]") {
  core::PageHeap heap;
  {
    const AddressLimit limit(kMegabyte);
    CHECK(heap.allocate(64) == nullptr);
  }
  CHECK(heap.allocate(64) != nullptr);
}
#endif

TEST_CASE("a page heap releases huge pages that no block lies on, and no others", "[memory]") {
  core::PageHeap heap;
  const Block first(heap, kHugePage - 64, 1), middle(heap, 2 * kHugePage + 128, 2), last(heap, kHugePage - 64, 3);
  CHECK(middle.leave(heap));
  CHECK(page_at(middle.data + kHugePage) == Page::resident);
  heap.release();
  for (const std::int64_t at : {std::int64_t{64}, kHugePage, 2 * kHugePage - 1})
    CHECK(page_at(first.data + kHugePage + at) == Page::empty);
  CHECK(first.is_whole());
  CHECK(last.is_whole());

  CHECK(first.leave(heap));
  heap.release();
  CHECK(page_at(first.data) == Page::empty);
  CHECK(last.is_whole());
  CHECK(last.leave(heap));
  heap.release();
  CHECK(page_at(last.data) == Page::unmapped);
}

TEST_CASE("blocks of a page heap keep their bytes, whatever comes and goes beside them", "[memory]") {
  core::PageHeap heap;
  std::mt19937 random(271);
  std::vector<Block> blocks;
  std::map<std::uintptr_t, std::uintptr_t> places;  // begin to end
  bool all_whole = true, all_apart = true;
  const auto leave = [&] {
    all_whole = all_whole && blocks.back().is_whole();
    all_apart = all_apart && blocks.back().leave(heap);
    places.erase(address(blocks.back().data));
    blocks.pop_back();
  };
  for (int turn = 0; turn < 4500; ++turn) {
    const bool grows = turn / 500 % 2 == 0;  // and shrinks again
    if (random() % 100 == 0) heap.release();
    if (blocks.empty() || random() % 3 < (grows ? 2u : 1u)) {
      const auto most = 1u << random() % 16;
      const auto bytes = 64 * (1 + static_cast<std::int64_t>(random() % most));
      blocks.emplace_back(heap, bytes, static_cast<unsigned char>(random()));
      const std::uintptr_t begin = address(blocks.back().data), end = address(blocks.back().end());
      const auto next = places.lower_bound(begin);
      all_apart = all_apart && begin % 64 == 0 && (next == places.end() || end <= next->first) &&
                  (next == places.begin() || std::prev(next)->second <= begin);
      places[begin] = end;
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      leave();
    }
  }
  const std::map<std::uintptr_t, std::uintptr_t> last_places = places;
  CHECK(last_places.rbegin()->second - last_places.begin()->first > 3 * kFirstChunk);  // several chunks
  while (!blocks.empty()) leave();
  CHECK(all_apart);
  CHECK(all_whole);
  heap.release();
  CHECK(std::all_of(last_places.begin(), last_places.end(),
                    [](const auto& place) { return page_at(reinterpret_cast<void*>(place.first)) == Page::unmapped; }));
}

TEST_CASE("a page heap gives the block that came back last again, if it is asked for as much", "[memory]") {
  core::PageHeap heap;
  const Block a(heap, 4 * kKilobyte, 1), b(heap, 8 * kKilobyte, 2);
  CHECK(a.leave(heap));
  CHECK(b.leave(heap));
  CHECK(heap.unreleased() == 12 * kKilobyte);
  CHECK(heap.allocate(8 * kKilobyte) == b.data);
  CHECK(heap.allocate(4 * kKilobyte) == a.data);
  CHECK(heap.unreleased() == 0);
}

#if !defined(CAPSTAN_ADDRESS_SANITIZER)
TEST_CASE("tensors of some size lie on huge pages, if the system has them, once there are a few", "[memory]") {
  memory::release_cache();
  const Tensor some = zeros({1 << 20});
  const Tensor x = zeros({100 << 10});
  const std::string flags = mapping_flags(x.data<float>());
  std::string pages;
  std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled") >> pages;
  if (flags.empty() || pages.empty()) {
    WARN("the system has no huge pages, or does not show its mappings: this case checked nothing");
    return;
  }
  CHECK_THAT(flags, Catch::Matchers::ContainsSubstring(" hg"));
}

namespace {

/// Tensors of 400 KB, which share huge pages.
std::vector<Tensor> some_tensors(std::int64_t count) {
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < count; ++i) tensors.push_back(ones({100 << 10}));
  return tensors;
}
std::vector<const float*> ends_of(const std::vector<Tensor>& tensors) {
  std::vector<const float*> ends;
  for (const Tensor& x : tensors) ends.push_back(x.data<float>() + x.numel() - 1);
  return ends;
}
std::int64_t resident_of(const std::vector<const float*>& places) {
  return std::count_if(places.begin(), places.end(), [](const float* at) { return page_at(at) == Page::resident; });
}

}  // namespace

TEST_CASE("a cache that is released is no longer in memory", "[memory]") {
  memory::release_cache();
  const Tensor some = zeros({1 << 20});
  std::vector<Tensor> tensors = some_tensors(100);
  const std::vector<const float*> ends = ends_of(tensors);
  tensors.clear();
  CHECK(resident_of(ends) == 100);
  memory::release_cache();
  CHECK(resident_of(ends) <= 20);  // on pages that others lie on
}

TEST_CASE("what a cache has no room for is released together", "[memory]") {
  memory::release_cache();
  const Tensor some = zeros({1 << 20});
  std::vector<Tensor> few = some_tensors(30), many = some_tensors(200);
  const std::vector<const float*> ends_of_few = ends_of(few), ends_of_many = ends_of(many);
  memory::set_cache_limit(cpu(), 0);
  few.clear();
  CHECK(resident_of(ends_of_few) == 30);  // 12 MB
  many.clear();
  CHECK(resident_of(ends_of_many) <= 60);
  memory::set_cache_limit(cpu(), core::cpu_total_memory() / 4);  // the default
}
#endif
