#include <capstan/create.hpp>
#include <capstan/sparse.hpp>

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/recording.hpp"

namespace capstan {
namespace core {
namespace {

constinit std::mutex filling;  // of several readers of a tensor one fills it in

/// Nobody is in the middle of that at a fork.
void keep_whole_when_forked() noexcept {
  static const int done = pthread_atfork([] { filling.lock(); }, [] { filling.unlock(); }, [] { filling.unlock(); });
  static_cast<void>(done);
}

/// Own contiguous elements; no tape sees it.
Tensor copied(const TensorImpl& x, Where where) {
  Tensor result = make_tensor(x.shape, x.dtype, x.device(), where);
  backend_of(x.device(), where).copy(x, *result.impl());
  return result;
}

}  // namespace

Tensor make_sliced(RowSlices slices, const Shape& shape, Where where) {
  keep_whole_when_forked();
  const TensorImpl& values = *slices.values.impl();
  Tensor result = make_tensor(Shape({0}), values.dtype, values.device(), where);
  TensorImpl& impl = *result.impl();
  impl.shape = shape;
  row_major_strides(shape, impl.strides);
  impl.data = nullptr;
  impl.storage->block_bytes = 0;  // the elements, once made, lie elsewhere
  impl.slices.store(new RowSlices(std::move(slices)), std::memory_order_release);
  return result;
}

void fill_in(TensorImpl& impl, Where where) {
  const std::lock_guard lock(filling);
  RowSlices* slices = impl.slices.load(std::memory_order_relaxed);
  if (slices == nullptr) return;
  const Tensor whole = make_tensor(impl.shape, impl.dtype, impl.device(), where);
  const Backend& backend = backend_of(impl.device(), where);
  backend.fill(*whole.impl(), 0);
  backend.gather_backward(*slices->values.impl(), *slices->indices.impl(), *whole.impl());
  // the storage keeps its place, since others may be asking it for the device: it borrows the new one's elements
  retain(whole.impl());
  impl.storage->context = whole.impl();
  impl.storage->release = [](void* owner) { core::release(static_cast<TensorImpl*>(owner)); };
  impl.data = impl.storage->data = whole.impl()->data;
  impl.slices.store(nullptr, std::memory_order_release);
  delete slices;
}

Tensor sliced_values(const TensorImpl& impl) noexcept {
  if (impl.slices.load(std::memory_order_acquire) == nullptr) return Tensor();
  const std::lock_guard lock(filling);
  const RowSlices* slices = impl.slices.load(std::memory_order_relaxed);
  return slices != nullptr ? slices->values : Tensor();
}

}  // namespace core

bool has_row_slices(const Tensor& x) noexcept {
  return x.defined() && x.impl()->slices.load(std::memory_order_acquire) != nullptr;
}

namespace {

void check_types(const char* op, const TensorImpl& indices, const TensorImpl& values, Where where) {
  if (indices.dtype != DType::int64)
    base::fail<DTypeError>(where, op, ": the indices are ", indices.dtype, "; they must be int64.");
  if (values.dtype == DType::bool8)
    base::fail<DTypeError>(where, op, ": the values are bool; they must be numbers, which can be added up.");
}

Tensor packed(const Tensor& x, Where where) { return x.impl()->contiguous ? x : core::copied(*x.impl(), where); }

}  // namespace

std::optional<RowSlices> find_row_slices(const Tensor& x, Where where) {
  if (!has_row_slices(x)) return std::nullopt;
  const std::lock_guard lock(core::filling);  // another reader may be about to drop them
  const RowSlices* slices = x.impl()->slices.load(std::memory_order_relaxed);
  if (slices == nullptr) return std::nullopt;
  return RowSlices{core::copied(*slices->indices.impl(), where),
                   slices->values};  // kernels trust the indices: they stay
}

Tensor core::whole(const Tensor& x, Where where) {
  std::optional<RowSlices> slices = find_row_slices(x, where);
  if (!slices.has_value()) return x;
  Tensor copy = make_sliced(*std::move(slices), x.impl()->shape, where);
  fill_in(*copy.impl(), where);
  return copy;
}

RowSlices row_slices(const Tensor& x, Where where) {
  const TensorImpl& impl = core::described("row_slices", x, where);
  std::optional<RowSlices> slices = find_row_slices(x, where);
  if (!slices.has_value())
    base::fail<Error>(where, "row_slices: the tensor of shape ", impl.shape,
                      " is held whole; ask has_row_slices first.");
  return *std::move(slices);
}

RowSlices coalesce(const RowSlices& slices, Where where) {
  constexpr const char* op = "coalesce";
  const TensorImpl &indices = core::defined(op, slices.indices, where),
                   &values = core::defined(op, slices.values, where);
  check_types(op, indices, values, where);
  if (indices.rank() != 1 || values.rank() == 0 || values.shape[0] != indices.shape[0])
    base::fail<ShapeError>(where, op, ": the indices are ", indices.shape, " and the values ", values.shape,
                           "; they must be [n] and [n, ...].");
  core::require_same_device(op, values, indices, where);
  const Tensor in_a_row = packed(slices.indices, where).to(cpu(), where);
  const std::int64_t count = indices.numel(), *index = in_a_row.impl()->as<std::int64_t>();
  if (std::adjacent_find(index, index + count, std::greater_equal<>()) == index + count)
    return slices;  // ascending, none twice
  std::vector<std::int64_t> order(static_cast<std::size_t>(count)), rows, place(order.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [=](std::int64_t a, std::int64_t b) { return index[a] < index[b]; });
  for (const std::int64_t i : order) {
    if (rows.empty() || rows.back() != index[i]) rows.push_back(index[i]);
    place[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(rows.size()) - 1;
  }
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < values.rank(); ++axis) sizes[axis] = values.shape[axis];
  sizes[0] = static_cast<std::int64_t>(rows.size());
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(values.rank())), where);
  Tensor sums = core::make_tensor(shape, values.dtype, values.device(), where);
  const core::Backend& backend = core::backend_of(values.device(), where);
  backend.fill(*sums.impl(), 0);
  const Tensor targets = from_vector(place, where).to(values.device(), where);
  backend.gather_backward(*packed(slices.values, where).impl(), *targets.impl(), *sums.impl());
  return {from_vector(rows, where).to(values.device(), where), std::move(sums)};
}

