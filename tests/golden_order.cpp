// Sorting, choosing by rank and running totals against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

template <class Result>
Tensors both(const Result& result) {
  return {result.values, result.indices};
}
SortOptions sort_options(const GoldenCall& c) { return {.descending = c.option("descending", false)}; }
int axis_of(const GoldenCall& c) { return c.option("dim", -1); }

const GoldenOps order_ops = {
    {"sort", [](const GoldenCall& c) { return both(sort_with_indices(c.tensor(0), axis_of(c), sort_options(c))); }},
    {"argsort", [](const GoldenCall& c) { return Tensors{argsort(c.tensor(0), axis_of(c), sort_options(c))}; }},
    {"topk",
     [](const GoldenCall& c) {
       const TopkOptions options{.largest = c.option("largest", true), .sorted = c.option("sorted", true)};
       return both(topk(c.tensor(0), c.arg(1).get<std::int64_t>(), axis_of(c), options));
     }},
    {"kthvalue",
     [](const GoldenCall& c) {
       const ReduceOptions options{.keepdims = c.option("keepdim", false)};
       return both(kthvalue(c.tensor(0), c.arg(1).get<std::int64_t>(), axis_of(c), options));
     }},
    {"median_dim",  // PyTorch's median is the lower of the two in the middle
     [](const GoldenCall& c) {
       const ReduceOptions options{.keepdims = c.option("keepdim", false)};
       return both(kthvalue(c.tensor(0), (c.tensor(0).size(axis_of(c)) + 1) / 2, axis_of(c), options));
     }},
    {"median",
     [](const GoldenCall& c) { return Tensors{quantile(c.tensor(0), 0.5, {}, {.method = QuantileMethod::lower})}; }},
    {"argmin",
     [](const GoldenCall& c) {
       if (!c.has("dim")) return Tensors{argmin(c.tensor(0))};
       return Tensors{argmin(c.tensor(0), axis_of(c), {.keepdims = c.option("keepdim", false)})};
     }},
};

const GoldenOps cumulative_ops = {
    {"cumsum", [](const GoldenCall& c) { return Tensors{cumsum(c.tensor(0), axis_of(c))}; }},
    {"cumprod", [](const GoldenCall& c) { return Tensors{cumprod(c.tensor(0), axis_of(c))}; }},
    {"logcumsumexp", [](const GoldenCall& c) { return Tensors{logcumsumexp(c.tensor(0), axis_of(c))}; }},
    {"cummax", [](const GoldenCall& c) { return both(cummax(c.tensor(0), axis_of(c))); }},
    {"cummin", [](const GoldenCall& c) { return both(cummin(c.tensor(0), axis_of(c))); }},
};

}  // namespace

TEST_CASE("sorting and choosing by rank give PyTorch's values and gradients", "[golden]") {
  run_goldens("order", {"sort", "topk", "median", "argmin"}, order_ops);
}

TEST_CASE("running totals give PyTorch's values and gradients", "[golden]") {
  run_goldens("running totals", {"cumsum", "cumprod", "logcumsumexp", "cummax"}, cumulative_ops);
}
