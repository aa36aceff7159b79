#pragma once
// Transformers: layers of attention and of products row by row, each around a residual connection; stacks of them.
//
// Sequences are [batch, length, embed]. Vaswani et al., "Attention is all you need", 2017; norms first as in Xiong et
// al., "On layer normalization in the transformer architecture", 2020. Gradients to any order for inputs, parameters
// and floating masks. In training dropout draws from the calling thread's default generator: on the weights of
// attention, behind the activation, and on what each part adds to the residual; an exception leaves it where it was.
// Constructors throw ShapeError and Error for sizes and probabilities that are out of range and DTypeError for a type
// that is not floating, calls what MultiheadAttention throws. Defined in nn/transformer.cpp.
#include <concepts>
#include <vector>

#include <capstan/nn/attention.hpp>
#include <capstan/nn/norm.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

enum class FeedForwardActivation : std::uint8_t { relu, gelu, gelu_tanh };

struct TransformerLayerOptions {
  std::int64_t embed = 0;            ///< features of a place, >= 1
  std::int64_t heads = 1;            ///< must divide `embed`
  std::int64_t feed_forward = 2048;  ///< units between the two linear layers
  double keep = 0.9;                 ///< probability that something stays in training (dropout), in (0, 1]
  FeedForwardActivation activation = FeedForwardActivation::relu;
  bool norm_first = false;  ///< x + part(norm(x)) instead of norm(x + part(x))
  bool bias = true;         ///< of linear layers and norms
  double epsilon = 1e-5;    ///< of the norms
  Initializer weight_init = init::glorot_uniform();
  DType dtype = DType::float32;
};

/// Self-attention, then two linear layers with an activation between them.
///
/// Shapes    x [batch, length, embed]; result the same
/// PyTorch   linear1, linear2, norm1 and norm2 have the same names there, self_attention is self_attn; weights of
///           linear layers are [in, out] here
class TransformerEncoderLayer {
 public:
  explicit TransformerEncoderLayer(const TransformerLayerOptions& options, Rng& rng = default_rng(),
                                   Where where = Where::current());
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}, Where where = Where::current()) const;
  template <std::same_as<Where> Place>
  Tensor operator()(const Tensor& x, Place where) const {  ///< as a Sequential calls its parts
    return (*this)(x, AttentionMasks(), where);
  }
  /// Throws what a call with these shapes and masks would throw, and does nothing else.
  void check(const Tensor& x, const AttentionMasks& masks = {}, Where where = Where::current()) const;
  void set_training(bool training) noexcept;
  bool training() const noexcept { return training_; }

  MultiheadAttention self_attention;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  CAPSTAN_FIELDS(self_attention, linear1, linear2, norm1, norm2);

 private:
  double keep_;
  FeedForwardActivation activation_;
  bool norm_first_, training_ = true;
};

struct DecoderMasks {
  AttentionMasks self = {};    ///< of the sequence itself; usually causal
  AttentionMasks memory = {};  ///< of what the encoder made
};

/// Self-attention, attention to the encoder's result, then two linear layers.
///
/// Shapes    x [batch, length, embed], memory [batch, places, embed]; result as x
/// PyTorch   cross_attention is multihead_attn there
class TransformerDecoderLayer {
 public:
  explicit TransformerDecoderLayer(const TransformerLayerOptions& options, Rng& rng = default_rng(),
                                   Where where = Where::current());
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                    Where where = Where::current()) const;
  /// Throws what a call with these shapes and masks would throw, and does nothing else.
  void check(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
             Where where = Where::current()) const;
  void set_training(bool training) noexcept;
  bool training() const noexcept { return training_; }

  MultiheadAttention self_attention, cross_attention;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  CAPSTAN_FIELDS(self_attention, cross_attention, linear1, linear2, norm1, norm2, norm3);

 private:
  double keep_;
  FeedForwardActivation activation_;
  bool norm_first_, training_ = true;
};

struct TransformerStackOptions {
  TransformerLayerOptions layer = {};
  std::int64_t layers = 6;  ///< >= 1
  bool final_norm = false;  ///< one more layer norm at the end: for layers with their norms first
};

/// Encoder layers one after another, all with the same masks.
class TransformerEncoder {
 public:
  explicit TransformerEncoder(const TransformerStackOptions& options, Rng& rng = default_rng(),
                              Where where = Where::current());
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}, Where where = Where::current()) const;
  template <std::same_as<Where> Place>
  Tensor operator()(const Tensor& x, Place where) const {  ///< as a Sequential calls its parts
    return (*this)(x, AttentionMasks(), where);
  }
  void set_training(bool training) noexcept;
  bool training() const noexcept;

  std::vector<TransformerEncoderLayer> layers;
  LayerNorm norm;  ///< without parameters, and not used, if there is no final norm
  CAPSTAN_FIELDS(layers, norm);

 private:
  bool final_norm_;
};

/// Decoder layers one after another, all with the same memory and masks.
class TransformerDecoder {
 public:
  explicit TransformerDecoder(const TransformerStackOptions& options, Rng& rng = default_rng(),
                              Where where = Where::current());
  Tensor operator()(const Tensor& x, const Tensor& memory, const DecoderMasks& masks = {},
                    Where where = Where::current()) const;
  void set_training(bool training) noexcept;
  bool training() const noexcept;

  std::vector<TransformerDecoderLayer> layers;
  LayerNorm norm;  ///< without parameters, and not used, if there is no final norm
  CAPSTAN_FIELDS(layers, norm);

 private:
  bool final_norm_;
};

struct TransformerOptions {
  TransformerLayerOptions layer = {};
  std::int64_t encoder_layers = 6, decoder_layers = 6;  ///< >= 1
  bool final_norm = true;                               ///< behind either stack, as in PyTorch
};

struct TransformerMasks {
  AttentionMasks source = {};  ///< of the encoder
  AttentionMasks target = {};  ///< of the decoder's own sequence; usually causal
  AttentionMasks memory = {};  ///< of the decoder's look at the encoder's result
};

/// An encoder, and a decoder that looks at its result. Embeddings, positions and the last linear layer are the user's.
///
/// Shapes    source [batch, places, embed], target [batch, length, embed]; result as target
class Transformer {
 public:
  explicit Transformer(const TransformerOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Tensor operator()(const Tensor& source, const Tensor& target, const TransformerMasks& masks = {},
                    Where where = Where::current()) const;
  void set_training(bool training) noexcept;
  bool training() const noexcept { return encoder.training(); }

  TransformerEncoder encoder;
  TransformerDecoder decoder;
  CAPSTAN_FIELDS(encoder, decoder);
};

}  // namespace nn
}  // namespace capstan
