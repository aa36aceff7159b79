// Bad input to dropout, embeddings, bilinear forms, maxout, initializers and regularizers: the right exception, word
// for word, the operands as they were, and nothing leaked.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_layers_test.cpp";
const std::string floating = "; it must be a floating type.";
const std::string undefined = ": the tensor is undefined; give it a value first.";
const std::string keep_range = "; it must be in (0, 1].";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor x = {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}};
  Tensor integers = {{1, 2, 3}, {4, 5, 6}};
  Tensor flags = {{true, false}};
  Tensor words = {1, 0, 1};
  Tensor nothing;

  ~Operands() {  // nothing may have changed them
    CHECK(same(x, {{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}));
    CHECK(x.version() == 0);
  }
};

}  // namespace

TEST_CASE("dropout and its relatives refuse what does not fit", "[errors][dropout]") {
  const Operands o;
  Rng rng(1);
  check_errors({
      {__LINE__, message_of<Error>, [&] { dropout(o.nothing, 0.5); }, "dropout" + undefined},
      {__LINE__, message_of<Error>, [&] { dropout(o.x, kNaN); }, "dropout: keep is nan" + keep_range},
      {__LINE__, message_of<Error>, [&] { dropout1d(o.x, 0); }, "dropout1d: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { dropout2d(o.x, -1); }, "dropout2d: keep is -1" + keep_range},
      {__LINE__, message_of<Error>, [&] { dropout3d(o.x, 2); }, "dropout3d: keep is 2" + keep_range},
      {__LINE__, message_of<Error>, [&] { alpha_dropout(o.x, 0); }, "alpha_dropout: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { feature_alpha_dropout(o.x, 0); }, "feature_alpha_dropout: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { gaussian_dropout(o.x, 0); }, "gaussian_dropout: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { drop_path(o.x, 0); }, "drop_path: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { gaussian_noise(o.x, -1); },
       "gaussian_noise: the standard deviation is -1; it must be >= 0."},
      {__LINE__, message_of<DTypeError>, [&] { alpha_dropout(o.integers, 0.5); }, "alpha_dropout: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { gaussian_noise(o.flags, 0.5); }, "gaussian_noise: the tensor is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { drop_path(o.integers, 0.5); }, "drop_path: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { dropout1d(zeros({3}), 0.5, rng); },
       "dropout1d: the tensor is [3]; it must be [batch, channels, length] or [channels, length]."},
      {__LINE__, message_of<ShapeError>, [&] { dropout2d(o.x, 0.5, rng); },
       "dropout2d: the tensor is [2, 3]; it must be [batch, channels, rows, columns] or [channels, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { dropout2d(o.x, 1, rng); },
       "dropout2d: the tensor is [2, 3]; it must be [batch, channels, rows, columns] or [channels, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { dropout3d(zeros({1, 1, 1, 1, 1, 1}), 0.5, rng); },
       "dropout3d: the tensor is [1, 1, 1, 1, 1, 1]; it must be [batch, channels, depth, rows, columns] or [channels, depth, rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { feature_alpha_dropout(zeros({3}), 0.5, rng); },
       "feature_alpha_dropout: the tensor is [3]; it must be [batch, channels, ...]."},
      {__LINE__, message_of<ShapeError>, [&] { drop_path(Tensor(1.0f), 0.5, rng); },
       "drop_path: the tensor is []; it must be [batch, ...]."},
      {__LINE__, message_of<Error>, [&] { nn::Dropout2d({.keep = 1.5}); }, "Dropout2d: keep is 1.5" + keep_range},
      {__LINE__, message_of<Error>, [&] { nn::AlphaDropout({.keep = 0}); }, "AlphaDropout: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { nn::DropPath({.keep = 0}); }, "DropPath: keep is 0" + keep_range},
      {__LINE__, message_of<Error>, [&] { nn::GaussianNoise({.stddev = -2}); },
       "GaussianNoise: the standard deviation is -2; it must be >= 0."},
  }, file);
  CHECK(rng.position() == 0u);
}

TEST_CASE("embeddings refuse tables, indices and options that do not fit", "[errors][embedding]") {
  const Operands o;
  check_errors({
      {__LINE__, message_of<Error>, [&] { embedding(o.words, o.nothing); }, "embedding" + undefined},
      {__LINE__, message_of<Error>, [&] { embedding(o.nothing, o.x); }, "embedding" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { embedding(o.words, o.integers); }, "embedding: the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { embedding(o.x, o.x); }, "embedding: the indices are float32; they must be integers."},
      {__LINE__, message_of<ShapeError>, [&] { embedding(o.words, zeros({3})); },
       "embedding: the table is [3]; it must have two axes, [rows, width]."},
      {__LINE__, message_of<ShapeError>, [&] { embedding(zeros({1, 1, 1, 1, 1, 1, 1, 1}, {.dtype = DType::int64}), o.x); },
       "embedding: the result would have more than 8 axes."},
      {__LINE__, message_of<IndexError>, [&] { embedding(Tensor{{0, 1}, {2, 0}}, o.x); },
       "embedding: index 2 at [1, 0] is out of range for axis 0 of shape [2, 3]; it must be in [0, 2)."},
      {__LINE__, message_of<IndexError>, [&] { embedding(Tensor{-1}, o.x); },
       "embedding: index -1 at [0] is out of range for axis 0 of shape [2, 3]; it must be in [0, 2)."},
      {__LINE__, message_of<IndexError>, [&] { embedding(Tensor{5}, o.x, {.max_norm = 0.1}); },
       "embedding: index 5 at [0] is out of range for axis 0 of shape [2, 3]; it must be in [0, 2)."},
      {__LINE__, message_of<IndexError>, [&] { embedding(o.words, o.x, {.padding_index = 2}); },
       "embedding: the padding index is 2; for a table of [2, 3] it must be in [-2, 2)."},
      {__LINE__, message_of<IndexError>, [&] { embedding(o.words, o.x, {.padding_index = -3}); },
       "embedding: the padding index is -3; for a table of [2, 3] it must be in [-2, 2)."},
      {__LINE__, message_of<Error>, [&] { embedding(o.words, o.x, {.max_norm = 0}); },
       "embedding: max_norm is 0; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { embedding(o.words, o.x, {.max_norm = 1, .norm = -1}); },
       "embedding: the order of the norm is -1; it must be above 0."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Embedding(0, 3); },
       "Embedding: 0 rows of 3 values were asked for; both must be >= 1."},
      {__LINE__, message_of<IndexError>, [&] { nn::Embedding({.count = 4, .size = 3, .padding_index = 4}); },
       "Embedding: the padding index is 4; with 4 rows it must be in [-4, 4)."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Embedding(std::int64_t{1} << 40, std::int64_t{1} << 40); },
       "Shape: [1099511627776, 1099511627776] has 2^63 elements or more; the product of the sizes above 0 must be below 2^63."},
      {__LINE__, message_of<Error>, [&] { nn::Embedding({.count = 4, .size = 3, .max_norm = 0}); },
       "Embedding: max_norm is 0; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { nn::EmbeddingBag({.count = 4, .size = 3, .max_norm = 1, .norm = kNaN}); },
       "EmbeddingBag: the order of the norm is nan; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { nn::EmbeddingBag({.count = 4, .size = 3, .mode = BagMode::max, .scale_by_frequency = true}); },
       "EmbeddingBag: scale_by_frequency goes with sums and means, and the mode is max."},
      {__LINE__, message_of<ShapeError>, [&] { nn::EmbeddingBag(4, 0); },
       "EmbeddingBag: 4 rows of 0 values were asked for; both must be >= 1."},
  }, file);
}

TEST_CASE("max_norm does not change a table past a tape that follows it as a result", "[errors][embedding]") {
  const Operands o;
  GradientTape tape;
  tape.watch(o.x);
  const Tensor computed = o.x * 2;
  check_errors({
      {__LINE__, message_of<TapeError>, [&] { embedding(o.words, computed, {.max_norm = 0.1}); },
       "embedding: a tape follows this tensor of shape [2, 3], and a change in place would go past it; change a copy, or pause the tape with stop_recording()."},
  }, file);
  CHECK(same(computed, {{2.0f, 4.0f, 6.0f}, {8.0f, 10.0f, 12.0f}}));
}

TEST_CASE("bags of embeddings refuse offsets, weights and modes that do not fit", "[errors][embedding]") {
  const Operands o;
  const Tensor weights = {1.0f, 2.0f, 3.0f};
  const std::string offsets = "; offsets must ascend from 0 to at most 3, the number of indices.";
  const auto bag = [&](const EmbeddingBagOptions& options, Where where = Where::current()) {
    embedding_bag(o.words, o.x, options, where);
  };
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { bag({}); },
       "embedding_bag: the indices are [3]; without offsets they must be [bags, length]."},
      {__LINE__, message_of<ShapeError>, [&] { embedding_bag(Tensor{{0, 1}}, o.x, {.offsets = Tensor{0}}); },
       "embedding_bag: the indices are [1, 2] and the offsets [1]; both must have one axis."},
      {__LINE__, message_of<ShapeError>, [&] { bag({.offsets = zeros({1, 1}, {.dtype = DType::int64})}); },
       "embedding_bag: the indices are [3] and the offsets [1, 1]; both must have one axis."},
      {__LINE__, message_of<DTypeError>, [&] { bag({.offsets = weights}); },
       "embedding_bag: the offsets are float32; they must be integers."},
      {__LINE__, message_of<ShapeError>, [&] { bag({.offsets = zeros({0}, {.dtype = DType::int64})}); },
       "embedding_bag: there are no offsets, and 3 indices; the first offset must be there and be 0."},
      {__LINE__, message_of<IndexError>, [&] { bag({.offsets = Tensor{1, 2}}); }, "embedding_bag: offset 0 is 1" + offsets},
      {__LINE__, message_of<IndexError>, [&] { bag({.offsets = Tensor{0, 2, 1}}); }, "embedding_bag: offset 2 is 1" + offsets},
      {__LINE__, message_of<IndexError>, [&] { bag({.offsets = Tensor{0, 4}}); }, "embedding_bag: offset 1 is 4" + offsets},
      {__LINE__, message_of<Error>, [&] { bag({.offsets = Tensor{0}, .weights = weights}); },
       "embedding_bag: weights go with sums, and the mode is mean."},
      {__LINE__, message_of<Error>, [&] { bag({.offsets = Tensor{0}, .weights = weights, .mode = BagMode::max}); },
       "embedding_bag: weights go with sums, and the mode is max."},
      {__LINE__, message_of<Error>, [&] { bag({.offsets = Tensor{0}, .mode = BagMode::max, .scale_by_frequency = true}); },
       "embedding_bag: scale_by_frequency goes with sums and means, and the mode is max."},
      {__LINE__, message_of<ShapeError>, [&] { bag({.offsets = Tensor{0}, .weights = Tensor{1.0f}, .mode = BagMode::sum}); },
       "embedding_bag: the weights are [1] and the indices [3]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { bag({.offsets = Tensor{0}, .weights = Tensor{1.0, 2.0, 3.0}, .mode = BagMode::sum}); },
       "embedding_bag: the tensor is float32 and the weights float64; the types must be equal. Convert one with x.to(dtype)."},
      {__LINE__, message_of<IndexError>, [&] { embedding_bag(Tensor{{0, 2}}, o.x); },
       "embedding_bag: index 2 at [0, 1] is out of range for axis 0 of shape [2, 3]; it must be in [0, 2)."},
      {__LINE__, message_of<IndexError>, [&] { bag({.offsets = Tensor{0}, .padding_index = 9}); },
       "embedding_bag: the padding index is 9; for a table of [2, 3] it must be in [-2, 2)."},
  }, file);
}

