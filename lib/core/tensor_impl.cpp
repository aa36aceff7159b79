#include "lib/core/tensor_impl.hpp"

#include <new>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/debug_layout.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/observe.hpp"
#include "lib/core/recording.hpp"

namespace capstan::core {
namespace {

TensorImpl* new_impl(const Shape& shape, DType dtype, Where where) {
  return new (allocate(sizeof(TensorImpl), where)) TensorImpl(shape, dtype);
}

Storage* make_cpu_storage(std::int64_t data_bytes, Where where) {
  const std::int64_t bytes = kStorageHeader + data_bytes;
  void* block = allocate(bytes, where);
  auto* storage = new (block) Storage;
  storage->data = static_cast<std::byte*>(block) + kStorageHeader;
  storage->block_bytes = bytes;
  return storage;
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
  const std::int64_t element = size_of(dtype);
  if (shape.numel() > (INT64_MAX - kStorageHeader) / element)
    base::fail<OutOfMemoryError>(where, "allocate: ", shape, " of ", dtype, " would take more than 2^63 bytes.");
  TensorImpl* impl = new_impl(shape, dtype, where);
  const std::int64_t bytes = shape.numel() * element;
  try {
    impl->storage = device.kind == DeviceKind::cpu ? make_cpu_storage(bytes, where)
                                                   : cuda_runtime()->make_storage(bytes, device, where);
  } catch (...) {
    deallocate(impl, sizeof(TensorImpl));
    throw;
  }
  impl->data = impl->storage->data;
  impl->contiguous = true;
  row_major_strides(shape, impl->strides);
  if (Recording* now = recording()) [[unlikely]]
    now->made(impl->storage);
  return Tensor::adopt(impl);
}

Tensor make_tensor(const Shape& shape, DType dtype, Device device, Where where) {
  Tensor result = make_workspace(shape, dtype, device, where);
  if (watched(kWatchMemory)) storage_made(*result.impl()->storage, where);
  return result;
}

Tensor make_view(const TensorImpl& base, const Shape& shape, const std::int64_t* strides, std::int64_t offset,
                 Where where) {
  TensorImpl* impl = new_impl(shape, base.dtype, where);
  for (int axis = 0; axis < shape.rank(); ++axis) impl->strides[axis] = strides[axis];
  retain(base.storage);
  impl->storage = base.storage;
  impl->data = base.data + offset * size_of(base.dtype);
  impl->contiguous = is_row_major(shape, strides);
  return Tensor::adopt(impl);
}

Tensor make_borrowed(void* data, const Shape& shape, DType dtype, void (*release)(void*), void* context, Where where) {
  TensorImpl* impl = new_impl(shape, dtype, where);
  void* block;
  try {
    block = allocate(kStorageHeader, where);
  } catch (...) {
    deallocate(impl, sizeof(TensorImpl));
    throw;
  }
  auto* storage = new (block) Storage;
  storage->data = static_cast<std::byte*>(data);
  storage->release = release;
  storage->context = context;
  if (Recording* now = recording()) [[unlikely]]
    now->made(storage);
  impl->storage = storage;
  impl->data = storage->data;
  impl->contiguous = true;
  row_major_strides(shape, impl->strides);
  return Tensor::adopt(impl);
}

void destroy_storage(Storage* storage) noexcept {
  if (__builtin_expect(storage->watched_since != 0, false)) storage_gone(*storage);
  if (storage->device.kind != DeviceKind::cpu) return cuda_runtime()->destroy_storage(storage);
  if (storage->release != nullptr) storage->release(storage->context);
  const std::int64_t bytes = storage->block_bytes > 0 ? storage->block_bytes : kStorageHeader;
  storage->~Storage();
  deallocate(storage, bytes);
}

void destroy_tensor(TensorImpl* impl) noexcept {
  release(impl->storage);
  delete impl->slices.load(std::memory_order_relaxed);
  impl->~TensorImpl();
  deallocate(impl, sizeof(TensorImpl));
}

const TensorImpl& described(const char* op, const Tensor& tensor, Where where) {
  if (!tensor.defined()) base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
  return *tensor.impl();
}

const TensorImpl& defined(const char* op, const Tensor& tensor, Where where) {
  const TensorImpl& impl = described(op, tensor, where);
  if (__builtin_expect(impl.slices.load(std::memory_order_acquire) != nullptr, false)) fill_in(*tensor.impl(), where);
  return impl;
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

void require_same_device(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  if (!(a.device() == b.device()))
    base::fail<DeviceError>(where, op, ": operands are on different devices: a on ", a.device(), ", b on ", b.device(),
                            ". Move one with x.to(device).");
}

}  // namespace capstan::core

namespace capstan {

Tensor::Tensor(const Tensor& other) noexcept : impl_(other.impl_) {
  if (impl_ != nullptr) core::retain(impl_);
}
Tensor& Tensor::operator=(const Tensor& other) noexcept {
  if (other.impl_ != nullptr) core::retain(other.impl_);
  if (impl_ != nullptr) core::release(impl_);
  impl_ = other.impl_;
  return *this;
}
Tensor& Tensor::operator=(Tensor&& other) noexcept {
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
