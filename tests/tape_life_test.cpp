// How gradient tapes nest, move, end, cross threads and grow; what they keep and print.
#include "tests/support.hpp"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

using namespace capstan;
using namespace tests;

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// dy/dx where y is x added to itself that many times.
double slope_of_chain(int length) {
  const Tensor x(1.0);
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < length; ++i) y = y + x;
  return number(tape.gradient(y, x));
}

void use_a_tape(const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  CHECK(same(tape.gradient(x * x, x), x + x));
}

/// 2 * x, by a function with a gradient of its own that alone owns a tape.
Tensor doubled_by_owner(const Tensor& x) {
  const auto owned = std::make_shared<GradientTape>();
  return custom_gradient(
      x, [](const Tensor& t) { return t * 2; },
      [owned](const Tensor& g, const Tensor&, const Tensor&) { return g * 2; });
}

/// Fifty steps of gradient descent on a small network; the parameters in the end.
std::vector<double> trained(std::uint64_t seed) {
  Rng rng(seed);
  nn::Linear hidden(3, 8, {}, rng), out(8, 1, {}, rng);
  const Tensor x = uniform({16, 3}, -1, 1, rng), target = sum(x, 1, {.keepdims = true});
  optim::Sgd sgd({hidden.weight, hidden.bias, out.weight, out.bias}, {.learning_rate = 0.05});
  for (int step = 0; step < 50; ++step) {
    GradientTape tape;
    const Tensor loss = mse_loss(out(tanh(hidden(x))), target);
    sgd.apply(tape.gradient(loss, sgd.parameters()));
  }
  std::vector<double> all = values(hidden.weight);
  const std::vector<double> more = values(out.weight);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

// --- nesting ---------------------------------------------------------------------------------------------------

TEST_CASE("three nested tapes give three derivatives of x^4", "[tape]") {
  Parameter x(2.0);
  GradientTape third;
  Tensor d1, d2;
  {
    GradientTape second;
    {
      GradientTape first;
      d1 = first.gradient(pow(x, 4), x);
    }
    CHECK(number(d1) == 32);  // 4 x^3
    d2 = second.gradient(d1, x);
  }
  CHECK(number(d2) == 48);                     // 12 x^2
  CHECK(number(third.gradient(d2, x)) == 48);  // 24 x
}

TEST_CASE("the replay of an inner tape is recorded only by outer tapes that watch", "[tape]") {
  const Tensor x(3.0);
  GradientTape outer;
  GradientTape inner;
  inner.watch(x);
  const Tensor slope = inner.gradient(x * x * x, x);
  CHECK(number(slope) == 27);
  CHECK(outer.size() == 0);
  CHECK_THROWS_AS(outer.gradient(slope, x), TapeError);
}

TEST_CASE("tapes side by side record each for itself", "[tape]") {
  const Tensor x(3.0), y(5.0);
  GradientTape of_x, of_y;
  of_x.watch(x);
  of_y.watch(y);
  const Tensor z = x * y;
  CHECK(number(of_x.gradient(z, x)) == 5);
  CHECK(number(of_y.gradient(z, y)) == 3);
}

TEST_CASE("an inner tape can be asked after more was recorded on the outer one", "[tape]") {
  const Tensor x(2.0);
  GradientTape outer{{.persistent = true}}, inner{{.persistent = true}};
  outer.watch(x);
  inner.watch(x);
  const Tensor y = x * x * x;
  const Tensor first = inner.gradient(y, x);       // 3 x^2
  const Tensor mixed = first * y;                  // 3 x^5
  CHECK(number(outer.gradient(mixed, x)) == 240);  // 15 x^4
  CHECK(number(inner.gradient(mixed, x)) == 144);  // `first` was not recorded by inner itself: first * 3 x^2
}

// --- ends and moves --------------------------------------------------------------------------------------------

TEST_CASE("tapes may end in any order", "[tape]") {
  const Tensor x(3.0);
  auto a = std::make_unique<GradientTape>();
  auto b = std::make_unique<GradientTape>();
  auto c = std::make_unique<GradientTape>();
  for (const auto* tape : {&a, &b, &c}) (*tape)->watch(x);
  const Tensor before = x * x;
  a.reset();  // the oldest first
  const Tensor between = before * x;
  c.reset();  // then the youngest
  const Tensor after = between * x;
  CHECK(number(b->gradient(after, x)) == 4 * 27);
}

TEST_CASE("a moved tape records on in its new place", "[tape]") {
  const Tensor x(3.0);
  GradientTape first;
  first.watch(x);
  const Tensor before = x * x;
  GradientTape second = std::move(first);
  const Tensor after = before * x;
  CHECK(second.size() == 2);
  first = GradientTape();  // a moved-from tape can be assigned to
  first.watch(x);
  const Tensor later = after * 2;
  CHECK(first.size() == 0);  // x itself was not used since
  CHECK(number(second.gradient(later, x)) == 54);
}

TEST_CASE("assigning a tape ends what was recorded before", "[tape]") {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  tape = GradientTape();
  CHECK(tape.size() == 0);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
  tape.watch(x);
  CHECK(number(tape.gradient(x * x, x)) == 6);
}

TEST_CASE("a vector of tapes can grow while they record", "[tape]") {
  const Tensor x(2.0);
  std::vector<GradientTape> tapes;
  Tensor y = x;
  for (int i = 0; i < 10; ++i) {
    tapes.emplace_back();
    tapes.back().watch(x);
    y = y * x;
  }
  for (int i = 0; i < 10; ++i) CHECK(tapes[static_cast<std::size_t>(i)].size() == 10 - i);
  CHECK(number(tapes.front().gradient(y, x)) == 11 * 1024);  // y = x^11
}

TEST_CASE("tensors outlive the tape that recorded them", "[tape]") {
  const Tensor x(3.0);
  Tensor y;
  {
    GradientTape tape;
    tape.watch(x);
    y = x * x;
  }
  CHECK(number(y + x) == 12);
  GradientTape later;
  later.watch(x);
  CHECK_THROWS_AS(later.gradient(y, x), TapeError);  // y stood on the other tape
}

TEST_CASE("a tape gives its memory back when it ends, spent or not", "[tape]") {
  const Tensor x = ones({1000});
  use_a_tape(x);  // what a thread keeps for its tapes is there from now on
  for (const bool ask : {false, true}) {
    const std::int64_t before = memory::stats().in_use;
    {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = exp(x) * exp(x);
      if (ask) tape.gradient(y, x);
      CHECK(memory::stats().in_use > before);
    }
    CHECK(memory::stats().in_use == before);
  }
}

TEST_CASE("a tape may own other tapes, which end with it", "[tape]") {
  const Tensor x = ones({3});
  use_a_tape(x);
  const std::int64_t before = memory::stats().in_use;
  for (int round = 0; round < 12; ++round) {
    Tensor y;
    {
      GradientTape tape{{.persistent = round % 2 == 1}};
      tape.watch(x);
      y = doubled_by_owner(doubled_by_owner(x));
      if (round % 3 == 1) CHECK(same(tape.gradient(y, x), ones({3}) * 4));
      if (round % 3 == 2) tape.reset();
    }
    CHECK(same(x, ones({3})));  // nobody let go of them twice
    CHECK(same(y, ones({3}) * 4));
    y = Tensor();
    CHECK(memory::stats().in_use == before);
  }
}

TEST_CASE("a function that a tape owns may compute when it goes, and other tapes hear that", "[tape]") {
  const Tensor x(3.0), t(5.0);
  GradientTape other;
  other.watch(t);
  Tensor last;
  const auto compute = [&](void*) {
    for (int i = 0; i < 1000; ++i) last = t * x;  // many: the log has to grow
  };
  for (const bool ask : {false, true}) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = custom_gradient(
        x, [](const Tensor& a) { return a * 2; },
        [end = std::shared_ptr<void>(nullptr, compute)](const Tensor& g, const Tensor&, const Tensor&) {
          return g * 2;
        });
    if (ask) CHECK(number(tape.gradient(y, x)) == 2);
  }
  CHECK(other.size() == 2000);
  CHECK(number(other.gradient(last, t)) == 3);
}

