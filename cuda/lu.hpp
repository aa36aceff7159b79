#pragma once
// LU factors of batches of matrices by columns.
#include "cuda/matrices.hpp"
#include "cuda/solver.hpp"

namespace capstan::on_cuda::lapack {

/// The factors of `count` matrices [n, n] take their place; pivots [count, n] as LAPACK has them.
template <class T>
void factor(int n, std::int64_t count, T* a, int* pivots, const Infos& infos) {
  const std::int64_t size = std::int64_t{n} * n;
  if (in_one_call(count, n)) {
    const Tensor list = addresses(a, size * static_cast<std::int64_t>(sizeof(T)), count);
    return getrf_batched(n, list.impl()->as<T*>(), pivots, infos.at(0), to_int(count));
  }
  const Tensor work = workspace(getrf_length(n, a), dtype_of<T>());
  for (std::int64_t i = 0; i < count; ++i) getrf(n, a + i * size, work.impl()->as<T>(), pivots + i * n, infos.at(i));
}

/// The solutions of a x = b, with those factors of a, take the place of b, `count` times [n, k] by columns.
template <class T>
void substitute(int n, int k, std::int64_t count, const T* a, const int* pivots, T* b) {
  const std::int64_t size = std::int64_t{n} * n, side = std::int64_t{n} * k;
  const auto element = static_cast<std::int64_t>(sizeof(T));
  if (in_one_call(count, n)) {
    const Tensor left = addresses(a, size * element, count), right = addresses(b, side * element, count);
    return getrs_batched(n, k, left.impl()->as<const T*>(), pivots, right.impl()->as<T*>(), to_int(count));
  }
  const Tensor unused = workspace(1, DType::int32);  // nothing can go wrong any more
  for (std::int64_t i = 0; i < count; ++i)
    getrs(n, k, a + i * size, pivots + i * n, b + i * side, unused.impl()->as<int>());
}

}  // namespace capstan::on_cuda::lapack
