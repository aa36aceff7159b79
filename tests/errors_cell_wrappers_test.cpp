// Bad input to cells around cells: the right exception, word for word, the generator where it was, and nothing leaked.
#include "tests/own_cells.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_cell_wrappers_test.cpp";
const std::string keep_range = "; it must be in (0, 1].";

/// Gives its input twice, side by side: [batch, 2] -> [batch, 4]. It has no state, and tells no sizes.
struct TwiceCell {
  struct State {};
  std::pair<Tensor, State> operator()(const Tensor& x, const State&) { return {concat({x, x}, 1), State{}}; }
  State zero_state(std::int64_t) const { return {}; }
};

nn::RnnCell rnn_cell() {
  Rng rng(1);
  return nn::RnnCell(2, 2, {.dtype = DType::float64}, rng);
}

/// [2, 2], as OwnCell takes.
Tensor input() { return {{1.0, 2.0}, {3.0, 4.0}}; }

}  // namespace

TEST_CASE("stacks refuse cells and states that do not fit", "[errors][cells]") {
  nn::StackedCell<OwnCell> one{{OwnCell{}}}, two{{OwnCell{}, OwnCell{}}};
  nn::StackedCell<TwiceCell, OwnCell> unfit{{TwiceCell{}, OwnCell{}}};
  const auto state = two.zero_state(2);
  const Tensor x = input();
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::StackedCell<SizedCell>{std::vector<SizedCell>{}}; },
       "StackedCell: there are no cells; give one or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::StackedCell<SizedCell>{{SizedCell{2, 4}, SizedCell{4, 4}, SizedCell{5, 6}}}; },
       "StackedCell: cell 1 has 4 outputs and cell 2 has 5 inputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { nn::StackedCell<SizedCell, nn::ResidualCell<SizedCell>>{{SizedCell{3, 4}, nn::ResidualCell<SizedCell>(SizedCell{5, 5})}}; },
       "StackedCell: cell 0 has 4 outputs and cell 1 has 5 inputs; they must be equal."},
      {__LINE__, message_of<Error>, [&] { two(x, one.zero_state(2)); },
       "StackedCell: the state is one of 1 cells and the stack has 2; the numbers must be equal."},
      {__LINE__, message_of<Error>, [&] { one(x, state); },
       "StackedCell: the state is one of 2 cells and the stack has 1; the numbers must be equal."},
      {kNoPlace, message_of<ShapeError>, [&] { unfit(x, unfit.zero_state(2)); },
       "matmul: inner sizes differ: a is [2, 4] and b is [2, 2]; a.size(1) = 4 must equal b.size(0) = 2."},
      {__LINE__, message_of<ShapeError>, [&] { nn::unroll(two, zeros({3, 4, 2}), {.initial_state = state}); },
       "unroll: cells.0.h of the initial state is [2, 2]; with an input of [3, 4, 2] it must be [3, 2]."},
  }, file);
}

TEST_CASE("dropout cells refuse options, states and inputs that do not fit", "[errors][cells]") {
  using Drop = nn::DropoutCell<OwnCell>;
  using Sized = nn::DropoutCell<SizedCell>;
  Drop plain(OwnCell{}, {.input_keep = 0.5});
  Drop masked(OwnCell{}, {.input_keep = 0.5, .state_keep = 0.5, .output_keep = 0.5, .variational = true, .inputs = 2, .outputs = 2});
  Drop state_mask(OwnCell{}, {.state_keep = 0.5, .variational = true}), output_mask(OwnCell{}, {.output_keep = 0.5, .variational = true, .outputs = 2});
  nn::DropoutCell<nn::RnnCell> whole(rnn_cell(), {.state_keep = 0.5});
  const nn::DropoutCell<TwiceCell> stateless(TwiceCell{}, {.state_keep = 0.5, .variational = true});
  const Drop::State bare{OwnCell{}.zero_state(2)};
  const Tensor x = input(), wide = zeros({2, 3}, {.dtype = DType::float64});
  const Tensor integers = {{1, 2}, {3, 4}};
  const RngState before = default_rng().state();
  check_errors({
      {__LINE__, message_of<Error>, [&] { Drop(OwnCell{}, {.input_keep = 0}); }, "DropoutCell: input_keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { Drop(OwnCell{}, {.state_keep = 1.5}); }, "DropoutCell: state_keep is 1.5" + keep_range},
      {__LINE__, message_of<Error>, [&] { Drop(OwnCell{}, {.output_keep = kNaN}); }, "DropoutCell: output_keep is nan" + keep_range},
      {__LINE__, message_of<Error>, [&] { Drop(OwnCell{}, {.input_keep = 0.5, .variational = true}); },
       "DropoutCell: the cell does not tell how many inputs it has; give the option inputs."},
      {__LINE__, message_of<Error>, [&] { Drop(OwnCell{}, {.output_keep = 0.5, .variational = true}); },
       "DropoutCell: the cell does not tell how many outputs it has; give the option outputs."},
      {__LINE__, message_of<ShapeError>, [&] { Drop(OwnCell{}, {.outputs = -1}); },
       "DropoutCell: the option outputs is -1; it must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { Sized(SizedCell{3, 4}, {.inputs = 5}); },
       "DropoutCell: the option inputs is 5 and the cell has 3 inputs; they must be equal."},
      {__LINE__, message_of<Error>, [&] { masked(x, bare); },
       "DropoutCell: the state has no mask for the input; begin with one of zero_state or redraw."},
      {__LINE__, message_of<Error>, [&] { state_mask(x, bare); },
       "DropoutCell: the state has no mask for the state; begin with one of zero_state or redraw."},
      {__LINE__, message_of<Error>, [&] { output_mask(x, bare); },
       "DropoutCell: the state has no mask for the output; begin with one of zero_state or redraw."},
      {__LINE__, message_of<ShapeError>, [&] { masked(wide, masked.redraw(bare)); },
       "DropoutCell: the input is [2, 3] and its mask for each step [2, 2]; the sizes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { masked(integers, masked.redraw(bare)); },
       "DropoutCell: the input is int32; it must be a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { plain(integers, bare); },
       "dropout: the tensor is int32; it must be a floating type."},
      {kNoPlace, message_of<ShapeError>, [&] { plain(wide, bare); },
       "matmul: inner sizes differ: a is [2, 3] and b is [2, 2]; a.size(1) = 3 must equal b.size(0) = 2."},
      {__LINE__, message_of<Error>, [&] { whole.sequence(zeros({2, 3, 2}, {.dtype = DType::float64}), whole.zero_state(2)); },
       "DropoutCell: state_keep is 0.5; in training a sequence must be made of steps then, as unroll does."},
      {__LINE__, message_of<Error>, [&] { stateless.redraw({}); },
       "DropoutCell: the state has no floating tensor [batch, ...], so that the batch is unknown; begin with one of zero_state."},
  }, file);
  // the masks that `redraw` drew for two of the rows, each of which ran twice, are all that was drawn
  Rng expected(before.seed);
  expected.restore(before);
  for (int i = 0; i < 4; ++i)
    for (int mask = 0; mask < 3; ++mask) dropout(ones({2, 2}, {.dtype = DType::float64}), 0.5, expected);
  CHECK(default_rng().state() == expected.state());
}

TEST_CASE("residual cells refuse outputs of another size than the input", "[errors][cells]") {
  nn::ResidualCell<TwiceCell> twice(TwiceCell{});
  const Tensor x = input();
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::ResidualCell<SizedCell>(SizedCell{3, 4}); },
       "ResidualCell: the cell has 3 inputs and 4 outputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { twice(x, {}); },
       "ResidualCell: the input is [2, 2] and the output of the cell [2, 4]; the shapes must be equal."},
  }, file);
}

