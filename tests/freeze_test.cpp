// What a plan is besides its values: its memory, its states, its independence of the network, threads.
#include <array>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include "tests/plans.hpp"

using namespace capstan;
using namespace tests;

namespace {

struct Mlp {
  nn::Linear hidden{4, 16}, out{16, 3};
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

/// The results of a plan for numbers of a seed, copied.
Tensors run_for(Plan& plan, std::uint64_t seed) {
  refill(plan, seed);
  plan.run();
  Tensors copies;
  for (const Tensor& x : plan.outputs()) copies.push_back(x.copy());
  return copies;
}

/// A plan of one number in and one out, run for each of a list.
std::vector<float> run_through(Plan& plan, const std::vector<float>& list) {
  std::vector<float> results;
  for (const float x : list) {
    plan.input<float>()[0] = x;
    plan.run();
    results.push_back(plan.output<float>()[0]);
  }
  return results;
}

std::vector<float> numbers(const Tensor& x) { return x.to_vector<float>(); }

}  // namespace

// --- what goes in and what comes out -----------------------------------------------------------------------------

TEST_CASE("inputs and outputs of a plan stay where they are", "[freeze][host]") {
  Plan plan = freeze([](const Tensor& x) { return x * 2 + 1; }, {{2, 3}});
  const std::span<float> in = plan.input<float>();
  const std::span<const float> out = plan.output<float>();
  REQUIRE(in.size() == 6u);
  REQUIRE(out.size() == 6u);
  for (const float x : in) CHECK(x == 0);
  for (int run = 1; run < 4; ++run) {
    for (float& x : in) x = static_cast<float>(run);
    plan.run();
    CHECK(plan.input<float>().data() == in.data());
    CHECK(plan.output<float>().data() == out.data());
    for (const float x : in) CHECK(x == static_cast<float>(run));
    for (const float x : out) CHECK(x == static_cast<float>(2 * run + 1));
  }
  CHECK(plan.inputs()[0].shape() == Shape({2, 3}));
  CHECK(plan.outputs()[0].data<float>() == out.data());
  plan.run();
  CHECK(out[0] == 7);  // what was written stays
}

TEST_CASE("a plan has as many inputs and outputs as its network", "[freeze][host]") {
  const auto mixed = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return std::pair(gather(a, b), std::tuple(a + c, std::vector<Tensor>{c, Tensor()}, std::array<Tensor, 1>{a * 2}));
  };
  Plan plan = freeze(mixed, {{4, 2}, {{3}, DType::int64}, {{}, DType::float32}});
  REQUIRE(plan.inputs().size() == 3u);
  REQUIRE(plan.outputs().size() == 4u);  // what is undefined is left out
  const std::span<float> a = plan.input<float>(0);
  for (std::size_t i = 0; i < 8; ++i) a[i] = static_cast<float>(i);
  const std::span<std::int64_t> b = plan.input<std::int64_t>(1);
  b[0] = 3, b[1] = 0, b[2] = 1;
  plan.input<float>(2)[0] = 10;
  plan.run();
  CHECK(numbers(plan.outputs()[0]) == std::vector<float>{6, 7, 0, 1, 2, 3});
  CHECK(numbers(plan.outputs()[1]) == std::vector<float>{10, 11, 12, 13, 14, 15, 16, 17});
  CHECK(plan.output<float>(2)[0] == 10);
  CHECK(plan.output<float>(3)[7] == 14);
}

TEST_CASE("results may be the input, views of it, and constants", "[freeze][host]") {
  const Tensor constant{{1.0f, 2.0f}};
  const auto net = [&](const Tensor& x) {
    return Tensors{x, x[1], transpose(x), constant, constant[0], broadcast_to(sum(constant), {2})};
  };
  CHECK(plan_agrees(net, {{2, 3}}));
}

TEST_CASE("an example gives an input its first values", "[freeze][host]") {
  const Tensor example = random_in(-1, 1, {3, 4}, DType::float64, 5);
  Plan plan = freeze([](const Tensor& x) { return x * 3; }, {strided(example)});
  CHECK(same(plan.inputs()[0], example));
  plan.run();
  CHECK(same(plan.outputs()[0], example * 3));
  CHECK_FALSE(plan.inputs()[0].shares_storage(example));
}

TEST_CASE("a batch may have no rows", "[freeze][host]") {
  const Mlp net;
  Plan plan = freeze(net, {{0, 4}});
  plan.run();
  CHECK(plan.input<float>().empty());
  CHECK(plan.outputs()[0].shape() == Shape({0, 3}));
}

// --- what a plan costs -------------------------------------------------------------------------------------------

