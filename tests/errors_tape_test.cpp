// Misuse of tapes, models and settings: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

#include <thread>

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_tape_test.cpp";
const std::string floating = "; it must be a floating type.";

}  // namespace

TEST_CASE("a tape refuses what it cannot follow or answer", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f, 3.0f}, integers = {1, 2, 3}, pair = {1.0f, 2.0f};
  const std::string gradient = "GradientTape::gradient: ";
  const std::string off =
      " is not on the tape; it must be computed, while the tape records, from a watched tensor or a Parameter.";
  const std::string only = "; gradients exist for floating types only.";
  const std::vector<Tensor> sources = {x}, one_weight = {x};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = x * x;
  const std::int64_t size = tape.size();
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { tape.watch(integers); },
       "GradientTape::watch: the tensor is int32" + only},
      {__LINE__, message_of<TapeError>, [&] { tape.gradient(pair, x); },
       gradient + "the target of shape [2]" + off},
      {__LINE__, message_of<TapeError>, [&] { tape.gradient(stop_gradient(y), x); },
       gradient + "the target of shape [3]" + off},
      {__LINE__, message_of<DTypeError>, [&] { tape.gradient(argmax(x), x); },
       gradient + "a target is int64" + only},
      {__LINE__, message_of<DTypeError>, [&] { tape.gradient(y, integers); },
       gradient + "a source is int32" + only},
      {__LINE__, message_of<ShapeError>, [&] { tape.gradient(y, x, {.output_gradient = pair}); },
       gradient + "the output gradient is [2] and the target [3]; the shapes must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { tape.gradient({y, y}, sources, one_weight); },
       gradient + "there are 1 output gradients and 2 targets; give one for each, or none."},
      {__LINE__, message_of<Error>, [&] { tape.gradient(Tensor(), x); },
       gradient + "the tensor is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [&] { tape.watch(Tensor()); },
       "GradientTape::watch: the tensor is undefined; give it a value first."},
  }, file);
  CHECK(tape.size() == size);
  CHECK(same(tape.gradient(y, x), {2.0f, 4.0f, 6.0f}));  // the tape is as good as before
}

TEST_CASE("of a list that cannot be watched nothing is", "[errors][tape]") {
  const Tensor x = {1.0f}, integers = {1};
  GradientTape tape;
  CHECK_THROWS_AS(tape.watch({x, integers}), DTypeError);
  CHECK_FALSE(tape.follows(x));
}

TEST_CASE("a spent tape refuses a second gradient and anything more to watch", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  const int made = __LINE__ + 1;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape.gradient(y, x);
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { tape.gradient(y, x); },
       "GradientTape::gradient: gradient was called before on this tape, made at " + file + ":" + std::to_string(made) +
           "; only a persistent tape ({.persistent = true}) allows a second call."},
      {__LINE__, message_of<TapeError>, [&] { tape.watch(x); },
       "GradientTape::watch: the tape has computed its gradient and records no more; make it persistent, or reset it."},
  }, file);
}

TEST_CASE("a moved-from tape refuses everything but assignment", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  const GradientTape elsewhere = std::move(tape);
  const std::string rest = ": the tape was moved from; only assigning to it and destroying it are allowed.";
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { tape.watch(x); }, "GradientTape::watch" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.gradient(x, x); }, "GradientTape::gradient" + rest},
      {__LINE__, message_of<TapeError>, [&] { tape.reset(); }, "GradientTape::reset" + rest},
      {__LINE__, message_of<TapeError>, [&] { (void)tape.stop_recording(); }, "GradientTape::stop_recording" + rest},
  }, file);
  CHECK(tape.size() == 0);
  CHECK_FALSE(tape.recording());
}

TEST_CASE("at most 32 tapes record on one thread", "[errors][tape]") {
  std::vector<GradientTape> tapes(32);
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { GradientTape one_more; },
       "GradientTape: 32 tapes live on this thread already; at most that many can."},
  }, file);
}

TEST_CASE("a saved value that was changed in place is named with both lines", "[errors][tape]") {
  Tensor x = {1.0f, 2.0f};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const int squared = __LINE__ + 1;
  const Tensor y = square(x);
  const int filled = __LINE__ + 1;
  x.fill(7);
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { tape.gradient(y, x); },
       "GradientTape::gradient: a value that square at " + file + ":" + std::to_string(squared) +
           " saved was changed in place at " + file + ":" + std::to_string(filled) +
           "; change a copy, or change it after the gradient."},
  }, file);
}

