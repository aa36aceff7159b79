// Optimizers: their formulas step by step, missing gradients, options that change, handles, states that fade; and the
// published fits.
#include "tests/support.hpp"

#include <cmath>

using namespace capstan;
using namespace tests;

namespace {

using Numbers = std::vector<double>;
using Tensors = std::vector<Tensor>;

/// Made-up gradients of step t, the same for the optimizer and the formula.
Numbers gradient_of_step(int t) { return {0.5 - 0.1 * t, -2.0 + 0.3 * t, 1e-3 * t, 4.0}; }
const Numbers start = {1.0, -2.0, 0.5, 3.0};

Tensor tensor(const Numbers& list) { return from_vector(list); }

/// Five steps of an optimizer beside five of its formula; `formula(i, gradient, p)` gives the next p of element i.
template <class Optimizer, class Formula>
void check_formula(Optimizer optimizer, Formula formula) {
  Numbers expected = start;
  for (int t = 1; t <= 5; ++t) {
    const Numbers g = gradient_of_step(t);
    optimizer.apply(Tensors{tensor(g)});
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = formula(t, i, g[i], expected[i]);
    INFO("step " << t);
    CHECK(relative_error(values(optimizer.parameters()[0]), expected) <= tolerance::roundings64);
    CHECK(optimizer.steps() == t);
  }
}

}  // namespace

TEST_CASE("plain gradient descent subtracts the scaled gradient", "[optim]") {
  check_formula(optim::Sgd({tensor(start)}, {.learning_rate = 0.1}),
                [](int, std::size_t, double g, double p) { return p - 0.1 * g; });
}

TEST_CASE("weight decay adds a share of the parameter to its gradient", "[optim]") {
  check_formula(optim::Sgd({tensor(start)}, {.learning_rate = 0.1, .weight_decay = 0.2}),
                [](int, std::size_t, double g, double p) { return p - 0.1 * (g + 0.2 * p); });
}

TEST_CASE("momentum sums gradients, the first one whole", "[optim]") {
  for (const bool nesterov : {false, true}) {
    Numbers v(4, 0.0);
    check_formula(optim::Sgd({tensor(start)}, {.learning_rate = 0.1, .momentum = 0.9, .nesterov = nesterov}),
                  [&](int, std::size_t i, double g, double p) {
                    v[i] = 0.9 * v[i] + g;
                    return p - 0.1 * (nesterov ? g + 0.9 * v[i] : v[i]);
                  });
  }
}

TEST_CASE("Adam follows algorithm 1 of Kingma and Ba", "[optim]") {
  Numbers m(4, 0.0), v(4, 0.0);
  const double beta1 = 0.8, beta2 = 0.95, rate = 0.05, epsilon = 1e-6, decay = 0.1;
  check_formula(
      optim::Adam({tensor(start)},
                  {.learning_rate = rate, .beta1 = beta1, .beta2 = beta2, .epsilon = epsilon, .weight_decay = decay}),
      [&](int t, std::size_t i, double gradient, double p) {
        const double g = gradient + decay * p;
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        const double mean = m[i] / (1 - std::pow(beta1, t)), square = v[i] / (1 - std::pow(beta2, t));
        return p - rate * mean / (std::sqrt(square) + epsilon);
      });
}

TEST_CASE("the first step of Adam is the learning rate, whatever the gradient", "[optim]") {
  const Tensor p = {1.0, 1.0, 1.0};
  optim::Adam adam({p}, {.learning_rate = 0.01});
  adam.apply(Tensors{Tensor{1e-3, -50.0, 0.0}});
  CHECK(relative_error(values(p), {0.99, 1.01, 1.0}) <= 1e-6);  // epsilon 1e-8 beside 1e-3
}

TEST_CASE("a parameter without a gradient is left alone, and so is its state", "[optim]") {
  const Tensor a = {1.0}, b = {1.0}, alone = {1.0};
  const optim::SgdOptions options{.learning_rate = 0.1, .momentum = 0.9};
  optim::Sgd both({a, b}, options), one({alone}, options);
  for (int t = 0; t < 4; ++t) {
    const Tensor g = {0.5 + t};
    both.apply(Tensors{g, t % 2 == 0 ? g : Tensor()});  // b sits out every second step
    if (t % 2 == 0) one.apply(Tensors{g});
    CHECK(same(b, alone));
  }
  CHECK_FALSE(array_equal(a, b));
}

