// Multi-head attention and transformers as models: parameters, masks, training mode, stacks, learning.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype = DType::float64) {
  return random_in(-1, 1, shape, dtype, seed);
}

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

nn::MultiheadAttentionOptions small_attention() { return {.embed = 6, .heads = 2, .dtype = DType::float64}; }

nn::TransformerLayerOptions small_layer() {
  return {.embed = 6, .heads = 2, .feed_forward = 5, .keep = 1, .dtype = DType::float64};
}

/// A row of x with other numbers in it.
Tensor changed_at(const Tensor& x, std::int64_t place) {
  Tensor other = x.copy();
  other.index_put({all, place}, random({x.size(0), x.size(2)}, 99));
  return other;
}

}  // namespace

// --- multi-head attention ---------------------------------------------------------------------------------------

TEST_CASE("the parameters of multi-head attention are named by their parts", "[nn][attention]") {
  nn::MultiheadAttention full{{.embed = 4, .heads = 2, .key_features = 3, .value_features = 5, .add_bias_kv = true}};
  CHECK(names_of(full) == std::vector<std::string>{"query.weight", "query.bias", "key.weight", "key.bias",
                                                   "value.weight", "value.bias", "out.weight", "out.bias", "bias_key",
                                                   "bias_value"});
  CHECK(full.key.weight.shape() == Shape{3, 4});
  CHECK(full.value.weight.shape() == Shape{5, 4});
  CHECK(full.bias_key.shape() == Shape{4});
  nn::MultiheadAttention plain{{.embed = 4, .heads = 2, .bias = false}};
  CHECK(names_of(plain) == std::vector<std::string>{"query.weight", "key.weight", "value.weight", "out.weight"});
}

TEST_CASE("multi-head attention is projections around attention in each head", "[nn][attention]") {
  const nn::MultiheadAttention layer{small_attention()};
  const Tensor q = random({2, 3, 6}, 1), k = random({2, 4, 6}, 2), v = random({2, 4, 6}, 3);
  Tensor expected_heads[2], expected_weights[2];
  for (std::int64_t head = 0; head < 2; ++head) {
    const auto part = [&](const nn::Linear& projection, const Tensor& x) {
      return narrow(matmul(x, projection.weight) + projection.bias, 2, 3 * head, 3);
    };
    const Tensor scores = matmul(part(layer.query, q), transpose(part(layer.key, k), 1, 2)) / std::sqrt(3.0);
    expected_weights[head] = softmax(scores);
    expected_heads[head] = matmul(expected_weights[head], part(layer.value, v));
  }
  const Tensor expected = matmul(concat({expected_heads[0], expected_heads[1]}, 2), layer.out.weight) + layer.out.bias;
  CHECK(close(layer(q, k, v), expected, tolerance::product64));
  const AttentionResult averaged = layer.with_weights(q, k, v);
  CHECK(close(averaged.output, expected, tolerance::product64));
  CHECK(close(averaged.weights, (expected_weights[0] + expected_weights[1]) / 2, tolerance::product64));
  const AttentionResult each = layer.with_weights(q, k, v, {}, nn::HeadWeights::each);
  CHECK(close(each.weights, stack({expected_weights[0], expected_weights[1]}, 1), tolerance::product64));
  CHECK(same(layer(q), layer(q, q, q)));
}

TEST_CASE("PyTorch's packed projection becomes three", "[nn][attention]") {
  const Tensor in_proj_weight = random({18, 6}, 4), in_proj_bias = random({18}, 5), x = random({2, 3, 6}, 6);
  nn::MultiheadAttention layer{small_attention()};
  nn::Linear* const projections[] = {&layer.query, &layer.key, &layer.value};
  for (std::int64_t i = 0; i < 3; ++i) {
    projections[i]->weight.assign(transpose(narrow(in_proj_weight, 0, 6 * i, 6)));
    projections[i]->bias.assign(narrow(in_proj_bias, 0, 6 * i, 6));
  }
  const Tensor packed = matmul(x, transpose(in_proj_weight)) + in_proj_bias;  // what PyTorch computes first
  const auto heads = [&](std::int64_t i) {
    return permute(reshape(narrow(packed, 2, 6 * i, 6), {2, 3, 2, 3}), {0, 2, 1, 3});
  };
  const Tensor joined =
      reshape(permute(scaled_dot_product_attention(heads(0), heads(1), heads(2)), {0, 2, 1, 3}), {2, 3, 6});
  CHECK(close(layer(x), matmul(joined, layer.out.weight) + layer.out.bias, tolerance::product64));
}

