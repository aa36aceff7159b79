#include "lib/core/indexing.hpp"

#include "lib/base/text.hpp"

namespace capstan::core {
namespace {

struct Builder {
  const char* op;
  const Shape& base;
  const std::int64_t* base_strides;
  Where where;
  std::int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};
  std::int64_t offset = 0;
  int rank = 0;
  int axis = 0;  // of the base, next to be used

  void add(std::int64_t size, std::int64_t stride) {
    if (rank == kMaxRank) base::fail<ShapeError>(where, op, ": the view would have more than ", kMaxRank, " axes.");
    sizes[rank] = size;
    strides[rank++] = stride;
  }

  void whole_axis() {
    add(base[axis], base_strides[axis]);
    ++axis;
  }

  void integer(std::int64_t position) {
    const std::int64_t size = base[axis];
    if (position < -size || position >= size)
      base::fail<IndexError>(where, op, ": index ", position, " is out of range for axis ", axis, " of shape ", base,
                             "; it must be in [", -size, ", ", size, ").");
    offset += (position < 0 ? position + size : position) * base_strides[axis];
    ++axis;
  }

  static std::int64_t clamp(std::int64_t position, std::int64_t size, std::int64_t low, std::int64_t high) {
    if (position < 0) position += size;
    return position < low ? low : position > high ? high : position;
  }

  // Python's slice rules: slice(begin, end, step).indices(size)
  void range(const Range& r) {
    if (r.step == 0)
      base::fail<IndexError>(where, op, ": the step of a range for axis ", axis, " is 0; it must not be.");
    const std::int64_t size = base[axis], stride = base_strides[axis];
    const std::int64_t low = r.step > 0 ? 0 : -1, high = r.step > 0 ? size : size - 1;
    const std::int64_t begin = r.begin == Range::kOpen ? (r.step > 0 ? low : high) : clamp(r.begin, size, low, high);
    const std::int64_t end = r.end == Range::kOpen ? (r.step > 0 ? high : low) : clamp(r.end, size, low, high);
    std::int64_t count = 0;
    if (r.step > 0 && begin < end) count = (end - begin - 1) / r.step + 1;
    if (r.step < 0 && begin > end) count = (begin - end - 1) / (r.step == INT64_MIN ? INT64_MAX : -r.step) + 1;
    if (count > 0) offset += begin * stride;
    add(count, count > 1 ? stride * r.step : stride);
    ++axis;
  }

  /// The axes that a mask stands for must have its sizes.
  void check_mask(const Shape& mask) const {
    bool fits = true;
    for (int i = 0; i < mask.rank(); ++i) fits = fits && mask[i] == base[axis + i];
    if (fits) return;
    const Shape own(std::span<const std::int64_t>(base.begin() + axis, static_cast<std::size_t>(mask.rank())));
    base::fail<ShapeError>(where, op, ": the mask is ", mask, " and the axes it stands for, from axis ", axis,
                           " of shape ", base, " on, are ", own, "; the sizes must be equal.");
  }

  ChosenAxes tensor(const Tensor& indices) {
    const TensorImpl& impl = *indices.impl();
    const bool mask = impl.dtype == DType::bool8;
    if (!mask && !is_integer(impl.dtype))
      base::fail<DTypeError>(where, op, ": an index tensor is ", impl.dtype, "; it must be of integers or bool.");
    if (mask) check_mask(impl.shape);
    ChosenAxes chosen{indices, axis, mask ? impl.rank() : 1};
    axis += chosen.count;
    return chosen;
  }

  void entry(const Index& index, int left_out) {
    switch (index.kind()) {
      case Index::Kind::integer: integer(index.integer()); break;
      case Index::Kind::range: range(index.as_range()); break;
      case Index::Kind::new_axis: add(1, 0); break;
      case Index::Kind::dots:
        for (int i = 0; i < left_out; ++i) whole_axis();
        break;
      case Index::Kind::tensor: break;
    }
  }

