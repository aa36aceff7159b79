#pragma once
// Recurrent cells: what one step of a sequence does. `unroll` runs them, wrappers and decoders are made of them.
//
// Names   batch B, time T, inputs I, hidden H; a step takes x [B, I] and a state [B, ...] and gives its output and the
//         next state; `sequence` takes x [B, T, I], or [T, B, I], and does all steps at once, as SequenceOptions say
// Types   one floating type for all
// Start   `zero_state`, or a state of one's own: a plain struct of tensors
// Throws  ShapeError  sizes below 1 at construction; x with another number of inputs, states of another batch or size
//         DTypeError  a type that is not floating, or that differs from the weights'     DeviceError
//         Error       an undefined tensor, an option out of its range                    IndexError  lengths
//
// Weights are [inputs, units], gates side by side in blocks of H columns. They start Glorot-uniform; in PyTorch all of
// them, biases too, start as init::uniform(-k, k) with k = 1 / sqrt(hidden).
// Defined in nn/cells.cpp; the operations are in ops/recurrent.hpp.
#include <cstdint>
#include <utility>

#include <capstan/nn/fields.hpp>
#include <capstan/nn/init.hpp>
#include <capstan/ops/recurrent.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct RnnCellOptions {
  Activation activation = Activation::tanh;
  bool use_bias = true;
  Initializer input_init = init::glorot_uniform();      ///< of wx
  Initializer recurrent_init = init::glorot_uniform();  ///< of wh
  Initializer bias_init = init::zeros();
  DType dtype = DType::float32;
};

/// h' = activation(x @ wx + h @ wh + b); the output is h' too. Elman 1990.
///
/// Shapes      h [B, H]; wx [I, H]; wh [H, H]; b [H]
/// PyTorch     wx and wh are weight_ih and weight_hh transposed, b = bias_ih + bias_hh
/// TensorFlow  BasicRNNCell: the first I rows of the kernel are wx, the others wh
class RnnCell {
 public:
  struct State {
    Tensor h;
  };
  RnnCell(std::int64_t inputs, std::int64_t hidden, const RnnCellOptions& options = {}, Rng& rng = default_rng(),
          Where where = Where::current());

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) const;
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  std::int64_t inputs() const { return wx.size(0); }
  std::int64_t outputs() const { return wh.size(0); }

  Parameter wx, wh, b;  ///< `b` is undefined if switched off
  CAPSTAN_FIELDS(wx, wh, b);

 private:
  Activation activation_;
};

struct GruCellOptions {
  bool reset_after = true;  ///< the reset gate acts behind the product with wh: cuDNN, PyTorch. Otherwise before it
  bool use_bias = true;
  double gate_bias = 0;                             ///< how much higher the r and z blocks of b start; 1 in TensorFlow
  Initializer input_init = init::glorot_uniform();  ///< of wx
  Initializer recurrent_init = init::glorot_uniform();  ///< of wh
  Initializer bias_init = init::zeros();                ///< of b and bn
  DType dtype = DType::float32;
};

/// Gated recurrent unit: h' = (1 - z) * n + z * h with the gates r and z = sigmoid(x @ wx + h @ wh + b) and
///
///     n = tanh(x @ wx + b + r * (h @ wh + bn))     reset_after
///     n = tanh(x @ wx + b + (r * h) @ wh)          otherwise
///
/// The output is h' too. Cho et al. 2014.
///
/// Shapes      h [B, H]; in blocks r, z, n: wx [I, 3*H], wh [H, 3*H], b [3*H]; bn [H], of reset_after alone
/// PyTorch     reset_after. wx and wh are weight_ih and weight_hh transposed; b = bias_ih + bias_hh but for its last
///             block, which is bias_ih's; bn is the last block of bias_hh
/// TensorFlow  GRUCell: not reset_after; z is its u, with the same sign. The columns of wx are those of the first I
///             rows of gates/kernel, then those of candidate/kernel; of wh likewise those of the other rows. b is
///             gates/bias, then candidate/bias. Its gates start with a bias of 1: gate_bias
class GruCell {
 public:
  struct State {
    Tensor h;
  };
  GruCell(std::int64_t inputs, std::int64_t hidden, const GruCellOptions& options = {}, Rng& rng = default_rng(),
          Where where = Where::current());

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) const;
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  std::int64_t inputs() const { return wx.size(0); }
  std::int64_t outputs() const { return wh.size(0); }

  Parameter wx, wh, b, bn;  ///< `b` and `bn` are undefined if switched off
  CAPSTAN_FIELDS(wx, wh, b, bn);

 private:
  bool reset_after_;
};

