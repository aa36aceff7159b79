#pragma once
// What the layers that normalize share.
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {

/// The elements, or null if there is no tensor.
template <class T>
T* data_or_null(const TensorImpl* tensor) {
  return tensor == nullptr ? nullptr : tensor->as<T>();
}

/// Images x [samples, channels, ...], contiguous; `inner` elements of a channel side by side.
struct Images {
  std::int64_t samples, channels, inner;

  explicit Images(const TensorImpl& x) : samples(x.shape[0]), channels(x.shape[1]), inner(1) {
    for (int axis = 2; axis < x.rank(); ++axis) inner *= x.shape[axis];
  }
};

/// How many rows of `count` are worth handing to another thread. An element takes as long as two of an addition, and
/// each row the sum over its registers, a root and a division, as long as a hundred elements.
inline std::int64_t rows_worth_sharing(std::int64_t count) { return kCheapGrain / (2 * (count + 100)) + 1; }

inline std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

}  // namespace capstan::on_cpu
