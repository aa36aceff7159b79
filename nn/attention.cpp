#include <capstan/nn/attention.hpp>

#include <capstan/create.hpp>
#include <capstan/nn/unroll.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/ops/reduce.hpp>
#include <capstan/ops/shaping.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

namespace {

const MultiheadAttentionOptions& checked(const MultiheadAttentionOptions& o, Where where) {
  if (o.embed < 1 || o.heads < 1 || o.embed % o.heads != 0)
    base::fail<ShapeError>(where, "MultiheadAttention: ", o.embed, " features and ", o.heads,
                           " heads were asked for; both must be >= 1, and the heads must divide the features.");
  if (o.key_features < 0 || o.value_features < 0)
    base::fail<ShapeError>(where, "MultiheadAttention: keys of ", o.key_features, " and values of ", o.value_features,
                           " features were asked for; both must be >= 1, or 0 for as many as the queries have.");
  if (!(o.keep > 0 && o.keep <= 1))
    base::fail<Error>(where, "MultiheadAttention: keep is ", o.keep, "; it must be in (0, 1].");
  check_floating("MultiheadAttention", o.dtype, where);
  return o;
}

LinearOptions projection_of(const MultiheadAttentionOptions& o) {
  return {.bias = o.bias, .weight_init = o.weight_init, .bias_init = o.bias_init, .dtype = o.dtype};
}

/// All rows of all sequences as one matrix, so that a projection is one product with its bias in it.
Tensor matrix_of(const Tensor& x, Where where) { return reshape(x, {x.size(0) * x.size(1), x.size(2)}, where); }

void check_defined(const char* op, const char* what, const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the ", what, " is undefined; give it a value first.");
}

}  // namespace

struct MultiheadAttention::Heads {
  Tensor query, key, value;  // [batch, heads, length, features of one]
  AttentionOptions options;
};

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& options, Rng& rng, Where where)
    : query(checked(options, where).embed, options.embed, projection_of(options), rng, where),
      key(options.key_features > 0 ? options.key_features : options.embed, options.embed, projection_of(options), rng,
          where),
      value(options.value_features > 0 ? options.value_features : options.embed, options.embed, projection_of(options),
            rng, where),
      out(options.embed, options.embed, projection_of(options), rng, where),
      heads_(options.heads),
      keep_(options.keep),
      add_zero_(options.add_zero_attention) {
  if (!options.add_bias_kv) return;
  const Fans fans{static_cast<double>(options.embed), static_cast<double>(options.embed)};
  const Initializer start = init::glorot_normal();
  const TensorOptions type{options.dtype};
  bias_key = Parameter(start(Shape({options.embed}, where), fans, rng, type, where), where);
  bias_value = Parameter(start(Shape({options.embed}, where), fans, rng, type, where), where);
}

namespace {

void check_sequences(const Tensor& q, const Tensor& k, const Tensor& v, const std::int64_t (&features)[3],
                     Where where) {
  const std::pair<const char*, const Tensor*> inputs[] = {{"query", &q}, {"key", &k}, {"value", &v}};
  for (int i = 0; i < 3; ++i) {
    const auto& [what, x] = inputs[i];
    check_defined("MultiheadAttention", what, *x, where);
    if (x->rank() != 3 || x->size(2) != features[i])
      base::fail<ShapeError>(where, "MultiheadAttention: the ", what, " is ", x->shape(),
                             "; it must be [batch, length, ", features[i], "].");
  }
  if (q.size(0) != k.size(0) || k.size(0) != v.size(0) || k.size(1) != v.size(1))
    base::fail<ShapeError>(where, "MultiheadAttention: the query is ", q.shape(), ", the key ", k.shape(),
                           " and the value ", v.shape(),
                           "; batches must be equal, and there must be a value for each key.");
}

/// Throws unless the masks fit scores [batch, heads, queries, keys].
void check_masks(const AttentionMasks& masks, const Shape& scores, Where where) {
  if (masks.mask.defined()) {
    const Shape& shape = masks.mask.shape();
    const int extra = scores.rank() - shape.rank();
    bool fits = extra >= 0;
    for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == 1 || shape[i] == scores[i + extra];
    if (!fits)
      base::fail<ShapeError>(where, "MultiheadAttention: the mask is ", shape, "; it must broadcast to ", scores,
                             ", [batch, heads, queries, keys].");
    const DType dtype = masks.mask.dtype();
    if (dtype != DType::bool8 && !is_floating(dtype))
      base::fail<DTypeError>(where, "MultiheadAttention: the mask is ", dtype, "; it must be bool or a floating type.");
  }
  if (masks.key_mask.defined()) {
    const Shape expected({scores[0], scores[3]}, where);
    if (masks.key_mask.shape() != expected)
      base::fail<ShapeError>(where, "MultiheadAttention: the key mask is ", masks.key_mask.shape(), "; it must be ",
                             expected, ", [batch, keys].");
    if (masks.key_mask.dtype() != DType::bool8)
      base::fail<DTypeError>(where, "MultiheadAttention: the key mask is ", masks.key_mask.dtype(),
                             "; it must be bool.");
  }
}

/// A mask for `extra` more keys, to all of which it says `value`.
Tensor widened(const Tensor& mask, std::int64_t keys, std::int64_t extra, Scalar value, Where where) {
  if (extra == 0) return mask;
  Tensor whole = mask;
  if (mask.rank() == 0) {
    whole = broadcast_to(mask, {keys}, where);
  } else if (mask.size(-1) != keys) {
    std::vector<std::int64_t> sizes(mask.shape().begin(), mask.shape().end());
    sizes.back() = keys;
    whole = broadcast_to(mask, Shape(std::span<const std::int64_t>(sizes), where), where);
  }
  std::vector<Padding> padding(static_cast<std::size_t>(whole.rank()));
  padding.back().after = extra;
  return pad(whole, std::span<const Padding>(padding), PadMode::constant, value, where);
}

Tensor both(const Tensor& a, const Tensor& b, Where where) { return a.defined() ? logical_and(a, b, where) : b; }

}  // namespace

