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

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kKilobyte = 1 << 10, kMegabyte = 1 << 20;

std::uintptr_t address(const void* block) { return reinterpret_cast<std::uintptr_t>(block); }

/// Whether the page at that address is in memory. Not for addresses that are not mapped.
bool is_resident(const unsigned char* at) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char resident = 0;
  REQUIRE(mincore(reinterpret_cast<void*>(address(at) / page * page), page, &resident) == 0);
  return (resident & 1) != 0;
}

/// The flags that the system shows for the mapping with that address, such as "hg": huge pages are asked for.
std::string mapping_flags(const void* at) {
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

struct Block {
  unsigned char* data;
  std::int64_t bytes;
  unsigned char value;  // of all its bytes
};

}  // namespace

TEST_CASE("blocks of a page heap lie one behind the other, and the first place that fits is taken", "[memory]") {
  core::PageHeap heap;
  auto* const a = static_cast<unsigned char*>(heap.allocate(4 * kKilobyte));
  auto* const b = static_cast<unsigned char*>(heap.allocate(192));
  auto* const c = static_cast<unsigned char*>(heap.allocate(3 * kMegabyte));
  REQUIRE(a != nullptr);
  CHECK(address(a) % 64 == 0);
  CHECK(b == a + 4 * kKilobyte);
  CHECK(c == b + 192);

  CHECK(heap.deallocate(a, 4 * kKilobyte));
  CHECK(heap.allocate(5 * kKilobyte) == c + 3 * kMegabyte);  // too large for where a was
  CHECK(heap.allocate(1 * kKilobyte) == a);
  CHECK(heap.allocate(3 * kKilobyte) == a + 1 * kKilobyte);
  CHECK(heap.deallocate(b, 192));
  CHECK(heap.deallocate(c, 3 * kMegabyte));
  CHECK(heap.allocate(192 + 3 * kMegabyte) == b);  // two places that have become one
}

TEST_CASE("a page heap knows what is not from it", "[memory]") {
  core::PageHeap heap, other;
  alignas(64) unsigned char own[64];
  CHECK_FALSE(heap.deallocate(own, sizeof own));
  void* const block = other.allocate(64);
  CHECK_FALSE(heap.deallocate(block, 64));
  CHECK(other.deallocate(block, 64));
}

TEST_CASE("a page heap has place for what is larger than its chunks, and none for what nobody has", "[memory]") {
  core::PageHeap heap;
  void* const small = heap.allocate(64);
  auto* const large = static_cast<unsigned char*>(heap.allocate(200 * kMegabyte));
  REQUIRE(large != nullptr);
  large[0] = large[200 * kMegabyte - 1] = 1;
  CHECK(heap.allocate(std::int64_t{1} << 50) == nullptr);
  CHECK(heap.deallocate(large, 200 * kMegabyte));
  CHECK(heap.deallocate(small, 64));
}

TEST_CASE("a page heap gives whole pages back, and keeps what others lie on", "[memory]") {
  core::PageHeap heap;
  const auto page = static_cast<std::int64_t>(sysconf(_SC_PAGESIZE));
  auto* const first = static_cast<unsigned char*>(heap.allocate(page / 2));
  auto* const middle = static_cast<unsigned char*>(heap.allocate(4 * page));
  auto* const last = static_cast<unsigned char*>(heap.allocate(page / 2));
  std::memset(first, 1, static_cast<std::size_t>(page / 2));
  std::memset(middle, 2, static_cast<std::size_t>(4 * page));
  std::memset(last, 3, static_cast<std::size_t>(page / 2));

  CHECK(heap.deallocate(middle, 4 * page));
  CHECK(is_resident(first));
  for (const std::int64_t whole : {1, 2, 3}) CHECK_FALSE(is_resident(first + whole * page));
  CHECK(is_resident(last));
  CHECK(std::all_of(first, first + page / 2, [](unsigned char byte) { return byte == 1; }));
  CHECK(std::all_of(last, last + page / 2, [](unsigned char byte) { return byte == 3; }));

  CHECK(heap.deallocate(last, page / 2));  // now the page that it shared with `middle` is free as a whole
  CHECK_FALSE(is_resident(first + 4 * page));
  CHECK(is_resident(first));
}

TEST_CASE("blocks of a page heap keep their bytes, whatever comes and goes beside them", "[memory]") {
  core::PageHeap heap;
  std::mt19937 random(271);
  std::vector<Block> blocks;
  const auto is_whole = [](const Block& block) {
    return std::all_of(block.data, block.data + block.bytes, [&](unsigned char byte) { return byte == block.value; });
  };
  std::map<std::uintptr_t, std::uintptr_t> places;  // begin to end
  bool all_whole = true, all_apart = true;
  for (int turn = 0; turn < 3000; ++turn) {
    const bool grows = turn / 500 % 2 == 0;  // and shrinks again
    if (blocks.empty() || random() % 3 < (grows ? 2u : 1u)) {
      const std::int64_t bytes = 64 * (1 + static_cast<std::int64_t>(random() % (1u << random() % 13)));
      const Block block{static_cast<unsigned char*>(heap.allocate(bytes)), bytes, static_cast<unsigned char>(random())};
      REQUIRE(block.data != nullptr);
      const std::uintptr_t begin = address(block.data), end = begin + static_cast<std::uintptr_t>(bytes);
      const auto next = places.lower_bound(begin);
      all_apart = all_apart && (next == places.end() || end <= next->first) &&
                  (next == places.begin() || std::prev(next)->second <= begin);
      places[begin] = end;
      std::memset(block.data, block.value, static_cast<std::size_t>(bytes));
      blocks.push_back(block);
    } else {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      all_whole = all_whole && is_whole(blocks.back());
      all_apart = all_apart && heap.deallocate(blocks.back().data, blocks.back().bytes);
      places.erase(address(blocks.back().data));
      blocks.pop_back();
    }
  }
  CHECK(all_apart);
  CHECK(all_whole);
  CHECK(std::all_of(blocks.begin(), blocks.end(), is_whole));
  for (const Block& block : blocks) CHECK(heap.deallocate(block.data, block.bytes));
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("tensors of some size lie on huge pages, if the system has them, once there are a few", "[memory]") {
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
#endif
