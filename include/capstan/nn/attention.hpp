#pragma once
// Multi-head attention, and layers that tell it of positions.
#include <concepts>

#include <capstan/nn/layers.hpp>
#include <capstan/ops/attention.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct MultiheadAttentionOptions {
  std::int64_t embed = 0;           ///< features of queries and results, >= 1
  std::int64_t heads = 1;           ///< must divide `embed`
  std::int64_t key_features = 0;    ///< of keys; 0: as many as `embed`
  std::int64_t value_features = 0;  ///< of values; 0: as many as `embed`
  bool bias = true;                 ///< of the four projections
  double keep = 1;                  ///< probability that a weight stays in training (dropout), in (0, 1]
  bool add_bias_kv = false;         ///< one more key and value, learned, which all queries may attend to
  bool add_zero_attention = false;  ///< one more key and value of zeros, likewise
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// What queries may attend to. All that is given must allow it.
struct AttentionMasks {
  Tensor mask = {};      ///< broadcasts to [batch, heads, queries, keys]: bool, true where it is allowed; or floating,
                         ///< added to the scores
  Tensor key_mask = {};  ///< bool [batch, keys], false for padding: `sequence_mask(lengths, keys)`
  bool causal = false;   ///< query i attends to keys 0 .. i alone
};

enum class HeadWeights : std::uint8_t {
  averaged,  ///< [batch, queries, keys]
  each       ///< [batch, heads, queries, keys]
};

/// Queries, keys and values are projected, split into heads that attend by themselves, joined and projected again.
///
///   head[h] = scaled_dot_product_attention(part h of q @ wq + bq, of k @ wk + bk, of v @ wv + bv)
///   result  = concat(head[0], head[1], ...) @ wo + bo
///
/// Shapes    query [batch, queries, embed]; key [batch, keys, key_features]; value [batch, keys, value_features];
///           result [batch, queries, embed]. Sequences with time first are brought here by transpose(x, 0, 1), a view
/// Gradient  for inputs, parameters and a floating mask, to any order. Without dropout nothing of the size
///           queries x keys is kept
/// Random    from the calling thread's default generator, which an exception leaves where it was
/// Throws    ShapeError, DTypeError; Error for `keep`
/// Source    Vaswani et al., "Attention is all you need", 2017
///
/// PyTorch's parameters: weights here are [in, out], there [out, in], and its in_proj_weight [3 embed, embed] holds
/// those of query, key and value one below the other: query.weight = transpose(narrow(in_proj_weight, 0, 0, embed)), and
/// so on; the same for in_proj_bias. Its bool masks are true where attending is forbidden: the reverse of those here.
class MultiheadAttention {
 public:
  explicit MultiheadAttention(const MultiheadAttentionOptions& options, Rng& rng = default_rng(),
                              Where where = Where::current());

  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMasks& masks = {},
                    Where where = Where::current()) const;
  /// Self-attention: queries, keys and values are the same.
  Tensor operator()(const Tensor& x, const AttentionMasks& masks = {}, Where where = Where::current()) const;
  template <std::same_as<Where> Place>
  Tensor operator()(const Tensor& x, Place where) const {  ///< as a Sequential calls its parts
    return (*this)(x, AttentionMasks(), where);
  }
  /// With the weights before dropout. `add_bias_kv` and `add_zero_attention` add to the keys, in this order.
  AttentionResult with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                               const AttentionMasks& masks = {}, HeadWeights weights = HeadWeights::averaged,
                               Where where = Where::current()) const;
  /// Throws what a call with these shapes and masks would throw, and does nothing else: for models that draw random
  /// numbers before they come to this part.
  void check(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMasks& masks = {},
             Where where = Where::current()) const;

  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }

  Linear query, key, value, out;
  Parameter bias_key, bias_value;  ///< [embed]; undefined without `add_bias_kv`
  CAPSTAN_FIELDS(query, key, value, out, bias_key, bias_value);

 private:
  struct Heads;  // what the operation takes
  Heads split(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks, Where where) const;
  Tensor joined(const Tensor& heads, Where where) const;
  Tensor extended(const Tensor& rows, const Tensor& bias, std::int64_t batch, Where where) const;
  AttentionOptions options_for(const AttentionMasks& masks, std::int64_t batch, std::int64_t queries, std::int64_t keys,
                               Where where) const;
  std::int64_t extra_keys() const noexcept { return (bias_key.defined() ? 1 : 0) + (add_zero_ ? 1 : 0); }

  std::int64_t heads_;
  double keep_;
  bool add_zero_, training_ = true;
};

struct PositionalEncodingOptions {
  std::int64_t length = 0;       ///< of the longest sequence, >= 1
  std::int64_t features = 0;     ///< >= 1
  double base = 10000;           ///< > 0
  double keep = 1;               ///< probability that an element of the sum stays in training (dropout), in (0, 1]
  DType dtype = DType::float32;  ///< of most inputs: others will do, and have their rows converted at each call
};

/// x + sinusoidal_positions of x's type, then dropout in training. The positions stay on the device where the layer was
/// made, and are copied at each call to that of an x elsewhere.
/// Shapes  x [..., length, features]; result the same     Throws  ShapeError, DTypeError, Error
class PositionalEncoding {
 public:
  explicit PositionalEncoding(const PositionalEncodingOptions& options, Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  void set_training(bool training) noexcept { training_ = training; }
  bool training() const noexcept { return training_; }
  CAPSTAN_FIELDS();

 private:
  Tensor exact_, table_;  // [length, features]: in float64, and in the type of most inputs
  double keep_;
  bool training_ = true;
};

struct PositionEmbeddingOptions {
  std::int64_t length = 0;    ///< of the longest sequence, >= 1
  std::int64_t features = 0;  ///< >= 1
  Initializer weight_init = init::normal(0, 0.02);
  DType dtype = DType::float32;
};

/// x + weight, a learned row for each position.
/// Shapes  x [..., length, features], weight [longest, features]; result as x     Throws  ShapeError, DTypeError
class PositionEmbedding {
 public:
  explicit PositionEmbedding(const PositionEmbeddingOptions& options, Rng& rng = default_rng(),
                             Where where = Where::current());
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;

  Parameter weight;
  CAPSTAN_FIELDS(weight);
};

}  // namespace nn
}  // namespace capstan
