// A plain recurrence that keeps nothing for its gradient but its outputs: they are its gates, line for line.
#include "cuda/backend.hpp"
#include "cuda/launch.cuh"
#include "cuda/recurrent.hpp"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace {

/// The states [batch, time, hidden] that steps begin with: h0, and then the outputs of the step before.
template <class T>
__global__ void entering_states_kernel(const T* h0, const T* outputs, std::int64_t time, std::int64_t hidden,
                                       std::int64_t lines, T* to) {
  const std::int64_t lane = threadIdx.x % kWarp;
  for (std::int64_t line = first_index() / kWarp; line < lines; line += index_step() / kWarp) {
    const std::int64_t row = line / time;
    const T* from = line == row * time ? h0 + row * hidden : outputs + (line - 1) * hidden;
    for (std::int64_t i = lane; i < hidden; i += kWarp) to[line * hidden + i] = from[i];
  }
}

core::RecurrentTask as_recurrent(const TensorImpl& x, const TensorImpl& h0, const TensorImpl& wx, const TensorImpl& wh,
                                 const TensorImpl* b, bool relu) {
  return {relu ? RecurrentKind::rnn_relu : RecurrentKind::rnn_tanh,
          false,
          x,
          h0,
          nullptr,
          wx,
          wh,
          b,
          nullptr,
          nullptr,
          nullptr};
}

}  // namespace

void rnn_forward(const RnnForward& task, TensorImpl& out) {
  const Tensor last = workspace(task.h0.numel(), out.dtype);
  recurrent_forward(as_recurrent(task.x, task.h0, task.wx, task.wh, &task.b, task.relu),
                    {nullptr, *last.impl(), nullptr, &out, nullptr, nullptr});
}

void rnn_backward(const RnnBackward& task) {
  const Tensor entering = workspace(task.h.numel(), task.h.dtype);
  core::visit_floating(task.h.dtype, [&]<class T>(core::Type<T>) {
    const std::int64_t time = task.h.shape[1], lines = task.h.shape[0] * time;
    launch(entering_states_kernel<T>, shape_for(lines * kWarp), task.h0.as<T>(), task.h.as<T>(), time, task.h.shape[2],
           lines, entering.impl()->as<T>());
  });
  recurrent_backward(as_recurrent(task.x, task.h0, task.wx, task.wh, nullptr, task.relu),
                     {task.h, entering.impl(), nullptr, task.grad, task.grad_last, nullptr, task.dx, &task.dh0, nullptr,
                      &task.dwx, &task.dwh, &task.db, nullptr, nullptr});
}

}  // namespace capstan::on_cuda
