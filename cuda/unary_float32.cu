// Rows of one operand, and their gradients, in float32.
#include "cuda/unary_rows.cuh"

namespace capstan::on_cuda {

template const UnaryRow<float>& unary_row<float>(int op);
template const PairRow<float>& unary_backward_row<float>(int op);

}  // namespace capstan::on_cuda
