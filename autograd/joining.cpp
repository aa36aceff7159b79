// Joining tensors and cutting them apart.
#include <capstan/ops/shaping.hpp>

#include "autograd/ops.hpp"

namespace capstan {

using autograd::backend_of;
using autograd::Replay;
using autograd::with_size;

namespace {

/// An unrecorded view of positions begin .. begin+size-1 along an axis.
Tensor part_of(const Tensor& x, int axis, std::int64_t begin, std::int64_t size, Where where) {
  const TensorImpl& impl = *x.impl();
  return core::make_view(impl, with_size(impl.shape, axis, size, where), impl.strides, begin * impl.strides[axis],
                         where);
}

void concat_replay(Replay& r, std::span<const std::int64_t> sizes, int axis) {
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++])
    if (r.needs(static_cast<int>(i))) r.give(static_cast<int>(i), narrow(r.grad(), axis, begin, sizes[i], r.where()));
}

DType common_type(const char* op, std::span<const Tensor> parts, Where where) {
  DType dtype = parts[0].dtype();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const DType other = parts[i].dtype();
    if (dtype != other && (is_floating(dtype) != is_floating(other) || dtype == DType::bool8 || other == DType::bool8))
      base::fail<DTypeError>(where, op, ": types do not mix: part 0 is ", parts[0].dtype(), " and part ", i, " is ",
                             other, "; the Array API table has no common type for them. Convert one with x.to(dtype).");
    dtype = promote(dtype, other, where);
  }
  return dtype;
}

void check_parts(const char* op, std::span<const Tensor> parts, int axis, Where where) {
  const TensorImpl& first = core::defined(op, parts[0], where);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const TensorImpl& part = core::defined(op, parts[i], where);
    core::require_same_device(op, first, part, where);
    bool fits = part.rank() == first.rank();
    for (int k = 0; fits && k < first.rank(); ++k) fits = k == axis || part.shape[k] == first.shape[k];
    if (!fits)
      base::fail<ShapeError>(where, op, ": part 0 is ", first.shape, " and part ", i, " is ", part.shape, "; ",
                             axis < 0 ? std::string("all must have the same shape.")
                                      : base::join("all sizes but that of axis ", axis, " must be equal."));
  }
}

}  // namespace

Tensor concat(std::span<const Tensor> parts, int axis, Where where) {
  if (parts.empty()) base::fail<ShapeError>(where, "concat: there are no parts; give at least one.");
  const TensorImpl& first = core::defined("concat", parts[0], where);
  const int along = core::normalize_axis("concat", axis, first.rank(), where);
  check_parts("concat", parts, along, where);
  const DType dtype = common_type("concat", parts, where);
  const autograd::Rollback rollback;
  std::vector<Tensor> converted;
  converted.reserve(parts.size());
  std::vector<std::int64_t> sizes(parts.size());
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    converted.push_back(parts[i].to(dtype, where));
    sizes[i] = parts[i].shape()[along];
    if (__builtin_add_overflow(total, sizes[i], &total))
      base::fail<ShapeError>(where, "concat: the sizes of axis ", along, " add up to 2^63 or more.");
  }
  Tensor out = autograd::result_like(first, with_size(first.shape, along, total, where), dtype, where);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < parts.size(); begin += sizes[i++]) {
    const Tensor target = part_of(out, along, begin, sizes[i], where);
    backend_of(first, where).copy(*converted[i].impl(), *target.impl());
  }
  if (autograd::attended()) {
    std::vector<const Tensor*> inputs;
    inputs.reserve(parts.size());
    for (const Tensor& part : converted) inputs.push_back(&part);
    // attributes: the axis, the number of parts, and their sizes
    sizes.insert(sizes.begin(), {along, static_cast<std::int64_t>(parts.size())});
    Tensor* const outputs[] = {&out};
    autograd::append(
        {"concat",
         where,
         [](Replay& r) {
           const auto* values = static_cast<const std::int64_t*>(r.raw_attributes());
           concat_replay(r, {values + 2, static_cast<std::size_t>(values[1])}, static_cast<int>(values[0]));
         },
         inputs,
         outputs,
         {},
         sizes.data(),
         sizes.size() * sizeof(std::int64_t)});
  }
  return out;
}
Tensor concat(std::initializer_list<Tensor> parts, int axis, Where where) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}

Tensor stack(std::span<const Tensor> parts, int axis, Where where) {
  if (parts.empty()) base::fail<ShapeError>(where, "stack: there are no parts; give at least one.");
  check_parts("stack", parts, -1, where);
  common_type("stack", parts, where);
  core::normalize_axis("stack", axis, parts[0].rank(where) + 1, where);
  const autograd::Rollback rollback;
  std::vector<Tensor> raised;
  raised.reserve(parts.size());
  for (const Tensor& part : parts) raised.push_back(expand_dims(part, axis, where));
  return concat(raised, axis, where);
}
Tensor stack(std::initializer_list<Tensor> parts, int axis, Where where) {
  return stack(std::span<const Tensor>(parts.begin(), parts.size()), axis, where);
}

Tensor narrow(const Tensor& x, int axis, std::int64_t begin, std::int64_t size, Where where) {
  const TensorImpl& impl = core::defined("narrow", x, where);
  const int along = core::normalize_axis("narrow", axis, impl.rank(), where);
  if (begin < 0 || size < 0 || size > impl.shape[along] || begin > impl.shape[along] - size)
    base::fail<IndexError>(where, "narrow: ", size, " positions from ", begin, " do not lie in axis ", axis,
                           " of shape ", impl.shape, "; begin must be >= 0 and begin + size at most ",
                           impl.shape[along], ".");
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  indices[along] = range(begin, begin + size);
  return x.index(std::span<const Index>(indices, static_cast<std::size_t>(impl.rank())), where);
}