TEST_CASE("options may change between steps", "[optim]") {
  const Tensor p = {1.0};
  optim::Sgd sgd({p}, {.learning_rate = 0.5});
  sgd.apply(Tensors{Tensor{1.0}});
  CHECK(same(p, {0.5}));
  sgd.options().learning_rate = 0.25;
  sgd.apply(Tensors{Tensor{1.0}});
  CHECK(same(p, {0.25}));
  sgd.options().momentum = 0.9;  // from now on
  sgd.apply(Tensors{Tensor{1.0}});
  CHECK(same(p, {0.0}));
}

TEST_CASE("the first gradient that momentum sums is whole, whenever momentum begins", "[optim]") {
  const auto switch_on = [](optim::Sgd& sgd) { sgd.options().momentum = 0.9, sgd.options().dampening = 0.5; };
  const Tensor p = {1.0}, other = {1.0}, restored = {1.0};
  optim::Sgd sgd({p, other}, {.learning_rate = 1});
  sgd.apply(Tensors{Tensor{0.0}, Tensor()});
  switch_on(sgd);
  const std::vector<NamedTensor> before = sgd.state();
  sgd.apply(Tensors{Tensor{1.0}, Tensor{0.0}});
  CHECK(same(p, {0.0}));
  sgd.apply(Tensors{Tensor(), Tensor{1.0}});
  CHECK(same(other, {0.5}));  // 1 - (1 - 0.5) * 1: the first gradient was 0, and this one is dampened

  optim::Sgd again({restored, Tensor{1.0}}, sgd.options());
  again.load_state(before);  // in which momentum has not begun
  again.apply(Tensors{Tensor{1.0}, Tensor()});
  CHECK(same(restored, {0.0}));
  const std::vector<NamedTensor> after = again.state();
  const Tensor last = {0.0};
  optim::Sgd third({last, Tensor{1.0}}, sgd.options());
  third.load_state(after);  // in which it has
  for (optim::Sgd* each : {&sgd, &again, &third}) each->apply(Tensors{Tensor{1.0}, Tensor()});
  for (const Tensor& x : {p, restored, last}) CHECK(close(x, {-1.4}, tolerance::roundings64));  // 0.9 * 1 + 0.5 * 1
}

TEST_CASE("parameters that have taken as many steps may differ in whether momentum has begun", "[optim]") {
  const Tensor p = {1.0}, q = {1.0};
  optim::Sgd sgd({p, q}, {.learning_rate = 1, .momentum = 0.9, .dampening = 0.5});
  sgd.apply(Tensors{Tensor{1.0}, Tensor()});
  CHECK(same(p, {0.0}));
  sgd.options().momentum = 0;
  sgd.apply(Tensors{Tensor(), Tensor{1.0}});
  CHECK(same(q, {0.0}));
  sgd.options().momentum = 0.9;
  sgd.apply(Tensors{Tensor{1.0}, Tensor{1.0}});  // the second step of both, in which only q begins to sum
  CHECK(close(p, {-1.4}, tolerance::roundings64));
  CHECK(same(q, {-1.0}));
}

TEST_CASE("optimizers take strided gradients and parameters of every shape", "[optim]") {
  const Tensor p = zeros({2, 3}), single = Tensor(1.0f), none = zeros({0, 4});
  optim::Sgd sgd({p, single, none}, {.learning_rate = 1});
  sgd.apply(Tensors{transpose(Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}}), Tensor(0.25f), zeros({0, 4})});
  CHECK(same(p, {{-1.0f, -3.0f, -5.0f}, {-2.0f, -4.0f, -6.0f}}));
  CHECK(same(single, Tensor(0.75f)));
  sgd.apply(Tensors{broadcast_to(Tensor(1.0f), {2, 3}), Tensor(), Tensor()});
  CHECK(same(p, {{-2.0f, -4.0f, -6.0f}, {-3.0f, -5.0f, -7.0f}}));
}

TEST_CASE("gradients may be the parameters themselves: they count as they were before the step", "[optim]") {
  const Tensor a = {1.0, 2.0}, b = {4.0, 8.0}, whole = {1.0, 2.0, 4.0};
  optim::Sgd crossed({a, b}, {.learning_rate = 0.5});
  crossed.apply(Tensors{b, a});
  CHECK(same(a, {-1.0, -2.0}));  // 1 - 4/2, 2 - 8/2
  CHECK(same(b, {3.5, 7.0}));    // 4 - 1/2, 8 - 2/2
  optim::Sgd shifted({narrow(whole, 0, 1, 2)}, {.learning_rate = 1});
  shifted.apply(Tensors{narrow(whole, 0, 0, 2)});
  CHECK(same(whole, {1.0, 1.0, 2.0}));  // 2 - 1, 4 - 2
}