TEST_CASE("an operation that throws leaves the tape as it was", "[tape][errors]") {
  const Tensor x = {1.0, 2.0}, longer = {1.0, 2.0, 3.0};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * x;
  const std::int64_t size = tape.size(), kept = tape.bytes_kept();
  CHECK_THROWS_AS(y + longer, ShapeError);
  CHECK_THROWS_AS(gather(y, Tensor{7}), IndexError);
  CHECK_THROWS_AS(mse_loss(y, longer), ShapeError);
  CHECK(tape.size() == size);
  CHECK(tape.bytes_kept() == kept);
  CHECK(same(tape.gradient(y * 2, x), {4.0, 8.0}));
}

// --- threads ---------------------------------------------------------------------------------------------------

TEST_CASE("a tape hears only its own thread", "[tape][threads]") {
  const Tensor x(3.0);
  GradientTape tape;
  tape.watch(x);
  double elsewhere = 0;
  std::thread([&] { elsewhere = number(x * x); }).join();
  CHECK(elsewhere == 9);
  CHECK(tape.size() == 0);
}

TEST_CASE("a tape may be destroyed on another thread", "[tape][threads]") {
  const Tensor x = ones({1000});
  use_a_tape(x);
  const std::int64_t before = memory::stats().in_use;
  {
    auto tape = std::make_unique<GradientTape>();
    tape->watch(x);
    const Tensor y = exp(x) * x;
    std::thread([moved = std::move(tape)]() mutable { moved.reset(); }).join();
  }
  use_a_tape(x);  // the thread uses a tape again, and lets go of the other's memory
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a tape of a thread that is over may own other tapes of that thread", "[tape][threads]") {
  const Tensor x = ones({1000});
  use_a_tape(x);
  const std::int64_t before = memory::stats().in_use;
  std::unique_ptr<GradientTape> tape;
  std::thread([&] {
    tape = std::make_unique<GradientTape>();
    tape->watch(x);
    const Tensor y = doubled_by_owner(x);
    tape->on_gradient(y, [owned = std::make_shared<GradientTape>()](const Tensor&) {});
  }).join();
  tape.reset();
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a tape that is destroyed while its thread ends is not lost", "[tape][threads]") {
  const Tensor x = ones({1000});
  use_a_tape(x);
  const std::int64_t before = memory::stats().in_use;
  for (int round = 0; round < 200; ++round) {
    std::promise<std::unique_ptr<GradientTape>> made;
    std::thread maker([&] {
      auto tape = std::make_unique<GradientTape>();
      tape->watch(x);
      const Tensor y = exp(x);
      made.set_value(std::move(tape));
    });
    made.get_future().get().reset();
    maker.join();
  }
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a NoGrad that is destroyed on another thread changes nothing there", "[tape][threads]") {
  const Tensor x(3.0);
  std::unique_ptr<NoGrad> off;
  const auto make = [&] { off = std::make_unique<NoGrad>(); };
  std::thread(make).join();
  std::thread([&] { off.reset(); }).join();  // a thread without a tape
  std::thread(make).join();
  use_a_tape(x);
  off.reset();  // one with tapes
  use_a_tape(x);
  const NoGrad own;
  GradientTape tape;
  CHECK_FALSE(tape.recording());
}

