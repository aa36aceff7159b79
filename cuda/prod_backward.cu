// The gradient of products: each element gets the product of those before it and of those behind it. Rows are cut into
// tiles for a warp; where there are several, tiles are multiplied first, and then those before and behind each.
#include "cuda/backend.hpp"
#include "cuda/factors.cuh"
#include "cuda/groups.cuh"
#include "cuda/launch.cuh"

namespace capstan::on_cuda {
namespace {

constexpr int kEach = 4;  // neighbouring elements of a thread
constexpr int kTileElements = kWarp * kEach;

/// Rows [rows, count] in tiles for groups of `lanes` threads.
struct Tiles {
  std::int64_t rows, count, in_row;  // in_row: tiles of a row
  int lanes = 1;

  Tiles(std::int64_t row_count, std::int64_t elements)
      : rows(row_count), count(elements), in_row(quotient_up(elements, kTileElements)) {
    while (lanes < kWarp && lanes * kEach < count) lanes *= 2;
  }
  LaunchShape shape() const { return block_each(quotient_up(rows * in_row, kRowThreads / lanes)); }
};

/// What stands outside of each tile, [rows, in_row]: the product of those before it, and of those behind it.
struct Outside {
  Factor *before, *behind;  // null if rows have one tile
};

/// The elements of a tile that are this thread's, 1 where there is none; gives their product.
template <class T>
__device__ inline Factor read_factors(const Tiles& tiles, const T* x, std::int64_t tile, int lane,
                                      Factor (&factors)[kEach]) {
  const std::int64_t row = tile / tiles.in_row, first = (tile - row * tiles.in_row) * kTileElements + lane * kEach;
  Factor product{1, 0};
  CAPSTAN_UNROLL
  for (int e = 0; e < kEach; ++e) {
    const bool real = row < tiles.rows && first + e < tiles.count;
    factors[e] = real ? factor_of(x[row * tiles.count + first + e]) : Factor{1, 0};
    product = product * factors[e];
  }
  return product;
}

template <class T>
__global__ void __launch_bounds__(kThreads) tile_products_kernel(Tiles tiles, const T* x, Factor* products) {
  const int lane = static_cast<int>(threadIdx.x) % tiles.lanes, group = static_cast<int>(threadIdx.x) / tiles.lanes;
  const std::int64_t side = kRowThreads / tiles.lanes, items = tiles.rows * tiles.in_row;
  for (std::int64_t base = blockIdx.x * side; base < items; base += gridDim.x * side) {
    Factor factors[kEach];
    const Factor own = read_factors(tiles, x, base + group, lane, factors);
    const Factor product = group_reduce(own, tiles.lanes, Times{});
    if (lane == 0 && base + group < items) products[base + group] = product;
  }
}

/// A block for each row: threads take neighbouring tiles, and learn from each other what stands outside of those.
__global__ void __launch_bounds__(kThreads) outside_kernel(Tiles tiles, const Factor* products, Outside outside) {
  __shared__ Factor up_to[kRowThreads], from[kRowThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t share = quotient_up(tiles.in_row, kRowThreads), first = thread * share;
  const std::int64_t end = first + share < tiles.in_row ? first + share : tiles.in_row;
  for (std::int64_t row = blockIdx.x; row < tiles.rows; row += gridDim.x) {
    const std::int64_t start = row * tiles.in_row;
    Factor before{1, 0};
    for (std::int64_t i = first; i < end; ++i) before = before * products[start + i];
    Factor behind = before;
    __syncthreads();  // the row before may still be read
    up_to[thread] = from[thread] = before;
    for (int away = 1; away < kRowThreads; away *= 2) {
      __syncthreads();
      if (thread >= away) before = up_to[thread - away] * before;
      if (thread + away < kRowThreads) behind = behind * from[thread + away];
      __syncthreads();
      up_to[thread] = before;
      from[thread] = behind;
    }
    __syncthreads();
    before = thread > 0 ? up_to[thread - 1] : Factor{1, 0};
    behind = thread + 1 < kRowThreads ? from[thread + 1] : Factor{1, 0};
    for (std::int64_t i = first; i < end; ++i) {
      outside.before[start + i] = before;
      before = before * products[start + i];
    }
    for (std::int64_t i = end - 1; i >= first; --i) {
      outside.behind[start + i] = behind;
      behind = products[start + i] * behind;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    prod_backward_kernel(Tiles tiles, const T* grad, const T* x, Outside outside, T* out) {
  const int lanes = tiles.lanes, lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes, of_warp = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t side = kRowThreads / lanes, items = tiles.rows * tiles.in_row;
  for (std::int64_t base = blockIdx.x * side; base < items; base += gridDim.x * side) {
    const std::int64_t tile = base + group;
    Factor factors[kEach], right[kEach];
    Factor before = read_factors(tiles, x, tile, lane, factors), behind = before;
    for (int away = 1; away < lanes; away *= 2) {
      const Factor below = lane_value(before, of_warp - away), above = lane_value(behind, of_warp + away);
      if (lane >= away) before = below * before;
      if (lane + away < lanes) behind = behind * above;
    }
    const Factor below = lane_value(before, of_warp - 1), above = lane_value(behind, of_warp + 1);
    if (tile >= items) continue;
    const std::int64_t row = tile / tiles.in_row, first = (tile - row * tiles.in_row) * kTileElements + lane * kEach;
    Factor left = factor_of(grad[row]);
    right[kEach - 1] = lane + 1 < lanes ? above : Factor{1, 0};
    if (lane > 0) left = left * below;
    if (outside.before != nullptr) {
      left = left * outside.before[tile];
      right[kEach - 1] = right[kEach - 1] * outside.behind[tile];
    }
    CAPSTAN_UNROLL
    for (int e = kEach - 1; e > 0; --e) right[e - 1] = factors[e] * right[e];
    CAPSTAN_UNROLL
    for (int e = 0; e < kEach; ++e) {
      if (first + e < tiles.count)
        out[row * tiles.count + first + e] = narrow<T>(static_cast<Compute<T>>(value_of(left * right[e])));
      left = left * factors[e];
    }
  }
}

}  // namespace

void prod_backward(const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  const Tiles tiles(x.shape[0], x.shape[1]);
  const std::int64_t parts = tiles.in_row > 1 ? tiles.rows * tiles.in_row : 0;
  Tensor room;
  if (parts > 0) room = workspace(3 * parts * static_cast<std::int64_t>(sizeof(Factor)), DType::uint8);
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    Outside outside{nullptr, nullptr};
    if (parts > 0) {
      Factor* const products = room.impl()->as<Factor>();
      outside = {products + parts, products + 2 * parts};
      launch(tile_products_kernel<T>, tiles.shape(), tiles, x.as<T>(), products);
      launch(outside_kernel, block_each(tiles.rows), tiles, products, outside);
    }
    launch(prod_backward_kernel<T>, tiles.shape(), tiles, grad.as<T>(), x.as<T>(), outside, out.as<T>());
  });
}

}  // namespace capstan::on_cuda
