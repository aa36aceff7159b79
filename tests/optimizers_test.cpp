// Every optimizer against its formula in plain numbers, and what they have in common: groups, rates, schedules, saved
// state, copies, row slices, threads, 16-bit parameters.
#include "tests/support.hpp"

#include <cmath>
#include <memory>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;
using Make = std::function<std::unique_ptr<optim::Optimizer>(Tensors)>;
/// The next p of one element at step t, from its gradient; `s` are four numbers of its own that begin with 0.
using Formula = std::function<double(int t, double g, double p, Numbers& s)>;

struct Row {
  const char* name;
  std::pair<Make, Make> make;  // the second lazy, empty if there is none
  Formula formula;             // empty if elements depend on each other
};

template <class O, class Options>
std::pair<Make, Make> maker(Options options) {
  const auto with = [](Options chosen) -> Make {
    return
        [chosen](Tensors p) -> std::unique_ptr<optim::Optimizer> { return std::make_unique<O>(std::move(p), chosen); };
  };
  std::pair<Make, Make> both = {with(options), Make()};
  if constexpr (requires { options.lazy; }) {
    options.lazy = true;
    both.second = with(options);
  }
  return both;
}

double sign(double x) { return (x > 0 ? 1.0 : 0.0) - (x < 0 ? 1.0 : 0.0); }

/// What is left of a running mean of ones that began with 0: 1 - beta^t.
double filled(double beta, int t) { return 1 - std::pow(beta, t); }

/// Mean and square of the family of Adam.
void average(double g, double beta1, double beta2, Numbers& s) {
  s[0] = beta1 * s[0] + (1 - beta1) * g;
  s[1] = beta2 * s[1] + (1 - beta2) * g * g;
}

double nadam(int t, double g, double p, Numbers& s) {
  const auto mu = [](int n) { return 0.8 * (1 - 0.5 * std::pow(0.96, n * 0.1)); };
  double product = 1;
  for (int n = 1; n <= t; ++n) product *= mu(n);
  average(g, 0.8, 0.95, s);
  const double root = std::sqrt(s[1] / filled(0.95, t)) + 1e-6;
  return p - 0.05 * (mu(t + 1) / (1 - product * mu(t + 1)) * s[0] + (1 - mu(t)) / (1 - product) * g) / root;
}

double radam(int t, double g, double p, Numbers& s) {
  average(g, 0.8, 0.95, s);
  const double limit = 2 / (1 - 0.95) - 1, length = limit - 2 * t * std::pow(0.95, t) / filled(0.95, t);
  const double mean = s[0] / filled(0.8, t);
  if (length <= 5) return p - 0.05 * mean;
  const double c = std::sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length));
  return p - 0.05 * c * mean * std::sqrt(filled(0.95, t)) / (std::sqrt(s[1]) + 1e-6);
}

double rprop(int t, double g, double p, Numbers& s) {  // s: the gradient before, the step
  if (t == 1) s[1] = 0.1;
  const double agreement = g * s[0];
  s[1] = std::fmin(std::fmax(s[1] * (agreement > 0 ? 1.3 : agreement < 0 ? 0.4 : 1), 0.02), 0.15);
  s[0] = agreement < 0 ? 0 : g;
  return p - sign(s[0]) * s[1];
}

double rms(bool centered, bool moves, double g, double p, Numbers& s) {  // s: square, mean, velocity
  s[0] = 0.9 * s[0] + 0.1 * g * g;
  s[1] = 0.9 * s[1] + 0.1 * g;
  const double change = g / (std::sqrt(s[0] - (centered ? s[1] * s[1] : 0)) + 1e-6);
  s[2] = 0.8 * s[2] + change;
  return p - 0.05 * (moves ? s[2] : change);
}

std::pair<Make, Make> rms_maker(bool centered, double momentum) {
  return maker<optim::RmsProp>(optim::RmsPropOptions{
      .learning_rate = 0.05, .alpha = 0.9, .epsilon = 1e-6, .momentum = momentum, .centered = centered});
}

