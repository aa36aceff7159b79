// Bad input to connectionist temporal classification: the right exception, word for word, the operands as they were,
// and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_ctc_test.cpp";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string integer = ": the tensor is int32; it must be a floating type.";

/// Operands of the tables below, the same in each test: two sequences of four steps and three classes.
struct Operands {
  Tensor x = zeros({2, 4, 3});
  Tensor targets = {{1, 2}, {2, 1}};
  Tensor joined = {1, 2, 2, 1};
  Tensor lengths = {2, 2};
  Tensor floats = {2.0f, 2.0f};
  Tensor three = {1, 1, 1};
  Tensor none;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, zeros({2, 4, 3})));
    CHECK(same(targets, {{1, 2}, {2, 1}}));
    CHECK(same(lengths, {2, 2}));
    for (const Tensor& t : {x, targets, joined, lengths, floats, three}) CHECK(t.version() == 0);
  }
};

}  // namespace

TEST_CASE("the loss of alignments refuses what are no log-probabilities, and no blank", "[errors][ctc]") {
  const Operands o;
  const Tensor flat = zeros({4, 3});
  const CtcOptions logits = {.from_logits = true, .time_major = true};
  check_errors({
      {__LINE__, message_of<Error>, [&] { ctc_loss(o.none, o.targets); }, "ctc_loss" + undefined},
      {__LINE__, message_of<Error>, [&] { ctc_loss(o.x, o.none); }, "ctc_loss" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { ctc_loss(o.targets, o.targets); }, "ctc_loss" + integer},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(flat, o.targets); },
       "ctc_loss: the log-probabilities are [4, 3]; they must be [batch, time, classes]."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(flat, o.targets, {}, {}, logits); },
       "ctc_loss: the logits are [4, 3]; they must be [time, batch, classes]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.targets, {}, {}, {.blank = 3}); },
       "ctc_loss: the blank is 3 and there are 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.targets, {}, {}, {.blank = -1}); },
       "ctc_loss: the blank is -1 and there are 3 classes; it must be in [0, 3)."},
  }, file);
}

TEST_CASE("the loss of alignments refuses lengths that do not fit", "[errors][ctc]") {
  const Operands o;
  const Tensor long_one = {2, 5}, negative = {-1, 2}, too_many = {3, 1}, too_few = {2, 1};
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { ctc_loss(o.x, o.targets, o.floats); },
       "ctc_loss: the input lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<DTypeError>, [&] { ctc_loss(o.x, o.targets, {}, o.floats); },
       "ctc_loss: the target lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, o.targets, o.three); },
       "ctc_loss: the input lengths are [3] and the batch has 2 sequences; they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, o.targets, {}, o.targets); },
       "ctc_loss: the target lengths are [2, 2] and the batch has 2 sequences; they must be [2]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.targets, long_one); },
       "ctc_loss: input length 5 of sequence 1 is out of range for 4 steps; it must be in [0, 4]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.targets, negative); },
       "ctc_loss: input length -1 of sequence 0 is out of range for 4 steps; it must be in [0, 4]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.targets, {}, too_many); },
       "ctc_loss: target length 3 of sequence 0 is out of range for 2 labels; it must be in [0, 2]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, o.joined, {}, negative); },
       "ctc_loss: target length -1 of sequence 0 is out of range for 4 labels; it must be in [0, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, o.joined, {}, too_few); },
       "ctc_loss: the target lengths add up to 3 and the targets are [4]; there must be as many labels."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, o.joined); },
       "ctc_loss: the targets are [4] and there are no target lengths; with all labels in one axis there must be."},
  }, file);
}

TEST_CASE("the loss of alignments refuses targets that do not fit", "[errors][ctc]") {
  const Operands o;
  const Tensor no_class = {{1, 3}, {2, 1}}, below = {{1, 2}, {-1, 1}}, blank = {{1, 2}, {2, 0}};
  const Tensor rows = {{1, 2}, {2, 1}, {1, 1}}, cube = zeros({2, 2, 1}, {.dtype = DType::int64});
  const Tensor same_labels = {{2, 2, 2}, {1, 2, 1}}, three_steps = {3, 1};
  const Tensor reals = zeros({2, 2});
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { ctc_loss(o.x, reals); },
       "ctc_loss: the targets are float32; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, rows); },
       "ctc_loss: the targets are [3, 2] and the batch has 2 sequences; "
       "they must be [2, labels], or the labels of all sequences in one axis."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, cube); },
       "ctc_loss: the targets are [2, 2, 1] and the batch has 2 sequences; "
       "they must be [2, labels], or the labels of all sequences in one axis."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, no_class); },
       "ctc_loss: label 3 in place 1 of sequence 0 is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, below); },
       "ctc_loss: label -1 in place 0 of sequence 1 is out of range for 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { ctc_loss(o.x, blank); },
       "ctc_loss: label 0 in place 1 of sequence 1 is the blank; labels must be other classes."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, same_labels); },
       "ctc_loss: the 3 labels of sequence 0 take 5 steps, one each and one for a blank between equal ones, "
       "and its input has 4; it must have as many, unless options.infeasible says what the loss is."},
      {__LINE__, message_of<ShapeError>, [&] { ctc_loss(o.x, o.targets, three_steps); },
       "ctc_loss: the 2 labels of sequence 1 take 2 steps, one each and one for a blank between equal ones, "
       "and its input has 1; it must have as many, unless options.infeasible says what the loss is."},
  }, file);
}