TEST_CASE("so do gradients in borrowed memory that parameters borrow, too", "[optim][host]") {
  double memory[3] = {1, 2, 4};
  const Tensor first = from_memory(memory, {2}), last = from_memory(memory + 1, {2}), c = {5.0, 5.0};
  optim::Sgd borrowed({first, c}, {.learning_rate = 1});
  borrowed.apply(Tensors{Tensor{1.0, 1.0}, last});
  CHECK(same(first, {0.0, 1.0}));
  CHECK(same(c, {3.0, 1.0}));  // 5 - 2, 5 - 4
}

namespace {

/// Of parameters -infinity and 1, whose gradient is zero.
void check_at_rest(optim::Optimizer&& optimizer) {
  INFO(optimizer.name());
  optimizer.apply(Tensors{zeros({2}, {DType::float64})});
  CHECK(array_equal(optimizer.parameters()[0], Tensor{-kInfinity, 1.0}));
}

}  // namespace

TEST_CASE("an infinite parameter without a gradient and without decay stays what it is", "[optim]") {
  const auto p = [] { return Tensor{-kInfinity, 1.0}; };
  check_at_rest(optim::Sgd({p()}));
  check_at_rest(optim::Sgd({p()}, {.momentum = 0.9, .nesterov = true}));
  check_at_rest(optim::Adagrad({p()}));
  check_at_rest(optim::Adadelta({p()}));
  check_at_rest(optim::RmsProp({p()}, {.momentum = 0.9, .centered = true}));
  check_at_rest(optim::Adam({p()}, {.amsgrad = true}));
  check_at_rest(optim::Adamax({p()}));
  check_at_rest(optim::Nadam({p()}));
  check_at_rest(optim::RAdam({p()}));
  check_at_rest(optim::Lion({p()}));
}

TEST_CASE("the first steps of RAdam do without a square that is infinite", "[optim]") {
  const Tensor p = {0.0f};
  optim::RAdam radam({p}, {.learning_rate = 0.5});
  radam.apply(Tensors{Tensor{1e30f}});  // 1e60 is none of float32's numbers
  CHECK(close(p, {-5e29f}, 1e-5));
}

TEST_CASE("a step of 16-bit parameters makes nothing of their size", "[optim][sparse]") {
  const Tensor table = zeros({std::int64_t{1} << 20, 4}, {DType::bfloat16});
  const Tensor g = from_row_slices({arange(0, 40, 20), ones({2, 4}, {DType::bfloat16})}, table.shape());
  optim::Sgd sgd({table}, {.learning_rate = 1});
  memory::release_cache();
  memory::reset_peak();
  const std::int64_t before = memory::stats().peak_reserved;
  sgd.apply(Tensors{g});
  CHECK(memory::stats().peak_reserved - before < std::int64_t{1} << 20);  // the table has 2^23 bytes
  CHECK(number(sum(table.to(DType::float32))) == -8);
}

TEST_CASE("an optimizer changes the model that its handles came from, and counts as a write", "[optim]") {
  nn::Linear layer(2, 1);
  optim::Sgd sgd(nn::parameters(layer), {.learning_rate = 1});
  const Tensor before = layer.weight.copy();
  const std::uint32_t version = layer.weight.version();
  sgd.apply(Tensors{ones({2, 1}), ones({1})});
  CHECK(same(layer.weight, before - 1));
  CHECK(layer.weight.version() == version + 1);
  layer = nn::Linear(2, 1, {.weight_init = nn::init::zeros()});  // moved in: the handle keeps the old parameter
  sgd.apply(Tensors{ones({2, 1}), ones({1})});
  CHECK(same(layer.weight, zeros({2, 1})));
}

TEST_CASE("a step is not recorded by a tape that still lives", "[optim]") {
  Parameter p(2.0);
  optim::Adam adam({p});
  GradientTape tape{{.persistent = true}};
  const Tensor loss = p * 3;
  const std::int64_t size = tape.size();
  adam.apply(Tensors{tape.gradient(loss, p)});
  CHECK(tape.size() == size);
  CHECK(number(tape.gradient(loss, p)) == 3);  // needs no old value
}

