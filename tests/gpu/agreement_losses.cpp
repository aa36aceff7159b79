// Losses of rows and of sequences on a GPU and on the CPU; those of single elements are among the rows of lib/kernels.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

const std::vector<std::string> kRows = {"cross_entropy", "cross_entropy_backward", "check_indices"};

void add_cross_entropy(AgreementCases& cases) {
  for (const Shape& shape : {Shape{9, 5}, Shape{1, 1}, Shape{6, 33}, Shape{3, 600}, Shape{4, 1024}, Shape{0, 4}})
    cases.push_back({"cross entropy of " + to_string(shape),
                     kRows,
                     {noise(shape, 1) * 4, places_below(shape[1], {shape[0]}, 2),
                      places_below(shape[1], {shape[0]}, 3).to(DType::int32)},
                     [](const Tensors& in) {
                       return Tensors{sparse_softmax_cross_entropy(in[0], in[1]),
                                      cross_entropy(in[0], in[2], {.reduction = Reduction::sum})};
                     },
                     Nearness::summed});
  for (const Shape& shape : {Shape{2, 5001}, Shape{2, 9000}})
    cases.push_back({"cross entropy of long rows " + to_string(shape),
                     kRows,
                     {noise(shape, 4) * 4, places_below(shape[1], {shape[0]}, 5)},
                     [](const Tensors& in) {
                       return Tensors{sparse_softmax_cross_entropy(in[0], in[1]), cross_entropy(in[0], in[1])};
                     },
                     Nearness::summed,
                     Types::wide});
  cases.push_back(
      {"cross entropy with settings",
       {"cross_entropy", "cross_entropy_backward", "softmax", "take", "select"},
       {noise({4, 6, 5}, 6) * 3, places_below(5, {4, 6}, 7), places_below(6, {4, 5}, 8),
        random_in(0.3, 2, {5}, DType::float64, 9), random_in(0.01, 1, {4, 6, 5}, DType::float64, 10),
        random_in(0.3, 2, {4, 6}, DType::float64, 11)},
       [](const Tensors& in) {
         const Tensor &x = in[0], &labels = in[1], &weights = in[3];
         return Tensors{
             cross_entropy(x, labels),
             cross_entropy(x, labels, {.class_weight = weights}),
             cross_entropy(x, labels, {.ignored_label = 2}),
             cross_entropy(
                 x, labels,
                 {.class_weight = weights, .ignored_label = 1, .label_smoothing = 0.2, .reduction = Reduction::none}),
             cross_entropy(x, in[2], {.axis = 1}),
             cross_entropy(transpose(x, 0, 1), transpose(labels)),
             cross_entropy(x, in[4], {.class_weight = weights, .label_smoothing = 0.1}),
             sparse_softmax_cross_entropy(x, labels, {.weight = in[5]}),
             softmax_cross_entropy(x, in[4], {.reduction = Reduction::mean})};
       },
       Nearness::summed});
  cases.push_back({"negative log-likelihood",
                   {"take", "check_indices"},
                   {noise({4, 6, 5}, 12), places_below(5, {4, 6}, 13), places_below(6, {4, 5}, 14),
                    random_in(0.3, 2, {5}, DType::float64, 15)},
                   [](const Tensors& in) {
                     const Tensor logs = log_softmax(in[0]);
                     return Tensors{nll_loss(logs, in[1]),
                                    nll_loss(logs, in[1], {.class_weight = in[3], .ignored_label = 0}),
                                    nll_loss(logs, in[2], {.axis = 1, .reduction = Reduction::none})};
                   },
                   Nearness::summed});
}