std::vector<Row> descent_rows() {
  using namespace optim;
  return {
      {"Sgd", maker<Sgd>(SgdOptions{.learning_rate = 0.1}),
       [](int, double g, double p, Numbers&) { return p - 0.1 * g; }},
      {"Sgd that climbs", maker<Sgd>(SgdOptions{.learning_rate = 0.1, .weight_decay = 0.05, .maximize = true}),
       [](int, double g, double p, Numbers&) { return p - 0.1 * (-g + 0.05 * p); }},
      {"Sgd with momentum and dampening",
       maker<Sgd>(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.05}),
       [](int t, double gradient, double p, Numbers& s) {
         const double g = gradient + 0.05 * p;
         s[0] = t == 1 ? g : 0.9 * s[0] + 0.7 * g;
         return p - 0.1 * s[0];
       }},
      {"Sgd with Nesterov's momentum", maker<Sgd>(SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}),
       [](int, double g, double p, Numbers& s) {
         s[0] = 0.9 * s[0] + g;
         return p - 0.1 * (g + 0.9 * s[0]);
       }},
      {"Asgd", maker<Asgd>(AsgdOptions{.learning_rate = 0.1, .lambda = 0.2, .alpha = 0.6, .start = 3}),
       [](int t, double g, double p, Numbers&) {
         const double rate = 0.1 / std::pow(1 + 0.2 * 0.1 * (t - 1), 0.6);
         return (1 - 0.2 * rate) * p - rate * g;
       }},
      {"Lion", maker<Lion>(LionOptions{.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.3}),
       [](int, double g, double p, Numbers& s) {
         const double direction = sign(0.8 * s[0] + 0.2 * g);
         s[0] = 0.95 * s[0] + 0.05 * g;
         return p - 0.1 * 0.3 * p - 0.1 * direction;
       }},
      {"Rprop",
       maker<Rprop>(RpropOptions{.learning_rate = 0.1, .shrink = 0.4, .grow = 1.3, .smallest = 0.02, .largest = 0.15}),
       rprop},
      {"Adagrad",
       maker<Adagrad>(AdagradOptions{.learning_rate = 0.1, .learning_rate_decay = 0.2, .initial_accumulator = 0.3}),
       [](int t, double g, double p, Numbers& s) {
         s[0] = (t == 1 ? 0.3 : s[0]) + g * g;
         return p - 0.1 / (1 + 0.2 * (t - 1)) * g / (std::sqrt(s[0]) + 1e-10);
       }},
      {"Adadelta", maker<Adadelta>(AdadeltaOptions{.learning_rate = 0.5, .rho = 0.8, .epsilon = 1e-3}),
       [](int, double g, double p, Numbers& s) {
         s[0] = 0.8 * s[0] + 0.2 * g * g;
         const double change = std::sqrt((s[1] + 1e-3) / (s[0] + 1e-3)) * g;
         s[1] = 0.8 * s[1] + 0.2 * change * change;
         return p - 0.5 * change;
       }},
      {"RmsProp", rms_maker(false, 0), [](int, double g, double p, Numbers& s) { return rms(false, false, g, p, s); }},
      {"RmsProp with momentum", rms_maker(false, 0.8),
       [](int, double g, double p, Numbers& s) { return rms(false, true, g, p, s); }},
      {"RmsProp, centered", rms_maker(true, 0),
       [](int, double g, double p, Numbers& s) { return rms(true, false, g, p, s); }},
      {"RmsProp, centered, with momentum", rms_maker(true, 0.8),
       [](int, double g, double p, Numbers& s) { return rms(true, true, g, p, s); }},
  };
}

