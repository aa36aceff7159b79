// Recurrent networks against PyTorch: torch.nn.RNN, GRU and LSTM out of operations, and as layers with its weights.
#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Tensors = std::vector<Tensor>;

/// One direction of one layer in the library's layout; undefined what there is none of.
struct Weights {
  Tensor wx = {}, wh = {}, b = {}, bn = {}, projection = {};
};

enum class Kind { rnn, gru, lstm };

/// A case of torch's: x, the initial states if there are any, then for each layer and direction two weights
/// [columns, in], two biases unless they are switched off, and a projection [units, hidden] if there is one.
class TorchCase {
 public:
  TorchCase(const GoldenCall& call, Kind kind) : call_(call), config_(call.field("config")), kind_(kind) {}

  const Tensor& x() const { return call_.tensor(0); }
  bool time_major() const { return !config_.value("batch_first", false); }
  std::int64_t batch() const { return x().size(time_major() ? 1 : 0); }
  std::int64_t inputs() const { return config_.at("input_size").get<std::int64_t>(); }
  std::int64_t hidden() const { return config_.at("hidden_size").get<std::int64_t>(); }
  std::int64_t projection() const { return config_.value("proj_size", std::int64_t{0}); }
  std::int64_t units() const { return projection() > 0 ? projection() : hidden(); }
  std::int64_t layers() const { return config_.value("num_layers", std::int64_t{1}); }
  bool bidirectional() const { return config_.value("bidirectional", false); }
  std::int64_t directions() const { return bidirectional() ? 2 : 1; }
  bool use_bias() const { return config_.value("bias", true); }
  Activation activation() const {
    return config_.at("nonlinearity").get<std::string>() == "relu" ? Activation::relu : Activation::tanh;
  }
  /// Of the sequences, if they differ: what torch packs.
  Tensor lengths() const {
    if (!config_.contains("lengths")) return {};
    return from_vector(config_.at("lengths").get<std::vector<std::int64_t>>());
  }

  bool has_state() const { return state_count() > 0; }
  /// h or c, [layers * directions, batch, units]: zeros if the case has none.
  Tensor h() const { return has_state() ? call_.tensor(1) : zeros_of(units()); }
  Tensor c() const { return has_state() ? call_.tensor(2) : zeros_of(hidden()); }

  /// Of layer `position` / directions in direction `position` % directions.
  Weights weights(std::int64_t position) const {
    const bool projected = projection() > 0;
    const std::size_t each = 2 + (use_bias() ? 2 : 0) + (projected ? 1 : 0);
    const std::size_t first = 1 + state_count() + each * static_cast<std::size_t>(position);
    Weights w{.wx = transpose(call_.tensor(first)), .wh = transpose(call_.tensor(first + 1))};
    if (use_bias()) set_biases(w, call_.tensor(first + 2), call_.tensor(first + 3));
    if (projected) w.projection = transpose(call_.tensor(first + each - 1));
    return w;
  }

 private:
  std::size_t state_count() const { return call_.field("nin").get<std::size_t>() - 1; }

  Tensor zeros_of(std::int64_t size) const {
    return zeros({layers() * directions(), batch(), size}, {.dtype = x().dtype()});
  }

  void set_biases(Weights& w, const Tensor& from_x, const Tensor& from_h) const {
    if (kind_ != Kind::gru) {
      w.b = from_x + from_h;
      return;
    }
    const Tensors of_x = split(from_x, 3), of_h = split(from_h, 3);
    w.b = concat({of_x[0] + of_h[0], of_x[1] + of_h[1], of_x[2]});
    w.bn = of_h[2];
  }

  const GoldenCall& call_;
  const Json& config_;
  Kind kind_;
};

// --- out of operations ---

template <Kind kind>
Tensors by_operations(const GoldenCall& call) {
  const TorchCase t(call, kind);
  const Tensor h = t.h(), c = kind == Kind::lstm ? t.c() : Tensor();
  Tensor x = t.x();
  Tensors last_h, last_c;
  for (std::int64_t position = 0; position < t.layers() * t.directions();) {
    Tensors both;
    for (std::int64_t direction = 0; direction < t.directions(); ++direction, ++position) {
      const Weights w = t.weights(position);
      const SequenceOptions options{.lengths = t.lengths(), .reverse = direction == 1, .time_major = t.time_major()};
      if constexpr (kind == Kind::lstm) {
        const LstmResult result = lstm(x, h[position], c[position], {w.wx, w.wh, w.b, w.projection}, options);
        both.push_back(result.outputs);
        last_h.push_back(result.last.h);
        last_c.push_back(result.last.c);
      } else {
        const RnnResult result = kind == Kind::gru ? gru(x, h[position], {w.wx, w.wh, w.b, w.bn}, true, options)
                                                   : rnn(x, h[position], {w.wx, w.wh, w.b}, t.activation(), options);
        both.push_back(result.outputs);
        last_h.push_back(result.last);
      }
    }
    x = concat(both, -1);
  }
  if (kind == Kind::lstm) return {x, stack(last_h), stack(last_c)};
  return {x, stack(last_h)};
}

