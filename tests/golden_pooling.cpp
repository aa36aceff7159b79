// Pooling against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// One number or a list; -1 where torch has None. No sizes if the option is missing.
Sizes sizes_of(const GoldenCall& c, const std::string& key) {
  if (!c.has(key) || c.option(key).is_null()) return {};
  const Json& value = c.option(key);
  if (value.is_number()) return value.get<std::int64_t>();
  std::vector<std::int64_t> list;
  for (const Json& size : value) list.push_back(size.is_null() ? -1 : size.get<std::int64_t>());
  return Sizes(std::span<const std::int64_t>(list));
}

Borders padding_of(const GoldenCall& c) {
  const Sizes sizes = sizes_of(c, "padding");
  switch (sizes.count()) {
    case 0: return 0;
    case 1: return sizes[0];
    case 2: return {sizes[0], sizes[1]};
    default: return {sizes[0], sizes[1], sizes[2]};
  }
}

template <auto pool, auto pool_with_indices>
Tensors max_pool(const GoldenCall& c) {
  const Sizes dilation = sizes_of(c, "dilation");
  const MaxPoolOptions options{.stride = sizes_of(c, "stride"),
                               .padding = padding_of(c),
                               .dilation = dilation.count() == 0 ? Sizes(1) : dilation,
                               .ceil = c.option("ceil_mode", false)};
  if (!c.option("return_indices", false)) return {pool(c.tensor(0), sizes_of(c, "kernel_size"), options, Where())};
  const MaxPoolResult result = pool_with_indices(c.tensor(0), sizes_of(c, "kernel_size"), options, Where());
  return {result.values, result.indices};
}

template <auto pool>
Tensors avg_pool(const GoldenCall& c) {
  const bool divides = c.has("divisor_override") && !c.option("divisor_override").is_null();
  const AvgPoolOptions options{.stride = sizes_of(c, "stride"),
                               .padding = padding_of(c),
                               .ceil = c.option("ceil_mode", false),
                               .count_include_pad = c.option("count_include_pad", true),
                               .divisor_override = divides ? c.option("divisor_override").get<std::int64_t>() : 0};
  return {pool(c.tensor(0), sizes_of(c, "kernel_size"), options, Where())};
}

template <auto pool>
Tensors lp_pool(const GoldenCall& c) {
  const LpPoolOptions options{.stride = sizes_of(c, "stride"), .ceil = c.option("ceil_mode", false)};
  return {pool(c.tensor(0), c.option("norm_type", 2.0), sizes_of(c, "kernel_size"), options, Where())};
}

template <auto pool>
Tensors adaptive_avg_pool(const GoldenCall& c) {
  return {pool(c.tensor(0), sizes_of(c, "output_size"), Where())};
}

template <auto pool, auto pool_with_indices>
Tensors adaptive_max_pool(const GoldenCall& c) {
  if (!c.option("return_indices", false)) return {pool(c.tensor(0), sizes_of(c, "output_size"), Where())};
  const MaxPoolResult result = pool_with_indices(c.tensor(0), sizes_of(c, "output_size"), Where());
  return {result.values, result.indices};
}

const GoldenOps max_ops = {
    {"max_pool1d", max_pool<&max_pool1d, &max_pool1d_with_indices>},
    {"max_pool2d", max_pool<&max_pool2d, &max_pool2d_with_indices>},
    {"max_pool3d", max_pool<&max_pool3d, &max_pool3d_with_indices>},
};
const GoldenOps mean_ops = {
    {"avg_pool1d", avg_pool<&avg_pool1d>}, {"avg_pool2d", avg_pool<&avg_pool2d>}, {"avg_pool3d", avg_pool<&avg_pool3d>},
    {"lp_pool1d", lp_pool<&lp_pool1d>},    {"lp_pool2d", lp_pool<&lp_pool2d>},
};
const GoldenOps adaptive_ops = {
    {"adaptive_avg_pool1d", adaptive_avg_pool<&adaptive_avg_pool1d>},
    {"adaptive_avg_pool2d", adaptive_avg_pool<&adaptive_avg_pool2d>},
    {"adaptive_avg_pool3d", adaptive_avg_pool<&adaptive_avg_pool3d>},
    {"adaptive_max_pool1d", adaptive_max_pool<&adaptive_max_pool1d, &adaptive_max_pool1d_with_indices>},
    {"adaptive_max_pool2d", adaptive_max_pool<&adaptive_max_pool2d, &adaptive_max_pool2d_with_indices>},
    {"adaptive_max_pool3d", adaptive_max_pool<&adaptive_max_pool3d, &adaptive_max_pool3d_with_indices>},
};

}  // namespace

TEST_CASE("max pooling gives PyTorch's values, places and gradients", "[golden]") {
  run_goldens("max pooling", {"max_pool1d", "max_pool2d", "max_pool3d"}, max_ops);
}

TEST_CASE("pooling by means and powers gives PyTorch's values and gradients", "[golden]") {
  run_goldens("average and Lp pooling", {"avg_pool1d", "avg_pool2d", "avg_pool3d", "lp_pool"}, mean_ops);
}

TEST_CASE("pooling to a given size gives PyTorch's values, places and gradients", "[golden]") {
  run_goldens("adaptive pooling", {"adaptive_pool1d", "adaptive_pool2d", "adaptive_pool3d"}, adaptive_ops);
}