std::vector<Row> adam_rows() {
  using namespace optim;
  return {
      {"Adam with decay", maker<Adam>(AdamOptions{0.05, 0.8, 0.95, 1e-6, 0.1}),
       [](int t, double gradient, double p, Numbers& s) {
         average(gradient + 0.1 * p, 0.8, 0.95, s);
         return p - 0.05 * s[0] / filled(0.8, t) / (std::sqrt(s[1] / filled(0.95, t)) + 1e-6);
       }},
      {"Adam with the largest square", maker<Adam>(AdamOptions{0.05, 0.8, 0.95, 1e-6, 0, true}),
       [](int t, double g, double p, Numbers& s) {
         average(g, 0.8, 0.95, s);
         s[2] = std::fmax(s[2], s[1]);
         return p - 0.05 * s[0] / filled(0.8, t) / (std::sqrt(s[2] / filled(0.95, t)) + 1e-6);
       }},
      {"AdamW that climbs", maker<AdamW>(AdamWOptions{0.05, 0.8, 0.95, 1e-6, 0.4, false, true}),
       [](int t, double g, double p, Numbers& s) {
         average(-g, 0.8, 0.95, s);
         return p - 0.05 * 0.4 * p - 0.05 * s[0] / filled(0.8, t) / (std::sqrt(s[1] / filled(0.95, t)) + 1e-6);
       }},
      {"Adamax", maker<Adamax>(AdamaxOptions{0.05, 0.8, 0.95, 1e-6}),
       [](int t, double g, double p, Numbers& s) {
         s[0] = 0.8 * s[0] + 0.2 * g;
         s[1] = std::fmax(0.95 * s[1], std::fabs(g) + 1e-6);
         return p - 0.05 * s[0] / filled(0.8, t) / s[1];
       }},
      {"Nadam", maker<Nadam>(NadamOptions{0.05, 0.8, 0.95, 1e-6, 0, 0.1}), nadam},
      {"RAdam", maker<RAdam>(RAdamOptions{0.05, 0.8, 0.95, 1e-6}), radam},
      {"Lamb", maker<Lamb>(LambOptions{0.05, 0.8, 0.95, 1e-6, 0.1}), nullptr},
  };
}

std::vector<Row> rows() {
  std::vector<Row> all = descent_rows();
  for (Row& row : adam_rows()) all.push_back(std::move(row));
  return all;
}

/// Made-up gradients of a step.
Tensor gradient_of_step(int t, const Shape& shape, DType dtype = DType::float64) {
  return random_in(-2, 2, shape, dtype, 1000 + static_cast<std::uint64_t>(t));
}

bool same_bits_of(const Tensor& a, const Tensor& b) { return same_bits(values(a), values(b)); }

bool same_state(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  bool equal = a.size() == b.size();
  for (std::size_t i = 0; equal && i < a.size(); ++i)
    equal = a[i].name == b[i].name && a[i].value.dtype() == b[i].value.dtype() && same_bits_of(a[i].value, b[i].value);
  return equal;
}

}  // namespace

TEST_CASE("every optimizer follows its formula", "[optim]") {
  const std::int64_t count = 37;  // whole registers and a rest
  for (const Row& row : rows()) {
    if (!row.formula) continue;
    const Tensor p = random_in(-1, 1, {count}, DType::float64, 7);
    Numbers expected = values(p);
    std::vector<Numbers> memory(expected.size(), Numbers(4, 0.0));
    const auto optimizer = row.make.first({p});
    for (int t = 1; t <= 12; ++t) {
      INFO(row.name << ", step " << t);
      const Tensor g = gradient_of_step(t, {count});
      const Numbers gradients = values(g);
      optimizer->apply(Tensors{g});
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = row.formula(t, gradients[i], expected[i], memory[i]);
      CHECK(relative_error(values(p), expected) <= tolerance::roundings64);
    }
    CHECK(optimizer->steps() == 12);
  }
}

