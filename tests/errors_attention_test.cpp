// Bad input to attention and transformers: the right exception, word for word, and the operands as they were.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_attention_test.cpp";
const std::string undefined = " is undefined; give it a value first.";
const std::string floating = "; it must be a floating type.";
const std::string sdpa = "scaled_dot_product_attention: ";

/// Operands of the tables below, the same in each test.
struct Operands {
  Tensor q = ones({2, 3, 4}), k = ones({2, 5, 4}), v = ones({2, 5, 6}), integers = ones({2, 3, 4}, {.dtype = DType::int32}), none;

  ~Operands() {  // nothing may have changed them
    for (const Tensor& x : {q, k, v}) {
      CHECK(x.version() == 0);
      CHECK(same(x, ones_like(x)));
    }
  }
};

}  // namespace

TEST_CASE("attention refuses operands that do not fit each other", "[errors][attention]") {
  const Operands o;
  const Tensor wide = o.k.to(DType::float64);
  check_errors({
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.none, o.k, o.v); }, sdpa + "the tensor" + undefined},
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.q, o.none, o.v); }, sdpa + "the tensor" + undefined},
      {__LINE__, message_of<Error>, [&] { attention_with_weights(o.q, o.k, o.none); }, "attention_with_weights: the tensor" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { scaled_dot_product_attention(o.integers, o.k, o.v); }, sdpa + "the tensor is int32" + floating},
      {__LINE__, message_of<DTypeError>, [&] { scaled_dot_product_attention(o.q, wide, o.v); },
       sdpa + "the query is float32 and the key float64; all three must have one type."},
      {__LINE__, message_of<DTypeError>, [&] { attention_with_weights(o.q, o.k, o.integers); },
       "attention_with_weights: the query is float32 and the value int32; all three must have one type."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(ones({4}), o.k, o.v); },
       sdpa + "the query is [4]; it must have two axes or more, [..., length, features]."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.k, ones({5})); },
       sdpa + "the value is [5]; it must have two axes or more, [..., length, features]."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.v, o.v); },
       sdpa + "features differ: the query is [2, 3, 4] and the key [2, 5, 6]; the last sizes must be equal."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.q); },
       sdpa + "lengths differ: the key is [2, 5, 4] and the value [2, 3, 4]; there must be a value for each key."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(ones({3, 3, 4}), o.k, o.v); },
       sdpa + "leading axes do not broadcast: the query is [3, 3, 4], the key [2, 5, 4] and the value [2, 5, 6]; "
       "sizes 3 and 2 must be equal or 1."},
      {__LINE__, message_of<ShapeError>, [&] { attention_with_weights(o.q, ones({1, 5, 4}), ones({4, 5, 1})); },
       "attention_with_weights: leading axes do not broadcast: the query is [2, 3, 4], the key [1, 5, 4] and the value "
       "[4, 5, 1]; sizes 2 and 4 must be equal or 1."},
  }, file);
}

TEST_CASE("attention refuses masks and settings that make no sense", "[errors][attention]") {
  const Operands o;
  const Tensor mask = ones({3, 4}) > 0;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.mask = mask}); },
       sdpa + "the mask is [3, 4] and the scores [2, 3, 5]; the mask must broadcast to the scores."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.mask = ones({1, 2, 3, 5})}); },
       sdpa + "the mask is [1, 2, 3, 5] and the scores [2, 3, 5]; the mask must broadcast to the scores."},
      {__LINE__, message_of<ShapeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.bias = ones({3})}); },
       sdpa + "the bias is [3] and the scores [2, 3, 5]; the bias must broadcast to the scores."},
      {__LINE__, message_of<DTypeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.mask = ones({5}, {.dtype = DType::int32})}); },
       sdpa + "the mask is int32; it must be bool or a floating type."},
      {__LINE__, message_of<DTypeError>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.bias = ones({5}) > 0}); },
       sdpa + "the bias is bool; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.scale = kNaN}); }, sdpa + "the scale is nan; it must be finite."},
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.scale = kInfinity}); }, sdpa + "the scale is inf; it must be finite."},
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.keep = 0}); }, sdpa + "keep is 0; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { scaled_dot_product_attention(o.q, o.k, o.v, {.keep = kNaN}); }, sdpa + "keep is nan; it must be in (0, 1]."},
  }, file);
}