TEST_CASE("what does not depend on the inputs is computed once", "[freeze][host]") {
  const Tensor w = random_in(-1, 1, {100}, DType::float32, 6);
  const Plan plan = freeze([&](const Tensor& x) { return x + exp(tanh(w) * 2) * linspace(0, 1, 100); }, {{100}});
  CHECK(plan.operations() == 1u);
  const Plan none = freeze([&](const Tensor&) { return exp(w); }, {{1}});
  CHECK(none.operations() == 0u);
  CHECK(close(none.outputs()[0], exp(w), 0));
}

TEST_CASE("what lies between inputs and results shares its memory", "[freeze][host]") {
  constexpr std::int64_t kSize = 10'000, kBytes = kSize * 4;
  const auto chain = [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = tanh(y) + 0.5f;
    return y;
  };
  const Plan plan = freeze(chain, {{kSize}});
  CHECK(plan.operations() >= 50u);
  CHECK(plan.bytes() >= 2 * kBytes);
  CHECK(plan.bytes() < 6 * kBytes);
  CHECK(plan_agrees(chain, {{kSize}}));
}

TEST_CASE("runs of a plan take no memory, and a plan gives its memory back", "[freeze][host][memory]") {
  nn::Lstm lstm({.inputs = 8, .hidden = 64, .layers = 2});
  const auto net = [&](const Tensor& x) { return lstm(x).outputs; };
  { const Plan first = freeze(net, {{2, 30, 8}}); }
  const memory::Stats before = memory::stats();
  {
    Plan plan = freeze(net, {{2, 30, 8}});
    const memory::Stats made = memory::stats();
    for (int i = 0; i < 20; ++i) plan.run();
    CHECK(memory::stats().in_use == made.in_use);
    CHECK(memory::stats().system_allocations == made.system_allocations);
  }
  CHECK(memory::stats().in_use == before.in_use);
}

// --- independence ------------------------------------------------------------------------------------------------

TEST_CASE("a plan outlives its network", "[freeze][host]") {
  std::optional<Plan> plan;
  Tensor expected;
  const Tensor x = random_in(-1, 1, {5, 4}, DType::float32, 7);
  {
    const Mlp net;
    plan = freeze(net, {{5, 4}});
    expected = net(x);
  }
  const Tensors others = {full({4, 16}, 1e6f), full({16}, 1e6f), full({16, 3}, 1e6f)};  // where its weights were
  Tensor(plan->inputs()[0]).assign(x);
  plan->run();
  CHECK(close(plan->outputs()[0], expected, tolerance::roundings32));
}

