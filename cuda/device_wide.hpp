#pragma once
// What the whole GPU works on together, by CUB. Plain functions, so that only device_wide.cu includes it.
#include <cstdint>

namespace capstan::on_cuda {

/// Pairs by the lowest `bits` bits of their keys, ascending; equal ones keep their order. No two arrays overlap. With
/// 32-bit values there are fewer than 2^32 pairs.
void sort_pairs(const std::uint32_t* keys, std::uint32_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits);
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
                std::uint32_t* sorted_values, std::int64_t count, int bits);
void sort_pairs(const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::int64_t* values,
                std::int64_t* sorted_values, std::int64_t count, int bits);

}  // namespace capstan::on_cuda
