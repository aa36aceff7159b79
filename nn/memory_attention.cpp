#include <capstan/nn/memory_attention.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/ops/reduce.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {

namespace {

void check_defined(const char* op, const char* what, const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the ", what, " is undefined; give it a value first.");
}

// --- what an attention prepares ---

void check_lengths(const char* op, const Tensor& lengths, const Shape& memory, Where where) {
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    base::fail<DTypeError>(where, op, ": the lengths are ", lengths.dtype(), "; they must be int32 or int64.");
  if (lengths.rank() != 1 || lengths.size(0) != memory[0])
    base::fail<ShapeError>(where, op, ": the lengths are ", lengths.shape(), "; with a memory of ", memory,
                           " they must be [", memory[0], "].");
  const std::vector<std::int64_t> all = lengths.to(DType::int64, where).to_vector<std::int64_t>(where);
  for (std::size_t row = 0; row < all.size(); ++row)
    if (all[row] < 0 || all[row] > memory[1])
      base::fail<IndexError>(where, op, ": length ", all[row], " of row ", row, " is out of range for a memory of ",
                             memory, "; it must be in [0, ", memory[1], "].");
}

/// Values and mask; places past the ends are 0 from here on.
AttentionMemory masked(const char* op, const Tensor& memory, std::int64_t features, const Tensor& lengths,
                       Where where) {
  check_defined(op, "memory", memory, where);
  if (memory.rank() != 3 || memory.size(2) != features)
    base::fail<ShapeError>(where, op, ": the memory is ", memory.shape(), "; it must be [batch, places, ", features,
                           "].");
  if (!is_floating(memory.dtype()))
    base::fail<DTypeError>(where, op, ": the memory is ", memory.dtype(), "; it must be of a floating type.");
  AttentionMemory result;
  result.values = memory;
  if (!lengths.defined()) return result;
  check_lengths(op, lengths, memory.shape(), where);
  const Tensor places = sequence_mask(lengths.to(memory.device(), where), memory.size(1), DType::bool8, where);
  result.values = capstan::where(expand_dims(places, 2, where), memory, 0, where);
  result.mask = expand_dims(places, 1, where);
  return result;
}

/// values @ weight + bias, [batch, heads, places, units]; all rows are one matrix, so that this is one product.
Tensor keys_of(const Tensor& values, const Tensor& weight, const Tensor& bias, std::int64_t heads, Where where) {
  const std::int64_t batch = values.size(0), places = values.size(1), units = weight.size(1) / heads;
  const Tensor rows = linear(reshape(values, {batch * places, values.size(2)}, where), weight, bias, where);
  if (heads == 1) return reshape(rows, {batch, 1, places, units}, where);
  return permute(reshape(rows, {batch, places, heads, units}, where), {0, 2, 1, 3}, where).contiguous(where);
}

// --- what all attentions have in common ---

/// How many rows of queries in succession read each row of the memory.
std::int64_t queries_of_each(const char* op, const char* what, std::int64_t rows, const AttentionMemory& memory,
                             Where where) {
  const std::int64_t batch = memory.values.size(0), shared = memory.shared_by;
  if (rows == batch) return 1;
  if (batch > 0 && rows % batch == 0 && rows / batch == shared) return shared;
  if (shared == 1)
    base::fail<ShapeError>(where, op, ": the ", what, " has ", rows, " rows and the memory ", batch,
                           "; there must be as many of both.");
  base::fail<ShapeError>(where, op, ": the ", what, " has ", rows, " rows and the memory ", batch, ", each shared by ",
                         shared, "; there must be ", batch, " or ", batch * shared, ".");
}

/// Throws unless the query is [rows, features], and the memory one that an attention with such keys has prepared.
void check_read(const char* op, const Tensor& query, std::int64_t features, const AttentionMemory& memory,
                std::int64_t heads, std::int64_t units, bool additive, Where where) {
  if (!memory.keys.defined() || !memory.values.defined())
    base::fail<Error>(where, op, ": the memory is empty; it must be one that `prepare` has made.");
  const Tensor& keys = memory.keys;
  if (keys.rank() != 4 || keys.size(1) != heads || keys.size(3) != units || memory.v.defined() != additive)
    base::fail<ShapeError>(where, op, ": the memory's keys are ", keys.shape(), memory.v.defined() ? " beside a v" : "",
                           "; they must be [batch, ", heads, ", places, ", units, "]",
                           additive ? " beside a v" : " without a v", ", as this attention prepares them.");
  const Tensor &values = memory.values, &mask = memory.mask;
  if (values.rank() != 3 || values.size(0) != keys.size(0) || values.size(1) != keys.size(2))
    base::fail<ShapeError>(where, op, ": the memory's keys are ", keys.shape(), " and its values ", values.shape(),
                           "; the values must be [", keys.size(0), ", ", keys.size(2), ", features].");
  if (mask.defined() &&
      (mask.rank() != 3 || mask.size(0) != keys.size(0) || mask.size(1) != 1 || mask.size(2) != keys.size(2)))
    base::fail<ShapeError>(where, op, ": the memory's keys are ", keys.shape(), " and its mask ", mask.shape(),
                           "; the mask must be [", keys.size(0), ", 1, ", keys.size(2), "].");
  check_defined(op, "query", query, where);
  if (query.rank() != 2 || query.size(1) != features)
    base::fail<ShapeError>(where, op, ": the query is ", query.shape(), "; it must be [rows, ", features, "].");
}

/// A finite number so low that nothing remains of its exponential beside an ordinary score.
double lowest(DType dtype) {
  if (dtype == DType::float16) return -6e4;
  return dtype == DType::float64 ? -1.7e308 : -3.3e38;
}

Tensor weights_of(const Tensor& scores, const Tensor& mask, Where where) {
  if (!mask.defined()) return softmax(scores, -1, where);
  const Tensor limited = capstan::where(mask, scores, lowest(scores.dtype()), where);
  return capstan::where(mask, softmax(limited, -1, where), 0, where);  // a row of nothing else is 0 too
}

/// Weights and contexts for scores [batch, queries of each row * heads, places].
AttentionResult read(const Tensor& scores, const AttentionMemory& memory, std::int64_t heads, Where where) {
  const Tensor weights = weights_of(scores, memory.mask, where);
  const Tensor context = matmul(weights, memory.values, where);
  const std::int64_t rows = scores.size(0) * (scores.size(1) / heads);
  return {reshape(context, {rows, heads * context.size(2)}, where),
          reshape(weights, {rows, heads, scores.size(2)}, where)};
}

void check_sizes(const char* op, std::int64_t query, std::int64_t memory, std::int64_t heads, DType dtype,
                 Where where) {
  check_floating(op, dtype, where);
  if (query < 1 || memory < 1)
    base::fail<ShapeError>(where, op, ": queries of ", query, " and a memory of ", memory,
                           " features were asked for; both must be >= 1.");
  if (heads < 1) base::fail<ShapeError>(where, op, ": ", heads, " heads were asked for; one is the least.");
}

}  // namespace

