#pragma once
// Operations that networks are made of: a whole recurrent sequence at once.
#include <cstdint>
#include <utility>

#include <capstan/ops/dropout.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

enum class Activation : std::uint8_t { tanh, relu };

struct RnnResult {
  Tensor outputs;  ///< h of all steps, [batch, time, hidden]
  Tensor last;     ///< h of the last step, [batch, hidden]; may share the memory of `outputs`
};

/// A whole recurrent sequence in one operation: h[t] = activation(x[t] @ wx + h[t-1] @ wh + b).
///
/// Shapes    x [batch, time, inputs]; h0 [batch, hidden]; wx [inputs, hidden]; wh [hidden, hidden]; b [hidden]
/// Types     float32 or float64, one for all
/// Gradient  for all five; keeps x, h0, the weights and the result. The step-by-step operations give the same to rounding.
/// Cost      2*batch*time*hidden*(inputs+hidden) flops
/// Throws    ShapeError, DTypeError, DeviceError
RnnResult rnn(const Tensor& x, const Tensor& h0, const Tensor& wx, const Tensor& wh, const Tensor& b,
              Activation activation, Where where = Where::current());

}  // namespace capstan