TEST_CASE("bilinear forms and layers refuse sizes that do not fit", "[errors][layers]") {
  const Operands o;
  const Tensor weight = zeros({4, 3, 2}), right = zeros({2, 2}), none;
  const std::string fit = "; with a weight of [4, 3, 2] they must be [..., 3] and [..., 2] with equal leading axes.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { bilinear(o.x, none, weight, none); }, "bilinear" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { bilinear(o.integers, right, weight, none); }, "bilinear: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(o.x, right, right, none); },
       "bilinear: the weight is [2, 2]; it must have three axes, [out, in1, in2]."},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(o.x, o.x, weight, none); }, "bilinear: x1 is [2, 3] and x2 is [2, 3]" + fit},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(o.x, zeros({1, 2}), weight, none); }, "bilinear: x1 is [2, 3] and x2 is [1, 2]" + fit},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(o.x, zeros({2}), weight, none); }, "bilinear: x1 is [2, 3] and x2 is [2]" + fit},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(Tensor(1.0f), Tensor(1.0f), weight, none); }, "bilinear: x1 is [] and x2 is []" + fit},
      {__LINE__, message_of<ShapeError>, [&] { bilinear(o.x, right, weight, zeros({3})); },
       "bilinear: the bias is [3] and the weight [4, 3, 2]; the bias must be [4]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Bilinear(0, 3, 4); },
       "Bilinear: 0 and 3 inputs and 4 outputs were asked for; all must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Bilinear({.in1 = 1, .in2 = 1}); },
       "Bilinear: 1 and 1 inputs and 0 outputs were asked for; all must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { nn::PRelu({.channels = 0}); },
       "PRelu: 0 channels were asked for; the count must be >= 1."},
      {__LINE__, message_of<Error>, [&] { maxout(none, 2); }, "maxout" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { maxout(o.flags, 2); }, "maxout: the tensor is bool; it must be a number type, not bool."},
      {__LINE__, message_of<IndexError>, [&] { maxout(o.x, 3, 2); },
       "maxout: axis 2 is out of range for rank 2; it must be in [-2, 2)."},
      {__LINE__, message_of<ShapeError>, [&] { maxout(o.x, 2); },
       "maxout: axis -1 of shape [2, 3] does not divide into groups of 2; its size must be a multiple of that, which must be >= 1."},
      {__LINE__, message_of<ShapeError>, [&] { maxout(o.x, 0, 0); },
       "maxout: axis 0 of shape [2, 3] does not divide into groups of 0; its size must be a multiple of that, which must be >= 1."},
  }, file);
}

