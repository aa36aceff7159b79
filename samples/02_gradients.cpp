// 02_gradients: a tape records what is computed from parameters and replays it in reverse.
// Shows: two gradients at once, gradients of gradients, a persistent tape, watching any tensor, a pause in the
//        recording, weights for several targets, parts cut off with stop_gradient, what the tape recorded.
// Prints: f 42, df/dx 24, df/dy 10; the first two derivatives of x^3 at 3 (27 and 18) and of x^2 at 1 (2 and 2); the
//         operations of f with file and line.
// Fails:  if one of the gradients is not the one that its comment says.
#include <capstan/capstan.hpp>

#include <cstdio>
#include <iostream>
#include <vector>

namespace cs = capstan;

namespace {

bool expect(bool right, const char* what) {
  if (!right) std::printf("wrong: %s\n", what);
  return right;
}

bool two_gradients() {
  cs::Parameter x(3.0f), y(4.0f);  // trainable: watched by every tape on this thread
  cs::GradientTape tape;           // records until it goes out of scope
  cs::Tensor f = x * x * y + y + 2;
  std::cout << tape;
  auto [dx, dy] = tape.gradient(f, x, y);
  std::printf("f %g, df/dx %g, df/dy %g\n", f.item<float>(), dx.item<float>(), dy.item<float>());
  return expect(f.item<float>() == 42, "f") && expect(dx.item<float>() == 24, "df/dx") &&
         expect(dy.item<float>() == 10, "df/dy");
}

struct Derivatives {
  cs::Tensor first, second;
};

Derivatives derivatives_of_a_power(float at, int exponent) {
  cs::Parameter x(at);
  cs::GradientTape outer;  // gradients of gradients: nest
  cs::Tensor first;
  {
    cs::GradientTape inner;
    cs::Tensor a = cs::pow(x, exponent);
    first = inner.gradient(a, x);
  }
  cs::Tensor second = outer.gradient(first, x);
  std::printf("the first two derivatives of x^%d at %g: %g, %g\n", exponent, at, first.item<float>(),
              second.item<float>());
  return {first, second};
}

bool second_derivatives() {
  const auto [d1, d2] = derivatives_of_a_power(3, 3);  // 3 x^2 and 6 x
  const auto [e1, e2] = derivatives_of_a_power(1, 2);  // 2 x and 2
  return expect(cs::all_close(d1, cs::Tensor(27.0f)), "3 x^2") && expect(cs::all_close(d2, cs::Tensor(18.0f)), "6 x") &&
         expect(cs::all_close(e1, cs::Tensor(2.0f)), "2 x") && expect(cs::all_close(e2, cs::Tensor(2.0f)), "2");
}

bool a_tape_that_stays() {
  cs::GradientTape tape{{.persistent = true, .watch_parameters = false}};
  const cs::Tensor x = {1.0f, 2.0f};
  tape.watch(x);
  const cs::Tensor square = x * x, cube = square * x;
  cs::Tensor unseen;
  {
    auto pause = tape.stop_recording();
    unseen = x * 5;
  }
  const cs::Tensor f = cube + unseen;
  bool right = expect(cs::array_equal(tape.gradient(square, x), {2.0f, 4.0f}), "2 x");
  right &= expect(cs::array_equal(tape.gradient(f, x), {3.0f, 12.0f}), "3 x^2, without the part not recorded");

  const cs::Tensor weights = {1.0f, 10.0f};
  const cs::Tensor weighted = tape.gradient(square, x, {.output_gradient = weights});
  right &= expect(cs::array_equal(weighted, {2.0f, 40.0f}), "2 x, weighted");

  tape.reset();
  right &= expect(tape.size() == 0, "a tape that was reset is empty");
  return right;
}

bool several_targets() {
  cs::Parameter w1(cs::ones({3})), w2(cs::ones({3})), w3(cs::ones({3})), w4(cs::ones({3}));
  cs::GradientTape tape;
  const cs::Tensor z1 = w1 + w2 + w3, z2 = w3 + w4;
  const std::vector<cs::Tensor> sources = {w1, w2, w3, w4};
  const std::vector<cs::Tensor> weights = {cs::Tensor{2.0f, 2.0f, 3.0f}, cs::Tensor{3.0f, 2.0f, 4.0f}};
  const std::vector<cs::Tensor> gradients = tape.gradient({z1, z2}, sources, weights);
  return expect(cs::array_equal(gradients[0], weights[0]) && cs::array_equal(gradients[1], weights[0]), "dw1, dw2") &&
         expect(cs::array_equal(gradients[2], {5.0f, 4.0f, 7.0f}), "dw3") &&
         expect(cs::array_equal(gradients[3], weights[1]), "dw4");
}

bool parts_cut_off() {
  cs::Parameter w1(2.0f), w2(2.0f);
  cs::GradientTape tape{{.persistent = true}};
  const cs::Tensor a = 3 * w1;
  const cs::Tensor b = cs::stop_gradient(a) * w2;
  auto [d1, d2] = tape.gradient(b, w1, w2);
  const cs::Tensor zero = tape.gradient(b, w1, {.unconnected = cs::Unconnected::zeros});
  return expect(!d1.defined(), "unconnected gradients are undefined") && expect(d2.item<float>() == 6, "dw2") &&
         expect(zero.item<float>() == 0, "... or zero where that is asked for");
}

/// Two sums of the same numbers, of which only the second lets gradients through.
bool one_way_of_two() {
  cs::Parameter a(1.0f), b(1.0f);
  cs::GradientTape tape;
  const cs::Tensor c = a + b, d = a + b;
  const cs::Tensor e = cs::stop_gradient(c) + d;
  auto [da, db] = tape.gradient(e, a, b);
  return expect(da.item<float>() == 1, "de/da") && expect(db.item<float>() == 1, "de/db");
}

}  // namespace

int main() {
  bool right = two_gradients();
  right &= second_derivatives();
  right &= a_tape_that_stays();
  right &= several_targets();
  right &= parts_cut_off();
  right &= one_way_of_two();
  std::printf("result: %s\n", right ? "all gradients are what they should be" : "some gradients are wrong");
  return right ? 0 : 1;
}
