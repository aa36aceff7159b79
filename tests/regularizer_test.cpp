// Penalties: Keras's formulas in numbers, their gradients in training, and which parameters weight decay is for.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace regularizer = capstan::nn::regularizer;
using regularizer::Direction;

namespace {

struct Norm {
  Parameter scale{Tensor{1.0f, 1.0f}}, bias{Tensor{0.0f, 0.0f}};
};
struct Block {
  nn::Linear dense{2, 2};
  Norm norm;
};
struct Net {
  nn::Embedding embed{5, 2};
  Block first, second;
  Parameter frozen{Tensor{{1.0f, 2.0f}}};
};

template <class Model>
std::vector<std::string> names_of(Model& model, const std::vector<Tensor>& chosen) {
  std::vector<std::string> names;
  for (const Tensor& x : chosen)
    for (const NamedTensor& p : nn::named_parameters(model))
      if (p.value.is_same(x)) names.push_back(p.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("penalties add up the sizes and squares of all parameters", "[nn][regularizer]") {
  const std::vector<Tensor> list = {Tensor{{1.0, -2.0}, {0.0, 3.0}}, Tensor{-4.0}};
  CHECK(same(nn::l1_penalty(list, 0.5), Tensor(5.0)));   // (1 + 2 + 0 + 3 + 4) / 2
  CHECK(same(nn::l2_penalty(list, 0.5), Tensor(15.0)));  // (1 + 4 + 0 + 9 + 16) / 2, with no further half: Keras's
  CHECK(same(regularizer::l1_l2(0.5, 0.25)(list), Tensor(12.5)));
  CHECK(close(regularizer::l1()(list), Tensor(0.1), tolerance::roundings64));  // 0.01, Keras's default
  CHECK(close(regularizer::l2()(list), Tensor(0.3), tolerance::roundings64));
  CHECK(close(regularizer::l1_l2()(list), Tensor(0.4), tolerance::roundings64));
  CHECK(same(regularizer::l2(1)(list[0]), Tensor(14.0)));  // of one parameter
  CHECK(same(regularizer::l1(0)(list), Tensor(0.0)));
  CHECK(same(nn::l2_penalty(std::vector<Tensor>{zeros({0, 3})}, 1), Tensor(0.0f)));
}

TEST_CASE("the gradient of l2 is twice the strength times the parameter, that of l1 its sign", "[nn][regularizer]") {
  const Tensor x = {1.0, -2.0, 0.0};
  for (const auto& [penalty, expected] : {std::pair{regularizer::l2(0.5), Tensor{1.0, -2.0, 0.0}},
                                          std::pair{regularizer::l1(0.5), Tensor{0.5, -0.5, 0.0}}}) {
    GradientTape tape;
    tape.watch(x);
    CHECK(same(tape.gradient(penalty(x), x), expected));
  }
}

TEST_CASE("penalties on 16-bit parameters are added up in float32", "[nn][regularizer]") {
  const Tensor x = full({4000}, 10, {.dtype = DType::float16});  // 400000 is beyond float16
  CHECK(same(nn::l2_penalty(std::vector<Tensor>{x}, 1), Tensor(400000.0f)));
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(nn::l2_penalty(std::vector<Tensor>{x}, 0.5), x), x));
}

TEST_CASE("the orthogonal penalty is the mean cosine between rows or columns", "[nn][regularizer]") {
  // rows (3, 4) and (1, 0): cosine 3/5. Columns (3, 1) and (4, 0): 12 / (sqrt(10) * 4)
  const Tensor x = {{3.0, 4.0}, {1.0, 0.0}};
  CHECK(close(regularizer::orthogonal(0.5)(x), Tensor(0.3), tolerance::roundings64));
  CHECK(close(regularizer::orthogonal(0.5, Direction::columns)(x), Tensor(1.5 / std::sqrt(10.0)),
              tolerance::roundings64));
  const Tensor tall = {{1.0, 0.0}, {0.0, 2.0}, {-3.0, 3.0}};  // cosines 0, 1/sqrt(2), 1/sqrt(2): their mean
  CHECK(close(regularizer::orthogonal(1)(tall), Tensor(std::sqrt(2.0) / 3), tolerance::roundings64));
  CHECK(same(regularizer::orthogonal(1)(Tensor{{5.0, 1.0}}), Tensor(0.0)));
  CHECK(close(regularizer::orthogonal(1)(eye(4, 6, {.dtype = DType::float64})), Tensor(0.0), 1e-15));
}

TEST_CASE("a pattern's star stands for any text, its question mark for one character", "[nn][regularizer]") {
  const std::vector<std::pair<std::string, std::string>> alike = {
      {"", ""},           {"", "*"},          {"bias", "bias"},          {"a.bias", "*.bias"}, {"a.b.bias", "a.*bias"},
      {"layers.0", "*?"}, {"abcabd", "*abd"}, {"aXbXc", "a*b*c"},        {"aab", "a*ab"},      {"x.norm.y", "*norm*"},
      {"a", "?"},         {"abc", "a**c"},    {"layers.12.w", "*.?2.w"}, {"Größe", "Gr?ße"},   {"ä", "*?"},
      {"\xC3", "?"},      {"xä", "*ä"}};
  for (const auto& [name, pattern] : alike) {
    INFO(name << " like " << pattern);
    CHECK(nn::matches(name, pattern));
  }
  const std::vector<std::pair<std::string, std::string>> different = {
      {"", "?"},   {"a", ""},      {"bias", "Bias"}, {"a.bias.b", "*.bias"},
      {"ab", "?"}, {"abc", "a*b"}, {"ac", "a?c"},    {"ä", "??"}};
  for (const auto& [name, pattern] : different) {
    INFO(name << " not like " << pattern);
    CHECK_FALSE(nn::matches(name, pattern));
  }
}

TEST_CASE("parameters are chosen by their names, in the order of the fields", "[nn][regularizer]") {
  Net net;
  net.frozen.set_trainable(false);
  CHECK(names_of(net, nn::select(net, {"*.weight"})) ==
        Names{"embed.weight", "first.dense.weight", "second.dense.weight"});
  CHECK(names_of(net, nn::select(net, {"second.*.bias", "embed*"})) ==
        Names{"embed.weight", "second.dense.bias", "second.norm.bias"});
  CHECK(nn::select(net, {"frozen"}).empty());  // not trainable
  CHECK(nn::select(net, {}).empty());
}

TEST_CASE("weight decay is for what has two axes and no name that is left out", "[nn][regularizer]") {
  Net net;
  net.frozen.set_trainable(false);
  const nn::DecayGroups groups = nn::decay_groups(net);
  CHECK(names_of(net, groups.decay) == Names{"embed.weight", "first.dense.weight", "second.dense.weight"});
  CHECK(names_of(net, groups.plain) == Names{"first.dense.bias", "first.norm.scale", "first.norm.bias",
                                             "second.dense.bias", "second.norm.scale", "second.norm.bias"});
  const nn::DecayGroups fewer = nn::decay_groups(net, {"embed.*"});
  CHECK(names_of(net, fewer.decay) == Names{"first.dense.weight", "second.dense.weight"});
  CHECK(fewer.plain.size() == 7u);
  CHECK(fewer.plain.size() + fewer.decay.size() == nn::parameters(net).size());
}

TEST_CASE("a penalty in the loss pulls weights towards 0", "[nn][regularizer]") {
  nn::Linear layer(3, 2, {.weight_init = nn::init::ones()});
  const Tensor before = layer.weight.copy();
  optim::Sgd sgd(nn::parameters(layer), {.learning_rate = 0.1});
  GradientTape tape;
  const Tensor loss = mean(layer(zeros({4, 3}))) + nn::l2_penalty(nn::select(layer, {"weight"}), 0.5);
  sgd.apply(tape.gradient(loss, sgd.parameters()));
  CHECK(close(layer.weight, 0.9 * before, tolerance::roundings32));  // 1 - 0.1 * 2 * 0.5
}
