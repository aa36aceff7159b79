// Bad input to recurrent cells: the right exception, word for word, and the operands as they were.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_cells_test.cpp";
const std::string undefined = " is undefined; give it a value first.";
const std::string one_type = "; all must have one type.";
const std::string no_limit = "; it must be finite and above 0, or 0 for no limit.";

/// Operands of the tables below: cells have 3 inputs and 4 units.
struct Operands {
  Tensor x = ones({2, 3}), xs = ones({2, 5, 3}), h = ones({2, 4}), other = ones({3, 4}), none;

  ~Operands() {  // nothing may have changed them
    for (const Tensor& t : {x, xs, h, other}) {
      CHECK(t.version() == 0);
      CHECK(same(t, ones_like(t)));
    }
  }
};

}  // namespace

TEST_CASE("cells refuse sizes and options that they cannot have", "[errors][cells]") {
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  const std::uint64_t position = default_rng().position();
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::RnnCell(0, 4); }, "RnnCell: 0 inputs and 4 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::GruCell(3, 0); }, "GruCell: 3 inputs and 0 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::LstmCell(-1, 4); }, "LstmCell: -1 inputs and 4 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::LstmCell(1, huge); },
       "Shape: [1, 4, 4611686018427387904] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { nn::RnnCell(1, std::int64_t{1} << 32); },
       "Shape: [4294967296, 1, 4294967296] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { nn::GruCell(1, std::int64_t{1} << 32); },
       "Shape: [4294967296, 3, 4294967296] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { nn::LstmCell(3, 4, {.projection = huge}); },
       "Shape: [4611686018427387904, 4, 4] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<DTypeError>, [&] { nn::RnnCell(3, 4, {.dtype = DType::int32}); }, "RnnCell: the dtype is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { nn::GruCell(3, 4, {.dtype = DType::bool8}); }, "GruCell: the dtype is bool; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { nn::GruCell(3, 4, {.gate_bias = kNaN}); }, "GruCell: gate_bias is nan; it must be finite."},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.forget_bias = kNaN}); }, "LstmCell: forget_bias is nan; it must be finite."},
      {__LINE__, message_of<ShapeError>, [&] { nn::LstmCell(3, 4, {.projection = -2}); },
       "LstmCell: a projection to -2 units was asked for; there must be 1 or more, or 0 for no projection."},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.cell_clip = -1}); }, "LstmCell: cell_clip is -1" + no_limit},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.cell_clip = kNaN}); }, "LstmCell: cell_clip is nan" + no_limit},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.projection = 2, .projection_clip = kInfinity}); }, "LstmCell: projection_clip is inf" + no_limit},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.projection_clip = 0.5}); },
       "LstmCell: projection_clip is 0.5 and projection 0; without a projection there is nothing to limit."},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.layer_norm = true, .norm_epsilon = -1}); }, "LstmCell: norm_epsilon is -1; it must be finite and >= 0."},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.norm_gain = kInfinity}); }, "LstmCell: norm_gain is inf; it must be finite."},
      {__LINE__, message_of<Error>, [&] { nn::LstmCell(3, 4, {.norm_shift = kNaN}); }, "LstmCell: norm_shift is nan; it must be finite."},
  }, file);
  CHECK(default_rng().position() == position);
}

