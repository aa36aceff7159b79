#include "cuda/allocator.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>

#include "lib/base/text.hpp"

namespace capstan::on_cuda {
namespace {

constexpr std::int64_t kUnit = 512, kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kLargestSmall = kMiB;  // larger blocks come from segments of their own kind
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kMediumSegment = 20 * kMiB;  // for blocks below 10 MiB

std::string size_text(std::int64_t bytes) {
  char text[32];
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace

std::int64_t rounded_size(std::int64_t bytes) noexcept {
  if (bytes <= kUnit) return kUnit;
  std::int64_t step = kUnit;
  if (bytes > kMiB) step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes - 1))) / 8;
  return (bytes + step - 1) / step * step;
}

std::int64_t segment_size(std::int64_t bytes) noexcept {
  if (bytes <= kLargestSmall) return kSmallSegment;
  if (bytes < kMediumSegment / 2) return kMediumSegment;
  return (bytes + kSmallSegment - 1) / kSmallSegment * kSmallSegment;
}

Allocator::Allocator(std::unique_ptr<Source> source) : source_(std::move(source)) {}

Allocator::~Allocator() {
  look_at_marks(true);
  release_segments(0);
  while (last_ != nullptr) remove(last_);
}

/// Enters a block among all, which owns it from then on.
Block* Allocator::add(std::unique_ptr<Block> block) noexcept {
  Block* added = block.release();
  added->earlier = last_;
  if (last_ != nullptr) last_->later = added;
  last_ = added;
  return added;
}

void Allocator::remove(Block* block) noexcept {
  if (block->earlier != nullptr) block->earlier->later = block->later;
  if (block->later != nullptr) block->later->earlier = block->earlier;
  else last_ = block->earlier;
  delete block;
}

Pool& Allocator::pool_for(std::int64_t bytes, Pools& pools) const noexcept {
  return bytes <= kLargestSmall ? pools.small : pools.large;
}

/// The smallest free block of the stream that is large enough.
Block* Allocator::find(Pool& pool, std::int64_t bytes, StreamId stream) noexcept {
  Block key{nullptr, bytes, stream, &pool, {}};
  const auto place = pool.free.lower_bound(&key);
  if (place == pool.free.end() || (*place)->stream != stream) return nullptr;
  Block* block = *place;
  pool.free.erase(place);
  return block;
}

Block* Allocator::grow(Pool& pool, std::int64_t bytes, StreamId stream) {
  const std::int64_t size = segment_size(bytes);
  if (limit_ > 0 && reserved_ + size > limit_) return nullptr;
  auto block = std::make_unique<Block>(Block{nullptr, size, stream, &pool, {}});
  block->data = static_cast<std::byte*>(source_->take(size));
  if (block->data == nullptr) return nullptr;
  reserved_ += size;
  peak_ = std::max(peak_, reserved_);
  ++taken_;
  return add(std::move(block));
}

/// Leaves `bytes` in the block and makes one of the rest, if that is worth keeping.
void Allocator::split(Block* block, std::int64_t bytes) {
  const std::int64_t rest = block->bytes - bytes;
  if (rest < (block->pool->small ? kUnit : kLargestSmall)) return;
  auto made = std::make_unique<Block>(Block{block->data + bytes, rest, block->stream, block->pool, {}});
  made->before = block;
  made->behind = block->behind;
  if (made->behind != nullptr) made->behind->before = made.get();
  block->behind = made.get();
  block->bytes = bytes;
  block->pool->free.insert(made.get());
  add(std::move(made));
}

void Allocator::join(Block* block, Block* behind) noexcept {
  block->bytes += behind->bytes;
  block->behind = behind->behind;
  if (block->behind != nullptr) block->behind->before = block;
  remove(behind);
}

void Allocator::put_back(Block* block) noexcept {
  const auto is_free = [&](const Block* b) { return b != nullptr && !b->used && b->marks == 0; };
  if (is_free(block->behind)) {
    block->pool->free.erase(block->behind);
    join(block, block->behind);
  }
  if (is_free(block->before)) {
    Block* before = block->before;
    before->pool->free.erase(before);
    join(before, block);
    block = before;
  }
  block->pool->free.insert(block);
}

void Allocator::look_at_marks(bool wait) noexcept {
  std::uint64_t behind = 0;  // streams with a mark that is not reached, nor are those after it
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (wait) source_->wait(at->mark);
    else if ((behind >> at->stream & 1) != 0 || !source_->reached(at->mark)) {
      behind |= std::uint64_t{1} << at->stream;
      ++at;
      continue;
    }
    source_->drop(at->mark);
    if (--at->block->marks == 0) put_back(at->block);
    at = waiting_.erase(at);
  }
}

/// Gives segments back of which nothing is used, until no more than `until` bytes are cached.
void Allocator::release_from(Pool& pool, std::int64_t until) noexcept {
  for (auto at = pool.free.begin(); at != pool.free.end() && reserved_ - in_use_ > until;) {
    Block* block = *at;
    if (block->before != nullptr || block->behind != nullptr) {
      ++at;
      continue;
    }
    at = pool.free.erase(at);
    reserved_ -= block->bytes;
    source_->give(block->data);
    remove(block);
  }
}

