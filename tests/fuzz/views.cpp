// Steps that look at the same elements from elsewhere, join and rearrange them, or change them in place.
#include <algorithm>
#include <numeric>

#include "tests/fuzz/programs.hpp"

namespace fuzz {

namespace cs = capstan;
using cs::Tensor;

namespace {

cs::ShapeRequest request(const Sizes& sizes) { return cs::Shape(std::span<const std::int64_t>(sizes)); }

Plain copied(const Plain& x) {
  Plain result = Plain::fresh(x.dtype, x.sizes);
  for (std::int64_t i = 0; i < x.count(); ++i) result[i] = x[i];
  return result;
}

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

}  // namespace

bool Program::view() {
  const Pair x = any();
  const Plain& p = x.plain;
  const int kind = below(4);  // transpose, index, expand or squeeze, broadcast_to
  if (kind == 0) {
    if (p.rank() < 2) return false;
    std::vector<int> order(at(p.rank()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    Sizes out;
    for (const int axis : order) out.push_back(p.sizes[at(axis)]);
    Plain result = p.view(out, [&](const Sizes& index) {
      Sizes from(index.size());
      for (std::size_t i = 0; i < index.size(); ++i) from[at(order[i])] = index[i];
      return number_of(from, p.sizes);
    });
    keep({cs::permute(x.tensor, std::span<const int>(order)), std::move(result), "permute(" + x.how + ")"}, 0);
    return true;
  }
  if (kind == 1) {
    if (p.rank() == 0) return false;
    std::vector<cs::Index> indices;
    std::vector<std::int64_t> begin(at(p.rank())), step(at(p.rank()));
    std::vector<int> kept;
    Sizes out;
    std::string how = "index(" + x.how;
    for (int axis = 0; axis < p.rank(); ++axis) {
      const std::int64_t size = p.sizes[at(axis)];
      if (size > 0 && chance(25)) {
        begin[at(axis)] = below(static_cast<int>(size));
        indices.emplace_back(begin[at(axis)] - (chance(50) ? size : 0));
        how += ", " + std::to_string(begin[at(axis)]);
        continue;
      }
      const std::int64_t stride = chance(50) ? 1 : below(5) - 2;
      step[at(axis)] = stride == 0 ? 1 : stride;
      const std::int64_t first = size == 0 ? 0 : below(static_cast<int>(size)),
                         last = size == 0 ? 0 : below(static_cast<int>(size));
      begin[at(axis)] = step[at(axis)] > 0 ? std::min(first, last) : std::max(first, last);
      const std::int64_t end = step[at(axis)] > 0 ? std::max(first, last) : std::min(first, last);  // exclusive
      std::int64_t count = 0;
      for (std::int64_t i = begin[at(axis)]; step[at(axis)] > 0 ? i < end : i > end; i += step[at(axis)]) ++count;
      indices.emplace_back(cs::range(begin[at(axis)], end, step[at(axis)]));
      how += ", " + std::to_string(begin[at(axis)]) + ":" + std::to_string(end) + ":" + std::to_string(step[at(axis)]);
      kept.push_back(axis);
      out.push_back(count);
    }
    Plain result = p.view(out, [&](const Sizes& index) {
      Sizes from = begin;
      for (std::size_t i = 0; i < kept.size(); ++i) from[at(kept[i])] += index[i] * step[at(kept[i])];
      return number_of(from, p.sizes);
    });
    keep({x.tensor.index(std::span<const cs::Index>(indices)), std::move(result), how + ")"}, 0);
    return true;
  }
  if (kind == 2) {
    const int axis = below(p.rank() + 1);
    if (p.rank() >= 6) return false;
    Sizes out = p.sizes;
    out.insert(out.begin() + axis, 1);
    Plain result = p.view(out, [&](const Sizes& index) {
      Sizes from = index;
      from.erase(from.begin() + axis);
      return number_of(from, p.sizes);
    });
    keep({cs::expand_dims(x.tensor, axis), std::move(result),
          "expand_dims(" + x.how + ", " + std::to_string(axis) + ")"},
         0);
    return true;
  }
  Sizes out = p.sizes;
  for (std::int64_t& size : out)
    if (size == 1) size = 1 + below(4);
  if (chance(30) && out.size() < 5) out.insert(out.begin(), 1 + below(3));
  if (count_of(out) > kMostElements) return false;
  keep({cs::broadcast_to(x.tensor, request(out)).copy(), copied(stretched(p, out)), "broadcast_to(" + x.how + ").copy"},
       0);
  return true;
}

bool Program::reshape() {
  const Pair x = any();
  Sizes out;
  std::int64_t left = x.plain.count();
  if (left == 0) return false;
  for (const std::int64_t factor : {2, 3, 5, 7, 17})
    while (left % factor == 0 && out.size() < 5) {
      left /= factor;
      if (chance(50) || out.empty()) out.push_back(factor);
      else out.back() *= factor;
    }
  if (left != 1 || out.empty()) out.push_back(left);
  std::shuffle(out.begin(), out.end(), random_);
  // whether it is a view depends on strides, so both sides are copied
  Plain result = copied(x.plain);
  result.sizes = out;
  keep({cs::reshape(x.tensor, request(out)).copy(), std::move(result), "reshape(" + x.how + ", " + text_of(out) + ")"},
       0);
  return true;
}

bool Program::join() {
  const Pair a = any();
  if (a.plain.rank() == 0 || a.plain.count() * 3 > kMostElements) return false;
  std::vector<Pair> parts = {a};
  const int axis = below(a.plain.rank());
  for (int i = 0; i < 6 && parts.size() < 3; ++i) {
    const Pair b = any();
    Sizes other = b.plain.sizes;
    if (b.plain.rank() != a.plain.rank() || !mixes(a.plain.dtype, b.plain.dtype)) continue;
    other[at(axis)] = a.plain.sizes[at(axis)];
    if (other == a.plain.sizes) parts.push_back(b);
  }
  DType type = a.plain.dtype;
  Sizes out = a.plain.sizes;
  out[at(axis)] = 0;
  std::vector<Tensor> tensors;
  std::string how = "concat(";
  for (const Pair& part : parts) {
    if (!mixes(type, part.plain.dtype)) return false;
    type = promoted(type, part.plain.dtype);
    out[at(axis)] += part.plain.sizes[at(axis)];
    tensors.push_back(part.tensor);
    how += part.how + ", ";
  }
  Plain result = Plain::fresh(type, out);
  std::int64_t offset = 0;
  for (const Pair& part : parts) {
    for_each_index(part.plain.sizes, [&](const Sizes& index) {
      Sizes to = index;
      to[at(axis)] += offset;
      result[number_of(to, out)] = part.plain[number_of(index, part.plain.sizes)];
    });
    offset += part.plain.sizes[at(axis)];
  }
  keep({cs::concat(tensors, axis), std::move(result), how + std::to_string(axis) + ")"}, 0);
  return true;
}

bool Program::rearrange() {
  const Pair x = any();
  const Plain& p = x.plain;
  if (p.rank() == 0 || p.count() * 3 > kMostElements) return false;
  const int axis = below(p.rank()), kind = below(4);
  const std::int64_t size = p.sizes[at(axis)], n = 1 + below(3);
  Sizes out = p.sizes;
  std::function<std::int64_t(std::int64_t)> from;
  Tensor tensor;
  std::string name;
  if (kind == 0) {
    from = [=](std::int64_t i) { return size - 1 - i; };
    tensor = cs::flip(x.tensor, axis);
    name = "flip";
  } else if (kind == 1) {
    from = [=](std::int64_t i) { return ((i - n) % size + size) % size; };
    tensor = cs::roll(x.tensor, n, axis);
    name = "roll";
  } else if (kind == 2) {
    out[at(axis)] = size * n;
    from = [=](std::int64_t i) { return i / n; };
    tensor = cs::repeat(x.tensor, n, axis);
    name = "repeat";
  } else {
    std::vector<std::int64_t> times(at(p.rank()), 1);
    times[at(axis)] = n;
    out[at(axis)] = size * n;
    from = [=](std::int64_t i) { return i % size; };
    tensor = cs::tile(x.tensor, times);
    name = "tile";
  }
  Plain result = copied(p.view(out, [&](const Sizes& index) {
    Sizes source = index;
    source[at(axis)] = from(index[at(axis)]);
    return number_of(source, p.sizes);
  }));
  keep({tensor.copy(), std::move(result),
        name + "(" + x.how + ", " + std::to_string(n) + ", " + std::to_string(axis) + ")"},
       0);
  return true;
}

bool Program::look_up() {
  const Pair x = any();
  const Plain& p = x.plain;
  if (p.rank() == 0) return false;
  const int axis = below(p.rank());
  const std::int64_t size = p.sizes[at(axis)];
  if (chance(50)) {  // rows by a list of numbers
    if (size == 0) return false;
    const int count = below(6);
    std::vector<std::int64_t> rows;
    for (int i = 0; i < count; ++i) rows.push_back(below(static_cast<int>(size)) - (chance(30) ? size : 0));
    Sizes out = p.sizes;
    out[at(axis)] = count;
    Plain result = copied(p.view(out, [&](const Sizes& index) {
      Sizes from = index;
      const std::int64_t row = rows[at(static_cast<int>(index[at(axis)]))];
      from[at(axis)] = row < 0 ? row + size : row;
      return number_of(from, p.sizes);
    }));
    const Tensor list = cs::from_vector(rows);
    keep({cs::gather(x.tensor, list, axis), std::move(result), "gather(" + x.how + ", " + std::to_string(axis) + ")"},
         0);
    return true;
  }
  Plain mask = Plain::fresh(DType::bool8, p.sizes);  // all elements that a mask of x's shape selects
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < p.count(); ++i)
    if ((mask[i] = chance(40)) != 0) chosen.push_back(i);
  const Tensor tensor_mask =
      cs::cast(cs::from_vector(*mask.storage, cs::Shape(std::span<const std::int64_t>(p.sizes))), DType::bool8);
  Plain result = copied(p.view({static_cast<std::int64_t>(chosen.size())},
                               [&](const Sizes& index) { return chosen[at(static_cast<int>(index[0]))]; }));
  keep({x.tensor.index({tensor_mask}), std::move(result), "index(" + x.how + ", mask)"}, 0);
  return true;
}

bool Program::write() {
  Pair& x = any_mutable();
  Plain& p = x.plain;
  const double v = value(p.dtype);
  const cs::Scalar number = p.dtype == DType::bool8 ? cs::Scalar(v != 0)
                            : floating(p.dtype)     ? cs::Scalar(v)
                                                    : cs::Scalar(static_cast<std::int64_t>(v));
  const int kind = below(4);
  history_.push_back("write " + std::to_string(kind) + " to " + x.how);
  if (kind == 0) {
    x.tensor.fill(number);
    for (std::int64_t i = 0; i < p.count(); ++i) p[i] = v;
  } else if (kind == 1) {
    if (p.rank() == 0 || p.sizes[0] == 0) return false;
    const int row = below(static_cast<int>(p.sizes[0]));
    x.tensor.index_put({row}, number);
    const std::int64_t width = p.count() / p.sizes[0];
    for (std::int64_t i = 0; i < width; ++i) p[row * width + i] = v;
  } else if (kind == 2) {
    const Pair other = any();
    Sizes out;
    if (!mixes(p.dtype, other.plain.dtype) || !broadcast(p.sizes, other.plain.sizes, out) || out != p.sizes ||
        p.storage == other.plain.storage || p.dtype != other.plain.dtype)
      return false;
    x.tensor.assign(other.tensor);
    const Plain source = stretched(other.plain, p.sizes);
    for (std::int64_t i = 0; i < p.count(); ++i) p[i] = source[i];
  } else {
    if (p.dtype == DType::bool8) return false;
    for (std::int64_t i = 0; i < p.count(); ++i)
      if (p.dtype == DType::int64 && std::abs(p[i]) > 1e9) return false;
    x.tensor += cs::scalar(number, {p.dtype});
    for (std::int64_t i = 0; i < p.count(); ++i) p[i] = as_type(p[i] + v, p.dtype);
  }
  for (const Pair& pair : pairs_)
    agree({pair.tensor, pair.plain, pair.how + " after a write to " + x.how}, 1);  // views see it too
  return true;
}

}  // namespace fuzz
