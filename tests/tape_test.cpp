// What a gradient tape answers: values, watching, options, targets and sources.
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

// --- published facts -------------------------------------------------------------------------------------------

TEST_CASE("f = x*x*y + y + 2 at (3, 4) is 42 with gradients 24 and 10", "[tape]") {
  Parameter x(3.0f), y(4.0f);
  GradientTape tape;
  const Tensor f = x * x * y + y + 2;
  CHECK(f.item<float>() == 42);
  const auto [dx, dy] = tape.gradient(f, x, y);
  CHECK(dx.item<float>() == 24);  // 2*x*y
  CHECK(dy.item<float>() == 10);  // x*x + 1
}

TEST_CASE("the first and second derivative of pow(a, 2) at 1 are 2 and 2", "[tape]") {
  const Tensor a(1.0);
  GradientTape outer;
  outer.watch(a);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(a);
    first = inner.gradient(pow(a, 2), a);
  }
  CHECK(number(first) == 2);
  CHECK(number(outer.gradient(first, a)) == 2);
}

TEST_CASE("several targets with output gradients add up", "[tape]") {
  const Tensor w1 = {1.0f, 1.0f, 1.0f}, w2 = w1.copy(), w3 = w1.copy(), w4 = w1.copy();
  GradientTape tape;
  tape.watch({w1, w2, w3, w4});
  const Tensor z1 = w1 + w2 + w3, z2 = w3 + w4;
  const std::vector<Tensor> sources = {w1, w2, w3, w4}, weights = {{2.0f, 2.0f, 3.0f}, {3.0f, 2.0f, 4.0f}};
  const std::vector<Tensor> d = tape.gradient({z1, z2}, sources, weights);
  REQUIRE(d.size() == 4u);
  CHECK(same(d[0], {2.0f, 2.0f, 3.0f}));
  CHECK(same(d[1], {2.0f, 2.0f, 3.0f}));
  CHECK(same(d[2], {5.0f, 4.0f, 7.0f}));
  CHECK(same(d[3], {3.0f, 2.0f, 4.0f}));
}

TEST_CASE("several targets without output gradients stand for their sum", "[tape]") {
  const Tensor a(2.0), b(3.0);
  const std::vector<Tensor> sources = {a, b};
  GradientTape tape;
  tape.watch({a, b});
  const Tensor product = a * b, cube = a * a * a;
  const std::vector<Tensor> d = tape.gradient({product, cube}, sources);
  CHECK(number(d[0]) == 3 + 12);  // b + 3*a*a
  CHECK(number(d[1]) == 2);
}

TEST_CASE("stop_gradient cuts a path off and leaves the others", "[tape]") {
  Parameter w1(2.0f), w2(2.0f);
  GradientTape tape;
  const Tensor a = 3 * w1, b = stop_gradient(a) * w2;
  CHECK(same(stop_gradient(a), a));
  const auto [d1, d2] = tape.gradient(b, w1, w2);
  CHECK_FALSE(d1.defined());
  CHECK(d2.item<float>() == 6);
}

TEST_CASE("a gradient comes through the path that is not stopped", "[tape]") {
  Parameter a(0.5f), b(1.5f);
  GradientTape tape;
  const Tensor c = a + b, d = a + b, e = stop_gradient(c) + d;
  const auto [da, db] = tape.gradient(e, a, b);
  CHECK(da.item<float>() == 1);
  CHECK(db.item<float>() == 1);
}

// --- watching --------------------------------------------------------------------------------------------------

TEST_CASE("a tensor is followed from the moment it is watched", "[tape]") {
  const Tensor x(3.0);
  GradientTape tape;
  const Tensor before = x * x;
  CHECK(tape.size() == 0);
  tape.watch(x);
  const Tensor after = x * x * x;
  CHECK(tape.size() == 2);
  CHECK(number(tape.gradient(after + before, x)) == 27);  // before does not count
}

TEST_CASE("trainable parameters are watched by themselves, unless the tape or the parameter says no", "[tape]") {
  Parameter p(2.0f), frozen(5.0f);
  frozen.set_trainable(false);
  CHECK(p.trainable());
  CHECK_FALSE(frozen.trainable());
  SECTION("a tape of the default kind") {
    GradientTape tape;
    const auto [dp, df] = tape.gradient(p * frozen, p, frozen);
    CHECK(dp.item<float>() == 5);
    CHECK_FALSE(df.defined());
  }
  SECTION("a tape that watches no parameters") {
    GradientTape tape{{.watch_parameters = false}};
    const Tensor y = p * p;
    CHECK(tape.size() == 0);
    tape.watch(p);
    CHECK(tape.gradient(p * p, p).item<float>() == 4);
  }
  SECTION("a frozen parameter can be watched by hand") {
    GradientTape tape;
    tape.watch(frozen);
    CHECK(tape.gradient(frozen * frozen, frozen).item<float>() == 10);
  }
}

