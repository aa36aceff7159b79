// Jacobians, gradients by hand, recomputed regions, products with Jacobians and Hessians, the check by differences.
#include "tests/support.hpp"

#include <memory>
#include <sstream>

using namespace capstan;
using namespace tests;

namespace cs = capstan;

namespace {

/// x*x with a gradient that is wrong in one place.
Tensor square_gone_wrong(const Tensor& x) {
  return custom_gradient(
      x, [](const Tensor& t) { return t * t; },
      [](const Tensor& g, const Tensor& t, const Tensor&) {
        Tensor slope = 2 * t;
        slope.index_put({1}, 100);
        return g * slope;
      });
}

/// exp, whose gradient is written with its own result.
Tensor exp_by_hand(const Tensor& x) {
  return custom_gradient(
      x, [](const Tensor& t) { return exp(t); }, [](const Tensor& g, const Tensor&, const Tensor& y) { return g * y; });
}

std::vector<Tensor> product_and_sum(const std::vector<Tensor>& in) { return {in[0] * in[1], in[0] + in[1]}; }

Tensor third_power(const Tensor& x) { return x * x * x; }

}  // namespace

// --- the promised programs -------------------------------------------------------------------------------------

// clang-format off
TEST_CASE("the promised programs on gradients run as they are written", "[api][tape]") {
  {
    cs::Parameter x(3.0f), y(4.0f);              // trainable: watched by every tape on this thread
    cs::GradientTape tape;                       // records until it goes out of scope
    cs::Tensor f = x * x * y + y + 2;            // 42, already computed
    auto [dx, dy] = tape.gradient(f, x, y);      // 24 and 10; a vector of sources gives a vector of gradients
    CHECK(f.item<float>() == 42);
    CHECK(dx.item<float>() == 24);
    CHECK(dy.item<float>() == 10);
  }
  {
    cs::Parameter x(2.0f);
    cs::GradientTape outer;                      // gradients of gradients: nest
    cs::Tensor d1;
    { cs::GradientTape inner; cs::Tensor a = cs::pow(x, 3); d1 = inner.gradient(a, x); }
    cs::Tensor d2 = outer.gradient(d1, x);       // 6 x
    CHECK(d2.item<float>() == 12);
  }
}
// clang-format on

TEST_CASE("the promised names of tapes and derivatives are there", "[api][tape]") {
  const cs::Tensor t = {1.0f, 2.0f}, g = {1.0f, 1.0f};
  auto tape = cs::GradientTape{{.persistent = true, .watch_parameters = false}};
  tape.watch(t);
  const cs::Tensor f = t * t;
  { auto pause = tape.stop_recording(); }
  const std::vector<cs::Tensor> xs = {t};
  const auto gradients = tape.gradient(f, xs, {.output_gradient = g, .unconnected = cs::Unconnected::zeros});
  CHECK(same(gradients.at(0), {2.0f, 4.0f}));
  CHECK(same(tape.jacobian(f, t), {{2.0f, 0.0f}, {0.0f, 4.0f}}));
  CHECK(tape.explain(f, t).find("mul [2] at differentiate_test.cpp:") != std::string::npos);
  std::ostringstream text;
  text << tape;
  CHECK(text.str().find("mul") != std::string::npos);
  CHECK(same(cs::stop_gradient(t), t));
  CHECK(same(cs::custom_gradient(
                 t, [](const cs::Tensor& x) { return x; },
                 [](const cs::Tensor& d, const cs::Tensor&, const cs::Tensor&) { return d; }),
             t));
  CHECK(same(cs::recompute([](const cs::Tensor& x) { return x * 2; }, t), {2.0f, 4.0f}));
  CHECK(same(cs::jvp([](const cs::Tensor& x) { return x * 2; }, t, g).tangent, {2.0f, 2.0f}));
  CHECK(cs::check_gradient([](const cs::Tensor& x) { return x * 2; }, cs::Tensor{1.0, 2.0}).ok);
  tape.reset();
}

// --- Jacobians -------------------------------------------------------------------------------------------------

