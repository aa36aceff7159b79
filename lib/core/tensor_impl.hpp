#pragma once
// What a Tensor points to, and the memory behind it.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <capstan/sparse.hpp>
#include <capstan/tensor.hpp>

namespace capstan {

namespace core {

/// A block of memory that tensors share, and the count of writes to it. On the CPU it stands at the block's beginning,
/// behind it the tensor that was made with it, which lasts no longer and may go earlier, and then the data.
struct Storage {
  std::atomic<std::uint32_t> references{1};
  std::atomic<std::uint32_t> version{0};  // atomic, as is last_write, only so that threads may write to other parts
  std::byte* data = nullptr;
  std::int64_t block_bytes = 0;  // of a header and the data; 0 if somebody else owns the data
  void (*release)(void*) = nullptr;
  void* context = nullptr;
  std::atomic<Where> last_write{};
  Where made_at{};  // set while somebody watches memory
  Device device{};
  std::uint32_t watched_since = 0;  // 0: nobody was told of it
};
static_assert(sizeof(Storage) <= 64, "a line of the cache");

void destroy_storage(Storage* storage) noexcept;
inline void retain(Storage* storage) noexcept { storage->references.fetch_add(1, std::memory_order_relaxed); }
inline void release(Storage* storage) noexcept {
  // the only owner needs no atomic subtraction: nobody else can be adding
  if (storage->references.load(std::memory_order_acquire) == 1 ||
      storage->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    destroy_storage(storage);
}

/// The operation that made a tensor, or whose gradient did. Never destroyed; known only while somebody watches.
struct Origin {
  const char* op;
  Where where;
  bool backward;
};

}  // namespace core

/// Shape, strides and a place in storage. Also what kernels see: a view of elements.
struct TensorImpl {
  std::atomic<std::uint32_t> references{1};
  DType dtype;
  bool contiguous;
  std::atomic<bool> trainable{false};  // a Parameter that tapes watch by themselves
  std::atomic<bool> excused{false};    // holds NaN or infinities that check_numerics has seen, and blamed on nobody
  std::byte* data;                     // the first element
  core::Storage* storage;
  std::atomic<std::uint64_t> serial{0};     // of its slot on a thread's tape log; 0: never was on one
  std::atomic<RowSlices*> slices{nullptr};  // held as row slices: there are no elements yet
  std::atomic<const core::Origin*> origin{nullptr};
  Shape shape;
  std::int64_t strides[kMaxRank];  // in elements

  TensorImpl(const Shape& s, DType d) noexcept : dtype(d), shape(s) {}

  int rank() const noexcept { return shape.rank(); }
  std::int64_t numel() const noexcept { return shape.numel(); }
  Device device() const noexcept { return storage->device; }
  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data);
  }
};

namespace core {

/// What is in front of the data, which begin at a multiple of 64 bytes.
inline constexpr auto kStorageHeader = static_cast<std::int64_t>((sizeof(Storage) + sizeof(TensorImpl) + 63) / 64 * 64);

/// `size_of` without a call.
inline std::int64_t element_bytes(DType dtype) noexcept {
  static constexpr std::uint8_t kBytes[] = {4, 8, 4, 8, 1, 1, 2, 2, 1, 2};  // in the order of DType
  return kBytes[static_cast<std::size_t>(dtype)];
}

/// A new contiguous tensor with undetermined elements. Throws OutOfMemoryError, DeviceError.
Tensor make_tensor(const Shape& shape, DType dtype, Device device, Where where);
/// The same for the time of a kernel: who watches memory is not told.
Tensor make_workspace(const Shape& shape, DType dtype, Device device, Where where);
/// A view of the same storage, `offset` elements from the base's first.
Tensor make_view(const TensorImpl& base, const Shape& shape, const std::int64_t* strides, std::int64_t offset,
                 Where where);
/// A tensor over memory that somebody else owns.
Tensor make_borrowed(void* data, const Shape& shape, DType dtype, void (*release)(void*), void* context, Where where);

void destroy_tensor(TensorImpl* impl) noexcept;
inline void retain(TensorImpl* impl) noexcept { impl->references.fetch_add(1, std::memory_order_relaxed); }
inline void release(TensorImpl* impl) noexcept {
  if (impl->references.load(std::memory_order_acquire) == 1 ||
      impl->references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    destroy_tensor(impl);
}

/// Row-major strides of a shape, and whether given strides are such.
void row_major_strides(const Shape& shape, std::int64_t* strides) noexcept;
bool is_row_major(const Shape& shape, const std::int64_t* strides) noexcept;

/// A tensor of floating type held as row slices: indices int64 [n], values [n, ...], both contiguous and nobody else's.
Tensor make_sliced(RowSlices slices, const Shape& shape, Where where);
/// Makes the elements of a tensor held as row slices.
void fill_in(TensorImpl& impl, Where where);
/// x, or a copy of it with all its elements: then x stays held as row slices, for lazy optimizers go by them.
Tensor whole(const Tensor& x, Where where);
/// The values of row slices, else undefined.
Tensor sliced_values(const TensorImpl& impl) noexcept;

[[noreturn]] void fail_undefined(const char* op, Where where);
/// The implementation, or an Error that names the operation. For who asks for shape, type and device only: row slices
/// stay as they are.
inline const TensorImpl& described(const char* op, const Tensor& tensor, Where where) {
  if (!tensor.defined()) [[unlikely]]
    fail_undefined(op, where);
  return *tensor.impl();
}
/// The same, and its elements can be read.
inline const TensorImpl& defined(const char* op, const Tensor& tensor, Where where) {
  const TensorImpl& impl = described(op, tensor, where);
  if (impl.slices.load(std::memory_order_acquire) != nullptr) [[unlikely]]
    fill_in(*tensor.impl(), where);
  return impl;
}

/// Counts a write to the elements of a tensor.
inline void note_write(TensorImpl& impl, Where where) noexcept {
  impl.storage->version.store(impl.storage->version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  impl.storage->last_write.store(where, std::memory_order_relaxed);
}

/// True if nobody but this one handle can see the elements.
inline bool sole_owner(const TensorImpl& impl) noexcept {
  return impl.references.load(std::memory_order_acquire) == 1 &&
         impl.storage->references.load(std::memory_order_acquire) == 1 && impl.storage->block_bytes > 0;
}

/// `axis` counted from the front. Throws IndexError.
int normalize_axis(const char* op, int axis, int rank, Where where);
/// NumPy's broadcast of two shapes. Throws ShapeError.
Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b, Where where);
[[noreturn]] void fail_devices(const char* op, const TensorImpl& a, const TensorImpl& b, Where where);
/// Throws DeviceError.
inline void require_same_device(const char* op, const TensorImpl& a, const TensorImpl& b, Where where) {
  if (!(a.device() == b.device())) [[unlikely]]
    fail_devices(op, a, b, where);
}

}  // namespace core
}  // namespace capstan
