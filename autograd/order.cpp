// Sorting, and choosing by rank.
#include <capstan/ops/order.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/index.hpp>

#include "autograd/choosing.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::note;
using autograd::record;
using autograd::with_size;

namespace autograd {

void chosen_replay(Replay& r) {
  const auto chosen = r.attributes<Chosen>();
  const Tensor& indices = r.saved(0);
  const Tensor grad = r.grad().shape() == indices.shape() ? r.grad() : reshape(r.grad(), indices.shape(), r.where());
  const Tensor nothing = zeros(chosen.full, {grad.dtype(), grad.device()}, r.where());
  r.give(0, scatter_add(nothing, indices, grad, chosen.axis, r.where()));
}

void record_choice(const char* op, Where where, const Tensor& x, int axis, Tensor& values, const Tensor& indices,
                   const Tensor& told) {
  const TensorImpl& impl = *x.impl();
  if (is_floating(impl.dtype))
    record(op, where, &chosen_replay, {&x}, {&values}, {&indices}, Chosen{impl.shape, axis}, {&values, &told});
  else note(op, where, {&x}, {&values, &told});
}

}  // namespace autograd

namespace {

/// Whether a tape will want to know where elements came from.
bool needs_indices(const Tensor& x) {
  const Tensor* const inputs[] = {&x};
  return is_floating(x.impl()->dtype) && autograd::followers(inputs) != 0;
}

Shape without_axis(const Shape& shape, int axis, Where where) {
  std::int64_t sizes[kMaxRank];
  std::size_t rank = 0;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) sizes[rank++] = shape[i];
  return Shape(std::span<const std::int64_t>(sizes, rank), where);
}

/// An unrecorded copy of one position of an axis, which stays with size 1.
Tensor position_of(const Tensor& x, int axis, std::int64_t position, Where where) {
  const TensorImpl& impl = *x.impl();
  const Tensor view =
      core::make_view(impl, with_size(impl.shape, axis, 1, where), impl.strides, position * impl.strides[axis], where);
  Tensor out = autograd::result_like(*view.impl(), where);
  backend_of(impl, where).copy(*view.impl(), *out.impl());
  return out;
}

/// An unrecorded contiguous tensor under another shape of as many elements.
Tensor reshaped(const Tensor& x, const Shape& shape, Where where) {
  std::int64_t strides[kMaxRank];
  core::row_major_strides(shape, strides);
  return core::make_view(*x.impl(), shape, strides, 0, where);
}

}  // namespace

Tensor sort(const Tensor& x, int axis, SortOptions options, Where where) {
  const TensorImpl& impl = core::defined("sort", x, where);
  const int along = core::normalize_axis("sort", axis, impl.rank(), where);
  Tensor values = autograd::result_like(impl, where), indices;
  if (needs_indices(x)) indices = autograd::result_like(impl, impl.shape, DType::int64, where);
  backend_of(impl, where).sort(impl, along, options.descending, values.impl(), indices.impl());
  if (indices.defined())
    record("sort", where, &autograd::chosen_replay, {&x}, {&values}, {&indices}, autograd::Chosen{impl.shape, along});
  else note("sort", where, {&x}, {&values});
  return values;
}

Tensor argsort(const Tensor& x, int axis, SortOptions options, Where where) {
  const TensorImpl& impl = core::defined("argsort", x, where);
  const int along = core::normalize_axis("argsort", axis, impl.rank(), where);
  Tensor indices = autograd::result_like(impl, impl.shape, DType::int64, where);
  backend_of(impl, where).sort(impl, along, options.descending, nullptr, indices.impl());
  note("argsort", where, {&x}, {&indices});
  return indices;
}

SortResult sort_with_indices(const Tensor& x, int axis, SortOptions options, Where where) {
  const TensorImpl& impl = core::defined("sort_with_indices", x, where);
  const int along = core::normalize_axis("sort_with_indices", axis, impl.rank(), where);
  SortResult result{autograd::result_like(impl, where), autograd::result_like(impl, impl.shape, DType::int64, where)};
  backend_of(impl, where).sort(impl, along, options.descending, result.values.impl(), result.indices.impl());
  autograd::record_choice("sort_with_indices", where, x, along, result.values, result.indices, result.indices);
  return result;
}

TopkResult topk(const Tensor& x, std::int64_t k, int axis, TopkOptions options, Where where) {
  const TensorImpl& impl = core::defined("topk", x, where);
  const int along = core::normalize_axis("topk", axis, impl.rank(), where);
  if (k < 0 || k > impl.shape[along])
    base::fail<ShapeError>(where, "topk: k is ", k, " for axis ", axis, " of shape ", impl.shape,
                           "; it must be in [0, ", impl.shape[along], "].");
  const Shape shape = with_size(impl.shape, along, k, where);
  TopkResult result{autograd::result_like(impl, shape, impl.dtype, where),
                    autograd::result_like(impl, shape, DType::int64, where)};
  backend_of(impl, where)
      .topk(impl, along, options.largest, options.sorted, *result.values.impl(), *result.indices.impl());
  autograd::record_choice("topk", where, x, along, result.values, result.indices, result.indices);
  return result;
}

KthResult kthvalue(const Tensor& x, std::int64_t k, int axis, ReduceOptions options, Where where) {
  const TensorImpl& impl = core::defined("kthvalue", x, where);
  const int along = core::normalize_axis("kthvalue", axis, impl.rank(), where);
  if (k < 1 || k > impl.shape[along])
    base::fail<ShapeError>(where, "kthvalue: k is ", k, " for axis ", axis, " of shape ", impl.shape,
                           "; it must be in [1, ", impl.shape[along], "].");
  const Tensor sorted = autograd::result_like(impl, where);
  const Tensor order = autograd::result_like(impl, impl.shape, DType::int64, where);
  backend_of(impl, where).sort(impl, along, false, sorted.impl(), order.impl());
  const Tensor values = position_of(sorted, along, k - 1, where), indices = position_of(order, along, k - 1, where);
  const Shape shape = options.keepdims ? values.shape() : without_axis(impl.shape, along, where);
  KthResult result{reshaped(values, shape, where), reshaped(indices, shape, where)};
  autograd::record_choice("kthvalue", where, x, along, result.values, indices, result.indices);
  return result;
}

}  // namespace capstan
