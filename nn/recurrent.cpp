#include <capstan/nn/recurrent.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/linalg.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {

RnnCell::RnnCell(std::int64_t inputs, std::int64_t hidden, const RnnCellOptions& options, Rng& rng, Where where)
    : activation_(options.activation) {
  if (inputs < 1 || hidden < 1)
    base::fail<ShapeError>(where, "RnnCell: ", inputs, " inputs and ", hidden,
                           " units were asked for; both must be >= 1.");
  const TensorOptions type{options.dtype, cpu()};
  wx = Parameter(options.input_init(Shape({inputs, hidden}), rng, type, where), where);
  wh = Parameter(options.recurrent_init(Shape({hidden, hidden}), rng, type, where), where);
  b = Parameter(options.bias_init(Shape({hidden}), rng, type, where), where);
}

std::pair<Tensor, RnnCell::State> RnnCell::operator()(const Tensor& x, const State& before, Where where) const {
  const Tensor pre = add(linear(x, wx, b, where), matmul(before.h, wh, where), where);
  const Tensor h = activation_ == Activation::relu ? relu(pre, where) : tanh(pre, where);
  return {h, State{h}};
}

std::pair<Tensor, RnnCell::State> RnnCell::sequence(const Tensor& x, const State& before, Where where) const {
  RnnResult result = rnn(x, before.h, wx, wh, b, activation_, where);
  return {std::move(result.outputs), State{std::move(result.last)}};
}

RnnCell::State RnnCell::zero_state(std::int64_t batch, Where where) const {
  return State{zeros(Shape({batch, wh.size(0)}, where), {wh.dtype(), wh.device()}, where)};
}

namespace detail {

Tensor still_running(const Tensor& lengths, std::int64_t step, int rank, Where where) {
  Tensor running = greater(lengths, step, where);
  while (running.rank() < rank) running = expand_dims(running, -1, where);
  return running;
}

void check_unroll(const Tensor& x, const Tensor& lengths, bool time_major, Where where) {
  if (!x.defined()) base::fail<Error>(where, "unroll: the tensor is undefined; give it a value first.");
  if (x.rank() < 2 || x.size(time_major ? 0 : 1) < 1)
    base::fail<ShapeError>(where, "unroll: the input is ", x.shape(), "; it must be ",
                           time_major ? "[time, batch, ...]" : "[batch, time, ...]", " with one step or more.");
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::int32 && lengths.dtype() != DType::int64)
    base::fail<DTypeError>(where, "unroll: the lengths are ", lengths.dtype(), "; they must be int32 or int64.");
  const std::int64_t batch = x.size(time_major ? 1 : 0);
  if (lengths.rank() != 1 || lengths.size(0) != batch)
    base::fail<ShapeError>(where, "unroll: the lengths are ", lengths.shape(), "; with an input of ", x.shape(),
                           " they must be [", batch, "].");
}

}  // namespace detail

}  // namespace capstan::nn
