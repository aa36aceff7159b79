#pragma once
// What a device must be able to compute. One table for each backend; backends.cpp picks it by device.
//
// Arguments are checked before: types agree, shapes fit, indices are in range where that can be known from the host.
// `out` is freshly allocated and contiguous unless an entry says otherwise; inputs may have any strides.
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <capstan/ops/update_rule.hpp>

#include "lib/core/allocator.hpp"
#include "lib/core/resampling.hpp"
#include "lib/core/tensor_impl.hpp"
#include "lib/core/window.hpp"
#include "lib/kernels/op_list.hpp"
#include "lib/kernels/random_task.hpp"

namespace capstan::core {

using kernels::RandomKind;
using kernels::RandomTask;
/// Blocks of the generator that a task of `count` elements uses.
std::int64_t random_blocks(RandomKind kind, std::int64_t count) noexcept;

struct RnnForward {
  const TensorImpl &x, &h0, &wx, &wh, &b;
  bool relu;
};
struct RnnBackward {
  const TensorImpl &x, &h0, &wx, &wh, &h;
  const TensorImpl *grad, *grad_last;  // of all steps and of the last; either may be null
  TensorImpl* dx;                      // null if not needed
  TensorImpl &dh0, &dwx, &dwh, &db;
  bool relu;
};

/// gru_before: the reset gate comes before the product.
enum class RecurrentKind : std::uint8_t { rnn_tanh, rnn_relu, gru, gru_before, lstm };

/// A whole recurrent sequence, with the weights of ops/recurrent.hpp. x and the outputs are [batch, time, ...] with any
/// strides but contiguous last axes, index [batch, time] has any; all else is contiguous. A single step may be without
/// its axis.
struct RecurrentTask {
  RecurrentKind kind;
  bool reverse;
  const TensorImpl &x, &h0;
  const TensorImpl* c0;  // lstm
  const TensorImpl &wx, &wh;
  const TensorImpl *b, *bn, *projection;  // may be null
  const std::int64_t* lengths;            // on the host, each in 0..time; null for time
  const TensorImpl* index = nullptr;      // x was looked up: its lines are these rows of a table, int64. Else null
  std::int64_t table_rows = 0;            // of that table
};
/// gates and the states that steps begin with are kept for the gradient, in an order of the backend's own: `lines` rows
/// of gates * hidden and of the states' widths, where lines is the number of all steps. Null if nobody needs them; the
/// states are not kept for a single step without lengths.
struct RecurrentResults {
  TensorImpl* outputs;  // may be null
  TensorImpl& h;
  TensorImpl* c;
  TensorImpl *gates, *entering_h, *entering_c;
};
/// The gradients given, null if there are none, and those to be made, null if nobody needs them. That for the table
/// [table_rows, inputs] which x was looked up in, asked for in place of x's, is contiguous.
struct RecurrentGradients {
  const TensorImpl& gates;
  const TensorImpl *entering_h, *entering_c;
  const TensorImpl *outputs, *last_h, *last_c;
  TensorImpl *x, *h0, *c0, *wx, *wh, *b, *bn, *projection;
  TensorImpl* table = nullptr;
};

/// Elements that are kept become scale * x + shift, the others `dropped`. Each decision is one of `draw`, bernoulli's
/// with a probability below 1, and holds for `group` elements side by side.
struct DropoutTask {
  RandomTask draw;
  std::int64_t group;
  double scale, shift, dropped;
};

/// Attention. Operands [..., queries or keys, features] of one type, float32 or float64, with equal leading axes; the
/// last is contiguous. Mask (bool) and bias broadcast to [..., queries, keys], have any strides, and may be null.
struct AttentionTask {
  const TensorImpl &query, &key, &value;
  const TensorImpl *mask, *bias;
  bool causal;
  double scale;
};
struct AttentionGradients {
  const TensorImpl &out, &statistics, &grad;
  TensorImpl *query, *key, *value;  // last axis contiguous; null if not needed
};

/// The first index that is out of range, and where it stands; position -1 for none.
struct BadIndex {
  std::int64_t position = -1, value = 0;
};

/// How a position becomes an element: `position * scale` elements behind the place that strides give.
struct PositionRule {
  std::int64_t scale = 0;
  std::int64_t size = 1;  // positions lie in [-size, size); negative ones count from the end,
  bool drop = false;      // or are passed over: nothing is written there, and 0 is read
};
/// Flat positions over some axes become offsets: those of a contiguous tensor of `sizes`, in one of `strides`.
struct LocateTask {
  int axes = 0;
  std::int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};
  std::int64_t shift = 0;  // added to each
  bool add = false;        // to what is there
};
enum class Combine : std::uint8_t { set, add, min, max };
/// Elements of a mask that are counted together.
inline constexpr std::int64_t kMaskBlock = 8192;

