// Tensor's questions, and reading its values. Views, writing, and whatever else a tape must see are in autograd/.
#include <capstan/tensor.hpp>

#include <cstring>
#include <exception>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/indexing.hpp"
#include "lib/core/recording.hpp"

namespace capstan {

const Shape& Tensor::shape(Where where) const { return core::described("Tensor::shape", *this, where).shape; }
int Tensor::rank(Where where) const { return core::described("Tensor::rank", *this, where).rank(); }
std::int64_t Tensor::numel(Where where) const { return core::described("Tensor::numel", *this, where).numel(); }
DType Tensor::dtype(Where where) const { return core::described("Tensor::dtype", *this, where).dtype; }
Device Tensor::device(Where where) const { return core::described("Tensor::device", *this, where).device(); }
bool Tensor::is_contiguous(Where where) const {
  return core::described("Tensor::is_contiguous", *this, where).contiguous;
}
std::uint32_t Tensor::version(Where where) const {
  return core::described("Tensor::version", *this, where).storage->version.load(std::memory_order_relaxed);
}
std::int64_t Tensor::size(int axis, Where where) const {
  const TensorImpl& impl = core::described("Tensor::size", *this, where);
  return impl.shape[core::normalize_axis("Tensor::size", axis, impl.rank(), where)];
}
std::int64_t Tensor::stride(int axis, Where where) const {
  const TensorImpl& impl = core::described("Tensor::stride", *this, where);
  return impl.strides[core::normalize_axis("Tensor::stride", axis, impl.rank(), where)];
}
bool Tensor::shares_storage(const Tensor& other) const noexcept {
  return impl_ != nullptr && other.impl_ != nullptr && impl_->storage == other.impl_->storage;
}

namespace {

void require_type(const char* op, const TensorImpl& impl, DType asked, Where where) {
  if (impl.dtype != asked)
    base::fail<DTypeError>(where, op, ": the tensor holds ", impl.dtype, " and ", asked,
                           " was asked for; ask for the type it holds, or convert it with x.to(dtype).");
}
void require_cpu(const char* op, const TensorImpl& impl, Where where) {
  if (impl.device().kind != DeviceKind::cpu)
    base::fail<DeviceError>(where, op, ": the tensor is on ", impl.device(),
                            "; its memory is not the host's. Use x.to(cpu()).");
}
void require_contiguous(const char* op, const TensorImpl& impl, Where where) {
  if (!impl.contiguous)
    base::fail<ShapeError>(where, op, ": the tensor of shape ", impl.shape,
                           " is not contiguous; make it so with x.contiguous().");
}

}  // namespace

void Tensor::read_at(std::span<const std::int64_t> index, void* value, DType dtype, Where where) const {
  const TensorImpl& impl = core::defined("at", *this, where);
  require_type("at", impl, dtype, where);
  core::host_access("at", impl, where);
  if (impl.device().kind != DeviceKind::cpu) return to(cpu(), where).read_at(index, value, dtype, where);
  std::memcpy(value, core::element_address("at", impl, index, where), static_cast<std::size_t>(size_of(dtype)));
}

template <class T>
T Tensor::item(Where where) const {
  const TensorImpl& impl = core::defined("item", *this, where);
  if (impl.numel() != 1)
    base::fail<ShapeError>(where, "item: the tensor of shape ", impl.shape, " has ", impl.numel(),
                           " values; item() reads the value of a tensor that has exactly one.");
  require_type("item", impl, dtype_of<T>(), where);
  core::host_access("item", impl, where);
  if (impl.device().kind != DeviceKind::cpu) return to(cpu(), where).item<T>(where);
  return *impl.as<T>();
}

template <class T>
std::vector<T> Tensor::to_vector(Where where) const {
  const TensorImpl& impl = core::defined("to_vector", *this, where);
  require_type("to_vector", impl, dtype_of<T>(), where);
  core::host_access("to_vector", impl, where);
  const Tensor host = to(cpu(), where);
  std::vector<T> values;
  try {
    values.resize(static_cast<std::size_t>(host.numel()));
  } catch (const std::exception&) {  // no memory, or longer than vectors are
    base::fail<OutOfMemoryError>(where, "to_vector: ", host.numel(), " values of ", host.dtype(),
                                 " take more memory than there is.");
  }
  if constexpr (std::is_same_v<T, bool>) {
    const Tensor flat = host.contiguous(where);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = flat.impl()->as<bool>()[i];
  } else {
    if (values.empty()) return values;
    const Tensor target = core::make_borrowed(values.data(), host.shape(), host.dtype(), nullptr, nullptr, where);
    core::cpu_backend().copy(*host.impl(), *target.impl());  // no part of what is recorded: the vector goes
  }
  return values;
}

template <class T>
std::span<const T> Tensor::span(Where where) const {
  const TensorImpl& impl = core::defined("span", *this, where);
  require_type("span", impl, dtype_of<T>(), where);
  require_cpu("span", impl, where);
  require_contiguous("span", impl, where);
  core::host_access("span", impl, where);
  return {impl.as<T>(), static_cast<std::size_t>(impl.numel())};
}

template <class T>
const T* Tensor::data(Where where) const {
  const TensorImpl& impl = core::defined("data", *this, where);
  require_type("data", impl, dtype_of<T>(), where);
  core::host_access("data", impl, where);
  return impl.as<T>();
}

void detail::require_adaptable(const char* op, const Tensor& tensor, Where where) {
  const TensorImpl& impl = core::defined(op, tensor, where);
  require_cpu(op, impl, where);
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (impl.strides[axis] < 0)
      base::fail<ShapeError>(where, op, ": axis ", axis, " of shape ", impl.shape,
                             " is walked backwards, which xtensor's adaptors cannot do; make a copy with x.copy().");
}

#define CAPSTAN_FOR_TYPE(T)                                  \
  template T Tensor::item<T>(Where) const;                   \
  template std::vector<T> Tensor::to_vector<T>(Where) const; \
  template std::span<const T> Tensor::span<T>(Where) const;  \
  template const T* Tensor::data<T>(Where) const;
CAPSTAN_EVERY_ELEMENT(CAPSTAN_FOR_TYPE)
#undef CAPSTAN_FOR_TYPE

}  // namespace capstan
