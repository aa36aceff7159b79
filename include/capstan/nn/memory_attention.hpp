#pragma once
// Attention over a memory, for decoders: at each step a query, the output of a cell, is compared with every place of
// what an encoder has made, and reads a weighted mean of it.
//
//   cs::nn::AttentionCell cell(cs::nn::LstmCell(32 + 64, 64),
//                              cs::nn::BahdanauAttention{{.query = 64, .memory = 128, .units = 64}},
//                              {.attention_size = 64});
//   cell.attend(encoder_outputs, lengths);                                        // once for each batch
//   auto [outputs, state] = cs::nn::unroll(cell, targets, {.initial_state = cell.initial_state(encoder_state)});
//
// Names    batch B, places T, features F of a place; R rows of queries; heads N, units U
// Lengths  Places past a row's end have weight 0, exactly, and what stands there is never read into a value or a
//          gradient, whatever it is. A row without any place reads 0.
// Heads    Several heads are as many reads of the same values, each by its own weights, one behind the other in the
//          result: those of TensorFlow's attention_decoder (num_heads).
// Beams    `repeated(memory, k)` lets k rows of queries in succession read each row of a memory, without copying it.
//          States may change places among these; what is gathered from other rows needs a memory gathered likewise.
// Types    one floating type for all; 16-bit types round at each operation
// Gradient for queries, memory and parameters, to any order. The memory belongs to the tape that it was prepared under.
// Throws   ShapeError, DTypeError, DeviceError; IndexError for lengths outside 0..T; Error for undefined tensors and
//          options
// Defined in nn/memory_attention.cpp.
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <capstan/nn/cell_wrappers.hpp>
#include <capstan/nn/dropout_cell.hpp>
#include <capstan/nn/init.hpp>
#include <capstan/nn/states.hpp>
#include <capstan/ops/attention.hpp>
#include <capstan/ops/recurrent.hpp>
#include <capstan/ops/shaping.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// What queries read from: all that does not depend on them, computed once for a sequence by an attention's `prepare`.
struct AttentionMemory {
  Tensor keys = {};            ///< [B, N, T, U]: what queries are compared with
  Tensor values = {};          ///< [B, T, F]: what is read; 0 past a row's end
  Tensor mask = {};            ///< bool [B, 1, T], true at the places of a row; undefined if there were no lengths
  Tensor v = {};               ///< [U, 1], or [N, U, 1], of additive attention: what sums up a comparison
  std::int64_t shared_by = 1;  ///< rows of queries, in succession, that may read each row
};

/// The same memory for R = B * shared_by * count rows of queries as well as for R = B. Error unless count >= 1,
/// ShapeError for 2^63 rows or more.
AttentionMemory repeated(AttentionMemory memory, std::int64_t count, Where where = Where::current());

struct BahdanauAttentionOptions {
  std::int64_t query = 0;                            ///< features of a query, >= 1
  std::int64_t memory = 0;                           ///< features of a place, >= 1
  std::int64_t units = 0;                            ///< of the layer in which each head compares them, >= 1
  std::int64_t heads = 1;                            ///< >= 1
  bool normed = false;                               ///< v is g * v / |v|, with a trained length g and a bias b
  bool bias = false;                                 ///< a bias b without `normed`, which has one anyway
  Initializer weight_init = init::glorot_uniform();  ///< of the two weights, and of v with U for both fans
  DType dtype = DType::float32;
};

