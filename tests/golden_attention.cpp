// Attention and the layers of transformers against PyTorch.
#include <map>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// PyTorch's parameters, taken by their names.
class Parameters {
 public:
  explicit Parameters(const GoldenCall& c) {
    const auto names = c.field("params").get<std::vector<std::string>>();
    const auto inputs = c.field("nin").get<std::size_t>();
    for (std::size_t i = 0; i < names.size(); ++i) by_name_[names[i]] = c.tensor(inputs + i);
  }
  ~Parameters() { CHECK(by_name_.empty()); }  // each has found its place

  bool has(const std::string& name) const { return by_name_.count(name) == 1; }
  Tensor take(const std::string& name) {
    const Tensor value = by_name_.at(name);
    by_name_.erase(name);
    return value;
  }
  /// Into a parameter, which becomes one of the inputs that the tape follows.
  void put(Parameter& to, const std::string& name) { put(to, take(name)); }
  static void put(Parameter& to, const Tensor& value) {
    CHECK(to.shape() == value.shape());
    static_cast<Tensor&>(to) = value;
  }

  void linear(nn::Linear& layer, const std::string& name) {
    put(layer.weight, transpose(take(name + ".weight")));
    if (has(name + ".bias")) put(layer.bias, name + ".bias");
  }
  void norm(nn::LayerNorm& layer, const std::string& name) {
    put(layer.weight, name + ".weight");
    put(layer.bias, name + ".bias");
  }
  void attention(nn::MultiheadAttention& layer, const std::string& prefix) {
    nn::Linear* const projections[] = {&layer.query, &layer.key, &layer.value};
    const char* const apart[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    Tensors weights, biases;
    if (has(prefix + "in_proj_weight")) weights = split(take(prefix + "in_proj_weight"), 3);
    else
      for (const char* name : apart) weights.push_back(take(prefix + name));
    if (has(prefix + "in_proj_bias")) biases = split(take(prefix + "in_proj_bias"), 3);
    for (std::size_t i = 0; i < 3; ++i) {
      put(projections[i]->weight, transpose(weights[i]));
      if (!biases.empty()) put(projections[i]->bias, biases[i]);
    }
    linear(layer.out, prefix + "out_proj");
    if (!has(prefix + "bias_k")) return;
    put(layer.bias_key, flatten(take(prefix + "bias_k")));
    put(layer.bias_value, flatten(take(prefix + "bias_v")));
  }

 private:
  std::map<std::string, Tensor> by_name_;
};

Tensors multihead_attention(const GoldenCall& c) {
  const Json& config = c.field("config");
  nn::MultiheadAttention layer({.embed = config.at("embed_dim").get<std::int64_t>(),
                                .heads = config.at("num_heads").get<std::int64_t>(),
                                .key_features = config.value("kdim", std::int64_t{0}),
                                .value_features = config.value("vdim", std::int64_t{0}),
                                .bias = config.value("bias", true),
                                .add_bias_kv = config.value("add_bias_kv", false),
                                .add_zero_attention = config.value("add_zero_attn", false),
                                .dtype = c.tensor(0).dtype()});
  Parameters(c).attention(layer, "");
  const bool batch_first = config.value("batch_first", false), self = c.field("nin").get<int>() == 1;
  const auto turned = [&](const Tensor& x) { return batch_first ? x : transpose(x, 0, 1); };
  const Tensor q = turned(c.tensor(0)), k = self ? q : turned(c.tensor(1)), v = self ? q : turned(c.tensor(2));
  const nn::AttentionMasks masks{.causal = config.value("causal", false)};
  const AttentionResult result = layer.with_weights(q, k, v, masks);
  const double allowed = q.dtype() == DType::float64 ? tolerance::product64 : tolerance::roundings32;
  CHECK(close(layer(q, k, v, masks), result.output, allowed));  // in one kernel
  return {turned(result.output), result.weights};
}

nn::TransformerLayerOptions layer_options(const GoldenCall& c) {
  const Json& config = c.field("config");
  return {.embed = config.at("d_model").get<std::int64_t>(),
          .heads = config.at("nhead").get<std::int64_t>(),
          .feed_forward = config.at("dim_feedforward").get<std::int64_t>(),
          .keep = 1,
          .norm_first = config.value("norm_first", false),
          .dtype = c.tensor(0).dtype()};
}

/// What encoder and decoder layers have in common.
template <class Layer>
void put_common(Parameters& parameters, Layer& layer) {
  parameters.attention(layer.self_attention, "self_attn.");
  parameters.linear(layer.linear1, "linear1");
  parameters.linear(layer.linear2, "linear2");
  parameters.norm(layer.norm1, "norm1");
  parameters.norm(layer.norm2, "norm2");
}

Tensors encoder_layer(const GoldenCall& c) {
  nn::TransformerEncoderLayer layer(layer_options(c));
  Parameters parameters(c);
  put_common(parameters, layer);
  return {layer(c.tensor(0))};
}

Tensors decoder_layer(const GoldenCall& c) {
  nn::TransformerDecoderLayer layer(layer_options(c));
  Parameters parameters(c);
  put_common(parameters, layer);
  parameters.attention(layer.cross_attention, "multihead_attn.");
  parameters.norm(layer.norm3, "norm3");
  return {layer(c.tensor(0), c.tensor(1))};
}

const GoldenOps ops = {{"multihead_attention", multihead_attention},
                       {"transformer_encoder_layer", encoder_layer},
                       {"transformer_decoder_layer", decoder_layer}};

}  // namespace

TEST_CASE("attention and transformer layers give PyTorch's values and gradients", "[golden][attention]") {
  run_goldens("attention", {"attention"}, ops);
}
