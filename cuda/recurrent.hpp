#pragma once
// What both directions of a recurrent sequence share: products, and moving lines, states and sums of columns. All for
// float and double.
#include <algorithm>

#include "cuda/context.hpp"
#include "cuda/gemm.hpp"
#include "cuda/recurrent_plan.hpp"

namespace capstan::on_cuda {

/// Elements on the device for the time of the call; data() is null for none.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::int64_t count) : own_(count > 0 ? workspace(count, dtype_of<T>()) : Tensor()) {}
  T* data() const { return own_.defined() ? own_.impl()->as<T>() : nullptr; }
  const Tensor& tensor() const { return own_; }

 private:
  Tensor own_;
};

template <class T>
T* data_of(const TensorImpl* x) {
  return x == nullptr ? nullptr : x->as<T>();
}

/// A matrix whose rows are `row` elements apart.
template <class T>
struct RowMatrix {
  const T* data;
  std::int64_t row;
  bool transposed = false;  // stored so
};

/// c [m, n] (+)= a [m, k] b [k, n]
template <class T>
void product(const RowMatrix<T>& a, const RowMatrix<T>& b, T* c, std::int64_t c_row, std::int64_t m, std::int64_t n,
             std::int64_t k, bool accumulate = false) {
  const auto step = [](std::int64_t row) { return std::max<std::int64_t>(row, 1); };
  gemm_strided_batched(dtype_of<T>(), a.transposed, b.transposed, m, n, k, a.data, step(a.row), 0, b.data, step(b.row),
                       0, c, step(c_row), 0, 1, accumulate);
}

/// Lines of x [batch, time, width]; and back, with zeros for the steps that rows have not. `from` null: only the zeros.
template <class T>
void gather_lines(const LineView& lines, const TensorImpl& x, T* to);
template <class T>
void scatter_lines(const LineView& lines, const T* from, const TensorImpl& x);

/// Initial states [batch, width] go to the lines with which rows begin, or with `lined` off to both halves of
/// [2, batch, width], rows in the order of the lines. Those of rows without steps are their last ones.
template <class T>
void enter_states(const LineView& lines, const T* initial, std::int64_t width, bool lined, T* to, T* last);
/// [batch, width] from the caller's order into that of the lines, or back. `from` null: zeros.
template <class T>
void order_rows(const LineView& lines, const T* from, std::int64_t width, bool back, T* to);

/// The sums of the columns of gradients before the activations, in double: of the biases, either of which may be null.
template <class T>
void sum_biases(RecurrentKind kind, const T* sums, std::int64_t lines, std::int64_t hidden, T* b, T* bn);

}  // namespace capstan::on_cuda
