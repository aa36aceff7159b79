// Rows of two operands for integers.
#include "cuda/binary_rows.cuh"

namespace capstan::on_cuda {

template const PairRow<std::int8_t>& binary_row<std::int8_t>(int op);
template const PairRow<std::int16_t>& binary_row<std::int16_t>(int op);
template const PairRow<std::int32_t>& binary_row<std::int32_t>(int op);
template const PairRow<std::int64_t>& binary_row<std::int64_t>(int op);
template const PairRow<std::uint8_t>& binary_row<std::uint8_t>(int op);

}  // namespace capstan::on_cuda
