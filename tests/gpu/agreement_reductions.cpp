// Sums and their relatives on a GPU and on the CPU: every subset of axes, ties, special values, long rows and columns.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

std::vector<int> axes_of(unsigned mask, int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis)
    if ((mask >> axis & 1u) != 0) axes.push_back(axis);
  return axes;
}
std::string text_of(const Shape& shape, unsigned mask) {
  std::string text = to_string(shape) + " along";
  for (const int axis : axes_of(mask, shape.rank())) text += " " + std::to_string(axis);
  return text;
}

/// Whether a reduction over these axes has elements to choose from.
bool has_elements(const Shape& shape, unsigned mask) {
  for (const int axis : axes_of(mask, shape.rank()))
    if (shape[axis] == 0) return false;
  return true;
}

Tensors sums_of(const Tensor& x, const Axes& axes) {
  return {sum(x, axes), sum(x, axes, {.keepdims = true}), logsumexp(x, axes), count_nonzero(x, axes)};
}
Tensors moments_of(const Tensor& x, const Axes& axes) {
  const Moments both = moments(x, axes);
  return {mean(x, axes), var(x, axes, {.correction = 0.5}), capstan::std(x, axes), both.mean, both.variance,
          max(x, axes),  min(x, axes, {.keepdims = true})};
}

void add_every_subset(AgreementCases& cases) {
  for (const Shape& shape : {Shape{6}, Shape{4, 257}, Shape{3, 5, 7}, Shape{2, 3, 4, 5}, Shape{0, 3}, Shape{3, 0, 2}})
    for (unsigned mask = 1; mask < 1u << shape.rank(); ++mask) {
      const std::vector<int> list = axes_of(mask, shape.rank());
      const bool some = has_elements(shape, mask);
      cases.push_back({"reductions of " + text_of(shape, mask),
                       {"reduce", "moments", "logsumexp"},
                       {noise(shape, 1)},
                       [list, some](const Tensors& in) {
                         const Axes axes{std::span<const int>(list)};
                         Tensors results = sums_of(in[0], axes);
                         if (some)
                           for (const Tensor& y : moments_of(in[0], axes)) results.push_back(y);
                         return results;
                       },
                       Nearness::summed});
      cases.push_back({"whole sums of " + text_of(shape, mask),
                       {"reduce"},
                       {random_in(-20, 20, shape, DType::float64, 2)},
                       [list, some](const Tensors& in) {
                         const Axes axes{std::span<const int>(list)};
                         Tensors results = {sum(in[0], axes), prod(in[0], axes)};
                         if (some) results.insert(results.end(), {max(in[0], axes), min(in[0], axes)});
                         return results;
                       },
                       Nearness::exact,
                       Types::integers});
    }
}

struct ViewOf {
  const char* text;
  Tensor (*view)(const Tensor&);  ///< of [20, 33]
};
const ViewOf views[] = {{"transposed", [](const Tensor& x) { return transpose(x); }},
                        {"backwards", [](const Tensor& x) { return flip(x); }},
                        {"every third column",
                         [](const Tensor& x) {
                           return x.index({all, from(1, 3)});
                         }},
                        {"behind an offset", [](const Tensor& x) { return narrow(x, 1, 1, 32); }},
                        {"a row for all",
                         [](const Tensor& x) {
                           return broadcast_to(x[2], {9, 33});
                         }},
                        {"a column for all", [](const Tensor& x) {
                           return broadcast_to(narrow(x, 1, 0, 1), {20, 6});
                         }}};

void add_views(AgreementCases& cases) {
  for (const ViewOf& v : views)
    cases.push_back({std::string("reductions of a view, ") + v.text,
                     {"reduce", "moments", "logsumexp"},
                     {noise({20, 33}, 3)},
                     [view = v.view](const Tensors& in) {
                       const Tensor x = view(in[0]);
                       Tensors results;
                       for (const Axes& axes : {Axes(0), Axes(1), Axes()}) {
                         for (const Tensor& y : sums_of(x, axes)) results.push_back(y);
                         for (const Tensor& y : moments_of(x, axes)) results.push_back(y);
                       }
                       return results;
                     },
                     Nearness::summed});
  cases.push_back({"the sum of a single value, and of none at all",
                   {"reduce"},
                   {noise({}, 4), noise({0}, 5)},
                   [](const Tensors& in) {
                     return Tensors{sum(in[0]),       max(in[0]), mean(in[0]), prod(in[0]),
                                    logsumexp(in[0]), sum(in[1]), prod(in[1]), logsumexp(in[1])};
                   }});
}

