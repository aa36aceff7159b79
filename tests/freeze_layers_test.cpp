// Plans of layers and cells beside the layers and cells themselves.
#include <functional>
#include <utility>

#include "tests/own_cells.hpp"
#include "tests/plans.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Net = std::function<Tensors(const Tensor&)>;

/// A layer of one tensor, as it is after training.
template <class Layer>
Net net_of(Layer layer) {
  nn::set_training(layer, false);
  return [layer](const Tensor& x) mutable { return Tensors{layer(x)}; };
}

/// Outputs and last states of a recurrent layer.
template <class Layer>
Net sequence_net(Layer layer, const Tensor& lengths = {}) {
  layer.set_training(false);
  return [layer, lengths](const Tensor& x) {
    const auto result = layer(x, {.lengths = lengths});
    Tensors list{result.outputs};
    nn::detail::for_each_tensor(result.state, [&list](const Tensor& state) { list.push_back(state); });
    return list;
  };
}

struct Row {
  const char* name;
  Net net;
};

void check(const std::vector<Row>& rows, const PlanInput& input, double tolerance = 0) {
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(plan_agrees(row.net, {input}, tolerance));
  }
}

struct Mlp {
  nn::Linear hidden{12, 40}, out{40, 7};
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

struct Images {
  nn::Conv2d first{{.in = 3, .out = 8, .kernel = 3, .padding = nn::same}};
  nn::BatchNorm2d norm{{.channels = 8}};
  nn::DepthwiseConv2d depthwise{{.in = 8, .kernel = 3, .stride = 2}};
  nn::Conv2d grouped{{.in = 8, .out = 12, .kernel = 2, .dilation = 2, .groups = 4}};
  nn::Dropout drop{{.keep = 0.5}};
  nn::Linear out{48, 10};

  Tensor operator()(const Tensor& x) {
    const Tensor seen = max_pool2d(relu(norm(first(x))), 2);
    const Tensor pooled = adaptive_avg_pool2d(relu(grouped(depthwise(seen))), 2);
    return out(drop(flatten(pooled, 1)));
  }
};

}  // namespace

TEST_CASE("plans of linear layers give the same values for any batch", "[freeze][host]") {
  Mlp net;
  for (const std::int64_t batch : {1, 3, 64}) CHECK(plan_agrees(net, {{batch, 12}}, tolerance::roundings32));
  CHECK(plan_agrees(net, {{2, 5, 12}}, tolerance::roundings32));
  CHECK(plan_agrees(net, {{0, 12}}));
  nn::Sequential parts{nn::Linear(4, 8), nn::Relu{}, nn::LayerNorm{{.sizes = {8}}}, nn::Linear(8, 2)};
  CHECK(plan_agrees(parts, {{5, 4}}, tolerance::roundings32));
}

TEST_CASE("plans of convolutions give the same values", "[freeze][host]") {
  check({{"same", net_of(nn::Conv2d({.in = 4, .out = 5, .kernel = 3, .padding = nn::same}))},
         {"valid", net_of(nn::Conv2d({.in = 4, .out = 5, .kernel = 3}))},
         {"one place", net_of(nn::Conv2d({.in = 4, .out = 5, .kernel = 1}))},
         {"strided", net_of(nn::Conv2d({.in = 4, .out = 5, .kernel = 3, .stride = 2, .padding = 1}))},
         {"dilated", net_of(nn::Conv2d({.in = 4, .out = 5, .kernel = 3, .padding = 2, .dilation = 2}))},
         {"grouped", net_of(nn::Conv2d({.in = 4, .out = 6, .kernel = 3, .groups = 2}))},
         {"depthwise", net_of(nn::DepthwiseConv2d({.in = 4, .multiplier = 2, .kernel = 3}))},
         {"separable", net_of(nn::SeparableConv2d({.in = 4, .out = 3, .kernel = 3}))},
         {"transposed", net_of(nn::ConvTranspose2d({.in = 4, .out = 3, .kernel = 3, .stride = 2}))}},
        {2, 4, 9, 8}, tolerance::product32);
  check({{"of lines", net_of(nn::Conv1d({.in = 4, .out = 5, .kernel = 3}))}}, {2, 4, 11}, tolerance::product32);
  check({{"of volumes", net_of(nn::Conv3d({.in = 2, .out = 3, .kernel = 3}))}}, {2, 2, 5, 6, 7}, tolerance::product32);
}

