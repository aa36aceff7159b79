#include "cuda/transfer.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/capture.hpp"
#include "cuda/context.hpp"
#include "cuda/devices.hpp"
#include "cuda/storage.hpp"

namespace capstan::on_cuda {
namespace {

std::size_t bytes_of(const TensorImpl& x) { return static_cast<std::size_t>(x.numel() * size_of(x.dtype)); }

/// Pinned memory, which is slow to get, is kept for reuse: blocks by size, each with the events behind which it is free.
class PinnedMemory {
 public:
  struct Block {
    std::byte* data;
    std::size_t bytes;
    std::vector<std::pair<int, cudaEvent_t>> uses;  // device, and a mark behind the copy
  };

  Block* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto size = static_cast<std::size_t>(rounded_size(static_cast<std::int64_t>(bytes)));
    for (auto [at, end] = free_.equal_range(size); at != end; ++at) {
      // a host that is far ahead of its copies waits for them
      if (!is_finished(*at->second, total_ + size > kMost)) continue;
      Block* block = at->second;
      free_.erase(at);
      return block;
    }
    void* data = nullptr;
    check(cudaHostAlloc(&data, size, cudaHostAllocPortable), "allocating pinned memory");
    auto* block = new Block{static_cast<std::byte*>(data), size, {}};
    blocks_[block->data] = block;
    total_ += size;
    return block;
  }
  /// Gives back to the system what nobody has, once its copies are done.
  void release() {
    const std::lock_guard lock(mutex_);
    for (const auto& [size, block] : free_) {
      is_finished(*block, true);
      cudaFreeHost(block->data);
      blocks_.erase(block->data);
      total_ -= size;
      delete block;
    }
    free_.clear();
  }
  void give(Block* block) {
    const std::lock_guard lock(mutex_);
    free_.emplace(block->bytes, block);
  }
  /// The block that an address lies in, or null.
  Block* find(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    auto place = blocks_.upper_bound(const_cast<std::byte*>(address));
    if (place == blocks_.begin()) return nullptr;
    --place;
    return address < place->first + place->second->bytes ? place->second : nullptr;
  }
  /// A copy from or to that block is on the call's stream.
  void used(Block& block) {
    const Call& now = call();
    cudaEvent_t event = device(now.device).borrow_event();
    check(cudaEventRecord(event, now.stream), "recording an event");
    const std::lock_guard lock(mutex_);
    is_finished(block, false);
    block.uses.emplace_back(now.device, event);
  }

 private:
  static constexpr std::size_t kMost = std::size_t{512} << 20;

  /// Whether all copies from and to it are done.
  static bool is_finished(Block& block, bool wait) {
    std::erase_if(block.uses, [wait](const std::pair<int, cudaEvent_t>& use) {
      if (wait) cudaEventSynchronize(use.second);
      else if (!has_reached(use.second)) return false;
      device(use.first).return_event(use.second);
      return true;
    });
    return block.uses.empty();
  }

  std::mutex mutex_;
  std::map<std::byte*, Block*> blocks_;
  std::multimap<std::size_t, Block*> free_;
  std::size_t total_ = 0;  // bytes
};
PinnedMemory& pinned_memory() {
  static auto* const instance = new PinnedMemory;
  return *instance;
}

void copy_bytes(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, call().stream), "a copy");
}

void require_no_capture() {
  if (Capture* capture = capture_on(call().device)) capture->host_reads();
}

}  // namespace

void to_device(const TensorImpl& x, TensorImpl& out) {
  writes(out);
  if (Capture* capture = capture_on(call().device))
    return copy_bytes(out.data, capture->keep(x.data, bytes_of(x)), bytes_of(x), cudaMemcpyHostToDevice);
  PinnedMemory::Block* block = pinned_memory().find(x.data);
  copy_bytes(out.data, x.data, bytes_of(x), cudaMemcpyHostToDevice);
  if (block != nullptr) pinned_memory().used(*block);
}