/// Additive attention:
///
///   score[t] = sum(u) v[u] * tanh(query @ query_weight + memory[t] @ memory_weight)[u]
///   score[t] = sum(u) v[u] * tanh(query @ query_weight + memory[t] @ memory_weight + b)[u]                  bias
///   score[t] = sum(u) (g * v / |v|)[u] * tanh(query @ query_weight + memory[t] @ memory_weight + b)[u]      normed
///   weights  = softmax(score) over the places of the row;  context = sum(t) weights[t] * memory[t]
///
/// Shapes  query_weight [query, N*U]; memory_weight [F, N*U], heads side by side; v and b [N, U]; g [N]
/// Start   g at sqrt(1 / U), b at 0
/// Cost    a step keeps R*N*T*U numbers for the gradient
/// Source  Bahdanau, Cho and Bengio 2015; normed: Salimans and Kingma, "Weight normalization", 2016
/// From TensorFlow  query_layer/kernel, memory_layer/kernel, attention_v, attention_g and attention_b, with normed for
///         normalize
class BahdanauAttention {
 public:
  explicit BahdanauAttention(const BahdanauAttentionOptions& options, Rng& rng = default_rng(),
                             Where where = Where::current());

  /// memory [B, T, F]; lengths [B], int32 or int64, places of each row; undefined for all.
  AttentionMemory prepare(const Tensor& memory, const Tensor& lengths = {}, Where where = Where::current()) const;
  /// query [R, query]; the output, the context, is [R, N*F], and the weights are [R, N, T].
  AttentionResult operator()(const Tensor& query, const AttentionMemory& memory, Where where = Where::current()) const;

  std::int64_t query_features() const { return query_weight.size(0); }
  std::int64_t context_features() const { return v.size(0) * memory_weight.size(0); }

  Parameter query_weight, memory_weight, v;
  Parameter g;  ///< undefined unless normed
  Parameter b;  ///< undefined unless normed or with a bias
  CAPSTAN_FIELDS(query_weight, memory_weight, v, g, b);
};

enum class LuongScore : std::uint8_t {
  general,  ///< query . (memory[t] @ weight)
  dot       ///< query . memory[t], which must have as many features
};

struct LuongAttentionOptions {
  std::int64_t query = 0;   ///< features of a query, >= 1
  std::int64_t memory = 0;  ///< features of a place, >= 1
  LuongScore score = LuongScore::general;
  std::int64_t heads = 1;  ///< >= 1; 1 for LuongScore::dot
  bool scaled = false;     ///< scores are multiplied by a trained g
  Initializer weight_init = init::glorot_uniform();
  DType dtype = DType::float32;
};

/// Multiplicative attention: score[t] = g * query . (memory[t] @ weight); weights and context as in BahdanauAttention.
/// Unlike `scaled_dot_product_attention` it does not divide by the root of the features.
///
/// Shapes  weight [F, N*query], heads side by side; g [N], which starts at 1
/// Source  Luong, Pham and Manning, "Effective approaches to attention-based neural machine translation", 2015
/// From TensorFlow  memory_layer/kernel and attention_g, with scaled for scale; num_units is the size of a query there
class LuongAttention {
 public:
  explicit LuongAttention(const LuongAttentionOptions& options, Rng& rng = default_rng(),
                          Where where = Where::current());

  /// memory [B, T, F]; lengths [B], int32 or int64, places of each row; undefined for all.
  AttentionMemory prepare(const Tensor& memory, const Tensor& lengths = {}, Where where = Where::current()) const;
  /// query [R, query]; the output, the context, is [R, N*F], and the weights are [R, N, T].
  AttentionResult operator()(const Tensor& query, const AttentionMemory& memory, Where where = Where::current()) const;

  std::int64_t query_features() const noexcept { return query_; }
  std::int64_t context_features() const noexcept { return heads_ * memory_; }

  Parameter weight;  ///< undefined for LuongScore::dot
  Parameter g;       ///< undefined unless scaled
  CAPSTAN_FIELDS(weight, g);

 private:
  std::int64_t query_, memory_, heads_;
};

// --- cells that attend ---------------------------------------------------------------------------------------------

