// Bad input to recurrent layers: the right exception, word for word, the layer and the generator as they were, and
// nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_recurrent_layers_test.cpp";
const std::string undefined = " is undefined; give it a value first.";
const std::string order = ", [layers * directions, batch, units].";

}  // namespace

TEST_CASE("recurrent layers refuse options out of range, and draw nothing then", "[errors][recurrent]") {
  Rng rng(1);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::Rnn({.inputs = 0, .hidden = 4}, rng); },
       "Rnn: 0 inputs and 4 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Gru({.inputs = 3}, rng); },
       "Gru: 3 inputs and 0 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Lstm({.inputs = -1, .hidden = -2}, rng); },
       "Lstm: -1 inputs and -2 units were asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Rnn({.inputs = 3, .hidden = 4, .layers = 0}, rng); },
       "Rnn: 0 layers were asked for; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Lstm({.inputs = 3, .hidden = 4, .layers = -1}, rng); },
       "Lstm: -1 layers were asked for; one is the least."},
      {__LINE__, message_of<Error>, [&] { nn::Gru({.inputs = 3, .hidden = 4, .dropout = 1}, rng); },
       "Gru: dropout is 1; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [&] { nn::Lstm({.inputs = 3, .hidden = 4, .dropout = -0.5}, rng); },
       "Lstm: dropout is -0.5; it must be in [0, 1)."},
      {__LINE__, message_of<Error>, [&] { nn::Rnn({.inputs = 3, .hidden = 4, .dropout = kNaN}, rng); },
       "Rnn: dropout is nan; it must be in [0, 1)."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Lstm({.inputs = 3, .hidden = 4, .projection = -1}, rng); },
       "Lstm: a projection to -1 units was asked for; there must be 1 or more, or 0 for no projection."},
      {__LINE__, message_of<Error>, [&] { nn::Lstm({.inputs = 3, .hidden = 4, .forget_bias = kNaN}, rng); },
       "Lstm: forget_bias is nan; it must be finite."},
      {__LINE__, message_of<DTypeError>, [&] { nn::Lstm({.inputs = 3, .hidden = 4, .dtype = DType::int32}, rng); },
       "Lstm: the dtype is int32; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Lstm({.inputs = 3, .hidden = std::int64_t{1} << 61}, rng); },
       "Shape: [3, 4, 2305843009213693952] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Rnn({.inputs = 1, .hidden = std::int64_t{1} << 40}, rng); },
       "Shape: [1, 1099511627776, 1, 1099511627776] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Gru({.inputs = 3, .hidden = 4}).zero_state(-1); },
       "Shape: size -1 of axis 1 is negative; sizes must be >= 0."},
  }, file);
  CHECK(rng.position() == 0u);
}

