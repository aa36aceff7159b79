// Recurrent layers as models: dropout between them, parameters, copies, summaries.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor random32(const Shape& shape, std::uint64_t seed_of) { return random_in(-1, 1, shape, DType::float32, seed_of); }

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

/// Layers that pass on what they get: relu(x @ 1 + h @ 0).
nn::Rnn identity_layers(std::int64_t layers, double dropout) {
  nn::Rnn layer({.inputs = 8,
                 .hidden = 8,
                 .layers = layers,
                 .dropout = dropout,
                 .activation = Activation::relu,
                 .input_init = nn::init::identity(),
                 .recurrent_init = nn::init::zeros()});
  return layer;
}

}  // namespace

// --- dropout ------------------------------------------------------------------------------------------------------

TEST_CASE("dropout between layers keeps the share it says and leaves the last layer and the states alone",
          "[nn][recurrent]") {
  const Tensor x = ones({50, 40, 8});
  const double count = 50 * 40 * 8;
  seed(11);
  for (const std::int64_t layers : {1, 2, 3}) {
    INFO(layers << " layers");
    const double share = std::pow(0.25, static_cast<double>(layers - 1));  // one chance of 1/4 for each gap
    const auto [outputs, state] = identity_layers(layers, 0.75)(x);
    CHECK(all_of(logical_or(equal(outputs, 0), equal(outputs, 1 / share))).item<bool>());
    const double kept = number(sum(not_equal(outputs, 0))) / count;
    CHECK(std::fabs(kept - share) <= tolerance::standard_errors * std::sqrt(share * (1 - share) / count));
    CHECK(same(state.h[0], ones({50, 8})));
    CHECK(same(state.h[layers - 1], outputs.index({all, -1})));
  }
}

TEST_CASE("dropout follows the default generator, and rests outside of training", "[nn][recurrent]") {
  nn::Rnn layer = identity_layers(2, 0.5);
  const Tensor x = ones({4, 5, 8});
  seed(12);
  const Tensor once = layer(x).outputs;
  CHECK_FALSE(array_equal(layer(x).outputs, once));
  seed(12);
  CHECK(same(layer(x).outputs, once));
  CHECK(layer.training());
  struct Net {
    nn::Rnn layer;
  } net{layer};
  nn::set_training(net, false);
  CHECK_FALSE(net.layer.training());
  const std::uint64_t position = default_rng().position();
  CHECK(same(net.layer(x).outputs, x));
  CHECK(same(identity_layers(2, 0)(x).outputs, x));  // without dropout nothing is drawn in training either
  CHECK(default_rng().position() == position);
}

// --- parameters ---------------------------------------------------------------------------------------------------

TEST_CASE("parameters of recurrent layers are named by layer and direction", "[nn][recurrent]") {
  nn::Lstm lstm_layer({.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true, .projection = 2});
  CHECK(names_of(lstm_layer) ==
        std::vector<std::string>{
            "layers.0.forward.wx", "layers.0.forward.wh", "layers.0.forward.b", "layers.0.forward.projection",
            "layers.0.backward.wx", "layers.0.backward.wh", "layers.0.backward.b", "layers.0.backward.projection",
            "layers.1.forward.wx", "layers.1.forward.wh", "layers.1.forward.b", "layers.1.forward.projection",
            "layers.1.backward.wx", "layers.1.backward.wh", "layers.1.backward.b", "layers.1.backward.projection"});
  CHECK(lstm_layer.layers[0].backward.wx.shape() == Shape{3, 16});
  CHECK(lstm_layer.layers[1].forward.wx.shape() == Shape{4, 16});  // 2 directions of 2 units
  CHECK(lstm_layer.layers[1].forward.wh.shape() == Shape{2, 16});
  CHECK(lstm_layer.layers[1].forward.projection.shape() == Shape{4, 2});
  nn::Gru gru_layer({.inputs = 3, .hidden = 4});
  CHECK(names_of(gru_layer) == std::vector<std::string>{"layers.0.forward.wx", "layers.0.forward.wh",
                                                        "layers.0.forward.b", "layers.0.forward.bn"});
  CHECK(gru_layer.layers[0].forward.wx.shape() == Shape{3, 12});
  CHECK(gru_layer.layers[0].forward.bn.shape() == Shape{4});
  nn::Gru classic({.inputs = 3, .hidden = 4, .reset_after = false});
  CHECK_FALSE(classic.layers[0].forward.bn.defined());
  nn::Rnn plain({.inputs = 3, .hidden = 4, .use_bias = false});
  CHECK(names_of(plain) == std::vector<std::string>{"layers.0.forward.wx", "layers.0.forward.wh"});
}