TEST_CASE("layers name themselves and draw nothing where their type is not floating", "[errors][layers]") {
  constexpr DType whole = DType::int32;
  const std::string is_whole = ": the dtype is int32" + floating;
  const nn::RnnCell cell(3 + 4, 3);
  const nn::LuongAttention reads({.query = 3, .memory = 4});
  const nn::TransformerLayerOptions layer{.embed = 4, .dtype = whole};
  using In = nn::InputProjectionCell<nn::RnnCell>;
  using Out = nn::OutputProjectionCell<nn::RnnCell>;
  Rng rng(1);
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { nn::Linear(2, 3, {.dtype = whole}, rng); }, "Linear" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::Linear(2, 3, {.bias = false, .weight_init = nn::init::zeros(), .dtype = DType::bool8}, rng); },
       "Linear: the dtype is bool" + floating},
      {__LINE__, message_of<DTypeError>, [&] { nn::Bilinear({.in1 = 2, .in2 = 3, .out = 4, .dtype = whole}, rng); }, "Bilinear" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::PRelu({.dtype = whole}, rng); }, "PRelu" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::Conv1d({.in = 1, .out = 2, .kernel = 3, .dtype = whole}, rng); }, "Conv1d" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::Conv2d({.in = 1, .out = 2, .kernel = 3, .dtype = whole}, rng); }, "Conv2d" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::ConvTranspose3d({.in = 1, .out = 2, .kernel = 3, .dtype = whole}, rng); }, "ConvTranspose3d" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::DepthwiseConv2d({.in = 1, .kernel = 3, .dtype = whole}, rng); }, "DepthwiseConv2d" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::SeparableConv2d({.in = 1, .out = 2, .kernel = 3, .dtype = whole}, rng); }, "SeparableConv2d" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::Embedding({.count = 4, .size = 3, .dtype = whole}, rng); }, "Embedding" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::EmbeddingBag({.count = 4, .size = 3, .dtype = whole}, rng); }, "EmbeddingBag" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::MultiheadAttention({.embed = 4, .dtype = whole}, rng); }, "MultiheadAttention" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::PositionalEncoding({.length = 2, .features = 4, .dtype = whole}); }, "PositionalEncoding" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::PositionEmbedding({.length = 2, .features = 4, .dtype = whole}, rng); }, "PositionEmbedding" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::TransformerEncoderLayer bad(layer, rng); }, "TransformerEncoderLayer" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::TransformerDecoderLayer bad(layer, rng); }, "TransformerDecoderLayer" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::TransformerEncoder({.layer = layer}, rng); }, "TransformerEncoder" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::TransformerDecoder({.layer = layer}, rng); }, "TransformerDecoder" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::Transformer({.layer = layer}, rng); }, "Transformer" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::BahdanauAttention({.query = 3, .memory = 4, .units = 2, .dtype = whole}, rng); }, "BahdanauAttention" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::LuongAttention({.query = 3, .memory = 4, .dtype = whole}, rng); }, "LuongAttention" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { nn::AttentionCell bad(cell, reads, {.attention_size = 4, .dtype = whole}, rng); }, "AttentionCell" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { In bad(cell, {.inputs = 2, .dtype = whole}, rng); }, "InputProjectionCell" + is_whole},
      {__LINE__, message_of<DTypeError>, [&] { Out bad(cell, {.outputs = 2, .dtype = whole}, rng); }, "OutputProjectionCell" + is_whole},
  }, file);
  CHECK(rng.position() == 0u);
}