AttentionMemory repeated(AttentionMemory memory, std::int64_t count, Where where) {
  if (count < 1)
    base::fail<Error>(where, "repeated: ", count, " rows were to share each row of the memory; one is the least.");
  const std::int64_t batch = memory.values.defined() ? memory.values.size(0) : 1;
  static_cast<void>(Shape({batch, memory.shared_by, count}, where));  // their product does not overflow
  memory.shared_by *= count;
  return memory;
}

// --- additive ---

BahdanauAttention::BahdanauAttention(const BahdanauAttentionOptions& options, Rng& rng, Where where) {
  const std::int64_t heads = options.heads, units = options.units;
  check_sizes("BahdanauAttention", options.query, options.memory, heads, options.dtype, where);
  if (units < 1)
    base::fail<ShapeError>(where, "BahdanauAttention: ", units, " units were asked for; one is the least.");
  static_cast<void>(Shape({options.query, heads, units}, where));  // heads * units does not overflow
  const TensorOptions type{options.dtype};
  const Shape of_query({options.query, heads * units}, where), of_memory({options.memory, heads * units}, where);
  const Shape of_units({heads, units}, where);
  const double size = static_cast<double>(units);
  query_weight = Parameter(options.weight_init(of_query, rng, type, where), where);
  memory_weight = Parameter(options.weight_init(of_memory, rng, type, where), where);
  v = Parameter(options.weight_init(of_units, Fans{size, size}, rng, type, where), where);
  if (options.normed) g = Parameter(full(Shape({heads}, where), std::sqrt(1 / size), type, where), where);
  if (options.normed || options.bias) b = Parameter(zeros(of_units, type, where), where);
}

