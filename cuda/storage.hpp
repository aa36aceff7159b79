#pragma once
// Memory of tensors on a GPU, and which streams have used it.
#include <atomic>
#include <cstdint>

#include "cuda/devices.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

/// The host's part of a tensor's memory. Its data is on the device.
struct GpuStorage : core::Storage {
  Block* block = nullptr;
  /// The stream that wrote last, and a bit for each that has read since. Reading on another stream first waits for the
  /// writer, writing for all of them, so that a program may use any tensor on any stream.
  std::atomic<StreamId> writer{0};
  std::atomic<std::uint64_t> readers{0};
};

/// Where x's elements are. Those of row slices that have been filled in are another tensor's, see row_slices.cpp.
inline GpuStorage& gpu_storage(const TensorImpl& x) noexcept {
  auto& own = static_cast<GpuStorage&>(*x.storage);
  return own.release == nullptr ? own : static_cast<GpuStorage&>(*static_cast<TensorImpl*>(own.context)->storage);
}

core::Storage* make_storage(std::int64_t bytes, Device device, Where where);
void destroy_storage(core::Storage* storage) noexcept;

/// The call's stream is about to read, or to write, x.
void reads(const TensorImpl& x);
void writes(TensorImpl& x);

}  // namespace capstan::on_cuda
