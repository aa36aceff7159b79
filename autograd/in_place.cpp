// Copies and conversions that a tape sees, and changes in place that it must not miss. Parameters.
#include <capstan/parameter.hpp>
#include <capstan/stream.hpp>
#include <capstan/tape.hpp>

#include <cstdlib>
#include <cstring>

#include "autograd/overlap.hpp"
#include "autograd/places.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/recording.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::note;
using autograd::record;
using autograd::Replay;

Tensor Tensor::copy(Where where) const {
  const TensorImpl& impl = core::defined("copy", *this, where);
  Tensor out = autograd::result_like(impl, where);
  backend_of(impl, where).copy(impl, *out.impl());
  if (is_floating(impl.dtype)) record("copy", where, [](Replay& r) { r.give(0, r.grad()); }, {this}, {&out}, {});
  else note("copy", where, {this}, {&out});
  return out;
}

Tensor Tensor::contiguous(Where where) const {
  return core::defined("contiguous", *this, where).contiguous ? *this : copy(where);
}

Tensor Tensor::to(DType dtype, Where where) const {
  return core::described("to", *this, where).dtype == dtype ? *this : cast(*this, dtype, where);
}

Tensor Tensor::to(Device device, Where where) const {
  core::require_device("Tensor::to", device, where);
  if (core::described("Tensor::to", *this, where).device() == device) return *this;
  const TensorImpl& impl = core::defined("Tensor::to", *this, where);
  core::host_access("Tensor::to", impl, where);
  core::note_start();
  const Tensor from = autograd::dense(*this, where);
  Tensor out = core::make_tensor(impl.shape, impl.dtype, device, where);
  core::cuda_runtime()->transfer(*from.impl(), *out.impl(), where);
  if (!is_floating(impl.dtype)) {
    note("to", where, {this}, {&out});
    return out;
  }
  const auto replay = [](Replay& r) { r.give(0, r.grad().to(r.attributes<Device>(), r.where())); };
  record("to", where, replay, {this}, {&out}, {}, impl.device());
  return out;
}

namespace {

/// Whether a step along an axis stays within what the axes of smaller steps reach: so it is where windows overlap.
bool overlaps(const TensorImpl& x) {
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t step = std::abs(x.strides[axis]);
    std::int64_t reach = 0;
    for (int other = 0; other < x.rank(); ++other) {
      const std::int64_t smaller = std::abs(x.strides[other]);
      if (smaller < step || (smaller == step && other > axis)) reach += (x.shape[other] - 1) * smaller;
    }
    if (x.shape[axis] > 1 && reach >= step) return true;
  }
  return false;
}

/// Checks that elements can be written: no axis is stretched over one element.
TensorImpl& writable(const char* op, const Tensor& target, Where where) {
  core::defined(op, target, where);
  TensorImpl& impl = *target.impl();
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (impl.shape[axis] > 1 && impl.strides[axis] == 0)
      base::fail<ShapeError>(where, op, ": axis ", axis, " of shape ", impl.shape,
                             " is stretched over one element (broadcast_to); write to a copy.");
  if (impl.numel() > 0 && overlaps(impl))
    base::fail<ShapeError>(where, op, ": elements of the view of shape ", impl.shape,
                           " share their places (sliding_window); write to a copy.");
  return impl;
}

/// Writes `value`, broadcast and converted, through `target`.
void write_through(const char* op, TensorImpl& target, const Tensor& value, Where where) {
  const TensorImpl& from = *value.impl();
  core::require_same_device(op, target, from, where);
  autograd::require_broadcast(op, from.shape, target.shape, where);
  if (autograd::may_overlap(from, target)) {
    Tensor own = autograd::result_like(from, where);
    backend_of(from, where).copy(from, *own.impl());
    backend_of(target, where).copy(*own.impl(), target);
  } else {
    backend_of(target, where).copy(from, target);
  }
  core::note_write(target, where);
}

/// target = combine(target, other), in place.
Tensor& change(const char* op, Tensor& target, const RightOperand& other,
               Tensor (*with_tensor)(const Tensor&, const Tensor&, Where),
               Tensor (*with_number)(const Tensor&, Scalar, Where)) {
  const Where where = other.where;
  TensorImpl& impl = writable(op, target, where);
  if (other.tensor != nullptr) core::defined(op, *other.tensor, where);
  autograd::check_in_place(op, target, other.tensor, where);
  const NoGrad off;
  const Tensor value =
      other.tensor != nullptr ? with_tensor(target, *other.tensor, where) : with_number(target, other.value, where);
  if (value.dtype() != impl.dtype)
    base::fail<DTypeError>(where, op, ": the result would be ", value.dtype(), " and the tensor is ", impl.dtype,
                           "; convert the right side with x.to(dtype).");
  write_through(op, impl, value, where);
  note(op, where, {&value}, {&target});
  return target;
}

}  // namespace