TEST_CASE("a change in place that would go past a tape is refused at once", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  GradientTape tape;
  tape.watch(x);
  Tensor y = x * x, plain = zeros({2});
  const std::int64_t size = tape.size();
  const std::string past =
      ": a tape follows this tensor of shape [2], and a change in place would go past it; change a copy, or pause the "
      "tape with stop_recording().";
  const std::string value =
      ": a tape follows the value, and writing it into another tensor would go past it; build the result with where, "
      "concat or stack, or write stop_gradient(value).";
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { y.fill(1); }, "fill" + past},
      {__LINE__, message_of<TapeError>, [&] { y.assign(plain); }, "assign" + past},
      {__LINE__, message_of<TapeError>, [&] { y.index_put({0}, 1); }, "index_put" + past},
      {__LINE__, message_of<TapeError>, [&] { plain.assign(y); }, "assign" + value},
      {__LINE__, message_of<TapeError>, [&] { plain.index_put({all}, y); }, "index_put" + value},
      {__LINE__, message_of<TapeError>, [&] { y += 1; }, "operator+=" + past},
      {__LINE__, message_of<TapeError>, [&] { plain += y; }, "operator+=" + value},
      {__LINE__, message_of<TapeError>, [&] { optim::Sgd({y}).apply(std::vector<Tensor>{plain}); }, "Sgd" + past},
  }, file);
  CHECK(same(y, {1.0f, 4.0f}));
  CHECK(same(plain, {0.0f, 0.0f}));
  CHECK(tape.size() == size);
  plain.assign(stop_gradient(y));  // as the message says
  CHECK(same(plain, {1.0f, 4.0f}));
  CHECK(same(tape.gradient(y, x), {2.0f, 4.0f}));
}

TEST_CASE("a tape refuses calls from another thread", "[errors][tape]") {
  const Tensor x = {1.0f, 2.0f};
  const int made = __LINE__ + 1;
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = x * x;
  unsigned line = 0;
  std::string what;
  std::thread([&] {
    try {
      line = __LINE__ + 1;
      tape.gradient(y, x);
    } catch (const TapeError& error) {
      what = error.what();
    }
  }).join();
  const Message message = split_message(what);
  CHECK(message.text == "GradientTape::gradient: the tape was made on another thread at " + file + ":" +
                            std::to_string(made) + "; a tape records its own thread and is used there.");
  CHECK(message.line == line);
  CHECK(same(tape.gradient(y, x), {2.0f, 4.0f}));
}

TEST_CASE("models refuse sizes and inputs that do not fit", "[errors][nn]") {
  const nn::Linear layer{4, 5};
  nn::RnnCell cell{3, 4};
  const Tensor x = zeros({2, 3}), sequence = zeros({2, 5, 3});
  using Options = nn::UnrollOptions<nn::RnnCell::State>;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::Linear(0, 3); },
       "Linear: 0 inputs and 3 outputs were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { layer(x); },
       "linear: inner sizes differ: a is [2, 3] and b is [4, 5]; a.size(1) = 3 must equal b.size(0) = 4."},
      {__LINE__, message_of<Error>, [&] { nn::Dropout({.keep = 0}); }, "Dropout: keep is 0; it must be in (0, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::RnnCell(3, 0); },
       "RnnCell: 3 inputs and 0 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, zeros({4})); },
       "unroll: the input is [4]; it must be [batch, time, ...] with one step or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, zeros({2, 0, 3})); },
       "unroll: the input is [2, 0, 3]; it must be [batch, time, ...] with one step or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(cell, sequence, Options{.lengths = Tensor{1, 2, 3}}); },
       "unroll: the lengths are [3]; with an input of [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<DTypeError>, [&] { nn::unroll(cell, sequence, Options{.lengths = zeros({2})}); },
       "unroll: the lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<DTypeError>, [&] { Parameter(Tensor{1, 2}); }, "Parameter: the tensor is int32" + floating},
  }, file);
}

TEST_CASE("a parameter refuses values of another shape or type", "[errors][nn]") {
  Parameter p(Tensor{1.0f, 2.0f});
  const Parameter longer(Tensor{1.0f, 2.0f, 3.0f}), finer(Tensor{1.0, 2.0});
  check_errors({
      {kNoPlace, message_of<ShapeError>, [&] { p = longer; },
       "Parameter::operator=: the parameter is [2] and the other [3]; the shapes must be equal."},
      {kNoPlace, message_of<DTypeError>, [&] { p = finer; },
       "Parameter::operator=: the parameter is float32 and the other float64; the types must be equal."},
  }, file);
  CHECK(same(p, {1.0f, 2.0f}));
}

TEST_CASE("settings refuse what cannot be", "[errors]") {
  check_errors({
      {__LINE__, message_of<Error>, [] { set_threads(0); },
       "set_threads: 0 threads were asked for; the count must be at least 1."},
      {__LINE__, message_of<Error>, [] { memory::set_limit(cpu(), -1); },
       "memory::set_limit: -1 bytes were asked for; the limit must be >= 0."},
      {__LINE__, message_of<Error>, [] { memory::set_cache_limit(cpu(), -1); },
       "memory::set_cache_limit: -1 bytes were asked for; the limit must be >= 0."},
  }, file);
}