namespace {

// The driver takes a copy of less by itself; of more a second one would cost too much memory.
constexpr std::size_t kDriverStages = 32 << 10, kMostStaged = 64 << 20;

/// Whether copies read it when the stream comes to them: pinned memory, of whoever made it.
bool is_locked(const TensorImpl& x) noexcept {
  cudaPointerAttributes found{};
  if (cudaPointerGetAttributes(&found, x.data) == cudaSuccess) return found.type != cudaMemoryTypeUnregistered;
  cudaGetLastError();
  return true;
}

/// out = x by way of pinned memory of our own: the driver would wait for the stream before it reads other memory, and
/// whoever calls may change x as soon as this returns.
void staged_to_device(const TensorImpl& x, TensorImpl& out) {
  const std::size_t bytes = bytes_of(x);
  if (capture_on(call().device) != nullptr) return to_device(x, out);
  const bool small = bytes <= kDriverStages, large = bytes > kMostStaged;
  const bool held = (small || large) && is_locked(x);
  if ((small && !held) || large) {
    to_device(x, out);
    if (held) check(cudaStreamSynchronize(call().stream), "waiting for a copy");
    return;
  }
  writes(out);
  PinnedMemory::Block* stage = pinned_memory().take(bytes);
  std::memcpy(stage->data, x.data, bytes);
  try {
    copy_bytes(out.data, stage->data, bytes, cudaMemcpyHostToDevice);
    pinned_memory().used(*stage);
  } catch (...) {
    pinned_memory().give(stage);
    throw;
  }
  pinned_memory().give(stage);
}

}  // namespace

void to_host(const TensorImpl& x, TensorImpl& out) {
  reads(x);
  read_back(x.data, out.data, bytes_of(x));
}

void transfer(const TensorImpl& x, TensorImpl& out, Where where) {
  call_from(where);
  const bool from_gpu = x.device().kind == DeviceKind::cuda, to_gpu = out.device().kind == DeviceKind::cuda;
  begin_call("Tensor::to", from_gpu ? x.device().index : out.device().index);
  if (!from_gpu) return staged_to_device(x, out);
  if (!to_gpu) return to_host(x, out);
  require_no_capture();
  // from one GPU to another: on the source's stream, and the target's goes on behind it
  reads(x);
  GpuDevice& source = device(x.device().index);
  const int target = out.device().index;
  cudaEvent_t event = device(target).borrow_event();
  begin_call("Tensor::to", target);
  writes(out);
  check(cudaEventRecord(event, call().stream), "recording an event");
  begin_call("Tensor::to", source.index());
  check(cudaStreamWaitEvent(call().stream, event, 0), "waiting for an event");  // whoever used out's memory before
  device(target).return_event(event);
  check(cudaMemcpyPeerAsync(out.data, target, x.data, source.index(), bytes_of(x), call().stream), "a copy");
  event = source.borrow_event();
  check(cudaEventRecord(event, call().stream), "recording an event");
  begin_call("Tensor::to", target);
  check(cudaStreamWaitEvent(call().stream, event, 0), "waiting for an event");
  source.return_event(event);
}

void transfer_later(const TensorImpl& x, TensorImpl& out, Where where) {
  const bool from_gpu = x.device().kind == DeviceKind::cuda, to_gpu = out.device().kind == DeviceKind::cuda;
  if (from_gpu && to_gpu) return transfer(x, out, where);  // which waits for nothing either
  call_from(where);
  begin_call("copy_async", from_gpu ? x.device().index : out.device().index);
  if (to_gpu) return to_device(x, out);
  require_no_capture();
  reads(x);
  copy_bytes(out.data, x.data, bytes_of(x), cudaMemcpyDeviceToHost);
  if (PinnedMemory::Block* block = pinned_memory().find(out.data)) pinned_memory().used(*block);
}

void release_pinned() { pinned_memory().release(); }

Tensor make_pinned(const Shape& shape, DType dtype, Where where) {
  call_from(where);
  begin_call("pinned", call().device);
  PinnedMemory::Block* block = pinned_memory().take(static_cast<std::size_t>(shape.numel() * size_of(dtype)));
  const auto release = [](void* held) { pinned_memory().give(static_cast<PinnedMemory::Block*>(held)); };
  try {
    return core::make_borrowed(block->data, shape, dtype, release, block, where);
  } catch (...) {
    pinned_memory().give(block);
    throw;
  }
}

bool is_pinned(const TensorImpl& x) noexcept {
  return x.device().kind == DeviceKind::cpu && pinned_memory().find(x.data) != nullptr;
}

}  // namespace capstan::on_cuda
