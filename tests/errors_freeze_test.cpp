// What cannot be frozen: the right exception, word for word, with the line of the network, and nothing leaked.
#include <memory>
#include <span>
#include <sstream>
#include <string>

#include "tests/plans.hpp"

using namespace capstan;
using namespace tests;

// A row's __LINE__ must stand on the line of its call.
// clang-format off

namespace {

const std::string file = "errors_freeze_test.cpp";
const std::string on_host =
    " depend on the inputs of the plan that is being made, or on a state; a network that reads them on the host cannot "
    "be frozen.";
const std::string random_numbers =
    "freeze: an operation here draws random numbers, which a plan would repeat; call nn::set_training(net, false) first.";
const std::string no_shape =
    "freeze: an operation here makes a result whose shape depends on values; a plan has fixed shapes.";
const std::string one_for_each =
    "; give a shape for each of its inputs, for a cell that of x alone, [batch, ...].";

/// That nothing is left of what failed.
void check_that_all_works() { CHECK(plan_agrees([](const Tensor& x) { return x * 2 + 1; }, {{3}})); }

/// A cell whose next state is what a function says.
template <class State_, class Next>
struct OddCell {
  using State = State_;
  Next next;
  State zero_state(std::int64_t batch) const { return {{zeros({batch, 2})}}; }
  std::pair<Tensor, State> operator()(const Tensor& x, const State& before) const { return {x * 1, next(before)}; }
};
struct One {
  Tensor h;
};
struct Counted {
  Tensor h;
  std::string names{};
  std::int64_t count = 0;
  double best = kNaN;
};
struct Many {
  std::vector<Tensor> h;
};
template <class State, class Next>
OddCell<State, Next> odd_cell(Next next) { return {next}; }

}  // namespace

TEST_CASE("a network that is frozen cannot read what depends on its inputs", "[errors][freeze][host]") {
  const nn::Lstm lstm({.inputs = 2, .hidden = 3});
  check_errors({
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x * sum(x).item<float>(); }, {{3}}); },
       "item: the values of []" + on_host},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x * (x + 1).at<float>(0); }, {{3}}); },
       "at: the values of [3]" + on_host},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x * x.to_vector<float>()[0]; }, {{3}}); },
       "to_vector: the values of [3]" + on_host},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x * x.span<float>()[0]; }, {{3}}); },
       "span: the values of [3]" + on_host},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x * *x.data<float>(); }, {{3}}); },
       "data: the values of [3]" + on_host},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x, const Tensor& n) { return lstm(x, {.lengths = n}).outputs; }, {{1, 4, 2}, {{1}, DType::int64}}); },
       "to_vector: the values of [1]" + on_host},
  }, file);
  check_that_all_works();
}

TEST_CASE("a network that is frozen cannot print what depends on its inputs", "[errors][freeze][host]") {
  std::string text;
  std::ostringstream out;
  check_errors({
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { text = to_string(x + 1); return x; }, {{3}}); },
       "to_string: the values of [3]" + on_host},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { text = (x + 1).describe(); return x; }, {{3}}); },
       "describe: the values of [3]" + on_host},
      // where the last operation was
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { const Tensor y = x + 1;
       out << y; return x; }, {{3}}); }, "to_string: the values of [3]" + on_host},
  }, file);
  CHECK(text.empty());
  check_that_all_works();
}

TEST_CASE("a network that is frozen may read its constants", "[freeze][host]") {
  const Tensor w{2.0f, 3.0f, 4.0f};
  std::string text;
  const auto net = [&](const Tensor& x) {
    const Tensor own = w * 2;
    text = to_string(own) + w.describe();
    return x * own.at<float>(1) + x * sum(own).item<float>() + own.to_vector<float>()[2] + own.span<float>()[0];
  };
  CHECK(plan_agrees(net, {{3}}));
  CHECK_FALSE(text.empty());
}