TEST_CASE("the Jacobian of a product of matrices is the other factor, in its places", "[tape][jacobian]") {
  const Tensor a = random_in(-1, 1, {2, 3}), b = random_in(-1, 1, {3, 2}, DType::float64, 2);
  GradientTape tape;
  tape.watch({a, b});
  const Tensor y = matmul(a, b);
  const std::vector<Tensor> both = tape.jacobian(y, {a, b});
  REQUIRE(both.size() == 2u);
  REQUIRE(both[0].shape() == Shape{2, 2, 2, 3});
  REQUIRE(both[1].shape() == Shape{2, 2, 3, 2});
  for (int i = 0; i < 2; ++i)
    for (int k = 0; k < 2; ++k)
      for (int m = 0; m < 2; ++m)
        for (int j = 0; j < 3; ++j) {
          CHECK(both[0].at<double>(i, k, m, j) == (i == m ? b.at<double>(j, k) : 0));  // y[i,k] = a[i,j] b[j,k]
          CHECK(both[1].at<double>(i, k, j, m) == (k == m ? a.at<double>(i, j) : 0));
        }
  CHECK_FALSE(tape.recording());  // spent, by the one call
  CHECK_THROWS_AS(tape.jacobian(y, a), TapeError);
}

TEST_CASE("Jacobians of single values, of nothing and of what is not connected", "[tape][jacobian]") {
  const Tensor x = {1.0, 2.0}, nothing = zeros({0}, {DType::float64}), apart = {1.0f, 1.0f, 1.0f};
  GradientTape tape{{.persistent = true}};
  tape.watch({x, nothing, apart});
  const Tensor total = sum(x * x), none = nothing * 2;
  CHECK(same(tape.jacobian(total, x), {2.0, 4.0}));
  CHECK(same(tape.jacobian(total, total), Tensor(1.0)));
  CHECK(same(tape.jacobian(none, nothing), zeros({0, 0}, {DType::float64})));
  CHECK_FALSE(tape.jacobian(x * x, apart).defined());
  CHECK(same(tape.jacobian(x * x, apart, {.unconnected = Unconnected::zeros}), zeros({2, 3})));
}

TEST_CASE("outer tapes record a Jacobian, which gives Hessians", "[tape][jacobian]") {
  const Tensor x = {1.0, 2.0};
  GradientTape outer;
  outer.watch(x);
  Tensor gradient;
  {
    GradientTape inner;
    inner.watch(x);
    gradient = inner.gradient(sum(third_power(x)), x);
  }
  CHECK(same(outer.jacobian(gradient, x), {{6.0, 0.0}, {0.0, 12.0}}));  // 6x

  GradientTape of_jacobian;
  of_jacobian.watch(x);
  Tensor jacobian;
  {
    GradientTape inner;
    inner.watch(x);
    jacobian = inner.jacobian(third_power(x), x);  // 3x^2 on the diagonal
  }
  CHECK(same(of_jacobian.gradient(jacobian, x), {6.0, 12.0}));
}

TEST_CASE("batch_jacobian gives each example its own Jacobian", "[tape][jacobian]") {
  const Tensor x = random_in(-1, 1, {3, 2}), w = random_in(-1, 1, {2, 4}, DType::float64, 2);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = matmul(x * x, w);
  const Tensor each = tape.batch_jacobian(y, x);
  REQUIRE(each.shape() == Shape{3, 4, 2});
  for (int b = 0; b < 3; ++b)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 2; ++j)  // y[b,i] = sum(j) x[b,j]^2 w[j,i]
        CHECK(each.at<double>(b, i, j) == Approx(2 * x.at<double>(b, j) * w.at<double>(j, i)));

  GradientTape flat;
  flat.watch(x);
  CHECK(same(flat.batch_jacobian(sum(x * x, 1), x), 2 * x));  // one value each: [3, 2]
}

// --- gradients by hand -----------------------------------------------------------------------------------------