void Allocator::release_segments(std::int64_t until) noexcept {
  release_from(common_.large, until);
  release_from(common_.small, until);
  for (const auto& pools : retired_) {
    release_from(pools->large, until);
    release_from(pools->small, until);
  }
}

Block* Allocator::allocate_locked(std::int64_t asked, StreamId stream, Pools& pools) {
  const std::int64_t bytes = rounded_size(asked);
  Pool& pool = pool_for(bytes, pools);
  if (!waiting_.empty()) look_at_marks(false);
  Block* block = find(pool, bytes, stream);
  if (block == nullptr) block = grow(pool, bytes, stream);
  if (block == nullptr) {  // what is cached elsewhere, or only waits for another stream, may do
    look_at_marks(true);
    block = find(pool, bytes, stream);
    if (block == nullptr) release_segments(0);
  }
  if (block == nullptr) block = grow(pool, bytes, stream);
  if (block == nullptr) return nullptr;
  split(block, bytes);
  block->used = true;
  in_use_ += block->bytes;
  return block;
}

Block* Allocator::allocate(std::int64_t bytes, StreamId stream, Where where, Pools* pools) {
  const std::lock_guard lock(mutex_);
  Block* block =
      bytes > (std::int64_t{1} << 47) ? nullptr : allocate_locked(bytes, stream, pools != nullptr ? *pools : common_);
  if (block == nullptr) exhausted(bytes);
  block->where = where;
  return block;
}

void Allocator::free(Block* block, std::uint64_t others) noexcept {
  const std::lock_guard lock(mutex_);
  block->used = false;
  in_use_ -= block->bytes;
  for (StreamId stream = 0; others != 0; ++stream, others >>= 1) {
    if ((others & 1) == 0) continue;
    waiting_.push_back({block, stream, source_->mark(stream)});
    ++block->marks;
  }
  if (block->marks == 0) put_back(block);
  if (reserved_ - in_use_ > cache_limit_) release_segments(cache_limit_);
}

void Allocator::retire(std::unique_ptr<Pools> pools) {
  const std::lock_guard lock(mutex_);
  look_at_marks(false);
  release_from(pools->large, 0);
  release_from(pools->small, 0);
  retired_.push_back(std::move(pools));  // blocks in use go on pointing to them; release() gives the rest back
  std::erase_if(retired_, [&](const std::unique_ptr<Pools>& each) {
    for (const Block* block = last_; block != nullptr; block = block->earlier)
      if (block->pool == &each->small || block->pool == &each->large) return false;
    return true;
  });
}

void Allocator::release() {
  const std::lock_guard lock(mutex_);
  look_at_marks(true);
  release_segments(0);
}

void Allocator::set_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void Allocator::set_cache_limit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  look_at_marks(false);
  release_segments(bytes);
}

void Allocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = reserved_;
}

memory::Stats Allocator::stats() {
  const std::lock_guard lock(mutex_);
  memory::Stats stats;
  stats.in_use = in_use_;
  stats.cached = reserved_ - in_use_;
  stats.reserved = reserved_;
  stats.peak_reserved = peak_;
  stats.system_allocations = taken_;
  return stats;
}

std::string Allocator::holders(std::size_t most) {
  const std::lock_guard lock(mutex_);
  return holders_locked(most);
}

std::string Allocator::holders_locked(std::size_t most) const {
  struct Held {
    Where where;
    std::int64_t bytes = 0, blocks = 0;
  };
  std::map<std::string, Held> by_place;
  for (const Block* block = last_; block != nullptr; block = block->earlier) {
    if (!block->used) continue;
    Held& held = by_place[base::to_string(block->where)];
    held.bytes += block->bytes;
    ++held.blocks;
  }
  std::vector<std::pair<std::string, Held>> sorted(by_place.begin(), by_place.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string text;
  for (std::size_t i = 0; i < sorted.size() && i < most; ++i)
    text += base::join(i > 0 ? "; " : "", size_text(sorted[i].second.bytes), " in ", sorted[i].second.blocks,
                       sorted[i].second.blocks == 1 ? " block of " : " blocks of ", sorted[i].first);
  if (sorted.size() > most) text += base::join("; and ", sorted.size() - most, " more places");
  return text.empty() ? "nobody" : text;
}

void Allocator::exhausted(std::int64_t asked) {
  throw Exhausted{base::join(
      size_text(asked), " were asked for with ", size_text(in_use_), " in use and ", size_text(reserved_ - in_use_),
      " cached; ",
      limit_ > 0 ? base::join("the limit is ", size_text(limit_), " (memory::set_limit)")
                 : base::join("the card has ", size_text(source_->free()), " free of ", size_text(source_->total())),
      ". Held by: ", holders_locked(5), ".")};
}

}  // namespace capstan::on_cuda