TEST_CASE("plans of pooling give the same bits", "[freeze][host]") {
  check({{"max", net_of(nn::MaxPool2d(2))},
         {"overlapping", net_of(nn::MaxPool2d(3, {.stride = 2, .padding = 1}))},
         {"mean", net_of(nn::AvgPool2d(3, {.stride = 1, .padding = 1}))},
         {"adaptive", net_of(nn::AdaptiveAvgPool2d({3, 2}))},
         {"adaptive max", net_of(nn::AdaptiveMaxPool2d({3, 2}))},
         {"global", net_of(nn::GlobalAvgPool())}},
        {2, 4, 9, 8});
}

TEST_CASE("plans of norms give the same bits", "[freeze][host]") {
  nn::BatchNorm2d batch({.channels = 4});
  batch(random_in(0, 3, {6, 4, 5, 5}, DType::float32, 1));  // moves the running statistics
  check({{"batch", net_of(batch)},
         {"layer", net_of(nn::LayerNorm({.sizes = {9, 8}}))},
         {"group", net_of(nn::GroupNorm({.groups = 2, .channels = 4}))},
         {"instance", net_of(nn::InstanceNorm2d({.channels = 4}))},
         {"root mean square", net_of(nn::RmsNorm({.sizes = {8}}))},
         {"response", net_of(nn::LocalResponseNorm(3))}},
        {2, 4, 9, 8});
}

TEST_CASE("a plan of a network of images gives the same values", "[freeze][host]") {
  Images net;
  net.norm(random_in(0, 3, {6, 8, 5, 5}, DType::float32, 2));
  nn::set_training(net, false);
  CHECK(plan_agrees(net, {{1, 3, 32, 32}}, tolerance::sequence32));
  CHECK(plan_agrees(net, {{5, 3, 32, 32}}, tolerance::sequence32));
}

TEST_CASE("plans of recurrent layers give the same values", "[freeze][host]") {
  const Tensor lengths{7, 4};
  using L = nn::Lstm;
  using G = nn::Gru;
  using R = nn::Rnn;
  check({{"lstm", sequence_net(L({.inputs = 3, .hidden = 8}))},
         {"lstm of layers", sequence_net(L({.inputs = 3, .hidden = 8, .layers = 3, .dropout = 0.5}))},
         {"lstm both ways", sequence_net(L({.inputs = 3, .hidden = 8, .layers = 2, .bidirectional = true}))},
         {"lstm projected", sequence_net(L({.inputs = 3, .hidden = 8, .projection = 5}))},
         {"lstm with lengths", sequence_net(L({.inputs = 3, .hidden = 8, .bidirectional = true}), lengths)},
         {"gru", sequence_net(G({.inputs = 3, .hidden = 8, .layers = 2}))},
         {"gru, classic", sequence_net(G({.inputs = 3, .hidden = 8, .bidirectional = true, .reset_after = false}))},
         {"gru with lengths", sequence_net(G({.inputs = 3, .hidden = 8}), lengths)},
         {"rnn", sequence_net(R({.inputs = 3, .hidden = 8, .bidirectional = true}))},
         {"rnn with relu", sequence_net(R({.inputs = 3, .hidden = 100, .activation = Activation::relu}), lengths)}},
        {2, 7, 3}, tolerance::sequence32);
  check({{"lstm", sequence_net(L({.inputs = 3, .hidden = 8, .dtype = DType::float64}))}}, {{2, 7, 3}, DType::float64},
        tolerance::sequence64);
  check({{"gru", sequence_net(G({.inputs = 3, .hidden = 8, .dtype = DType::float16}))}}, {{2, 7, 3}, DType::float16},
        tolerance::recurrent16);
}

