#include "lib/core/tensor_impl.hpp"

#include <new>
#include <type_traits>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/debug_layout.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/observe.hpp"
#include "lib/core/recording.hpp"

namespace capstan::core {
namespace {

// Nothing has to run when they go.
static_assert(std::is_trivially_destructible_v<TensorImpl> && std::is_trivially_destructible_v<Storage>);
static_assert(kStorageHeader <= kHeaderRoom);

/// A tensor in a block of its own.
TensorImpl* new_impl(const Shape& shape, DType dtype, Where where) {
  return new (allocate(sizeof(TensorImpl), where)) TensorImpl(shape, dtype);
}

void make_contiguous(TensorImpl& impl, Storage* storage) noexcept {
  impl.storage = storage;
  impl.data = storage->data;
  impl.contiguous = true;
  row_major_strides(impl.shape, impl.strides);
}

/// Where the tensor is that was made with a storage of the CPU. No other tensor is there: storages of other devices are
/// larger than a Storage, too.
TensorImpl* companion(Storage* storage) noexcept {
  return reinterpret_cast<TensorImpl*>(reinterpret_cast<std::byte*>(storage) + sizeof(Storage));
}

/// A tensor, its storage and its elements in one block.
[[gnu::always_inline]] inline TensorImpl* new_on_cpu(const Shape& shape, DType dtype, std::int64_t bytes, Where where) {
  void* const block = allocate(kStorageHeader + bytes, where);
  auto* storage = new (block) Storage;
  storage->data = static_cast<std::byte*>(block) + kStorageHeader;
  storage->block_bytes = kStorageHeader + bytes;
  auto* impl = new (companion(storage)) TensorImpl(shape, dtype);
  make_contiguous(*impl, storage);
  return impl;
}

TensorImpl* new_on_gpu(const Shape& shape, DType dtype, std::int64_t bytes, Device device, Where where) {
  TensorImpl* impl = new_impl(shape, dtype, where);
  try {
    make_contiguous(*impl, cuda_runtime()->make_storage(bytes, device, where));
  } catch (...) {
    deallocate(impl, sizeof(TensorImpl));
    throw;
  }
  return impl;
}

[[noreturn]] __attribute__((noinline, cold)) void fail_size(const Shape& shape, DType dtype, Where where) {
  base::fail<OutOfMemoryError>(where, "allocate: ", shape, " of ", dtype, " would take more than 2^63 bytes.");
}

}  // namespace

void row_major_strides(const Shape& shape, std::int64_t* strides) noexcept {
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis] > 0 ? shape[axis] : 1;
  }
}

bool is_row_major(const Shape& shape, const std::int64_t* strides) noexcept {
  if (shape.numel() == 0) return true;
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != stride) return false;
    stride *= shape[axis];
  }
  return true;
}

Tensor make_workspace(const Shape& shape, DType dtype, Device device, Where where) {
  require_device("empty", device, where);
  std::int64_t bytes;
  if (__builtin_mul_overflow(shape.numel(), element_bytes(dtype), &bytes) || bytes > INT64_MAX - kStorageHeader)
      [[unlikely]]
    fail_size(shape, dtype, where);
  TensorImpl* impl = device.kind == DeviceKind::cpu ? new_on_cpu(shape, dtype, bytes, where)
                                                    : new_on_gpu(shape, dtype, bytes, device, where);
  if (Recording* now = recording()) [[unlikely]]
    now->made(impl->storage);
  return Tensor::adopt(impl);
}

Tensor make_tensor(const Shape& shape, DType dtype, Device device, Where where) {
  if (!watched(kWatchMemory)) return make_workspace(shape, dtype, device, where);
  Tensor result = make_workspace(shape, dtype, device, where);
  storage_made(*result.impl()->storage, where);
  return result;
}

Tensor make_view(const TensorImpl& base, const Shape& shape, const std::int64_t* strides, std::int64_t offset,
                 Where where) {
  TensorImpl* impl = new_impl(shape, base.dtype, where);
  for (int axis = 0; axis < shape.rank(); ++axis) impl->strides[axis] = strides[axis];
  retain(base.storage);
  impl->storage = base.storage;
  impl->data = base.data + offset * element_bytes(base.dtype);
  impl->contiguous = is_row_major(shape, strides);
  return Tensor::adopt(impl);
}

