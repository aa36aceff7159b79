// Rows of one operand, and their gradients, in float64.
#include "cuda/unary_rows.cuh"

namespace capstan::on_cuda {

template const UnaryRow<double>& unary_row<double>(int op);
template const PairRow<double>& unary_backward_row<double>(int op);

}  // namespace capstan::on_cuda
