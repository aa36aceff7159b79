#pragma once
// Operations that networks are made of: dropout, losses, a whole recurrent sequence at once.
#include <cstdint>
#include <utility>

#include <capstan/random.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Keeps each element with probability `keep`, divided by `keep`, and zeroes the rest (inverted dropout; Srivastava et
/// al. 2014). Floating types; 0 < keep <= 1 (Error).
Tensor dropout(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());

/// -log softmax(logits)[label] for each row.
///
/// Shapes    logits [..., classes], labels [...] int32 or int64 in [0, classes); result [...]
/// Gradient  for logits: g * (softmax(logits) - one_hot(labels))
/// Throws    ShapeError  shapes do not fit     IndexError  a label out of range     DTypeError
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where = Where::current());

/// -sum(labels * log_softmax(logits)) for each row; labels of the logits' shape, usually summing to 1.
/// Gradient for logits and labels.
Tensor softmax_cross_entropy(const Tensor& logits, const Tensor& labels, Where where = Where::current());

/// mean((prediction - target)^2) over all elements; shapes must be equal (ShapeError), no broadcasting.
Tensor mse(const Tensor& prediction, const Tensor& target, Where where = Where::current());

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
