// Choosing elements, and writing to chosen ones, against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// torch.gather lets indices be smaller than the tensor, and then reads from its first rows.
Tensor gathered(const Tensor& x, int axis, const Tensor& indices) {
  const int along = axis < 0 ? axis + x.rank() : axis;
  Tensor part = x;
  for (int i = 0; i < x.rank(); ++i)
    if (i != along) part = narrow(part, i, 0, indices.size(i));
  return take_along_axis(part, indices, axis);
}

std::int64_t or_open(const Json& bound) { return bound.is_null() ? Range::kOpen : bound.get<std::int64_t>(); }

Index entry_of(const GoldenCall& c, std::size_t i) {
  const Json& entry = c.arg(i);
  if (c.is_tensor(i)) return c.tensor(i);
  if (entry.is_null()) return newaxis;
  if (entry.is_number()) return entry.get<std::int64_t>();
  if (entry.contains("ellipsis")) return ellipsis;
  const Json& s = entry.at("slice");
  return Range{or_open(s.at(0)), or_open(s.at(1)), s.at(2).is_null() ? 1 : s.at(2).get<std::int64_t>()};
}

/// x[...]
Tensors get_item(const GoldenCall& c) {
  std::vector<Index> indices;
  for (std::size_t i = 1; i < c.count(); ++i) indices.push_back(entry_of(c, i));
  return {c.tensor(0).index(indices)};
}

/// x[:, ..., indices] with the axis' place taken by the indices.
std::vector<Index> along(const GoldenCall& c) {
  std::vector<Index> list(static_cast<std::size_t>(c.arg(1).get<int>()), Index(all));
  list.push_back(c.tensor(2));
  return list;
}

std::optional<std::int64_t> padding_of(const GoldenCall& c) {
  if (!c.has("padding_idx") || c.option("padding_idx").is_null()) return {};
  return c.option("padding_idx").get<std::int64_t>();
}

Tensors embeddings(const GoldenCall& c) {
  return {embedding(c.tensor(0), c.tensor(1),
                    {.padding_index = padding_of(c), .scale_by_frequency = c.option("scale_grad_by_freq", false)})};
}

Tensors bags(const GoldenCall& c) {
  const std::map<std::string, BagMode> modes = {{"sum", BagMode::sum}, {"mean", BagMode::mean}, {"max", BagMode::max}};
  EmbeddingBagOptions options;
  if (c.is_tensor(2)) options.offsets = c.tensor(2);
  options.mode = modes.at(c.count() > 3 ? c.arg(3).get<std::string>() : c.option<std::string>("mode", "mean"));
  options.padding_index = padding_of(c);
  options.include_last_offset = c.option("include_last_offset", false);
  if (c.has("per_sample_weights")) options.weights = c.tensor_option("per_sample_weights");
  return {embedding_bag(c.tensor(0), c.tensor(1), options)};
}

/// There is no scatter_mul: each row takes the product of its updates, with 1 in the place of those of others.
Tensor scattered_product(const Tensor& x, const Tensor& indices, const Tensor& updates, bool with_self) {
  const Tensor own = equal(expand_dims(indices, 0), reshape(arange(x.size(0)), {-1, 1, 1}));
  const Tensor product = prod(where(own, expand_dims(updates, 0), 1), 1);
  return with_self ? x * product : where(any_of(own, 1), product, x);
}

/// What is there does not count with include_self = false: it is replaced by what changes nothing first.
Tensors scatter_reduce(const GoldenCall& c) {
  const int axis = c.arg(1).get<int>();
  const Tensor &indices = c.tensor(2), &updates = c.tensor(3);
  const auto kind = c.option<std::string>("reduce", "");
  const bool self = c.option("include_self", true);
  const auto start = [&](const Tensor& x, double nothing) { return self ? x : scatter(x, indices, nothing, axis); };
  const Tensor& x = c.tensor(0);
  if (kind == "sum") return {scatter_add(start(x, 0), indices, updates, axis)};
  if (kind == "amax") return {scatter_max(start(x, -kInfinity), indices, updates, axis)};
  if (kind == "amin") return {scatter_min(start(x, kInfinity), indices, updates, axis)};
  if (kind == "mean")
    return {scatter_add(start(x, 0), indices, updates, axis) / scatter_add(start(ones_like(x), 0), indices, 1.0, axis)};
  if (kind == "prod" && axis == 0 && x.rank() == 2) return {scattered_product(x, indices, updates, self)};
  throw LeftOut{"no scatter of that kind"};
}

const GoldenOps index_ops = {
    {"index_select",
     [](const GoldenCall& c) { return Tensors{gather(c.tensor(0), c.tensor(2), c.arg(1).get<int>())}; }},
    {"index_add", [](const GoldenCall& c) { return Tensors{index_add(c.tensor(0), along(c), c.tensor(3))}; }},
    {"index_copy", [](const GoldenCall& c) { return Tensors{index_set(c.tensor(0), along(c), c.tensor(3))}; }},
    {"take_along_dim",
     [](const GoldenCall& c) { return Tensors{take_along_axis(c.tensor(0), c.tensor(1), c.option("dim", 0))}; }},
    {"gather", [](const GoldenCall& c) { return Tensors{gathered(c.tensor(0), c.arg(1).get<int>(), c.tensor(2))}; }},
    {"embedding", embeddings},
    {"embedding_bag", bags},
    {"getitem", get_item},
    {"masked_select", [](const GoldenCall& c) { return Tensors{masked_select(c.tensor(0), c.tensor(1))}; }},
    {"masked_fill",
     [](const GoldenCall& c) { return Tensors{masked_fill(c.tensor(0), c.tensor(1), c.arg(2).get<double>())}; }},
    {"where", [](const GoldenCall& c) { return Tensors{where(c.tensor(0), c.tensor(1), c.tensor(2))}; }},
    {"one_hot",
     [](const GoldenCall& c) {
       return Tensors{one_hot(c.tensor(0), c.arg(1).get<std::int64_t>(), 1, 0, DType::int64)};
     }},
};

const GoldenOps scatter_ops = {
    {"scatter",
     [](const GoldenCall& c) { return Tensors{scatter(c.tensor(0), c.tensor(2), c.tensor(3), c.arg(1).get<int>())}; }},
    {"scatter_add",
     [](const GoldenCall& c) {
       return Tensors{scatter_add(c.tensor(0), c.tensor(2), c.tensor(3), c.arg(1).get<int>())};
     }},
    {"scatter_reduce", scatter_reduce},
};

}  // namespace

TEST_CASE("choosing elements gives PyTorch's values and gradients", "[golden]") {
  run_goldens("indexing", {"index_select", "embedding", "gather", "index", "one_hot"}, index_ops);
}

TEST_CASE("scattering gives PyTorch's values and gradients", "[golden]") {
  run_goldens("scattering", {"scatter"}, scatter_ops);
}