/// Values on both sides of 1, so that products stay in the range of all types.
Tensor factors(const Shape& shape, std::uint64_t seed) {
  return exp(random_in(-0.2, 0.2, shape, DType::float64, seed));
}

void add_products(AgreementCases& cases) {
  Tensor some_zeros = factors({5, 300}, 6);
  for (const std::int64_t place : {3, 299}) some_zeros.set(0.0, 1, place);
  some_zeros.set(0.0, 2, 40);
  cases.push_back(
      {"products, with zeros among the factors",
       {"reduce", "prod_backward"},
       {some_zeros},
       [](const Tensors& in) {
         return Tensors{prod(in[0]), prod(in[0], 1), prod(in[0], 0), prod(transpose(in[0]), 0, {.keepdims = true})};
       },
       Nearness::summed});
  cases.push_back({"products of long rows",
                   {"reduce", "prod_backward"},
                   {factors({2, 1500}, 7), factors({400, 3}, 8)},
                   [](const Tensors& in) {
                     return Tensors{prod(in[0], 1), prod(in[1], 1), prod(in[1], 0)};
                   },
                   Nearness::summed,
                   Types::wide});
}

void add_extremes(AgreementCases& cases) {
  const auto extremes = [](const Tensors& in) {
    const Tensor& x = in[0];
    return Tensors{max(x),
                   max(x, 0),
                   max(x, 1),
                   min(x),
                   min(x, 0),
                   min(x, 1),
                   argmax(x),
                   argmax(x, 0),
                   argmax(x, 1),
                   argmin(x),
                   argmin(x, 0),
                   argmin(x, -1, {.keepdims = true}),
                   argmax(transpose(x), 0),
                   argmin(flip(x), 1)};
  };
  cases.push_back({"extremes with ties",
                   {"reduce", "argmax", "argmin"},
                   {(with_ties({19, 40}, 9) + 3) * 4},
                   extremes,
                   Nearness::exact,
                   Types::numbers});
  cases.push_back({"extremes with NaN and infinities",
                   {"reduce", "argmax", "argmin"},
                   {with_specials({9, 40}, 10)},
                   extremes,
                   Nearness::exact});
  cases.push_back({"extremes along each of four axes",
                   {"argmax", "argmin"},
                   {with_ties({3, 4, 5, 6}, 11)},
                   [](const Tensors& in) {
                     Tensors results;
                     for (int axis = 0; axis < 4; ++axis)
                       results.insert(results.end(), {argmax(in[0], axis), argmin(in[0], axis)});
                     return results;
                   },
                   Nearness::exact});
  cases.push_back({"whether all or any are true",
                   {"reduce"},
                   {noise({7, 12, 5}, 12) > -0.9, noise({0, 3}, 13) > 0},
                   [](const Tensors& in) {
                     Tensors results = {all_of(in[1]), any_of(in[1]), all_of(in[1], 0), any_of(in[1], 1),
                                        sum(in[0]),    sum(in[0], 1), prod(in[0], 2),   count_nonzero(in[0], 0)};
                     for (const Axes& axes : {Axes(), Axes(0), Axes(1), Axes{0, 2}, Axes{1, 2}})
                       results.insert(results.end(), {all_of(in[0], axes), any_of(!in[0], axes)});
                     return results;
                   },
                   Nearness::exact,
                   Types::given});
  cases.push_back({"sums and moments of values that are not finite",
                   {"reduce", "moments", "logsumexp"},
                   {with_specials({6, 40}, 14), full({3, 5}, -kInfinity, {.dtype = DType::float64})},
                   [](const Tensors& in) {
                     const Tensor fine = narrow(in[0], 1, 0, 3);  // no special value in some of its rows
                     return Tensors{sum(in[0], 1),      var(in[0], 0),       mean(in[0], 0),   logsumexp(in[0], 1),
                                    logsumexp(fine, 0), logsumexp(in[1], 1), logsumexp(in[1]), var(fine, 1)};
                   },
                   Nearness::summed});
}