void MultiheadAttention::check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks,
                               Where where) const {
  check_sequences(q, k, v, {query.weight.size(0), key.weight.size(0), value.weight.size(0)}, where);
  check_masks(masks, Shape({q.size(0), heads_, q.size(1), k.size(1)}, where), where);
}

AttentionOptions MultiheadAttention::options_for(const AttentionMasks& masks, std::int64_t batch, std::int64_t queries,
                                                 std::int64_t keys, Where where) const {
  AttentionOptions options;
  options.keep = training_ ? keep_ : 1;
  const std::int64_t extra = extra_keys();
  if (masks.mask.defined()) {
    const bool flags = masks.mask.dtype() == DType::bool8;
    const Tensor mask = widened(masks.mask, keys, extra, flags ? Scalar(true) : Scalar(0), where);
    (flags ? options.mask : options.bias) = mask;
  }
  if (masks.key_mask.defined()) {
    const Tensor mask = widened(masks.key_mask, keys, extra, true, where);
    options.mask = both(options.mask, reshape(mask, {batch, 1, 1, keys + extra}, where), where);
  }
  options.causal = masks.causal && extra == 0;
  if (masks.causal && extra > 0) {
    const Tensor past = widened(causal_mask(queries, keys, 0, where), keys, extra, true, where);
    options.mask = both(options.mask, past.to(query.weight.device(), where), where);
  }
  return options;
}

Tensor MultiheadAttention::extended(const Tensor& rows, const Tensor& bias, std::int64_t batch, Where where) const {
  const std::int64_t features = rows.size(1);
  const Tensor sequences = reshape(rows, {batch, rows.size(0) / (batch > 0 ? batch : 1), features}, where);
  std::vector<Tensor> parts = {sequences};
  if (bias.defined())
    parts.push_back(broadcast_to(reshape(bias, {1, 1, features}, where), {batch, 1, features}, where));
  if (add_zero_) parts.push_back(zeros(Shape({batch, 1, features}, where), {rows.dtype(), rows.device()}, where));
  return parts.size() == 1 ? sequences : concat(parts, 1, where);
}

MultiheadAttention::Heads MultiheadAttention::split(const Tensor& q, const Tensor& k, const Tensor& v,
                                                    const AttentionMasks& masks, Where where) const {
  check(q, k, v, masks, where);
  const std::int64_t batch = q.size(0), queries = q.size(1), keys = k.size(1);
  Heads heads;
  heads.options = options_for(masks, batch, queries, keys, where);
  // one matrix for all that are the same, so that their gradients are added up within the products
  const Tensor q_rows = matrix_of(q, where), k_rows = k.is_same(q) ? q_rows : matrix_of(k, where);
  const Tensor v_rows = v.is_same(k) ? k_rows : v.is_same(q) ? q_rows : matrix_of(v, where);
  const std::int64_t embed = query.weight.size(1), total = keys + extra_keys();
  const auto in_heads = [&](const Tensor& sequences, std::int64_t length) {
    return permute(reshape(sequences, {batch, length, heads_, embed / heads_}, where), {0, 2, 1, 3}, where);
  };
  heads.query = in_heads(query(q_rows, where), queries);
  Tensor k_all = key(k_rows, where), v_all = value(v_rows, where);
  if (total != keys) {
    k_all = extended(k_all, bias_key, batch, where);
    v_all = extended(v_all, bias_value, batch, where);
  }
  heads.key = in_heads(k_all, total);
  heads.value = in_heads(v_all, total);
  return heads;
}

