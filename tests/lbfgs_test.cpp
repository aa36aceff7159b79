// Lbfgs: its recursion in plain numbers, line searches, exceptions on the way, saved state.
#include "tests/support.hpp"

#include <cmath>
#include <stdexcept>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;

double dot_of(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The two loops of Nocedal and Wright's algorithm 7.4, without a line search.
struct PlainLbfgs {
  double rate;
  std::size_t history;
  std::vector<std::pair<Numbers, Numbers>> pairs = {};  // change, difference
  Numbers direction = {}, gradient = {};
  double length = 0, scale = 1;

  void step(Numbers& p, const Numbers& g) {
    double size = 0;
    for (const double x : g) size += std::fabs(x);
    const double next = gradient.empty() ? rate * std::fmin(1, 1 / size) : rate;
    if (!gradient.empty()) remember(g);
    Numbers q(g.size()), weights(pairs.size());
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = -g[i];
    for (std::size_t k = pairs.size(); k-- > 0;) {
      weights[k] = dot_of(pairs[k].first, q) / dot_of(pairs[k].first, pairs[k].second);
      for (std::size_t i = 0; i < q.size(); ++i) q[i] -= weights[k] * pairs[k].second[i];
    }
    for (double& x : q) x *= scale;
    for (std::size_t k = 0; k < pairs.size(); ++k) {
      const double weight = dot_of(pairs[k].second, q) / dot_of(pairs[k].first, pairs[k].second);
      for (std::size_t i = 0; i < q.size(); ++i) q[i] += (weights[k] - weight) * pairs[k].first[i];
    }
    direction = q;
    gradient = g;
    length = next;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] += length * q[i];
  }

  void remember(const Numbers& g) {
    Numbers change(g.size()), difference(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) change[i] = length * direction[i], difference[i] = g[i] - gradient[i];
    if (dot_of(change, difference) <= 1e-10) return;
    if (pairs.size() == history) pairs.erase(pairs.begin());
    pairs.emplace_back(change, difference);
    scale = dot_of(change, difference) / dot_of(difference, difference);
  }
};

/// sum(c * x^2 / 2 + x^4 / 10) with c = 1, 2, ..., 5
Numbers slope_at(const Numbers& x) {
  Numbers g(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) g[i] = static_cast<double>(i + 1) * x[i] + 0.4 * x[i] * x[i] * x[i];
  return g;
}
Tensor loss_at(const Tensor& x) { return sum(from_vector(Numbers{0.5, 1, 1.5, 2, 2.5}) * square(x) + 0.1 * pow(x, 4)); }

Tensor rosenbrock(const Tensor& p) { return square(1 - p[0]) + 100 * square(p[1] - square(p[0])); }

/// The function that Lbfgs is to minimize, for a loss of one parameter.
template <class Loss>
optim::Lbfgs::Function function_of(const Tensor& p, Loss loss) {
  return [p, loss]() {
    GradientTape tape;
    tape.watch(p);
    const Tensor value = loss(p);
    return optim::Evaluation{value, {tape.gradient(value, p)}};
  };
}

}  // namespace

TEST_CASE("Lbfgs follows the recursion over its history", "[optim][lbfgs]") {
  for (const std::int64_t history : {1, 3, 100}) {
    const Tensor p = random_in(-1, 1, {5}, DType::float64, 7);
    Numbers expected = values(p);
    PlainLbfgs plain{0.8, static_cast<std::size_t>(history)};
    optim::Lbfgs lbfgs({p}, {.learning_rate = 0.8, .history = history});
    for (int t = 0; t < 7; ++t) {
      INFO("history " << history << ", step " << t);
      lbfgs.apply(Tensors{from_vector(slope_at(values(p)))});
      plain.step(expected, slope_at(expected));
      CHECK(close(p, from_vector(expected), 1e-9));
    }
    CHECK(lbfgs.iterations() == 7);
    CHECK(lbfgs.steps() == 7);
  }
}

TEST_CASE("a step of n iterations is n steps of one", "[optim][lbfgs]") {
  const Tensor p = random_in(-1, 1, {5}, DType::float64, 7), q = p.copy();
  const Tensor first = loss_at(p);
  optim::Lbfgs whole({p}, {.learning_rate = 0.5, .max_iterations = 6}), single({q}, {.learning_rate = 0.5});
  CHECK(same(whole.minimize(function_of(p, &loss_at)), first));  // the loss where it began
  for (int t = 0; t < 6; ++t) single.apply(Tensors{from_vector(slope_at(values(q)))});
  CHECK(close(p, q, 1e-9));
  CHECK(whole.steps() == 1);
  CHECK(whole.iterations() == 6);
  CHECK(whole.evaluations() == 6);  // none behind the last iteration
}

TEST_CASE("Lbfgs with a line search finds the end of Rosenbrock's valley", "[optim][lbfgs]") {
  const Tensor p = {-1.2, 1.0};
  optim::Lbfgs lbfgs({p}, {.line_search = optim::LineSearch::strong_wolfe});
  const Tensor first = lbfgs.minimize(function_of(p, &rosenbrock));
  CHECK(number(first) == Approx(24.2));   // (1 + 1.2)^2 + 100 * (1 - 1.44)^2
  CHECK(lbfgs.evaluations() <= 25 + 25);  // 5/4 of 20 iterations, and a search that was under way
  lbfgs.minimize(function_of(p, &rosenbrock));
  CHECK(close(p, {1.0, 1.0}, 1e-4));
  CHECK(number(rosenbrock(p)) < 1e-8);
  CHECK(lbfgs.evaluations() < 60);
}

