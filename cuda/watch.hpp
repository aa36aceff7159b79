#pragma once
// NaN and infinities, found by the device and told later.
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

/// See DeviceRuntime::watch_numbers.
void watch_numbers(const char* op, Where where, const TensorImpl& x, const TensorImpl* const* inputs, std::size_t count,
                   bool infinite);

}  // namespace capstan::on_cuda