Tensor MultiheadAttention::joined(const Tensor& heads, Where where) const {
  const std::int64_t batch = heads.size(0), length = heads.size(2), embed = heads.size(1) * heads.size(3);
  const Tensor rows = reshape(permute(heads, {0, 2, 1, 3}, where), {batch * length, embed}, where);
  return reshape(out(rows, where), {batch, length, embed}, where);
}

Tensor MultiheadAttention::operator()(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks,
                                      Where where) const {
  const Heads h = split(q, k, v, masks, where);
  const detail::Rewind rewind(default_rng());
  return joined(scaled_dot_product_attention(h.query, h.key, h.value, h.options, default_rng(), where), where);
}

Tensor MultiheadAttention::operator()(const Tensor& x, const AttentionMasks& masks, Where where) const {
  return (*this)(x, x, x, masks, where);
}

AttentionResult MultiheadAttention::with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                 const AttentionMasks& masks, HeadWeights weights, Where where) const {
  const Heads h = split(q, k, v, masks, where);
  const detail::Rewind rewind(default_rng());
  AttentionResult result = attention_with_weights(h.query, h.key, h.value, h.options, default_rng(), where);
  result.output = joined(result.output, where);
  if (weights == HeadWeights::averaged) result.weights = mean(result.weights, 1, {}, where);
  return result;
}

// --- positions ---

namespace {

void check_table(const char* op, std::int64_t length, std::int64_t features, DType dtype, Where where) {
  check_floating(op, dtype, where);
  if (length < 1 || features < 1)
    base::fail<ShapeError>(where, op, ": ", length, " positions of ", features,
                           " features were asked for; both must be >= 1.");
}

/// The rows of a table that go with the places of x.
Tensor rows_for(const char* op, const Tensor& table, const Tensor& x, Where where) {
  check_defined(op, "input", x, where);
  const std::int64_t length = table.size(0), features = table.size(1);
  if (x.rank() < 2 || x.size(-1) != features || x.size(-2) > length)
    base::fail<ShapeError>(where, op, ": the input is ", x.shape(), "; it must be [..., length, ", features,
                           "] with a length of at most ", length, ".");
  return narrow(table, 0, 0, x.size(-2), where);
}

}  // namespace

PositionalEncoding::PositionalEncoding(const PositionalEncodingOptions& options, Where where) : keep_(options.keep) {
  check_table("PositionalEncoding", options.length, options.features, options.dtype, where);
  if (!(keep_ > 0 && keep_ <= 1))
    base::fail<Error>(where, "PositionalEncoding: keep is ", keep_, "; it must be in (0, 1].");
  exact_ = sinusoidal_positions(options.length, options.features, options.base, {.dtype = DType::float64}, where);
  table_ = exact_.to(options.dtype, where);
}

Tensor PositionalEncoding::operator()(const Tensor& x, Where where) const {
  check_defined("PositionalEncoding", "input", x, where);
  const Tensor& table = x.dtype() == table_.dtype(where) ? table_ : exact_;
  const Tensor rows = rows_for("PositionalEncoding", table, x, where);
  if (!is_floating(x.dtype()))
    base::fail<DTypeError>(where, "PositionalEncoding: the input is ", x.dtype(), "; it must be of a floating type.");
  const Tensor placed = add(x, rows.to(x.dtype(), where).to(x.device(), where), where);
  return training_ ? dropout(placed, keep_, default_rng(), where) : placed;
}

PositionEmbedding::PositionEmbedding(const PositionEmbeddingOptions& options, Rng& rng, Where where) {
  check_table("PositionEmbedding", options.length, options.features, options.dtype, where);
  const Shape shape({options.length, options.features}, where);
  weight = Parameter(options.weight_init(shape, rng, {options.dtype}, where), where);
}

Tensor PositionEmbedding::operator()(const Tensor& x, Where where) const {
  return add(x, rows_for("PositionEmbedding", weight, x, where), where);
}

}  // namespace capstan::nn
