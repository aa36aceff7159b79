#pragma once
// Recurrent layers over whole sequences: one operation for each layer, of an Rnn for each direction.
//
// They give what the cells of nn/cells.hpp give step by step, to rounding, forward and backward and for gradients of
// gradients: see ops/recurrent.hpp. `units` are hidden, or those of the projection if there is one; `directions` are 2
// if bidirectional, else 1.
//
// Shapes   x [batch, time, inputs]; outputs, those of the last layer, [batch, time, directions * units], forward units
//          first; both [time, batch, ...] with `time_major`. A sequence by itself is a batch of one: expand_dims(x, 0)
// States   [layers * directions, batch, units], in PyTorch's order: layer 0 forward, layer 0 backward, layer 1 forward,
//          ... The next batch goes on from them by `.initial_state`, without gradients into the one before if that is
//          stop_gradient(state)
// Lengths  rows with fewer steps: outputs past a row's end are 0, its state stops at its last valid step, a backward
//          direction begins there, and what x has behind it, even NaN, reaches no value and no gradient
// Dropout  in training, on what a layer hands to the next, from the calling thread's default generator, which an
//          exception leaves where it was. Not behind the last layer, and not on states: as in PyTorch
// Types    one floating type for inputs, states and weights
// Start    the initializers are told the fans of the whole matrix, [inputs, 4 * hidden] for instance, as in TensorFlow.
//          PyTorch's start is init::uniform(-r, r) for all of them, with r = 1 / sqrt(hidden)
// Throws   constructors  ShapeError for sizes, Error for other options out of range, DTypeError for the type
//          calls         ShapeError, DTypeError, DeviceError; IndexError for lengths outside 0..time; Error for what is
//                        undefined
// From PyTorch: wx, wh and projection are the transposes of weight_ih, weight_hh and weight_hr, b is bias_ih + bias_hh;
// for Gru see GruWeights in ops/recurrent.hpp.
// Defined in nn/recurrent.cpp.
#include <optional>
#include <vector>

#include <capstan/nn/fields.hpp>
#include <capstan/nn/init.hpp>
#include <capstan/ops/recurrent.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// What belongs to one direction of one layer, as ops/recurrent.hpp has it; undefined what the layer does without.
struct RecurrentDirection {
  Parameter wx, wh, b;
  Parameter bn;          ///< Gru with `reset_after`
  Parameter projection;  ///< Lstm with a projection
  CAPSTAN_FIELDS(wx, wh, b, bn, projection);
};

/// `layers.0.forward.wx` is the name of a parameter.
struct RecurrentLayer {
  RecurrentDirection forward, backward;  ///< without parameters in `backward` if there is one direction
  CAPSTAN_FIELDS(forward, backward);
};

/// How a sequence is run. State is the layer's.
template <class State>
struct RecurrentOptions {
  Tensor lengths = {};                      ///< [batch] int32 or int64 in 0..time; undefined for all steps of all rows
  std::optional<State> initial_state = {};  ///< `zero_state` if absent
  bool time_major = false;                  ///< x and the outputs are [time, batch, ...] instead of [batch, time, ...]
};

namespace detail {
/// What the layers below keep besides their weights.
struct RecurrentPlan {
  std::int64_t inputs, hidden, units, directions;
  double dropout;
  bool training = true;
};
}  // namespace detail

struct RnnOptions {
  std::int64_t inputs = 0;  ///< features of a step, >= 1
  std::int64_t hidden = 0;  ///< units, >= 1
  std::int64_t layers = 1;  ///< >= 1; all but the first read the outputs of the one before
  bool bidirectional = false;
  double dropout = 0;  ///< probability that a value is dropped between layers, in [0, 1)
  Activation activation = Activation::tanh;
  bool use_bias = true;
  Initializer input_init = init::glorot_uniform();      ///< of wx
  Initializer recurrent_init = init::glorot_uniform();  ///< of wh
  Initializer bias_init = init::zeros();                ///< of b
  DType dtype = DType::float32;
};

/// h' = activation(x @ wx + h @ wh + b): `rnn`.
class Rnn {
 public:
  struct State {
    Tensor h;  ///< [layers * directions, batch, hidden]
  };
  struct Result {
    Tensor outputs;
    State state;  ///< after the last steps
  };
  explicit Rnn(const RnnOptions& options, Rng& rng = default_rng(), Where where = Where::current());

