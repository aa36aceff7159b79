// Bad input to losses of sequences and of large vocabularies: the right exception, word for word, the operands, the
// tape and the generator as they were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_sampled_test.cpp";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string integer = ": the tensor is int32; it must be a floating type.";

/// Operands of sequence losses.
struct Sequences {
  Tensor logits = random_in(-1, 1, {2, 3, 4}, DType::float32, 661);
  Tensor targets = {{0, 1, 2}, {3, 0, 4}};  // the last is no class
  Tensor good = {{0, 1, 2}, {3, 0, 3}};
  Tensor weight = ones({2, 3});
  Tensor none;
};

/// Operands of sampled losses: 5 classes, 3 features, a batch of 2.
struct Layer {
  Tensor weights = random_in(-1, 1, {5, 3}, DType::float32, 662), biases = zeros({5}), inputs = ones({2, 3});
  Tensor targets = {{0, 1}, {4, 2}};
  Candidates candidates{.sampled = Tensor{1, 3, 2},
                        .true_expected = full({2, 2}, 0.5),
                        .sampled_expected = full({3}, 0.5)};
  Tensor none, integers = zeros({5, 3}, {DType::int32});
};

using Loss = Tensor (*)(const Tensor& weights, const Tensor& biases, const Tensor& targets, const Tensor& inputs,
                        const Candidates& candidates, std::int64_t count);
struct Named {
  std::string name;
  Loss loss;
};
const Named losses[] = {
    {"nce_loss",
     [](const Tensor& w, const Tensor& b, const Tensor& t, const Tensor& x, const Candidates& c, std::int64_t n) {
       return nce_loss(w, b, t, x, {.candidates = c, .count = n});
     }},
    {"sampled_softmax_loss",
     [](const Tensor& w, const Tensor& b, const Tensor& t, const Tensor& x, const Candidates& c, std::int64_t n) {
       return sampled_softmax_loss(w, b, t, x, {.candidates = c, .count = n});
     }},
};

}  // namespace

TEST_CASE("sequence losses refuse what does not fit", "[errors][sequence_loss]") {
  const Sequences o;
  const Tensor matrix = ones({2, 3}), three = ones({3}), floats = o.good.to(DType::float32);
  const Tensor ignored = {{-100, 1, 2}, {3, 0, 3}}, short_targets = {{0, 1}, {2, 3}};
  const std::string without_classes = " must have the logits' shape without the last axis.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { sequence_loss(o.none, o.good); }, "sequence_loss" + undefined},
      {__LINE__, message_of<Error>, [&] { sequence_loss(o.logits, o.none); }, "sequence_loss" + undefined},
      {__LINE__, message_of<Error>, [&] { sequence_loss(o.logits, o.none, {.weight = o.weight}); },
       "sequence_loss" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { sequence_loss(o.good, o.good); }, "sequence_loss" + integer},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss(matrix, o.good); },
       "sequence_loss: the logits are [2, 3]; they must be [batch, time, classes]."},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss(matrix, o.good, {.time_major = true}); },
       "sequence_loss: the logits are [2, 3]; they must be [time, batch, classes]."},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss(o.logits, short_targets); },
       "sequence_loss: the logits are [2, 3, 4] and the labels [2, 2]; the labels" + without_classes},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss(o.logits, short_targets, {.weight = o.weight}); },
       "sequence_loss: the logits are [2, 3, 4] and the labels [2, 2]; the labels" + without_classes},
      {__LINE__, message_of<DTypeError>, [&] { sequence_loss(o.logits, floats); },
       "sequence_loss: the labels are float32; they must be int32 or int64."},
      {__LINE__, message_of<DTypeError>, [&] { sequence_loss(o.logits, floats, {.weight = o.weight}); },
       "sequence_loss: the labels are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss(o.logits, o.good, {.weight = three}); },
       "sequence_loss: the logits are [2, 3, 4] and the weight [3]; the weight" + without_classes},
      {__LINE__, message_of<DTypeError>, [&] { sequence_loss(o.logits, o.good, {.weight = o.good}); },
       "sequence_loss: the weight is int32; it must be bool or of a floating type."},
      {__LINE__, message_of<IndexError>, [&] { sequence_loss(o.logits, o.targets); },
       "sequence_loss: label 4 of row 5 is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<IndexError>, [&] { sequence_loss(o.logits, o.targets, {.weight = o.weight}); },
       "sequence_loss: label 4 of row 5 is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<IndexError>, [&] { sequence_loss(o.logits, ignored, {.weight = o.weight}); },
       "sequence_loss: label -100 of row 0 is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<IndexError>, [&] { sequence_loss_by_example(o.logits, o.targets); },
       "sequence_loss_by_example: label 4 of row 5 is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<ShapeError>, [&] { sequence_loss_by_example(o.logits, o.good, {.weight = three}); },
       "sequence_loss_by_example: the logits are [2, 3, 4] and the weight [3]; the weight" + without_classes},
  }, file);
}

