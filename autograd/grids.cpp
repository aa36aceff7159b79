// Views in which elements stand several times: tensors stretched to one shape, grids, windows.
#include <capstan/ops/shaping.hpp>

#include <capstan/create.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::Replay;

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Where where) {
  Shape shape;
  for (const Tensor& tensor : tensors) {
    const TensorImpl& impl = core::defined("broadcast_tensors", tensor, where);
    core::require_same_device("broadcast_tensors", *tensors[0].impl(), impl, where);
    shape = core::broadcast_shapes("broadcast_tensors", shape, impl.shape, where);
  }
  std::vector<Tensor> views;
  views.reserve(tensors.size());
  for (const Tensor& tensor : tensors) views.push_back(broadcast_to(tensor, shape, where));
  return views;
}
std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> tensors, Where where) {
  return broadcast_tensors(std::span<const Tensor>(tensors.begin(), tensors.size()), where);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridOrder order, Where where) {
  if (vectors.size() > kMaxRank)
    base::fail<ShapeError>(where, "meshgrid: ", vectors.size(), " vectors were given; a tensor has at most ", kMaxRank,
                           " axes.");
  const std::size_t rank = vectors.size();
  const bool exchanged = order == GridOrder::xy && rank >= 2;
  const auto axis_of = [&](std::size_t i) { return exchanged && i < 2 ? 1 - i : i; };
  std::int64_t sizes[kMaxRank];
  for (std::size_t i = 0; i < rank; ++i) {
    const TensorImpl& impl = core::defined("meshgrid", vectors[i], where);
    core::require_same_device("meshgrid", *vectors[0].impl(), impl, where);
    if (impl.rank() > 1)
      base::fail<ShapeError>(where, "meshgrid: vector ", i, " is ", impl.shape, "; it must have one axis, or none.");
    sizes[axis_of(i)] = impl.numel();
  }
  const Shape grid(std::span<const std::int64_t>(sizes, rank), where);
  std::vector<Tensor> views;
  views.reserve(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t own[kMaxRank] = {1, 1, 1, 1, 1, 1, 1, 1};
    own[axis_of(i)] = vectors[i].impl()->numel();
    const Tensor line = reshape(vectors[i], Shape(std::span<const std::int64_t>(own, rank), where), where);
    views.push_back(broadcast_to(line, grid, where));
  }
  return views;
}
std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, GridOrder order, Where where) {
  return meshgrid(std::span<const Tensor>(vectors.begin(), vectors.size()), order, where);
}

// --- windows ---

namespace {

struct Windows {
  Shape base;
  std::int64_t size, step;
  int axis;
};

/// The reverse of sliding_window, itself differentiable: zeros of the base's shape, to which place k of all windows is
/// added for each k. Windows of one k do not overlap. 16-bit types are added up in float32.
Tensor sum_of_windows(const Tensor& grad, const Windows& windows, Where where) {
  const DType dtype = grad.dtype(), wide = is_half(dtype) ? DType::float32 : dtype;
  const Tensor wide_grad = autograd::converted(grad, wide, where);
  const TensorImpl& from = *wide_grad.impl();
  Tensor out = zeros(windows.base, {wide, grad.device()}, where);
  const TensorImpl& to = *out.impl();
  const int last = from.rank() - 1;
  const Shape part(std::span<const std::int64_t>(from.shape.begin(), static_cast<std::size_t>(last)), where);
  std::int64_t strides[kMaxRank];
  for (int axis = 0; axis < last; ++axis) strides[axis] = to.strides[axis] * (axis == windows.axis ? windows.step : 1);
  if (from.numel() > 0) {
    const core::Backend& backend = autograd::backend_of(from, where);
    const Tensor sums = autograd::result_like(from, part, from.dtype, where);
    for (std::int64_t k = 0; k < windows.size; ++k) {
      const Tensor place = core::make_view(to, part, strides, k * to.strides[windows.axis], where);
      const Tensor value = core::make_view(from, part, from.strides, k * from.strides[last], where);
      backend.binary(kernels::kBinaryId<kernels::Add>, *place.impl(), *value.impl(), *sums.impl());
      backend.copy(*sums.impl(), *place.impl());
    }
  }
  out = autograd::converted(out, dtype, where);
  autograd::record(
      "sum_of_windows", where,
      [](Replay& r) {
        const auto w = r.attributes<Windows>();
        r.give(0, sliding_window(r.grad(), w.axis, w.size, w.step, r.where()));
      },
      {&grad}, {&out}, {}, windows);
  return out;
}

}  // namespace

Tensor sliding_window(const Tensor& x, int axis, std::int64_t size, std::int64_t step, Where where) {
  const TensorImpl& impl = core::defined("sliding_window", x, where);
  const int along = core::normalize_axis("sliding_window", axis, impl.rank(), where);
  const std::int64_t length = impl.shape[along];
  if (size < 1 || size > length)
    base::fail<ShapeError>(where, "sliding_window: windows of ", size, " do not fit axis ", axis, " of shape ",
                           impl.shape, "; the size must be in [1, ", length, "].");
  if (step < 1) base::fail<ShapeError>(where, "sliding_window: the step is ", step, "; it must be >= 1.");
  if (impl.rank() == kMaxRank)
    base::fail<ShapeError>(where, "sliding_window: shape ", impl.shape, " has ", kMaxRank,
                           " axes already; that is the most.");
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  for (int i = 0; i < impl.rank(); ++i) sizes[i] = impl.shape[i], strides[i] = impl.strides[i];
  sizes[impl.rank()] = size;
  strides[impl.rank()] = impl.strides[along];
  sizes[along] = (length - size) / step + 1;
  if (sizes[along] > 1) strides[along] *= step;
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank() + 1)), where);
  Tensor out = core::make_view(impl, shape, strides, 0, where);
  if (!is_floating(impl.dtype)) {
    autograd::note("sliding_window", where, {&x}, {&out});
    return out;
  }
  autograd::record(
      "sliding_window", where,
      [](Replay& r) { r.give(0, sum_of_windows(r.grad(), r.attributes<Windows>(), r.where())); }, {&x}, {&out}, {},
      Windows{impl.shape, size, step, along});
  return out;
}

}  // namespace capstan