TEST_CASE("initializers refuse numbers, shapes and values that do not fit", "[errors][init]") {
  const Tensor start = {1.0f, 2.0f};
  const auto nothing_made = nn::init::function([](const Shape&, Rng&, TensorOptions) { return Tensor(); });
  const auto other_shape = nn::init::function([](const Shape&, Rng&, TensorOptions) { return Tensor(2.0f); });
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::init::variance_scaling(0); },
       "variance_scaling: the scale is 0; it must be above 0."},
      {__LINE__, message_of<Error>, [&] { nn::init::sparse(1.5); }, "sparse: the sparsity is 1.5; it must be in [0, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::init::sparse(0.5)({2, 3, 4}); },
       "sparse: the shape is [2, 3, 4]; it must have two axes, [rows, columns]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::init::orthogonal()({3}); },
       "orthogonal: the shape is [3]; it must have two axes or more."},
      {__LINE__, message_of<ShapeError>, [&] { nn::init::identity()({}); },
       "identity: the shape is []; it must have two axes or more."},
      {__LINE__, message_of<Error>, [&] { nn::init::values(Tensor()); },
       "init::values: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Linear(2, 3, {.weight_init = nn::init::values(start)}); },
       "Initializer: the values given are [2] and the parameter is [2, 3]; the shapes must be equal."},
      {__LINE__, message_of<Error>, [&] { nn::init::function({}); }, "init::function: there is no function; give one."},
      {__LINE__, message_of<Error>, [&] { nothing_made({2, 3}); },
       "Initializer: the function gave an undefined tensor for shape [2, 3]; it must give one of that shape."},
      {__LINE__, message_of<ShapeError>, [&] { other_shape({2, 3}); },
       "Initializer: the values given are [] and the parameter is [2, 3]; the shapes must be equal."},
      {__LINE__, message_of<DTypeError>, [&] { nn::init::glorot_normal()({2, 3}, default_rng(), {.dtype = DType::int32}); },
       "normal: the type is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { nn::init::orthogonal()({2, 3}, default_rng(), {.dtype = DType::int32}); },
       "orthogonal: the type is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { nn::init::values(start)({2}, default_rng(), {.dtype = DType::int32}); },
       "Initializer: the type is int32" + floating},
      {__LINE__, message_of<Error>, [&] { nn::init::he_uniform()({2, 3}, nn::Fans{.in = 0}); },
       "Initializer: the fans are 0 and 1; they must be above 0."},
      {__LINE__, message_of<Error>, [&] { nn::init::identity(1, 0); },
       "identity: the number of groups is 0; it must be in [1, 2^31)."},
      {__LINE__, message_of<ShapeError>, [&] { nn::init::identity(1, 2)({3, 1, 3}, nn::Fans{}); },
       "identity: the shape is [3, 1, 3]; its 3 outputs do not divide into 2 groups."},
  }, file);
}

TEST_CASE("regularizers refuse what they are not for", "[errors][regularizer]") {
  const Operands o;
  const std::vector<Tensor> none, some = {o.x, Tensor()};
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::l2_penalty(none, 1); },
       "Regularizer: there are no parameters; give at least one."},
      {__LINE__, message_of<Error>, [&] { nn::l1_penalty(some, 1); },
       "Regularizer: a parameter is undefined; give it a value first."},
      {__LINE__, message_of<DTypeError>, [&] { nn::regularizer::l2()(o.integers); },
       "Regularizer: a parameter is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { nn::regularizer::orthogonal()(zeros({3})); },
       "Regularizer: a parameter is [3]; orthogonal rows or columns are those of a matrix."},
  }, file);
}
