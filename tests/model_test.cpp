// Models as wholes: buffers and states, loading, freezing, sharing of every kind, copying, moving, other types.
#include "tests/support.hpp"

#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <variant>

using namespace capstan;
using namespace tests;

namespace {

using Names = std::vector<std::string>;

Names names_in(const std::vector<NamedTensor>& list) {
  Names names;
  for (const NamedTensor& entry : list) names.push_back(entry.name);
  return names;
}

template <class Model>
Names parameter_names(Model& model) {
  return names_in(nn::named_parameters(model));
}

/// Layers with parameters, running statistics and a buffer of its own.
struct Net {
  nn::Conv2d conv{{.in = 1, .out = 2, .kernel = 3}};
  nn::BatchNorm2d norm{{.channels = 2}};
  Buffer steps{zeros({1}, {.dtype = DType::int64})};
  nn::Dropout drop{{.keep = 0.5}};
  nn::Linear fc{8, 3};

  Tensor operator()(const Tensor& x) {  // [batch, 1, 4, 4] -> [batch, 3]
    return fc(drop(flatten(relu(norm(conv(x))), 1)));
  }
};

Net net_of(std::uint64_t seed) {
  Rng rng(seed);
  Net net;
  net.conv = nn::Conv2d({.in = 1, .out = 2, .kernel = 3}, rng);
  net.fc = nn::Linear(8, 3, {}, rng);
  return net;
}

/// All values of a model, to see what has changed.
template <class Model>
std::vector<std::vector<double>> snapshot(Model& model) {
  std::vector<std::vector<double>> all;
  for (const NamedTensor& entry : nn::named_state(model)) all.push_back(values(entry.value));
  return all;
}

Tensor images() { return random_in(-1, 1, {4, 1, 4, 4}, DType::float32, 601); }

/// Counts how often it is told.
struct Counting {
  int told = 0;
  void set_training(bool) noexcept { ++told; }
};

/// Two of them can form a cycle.
struct Link {
  nn::Linear own{1, 1};
  Counting counting;
  std::shared_ptr<Link> next;
};

/// A model whose layer belongs to somebody else.
class Borrowing {
 public:
  explicit Borrowing(nn::Linear& layer) : layer_(layer) {}
  nn::Linear own{1, 1};
  CAPSTAN_FIELDS(layer_, own);

 private:
  nn::Linear& layer_;
};

}  // namespace

// --- parameters and buffers ------------------------------------------------------------------------------------