TEST_CASE("Lamb moves a parameter in proportion to its norm", "[optim]") {
  for (const std::int64_t count : {std::int64_t{5}, std::int64_t{10007}}) {  // within a block, and over several
    const Tensor p = random_in(-1, 1, {count}, DType::float64, 7);
    Numbers expected = values(p);
    std::vector<Numbers> memory(expected.size(), Numbers(4, 0.0));
    optim::Lamb lamb({p}, {.learning_rate = 0.05, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1});
    for (int t = 1; t <= 4; ++t) {
      const Tensor g = gradient_of_step(t, {count});
      const Numbers gradients = values(g);
      lamb.apply(Tensors{g});
      Numbers direction(expected.size());
      double parameter_square = 0, direction_square = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        average(gradients[i], 0.8, 0.95, memory[i]);
        direction[i] =
            memory[i][0] / filled(0.8, t) / (std::sqrt(memory[i][1] / filled(0.95, t)) + 1e-6) + 0.1 * expected[i];
        parameter_square += expected[i] * expected[i];
        direction_square += direction[i] * direction[i];
      }
      const double ratio = std::sqrt(parameter_square / direction_square);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] -= 0.05 * ratio * direction[i];
      CHECK(relative_error(values(p), expected) <= tolerance::roundings64);
    }
  }
  const Tensor zero = zeros({3}, {DType::float64});
  optim::Lamb lamb({zero}, {.learning_rate = 0.5, .epsilon = 0});
  lamb.apply(Tensors{Tensor{2.0, -3.0, 4.0}});
  CHECK(close(zero, {-0.5, 0.5, -0.5}, tolerance::roundings64));  // a norm of 0: the direction itself, g / |g|
}

TEST_CASE("Asgd averages the parameter from its start on", "[optim]") {
  const Tensor p = random_in(-1, 1, {5}, DType::float64, 7), before = p.copy();
  optim::Asgd asgd({p}, {.learning_rate = 0.1, .start = 2});
  CHECK(same(asgd.averages()[0], before));  // no step yet
  Numbers expected(5, 0.0);
  for (int t = 1; t <= 7; ++t) {
    asgd.apply(Tensors{gradient_of_step(t, {5})});
    const Numbers now = values(p);
    const double share = t <= 4 ? 1 : 1 / (t - 3.0);  // 1 / max(1, t - 1 - start)
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] += share * (now[i] - expected[i]);
    CHECK(relative_error(values(asgd.averages()[0]), expected) <= tolerance::roundings64);
  }
}

TEST_CASE("averages of rows that lazy steps leave out are the rows, and begin with them", "[optim][sparse]") {
  const Tensor table = random_in(-1, 1, {4, 3}, DType::float64, 7), before = table.copy();
  optim::Asgd asgd({table}, {.learning_rate = 0.1, .start = 0, .lazy = true});
  const auto step = [&](const std::vector<std::int64_t>& rows) {
    const auto count = static_cast<std::int64_t>(rows.size());
    const Tensor ones_of_rows = ones({count, 3}, {.dtype = DType::float64});
    asgd.apply(Tensors{from_row_slices({from_vector(rows, {count}), ones_of_rows}, {4, 3})});
  };
  step({0});
  step({0});
  step({0, 2});  // the share is 1/2 now
  const Tensor average = asgd.averages()[0];
  CHECK(same(average[1], before[1]));
  CHECK(same(average[3], before[3]));
  CHECK(close(average[2], (before[2] + table[2]) / 2, tolerance::roundings64));
}

TEST_CASE("an equal gradient at every step leaves a centered RmsProp finite", "[optim]") {
  const Tensor p = zeros({3});
  optim::RmsProp rms({p}, {.learning_rate = 1e-6, .alpha = 0.5, .centered = true});
  for (int t = 0; t < 60; ++t) rms.apply(Tensors{Tensor{0.1f, 3.0f, -7.0f}});  // the spread goes to 0
  CHECK(array_equal(isfinite(p), Tensor{true, true, true}));
}

