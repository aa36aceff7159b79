// Models: names of parameters, copying, moving, sharing, training mode, layers, initializers, recurrence.
#include "tests/support.hpp"

#include <array>
#include <cmath>
#include <tuple>

using namespace capstan;
using namespace tests;

namespace {

struct Block {
  nn::Linear dense{2, 3};
  Parameter scale{Tensor{1.0f}};
};

struct Net {
  Block first, second;
  std::vector<nn::Linear> layers;
  std::array<Parameter, 2> pair{{Parameter(1.0f), Parameter(2.0f)}};
  std::tuple<nn::Linear, int> mixed{nn::Linear{1, 1, {.bias = false}}, 7};
  int width = 3;
  std::string title = "numbers, strings and plain tensors are passed over";
  Tensor buffer = zeros({2});
  nn::Dropout drop{{.keep = 0.5}};
};

class Listed {
 public:
  Listed() = default;
  CAPSTAN_FIELDS(weight_, inner_, weight_);  // the weight is listed twice
 private:
  Parameter weight_{Tensor{1.0f, 2.0f}};
  Block inner_;
};

template <class Model>
std::vector<std::string> names_of(Model& model) {
  std::vector<std::string> names;
  for (const NamedTensor& p : nn::named_parameters(model)) names.push_back(p.name);
  return names;
}

nn::RnnCell cell_of(Activation activation) {
  Rng rng(3);
  return nn::RnnCell(3, 4, {.activation = activation, .bias_init = nn::init::uniform(-1, 1), .dtype = DType::float64},
                     rng);
}

}  // namespace

// --- parameters ------------------------------------------------------------------------------------------------

TEST_CASE("parameters are named by the fields that hold them", "[nn]") {
  Net net;
  net.layers.emplace_back(3, 2);
  net.layers.emplace_back(2, 1, nn::LinearOptions{.bias = false});
  CHECK(names_of(net) == std::vector<std::string>{"first.dense.weight", "first.dense.bias", "first.scale",
                                                  "second.dense.weight", "second.dense.bias", "second.scale",
                                                  "layers.0.weight", "layers.0.bias", "layers.1.weight", "pair.0",
                                                  "pair.1", "mixed.0.weight"});
  CHECK(nn::parameters(net).size() == 12u);
}

TEST_CASE("listed fields lose their trailing underscores, and what is found twice counts once", "[nn]") {
  Listed model;
  CHECK(names_of(model) == std::vector<std::string>{"weight", "inner.dense.weight", "inner.dense.bias", "inner.scale"});
  CHECK(nn::parameters(model).size() == 4u);
}

TEST_CASE("a Sequential names its parts by position, and calls them in turn", "[nn]") {
  nn::Sequential net{nn::Linear{2, 3}, [](const Tensor& x) { return relu(x); }, nn::Linear{3, 1, {.bias = false}}};
  CHECK(names_of(net) == std::vector<std::string>{"0.weight", "0.bias", "2.weight"});
  const Tensor x = random_in(-1, 1, {5, 2}, DType::float32, 111);
  const Tensor hidden = relu(matmul(x, net.part<0>().weight) + net.part<0>().bias);
  CHECK(close(net(x), matmul(hidden, net.part<2>().weight), tolerance::roundings32));
  struct Wrapped {
    nn::Sequential<nn::Linear, nn::Dropout> body{nn::Linear{2, 2}, nn::Dropout{}};
  } wrapped;
  CHECK(names_of(wrapped) == std::vector<std::string>{"body.0.weight", "body.0.bias"});
}

TEST_CASE("handles from a model are its parameters, not copies", "[nn]") {
  Block block;
  const std::vector<Tensor> handles = nn::parameters(block);
  CHECK(handles.at(0).is_same(block.dense.weight));
  block.dense.weight.fill(5);
  CHECK(number(handles.at(0).index({0, 0})) == 5);
}