TEST_CASE("parameters and buffers are named apart and together, in the order of the fields", "[nn][model]") {
  Net net;
  CHECK(parameter_names(net) == Names{"conv.weight", "conv.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias"});
  CHECK(names_in(nn::named_buffers(net)) ==
        Names{"norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "steps"});
  CHECK(names_in(nn::named_state(net)) == Names{"conv.weight", "conv.bias", "norm.weight", "norm.bias",
                                                "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
                                                "steps", "fc.weight", "fc.bias"});
  CHECK(nn::buffers(net).size() == 4u);
  CHECK(nn::buffers(net)[3].is_same(net.steps));
  CHECK(nn::parameter_count(net) == 2 * 9 + 2 + 2 + 2 + 8 * 3 + 3);
  const Net& same_net = net;
  CHECK(nn::named_state(same_net).size() == 10u);
}

TEST_CASE("ten thousand parameters are listed as quickly as they can be walked", "[nn][model]") {
  struct Many {
    std::vector<nn::Linear> layers;
  } model;
  for (int i = 0; i < 10000; ++i) model.layers.emplace_back(1, 1, nn::LinearOptions{.bias = false});
  const std::vector<NamedTensor> named = nn::named_parameters(model);
  CHECK(named.size() == 10000u);
  CHECK(named[9999].name == "layers.9999.weight");
  CHECK(nn::parameter_count(model) == 10000);
  CHECK(nn::select(model, {"layers.?.weight"}).size() == 10u);
}

// --- states ----------------------------------------------------------------------------------------------------

TEST_CASE("a loaded model computes what the saved one did, and its handles stay connected", "[nn][model]") {
  Net trained = net_of(1), fresh = net_of(2);
  trained(images());  // moves the running statistics
  nn::set_training(trained, false);
  nn::set_training(fresh, false);
  const std::vector<Tensor> handles = nn::parameters(fresh);
  CHECK_FALSE(array_equal(trained(images()), fresh(images())));
  const nn::LoadReport report = nn::load_state(fresh, nn::named_state(trained));
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  CHECK(same(trained(images()), fresh(images())));
  CHECK(same(fresh.norm.running_mean, trained.norm.running_mean));
  CHECK(fresh.norm.num_batches_tracked.item<std::int64_t>() == 1);
  const std::vector<Tensor> after = nn::parameters(fresh);
  for (std::size_t i = 0; i < handles.size(); ++i) CHECK(after[i].is_same(handles[i]));
  CHECK_FALSE(fresh.fc.weight.shares_storage(trained.fc.weight));
}

TEST_CASE("loading that is not strict takes what both have, and tells the rest", "[nn][model]") {
  Net net = net_of(3);
  const std::vector<NamedTensor> state = {{"fc.bias", Tensor{1.0f, 2.0f, 3.0f}}, {"head.bias", Tensor{1.0f}}};
  const std::vector<double> weights = values(net.fc.weight);
  const nn::LoadReport report = nn::load_state(net, state, {.strict = false});
  CHECK(same(net.fc.bias, {1.0f, 2.0f, 3.0f}));
  CHECK(values(net.fc.weight) == weights);
  CHECK(report.unexpected == Names{"head.bias"});
  CHECK(report.missing.size() == 9u);
  CHECK(report.missing.front() == "conv.weight");
}

TEST_CASE("a state whose values are the model's own parameters loads as if it had been copied", "[nn][model]") {
  struct Pair {
    Parameter a{Tensor{1.0f, 2.0f}}, b{Tensor{3.0f, 4.0f}};
  } pair;
  nn::load_state(pair, std::vector<NamedTensor>{{"a", pair.b}, {"b", pair.a}});
  CHECK(same(pair.a, {3.0f, 4.0f}));
  CHECK(same(pair.b, {1.0f, 2.0f}));
  nn::load_state(pair, nn::named_state(pair));
  CHECK(same(pair.a, {3.0f, 4.0f}));
}

TEST_CASE("a state of views of the model's own parameters loads as if it had been copied", "[nn][model]") {
  struct Three {
    Parameter a{Tensor{1.0f, 2.0f}}, b{Tensor{3.0f, 4.0f}}, c{Tensor{5.0f, 6.0f}};
  } three;
  const auto view_of = [](const Tensor& x) { return reshape(reshape(x, {2, 1}), {2}); };
  nn::load_state(three, std::vector<NamedTensor>{{"a", view_of(three.b)}, {"b", view_of(three.a)}, {"c", three.a}});
  CHECK(same(three.a, {3.0f, 4.0f}));
  CHECK(same(three.b, {1.0f, 2.0f}));
  CHECK(same(three.c, {1.0f, 2.0f}));
}

TEST_CASE("loading is no part of a recording, and later steps are", "[nn][model][tape]") {
  struct One {
    Parameter p{Tensor{2.0f}};
  } one, other;
  other.p.fill(5);
  GradientTape tape;
  nn::copy_parameters(other, one);
  CHECK(tape.size() == 0);
  const Tensor loss = sum(square(one.p));
  CHECK(same(tape.gradient(loss, one.p), {10.0f}));
}

TEST_CASE("a target network gets the parameters and statistics of the one that learns", "[nn][model]") {
  Net learning = net_of(4), target = net_of(5);
  learning(images());
  nn::copy_parameters(learning, target);
  CHECK(snapshot(target) == snapshot(learning));
  learning.fc.weight.fill(0);
  CHECK(snapshot(target) != snapshot(learning));
}

// --- freezing --------------------------------------------------------------------------------------------------

TEST_CASE("frozen parameters keep their names and leave the list for optimizers", "[nn][model]") {
  Net net;
  nn::freeze(net);
  CHECK(nn::parameters(net).empty());
  CHECK(parameter_names(net).size() == 6u);
  nn::unfreeze(net, "fc");
  CHECK(nn::parameters(net).size() == 2u);
  CHECK(net.fc.bias.trainable());
  nn::unfreeze(net);
  CHECK(nn::parameters(net).size() == 6u);
  nn::freeze(net, "norm.weight");  // a whole name
  CHECK_FALSE(net.norm.weight.trainable());
  CHECK(net.norm.bias.trainable());
  nn::freeze(net, "*.bias");
  CHECK(nn::parameters(net).size() == 2u);
  nn::unfreeze(net, [](std::string_view name) { return name.ends_with("bias"); });
  nn::freeze(net, [](std::string_view name) { return name == "conv.weight"; });
  CHECK(nn::parameters(net).size() == 4u);
}

TEST_CASE("a name freezes whole parts, not all that begin like it", "[nn][model]") {
  struct Alike {
    nn::Linear fc{1, 1}, fc1{1, 1};
  } model;
  nn::freeze(model, "fc");
  CHECK_FALSE(model.fc.weight.trainable());
  CHECK(model.fc1.weight.trainable());
}

TEST_CASE("no gradient reaches what is frozen, and training leaves it alone", "[nn][model][tape]") {
  Net net = net_of(6);
  nn::freeze(net, "conv");
  const std::vector<double> before = values(net.conv.weight);
  optim::Sgd sgd(nn::parameters(net), {.learning_rate = 0.1});
  GradientTape tape{{.persistent = true}};
  const Tensor loss = mean(square(net(images())));
  CHECK_FALSE(tape.gradient(loss, net.conv.weight).defined());
  sgd.apply(tape.gradient(loss, sgd.parameters()));
  CHECK(values(net.conv.weight) == before);
}

// --- sharing ---------------------------------------------------------------------------------------------------

TEST_CASE("fields hold models in many ways, and each is found", "[nn][model]") {
  struct Holder {
    std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(2, 1);
    std::unique_ptr<nn::Linear> own = std::make_unique<nn::Linear>(1, 2);
    std::optional<nn::Linear> maybe = nn::Linear(1, 1), none = std::nullopt;
    std::map<std::string, nn::Linear> heads;
    std::map<int, Parameter> numbered;
    std::variant<nn::Linear, nn::Conv1d> choice = nn::Linear(1, 1);
    std::deque<nn::Linear> queue;
    std::pair<nn::Linear, int> pair{nn::Linear(1, 1, {.bias = false}), 3};
    std::vector<std::shared_ptr<nn::Linear>> list;
    std::shared_ptr<nn::Linear> empty;
    std::unordered_map<std::string, int> words = {{"no", 1}};
  } model;
  model.heads.try_emplace("right", 1, 1);
  model.heads.try_emplace("left", 1, 1);
  model.numbered[7] = Parameter(1.0f);
  model.queue.emplace_back(1, 1);
  model.list.push_back(model.shared);  // the same one again
  model.list.push_back(std::make_shared<nn::Linear>(1, 1));
  CHECK(parameter_names(model) == Names{"shared.weight", "shared.bias", "own.weight", "own.bias", "maybe.weight",
                                        "maybe.bias", "heads.left.weight", "heads.left.bias", "heads.right.weight",
                                        "heads.right.bias", "numbered.7", "choice.weight", "choice.bias",
                                        "queue.0.weight", "queue.0.bias", "pair.0.weight", "list.1.weight",
                                        "list.1.bias"});
  model.choice = nn::Conv1d({.in = 1, .out = 1, .kernel = 2});
  CHECK(nn::parameter_count(model) == 3 + 4 + 2 + 4 + 1 + 3 + 2 + 1 + 2);
}

TEST_CASE("a model named by a reference, a wrapper or a plain pointer counts under its first name", "[nn][model]") {
  nn::Linear layer(2, 2);
  Borrowing borrowing(layer);
  CHECK(parameter_names(borrowing) == Names{"layer.weight", "layer.bias", "own.weight", "own.bias"});
  struct Three {
    nn::Linear first{1, 1};
    nn::Linear* again = nullptr;
    std::reference_wrapper<nn::Linear> other;
    Borrowing* whole = nullptr;
  } model{.other = layer};
  model.again = &model.first;
  model.whole = &borrowing;
  CHECK(parameter_names(model) ==
        Names{"first.weight", "first.bias", "other.weight", "other.bias", "whole.own.weight", "whole.own.bias"});
  CHECK(nn::parameters(model)[2].is_same(layer.weight));
}

TEST_CASE("pointers to what is no model are passed over", "[nn][model]") {
  struct Model {
    nn::Linear fc{1, 1};
    std::FILE* log = stderr;
    const char* text = "text";
    void* memory = nullptr;
    struct Unknown* unknown = nullptr;
    Tensor (*activation)(const Tensor&, Where) = &relu;
  } model;
  CHECK(parameter_names(model) == Names{"fc.weight", "fc.bias"});
}

TEST_CASE("cycles of pointers end, and every module is told once", "[nn][model]") {
  auto first = std::make_shared<Link>();
  first->next = std::make_shared<Link>();
  first->next->next = first;
  CHECK(parameter_names(*first) == Names{"own.weight", "own.bias", "next.own.weight", "next.own.bias"});
  nn::set_training(*first, false);
  CHECK(first->counting.told == 1);
  CHECK(first->next->counting.told == 1);
  nn::cast(*first, DType::float64);
  CHECK(first->next->own.weight.dtype() == DType::float64);
  first->next->next = nullptr;
}

TEST_CASE("a table that is used twice is one parameter, and its gradient is the sum", "[nn][model][tape]") {
  struct Tied {
    nn::Embedding embed{{.count = 4, .size = 3, .dtype = DType::float64}};
    Tensor operator()(const Tensor& words) { return matmul(embed(words), transpose(embed.weight)); }
  } model;
  const Tensor words = {1, 3};
  GradientTape tape;
  const Tensor both = tape.gradient(sum(model(words)), model.embed.weight);
  // d/dW sum(W[words] W^T): each row gets the sum of the rows looked up, and each of those the sum of all rows
  const Tensor table = model.embed.weight.copy();
  const Tensor looked_up = sum(gather(table, words, 0), 0, {.keepdims = true}), all_rows = sum(table, 0);
  Tensor expected = broadcast_to(looked_up, {4, 3}).copy();
  expected.index_put({1}, expected[1] + all_rows);
  expected.index_put({3}, expected[3] + all_rows);
  CHECK(close(both, expected, tolerance::roundings64));
}

TEST_CASE("parameters that were made to share a tensor stay one when they are converted", "[nn][model]") {
  struct Two {
    Parameter a{Tensor{1.0f, 2.0f}}, b{Tensor{0.0f}};
  } two;
  static_cast<Tensor&>(two.b) = two.a;  // by force
  CHECK(parameter_names(two) == Names{"a"});
  nn::cast(two, DType::float64);
  CHECK(two.b.is_same(two.a));
  CHECK(two.a.dtype() == DType::float64);
}

// --- copying and moving ----------------------------------------------------------------------------------------

TEST_CASE("a copied model is independent, buffers included", "[nn][model]") {
  Net net = net_of(7);
  net(images());
  Net copy = net;
  CHECK(snapshot(copy) == snapshot(net));
  CHECK(copy.norm.running_mean.shares_storage(net.norm.running_mean) == false);
  const auto before = snapshot(net);
  copy(images() + 1);
  copy.conv.weight.fill(0);
  CHECK(snapshot(net) == before);
  CHECK(copy.norm.num_batches_tracked.item<std::int64_t>() == 2);
  nn::set_training(copy, false);
  CHECK(net.norm.training());
}

TEST_CASE("an optimizer goes on changing a model that was moved, or assigned to", "[nn][model]") {
  Net net = net_of(8);
  optim::Sgd sgd(nn::parameters(net), {.learning_rate = 1});
  Net moved = std::move(net);
  CHECK(sgd.parameters()[0].is_same(moved.conv.weight));
  CHECK(nn::buffers(moved).size() == 4u);
  const Net other = net_of(9);
  moved = other;
  CHECK(sgd.parameters()[0].is_same(moved.conv.weight));
  CHECK(same(moved.conv.weight, other.conv.weight));
}

TEST_CASE("a clone shares within itself what the model shares, and nothing with the model", "[nn][model]") {
  struct Model {
    std::shared_ptr<Net> left = std::make_shared<Net>(), right = left;
    std::vector<std::shared_ptr<nn::Linear>> list{std::make_shared<nn::Linear>(1, 1), nullptr};
    nn::Linear fc{1, 1};
    std::optional<std::shared_ptr<Link>> link;
  } model;
  model.link = std::make_shared<Link>();
  (*model.link)->next = *model.link;  // a cycle
  Model copy = nn::clone(model);
  CHECK(snapshot(copy) == snapshot(model));
  CHECK(parameter_names(copy) == parameter_names(model));
  CHECK(copy.left == copy.right);
  CHECK(copy.left != model.left);
  CHECK(copy.list[0] != model.list[0]);
  CHECK(copy.list[1] == nullptr);
  CHECK((*copy.link)->next == *copy.link);
  const auto before = snapshot(model);
  for (const Tensor& p : nn::parameters(copy)) Tensor(p).fill(9);
  CHECK(snapshot(model) == before);
  (*model.link)->next = nullptr;
  (*copy.link)->next = nullptr;
}

TEST_CASE("a clone holds one object where the model holds one as const and otherwise", "[nn][model]") {
  struct Model {
    std::shared_ptr<nn::Linear> first = std::make_shared<nn::Linear>(1, 1);
    std::shared_ptr<const nn::Linear> seen = first;
    std::shared_ptr<const nn::Linear> shown = std::make_shared<nn::Linear>(1, 1);
    std::shared_ptr<nn::Linear> last = std::const_pointer_cast<nn::Linear>(shown);
  } model;
  Model copy = nn::clone(model);
  CHECK(copy.first.get() == copy.seen.get());
  CHECK(copy.shown.get() == copy.last.get());
  CHECK(copy.first != model.first);
  CHECK(copy.last != model.last);
  CHECK(copy.first.use_count() == 2);
  CHECK(copy.last.use_count() == 2);
  CHECK(snapshot(copy) == snapshot(model));
}

TEST_CASE("an assignment makes anew what stands in a vector that grows and stops at what does not fit", "[nn][model]") {
  struct Model {
    nn::Linear first{1, 1}, second{1, 1};
    std::vector<nn::Linear> list;
  } model, other;
  model.list.emplace_back(1, 1);
  other = model;
  other.list.emplace_back(1, 1);
  const Tensor plain = model.first.weight, listed = model.list[0].weight;
  model = other;
  CHECK(model.first.weight.is_same(plain));
  CHECK_FALSE(model.list[0].weight.is_same(listed));
  const Tensor again = model.list[0].weight;
  nn::copy_parameters(other, model);
  CHECK(model.list[0].weight.is_same(again));

  other.first.weight.fill(5);
  other.second.weight = Parameter(ones({2, 1}));
  CHECK_THROWS_AS(nn::copy_parameters(other, model), ShapeError);
  CHECK_FALSE(array_equal(model.first.weight, other.first.weight));
  CHECK_THROWS_AS(model = other, ShapeError);
  CHECK(same(model.first.weight, other.first.weight));
}

// --- devices and types -----------------------------------------------------------------------------------------

TEST_CASE("a model on its device already is left alone", "[nn][model]") {
  Net net;
  const std::vector<NamedTensor> before = nn::named_state(net);
  nn::move_to(net, default_device());
  nn::cast(net, DType::float32);
  const std::vector<NamedTensor> after = nn::named_state(net);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i].value.is_same(before[i].value));
}