TEST_CASE("cells refuse inputs and states that do not fit, in one operation or in many", "[errors][cells]") {
  const Operands o;
  const Tensor wide = o.h.to(DType::float64), wide_x = o.x.to(DType::float64), integers = o.x.to(DType::int32);
  const nn::RnnCell rnn(3, 4);
  const nn::GruCell gru(3, 4);
  check_errors({
      {__LINE__, message_of<Error>, [&] { rnn(o.none, {o.h}); }, "RnnCell: x" + undefined},
      {__LINE__, message_of<Error>, [&] { rnn(o.x, {o.none}); }, "RnnCell: the state's h" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.h, {o.h}); }, "RnnCell: x is [2, 4] and wx [3, 4]; x must be [batch, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.xs, {o.h}); }, "RnnCell: x is [2, 5, 3] and wx [3, 4]; x must be [batch, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, {o.other}); }, "RnnCell: the state's h is [3, 4] and x [2, 3]; h must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn(o.x, {o.x}); }, "RnnCell: the state's h is [2, 3] and x [2, 3]; h must be [2, 4]."},
      {__LINE__, message_of<DTypeError>, [&] { rnn(wide_x, {wide}); }, "RnnCell: x is float64 and wx float32" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { gru(integers, {o.h}); }, "GruCell: x is int32 and wx float32" + one_type},
      {__LINE__, message_of<DTypeError>, [&] { gru(o.x, {wide}); }, "GruCell: the state's h is float64 and wx float32" + one_type},
      {__LINE__, message_of<ShapeError>, [&] { gru(Tensor(1.0f), {o.h}); }, "GruCell: x is [] and wx [3, 12]; x must be [batch, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { gru(o.x, {o.other}); }, "GruCell: the state's h is [3, 4] and x [2, 3]; h must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { gru.zero_state(-1); }, "Shape: size -1 of axis 0 is negative; sizes must be >= 0."},
  }, file);
  for (const bool composed : {false, true}) {
    const nn::LstmCell lstm(3, 4, {.peepholes = composed});
    check_errors({
        {__LINE__, message_of<Error>, [&] { lstm(o.x, {o.h, o.none}); }, "LstmCell: the state's c" + undefined},
        {__LINE__, message_of<ShapeError>, [&] { lstm(o.h, {o.h, o.h}); }, "LstmCell: x is [2, 4] and wx [3, 16]; x must be [batch, 3]."},
        {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, {o.other, o.h}); }, "LstmCell: the state's h is [3, 4] and x [2, 3]; h must be [2, 4]."},
        {__LINE__, message_of<ShapeError>, [&] { lstm(o.x, {o.h, o.other}); }, "LstmCell: the state's c is [3, 4] and x [2, 3]; c must be [2, 4]."},
        {__LINE__, message_of<DTypeError>, [&] { lstm(o.x, {o.h, wide}); }, "LstmCell: the state's c is float64 and wx float32" + one_type},
    }, file);
  }
  const nn::LstmCell projected(3, 4, {.projection = 2});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { projected(o.x, {o.h, o.h}); }, "LstmCell: the state's h is [2, 4] and x [2, 3]; h must be [2, 2]."},
  }, file);
}

TEST_CASE("whole sequences of cells refuse the same", "[errors][cells]") {
  const Operands o;
  const nn::RnnCell rnn(3, 4);
  const nn::GruCell gru(3, 4);
  check_errors({
      {__LINE__, message_of<Error>, [&] { rnn.sequence(o.none, {o.h}); }, "RnnCell: x" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { rnn.sequence(o.x, {o.h}); }, "RnnCell: x is [2, 3] and wx [3, 4]; x must be [batch, time, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { gru.sequence(o.xs, {o.other}); }, "GruCell: the state's h is [3, 4] and x [2, 5, 3]; h must be [2, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { gru.sequence(o.h, {o.h}, {.time_major = true}); }, "GruCell: x is [2, 4] and wx [3, 12]; x must be [time, batch, 3]."},
  }, file);
  for (const bool composed : {false, true}) {
    const nn::LstmCell lstm(3, 4, {.coupled_gates = composed});
    const std::string wx = composed ? "[3, 12]" : "[3, 16]";
    check_errors({
        {__LINE__, message_of<ShapeError>, [&] { lstm.sequence(o.x, {o.h, o.h}); }, "LstmCell: x is [2, 3] and wx " + wx + "; x must be [batch, time, 3]."},
        {__LINE__, message_of<ShapeError>, [&] { lstm.sequence(o.xs, {o.h, o.other}); }, "LstmCell: the state's c is [3, 4] and x [2, 5, 3]; c must be [2, 4]."},
        {__LINE__, message_of<ShapeError>, [&] { lstm.sequence(o.xs, {o.h, o.h}, {.time_major = true}); },
         "LstmCell: the state's h is [2, 4] and x [2, 5, 3]; h must be [5, 4]."},
    }, file);
  }
}

TEST_CASE("a step that was refused has recorded nothing", "[errors][cells]") {
  const Operands o;
  for (const bool composed : {false, true}) {
    const nn::LstmCell lstm(3, 4, {.peepholes = composed});
    const GradientTape tape;
    CHECK_THROWS_AS(lstm(o.x, {o.h, o.other}), ShapeError);
    CHECK_THROWS_AS(lstm.sequence(o.xs, {o.other, o.h}), ShapeError);
    CHECK_THROWS_AS(lstm.sequence(o.xs, {o.h, o.h}, {.lengths = Tensor{5, 6}}), IndexError);
    CHECK(tape.size() == 0);
  }
}
