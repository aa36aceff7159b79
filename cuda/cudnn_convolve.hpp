#pragma once
// Convolution by cuDNN, if it was found when this was built.
#include "cuda/convolve_plan.hpp"

namespace capstan::on_cuda {

#if defined(CAPSTAN_HAS_CUDNN)
/// Unless CAPSTAN_CUDNN=0.
bool cudnn_enabled() noexcept;

/// One of the three, without bias, from the other two: result from images and weights, image from the results'
/// gradients and weights, weight from images and the results' gradients; for what library_can() takes. The same bits in
/// every run. `accumulate`: onto what `out` holds, rounded once. False if cuDNN has no way to do so: then nothing has
/// happened.
bool cudnn_convolve(const Convolution& c, ConvolveTarget target, const void* a, const void* b, void* out,
                    bool accumulate = false);
#else
inline bool cudnn_enabled() noexcept { return false; }
inline bool cudnn_convolve(const Convolution&, ConvolveTarget, const void*, const void*, void*, bool = false) {
  return false;
}
#endif

}  // namespace capstan::on_cuda