/// One step of a parameter p of any floating type. It, its gradient g and its states are contiguous; as many states as
/// the rule has, float32 for 16 bits, the others null.
struct OptimizerStep {
  UpdateRule rule;
  TensorImpl& p;
  const TensorImpl& g;
  TensorImpl *first, *second, *third;
  UpdateNumbers numbers;
  const UpdateNumbers* replayed = nullptr;  // in the device's memory: takes the place of `numbers`. Of captured steps
};

/// The first matrix of a batch that a decomposition failed on, and LAPACK's info; index -1 for none.
struct BadMatrix {
  std::int64_t index = -1, info = 0;
};

enum class Cumulation : std::uint8_t { sum, product, logsumexp };

/// Windows over planes, of which x and out hold as many: [planes, in...] and [planes, out...].
struct PoolTask {
  Window window;
  bool adaptive = false;      // only sizes count: result o of m among n inputs has [floor(o*n/m), ceil((o+1)*n/m))
  bool count_padding = true;  // means: whether zeros at the borders count
  std::int64_t divisor = 0;   // means: of each sum, if it is not 0

  static constexpr std::int64_t kByteTaps = 256;
  /// Whether a byte can say which of its places won in a window.
  bool fits_byte() const noexcept {
    std::int64_t taps = 1;
    for (const WindowAxis& a : window.axis) taps = a.kernel > kByteTaps ? kByteTaps + 1 : taps * a.kernel;
    return !adaptive && taps <= kByteTaps;
  }
};

/// out = x / (k + alpha/size * the squares of `size` channels around it)^beta
struct ResponseNorm {
  std::int64_t size;
  double alpha, beta, k;
};

/// Sequences of classes: log-probabilities x [batch, time, classes] in float32 or float64 and any strides, of which the
/// first steps[b] count. The labels of sequence b are labels[bounds[b]] to labels[bounds[b + 1] - 1]; none of them is
/// the blank. All int64 and contiguous.
struct CtcTask {
  const TensorImpl &x, &steps, &labels, &bounds;
  std::int64_t blank;
  bool zero_infinity;  // infinite losses are 0
};
struct CtcDecodeTask {
  const TensorImpl &x, &steps;
  std::int64_t blank;
  bool merge_repeated = true;  // greedy
  std::int64_t beams = 1;
};

