// Rows of two operands in float16 and bfloat16.
#include "cuda/binary_rows.cuh"

namespace capstan::on_cuda {

template const PairRow<float16>& binary_row<float16>(int op);
template const PairRow<bfloat16>& binary_row<bfloat16>(int op);

}  // namespace capstan::on_cuda
