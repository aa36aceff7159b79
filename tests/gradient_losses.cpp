// Uses of losses whose gradients are checked. Inputs keep away from kinks, of which losses_test.cpp has the gradients.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

struct Limits {
  double low, high;
};
const Limits wide = {-2, 2}, share = {0.1, 0.9}, log_share = {-3, -0.1};

/// A loss of each element by itself, with gradients for both of its operands.
struct Pair {
  const char *op, *usage;
  Tensor (*function)(const Tensor& x, const Tensor& t);
  Limits x, t;
};
const Pair pairs[] = {
    {"mse_loss", "mean", [](const Tensor& x, const Tensor& t) { return mse_loss(x, t); }, wide, wide},
    {"l1_loss", "mean", [](const Tensor& x, const Tensor& t) { return l1_loss(x, t); }, wide, wide},
    {"smooth_l1_loss", "mean", [](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t); }, wide, wide},
    {"smooth_l1_loss", "a narrow parabola",
     [](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, {.beta = 0.3, .reduction = Reduction::none}); },
     wide, wide},
    {"huber_loss", "mean", [](const Tensor& x, const Tensor& t) { return huber_loss(x, t); }, wide, wide},
    {"huber_loss", "a wide parabola",
     [](const Tensor& x, const Tensor& t) { return huber_loss(x, t, {.delta = 1.7, .reduction = Reduction::none}); },
     wide, wide},
    {"log_cosh_loss", "mean", [](const Tensor& x, const Tensor& t) { return log_cosh_loss(x, t); }, wide, wide},
    {"binary_cross_entropy", "mean", [](const Tensor& x, const Tensor& t) { return binary_cross_entropy(x, t); }, share,
     share},
    {"sigmoid_cross_entropy", "each", [](const Tensor& x, const Tensor& t) { return sigmoid_cross_entropy(x, t); },
     wide, share},
    {"sigmoid_cross_entropy", "sum",
     [](const Tensor& x, const Tensor& t) {
       return sigmoid_cross_entropy(x, t, {.pos_weight = Tensor(2.5), .reduction = Reduction::sum});
     },
     wide, share},
    {"kl_div", "mean", [](const Tensor& x, const Tensor& t) { return kl_div(x, t); }, log_share, share},
    {"kl_div", "of logarithms, over the batch",
     [](const Tensor& x, const Tensor& t) { return kl_div(x, t, {.log_target = true, .batch_mean = true}); }, log_share,
     log_share},
    {"poisson_nll_loss",
     "of a logarithm",
     [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t); },
     wide,
     {0.1, 3}},
    {"poisson_nll_loss",
     "of a rate, with Stirling's terms",
     [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t, {.log_input = false, .full = true}); },
     {0.5, 3},
     {1.2, 4}},
    {"poisson_nll_loss", "of few",
     [](const Tensor& x, const Tensor& t) { return poisson_nll_loss(x, t, {.full = true}); }, wide, share},
    {"hinge_loss", "mean", [](const Tensor& x, const Tensor& t) { return hinge_loss(x, t); }, wide, wide},
    {"squared_hinge_loss", "mean", [](const Tensor& x, const Tensor& t) { return squared_hinge_loss(x, t); }, wide,
     wide},
    {"soft_margin_loss", "mean", [](const Tensor& x, const Tensor& t) { return soft_margin_loss(x, t); }, wide, wide},
};

void add_pairs(std::vector<GradientCase>& cases) {
  std::uint64_t seed = 1;
  for (const Pair& row : pairs) {
    const auto input = [&](const Limits& limits, const Shape& shape) {
      return random_in(limits.low, limits.high, shape, DType::float64, seed++);
    };
    const auto f = row.function;
    for (const Shape& shape : {Shape{3, 4}, Shape{2, 1, 3}, Shape()})
      cases.push_back({row.op,
                       std::string(row.usage) + ", " + to_string(shape),
                       [f](const Tensors& in) { return f(in[0], in[1]); },
                       {input(row.x, shape), input(row.t, shape)}});
    cases.push_back({row.op,
                     std::string(row.usage) + ", of views",
                     [f](const Tensors& in) {
                       return f(transpose(in[0]), broadcast_to(in[1], {4, 3}));
                     },
                     {input(row.x, {3, 4}), input(row.t, {3})}});
  }
}

