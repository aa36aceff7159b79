// Bad input to what is done with whole models: the right exception, word for word, and nothing changed.
#include "tests/support.hpp"

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_model_test.cpp";
const std::string misfit = "load_state: the state does not fit the model: ";

struct Two {
  nn::Linear first{2, 3}, second{3, 1};
};

using State = std::vector<NamedTensor>;

// Classes with a constructor, whose fields nobody can see.
struct Block {
  explicit Block(std::int64_t n) : layer(n, n) {}
  Tensor operator()(const Tensor& x) const { return layer(x); }
  nn::Linear layer;
};
struct Decoder {
  explicit Decoder(std::int64_t n) : layer(n, n) {}
  Tensor operator()(const Tensor& x, const Tensor& memory) const { return layer(x) + memory; }
  nn::Linear layer;
};
struct Cell {
  struct State {
    Tensor h;
  };
  explicit Cell(std::int64_t n) : layer(n, n) {}
  std::pair<Tensor, State> operator()(const Tensor& x, const State& s) const { return {layer(x) + s.h, s}; }
  nn::Linear layer;
};
struct Encoder {  // as PyTorch's modules are called
  explicit Encoder(std::int64_t n) : layer(n, n) {}
  Tensor forward(const Tensor& x) const { return layer(x); }
  nn::Linear layer;
};
struct Relay {  // no model, whatever it forwards
  explicit Relay(std::size_t n) : items(n) {}
  auto forward(const auto& parcel) const { return parcel.weight(); }
  std::vector<std::string> items;
};
struct Number {  // no model
  explicit Number(int n) : number(n) {}
  int number;
};
template <class T>
constexpr bool hidden() { return nn::detail::kHidesModel<T>; }
static_assert(hidden<Block>() && hidden<std::vector<Block>>() && hidden<std::array<Block, 2>>());
static_assert(hidden<std::map<std::string, Block>>() && hidden<std::vector<std::optional<Block>>>());
static_assert(hidden<std::vector<std::unique_ptr<Block>>>() && hidden<std::vector<std::vector<Block>>>());
static_assert(hidden<Decoder>() && hidden<std::vector<Decoder>>() && hidden<Cell>() && hidden<std::vector<Cell>>());
static_assert(hidden<Encoder>() && hidden<std::vector<Encoder>>() && !hidden<Relay>());
static_assert(!hidden<Two>() && !hidden<std::vector<Two>>());
static_assert(!hidden<nn::Linear>() && !hidden<std::vector<nn::Lstm>>());
static_assert(!hidden<Number>() && !hidden<std::vector<Number>>() && !hidden<std::vector<double>>());
static_assert(!hidden<std::vector<std::function<Tensor(const Tensor&)>>>() && !hidden<std::vector<Block*>>());
static_assert(!hidden<std::vector<Callback<Tensor(const Tensor&)>>>() && !hidden<std::span<Block>>());
static_assert(!hidden<std::function<Tensor(const Tensor&, const Tensor&)>>());

/// A state with an entry in place of the one that has its name, or behind the others.
State with(State state, const NamedTensor& entry) {
  for (NamedTensor& other : state)
    if (other.name == entry.name) {
      other = entry;
      return state;
    }
  state.push_back(entry);
  return state;
}

}  // namespace

TEST_CASE("a state that does not fit is refused as a whole, with everything that is wrong", "[errors][nn]") {
  Two model, other;
  const State good = nn::named_state(other);
  State less = good, twice = good;
  less.pop_back();
  twice.push_back(good[0]);
  const State more = with(good, {"third.bias", zeros({1})});
  const State narrow = with(good, {"first.weight", zeros({2, 2})});
  const State wide = with(good, {"first.bias", zeros({3}, {.dtype = DType::float64})});
  const State undefined = with(good, {"first.bias", Tensor()});
  std::vector<std::uint32_t> versions;
  for (const NamedTensor& entry : nn::named_state(model)) versions.push_back(entry.value.version());
  const State all = with(with(less, {"third.bias", zeros({1})}), {"first.weight", zeros({2, 2})});
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, less); }, misfit + "missing: second.bias."},
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, more); }, misfit + "unexpected: third.bias."},
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, twice); }, misfit + "given twice: first.weight."},
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, undefined); }, misfit + "undefined: first.bias."},
      {__LINE__, message_of<ShapeError>, [&] { nn::load_state(model, narrow); }, misfit + "of another shape: first.weight is [2, 2] and must be [2, 3]."},
      {__LINE__, message_of<ShapeError>, [&] { nn::load_state(model, narrow, {.strict = false}); }, misfit + "of another shape: first.weight is [2, 2] and must be [2, 3]."},
      {__LINE__, message_of<DTypeError>, [&] { nn::load_state(model, wide); }, misfit + "of another type: first.bias is float64 and must be float32."},
      {__LINE__, message_of<ShapeError>, [&] { nn::load_state(model, all); }, misfit + "missing: second.bias; unexpected: third.bias; of another shape: first.weight is [2, 2] and must be [2, 3]."},
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, {}); }, misfit + "missing: first.weight, first.bias, second.weight, second.bias."},
  }, file);
  const State after = nn::named_state(model);
  for (std::size_t i = 0; i < after.size(); ++i) CHECK(after[i].value.version() == versions[i]);
}

