// Rows of two operands in float32 and float64.
#include "cuda/binary_rows.cuh"

namespace capstan::on_cuda {

template const PairRow<float>& binary_row<float>(int op);
template const PairRow<double>& binary_row<double>(int op);

}  // namespace capstan::on_cuda
