// Sorting, choosing by rank and running totals on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

/// Few different values, so that most are equal to others.
Tensor many_ties(const Shape& shape, std::uint64_t seed) { return (with_ties(shape, seed) + 3) * 4; }
/// NaN, infinities and zeros of both signs among numbers.
Tensor special_order(const Shape& shape, std::uint64_t seed) {
  std::vector<double> list = values(with_specials(shape, seed));
  for (std::size_t i = 0; i < list.size(); i += 5) list[i] = i % 2 == 0 ? 0.0 : -0.0;
  return from_vector(list, shape);
}

Tensors sorted_ways(const Tensor& x, int axis) {
  const SortResult up = sort_with_indices(x, axis), down = sort_with_indices(x, axis, {.descending = true});
  return {up.values, up.indices, down.values, down.indices};
}

void add_sorting(AgreementCases& cases) {
  struct Sorting {
    Shape shape;
    int axis;
  };
  for (const auto& [shape, axis] :
       {Sorting{{7}, 0}, Sorting{{1}, 0}, Sorting{{5, 33}, 1}, Sorting{{33, 5}, 0}, Sorting{{3, 20, 4}, 1},
        Sorting{{0, 3}, 1}, Sorting{{3, 0}, 1}, Sorting{{2, 2048}, 1}, Sorting{{2, 2500}, 1}, Sorting{{2100, 3}, 0}})
    cases.push_back({"sort of " + to_string(shape) + " along " + std::to_string(axis),
                     {"sort", "scatter"},
                     {many_ties(shape, 1)},
                     [along = axis](const Tensors& in) { return sorted_ways(in[0], along); },
                     Nearness::exact,
                     shape.numel() > 1000 ? Types::wide : Types::every});
  cases.push_back({"sort of values that are not finite",
                   {"sort"},
                   {special_order({4, 40}, 2), special_order({2300}, 3)},
                   [](const Tensors& in) {
                     Tensors results = sorted_ways(in[0], 1);
                     for (const Tensor& y : sorted_ways(in[0], 0)) results.push_back(y);
                     for (const Tensor& y : sorted_ways(in[1], 0)) results.push_back(y);
                     return results;
                   },
                   Nearness::exact});
  cases.push_back({"sort of views",
                   {"sort"},
                   {noise({20, 33}, 4) * 50},
                   [](const Tensors& in) {
                     const Tensor& x = in[0];
                     return Tensors{sort(transpose(x)), argsort(flip(x), 0), sort(x.index({all, from(0, 2)}), 0),
                                    argsort(broadcast_to(x[0], {3, 33}), -1, {.descending = true}),
                                    sort(narrow(x, 1, 1, 30))};
                   },
                   Nearness::exact,
                   Types::every});
}

Tensors topk_ways(const Tensor& x, std::int64_t k, int axis) {
  const TopkResult most = topk(x, k, axis), least = topk(x, k, axis, {.largest = false});
  return {most.values, most.indices, least.values, least.indices};
}

void add_ranks(AgreementCases& cases) {
  struct Choice {
    Shape shape;
    std::int64_t k;
    int axis;
  };
  for (const Choice& c :
       {Choice{{9}, 4, 0}, Choice{{9}, 0, 0}, Choice{{9}, 9, 0}, Choice{{6, 40}, 7, 1}, Choice{{40, 6}, 3, 0},
        Choice{{2, 5000}, 5, 1}, Choice{{1, 5000}, 1500, 1}, Choice{{2, 40000}, 9, 1}, Choice{{5000, 2}, 40, 0}})
    cases.push_back({"topk of " + to_string(c.shape) + ", k " + std::to_string(c.k),
                     {"topk", "scatter"},
                     {c.shape.numel() > 1000 ? noise(c.shape, 5) : many_ties(c.shape, 5)},
                     [k = c.k, axis = c.axis](const Tensors& in) { return topk_ways(in[0], k, axis); },
                     Nearness::exact,
                     c.shape.numel() > 20000  ? Types::given
                     : c.shape.numel() > 1000 ? Types::wide
                                              : Types::every});
  cases.push_back({"topk of equal values in long rows",
                   {"topk"},
                   {many_ties({2, 4500}, 6), special_order({1, 4500}, 7)},
                   [](const Tensors& in) {
                     Tensors results = topk_ways(in[0], 700, 1);
                     for (const Tensor& y : topk_ways(in[1], 900, 1)) results.push_back(y);
                     return results;
                   },
                   Nearness::exact,
                   Types::wide});
  cases.push_back({"topk in any order has the same elements",
                   {"topk", "sort"},
                   {noise({3, 60}, 8)},
                   [](const Tensors& in) { return Tensors{sort(topk(in[0], 8, 1, {.sorted = false}).values)}; },
                   Nearness::exact});
  cases.push_back(
      {"elements by rank, medians and quantiles", {"topk", "sort"}, {noise({6, 41}, 9)}, [](const Tensors& in) {
         const Tensor& x = in[0];
         const KthResult kth = kthvalue(x, 7, 1);
         Tensors results = {kth.values,
                            kth.indices,
                            kthvalue(x, 2, 0, {.keepdims = true}).values,
                            median(x),
                            median(x, 0),
                            median(x, {0, 1}),
                            quantile(transpose(x), 0.3, 1)};
         for (const QuantileMethod method : {QuantileMethod::linear, QuantileMethod::lower, QuantileMethod::higher,
                                             QuantileMethod::midpoint, QuantileMethod::nearest})
           results.push_back(quantile(x, 0.37, 1, {.method = method}));
         return results;
       }});
}

