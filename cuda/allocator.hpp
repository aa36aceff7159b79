#pragma once
// The caching allocator of a GPU: memory is taken from the driver in large segments, cut into blocks, and reused in the
// order of streams. Plain host logic: where the memory comes from, and how streams are watched, is a Source, so that
// tests run it without a GPU.
//
// A block belongs to the stream that it was allocated on. Freed, it can be had again on that stream at once, because
// whatever uses it next runs behind what used it before; other streams that used it are marked, and the block waits
// until they have got there. Neighbours that are free on one stream are joined.
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <capstan/memory.hpp>

namespace capstan::on_cuda {

/// A stream of the device, by number: 0 is its default stream.
using StreamId = int;

/// Whoever has the memory.
class Source {
 public:
  virtual ~Source() = default;
  virtual void* take(std::int64_t bytes) = 0;  // null if there is none
  virtual void give(void* segment) = 0;        // waits until nobody uses it
  /// A mark behind all that the stream has to do now. `reached` and `wait` may be asked until `drop`.
  virtual void* mark(StreamId stream) = 0;
  virtual bool reached(void* mark) = 0;
  virtual void wait(void* mark) = 0;
  virtual void drop(void* mark) = 0;
  virtual std::int64_t total() = 0;  // bytes of the device
  virtual std::int64_t free() = 0;
};

struct Pool;

/// Memory that a tensor, or nobody, has.
struct Block {
  std::byte* data;
  std::int64_t bytes;
  StreamId stream;
  Pool* pool;
  Where where;              // who asked for it
  Block* before = nullptr;  // in the segment
  Block* behind = nullptr;
  Block* earlier = nullptr;  // of all that there are
  Block* later = nullptr;
  bool used = false;
  int marks = 0;  // of streams that still may use it
};

struct SmallerBlock {
  bool operator()(const Block* a, const Block* b) const noexcept {
    if (a->stream != b->stream) return a->stream < b->stream;
    return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
  }
};
/// Segments of one kind, and what of them is free. A captured step has pools of its own: what it replays must not be
/// given to anybody else.
struct Pool {
  bool small;
  std::set<Block*, SmallerBlock> free{};
};
struct Pools {
  Pool small{true}, large{false};
};

class Allocator {
 public:
  /// There is no more: `text` says what was asked for, what is held, and by whom.
  struct Exhausted {
    std::string text;
  };

  explicit Allocator(std::unique_ptr<Source> source);
  ~Allocator();

  /// At least `bytes` bytes, at a multiple of 512. `pools` null: those of everybody. Throws Exhausted.
  Block* allocate(std::int64_t bytes, StreamId stream, Where where, Pools* pools = nullptr);
  /// `others`: a bit for each other stream that has used the block.
  void free(Block* block, std::uint64_t others) noexcept;
  /// Everybody may have what is free in these pools, and what will be.
  void retire(std::unique_ptr<Pools> pools);

  /// Gives back segments of which nothing is used.
  void release();
  void set_limit(std::int64_t bytes);
  void set_cache_limit(std::int64_t bytes);
  void reset_peak();
  memory::Stats stats();
  /// The places in the program that hold most, with bytes and blocks: "2.0 GiB in 12 blocks of train.cpp:57; ...".
  std::string holders(std::size_t most = 5);
  std::int64_t total() { return source_->total(); }

 private:
  struct Waiting {
    Block* block;
    StreamId stream;
    void* mark;
  };

  Pool& pool_for(std::int64_t bytes, Pools& pools) const noexcept;
  Block* find(Pool& pool, std::int64_t bytes, StreamId stream) noexcept;
  Block* add(std::unique_ptr<Block> block) noexcept;
  void remove(Block* block) noexcept;
  Block* grow(Pool& pool, std::int64_t bytes, StreamId stream);
  void split(Block* block, std::int64_t bytes);
  void put_back(Block* block) noexcept;
  void join(Block* block, Block* behind) noexcept;
  void look_at_marks(bool wait) noexcept;
  void release_segments(std::int64_t until) noexcept;
  void release_from(Pool& pool, std::int64_t until) noexcept;
  Block* allocate_locked(std::int64_t asked, StreamId stream, Pools& pools);
  [[noreturn]] void exhausted(std::int64_t asked);
  std::string holders_locked(std::size_t most) const;

  std::mutex mutex_;
  std::unique_ptr<Source> source_;
  Pools common_;
  Block* last_ = nullptr;  // of all blocks
  std::list<Waiting> waiting_;
  std::vector<std::unique_ptr<Pools>> retired_;
  std::int64_t reserved_ = 0, in_use_ = 0, peak_ = 0, taken_ = 0;  // bytes; times
  std::int64_t limit_ = 0, cache_limit_ = INT64_MAX;
};

/// What is allocated for `bytes`: multiples of 512, from 1 MiB on eight classes for every doubling.
std::int64_t rounded_size(std::int64_t bytes) noexcept;
/// What is taken from the driver for a block of that size.
std::int64_t segment_size(std::int64_t bytes) noexcept;

}  // namespace capstan::on_cuda