TEST_CASE("recurrent layers refuse inputs, states and lengths that do not fit", "[errors][recurrent]") {
  const nn::Rnn rnn_layer({.inputs = 3, .hidden = 4, .layers = 2, .dropout = 0.5});
  const nn::Gru gru_layer({.inputs = 3, .hidden = 4, .bidirectional = true});
  const nn::Lstm lstm_layer({.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true, .dropout = 0.5, .projection = 2});
  const Tensor x = zeros({5, 7, 3}), wide = x.to(DType::float64), none;
  using Rnn = nn::Rnn::State;
  using Lstm = nn::Lstm::State;
  const Lstm good = lstm_layer.zero_state(5);
  nn::Rnn emptied({.inputs = 3, .hidden = 4});
  emptied.layers.clear();
  const std::uint64_t position = default_rng().position();
  GradientTape tape;
  tape.watch(good.h);
  check_errors({
      {__LINE__, message_of<Error>, [&] { lstm_layer(none); }, "Lstm: the input" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { lstm_layer(x[0]); }, "Lstm: the input is [7, 3]; it must be [batch, time, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { gru_layer(zeros({5, 7, 4})); }, "Gru: the input is [5, 7, 4]; it must be [batch, time, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { rnn_layer(zeros({5, 7, 2}), {.time_major = true}); },
       "Rnn: the input is [5, 7, 2]; it must be [time, batch, 3]."},
      {__LINE__, message_of<DTypeError>, [&] { lstm_layer(wide); },
       "Lstm: the input is float64 and the weights float32; all must have one type."},
      {__LINE__, message_of<DTypeError>, [&] { rnn_layer(x.to(DType::int32)); },
       "Rnn: the input is int32 and the weights float32; all must have one type."},
      {__LINE__, message_of<Error>, [&] { rnn_layer(x, {.initial_state = Rnn{none}}); }, "Rnn: h of the initial state" + undefined},
      {__LINE__, message_of<Error>, [&] { lstm_layer(x, {.initial_state = Lstm{good.h, none}}); }, "Lstm: c of the initial state" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { rnn_layer(x, {.initial_state = rnn_layer.zero_state(6)}); },
       "Rnn: h of the initial state is [2, 6, 4]; with an input of [5, 7, 3] it must be [2, 5, 4]" + order},
      {__LINE__, message_of<ShapeError>, [&] { rnn_layer(x, {.initial_state = rnn_layer.zero_state(5), .time_major = true}); },
       "Rnn: h of the initial state is [2, 5, 4]; with an input of [5, 7, 3] it must be [2, 7, 4]" + order},
      {__LINE__, message_of<ShapeError>, [&] { gru_layer(x, {.initial_state = nn::Gru::State{zeros({1, 5, 4})}}); },
       "Gru: h of the initial state is [1, 5, 4]; with an input of [5, 7, 3] it must be [2, 5, 4]" + order},
      {__LINE__, message_of<ShapeError>, [&] { lstm_layer(x, {.initial_state = Lstm{good.c, good.c}}); },
       "Lstm: h of the initial state is [4, 5, 4]; with an input of [5, 7, 3] it must be [4, 5, 2]" + order},
      {__LINE__, message_of<ShapeError>, [&] { lstm_layer(x, {.initial_state = Lstm{good.h, good.c[0]}}); },
       "Lstm: c of the initial state is [5, 4]; with an input of [5, 7, 3] it must be [4, 5, 4]" + order},
      {__LINE__, message_of<DTypeError>, [&] { lstm_layer(x, {.initial_state = Lstm{good.h, good.c.to(DType::float64)}}); },
       "Lstm: c of the initial state is float64 and the weights float32; all must have one type."},
      {__LINE__, message_of<ShapeError>, [&] { gru_layer(zeros({5, 0, 3})); },
       "Gru: the input is [5, 0, 3]; it must be [batch, time, ...] with one step or more."},
      {__LINE__, message_of<IndexError>, [&] { lstm_layer(x, {.lengths = Tensor{7, 0, 8, 1, 2}, .initial_state = good}); },
       "Lstm: the length of row 2 is 8; with an input of [5, 7, 3] it must be in 0..7."},
      {__LINE__, message_of<IndexError>, [&] { rnn_layer(x, {.lengths = Tensor{7, -1, 8, 1, 2}}); },
       "Rnn: the length of row 1 is -1; with an input of [5, 7, 3] it must be in 0..7."},
      {__LINE__, message_of<ShapeError>, [&] { gru_layer(x, {.lengths = Tensor{7, 1}}); },
       "Gru: the lengths are [2]; with an input of [5, 7, 3] they must be [5]."},
      {__LINE__, message_of<DTypeError>, [&] { gru_layer(x, {.lengths = zeros({5})}); },
       "Gru: the lengths are float32; they must be int32 or int64."},
      {__LINE__, message_of<Error>, [&] { emptied(x); }, "Rnn: the model has no layers; one is the least."},
      {__LINE__, message_of<Error>, [&] { emptied.zero_state(5); }, "Rnn: the model has no layers; one is the least."},
  }, file);
  CHECK(default_rng().position() == position);  // what dropout draws from
  CHECK(tape.size() == 0);
}

TEST_CASE("recurrent layers that fail behind a dropout leave the generator where it was", "[errors][recurrent]") {
  const auto check = [](auto layer) {
    Parameter& wh = layer.layers[1].forward.wh;
    wh = Parameter(ones({wh.size(0) + 1, wh.size(1)}));  // which only the second layer's operation refuses
    const RngState before = default_rng().state();
    CHECK_THROWS_AS(layer(ones({5, 7, 3})), ShapeError);
    CHECK(default_rng().state() == before);
  };
  check(nn::Rnn({.inputs = 3, .hidden = 4, .layers = 2, .dropout = 0.5}));
  check(nn::Gru({.inputs = 3, .hidden = 4, .layers = 2, .dropout = 0.5}));
  check(nn::Lstm({.inputs = 3, .hidden = 4, .layers = 2, .dropout = 0.5}));
}
