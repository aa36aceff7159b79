// Views of one tensor: the same elements under other shapes and strides.
#include <capstan/ops/shaping.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::record;
using autograd::Replay;

ShapeRequest::ShapeRequest(std::initializer_list<std::int64_t> sizes, Where where)
    : rank_(static_cast<int>(sizes.size())) {
  if (sizes.size() > kMaxRank)
    base::fail<ShapeError>(where, "ShapeRequest: ", sizes.size(), " sizes were given; a tensor has at most ", kMaxRank,
                           " axes.");
  int i = 0;
  for (const std::int64_t size : sizes) sizes_[i++] = size;
}
std::span<const std::int64_t> ShapeRequest::list() const noexcept { return {sizes_, static_cast<std::size_t>(rank_)}; }

ShapeRequest::ShapeRequest(const Shape& shape) : rank_(shape.rank()) {
  for (int axis = 0; axis < rank_; ++axis) sizes_[axis] = shape[axis];
}

namespace {

std::string text_of(const ShapeRequest& request) {
  std::string text = "[";
  for (std::size_t i = 0; i < request.list().size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(request.list()[i]);
  return text + "]";
}

/// The request with its -1 filled in.
Shape resolve(const ShapeRequest& request, const Shape& from, Where where) {
  std::int64_t sizes[kMaxRank], known = 1;
  int open = -1, rank = 0;
  for (const std::int64_t size : request.list()) {
    if (size == -1 && open >= 0)
      base::fail<ShapeError>(where, "reshape: ", text_of(request),
                             " has more than one -1; at most one size can be left open.");
    if (size < -1)
      base::fail<ShapeError>(where, "reshape: ", text_of(request),
                             " has a negative size; only -1 means \"what is left\".");
    if (size == -1) open = rank;
    else if (__builtin_mul_overflow(known, size, &known)) known = 0;
    sizes[rank++] = size;
  }
  if (open >= 0) {
    if (known == 0 || from.numel() % known != 0)
      base::fail<ShapeError>(where, "reshape: ", from, " has ", from.numel(), " elements, which do not divide into ",
                             text_of(request), ".");
    sizes[open] = from.numel() / known;
  }
  const Shape result(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  if (result.numel() != from.numel())
    base::fail<ShapeError>(where, "reshape: ", from, " has ", from.numel(), " elements and ", result, " has ",
                           result.numel(), "; the counts must be equal.");
  return result;
}

/// Strides that show the elements of x in the new shape without a copy. False if there are none.
bool view_strides(const TensorImpl& x, const Shape& shape, std::int64_t* strides) {
  if (x.contiguous) {
    core::row_major_strides(shape, strides);
    return true;
  }
  // From the last axis on: runs of x's axes that can be walked as one must each be cut by whole sizes of the new shape.
  int to = shape.rank() - 1;
  std::int64_t run = 1, taken = 1, stride = 0;  // elements of the current run, of the new axes cut from it, its stride
  for (int from = x.rank() - 1; from >= 0; --from) {
    if (x.shape[from] == 1) continue;
    if (run == 1) stride = x.strides[from];
    run *= x.shape[from];
    int outer = from - 1;
    while (outer >= 0 && x.shape[outer] == 1) --outer;
    if (outer >= 0 && x.strides[outer] == x.strides[from] * x.shape[from]) continue;  // the run goes on
    for (; to >= 0 && (taken < run || shape[to] == 1); --to) {
      strides[to] = stride * taken;
      taken *= shape[to];
    }
    if (taken != run) return false;
    run = taken = 1;
  }
  for (; to >= 0; --to) strides[to] = 1;  // sizes of 1 in front
  return true;
}

void reshape_replay(Replay& r) { r.give(0, reshape(r.grad(), r.attributes<Shape>(), r.where())); }

/// A view whose gradient is the gradient reshaped.
Tensor reshaped_view(const char* op, const Tensor& x, const Shape& shape, const std::int64_t* strides, Where where) {
  Tensor out = core::make_view(*x.impl(), shape, strides, 0, where);
  record(op, where, &reshape_replay, {&x}, {&out}, {}, x.impl()->shape);
  return out;
}

}  // namespace

Tensor reshape(const Tensor& x, const ShapeRequest& request, Where where) {
  const TensorImpl& impl = core::defined("reshape", x, where);
  const Shape shape = resolve(request, impl.shape, where);
  std::int64_t strides[kMaxRank];
  if (impl.numel() == 0) core::row_major_strides(shape, strides);
  else if (!view_strides(impl, shape, strides)) {
    const Tensor packed = autograd::dense(x, where);
    core::row_major_strides(shape, strides);
    Tensor out = core::make_view(*packed.impl(), shape, strides, 0, where);
    record("reshape", where, &reshape_replay, {&x}, {&out}, {}, impl.shape);
    return out;
  }
  return reshaped_view("reshape", x, shape, strides, where);
}

Tensor flatten(const Tensor& x, int begin, int end, Where where) {
  const TensorImpl& impl = core::defined("flatten", x, where);
  if (impl.rank() == 0) return reshape(x, {1}, where);
  const int first = core::normalize_axis("flatten", begin, impl.rank(), where);
  const int last = core::normalize_axis("flatten", end, impl.rank(), where);
  if (first > last)
    base::fail<ShapeError>(where, "flatten: axis ", begin, " comes after axis ", end, " in shape ", impl.shape, ".");
  std::int64_t sizes[kMaxRank];
  int rank = 0;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    if (axis > first && axis <= last) sizes[rank - 1] *= impl.shape[axis];
    else sizes[rank++] = impl.shape[axis];
  }
  return reshape(x, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where), where);
}

