// Rows of one operand, and their gradients, in bfloat16.
#include "cuda/unary_rows.cuh"

namespace capstan::on_cuda {

template const UnaryRow<bfloat16>& unary_row<bfloat16>(int op);
template const PairRow<bfloat16>& unary_backward_row<bfloat16>(int op);

}  // namespace capstan::on_cuda