void add_totals(AgreementCases& cases) {
  struct Walk {
    Shape shape;
    int axis;
  };
  for (const auto& [shape, axis] : {Walk{{5}, 0}, Walk{{3, 40}, 1}, Walk{{40, 3}, 0}, Walk{{3, 70, 4}, 1},
                                    Walk{{4, 600}, 1}, Walk{{600, 4}, 0}, Walk{{0, 3}, 1}, Walk{{3, 0}, 1}}) {
    const std::string text = to_string(shape) + " along " + std::to_string(axis);
    for (const CumulativeOptions options : {CumulativeOptions{}, CumulativeOptions{.exclusive = true},
                                            CumulativeOptions{.exclusive = true, .reverse = true}}) {
      const std::string how = options.reverse ? " backwards" : options.exclusive ? " exclusive" : "";
      cases.push_back({"running totals of " + text + how,
                       {"cumulate", "recur"},
                       {noise(shape, 11), exp(noise(shape, 12) * 0.2)},
                       [options, along = axis](const Tensors& in) {
                         return Tensors{cumsum(in[0], along, options), cumprod(in[1], along, options),
                                        logcumsumexp(in[0], along, options)};
                       },
                       Nearness::summed});
    }
    cases.push_back({"running extremes and differences of " + text,
                     {"cumulative_extreme"},
                     {many_ties(shape, 13)},
                     [along = axis](const Tensors& in) {
                       const ExtremeResult most = cummax(in[0], along), least = cummin(in[0], along);
                       return Tensors{most.values, most.indices, least.values, least.indices, diff(in[0], 2, along)};
                     },
                     Nearness::exact,
                     Types::numbers});
    cases.push_back(
        {"whole running totals of " + text,
         {"cumulate"},
         {random_in(-4, 5, shape, DType::float64, 14)},
         [along = axis](const Tensors& in) {
           return Tensors{cumsum(in[0], along), cumprod(in[0], along), cumsum(flip(in[0]), along, {.reverse = true})};
         },
         Nearness::exact,
         Types::integers});
  }
  cases.push_back({"running totals of long lines",
                   {"cumulate", "recur", "cumulative_extreme"},
                   {noise({1, 20000}, 15), noise({1500, 2}, 16) + 1},
                   [](const Tensors& in) {
                     return Tensors{cumsum(in[0], 1), cumsum(in[1], 0, {.reverse = true}), logcumsumexp(in[0], 1),
                                    cummax(in[0], 1).values, cummin(in[1], 0).indices};
                   },
                   Nearness::summed,
                   Types::wide});
  cases.push_back({"running products that leave their range",
                   {"cumulate", "recur"},
                   {from_vector<double>({0x1p600, 0x1p600, 0x1p-900, 0, 1}),
                    from_vector<double>({0x1p-600, -0x1p-600, 0x1p900, 0.5})},
                   [](const Tensors& in) {
                     return Tensors{cumprod(in[0], 0), cumprod(in[1], 0)};
                   },
                   Nearness::exact,
                   Types::given});
  // whose gradient is infinite before it and NaN behind; of their own tape, since other signs would make NaN of all
  cases.push_back({"gradients of long running products with an infinite factor",
                   {"recur"},
                   {where(equal(arange(100), 50), kInfinity, ones({100}, {DType::float64}))},
                   [](const Tensors& in) {
                     const Tensor x = stop_gradient(in[0]);
                     GradientTape tape;
                     tape.watch(x);
                     return Tensors{tape.gradient(sum(cumprod(x, 0)), x)};
                   },
                   Nearness::exact,
                   Types::given});
  cases.push_back({"running products with zeros, and totals of values that are not finite",
                   {"cumulate", "recur", "cumulative_extreme"},
                   {floor(random_in(0, 4, {5, 30}, DType::float64, 17)), with_specials({3, 40}, 18)},
                   [](const Tensors& in) {
                     const ExtremeResult most = cummax(in[1], 1), least = cummin(in[1], 0);
                     return Tensors{cumprod(narrow(in[0], 1, 0, 7), 1),
                                    cumprod(narrow(in[0], 1, 0, 7), 1, {.reverse = true}),
                                    cumsum(in[1], 1),
                                    cumsum(transpose(in[1]), 1),
                                    most.values,
                                    most.indices,
                                    least.values,
                                    least.indices};
                   },
                   Nearness::summed});
}

}  // namespace

AgreementCases order_agreement_cases() {
  AgreementCases cases;
  add_sorting(cases);
  add_ranks(cases);
  add_totals(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on sorting, ranks and running totals", "[gpu][agreement]") {
  tests::check_agreement(&tests::order_agreement_cases);
}
