#pragma once
// Batches of matrices as LAPACK takes them, by columns, and what became of each; see lib/cpu/lapack.hpp.
#include <cstdint>

#include "cuda/context.hpp"

namespace capstan::on_cuda {

/// A contiguous tensor with undetermined elements, for the time of the call.
Tensor temporary(const Shape& shape, DType dtype);
/// The axes of `shape` but the last two, then rows and columns.
Shape matrices_of(const Shape& shape, std::int64_t rows, std::int64_t columns);
/// A view of the first rows and columns of every matrix, rows and columns exchanged.
Tensor exchanged(const TensorImpl& x, std::int64_t rows, std::int64_t columns);
/// The matrices of x by columns, [batch..., columns, rows]; x's leading axes broadcast to the batch's, which are all of
/// `like` but its last two.
Tensor by_columns(const TensorImpl& x, const Shape& like);
/// Back: `out` takes the first of the rows and columns.
void from_columns(const Tensor& columns, TensorImpl& out);
/// Ones on the diagonal of every matrix, and zeros: what the vectors of empty matrices are. Contiguous.
void fill_identity(TensorImpl& out);
/// `count` addresses in the device's memory, `step` bytes apart from `first` on.
Tensor addresses(const void* first, std::int64_t step, std::int64_t count);

/// A flag for each matrix of a batch: whether it is not finite. Solvers need not cope with such, and the others of the
/// batch do not notice.
class Broken {
 public:
  /// Looks through matrices [columns, rows] by columns, or through their lower triangles, and makes identities of those
  /// that are not finite.
  Broken(TensorImpl& matrices, std::int64_t count, bool lower = false);
  const int* flags() const { return flags_.impl()->as<int>(); }
  /// NaN takes the place of what was made of them. `results` is contiguous, float32 or float64.
  void spoil(TensorImpl& results) const;

 private:
  std::int64_t count_;
  Tensor flags_;
};

/// What a routine says of each matrix: 0, or what went wrong. Every one of them has to be written.
class Infos {
 public:
  explicit Infos(std::int64_t count) : count_(count), list_(workspace(count, DType::int32)) {}
  int* at(std::int64_t i) const { return list_.impl()->as<int>() + i; }
  /// Reports the first one that is not 0. It is known here only with CAPSTAN_CUDA_SYNC=1.
  core::BadMatrix finish() const;

 private:
  std::int64_t count_;
  Tensor list_;
};

/// infos[i] = 1 + the first place on the diagonal of matrix i that is 0, else 0. Matrix i begins at a + i * step, the
/// elements of its diagonal are `along` apart.
void find_zeros(const TensorImpl& a, std::int64_t step, std::int64_t along, std::int64_t n, std::int64_t count,
                const Infos& infos);

}  // namespace capstan::on_cuda