TEST_CASE("parameters count their steps by themselves", "[optim]") {
  for (const Row& row : rows()) {
    INFO(row.name);
    const Tensor a = random_in(-1, 1, {4}, DType::float64, 7), b = a.copy(), alone = a.copy();
    const auto both = row.make.first({a, b}), one = row.make.first({alone});
    for (int t = 1; t <= 6; ++t) {
      const Tensor g = gradient_of_step(t, {4});
      both->apply(Tensors{g, t % 2 == 0 ? g : Tensor()});  // b sits out every second step
      if (t % 2 == 0) one->apply(Tensors{g});
    }
    CHECK(same_bits_of(b, alone));
    CHECK(both->steps() == 6);
  }
}

TEST_CASE("optimizers give the same for any number of threads", "[optim][threads]") {
  for (const Row& row : rows()) {
    INFO(row.name);
    Tensors results;
    for (const int count : {1, 2, 5}) {
      const ThreadCount threads_to_use(count);
      const Tensor p = random_in(-1, 1, {100003}, DType::float32, 7);
      const auto optimizer = row.make.first({p});
      for (int t = 1; t <= 3; ++t) optimizer->apply(Tensors{gradient_of_step(t, {100003}, DType::float32)});
      results.push_back(p);
    }
    CHECK(same_bits_of(results[0], results[1]));
    CHECK(same_bits_of(results[0], results[2]));
  }
}

TEST_CASE("parameters that share a step are stepped as each alone", "[optim][threads]") {
  const std::vector<std::int64_t> sizes = {0, 3, 4096, 0, 20000, 5, 4097, 1, 12288, 0};
  for (const Row& row : rows())
    for (const int count : {1, 2, 5}) {
      INFO(row.name << " with " << count << " threads");
      const ThreadCount threads_to_use(count);
      Tensors all, gradients;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const DType type = i % 3 == 2 ? DType::bfloat16 : DType::float32;
        all.push_back(random_in(-1, 1, {sizes[i]}, DType::float32, 7 + i).to(type).copy());
        gradients.push_back(gradient_of_step(1, {sizes[i]}, DType::float32).to(type));
      }
      Tensors alone;
      for (std::size_t i = 0; i < all.size(); ++i) {
        alone.push_back(all[i].copy());
        row.make.first({alone[i]})->apply(Tensors{gradients[i]});
      }
      row.make.first(all)->apply(gradients);
      for (std::size_t i = 0; i < all.size(); ++i) CHECK(same(all[i], alone[i]));
    }
}

TEST_CASE("16-bit parameters are computed with in float32 and rounded once", "[optim]") {
  for (const Row& row : rows())
    for (const DType half : {DType::bfloat16, DType::float16}) {
      INFO(row.name << " in " << name(half));
      const Tensor narrow = random_in(-1, 1, {37}, DType::float32, 7).to(half).copy();
      const Tensor wide = narrow.to(DType::float32).copy(), g = gradient_of_step(1, {37}, DType::float32).to(half);
      const auto small = row.make.first({narrow}), large = row.make.first({wide});
      small->apply(Tensors{g});
      large->apply(Tensors{g.to(DType::float32)});
      CHECK(same(narrow, wide.to(half)));
      CHECK(same_state(small->state(), large->state()));  // states are float32
    }
}

// --- groups, rates, schedules ----------------------------------------------------------------------------------

TEST_CASE("groups have options of their own", "[optim]") {
  const Tensor a = {1.0}, b = {1.0}, c = {1.0};
  using SgdGroup = optim::Group<optim::SgdOptions>;
  optim::Sgd sgd({SgdGroup{{a, b}, {.learning_rate = 0.5}}, SgdGroup{{c}, {.learning_rate = 0.25, .momentum = 0.5}}});
  CHECK(sgd.groups() == 2);
  REQUIRE(sgd.parameters().size() == 3);
  CHECK(sgd.parameters()[2].is_same(c));
  sgd.apply(Tensors{Tensor{1.0}, Tensor{2.0}, Tensor{1.0}});
  CHECK(same(a, {0.5}));
  CHECK(same(b, {0.0}));
  CHECK(same(c, {0.75}));
  sgd.apply(Tensors{Tensor(), Tensor(), Tensor{1.0}});
  CHECK(same(c, {0.375}));  // 0.75 - 0.25 * (0.5 * 1 + 1)
  CHECK(sgd.learning_rate() == 0.5);
  CHECK(sgd.learning_rate(1) == 0.25);
  sgd.set_learning_rate(0.125, 1);
  CHECK(sgd.options(1).learning_rate == 0.125);
  CHECK(sgd.options(0).learning_rate == 0.5);
  sgd.set_learning_rate(1);
  CHECK(sgd.learning_rate(0) == 1);
  CHECK(sgd.learning_rate(1) == 1);
}