  ViewGeometry finish() {
    while (axis < base.rank()) whole_axis();
    ViewGeometry view;
    view.shape = Shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(rank)), where);
    for (int i = 0; i < rank; ++i) view.strides[i] = strides[i];
    view.offset = offset;
    return view;
  }
};

/// How many axes of the base the indices use.
int axes_used(const char* op, const Shape& base, std::span<const Index> indices, Where where) {
  int used = 0, ellipses = 0;
  for (const Index& index : indices) {
    const Index::Kind kind = index.kind();
    if (kind == Index::Kind::tensor) {
      const TensorImpl& impl = defined(op, index.tensor(), where);
      used += impl.dtype == DType::bool8 ? impl.rank() : 1;
    }
    used += kind == Index::Kind::integer || kind == Index::Kind::range;
    ellipses += kind == Index::Kind::dots;
  }
  if (used > base.rank())
    base::fail<IndexError>(where, op, ": ", used, " indices were given for shape ", base, "; it has ", base.rank(),
                           " axes.");
  if (ellipses > 1) base::fail<IndexError>(where, op, ": ", ellipses, " ellipses were given; at most one can be.");
  return used;
}

}  // namespace

bool has_tensors(std::span<const Index> indices) noexcept {
  for (const Index& index : indices)
    if (index.kind() == Index::Kind::tensor) return true;
  return false;
}

ViewGeometry index_geometry(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where) {
  const int left_out = base.rank() - axes_used(op, base.shape, indices, where);
  Builder build{op, base.shape, base.strides, where};
  for (const Index& index : indices) build.entry(index, left_out);
  return build.finish();
}

IndexPlan plan_index(const char* op, const Shape& shape, const std::int64_t* strides, std::span<const Index> indices,
                     Where where) {
  const int left_out = shape.rank() - axes_used(op, shape, indices, where);
  IndexPlan plan;
  Builder build{op, shape, strides, where};
  // Integers beside tensors choose too. Entries that choose and stand side by side keep their place; if a range, a new
  // axis or an ellipsis stands between them, the axes of what they choose come first.
  bool begun = false, ended = false, apart = false;
  for (const Index& index : indices) {
    const bool chooses = index.kind() == Index::Kind::tensor || index.kind() == Index::Kind::integer;
    if (chooses && !begun) plan.at = build.rank;
    apart = apart || (chooses && ended);
    begun = begun || chooses;
    ended = ended || (begun && !chooses);
    if (index.kind() != Index::Kind::tensor) {
      build.entry(index, left_out);
    } else if (plan.count == kMaxRank) {
      base::fail<IndexError>(where, op, ": more than ", kMaxRank, " index tensors were given; that is the most.");
    } else {
      plan.chosen[plan.count++] = build.tensor(index.tensor());
    }
  }
  if (apart) plan.at = 0;
  plan.rest = build.finish();
  return plan;
}

std::byte* element_address(const char* op, const TensorImpl& impl, std::span<const std::int64_t> index, Where where) {
  if (static_cast<int>(index.size()) != impl.rank())
    base::fail<IndexError>(where, op, ": ", index.size(), " indices were given for shape ", impl.shape, "; it needs ",
                           impl.rank(), ".");
  std::int64_t offset = 0;
  for (int axis = 0; axis < impl.rank(); ++axis) {
    std::int64_t i = index[static_cast<std::size_t>(axis)];
    const std::int64_t size = impl.shape[axis];
    if (i < -size || i >= size)
      base::fail<IndexError>(where, op, ": index ", i, " is out of range for axis ", axis, " of shape ", impl.shape,
                             "; it must be in [", -size, ", ", size, ").");
    offset += (i < 0 ? i + size : i) * impl.strides[axis];
  }
  return impl.data + offset * size_of(impl.dtype);
}

}  // namespace capstan::core