Tensor permute(const Tensor& x, std::span<const int> order, Where where) {
  const TensorImpl& impl = core::defined("permute", x, where);
  if (static_cast<int>(order.size()) != impl.rank())
    base::fail<ShapeError>(where, "permute: ", order.size(), " axes were given for shape ", impl.shape, "; it needs ",
                           impl.rank(), ".");
  struct Order {
    int axes[kMaxRank];
    int rank;
  } back{};
  back.rank = impl.rank();
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  unsigned seen = 0;
  for (int i = 0; i < impl.rank(); ++i) {
    const int axis = core::normalize_axis("permute", order[static_cast<std::size_t>(i)], impl.rank(), where);
    if (seen >> axis & 1u)
      base::fail<ShapeError>(where, "permute: axis ", axis, " is named twice for shape ", impl.shape,
                             "; name each once.");
    seen |= 1u << axis;
    sizes[i] = impl.shape[axis];
    strides[i] = impl.strides[axis];
    back.axes[axis] = i;
  }
  Tensor out =
      core::make_view(impl, Shape(std::span<const std::int64_t>(sizes, order.size()), where), strides, 0, where);
  record(
      "permute", where,
      [](Replay& r) {
        const auto order_back = r.attributes<Order>();
        r.give(0, permute(r.grad(), std::span<const int>(order_back.axes, static_cast<std::size_t>(order_back.rank)),
                          r.where()));
      },
      {&x}, {&out}, {}, back);
  return out;
}
Tensor permute(const Tensor& x, std::initializer_list<int> order, Where where) {
  return permute(x, std::span<const int>(order.begin(), order.size()), where);
}

Tensor transpose(const Tensor& x, Where where) {
  int order[kMaxRank];
  const int rank = core::defined("transpose", x, where).rank();
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  return permute(x, std::span<const int>(order, static_cast<std::size_t>(rank)), where);
}

Tensor transpose(const Tensor& x, int axis0, int axis1, Where where) {
  int order[kMaxRank];
  const int rank = core::defined("transpose", x, where).rank();
  for (int i = 0; i < rank; ++i) order[i] = i;
  std::swap(order[core::normalize_axis("transpose", axis0, rank, where)],
            order[core::normalize_axis("transpose", axis1, rank, where)]);
  return permute(x, std::span<const int>(order, static_cast<std::size_t>(rank)), where);
}

Tensor move_axis(const Tensor& x, std::span<const int> sources, std::span<const int> destinations, Where where) {
  const TensorImpl& impl = core::defined("move_axis", x, where);
  const auto rank = static_cast<std::size_t>(impl.rank());
  if (sources.size() != destinations.size())
    base::fail<ShapeError>(where, "move_axis: ", sources.size(), " sources and ", destinations.size(),
                           " destinations were given; there must be as many of each.");
  int order[kMaxRank];  // of the result: which axis of x stands there, -1 for not known yet
  for (int& axis : order) axis = -1;
  unsigned moved = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const int from = core::normalize_axis("move_axis", sources[i], impl.rank(), where);
    const int to = core::normalize_axis("move_axis", destinations[i], impl.rank(), where);
    if ((moved >> from & 1u) != 0 || order[to] >= 0)
      base::fail<ShapeError>(where, "move_axis: axis ", sources[i], " and destination ", destinations[i], " for shape ",
                             impl.shape, " name an axis or a place twice; name each once.");
    moved |= 1u << from;
    order[to] = from;
  }
  int next = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (order[i] >= 0) continue;
    while (moved >> next & 1u) ++next;
    order[i] = next++;
  }
  return permute(x, std::span<const int>(order, rank), where);
}
Tensor move_axis(const Tensor& x, std::initializer_list<int> sources, std::initializer_list<int> destinations,
                 Where where) {
  return move_axis(x, std::span<const int>(sources.begin(), sources.size()),
                   std::span<const int>(destinations.begin(), destinations.size()), where);
}
Tensor move_axis(const Tensor& x, int source, int destination, Where where) {
  return move_axis(x, std::span<const int>(&source, 1), std::span<const int>(&destination, 1), where);
}

