// Uses of attention, rotary embeddings and transformers whose gradients are checked.
#include "tests/gradient_check.hpp"
#include "tests/support.hpp"

using namespace capstan;

namespace tests {

namespace {

using Tensors = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed) { return random_in(-1, 1, shape, DType::float64, seed); }

constexpr const char* kAttention = "scaled_dot_product_attention";

void add_operands(std::vector<GradientCase>& cases) {
  struct Sizes {
    Shape query, key, value;
  };
  const Sizes sizes[] = {{{2, 3, 4}, {2, 5, 4}, {2, 5, 2}},
                         {{3, 2}, {4, 2}, {4, 3}},
                         {{2, 2, 3, 2}, {2, 1, 4, 2}, {4, 3}},  // leading axes broadcast
                         {{1, 1}, {1, 1}, {1, 1}},
                         {{2, 0, 3}, {2, 4, 3}, {2, 4, 2}},
                         {{2, 3}, {0, 3}, {0, 2}}};
  for (const Sizes& s : sizes)
    for (const bool causal : {false, true})
      cases.push_back({kAttention,
                       to_string(s.query) + ", " + to_string(s.key) + (causal ? ", causal" : ""),
                       [causal](const Tensors& in) {
                         return scaled_dot_product_attention(in[0], in[1], in[2], {.causal = causal});
                       },
                       {random(s.query, 401), random(s.key, 402), random(s.value, 403)}});
  cases.push_back({kAttention,
                   "of one tensor, transposed",
                   [](const Tensors& in) {
                     const Tensor x = transpose(in[0], 1, 2);
                     return scaled_dot_product_attention(x, x, x, {.scale = 0.8});
                   },
                   {random({2, 3, 4}, 404)}});
  cases.push_back({kAttention,
                   "heads within a projection",
                   [](const Tensors& in) {
                     const auto heads = [&](std::int64_t part) {
                       return permute(reshape(narrow(in[0], 2, 4 * part, 4), {1, 3, 2, 2}), {0, 2, 1, 3});
                     };
                     return scaled_dot_product_attention(heads(0), heads(1), heads(2));
                   },
                   {random({1, 3, 12}, 405)}});
}

void add_masks(std::vector<GradientCase>& cases) {
  const Tensor flags = {{true, false, true, true}, {false, false, false, false}, {true, true, false, true}};
  const Tensor shut = where(flags, random({3, 4}, 411), -kInfinity);
  const Tensors inputs = {random({2, 3, 2}, 412), random({2, 4, 2}, 413), random({2, 4, 3}, 414)};
  const std::pair<const char*, AttentionOptions> masks[] = {
      {"a mask, one query sees nothing", {.mask = flags}},
      {"a bias with -infinity", {.bias = shut}},
      {"a mask and a bias, causal", {.mask = flags, .bias = random({2, 1, 4}, 415), .causal = true}}};
  for (const auto& [usage, options] : masks) {
    cases.push_back({kAttention, usage,
                     [o = options](const Tensors& in) { return scaled_dot_product_attention(in[0], in[1], in[2], o); },
                     inputs});
    cases.push_back({"attention_with_weights", usage,
                     [o = options](const Tensors& in) {
                       const AttentionResult both = attention_with_weights(in[0], in[1], in[2], o);
                       return matmul(transpose(both.weights, 1, 2), both.output);
                     },
                     inputs});
  }
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 1, 4}, Shape{}}) {
    Tensors with_bias = inputs;
    with_bias.push_back(random(shape, 416));
    cases.push_back({kAttention, "a bias that is followed, " + to_string(shape),
                     [](const Tensors& in) {
                       return scaled_dot_product_attention(in[0], in[1], in[2], {.bias = in[3], .causal = true});
                     },
                     with_bias});
    cases.push_back({kAttention, "a floating mask that is followed, " + to_string(shape),
                     [flags](const Tensors& in) {
                       return scaled_dot_product_attention(in[0], in[1], in[2], {.mask = in[3]}) +
                              scaled_dot_product_attention(in[0], in[1], in[2], {.mask = flags, .bias = in[3]});
                     },
                     with_bias});
  }
  cases.push_back({kAttention, "with dropout, the same every time",
                   [](const Tensors& in) {
                     Rng rng(5);
                     return scaled_dot_product_attention(in[0], in[1], in[2], {.keep = 0.7}, rng);
                   },
                   inputs});
}

void add_rotary(std::vector<GradientCase>& cases) {
  for (const bool interleaved : {true, false})
    for (const Shape& shape : {Shape{3, 4}, Shape{2, 2, 3, 2}, Shape{2, 0, 4}, Shape{2, 0}})
      cases.push_back({"rotary_embedding",
                       to_string(shape) + (interleaved ? ", neighbours" : ", halves"),
                       [interleaved](const Tensors& in) {
                         return square(rotary_embedding(in[0], {.offset = 2, .interleaved = interleaved}));
                       },
                       {random(shape, 421)}});
  const Tensor places = {{0, 3, 1}, {2, 2, 0}};
  cases.push_back(
      {"rotary_embedding",
       "positions, a transposed tensor",
       [places](const Tensors& in) { return square(rotary_embedding(transpose(in[0], 1, 2), {.positions = places})); },
       {random({2, 4, 3}, 422)}});
}