TEST_CASE("a generator stands where it stood if attention fails", "[errors][attention]") {
  const Operands o;
  Rng rng(3);
  CHECK_THROWS_AS(scaled_dot_product_attention(o.q, o.v, o.v, {.keep = 0.5}, rng), ShapeError);
  CHECK(rng.position() == 0);
}

TEST_CASE("positions and their biases refuse sizes and types that make no sense", "[errors][attention]") {
  const Operands o;
  const Tensor places = {0, 1};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { causal_mask(-1, 3); }, "causal_mask: -1 queries and 3 keys were asked for; both must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { alibi_bias(2, 3, -3); }, "alibi_bias: 3 queries and -3 keys were asked for; both must be >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { alibi_bias(0, 3, 3); }, "alibi_bias: 0 heads were asked for; they must be >= 1."},
      {__LINE__, message_of<DTypeError>, [&] { alibi_bias(1, 3, 3, 0, {.dtype = DType::int64}); }, "alibi_bias: int64 was asked for; it must be a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { sinusoidal_positions(3, -1); },
       "sinusoidal_positions: 3 positions of -1 features were asked for; both must be >= 0."},
      {__LINE__, message_of<Error>, [&] { sinusoidal_positions(3, 4, 0); }, "sinusoidal_positions: the base is 0; it must be above 0 and finite."},
      {__LINE__, message_of<DTypeError>, [&] { sinusoidal_positions(3, 4, 10000, {.dtype = DType::bool8}); },
       "sinusoidal_positions: bool was asked for; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { rotary_embedding(o.none); }, "rotary_embedding: the tensor" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { rotary_embedding(o.integers); }, "rotary_embedding: the tensor is int32" + floating},
      {__LINE__, message_of<ShapeError>, [&] { rotary_embedding(ones({4})); },
       "rotary_embedding: the tensor is [4]; it must have two axes or more, [..., length, features]."},
      {__LINE__, message_of<ShapeError>, [&] { rotary_embedding(ones({2, 3})); }, "rotary_embedding: the tensor is [2, 3]; its last size must be even."},
      {__LINE__, message_of<Error>, [&] { rotary_embedding(o.q, {.base = -1}); }, "rotary_embedding: the base is -1; it must be above 0 and finite."},
      {__LINE__, message_of<ShapeError>, [&] { rotary_embedding(o.q, {.positions = places}); },
       "rotary_embedding: the positions are [2] and the tensor [2, 3, 4]; they must broadcast to it without its last axis."},
      {__LINE__, message_of<DTypeError>, [&] { rotary_embedding(o.q, {.positions = ones({3})}); },
       "rotary_embedding: the positions are float32; they must be of an integer type."},
  }, file);
}