void Tensor::assign(const Tensor& value, Where where) {
  TensorImpl& impl = writable("assign", *this, where);
  core::defined("assign", value, where);
  autograd::check_in_place("assign", *this, &value, where);
  write_through("assign", impl, value, where);
  note("assign", where, {&value}, {this});
}

Event copy_async(const Tensor& x, const Tensor& to, Where where) {
  constexpr const char* op = "copy_async";
  const TensorImpl &from = core::defined(op, x, where), &target = core::defined(op, to, where);
  if (from.shape != target.shape)
    base::fail<ShapeError>(where, op, ": the source is ", from.shape, " and the target ", target.shape,
                           "; they must be equal.");
  if (from.dtype != target.dtype)
    base::fail<DTypeError>(where, op, ": the source is ", from.dtype, " and the target ", target.dtype,
                           "; they must be equal.");
  if (!from.contiguous || !target.contiguous)
    base::fail<ShapeError>(where, op, ": the ", from.contiguous ? "target" : "source",
                           " is not contiguous; both must be.");
  autograd::check_in_place(op, to, &x, where);
  const Device a = from.device(), b = target.device();
  core::note_start();
  if (a == b) {
    write_through(op, *to.impl(), x, where);
  } else {
    core::cuda_runtime()->transfer_later(from, *to.impl(), where);
    core::note_write(*to.impl(), where);
  }
  core::note_made(op, to, where);
  return Event(a.kind != DeviceKind::cpu ? a : b, where);
}

void Tensor::fill(Scalar value, Where where) {
  TensorImpl& impl = writable("fill", *this, where);
  core::to_element("fill", value, impl.dtype, where);
  autograd::check_in_place("fill", *this, nullptr, where);
  backend_of(impl, where).fill(impl, value);
  core::note_write(impl, where);
  note("fill", where, {}, {this});
}

void Tensor::write_at(std::span<const std::int64_t> index, const void* value, DType dtype, Where where) {
  TensorImpl& impl = writable("set", *this, where);
  if (impl.dtype != dtype)
    base::fail<DTypeError>(where, "set: the tensor holds ", impl.dtype, " and ", dtype,
                           " was asked for; ask for the type it holds, or convert it with x.to(dtype).");
  std::byte* place = core::element_address("set", impl, index, where);
  autograd::check_in_place("set", *this, nullptr, where);
  const auto bytes = static_cast<std::size_t>(size_of(dtype));
  const bool on_cpu = impl.device().kind == DeviceKind::cpu;
  if (on_cpu && core::recording() == nullptr) {
    std::memcpy(place, value, bytes);
  } else {
    const Tensor host = core::make_workspace(Shape(), dtype, cpu(), where);
    std::memcpy(host.impl()->data, value, bytes);
    const Tensor element = core::make_view(impl, Shape(), nullptr, (place - impl.data) / size_of(dtype), where);
    if (on_cpu) backend_of(impl, where).copy(*host.impl(), *element.impl());
    else core::cuda_runtime()->transfer(*host.impl(), *element.impl(), where);
  }
  core::note_write(impl, where);
  note("set", where, {}, {this});
}

template <class T>
std::span<T> Tensor::mutable_span(Where where) {
  const std::size_t count = span<T>(where).size();
  return {mutable_data<T>(where), count};
}

template <class T>
T* Tensor::mutable_data(Where where) {
  if (const core::Recording* now = core::recording(); now != nullptr && defined() && !now->is_untouched(impl_->storage))
    base::fail<Error>(where,
                      "mutable_data: a network that is frozen cannot write elements on the host, which a plan "
                      "would not repeat. Use set, assign or from_span.");
  T* values = const_cast<T*>(data<T>(where));
  TensorImpl& impl = writable("mutable_data", *this, where);
  autograd::check_in_place("mutable_data", *this, nullptr, where);
  core::note_write(impl, where);
  return values;
}

#define CAPSTAN_FOR_TYPE(T)                             \
  template std::span<T> Tensor::mutable_span<T>(Where); \
  template T* Tensor::mutable_data<T>(Where);
CAPSTAN_EVERY_ELEMENT(CAPSTAN_FOR_TYPE)
#undef CAPSTAN_FOR_TYPE