TEST_CASE("a handle to a parameter is the parameter", "[tape]") {
  Parameter p(3.0f);
  const Tensor handle = p;
  GradientTape tape;
  CHECK(tape.gradient(handle * handle, p).item<float>() == 6);
}

TEST_CASE("operations without a watched operand are not recorded", "[tape]") {
  const Tensor x(3.0), other(4.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor a = other * other, b = argmax(x), c = x > 1;
  CHECK(tape.size() == 0);
  const Tensor d = x + other;
  CHECK(tape.size() == 1);
}

TEST_CASE("integer and bool results end a path", "[tape]") {
  const Tensor x = {1.5, 2.5};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = cast(cast(x, DType::int32), DType::float64) * 2;
  CHECK(tape.size() == 0);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
}

// --- targets, sources and options ------------------------------------------------------------------------------

TEST_CASE("a tensor that is used several times gathers all its gradients", "[tape]") {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor twice = x + x, y = twice * twice + x * x * x + x;
  CHECK(number(tape.gradient(y, x)) == 8 * 2 + 3 * 4 + 1);  // 8x + 3x^2 + 1
}

TEST_CASE("a source may stand in the middle of a computation", "[tape]") {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * x, y = h * h * x;
  const auto [dh, dx] = tape.gradient(y, h, x);
  CHECK(number(dh) == 2 * 4 * 2);          // 2*h*x
  CHECK(number(dx) == 5 * 2 * 2 * 2 * 2);  // 5*x^4: the whole path, though h is a source too
}

TEST_CASE("the gradient of a tensor with respect to itself is one", "[tape]") {
  const Tensor x = {2.0, 3.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = x * 2;
  CHECK(same(tape.gradient(y, y), {1.0, 1.0}));
  CHECK(same(tape.gradient(x, x), {1.0, 1.0}));
}

TEST_CASE("without an output gradient the target stands for its sum", "[tape]") {
  const Tensor x = {1.0, 2.0, 3.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = x * x;
  CHECK(same(tape.gradient(y, x), {2.0, 4.0, 6.0}));
  const Tensor weights = {1.0, 0.0, -1.0};
  CHECK(same(tape.gradient(y, x, {.output_gradient = weights}), {2.0, 0.0, -6.0}));
}

TEST_CASE("a source that the target does not depend on has no gradient, or zeros if asked", "[tape]") {
  const Tensor x = {1.0, 2.0}, unused = {{1.0f, 2.0f, 3.0f}};
  GradientTape tape{{.persistent = true}};
  tape.watch({x, unused});
  const Tensor y = x * x, apart = unused * 2, never = ones({2});
  CHECK_FALSE(tape.gradient(y, unused).defined());
  CHECK_FALSE(tape.gradient(y, never).defined());
  CHECK(same(tape.gradient(y, unused, {.unconnected = Unconnected::zeros}), {{0.0f, 0.0f, 0.0f}}));
  CHECK(same(tape.gradient(y, never, {.unconnected = Unconnected::zeros}), {0.0f, 0.0f}));
}

TEST_CASE("gradients come in the order of their sources, however these are given", "[tape]") {
  const Tensor a(2.0), b(3.0);
  GradientTape tape{{.persistent = true}};
  tape.watch({a, b});
  const Tensor y = a * a * b;
  const std::vector<Tensor> from_vector_of = tape.gradient(y, std::vector<Tensor>{b, a});
  CHECK(number(from_vector_of.at(0)) == 4);
  CHECK(number(from_vector_of.at(1)) == 12);
  const std::vector<Tensor> from_braces = tape.gradient(y, {a, b});
  CHECK(number(from_braces.at(0)) == 12);
  const std::vector<Tensor> twice = tape.gradient(y, {a, a});
  CHECK(number(twice.at(0)) == 12);
  CHECK(number(twice.at(1)) == 12);
  CHECK(tape.gradient(y, std::vector<Tensor>{}).empty());
}

TEST_CASE("a view's gradient lands in its place", "[tape]") {
  const Tensor x = {{1.0, 2.0}, {3.0, 4.0}};
  GradientTape tape;
  tape.watch(x);
  const Tensor row = x[1];
  CHECK(same(tape.gradient(row * row, x), {{0.0, 0.0}, {6.0, 8.0}}));
}

TEST_CASE("a persistent tape answers as often as asked, and records on in between", "[tape]") {
  const Tensor x(3.0);
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = x * x;
  const std::int64_t size = tape.size();
  CHECK(number(tape.gradient(y, x)) == 6);
  CHECK(tape.size() == size);  // a tape does not record its own replay
  CHECK(number(tape.gradient(y, x)) == 6);
  CHECK(number(tape.gradient(y * x, x)) == 27);
  CHECK(tape.recording());
}

TEST_CASE("a tape that is not persistent is spent by its gradient", "[tape]") {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = exp(x);
  CHECK(tape.recording());
  CHECK(tape.bytes_kept() > 0);
  tape.gradient(y, x);
  CHECK_FALSE(tape.recording());
  CHECK(tape.bytes_kept() == 0);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
}

TEST_CASE("arguments that are refused do not spend a tape", "[tape]") {
  const Tensor x = {1.0, 2.0}, stranger = {1.0, 2.0, 3.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  CHECK_THROWS_AS(tape.gradient(stranger, x), TapeError);
  CHECK_THROWS_AS(tape.gradient(y, x, {.output_gradient = stranger}), ShapeError);
  CHECK(same(tape.gradient(y, x), {2.0, 4.0}));
}

// --- pausing, resetting, changing ------------------------------------------------------------------------------

TEST_CASE("a paused tape does not record until the pause ends", "[tape]") {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  Tensor hidden;
  {
    const auto pause = tape.stop_recording();
    CHECK_FALSE(tape.recording());
    hidden = x * 100;
  }
  CHECK(tape.recording());
  CHECK(tape.size() == 0);
  CHECK(number(tape.gradient(x * x + hidden, x)) == 6);
}

TEST_CASE("NoGrad silences every tape of the thread", "[tape]") {
  Parameter x(3.0f);
  GradientTape outer, inner;
  {
    const NoGrad off;
    const NoGrad off_again;
    const Tensor hidden = x * x;
  }
  CHECK(outer.size() == 0);
  CHECK(inner.size() == 0);
  const Tensor seen = x * x;
  CHECK(outer.size() == 1);
  CHECK(inner.size() == 1);
}

TEST_CASE("a reset tape has forgotten everything, and records on", "[tape]") {
  const Tensor x(3.0);
  for (const bool spent : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = exp(x);
    if (spent) tape.gradient(y, x);
    tape.reset();
    CHECK(tape.size() == 0);
    CHECK(tape.bytes_kept() == 0);
    const Tensor unseen = x * x;
    CHECK(tape.size() == 0);  // x is not watched any more
    CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
    tape.watch(x);
    CHECK(number(tape.gradient(x * x, x)) == 6);
  }
}

TEST_CASE("writing to a value that no gradient needs is no error", "[tape]") {
  Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 3 + 1;  // needs neither x nor the product
  x.fill(9);
  CHECK(same(tape.gradient(y, x), {3.0, 3.0}));
}

TEST_CASE("changing a watched tensor in place is not an operation on the tape", "[tape]") {
  Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  x += 1;
  x *= 2;
  x.fill(3);
  CHECK(tape.size() == 0);
  CHECK(same(tape.gradient(x * x, x), {6.0, 6.0}));
}

TEST_CASE("writing through a view to a saved value is noticed", "[tape]") {
  Tensor x = {1.0, 2.0};
  Tensor first = x[0];  // taken before the tape follows x
  GradientTape tape;
  tape.watch(x);
  const Tensor y = square(x);
  first.fill(9);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
  CHECK(tape.recording());  // the tape is as it was
}

TEST_CASE("writing to a saved value that the asked gradient does not need is no error", "[tape]") {
  Tensor x = {1.0, 2.0};
  const Tensor other = {3.0, 4.0};
  GradientTape tape{{.persistent = true}};
  tape.watch({x, other});
  const Tensor a = square(other), b = square(x);
  x.fill(9);
  CHECK(same(tape.gradient(a, other), {6.0, 8.0}));
  CHECK_THROWS_AS(tape.gradient(b, x), TapeError);
}