namespace {

/// The axis that is cut, counted from the first.
int cut_axis(const char* op, const Tensor& x, int axis, Where where) {
  return core::normalize_axis(op, axis, core::defined(op, x, where).rank(), where);
}

void check_divides(const Tensor& x, std::int64_t count, int axis, int along, Where where) {
  if (count < 1 || x.impl()->shape[along] % count != 0)
    base::fail<ShapeError>(where, "split: axis ", axis, " of shape ", x.impl()->shape, " does not divide into ", count,
                           " equal parts; use split_sizes for unequal ones.");
}

}  // namespace

void detail::unstack(std::span<Tensor> parts, const Tensor& x, int axis, Where where) {
  const int along = cut_axis("unstack", x, axis, where);
  const Shape& shape = x.impl()->shape;
  if (shape[along] != static_cast<std::int64_t>(parts.size()))
    base::fail<ShapeError>(where, "unstack: axis ", axis, " of shape ", shape, " has ", shape[along],
                           shape[along] == 1 ? " slice; " : " slices; ", parts.size(), " were asked for.");
  const autograd::Rollback rollback;
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    indices[along] = static_cast<std::int64_t>(i);
    parts[i] = x.index(std::span<const Index>(indices, static_cast<std::size_t>(shape.rank())), where);
  }
}

void detail::split(std::span<Tensor> parts, const Tensor& x, int axis, Where where) {
  const int along = cut_axis("split", x, axis, where);
  const auto count = static_cast<std::int64_t>(parts.size());
  check_divides(x, count, axis, along, where);
  const autograd::Rollback rollback;
  const std::int64_t size = x.impl()->shape[along] / count;
  for (std::int64_t i = 0; i < count; ++i) parts[static_cast<std::size_t>(i)] = narrow(x, along, i * size, size, where);
}

std::vector<Tensor> unstack(const Tensor& x, int axis, Where where) {
  const int along = cut_axis("unstack", x, axis, where);
  std::vector<Tensor> parts(static_cast<std::size_t>(x.impl()->shape[along]));
  detail::unstack(parts, x, axis, where);
  return parts;
}

std::vector<Tensor> split(const Tensor& x, std::int64_t count, int axis, Where where) {
  check_divides(x, count, axis, cut_axis("split", x, axis, where), where);
  std::vector<Tensor> parts(static_cast<std::size_t>(count));
  detail::split(parts, x, axis, where);
  return parts;
}

std::vector<Tensor> array_split(const Tensor& x, std::int64_t count, int axis, Where where) {
  const TensorImpl& impl = core::defined("array_split", x, where);
  const int along = core::normalize_axis("array_split", axis, impl.rank(), where);
  if (count < 1)
    base::fail<ShapeError>(where, "array_split: ", count, " parts were asked for; the count must be >= 1.");
  const std::int64_t least = impl.shape[along] / count, longer = impl.shape[along] % count;
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t size = least + (i < longer ? 1 : 0);
    parts.push_back(narrow(x, along, begin, size, where));
    begin += size;
  }
  return parts;
}

std::vector<Tensor> split_sizes(const Tensor& x, std::span<const std::int64_t> sizes, int axis, Where where) {
  const TensorImpl& impl = core::defined("split_sizes", x, where);
  const int along = core::normalize_axis("split_sizes", axis, impl.rank(), where);
  std::int64_t total = 0;
  for (const std::int64_t size : sizes)
    if (size < 0 || total < 0 || __builtin_add_overflow(total, size, &total)) total = -1;
  if (total != impl.shape[along])
    base::fail<ShapeError>(where, "split_sizes: the sizes do not add up to axis ", axis, " of shape ", impl.shape,
                           "; they must be >= 0 and their sum ", impl.shape[along], ".");
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(narrow(x, along, begin, size, where));
    begin += size;
  }
  return parts;
}
std::vector<Tensor> split_sizes(const Tensor& x, std::initializer_list<std::int64_t> sizes, int axis, Where where) {
  return split_sizes(x, std::span<const std::int64_t>(sizes.begin(), sizes.size()), axis, where);
}

Tensor slice(const Tensor& x, std::initializer_list<std::int64_t> begin, std::initializer_list<std::int64_t> size,
             Where where) {
  const TensorImpl& impl = core::defined("slice", x, where);
  const auto rank = static_cast<std::size_t>(impl.rank());
  if (begin.size() != rank || size.size() != rank)
    base::fail<ShapeError>(where, "slice: ", begin.size(), " begins and ", size.size(), " sizes were given for shape ",
                           impl.shape, "; it needs ", impl.rank(), " of each.");
  Index indices[kMaxRank] = {all, all, all, all, all, all, all, all};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t length = impl.shape[static_cast<int>(axis)], from = begin.begin()[axis];
    const std::int64_t count = size.begin()[axis] == -1 && from >= 0 ? length - from : size.begin()[axis];
    if (from < 0 || count < 0 || count > length || from > length - count)
      base::fail<IndexError>(where, "slice: ", size.begin()[axis], " positions from ", from, " do not lie in axis ",
                             axis, " of shape ", impl.shape, "; begin must be >= 0 and begin + size at most ", length,
                             ".");
    indices[axis] = range(from, from + count);
  }
  return x.index(std::span<const Index>(indices, rank), where);
}

}  // namespace capstan
