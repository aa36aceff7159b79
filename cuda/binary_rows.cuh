#pragma once
// Tables of the rows of two operands, for the files that instantiate them.
#include <tuple>

#include "cuda/elementwise_rows.cuh"

namespace capstan::on_cuda {

template <class Op, class T>
PairRow<T> binary_entry() {
  if constexpr (kTakes<Op, T>) return row_of<BinaryRule<Op, T>, T, T, T>();
  else return {};
}
template <class T, class... Op>
const PairRow<T>* binary_table(std::tuple<Op...>*) {
  static const PairRow<T> table[] = {binary_entry<Op, T>()...};
  return table;
}

template <class T>
const PairRow<T>& binary_row(int op) {
  return binary_table<T>(static_cast<kernels::BinaryOps*>(nullptr))[op];
}

}  // namespace capstan::on_cuda