void add_options(std::vector<GradientCase>& cases) {
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum})
    cases.push_back(
        {"mse_loss",
         "weighted, reduction " + std::to_string(static_cast<int>(reduction)),
         [reduction](const Tensors& in) { return mse_loss(in[0], in[1], {.weight = in[2], .reduction = reduction}); },
         {random({3, 4}, 85), random({3, 4}, 86), random({3, 1}, 87)}});
  cases.push_back({"mse_loss",
                   "with itself squared",
                   [](const Tensors& in) { return mse_loss(square(in[0]), in[0]); },
                   {random({5}, 88)}});
  cases.push_back({"mse_loss",
                   "of nothing",
                   [](const Tensors& in) { return mse_loss(in[0], in[1], {.reduction = Reduction::sum}); },
                   {random({0, 3}, 89), random({0, 3}, 89)}});
  cases.push_back(
      {"sigmoid_cross_entropy",
       "all weights",
       [](const Tensors& in) { return sigmoid_cross_entropy(in[0], in[1], {.pos_weight = in[2], .weight = in[3]}); },
       {random({3, 4}, 90), random_in(0, 1, {3, 4}, DType::float64, 91), random({4}, 92), random({}, 93)}});
  const Tensor signs = {{1.0, -1.0, 1.0}, {-1.0, 0.0, -1.0}};
  cases.push_back({"hinge_embedding_loss",
                   "both signs, and neither",
                   [signs](const Tensors& in) { return hinge_embedding_loss(in[0], signs, {.margin = 0.7}); },
                   {random({2, 3}, 94)}});
  for (const Shape& shape : {Shape{3, 4}, Shape{3, 1}, Shape{3}})
    for (const bool full : {false, true})
      cases.push_back({"gaussian_nll_loss",
                       "variance " + to_string(shape) + (full ? ", full" : ""),
                       [full](const Tensors& in) { return gaussian_nll_loss(in[0], in[1], in[2], {.full = full}); },
                       {random({3, 4}, 95), random({3, 4}, 96), random_in(0.5, 2, shape, DType::float64, 97)}});
}

Tensor labels() { return {2, 0, 2}; }
Tensor grid() { return {{0, 3}, {1, 1}, {2, 0}}; }
Tensor with_gaps() { return {{0, -100}, {1, 1}, {-100, 0}}; }
Tensor class_weight() { return random_in(0.2, 2, {4}, DType::float64, 98); }

void add_softmax(std::vector<GradientCase>& cases) {
  cases.push_back({"sparse_softmax_cross_entropy",
                   "rows",
                   [](const Tensors& in) { return sparse_softmax_cross_entropy(in[0], labels()); },
                   {random({3, 4}, 81)}});
  cases.push_back({"sparse_softmax_cross_entropy",
                   "a batch of sequences, weighted",
                   [](const Tensors& in) {
                     return sparse_softmax_cross_entropy(in[0], grid(),
                                                         {.weight = in[1], .reduction = Reduction::mean});
                   },
                   {random({3, 2, 4}, 82), random({3, 2}, 83)}});
  cases.push_back({"softmax_cross_entropy",
                   "logits and labels",
                   [](const Tensors& in) { return softmax_cross_entropy(in[0], in[1]); },
                   {random({3, 4}, 83), random_in(0.1, 1, {3, 4}, DType::float64, 84)}});
  cases.push_back({"softmax_cross_entropy",
                   "logits, labels and weight",
                   [](const Tensors& in) { return softmax_cross_entropy(in[0], in[1], {.weight = in[2]}); },
                   {random({3, 4}, 83), random_in(0.1, 1, {3, 4}, DType::float64, 84), random({3}, 85)}});
}