TEST_CASE("a function with a gradient of its own may differentiate by itself", "[tape][custom]") {
  // Newton's steps to the root of t^3 = x, by a tape of their own; the gradient by the implicit function theorem
  const auto root = [](const Tensor& x) {
    return custom_gradient(
        x,
        [](const Tensor& in) {
          Tensor t = in;
          for (int i = 0; i < 60; ++i) {
            GradientTape own;
            own.watch(t);
            const Tensor error = t * t * t - in;
            t = stop_gradient(t - error / own.gradient(error, t));
          }
          return t;
        },
        [](const Tensor& g, const Tensor&, const Tensor& t) { return g / (3 * t * t); });
  };
  const Tensor x(27.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = root(x);
  CHECK(tape.size() == 1);
  CHECK(close(y, Tensor(3.0), tolerance::roundings64));
  CHECK(close(tape.gradient(y, x), Tensor(1.0 / 27), tolerance::roundings64));
}

TEST_CASE("an input that a function reaches by its own handle is that input, unless it is stopped", "[tape][jvp]") {
  const Tensor x(3.0), one(1.0);
  CHECK(number(jvp([&](const Tensor& t) { return t * x; }, x, one).tangent) == 6);
  CHECK(number(jvp([&](const Tensor& t) { return t * stop_gradient(x); }, x, one).tangent) == 3);
  CHECK(number(hvp([&](const Tensor& t) { return sum(square(t - stop_gradient(x))); }, x, one)) == 2);
  nn::Linear net(2, 1);
  const Tensor rows = ones({4, 2});
  const Tensor v = full_like(net.weight, 1);
  CHECK(same(hvp([&](const Tensor&) { return sum(square(net(rows))); }, net.weight, v), full_like(net.weight, 16)));
}

TEST_CASE("custom_gradient replaces the gradient of what it runs", "[tape][custom]") {
  Parameter w(Tensor{-1.5f, 2.5f});
  GradientTape tape;
  const Tensor y = custom_gradient(
      w, [](const Tensor& x) { return x.to(DType::int32).to(DType::float32); },
      [](const Tensor& g, const Tensor& x, const Tensor& whole) {
        CHECK(same(x, {-1.5f, 2.5f}));
        CHECK(same(whole, {-1.0f, 2.0f}));
        return g;
      });
  CHECK(same(y, {-1.0f, 2.0f}));
  CHECK(tape.size() == 1);  // nothing of what ran inside
  CHECK(same(tape.gradient(y * 3, w), {3.0f, 3.0f}));
}

TEST_CASE("custom gradients have gradients of their own", "[tape][custom]") {
  const Tensor x(0.5);
  GradientTape outer;
  outer.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    first = inner.gradient(exp_by_hand(2 * x), x);
  }
  CHECK(number(first) == Approx(2 * std::exp(1.0)));
  CHECK(number(outer.gradient(first, x)) == Approx(4 * std::exp(1.0)));
  const GradientReport report = check_gradient(exp_by_hand, random_in(-1, 1, {2, 3}), {.order = 2});
  INFO(report.text());
  CHECK(report.ok);
}

TEST_CASE("custom_gradient takes and gives several tensors", "[tape][custom]") {
  const Tensor a = {1.0, 2.0}, b = {3.0, 5.0};
  GradientTape tape{{.persistent = true}};
  tape.watch({a, b});
  std::vector<bool> defined;
  const std::vector<Tensor> out =
      custom_gradient(product_and_sum,
                      [&](std::span<const Tensor> g, std::span<const Tensor> in, std::span<const Tensor> results) {
                        REQUIRE(g.size() == 2u);
                        REQUIRE(results.size() == 2u);
                        for (const Tensor& one : g) defined.push_back(one.defined());
                        return std::vector<Tensor>{g[0] * in[1] + g[1], Tensor()};  // none for b
                      },
                      {a, b});
  REQUIRE(out.size() == 2u);
  const auto [da, db] = tape.gradient(out[0] + 10 * out[1], a, b);
  CHECK(same(da, {13.0, 15.0}));  // b + 10
  CHECK_FALSE(db.defined());
  CHECK(same(tape.gradient(out[0], a), b));  // the unused result's gradient came as zeros
  CHECK(defined == std::vector<bool>{true, true, true, true});
}

TEST_CASE("custom_gradient may return what it was given, and integers", "[tape][custom]") {
  const Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  const std::vector<Tensor> out = custom_gradient(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0], argmax(in[0], 0)};
      },
      [](const std::vector<Tensor>& g, const std::vector<Tensor>&, const std::vector<Tensor>&) {
        CHECK_FALSE(g[1].defined());
        return std::vector<Tensor>{-g[0]};
      },
      {x});
  CHECK(same(out[0], x));
  CHECK(tape.explain(out[1], x).rfind("The chain ends at int64 from custom_gradient", 0) == 0u);
  const Tensor y = x * 2 + out[0];
  CHECK(same(tape.gradient(y, x), {1.0, 1.0}));  // 2 - 1: x itself is as it was
}

TEST_CASE("what custom_gradient and recompute hold goes with the tape", "[tape][custom]") {
  const auto held = std::make_shared<int>(0);
  const Tensor x(2.0);
  for (const bool ask : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    Tensor y = custom_gradient(
        x, [](const Tensor& t) { return t * 2; },
        [held](const Tensor& g, const Tensor&, const Tensor&) { return g * 2; });
    y = recompute([held](const Tensor& t) { return t * 3; }, y);
    CHECK(held.use_count() == 3);
    if (ask) CHECK(number(tape.gradient(y, x)) == 6);
    else tape.reset();
    CHECK(held.use_count() == 1);
  }
  CHECK(number(recompute([held](const Tensor& t) { return t * 3; }, x)) == 6);  // no tape: nothing is held
  CHECK(held.use_count() == 1);
}