TEST_CASE("a line search never ends higher than it began", "[optim][lbfgs]") {
  const Tensor p = random_in(-2, 2, {2}, DType::float64, 11);
  optim::Lbfgs lbfgs({p}, {.learning_rate = 100,
                           .max_iterations = 1,
                           .max_evaluations = 30,
                           .line_search = optim::LineSearch::strong_wolfe});
  double before = number(rosenbrock(p));
  for (int t = 0; t < 15; ++t) {
    lbfgs.minimize(function_of(p, &rosenbrock));
    const double after = number(rosenbrock(p));
    CHECK(after <= before);
    before = after;
  }
}

TEST_CASE("Lbfgs joins parameters of all shapes and floating types", "[optim][lbfgs]") {
  Parameter a(random_in(-1, 1, {2, 3}, DType::float64, 1)), b(random_in(-1, 1, {}, DType::float32, 2)),
      c(zeros({0, 2})), unused(ones({2}));
  optim::Lbfgs lbfgs({a, b, c, unused}, {.line_search = optim::LineSearch::strong_wolfe});
  for (int step = 0; step < 3; ++step)
    lbfgs.minimize([&] {
      GradientTape tape;
      const Tensor loss = sum(square(a - 3)) + square(b.to(DType::float64) + 2) + sum(c).to(DType::float64);
      return optim::Evaluation{loss, tape.gradient(loss, lbfgs.parameters())};
    });
  CHECK(close(a, full({2, 3}, 3, {DType::float64}), 1e-6));
  CHECK(close(b, Tensor(-2.0f), 1e-6));
  CHECK(same(unused, ones({2})));
}

TEST_CASE("Lbfgs stops where the gradient is nothing", "[optim][lbfgs]") {
  const Tensor p = zeros({5}, {DType::float64});
  optim::Lbfgs lbfgs({p});
  lbfgs.minimize(function_of(p, &loss_at));
  lbfgs.apply(Tensors{zeros({5}, {DType::float64})});
  lbfgs.apply(Tensors{Tensor()});
  CHECK(same(p, zeros({5}, {DType::float64})));
  CHECK(lbfgs.iterations() == 0);
  CHECK(lbfgs.evaluations() == 1);
  CHECK(lbfgs.steps() == 3);
}

TEST_CASE("a function that throws leaves parameters and memory as they were", "[optim][lbfgs]") {
  for (const auto search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe}) {
    const Tensor p = random_in(-1, 1, {5}, DType::float64, 7);
    optim::Lbfgs lbfgs({p}, {.max_iterations = 4, .line_search = search});
    lbfgs.minimize(function_of(p, &loss_at));
    const Tensor before = p.copy();
    const std::int64_t iterations = lbfgs.iterations(), evaluations = lbfgs.evaluations();
    int calls = 0;
    lbfgs.attach([](std::int64_t) { return 0.25; });
    const auto failing = [&]() -> optim::Evaluation {
      if (++calls == 3) throw std::runtime_error("enough");
      return function_of(p, &loss_at)();
    };
    CHECK_THROWS_AS(lbfgs.minimize(failing), std::runtime_error);
    CHECK(calls == 3);
    CHECK(same(p, before));
    CHECK(lbfgs.iterations() == iterations);
    CHECK(lbfgs.evaluations() == evaluations);
    CHECK(lbfgs.steps() == 1);
    CHECK(lbfgs.learning_rate() == 1);
  }
}

TEST_CASE("an observer that throws leaves the parameters as they were", "[optim][lbfgs]") {
  const Tensor p = random_in(-1, 1, {5}, DType::float64, 7), before = p.copy();
  optim::Lbfgs lbfgs({p});
  {
    debug::Observer observer([](const debug::Operation& operation) {  // throws when they are put back, too
      if (std::string(operation.name) == "assign") throw std::runtime_error("enough");
    });
    CHECK_THROWS_AS(lbfgs.minimize(function_of(p, &loss_at)), std::runtime_error);
  }
  CHECK(same(p, before));
  CHECK(lbfgs.iterations() == 0);
}

TEST_CASE("Lbfgs may be told to go on until it arrives", "[optim][lbfgs]") {
  const Tensor p = random_in(-1, 1, {5}, DType::float64, 7);
  optim::Lbfgs lbfgs({p}, {.max_iterations = INT64_MAX, .line_search = optim::LineSearch::strong_wolfe});
  lbfgs.minimize(function_of(p, &loss_at));
  CHECK(number(max(abs(p))) < 1e-3);
}

TEST_CASE("a restored Lbfgs goes on bit for bit", "[optim][lbfgs]") {
  const Tensor p = random_in(-1, 1, {5}, DType::float64, 7);
  const optim::LbfgsOptions options{
      .max_iterations = 3, .max_evaluations = 30, .history = 2, .line_search = optim::LineSearch::strong_wolfe};
  optim::Lbfgs lbfgs({p}, options);
  lbfgs.minimize(function_of(p, &loss_at));
  lbfgs.minimize(function_of(p, &loss_at));
  const auto saved = lbfgs.state();
  const Tensor q = p.copy();
  lbfgs.minimize(function_of(p, &loss_at));
  optim::Lbfgs restored({q}, options);
  restored.load_state(saved);
  CHECK(restored.iterations() == 6);
  restored.minimize(function_of(q, &loss_at));
  CHECK(same_bits(values(p), values(q)));
  CHECK(restored.steps() == 3);
  CHECK(restored.evaluations() == lbfgs.evaluations());
}
