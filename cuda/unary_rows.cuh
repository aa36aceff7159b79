#pragma once
// Tables of the rows of one operand, for the files that instantiate them.
#include <tuple>

#include "cuda/elementwise_rows.cuh"

namespace capstan::on_cuda {

template <class Op, class T>
UnaryRow<T> unary_entry() {
  if constexpr (kTakes<Op, T>) return row_of<UnaryRule<Op, T>, T, T>();
  else return {};
}
template <class T, class... Op>
const UnaryRow<T>* unary_table(std::tuple<Op...>*) {
  static const UnaryRow<T> table[] = {unary_entry<Op, T>()...};
  return table;
}
template <class T, class... Op>
const PairRow<T>* unary_backward_table(std::tuple<Op...>*) {
  static const PairRow<T> table[] = {row_of<UnaryBackwardRule<Op, T>, T, T, T>()...};
  return table;
}

template <class T>
const UnaryRow<T>& unary_row(int op) {
  return unary_table<T>(static_cast<kernels::UnaryOps*>(nullptr))[op];
}
template <class T>
const PairRow<T>& unary_backward_row(int op) {
  return unary_backward_table<T>(static_cast<kernels::UnaryOps*>(nullptr))[op];
}

}  // namespace capstan::on_cuda
