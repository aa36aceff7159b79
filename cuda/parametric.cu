// Rows of one operand and two numbers, and their gradients.
#include <tuple>

#include "cuda/elementwise_rows.cuh"

namespace capstan::on_cuda {
namespace {

template <class T, class... Op>
const ParametricRow<T>* table_of(std::tuple<Op...>*) {
  static const ParametricRow<T> table[] = {row_of<ParametricRule<Op, T>, T, T>()...};
  return table;
}
template <class T, class... Op>
const ParametricPairRow<T>* backward_table_of(std::tuple<Op...>*) {
  static const ParametricPairRow<T> table[] = {row_of<ParametricBackwardRule<Op, T>, T, T, T>()...};
  return table;
}

}  // namespace

template <class T>
const ParametricRow<T>& parametric_row(int op) {
  return table_of<T>(static_cast<kernels::ParametricOps*>(nullptr))[op];
}
template <class T>
const ParametricPairRow<T>& parametric_backward_row(int op) {
  return backward_table_of<T>(static_cast<kernels::ParametricOps*>(nullptr))[op];
}

#define CAPSTAN_PARAMETRIC_ROWS(T)                            \
  template const ParametricRow<T>& parametric_row<T>(int op); \
  template const ParametricPairRow<T>& parametric_backward_row<T>(int op);
CAPSTAN_PARAMETRIC_ROWS(float)
CAPSTAN_PARAMETRIC_ROWS(double)
CAPSTAN_PARAMETRIC_ROWS(float16)
CAPSTAN_PARAMETRIC_ROWS(bfloat16)
#undef CAPSTAN_PARAMETRIC_ROWS

}  // namespace capstan::on_cuda