TEST_CASE("masks of multi-head attention combine", "[nn][attention]") {
  const nn::MultiheadAttention layer{small_attention()};
  const Tensor x = random({2, 4, 6}, 7), lengths = {4, 2};
  const Tensor keys = sequence_mask(lengths, 4), flags = random({4, 4}, 8) > -0.3, bias = random({2, 1, 4, 4}, 9);
  const Tensor past = causal_mask(4, 4), seen = reshape(keys, {2, 1, 1, 4});
  CHECK(close(layer(x, {.causal = true}), layer(x, {.mask = past}), tolerance::product64));
  CHECK(close(layer(x, {.key_mask = keys}), layer(x, {.mask = seen}), tolerance::product64));
  CHECK(close(layer(x, {.mask = flags, .key_mask = keys, .causal = true}),
              layer(x, {.mask = logical_and(logical_and(flags, past), seen)}), tolerance::product64));
  CHECK(close(layer(x, {.mask = bias, .key_mask = keys}), layer(x, {.mask = where(seen, bias, -kInfinity)}),
              tolerance::product64));
  // what is padding has no influence on the rest
  Tensor other = x.copy();
  other.index_put({1, range(2, 4)}, 5);
  const Tensor before = layer(x, {.key_mask = keys}), after = layer(other, {.key_mask = keys});
  CHECK(same(before[0], after[0]));
  CHECK(same(before.index({1, range(0, 2)}), after.index({1, range(0, 2)})));
}

TEST_CASE("added keys may be attended to by all, whatever the masks say", "[nn][attention]") {
  nn::MultiheadAttentionOptions options = small_attention();
  options.add_bias_kv = options.add_zero_attention = true;
  const nn::MultiheadAttention layer{options};
  const Tensor x = random({2, 3, 6}, 10), nobody = Tensor{{false, false, false}, {true, true, true}};
  const AttentionResult result =
      layer.with_weights(x, x, x, {.key_mask = nobody, .causal = true}, nn::HeadWeights::each);
  CHECK(result.weights.shape() == Shape{2, 2, 3, 5});
  CHECK(same(narrow(result.weights[0], 2, 0, 3), zeros({2, 3, 3}, {.dtype = DType::float64})));
  CHECK(close(sum(result.weights, -1), ones({2, 2, 3}, {.dtype = DType::float64}), tolerance::roundings64));
  CHECK(result.weights.at<double>(1, 0, 0, 1) == 0);  // causal still
  CHECK(result.weights.at<double>(1, 0, 0, 4) > 0);
  for (const Tensor& mask :
       {Tensor(false), random({3, 1}, 11) > 2, zeros({3, 3}, {.dtype = DType::float64}) - kInfinity})
    CHECK(number(sum(narrow(layer.with_weights(x, x, x, {.mask = mask}).weights, 2, 0, 3))) == 0);
  // the zero key has score 0 and value 0; the learned one its own
  const Tensor key = layer.bias_key, query = narrow(matmul(x, layer.query.weight), 2, 0, 3);  // biases begin at 0
  const Tensor score = matmul(query, narrow(key, 0, 0, 3)) / std::sqrt(3.0);
  CHECK(close(result.weights.index({0, 0, all, 3}), sigmoid(score[0]), tolerance::product64));
}

TEST_CASE("weights are dropped out in training alone", "[nn][attention]") {
  nn::MultiheadAttentionOptions options = small_attention();
  options.keep = 0.5;
  nn::MultiheadAttention layer{options};
  const Tensor x = random({2, 5, 6}, 12);
  CHECK(layer.training());
  CHECK_FALSE(same_bits(values(layer(x)), values(layer(x))));
  nn::set_training(layer, false);
  CHECK_FALSE(layer.training());
  CHECK(same(layer(x), layer(x)));
}

TEST_CASE("nothing of the size queries times keys is kept by multi-head attention", "[nn][attention][memory]") {
  const nn::MultiheadAttention layer{{.embed = 16, .heads = 4}};
  const Tensor x = random({1, 256, 16}, 13, DType::float32);
  GradientTape tape;
  tape.watch(x);
  layer(x);
  // x for three projections; q, k, v, the result and two numbers a query; what the last projection reads; weights
  const std::int64_t row = 256 * 16 * 4, weight = 16 * 16 * 4;
  CHECK(tape.bytes_kept() <= 8 * row + 256 * 4 * 2 * 4 + 4 * weight);
}

// --- positions --------------------------------------------------------------------------------------------------

