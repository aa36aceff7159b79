// Uses of clipping and of operations on lists whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

/// All of them, one behind the other.
Tensor joined(const Tensors& list) {
  Tensors flat;
  for (const Tensor& x : list)
    if (x.defined()) flat.push_back(reshape(x, {-1}));
  return concat(flat);
}

/// Away from 0, where norms have kinks, with both signs.
Tensor signed_values(const Shape& shape, std::uint64_t seed) {
  std::vector<double> list = values(random_in(0.5, 2, shape, DType::float64, seed));
  for (std::size_t i = 0; i < list.size(); i += 3) list[i] = -list[i];
  return from_vector(list, shape);
}

constexpr double orders[] = {1, 2, 3.5, 0.5, kInfinity};

std::string order_text(double order) { return std::isinf(order) ? "infinite" : std::to_string(order); }

/// Clipping of three tensors, one of which has no elements, beside one that is undefined.
void add_clipping(std::vector<GradientCase>& cases, double order, double limit, const char* what) {
  const Tensor a = signed_values({2, 3}, 401), b = signed_values({4}, 402);
  const optim::ClipOptions options{.order = order, .epsilon = 0.01};
  const std::string usage = std::string(what) + ", order " + order_text(order);
  cases.push_back(
      {"clip_by_global_norm",
       usage,
       [=](const Tensors& in) {
         return joined(optim::clip_by_global_norm({in[0], Tensor(), in[1], in[2]}, limit, options).gradients);
       },
       {a, b, zeros({0, 2}, {DType::float64})}});
  cases.push_back({"clip_by_global_norm",
                   usage + ", the norm as well",
                   [=](const Tensors& in) {
                     const auto [clipped, norm] = optim::clip_by_global_norm({in[0], in[1]}, limit, options);
                     return concat({reshape(clipped[0], {-1}), reshape(square(norm), {1})});  // of one tensor only
                   },
                   {a, b}});
  cases.push_back({"clip_by_norm",
                   usage,
                   [=](const Tensors& in) { return optim::clip_by_norm(in[0], limit, options); },
                   {strided(a)}});
}

}  // namespace

std::vector<GradientCase> training_gradient_cases() {
  std::vector<GradientCase> cases;
  const Tensor a = signed_values({2, 3}, 403), b = signed_values({4}, 404);
  for (const double order : orders) {
    cases.push_back({"global_norm",
                     "order " + order_text(order),
                     [=](const Tensors& in) {
                       return optim::global_norm({in[0], in[1]}, order);
                     },
                     {a, strided(b)}});
    add_clipping(cases, order, 0.7, "clipped");
    add_clipping(cases, order, 1e6, "within the limit");
  }
  cases.push_back({"clip_by_value",
                   "two tensors",
                   [](const Tensors& in) {
                     return joined(optim::clip_by_value({in[0], in[1]}, -0.5, 1));
                   },
                   {a, b}});
  cases.push_back({"scale_each",
                   "two tensors, and one that is undefined",
                   [](const Tensors& in) {
                     return joined(scale_each({square(in[0]), Tensor(), in[1]}, -0.3).tensors);
                   },
                   {a, strided(b)}});
  return cases;
}

}  // namespace tests