struct Backend {
  // elementwise; operands broadcast to out's shape
  void (*unary)(int op, const TensorImpl& x, TensorImpl& out);
  void (*unary_backward)(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out);
  void (*binary)(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  // rows with two numbers; what their gradients need besides is the input
  void (*parametric)(int op, double p, double q, const TensorImpl& x, TensorImpl& out);
  void (*parametric_backward)(int op, double p, double q, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
  /// Whether a contiguous floating tensor holds NaN, or with `infinite` also infinity.
  bool (*any_bad)(const TensorImpl& x, bool infinite);
  void (*predicate)(kernels::Predicate op, const TensorImpl& x, TensorImpl& out);                   // of any type
  void (*bitwise)(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);  // integers, bool
  void (*compare)(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  void (*logical)(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);  // 0 and, 1 or, 2 not a, 3 xor
  void (*select)(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out);
  /// a += b, both contiguous and of one shape
  void (*accumulate)(TensorImpl& a, const TensorImpl& b);

  // tools of training: floating, contiguous, of one shape and type
  /// out = x * factor, perhaps in place; `factor` is one float64. `bad`, one bool, becomes true if x is not finite
  /// somewhere; it may be null
  void (*scale)(const TensorImpl& x, const TensorImpl& factor, TensorImpl& out, TensorImpl* bad);
  /// average += weight * (value - average)
  void (*blend)(const TensorImpl& value, double weight, TensorImpl& average);
  /// the elements of a and b change places; of any type
  void (*exchange)(TensorImpl& a, TensorImpl& b);
  /// total, one float64, += sum(|x|^order); for an infinite order the larger of itself and the largest |x|, NaN if
  /// there is one
  void (*add_powers)(const TensorImpl& x, double order, TensorImpl& total);

  // any strides on both sides; x broadcasts and is converted
  void (*copy)(const TensorImpl& x, TensorImpl& out);
  void (*fill)(TensorImpl& out, Scalar value);
  void (*random)(const RandomTask& task, TensorImpl& out);

  // reductions; `reduced` has a bit for each reduced axis, out keeps the others
  void (*reduce)(kernels::Reduction kind, const TensorImpl& x, unsigned reduced, TensorImpl& out);
  void (*argmax)(const TensorImpl& x, int axis, TensorImpl& out);
  void (*argmin)(const TensorImpl& x, int axis, TensorImpl& out);
  // along the last axis
  void (*softmax)(bool log, const TensorImpl& x, TensorImpl& out);
  void (*softmax_backward)(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out);
  void (*logsumexp)(const TensorImpl& x, TensorImpl& out);

  // out [..., m, n] (+)= a [..., m, k] b [..., k, n]; leading axes broadcast to out's. A bias [n], contiguous, is
  // added to every row; it may be null, and must be where it accumulates
  void (*matmul)(const TensorImpl& a, const TensorImpl& b, const TensorImpl* bias, TensorImpl& out, bool accumulate);

  // linear algebra: matrices are the last two axes. Any type:
  // the elements on and below diagonal `offset` of each matrix of x, or on and above it, and zeros
  void (*triangle)(bool upper, std::int64_t offset, const TensorImpl& x, TensorImpl& out);
  // float32 and float64, one type for all; null in builds without LAPACK. Matrices that are not finite give NaN.
  // a [..., n, n] out = b [..., n, k]; leading axes broadcast to out's
  BadMatrix (*solve)(const TensorImpl& a, const TensorImpl& b, TensorImpl& out) = nullptr;
  BadMatrix (*solve_triangular)(bool upper, bool unit, const TensorImpl& a, const TensorImpl& b,
                                TensorImpl& out) = nullptr;
  // out [..., n, k], rank int64 [...], values [..., min(m, n)]
  BadMatrix (*lstsq)(const TensorImpl& a, const TensorImpl& b, double rcond, TensorImpl& out, TensorImpl& rank,
                     TensorImpl& values) = nullptr;
  // either `det`, or `sign` and `logabs`; all [...]
  void (*determinant)(const TensorImpl& x, TensorImpl* det, TensorImpl* sign, TensorImpl* logabs) = nullptr;
  BadMatrix (*cholesky)(const TensorImpl& x, TensorImpl& out) = nullptr;
  // q [..., m, k] or [..., m, m], and r with as many rows
  void (*qr)(const TensorImpl& x, TensorImpl& q, TensorImpl& r) = nullptr;
  // u and vh reduced or full, or both null
  BadMatrix (*svd)(const TensorImpl& x, TensorImpl* u, TensorImpl& s, TensorImpl* vh) = nullptr;
  // v may be null
  BadMatrix (*eigh)(const TensorImpl& x, TensorImpl& w, TensorImpl* v) = nullptr;

  // mean and variance, or its root; `reduced` as above
  void (*moments)(const TensorImpl& x, unsigned reduced, double correction, bool root, TensorImpl& mean,
                  TensorImpl& spread);
  // grad [rows] times the product of the others in each row of x [rows, count]; both contiguous
  void (*prod_backward)(const TensorImpl& grad, const TensorImpl& x, TensorImpl& out);
  // 1 with the probability at that place, contiguous, else 0
  void (*bernoulli)(const RandomTask& task, const TensorImpl& probability, TensorImpl& out);
  // for each row of logits [rows, classes], contiguous, as many classes as out [rows, count] has room for; -1 where the
  // logits leave nothing to choose from
  void (*categorical)(const RandomTask& task, const TensorImpl& logits, TensorImpl& out);

  // choosing elements by positions, int32 or int64; they and what they choose from are stretched, by strides of 0, to
  // the shape of what is read or written
  BadIndex (*check_indices)(const TensorImpl& indices, std::int64_t low, std::int64_t high);
  // false: a position is out of range, and what out holds is undetermined
  bool (*take)(const TensorImpl& x, const TensorImpl& positions, const PositionRule& rule, TensorImpl& out);
  // in row-major order where places meet; values broadcast to the target's shape; positions are in range.
  // all but `set` not for bool and 16-bit floating types
  void (*combine)(Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
                  TensorImpl& target);
  // out = x, then `combine` on `target`, a view of out whose places have positions of their own; false as for `take`
  bool (*scatter)(Combine kind, const TensorImpl& x, const TensorImpl& values, const TensorImpl& positions,
                  const PositionRule& rule, TensorImpl& target, TensorImpl& out);
  // whether what is set stays; only the target's geometry matters, of `extent` elements. False: all stays
  bool (*find_last)(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule,
                    std::int64_t extent, TensorImpl& last);
  void (*locate)(const TensorImpl& indices, const LocateTask& task, TensorImpl& out);
  // out [n, rest] += grad [m, rest] in the rows indices [m]; all contiguous
  void (*gather_backward)(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out);
  void (*one_hot)(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out);
  // masks, contiguous. before [blocks] gets the number of true ones in the blocks before each; returns all of them
  std::int64_t (*count_true)(const TensorImpl& mask, TensorImpl& before);
  void (*true_positions)(const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);  // flat, ascending
  // x [mask's elements, rest] -> out [true ones, rest], and back, with zeros elsewhere; all contiguous
  void (*compress)(const TensorImpl& x, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
  void (*expand)(const TensorImpl& values, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out);
  // ascending flat positions in `shape` -> out [n, rank] of any strides
  void (*unravel)(const TensorImpl& flat, const Shape& shape, TensorImpl& out);

  // order along an axis, any type: NaN is larger than everything, equal elements keep their order. Either may be null
  void (*sort)(const TensorImpl& x, int axis, bool descending, TensorImpl* values, TensorImpl* indices);
  // as many as the results are long; in any order unless `ordered`
  void (*topk)(const TensorImpl& x, int axis, bool largest, bool ordered, TensorImpl& values, TensorImpl& indices);
  // contiguous and of one type: sorted [n], or sorted [..., n] and values [..., m] row by row
  void (*searchsorted)(const TensorImpl& sorted, const TensorImpl& values, bool right, TensorImpl& out);
  // runs of equal elements in sorted [n]: how many; then each one's element, the first of its places in `order`, its
  // number at all of its places, and its length. All but sorted and values may be null
  std::int64_t (*count_distinct)(const TensorImpl& sorted);
  void (*distinct)(const TensorImpl& sorted, const TensorImpl* order, TensorImpl& values, TensorImpl* indices,
                   TensorImpl* inverse, TensorImpl* counts);
  // x [n], contiguous: floating, with float64 edges [bins + 1]; or int64 in range. out int64, float64 with weights [n]
  void (*histogram)(const TensorImpl& x, const TensorImpl* weights, const TensorImpl& edges, TensorImpl& out);
  void (*bincount)(const TensorImpl& x, const TensorImpl* weights, TensorImpl& out);

  // running totals along an axis; floating or int64
  void (*cumulate)(Cumulation kind, const TensorImpl& x, int axis, bool exclusive, bool reverse, TensorImpl& out);
  // any type; NaN from the first one on, and the last of equal ones
  void (*cumulative_extreme)(bool largest, const TensorImpl& x, int axis, TensorImpl& values, TensorImpl& indices);
  // out = b + a * (out before); out = b at the beginning; one floating type and shape
  void (*recur)(const TensorImpl& b, const TensorImpl& a, int axis, bool reverse, TensorImpl& out);

  // convolution over images [batch, channels, places...]; all contiguous, weights [out, in / groups, kernel...]; windows
  // over the places of x. `bias` may be null
  void (*convolve)(const TensorImpl& x, const TensorImpl& weight, const TensorImpl* bias, const Window& window,
                   std::int64_t groups, TensorImpl& out);
  // its gradient for x, from that of its result
  void (*convolve_transposed)(const TensorImpl& grad, const TensorImpl& weight, const TensorImpl* bias,
                              const Window& window, std::int64_t groups, TensorImpl& out);
  void (*convolve_weight)(const TensorImpl& x, const TensorImpl& grad, const Window& window, std::int64_t groups,
                          TensorImpl& out);

  // pooling; all contiguous. `places` says which inputs won: as int32 or int64, places in the plane; as uint8, allowed
  // by PoolTask::fits_byte, places in the window. May be null
  void (*max_pool)(const PoolTask& task, const TensorImpl& x, TensorImpl& out, TensorImpl* places);
  // places, not of int64, as int64 places in the plane
  void (*max_pool_positions)(const PoolTask& task, const TensorImpl& places, TensorImpl& out);
  // x at its places, and the reverse: zeros, and each gradient added at its place
  void (*max_pool_gather)(const PoolTask& task, const TensorImpl& x, const TensorImpl& places, TensorImpl& out);
  void (*max_pool_scatter)(const PoolTask& task, const TensorImpl& grad, const TensorImpl& places, TensorImpl& out);
  // means of the windows, and the transpose of that
  void (*avg_pool)(const PoolTask& task, const TensorImpl& x, TensorImpl& out);
  void (*avg_pool_scatter)(const PoolTask& task, const TensorImpl& grad, TensorImpl& out);

  // resampling: x [batch, channels, axes...]. Nearest ones, not transposed, of any type
  void (*resample)(const TensorImpl& x, const Resample& task, TensorImpl& out);
  // x at grid [batch, places..., axes], whose coordinates stand in reverse order: out [batch, channels, places...]
  void (*grid_sample)(const TensorImpl& x, const TensorImpl& grid, const GridSample& task, TensorImpl& out);
  // its transpose: grad is like its result and out like x; and its gradient for the grid
  void (*grid_spread)(const TensorImpl& grad, const TensorImpl& grid, const GridSample& task, TensorImpl& out);
  void (*grid_slopes)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& grid, const GridSample& task,
                      TensorImpl& out);
  // windows over x [batch, channels, axes...] as columns [batch, channels * kernel, windows], of any type; and back
  void (*unfold)(const TensorImpl& x, const Window& window, TensorImpl& out);
  void (*fold)(const TensorImpl& x, const Window& window, TensorImpl& out);

  // normalization; all contiguous. `inverse` is 1 / sqrt(variance + epsilon); mean and inverse go to backward as they came
  // out. Weights and biases may be null, and so may gradients that nobody needs
  // rows, as many as inverse has elements; mean null: the mean of squares takes the variance's place
  void (*layer_norm)(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                     TensorImpl& out, TensorImpl* mean, TensorImpl& inverse);
  void (*layer_norm_backward)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight,
                              const TensorImpl* mean, const TensorImpl& inverse, TensorImpl* dx, TensorImpl* dweight,
                              TensorImpl* dbias);
  // x [samples, channels, ...], numbers of channels [channels], of groups of channels [samples, groups]
  void (*group_norm)(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, std::int64_t groups,
                     double epsilon, TensorImpl& out, TensorImpl& mean, TensorImpl& inverse);
  void (*group_norm_backward)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight,
                              const TensorImpl& mean, const TensorImpl& inverse, std::int64_t groups, TensorImpl* dx,
                              TensorImpl* dweight, TensorImpl* dbias);
  // the first finds mean and variance, zeros if x is empty; the second is given them
  void (*batch_norm_training)(const TensorImpl& x, const TensorImpl* weight, const TensorImpl* bias, double epsilon,
                              TensorImpl& out, TensorImpl& mean, TensorImpl& variance, TensorImpl& inverse);
  void (*batch_norm)(const TensorImpl& x, const TensorImpl& mean, const TensorImpl& variance, const TensorImpl* weight,
                     const TensorImpl* bias, double epsilon, TensorImpl& out, TensorImpl& inverse);
  void (*batch_norm_backward)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight,
                              const TensorImpl& mean, const TensorImpl& inverse, bool training, TensorImpl* dx,
                              TensorImpl* dweight, TensorImpl* dbias);
  void (*response_norm)(const ResponseNorm& norm, const TensorImpl& x, TensorImpl& out);
  void (*response_norm_backward)(const ResponseNorm& norm, const TensorImpl& grad, const TensorImpl& x,
                                 TensorImpl& out);