TEST_CASE("positional encodings are added to the front of their table", "[nn][attention]") {
  nn::PositionalEncoding encoding{{.length = 8, .features = 4, .dtype = DType::float64}};
  const Tensor x = random({2, 3, 4}, 21);
  CHECK(close(encoding(x), x + sinusoidal_positions(3, 4, 10000, {.dtype = DType::float64}), tolerance::roundings64));
  CHECK(nn::parameters(encoding).empty());
  CHECK(encoding(x.to(DType::float32)).dtype() == DType::float32);
  nn::PositionalEncoding dropping{{.length = 8, .features = 4, .keep = 0.5, .dtype = DType::float64}};
  CHECK_FALSE(same_bits(values(dropping(x)), values(encoding(x))));
  nn::set_training(dropping, false);
  CHECK(same(dropping(x), encoding(x)));

  // whatever type it was made in, and whatever a model is cast to
  for (const DType made : {DType::bfloat16, DType::float32, DType::float64}) {
    nn::PositionalEncoding any{{.length = 8, .features = 4, .dtype = made}};
    nn::cast(any, DType::float32);
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64})
      CHECK(same(any(x.to(dtype)), x.to(dtype) + sinusoidal_positions(3, 4, 10000, {.dtype = dtype})));
  }

  nn::PositionEmbedding learned{{.length = 8, .features = 4, .dtype = DType::float64}};
  CHECK(same(learned(x), x + narrow(learned.weight, 0, 0, 3)));
  CHECK(names_of(learned) == std::vector<std::string>{"weight"});
}

// --- layers and stacks ------------------------------------------------------------------------------------------

TEST_CASE("an encoder layer is attention and two linear layers, each around a residual", "[nn][transformer]") {
  for (const bool norm_first : {false, true}) {
    nn::TransformerLayerOptions options = small_layer();
    options.norm_first = norm_first;
    for (const auto activation :
         {nn::FeedForwardActivation::relu, nn::FeedForwardActivation::gelu, nn::FeedForwardActivation::gelu_tanh}) {
      options.activation = activation;
      const nn::TransformerEncoderLayer layer{options};
      const Tensor x = random({2, 3, 6}, 31);
      const auto forward = [&](const Tensor& y) {
        const Tensor h = layer.linear1(y);
        if (activation == nn::FeedForwardActivation::relu) return layer.linear2(relu(h));
        return layer.linear2(gelu(h, activation == nn::FeedForwardActivation::gelu ? GeluForm::exact : GeluForm::tanh));
      };
      Tensor expected;
      if (norm_first) {
        const Tensor attended = x + layer.self_attention(layer.norm1(x));
        expected = attended + forward(layer.norm2(attended));
      } else {
        const Tensor attended = layer.norm1(x + layer.self_attention(x));
        expected = layer.norm2(attended + forward(attended));
      }
      CHECK(close(layer(x), expected, tolerance::product64));
    }
  }
}

TEST_CASE("the parameters of layers and stacks are named by their parts", "[nn][transformer]") {
  nn::TransformerDecoder decoder{{.layer = small_layer(), .layers = 2, .final_norm = true}};
  const std::vector<std::string> names = names_of(decoder);
  CHECK(names.size() == 2u * (8 + 8 + 4 + 6) + 2);
  CHECK(names.front() == "layers.0.self_attention.query.weight");
  CHECK(names.at(8) == "layers.0.cross_attention.query.weight");
  CHECK(names.at(25) == "layers.0.norm3.bias");
  CHECK(names.back() == "norm.bias");
  nn::TransformerEncoder encoder{{.layer = small_layer(), .layers = 3}};
  CHECK(names_of(encoder).size() == 3u * (8 + 4 + 4));  // no final norm, no parameters of it
  CHECK(names_of(encoder).back() == "layers.2.norm2.bias");
}

TEST_CASE("with causal masks no place depends on a later one", "[nn][transformer]") {
  const nn::Transformer model{{.layer = small_layer(), .encoder_layers = 2, .decoder_layers = 2}};
  const Tensor source = random({2, 4, 6}, 41), target = random({2, 5, 6}, 42);
  const nn::TransformerMasks masks{.target = {.causal = true}};
  const Tensor y = model(source, target, masks);
  CHECK(y.shape() == target.shape());
  for (std::int64_t place = 0; place < 5; ++place) {
    const Tensor other = model(source, changed_at(target, place), masks);
    CHECK(same(narrow(y, 1, 0, place), narrow(other, 1, 0, place)));
    CHECK_FALSE(same_bits(values(narrow(y, 1, place, 1)), values(narrow(other, 1, place, 1))));
  }
  const Tensor elsewhere = model(changed_at(source, 3), target, masks);  // but on all of the source
  CHECK_FALSE(same_bits(values(narrow(y, 1, 0, 1)), values(narrow(elsewhere, 1, 0, 1))));
  const Tensor mask = sequence_mask(Tensor{3, 3}, 4);  // unless that is masked out, on both sides
  const nn::TransformerMasks hidden{
      .source = {.key_mask = mask}, .target = {.causal = true}, .memory = {.key_mask = mask}};
  CHECK(same(model(source, target, hidden), model(changed_at(source, 3), target, hidden)));
}

