#pragma once
// Products whose left operand has at most one value other than zero in each line, a row or, where it is transposed, a
// column: one-hot vectors, states that begin with zeros. They come down to sums of rows of the right operand.
#include "lib/cpu/multiply.hpp"

namespace capstan::on_cpu {

/// Whether each line of [count, width], `step` apart, has at most one value other than zero. Stops at the first that has
/// more. False while a plan runs: its time must not depend on values, nor the memory that it takes.
template <class T>
bool are_single_terms(const T* lines, std::int64_t step, std::int64_t count, std::int64_t width);

/// Whether all values are finite. If not, zeros against them count, too.
template <class T>
bool are_finite(const T* rows, std::int64_t step, std::int64_t count, std::int64_t width);

/// `multiply`, if this is such a product; else false, and what c held is lost unless it is added to. May throw
/// OutOfMemoryError, before c is written.
template <class T>
bool multiply_single_terms(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
                           std::int64_t n, std::int64_t k, bool accumulate);

}  // namespace capstan::on_cpu
