#include <capstan/nn/transformer.hpp>

#include <capstan/nn/unroll.hpp>
#include <capstan/ops/activation.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

namespace {

/// What MultiheadAttention and LayerNorm do not check.
const TransformerLayerOptions& checked(const char* layer, const TransformerLayerOptions& o, Where where) {
  if (o.embed < 1 || o.heads < 1 || o.embed % o.heads != 0)
    base::fail<ShapeError>(where, layer, ": ", o.embed, " features and ", o.heads,
                           " heads were asked for; both must be >= 1, and the heads must divide the features.");
  if (o.feed_forward < 1)
    base::fail<ShapeError>(where, layer, ": ", o.feed_forward,
                           " units were asked for between the linear layers; there must be one or more.");
  if (!(o.keep > 0 && o.keep <= 1)) base::fail<Error>(where, layer, ": keep is ", o.keep, "; it must be in (0, 1].");
  if (!(o.epsilon >= 0 && o.epsilon - o.epsilon == 0))
    base::fail<Error>(where, layer, ": epsilon is ", o.epsilon, "; it must be finite and >= 0.");
  check_floating(layer, o.dtype, where);
  return o;
}

MultiheadAttentionOptions attention_of(const TransformerLayerOptions& o) {
  return {.embed = o.embed,
          .heads = o.heads,
          .bias = o.bias,
          .keep = o.keep,
          .weight_init = o.weight_init,
          .dtype = o.dtype};
}
LinearOptions linear_of(const TransformerLayerOptions& o) {
  return {.bias = o.bias, .weight_init = o.weight_init, .dtype = o.dtype};
}
LayerNormOptions norm_of(const TransformerLayerOptions& o, bool used = true) {
  return {.sizes = {o.embed}, .epsilon = o.epsilon, .weight = used, .bias = used && o.bias, .dtype = o.dtype};
}

/// What layers do besides their own parts.
struct Rules {
  double keep;  // 1 outside training
  FeedForwardActivation activation;
  bool norm_first;
  Where where;

  Tensor drop(const Tensor& x) const { return dropout(x, keep, default_rng(), where); }

  Tensor activate(const Tensor& x) const {
    if (activation == FeedForwardActivation::relu) return relu(x, where);
    return gelu(x, activation == FeedForwardActivation::gelu ? GeluForm::exact : GeluForm::tanh, where);
  }

  /// Two linear layers, on all rows as one matrix.
  Tensor feed_forward(const Linear& first, const Linear& second, const Tensor& x) const {
    const Tensor rows = reshape(x, {x.size(0) * x.size(1), x.size(2)}, where);
    return reshape(second(drop(activate(first(rows, where))), where), x.shape(), where);
  }

  /// x + part(x), with a norm before the part or behind the sum.
  template <class Part>
  Tensor residual(const Tensor& x, const LayerNorm& norm, Part part) const {
    if (norm_first) return add(x, drop(part(norm(x, where))), where);
    return norm(add(x, drop(part(x)), where), where);
  }
};

void check_sequences(const char* layer, const char* what, const Tensor& x, std::int64_t embed, Where where) {
  if (!x.defined()) base::fail<Error>(where, layer, ": the ", what, " is undefined; give it a value first.");
  if (x.rank() != 3 || x.size(2) != embed)
    base::fail<ShapeError>(where, layer, ": the ", what, " is ", x.shape(), "; it must be [batch, length, ", embed,
                           "].");
}

const TransformerStackOptions& checked(const char* stack, const TransformerStackOptions& o, Where where) {
  checked(stack, o.layer, where);
  if (o.layers < 1) base::fail<ShapeError>(where, stack, ": ", o.layers, " layers were asked for; one is the least.");
  return o;
}

template <class Layer>
std::vector<Layer> stacked(const TransformerStackOptions& options, Rng& rng, Where where) {
  std::vector<Layer> layers;
  layers.reserve(static_cast<std::size_t>(options.layers));
  for (std::int64_t i = 0; i < options.layers; ++i) layers.emplace_back(options.layer, rng, where);
  return layers;
}

}  // namespace

// --- encoder ---

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& options, Rng& rng, Where where)
    : self_attention(attention_of(checked("TransformerEncoderLayer", options, where)), rng, where),
      linear1(options.embed, options.feed_forward, linear_of(options), rng, where),
      linear2(options.feed_forward, options.embed, linear_of(options), rng, where),
      norm1(norm_of(options), rng, where),
      norm2(norm_of(options), rng, where),
      keep_(options.keep),
      activation_(options.activation),
      norm_first_(options.norm_first) {}

void TransformerEncoderLayer::set_training(bool training) noexcept {
  training_ = training;
  self_attention.set_training(training);
}

void TransformerEncoderLayer::check(const Tensor& x, const AttentionMasks& masks, Where where) const {
  check_sequences("TransformerEncoderLayer", "input", x, linear2.weight.size(1), where);
  self_attention.check(x, x, x, masks, where);
}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMasks& masks, Where where) const {
  check(x, masks, where);
  const detail::Rewind rewind(default_rng());
  const Rules rules{training_ ? keep_ : 1, activation_, norm_first_, where};
  const Tensor attended = rules.residual(x, norm1, [&](const Tensor& y) { return self_attention(y, masks, where); });
  return rules.residual(attended, norm2, [&](const Tensor& y) { return rules.feed_forward(linear1, linear2, y); });
}

