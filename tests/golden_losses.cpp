// Losses against PyTorch.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

std::string reduction_name(const GoldenCall& c) { return c.option<std::string>("reduction", "mean"); }

Reduction reduction_of(const GoldenCall& c) {
  const std::string name = reduction_name(c);
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;  // or "batchmean"
}

/// Undefined if there is none.
Tensor tensor_of(const GoldenCall& c, const char* key) {
  return c.has(key) && c.option(key).is_object() ? c.tensor_option(key) : Tensor();
}

/// torch keeps the classes on axis 1, or alone.
int class_axis(const GoldenCall& c) { return c.tensor(0).rank() == 1 ? 0 : 1; }

const GoldenOps element_ops = {
    {"mse_loss",
     [](const GoldenCall& c) { return Tensors{mse_loss(c.tensor(0), c.tensor(1), {.reduction = reduction_of(c)})}; }},
    {"l1_loss",
     [](const GoldenCall& c) { return Tensors{l1_loss(c.tensor(0), c.tensor(1), {.reduction = reduction_of(c)})}; }},
    {"smooth_l1_loss",
     [](const GoldenCall& c) {
       return Tensors{
           smooth_l1_loss(c.tensor(0), c.tensor(1), {.beta = c.option("beta", 1.0), .reduction = reduction_of(c)})};
     }},
    {"huber_loss",
     [](const GoldenCall& c) {
       return Tensors{
           huber_loss(c.tensor(0), c.tensor(1), {.delta = c.option("delta", 1.0), .reduction = reduction_of(c)})};
     }},
    {"binary_cross_entropy",
     [](const GoldenCall& c) {
       return Tensors{binary_cross_entropy(c.tensor(0), c.tensor(1),
                                           {.weight = tensor_of(c, "weight"), .reduction = reduction_of(c)})};
     }},
    {"binary_cross_entropy_with_logits",
     [](const GoldenCall& c) {
       return Tensors{sigmoid_cross_entropy(
           c.tensor(0), c.tensor(1),
           {.pos_weight = tensor_of(c, "pos_weight"), .weight = tensor_of(c, "weight"), .reduction = reduction_of(c)})};
     }},
    {"kl_div",
     [](const GoldenCall& c) {
       return Tensors{kl_div(c.tensor(0), c.tensor(1),
                             {.log_target = c.option("log_target", false),
                              .batch_mean = reduction_name(c) == "batchmean",
                              .reduction = reduction_of(c)})};
     }},
    {"poisson_nll_loss",
     [](const GoldenCall& c) {
       return Tensors{poisson_nll_loss(c.tensor(0), c.tensor(1),
                                       {.log_input = c.option("log_input", true),
                                        .full = c.option("full", false),
                                        .epsilon = c.option("eps", 1e-8),
                                        .reduction = reduction_of(c)})};
     }},
    {"soft_margin_loss",
     [](const GoldenCall& c) {
       return Tensors{soft_margin_loss(c.tensor(0), c.tensor(1), {.reduction = reduction_of(c)})};
     }},
    {"hinge_embedding_loss",
     [](const GoldenCall& c) {
       return Tensors{hinge_embedding_loss(c.tensor(0), c.tensor(1),
                                           {.margin = c.option("margin", 1.0), .reduction = reduction_of(c)})};
     }},
};

const GoldenOps class_ops = {
    {"cross_entropy",
     [](const GoldenCall& c) {
       return Tensors{cross_entropy(c.tensor(0), c.tensor(1),
                                    {.class_weight = tensor_of(c, "weight"),
                                     .ignored_label = c.option("ignore_index", kIgnoredLabel),
                                     .label_smoothing = c.option("label_smoothing", 0.0),
                                     .axis = class_axis(c),
                                     .reduction = reduction_of(c)})};
     }},
    {"nll_loss",
     [](const GoldenCall& c) {
       return Tensors{nll_loss(c.tensor(0), c.tensor(1),
                               {.class_weight = tensor_of(c, "weight"),
                                .ignored_label = c.option("ignore_index", kIgnoredLabel),
                                .axis = class_axis(c),
                                .reduction = reduction_of(c)})};
     }},
};

const GoldenOps margin_ops = {
    {"margin_ranking_loss",
     [](const GoldenCall& c) {
       return Tensors{margin_ranking_loss(c.tensor(0), c.tensor(1), c.tensor(2),
                                          {.margin = c.option("margin", 0.0), .reduction = reduction_of(c)})};
     }},
    {"multi_margin_loss",
     [](const GoldenCall& c) {
       return Tensors{multi_margin_loss(c.tensor(0), c.tensor(1),
                                        {.p = c.option("p", 1),
                                         .margin = c.option("margin", 1.0),
                                         .class_weight = tensor_of(c, "weight"),
                                         .reduction = reduction_of(c)})};
     }},
    {"cosine_embedding_loss",
     [](const GoldenCall& c) {
       return Tensors{cosine_embedding_loss(c.tensor(0), c.tensor(1), c.tensor(2),
                                            {.margin = c.option("margin", 0.0), .reduction = reduction_of(c)})};
     }},
    {"triplet_margin_loss",
     [](const GoldenCall& c) {
       return Tensors{triplet_margin_loss(c.tensor(0), c.tensor(1), c.tensor(2),
                                          {.margin = c.option("margin", 1.0),
                                           .p = c.option("p", 2.0),
                                           .epsilon = c.option("eps", 1e-6),
                                           .swap = c.option("swap", false),
                                           .reduction = reduction_of(c)})};
     }},
    {"gaussian_nll_loss",
     [](const GoldenCall& c) {
       return Tensors{gaussian_nll_loss(
           c.tensor(0), c.tensor(1), c.tensor(2),
           {.full = c.option("full", false), .epsilon = c.option("eps", 1e-6), .reduction = reduction_of(c)})};
     }},
};

}  // namespace

TEST_CASE("losses of elements give PyTorch's values and gradients", "[golden]") {
  run_goldens(
      "losses of elements",
      {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
       "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "soft_margin_loss", "hinge_embedding_loss"},
      element_ops);
}

TEST_CASE("losses over classes give PyTorch's values and gradients", "[golden]") {
  run_goldens("losses over classes", {"cross_entropy", "nll_loss"}, class_ops);
}

TEST_CASE("losses with margins give PyTorch's values and gradients", "[golden]") {
  run_goldens("losses with margins", {"margin_losses"}, margin_ops);
}