TEST_CASE("candidates are refused for targets, counts and ranges that make no sense", "[errors][sampled]") {
  const Tensor targets = {{0, 1}, {4, 2}}, list = {0, 1}, floats = {{0.0f}}, none;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { log_uniform_candidates(targets, 6, 5); },
       "log_uniform_candidates: 6 different candidates were asked for, and there are 5 classes; "
       "the count must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { uniform_candidates(targets, 6, 5); },
       "uniform_candidates: 6 different candidates were asked for, and there are 5 classes; "
       "the count must not exceed them."},
      {__LINE__, message_of<ShapeError>, [&] { uniform_candidates(targets, -1, 5); },
       "uniform_candidates: -1 candidates were asked for; the count must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { uniform_candidates(targets, 3, 0, {.unique = false}); },
       "uniform_candidates: there are 0 classes to draw from; there must be one at least."},
      {__LINE__, message_of<IndexError>, [&] { log_uniform_candidates(targets, 2, 4); },
       "log_uniform_candidates: target 4 at [1, 0] is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<IndexError>, [&] { log_uniform_candidates(targets - 1, 2, 4); },
       "log_uniform_candidates: target -1 at [0, 0] is out of range for 4 classes; it must be in [0, 4)."},
      {__LINE__, message_of<ShapeError>, [&] { log_uniform_candidates(list, 2, 4); },
       "log_uniform_candidates: the targets are [2]; they must be [batch, true classes]."},
      {__LINE__, message_of<DTypeError>, [&] { log_uniform_candidates(floats, 2, 4); },
       "log_uniform_candidates: the targets are float32; they must be integers."},
      {__LINE__, message_of<Error>, [&] { log_uniform_candidates(none, 2, 4); }, "log_uniform_candidates" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { accidental_hits(list, list); },
       "accidental_hits: the targets are [2]; they must be [batch, true classes]."},
      {__LINE__, message_of<ShapeError>, [&] { accidental_hits(targets, targets); },
       "accidental_hits: the candidates are [2, 2]; they must be [count]."},
      {__LINE__, message_of<DTypeError>, [&] { accidental_hits(targets, floats); },
       "accidental_hits: the candidates are float32; they must be integers."},
      {__LINE__, message_of<Error>, [&] { accidental_hits(none, list); }, "accidental_hits" + undefined},
  }, file);
}

TEST_CASE("sampled losses refuse layers that do not fit", "[errors][sampled]") {
  const Layer o;
  const Tensor four = ones({2, 4}), three = ones({3}), row = ones({3}), list = {0, 1}, floats = ones({2, 1});
  const Tensor other_batch = {{0}, {1}, {2}}, no_true_class = zeros({2, 0}, {DType::int64}), outside = {{0, 1}, {5, 2}};
  std::vector<ErrorRow> rows;
  for (const Named& named : losses) {
    const std::string& name = named.name;
    const Loss f = named.loss;
    const auto refuse = [&](std::string (*catch_it)(const Call&), const Tensor& w, const Tensor& b, const Tensor& t,
                            const Tensor& x, const std::string& message) {
      rows.push_back({kNoPlace, catch_it, [f, w, b, t, x, &o] { f(w, b, t, x, o.candidates, 0); }, name + message});
    };
    refuse(message_of<Error>, o.none, o.biases, o.targets, o.inputs, undefined);
    refuse(message_of<Error>, o.weights, o.biases, o.none, o.inputs, undefined);
    refuse(message_of<Error>, o.weights, o.biases, o.targets, o.none, undefined);
    refuse(message_of<DTypeError>, o.integers, o.biases, o.targets, o.inputs, integer);
    refuse(message_of<DTypeError>, o.weights, o.integers, o.targets, o.inputs, integer);
    refuse(message_of<DTypeError>, o.weights, o.biases, o.targets, o.integers, integer);
    refuse(message_of<DTypeError>, o.weights, o.biases, floats, o.inputs,
           ": the targets are float32; they must be integers.");
    refuse(message_of<ShapeError>, row, o.biases, o.targets, o.inputs,
           ": the weights are [3]; they must be [classes, features].");
    refuse(message_of<ShapeError>, o.weights, three, o.targets, o.inputs,
           ": the biases are [3] and the weights [5, 3]; the biases must be [5].");
    refuse(message_of<ShapeError>, o.weights, o.biases, o.targets, four,
           ": the inputs are [2, 4] and the weights [5, 3]; the inputs must be [batch, 3].");
    refuse(message_of<ShapeError>, o.weights, o.biases, list, o.inputs,
           ": the targets are [2] and the inputs [2, 3]; the targets must be [2, true classes], one true class at least.");
    refuse(message_of<ShapeError>, o.weights, o.biases, other_batch, o.inputs,
           ": the targets are [3, 1] and the inputs [2, 3]; "
           "the targets must be [2, true classes], one true class at least.");
    refuse(message_of<ShapeError>, o.weights, o.biases, no_true_class, o.inputs,
           ": the targets are [2, 0] and the inputs [2, 3]; "
           "the targets must be [2, true classes], one true class at least.");
    refuse(message_of<IndexError>, o.weights, o.biases, outside, o.inputs,
           ": target 5 at [1, 0] is out of range for 5 classes; it must be in [0, 5).");
  }
  check_errors(rows, file);
}

