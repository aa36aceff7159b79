// Operations on contiguous rows: softmax and the cross entropy over it.
#include <algorithm>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

/// Elements that would be worked on while a row is begun.
constexpr std::int64_t kRowCost = 32;

/// Calls `piece(kernels, columns, begin, end)` for pieces of the rows of the last axis.
template <class F>
void for_pieces_of_rows(const TensorImpl& x, F piece) {
  const std::int64_t columns = x.shape[x.rank() - 1];
  if (x.numel() == 0) return;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(x.numel() / columns, kExpensiveGrain / (columns + kRowCost) + 1,
                       [&](std::int64_t begin, std::int64_t end) { piece(simd().of<T>(), columns, begin, end); });
  });
}

/// Calls `row(kernels, i, columns, values)` for every row of the last axis.
template <class F>
void for_rows(const TensorImpl& x, F row) {
  for_pieces_of_rows(
      x, [&]<class T>(const FloatKernels<T>& k, std::int64_t columns, std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) row(k, i, columns, x.as<T>() + i * columns);
      });
}

/// Calls `use(kernels, i, columns, shift, sum, log)` for every row of the last axis: the sum of exp(x - shift) and its
/// logarithm. Those of as many rows as stay in the first-level cache are taken side by side.
template <class F>
void with_logs_of_sums(const TensorImpl& x, F use) {
  constexpr std::int64_t kMost = 64, kValues = 4096;
  for_pieces_of_rows(
      x, [&]<class T>(const FloatKernels<T>& k, std::int64_t columns, std::int64_t begin, std::int64_t end) {
        const std::int64_t together = std::clamp(kValues / columns, std::int64_t{1}, kMost);
        T shifts[kMost];
        double totals[kMost], logs[kMost];
        for (std::int64_t first = begin; first < end; first += together) {
          const std::int64_t count = std::min(together, end - first);
          for (std::int64_t i = 0; i < count; ++i)
            totals[i] = k.shifted_sum_of_exp(x.as<T>() + (first + i) * columns, shifts + i, columns);
          simd().f64.unary[kernels::kUnaryId<kernels::Log>](totals, logs, count);
          for (std::int64_t i = 0; i < count; ++i) use(k, first + i, columns, shifts[i], totals[i], logs[i]);
        }
      });
}

std::int64_t label_at(const TensorImpl& labels, std::int64_t i) {
  return labels.dtype == DType::int32 ? labels.as<std::int32_t>()[i] : labels.as<std::int64_t>()[i];
}

}  // namespace

void softmax(bool log, const TensorImpl& x, TensorImpl& out) {
  if (log)
    return with_logs_of_sums(
        x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, T shift, double, double sub) {
          k.log_softmax(x.as<T>() + i * columns, shift, sub, out.as<T>() + i * columns, columns);
        });
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    k.softmax(row, out.as<T>() + i * columns, columns);
  });
}

void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out) {
  for_rows(y, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    (log ? k.log_softmax_backward : k.softmax_backward)(grad.as<T>() + i * columns, row, out.as<T>() + i * columns,
                                                        columns);
  });
}

void logsumexp(const TensorImpl& x, TensorImpl& out) {
  with_logs_of_sums(x, [&]<class T>(const FloatKernels<T>&, std::int64_t i, std::int64_t, T shift, double, double log) {
    out.as<T>()[i] = static_cast<T>(static_cast<double>(shift) + log);
  });
}

// The logarithm of the sum is never added to the largest logit: beside a large one it would lose its digits.
void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& sums) {
  with_logs_of_sums(
      x, [&]<class T>(const FloatKernels<T>&, std::int64_t i, std::int64_t columns, T largest, double sum, double log) {
        sums.as<T>()[2 * i] = largest;
        sums.as<T>()[2 * i + 1] = static_cast<T>(sum);
        const T label = x.as<T>()[i * columns + label_at(labels, i)];
        loss.as<T>()[i] = static_cast<T>(static_cast<double>(largest) - static_cast<double>(label) + log);
      });
}

void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& sums, TensorImpl& out) {
  // of a contiguous gradient the last axis may have size 1, and then any stride
  const std::int64_t grad_step = grad.contiguous ? 1 : grad.strides[grad.rank() - 1];
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    const T scale = grad.as<T>()[i * grad_step];
    T* to = out.as<T>() + i * columns;
    if (scale == T(0)) {  // a row that does not count, whatever it holds
      for (std::int64_t j = 0; j < columns; ++j) to[j] = T(0);
      return;
    }
    const T* const shift = sums.as<T>() + 2 * i;
    k.scaled_exp(row, shift[0], scale / shift[1], to, columns);
    to[label_at(labels, i)] -= scale;
  });
}

}  // namespace capstan::on_cpu