namespace {

/// Of parameters with one gradient, and none for so long that means and sums of it are as good as 0.
template <class Optimizer, class Options>
void check_fades(Options options) {
  const std::int64_t count = 37;  // whole registers and a rest
  Optimizer optimizer({ones({count})}, options);
  INFO(optimizer.name());
  optimizer.apply(Tensors{random_in(-2, 2, {count}, DType::float32)});
  const Tensors none{zeros({count})};
  for (int t = 0; t < 3000; ++t) optimizer.apply(none);
  CHECK_FALSE(lacks_digits([&] { optimizer.apply(none); }));
  CHECK(std::isfinite(number(sum(optimizer.parameters()[0]))));
}

}  // namespace

TEST_CASE("what fades where there are no gradients is 0 in the end, and takes no longer", "[optim][host]") {
  using namespace optim;
  check_fades<Sgd>(SgdOptions{.momentum = 0.8});
  check_fades<Sgd>(SgdOptions{.momentum = 0.8, .nesterov = true});
  check_fades<Adadelta>(AdadeltaOptions{.rho = 0.8});
  check_fades<RmsProp>(RmsPropOptions{.alpha = 0.9});
  check_fades<RmsProp>(RmsPropOptions{.alpha = 0.9, .momentum = 0.8});
  check_fades<RmsProp>(RmsPropOptions{.alpha = 0.9, .momentum = 0.8, .centered = true});
  check_fades<Adam>(AdamOptions{.beta1 = 0.8, .beta2 = 0.95});
  check_fades<Adam>(AdamOptions{.beta1 = 0.8, .beta2 = 0.95, .amsgrad = true});
  check_fades<AdamW>(AdamWOptions{.beta1 = 0.8, .beta2 = 0.95});
  check_fades<Adamax>(AdamaxOptions{.beta1 = 0.8, .beta2 = 0.95});
  check_fades<Nadam>(NadamOptions{.beta1 = 0.8, .beta2 = 0.95});
  check_fades<RAdam>(RAdamOptions{.beta1 = 0.8, .beta2 = 0.95});
  check_fades<Lamb>(LambOptions{.beta1 = 0.8, .beta2 = 0.95});
}

TEST_CASE("beside no epsilon every digit of a faded square counts", "[optim]") {
  const Tensor p = ones({37});
  optim::Adam adam({p}, {.beta1 = 0.8, .beta2 = 0.95, .epsilon = 0});
  adam.apply(Tensors{random_in(-2, 2, {37}, DType::float32)});
  for (int t = 0; t < 3000; ++t) adam.apply(Tensors{zeros({37})});
  CHECK(std::isfinite(number(sum(p))));
}

// --- published fits --------------------------------------------------------------------------------------------

TEST_CASE("a hundred single-point steps of 0.5 fit y = 3x - 1 as published", "[optim]") {
  Rng rng(42);
  const Tensor x = uniform({100}, 0, 1, rng), y = 3 * x - 1 + normal({100}, 0, 0.01, rng);
  Parameter slope(0.0f), intercept(0.0f);
  optim::Sgd sgd({slope, intercept}, {.learning_rate = 0.5});
  for (std::int64_t i = 0; i < 100; ++i) {
    GradientTape tape;
    const Tensor loss = square(slope * x[i] + intercept - y[i]);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  CHECK(std::fabs(slope.item<float>() - 3) < 0.1);       // published 2.995
  CHECK(std::fabs(intercept.item<float>() + 1) < 0.05);  // published -0.994
}

TEST_CASE("gradient descent recovers the plane [0.1, 0.2] x + 0.3", "[optim]") {
  Rng rng(43);
  const Tensor x = uniform({100, 2}, 0, 1, rng);
  const Tensor y = matmul(x, Tensor{{0.1f}, {0.2f}}) + 0.3f;
  nn::Linear plane(2, 1, {}, rng);
  optim::Sgd sgd(nn::parameters(plane), {.learning_rate = 0.5});
  for (int step = 0; step < 400; ++step) {
    GradientTape tape;
    const Tensor loss = mse_loss(plane(x), y);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  CHECK(close(plane.weight, {{0.1f}, {0.2f}}, 0.01));
  CHECK(close(plane.bias, {0.3f}, 0.01));
}