TEST_CASE("untrainable parameters keep their names and are kept from optimizers", "[nn]") {
  Block block;
  block.scale.set_trainable(false);
  CHECK(nn::parameters(block).size() == 2u);
  CHECK(nn::named_parameters(block).size() == 3u);
}

TEST_CASE("copying a model copies its parameters", "[nn]") {
  Net original;
  original.layers.emplace_back(3, 2);
  Net copy = original;
  CHECK(names_of(copy) == names_of(original));
  CHECK(same(copy.first.dense.weight, original.first.dense.weight));
  CHECK_FALSE(copy.first.dense.weight.shares_storage(original.first.dense.weight));
  copy.first.dense.weight.fill(9);
  copy.layers[0].bias.fill(9);
  copy.pair[0].fill(9);
  CHECK_FALSE(same_bits(values(copy.first.dense.weight), values(original.first.dense.weight)));
  CHECK(same(original.layers[0].bias, zeros({2})));
  CHECK(original.pair[0].item<float>() == 1);
  CHECK(copy.buffer.shares_storage(original.buffer));  // a plain tensor stays a handle
}

TEST_CASE("a copy stays trainable or untrainable", "[nn]") {
  Parameter p(2.0f);
  p.set_trainable(false);
  const Parameter copied = p;
  CHECK_FALSE(copied.trainable());
  CHECK(Parameter(1.0f).trainable());
}

TEST_CASE("moving a model moves its parameters", "[nn]") {
  Block block;
  const Tensor handle = block.dense.weight;
  Block moved = std::move(block);
  CHECK(moved.dense.weight.is_same(handle));
  std::vector<Block> many;
  many.push_back(std::move(moved));
  many.emplace_back();
  many.emplace_back();
  CHECK(many[0].dense.weight.is_same(handle));  // also when the vector grows
}

TEST_CASE("assigning a parameter writes into it, so that handles stay connected", "[nn]") {
  Parameter p(Tensor{1.0f, 2.0f});
  const Tensor handle = p;
  const Parameter& alias = p;
  p = alias;  // assigning to itself changes nothing
  CHECK(same(handle, {1.0f, 2.0f}));
  const Parameter other(Tensor{5.0f, 6.0f});
  p = other;
  CHECK(same(handle, {5.0f, 6.0f}));
  CHECK(handle.is_same(p));
  CHECK_FALSE(p.shares_storage(other));
}

TEST_CASE("a parameter does not share the tensor that it was made from", "[nn]") {
  const Tensor start = {1.0f, 2.0f};
  Parameter p(start);
  p.fill(0);
  CHECK(same(start, {1.0f, 2.0f}));
}

TEST_CASE("moving to the device where a model is changes nothing", "[nn]") {
  Block block;
  const Tensor handle = block.dense.weight;
  nn::move_to(block, default_device());
  CHECK(block.dense.weight.is_same(handle));
}

TEST_CASE("set_training reaches every module that cares, however deep", "[nn]") {
  struct Deep {
    Net net;
    nn::Sequential<nn::Linear, nn::Dropout> body{nn::Linear{2, 2}, nn::Dropout{}};
    std::vector<nn::Dropout> drops = std::vector<nn::Dropout>(2);
  } deep;
  CHECK(deep.net.drop.training());
  nn::set_training(deep, false);
  CHECK_FALSE(deep.net.drop.training());
  CHECK_FALSE(deep.body.part<1>().training());
  CHECK_FALSE(deep.drops[1].training());
  nn::set_training(deep, true);
  CHECK(deep.body.part<1>().training());
}

TEST_CASE("set_training reaches layers that normalize in a Sequential too", "[nn]") {
  nn::Sequential net{nn::Linear{4, 3}, nn::BatchNorm{{.channels = 3}}};
  nn::set_training(net, false);
  CHECK_FALSE(net.part<1>().training());
  CHECK(net(ones({1, 4})).shape() == Shape({1, 3}));
}

// --- layers ----------------------------------------------------------------------------------------------------

