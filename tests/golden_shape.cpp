// New shapes, joining and cutting against PyTorch.
#include <algorithm>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

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

Tensors rolled(const GoldenCall& c) {
  if (c.arg(1).is_number()) return {roll(c.tensor(0), c.arg(1).get<std::int64_t>(), c.arg(2).get<int>())};
  return {roll(c.tensor(0), c.arg(1).get<std::vector<std::int64_t>>(), c.arg(2).get<std::vector<int>>())};
}

/// torch lists paddings from the last axis on, and lets negative ones cut off.
Tensors padded(const GoldenCall& c) {
  const std::map<std::string, PadMode> modes = {{"constant", PadMode::constant},
                                                {"reflect", PadMode::reflect},
                                                {"replicate", PadMode::edge},
                                                {"circular", PadMode::wrap}};
  Tensor x = c.tensor(0);
  const auto list = c.arg(1).get<std::vector<std::int64_t>>();
  std::vector<Padding> padding(static_cast<std::size_t>(x.rank()));
  for (std::size_t i = 0; 2 * i < list.size(); ++i) {
    const std::int64_t before = list[2 * i], after = list[2 * i + 1];
    const int axis = x.rank() - 1 - static_cast<int>(i);
    if (before < 0) x = narrow(x, axis, -before, x.size(axis) + before);
    if (after < 0) x = narrow(x, axis, 0, x.size(axis) + after);
    padding[static_cast<std::size_t>(axis)] = {std::max<std::int64_t>(before, 0), std::max<std::int64_t>(after, 0)};
  }
  return {pad(x, padding, modes.at(c.option<std::string>("mode", "constant")), c.option("value", 0.0))};
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
     [](const GoldenCall& c) { return Tensors{tile(c.tensor(0), c.arg(1).get<std::vector<std::int64_t>>())}; }},
    {"tile", [](const GoldenCall& c) { return Tensors{tile(c.tensor(0), c.arg(1).get<std::vector<std::int64_t>>())}; }},
    {"flip", [](const GoldenCall& c) { return Tensors{flip(c.tensor(0), axes_of(c.arg(1)))}; }},
    {"roll", rolled},
    {"rot90", [](const GoldenCall& c) { return Tensors{flip(transpose(c.tensor(0)), 0)}; }},
    {"repeat_interleave",
     [](const GoldenCall& c) {
       return Tensors{repeat(c.tensor(0), c.arg(1).get<std::int64_t>(), c.option("dim", 0))};
     }},
    {"narrow",
     [](const GoldenCall& c) {
       return Tensors{
           narrow(c.tensor(0), c.arg(1).get<int>(), c.arg(2).get<std::int64_t>(), c.arg(3).get<std::int64_t>())};
     }},
    {"movedim",
     [](const GoldenCall& c) { return Tensors{move_axis(c.tensor(0), c.arg(1).get<int>(), c.arg(2).get<int>())}; }},
    {"diff", [](const GoldenCall& c) { return Tensors{diff(c.tensor(0), 1, c.option("dim", -1))}; }},
    {"tril", [](const GoldenCall& c) { return Tensors{tril(c.tensor(0), c.option<std::int64_t>("diagonal", 0))}; }},
    {"triu", [](const GoldenCall& c) { return Tensors{triu(c.tensor(0), c.option<std::int64_t>("diagonal", 0))}; }},
    {"diag", [](const GoldenCall& c) { return Tensors{diag(c.tensor(0), c.option<std::int64_t>("diagonal", 0))}; }},
    {"diagonal",
     [](const GoldenCall& c) { return Tensors{diagonal(c.tensor(0), c.option<std::int64_t>("offset", 0))}; }},
    {"trace", [](const GoldenCall& c) { return Tensors{trace(c.tensor(0))}; }},
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

}  // namespace

TEST_CASE("shaping operations give PyTorch's values and gradients", "[golden]") {
  run_goldens("shaping", {"shape"}, shape_ops);
}

TEST_CASE("padding gives PyTorch's values and gradients", "[golden]") {
  run_goldens("padding", {"pad"}, {{"pad", padded}});
}
