// Uses of products and variances whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

struct Statistic {
  const char* name;
  const char* usage;
  Tensor (*function)(const Tensor&, Axes, bool keep);
};
const Statistic statistic_rows[] = {
    {"prod", "of values", [](const Tensor& x, Axes a, bool keep) { return prod(x, a, {.keepdims = keep}); }},
    {"var", "of a population", [](const Tensor& x, Axes a, bool keep) { return var(x, a, {.keepdims = keep}); }},
    {"var", "of a sample",
     [](const Tensor& x, Axes a, bool keep) { return var(x, a, {.correction = 1, .keepdims = keep}); }},
    {"std", "of a population",
     [](const Tensor& x, Axes a, bool keep) { return capstan::std(x, a, {.keepdims = keep}); }},
    {"std", "of a sample",
     [](const Tensor& x, Axes a, bool keep) { return capstan::std(x, a, {.correction = 1, .keepdims = keep}); }},
    {"moments", "both",
     [](const Tensor& x, Axes a, bool keep) {
       const Moments m = moments(x, a, {.keepdims = keep});
       return m.mean * m.variance;
     }},
    {"moments", "the mean alone",
     [](const Tensor& x, Axes a, bool keep) { return square(moments(x, a, {.keepdims = keep}).mean); }},
    {"moments", "the variance alone",
     [](const Tensor& x, Axes a, bool keep) { return square(moments(x, a, {.keepdims = keep}).variance); }},
};

/// Random values with zeros at some places: a gradient that divides by them fails here.
Tensor with_zeros(std::int64_t size, std::initializer_list<std::int64_t> places) {
  std::vector<double> list = values(random_in(0.5, 2, {size}, DType::float64, 33));
  for (const std::int64_t place : places) list[static_cast<std::size_t>(place)] = 0;
  return from_vector(list);
}

}  // namespace

std::vector<GradientCase> moments_gradient_cases() {
  const std::pair<const char*, Axes> axes[] = {
      {"all axes", {}}, {"axis 0", 0}, {"axis 1", 1}, {"axis -1", -1}, {"axes 0 and 2", {0, 2}}};
  std::vector<GradientCase> cases;
  const Tensor x = random_in(-2, 2, {2, 3, 4}, DType::float64, 34);
  for (const Statistic& row : statistic_rows)
    for (const auto& [which, over] : axes)
      for (const bool keep : {false, true})
        cases.push_back({row.name,
                         std::string(row.usage) + ", " + which + (keep ? ", kept" : ", dropped"),
                         [f = row.function, a = over, keep](const Tensors& in) { return f(in[0], a, keep); },
                         {x}});
  const auto product = [](const Tensors& in) { return prod(in[0]); };
  for (std::int64_t size = 1; size <= 9; ++size)
    cases.push_back({"prod", std::to_string(size) + " values", product, {with_zeros(size, {})}});
  cases.push_back({"prod", "with a zero", product, {with_zeros(5, {2})}});
  cases.push_back({"prod", "with two zeros", product, {with_zeros(5, {0, 4})}});
  cases.push_back({"prod", "with three zeros", product, {with_zeros(6, {0, 3, 5})}});
  cases.push_back({"prod",
                   "of nothing",
                   [](const Tensors& in) { return prod(in[0], 1); },
                   {zeros({3, 0}, {.dtype = DType::float64})}});
  cases.push_back({"prod", "of a single value", product, {Tensor(1.5)}});
  cases.push_back({"prod",
                   "of a transposed tensor",
                   [](const Tensors& in) {
                     return prod(transpose(in[0]), {0, 1});
                   },
                   {x}});
  cases.push_back({"var",
                   "of a stretched tensor",
                   [](const Tensors& in) {
                     return var(broadcast_to(in[0], {5, 4}), 1);
                   },
                   {with_zeros(4, {})}});
  cases.push_back({"var", "of equal values", [](const Tensors& in) { return var(in[0]); }, {Tensor{1.5, 1.5, 1.5}}});
  cases.push_back({"std",
                   "of no rows",
                   [](const Tensors& in) { return capstan::std(in[0], 1); },
                   {zeros({0, 3}, {.dtype = DType::float64})}});
  return cases;
}

}  // namespace tests
