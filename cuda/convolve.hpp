#pragma once
// The ways of computing a convolution without a library, by file. Operands are elements on the device, as they lie in
// contiguous tensors; what they are says convolve_plan.hpp.
#include "cuda/convolve_plan.hpp"

namespace capstan::on_cuda {

// convolve_pass.cu, for the targets result (x are images) and image (x are the gradients of results). bias may be null
void convolve_by_tiles(const Convolution& c, ConvolveTarget target, const void* x, const void* weight, const void* bias,
                       void* out);
// convolve_weight.cu
void convolve_weight_by_tiles(const Convolution& c, const void* x, const void* grad, void* out);
/// out [count] = the sums of partial [parts, count], which is float64 for that type and else float32
void add_parts(DType dtype, const void* partial, std::int64_t parts, std::int64_t count, void* out);
// convolve_depthwise.cu: one image channel in each group
void convolve_depthwise(const Convolution& c, ConvolveTarget target, const void* x, const void* weight,
                        const void* bias, void* out);
void convolve_weight_depthwise(const Convolution& c, const void* x, const void* grad, void* out);

}  // namespace capstan::on_cuda