  // losses over rows: x [rows, classes], labels [rows]. sums [rows, 2], float32 for the 16-bit types: a shift for each
  // row, and the sum of exp(x - shift). grad is contiguous or of rank 1; the gradient of a row where it is 0 is 0
  void (*cross_entropy)(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& sums);
  void (*cross_entropy_backward)(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                                 const TensorImpl& sums, TensorImpl& out);
  // a row of kernels::LossOps; all contiguous and of one shape
  void (*loss)(int op, double p, const TensorImpl& x, const TensorImpl& target, TensorImpl& out);
  // for x, or with `right` for the target; grad is contiguous, or one value for all elements
  void (*loss_backward)(int op, bool right, double p, const TensorImpl& grad, const TensorImpl& x,
                        const TensorImpl& target, TensorImpl& out);
  // x and labels [rows, classes], contiguous; a -1 ends the labels of a row. `slope`, the derivative, may be null
  void (*multilabel_margin)(const TensorImpl& x, const TensorImpl& labels, TensorImpl& out, TensorImpl* slope);

  // connectionist temporal classification: losses [batch]; and from their gradient, contiguous, that for x, into a
  // tensor like x of any strides
  void (*ctc_loss)(const CtcTask& task, TensorImpl& losses);
  void (*ctc_loss_backward)(const CtcTask& task, const TensorImpl& grad, TensorImpl& out);
  // decoders: int64 tokens [batch, time] and lengths [batch], scores [batch] of x's type; the second with an axis of
  // paths behind the batch. -1 stands behind the last token
  void (*ctc_greedy)(const CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores);
  void (*ctc_beam_search)(const CtcDecodeTask& task, TensorImpl& tokens, TensorImpl& lengths, TensorImpl& scores);