void add_margins(AgreementCases& cases) {
  cases.push_back(
      {"margins between classes",
       {"multilabel_margin", "take", "check_indices"},
       {noise({7, 6}, 21), places_below(6, {7}, 22),
        Tensor{{0, 3, -1, 2, 2, 2},
               {5, -1, 0, 0, 0, 0},
               {-1, 1, 1, 1, 1, 1},
               {1, 2, 3, 4, 5, 0},
               {2, -1, -1, -1, -1, -1},
               {4, 0, 1, -1, 5, 5},
               {3, 1, -1, 0, 0, 0}},
        random_in(0.3, 2, {6}, DType::float64, 23), (noise({7, 6}, 24) > 0).to(DType::float64)},
       [](const Tensors& in) {
         return Tensors{multi_margin_loss(in[0], in[1]),
                        multi_margin_loss(in[0], in[1],
                                          {.p = 2, .margin = 0.7, .class_weight = in[3], .reduction = Reduction::none}),
                        multilabel_margin_loss(in[0], in[2]),
                        multilabel_margin_loss(transpose(transpose(in[0])), in[2], {.reduction = Reduction::none}),
                        multilabel_soft_margin_loss(in[0], in[4], {.weight = in[3]})};
       },
       Nearness::summed});
  cases.push_back(
      {"margins of many classes",
       {"multilabel_margin"},
       {noise({3, 300}, 25), concat({places_below(300, {3, 40}, 26), full({3, 260}, -1, {DType::int64})}, 1)},
       [](const Tensors& in) { return Tensors{multilabel_margin_loss(in[0], in[1], {.reduction = Reduction::none})}; },
       Nearness::summed});
  cases.push_back(
      {"distances between vectors",
       {"reduce", "binary", "unary"},
       {noise({6, 9}, 27), noise({6, 9}, 28), noise({6, 9}, 29), Tensor{1, -1, 1, 1, -1, -1}, noise({6}, 30)},
       [](const Tensors& in) {
         const Tensor &a = in[0], &b = in[1], &c = in[2];
         return Tensors{cosine_similarity(a, b),
                        cosine_loss(a, b),
                        cosine_embedding_loss(a, b, in[3], {.margin = 0.1}),
                        pairwise_distance(a, b, {.p = 3}),
                        triplet_margin_loss(a, b, c),
                        triplet_margin_loss(a, b, c, {.p = 1, .swap = true}),
                        margin_ranking_loss(in[4], a[0].index({range(0, 6)}), in[3].to(a.dtype()), {.margin = 0.2})};
       },
       Nearness::summed,
       Types::wide});
  cases.push_back({"losses with weights and reductions",
                   {"loss", "loss_backward", "reduce"},
                   {noise({5, 7}, 31), noise({5, 7}, 32), random_in(0.3, 2, {7}, DType::float64, 33),
                    random_in(0.2, 2, {5, 7}, DType::float64, 34)},
                   [](const Tensors& in) {
                     const Tensor &x = in[0], &t = in[1];
                     return Tensors{mse_loss(x, t),
                                    l1_loss(x, t, {.weight = in[2], .reduction = Reduction::sum}),
                                    huber_loss(x, t),
                                    gaussian_nll_loss(x, t, in[3]),
                                    gaussian_nll_loss(x, t, in[3], {.full = true, .reduction = Reduction::none}),
                                    sigmoid_cross_entropy(x, sigmoid(t), {.pos_weight = in[2], .weight = in[2]}),
                                    poisson_nll_loss(x, in[3], {.full = true}),
                                    kl_div(log_softmax(x), softmax(t), {.batch_mean = true}),
                                    mse_loss(transpose(x), transpose(t), {.weight = in[2][0]})};
                   },
                   Nearness::summed});
}

Candidates candidates_of(const Tensors& in) {
  return {.sampled = in[3], .true_expected = in[4], .sampled_expected = in[5]};
}

void add_sequences(AgreementCases& cases) {
  cases.push_back({"losses of sequences",
                   {"cross_entropy", "cross_entropy_backward", "compress"},
                   {noise({4, 6, 5}, 41) * 2, places_below(5, {4, 6}, 42),
                    random_in(0.2, 2, {4, 6}, DType::float64, 43), places_below(7, {4}, 44)},
                   [](const Tensors& in) {
                     const Tensor mask = sequence_mask(in[3], 6);
                     return Tensors{sequence_loss(in[0], in[1]),
                                    sequence_loss(in[0], in[1], {.weight = in[2], .average_across_batch = false}),
                                    sequence_loss(in[0], where(mask, in[1], -1),
                                                  {.weight = mask, .average_across_timesteps = false}),
                                    sequence_loss_by_example(in[0], in[1], {.weight = mask}),
                                    sequence_loss(transpose(in[0], 0, 1), transpose(in[1]), {.time_major = true})};
                   },
                   Nearness::summed});
  cases.push_back({"losses over some of very many classes",
                   {"take", "gather_backward", "compare", "loss", "softmax"},
                   {noise({20, 4}, 45), noise({20}, 46), noise({6, 4}, 47), places_below(20, {9}, 48),
                    random_in(0.1, 0.9, {6, 2}, DType::float64, 49), random_in(0.1, 0.9, {9}, DType::float64, 50),
                    places_below(20, {6, 2}, 51)},
                   [](const Tensors& in) {
                     const NceOptions noise_contrastive{.candidates = candidates_of(in),
                                                        .remove_accidental_hits = true};
                     const SampledSoftmaxOptions sampled{.candidates = candidates_of(in)};
                     return Tensors{nce_loss(in[0], in[1], in[6], in[2], noise_contrastive),
                                    sampled_softmax_loss(in[0], in[1], in[6], in[2], sampled)};
                   },
                   Nearness::summed,
                   Types::given});
}

}  // namespace

AgreementCases loss_agreement_cases() {
  AgreementCases cases;
  add_cross_entropy(cases);
  add_margins(cases);
  add_sequences(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on losses", "[gpu][agreement]") { tests::check_agreement(&tests::loss_agreement_cases); }