TEST_CASE("two threads train two models as each would alone", "[tape][threads]") {
  const std::vector<double> alone_1 = trained(1), alone_2 = trained(2);
  std::vector<double> together_1, together_2;
  std::thread first([&] { together_1 = trained(1); });
  std::thread second([&] { together_2 = trained(2); });
  first.join();
  second.join();
  CHECK(same_bits(alone_1, together_1));
  CHECK(same_bits(alone_2, together_2));
  CHECK_FALSE(same_bits(alone_1, alone_2));
}

// --- size ------------------------------------------------------------------------------------------------------

TEST_CASE("a chain of a million operations replays without recursion, in linear time", "[tape][host]") {
  const auto best_of_three = [](int length) {
    double best = kInfinity;
    for (int run = 0; run < 3; ++run) {
      const auto start = std::chrono::steady_clock::now();
      CHECK(slope_of_chain(length) == length + 1);
      best = std::min(best, seconds_since(start));
    }
    return best;
  };
  const double half = best_of_three(500000), whole = best_of_three(1000000);
  INFO(half << " s for half a million operations, " << whole << " s for a million");
  CHECK(whole < 4 * half);
}

TEST_CASE("a long tape finds its tensors however many short ones came and went", "[tape]") {
  const Tensor x(1.0), t(3.0);
  GradientTape tape;
  tape.watch(x);
  Tensor y = x;
  for (int i = 0; i < 20000; ++i) {
    GradientTape brief;
    brief.watch(t);
    brief.gradient(t * t, t);
    y = y + x;
  }
  CHECK(number(tape.gradient(y, x)) == 20001);
}

