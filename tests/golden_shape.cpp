// New shapes, joining, cutting and indexing against PyTorch.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

std::vector<int> order_without(const Tensor& x, int axis) {
  std::vector<int> order(static_cast<std::size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + axis);
  return order;
}
int from_front(int axis, int rank) { return axis < 0 ? axis + rank : axis; }

Tensor moved_axis(const Tensor& x, int source, int destination) {
  std::vector<int> order = order_without(x, from_front(source, x.rank()));
  order.insert(order.begin() + from_front(destination, x.rank()), from_front(source, x.rank()));
  return permute(x, order);
}

/// An index that takes every axis whole, but for one.
std::vector<Index> whole_but(const Tensor& x, int axis, Index index) {
  std::vector<Index> indices(static_cast<std::size_t>(x.rank()), Index(all));
  indices[static_cast<std::size_t>(from_front(axis, x.rank()))] = index;
  return indices;
}
Tensor flipped(const Tensor& x, int axis) { return x.index(whole_but(x, axis, from(-1, -1))); }

Tensor rolled(const Tensor& x, std::int64_t shift, int axis) {
  const std::int64_t size = x.size(axis), tail = (shift % size + size) % size;
  return concat({narrow(x, axis, size - tail, tail), narrow(x, axis, 0, size - tail)}, axis);
}

/// NumPy's tile: one more leading axis for every further count.
Tensor tiled(Tensor x, const std::vector<std::int64_t>& counts) {
  while (x.rank() < static_cast<int>(counts.size())) x = expand_dims(x, 0);
  for (int axis = 0; axis < static_cast<int>(counts.size()); ++axis)
    x = concat(Tensors(static_cast<std::size_t>(counts[static_cast<std::size_t>(axis)]), x), axis);
  return x;
}

/// torch.gather on a matrix: along axis 1 out[i, j] = x[i, indices[i, j]], along axis 0 out[i, j] = x[indices[i, j], j].
Tensor gathered(const Tensor& x, int axis, const Tensor& indices) {
  if (from_front(axis, 2) == 0) return transpose(gathered(transpose(x), 1, transpose(indices)));
  const std::int64_t rows = indices.size(0), columns = indices.size(1);
  return pick(broadcast_to(expand_dims(narrow(x, 0, 0, rows), 1), {rows, columns, x.size(1)}), indices);
}

Tensors split_by(const GoldenCall& c) {
  const Tensor& x = c.tensor(0);
  std::vector<std::int64_t> sizes;
  if (c.arg(1).is_array()) {
    sizes = c.arg(1).get<std::vector<std::int64_t>>();
  } else {
    const auto step = c.arg(1).get<std::int64_t>();
    for (std::int64_t begin = 0; begin < x.size(0); begin += step) sizes.push_back(std::min(step, x.size(0) - begin));
  }
  return split_sizes(x, sizes);
}

Tensors chunked(const GoldenCall& c) {
  const Tensor& x = c.tensor(0);
  const auto count = c.arg(1).get<std::int64_t>();
  const std::int64_t step = (x.size(0) + count - 1) / count;
  Tensors parts;
  for (std::int64_t begin = 0; begin < x.size(0); begin += step)
    parts.push_back(narrow(x, 0, begin, std::min(step, x.size(0) - begin)));
  return parts;
}

Tensors roll(const GoldenCall& c) {
  if (c.arg(1).is_number()) return {rolled(c.tensor(0), c.arg(1).get<std::int64_t>(), c.arg(2).get<int>())};
  Tensor x = c.tensor(0);
  for (std::size_t i = 0; i < c.arg(1).size(); ++i)
    x = rolled(x, c.arg(1).at(i).get<std::int64_t>(), c.arg(2).at(i).get<int>());
  return {x};
}

std::int64_t or_open(const Json& bound) { return bound.is_null() ? Range::kOpen : bound.get<std::int64_t>(); }

/// x[...]: basic indices as they are, index tensors by gather where there is one, or two side by side at the front.
Tensors get_item(const GoldenCall& c) {
  const Tensor& x = c.tensor(0);
  std::vector<Index> indices;
  std::vector<std::pair<int, std::size_t>> chosen;  // axis, argument
  for (std::size_t i = 1; i < c.count(); ++i) {
    const Json& entry = c.arg(i);
    if (c.is_tensor(i)) {
      chosen.emplace_back(static_cast<int>(i) - 1, i);
      indices.emplace_back(all);
    } else if (entry.is_null()) {
      indices.emplace_back(newaxis);
    } else if (entry.is_number()) {
      indices.emplace_back(entry.get<std::int64_t>());
    } else if (entry.contains("ellipsis")) {
      indices.emplace_back(ellipsis);
    } else {
      const Json& s = entry.at("slice");
      indices.emplace_back(
          Range{or_open(s.at(0)), or_open(s.at(1)), s.at(2).is_null() ? 1 : s.at(2).get<std::int64_t>()});
    }
  }
  if (chosen.empty()) return {x.index(indices)};
  if (chosen.size() == 1) return {gather(x.index(indices), c.tensor(chosen[0].second), chosen[0].first)};
  if (chosen.size() > 2 || chosen[0].first != 0 || chosen[1].first != 1 || c.count() != 3) return {};
  const Tensor rows = flatten(x, 0, 1);
  return {gather(rows, c.tensor(1) * x.size(1) + c.tensor(2))};
}