// --- layers ---

/// Makes a parameter one that was computed from torch's, so that gradients reach those.
void put(Parameter& parameter, const Tensor& value) {
  CHECK(parameter.defined() == value.defined());
  if (value.defined()) CHECK(parameter.shape() == value.shape());
  static_cast<Tensor&>(parameter) = value;
}

template <class Layer>
void put_weights(Layer& layer, const TorchCase& t) {
  REQUIRE(layer.layers.size() == static_cast<std::size_t>(t.layers()));
  for (std::int64_t position = 0; position < t.layers() * t.directions(); ++position) {
    nn::RecurrentLayer& both = layer.layers[static_cast<std::size_t>(position / t.directions())];
    nn::RecurrentDirection& direction = position % t.directions() == 0 ? both.forward : both.backward;
    const Weights w = t.weights(position);
    put(direction.wx, w.wx);
    put(direction.wh, w.wh);
    put(direction.b, w.b);
    put(direction.bn, w.bn);
    put(direction.projection, w.projection);
  }
}

Tensors rnn_layer(const GoldenCall& call) {
  const TorchCase t(call, Kind::rnn);
  nn::Rnn layer({.inputs = t.inputs(),
                 .hidden = t.hidden(),
                 .layers = t.layers(),
                 .bidirectional = t.bidirectional(),
                 .activation = t.activation(),
                 .use_bias = t.use_bias(),
                 .dtype = t.x().dtype()});
  put_weights(layer, t);
  nn::RecurrentOptions<nn::Rnn::State> options{.lengths = t.lengths(), .time_major = t.time_major()};
  if (t.has_state()) options.initial_state = nn::Rnn::State{t.h()};
  const auto [outputs, state] = layer(t.x(), options);
  return {outputs, state.h};
}

Tensors gru_layer(const GoldenCall& call) {
  const TorchCase t(call, Kind::gru);
  nn::Gru layer({.inputs = t.inputs(),
                 .hidden = t.hidden(),
                 .layers = t.layers(),
                 .bidirectional = t.bidirectional(),
                 .use_bias = t.use_bias(),
                 .dtype = t.x().dtype()});
  put_weights(layer, t);
  nn::RecurrentOptions<nn::Gru::State> options{.lengths = t.lengths(), .time_major = t.time_major()};
  if (t.has_state()) options.initial_state = nn::Gru::State{t.h()};
  const auto [outputs, state] = layer(t.x(), options);
  return {outputs, state.h};
}

Tensors lstm_layer(const GoldenCall& call) {
  const TorchCase t(call, Kind::lstm);
  nn::Lstm layer({.inputs = t.inputs(),
                  .hidden = t.hidden(),
                  .layers = t.layers(),
                  .bidirectional = t.bidirectional(),
                  .projection = t.projection(),
                  .use_bias = t.use_bias(),
                  .dtype = t.x().dtype()});
  put_weights(layer, t);
  nn::RecurrentOptions<nn::Lstm::State> options{.lengths = t.lengths(), .time_major = t.time_major()};
  if (t.has_state()) options.initial_state = nn::Lstm::State{t.h(), t.c()};
  const auto [outputs, state] = layer(t.x(), options);
  return {outputs, state.h, state.c};
}

const std::vector<std::string> files = {"rnn_tanh", "rnn_relu", "gru", "lstm"};

}  // namespace

TEST_CASE("recurrent operations give PyTorch's values and gradients", "[golden][recurrent]") {
  run_goldens("recurrent operations", files,
              {{"rnn_tanh", by_operations<Kind::rnn>},
               {"rnn_relu", by_operations<Kind::rnn>},
               {"gru", by_operations<Kind::gru>},
               {"lstm", by_operations<Kind::lstm>}});
}

TEST_CASE("recurrent layers give PyTorch's values and gradients", "[golden][recurrent]") {
  run_goldens("recurrent layers", files,
              {{"rnn_tanh", rnn_layer}, {"rnn_relu", rnn_layer}, {"gru", gru_layer}, {"lstm", lstm_layer}});
}