TEST_CASE("a schedule sets the rate before each step", "[optim]") {
  const Tensor p = {8.0};
  optim::Sgd sgd({p});
  sgd.attach([](std::int64_t step) { return 4.0 / static_cast<double>(1 + step); });
  sgd.apply(Tensors{Tensor{1.0}});
  CHECK(same(p, {4.0}));  // 8 - 4
  sgd.apply(Tensors{Tensor{1.0}});
  CHECK(same(p, {2.0}));  // 4 - 4/2
  CHECK(sgd.learning_rate() == 2);
  sgd.attach(optim::Schedule());  // none from now on
  sgd.apply(Tensors{Tensor{0.5}});
  CHECK(same(p, {1.0}));  // 2 - 2 * 0.5
}

TEST_CASE("a schedule may belong to one group, and be held by the base", "[optim]") {
  const Tensor a = {1.0}, b = {1.0};
  using AdamGroup = optim::Group<optim::AdamOptions>;
  optim::Adam adam({AdamGroup{{a}, {.learning_rate = 0.5}}, AdamGroup{{b}, {.learning_rate = 0.5}}});
  optim::Optimizer& base = adam;
  base.attach([](std::int64_t) { return 0.0; }, 1);
  base.apply(Tensors{Tensor{1.0}, Tensor{1.0}});
  CHECK(close(a, {0.5}, 1e-7));
  CHECK(same(b, {1.0}));
  CHECK(std::string(base.name()) == "Adam");
}

TEST_CASE("a step that is refused leaves rates, counts and states as they were", "[optim]") {
  const Tensor p = {1.0}, q = {1.0};
  optim::Adam adam({p, q}, {.learning_rate = 0.5});
  adam.apply(Tensors{Tensor{1.0}, Tensor{1.0}});
  adam.attach([](std::int64_t) { return 0.25; });
  const auto before = adam.state();
  const Tensor p_before = p.copy();
  CHECK_THROWS_AS(adam.apply(Tensors{Tensor{1.0}, Tensor{1.0, 2.0}}), ShapeError);
  {
    GradientTape tape;  // follows q as a result: found when the rate is set already
    Tensor source = {1.0};
    tape.watch(source);
    const Tensor followed = source * 2;
    optim::Adam other({p, followed}, {.learning_rate = 0.5});
    other.attach([](std::int64_t) { return 0.25; });
    CHECK_THROWS_AS(other.apply(Tensors{Tensor{1.0}, Tensor{1.0}}), TapeError);
    CHECK(other.learning_rate() == 0.5);
    CHECK(other.steps() == 0);
  }
  CHECK(same(p, p_before));
  CHECK(same_state(adam.state(), before));
}

TEST_CASE("the first step of Rprop is the rate at that time", "[optim]") {
  const Tensor p = {1.0, 1.0};
  optim::Rprop rprop_optimizer({p});
  rprop_optimizer.set_learning_rate(0.25);
  rprop_optimizer.apply(Tensors{Tensor{3.0, -1e-3}});
  CHECK(same(p, {0.75, 1.25}));
}

// --- saved state and copies ------------------------------------------------------------------------------------

