#pragma once
// What tests of GPUs share. They run on a simulated GPU and on a real one, and in programs of which an environment
// variable makes every operation wait.
#include <string>
#include <utility>
#include <vector>

#include "lib/core/device_runtime.hpp"
#include "tests/support.hpp"

/// Ends a test case where there are not so many GPUs, and says so.
#define CAPSTAN_NEEDS_GPUS(wanted)                                                                  \
  if (capstan::cuda::count() < (wanted)) {                                                          \
    WARN("not tested: it takes " << (wanted) << " GPUs, and there are " << capstan::cuda::count()); \
    return;                                                                                         \
  }                                                                                                 \
  static_assert(true)

namespace tests {

inline constexpr capstan::Device kGpu = capstan::cuda(0);

/// Whether operations wait for what they start: CAPSTAN_CUDA_SYNC=1. Errors come where they happen then.
inline bool waits_always() { return capstan::core::cuda_runtime()->waits_always(); }

/// Random numbers on the first GPU.
inline capstan::Tensor random_on_gpu(const capstan::Shape& shape, std::uint64_t seed,
                                     capstan::DType dtype = capstan::DType::float32) {
  return random_in(-1, 1, shape, dtype, seed).to(kGpu);
}
inline capstan::Tensor full_on_gpu(const capstan::Shape& shape, double value,
                                   capstan::DType dtype = capstan::DType::float32) {
  return capstan::full(shape, value, {.dtype = dtype, .device = kGpu});
}

inline std::vector<double> repeated(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

inline bool begins_with(const std::string& text, const std::string& beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tests