// --- recomputed regions ----------------------------------------------------------------------------------------

TEST_CASE("recompute keeps the input alone and gives the same gradient", "[tape][recompute]") {
  const Tensor x = random_in(-1, 1, {1000}, DType::float32);
  const auto deep = [](const Tensor& t) { return tanh(exp(tanh(exp(t)))); };
  GradientTape plain;
  plain.watch(x);
  const Tensor expected = plain.gradient(deep(x), x);

  int runs = 0;
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute(
      [&](const Tensor& t) {
        ++runs;
        return deep(t);
      },
      x);
  CHECK(same(y, deep(x)));
  CHECK(runs == 1);
  tape.reset();
  tape.watch(x);
  const Tensor again = recompute(deep, x);
  CHECK(tape.size() == 1);
  CHECK(tape.bytes_kept() == 4000);  // x; deep alone keeps four results of 4000 bytes
  CHECK(same(tape.gradient(again, x), expected));
}

TEST_CASE("recompute gives gradients to Parameters and followed tensors that the function uses", "[tape][recompute]") {
  Parameter w(3.0), frozen(5.0);
  frozen.set_trainable(false);
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * x;
  const Tensor y = recompute([&](const Tensor& t) { return t * w * h * frozen; }, x);
  const auto [dw, dx, df] = tape.gradient(y, w, x, frozen);
  CHECK(number(dw) == 2 * 4 * 5);      // x * x^2 * 5
  CHECK(number(dx) == 3 * 5 * 3 * 4);  // 3x^2 * w * 5
  CHECK_FALSE(df.defined());
}

TEST_CASE("recompute draws the same random numbers again, and puts default_rng back", "[tape][recompute]") {
  seed(7);
  Parameter w(ones({1000}));
  const Tensor x = ones({1000});
  GradientTape tape;
  const Tensor y = recompute([&](const Tensor& t) { return dropout(t * w, 0.5); }, x);
  const std::uint64_t position = default_rng().position();
  CHECK(position > 0);
  CHECK(same(tape.gradient(y, w), y));  // y = w * mask / keep at w = 1: the gradient is mask / keep
  CHECK(default_rng().position() == position);
}

TEST_CASE("recompute works to higher orders, in itself, and for several tensors", "[tape][recompute]") {
  const Tensor x(2.0);
  GradientTape outer;
  outer.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    const Tensor y = recompute([](const Tensor& t) { return recompute(third_power, t) * 2; }, x);
    first = inner.gradient(y, x);
  }
  CHECK(number(first) == 24);                     // 6x^2
  CHECK(number(outer.gradient(first, x)) == 24);  // 12x

  const auto both = [](const std::vector<Tensor>& in) { return recompute(product_and_sum, in); };
  const auto weighted = [&](const std::vector<Tensor>& in) {
    const std::vector<Tensor> out = both(in);
    return out[0] * out[0] + out[1] * in[0];
  };
  const GradientReport report =
      check_gradient(weighted, {random_in(-1, 1, {3}), random_in(-1, 1, {3}, DType::float64, 2)}, {.order = 2});
  INFO(report.text());
  CHECK(report.ok);

  GradientTape tape;
  tape.watch(x);
  CHECK(number(tape.gradient(recompute(product_and_sum, {x, x})[0], x)) == 4);  // one tensor twice: d(x*x)
}

TEST_CASE("recompute works where a NoGrad is on, as far as that goes", "[tape][recompute]") {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute(third_power, x);
  {
    const NoGrad off;
    CHECK(number(recompute(third_power, x)) == 8);  // recorded by nobody
    CHECK(number(tape.gradient(y, x)) == 12);
  }
}

