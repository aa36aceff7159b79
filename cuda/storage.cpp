#include "cuda/storage.hpp"

#include <new>

#include "cuda/capture.hpp"
#include "cuda/context.hpp"
#include "lib/core/allocator.hpp"

namespace capstan::on_cuda {
namespace {

constexpr std::uint64_t bit_of(StreamId stream) noexcept { return std::uint64_t{1} << stream; }

/// Orders the call's stream behind all of those streams.
void wait_for(std::uint64_t streams) {
  const Call& now = call();
  for (StreamId other = 0; streams != 0; ++other, streams >>= 1)
    if ((streams & 1) != 0 && other != now.id) device(now.device).order(other, now.id);
}

}  // namespace

core::Storage* make_storage(std::int64_t bytes, Device where_to, Where where) {
  GpuDevice& gpu = device(where_to.index);
  const StreamId stream = current_stream(where_to.index);
  Capture* capture = capture_on(where_to.index);
  auto* storage = new (core::allocate(sizeof(GpuStorage), where)) GpuStorage;
  try {
    storage->block = gpu.allocator().allocate(bytes, stream, where, capture != nullptr ? capture->pools() : nullptr);
  } catch (const Allocator::Exhausted& e) {
    storage->~GpuStorage();
    core::deallocate(storage, sizeof(GpuStorage));
    base::fail<OutOfMemoryError>(where, "allocate on ", where_to, ": ", e.text);
  } catch (...) {
    storage->~GpuStorage();
    core::deallocate(storage, sizeof(GpuStorage));
    throw;
  }
  storage->data = storage->block->data;
  storage->block_bytes = core::kStorageHeader + bytes;
  storage->device = where_to;
  storage->writer.store(stream, std::memory_order_relaxed);
  if (capture != nullptr) capture->made(*storage, where);
  return storage;
}

void destroy_storage(core::Storage* base) noexcept {
  auto* storage = static_cast<GpuStorage*>(base);
  const int index = storage->device.index;
  if (storage->release != nullptr) storage->release(storage->context);  // elements of another's, see row_slices.cpp
  if (Capture* capture = capture_on(index)) capture->gone(*storage);
  const std::uint64_t used =
      storage->readers.load(std::memory_order_relaxed) | bit_of(storage->writer.load(std::memory_order_relaxed));
  device(index).allocator().free(storage->block, used & ~bit_of(storage->block->stream));
  storage->~GpuStorage();
  core::deallocate(storage, sizeof(GpuStorage));
}

void reads(const TensorImpl& x) {
  GpuStorage& storage = gpu_storage(x);
  const Call& now = call();
  if (Capture* capture = capture_on(now.device)) {  // everything before it is done
    capture->uses(storage, false);
    return;
  }
  const StreamId writer = storage.writer.load(std::memory_order_relaxed);
  if (writer == now.id || (storage.readers.load(std::memory_order_relaxed) & bit_of(now.id)) != 0) return;
  wait_for(bit_of(writer));
  storage.readers.fetch_or(bit_of(now.id), std::memory_order_relaxed);
}

void writes(TensorImpl& x) {
  GpuStorage& storage = gpu_storage(x);
  const Call& now = call();
  if (Capture* capture = capture_on(now.device)) {
    capture->uses(storage, true);
    return;
  }
  const StreamId writer = storage.writer.load(std::memory_order_relaxed);
  const std::uint64_t readers = storage.readers.load(std::memory_order_relaxed);
  if (writer == now.id && readers == 0) return;
  wait_for(bit_of(writer) | readers);
  storage.writer.store(now.id, std::memory_order_relaxed);
  storage.readers.store(0, std::memory_order_relaxed);
}

}  // namespace capstan::on_cuda
