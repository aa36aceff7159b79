#pragma once
// Matrix products, for the other kernels of this folder.
#include <cstdint>
#include <initializer_list>

namespace capstan::on_cpu {

/// One matrix: elements at data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;
};

/// c [m, n] = a [m, k] * b [k, n], or added to c, whose rows are `c_row` apart; split among the threads. float and
/// double. Rows or columns of either operand must be contiguous. The result does not depend on the number of threads.
/// Sizes and strides must have passed `require_blas_sizes`. Does not throw.
template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
              std::int64_t n, std::int64_t k, bool accumulate);

/// Throws BackendError for sizes and strides of 2^31 and more, which OpenBLAS does not take.
void require_blas_sizes(const char* op, std::initializer_list<std::int64_t> sizes);

}  // namespace capstan::on_cpu