TransformerEncoder::TransformerEncoder(const TransformerStackOptions& options, Rng& rng, Where where)
    : layers(stacked<TransformerEncoderLayer>(checked("TransformerEncoder", options, where), rng, where)),
      norm(norm_of(options.layer, options.final_norm), rng, where),
      final_norm_(options.final_norm) {}

void TransformerEncoder::set_training(bool training) noexcept {
  for (TransformerEncoderLayer& layer : layers) layer.set_training(training);
}

bool TransformerEncoder::training() const noexcept { return layers.empty() || layers.front().training(); }

Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMasks& masks, Where where) const {
  const detail::Rewind rewind(default_rng());
  Tensor y = x;
  for (const TransformerEncoderLayer& layer : layers) y = layer(y, masks, where);
  return final_norm_ ? norm(y, where) : y;
}

// --- decoder ---

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& options, Rng& rng, Where where)
    : self_attention(attention_of(checked("TransformerDecoderLayer", options, where)), rng, where),
      cross_attention(attention_of(options), rng, where),
      linear1(options.embed, options.feed_forward, linear_of(options), rng, where),
      linear2(options.feed_forward, options.embed, linear_of(options), rng, where),
      norm1(norm_of(options), rng, where),
      norm2(norm_of(options), rng, where),
      norm3(norm_of(options), rng, where),
      keep_(options.keep),
      activation_(options.activation),
      norm_first_(options.norm_first) {}

void TransformerDecoderLayer::set_training(bool training) noexcept {
  training_ = training;
  self_attention.set_training(training);
  cross_attention.set_training(training);
}

void TransformerDecoderLayer::check(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                    Where where) const {
  const std::int64_t embed = linear2.weight.size(1);
  check_sequences("TransformerDecoderLayer", "input", x, embed, where);
  check_sequences("TransformerDecoderLayer", "memory", memory, embed, where);
  self_attention.check(x, x, x, masks.self, where);
  cross_attention.check(x, memory, memory, masks.memory, where);
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                           Where where) const {
  check(x, memory, masks, where);
  const detail::Rewind rewind(default_rng());
  const Rules rules{training_ ? keep_ : 1, activation_, norm_first_, where};
  const Tensor own = rules.residual(x, norm1, [&](const Tensor& y) { return self_attention(y, masks.self, where); });
  const Tensor attended = rules.residual(
      own, norm2, [&](const Tensor& y) { return cross_attention(y, memory, memory, masks.memory, where); });
  return rules.residual(attended, norm3, [&](const Tensor& y) { return rules.feed_forward(linear1, linear2, y); });
}

TransformerDecoder::TransformerDecoder(const TransformerStackOptions& options, Rng& rng, Where where)
    : layers(stacked<TransformerDecoderLayer>(checked("TransformerDecoder", options, where), rng, where)),
      norm(norm_of(options.layer, options.final_norm), rng, where),
      final_norm_(options.final_norm) {}

void TransformerDecoder::set_training(bool training) noexcept {
  for (TransformerDecoderLayer& layer : layers) layer.set_training(training);
}

bool TransformerDecoder::training() const noexcept { return layers.empty() || layers.front().training(); }

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks,
                                      Where where) const {
  const detail::Rewind rewind(default_rng());
  Tensor y = x;
  for (const TransformerDecoderLayer& layer : layers) y = layer(y, memory, masks, where);
  return final_norm_ ? norm(y, where) : y;
}

// --- both ---

namespace {

const TransformerOptions& checked(const TransformerOptions& o, Where where) {
  checked("Transformer", o.layer, where);
  if (o.encoder_layers < 1 || o.decoder_layers < 1)
    base::fail<ShapeError>(where, "Transformer: ", o.encoder_layers, " layers of the encoder and ", o.decoder_layers,
                           " of the decoder were asked for; one of each is the least.");
  return o;
}

}  // namespace

Transformer::Transformer(const TransformerOptions& options, Rng& rng, Where where)
    : encoder(
          {.layer = checked(options, where).layer, .layers = options.encoder_layers, .final_norm = options.final_norm},
          rng, where),
      decoder({.layer = options.layer, .layers = options.decoder_layers, .final_norm = options.final_norm}, rng,
              where) {}

void Transformer::set_training(bool training) noexcept {
  encoder.set_training(training);
  decoder.set_training(training);
}

Tensor Transformer::operator()(const Tensor& source, const Tensor& target, const TransformerMasks& masks,
                               Where where) const {
  const DecoderMasks decoder_masks{.self = masks.target, .memory = masks.memory};
  // all of it before the encoder draws random numbers
  for (const TransformerEncoderLayer& layer : encoder.layers) layer.check(source, masks.source, where);
  for (const TransformerDecoderLayer& layer : decoder.layers) layer.check(target, source, decoder_masks, where);
  const detail::Rewind rewind(default_rng());
  return decoder(target, encoder(source, masks.source, where), decoder_masks, where);
}

}  // namespace capstan::nn
