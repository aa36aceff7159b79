// Uses of sorting, choosing by rank and running totals whose gradients are checked. What is linear is squared, so that
// a second gradient has something to find. Elements lie further apart than the steps of the differences.
#include <utility>

#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Use {
  const char* op;
  const char* usage;
  Tensor (*function)(const Tensor&);
};

// Each takes x [2, 3, 4].
const Use choosing_rows[] = {
    {"sort", "the last axis", [](const Tensor& x) { return square(sort(x)) * sort(x); }},
    {"sort", "downwards, the first axis", [](const Tensor& x) { return square(sort(x, 0, {.descending = true})); }},
    {"sort", "a transposed tensor", [](const Tensor& x) { return square(sort(transpose(x), 1)); }},
    {"sort", "a stretched tensor",
     [](const Tensor& x) {
       return square(sort(broadcast_to(narrow(x, 1, 0, 1), {2, 3, 4}), -1));
     }},
    {"sort", "no elements", [](const Tensor& x) { return square(sort(narrow(x, 1, 0, 0), 2)); }},
    {"sort_with_indices", "the middle axis", [](const Tensor& x) { return square(sort_with_indices(x, 1).values); }},
    {"topk", "two of the last axis", [](const Tensor& x) { return square(topk(x, 2).values); }},
    {"topk", "the smallest of the first axis",
     [](const Tensor& x) { return square(topk(x, 1, 0, {.largest = false}).values); }},
    {"topk", "all of them", [](const Tensor& x) { return square(topk(x, 3, 1).values); }},
    {"topk", "none of them", [](const Tensor& x) { return square(topk(x, 0, 1).values); }},
    {"kthvalue", "the second", [](const Tensor& x) { return square(kthvalue(x, 2).values); }},
    {"kthvalue", "the first, kept",
     [](const Tensor& x) { return square(kthvalue(x, 1, 1, {.keepdims = true}).values); }},
    {"median", "all elements, an even number", [](const Tensor& x) { return square(median(x)); }},
    {"median", "an odd number", [](const Tensor& x) { return square(median(x, 1)); }},
    {"median", "two axes, kept",
     [](const Tensor& x) {
       return square(median(x, {0, -1}, {.keepdims = true}));
     }},
    {"quantile", "between two neighbours", [](const Tensor& x) { return square(quantile(x, 0.3, 2)); }},
    {"quantile", "the lower one",
     [](const Tensor& x) { return square(quantile(x, 0.3, 0, {.method = QuantileMethod::lower})); }},
    {"quantile", "several",
     [](const Tensor& x) {
       return square(quantile(x, {0.1, 0.5, 1.0}, {1, 2}));
     }},
    {"quantile", "several, their midpoints",
     [](const Tensor& x) {
       return square(quantile(x, {0.0, 0.4}, -1, {.method = QuantileMethod::midpoint, .keepdims = true}));
     }},
    {"cummax", "the last axis", [](const Tensor& x) { return square(cummax(x, -1).values); }},
    {"cummin", "the first axis", [](const Tensor& x) { return square(cummin(x, 0).values); }},
    {"cummin", "no elements", [](const Tensor& x) { return square(cummin(narrow(x, 0, 0, 0), 0).values); }},
    {"diff", "once", [](const Tensor& x) { return square(diff(x)); }},
    {"diff", "twice, the middle axis", [](const Tensor& x) { return square(diff(x, 2, 1)); }},
    {"diff", "until nothing is left", [](const Tensor& x) { return square(diff(x, 5, 0)); }},
};

struct Running {
  const char* op;
  Tensor (*function)(const Tensor&, int axis, CumulativeOptions);
};
const Running running_rows[] = {
    {"cumsum", [](const Tensor& x, int axis, CumulativeOptions o) { return square(cumsum(x, axis, o)); }},
    {"cumprod", [](const Tensor& x, int axis, CumulativeOptions o) { return cumprod(x, axis, o); }},
    {"logcumsumexp",
     [](const Tensor& x, int axis, CumulativeOptions o) {
       // the first of an exclusive one is -inf, of which there is no square
       const Tensor y = logcumsumexp(x, axis, o);
       return square(o.exclusive ? narrow(y, axis, o.reverse ? 0 : 1, y.size(axis) - 1) : y);
     }},
};

void add_running(std::vector<GradientCase>& cases, const Running& row) {
  const Tensor x = random_in(0.5, 1.5, {2, 3, 4}, DType::float64, 231);
  for (const int axis : {0, 1, -1})
    for (const bool exclusive : {false, true})
      for (const bool reverse : {false, true})
        cases.push_back({row.op,
                         "axis " + std::to_string(axis) + (exclusive ? ", exclusive" : "") + (reverse ? ", back" : ""),
                         [f = row.function, axis, exclusive, reverse](const Tensors& in) {
                           return f(in[0], axis, {.exclusive = exclusive, .reverse = reverse});
                         },
                         {x}});
  const auto plain = [f = row.function](const Tensors& in) { return f(in[0], 0, {}); };
  cases.push_back({row.op, "one element", plain, {Tensor{0.7}}});
  cases.push_back({row.op, "no rows", plain, {zeros({0, 3}, {.dtype = DType::float64})}});
  cases.push_back({row.op, "no columns", plain, {zeros({3, 0}, {.dtype = DType::float64})}});
  cases.push_back({row.op,
                   "a transposed tensor",
                   [f = row.function](const Tensors& in) { return f(transpose(in[0]), 1, {}); },
                   {x}});
  cases.push_back({row.op,
                   "a stretched tensor",
                   [f = row.function](const Tensors& in) {
                     return f(broadcast_to(narrow(in[0], 1, 0, 1), {2, 3, 4}), 1, {});
                   },
                   {x}});
}

}  // namespace

std::vector<GradientCase> order_gradient_cases() {
  std::vector<GradientCase> cases;
  for (const Use& row : choosing_rows)
    cases.push_back(
        {row.op, row.usage, [f = row.function](const Tensors& in) { return f(in[0]); }, {spaced({2, 3, 4}, 232)}});
  for (const Running& row : running_rows) add_running(cases, row);

  // where elements are zero a quotient would not do: one, two, all of a row, and in front
  const Tensor zeros_among = {{1.5, 0.0, -2.0, 0.7}, {0.0, 1.2, 0.0, 0.5}, {0.0, 0.0, 0.0, 0.0}, {-0.8, 1.1, 0.9, 0.0}};
  for (const bool exclusive : {false, true})
    for (const bool reverse : {false, true})
      cases.push_back(
          {"cumprod",
           std::string("zeros among the elements") + (exclusive ? ", exclusive" : "") + (reverse ? ", back" : ""),
           [exclusive, reverse](const Tensors& in) {
             return cumprod(in[0], 1, {.exclusive = exclusive, .reverse = reverse});
           },
           {zeros_among}});
  return cases;
}

}  // namespace tests