const GoldenOps shape_ops = {
    {"reshape",
     [](const GoldenCall& c) { return Tensors{reshape(c.tensor(0), shape_of(c.arg(1), c.tensor(0).numel()))}; }},
    {"permute", [](const GoldenCall& c) { return Tensors{permute(c.tensor(0), c.arg(1).get<std::vector<int>>())}; }},
    {"transpose",
     [](const GoldenCall& c) { return Tensors{transpose(c.tensor(0), c.arg(1).get<int>(), c.arg(2).get<int>())}; }},
    {"squeeze", [](const GoldenCall& c) { return Tensors{squeeze(c.tensor(0))}; }},
    {"unsqueeze", [](const GoldenCall& c) { return Tensors{expand_dims(c.tensor(0), c.arg(1).get<int>())}; }},
    {"flatten", [](const GoldenCall& c) { return Tensors{flatten(c.tensor(0), c.option("start_dim", 0))}; }},
    {"cat", [](const GoldenCall& c) { return Tensors{concat(c.tensors(1), c.arg(0).get<int>())}; }},
    {"stack", [](const GoldenCall& c) { return Tensors{stack(c.tensors(1), c.arg(0).get<int>())}; }},
    {"split", split_by},
    {"chunk", chunked},
    {"unbind", [](const GoldenCall& c) { return unstack(c.tensor(0)); }},
    {"expand",
     [](const GoldenCall& c) { return Tensors{broadcast_to(c.tensor(0), shape_of(c.arg(1), c.tensor(0).numel()))}; }},
    {"repeat",
     [](const GoldenCall& c) { return Tensors{tiled(c.tensor(0), c.arg(1).get<std::vector<std::int64_t>>())}; }},
    {"tile",
     [](const GoldenCall& c) { return Tensors{tiled(c.tensor(0), c.arg(1).get<std::vector<std::int64_t>>())}; }},
    {"flip",
     [](const GoldenCall& c) {
       Tensor x = c.tensor(0);
       for (const auto& axis : c.arg(1)) x = flipped(x, axis.get<int>());
       return Tensors{x};
     }},
    {"roll", roll},
    {"rot90", [](const GoldenCall& c) { return Tensors{flipped(transpose(c.tensor(0)), 0)}; }},
    {"repeat_interleave",
     [](const GoldenCall& c) {
       const auto times = c.arg(1).get<std::int64_t>();
       const int axis = c.option("dim", 0);
       std::vector<std::int64_t> rows;
       for (std::int64_t i = 0; i < c.tensor(0).size(axis) * times; ++i) rows.push_back(i / times);
       return Tensors{gather(c.tensor(0), from_vector(rows), axis)};
     }},
    {"narrow",
     [](const GoldenCall& c) {
       return Tensors{
           narrow(c.tensor(0), c.arg(1).get<int>(), c.arg(2).get<std::int64_t>(), c.arg(3).get<std::int64_t>())};
     }},
    {"movedim",
     [](const GoldenCall& c) { return Tensors{moved_axis(c.tensor(0), c.arg(1).get<int>(), c.arg(2).get<int>())}; }},
    {"diff",
     [](const GoldenCall& c) {
       const Tensor& x = c.tensor(0);
       const int axis = c.option("dim", -1);
       return Tensors{narrow(x, axis, 1, x.size(axis) - 1) - narrow(x, axis, 0, x.size(axis) - 1)};
     }},
    {"clamp",
     [](const GoldenCall& c) { return Tensors{clip(c.tensor(0), c.option("min", 0.0), c.option("max", 0.0))}; }},
    {"lerp",
     [](const GoldenCall& c) { return Tensors{c.tensor(0) + (c.tensor(1) - c.tensor(0)) * c.arg(2).get<double>()}; }},
    {"addcmul",
     [](const GoldenCall& c) { return Tensors{c.tensor(0) + c.tensor(1) * c.tensor(2) * c.option("value", 1.0)}; }},
    {"addcdiv",
     [](const GoldenCall& c) { return Tensors{c.tensor(0) + c.tensor(1) / c.tensor(2) * c.option("value", 1.0)}; }},
    {"cdist",
     [](const GoldenCall& c) { return Tensors{sqrt(sum(square(expand_dims(c.tensor(0), 1) - c.tensor(1)), -1))}; }},
};

const GoldenOps index_ops = {
    {"index_select",
     [](const GoldenCall& c) { return Tensors{gather(c.tensor(0), c.tensor(2), c.arg(1).get<int>())}; }},
    {"take_along_dim",
     [](const GoldenCall& c) { return Tensors{gathered(c.tensor(0), c.option("dim", 0), c.tensor(1))}; }},
    {"gather", [](const GoldenCall& c) { return Tensors{gathered(c.tensor(0), c.arg(1).get<int>(), c.tensor(2))}; }},
    {"embedding",
     [](const GoldenCall& c) {
       const Tensor& words = c.tensor(0);
       const Tensor rows = gather(c.tensor(1), words);
       if (!c.has("padding_idx")) return Tensors{rows};
       const Tensor padding = expand_dims(equal(words, c.option<std::int64_t>("padding_idx", 0)), -1);
       return Tensors{where(padding, stop_gradient(rows), rows)};  // torch gives the padding row no gradient
     }},
    {"getitem", get_item},
    {"masked_fill",
     [](const GoldenCall& c) { return Tensors{where(c.tensor(1), c.arg(2).get<double>(), c.tensor(0))}; }},
    {"where", [](const GoldenCall& c) { return Tensors{where(c.tensor(0), c.tensor(1), c.tensor(2))}; }},
    {"one_hot",
     [](const GoldenCall& c) {
       return Tensors{one_hot(c.tensor(0), c.arg(1).get<std::int64_t>(), 1, 0, DType::int64)};
     }},
};

}  // namespace

TEST_CASE("shaping operations give PyTorch's values and gradients", "[golden]") {
  run_goldens("shaping", {"shape"}, shape_ops);
}

TEST_CASE("choosing elements gives PyTorch's values and gradients", "[golden]") {
  run_goldens("indexing", {"index_select", "embedding", "gather", "index", "one_hot"}, index_ops);
}
