// What cuda/device_wide.cu leaves to CUB, on the simulated GPU.
#include "cuda/device_wide.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "cuda/context.hpp"
#include "tests/simulator/runtime.hpp"

namespace capstan::on_cuda {
namespace {

template <class Key, class Value>
void sort_later(const Key* keys, Key* sorted_keys, const Value* values, Value* sorted_values, std::int64_t count,
                int bits) {
  const Key mask = static_cast<Key>(static_cast<Key>(~Key{0}) >> (8 * static_cast<int>(sizeof(Key)) - bits));
  simulated::enqueue(call().stream, [=] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [=](std::int64_t a, std::int64_t b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t from = order[static_cast<std::size_t>(i)];
      sorted_keys[i] = keys[from];
      sorted_values[i] = values[from];
    }
  });
}

}  // namespace

void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits) {
  sort_later(keys, sorted_keys, values, sorted_values, count, bits);
}
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits) {
  sort_later(keys, sorted_keys, values, sorted_values, count, bits);
}
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::int64_t* values,
                std::int64_t* sorted_values, std::int64_t count, int bits) {
  sort_later(keys, sorted_keys, values, sorted_values, count, bits);
}

}  // namespace capstan::on_cuda
