// Views by basic indices.
#include <capstan/create.hpp>

#include "autograd/places.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;
using core::ViewGeometry;

namespace {

/// A view, and the shape that it was taken from.
struct Viewed {
  ViewGeometry view;  // strides and offset as in a contiguous tensor of the base's shape
  Shape base;
};

/// The geometry that the same indices give on a contiguous tensor.
ViewGeometry on_contiguous(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where) {
  TensorImpl plain(base.shape, base.dtype);
  core::row_major_strides(base.shape, plain.strides);
  return core::index_geometry(op, plain, indices, where);
}

Tensor view_of(const Tensor& x, const ViewGeometry& geometry, Where where) {
  return core::make_view(*x.impl(), geometry.shape, geometry.strides, geometry.offset, where);
}

/// Zeros of the base's shape with `grad` where the view was: the gradient of a view, itself differentiable.
Tensor embed(const Tensor& grad, const Viewed& viewed, Where where) {
  Tensor out = zeros(viewed.base, {grad.dtype(), grad.device()}, where);
  const Tensor place = view_of(out, viewed.view, where);
  backend_of(*grad.impl(), where).copy(*grad.impl(), *place.impl());
  record(
      "embed", where,
      [](Replay& r) {
        const Tensor whole = r.grad().contiguous(r.where());
        const auto at = r.attributes<Viewed>();
        Tensor part = view_of(whole, at.view, r.where());
        // the view of a contiguous tensor, recorded
        record(
            "index", r.where(),
            [](Replay& inner) { inner.give(0, embed(inner.grad(), inner.attributes<Viewed>(), inner.where())); },
            {&whole}, {&part}, {}, at);
        r.give(0, std::move(part));
      },
      {&grad}, {&out}, {}, viewed);
  return out;
}

void view_replay(Replay& r) {
  const auto viewed = r.attributes<Viewed>();
  const Where where = r.where();
  TensorImpl* sum = r.accumulator(0);
  if (sum == nullptr) {
    r.give(0, embed(r.grad(), viewed, where));
    return;
  }
  // straight into the sum: many slices of one tensor cost no more than their own size
  const Tensor place = core::make_view(*sum, viewed.view.shape, viewed.view.strides, viewed.view.offset, where);
  if (place.is_contiguous()) {
    const Tensor grad = autograd::dense(r.grad(), where);
    backend_of(*sum, where).accumulate(*place.impl(), *grad.impl());
  } else {
    const Tensor both = add(place, r.grad(), where);
    backend_of(*sum, where).copy(*both.impl(), *place.impl());
  }
  core::note_own();
}

}  // namespace

namespace {

Tensor indexed(const char* op, const Tensor& x, std::span<const Index> indices, Where where) {
  const TensorImpl& impl = core::defined(op, x, where);
  if (core::has_tensors(indices)) return autograd::index_by_tensors(op, x, indices, where);
  Tensor out = view_of(x, core::index_geometry(op, impl, indices, where), where);
  if (!autograd::attended()) return out;
  if (is_floating(impl.dtype))
    record("index", where, &view_replay, {&x}, {&out}, {}, Viewed{on_contiguous(op, impl, indices, where), impl.shape});
  else autograd::note("index", where, {&x}, {&out});
  return out;
}

}  // namespace

Tensor Tensor::index(std::span<const Index> indices, Where where) const {
  return indexed("index", *this, indices, where);
}
Tensor Tensor::index(std::initializer_list<Index> indices, Where where) const {
  return index(std::span<const Index>(indices.begin(), indices.size()), where);
}
Tensor Tensor::operator[](Position row) const {
  const Index first(row.value);
  return indexed("operator[]", *this, std::span<const Index>(&first, 1), row.where);
}
Tensor Tensor::operator[](const Operand& index) const {
  const Index only(index.tensor);
  return indexed("operator[]", *this, std::span<const Index>(&only, 1), index.where);
}

}  // namespace capstan