  Result operator()(const Tensor& x, const RecurrentOptions<State>& options = {}, Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  void set_training(bool training) noexcept { plan_.training = training; }
  bool training() const noexcept { return plan_.training; }

  std::vector<RecurrentLayer> layers;
  CAPSTAN_FIELDS(layers);

 private:
  detail::RecurrentPlan plan_;
  Activation activation_;
};

struct GruOptions {
  std::int64_t inputs = 0;  ///< features of a step, >= 1
  std::int64_t hidden = 0;  ///< units, >= 1
  std::int64_t layers = 1;  ///< >= 1; all but the first read the outputs of the one before
  bool bidirectional = false;
  double dropout = 0;       ///< probability that a value is dropped between layers, in [0, 1)
  bool reset_after = true;  ///< the reset gate multiplies h @ wh + bn (cuDNN, PyTorch), not h (classic TensorFlow)
  bool use_bias = true;
  Initializer input_init = init::glorot_uniform();      ///< of wx
  Initializer recurrent_init = init::glorot_uniform();  ///< of wh
  Initializer bias_init = init::zeros();                ///< of b and bn
  DType dtype = DType::float32;
};

/// Gated recurrent units, blocks r, z, n: `gru`. Cho et al. 2014.
class Gru {
 public:
  struct State {
    Tensor h;  ///< [layers * directions, batch, hidden]
  };
  struct Result {
    Tensor outputs;
    State state;  ///< after the last steps
  };
  explicit Gru(const GruOptions& options, Rng& rng = default_rng(), Where where = Where::current());

  Result operator()(const Tensor& x, const RecurrentOptions<State>& options = {}, Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  void set_training(bool training) noexcept { plan_.training = training; }
  bool training() const noexcept { return plan_.training; }

  std::vector<RecurrentLayer> layers;
  CAPSTAN_FIELDS(layers);

 private:
  detail::RecurrentPlan plan_;
  bool reset_after_;
};

struct LstmOptions {
  std::int64_t inputs = 0;  ///< features of a step, >= 1
  std::int64_t hidden = 0;  ///< units, >= 1
  std::int64_t layers = 1;  ///< >= 1; all but the first read the outputs of the one before
  bool bidirectional = false;
  double dropout = 0;           ///< probability that a value is dropped between layers, in [0, 1)
  std::int64_t projection = 0;  ///< units of the outputs and of h; 0: `hidden`, without a projection
  double forget_bias = 1;       ///< how much higher the forget block of b starts
  bool use_bias = true;
  Initializer input_init = init::glorot_uniform();       ///< of wx
  Initializer recurrent_init = init::glorot_uniform();   ///< of wh
  Initializer projection_init = init::glorot_uniform();  ///< of the projection
  Initializer bias_init = init::zeros();                 ///< of b
  DType dtype = DType::float32;
};

/// Long short-term memory, blocks i, f, g, o, with a projection or without: `lstm`. Hochreiter and Schmidhuber 1997;
/// Gers et al. 2000; Sak et al. 2014.
///
///   nn::Lstm lstm{{.inputs = 200, .hidden = 200, .layers = 2, .dropout = 0.5}};
///   auto [outputs, state] = lstm(x, {.lengths = lengths});
///   auto [more, last] = lstm(next, {.initial_state = stop_gradient(state)});
class Lstm {
 public:
  struct State {
    Tensor h;  ///< [layers * directions, batch, units]
    Tensor c;  ///< [layers * directions, batch, hidden]
  };
  struct Result {
    Tensor outputs;
    State state;  ///< after the last steps
  };
  explicit Lstm(const LstmOptions& options, Rng& rng = default_rng(), Where where = Where::current());

  Result operator()(const Tensor& x, const RecurrentOptions<State>& options = {}, Where where = Where::current()) const;
  State zero_state(std::int64_t batch, Where where = Where::current()) const;
  void set_training(bool training) noexcept { plan_.training = training; }
  bool training() const noexcept { return plan_.training; }

  std::vector<RecurrentLayer> layers;
  CAPSTAN_FIELDS(layers);

 private:
  detail::RecurrentPlan plan_;
};

}  // namespace nn
}  // namespace capstan
