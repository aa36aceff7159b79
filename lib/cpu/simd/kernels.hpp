#pragma once
// The table of SIMD kernels: one instance for each instruction set, chosen when the program runs.
#include <cstdint>

#include "lib/kernels/op_list.hpp"
#include "lib/kernels/optimizer_steps.hpp"

namespace capstan::on_cpu {

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
  T *dwx, *dwh, *db;          // backward: sums over these rows, added to what is there
  T *pre, *carry;             // backward: scratch [rows, hidden] each
};

using kernels::AdamStep;
using kernels::SgdStep;

template <class T> struct FloatKernels {
  void (*unary[kernels::kUnaryCount])(const T* x, T* y, std::int64_t count);
  void (*unary_backward[kernels::kUnaryCount])(const T* grad, const T* saved, T* out, std::int64_t count);
  void (*parametric[kernels::kParametricCount])(const T* x, double p, double q, T* y, std::int64_t count);
  void (*parametric_backward[kernels::kParametricCount])(const T* grad, const T* x, double p, double q, T* out,
                                                         std::int64_t count);
  // steps are 1, or 0 for one value against all
  void (*binary[kernels::kBinaryCount])(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
                                        std::int64_t count);
  double (*sum)(const T* x, std::int64_t count);
  T (*max)(const T* x, std::int64_t count);  // count >= 1; NaN if there is one
  T (*min)(const T* x, std::int64_t count);
  void (*add_rows)(double* sums, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  // sums of x - shift and of its square, in double: of one row; added to those of each column
  void (*spread)(const T* x, T shift, std::int64_t count, double* first, double* second);
  void (*spread_rows)(const T* rows, std::int64_t row_step, std::int64_t row_count, const T* shifts, std::int64_t count,
                      double* first, double* second);
  void (*max_rows)(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  void (*min_rows)(T* best, const T* rows, std::int64_t row_step, std::int64_t row_count, std::int64_t count);
  T (*logsumexp)(const T* x, std::int64_t count);
  void (*softmax)(const T* x, T* y, std::int64_t count);
  void (*log_softmax)(const T* x, T* y, std::int64_t count);
  void (*softmax_backward)(const T* grad, const T* y, T* out, std::int64_t count);
  void (*log_softmax_backward)(const T* grad, const T* y, T* out, std::int64_t count);
  // out = scale * exp(x - shift)
  void (*scaled_exp)(const T* x, T shift, T scale, T* out, std::int64_t count);
  /// to[i * to_row + j] = from[j * from_row + i] for i and j below 16
  void (*transpose_tile)(const T* from, std::int64_t from_row, T* to, std::int64_t to_row);
  /// to [count, width] = the rows that begin at from[offsets[i]]
  /// Whether a value is NaN, or with `infinite` also whether one is infinite.
  bool (*any_bad)(const T* x, std::int64_t count, bool infinite);
  void (*copy_rows)(const T* from, const std::int64_t* offsets, std::int64_t count, T* to, std::int64_t width);
  void (*small_gemm)(const SmallGemm<T>& g);
  void (*rnn_forward)(const RnnRows<T>& r);
  void (*rnn_backward)(const RnnRows<T>& r);
  void (*adam)(T* p, const T* g, T* m, T* v, std::int64_t count, const AdamStep& step);
  void (*sgd)(T* p, const T* g, T* velocity, std::int64_t count, const SgdStep& step);
};

struct SimdKernels {
  const char* name;  // "avx512", "avx2", "baseline"
  FloatKernels<float> f32;
  FloatKernels<double> f64;
  template <class T> const FloatKernels<T>& of() const {
    if constexpr (sizeof(T) == 4) return f32;
    else return f64;
  }
};

const SimdKernels& baseline_kernels();
const SimdKernels& avx2_kernels();
const SimdKernels& avx512_kernels();
/// The best that this processor runs; CAPSTAN_SIMD=baseline|avx2|avx512 in the environment asks for less.
const SimdKernels& simd();

}  // namespace capstan::on_cpu