TEST_CASE("a linear layer is x @ weight + bias, and starts with a bias of zero", "[nn]") {
  Rng rng(5);
  const nn::Linear layer(3, 2, {.dtype = DType::float64}, rng);
  CHECK(layer.weight.shape() == Shape{3, 2});
  CHECK(same(layer.bias, zeros({2}, {.dtype = DType::float64})));
  const Tensor x = random_in(-1, 1, {4, 3}, DType::float64, 112);
  CHECK(close(layer(x), matmul(x, layer.weight), tolerance::roundings64));
  const nn::Linear plain(3, 2, {.bias = false});
  CHECK_FALSE(plain.bias.defined());
  CHECK(plain(x.to(DType::float32)).shape() == Shape{4, 2});
}

TEST_CASE("dropout keeps the share it says, scales what it keeps, and rests outside of training", "[nn]") {
  nn::Dropout drop{{.keep = 0.8}};
  const Tensor x = ones({100000});
  seed(11);
  const Tensor once = drop(x);
  const double kept = number(sum(not_equal(once, 0))) / 100000;
  CHECK(std::fabs(kept - 0.8) <= tolerance::standard_errors * std::sqrt(0.8 * 0.2 / 100000));
  CHECK(all_of(logical_or(equal(once, 0), equal(once, 1.25))).item<bool>());
  seed(11);
  CHECK(same(drop(x), once));               // the same numbers again
  CHECK_FALSE(array_equal(drop(x), once));  // and others after them
  drop.set_training(false);
  CHECK(same(drop(x), x));
  CHECK(same(dropout(x, 1.0), x));
}

// --- initializers ----------------------------------------------------------------------------------------------

TEST_CASE("initializers have the bounds and moments of their papers", "[nn]") {
  const Shape shape = {300, 500};
  const double count = 150000, glorot = 2.0 / (300 + 500), he = 2.0 / 300;  // variances
  struct Row {
    const char* name;
    nn::Initializer init;
    double mean, variance, bound;
  };
  const Row rows[] = {{"uniform", nn::init::uniform(-1, 3), 1, 16 / 12.0, 3},
                      {"normal", nn::init::normal(2, 0.5), 2, 0.25, kInfinity},
                      // variance of a normal distribution cut at two standard deviations: 1 - 4 phi(2) / (2 Phi(2) - 1)
                      {"truncated_normal", nn::init::truncated_normal(0, 1), 0, 0.7737413, 2},
                      {"glorot_uniform", nn::init::glorot_uniform(), 0, glorot, std::sqrt(3 * glorot)},
                      {"glorot_normal", nn::init::glorot_normal(), 0, glorot, kInfinity},
                      {"he_uniform", nn::init::he_uniform(), 0, he, std::sqrt(3 * he)},
                      {"he_normal", nn::init::he_normal(), 0, he, kInfinity}};
  for (const Row& row : rows) {
    INFO(row.name);
    Rng rng(7);
    const Tensor x = row.init(shape, rng, {.dtype = DType::float64});
    CHECK(x.shape() == shape);
    CHECK(number(max(abs(x))) <= row.bound);
    CHECK(std::fabs(number(mean(x)) - row.mean) <= tolerance::standard_errors * std::sqrt(row.variance / count));
    // the variance of a sample variance is at most that of a normal distribution, 2 variance^2 / count
    CHECK(std::fabs(number(mean(square(x - row.mean))) - row.variance) <=
          tolerance::standard_errors * row.variance * std::sqrt(2 / count));
  }
  CHECK(same(nn::init::constant(2.5)({3}), full({3}, 2.5)));
  CHECK(same(nn::init::ones()({2}), ones({2})));
  CHECK(same(nn::init::zeros()({2}, default_rng(), {.dtype = DType::float64}), zeros({2}, {.dtype = DType::float64})));
}