Tensor unflatten(const Tensor& x, int axis, const ShapeRequest& request, Where where) {
  const TensorImpl& impl = core::defined("unflatten", x, where);
  const int along = core::normalize_axis("unflatten", axis, impl.rank(), where);
  const int fresh = static_cast<int>(request.list().size()), rank = impl.rank() - 1 + fresh;
  if (rank > kMaxRank) base::fail<ShapeError>(where, "unflatten: the result would have more than ", kMaxRank, " axes.");
  std::int64_t sizes[kMaxRank], known = 1;
  int open = -1, negative = 0;
  for (int i = 0; i < rank; ++i) {
    const bool is_new = i >= along && i < along + fresh;
    sizes[i] = is_new ? request.list()[static_cast<std::size_t>(i - along)] : impl.shape[i < along ? i : i - fresh + 1];
    if (!is_new) continue;
    if (sizes[i] == -1) open = i;
    if (sizes[i] < 0) ++negative;
    else if (__builtin_mul_overflow(known, sizes[i], &known)) known = -1;
  }
  const std::int64_t size = impl.shape[along];
  const bool fits = negative == 0 ? known == size : negative == 1 && open >= 0 && known > 0 && size % known == 0;
  if (!fits)
    base::fail<ShapeError>(where, "unflatten: axis ", axis, " of shape ", impl.shape, " has size ", size,
                           ", which does not become ", text_of(request),
                           "; the sizes must multiply to it, and one of them may be -1.");
  if (open >= 0) sizes[open] = size / known;
  return reshape(x, Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where), where);
}

namespace {

Tensor without_axes(const Tensor& x, unsigned mask, Where where) {
  const TensorImpl& impl = *x.impl();
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  std::size_t rank = 0;
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (!(mask >> axis & 1u)) sizes[rank] = impl.shape[axis], strides[rank++] = impl.strides[axis];
  return reshaped_view("squeeze", x, Shape(std::span<const std::int64_t>(sizes, rank), where), strides, where);
}

}  // namespace

Tensor squeeze(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("squeeze", x, where);
  unsigned mask = 0;
  for (int axis = 0; axis < impl.rank(); ++axis)
    if (impl.shape[axis] == 1) mask |= 1u << axis;
  return without_axes(x, mask, where);
}

Tensor squeeze(const Tensor& x, int axis, Where where) {
  const TensorImpl& impl = core::defined("squeeze", x, where);
  const int at = core::normalize_axis("squeeze", axis, impl.rank(), where);
  if (impl.shape[at] != 1)
    base::fail<ShapeError>(where, "squeeze: axis ", axis, " of shape ", impl.shape, " has size ", impl.shape[at],
                           "; only axes of size 1 can go.");
  return without_axes(x, 1u << at, where);
}

Tensor expand_dims(const Tensor& x, int axis, Where where) {
  const TensorImpl& impl = core::defined("expand_dims", x, where);
  if (impl.rank() == kMaxRank)
    base::fail<ShapeError>(where, "expand_dims: shape ", impl.shape, " has ", kMaxRank,
                           " axes already; that is the most.");
  const int at = core::normalize_axis("expand_dims", axis, impl.rank() + 1, where);
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  for (int i = 0; i <= impl.rank(); ++i) {
    const int from = i < at ? i : i - 1;
    sizes[i] = i == at ? 1 : impl.shape[from];
    strides[i] = i == at ? 1 : impl.strides[from];
  }
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank() + 1)), where);
  return reshaped_view("expand_dims", x, shape, strides, where);
}

Tensor broadcast_to(const Tensor& x, const ShapeRequest& request, Where where) {
  const TensorImpl& impl = core::defined("broadcast_to", x, where);
  const int rank = static_cast<int>(request.list().size()), extra = rank - impl.rank();
  std::int64_t sizes[kMaxRank], strides[kMaxRank];
  bool fits = extra >= 0;
  for (int axis = 0; axis < rank && fits; ++axis) {
    const std::int64_t own = axis < extra ? 1 : impl.shape[axis - extra];
    sizes[axis] = request.list()[static_cast<std::size_t>(axis)];
    if (sizes[axis] == -1 && axis >= extra) sizes[axis] = own;
    fits = sizes[axis] >= 0 && (own == 1 || own == sizes[axis]);
    strides[axis] = own == 1 && sizes[axis] != 1 ? 0 : axis < extra ? 1 : impl.strides[axis - extra];
  }
  if (!fits)
    base::fail<ShapeError>(where, "broadcast_to: ", impl.shape, " does not stretch to ", text_of(request),
                           "; trailing sizes must be equal or 1.");
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
  Tensor out = core::make_view(impl, shape, strides, 0, where);
  record(
      "broadcast_to", where, [](Replay& r) { r.give(0, autograd::sum_to(r.grad(), r.attributes<Shape>(), r.where())); },
      {&x}, {&out}, {}, impl.shape);
  return out;
}

}  // namespace capstan