Tensor make_borrowed(void* data, const Shape& shape, DType dtype, void (*release)(void*), void* context, Where where) {
  TensorImpl* impl = new_on_cpu(shape, dtype, 0, where);
  impl->data = impl->storage->data = static_cast<std::byte*>(data);
  impl->storage->block_bytes = 0;
  impl->storage->release = release;
  impl->storage->context = context;
  if (Recording* now = recording()) [[unlikely]]
    now->made(impl->storage);
  return Tensor::adopt(impl);
}

void destroy_storage(Storage* storage) noexcept {
  if (storage->watched_since != 0) [[unlikely]]
    storage_gone(*storage);
  if (storage->device.kind != DeviceKind::cpu) return cuda_runtime()->destroy_storage(storage);
  if (storage->release != nullptr) storage->release(storage->context);
  deallocate(storage, storage->block_bytes > 0 ? storage->block_bytes : kStorageHeader);
}

void destroy_tensor(TensorImpl* impl) noexcept {
  Storage* const storage = impl->storage;
  const RowSlices* const slices = impl->slices.load(std::memory_order_relaxed);
  const bool is_companion = impl == companion(storage);
  impl->references.store(0, std::memory_order_relaxed);  // so debuggers see that it is gone, even if its storage stays
  if (is_companion) ASAN_POISON_MEMORY_REGION(impl, sizeof(TensorImpl));  // until the block is taken again
  if (is_companion && slices == nullptr) [[likely]]
    return release(storage);  // with the last reference goes the block of both
  release(storage);
  delete slices;
  if (!is_companion) deallocate(impl, sizeof(TensorImpl));
}

void fail_undefined(const char* op, Where where) {
  base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
}

int normalize_axis(const char* op, int axis, int rank, Where where) {
  if (axis < -rank || axis >= rank)
    base::fail<IndexError>(where, op, ": axis ", axis, " is out of range for rank ", rank, "; it must be in [", -rank,
                           ", ", rank, ").");
  return axis < 0 ? axis + rank : axis;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b, Where where) {
  if (a == b) return a;
  const int rank = a.rank() > b.rank() ? a.rank() : b.rank();
  std::int64_t sizes[kMaxRank];
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const std::int64_t sa = ia < 0 ? 1 : a[ia], sb = ib < 0 ? 1 : b[ib];
    if (sa != sb && sa != 1 && sb != 1)
      base::fail<ShapeError>(where, op, ": shapes do not broadcast: a is ", a, " and b is ", b, "; sizes ", sa, " and ",
                             sb, " of axis ", i - rank, " must be equal or 1.");
    sizes[i] = sa == 1 ? sb : sa;
  }
  return Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
}

void fail_devices(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  base::fail<DeviceError>(where, op, ": operands are on different devices: a on ", a.device(), ", b on ", b.device(),
                          ". Move one with x.to(device).");
}

}  // namespace capstan::core

namespace capstan {

Tensor::Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
  if (impl_ != nullptr) core::retain(impl_);
}
Tensor& Tensor::operator=(const Tensor& other) & noexcept {
  if (other.impl_ != nullptr) core::retain(other.impl_);
  if (impl_ != nullptr) core::release(impl_);
  impl_ = other.impl_;
  return *this;
}
Tensor& Tensor::operator=(Tensor&& other) & noexcept {
  TensorImpl* old = std::exchange(impl_, std::exchange(other.impl_, nullptr));
  if (old != nullptr) core::release(old);
  return *this;
}
Tensor::~Tensor() {
  if (impl_ != nullptr) core::release(impl_);
}

}  // namespace capstan

// Nothing refers to it but debuggers, so the linker is asked to leave it in. It stands here because every program that
// holds a tensor links this file.
#if defined(__ELF__) && __has_attribute(retain)
#define CAPSTAN_KEEP __attribute__((used, retain))
#else
#define CAPSTAN_KEEP __attribute__((used))
#endif
extern "C" CAPSTAN_PUBLIC CAPSTAN_KEEP constinit const capstan::DebugLayout capstan_debug_layout{};