TEST_CASE("fans of a kernel count its window", "[nn]") {
  Rng rng(8);
  const double bound = std::sqrt(6.0 / (5 * 5 * (8 + 16)));  // glorot: 25 * (in + out)
  const double largest = number(max(abs(nn::init::glorot_uniform()({5, 5, 8, 16}, rng))));
  CHECK(largest <= bound * (1 + 1e-6));
  CHECK(largest > 0.99 * bound);
}

// --- recurrence ------------------------------------------------------------------------------------------------

TEST_CASE("the fused sequence gives what its cell gives step by step, gradients included", "[nn]") {
  for (const Activation activation : {Activation::tanh, Activation::relu})
    for (const std::int64_t batch : {1, 5, 33}) {
      const nn::RnnCell cell = cell_of(activation);
      const Tensor x = random_in(-1, 1, {batch, 7, 3}, DType::float64, 113);
      const Tensor h0 = random_in(-1, 1, {batch, 4}, DType::float64, 114);
      const Tensor weights = random_in(-1, 1, {batch, 7, 4}, DType::float64, 115);
      const std::vector<Tensor> sources = {x, h0, cell.wx, cell.wh, cell.b};
      GradientTape tape{{.persistent = true}};
      tape.watch({x, h0});
      const auto [outputs, last] = cell.sequence(x, {h0});
      std::vector<Tensor> steps;
      nn::RnnCell::State state{h0};
      for (std::int64_t t = 0; t < 7; ++t) {
        auto [output, after] = cell(x.index({all, t}), state);
        steps.push_back(output);
        state = after;
      }
      const Tensor by_step = stack(steps, 1);
      INFO((activation == Activation::tanh ? "tanh" : "relu") << ", batch " << batch);
      CHECK(close(outputs, by_step, tolerance::roundings64));
      CHECK(close(last.h, state.h, tolerance::roundings64));
      const std::vector<Tensor> fused = tape.gradient(outputs, sources, {.output_gradient = weights});
      const std::vector<Tensor> stepped = tape.gradient(by_step, sources, {.output_gradient = weights});
      for (std::size_t i = 0; i < sources.size(); ++i) CHECK(close(fused[i], stepped[i], tolerance::roundings64));
    }
}

TEST_CASE("a fused sequence of many rows equals its steps, values and all five gradients", "[nn]") {
  constexpr std::int64_t batch = 150, time = 4, inputs = 3, hidden = 7;  // more rows than one block of the kernel
  Rng rng(5);
  const TensorOptions type{DType::float64};
  const Tensor x = normal({batch, time, inputs}, rng, type), h0 = normal({batch, hidden}, rng, type);
  const Tensor wx = normal({inputs, hidden}, 0, 0.5, rng, type), wh = normal({hidden, hidden}, 0, 0.4, rng, type);
  const Tensor b = normal({hidden}, rng, type), weight = normal({batch, time, hidden}, rng, type);
  const Tensor sources[] = {x, h0, wx, wh, b};
  for (const Activation activation : {Activation::tanh, Activation::relu}) {
    GradientTape fused, stepped;
    for (const Tensor& source : sources) fused.watch(source), stepped.watch(source);
    const RnnResult all = rnn(x, h0, {wx, wh, b}, activation);
    const Tensor fused_sum = sum(all.outputs * weight) + sum(square(all.last));
    std::vector<Tensor> states;
    Tensor h = h0;
    for (std::int64_t t = 0; t < time; ++t) {
      const Tensor pre = matmul(x.index({::capstan::all, t}), wx) + matmul(h, wh) + b;
      h = activation == Activation::tanh ? tanh(pre) : relu(pre);
      states.push_back(h);
    }
    const Tensor stepped_sum = sum(stack(states, 1) * weight) + sum(square(h));
    CHECK(all_close(all.outputs, stack(states, 1), 1e-12, 1e-12));
    const auto one = fused.gradient(fused_sum, sources), other = stepped.gradient(stepped_sum, sources);
    for (std::size_t i = 0; i < one.size(); ++i) {
      INFO("gradient " << i);
      CHECK(all_close(one[i], other[i], 1e-10, 1e-10));
    }
  }
}