  // rows of table [rows, width] added up: row b of out is the sum, or the mean, of weights[i] * table[indices[i]] for
  // bounds[b] <= i < bounds[b + 1], but for indices that equal `padding`. All contiguous; indices [n], in range; bounds
  // int64; weights [n] or null. Any floating type
  void (*embedding_bag)(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& bounds,
                        const TensorImpl* weights, std::int64_t padding, bool mean, TensorImpl& out);

  // dropout: all contiguous; kept, bool, has an element for each group
  void (*dropout)(const DropoutTask& task, const TensorImpl& x, TensorImpl& kept, TensorImpl& out);
  // scale * x where it was kept, else 0
  void (*keep)(const TensorImpl& kept, std::int64_t group, double scale, const TensorImpl& x, TensorImpl& out);

  void (*rnn_forward)(const RnnForward& task, TensorImpl& out);
  void (*rnn_backward)(const RnnBackward& task);
  void (*recurrent_forward)(const RecurrentTask& task, const RecurrentResults& out);
  void (*recurrent_backward)(const RecurrentTask& task, const RecurrentGradients& to);
  // two of them, of one type, that know nothing of each other: the directions of a layer
  void (*recurrent_both_forward)(const RecurrentTask& a, const RecurrentResults& out_a, const RecurrentTask& b,
                                 const RecurrentResults& out_b);
  void (*recurrent_both_backward)(const RecurrentTask& a, const RecurrentGradients& to_a, const RecurrentTask& b,
                                  const RecurrentGradients& to_b);