TEST_CASE("what cannot be repeated cannot be frozen", "[errors][freeze][host]") {
  const nn::Dropout drop({.keep = 0.5});
  Rng rng(1);
  optim::Sgd sgd({full({2}, 1.0f)}, {.learning_rate = 0.5});
  check_errors({
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return nonzero(x); }, {{3}}); }, no_shape},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return x.index({x > 0.0f}); }, {{3}}); }, no_shape},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return masked_select(x, x > 0.0f); }, {{3}}); }, no_shape},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return unique(x); }, {{3}}); }, no_shape},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { return drop(x); }, {{3}}); }, random_numbers},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { return x + uniform({3}, 0, 1, rng); }, {{3}}); }, random_numbers},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { return x + normal({3}, rng); }, {{3}}); }, random_numbers},
      {__LINE__, message_of<Error>, [] { freeze([](const Tensor& x) { return solve(x, x); }, {{2, 2}}); },
       "freeze: an operation here is computed by LAPACK, which takes memory and locks; a plan may not."},
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { sgd.apply(std::vector<Tensor>{ones({2})}); return x; }, {{3}}); },
       "freeze: an operation here belongs to training; a plan is for inference."},
  }, file);
  CHECK(values(sgd.parameters()[0]) == std::vector<double>{1, 1});
  check_that_all_works();
}

TEST_CASE("a network that is frozen keeps nothing that depends on its inputs", "[errors][freeze][host]") {
  Tensor last;
  check_errors({
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { last = x * 2; return last + 1; }, {{3}}); },
       "freeze: a tensor [3] that depends on the inputs is kept by the network; runs of a plan would not change it. "
       "Assign it to a tensor that was there before."},
  }, file);
  check_that_all_works();
}

TEST_CASE("results and inputs that a network keeps by their handles are refused", "[errors][freeze][host]") {
  Tensor last = zeros({3});
  const auto recurrent = [&](const Tensor& x) { return last = tanh(last + x); };
  const auto delayed = [&](const Tensor& x) {
    const Tensor y = x - last;
    last = x;
    return y;
  };
  const auto row = [&](const Tensor& x) {
    last = x[0];
    return x * 2;
  };
  CHECK(message_of<Error>([&] { freeze(recurrent, {{3}}); }).find("is kept by the network") != std::string::npos);
  last = zeros({3});
  CHECK(message_of<Error>([&] { freeze(delayed, {{3}}); }).find("is kept by the network") != std::string::npos);
  CHECK(message_of<Error>([&] { freeze(row, {{3, 2}}); }).find("is kept by the network") != std::string::npos);
}

TEST_CASE("a state that the host reads before it is written cannot be frozen", "[errors][freeze][host]") {
  Tensor position = zeros({}, {DType::int64}), ring = zeros({4});
  const auto net = [&](const Tensor& x) {
    ring.index_put({position.item<std::int64_t>()}, x);
    position += 1;
    return ring * 1.0;
  };
  CHECK(message_of<Error>([&] { freeze(net, {PlanInput(Shape())}); }).find("item: the values of []" + on_host) !=
        std::string::npos);
  CHECK(position.item<std::int64_t>() == 0);
  CHECK(values(ring) == std::vector<double>{0, 0, 0, 0});
}

TEST_CASE("a network that is frozen cannot write on the host what would not be repeated", "[errors][freeze][host]") {
  const auto write = [](const Tensor& x) {
    Tensor c = zeros({3});
    c.mutable_span<float>()[0] = 5;
    return c + x;
  };
  const auto borrow = [](const Tensor& x) {
    float own[3] = {1, 2, 3};
    return from_memory(own, {3}) + x;
  };
  const auto run = [plan = std::make_shared<Plan>(freeze([](const Tensor& x) { return x * 2; }, {{3}}))](const Tensor& x) {
    plan->run();
    return x + plan->outputs()[0];
  };
  const auto slice = [rows = zeros({2}, {.dtype = DType::int64})](const Tensor& x) {
    return from_row_slices({rows, x}, {10, 3}) * 2;
  };
  CHECK(message_of<Error>([&] { freeze(slice, {{2, 3}}); }).find("from_row_slices: a plan cannot repeat") == 0);
  CHECK(message_of<Error>([&] { freeze(write, {{3}}); }).find("mutable_data: a network that is frozen") == 0);
  CHECK(message_of<Error>([&] { freeze(borrow, {{3}}); }).find("from_memory: a plan cannot keep") == 0);
  CHECK(message_of<Error>([&] { freeze(run, {{3}}); }).find("Plan::run: a network that is frozen") == 0);
}

