#pragma once
// Sorting of keys, alone or with the places they come from, byte by byte from the last to the first: a fixed number of
// passes, where comparing takes one for each doubling of the count.
#include <algorithm>
#include <cstdint>
#include <utility>

namespace capstan::on_cpu {

/// A key alone.
template <class W>
struct Bare {
  W key;
  static constexpr int kDigits = static_cast<int>(sizeof(W));
  unsigned digit(int i) const noexcept { return static_cast<unsigned>(key >> (8 * i)) & 255u; }
  friend bool operator<(const Bare& a, const Bare& b) noexcept { return a.key < b.key; }
};

/// A key of so many bytes, at most four, above a place below 2^32. Equal keys compare by their places.
template <int kKeyBytes>
struct ShortEntry {
  std::uint64_t bits;
  static constexpr int kDigits = kKeyBytes;
  static ShortEntry make(std::uint64_t key, std::int64_t place) noexcept {
    return {key << 32 | static_cast<std::uint64_t>(place)};
  }
  std::uint64_t key() const noexcept { return bits >> 32; }
  std::int64_t place() const noexcept { return static_cast<std::int64_t>(bits & 0xFFFFFFFFu); }
  unsigned digit(int i) const noexcept { return static_cast<unsigned>(bits >> (32 + 8 * i)) & 255u; }
  friend bool operator<(const ShortEntry& a, const ShortEntry& b) noexcept { return a.bits < b.bits; }
};
inline constexpr std::int64_t kShortPlaces = std::int64_t{1} << 32;

/// Any key and any place.
struct LongEntry {
  std::uint64_t whole_key;
  std::int64_t from;
  static constexpr int kDigits = 8;
  static LongEntry make(std::uint64_t key, std::int64_t place) noexcept { return {key, place}; }
  std::uint64_t key() const noexcept { return whole_key; }
  std::int64_t place() const noexcept { return from; }
  unsigned digit(int i) const noexcept { return static_cast<unsigned>(whole_key >> (8 * i)) & 255u; }
  friend bool operator<(const LongEntry& a, const LongEntry& b) noexcept {
    return a.whole_key != b.whole_key ? a.whole_key < b.whole_key : a.from < b.from;
  }
};

inline constexpr std::int64_t kFewItems = 64;  // up to here comparing is faster

/// Sorts items whose places ascend, if they have any, stably. The result stands in `items` or in `spare`, whichever is
/// returned.
template <class Item>
Item* radix_sort(Item* items, Item* spare, std::int64_t count) {
  if (count <= kFewItems) {
    std::sort(items, items + count);
    return items;
  }
  std::int64_t starts[Item::kDigits][256] = {};
  for (std::int64_t i = 0; i < count; ++i)
    for (int d = 0; d < Item::kDigits; ++d) ++starts[d][items[i].digit(d)];
  for (int d = 0; d < Item::kDigits; ++d) {
    std::int64_t* start = starts[d];
    if (start[items[0].digit(d)] == count) continue;  // all alike
    std::int64_t before = 0;
    for (int digit = 0; digit < 256; ++digit) {
      const std::int64_t here = start[digit];
      start[digit] = before;
      before += here;
    }
    for (std::int64_t i = 0; i < count; ++i) spare[start[items[i].digit(d)]++] = items[i];
    std::swap(items, spare);
  }
  return items;
}

}  // namespace capstan::on_cpu
