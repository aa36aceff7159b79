// Elementwise operations: each row's kernel by type. Integers wrap around, as on the CPU.
#include "cuda/backend.hpp"
#include "cuda/elementwise_rows.cuh"

namespace capstan::on_cuda {
namespace {

/// x, or where it is to be read across its rows, its elements in `out`: tiles are faster at that.
const TensorImpl& in_order(const TensorImpl& x, TensorImpl& out) {
  if (x.contiguous || transposed_axis(Walk<2>(out.shape, {&out, &x})) < 0) return x;
  copy(x, out);
  return out;
}

template <class T>
TwoNumbers<T> two_numbers(double p, double q) {
  return {static_cast<Compute<T>>(p), static_cast<Compute<T>>(q)};
}

}  // namespace

void unary(int op, const TensorImpl& x, TensorImpl& out) {
  const TensorImpl& from = in_order(x, out);
  core::visit_numbers(out.dtype, [&]<class T>(core::Type<T>) { unary_row<T>(op).run({}, {&out, &from}); });
}

void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    unary_backward_row<T>(op).run({}, {&out, &grad, &saved});
  });
}

void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  core::visit_numbers(out.dtype, [&]<class T>(core::Type<T>) { binary_row<T>(op).run({}, {&out, &a, &b}); });
}

void parametric(int op, double p, double q, const TensorImpl& x, TensorImpl& out) {
  const TensorImpl& from = in_order(x, out);
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    parametric_row<T>(op).run(two_numbers<T>(p, q), {&out, &from});
  });
}

void parametric_backward(int op, double p, double q, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    parametric_backward_row<T>(op).run(two_numbers<T>(p, q), {&out, &grad, &x});
  });
}

void accumulate(TensorImpl& a, const TensorImpl& b) {
  core::visit_real(a.dtype, [&]<class T>(core::Type<T>) {
    binary_row<T>(kernels::kBinaryId<kernels::Add>).run({}, {&a, &a, &b});
  });
}

}  // namespace capstan::on_cuda