void add_cross_entropy(std::vector<GradientCase>& cases) {
  for (const double smoothing : {0.0, 0.2})
    for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      const std::string usage =
          "smoothing " + std::to_string(smoothing) + ", reduction " + std::to_string(static_cast<int>(reduction));
      cases.push_back({"cross_entropy",
                       usage,
                       [=](const Tensors& in) {
                         return cross_entropy(in[0], grid(), {.label_smoothing = smoothing, .reduction = reduction});
                       },
                       {random({3, 2, 4}, 99)}});
      cases.push_back({"cross_entropy",
                       usage + ", weighted, with ignored labels, classes in the middle",
                       [=](const Tensors& in) {
                         return cross_entropy(
                             in[0], with_gaps(),
                             {.class_weight = in[1], .label_smoothing = smoothing, .axis = 1, .reduction = reduction});
                       },
                       {random({3, 4, 2}, 100), class_weight()}});
      cases.push_back({"cross_entropy",
                       usage + ", of probabilities",
                       [=](const Tensors& in) {
                         return cross_entropy(
                             in[0], in[1],
                             {.class_weight = in[2], .label_smoothing = smoothing, .axis = 1, .reduction = reduction});
                       },
                       {random({3, 4, 2}, 101), random_in(0.1, 1, {3, 4, 2}, DType::float64, 102), class_weight()}});
    }
}

void add_classes(std::vector<GradientCase>& cases) {
  for (const int axis : {1, -1})
    cases.push_back(
        {"nll_loss",
         "classes on axis " + std::to_string(axis),
         [=](const Tensors& in) { return nll_loss(in[0], with_gaps(), {.class_weight = in[1], .axis = axis}); },
         {random(axis == 1 ? Shape{3, 4, 2} : Shape{3, 2, 4}, 103), class_weight()}});
  for (const int p : {1, 2})
    cases.push_back({"multi_margin_loss",
                     "power " + std::to_string(p),
                     [=](const Tensors& in) {
                       return multi_margin_loss(in[0], labels(), {.p = p, .margin = 0.8, .class_weight = in[1]});
                     },
                     {random({3, 4}, 104), class_weight()}});
  const Tensor lists = {{3, 0, -1, 2}, {-1, 1, 1, 1}, {0, 1, 2, 3}};
  cases.push_back({"multilabel_margin_loss",
                   "lists of labels",
                   [lists](const Tensors& in) { return multilabel_margin_loss(in[0], lists); },
                   {random({3, 4}, 105)}});
  cases.push_back({"multilabel_soft_margin_loss",
                   "weighted",
                   [](const Tensors& in) { return multilabel_soft_margin_loss(in[0], in[1], {.weight = in[2]}); },
                   {random({3, 4}, 106), random_in(0, 1, {3, 4}, DType::float64, 107), class_weight()}});
}

void add_vectors(std::vector<GradientCase>& cases) {
  const Tensor signs = {1.0, -1.0, 1.0, -1.0};
  const Tensor a = random({4, 5}, 110), b = random({4, 5}, 111), c = random({4, 5}, 112);
  cases.push_back({"margin_ranking_loss",
                   "all three",
                   [](const Tensors& in) { return margin_ranking_loss(in[0], in[1], in[2], {.margin = 0.3}); },
                   {a, b, c}});
  cases.push_back({"cosine_embedding_loss",
                   "both signs",
                   [signs](const Tensors& in) {
                     return cosine_embedding_loss(in[0], in[1], signs, {.margin = -0.9, .reduction = Reduction::none});
                   },
                   {a, b}});
  cases.push_back({"cosine_similarity",
                   "along axis 0, broadcast",
                   [](const Tensors& in) { return cosine_similarity(in[0], in[1], {.axis = 0}); },
                   {a, random({4, 1}, 113)}});
  cases.push_back({"cosine_loss",
                   "weighted",
                   [](const Tensors& in) { return cosine_loss(in[0], in[1], {.weight = in[2]}); },
                   {a, b, random({4}, 114)}});
  for (const double p : {1.0, 2.0, 3.0, kInfinity})
    cases.push_back({"pairwise_distance",
                     "order " + std::to_string(p),
                     [p](const Tensors& in) { return pairwise_distance(in[0], in[1], {.p = p, .keepdims = true}); },
                     {a, random({5}, 115)}});
  for (const bool swap : {false, true})
    cases.push_back({"triplet_margin_loss",
                     swap ? "swapped" : "as they are",
                     [swap](const Tensors& in) {
                       return triplet_margin_loss(in[0], in[1], in[2],
                                                  {.margin = 3, .swap = swap, .reduction = Reduction::none});
                     },
                     {a, b, c}});
}

}  // namespace

std::vector<GradientCase> losses_gradient_cases() {
  std::vector<GradientCase> cases;
  add_pairs(cases);
  add_options(cases);
  add_softmax(cases);
  add_cross_entropy(cases);
  add_classes(cases);
  add_vectors(cases);
  return cases;
}

}  // namespace tests
