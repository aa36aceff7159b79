// Bad input to recurrent operations: the right exception, word for word, the operands as they were, and nothing leaked
// or recorded.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_recurrent_ops_test.cpp";
const std::string undefined = " is undefined; give it a value first.";
const std::string one_type = "; all must have one type.";

/// What fits together: batch 2, time 5, 3 inputs, 4 hidden units, and 2 of them behind the projection.
struct Operands {
  Tensor x = ones({2, 5, 3}), step = ones({2, 3}), h = ones({2, 4}), c = ones({2, 4}), short_h = ones({2, 2});
  RnnWeights simple{ones({3, 4}), ones({4, 4}), ones({4})};
  GruWeights gates{ones({3, 12}), ones({4, 12}), ones({12}), ones({4})};
  LstmWeights four{ones({3, 16}), ones({4, 16}), ones({16})};
  LstmWeights projected{ones({3, 16}), ones({2, 16}), ones({16}), ones({4, 2})};
  Tensor none = {};

  ~Operands() {  // nothing may have changed them
    for (const Tensor* t : {&x, &step, &h, &c, &short_h, &simple.wx, &gates.wh, &four.b, &projected.projection})
      CHECK(same(*t, ones(t->shape())));
  }
};

Tensor wide(const Tensor& x) { return x.to(DType::float64); }

}  // namespace

TEST_CASE("recurrent operations refuse operands that are undefined", "[errors][recurrent]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { rnn_cell(o.none, o.h, o.simple); }, "rnn_cell: the tensor" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn_cell(o.step, o.none, o.simple); }, "rnn_cell: h" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn(o.none, o.h, o.simple); }, "rnn: the tensor" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn(o.x, o.none, o.simple); }, "rnn: h0" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn(o.x, o.h, {o.none, o.simple.wh}); }, "rnn: wx" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn(o.x, o.h, {o.simple.wx, o.none}); }, "rnn: wh" + undefined},
      {__LINE__, message_of<Error>, [&] { gru_cell(o.step, o.none, o.gates); }, "gru_cell: h" + undefined},
      {__LINE__, message_of<Error>, [&] { gru(o.x, o.none, o.gates); }, "gru: h0" + undefined},
      {__LINE__, message_of<Error>, [&] { gru(o.x, o.h, {o.none, o.gates.wh}, false); }, "gru: wx" + undefined},
      {__LINE__, message_of<Error>, [&] { gru(o.x, o.h, {o.gates.wx, o.none}); }, "gru: wh" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm_cell(o.step, o.none, o.c, o.four); }, "lstm_cell: h" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm_cell(o.step, o.h, o.none, o.four); }, "lstm_cell: c" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm(o.x, o.none, o.c, o.four); }, "lstm: h0" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm(o.x, o.h, o.none, o.four); }, "lstm: c0" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm(o.x, o.h, o.c, {o.none, o.four.wh}); }, "lstm: wx" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm(o.x, o.h, o.c, {o.four.wx, o.none}); }, "lstm: wh" + undefined},
  }, file);
}

TEST_CASE("recurrent operations refuse operands of other types", "[errors][recurrent]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { rnn(o.x.to(DType::int32), o.h, o.simple); },
       "rnn: the tensor is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { lstm_cell(o.step.to(DType::bool8), o.h, o.c, o.four); },
       "lstm_cell: the tensor is bool; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { gru(wide(o.x), o.h, o.gates); },
       "gru: x is float64 and h0 is float32" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { gru_cell(o.step, wide(o.h), o.gates); },
       "gru_cell: x is float32 and h is float64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { lstm(o.x, o.h, wide(o.c), o.four); },
       "lstm: x is float32 and c0 is float64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { lstm_cell(o.step, o.h, o.c.to(DType::float16), o.four); },
       "lstm_cell: x is float32 and c is float16" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { rnn(o.x, o.h, {wide(o.simple.wx), o.simple.wh}); },
       "rnn: x is float32 and wx is float64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { rnn_cell(o.step, o.h, {o.simple.wx, o.simple.wh.to(DType::int64)}); },
       "rnn_cell: x is float32 and wh is int64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { rnn(o.x, o.h, {o.simple.wx, o.simple.wh, wide(o.simple.b)}); },
       "rnn: x is float32 and b is float64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { gru(o.x, o.h, {o.gates.wx, o.gates.wh, {}, wide(o.gates.bn)}); },
       "gru: x is float32 and bn is float64" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { lstm(o.x, o.short_h, o.c, {o.projected.wx, o.projected.wh, {}, wide(o.projected.projection)}); },
       "lstm: x is float32 and projection is float64" + one_type},
  }, file);
}

