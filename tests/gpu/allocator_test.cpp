// The caching allocator of GPUs, over memory and streams that only exist on paper.
#include "cuda/allocator.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support.hpp"

using namespace capstan;
using namespace capstan::on_cuda;

namespace {

/// A device of so many bytes, whose streams do what they were given when told to.
class PaperDevice : public Source {
 public:
  struct Mark {
    StreamId stream;
    std::int64_t number;
  };
  struct Figures {
    std::int64_t bytes, used = 0, given = 0, marks = 0;
    std::map<StreamId, std::int64_t> sent, done;  // work of each stream, by number
    std::map<std::byte*, std::int64_t> segments;
  };

  explicit PaperDevice(Figures& figures) : f_(figures) {}

  void* take(std::int64_t bytes) override {
    if (f_.used + bytes > f_.bytes) return nullptr;
    auto* at = reinterpret_cast<std::byte*>(next_);
    next_ += static_cast<std::uintptr_t>(bytes) + (1 << 21);  // never neighbours
    f_.segments[at] = bytes;
    f_.used += bytes;
    return at;
  }
  void give(void* segment) override {
    const auto at = f_.segments.find(static_cast<std::byte*>(segment));
    REQUIRE(at != f_.segments.end());
    f_.used -= at->second;
    f_.segments.erase(at);
    ++f_.given;
  }
  void* mark(StreamId stream) override {
    ++f_.marks;
    return new Mark{stream, f_.sent[stream]};
  }
  bool reached(void* mark) override {
    const auto* m = static_cast<Mark*>(mark);
    return f_.done[m->stream] >= m->number;
  }
  void wait(void* mark) override {
    const auto* m = static_cast<Mark*>(mark);
    f_.done[m->stream] = std::max(f_.done[m->stream], m->number);
  }
  void drop(void* mark) override {
    --f_.marks;
    delete static_cast<Mark*>(mark);
  }
  std::int64_t total() override { return f_.bytes; }
  std::int64_t free() override { return f_.bytes - f_.used; }