void add_long(AgreementCases& cases) {
  for (const Shape& shape : {Shape{1, 33000}, Shape{5000, 12}, Shape{40, 600}})
    cases.push_back({"long reductions of " + to_string(shape),
                     {"reduce", "moments", "logsumexp", "argmax"},
                     {noise(shape, 15) + 0.25},
                     [](const Tensors& in) {
                       const Tensor& x = in[0];
                       return Tensors{sum(x),    sum(x, 0),    sum(x, 1),    var(x, 0), var(x, 1),
                                      max(x, 1), argmax(x, 0), argmax(x, 1), argmin(x), logsumexp(x, 1)};
                     },
                     Nearness::summed,
                     Types::wide});
  cases.push_back({"long sums in 16 bits",
                   {"reduce", "moments"},
                   {noise({3, 9001}, 16), noise({5000, 8}, 17)},
                   [](const Tensors& in) {
                     return Tensors{sum(in[0], 1), mean(in[0], 1), var(in[0], 1), max(in[0], 1),
                                    sum(in[1], 0), var(in[1], 0),  max(in[1], 0)};
                   },
                   Nearness::summed});
}

void add_softmax(AgreementCases& cases) {
  const auto softmaxes = [](const Tensors& in) {
    return Tensors{softmax(in[0]), log_softmax(in[0]), logsumexp(in[0], -1)};
  };
  for (const Shape& shape :
       {Shape{9, 5}, Shape{7, 1}, Shape{5, 33}, Shape{3, 600}, Shape{3, 1024}, Shape{0, 4}, Shape{4, 0}})
    cases.push_back({"softmax of rows " + to_string(shape),
                     {"softmax", "softmax_backward", "logsumexp"},
                     {noise(shape, 21) * 5},
                     softmaxes,
                     Nearness::summed});
  for (const Shape& shape : {Shape{2, 5001}, Shape{2, 9000}})
    cases.push_back({"softmax of long rows " + to_string(shape),
                     {"softmax", "softmax_backward", "logsumexp"},
                     {noise(shape, 22) * 5},
                     softmaxes,
                     Nearness::summed,
                     Types::wide});
  cases.push_back({"softmax along other axes and of views",
                   {"softmax", "softmax_backward"},
                   {noise({4, 12, 6}, 23) * 3, noise({20, 33}, 24)},
                   [](const Tensors& in) {
                     return Tensors{softmax(in[0], 0),
                                    log_softmax(in[0], 1),
                                    softmax(transpose(in[1])),
                                    log_softmax(flip(in[1])),
                                    softmax(in[1].index({all, from(1, 2)})),
                                    softmax(broadcast_to(in[1][0], {3, 33}))};
                   },
                   Nearness::summed});
  Tensor logits = noise({6, 40}, 25) * 30;
  for (const std::int64_t column : {0, 17, 39}) logits.set(-kInfinity, 1, column);
  for (std::int64_t column = 0; column < 40; ++column) logits.set(-kInfinity, 2, column);
  logits.set(kInfinity, 3, 5);
  logits.set(kNaN, 4, 7);
  logits.set(1e30, 5, 0);
  cases.push_back({"softmax of infinities and large differences",
                   {"softmax", "logsumexp"},
                   {logits},
                   [](const Tensors& in) {
                     const NoGrad off;
                     return Tensors{softmax(in[0]), log_softmax(in[0]), logsumexp(in[0], 1)};
                   },
                   Nearness::summed});
}

}  // namespace

AgreementCases reduction_agreement_cases() {
  AgreementCases cases;
  add_every_subset(cases);
  add_views(cases);
  add_products(cases);
  add_extremes(cases);
  add_long(cases);
  add_softmax(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on reductions", "[gpu][agreement]") {
  tests::check_agreement(&tests::reduction_agreement_cases);
}