TEST_CASE("embedding cells refuse tables that do not fit and tokens out of range", "[errors][cells]") {
  using Words = nn::EmbeddingCell<OwnCell>;
  using Sized = nn::EmbeddingCell<SizedCell>;
  Words words(OwnCell{}, {.count = 5, .size = 2, .dtype = DType::float64});
  const OwnCell::State state = words.zero_state(2);
  const Tensor outside = {0, 9}, floating = {0.0f, 1.0f};
  const RngState before = default_rng().state();
  check_errors({
      {__LINE__, message_of<Error>, [&] { Words(OwnCell{}, {.count = 5}); },
       "EmbeddingCell: the cell does not tell how many inputs it has; give the option size."},
      {__LINE__, message_of<ShapeError>, [&] { Sized(SizedCell{3, 4}, {.count = 5, .size = 2}); },
       "EmbeddingCell: the option size is 2 and the cell has 3 inputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { Words(OwnCell{}, {.count = 0, .size = 2}); },
       "Embedding: 0 rows of 2 values were asked for; both must be >= 1."},
      {__LINE__, message_of<IndexError>, [&] { words(outside, state); },
       "embedding: index 9 at [1] is out of range for axis 0 of shape [5, 2]; it must be in [0, 5)."},
      {__LINE__, message_of<DTypeError>, [&] { words(floating, state); },
       "embedding: the indices are float32; they must be integers."},
  }, file);
  CHECK(default_rng().state() == before);
}

TEST_CASE("projections refuse sizes that do not fit", "[errors][cells]") {
  using In = nn::InputProjectionCell<OwnCell>;
  using Out = nn::OutputProjectionCell<OwnCell>;
  using SizedIn = nn::InputProjectionCell<SizedCell>;
  using SizedOut = nn::OutputProjectionCell<SizedCell>;
  In in(OwnCell{}, {.inputs = 3, .outputs = 2, .dtype = DType::float64});
  Out out(OwnCell{}, {.inputs = 3, .outputs = 4, .dtype = DType::float64});
  const OwnCell::State state = in.zero_state(2);
  const Tensor x = input(), wide = zeros({2, 5}, {.dtype = DType::float64});
  const RngState before = default_rng().state();
  check_errors({
      {__LINE__, message_of<Error>, [&] { In(OwnCell{}, {.inputs = 3}); },
       "InputProjectionCell: the cell does not tell how many inputs it has; give the option outputs."},
      {__LINE__, message_of<Error>, [&] { Out(OwnCell{}, {.outputs = 3}); },
       "OutputProjectionCell: the cell does not tell how many outputs it has; give the option inputs."},
      {__LINE__, message_of<ShapeError>, [&] { SizedIn(SizedCell{3, 4}, {.inputs = 2, .outputs = 4}); },
       "InputProjectionCell: the option outputs is 4 and the cell has 3 inputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { SizedOut(SizedCell{3, 4}, {.inputs = 3, .outputs = 4}); },
       "OutputProjectionCell: the option inputs is 3 and the cell has 4 outputs; they must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { SizedIn(SizedCell{3, 4}, {}); },
       "InputProjectionCell: a projection of 0 inputs to 3 outputs was asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { SizedOut(SizedCell{3, 4}, {.outputs = -2}); },
       "OutputProjectionCell: a projection of 4 inputs to -2 outputs was asked for; both must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { in(wide, state); },
       "linear: inner sizes differ: a is [2, 5] and b is [3, 2]; a.size(1) = 5 must equal b.size(0) = 3."},
      {__LINE__, message_of<ShapeError>, [&] { out(x, state); },
       "linear: inner sizes differ: a is [2, 2] and b is [3, 4]; a.size(1) = 2 must equal b.size(0) = 3."},
  }, file);
  CHECK(default_rng().state() == before);
}