TEST_CASE("a restored optimizer goes on bit for bit", "[optim]") {
  for (const Row& row : rows()) {
    INFO(row.name);
    const Tensor p = random_in(-1, 1, {37}, DType::float64, 7), q = random_in(-1, 1, {2, 3}, DType::float64, 8);
    const Tensor rest = random_in(-1, 1, {2}, DType::float64, 9);  // never takes a step
    const auto optimizer = row.make.first({p, q, rest});
    const auto step = [](optim::Optimizer& o, int t) {
      o.apply(Tensors{gradient_of_step(t, {37}), t % 2 == 0 ? gradient_of_step(t, {2, 3}) : Tensor(), Tensor()});
    };
    for (int t = 1; t <= 7; ++t) step(*optimizer, t);
    optimizer->set_learning_rate(0.07);
    const auto saved = optimizer->state();
    const Tensor p2 = p.copy(), q2 = q.copy();
    for (int t = 8; t <= 10; ++t) step(*optimizer, t);  // does not change what was saved

    const auto restored = row.make.first({p2, q2, rest.copy()});
    restored->load_state(saved);
    CHECK(restored->steps() == 7);
    CHECK(restored->learning_rate() == 0.07);
    CHECK(same_state(restored->state(), saved));
    for (int t = 8; t <= 10; ++t) step(*restored, t);
    CHECK(same_bits_of(p, p2));
    CHECK(same_bits_of(q, q2));
    CHECK(same_state(restored->state(), optimizer->state()));
  }
}

TEST_CASE("the entries of a state may come in any order", "[optim]") {
  const Tensor a = random_in(-1, 1, {4}, DType::float64, 7), b = a.copy();
  optim::Nadam used({a, b}), fresh({a.copy(), b.copy()});
  for (int t = 1; t <= 3; ++t) used.apply(Tensors{gradient_of_step(t, {4}), gradient_of_step(t + 3, {4})});
  const std::vector<NamedTensor> saved = used.state();
  fresh.load_state(std::vector<NamedTensor>(saved.rbegin(), saved.rend()));
  CHECK(same_state(fresh.state(), saved));
}

TEST_CASE("a product of momenta that is 0, as without any, is restored", "[optim]") {
  const Tensor a = {1.0, 2.0};
  optim::Nadam nadam_optimizer({a}, {.beta1 = 0}), fresh({a.copy()}, {.beta1 = 0});
  nadam_optimizer.apply(Tensors{Tensor{1.0, 1.0}});
  const std::vector<NamedTensor> saved = nadam_optimizer.state();
  CHECK(saved[3].name == "0.momentum_product");
  CHECK(number(saved[3].value) == 0);
  fresh.load_state(saved);
  CHECK(same_state(fresh.state(), saved));
}

TEST_CASE("states have stable names", "[optim]") {
  const auto names = [](const optim::Optimizer& optimizer) {
    std::vector<std::string> list;
    for (const NamedTensor& entry : optimizer.state()) list.push_back(entry.name);
    return list;
  };
  using List = std::vector<std::string>;
  const Tensor a = {1.0}, b = {1.0};
  optim::Adam adam({a, b}, {.amsgrad = true});
  CHECK(names(adam) == List{"step", "group.0.learning_rate", "0.step", "1.step"});
  adam.apply(Tensors{Tensor(), Tensor{1.0}});
  CHECK(names(adam) ==
        List{"step", "group.0.learning_rate", "0.step", "1.step", "1.mean", "1.square", "1.largest_square"});
  optim::Nadam nadam_optimizer({a});
  nadam_optimizer.apply(Tensors{Tensor{1.0}});
  CHECK(names(nadam_optimizer) ==
        List{"step", "group.0.learning_rate", "0.step", "0.momentum_product", "0.mean", "0.square"});
  optim::RmsProp rms_optimizer({a}, {.momentum = 0.9, .centered = true});
  rms_optimizer.apply(Tensors{Tensor{1.0}});
  CHECK(names(rms_optimizer) == List{"step", "group.0.learning_rate", "0.step", "0.square", "0.mean", "0.velocity"});
}