// --- modules: gradients for inputs and all parameters -------------------------------------------------------------

/// The inputs, and values for all parameters, near 1 for the weights of norms.
template <class Model>
Tensors with_parameters(Tensors inputs, Model model) {
  std::uint64_t seed = 441;
  for (const NamedTensor& p : nn::named_parameters(model)) {
    const bool of_norm = p.name.find("norm") != std::string::npos && p.name.find("weight") != std::string::npos;
    inputs.push_back(random(p.value.shape(), seed++) + (of_norm ? 1.0 : 0.0));
  }
  return inputs;
}

void add_multihead(std::vector<GradientCase>& cases) {
  using Options = nn::MultiheadAttentionOptions;
  const Tensor places = {{true, true, false}, {true, true, true}};
  const std::pair<const char*, Options> variants[] = {
      {"nn::MultiheadAttention", {.embed = 4, .heads = 2, .dtype = DType::float64}},
      {"nn::MultiheadAttention, other features, no bias",
       {.embed = 2, .heads = 1, .key_features = 3, .value_features = 2, .bias = false, .dtype = DType::float64}},
      {"nn::MultiheadAttention, more keys",
       {.embed = 2, .heads = 2, .add_bias_kv = true, .add_zero_attention = true, .dtype = DType::float64}}};
  for (const auto& [usage, options] : variants) {
    const std::int64_t keys = options.key_features > 0 ? options.key_features : options.embed;
    const std::int64_t columns = options.value_features > 0 ? options.value_features : options.embed;
    cases.push_back(
        {kAttention, usage,
         [o = options, places](const Tensors& in) {
           nn::MultiheadAttention layer(o);
           put_all(layer, in, 3);
           return layer(in[0], in[1], in[2], {.key_mask = places, .causal = true});
         },
         with_parameters({random({2, 2, options.embed}, 431), random({2, 3, keys}, 432), random({2, 3, columns}, 433)},
                         nn::MultiheadAttention(options))});
  }
  const Options small{.embed = 2, .heads = 2, .dtype = DType::float64};
  cases.push_back({"attention_with_weights", "nn::MultiheadAttention, a followed mask, averaged weights",
                   [small](const Tensors& in) {
                     nn::MultiheadAttention layer(small);
                     put_all(layer, in, 2);
                     const AttentionResult both = layer.with_weights(in[0], in[0], in[0], {.mask = in[1]});
                     return matmul(both.weights, both.output);
                   },
                   with_parameters({random({1, 3, 2}, 434), random({3, 3}, 435)}, nn::MultiheadAttention(small))});
  cases.push_back({"add",
                   "nn::PositionEmbedding",
                   [](const Tensors& in) {
                     nn::PositionEmbedding layer({.length = 4, .features = 2, .dtype = DType::float64});
                     put_all(layer, in, 1);
                     return square(layer(in[0]));
                   },
                   {random({2, 3, 2}, 436), random({4, 2}, 437)}});
}

void add_transformers(std::vector<GradientCase>& cases) {
  for (const bool norm_first : {false, true}) {
    const nn::TransformerLayerOptions options{.embed = 4,
                                              .heads = 2,
                                              .feed_forward = 3,
                                              .keep = 1,
                                              .activation = nn::FeedForwardActivation::gelu,
                                              .norm_first = norm_first,
                                              .epsilon = 0.1,  // keeps higher derivatives small
                                              .dtype = DType::float64};
    const std::string usage = norm_first ? ", norms first" : "";
    cases.push_back({kAttention, "nn::TransformerEncoderLayer" + usage,
                     [options](const Tensors& in) {
                       nn::TransformerEncoderLayer layer(options);
                       put_all(layer, in, 1);
                       return layer(in[0], {.causal = true});
                     },
                     with_parameters({random({1, 3, 4}, 451)}, nn::TransformerEncoderLayer(options))});
    cases.push_back(
        {kAttention, "nn::TransformerDecoderLayer" + usage,
         [options](const Tensors& in) {
           nn::TransformerDecoderLayer layer(options);
           put_all(layer, in, 2);
           return layer(in[0], in[1], {.self = {.causal = true}});
         },
         with_parameters({random({1, 2, 4}, 452), random({1, 3, 4}, 453)}, nn::TransformerDecoderLayer(options))});
  }
  const nn::TransformerOptions whole{.layer = {.embed = 2,
                                               .heads = 1,
                                               .feed_forward = 2,
                                               .keep = 1,
                                               .activation = nn::FeedForwardActivation::gelu_tanh,
                                               .norm_first = true,
                                               .epsilon = 0.1,
                                               .dtype = DType::float64},
                                     .encoder_layers = 1,
                                     .decoder_layers = 1};
  cases.push_back({kAttention, "nn::Transformer",
                   [whole](const Tensors& in) {
                     nn::Transformer model(whole);
                     put_all(model, in, 2);
                     return model(in[0], in[1], {.target = {.causal = true}});
                   },
                   with_parameters({random({1, 2, 2}, 454), random({1, 2, 2}, 455)}, nn::Transformer(whole))});
}

}  // namespace

std::vector<GradientCase> attention_gradient_cases() {
  std::vector<GradientCase> cases;
  add_operands(cases);
  add_masks(cases);
  add_rotary(cases);
  add_multihead(cases);
  add_transformers(cases);
  return cases;
}

}  // namespace tests