TEST_CASE("recompute of what does not depend on anything followed leaves nothing behind", "[tape][recompute]") {
  const Tensor x(2.0), other(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute([&](const Tensor& t) { return t * 2; }, other);
  CHECK(tape.size() == 0);
  const std::vector<Tensor> out = recompute(
      [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{in[0] * 2, other * 2, x};
      },
      {x});
  CHECK(tape.size() == 1);
  CHECK(number(tape.gradient(out[0] + out[1] + out[2] + y, x)) == 3);  // the second has none, the third is x
}

TEST_CASE("tapes inside a recomputed function work as they do outside", "[tape][recompute]") {
  const Tensor x(2.0);
  const auto slope = [](const Tensor& t) {
    GradientTape own;
    own.watch(t);
    return own.gradient(third_power(t), t);
  };
  GradientTape tape;
  tape.watch(x);
  const Tensor y = recompute(slope, x);
  CHECK(number(y) == 12);
  CHECK(number(tape.gradient(y, x)) == 12);  // 6x
}

// --- products --------------------------------------------------------------------------------------------------

TEST_CASE("jvp is the Jacobian times the tangent, vjp the cotangent times the Jacobian", "[products]") {
  const Tensor x = random_in(-1, 1, {3}), v = random_in(-1, 1, {3}, DType::float64, 2);
  const Tensor w = random_in(-1, 1, {3, 4}, DType::float64, 3), u = random_in(-1, 1, {4}, DType::float64, 4);
  const auto f = [&](const Tensor& t) { return softmax(matmul(tanh(t) * t, w)); };
  GradientTape tape;
  tape.watch(x);
  const Tensor jacobian = tape.jacobian(f(x), x);  // [4, 3]
  const Jvp forward = jvp(f, x, v);
  CHECK(same(forward.value, f(x)));
  CHECK(close(forward.tangent, matmul(jacobian, v), tolerance::roundings64));
  const Vjp backward = vjp(f, x, u);
  CHECK(same(backward.value, f(x)));
  CHECK(close(backward.gradient, matmul(u, jacobian), tolerance::roundings64));
}

TEST_CASE("jvp and vjp take and give several tensors", "[products]") {
  const Tensor a = {1.0, 2.0}, b = {3.0, 5.0}, va = {1.0, 0.5}, vb = {2.0, 1.0};
  const JvpList forward = jvp(product_and_sum, {a, b}, {va, vb});
  REQUIRE(forward.tangents.size() == 2u);
  CHECK(same(forward.values[0], a * b));
  CHECK(same(forward.tangents[0], va * b + a * vb));
  CHECK(same(forward.tangents[1], va + vb));
  CHECK(same(jvp(product_and_sum, {a, b}, {Tensor(), vb}).tangents[0], a * vb));  // undefined: zeros
  const VjpList backward = vjp(product_and_sum, {a, b}, {va, Tensor()});
  CHECK(same(backward.gradients[0], va * b));
  CHECK(same(backward.gradients[1], va * a));
}

TEST_CASE("hvp is the Hessian times a vector", "[products]") {
  const Tensor x = {1.0, 2.0, -1.0}, v = {1.0, 0.5, 2.0};
  CHECK(same(hvp([](const Tensor& t) { return sum(third_power(t)); }, x, v), 6 * x * v));
  const auto mixed = [](const std::vector<Tensor>& in) { return sum(in[0] * in[0] * in[1]); };
  const Tensor y = {4.0, 5.0, 6.0};
  const std::vector<Tensor> both = hvp(mixed, {x, y}, {v, Tensor()});
  CHECK(same(both[0], 2 * y * v));  // d2/dx2 = 2y
  CHECK(same(both[1], 2 * x * v));  // d2/dxdy = 2x
  CHECK(same(hvp([](const Tensor& t) { return sum(t * 3); }, x, v), zeros({3}, {DType::float64})));
}

TEST_CASE("products are zeros where nothing depends, and Parameters are constants for them", "[products]") {
  Parameter w(2.0);
  const Tensor x(3.0), one(1.0);
  const auto constant = [&](const Tensor&) { return w * w; };
  CHECK(number(jvp(constant, x, one).tangent) == 0);
  CHECK(number(vjp(constant, x, one).gradient) == 0);
  CHECK(number(hvp(constant, x, one)) == 0);
  CHECK(number(jvp([&](const Tensor& t) { return t * w; }, x, one).tangent) == 2);
}

TEST_CASE("products work under a NoGrad, unseen, and are recorded without one", "[products]") {
  const Tensor x(3.0), one(1.0);
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  {
    const NoGrad off;
    CHECK(number(jvp(third_power, x, one).tangent) == 27);
    CHECK(number(vjp(third_power, x, one).gradient) == 27);
    CHECK(number(hvp(third_power, x, one)) == 18);
  }
  CHECK(tape.size() == 0);
  CHECK(number(tape.gradient(jvp(third_power, x, one).tangent, x)) == 18);
  CHECK(number(tape.gradient(vjp(third_power, x, one).gradient, x)) == 18);
  CHECK(number(tape.gradient(hvp(third_power, x, one), x)) == 6);
}

TEST_CASE("a tensor that is given twice is two inputs of a product and of the check", "[products][check_gradient]") {
  const Tensor x = {2.0, 3.0}, v = {1.0, 10.0}, w = {0.5, 1.0};
  const auto product = [](const std::vector<Tensor>& in) { return in[0] * in[1]; };
  CHECK(same(jvp(product, {x, x}, {v, w}).tangents[0], v * x + x * w));
  CHECK(same(vjp(product, {x, x}, {v}).gradients[1], v * x));
  const auto mixed = [](const std::vector<Tensor>& in) { return sum(in[0] * in[0] * in[1]); };
  const std::vector<Tensor> both = hvp(mixed, {x, x}, {v, w});
  CHECK(same(both[0], 2 * x * v + 2 * x * w));  // of a a b: 2b v + 2a w
  CHECK(same(both[1], 2 * x * v));              // 2a v
  CHECK(check_gradient(product_and_sum, {x, x}, {.order = 2}).ok);
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(vjp(product, {x, x}, {v}).gradients[0], x), v));
}