namespace {

template <class O>
void check_copies(const O& empty, O other) {
  O original = empty;
  const Tensor p = original.parameters()[0];
  original.apply(Tensors{gradient_of_step(1, {4})});
  original.apply(Tensors{gradient_of_step(2, {4})});
  const auto state = original.state();
  const Tensor before = p.copy();
  O copy = original;
  copy.apply(Tensors{gradient_of_step(3, {4})});
  CHECK(same_state(original.state(), state));  // its own is as it was
  CHECK(copy.steps() == 3);
  const Tensor after = p.copy();
  Tensor handle = p;
  handle.assign(before);
  other = original;  // for parameters of another shape before
  CHECK(same_state(other.state(), state));
  other.apply(Tensors{gradient_of_step(3, {4})});
  CHECK(same_bits_of(p, after));
  CHECK(same_state(other.state(), copy.state()));
  CHECK(same_state(original.state(), state));
  const O moved = std::move(original);
  CHECK(same_state(moved.state(), state));
}

}  // namespace

TEST_CASE("copies of an optimizer have a state of their own", "[optim]") {
  const auto p = [] { return random_in(-1, 1, {4}, DType::float64, 7); };
  const Tensor other = random_in(-1, 1, {2, 3}, DType::float64, 8);
  check_copies(optim::Sgd({p()}, {.momentum = 0.9}), optim::Sgd({other}, {.momentum = 0.9}));
  optim::Adam used({other});
  used.apply(Tensors{gradient_of_step(9, {2, 3})});
  check_copies(optim::Adam({p()}), used);
  check_copies(optim::Nadam({p()}), optim::Nadam({other}));
  check_copies(optim::Lbfgs({p()}), optim::Lbfgs({other}));
}

// --- row slices ------------------------------------------------------------------------------------------------

namespace {

const Shape table_shape = {40, 3};

/// Three rows of a gradient for the table; `whole` with zeros around them.
Tensor rows_of_step(int t, const Tensor& indices, bool whole) {
  const Tensor slices = gradient_of_step(t, {indices.numel(), 3});
  if (!whole) return from_row_slices({indices, slices}, table_shape);
  Tensor gradient = zeros(table_shape, {DType::float64});
  gradient.index_put({indices}, slices);
  return gradient;
}

}  // namespace

TEST_CASE("row slices do what the whole gradient does, for every optimizer", "[optim][sparse]") {
  for (const Row& row : rows()) {
    INFO(row.name);
    const Tensor a = random_in(-1, 1, table_shape, DType::float64, 7), b = a.copy();
    const auto sliced = row.make.first({a}), whole = row.make.first({b});
    for (int t = 1; t <= 6; ++t) {
      const Tensor indices = t % 2 == 0 ? arange(3, 40, 12) : arange(0, 40, 20);
      const Tensor g = rows_of_step(t, indices, false);
      sliced->apply(Tensors{g});
      CHECK(has_row_slices(g));  // not filled in
      whole->apply(Tensors{rows_of_step(t, indices, true)});
    }
    CHECK(same_bits_of(a, b));
    CHECK(same_state(sliced->state(), whole->state()));
  }
}

TEST_CASE("lazy optimizers treat the rows of a gradient as a table of their own", "[optim][sparse]") {
  int lazy = 0;
  for (const Row& row : rows()) {
    if (!row.make.second) continue;
    ++lazy;
    INFO(row.name);
    const Tensor table = random_in(-1, 1, table_shape, DType::float64, 7), before = table.copy();
    const Tensor indices = arange(3, 40, 12), part = gather(table, indices).copy();
    const auto optimizer = row.make.second({table}), of_part = row.make.first({part});
    for (int t = 1; t <= 4; ++t) {
      optimizer->apply(Tensors{rows_of_step(t, indices, false)});
      of_part->apply(Tensors{gradient_of_step(t, {indices.numel(), 3})});
    }
    CHECK(same_bits_of(gather(table, indices), part));
    for (int i = 0; i < 40; ++i) CHECK(array_equal(table[i], before[i]) == (i % 12 != 3));
  }
  CHECK(lazy == 19);  // all but Lamb
}
