#pragma once
// Matrix products, for the other kernels of this folder.
#include <cstdint>

namespace capstan::on_cpu {

/// One matrix: elements at data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;
};

/// c [m, n] = a [m, k] * b [k, n], or added to c, whose rows are `c_row` apart; split among the threads. float and
/// double, operands of any strides. The result does not depend on the number of threads. Throws OutOfMemoryError.
template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
              std::int64_t n, std::int64_t k, bool accumulate);

/// How much memory a thread needs for such a product, in elements.
template <class T>
std::int64_t product_room(std::int64_t n, std::int64_t k);

/// The same bits, made in that much memory of the caller's, for loops in which nothing may throw.
template <class T>
void multiply_within(T* room, const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row,
                     std::int64_t m, std::int64_t n, std::int64_t k, bool accumulate);

/// b [k, n], one row after the other.
template <class T>
void pack(const Matrix<const T>& b, std::int64_t k, std::int64_t n, T* out);

}  // namespace capstan::on_cpu
