#include "cuda/device_wide.hpp"

#include <cub/device/device_radix_sort.cuh>

#include "cuda/context.hpp"

namespace capstan::on_cuda {
namespace {

/// `Count` decides how CUB counts inside.
template <class Count, class Key, class Value>
void sort_with_cub(const Key* keys, Key* sorted_keys, const Value* values, Value* sorted_values, std::int64_t count,
                   int bits) {
  constexpr const char* kWhat = "cub::DeviceRadixSort";
  if (count == 0) return;
  const auto sort = [&](void* room, std::size_t& bytes) {
    check(cub::DeviceRadixSort::SortPairs(room, bytes, keys, sorted_keys, values, sorted_values,
                                          static_cast<Count>(count), 0, bits, call().stream),
          kWhat);
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Tensor room = workspace(static_cast<std::int64_t>(bytes) + 1, DType::uint8);  // a null pointer only asks
  sort(room.impl()->data, bytes);
}

}  // namespace

void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits) {
  sort_with_cub<std::uint32_t>(keys, sorted_keys, values, sorted_values, count, bits);
}
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits) {
  sort_with_cub<std::uint32_t>(keys, sorted_keys, values, sorted_values, count, bits);
}
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::int64_t* values,
                std::int64_t* sorted_values, std::int64_t count, int bits) {
  sort_with_cub<std::int64_t>(keys, sorted_keys, values, sorted_values, count, bits);
}

}  // namespace capstan::on_cuda