TEST_CASE("multi-head attention refuses heads that do not divide, and inputs and masks that do not fit", "[errors][attention]") {
  const Operands o;
  const nn::MultiheadAttention layer{{.embed = 4, .heads = 2}}, longer{{.embed = 4, .heads = 2, .add_bias_kv = true}};
  const std::string name = "MultiheadAttention: ";
  const Tensor flags = ones({3, 4}) > 0, numbers = ones({2, 5}), other = ones({3, 5, 4});
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::MultiheadAttention bad{{.embed = 6, .heads = 4}}; },
       name + "6 features and 4 heads were asked for; both must be >= 1, and the heads must divide the features."},
      {__LINE__, message_of<ShapeError>, [&] { nn::MultiheadAttention bad{{.heads = 4}}; },
       name + "0 features and 4 heads were asked for; both must be >= 1, and the heads must divide the features."},
      {__LINE__, message_of<ShapeError>, [&] { nn::MultiheadAttention bad{{.embed = 4, .heads = 0}}; },
       name + "4 features and 0 heads were asked for; both must be >= 1, and the heads must divide the features."},
      {__LINE__, message_of<ShapeError>, [&] { nn::MultiheadAttention bad{{.embed = 4, .key_features = -2}}; },
       name + "keys of -2 and values of 0 features were asked for; both must be >= 1, or 0 for as many as the queries have."},
      {__LINE__, message_of<Error>, [&] { nn::MultiheadAttention bad{{.embed = 4, .keep = 1.5}}; }, name + "keep is 1.5; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { layer(o.q, o.none, o.k); }, name + "the key" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { layer(ones({3, 4})); }, name + "the query is [3, 4]; it must be [batch, length, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { layer(o.q, o.k, o.v); }, name + "the value is [2, 5, 6]; it must be [batch, length, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { layer(o.q, other, other); },
       name + "the query is [2, 3, 4], the key [3, 5, 4] and the value [3, 5, 4]; batches must be equal, and there must be a value for each key."},
      {__LINE__, message_of<ShapeError>, [&] { layer(o.q, o.k, o.q); },
       name + "the query is [2, 3, 4], the key [2, 5, 4] and the value [2, 3, 4]; batches must be equal, and there must be a value for each key."},
      {__LINE__, message_of<ShapeError>, [&] { layer(o.q, o.k, o.k, {.mask = flags}); },
       name + "the mask is [3, 4]; it must broadcast to [2, 2, 3, 5], [batch, heads, queries, keys]."},
      {__LINE__, message_of<ShapeError>, [&] { longer(o.q, o.k, o.k, {.mask = ones({3, 6})}); },
       name + "the mask is [3, 6]; it must broadcast to [2, 2, 3, 5], [batch, heads, queries, keys]."},
      {__LINE__, message_of<DTypeError>, [&] { layer(o.q, o.k, o.k, {.mask = ones({3, 5}, {.dtype = DType::int32})}); },
       name + "the mask is int32; it must be bool or a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { layer(o.q, o.k, o.k, {.key_mask = flags}); }, name + "the key mask is [3, 4]; it must be [2, 5], [batch, keys]."},
      {__LINE__, message_of<DTypeError>, [&] { layer.with_weights(o.q, o.k, o.k, {.key_mask = numbers}); }, name + "the key mask is float32; it must be bool."},
  }, file);
}

TEST_CASE("positions as modules refuse what does not fit their table", "[errors][attention]") {
  const nn::PositionalEncoding encoding{{.length = 8, .features = 4}};
  const nn::PositionEmbedding embedding{{.length = 2, .features = 4}};
  const Tensor none;
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::PositionalEncoding bad{{.features = 4}}; },
       "PositionalEncoding: 0 positions of 4 features were asked for; both must be >= 1."},
      {__LINE__, message_of<Error>, [&] { nn::PositionalEncoding bad{{.length = 2, .features = 4, .keep = 0}}; },
       "PositionalEncoding: keep is 0; it must be in (0, 1]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::PositionEmbedding bad{{.length = 4}}; },
       "PositionEmbedding: 4 positions of 0 features were asked for; both must be >= 1."},
      {__LINE__, message_of<Error>, [&] { encoding(none); }, "PositionalEncoding: the input" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { encoding(ones({3, 4}, {.dtype = DType::int64})); },
       "PositionalEncoding: the input is int64; it must be of a floating type."},
      {__LINE__, message_of<ShapeError>, [&] { encoding(ones({2, 9, 4})); },
       "PositionalEncoding: the input is [2, 9, 4]; it must be [..., length, 4] with a length of at most 8."},
      {__LINE__, message_of<ShapeError>, [&] { embedding(ones({2, 5})); },
       "PositionEmbedding: the input is [2, 5]; it must be [..., length, 4] with a length of at most 2."},
  }, file);
}

