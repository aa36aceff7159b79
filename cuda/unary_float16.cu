// Rows of one operand, and their gradients, in float16.
#include "cuda/unary_rows.cuh"

namespace capstan::on_cuda {

template const UnaryRow<float16>& unary_row<float16>(int op);
template const PairRow<float16>& unary_backward_row<float16>(int op);

}  // namespace capstan::on_cuda