  // out [..., queries, values], the last axis contiguous; statistics [..., queries, 2] for the way back
  void (*attention)(const AttentionTask& task, TensorImpl& out, TensorImpl& statistics);
  void (*attention_backward)(const AttentionTask& task, const AttentionGradients& gradients);

  // one step of each parameter
  void (*optimizer_steps)(const OptimizerStep* steps, std::size_t count);
  // the same where the gradient is `values` in the rows `indices` (ascending, none twice) and zero elsewhere; with
  // `touched` only those rows change
  void (*optimizer_rows)(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                         TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                         bool touched);
};

const Backend& cpu_backend();
/// What the caller said when this thread last asked for a table: see `calling_place`.
extern constinit thread_local Where last_place;
/// How many threads record: recording.hpp.
extern constinit std::atomic<int> recordings;
/// The table of a GPU, or of the CPU while some thread records.
const Backend& other_backend_of(Device device, Where where, const char* op);
/// The table of a device. Throws DeviceError if there is none. `op`, of which a GPU's errors speak, if it is not the
/// entry's name.
inline const Backend& backend_of(Device device, Where where, const char* op = nullptr) {
  last_place = where;
  if (device.kind == DeviceKind::cpu && recordings.load(std::memory_order_relaxed) == 0) [[likely]]
    return cpu_backend();
  return other_backend_of(device, where, op);
}

void require_gpu(const char* op, Device device, Where where);
/// Throws DeviceError.
inline void require_device(const char* op, Device device, Where where) {
  if (device.kind != DeviceKind::cpu) require_gpu(op, device, where);
}
/// Null in builds without CUDA.
const Backend* cuda_backend();
int cuda_device_count() noexcept;

}  // namespace capstan::core