AttentionMemory BahdanauAttention::prepare(const Tensor& memory, const Tensor& lengths, Where where) const {
  const std::int64_t heads = v.size(0), units = v.size(1);
  AttentionMemory result = masked("BahdanauAttention", memory, memory_weight.size(0), lengths, where);
  const Tensor bias = b.defined() ? reshape(b, {heads * units}, where) : Tensor();
  result.keys = keys_of(result.values, memory_weight, bias, heads, where);
  Tensor sums_up = v;
  if (g.defined()) {
    const Tensor one_over_length = rsqrt(sum(square(v, where), 1, {.keepdims = true}, where), where);
    sums_up = mul(v, mul(reshape(g, {heads, 1}, where), one_over_length, where), where);
  }
  result.v = heads == 1 ? reshape(sums_up, {units, 1}, where) : reshape(sums_up, {heads, units, 1}, where);
  return result;
}

AttentionResult BahdanauAttention::operator()(const Tensor& query, const AttentionMemory& memory, Where where) const {
  constexpr const char* op = "BahdanauAttention";
  const std::int64_t heads = v.size(0), units = v.size(1);
  check_read(op, query, query_features(), memory, heads, units, true, where);
  const std::int64_t shared = queries_of_each(op, "query", query.size(0), memory, where);
  const std::int64_t batch = memory.values.size(0), places = memory.values.size(1);
  const Tensor asked = matmul(query, query_weight, where);
  // [batch, heads, places, units], with an axis for the queries of each row behind the batch if there are several
  const Tensor keys = shared == 1 ? memory.keys : expand_dims(memory.keys, 1, where);
  const Tensor queries = shared == 1 ? reshape(asked, {batch, heads, 1, units}, where)
                                     : reshape(asked, {batch, shared, heads, 1, units}, where);
  const Tensor compared = tanh(add(keys, queries, where), where);
  const Tensor scores = reshape(matmul(compared, memory.v, where), {batch, shared * heads, places}, where);
  return read(scores, memory, heads, where);
}

// --- multiplicative ---

LuongAttention::LuongAttention(const LuongAttentionOptions& options, Rng& rng, Where where)
    : query_(options.query), memory_(options.memory), heads_(options.heads) {
  check_sizes("LuongAttention", query_, memory_, heads_, options.dtype, where);
  const bool weighted = options.score == LuongScore::general;
  if (!weighted && query_ != memory_)
    base::fail<ShapeError>(where, "LuongAttention: queries of ", query_, " and a memory of ", memory_,
                           " features were asked for; LuongScore::dot needs as many of both.");
  if (!weighted && heads_ > 1)
    base::fail<Error>(where, "LuongAttention: ", heads_,
                      " heads were asked for; those of LuongScore::dot, which has no weights, would all be the same.");
  const TensorOptions type{options.dtype};
  if (weighted) {
    static_cast<void>(Shape({memory_, heads_, query_}, where));  // heads_ * query_ does not overflow
    const Shape of_weight({memory_, heads_ * query_}, where);
    weight = Parameter(options.weight_init(of_weight, rng, type, where), where);
  }
  if (options.scaled) g = Parameter(ones(Shape({heads_}, where), type, where), where);
}

AttentionMemory LuongAttention::prepare(const Tensor& memory, const Tensor& lengths, Where where) const {
  AttentionMemory result = masked("LuongAttention", memory, memory_, lengths, where);
  if (!weight.defined()) {
    const Tensor keys = g.defined() ? mul(result.values, g, where) : result.values;
    result.keys = expand_dims(keys, 1, where);
    return result;
  }
  Tensor scaled = weight;
  if (g.defined()) {
    const Tensor by_head = reshape(weight, {memory_, heads_, query_}, where);
    scaled = reshape(mul(by_head, reshape(g, {heads_, 1}, where), where), {memory_, heads_ * query_}, where);
  }
  result.keys = keys_of(result.values, scaled, Tensor(), heads_, where);
  return result;
}

AttentionResult LuongAttention::operator()(const Tensor& query, const AttentionMemory& memory, Where where) const {
  constexpr const char* op = "LuongAttention";
  check_read(op, query, query_, memory, heads_, query_, false, where);
  const std::int64_t shared = queries_of_each(op, "query", query.size(0), memory, where);
  const std::int64_t batch = memory.values.size(0), places = memory.values.size(1);
  const Tensor columns = transpose(reshape(query, {batch, 1, shared, query_}, where), 2, 3, where);
  const Tensor products = permute(matmul(memory.keys, columns, where), {0, 3, 1, 2}, where);
  return read(reshape(products, {batch, shared * heads_, places}, where), memory, heads_, where);
}

// --- cells that attend ---

