#pragma once
// Attention: values summed up by how well a query matches their keys; masks and biases for it; positions of a sequence.
#include <cstdint>
#include <optional>

#include <capstan/random.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct AttentionOptions {
  Tensor mask = {};                  ///< bool, true where a query may attend to a key; a floating one counts as `bias`
  Tensor bias = {};                  ///< floating, added to the scaled scores; -infinity forbids, like false in a mask
  bool causal = false;               ///< query i attends to keys 0 .. i alone, and to those that the mask allows
  std::optional<double> scale = {};  ///< of the scores, finite; 1 / sqrt(features) if absent
  double keep = 1;                   ///< probability that a weight stays (dropout), in (0, 1]
};

/// Scaled dot-product attention. Vaswani et al., "Attention is all you need", 2017.
///
///   scores  = scale * query @ transpose(key) + bias
///   weights = exp(scores) / sum of exp(scores) over the keys that may be attended to; 0 for all others
///   result  = weights @ value
///
/// Weights below e^-80 of a query's largest, in float64 e^-700, may be 0. A query that may attend to no key at all gets
/// 0, and its gradients are 0 (PyTorch gives NaN). A score that is not allowed has no influence, even if it is NaN,
/// nor has it on gradients, if those of its query that are allowed are finite. Values are to be finite: a weight of 0
/// times one that is not is NaN, also for queries that may not attend to it. `causal` counts queries and keys from
/// their first ones, as PyTorch does; `causal_mask` with an offset counts otherwise. With dropout the weights that stay
/// are divided by `keep`.
///
/// Shapes    query [..., queries, features]; key [..., keys, features]; value [..., keys, values];
///           the leading axes (batch, heads) broadcast; result [..., queries, values];
///           mask and bias broadcast to the scores [..., queries, keys]
/// Types     floating, one for all three; a bias is converted to it; 16-bit types are computed with in float32
/// Memory    the result stands in memory as the query does: if that is a transposed view of [batch, queries, heads,
///           features], so is the result. Operands are read without a copy if their last axis is contiguous
/// Gradient  for query, key, value and bias, to any order. Keeps these, the mask, the result and two numbers a query,
///           and computes the weights again, block by block: nothing of the scores' size is kept. With dropout, and
///           where the gradient of a bias or of a gradient is asked for, it is made of ordinary operations
/// Cost      2 * queries * keys * (features + values) flops for each head; half of it if causal
/// Throws    ShapeError, DTypeError, DeviceError, and Error for `scale` and `keep`
/// Defined in autograd/attention.cpp.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {}, Rng& rng = default_rng(),
                                    Where where = Where::current());

struct AttentionResult {
  Tensor output;   ///< [..., queries, values]
  Tensor weights;  ///< [..., queries, keys], before dropout, as in Keras: each row sums to 1, or is 0 throughout
};

/// The same, with the weights. They are differentiable, and kept for the gradient.
AttentionResult attention_with_weights(const Tensor& query, const Tensor& key, const Tensor& value,
                                       const AttentionOptions& options = {}, Rng& rng = default_rng(),
                                       Where where = Where::current());

// --- masks and biases ----------------------------------------------------------------------------------------------
//
// For the lengths of sequences there is `sequence_mask`, [batch, keys], to be seen as [batch, 1, 1, keys]. On the
// default device unless the entry has options that say otherwise. Defined in autograd/positions.cpp.

/// bool [queries, keys]: whether key <= query + offset. For queries that continue a sequence of n known keys the offset
/// is n. ShapeError for negative sizes.
Tensor causal_mask(std::int64_t queries, std::int64_t keys, std::int64_t offset = 0, Where where = Where::current());

/// A bias that falls linearly with the distance (ALiBi): -slope[h] * |query + offset - key|. With n heads, a power of
/// 2, slope[h] = 2^(-8 (h+1) / n); for other numbers the slopes of the next smaller power and then every second one of
/// twice that, as the authors have it. Press et al., "Train short, test long", 2022.
///
/// Shapes    result [heads, queries, keys]
/// Types     floating, that of the options
/// Throws    ShapeError unless heads >= 1 and the others >= 0     DTypeError  a type that is not floating
Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t offset = 0,
                  TensorOptions options = {}, Where where = Where::current());

// --- positions -----------------------------------------------------------------------------------------------------

/// Sines and cosines of the position in wavelengths from 2 pi to 2 pi * base. Vaswani et al. 2017.
///
///   out[p, 2i] = sin(p / base^(2i / features)), out[p, 2i+1] = cos(p / base^(2i / features))
///
/// Shapes    result [length, features]; both may be odd
/// Throws    ShapeError for negative sizes     Error unless base > 0     DTypeError  a type that is not floating
Tensor sinusoidal_positions(std::int64_t length, std::int64_t features, double base = 10000, TensorOptions options = {},
                            Where where = Where::current());

struct RotaryOptions {
  Tensor positions = {};    ///< integers that broadcast to x without its last axis; offset, offset+1, ... if undefined
  std::int64_t offset = 0;  ///< position of the first place, where there are no `positions`
  double base = 10000;      ///< > 0
  bool interleaved = true;  ///< pairs are neighbours, as in the paper; false: i and i + features/2 (GPT-NeoX)
};

/// Turns pairs of features by angles that grow with the position, so that products of queries and keys depend on their
/// distance alone (RoPE). Su et al., "RoFormer", 2021.
///
///   (a, b) -> (a cos t - b sin t, b cos t + a sin t) for pair i, t = position / base^(2i / features)
///
/// Shapes    x [..., length, features], features even; result the same
/// Types     floating; angles in float64, rounded once to that type
/// Gradient  for x: turned back
/// Throws    ShapeError  fewer than two axes, odd features, positions that do not fit     DTypeError, DeviceError
///           Error       base
Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {}, Where where = Where::current());

}  // namespace capstan