TEST_CASE("a tape keeps what its gradients need, and no more", "[tape]") {
  const Tensor x = ones({1024}), y = ones({1024});  // 4096 bytes each
  const auto kept_by = [&](const std::function<Tensor()>& compute) {
    GradientTape tape;
    tape.watch({x, y});
    const Tensor result = compute();
    CHECK(tape.size() == 1);
    return tape.bytes_kept();
  };
  CHECK(kept_by([&] { return x + y; }) == 0);
  CHECK(kept_by([&] { return -x; }) == 0);
  CHECK(kept_by([&] { return x * 3; }) == 4);  // the number
  CHECK(kept_by([&] { return sum(x); }) == 0);
  CHECK(kept_by([&] { return reshape(x, {32, 32}); }) == 0);
  CHECK(kept_by([&] { return exp(x); }) == 4096);     // the result
  CHECK(kept_by([&] { return square(x); }) == 4096);  // the operand
  CHECK(kept_by([&] { return x * y; }) == 2 * 4096);  // both operands
  CHECK(kept_by([&] { return x * x; }) == 4096);      // one storage counts once
}

TEST_CASE("a product keeps an operand only for the gradient of the other", "[tape][linalg]") {
  const Tensor x = random_in(-1, 1, {40, 30}, DType::float32, 1);
  Tensor w = random_in(-1, 1, {30, 20}, DType::float32, 2);
  const Tensor b = random_in(-1, 1, {20}, DType::float32, 3), c = random_in(-1, 1, {40, 20}, DType::float32, 4);
  const auto kept = [&](const Tensor& watched, auto&& product) {
    GradientTape tape;
    tape.watch(watched);
    product();
    return tape.bytes_kept();
  };
  const std::int64_t of_x = 40 * 30 * 4, of_w = 30 * 20 * 4;
  for (const auto& product : std::vector<std::function<Tensor()>>{
           [&] { return matmul(x, w); }, [&] { return linear(x, w, b); }, [&] { return addmm(c, x, w); }}) {
    CHECK(kept(x, product) == of_w);
    CHECK(kept(w, product) == of_x);
  }
  CHECK(kept(b, [&] { return linear(x, w, b); }) == 0);
  const Tensor image = random_in(-1, 1, {2, 3, 8, 8}, DType::float32, 5);
  const Tensor kernel = random_in(-1, 1, {4, 3, 3, 3}, DType::float32, 6);
  CHECK(kept(image, [&] { return conv2d(image, kernel, {}); }) == 4 * 3 * 3 * 3 * 4);
  CHECK(kept(kernel, [&] { return conv2d(image, kernel, {}); }) == 2 * 3 * 8 * 8 * 4);
  CHECK(kept(x, [&] { return matmul(stack({x, x}), w); }) == of_w);
  GradientTape tape({.persistent = true});
  tape.watch(w);
  const Tensor y = matmul(x, w), target = sum(square(y));
  const Tensor first = tape.gradient(target, w);
  w.assign(stop_gradient(w * 2));  // no gradient needs what it was
  CHECK(same(tape.gradient(target, w), first));
}

TEST_CASE("an operand that is followed after it was used has nothing to do with that use", "[tape][linalg]") {
  const Tensor x = random_in(-1, 1, {1, 2, 5, 5}, DType::float32, 1),
               k = random_in(-1, 1, {3, 2, 3, 3}, DType::float32, 2);
  const Tensor a = random_in(-1, 1, {4, 4}, DType::float32, 3), b = random_in(-1, 1, {4, 4}, DType::float32, 4);
  for (const bool paused : {false, true}) {
    const auto use = [&] { return sum(conv2d(x, k, {})) + sum(matmul(a, b)) + sum(a * b) + sum(linear(a, b, b[0])); };
    GradientTape outer({.persistent = true});
    std::optional<GradientTape> other(std::in_place);
    outer.watch({x, a});
    other->watch({k, b});
    const Tensor held = k * 2 + 1, too = b * 2;  // entries that keep the slots of k and b
    Tensor y;
    if (paused) {
      const auto pause = other->stop_recording();
      y = use();
    } else {
      other.reset();
      y = use();
    }
    outer.watch({k, b});
    CHECK_FALSE(outer.gradient(y, k).defined());
    CHECK_FALSE(outer.gradient(y, b).defined());
    CHECK(outer.gradient(y, a).defined());
    CHECK(outer.gradient(y, x).defined());
  }
}