TEST_CASE("a product that throws leaves the tapes around it as they were", "[products]") {
  const Tensor x = {1.0, 2.0}, longer = {1.0, 2.0, 3.0};
  const auto squared = [](const Tensor& t) { return t * t; };
  const auto fails = [&](const Tensor& t) { return t * t + longer; };
  GradientTape tape;
  tape.watch(x);
  CHECK_THROWS_AS(vjp(squared, x, longer), ShapeError);
  CHECK_THROWS_AS(hvp(squared, x, x), ShapeError);
  CHECK_THROWS_AS(jvp(fails, x, x), ShapeError);
  CHECK(tape.size() == 0);
  CHECK(same(tape.gradient(x * x, x), 2 * x));
}

// --- the check by differences ----------------------------------------------------------------------------------

TEST_CASE("check_gradient finds a wrong gradient and names its worst element", "[check_gradient]") {
  const Tensor x = {1.0, 2.0, 3.0};
  const GradientReport report = check_gradient(square_gone_wrong, x);
  CHECK_FALSE(report.ok);
  CHECK(report.worst > 1);
  CHECK(report.order == 1);
  CHECK(report.input == 0u);
  CHECK(report.element == 1);
  CHECK(report.value == 2);
  CHECK(report.by_tape / report.by_differences == Approx(25));  // 100 for 4
  CHECK(report.text().rfind("wrong: the gradient for input 0 of shape [3], element 1: the tape says ", 0) == 0u);
}

TEST_CASE("check_gradient of order 2 looks at the gradient of the gradient", "[check_gradient]") {
  const auto flat_second = [](const Tensor& x) {  // the right gradient, which the tape cannot see to depend on x
    return custom_gradient(
        x, [](const Tensor& t) { return t * t; },
        [](const Tensor& g, const Tensor& t, const Tensor&) { return g * 2 * stop_gradient(t); });
  };
  const Tensor x = {1.0, 2.0};
  CHECK(check_gradient(flat_second, x).ok);
  const GradientReport report = check_gradient(flat_second, x, {.order = 2});
  CHECK_FALSE(report.ok);
  CHECK(report.order == 2);
  CHECK(report.by_tape == 0);
}

TEST_CASE("check_gradient is satisfied with right gradients, random numbers and nothing at all", "[check_gradient]") {
  const Tensor x = random_in(-1, 1, {4, 3});
  const std::uint64_t position = default_rng().position();
  GradientTape unconcerned;
  unconcerned.watch(x);
  const GradientReport report = check_gradient([](const Tensor& t) { return dropout(tanh(t), 0.5); }, x, {.order = 2});
  INFO(report.text());
  CHECK(report.ok);
  CHECK(report.worst < 1);
  CHECK(report.text().rfind("ok: the worst is ", 0) == 0u);
  CHECK(default_rng().position() == position);
  CHECK(unconcerned.size() == 0);
  const GradientReport empty = check_gradient([](const Tensor& t) { return t * 2; }, zeros({0}, {DType::float64}));
  CHECK(empty.ok);
  CHECK(empty.text() == "ok: there are no elements to compare.");
  CHECK(check_gradient([](const Tensor&) { return ones({2}, {DType::float64}); }, x).ok);  // depends on nothing
}
