// How many blocks a launch has: all items are taken, no block has nothing to do, and counts may be of any size.
#include "cuda/launch_shape.hpp"

#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;

namespace {

const std::vector<std::int64_t>& counts() {
  static const std::vector<std::int64_t> list = [] {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i <= 70; ++i) all.push_back(i);
    for (const int bit : {7, 8, 10, 15, 20, 24, 30, 31, 32, 33, 40, 50, 62})
      for (const std::int64_t beside : {-1, 0, 1}) all.push_back((std::int64_t{1} << bit) + beside);
    for (const std::int64_t blocks : {std::int64_t{132}, kMostBlocks})
      for (const std::int64_t beside : {-1, 0, 1}) all.push_back(blocks * kThreads + beside);
    return all;
  }();
  return list;
}

/// How often each of `count` items is taken by threads that stride through them.
std::vector<int> taken(std::int64_t count, LaunchShape shape) {
  std::vector<int> times(static_cast<std::size_t>(count), 0);
  const std::int64_t step = std::int64_t{shape.blocks} * shape.threads;
  for (std::int64_t thread = 0; thread < step; ++thread)
    for (std::int64_t i = thread; i < count; i += step) ++times[static_cast<std::size_t>(i)];
  return times;
}

}  // namespace

TEST_CASE("a launch has a thread for each item, up to as many blocks as fill a GPU", "[gpu][launch]") {
  for (const std::int64_t count : counts())
    for (const int per_thread : {1, 2, 4, 8, 16})
      for (const unsigned threads : {32u, 128u, kThreads, 1024u}) {
        const LaunchShape shape = shape_for(count, per_thread, threads);
        const std::int64_t in_block = std::int64_t{threads} * per_thread, blocks = shape.blocks;
        INFO(count << " items, " << per_thread << " for each of " << threads << " threads");
        REQUIRE(shape.threads == threads);
        REQUIRE(blocks <= kMostBlocks);
        REQUIRE((blocks == 0) == (count == 0));
        if (blocks < kMostBlocks) REQUIRE(blocks * in_block >= count);
        if (blocks > 0) REQUIRE((blocks - 1) * in_block < count);
      }
  CHECK(shape_for(1).blocks == 1);
  CHECK(shape_for(kThreads).blocks == 1);
  CHECK(shape_for(kThreads + 1).blocks == 2);
  CHECK(shape_for(INT64_MAX).blocks == kMostBlocks);
  CHECK(shape_for(INT64_MAX, 16).blocks == kMostBlocks);
}

TEST_CASE("threads that stride through the items take each of them once", "[gpu][launch]") {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{255}, std::int64_t{256},
                                   std::int64_t{257}, std::int64_t{5000}, kMostBlocks * 32 + 17}) {
    const std::vector<int> times = taken(count, shape_for(count, 1, 32));
    INFO(count);
    CHECK(times == std::vector<int>(times.size(), 1));
  }
}

TEST_CASE("rows have a block each, as many as a grid can have", "[gpu][launch]") {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  for (const std::int64_t count : counts()) {
    const LaunchShape shape = block_each(count, 128);
    INFO(count);
    CHECK(shape.threads == 128);
    CHECK(shape.blocks == static_cast<unsigned>(count < most ? count : most));
  }
  CHECK(block_each(0).blocks == 0);
  CHECK(block_each(INT64_MAX).blocks == most);
}