TEST_CASE("recurrent operations refuse an x that is no step and no sequence", "[errors][recurrent]") {
  const Operands o;
  const SequenceOptions turned{.time_major = true};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { rnn_cell(o.x, o.h, o.simple); }, "rnn_cell: x is [2, 5, 3]; it must be [batch, inputs]."},
      {__LINE__, message_of<ShapeError>, [&] { gru_cell(o.step[0], o.h, o.gates); }, "gru_cell: x is [3]; it must be [batch, inputs]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm_cell(Tensor(1.0f), o.h, o.c, o.four); }, "lstm_cell: x is []; it must be [batch, inputs]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.step, o.h, o.simple); },
       "rnn: x is [2, 3]; it must be [batch, time, inputs] with time >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { gru(expand_dims(o.x, 0), o.h, o.gates); },
       "gru: x is [1, 2, 5, 3]; it must be [batch, time, inputs] with time >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(zeros({2, 0, 3}), o.h, o.c, o.four); },
       "lstm: x is [2, 0, 3]; it must be [batch, time, inputs] with time >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(zeros({0, 2, 3}), o.h, o.c, o.four, turned); },
       "lstm: x is [0, 2, 3]; it must be [time, batch, inputs] with time >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.step, o.h, o.simple, Activation::relu, turned); },
       "rnn: x is [2, 3]; it must be [time, batch, inputs] with time >= 1."},
  }, file);
}

TEST_CASE("recurrent operations refuse weights that do not fit", "[errors][recurrent]") {
  const Operands o;
  const Tensor &wx = o.four.wx, &wh = o.four.wh, &b = o.four.b, &narrow_wh = o.projected.wh;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, {o.simple.wx, o.simple.wx}); }, "rnn: wh is [3, 4]; it must be [hidden, hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn_cell(o.step, o.h, {o.simple.wx, ones({4})}); }, "rnn_cell: wh is [4]; it must be [hidden, hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, {o.simple.wx, zeros({0, 0})}); }, "rnn: wh is [0, 0]; it must be [hidden, hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { gru(o.x, o.h, {o.gates.wx, ones({4, 13})}); }, "gru: wh is [4, 13]; it must be [hidden, 3 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { gru_cell(o.step, o.h, {o.gates.wx, ones({4, 9})}, false); },
       "gru_cell: wh is [4, 9]; it must be [hidden, 3 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, {wx, ones({4, 15})}); }, "lstm: wh is [4, 15]; it must be [hidden, 4 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.short_h, o.c, {wx, narrow_wh}); }, "lstm: wh is [2, 16]; it must be [hidden, 4 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.short_h, o.c, {wx, ones({2, 15}), b, o.projected.projection}); },
       "lstm: wh is [2, 15]; it must be [projected, 4 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm_cell(o.step, o.short_h, o.c, {wx, ones({2, 16, 1}), b, o.projected.projection}); },
       "lstm_cell: wh is [2, 16, 1]; it must be [projected, 4 * hidden]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, {o.simple.wh, o.simple.wh}); },
       "rnn: wx is [4, 4]; with x [2, 5, 3] and wh [4, 4] it must be [3, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { gru_cell(o.step, o.h, {o.simple.wx, o.gates.wh}); },
       "gru_cell: wx is [3, 4]; with x [2, 3] and wh [4, 12] it must be [3, 12]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, {transpose(wx), wh}); },
       "lstm: wx is [16, 3]; with x [2, 5, 3] and wh [4, 16] it must be [3, 16]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, {o.simple.wx, o.simple.wh, ones({3})}); },
       "rnn: b is [3]; with x [2, 5, 3] and wh [4, 4] it must be [4]."},
      {__LINE__, message_of<ShapeError>, [&] { gru(o.x, o.h, {o.gates.wx, o.gates.wh, o.gates.bn}); },
       "gru: b is [4]; with x [2, 5, 3] and wh [4, 12] it must be [12]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm_cell(o.step, o.h, o.c, {wx, wh, ones({1, 16})}); },
       "lstm_cell: b is [1, 16]; with x [2, 3] and wh [4, 16] it must be [16]."},
      {__LINE__, message_of<ShapeError>, [&] { gru(o.x, o.h, {o.gates.wx, o.gates.wh, o.gates.b, o.gates.b}); },
       "gru: bn is [12]; with x [2, 5, 3] and wh [4, 12] it must be [4]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.short_h, o.c, {wx, narrow_wh, b, ones({2, 4})}); },
       "lstm: projection is [2, 4]; with x [2, 5, 3] and wh [2, 16] it must be [4, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, {wx, wh, b, o.projected.projection}); },
       "lstm: projection is [4, 2]; with x [2, 5, 3] and wh [4, 16] it must be [4, 4]."},
      {__LINE__, message_of<Error>, [&] { gru(o.x, o.h, o.gates, false); },
       "gru: there is a bn of [4] and the reset gate comes before the product; bn must be undefined then."},
      {__LINE__, message_of<Error>, [&] { gru_cell(o.step, o.h, o.gates, false); },
       "gru_cell: there is a bn of [4] and the reset gate comes before the product; bn must be undefined then."},
  }, file);
}