struct AttentionCellOptions {
  std::int64_t attention_size = 0;  ///< features of the attention, >= 1; 0: it is the context, and there is no layer
  std::optional<Activation> activation = {};  ///< of that layer: tanh in Luong et al., none in TensorFlow
  bool bias = false;                          ///< of that layer
  bool input_feeding = true;     ///< the cell's input is x and, behind it, the last attention; otherwise x alone
  bool feed_context = false;     ///< what is fed is the context, before that layer
  bool output_attention = true;  ///< a step's output is its attention; otherwise that of the cell
  bool query_state = false;      ///< the query is the cell's new state, as below; otherwise its output
  std::int64_t output_size = 0;  ///< features of the cell's output with query_state, for the layer; 0 if the cell tells
  Initializer weight_init = init::glorot_uniform();
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;  ///< of that layer
};

template <class CellState>
struct AttentionState {
  CellState cell;
  Tensor attention;   ///< what is fed to the next step: [R, attention_size], or the context [R, N*F]
  Tensor alignments;  ///< [R, T]: the weights of the last step, for several heads their mean
};

namespace detail {

/// The layer on [output, context]. Without weights it passes on the context.
class AttentionLayer {
 public:
  /// Throws unless options, cell and attention, of such queries and contexts, fit.
  AttentionLayer(const AttentionCellOptions& options, CellSizes cell, std::int64_t query, std::int64_t context,
                 Rng& rng, Where where);
  Tensor operator()(const Tensor& output, const Tensor& context, Where where) const;
  std::int64_t features() const noexcept { return features_; }
  std::int64_t fed_features() const noexcept { return fed_; }  // of what the next step is fed

  Parameter weight, bias;
  CAPSTAN_FIELDS(weight, bias);

 private:
  std::int64_t features_, fed_;
  std::optional<Activation> activation_;
};

/// Throws Error if there is no memory, ShapeError if it has no place for so many rows.
void check_attended(const char* what, std::int64_t rows, const AttentionMemory& memory, Where where);
/// Throws unless a step with this input and state is possible.
void check_attention_step(const Tensor& x, bool feeds, const Tensor& attention, std::int64_t features,
                          const AttentionMemory& memory, Where where);
/// Zeros [rows, columns] like the memory.
Tensor zeros_beside(const AttentionMemory& memory, std::int64_t rows, std::int64_t columns, Where where);
/// Side by side, [rows, features of all].
Tensor joined_state(std::span<const Tensor> tensors, Where where);
/// [rows, heads, places] -> [rows, places].
Tensor mean_of_heads(const Tensor& weights, Where where);

}  // namespace detail

/// A cell whose output reads a memory: TensorFlow's AttentionWrapper, as a cell like any other.
///
///   output, cell' = cell([x, attention], cell)
///   context       = the attention's, for the query `output`
///   attention'    = activation([output, context] @ layer.weight + layer.bias), or the context
///
/// With `query_state` the query is the floating tensors of the cell's new state side by side, without the masks of a
/// DropoutCell.
///
/// An attention of one's own is any type with
///     AttentionResult operator()(const Tensor& query, const AttentionMemory& memory, Where where);   // [R, N, T]
///     std::int64_t query_features() const, context_features() const;
/// and, for attending to tensors, `AttentionMemory prepare(const Tensor& memory, const Tensor& lengths, Where where)`.
///
/// Memory  The cell holds it, and no state does: `attend` to that of each batch before its first step, under the tape
///         that records its loss, and to `repeated(cell.memory(), k)` for k beams. Copies of a cell share it.
/// Shapes  x [R, inputs], which for a cell that is fed are fewer than its own by attention_size; layer.weight
///         [output + N*F, attention_size]; layer.bias [attention_size]
/// Sizes   as cell_wrappers.hpp has them: those of a cell that tells them are checked when this one is made
/// Throws  Error       no memory, a layer's options without its size
///         ShapeError  inputs, states and memory of different rows, a state with another attention's size, a cell
///                     whose output is not as large as a query, or that cannot take what is fed to it
/// From TensorFlow  attention_layer/kernel is layer.weight; alignment_history holds the alignments after each step, of
///         which `on_step` of UnrollOptions is told. The legacy attention_decoder is
///             AttentionCell(InputProjectionCell<Cell>(cell, {.inputs = x's + N*F}),
///                 BahdanauAttention({.query = the state's, .memory = F, .units = F, .heads = N, .bias = true}),
///                 {.attention_size = output_size, .bias = true, .feed_context = true, .query_state = true})
///         where an LSTM's state is [h, c], and there [c, h]; its initial_state_attention is a first state with
///         `attention(query, memory()).output` for `attention`
template <class Cell, class Attention>
class AttentionCell {
 public:
  using State = AttentionState<typename Cell::State>;