TEST_CASE("a plan has as many inputs as its network takes", "[errors][freeze][host]") {
  const auto net = [](const Tensor& x) { return x; };
  const nn::GruCell cell(2, 3);
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { freeze(net, {{1, 2}, {3}}); },
       "freeze: the network cannot be called with 2 tensors" + one_for_each},
      {__LINE__, message_of<ShapeError>, [&] { freeze(net, {}); },
       "freeze: the network cannot be called with 0 tensors" + one_for_each},
      {__LINE__, message_of<ShapeError>, [&] { freeze(net, std::vector<PlanInput>(9, {2, 2})); },
       "freeze: the network cannot be called with 9 tensors" + one_for_each},
      {__LINE__, message_of<ShapeError>, [&] { capstan::freeze(cell, {{1, 2}, {1, 3}}); },
       "freeze: the network cannot be called with 2 tensors" + one_for_each},
      {__LINE__, message_of<ShapeError>, [&] { capstan::freeze(cell, {PlanInput(Shape())}); },
       "freeze: the network cannot be called with 1 tensor" + one_for_each},
  }, file);
  check_that_all_works();
}

TEST_CASE("a network cannot be frozen within another", "[errors][freeze][host]") {
  const auto net = [](const Tensor& x) { return x * 2; };
  check_errors({
      {__LINE__, message_of<Error>, [&] { freeze([&](const Tensor& x) { freeze(net, {{2}}); return x; }, {{3}}); },
       "freeze: this thread is making a plan already; a network cannot make one while it is frozen."},
  }, file);
  check_that_all_works();
}

TEST_CASE("states keep their number, shapes and types", "[errors][freeze][host]") {
  const auto longer = odd_cell<One>([](const One& s) { return One{concat({s.h, s.h})}; });
  const auto wider = odd_cell<One>([](const One& s) { return One{s.h.to(DType::float64)}; });
  const auto none = odd_cell<Many>([](const Many&) { return Many{}; });
  const std::string first = "freeze: tensor 0 of the next state is ";
  const std::string as_before = "; it must have the shape and type of that of the state before.";
  check_errors({
      {__LINE__, message_of<ShapeError>, [&] { freeze(longer, {{1, 2}}); },
       first + "[2, 2] float32" + as_before},
      {__LINE__, message_of<ShapeError>, [&] { freeze(wider, {{1, 2}}); },
       first + "[1, 2] float64" + as_before},
      {__LINE__, message_of<ShapeError>, [&] { freeze(none, {{1, 2}}); },
       "freeze: the next state has 0 tensors and the state before 1; they must have the same."},
  }, file);
  check_that_all_works();
}

TEST_CASE("numbers that a state holds beside tensors must stay as they are", "[errors][freeze][host]") {
  const auto counting = odd_cell<Counted>([](const Counted& s) { return Counted{s.h, s.names, s.count + 1}; });
  const auto naming = odd_cell<Counted>([](const Counted& s) { return Counted{s.h, {"b"}, s.count}; });
  const std::string refused =
      "freeze: a step changes what the cell's state holds beside tensors; runs of a plan would not. Keep such a number "
      "in a tensor.";
  check_errors({
      {__LINE__, message_of<Error>, [&] { freeze(counting, {{1, 2}}); }, refused},
      {__LINE__, message_of<Error>, [&] { freeze(naming, {{1, 2}}); }, refused},
  }, file);
  const auto keeping = odd_cell<Counted>([](const Counted& s) { return Counted{s.h * 2, s.names, s.count, s.best}; });
  CHECK_NOTHROW(freeze(keeping, {{1, 2}}));
  check_that_all_works();
}

TEST_CASE("spans of a plan have the type and number that was asked for, or there is an error", "[errors][freeze][host]") {
  Plan plan = freeze([](const Tensor& x) { return x.to(DType::int64); }, {{3}});
  const Plan& fixed = plan;
  const std::string asked = " was asked for; ask for the type it holds, or convert it with x.to(dtype).";
  check_errors({
      {__LINE__, message_of<DTypeError>, [&] { plan.input<double>(); }, "span: the tensor holds float32 and float64" + asked},
      {__LINE__, message_of<DTypeError>, [&] { fixed.output<float>(); }, "span: the tensor holds int64 and float32" + asked},
      {__LINE__, message_of<IndexError>, [&] { plan.input<float>(1); }, "Plan::input: number 1 was asked for; the plan has 1."},
      {__LINE__, message_of<IndexError>, [&] { fixed.output<float>(7); }, "Plan::output: number 7 was asked for; the plan has 1."},
  }, file);
}
