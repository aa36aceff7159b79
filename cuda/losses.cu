// Losses of each element by itself.
#include "cuda/losses.cuh"

#include "cuda/backend.hpp"

namespace capstan::on_cuda {

void loss(int op, double p, const TensorImpl& x, const TensorImpl& target, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    loss_row<T>(op).run(static_cast<Compute<T>>(p), {&out, &x, &target});
  });
}

void loss_backward(int op, bool right, double p, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& target,
                   TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    loss_gradient_row<T>(op, right).run(static_cast<Compute<T>>(p), {&out, &grad, &x, &target});
  });
}

}  // namespace capstan::on_cuda