void Tensor::index_put(std::span<const Index> indices, const Tensor& value, IndexPutOptions options, Where where) {
  const TensorImpl& impl = writable("index_put", *this, where);
  core::defined("index_put", value, where);
  if (options.accumulate && impl.dtype == DType::bool8)
    base::fail<DTypeError>(where, "index_put: the tensor is bool; it must be a number type, not bool, to accumulate.");
  if (core::has_tensors(indices)) {
    autograd::put_by_tensors(*this, indices, value, options.accumulate, where);
    return;
  }
  const core::ViewGeometry view = core::index_geometry("index_put", impl, indices, where);
  autograd::check_in_place("index_put", *this, &value, where);
  const Tensor place = core::make_view(impl, view.shape, view.strides, view.offset, where);
  Tensor written = value;
  if (options.accumulate) {
    autograd::require_broadcast("index_put", value.shape(), view.shape, where);
    const NoGrad off;
    written = add(place, value.to(impl.dtype, where), where);
  }
  write_through("index_put", *place.impl(), written, where);
  note("index_put", where, {&written}, {&place});  // the part that was written: the rest is not this operation's
}

void Tensor::index_put(std::initializer_list<Index> indices, const Tensor& value, IndexPutOptions options,
                       Where where) {
  index_put(std::span<const Index>(indices.begin(), indices.size()), value, options, where);
}

void Tensor::index_put(std::initializer_list<Index> indices, Scalar value, IndexPutOptions options, Where where) {
  const TensorImpl& impl = core::defined("index_put", *this, where);
  index_put(indices, core::scalar_tensor("index_put", value, impl.dtype, impl.device(), where), options, where);
}

Tensor& Tensor::operator+=(const RightOperand& other) { return change("operator+=", *this, other, &add, &add); }
Tensor& Tensor::operator-=(const RightOperand& other) { return change("operator-=", *this, other, &sub, &sub); }
Tensor& Tensor::operator*=(const RightOperand& other) { return change("operator*=", *this, other, &mul, &mul); }
Tensor& Tensor::operator/=(const RightOperand& other) { return change("operator/=", *this, other, &div, &div); }

// --- Parameter, Buffer ---

namespace {

/// The tensor itself if nobody else holds it and no tape follows it, else a copy.
Tensor owned(const TensorImpl& impl, Tensor&& initial, Where where) {
  const NoGrad off;
  const bool own = impl.contiguous && core::sole_owner(impl) && impl.serial.load(std::memory_order_relaxed) == 0;
  return own ? std::move(initial) : initial.copy(where);
}

/// Copies the elements of `other` into `target`.
void assign_elements(const char* op, const char* what, Tensor& target, const Tensor& other, Where where) {
  if (target.shape() != other.shape())
    base::fail<ShapeError>(where, op, ": the ", what, " is ", target.shape(), " and the other ", other.shape(),
                           "; the shapes must be equal.");
  if (target.dtype() != other.dtype())
    base::fail<DTypeError>(where, op, ": the ", what, " is ", target.dtype(), " and the other ", other.dtype(),
                           "; the types must be equal.");
  const NoGrad off;
  target.assign(other, where);
}

}  // namespace

Parameter::Parameter(Tensor initial, Where where) {
  const TensorImpl& impl = core::defined("Parameter", initial, where);
  autograd::require_floating("Parameter", impl, where);
  Tensor::operator=(owned(impl, std::move(initial), where));
  this->impl()->trainable.store(true, std::memory_order_relaxed);
}

Parameter::Parameter(const Parameter& other) : Tensor() {
  if (!other.defined()) return;
  const NoGrad off;
  Tensor::operator=(other.copy());
  set_trainable(other.trainable());
}

Parameter& Parameter::operator=(const Parameter& other) {
  if (this == &other) return *this;
  if (!defined() || !other.defined()) return *this = Parameter(other);
  assign_elements("Parameter::operator=", "parameter", *this, other, Where::current());
  return *this;
}

bool Parameter::trainable(Where where) const {
  return core::defined("Parameter::trainable", *this, where).trainable.load(std::memory_order_relaxed);
}
void Parameter::set_trainable(bool trainable, Where where) {
  core::defined("Parameter::set_trainable", *this, where);
  impl()->trainable.store(trainable, std::memory_order_relaxed);
}

Buffer::Buffer(Tensor initial, Where where) {
  const TensorImpl& impl = core::defined("Buffer", initial, where);
  Tensor::operator=(owned(impl, std::move(initial), where));
  this->impl()->trainable.store(false, std::memory_order_relaxed);  // it may have been a Parameter
}

Buffer::Buffer(const Buffer& other) : Tensor() {
  if (!other.defined()) return;
  const NoGrad off;
  Tensor::operator=(other.copy());
}

Buffer& Buffer::operator=(const Buffer& other) {
  if (this == &other) return *this;
  if (!defined() || !other.defined()) return *this = Buffer(other);
  assign_elements("Buffer::operator=", "buffer", *this, other, Where::current());
  return *this;
}

}  // namespace capstan