TEST_CASE("the forget gates of an Lstm start open", "[nn][recurrent]") {
  const auto bias_of = [](const nn::LstmOptions& options) { return nn::Lstm(options).layers[0].forward.b; };
  CHECK(same(bias_of({.inputs = 1, .hidden = 2}), {0.0f, 0.0f, 1.0f, 1.0f, 0.0f, 0.0f, 0.0f, 0.0f}));
  CHECK(same(bias_of({.inputs = 1, .hidden = 2, .forget_bias = 0}), zeros({8})));
  CHECK(same(bias_of({.inputs = 1, .hidden = 1, .forget_bias = 2.5, .bias_init = nn::init::constant(0.25)}),
             {0.25f, 2.75f, 0.25f, 0.25f}));
}

TEST_CASE("recurrent layers are values: copied, loaded and converted as other models", "[nn][recurrent]") {
  Rng rng(10);
  nn::Gru layer({.inputs = 2, .hidden = 3, .layers = 2, .bidirectional = true}, rng);
  const Tensor x = random32({2, 4, 2}, 19);
  const Tensor expected = layer(x).outputs;
  nn::Gru copied = layer;
  CHECK_FALSE(copied.layers[1].backward.wh.shares_storage(layer.layers[1].backward.wh));
  nn::Gru other({.inputs = 2, .hidden = 3, .layers = 2, .bidirectional = true}, rng);
  CHECK_FALSE(array_equal(other(x).outputs, expected));
  nn::copy_parameters(layer, other);
  CHECK(same(other(x).outputs, expected));
  nn::cast(copied, DType::bfloat16);
  CHECK(copied(x.to(DType::bfloat16)).outputs.dtype() == DType::bfloat16);
  CHECK(copied.zero_state(2).h.dtype() == DType::bfloat16);
  CHECK(same(layer(x).outputs, expected));
  CHECK(same(nn::Gru(std::move(layer))(x).outputs, expected));
}

TEST_CASE("a summary has a row for each direction of each layer", "[nn][recurrent][summary]") {
  struct Net {
    nn::Lstm lstm{{.inputs = 3, .hidden = 4, .layers = 2, .bidirectional = true}};
    nn::Linear out{8, 2};
    Tensor operator()(const Tensor& x) { return out(lstm(x).outputs); }
  } net;
  const nn::Summary summary = nn::summary(net, random32({2, 5, 3}, 21));
  int found = 0;
  for (const nn::SummaryRow& row : summary.rows) {
    const bool first = row.name == "lstm.layers.0.backward", second = row.name == "lstm.layers.1.forward";
    if (!first && !second) continue;
    const std::int64_t inputs = first ? 3 : 8;
    INFO(row.name);
    CHECK(row.type == "RecurrentDirection");
    CHECK(row.calls == 1);
    CHECK(row.trainable == inputs * 16 + 4 * 16 + 16);
    CHECK(row.operations == 2 * 5 * (2 * 16 * (inputs + 4) + 17 * 4));
    CHECK(row.output == Shape{2, 5, 4});
    ++found;
  }
  CHECK(found == 2);
}
