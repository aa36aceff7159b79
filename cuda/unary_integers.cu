// Rows of one operand for integers.
#include "cuda/unary_rows.cuh"

namespace capstan::on_cuda {

template const UnaryRow<std::int8_t>& unary_row<std::int8_t>(int op);
template const UnaryRow<std::int16_t>& unary_row<std::int16_t>(int op);
template const UnaryRow<std::int32_t>& unary_row<std::int32_t>(int op);
template const UnaryRow<std::int64_t>& unary_row<std::int64_t>(int op);
template const UnaryRow<std::uint8_t>& unary_row<std::uint8_t>(int op);

}  // namespace capstan::on_cuda