TEST_CASE("a refused loss leaves a tape as it was", "[errors][ctc]") {
  const Operands o;
  GradientTape tape;
  tape.watch(o.x);
  CHECK_THROWS_AS(ctc_loss(o.x, o.targets, {}, {}, {.blank = 1}), IndexError);
  CHECK(tape.size() == 0);
}

TEST_CASE("more classes than any memory holds are refused, or are none", "[errors][ctc]") {
  constexpr std::int64_t many = std::int64_t{1} << 59;
  const Tensor wide = broadcast_to(zeros({1, 1, 1}), {1, 1, many}), nobody = zeros({0, 1, many});
  CHECK_THROWS_AS(ctc_beam_search_decode(wide), OutOfMemoryError);
  CHECK(ctc_beam_search_decode(nobody).lengths.shape() == Shape{0, 1});
  GradientTape tape;
  tape.watch(nobody);
  const Tensor loss = ctc_loss(nobody, zeros({0, 1}, {.dtype = DType::int64}), {}, {}, {.reduction = Reduction::sum});
  CHECK(tape.gradient(loss, nobody).shape() == nobody.shape());
}

TEST_CASE("decoders refuse what they cannot decode", "[errors][ctc]") {
  const Operands o;
  const Tensor flat = zeros({4, 3}), long_one = {2, 5};
  check_errors({
      {__LINE__, message_of<Error>, [&] { ctc_greedy_decode(o.none); }, "ctc_greedy_decode" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { ctc_greedy_decode(o.targets); }, "ctc_greedy_decode" + integer},
      {__LINE__, message_of<ShapeError>, [&] { ctc_greedy_decode(flat); },
       "ctc_greedy_decode: the log-probabilities are [4, 3]; they must be [batch, time, classes]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_greedy_decode(o.x, {}, {.blank = 7}); },
       "ctc_greedy_decode: the blank is 7 and there are 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<IndexError>, [&] { ctc_greedy_decode(o.x, long_one); },
       "ctc_greedy_decode: input length 5 of sequence 1 is out of range for 4 steps; it must be in [0, 4]."},
      {__LINE__, message_of<Error>, [&] { ctc_beam_search_decode(o.none); }, "ctc_beam_search_decode" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { ctc_beam_search_decode(o.targets); },
       "ctc_beam_search_decode" + integer},
      {__LINE__, message_of<ShapeError>, [&] { ctc_beam_search_decode(o.x, o.three); },
       "ctc_beam_search_decode: the input lengths are [3] and the batch has 2 sequences; they must be [2]."},
      {__LINE__, message_of<IndexError>, [&] { ctc_beam_search_decode(o.x, {}, {.blank = -1}); },
       "ctc_beam_search_decode: the blank is -1 and there are 3 classes; it must be in [0, 3)."},
      {__LINE__, message_of<Error>, [&] { ctc_beam_search_decode(o.x, {}, {.beams = 0}); },
       "ctc_beam_search_decode: beams is 0; it must be in [1, 1048576]."},
      {__LINE__, message_of<Error>, [&] { ctc_beam_search_decode(o.x, {}, {.beams = std::int64_t{1} << 40}); },
       "ctc_beam_search_decode: beams is 1099511627776; it must be in [1, 1048576]."},
      {__LINE__, message_of<Error>, [&] { ctc_beam_search_decode(o.x, {}, {.beams = 2, .top_paths = 3}); },
       "ctc_beam_search_decode: top_paths is 3 and beams 2; it must be in [1, 2]."},
      {__LINE__, message_of<Error>, [&] { ctc_beam_search_decode(o.x, {}, {.top_paths = 0}); },
       "ctc_beam_search_decode: top_paths is 0 and beams 100; it must be in [1, 100]."},
  }, file);
}