TEST_CASE("transformers refuse sizes that make no sense, and inputs that do not fit", "[errors][transformer]") {
  const Operands o;
  const nn::TransformerLayerOptions fine{.embed = 4, .heads = 2, .feed_forward = 3};
  const nn::TransformerEncoderLayer encoder{fine};
  const nn::TransformerDecoderLayer decoder{fine};
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { nn::TransformerEncoderLayer bad{{.embed = 6, .heads = 4}}; },
       "TransformerEncoderLayer: 6 features and 4 heads were asked for; both must be >= 1, and the heads must divide the features."},
      {__LINE__, message_of<ShapeError>, [&] { nn::TransformerDecoderLayer bad{{.embed = 4, .feed_forward = 0}}; },
       "TransformerDecoderLayer: 0 units were asked for between the linear layers; there must be one or more."},
      {__LINE__, message_of<Error>, [&] { nn::TransformerDecoderLayer bad{{.embed = 4, .keep = 0}}; }, "TransformerDecoderLayer: keep is 0; it must be in (0, 1]."},
      {__LINE__, message_of<Error>, [&] { nn::TransformerEncoderLayer bad{{.embed = 4, .epsilon = -1}}; },
       "TransformerEncoderLayer: epsilon is -1; it must be finite and >= 0."},
      {__LINE__, message_of<ShapeError>, [&] { nn::TransformerEncoder bad{{.layer = fine, .layers = 0}}; },
       "TransformerEncoder: 0 layers were asked for; one is the least."},
      {__LINE__, message_of<ShapeError>, [&] { nn::TransformerDecoder bad{{.layers = 2}}; },
       "TransformerDecoder: 0 features and 1 heads were asked for; both must be >= 1, and the heads must divide the features."},
      {__LINE__, message_of<ShapeError>, [&] { nn::Transformer bad{{.layer = fine, .decoder_layers = -1}}; },
       "Transformer: 6 layers of the encoder and -1 of the decoder were asked for; one of each is the least."},
      {__LINE__, message_of<Error>, [&] { encoder(o.none); }, "TransformerEncoderLayer: the input" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { encoder(o.v); }, "TransformerEncoderLayer: the input is [2, 5, 6]; it must be [batch, length, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { decoder(o.q, o.v); }, "TransformerDecoderLayer: the memory is [2, 5, 6]; it must be [batch, length, 4]."},
      {__LINE__, message_of<ShapeError>, [&] { encoder(o.q, {.mask = ones({3, 4})}); },
       "MultiheadAttention: the mask is [3, 4]; it must broadcast to [2, 2, 3, 3], [batch, heads, queries, keys]."},
  }, file);
}

TEST_CASE("transformers that refuse a mask have drawn no random numbers and recorded nothing", "[errors][transformer]") {
  const nn::TransformerLayerOptions options{.embed = 4, .heads = 2, .feed_forward = 3, .keep = 0.5};
  const nn::TransformerDecoderLayer layer{options};
  const nn::Transformer model{{.layer = options, .encoder_layers = 1, .decoder_layers = 1}};
  const Tensor x = ones({2, 3, 4}), memory = ones({2, 5, 4}), bad = ones({3, 4}) > 0;
  const std::uint64_t position = default_rng().position();
  GradientTape tape;
  CHECK_THROWS_AS(layer(x, memory, {.memory = {.mask = bad}}), ShapeError);
  CHECK_THROWS_AS(layer(x, ones({3, 5, 4})), ShapeError);
  CHECK_THROWS_AS(model(memory, x, {.target = {.mask = bad}}), ShapeError);
  CHECK_THROWS_AS(model(memory, x, {.memory = {.key_mask = bad}}), ShapeError);
  CHECK(default_rng().position() == position);
  CHECK(tape.size() == 0);
}

TEST_CASE("attention and transformers that fail behind a dropout leave the generator where it was", "[errors][transformer]") {
  const nn::TransformerLayerOptions options{.embed = 4, .heads = 2, .feed_forward = 3, .keep = 0.5};
  const Tensor x = ones({2, 3, 4});
  nn::MultiheadAttention attention{{.embed = 4, .heads = 2, .keep = 0.5}};
  nn::TransformerEncoder encoder{{.layer = options, .layers = 2}};
  nn::TransformerDecoder decoder{{.layer = options, .layers = 2}};
  nn::Transformer model{{.layer = options, .encoder_layers = 1, .decoder_layers = 1}};
  nn::Linear* const last[] = {&attention.out, &encoder.layers[1].linear2, &decoder.layers[1].linear2,
                              &model.decoder.layers[0].linear2};
  for (nn::Linear* const layer : last) layer->weight = Parameter(ones({5, 4}));  // does not fit what comes before it
  const RngState before = default_rng().state();
  CHECK_THROWS_AS(attention(x), ShapeError);
  CHECK_THROWS_AS(attention.with_weights(x, x, x), ShapeError);
  CHECK_THROWS_AS(encoder(x), ShapeError);
  CHECK_THROWS_AS(encoder.layers[1](x), ShapeError);
  CHECK_THROWS_AS(decoder(x, x), ShapeError);
  CHECK_THROWS_AS(decoder.layers[1](x, x), ShapeError);
  CHECK_THROWS_AS(model(x, x), ShapeError);
  CHECK(default_rng().state() == before);
}
