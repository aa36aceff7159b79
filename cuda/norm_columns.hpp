#pragma once
// Gradients of the weights and biases of rows: sums over rows for each column, in two steps of fixed order.
// No CUDA headers.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

/// Blocks that add up rows, each those of every `blocks`-th group of `at_once` rows: enough to fill a GPU, few enough
/// that what they found is little against the rows, and so many that none adds up many rows in float.
inline std::int64_t blocks_that_add(std::int64_t rows, std::int64_t at_once) {
  constexpr std::int64_t kUnits = 132, kMost = 4 * kUnits, kMostRounds = 256;
  const std::int64_t groups = rows / at_once + (rows % at_once != 0), least = groups / kMostRounds + 1;
  if (groups <= kUnits) return groups;
  const std::int64_t quarter = groups / 4, wanted = quarter < kUnits ? kUnits : quarter > kMost ? kMost : quarter;
  return wanted < least ? least : wanted;
}

/// What columns are summed over: rows [rows, count] of results (x - mean) * inverse + shift.
struct NormRows {
  std::int64_t rows, count;
  const TensorImpl &grad, &x;
  const TensorImpl* mean;  // [rows], null for 0
  const TensorImpl& inverse;
  const TensorImpl& shift;  // [rows], in the type that x is computed in
};

/// dweight [count] = the sums of grad * result, and dbias those of grad. Either may be null.
void sum_columns(const NormRows& rows, TensorImpl* dweight, TensorImpl* dbias);
/// The same from sums [blocks, 2, count] of the type that elements are computed in.
void join_columns(const TensorImpl& sums, std::int64_t blocks, std::int64_t count, TensorImpl* dweight,
                  TensorImpl* dbias);

}  // namespace capstan::on_cuda
