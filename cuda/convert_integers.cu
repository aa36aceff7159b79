// Copies from integers and bool to other types.
#include "cuda/convert_rules.cuh"

namespace capstan::on_cuda {

template void convert_from<std::int8_t>(const TensorImpl& x, TensorImpl& out);
template void convert_from<std::int16_t>(const TensorImpl& x, TensorImpl& out);
template void convert_from<std::int32_t>(const TensorImpl& x, TensorImpl& out);
template void convert_from<std::int64_t>(const TensorImpl& x, TensorImpl& out);
template void convert_from<std::uint8_t>(const TensorImpl& x, TensorImpl& out);
template void convert_from<bool>(const TensorImpl& x, TensorImpl& out);

}  // namespace capstan::on_cuda
