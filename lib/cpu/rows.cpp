// Operations on contiguous rows: softmax and the cross entropy over it.
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

/// Calls `row(kernels, i)` for every row of the last axis.
template <class F>
void for_rows(const TensorImpl& x, F row) {
  const std::int64_t columns = x.shape[x.rank() - 1];
  if (x.numel() == 0) return;
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const FloatKernels<T>& k = simd().of<T>();
    base::parallel_for(x.numel() / columns, kExpensiveGrain / columns + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) row(k, i, columns, x.as<T>() + i * columns);
    });
  });
}

std::int64_t label_at(const TensorImpl& labels, std::int64_t i) {
  return labels.dtype == DType::int32 ? labels.as<std::int32_t>()[i] : labels.as<std::int64_t>()[i];
}

}  // namespace

void softmax(bool log, const TensorImpl& x, TensorImpl& out) {
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    (log ? k.log_softmax : k.softmax)(row, out.as<T>() + i * columns, columns);
  });
}

void softmax_backward(bool log, const TensorImpl& grad, const TensorImpl& y, TensorImpl& out) {
  for_rows(y, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    (log ? k.log_softmax_backward : k.softmax_backward)(grad.as<T>() + i * columns, row, out.as<T>() + i * columns,
                                                        columns);
  });
}

void logsumexp(const TensorImpl& x, TensorImpl& out) {
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    out.as<T>()[i] = k.logsumexp(row, columns);
  });
}

void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& logsumexp) {
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    const T total = k.logsumexp(row, columns);
    logsumexp.as<T>()[i] = total;
    loss.as<T>()[i] = total - row[label_at(labels, i)];
  });
}

void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& logsumexp, TensorImpl& out) {
  const std::int64_t grad_step = grad.numel() == 1 ? 0 : grad.strides[grad.rank() - 1];
  for_rows(x, [&]<class T>(const FloatKernels<T>& k, std::int64_t i, std::int64_t columns, const T* row) {
    const T scale = grad.as<T>()[i * grad_step];
    T* to = out.as<T>() + i * columns;
    k.scaled_exp(row, logsumexp.as<T>()[i], scale, to, columns);
    to[label_at(labels, i)] -= scale;
  });
}

}  // namespace capstan::on_cpu