TEST_CASE("sampled losses refuse candidates that do not fit", "[errors][sampled]") {
  const Layer o;
  std::vector<ErrorRow> rows;
  for (const Named& named : losses) {
    const std::string& name = named.name;
    const Loss f = named.loss;
    const auto refuse = [&](std::string (*catch_it)(const Call&), const Candidates& candidates, std::int64_t count,
                            const std::string& message) {
      rows.push_back({kNoPlace, catch_it,
                      [f, candidates, count, &o] { f(o.weights, o.biases, o.targets, o.inputs, candidates, count); },
                      name + message});
    };
    const Tensor &s = o.candidates.sampled, &of_true = o.candidates.true_expected;
    const Tensor &of_sampled = o.candidates.sampled_expected;
    refuse(message_of<Error>, {}, 0,
           ": there are no candidates, and the count to draw is 0; give candidates, or a count of 1 at least.");
    refuse(message_of<Error>, {}, -2,
           ": there are no candidates, and the count to draw is -2; give candidates, or a count of 1 at least.");
    refuse(message_of<Error>, o.candidates, 3,
           ": candidates are given, and a count of 3 to draw; give one of the two.");
    refuse(message_of<ShapeError>, {}, 6,
           ": 6 different candidates were asked for, and there are 5 classes; the count must not exceed them.");
    refuse(message_of<DTypeError>, {ones({3}), of_true, of_sampled}, 0,
           ": the candidates are float32; they must be integers.");
    refuse(message_of<ShapeError>, {o.targets, of_true, of_sampled}, 0,
           ": the candidates are [2, 2]; they must be [count].");
    refuse(message_of<IndexError>, {s + 2, of_true, of_sampled}, 0,
           ": candidate 5 at [1] is out of range for 5 classes; it must be in [0, 5).");
    refuse(message_of<Error>, {s, Tensor(), of_sampled}, 0, undefined);
    refuse(message_of<DTypeError>, {s, o.targets, of_sampled}, 0,
           ": the expected counts of the targets are int32; they must be of a floating type.");
    refuse(message_of<ShapeError>, {s, ones({2}), of_sampled}, 0,
           ": the expected counts of the targets are [2] and the targets [2, 2]; the shapes must be equal.");
    refuse(message_of<ShapeError>, {s, of_true, ones({4})}, 0,
           ": the expected counts of the candidates are [4] and the candidates [3]; the shapes must be equal.");
  }
  check_errors(rows, file);
}

TEST_CASE("sampled losses name their caller's line", "[errors][sampled]") {
  const Layer o;
  const SampledSoftmaxOptions six{.count = 6};
  check_errors({
      {__LINE__, message_of<Error>, [&] { nce_loss(o.weights, o.biases, o.targets, o.inputs, {}); },
       "nce_loss: there are no candidates, and the count to draw is 0; give candidates, or a count of 1 at least."},
      {__LINE__, message_of<ShapeError>, [&] { sampled_softmax_loss(o.weights, o.biases, o.targets, o.inputs, six); },
       "sampled_softmax_loss: 6 different candidates were asked for, and there are 5 classes; "
       "the count must not exceed them."},
  }, file);
}

TEST_CASE("a loss that throws leaves tape and generator as they were", "[errors][sampled][tape]") {
  const Layer o;
  const Sequences s;
  Rng rng(671);
  const RngState before = rng.state();
  GradientTape tape;
  tape.watch({o.weights, s.logits, s.weight});
  CHECK_THROWS_AS(sequence_loss(s.logits, s.targets, {.weight = s.weight}), IndexError);
  CHECK_THROWS_AS(log_uniform_candidates(o.targets, 6, 5, {}, rng), ShapeError);
  CHECK_THROWS_AS(log_uniform_candidates(o.targets, 2, 3, {}, rng), IndexError);
  CHECK_THROWS_AS(nce_loss(o.weights, o.biases, o.targets, o.inputs, {.count = 6}, rng), ShapeError);
  CHECK_THROWS_AS(sampled_softmax_loss(o.weights, o.biases, o.targets, ones({2, 4}), {.count = 2}, rng), ShapeError);
  CHECK(tape.size() == 0);
  CHECK(rng.state() == before);
}