TEST_CASE("a use before watch counts for the tapes that followed then, and for no other", "[tape]") {
  Parameter w(2.0f);
  const Tensor v(3.0f);
  GradientTape outer({.persistent = true}), inner({.persistent = true, .watch_parameters = false});
  inner.watch(v);
  const Tensor z = w * v;  // an entry of both tapes, but w is the outer one's
  inner.watch(w);
  const Tensor y = z * w;
  CHECK(inner.gradient(y, w).item<float>() == 6);  // z
  CHECK(inner.gradient(y, v).item<float>() == 4);  // w * w
  const std::vector<Tensor> both = inner.gradient(y, {v, w});
  CHECK(both[0].item<float>() == 4);
  CHECK(both[1].item<float>() == 6);
  CHECK_FALSE(inner.gradient(z, w).defined());
  CHECK(inner.explain(z, w).find("was not computed from the source") != std::string::npos);
  CHECK(inner.explain(y, w).find("depends on the source") != std::string::npos);
  const std::vector<RecordedOperation> operations = inner.operations();
  REQUIRE(operations.size() == 2);
  CHECK(operations[0].inputs[0].id == -1);
  CHECK(operations[1].inputs[1].id == inner.id_of(w));
  CHECK(inner.gradient(w, w).item<float>() == 1);
  CHECK(inner.gradient({z, w}, std::vector<Tensor>{w})[0].item<float>() == 1);
  CHECK(outer.gradient(y, w).item<float>() == 12);  // 2wv
  const Tensor later = z * w * w;
  CHECK(inner.gradient(later, w).item<float>() == 24);  // 2zw
  CHECK(outer.gradient(later, w).item<float>() == 36);  // 3w^2 v
}

TEST_CASE("a tape whose replay throws gives its memory back all the same", "[tape][errors]") {
  const Tensor x = random_in(-1, 1, {64}, DType::float32, 1);
  const std::int64_t before = memory::stats().in_use;
  GradientTape tape, outer;
  tape.watch(x);
  outer.watch(x);
  Tensor y = custom_gradient(
      x, [](const Tensor& t) { return t * 1; },
      [](const Tensor&, const Tensor&, const Tensor&) -> Tensor { throw std::runtime_error("refused"); });
  for (int i = 0; i < 20; ++i) y = tanh(y);
  y = sum(y);
  const std::int64_t outer_size = outer.size();
  CHECK_THROWS_AS(tape.gradient(y, x), std::runtime_error);
  CHECK_THROWS_AS(tape.gradient(y, x), TapeError);  // it is spent
  CHECK(tape.size() == 0);
  CHECK(outer.size() == outer_size);  // nothing of the replay
  outer.reset();
  y = Tensor();
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a tape prints one line an operation, each with the line of its operator", "[tape]") {
  const Tensor x = {{1.0f, 2.0f, 3.0f}};
  GradientTape tape;
  tape.watch(x);
  // clang-format off
  const int line = __LINE__ + 1;
  const Tensor y = x * x * x
                   + x
                   + 2;
  // clang-format on
  const Tensor z = sum(exp(y));
  std::ostringstream out;
  out << tape;

  std::vector<std::string> lines;
  std::istringstream in(out.str());
  for (std::string text; std::getline(in, text);) lines.push_back(text);
  const auto has = [&](std::size_t i, const std::string& part) {
    INFO("line " << i << " of\n" << out.str() << "should have " << part);
    CHECK((i < lines.size() && lines[i].find(part) != std::string::npos));
  };
  REQUIRE(tape.size() == 6);
  CHECK(lines.size() == 6u);
#if defined(__clang__)
  constexpr int step = 0;  // it says where the left operand begins
#else
  constexpr int step = 1;
#endif
  const std::pair<const char*, int> expected[] = {{"mul", line},        {"mul", line},
                                                  {"add", line + step}, {"add", line + 2 * step},
                                                  {"exp", line + 4},    {"sum", line + 4}};
  for (std::size_t i = 0; i < 6; ++i) {
    has(i, expected[i].first);
    has(i, "tape_life_test.cpp:" + std::to_string(expected[i].second));
    has(i, i == 5 ? "[]" : "[1, 3]");
  }
  has(4, "12");  // exp keeps its three float32 results
}