TEST_CASE("recurrent operations refuse states and lengths that do not fit", "[errors][recurrent]") {
  const Operands o;
  const SequenceOptions turned{.time_major = true};
  const auto some = [](Tensor lengths) { return SequenceOptions{.lengths = std::move(lengths)}; };
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, ones({3, 4}), o.simple); },
       "rnn: h0 is [3, 4]; with x [2, 5, 3] and wh [4, 4] it must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, o.simple, Activation::tanh, turned); },
       "rnn: h0 is [2, 4]; with x [2, 5, 3] and wh [4, 4] it must be [5, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn_cell(o.step, o.h[0], o.simple); },
       "rnn_cell: h is [4]; with x [2, 3] and wh [4, 4] it must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { gru(o.x, expand_dims(o.h, 0), o.gates); },
       "gru: h0 is [1, 2, 4]; with x [2, 5, 3] and wh [4, 12] it must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, o.projected); },
       "lstm: h0 is [2, 4]; with x [2, 5, 3] and wh [2, 16] it must be [2, 2]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.short_h, o.short_h, o.projected); },
       "lstm: c0 is [2, 2]; with x [2, 5, 3] and wh [2, 16] it must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm_cell(o.step, o.h, ones({1, 4}), o.four); },
       "lstm_cell: c is [1, 4]; with x [2, 3] and wh [4, 16] it must be [2, 4]."},
      {__LINE__, message_of<DTypeError>, [&] { lstm(o.x, o.h, o.c, o.four, some(ones({2}))); },
       "lstm: the lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<DTypeError>, [&] { gru(o.x, o.h, o.gates, true, some(zeros({2}, {.dtype = DType::uint8}))); },
       "gru: the lengths are uint8; they must be int32 or int64."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, o.h, o.simple, Activation::tanh, some({1, 2, 3})); },
       "rnn: the lengths are [3]; with x [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, o.four, some({{1}, {2}})); },
       "lstm: the lengths are [2, 1]; with x [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, o.h, o.c, o.four, some(Tensor(2))); },
       "lstm: the lengths are []; with x [2, 5, 3] they must be [2]."},
      {__LINE__, message_of<IndexError>, [&] { rnn(o.x, o.h, o.simple, Activation::tanh, some({5, 6})); },
       "rnn: the length of row 1 is 6; with x [2, 5, 3] it must be in 0..5."},
      {__LINE__, message_of<IndexError>, [&] { gru(o.x, o.h, o.gates, true, some({-1, 9})); },
       "gru: the length of row 0 is -1; with x [2, 5, 3] it must be in 0..5."},
      {__LINE__, message_of<IndexError>, [&] { lstm(o.x, o.h, o.c, o.four, some(Tensor{std::int64_t{0}, std::int64_t{1} << 40})); },
       "lstm: the length of row 1 is 1099511627776; with x [2, 5, 3] it must be in 0..5."},
      {__LINE__, message_of<IndexError>, [&] { lstm(ones({4, 2, 3}), o.h, o.c, o.four, {.lengths = Tensor{4, 5}, .time_major = true}); },
       "lstm: the length of row 1 is 5; with x [4, 2, 3] it must be in 0..4."},
  }, file);
}

TEST_CASE("recurrent operations that fail leave nothing on a tape", "[errors][recurrent]") {
  const Operands o;
  const GruWeights before{o.gates.wx, o.gates.wh, o.gates.b};
  GradientTape tape;
  tape.watch({o.x, o.h, o.gates.wx, o.four.wx, o.simple.wx});
  CHECK_THROWS_AS(rnn(o.x, o.h, o.simple, Activation::tanh, {.lengths = Tensor{6, 1}}), IndexError);
  CHECK_THROWS_AS(gru(o.x, o.h, o.gates, true, {.lengths = Tensor{5, -1}}), IndexError);
  CHECK_THROWS_AS(gru(o.x, o.h, before, false, {.lengths = Tensor{5, -1}}), IndexError);
  CHECK_THROWS_AS(gru(o.x, o.short_h, before, false), ShapeError);
  CHECK_THROWS_AS(lstm(o.x, o.h, o.short_h, o.four), ShapeError);
  CHECK(tape.size() == 0);
}