TEST_CASE("a cast model computes in its new type, and what is frozen stays so", "[nn][model]") {
  Net net = net_of(10);
  nn::set_training(net, false);
  nn::freeze(net, "conv");
  const Tensor expected = net(images()).to(DType::float64);
  nn::cast(net, DType::float64);
  for (const NamedTensor& p : nn::named_parameters(net)) CHECK(p.value.dtype() == DType::float64);
  CHECK(net.norm.running_var.dtype() == DType::float64);
  CHECK(net.norm.num_batches_tracked.dtype() == DType::int64);
  CHECK(nn::parameters(net).size() == 4u);
  const Tensor result = net(images().to(DType::float64));
  CHECK(result.dtype() == DType::float64);
  CHECK(close(result, expected, tolerance::roundings32));
}

TEST_CASE("running statistics of a model of 16 bits are float32", "[nn][model]") {
  Net net = net_of(11);
  nn::cast(net, DType::bfloat16);
  CHECK(net.conv.weight.dtype() == DType::bfloat16);
  CHECK(net.norm.running_mean.dtype() == DType::float32);
  CHECK(net(images().to(DType::bfloat16)).dtype() == DType::bfloat16);
  nn::set_training(net, false);
  CHECK(net(images().to(DType::bfloat16)).dtype() == DType::bfloat16);
}
