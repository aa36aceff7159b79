// Copies from floating types to other types.
#include "cuda/convert_rules.cuh"

namespace capstan::on_cuda {

template void convert_from<float>(const TensorImpl& x, TensorImpl& out);
template void convert_from<double>(const TensorImpl& x, TensorImpl& out);
template void convert_from<float16>(const TensorImpl& x, TensorImpl& out);
template void convert_from<bfloat16>(const TensorImpl& x, TensorImpl& out);

}  // namespace capstan::on_cuda
