#pragma once
// Products of float32 on tiles of the processor, see simd/tiles.hpp.
#include "lib/cpu/product.hpp"

namespace capstan::on_cpu {

/// Whether this processor has tiles, and they are faster for c [m, n] = a [m, k] * b [k, n].
bool suits_tiles(std::int64_t m, std::int64_t n, std::int64_t k);

/// Such a product on all threads. Throws OutOfMemoryError.
void multiply_on_tiles(const Product<float>& x);

/// The same bits on this thread, in `room` of so many elements, which begins with a cache line and ends with one.
std::int64_t tile_room(std::int64_t m, std::int64_t n, std::int64_t k);
void multiply_on_tiles_within(float* room, const Product<float>& x);

}  // namespace capstan::on_cpu