struct LstmCellOptions {
  double forget_bias = 1;       ///< how much higher the forget block of b starts (with layer_norm: of gate_shift)
  bool use_bias = true;         ///< none with layer_norm, whose shifts take its place
  bool peepholes = false;       ///< gates see the cell
  double cell_clip = 0;         ///< c' is kept within +-cell_clip; 0 for no limit
  std::int64_t projection = 0;  ///< units of the output and of the state h; 0 for H, without a projection
  double projection_clip = 0;   ///< what is projected is kept within +-projection_clip; 0 for no limit
  bool coupled_gates = false;   ///< the input gate is 1 less the forget gate, and has no weights
  bool layer_norm = false;      ///< gates and cell are normalized
  double norm_epsilon = 1e-5;   ///< 1e-12 in TensorFlow
  double norm_gain = 1;         ///< where gains start
  double norm_shift = 0;        ///< where shifts start
  Activation activation = Activation::tanh;             ///< of the new input g and of the output
  Initializer input_init = init::glorot_uniform();      ///< of wx
  Initializer recurrent_init = init::glorot_uniform();  ///< of wh
  Initializer bias_init = init::zeros();                ///< of b
  Initializer peephole_init = init::glorot_uniform();   ///< of each diagonal
  Initializer projection_init = init::glorot_uniform();
  DType dtype = DType::float32;
};

/// Long short-term memory. With i, f, g, o = x @ wx + h @ wh + b, the output h' and its parts are
///
///     c' = sigmoid(f) * c + sigmoid(i) * tanh(g)
///     h' = sigmoid(o) * tanh(c')                     times `projection`, if there is one
///
/// Hochreiter and Schmidhuber 1997; Gers et al. 2000; projection: Sak et al. 2014. Options go together at will. What
/// they change, in the order of the computation:
///
///   layer_norm       each of i, f, g, o is normalized over its H units, then times gate_gain plus gate_shift
///   peepholes        i + peephole_i * c in the place of i, f + peephole_f * c of f (Gers and Schmidhuber 2000)
///   coupled_gates    1 - sigmoid(f) in the place of sigmoid(i) (Greff et al. 2017); the blocks are f, g, o
///   activation       relu in the place of both tanh
///   layer_norm       c' is normalized, then times cell_gain plus cell_shift, and it is this that the next step gets:
///                    TensorFlow's way (Ba et al. 2016 normalize it for h' alone)
///   cell_clip        c' is limited
///   peepholes        o + peephole_o * c' in the place of o
///   projection_clip  what was projected is limited
///
/// Shapes      h [B, P] with P = projection, or H; c [B, H]; in blocks i, f, g, o: wx [I, 4*H], wh [P, 4*H], b,
///             gate_gain and gate_shift [4*H] (3*H if coupled); peepholes, cell_gain and cell_shift [H];
///             projection [H, P]
/// Cost        without any of these options, but for a projection, a step is one operation, and so is a sequence:
///             `has_sequence`. Otherwise a step is made of others, and a sequence is its steps
/// PyTorch     wx, wh and projection are weight_ih, weight_hh and weight_hr transposed, b = bias_ih + bias_hh; they
///             start without a forget_bias
/// TensorFlow  BasicLSTMCell, LSTMCell, LayerNormBasicLSTMCell: the first I rows of the kernel are wx, the others wh.
///             Its blocks are i, j, f, o: j is g, so the two in the middle change places, in the bias too. forget_bias
///             is no part of its weights; here it is: add it to block f of b. w_i_diag is peephole_i, and so on;
///             projection/kernel is projection. gamma and beta of the scopes input, forget, transform, output are the
///             blocks of gate_gain and gate_shift (add forget_bias to its block f), those of state are cell_gain and
///             cell_shift. The blocks of CoupledInputForgetGateLSTMCell are j, f, o
class LstmCell {
 public:
  using State = LstmState;
  LstmCell(std::int64_t inputs, std::int64_t hidden, const LstmCellOptions& options = {}, Rng& rng = default_rng(),
           Where where = Where::current());

  std::pair<Tensor, State> operator()(const Tensor& x, const State& before, Where where = Where::current()) const;
  std::pair<Tensor, State> sequence(const Tensor& x, const State& before, const SequenceOptions& options = {},
                                    Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  std::int64_t inputs() const { return wx.size(0); }
  std::int64_t outputs() const { return wh.size(0); }
  /// Whether a step, and a sequence, is one operation.
  bool has_sequence() const noexcept;

  Parameter wx, wh, b;  ///< `b`, and all that follow, are undefined where the options have no use for them
  Parameter peephole_i, peephole_f, peephole_o;
  Parameter projection;
  Parameter gate_gain, gate_shift, cell_gain, cell_shift;
  CAPSTAN_FIELDS(wx, wh, b, peephole_i, peephole_f, peephole_o, projection, gate_gain, gate_shift, cell_gain,
                 cell_shift);

 private:
  State step(const Tensor& x, const State& before, Where where) const;
  Tensor activated(const Tensor& x, Where where) const;

  std::int64_t hidden_;
  double cell_clip_, projection_clip_, epsilon_;
  Activation activation_;
  bool coupled_;
};

}  // namespace nn
}  // namespace capstan