 private:
  Figures& f_;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

struct Fixture {
  PaperDevice::Figures figures;
  Allocator allocator;
  explicit Fixture(std::int64_t bytes = 1024 * kMiB)
      : figures{bytes, 0, 0, 0, {}, {}, {}}, allocator(std::make_unique<PaperDevice>(figures)) {}
  Block* get(std::int64_t bytes, StreamId stream = 0, Where where = Where::current()) {
    return allocator.allocate(bytes, stream, where);
  }
};

}  // namespace

TEST_CASE("sizes are rounded to 512 bytes, and above a mebibyte to an eighth of the power of two below",
          "[gpu][allocator]") {
  for (const auto& [asked, given] : {std::pair<std::int64_t, std::int64_t>{0, 512},
                                     {1, 512},
                                     {512, 512},
                                     {513, 1024},
                                     {kMiB, kMiB},
                                     {kMiB + 1, kMiB + kMiB / 8},
                                     {2 * kMiB, 2 * kMiB},
                                     {3 * kMiB, 3 * kMiB},
                                     {3 * kMiB + 1, 3 * kMiB + kMiB / 4}}) {
    CAPTURE(asked);
    CHECK(rounded_size(asked) == given);
  }
  CHECK(segment_size(512) == 2 * kMiB);
  CHECK(segment_size(kMiB) == 2 * kMiB);
  CHECK(segment_size(2 * kMiB) == 20 * kMiB);
  CHECK(segment_size(10 * kMiB) == 10 * kMiB);
  CHECK(segment_size(11 * kMiB + 512) == 12 * kMiB);
}

TEST_CASE("a freed block is had again on its own stream at once, and not on another", "[gpu][allocator]") {
  Fixture f;
  Block* a = f.get(3 * kMiB, 0);
  std::byte* const place = a->data;
  f.allocator.free(a, 0);
  Block* other = f.get(3 * kMiB, 1);
  CHECK(other->data != place);
  Block* same = f.get(3 * kMiB, 0);
  CHECK(same->data == place);
  f.allocator.free(other, 0);
  f.allocator.free(same, 0);
}

TEST_CASE("a block that another stream used waits for that stream", "[gpu][allocator]") {
  Fixture f;
  Block* a = f.get(4096, 0);
  std::byte* const place = a->data;
  f.figures.sent[2] = 1;  // stream 2 has something to do with it
  f.allocator.free(a, 1u << 2);
  Block* b = f.get(4096, 0);
  CHECK(b->data != place);
  f.figures.done[2] = 1;
  Block* c = f.get(4096, 0);
  CHECK(c->data == place);
  CHECK(f.figures.marks == 0);
  f.allocator.free(b, 0);
  f.allocator.free(c, 0);
}

TEST_CASE("neighbours are joined, so that a segment is whole again when all of it is free", "[gpu][allocator]") {
  Fixture f;
  std::vector<Block*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(f.get(100 << 10));  // all of one segment of 2 MiB
  CHECK(f.figures.used == 2 * kMiB);
  std::mt19937 random(3);
  std::shuffle(blocks.begin(), blocks.end(), random);
  for (Block* block : blocks) f.allocator.free(block, 0);
  Block* half = f.get(kMiB);
  CHECK(f.figures.used == 2 * kMiB);
  f.allocator.free(half, 0);
  f.allocator.release();
  CHECK(f.figures.used == 0);
  CHECK(f.figures.segments.empty());
}

TEST_CASE("before it says that there is no more it gives back what is cached and waits for streams",
          "[gpu][allocator]") {
  Fixture f(64 * kMiB);
  Block* a = f.get(30 * kMiB, 0);
  Block* b = f.get(30 * kMiB, 0);
  f.allocator.free(a, 0);
  f.figures.sent[1] = 5;
  f.allocator.free(b, 1u << 1);
  Block* c = f.get(50 * kMiB, 0);
  CHECK(f.figures.used == 52 * kMiB);  // 50 rounded to an eighth of 32
  CHECK(f.allocator.stats().reserved == 52 * kMiB);
  f.allocator.free(c, 0);
}

TEST_CASE("when nothing helps it says what is held, and by whom", "[gpu][allocator]") {
  Fixture f(64 * kMiB);
  Block* a = f.get(30 * kMiB);
  const Where line = Where::current();
  Block* b = f.get(20 * kMiB, 0, line);
  std::string text;
  try {
    f.get(40 * kMiB);
  } catch (const Allocator::Exhausted& e) { text = e.text; }
  CHECK_THAT(text, Catch::Contains("40.0 MiB were asked for with 50.0 MiB in use and 0 B cached; the card has 14.0 MiB "
                                   "free of 64.0 MiB. Held by: 30.0 MiB in 1 block of "));
  CHECK_THAT(text, Catch::Contains("20.0 MiB in 1 block of "));
  CHECK_THAT(text, Catch::Contains(":" + std::to_string(line.line())));
  CHECK(f.allocator.stats().in_use == 50 * kMiB);
  f.allocator.free(a, 0);
  f.allocator.free(b, 0);
}

TEST_CASE("a limit bounds what is taken from the device, and the cache can be bounded too", "[gpu][allocator]") {
  Fixture f;
  f.allocator.set_limit(32 * kMiB);
  Block* a = f.get(20 * kMiB);
  CHECK_THROWS_AS(f.get(20 * kMiB), Allocator::Exhausted);
  f.allocator.free(a, 0);
  CHECK(f.allocator.stats().cached == 20 * kMiB);
  f.allocator.set_cache_limit(0);
  CHECK(f.allocator.stats().reserved == 0);
  CHECK(f.allocator.stats().peak_reserved == 20 * kMiB);
  f.allocator.reset_peak();
  CHECK(f.allocator.stats().peak_reserved == 0);
  CHECK(f.allocator.stats().system_allocations == 1);
}

TEST_CASE("blocks of a captured step's own pools go to nobody else before it is retired", "[gpu][allocator]") {
  Fixture f;
  auto pools = std::make_unique<Pools>();
  Block* a = f.allocator.allocate(4096, 3, Where::current(), pools.get());
  std::byte* const place = a->data;
  f.allocator.free(a, 0);
  Block* stranger = f.get(4096, 3);
  CHECK(stranger->data != place);
  Block* again = f.allocator.allocate(4096, 3, Where::current(), pools.get());
  CHECK(again->data == place);
  f.allocator.retire(std::move(pools));
  f.allocator.free(again, 0);
  f.allocator.free(stranger, 0);
  f.allocator.release();
  CHECK(f.figures.used == 0);
}

TEST_CASE("under random sizes and streams no two blocks overlap, none is had too early, and all is given back",
          "[gpu][allocator]") {
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    std::mt19937_64 random(seed);
    Fixture f(256 * kMiB);
    struct Held {
      Block* block;
      std::uint64_t others;
    };
    std::vector<Held> held;
    std::map<std::byte*, std::int64_t> used;                            // live ranges
    std::map<std::byte*, std::pair<StreamId, std::int64_t>> too_early;  // place -> stream, work that must be done first
    const auto pick = [&](std::uint64_t n) { return random() % n; };
    int exhausted = 0;
    for (int step = 0; step < 6000; ++step) {
      if (pick(100) < 55) {
        const std::int64_t bytes =
            pick(10) == 0 ? static_cast<std::int64_t>(pick(40 * kMiB)) : static_cast<std::int64_t>(pick(200000));
        const auto stream = static_cast<StreamId>(pick(4));
        Block* block = nullptr;
        try {
          block = f.get(bytes, stream);
        } catch (const Allocator::Exhausted&) {
          ++exhausted;
          continue;
        }
        REQUIRE(block->bytes >= bytes);
        REQUIRE(reinterpret_cast<std::uintptr_t>(block->data) % 512 == 0);
        const auto behind = used.lower_bound(block->data);
        REQUIRE((behind == used.end() || block->data + block->bytes <= behind->first));
        if (behind != used.begin()) {
          const auto before = std::prev(behind);
          REQUIRE(before->first + before->second <= block->data);
        }
        for (auto at = too_early.lower_bound(block->data);
             at != too_early.end() && at->first < block->data + block->bytes;) {
          REQUIRE(f.figures.done[at->second.first] >= at->second.second);
          at = too_early.erase(at);
        }
        used[block->data] = block->bytes;
        held.push_back({block, 0});
      } else if (!held.empty()) {
        const std::size_t i = pick(held.size());
        Block* block = held[i].block;
        std::uint64_t others = 0;
        if (pick(3) == 0) {
          const auto other = static_cast<StreamId>(pick(4));
          if (other != block->stream) {
            others = std::uint64_t{1} << other;
            too_early[block->data] = {other, ++f.figures.sent[other]};
          }
        }
        used.erase(block->data);
        f.allocator.free(block, others);
        held[i] = held.back();
        held.pop_back();
      }
      if (pick(7) == 0) {
        const auto stream = static_cast<StreamId>(pick(4));
        f.figures.done[stream] = f.figures.sent[stream];
      }
      if (pick(500) == 0) f.allocator.release();
    }
    std::int64_t in_use = 0;
    for (const Held& each : held) in_use += each.block->bytes;
    CHECK(f.allocator.stats().in_use == in_use);
    CHECK(f.allocator.stats().reserved == f.figures.used);
    for (const Held& each : held) f.allocator.free(each.block, 0);
    f.allocator.release();
    CHECK(f.allocator.stats().reserved == 0);
    CHECK(f.figures.used == 0);
    CHECK(f.figures.marks == 0);
    INFO(exhausted);
  }
}