Tensor from_row_slices(const RowSlices& slices, const Shape& shape, Where where) {
  constexpr const char* op = "from_row_slices";
  const TensorImpl &indices = core::defined(op, slices.indices, where),
                   &values = core::defined(op, slices.values, where);
  check_types(op, indices, values, where);
  if (core::recording() != nullptr)
    base::fail<Error>(where, op,
                      ": a plan cannot repeat tensors that are held as row slices. scatter_nd makes whole ones.");
  bool fits =
      shape.rank() >= 1 && indices.rank() == 1 && values.rank() == shape.rank() && values.shape[0] == indices.shape[0];
  for (int axis = 1; fits && axis < shape.rank(); ++axis) fits = values.shape[axis] == shape[axis];
  if (!fits)
    base::fail<ShapeError>(where, op, ": indices ", indices.shape, " and values ", values.shape,
                           " do not make a tensor of shape ", shape,
                           "; they must be [n] and [n, ...] with its axes behind the first.");
  core::require_same_device(op, values, indices, where);
  const core::BadIndex bad = core::backend_of(values.device(), where, op).check_indices(indices, 0, shape[0]);
  if (bad.position >= 0)
    base::fail<IndexError>(where, op, ": index ", bad.value, " at [", bad.position,
                           "] is out of range for axis 0 of shape ", shape, "; it must be in [0, ", shape[0], ").");
  return core::make_sliced({core::copied(indices, where), core::copied(values, where)}, shape, where);
}

}  // namespace capstan