TEST_CASE("long lists of names are cut", "[errors][nn]") {
  struct Many {
    std::vector<Parameter> list = std::vector<Parameter>(8, Parameter(1.0f));
  } model;
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::load_state(model, {}); }, misfit + "missing: list.0, list.1, list.2, list.3, list.4 and 3 more."},
  }, file);
}

TEST_CASE("networks with other names are no target of each other", "[errors][nn]") {
  Two model;
  nn::Linear layer(2, 3);
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::copy_parameters(layer, model); }, "copy_parameters: the state does not fit the model: missing: first.weight, first.bias, second.weight, second.bias; unexpected: weight, bias."},
  }, file);
}

TEST_CASE("a name that no parameter has is not frozen silently", "[errors][nn]") {
  Two model;
  nn::Linear layer(1, 1);
  nn::Dropout none;
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::freeze(model, "frist"); }, "freeze: no parameter is named \"frist\" or lies in it; the model has first.weight, first.bias, second.weight and 1 more."},
      {__LINE__, message_of<Error>, [&] { nn::freeze(model, "firs"); }, "freeze: no parameter is named \"firs\" or lies in it; the model has first.weight, first.bias, second.weight and 1 more."},
      {__LINE__, message_of<Error>, [&] { nn::unfreeze(layer, "w"); }, "unfreeze: no parameter is named \"w\" or lies in it; the model has weight, bias."},
      {__LINE__, message_of<Error>, [&] { nn::unfreeze(none, "keep"); }, "unfreeze: no parameter is named \"keep\" or lies in it; the model has no parameters."},
  }, file);
  CHECK(nn::parameters(model).size() == 4u);
}

TEST_CASE("a model has a floating type, and what is const keeps its own", "[errors][nn]") {
  Two model;
  struct Half {
    nn::Linear own{1, 1};
    std::shared_ptr<const nn::Linear> other = std::make_shared<nn::Linear>(1, 1);
  } half;
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { nn::cast(model, DType::int32); }, "cast: the type int32 was asked for; it must be a floating type."},
      {__LINE__, message_of<Error>, [&] { nn::cast(half, DType::float64); }, "cast: other.weight is held as const; it cannot be replaced."},
  }, file);
  CHECK(model.first.weight.dtype() == DType::float32);
  CHECK(half.own.weight.dtype() == DType::float32);
  CHECK(nn::named_parameters(half).size() == 4u);
}

TEST_CASE("a part that is held as const cannot be told of training", "[errors][nn]") {
  struct Net {
    nn::Dropout free{{.keep = 0.5}};
    const nn::Dropout held{{.keep = 0.5}};
  } net;
  struct Outer {  // at whose place the held one is
    const nn::Dropout held{{.keep = 0.5}};
    nn::Linear layer{2, 2};
    void set_training(bool) {}
  } outer;
  struct Plain {
    nn::Linear layer{2, 3};
  };
  const nn::Dropout dropout({.keep = 0.5});
  check_errors({
      {__LINE__, message_of<Error>, [&] { nn::set_training(net, false); }, "set_training: held is held as const; it cannot be changed."},
      {__LINE__, message_of<Error>, [&] { nn::set_training(outer, false); }, "set_training: held is held as const; it cannot be changed."},
      {__LINE__, message_of<Error>, [&] { nn::set_training(dropout, false); }, "set_training: the model is held as const; it cannot be changed."},
  }, file);
  CHECK_FALSE(array_equal(net.free(ones({1000})), ones({1000})));  // nothing was changed
  const Plain plain;
  CHECK_NOTHROW(nn::set_training(plain, false));  // nothing to be told
  struct Both {
    std::shared_ptr<nn::Dropout> own;
    std::shared_ptr<const nn::Dropout> view;
  };
  const auto shared = std::make_shared<nn::Dropout>(nn::DropoutOptions{.keep = 0.5});
  Both both{shared, shared};
  CHECK_NOTHROW(nn::set_training(both, false));  // another way leads there
  CHECK(array_equal((*both.view)(ones({1000})), ones({1000})));
}

TEST_CASE("a model stays where it is if the device is not there", "[errors][nn]") {
  if (cuda_available()) return;
  Two model;
  const Tensor handle = model.second.bias;
  CHECK_THROWS_AS(nn::move_to(model, cuda()), DeviceError);
  CHECK(model.second.bias.is_same(handle));
}

TEST_CASE("an observer needs a function", "[errors][debug]") {
  check_errors({
      {__LINE__, message_of<Error>, [&] { const debug::Observer observer(Callback<void(const debug::Operation&)>{}); }, "Observer: the function is empty; give it one that can be called."},
  }, file);
}

TEST_CASE("what a summarized model throws comes out as it is, and buffers and random numbers are as before", "[errors][nn]") {
  struct Model {
    nn::BatchNorm2d norm{{.channels = 2}};
    nn::Dropout drop;
    nn::Linear fc{3, 1};
    Tensor operator()(const Tensor& x) { return fc(drop(norm(x))); }
  } model;
  const Tensor x = ones({2, 2, 2, 2});
  seed(3);
  const RngState before = default_rng().state();
  CHECK_THROWS_WITH(nn::summary(model, x), Catch::Matchers::ContainsSubstring("linear: inner sizes differ"));
  CHECK(default_rng().state() == before);
  CHECK(same(model.norm.running_mean, zeros({2})));
  CHECK(same(model.norm.running_var, ones({2})));
  CHECK(model.norm.num_batches_tracked.item<std::int64_t>() == 0);
}