TEST_CASE("a stack is its layers one after another", "[nn][transformer]") {
  const nn::TransformerEncoder encoder{{.layer = small_layer(), .layers = 2, .final_norm = true}};
  const nn::TransformerDecoder decoder{{.layer = small_layer(), .layers = 2}};
  const Tensor x = random({2, 3, 6}, 51), memory = random({2, 4, 6}, 52);
  CHECK(same(encoder(x), encoder.norm(encoder.layers[1](encoder.layers[0](x)))));
  CHECK(same(decoder(x, memory), decoder.layers[1](decoder.layers[0](x, memory), memory)));
}

TEST_CASE("dropout of transformers is switched off outside training, in every layer", "[nn][transformer]") {
  nn::TransformerLayerOptions options = small_layer();
  options.keep = 0.6;
  nn::Transformer model{{.layer = options, .encoder_layers = 1, .decoder_layers = 1}};
  const Tensor source = random({1, 3, 6}, 61), target = random({1, 2, 6}, 62);
  CHECK_FALSE(same_bits(values(model(source, target)), values(model(source, target))));
  nn::set_training(model, false);
  CHECK_FALSE(model.training());
  CHECK(same(model(source, target), model(source, target)));
  model.set_training(true);  // by itself it does the same
  CHECK(model.decoder.layers[0].cross_attention.training());
  model.set_training(false);
  CHECK(same(model(source, target), model(source, target)));
}

TEST_CASE("copying a transformer copies its parameters", "[nn][transformer]") {
  const nn::TransformerEncoder original{{.layer = small_layer(), .layers = 2}};
  nn::TransformerEncoder copy = original;
  const Tensor x = random({1, 3, 6}, 71), before = original(x);
  CHECK(same(copy(x), before));
  copy.layers[0].linear1.weight.fill(0);
  CHECK(same(original(x), before));
  CHECK_FALSE(same_bits(values(copy(x)), values(before)));
}

TEST_CASE("a transformer layer with positions learns by following its gradients", "[nn][transformer]") {
  // every place is to show what stands at the first
  struct Model {
    nn::TransformerEncoderLayer layer;
    nn::PositionEmbedding places;
    nn::Linear out;
  };
  Rng rng(5);
  Model model{nn::TransformerEncoderLayer({.embed = 8, .heads = 2, .feed_forward = 16, .keep = 1}, rng),
              nn::PositionEmbedding({.length = 4, .features = 8}, rng), nn::Linear(8, 8, {}, rng)};
  const Tensor x = random({32, 4, 8}, 81, DType::float32);
  const Tensor wanted = broadcast_to(narrow(x, 1, 0, 1), {32, 4, 8});
  const auto loss = [&] { return mean(square(model.out(model.layer(model.places(x))) - wanted)); };
  const double before = number(loss());
  const std::vector<Tensor> parameters = nn::parameters(model);
  for (int step = 0; step < 150; ++step) {
    GradientTape tape;
    const std::vector<Tensor> gradients = tape.gradient(loss(), parameters);
    const NoGrad off;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Tensor p = parameters[i];
      p -= gradients[i] * 0.5;
    }
  }
  INFO("mean squared error " << before << " before, " << number(loss()) << " after");
  CHECK(number(loss()) < before / 3);
}

TEST_CASE("transformers do not depend on the number of threads", "[nn][transformer][threads]") {
  Rng rng(6);
  const nn::TransformerEncoder encoder({.layer = {.embed = 64, .heads = 4, .feed_forward = 96, .keep = 1}, .layers = 2},
                                       rng);
  const Tensor x = random({4, 70, 64}, 91, DType::float32);
  std::vector<double> expected;
  for (const int count : {1, 2, 3}) {
    const ThreadCount some(count);
    GradientTape tape;
    tape.watch(x);
    const std::vector<double> gradient = values(tape.gradient(encoder(x, {.causal = true}), x));
    if (expected.empty()) expected = gradient;
    INFO(count << " threads");
    CHECK(same_bits(gradient, expected));
  }
}
