#pragma once
// Matrix products, for the other kernels of this folder.
#include <algorithm>
#include <cstdint>

namespace capstan::on_cpu {

/// One matrix: elements at data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  std::int64_t row, column;
};

/// Sums are made of blocks of so many terms, on tiles of half as many more: with few roundings one after the other, and
/// of what the caches hold.
inline constexpr std::int64_t kSumBlock = 512;

/// What a product is added to: zeros; what c holds; or a row, which is the same for all rows of c.
template <class T>
struct Start {
  const T* bias = nullptr;
  bool accumulate = false;  // then there is no bias
};

/// Makes `count` columns of a row of c what they are before the product.
template <class T>
void begin_row(const Start<T>& start, T* c, std::int64_t count) {
  if (start.bias != nullptr) std::copy_n(start.bias, count, c);
  else if (!start.accumulate) std::fill_n(c, count, T(0));
}

/// c [m, n] = start + a [m, k] * b [k, n]; rows of c are `c_row` apart. Split among the threads. float and double,
/// operands of any strides. The result does not depend on the number of threads. Throws OutOfMemoryError.
template <class T>
void multiply(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
              std::int64_t n, std::int64_t k, const Start<T>& start = {});

/// How much memory a thread needs for such a product, in elements.
template <class T>
std::int64_t product_room(std::int64_t m, std::int64_t n, std::int64_t k);

/// The same bits, made in that much memory of the caller's, for loops in which nothing may throw.
template <class T>
void multiply_within(T* room, const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row,
                     std::int64_t m, std::int64_t n, std::int64_t k, const Start<T>& start = {});

/// Columns at the end of b [k, n] that are dot products with rows of a: where so few are left that most of a register
/// would be empty, and where b's columns are contiguous.
template <class T>
std::int64_t dotted_columns(const Matrix<const T>& b, std::int64_t n, std::int64_t k);

/// b [k, n], one row after the other.
template <class T>
void pack(const Matrix<const T>& b, std::int64_t k, std::int64_t n, T* out);

}  // namespace capstan::on_cpu
