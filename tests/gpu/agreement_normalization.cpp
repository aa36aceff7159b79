// Rows, channels and groups of them brought to mean 0 and variance 1, on a GPU and on the CPU.
#include "tests/gpu/agreement.hpp"

using namespace capstan;

namespace tests {

namespace {

void add_rows(AgreementCases& cases) {
  const std::vector<std::string> slots = {"layer_norm", "layer_norm_backward"};
  for (const Shape& shape :
       {Shape{7, 5}, Shape{3, 32}, Shape{4, 257}, Shape{3, 260}, Shape{2, 1500}, Shape{700, 12}, Shape{0, 6}})
    cases.push_back({"layer normalization of " + to_string(shape),
                     slots,
                     {noise(shape, 1) + 3, noise({shape[1]}, 2), noise({shape[1]}, 3)},
                     [](const Tensors& in) {
                       return Tensors{layer_norm(in[0], 1, in[1], in[2]), rms_norm(in[0], 1, in[1])};
                     },
                     Nearness::summed});
  for (const Shape& shape : {Shape{2, 4099}, Shape{2, 4100}, Shape{2, 9000}})
    cases.push_back({"layer normalization of long rows " + to_string(shape),
                     slots,
                     {noise(shape, 4) + 1, noise({shape[1]}, 5), noise({shape[1]}, 6)},
                     [](const Tensors& in) {
                       return Tensors{layer_norm(in[0], 1, in[1], in[2]), rms_norm(in[0], 1, in[1])};
                     },
                     Nearness::summed,
                     Types::wide});
  cases.push_back({"layer normalization without weights, over several axes, and of views",
                   slots,
                   {noise({6, 4, 5}, 7), noise({4, 5}, 8), noise({6}, 9)},
                   [](const Tensors& in) {
                     return Tensors{layer_norm(in[0]),
                                    layer_norm(in[0], {4, 5}, in[1]),
                                    layer_norm(in[0], 3),
                                    layer_norm(in[0], 2, Tensor(), in[1]),
                                    rms_norm(in[0], {4, 5}),
                                    layer_norm(transpose(in[0]), 1, in[2], in[2]),
                                    rms_norm(flip(in[0]), 2, transpose(transpose(in[1])))};
                   },
                   Nearness::summed});
  cases.push_back(
      {"layer normalization of a large mean, of equal values, and of what is not finite",
       slots,
       {noise({5, 40}, 10) + 1000, full({3, 12}, 2.5, {.dtype = DType::float64}), with_specials({4, 5}, 11)},
       [](const Tensors& in) {
         const NoGrad off;
         return Tensors{layer_norm(in[0]), layer_norm(in[1]), rms_norm(in[1]), layer_norm(in[2])};
       },
       Nearness::summed,
       Types::wide});
  cases.push_back(
      {"16-bit rows with weights in float32",
       slots,
       {noise({5, 24}, 12).to(DType::float16), noise({24}, 13).to(DType::float32), noise({24}, 14).to(DType::float32)},
       [](const Tensors& in) { return Tensors{layer_norm(in[0], 1, in[1], in[2])}; },
       Nearness::summed,
       Types::given});
}

void add_batches(AgreementCases& cases) {
  const std::vector<std::string> slots = {"batch_norm_training", "batch_norm_backward"};
  for (const Shape& shape :
       {Shape{9, 5}, Shape{4, 3, 7}, Shape{3, 5, 6, 7}, Shape{2, 3, 70, 80}, Shape{300, 4}, Shape{2, 3, 2, 3, 2}})
    cases.push_back({"batch normalization of " + to_string(shape),
                     slots,
                     {noise(shape, 21) + 2, noise({shape[1]}, 22), noise({shape[1]}, 23)},
                     [](const Tensors& in) {
                       const BatchNormResult all_three = batch_norm_training(in[0], in[1], in[2]),
                                             plain = batch_norm_training(in[0]);
                       return Tensors{all_three.output, all_three.mean, all_three.variance, plain.output};
                     },
                     Nearness::summed,
                     shape.numel() > 10000 ? Types::wide : Types::floating});
  cases.push_back({"batch normalization by given statistics",
                   {"batch_norm", "batch_norm_backward"},
                   {noise({3, 5, 6, 7}, 24), noise({5}, 25), random_in(0.3, 2, {5}, DType::float64, 26), noise({5}, 27),
                    noise({5}, 28), noise({0, 5}, 29)},
                   [](const Tensors& in) {
                     return Tensors{batch_norm(in[0], in[1], in[2], in[3], in[4]), batch_norm(in[0], in[1], in[2]),
                                    batch_norm(transpose(in[0], 2, 3), in[1], in[2], in[3]),
                                    batch_norm(in[5], in[1], in[2])};
                   },
                   Nearness::summed});
  cases.push_back({"batch normalization of nothing, and of a large mean",
                   slots,
                   {noise({0, 3}, 30), noise({40, 3}, 31) + 1000},
                   [](const Tensors& in) {
                     const BatchNormResult none = batch_norm_training(in[0]), large = batch_norm_training(in[1]);
                     return Tensors{none.output, none.mean, none.variance, large.output, large.variance};
                   },
                   Nearness::summed,
                   Types::wide});
}

void add_groups(AgreementCases& cases) {
  const std::vector<std::string> slots = {"group_norm", "group_norm_backward"};
  for (const Shape& shape : {Shape{4, 6}, Shape{3, 6, 7}, Shape{2, 6, 5, 9}, Shape{1, 6, 60, 61}})
    for (const std::int64_t groups : {1, 2, 6}) {
      if (groups == shape[1] && shape.rank() == 2) continue;  // groups of one value
      cases.push_back({"group normalization of " + to_string(shape) + " in " + std::to_string(groups),
                       slots,
                       {noise(shape, 41) + 2, noise({6}, 42), noise({6}, 43)},
                       [groups](const Tensors& in) {
                         return Tensors{group_norm(in[0], groups, in[1], in[2]), group_norm(in[0], groups)};
                       },
                       Nearness::summed,
                       shape.numel() > 10000 ? Types::wide : Types::floating});
    }
  cases.push_back({"instance normalization, and groups of views",
                   slots,
                   {noise({2, 4, 5, 6}, 44), noise({4}, 45), noise({4}, 46), noise({0, 4, 5}, 47)},
                   [](const Tensors& in) {
                     return Tensors{instance_norm(in[0], in[1], in[2]), instance_norm(transpose(in[0], 2, 3)),
                                    group_norm(transpose(in[0], 0, 1), 2), group_norm(in[3], 2, in[1], in[2])};
                   },
                   Nearness::summed});
}

void add_others(AgreementCases& cases) {
  cases.push_back({"local response normalization",
                   {"response_norm", "response_norm_backward"},
                   {noise({2, 7, 4, 5}, 51) * 3, noise({3, 2, 6}, 52)},
                   [](const Tensors& in) {
                     return Tensors{local_response_norm(in[0], 3, {.alpha = 0.1, .beta = 0.75, .k = 2}),
                                    local_response_norm(in[0], 4), local_response_norm(in[1], 5, {.alpha = 1}),
                                    local_response_norm(transpose(in[0], 2, 3), 1)};
                   },
                   Nearness::summed});
  cases.push_back(
      {"vectors of length 1",
       {"reduce", "binary"},
       {noise({6, 40}, 53), zeros({3, 4}, {DType::float64})},
       [](const Tensors& in) {
         return Tensors{normalize(in[0]), normalize(in[0], 1, 0), normalize(in[0], kInfinity), normalize(in[1])};
       },
       Nearness::summed});
}

}  // namespace

AgreementCases normalization_agreement_cases() {
  AgreementCases cases;
  add_rows(cases);
  add_batches(cases);
  add_groups(cases);
  add_others(cases);
  return cases;
}

}  // namespace tests

TEST_CASE("GPU and CPU agree on normalization", "[gpu][agreement]") {
  tests::check_agreement(&tests::normalization_agreement_cases);
}
