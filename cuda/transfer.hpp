#pragma once
// Copies between devices and the host, and pinned memory of the host.
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

/// out = x, contiguous and of one type and shape, on the call's stream. The first waits.
void to_host(const TensorImpl& x, TensorImpl& out);
void to_device(const TensorImpl& x, TensorImpl& out);

/// Entries of the DeviceRuntime.
void transfer(const TensorImpl& x, TensorImpl& out, Where where);
void transfer_later(const TensorImpl& x, TensorImpl& out, Where where);
Tensor make_pinned(const Shape& shape, DType dtype, Where where);
bool is_pinned(const TensorImpl& x) noexcept;
/// Gives unused pinned memory back to the system.
void release_pinned();

}  // namespace capstan::on_cuda