TEST_CASE("training a network does not change its plan", "[freeze][host]") {
  Mlp net;
  Plan plan = freeze(net, {{5, 4}});
  const Tensor before = run_for(plan, 8)[0];
  optim::Sgd sgd(nn::parameters(net), {.learning_rate = 1});
  {
    GradientTape tape;
    const Tensor loss = mean(square(net(ones({5, 4}))));
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  net.hidden.bias.fill(100);
  CHECK(same(run_for(plan, 8)[0], before));
}

TEST_CASE("a plan that was moved goes on", "[freeze][host]") {
  auto net = [total = zeros({1})](const Tensor& x) mutable { return total += x; };
  Plan first = freeze(net, {{1}});
  CHECK(run_through(first, {1, 2}) == std::vector<float>{1, 3});
  const float* const place = first.output<float>().data();
  Plan second = std::move(first);
  CHECK(second.output<float>().data() == place);
  CHECK(run_through(second, {3}) == std::vector<float>{6});
  Plan third = freeze([](const Tensor& x) { return -x; }, {{1}});
  third = std::move(second);
  CHECK(run_through(third, {4}) == std::vector<float>{10});
}

TEST_CASE("plans of one network are independent", "[freeze][host]") {
  const nn::GruCell cell(1, 4);
  Plan a = capstan::freeze(cell, {{1, 1}}), b = capstan::freeze(cell, {{1, 1}});
  const Tensor first = run_for(a, 1)[0];
  run_for(a, 2);
  CHECK(same(run_for(b, 1)[0], first));
  a.reset();
  CHECK(same(run_for(a, 1)[0], first));
}

TEST_CASE("a plan runs on any thread, and different plans at once", "[freeze][host][threads]") {
  const Mlp net;
  Plan here = freeze(net, {{5, 4}});
  const Tensor expected = run_for(here, 3)[0];
  std::vector<Plan> plans;
  for (int i = 0; i < 3; ++i) plans.push_back(freeze(net, {{5, 4}}));
  std::vector<Tensor> results(plans.size());
  std::vector<std::thread> threads_of;
  for (std::size_t i = 0; i < plans.size(); ++i)
    threads_of.emplace_back([&, i] {
      for (std::uint64_t seed = 1; seed < 4; ++seed) results[i] = run_for(plans[i], seed)[0];
    });
  for (std::thread& each : threads_of) each.join();
  for (const Tensor& result : results) CHECK(same(result, expected));
  std::optional<Plan> there;
  std::thread([&] { there = freeze(net, {{5, 4}}); }).join();
  CHECK(same(run_for(*there, 3)[0], expected));
}

TEST_CASE("the number of threads does not change what a plan gives", "[freeze][host][threads]") {
  const auto net = [](const Tensor& x) { return Tensors{softmax(x), sum(x, 0), sort(x)}; };
  for (const int count : {1, 2}) {
    const ThreadCount threads_now(count);
    CHECK(plan_agrees(net, {{300, 400}}));
  }
}

TEST_CASE("a tape sees nothing of freezing and of runs", "[freeze][host]") {
  const Mlp net;
  GradientTape tape;
  const Tensor loss = mean(net(ones({5, 4})));
  const std::int64_t recorded = tape.size();
  Plan plan = freeze(net, {{5, 4}});
  run_for(plan, 1);
  CHECK(tape.size() == recorded);
  CHECK(tape.gradient(loss, Tensor(net.out.bias)).defined());
}

// --- states ------------------------------------------------------------------------------------------------------

namespace {

/// A tensor of the network's own, written in place.
struct Counter {
  Tensor count = zeros({1}), mean = zeros({1});
  Tensor operator()(const Tensor& x) {
    count += 1;
    mean.assign(mean + (x - mean) / count);
    return mean * 1;
  }
};

struct Pair {
  Tensor a, b;
};

/// Cells of two states that take each other's place, or follow each other.
template <class Next>
struct PairCell {
  using State = Pair;
  Next next;
  std::pair<Tensor, State> operator()(const Tensor& x, const State& before) const { return next(x, before); }
  State zero_state(std::int64_t batch) const { return {zeros({batch, 1}), ones({batch, 1})}; }
};
template <class Next>
PairCell(Next) -> PairCell<Next>;

}  // namespace

TEST_CASE("what a network writes in place to its own tensors is a state of the plan", "[freeze][host]") {
  Counter net;
  Plan plan = freeze(net, {{1}});
  CHECK(number(net.count) == 0);  // as before
  CHECK(number(net.mean) == 0);
  for (int round = 0; round < 2; ++round) {
    CHECK(run_through(plan, {4, 8, 3}) == std::vector<float>{4, 6, 5});
    plan.reset();
  }
  CHECK(number(net.count) == 0);
  net.count.fill(99);
  CHECK(run_through(plan, {4, 8}) == std::vector<float>{4, 6});
}

TEST_CASE("a part of a tensor that is written in place is a state, too", "[freeze][host]") {
  Tensor line = zeros({4});  // a delay of four, written in a circle by moving it up
  const auto net = [&](const Tensor& x) {
    const Tensor last = line.index({range(3, 4)}).copy(), rest = line.index({range(0, 3)}).copy();
    line.index_put({range(1, 4)}, rest);
    line.index_put({range(0, 1)}, x);
    return last;
  };
  Plan plan = freeze(net, {{1}});
  CHECK(run_through(plan, {1, 2, 3, 4, 5, 6}) == std::vector<float>{0, 0, 0, 0, 1, 2});
  CHECK(numbers(line) == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("states begin with the values that the network's tensors had", "[freeze][host]") {
  Counter net;
  net(full({1}, 6.0f));
  Plan plan = freeze(net, {{1}});
  CHECK(run_through(plan, {2}) == std::vector<float>{4});
  plan.reset();
  CHECK(run_through(plan, {0}) == std::vector<float>{3});
  CHECK(number(net.mean) == 6);
}

TEST_CASE("when freezing fails, what the network wrote in place is as before", "[freeze][host]") {
  Tensor count = zeros({1}), kept;
  const auto net = [&](const Tensor& x) {
    count += x + 1;
    kept = x * 2;
    return count * 1;
  };
  CHECK_THROWS_AS(freeze(net, {{1}}), Error);
  CHECK(number(count) == 0);
}

TEST_CASE("states that change places are moved at once", "[freeze][host]") {
  const PairCell swap{[](const Tensor& x, const Pair& s) { return std::pair(x + s.a, Pair{s.b, s.a}); }};
  Plan swapped = freeze(swap, {{1, 1}});
  CHECK(run_through(swapped, {0, 0, 0, 10}) == std::vector<float>{0, 1, 0, 11});
  const PairCell delay{[](const Tensor& x, const Pair& s) { return std::pair(s.b * 1, Pair{x, s.a}); }};
  Plan delayed = freeze(delay, {{1, 1}});
  CHECK(run_through(delayed, {5, 6, 7, 8}) == std::vector<float>{1, 0, 5, 6});
}

TEST_CASE("a result may be a state, before or after the step", "[freeze][host]") {
  const PairCell before{[](const Tensor& x, const Pair& s) { return std::pair(s.b, Pair{x * 2, s.a}); }};
  Plan first = freeze(before, {{1, 1}});
  CHECK(run_through(first, {5, 6, 7, 8}) == std::vector<float>{1, 0, 10, 12});
  const PairCell view{[](const Tensor& x, const Pair& s) { return std::pair(s.b[0], Pair{x, s.a}); }};
  Plan second = freeze(view, {{1, 1}});
  CHECK(run_through(second, {5, 6, 7, 8}) == std::vector<float>{1, 0, 5, 6});
  const PairCell after{[](const Tensor& x, const Pair& s) {
    const Tensor sum_of_all = s.a + x;
    return std::pair(sum_of_all, Pair{sum_of_all, s.b});
  }};
  Plan third = freeze(after, {{1, 1}});
  CHECK(run_through(third, {5, 6, 7}) == std::vector<float>{5, 11, 18});
}

TEST_CASE("states may be the same in every step", "[freeze][host]") {
  const PairCell same_one{[](const Tensor& x, const Pair& s) {
    return std::pair(x + s.b, Pair{ones({1, 1}) * 3, s.b});
  }};
  Plan plan = freeze(same_one, {{1, 1}});
  CHECK(run_through(plan, {5, 6}) == std::vector<float>{6, 7});
}

// --- indices that go astray --------------------------------------------------------------------------------------

TEST_CASE("an index out of range ends a run, and the next one is right again", "[freeze][host]") {
  const nn::Embedding words(5, 2);
  const unsigned line = __LINE__ + 1;
  const auto net = [&](const Tensor& i) { return words(i) * 2; };
  Plan plan = freeze(net, {{{3}, DType::int64}});
  const std::span<std::int64_t> indices = plan.input<std::int64_t>();
  for (int round = 0; round < 2; ++round) {
    indices[0] = 4, indices[1] = 5, indices[2] = 0;
    const Message message = split_message(message_of<IndexError>([&] { plan.run(); }));
    CHECK(message.text == "Plan::run: index 5 at place 1 is out of range, of what the network does here.");
    CHECK(message.file == "freeze_test.cpp");
    CHECK(message.line == line);
    indices[1] = 1;
    plan.run();
    CHECK(same(plan.outputs()[0], words(plan.inputs()[0]) * 2));
  }
}

TEST_CASE("indices out of range end a run whatever they are for", "[freeze][host]") {
  const Tensor table = ones({4, 2});
  const auto check = [](auto net, const std::vector<PlanInput>& inputs) {
    Plan plan = freeze(net, inputs);
    plan.run();
    Tensor indices = plan.inputs().back();
    indices.fill(7);
    CHECK_THROWS_AS(plan.run(), IndexError);
    indices.fill(1);
    plan.reset();
    plan.run();
    CHECK(agree(plan.outputs()[0], results_of(net, plan.inputs())[0], 0));
  };
  const PlanInput labels({3}, DType::int64);
  check([&](const Tensor& i) { return embedding(i, table); }, {labels});
  check([](const Tensor& x, const Tensor& i) { return sparse_softmax_cross_entropy(x, i); }, {{3, 4}, labels});
  check([](const Tensor& x, const Tensor& i) { return segment_sum(x, i, 4); }, {{3, 2}, labels});
  check([](const Tensor& x, const Tensor& i) { return index_add(zeros({4, 2}), {i}, x); }, {{3, 2}, labels});
}

TEST_CASE("a cell may write in place to the state it is given", "[freeze][host]") {
  struct Counter {
    struct State {
      Tensor total;
    };
    std::pair<Tensor, State> operator()(const Tensor& x, const State& before) const {
      Tensor total = before.total;
      total += x;
      return {total, {total}};
    }
    State zero_state(std::int64_t batch) const { return {zeros({batch, 1})}; }
  };
  Plan plan = freeze(Counter(), {{1, 1}});
  CHECK(run_through(plan, {1, 2, 3}) == std::vector<float>{1, 3, 6});
  plan.reset();
  CHECK(run_through(plan, {5}) == std::vector<float>{5});
}

TEST_CASE("a change of the number of threads and of caches between runs changes nothing", "[freeze][host]") {
  const auto net = [](const Tensor& x) { return softmax(matmul(x, transpose(x)) * 0.1, -1); };
  Plan plan = freeze(net, {{64, 64}});
  refill(plan, 3);
  plan.run();
  const Tensor first = plan.outputs()[0].copy();
  const int before = threads();
  set_threads(7);
  memory::release_cache(cpu());
  plan.run();
  set_threads(before);
  CHECK(same(plan.outputs()[0], first));
}