  AttentionCell(Cell inner, Attention mechanism, const AttentionCellOptions& options = {}, Rng& rng = default_rng(),
                Where where = Where::current())
      : cell(std::move(inner)),
        attention(std::move(mechanism)),
        layer(options, detail::sizes_of(cell), attention.query_features(), attention.context_features(), rng, where),
        feeds_(options.input_feeding),
        feeds_context_(options.feed_context),
        gives_attention_(options.output_attention),
        queries_by_state_(options.query_state) {}

  /// What to read from here on.
  void attend(AttentionMemory memory) noexcept { memory_ = std::move(memory); }
  /// The same, prepared by the attention: memory [B, T, F]; lengths [B], undefined for all places.
  void attend(const Tensor& memory, const Tensor& lengths = {}, Where where = Where::current()) {
    memory_ = attention.prepare(memory, lengths, where);
  }
  const AttentionMemory& memory() const noexcept { return memory_; }

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) {
    detail::check_attention_step(x, feeds_, before.attention, layer.fed_features(), memory_, where);
    const detail::Rewind rewind(default_rng());
    auto [output, after] =
        detail::step(cell, feeds_ ? concat({x, before.attention}, -1, where) : x, before.cell, where);
    const AttentionResult read = attention(queries_by_state_ ? query_of(after, where) : output, memory_, where);
    const Tensor attended = layer(output, read.output, where);
    return {gives_attention_ ? attended : output, State{std::move(after), feeds_context_ ? read.output : attended,
                                                        detail::mean_of_heads(read.weights, where)}};
  }

  /// The cell's own first state, and zeros.
  State zero_state(std::int64_t batch, Where where = Where::current()) const {
    detail::check_attended("state", batch, memory_, where);
    return beside(detail::first_state(cell, batch, where), batch, where);
  }
  /// This state of the cell, for example the encoder's last one, and zeros.
  State initial_state(typename Cell::State start, Where where = Where::current()) const {
    std::int64_t rows = -1;
    detail::for_each_tensor(start, [&](const Tensor& t) {
      if (rows < 0 && t.defined() && t.rank() > 0) rows = t.size(0);
    });
    if (rows < 0 && memory_.values.defined()) rows = memory_.values.size(0);  // a cell without tensors
    detail::check_attended("state", rows, memory_, where);
    return beside(std::move(start), rows, where);
  }

  std::int64_t inputs() const requires detail::TellsInputs<Cell> {
    return cell.inputs() - (feeds_ ? layer.fed_features() : 0);
  }
  std::int64_t outputs() const requires detail::TellsOutputs<Cell> {
    return gives_attention_ ? layer.features() : cell.outputs();
  }

  Cell cell;
  Attention attention;
  detail::AttentionLayer layer;  ///< its `weight` and `bias` are undefined where the options have no use for them
  CAPSTAN_FIELDS(cell, attention, layer);

 private:
  static Tensor query_of(typename Cell::State& state, Where where) {
    std::vector<Tensor> parts;
    auto list = [&](const Tensor& part) { parts.push_back(part); };
    detail::for_each_droppable(state, {}, /*memory=*/true, list);
    return detail::joined_state(parts, where);
  }
  State beside(typename Cell::State start, std::int64_t rows, Where where) const {
    return {std::move(start), detail::zeros_beside(memory_, rows, layer.fed_features(), where),
            detail::zeros_beside(memory_, rows, memory_.values.size(1), where)};
  }

  AttentionMemory memory_;
  bool feeds_, feeds_context_, gives_attention_, queries_by_state_;
};

}  // namespace nn
}  // namespace capstan
