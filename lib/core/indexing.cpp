#include "lib/core/indexing.hpp"

#include "lib/base/text.hpp"

namespace capstan::core {
namespace {

struct Builder {
  const char* op;
  const TensorImpl& base;
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
    add(base.shape[axis], base.strides[axis]);
    ++axis;
  }

  void integer(std::int64_t position) {
    const std::int64_t size = base.shape[axis];
    if (position < -size || position >= size)
      base::fail<IndexError>(where, op, ": index ", position, " is out of range for axis ", axis, " of shape ",
                             base.shape, "; it must be in [", -size, ", ", size, ").");
    offset += (position < 0 ? position + size : position) * base.strides[axis];
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
    const std::int64_t size = base.shape[axis], stride = base.strides[axis];
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
};

}  // namespace

ViewGeometry index_geometry(const char* op, const TensorImpl& base, std::span<const Index> indices, Where where) {
  int used = 0, ellipses = 0;
  for (const Index& index : indices) {
    used += index.kind() == Index::Kind::integer || index.kind() == Index::Kind::range;
    ellipses += index.kind() == Index::Kind::dots;
  }
  if (used > base.rank())
    base::fail<IndexError>(where, op, ": ", used, " indices were given for shape ", base.shape, "; it has ",
                           base.rank(), " axes.");
  if (ellipses > 1) base::fail<IndexError>(where, op, ": ", ellipses, " ellipses were given; at most one can be.");

  Builder build{op, base, where};
  for (const Index& index : indices) {
    switch (index.kind()) {
      case Index::Kind::integer: build.integer(index.integer()); break;
      case Index::Kind::range: build.range(index.as_range()); break;
      case Index::Kind::new_axis: build.add(1, 0); break;
      case Index::Kind::dots:
        for (int i = 0; i < base.rank() - used; ++i) build.whole_axis();
        break;
    }
  }
  while (build.axis < base.rank()) build.whole_axis();

  ViewGeometry view;
  view.shape = Shape(std::span<const std::int64_t>(build.sizes, static_cast<std::size_t>(build.rank)), where);
  for (int i = 0; i < build.rank; ++i) view.strides[i] = build.strides[i];
  view.offset = build.offset;
  return view;
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
