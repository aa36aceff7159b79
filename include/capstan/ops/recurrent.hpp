#pragma once
// Recurrent networks as operations: a step of a cell, and a whole sequence of steps at once.
//
// A sequence gives what its steps give, to rounding, forward and backward. It multiplies the inputs of all steps at once
// and goes over the gates of a step once; where an outer tape listens its gradient is made of the steps instead, so that
// gradients of gradients exist to any order.
//
// Names   batch B, time T, inputs I, hidden H; x is [B, T, I], or [T, B, I] with `time_major`; outputs likewise [B, T, H]
// Types   one floating type for all; 16-bit types run step by step
// Device  that of x
// Cost    2 * B * T * columns * (I + rows of wh) flops for weights of so many columns; with a tape the gates, and the
//         states that steps begin with, are kept: B * T * (columns + H), H more for a gru and an lstm
// Throws  what the entries say, and BackendError for 2^31 and more steps of all rows, inputs or columns
// Rows with fewer steps than T are given by `lengths`: outputs past a row's end are 0, its last state is the one after
// its last valid step (its first valid step if `reverse`; the initial state if there is none), and what x has there is
// never read into a value or a gradient, whatever it is.
#include <cstdint>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

enum class Activation : std::uint8_t { tanh, relu };

struct SequenceOptions {
  Tensor lengths = {};   ///< [B] int32 or int64 in 0..T: valid steps of each row; undefined for all
  bool reverse = false;  ///< from each row's last valid step to its first; outputs stay at the places of their inputs
  bool time_major = false;  ///< x and the outputs are [T, B, ...] instead of [B, T, ...]
  /// The outputs' memory may be in the order [T, B, ...], whatever their axes, if that is faster to make and for a layer
  /// behind this one to read; strides tell. Values are the same.
  bool time_major_memory = false;
};

/// Weights of `rnn` and `rnn_cell`: wx [I, H], wh [H, H], b [H] or undefined for zeros.
struct RnnWeights {
  Tensor wx, wh, b = {};
};
/// Weights of `gru` and `gru_cell`, columns in blocks r, z, n: wx [I, 3*H], wh [H, 3*H], b [3*H]; bn [H], which the reset
/// gate multiplies as well, only with `reset_after`. b and bn may be undefined for zeros.
/// From PyTorch: b = bias_ih + bias_hh but for its last block, which is bias_ih's; bn is the last block of bias_hh.
struct GruWeights {
  Tensor wx, wh, b = {}, bn = {};
};
/// Weights of `lstm` and `lstm_cell`, columns in blocks i, f, g, o: wx [I, 4*H], wh [P, 4*H], b [4*H] or undefined for
/// zeros; projection [H, P], or undefined, and then P = H.
struct LstmWeights {
  Tensor wx, wh, b = {}, projection = {};
};

struct RnnResult {
  Tensor outputs;  ///< h of all steps
  Tensor last;     ///< h of each row's last step, [B, H]
};
struct LstmState {
  Tensor h;  ///< [B, P]
  Tensor c;  ///< [B, H]
};
struct LstmResult {
  Tensor outputs;  ///< h of all steps, [B, T, P]
  LstmState last;
};

/// h' = activation(x @ wx + h @ wh + b). Elman 1990.
///
/// Shapes    x [B, I]; h [B, H]; result [B, H]
/// Gradient  for all tensors
/// Throws    ShapeError, DTypeError, DeviceError
Tensor rnn_cell(const Tensor& x, const Tensor& h, const RnnWeights& weights, Activation activation = Activation::tanh,
                Where where = Where::current());
/// Its whole sequence. Throws also IndexError for lengths outside 0..T.
RnnResult rnn(const Tensor& x, const Tensor& h0, const RnnWeights& weights, Activation activation = Activation::tanh,
              const SequenceOptions& options = {}, Where where = Where::current());

/// h' = (1 - z) * n + z * h with r, z = sigmoid(x @ wx + h @ wh + b) and, of their last blocks,
///
///     n = tanh(x @ wx + b + r * (h @ wh + bn))     reset_after: cuDNN, PyTorch
///     n = tanh(x @ wx + b + (r * h) @ wh)          otherwise: Cho et al. 2014, classic TensorFlow: two products a step
///
/// Shapes    x [B, I]; h [B, H]; result [B, H]
/// Gradient  for all tensors
/// Throws    ShapeError, DTypeError, DeviceError; Error if there is a bn without reset_after
Tensor gru_cell(const Tensor& x, const Tensor& h, const GruWeights& weights, bool reset_after = true,
                Where where = Where::current());
/// Its whole sequence. Throws also IndexError for lengths outside 0..T.
RnnResult gru(const Tensor& x, const Tensor& h0, const GruWeights& weights, bool reset_after = true,
              const SequenceOptions& options = {}, Where where = Where::current());

/// i, f, g, o = x @ wx + h @ wh + b;  c' = sigmoid(f) * c + sigmoid(i) * tanh(g);  h' = sigmoid(o) * tanh(c'), and that
/// times the projection if there is one. Hochreiter and Schmidhuber 1997; Gers et al. 2000; Sak et al. 2014.
///
/// Shapes    x [B, I]; h [B, P]; c [B, H]
/// Gradient  for all tensors
/// Cost      8 * B * H * (I + P) flops
/// Throws    ShapeError, DTypeError, DeviceError
LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const LstmWeights& weights,
                    Where where = Where::current());
/// Its whole sequence. Throws also IndexError for lengths outside 0..T.
LstmResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const LstmWeights& weights,
                const SequenceOptions& options = {}, Where where = Where::current());

namespace detail {
// The cells with their weights one by one: for steps so short that copies of handles would show.
Tensor rnn_cell(const Tensor& x, const Tensor& h, const Tensor& wx, const Tensor& wh, const Tensor& b,
                Activation activation, Where where);
Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& wx, const Tensor& wh, const Tensor& b, const Tensor& bn,
                bool reset_after, Where where);
LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& wx, const Tensor& wh,
                    const Tensor& b, const Tensor& projection, Where where);
// Both directions of a layer at once: `gru` or `lstm` with these options, and the same reversed with other weights; the
// outputs side by side.
struct GruBoth {
  Tensor outputs, last, back_last;
};
struct LstmBoth {
  Tensor outputs;
  LstmState last, back_last;
};
GruBoth gru_both(const Tensor& x, const Tensor& h0, const GruWeights& weights, const Tensor& back_h0,
                 const GruWeights& back, bool reset_after, const SequenceOptions& options, Where where);
LstmBoth lstm_both(const Tensor& x, const LstmState& state, const LstmWeights& weights, const LstmState& back_state,
                   const LstmWeights& back, const SequenceOptions& options, Where where);
}  // namespace detail

}  // namespace capstan
