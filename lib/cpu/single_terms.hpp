#pragma once
// Products whose left operand has at most one value other than zero in each line, a row or, where it is transposed, a
// column: one-hot vectors, states that begin with zeros. They come down to sums of rows of the right operand.
#include "lib/cpu/multiply.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {

/// Whether each line of [count, width], `step` apart, has at most one value other than zero. Stops at the first that has
/// more. Places and values go to `terms`, unless that is null, without their lines. False while a plan runs: its time
/// must not depend on values, nor the memory that it takes.
template <class T>
bool are_single_terms(const T* lines, std::int64_t step, std::int64_t count, std::int64_t width,
                      SingleTerm<T>* terms = nullptr);

/// Puts at most kSumBlock terms, in the order of their lines, in that of their places, of which there are `places`.
template <class T>
void put_in_order(SingleTerm<T>* terms, std::int64_t count, std::int64_t places);

/// Adds the rows of b that terms name as their lines, times their values, to the rows of c at their places: block by block
/// of kSumBlock terms, each in the order of places. `one_by_one`: in the order of lines, whatever the blocks.
template <class T>
void give_in_blocks(const SingleTerm<T>* terms, std::int64_t count, const Matrix<const T>& b, T* c, std::int64_t c_row,
                    std::int64_t width, bool one_by_one);

/// Whether all values are finite. If not, zeros against them count, too.
template <class T>
bool are_finite(const T* rows, std::int64_t step, std::int64_t count, std::int64_t width);

/// `multiply`, which looks first whether it is such a product.
template <class T>
void multiply_sparse(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
                     std::int64_t n, std::int64_t k, const Start<T>& start = {});

}  // namespace capstan::on_cpu
