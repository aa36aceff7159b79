// Uses of losses of sequences and of large vocabularies whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }
Tensor positive(const Shape& shape, std::uint64_t seed) { return random_in(0.2, 2, shape, DType::float64, seed); }

Tensor grid() { return {{3, 0, 1}, {2, 2, 0}}; }

void add_sequences(std::vector<GradientCase>& cases) {
  for (const bool timesteps : {true, false})
    for (const bool batch : {true, false})
      cases.push_back(
          {"sequence_loss",
           std::string("averaged over time ") + (timesteps ? "yes" : "no") + ", batch " + (batch ? "yes" : "no"),
           [=](const Tensors& in) {
             return sequence_loss(
                 in[0], grid(),
                 {.weight = in[1], .average_across_timesteps = timesteps, .average_across_batch = batch});
           },
           {random({2, 3, 4}, 681), positive({2, 3}, 682)}});
  cases.push_back({"sequence_loss",
                   "time-major, without weights",
                   [](const Tensors& in) { return sequence_loss(in[0], transpose(grid()), {.time_major = true}); },
                   {random({3, 2, 4}, 683)}});
  // steps and a whole example that are left out, with targets that are no class
  const Tensor padded = {{3, -1, 1}, {-1, -1, -1}};
  const Tensor mask = {{1.0, 0.0, 2.0}, {0.0, 0.0, 0.0}};
  cases.push_back(
      {"sequence_loss",
       "steps left out",
       [=](const Tensors& in) { return sequence_loss(in[0], padded, {.weight = mask, .average_across_batch = false}); },
       {random({2, 3, 4}, 684)}});
  cases.push_back({"sequence_loss",
                   "of nothing",
                   [](const Tensors& in) {
                     return sequence_loss(in[0], zeros({2, 0}, {DType::int64}));
                   },
                   {random({2, 0, 4}, 685)}});
  for (const bool timesteps : {true, false})
    cases.push_back({"sequence_loss_by_example",
                     timesteps ? "averaged over time" : "sums over time",
                     [=](const Tensors& in) {
                       return sequence_loss_by_example(in[0], grid(),
                                                       {.weight = in[1], .average_across_timesteps = timesteps});
                     },
                     {strided(random({2, 3, 4}, 686)), positive({2, 3}, 687)}});
}

/// Of 6 classes, 2 candidates are targets of a row, and one class is drawn twice.
Candidates candidates(std::int64_t true_classes) {
  return {.sampled = Tensor{4, 1, 0, 4},
          .true_expected = random_in(0.1, 0.9, {3, true_classes}, DType::float64, 688),
          .sampled_expected = random_in(0.1, 0.9, {4}, DType::float64, 689)};
}
Tensor targets(std::int64_t true_classes) {
  return true_classes == 1 ? Tensor{{2}, {1}, {5}} : Tensor{{2, 3}, {1, 2}, {0, 5}};
}

void add_sampled(std::vector<GradientCase>& cases) {
  const Tensor weights = random({6, 2}, 690), biases = random({6}, 691), inputs = random({3, 2}, 692);
  for (const std::int64_t n : {1, 2})
    for (const bool remove : {true, false}) {
      const std::string usage = std::to_string(n) + " true classes, hits " + (remove ? "removed" : "kept") +
                                (n == 1 ? "" : ", without log q");
      const Candidates chosen = candidates(n);
      cases.push_back({"nce_loss",
                       usage,
                       [=](const Tensors& in) {
                         return nce_loss(
                             in[0], in[1], targets(n), in[2],
                             {.candidates = chosen, .remove_accidental_hits = remove, .subtract_log_q = n == 1});
                       },
                       {weights, biases, inputs}});
      cases.push_back({"sampled_softmax_loss",
                       usage,
                       [=](const Tensors& in) {
                         return sampled_softmax_loss(
                             in[0], in[1], targets(n), in[2],
                             {.candidates = chosen, .remove_accidental_hits = remove, .subtract_log_q = n == 1});
                       },
                       {weights, biases, inputs}});
    }
  cases.push_back(
      {"nce_loss",
       "no biases",
       [](const Tensors& in) { return nce_loss(in[0], Tensor(), targets(2), in[1], {.candidates = candidates(2)}); },
       {weights, inputs}});
  cases.push_back({"sampled_softmax_loss",
                   "no biases",
                   [](const Tensors& in) {
                     return sampled_softmax_loss(in[0], Tensor(), targets(2), in[1], {.candidates = candidates(2)});
                   },
                   {weights, inputs}});
}

}  // namespace

std::vector<GradientCase> sampled_gradient_cases() {
  std::vector<GradientCase> cases;
  add_sequences(cases);
  add_sampled(cases);
  return cases;
}

}  // namespace tests