namespace detail {

namespace {

constexpr const char* kCell = "AttentionCell";

const AttentionCellOptions& checked(const AttentionCellOptions& options, Where where) {
  check_floating(kCell, options.dtype, where);
  if (options.attention_size < 0)
    base::fail<ShapeError>(where, kCell, ": an attention of ", options.attention_size,
                           " features was asked for; it must have one or more, or 0 to be the context.");
  if (options.attention_size == 0 && (options.bias || options.activation))
    base::fail<Error>(where, kCell,
                      ": a bias or an activation was asked for without an attention_size; they belong to its layer.");
  if (options.output_size != 0 && (options.attention_size == 0 || !options.query_state))
    base::fail<Error>(where, kCell, ": output_size is ", options.output_size,
                      "; it belongs to query_state with an attention_size.");
  return options;
}

/// Throws unless a cell that tells its sizes has those that the attention asks for.
void check_cell(const AttentionCellOptions& options, CellSizes cell, std::int64_t query, std::int64_t fed,
                Where where) {
  if (!options.query_state && cell.outputs != kUnknownSize && cell.outputs != query)
    base::fail<ShapeError>(where, kCell, ": the cell gives ", cell.outputs, " features and the attention takes ",
                           "queries of ", query, "; they must be equal.");
  if (options.input_feeding && cell.inputs != kUnknownSize && cell.inputs < fed)
    base::fail<ShapeError>(where, kCell, ": the cell takes ", cell.inputs, " features and is fed ", fed,
                           " of the attention; it must take these and the input's.");
}

}  // namespace

AttentionLayer::AttentionLayer(const AttentionCellOptions& options, CellSizes cell, std::int64_t query,
                               std::int64_t context, Rng& rng, Where where)
    : features_(checked(options, where).attention_size > 0 ? options.attention_size : context),
      fed_(options.feed_context ? context : features_),
      activation_(options.activation) {
  check_cell(options, cell, query, fed_, where);
  if (options.attention_size == 0) return;
  std::int64_t rows = query;
  if (options.query_state)
    rows = agreed_size(kCell, "output_size", options.output_size, "outputs", cell.outputs, where);
  if (__builtin_add_overflow(rows, context, &rows))
    base::fail<ShapeError>(where, kCell, ": an output and a context of ", context,
                           " features are 2^63 features or more.");
  const TensorOptions type{options.dtype};
  weight = Parameter(options.weight_init(Shape({rows, features_}, where), rng, type, where), where);
  if (options.bias) bias = Parameter(options.bias_init(Shape({features_}, where), rng, type, where), where);
}

Tensor AttentionLayer::operator()(const Tensor& output, const Tensor& context, Where where) const {
  if (!weight.defined()) return context;
  const Tensor y = linear(concat({output, context}, -1, where), weight, bias, where);
  if (!activation_) return y;
  return *activation_ == Activation::relu ? relu(y, where) : tanh(y, where);
}

void check_attended(const char* what, std::int64_t rows, const AttentionMemory& memory, Where where) {
  if (!memory.values.defined())
    base::fail<Error>(where, kCell, ": there is no memory yet; call attend with one first.");
  queries_of_each(kCell, what, rows, memory, where);
}

void check_attention_step(const Tensor& x, bool feeds, const Tensor& attention, std::int64_t features,
                          const AttentionMemory& memory, Where where) {
  check_defined(kCell, "input", x, where);
  if (feeds ? x.rank() != 2 : x.rank() < 1)
    base::fail<ShapeError>(where, kCell, ": the input is ", x.shape(), "; it must be ",
                           feeds ? "[rows, features]." : "[rows, ...].");
  check_attended("input", x.size(0), memory, where);
  if (!attention.defined())
    base::fail<Error>(where, kCell,
                      ": the state's attention is undefined; a state comes from zero_state, initial_state or a step.");
  if (attention.rank() != 2 || attention.size(0) != x.size(0) || attention.size(1) != features)
    base::fail<ShapeError>(where, kCell, ": the state's attention is ", attention.shape(), "; with an input of ",
                           x.shape(), " it must be [", x.size(0), ", ", features, "].");
}

Tensor zeros_beside(const AttentionMemory& memory, std::int64_t rows, std::int64_t columns, Where where) {
  return zeros(Shape({rows, columns}, where), {memory.values.dtype(), memory.values.device()}, where);
}

Tensor joined_state(std::span<const Tensor> tensors, Where where) {
  if (tensors.empty())
    base::fail<Error>(where, kCell, ": the cell's state has no floating tensors; with query_state they are the query.");
  return tensors.size() == 1 ? tensors.front() : concat(tensors, -1, where);
}

Tensor mean_of_heads(const Tensor& weights, Where where) {
  if (weights.size(1) == 1) return reshape(weights, {weights.size(0), weights.size(2)}, where);
  return mean(weights, 1, {}, where);
}

}  // namespace detail

}  // namespace capstan::nn
