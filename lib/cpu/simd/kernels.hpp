#pragma once
// The table of SIMD kernels: one instance for each instruction set, chosen when the program runs.
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <capstan/half.hpp>
#include <capstan/ops/update_rule.hpp>

#include "lib/kernels/factor.hpp"
#include "lib/kernels/op_list.hpp"
#include "lib/kernels/optimizer_steps.hpp"
#include "lib/kernels/random_task.hpp"

namespace capstan::on_cpu {

// Set before the first kernel is chosen, which may be while a program's own statics are made.
/// How far ahead of what they read sums and extremes fetch.
extern std::int64_t bytes_ahead;
/// Rows of up to so many elements are summed, and their extremes found, four at a time.
extern std::int64_t short_row;

/// c [m, n] (+)= a [m, k] * b [k, n], for products so small that packing them would cost more than it brings.
/// a may be read transposed: element (i, p) is a[i * a_row + p * a_column]. b and c have unit columns.
template <class T> struct SmallGemm {
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  std::int64_t m, n, k;
  bool accumulate;
  const T* bias = nullptr;  // what all rows of c begin with, unless it accumulates; zeros if null
  bool far = false;         // c is not in the second-level cache
};

/// Elements of both operands of a product that is made side by side with others.
inline constexpr std::int64_t kTinyProduct = 128;

/// Products c[l] = a[l] * b[l], as many as a register has lanes, or fewer; those of c stand one behind the other.
/// (m + n) * k is at most kTinyProduct.
template <class T> struct TinyProducts {
  const T *a, *b;
  const std::int64_t *a_at = nullptr, *b_at = nullptr;  // where those of each lane begin, valid in all of them
  std::int64_t a_row, a_column, b_row, b_column;
  T* c;
  std::int64_t count = 0, m, n, k;
};

/// The only value of a line that may be other than zero, its place, and the line.
template <class T> struct SingleTerm {
  std::int64_t place;
  std::int32_t line;
  T value;
};

/// A product of lines with a single term each, and rows of b.
template <class T> struct TermProduct {
  const SingleTerm<T>* terms;
  std::int64_t count;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row, width;
  bool accumulate;          // take_terms: to what is there
  bool one_by_one = false;  // give_terms: each term to what is there, instead of the sum of all that are of a place
};

/// A row of b for each row of a result, times a value.
template <class T> struct TermRows {
  const SingleTerm<T>* terms;
  std::int64_t step;  // from one row's term to the next one's
  const T* b;
  std::int64_t b_row;
};

/// c [m, n] = start + x * wx + h * wh: x [m, inputs] and h [m, units] with rows of their own, wx and wh contiguous.
template <class T> struct TwoProducts {
  TermRows<T> start;  // zeros if its terms are null
  const T* x;
  std::int64_t x_row;
  const T* wx;
  std::int64_t inputs;
  const T* h;
  std::int64_t h_row;
  const T* wh;
  std::int64_t units;
  T* c;
  std::int64_t c_row, m, n;
};

/// The pieces of a recurrent sequence that one thread works on: rows of the batch, all steps.
template <class T> struct RnnRows {
  std::int64_t rows, time, inputs, hidden;
  bool relu;                  // else tanh
  const T *x, *h0, *h;        // x [rows, time, inputs], h0 [rows, hidden], h [rows, time, hidden]: contiguous
  const T *wx, *wh, *b;       // forward
  T* out;                     // forward: h
  const T *grad, *grad_last;  // backward: of h and of its last step [rows, hidden]; either may be null
  const T *wx_t, *wh_t;       // backward: transposed weights
  T *dx, *dh0;                // backward: of x, null if not needed; of h0
  T *sums, *totals;           // backward: of wx, wh and b, one behind the other; both begin with zeros
  T *pre, *carry;             // backward: scratch [rows, hidden] each
};

/// Where the rows of one step of a recurrent sequence leave a state: the first `carry` of them in `next`, for the step
/// that follows, the others in `last`, at the caller's places.
template <class T> struct StateRows {
  T *next, *last;
  std::int64_t carry;
};
/// The gates of some rows of one step, from products to states. Units [begin, end) of `hidden`.
template <class T> struct GateRows {
  std::int64_t rows, hidden, begin, end;
  T* gates;            // rows of `blocks` blocks of `hidden`: products before, activated behind
  const T *bias, *bn;  // null only for lstm_step
  const T *h, *c;      // what the step began with, contiguous rows
  StateRows<T> to_h, to_c;
  const std::int64_t* order;  // the caller's places of these rows; null for their own
  T* out;                     // the caller's outputs at this step, or null
  std::int64_t out_row;
};
/// What a small step multiplies beside h.
template <class T> struct SmallStep {
  const T *x, *wx, *wh;
  std::int64_t inputs;
};
/// And back. `gates` and `c` are as the forward pass left them.
template <class T> struct GateGradients {
  std::int64_t rows, hidden, begin, end;
  const T *gates, *h, *c;
  const T* dh;   // of h from later steps, contiguous rows
  const T* out;  // of the caller's outputs
  std::int64_t out_row;
  const std::int64_t* order;
  T *dc, *pre;     // of c, in place; before the activations, rows as `gates` has them
  T* dh_before;    // gru: the part of h's gradient that takes no product; may be dh
  T* unprojected;  // lstm: o * tanh(c'), or null
};

/// Where sums start: at the bias, or 0 without one; at what c holds; at 0, to be added to c in the end, so that long
/// sums are made of short ones.
enum class SumStart : std::uint8_t { anew, onward, apart };

/// c [row_count, columns] = sum over k of x[rows[i] + steps[k]] * w[k], with `columns` registers of columns. w and c are
/// contiguous; `bias`, a row or null, is for sums that start anew.
template <class T> struct OffsetGemm {
  const T* x;
  const std::int32_t* rows;
  std::int64_t row_count;
  const std::int32_t* steps;
  std::int64_t count;
  const T *w, *bias;
  T* c;
  int columns;  // 1 to panel / lanes
  SumStart start;
};
/// out[row][i] = start + sum over k of w[k] * x[row][i + steps[k]]. Reads x up to four registers beyond a row's end.
template <class T> struct Slide {
  const T* x;
  std::int64_t x_row;
  const std::int32_t* steps;
  const T* w;
  std::int64_t count;
  T* out;
  std::int64_t out_row, rows, length;
  T start;
};
/// sums[k] += sum over rows and i of grad[row][i] * x[row][i + steps[k]].
template <class T> struct Overlap {
  const T* x;
  std::int64_t x_row;
  const T* grad;
  std::int64_t grad_row, rows, length;
  const std::int32_t* steps;
  std::int64_t count;
  double* sums;
};

/// A plane, and a window of 3 or 5 rows and as many columns that moves over it one place at a time. For result (0, 0) it
/// begins at (first_row, first_column), which may be negative. Beyond the plane are zeros.
template <class T> struct Plane {
  const T* x;
  std::int64_t rows, columns, first_row, first_column;
  int kernel;
};
/// Rows begin to end - 1 of a plane of results: start + sum over i and k of w[i * kernel + k] * window[i][k].
template <class T> struct SlidePlane {
  Plane<T> in;
  const T* w;
  T start;
  T* out;
  std::int64_t begin, end, columns;
};
/// sums[i * kernel + k] += sum over all results of grad * window[i][k].
template <class T> struct OverlapPlane {
  Plane<T> in;
  const T* grad;
  std::int64_t rows, columns;  // of grad; columns up to kOverlapColumns
  double* sums;
};
inline constexpr std::int64_t kOverlapColumns = 512;  // of longer rows, sums in one lane would lose digits

/// A row of windows that lie within their input: number i has the elements rows[r][first + i * stride + k * step] for
/// all k below `kernel`, and codes[r] + k is what they are called.
template <class T> struct PoolRow {
  const T* const* rows;
  const std::int32_t* codes;
  std::int64_t row_count, first, kernel, stride, step;  // stride 1 or 2
  std::int64_t count;                                   // of windows
};

/// Rows of 2 by 2 windows side by side in one plane. An element's code is 2 * its row + its column.
template <class T> struct PoolPairs {
  const T* x;
  std::int64_t x_row;
  T* out;
  std::uint8_t* codes;         // of those that win, or null
  std::int64_t rows, columns;  // of results
};

/// Rows that are normalized one by one: (x - mean) / sqrt(variance + epsilon) * weight + bias, all contiguous.
template <class T> struct NormRows {
  std::int64_t rows, count;    // count >= 1
  const T *x, *weight, *bias;  // the latter two [count], or null
  double epsilon;
  T *out, *mean, *inverse;  // mean [rows], null for distances from 0 instead of from it; inverse [rows]: of the root
};
/// Gradients of `count` columns of such rows, which are `step` values long. totals [rows, 3]: over whole rows the sums of
/// grad*weight, of that times x - mean, and of x - mean.
template <class T> struct NormGradients {
  std::int64_t rows, count, step;
  const T *grad, *x, *weight, *mean, *inverse;
  double* totals;
  T *dx, *dweight, *dbias;  // dx null if not needed; the others are added to, both null if not needed
};
/// Numbers of channels: out = by_grad * grad + by_x * (x - shift) + offset.
template <class T> struct ChannelRule { const T *shift, *by_grad, *by_x, *offset; };

/// kept[i]: whether number i of a stream of 32-bit random numbers is below the threshold, from a whole block on.
struct Decisions {
  std::uint64_t seed, stream, block;
  std::uint32_t threshold;
  bool* kept;
  std::int64_t count;
};

/// Products of some queries of one head with its keys, and what makes weights of them. Row i sees the first
/// first + i + 1 of `count` keys at most.
template <class T> struct AttentionRows {
  T* scores;  // [rows, count], `row` apart: products, in whose place the weights come
  std::int64_t row, rows, count, first;
  T scale;
  const T* bias;  // added at [i * bias_row + j * bias_column]; null for none. -infinity: not seen
  std::int64_t bias_row, bias_column;
  const bool* allowed;  // false: not seen; null if all are
  std::int64_t allowed_row, allowed_column;
  T* line;        // scratch [count]
  T* statistics;  // [rows, 2]: a weight is exp(score - the first) times the second
  // backward: from the weights' gradients, laid out like the scores, to those of the products
  T* grads;
  const T *out, *out_grad;  // [rows, width]
  std::int64_t out_row, out_grad_row, width;
};

/// One step of an optimizer for each rule, of which `states` has as many as it takes.
template <class T> struct StepTable {
  void (*rule[kernels::kStepCount])(T* p, const T* g, T* const* states, std::int64_t count,
                                    const UpdateNumbers& numbers);
};

inline constexpr int kMostRegisterBytes = 64, kMostPanel = 64;  // no set of instructions has wider registers or panels
template <class T> struct FloatKernels {
  void (*unary[kernels::kUnaryCount])(const T* x, T* y, std::int64_t count);
  void (*unary_backward[kernels::kUnaryCount])(const T* grad, const T* saved, T* out, std::int64_t count);
  void (*parametric[kernels::kParametricCount])(const T* x, double p, double q, T* y, std::int64_t count);
  void (*parametric_backward[kernels::kParametricCount])(const T* grad, const T* x, double p, double q, T* out,
                                                         std::int64_t count);
  // steps are 1, or 0 for one value against all
  void (*binary[kernels::kBinaryCount])(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
                                        std::int64_t count);
  void (*loss[kernels::kLossCount])(const T* x, const T* target, double p, T* y, std::int64_t count);
  // for x and for the target; count >= 1, the step of the gradient is 0 or 1
  void (*loss_left[kernels::kLossCount])(const T* grad, std::int64_t grad_step, const T* x, const T* target, double p,
                                         T* out, std::int64_t count);
  void (*loss_right[kernels::kLossCount])(const T* grad, std::int64_t grad_step, const T* x, const T* target, double p,
                                          T* out, std::int64_t count);
  double (*sum)(const T* x, std::int64_t count);
  void (*sum_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* sums);
  T (*max)(const T* x, std::int64_t count);  // count >= 1; NaN if there is one
  T (*min)(const T* x, std::int64_t count);
  // the largest or smallest of each row; the place of the first such, or of the first NaN
  void (*extremes_of_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count,
                           bool smallest, T* found);
  void (*places_of_extremes)(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count,
                             bool smallest, std::int64_t* places);
  kernels::Factor (*product)(const T* x, std::int64_t count);
  void (*products_of_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count,
                           T* products);
  void (*add_rows)(double* sums, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  double (*sum_of_squares)(const T* x, std::int64_t count);
  void (*add_squares)(double* sums, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  void (*norms_of_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count, T* norms);
  // sums of x - shift and of its square, in double: of one row; added to those of each column
  void (*spread)(const T* x, T shift, std::int64_t count, double* first, double* second);
  void (*spread_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, const T* shifts, std::int64_t count,
                      double* first, double* second);
  void (*max_rows)(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  void (*min_rows)(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  // the sum of exp(x - shift); the shift is the largest, or 0 if that is not finite
  double (*shifted_sum_of_exp)(const T* x, T* shift, std::int64_t count);
  void (*softmax)(const T* x, T* y, std::int64_t count);
  // of the logarithm of that sum
  void (*log_softmax)(const T* x, T shift, double log, T* y, std::int64_t count);
  void (*softmax_backward)(const T* grad, const T* y, T* out, std::int64_t count);
  void (*log_softmax_backward)(const T* grad, const T* y, T* out, std::int64_t count);
  // out = scale * exp(x - shift)
  void (*scaled_exp)(const T* x, T shift, T scale, T* out, std::int64_t count);
  /// to[i * to_row + j] = from[j * from_row + i] for i and j below 16
  void (*transpose_tile)(const T* from, std::int64_t from_row, T* to, std::int64_t to_row);
  /// Whether a value is NaN, or with `infinite` also whether one is infinite.
  bool (*any_bad)(const T* x, std::int64_t count, bool infinite);
  /// to [count, width] = the rows that begin at from[offsets[i]]
  void (*copy_rows)(const T* from, const std::int64_t* offsets, std::int64_t count, T* to, std::int64_t width);
  void (*small_gemm)(const SmallGemm<T>& g);
  // the same for few columns; those of the right operand are rows of b, and rows of a are contiguous
  void (*dot_columns)(const SmallGemm<T>& g);
  void (*tiny_products)(const TinyProducts<T>& p);
  // Whether at most one value of each line, [count, width] and `step` apart, is other than zero; then their terms, if
  // `terms` is not null
  bool (*single_terms)(const T* lines, std::int64_t step, std::int64_t count, std::int64_t width, SingleTerm<T>* terms);
  // row `line` of c = or += value * row `place` of b
  void (*take_terms)(const TermProduct<T>& p);
  // row `place` of c += value * row `line` of b; terms of a place follow one another
  void (*give_terms)(const TermProduct<T>& p);
  std::int64_t lanes, panel;  // of a register; of the most columns that `offset_gemm` takes
  void (*offset_gemm)(const OffsetGemm<T>& g);
  // convolve.hpp; lines, weights, results and gradients of tiles of m columns, 2 or 4, and their 6 products
  void (*filter_input)(const T* line, std::int64_t tiles, int m, T* to, std::int64_t pitch);
  void (*filter_weights)(const T* weights, const std::int64_t* taps, int count, const double (*shares)[5],
                         std::int64_t width, T* to, std::int64_t plane);
  void (*total_weights)(const T* sums, int products, std::int64_t product_step, std::int64_t share_count,
                        std::int64_t share_step, int columns, const double (*shares)[5], std::int64_t width, T* to);
  void (*filter_output)(const T* products, std::int64_t plane, std::int64_t tiles, int m, std::int64_t width,
                        const T* bias, T* out);
  void (*filter_gradient)(const T* grad, std::int64_t tiles, int m, std::int64_t width, T* to, std::int64_t plane);
  void (*slide)(const Slide<T>& s);
  void (*overlap)(const Overlap<T>& o);
  void (*slide_plane)(const SlidePlane<T>& s);
  void (*overlap_plane)(const OverlapPlane<T>& o);
  // the first largest element of each window, a NaN before all; and its code, if `codes` is not null
  void (*max_pool_row)(const PoolRow<T>& r, T* out, std::uint8_t* codes);
  void (*max_pool_pairs)(const PoolPairs<T>& p);
  void (*avg_pool_row)(const PoolRow<T>& r, T divisor, T* out);  // sums divided by that
  // normalization. Sums and totals are those of NormGradients, without a weight
  void (*norm_rows)(const NormRows<T>& r);
  void (*norm_totals)(const NormGradients<T>& g);     // of whole rows: writes totals
  void (*norm_gradients)(const NormGradients<T>& g);  // reads them; of whole rows makes them itself if they are null
  // of planes that are `step` apart: about their mean, and the sums of the distances from it and of their squares
  void (*plane_moments)(const T* x, std::int64_t planes, std::int64_t step, std::int64_t count, T* shift, double* first,
                        double* second);
  void (*plane_products)(const T* grad, const T* x, T shift, std::int64_t planes, std::int64_t step, std::int64_t count,
                         double* totals);
  // contiguous planes, a channel each; grad may be null, and by_grad then too
  void (*plane_rule)(const ChannelRule<T>& rule, const T* grad, const T* x, std::int64_t planes, std::int64_t count,
                     T* out);
  // rows of channels; sums are added to
  void (*column_distances)(const T* rows, std::int64_t row_step, std::int64_t row_count, const T* shifts,
                           std::int64_t count, double* first, double* second);
  void (*column_products)(const T* grad, const T* x, std::int64_t row_step, std::int64_t row_count, const T* shifts,
                          std::int64_t count, double* totals, std::int64_t totals_step);
  void (*column_rule)(const ChannelRule<T>& rule, const T* grad, const T* x, std::int64_t rows, std::int64_t count,
                      T* out);
  // y = scale * x + shift where it is kept, else dropped
  void (*keep)(const T* x, const bool* kept, T scale, T shift, T dropped, T* y, std::int64_t count);
  void (*rnn_forward)(const RnnRows<T>& r);
  void (*rnn_backward)(const RnnRows<T>& r);
  // recurrent.hpp
  void (*two_products)(const TwoProducts<T>& g);
  void (*tanh_gates)(const GateRows<T>& g);
  void (*relu_gates)(const GateRows<T>& g);
  void (*gru_gates)(const GateRows<T>& g);
  void (*gru_resets)(const GateRows<T>& g);  // with the reset gate before the product, in two passes
  void (*gru_states)(const GateRows<T>& g);
  void (*lstm_gates)(const GateRows<T>& g);
  void (*lstm_step)(const GateRows<T>& g, const SmallStep<T>& s);
  void (*tanh_gradients)(const GateGradients<T>& g);
  void (*relu_gradients)(const GateGradients<T>& g);
  void (*gru_gradients)(const GateGradients<T>& g);
  void (*gru_state_gradients)(const GateGradients<T>& g);
  void (*gru_reset_gradients)(const GateGradients<T>& g);
  void (*lstm_gradients)(const GateGradients<T>& g);
  void (*attention_weights)(const AttentionRows<T>& a);  // not yet times the statistics' second number, which it writes
  void (*attention_backward)(const AttentionRows<T>& a);
  StepTable<T> steps;
  // lamb behind its step: adds the squares of p and of its direction to two sums; moves p by `rate`
  void (*lamb_norms)(const T* p, const T* mean, const T* square, std::int64_t count, const UpdateNumbers& numbers,
                     double* squares);
  void (*lamb_move)(T* p, const T* mean, const T* square, std::int64_t count, const UpdateNumbers& numbers);
};

/// A 16-bit floating type from and to float32, rounded once.
template <class H> struct HalfKernels {
  void (*widen)(const H* from, float* to, std::int64_t count);
  void (*round)(const float* from, H* to, std::int64_t count);
};

/// The largest and the smallest of integers; count >= 1.
template <class T> struct IntegerKernels {
  T (*max)(const T* x, std::int64_t count);
  T (*min)(const T* x, std::int64_t count);
};
using AllIntegerKernels =
    std::tuple<IntegerKernels<std::int8_t>, IntegerKernels<std::int16_t>, IntegerKernels<std::int32_t>,
               IntegerKernels<std::int64_t>, IntegerKernels<std::uint8_t>>;

/// What becomes of blocks of a stream of random numbers that follow each other.
struct RandomKernels {
  void (*decide)(const Decisions& d);
  // block 0 of them at words[0..3], and so on
  void (*words)(std::uint64_t seed, std::uint64_t stream, std::uint64_t block, std::int64_t blocks,
                std::uint32_t* words);
  // two a block: as kernels::draw_pair has them, before they are rounded to a type
  void (*numbers)(const kernels::RandomTask& task, std::uint64_t block, std::int64_t blocks, double* numbers);
};

struct SimdKernels {
  const char* name;  // "avx512", "avx2", "baseline"
  FloatKernels<float> f32;
  FloatKernels<double> f64;
  HalfKernels<float16> f16;
  HalfKernels<bfloat16> bf16;
  AllIntegerKernels integers;
  RandomKernels random;
  template <class T> const FloatKernels<T>& of() const {
    if constexpr (sizeof(T) == 4) return f32;
    else return f64;
  }
  template <class H> const HalfKernels<H>& of_half() const {
    if constexpr (std::is_same_v<H, float16>) return f16;
    else return bf16;
  }
  template <class T> const IntegerKernels<T>& of_integer() const { return std::get<IntegerKernels<T>>(integers); }
};

const SimdKernels& baseline_kernels();
const SimdKernels& avx2_kernels();
const SimdKernels& avx512_kernels();
/// The best that this processor runs; CAPSTAN_SIMD=baseline|avx2 in the environment asks for less. avx512 and amx are
/// about tiles, see tiles.hpp.
const SimdKernels& simd();

}  // namespace capstan::on_cpu