TEST_CASE("plans of cells carry their states", "[freeze][host]") {
  constexpr double t = tolerance::sequence32;
  const PlanInput x{2, 3};
  CHECK(cell_agrees(nn::RnnCell(3, 8), x, t));
  CHECK(cell_agrees(nn::GruCell(3, 8), x, t));
  CHECK(cell_agrees(nn::GruCell(3, 8, {.reset_after = false}), x, t));
  CHECK(cell_agrees(nn::LstmCell(3, 8), x, t));
  CHECK(cell_agrees(nn::LstmCell(3, 8, {.projection = 5}), x, t));
  CHECK(cell_agrees(nn::LstmCell(3, 8, {.peepholes = true, .cell_clip = 0.5}), x, t));
  CHECK(cell_agrees(nn::LstmCell(3, 8, {.coupled_gates = true, .layer_norm = true}), x, t));
  CHECK(cell_agrees(nn::LstmCell(1, 4), {1, 1}, t));
  CHECK(cell_agrees(nn::LstmCell(3, 8, {.dtype = DType::float64}), {{2, 3}, DType::float64}, tolerance::sequence64));
}

TEST_CASE("plans of wrapped cells carry the states of all", "[freeze][host]") {
  constexpr double t = tolerance::sequence32;
  const nn::StackedCell<nn::LstmCell> same_cells{{nn::LstmCell(3, 8), nn::LstmCell(8, 8)}};
  CHECK(cell_agrees(same_cells, {2, 3}, t));
  const nn::StackedCell<nn::LstmCell, nn::GruCell> mixed{{nn::LstmCell(3, 8), nn::GruCell(8, 4)}};
  CHECK(cell_agrees(mixed, {2, 3}, t));
  CHECK(cell_agrees(nn::ResidualCell(nn::GruCell(3, 3)), {2, 3}, t));
  CHECK(cell_agrees(nn::EmbeddingCell(nn::GruCell(4, 4), {.count = 5}), {{2}, DType::int64}, t));
  CHECK(cell_agrees(nn::OutputProjectionCell(nn::GruCell(3, 4), {.outputs = 2, .activation = nn::Tanh{}}), {2, 3}, t));
  CHECK(cell_agrees(OwnCell(), {{2, 2}, DType::float64}, tolerance::sequence64));
}

TEST_CASE("plans of attention and transformers give the same values", "[freeze][host]") {
  constexpr double t = tolerance::sequence32;
  nn::MultiheadAttention attention({.embed = 16, .heads = 4, .keep = 0.5});
  nn::TransformerEncoderLayer layer({.embed = 16, .heads = 4, .feed_forward = 32});
  nn::TransformerDecoderLayer decoder({.embed = 16, .heads = 2, .feed_forward = 32, .norm_first = true});
  attention.set_training(false);
  layer.set_training(false);
  decoder.set_training(false);
  const Tensor key_mask = sequence_mask(Tensor{5, 3}, 5), bias = random_in(-1, 1, {5, 5}, DType::float32, 9);
  check({{"plain", [&](const Tensor& x) { return Tensors{attention(x)}; }},
         {"masked", [&](const Tensor& x) { return Tensors{attention(x, {.key_mask = key_mask, .causal = true})}; }},
         {"biased", [&](const Tensor& x) { return Tensors{attention(x, {.mask = bias})}; }},
         {"positions", [&](const Tensor& x) { return Tensors{attention(x + sinusoidal_positions(5, 16))}; }},
         {"layer", [&](const Tensor& x) { return Tensors{layer(x, {.causal = true})}; }}},
        {2, 5, 16}, t);
  const auto both = [&](const Tensor& x, const Tensor& memory) { return decoder(x, memory); };
  CHECK(plan_agrees(both, {{2, 5, 16}, {2, 9, 16}}, t));
}

TEST_CASE("plans of embeddings look up the rows of each run", "[freeze][host]") {
  const nn::Embedding words(5, 6);
  const nn::EmbeddingBag bags(5, 6);
  const PlanInput indices({3, 4}, DType::int64);
  check({{"rows",
          [&](const Tensor& i) {
            return Tensors{words(i), mean(words(i), 1)};
          }},
         {"bags", [&](const Tensor& i) { return Tensors{bags(i)}; }}},
        indices);
}
