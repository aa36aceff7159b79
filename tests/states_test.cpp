// States of cells, looked into by reflection: their tensors in order, mapped, gathered, repeated, cut off from tapes.
#include <array>
#include <memory>
#include <optional>
#include <tuple>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

struct Low {
  Tensor h, c;
};

/// Every way in which a state may hold tensors, and fields that are none of them.
struct Deep {
  Low low;
  std::vector<Low> many;
  std::array<Tensor, 2> two;
  std::pair<Tensor, Low> pair;
  std::tuple<Tensor, int> mixed;
  std::optional<Tensor> maybe, none;
  int step = 0;
  std::string title;
  std::shared_ptr<Low> elsewhere;  // not the state's own
};

/// A class that lists its fields.
class Listed {
 public:
  Listed(Tensor h, int step) : h_(std::move(h)), step_(step) {}
  int step() const { return step_; }
  CAPSTAN_FIELDS(h_, step_);

 private:
  Tensor h_;
  int step_;
};

/// [2, 1] with the values n and n + 0.5.
Tensor rows(double n) { return from_doubles({n, n + 0.5}, {2, 1}); }

Deep deep_state() {
  return {.low = {rows(0), rows(1)},
          .many = {{rows(2), rows(3)}, {rows(4), rows(5)}},
          .two = {rows(6), rows(7)},
          .pair = {rows(8), {rows(9), rows(10)}},
          .mixed = {rows(11), 77},
          .maybe = rows(12),
          .none = std::nullopt,
          .step = 3,
          .title = "greedy",
          .elsewhere = std::make_shared<Low>(Low{rows(50), rows(51)})};
}

template <class State>
std::vector<double> firsts(const State& state) {
  std::vector<double> list;
  for (const Tensor* tensor : nn::detail::state_tensors(state)) list.push_back(values(*tensor).at(0));
  return list;
}

}  // namespace

TEST_CASE("the tensors of a state come in the order of its fields, however deep", "[nn][states]") {
  const Deep state = deep_state();
  CHECK(firsts(state) == std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  std::vector<std::string> names;
  for (const NamedTensor& tensor : nn::detail::named_tensors(state)) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"low.h", "low.c", "many.0.h", "many.0.c", "many.1.h", "many.1.c", "two.0",
                                          "two.1", "pair.0", "pair.1.h", "pair.1.c", "mixed.0", "maybe"});
  const std::vector<Low> list = {{rows(1), rows(2)}};
  CHECK(firsts(list) == std::vector<double>{1, 2});
  CHECK(firsts(rows(4)) == std::vector<double>{4});
  CHECK(firsts(Listed(rows(5), 2)) == std::vector<double>{5});
}

TEST_CASE("the tensors of a state can be replaced in place", "[nn][states]") {
  Low state{rows(1), rows(2)};
  for (Tensor* tensor : nn::detail::state_tensors(state)) *tensor = *tensor + 10;
  CHECK(firsts(state) == std::vector<double>{11, 12});
}

TEST_CASE("map_state changes every tensor of a copy and nothing else", "[nn][states]") {
  const Deep state = deep_state();
  const Deep mapped = nn::map_state(state, [](const Tensor& t) { return t * 2; });
  CHECK(firsts(mapped) == std::vector<double>{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24});
  CHECK(firsts(state)[12] == 12);
  CHECK(mapped.step == 3);
  CHECK(mapped.title == "greedy");
  CHECK(std::get<1>(mapped.mixed) == 77);
  CHECK_FALSE(mapped.none.has_value());
  CHECK(mapped.elsewhere == state.elsewhere);
  CHECK(firsts(*state.elsewhere) == std::vector<double>{50, 51});
  CHECK(nn::map_state(Listed(rows(5), 2), [](const Tensor& t) { return t * 2; }).step() == 2);
}

TEST_CASE("what is undefined in a state stays so", "[nn][states]") {
  const Low state{rows(1), Tensor()};
  CHECK_FALSE(nn::map_state(state, [](const Tensor& t) { return t * 2; }).c.defined());
  CHECK_FALSE(nn::gather_state(state, Tensor{1}).c.defined());
  CHECK_FALSE(nn::repeat_state(state, 2).c.defined());
  CHECK_FALSE(stop_gradient(state).c.defined());
  CHECK(nn::detail::state_tensors(state).size() == 2u);
}

TEST_CASE("gather_state takes rows of every tensor, also several times", "[nn][states][errors]") {
  const Low state{{{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}, Tensor{7, 8, 9}};
  const Low chosen = nn::gather_state(state, Tensor{2, 0, 2, 1});
  CHECK(same(chosen.h, {{5.0, 6.0}, {1.0, 2.0}, {5.0, 6.0}, {3.0, 4.0}}));
  CHECK(same(chosen.c, {9, 7, 9, 8}));
  const Low counted = nn::gather_state(Low{state.h, Tensor(4.0)}, Tensor{1});
  CHECK(same(counted.c, Tensor(4.0)));  // without axes it belongs to no row
  CHECK_THROWS_AS(nn::gather_state(state, Tensor{3}), IndexError);
}

TEST_CASE("repeat_state puts the copies of a row behind each other", "[nn][states]") {
  const Low state{{{1.0, 2.0}, {3.0, 4.0}}, Tensor(4.0)};
  const Low repeated = nn::repeat_state(state, 3);
  CHECK(same(repeated.h, {{1.0, 2.0}, {1.0, 2.0}, {1.0, 2.0}, {3.0, 4.0}, {3.0, 4.0}, {3.0, 4.0}}));
  CHECK(same(repeated.c, Tensor(4.0)));
  CHECK_THROWS_AS(nn::repeat_state(state, -1), ShapeError);
}

TEST_CASE("gradients flow through gathered and repeated states and not through stopped ones", "[nn][states]") {
  const Tensor x = {1.0, 2.0, 3.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Low state{x * x, x * 2};
  const Low chosen = nn::gather_state(state, Tensor{2, 2});
  CHECK(same(tape.gradient(sum(chosen.h) + sum(chosen.c), x), {0.0, 0.0, 16.0}));  // 2 * (2 x + 2)
  const Low repeated = nn::repeat_state(state, 2);
  CHECK(same(tape.gradient(sum(repeated.h), x), {4.0, 8.0, 12.0}));
  const Low stopped = stop_gradient(state);
  CHECK(same(stopped.h, {1.0, 4.0, 9.0}));
  CHECK_FALSE(tape.follows(stopped.h));
  CHECK_FALSE(tape.follows(stopped.c));
  CHECK(same(tape.gradient(sum(stopped.h * x), x), {1.0, 4.0, 9.0}));
}

TEST_CASE("stop_gradient takes tensors, parameters, and lists and tuples of states", "[nn][states]") {
  const Parameter p(Tensor{1.0, 2.0});
  static_assert(std::is_same_v<decltype(stop_gradient(p)), Tensor>);
  GradientTape tape;
  const Tensor y = p * 2;
  CHECK_FALSE(tape.follows(stop_gradient(y)));
  for (const Tensor& t : stop_gradient(std::vector<Tensor>{y, y * 2})) CHECK_FALSE(tape.follows(t));
  const auto [one, list] = stop_gradient(std::pair<Tensor, std::vector<Low>>{y, {{y, y}}});
  CHECK_FALSE(tape.follows(one));
  CHECK_FALSE(tape.follows(list.at(0).c));
  CHECK(same(list.at(0).c, {2.0, 4.0}));
  CHECK(tape.follows(y));
}
