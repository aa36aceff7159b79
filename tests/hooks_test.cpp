// Hooks: functions that see gradients in the middle of a replay.
#include "tests/support.hpp"

#include <memory>
#include <optional>
#include <thread>

using namespace capstan;
using namespace tests;

TEST_CASE("a hook sees the complete gradient of a result on the way, once", "[tape][hooks]") {
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  const Tensor h = x * x;  // 4, used three times
  int calls = 0;
  double seen = 0;
  tape.on_gradient(h, [&](const Tensor& g) {
    ++calls;
    seen = number(g);
  });
  const Tensor y = h * h + 3 * h;
  CHECK(number(tape.gradient(y, x)) == 11 * 4);  // (2h + 3) * 2x: unchanged
  CHECK(calls == 1);
  CHECK(seen == 11);
}

TEST_CASE("what a hook returns takes the gradient's place, on the way and at the source", "[tape][hooks]") {
  const Tensor x = {1.0, 2.0};
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor h = x * 3, y = h * h;
  tape.on_gradient(h, [](const Tensor& g) { return g * 10; });
  CHECK(same(tape.gradient(y, x), {180.0, 360.0}));  // 10 * 2h * 3
  CHECK(same(tape.gradient(y, h), {60.0, 120.0}));
  tape.on_gradient(x, [](const Tensor&) { return Tensor{-1.0, 1.0}; });
  CHECK(same(tape.gradient(y, x), {-1.0, 1.0}));
}

TEST_CASE("an empty hook is refused", "[tape][hooks]") {
  const Tensor x = {1.0, 2.0};
  GradientTape tape;
  tape.watch(x);
  const std::string what = "GradientTape::on_gradient: the hook is empty; give it a function.";
  void (*const nothing)(const Tensor&) = nullptr;
  check_errors(
      {
          {__LINE__, message_of<Error>, [&] { tape.on_gradient(x, Callback<Tensor(const Tensor&)>()); }, what},
          {__LINE__, message_of<Error>, [&] { tape.on_gradient(x, Callback<void(const Tensor&)>()); }, what},
          {__LINE__, message_of<Error>, [&] { tape.on_gradient(x, nothing); }, what},
      },
      "hooks_test.cpp");
}

TEST_CASE("hooks of one tensor run in order, each on what the one before it left", "[tape][hooks]") {
  Parameter w(3.0f);
  GradientTape tape;
  std::vector<float> seen;
  tape.on_gradient(w, [](const Tensor& g) { return g + 1; });  // before the first use of w
  tape.on_gradient(w, [&](const Tensor& g) { seen.push_back(g.item<float>()); });
  tape.on_gradient(w, [&](const Tensor& g) {
    seen.push_back(g.item<float>());
    return g * 2;
  });
  tape.on_gradient(w, [](const Tensor&) { return Tensor(); });  // undefined: as it is
  CHECK(tape.gradient(w * 5, w).item<float>() == 12);           // (5 + 1) * 2
  CHECK(seen == std::vector<float>{6, 6});
}

TEST_CASE("a Parameter's hook runs as soon as the first operation that used it has been replayed", "[tape][hooks]") {
  Parameter first(2.0), second(3.0);
  GradientTape tape;
  const Tensor x(1.0);
  const Tensor a = x * first, b = a * second;
  std::string order;
  tape.on_gradient(first, [&](const Tensor&) { order += "first "; });
  tape.on_gradient(a, [&](const Tensor&) { order += "a "; });
  tape.on_gradient(second, [&](const Tensor&) { order += "second "; });
  tape.on_gradient(b, [&](const Tensor&) { order += "b "; });
  tape.gradient(b, first, second);
  CHECK(order == "b second a first ");
}

TEST_CASE("a hook is called only in replays that need its gradient, and in every one of them", "[tape][hooks]") {
  const Tensor x(2.0), other(5.0);
  GradientTape tape{{.persistent = true}};
  tape.watch({x, other});
  const Tensor h = x * x, apart = other * other, y = h + apart;
  int calls = 0;
  tape.on_gradient(h, [&](const Tensor&) { ++calls; });
  tape.gradient(y, other);
  CHECK(calls == 0);
  tape.gradient(y, x);
  tape.gradient(y, x);
  CHECK(calls == 2);
  tape.gradient(apart, x);
  CHECK(calls == 2);
  tape.jacobian(y, x);
  CHECK(calls == 3);
}

TEST_CASE("reset removes hooks, and the end of the recording frees what they hold", "[tape][hooks]") {
  const auto held = std::make_shared<int>(0);
  const Tensor x(2.0);
  GradientTape tape;
  tape.watch(x);
  tape.on_gradient(x, [held](const Tensor&) { ++*held; });
  CHECK(held.use_count() == 2);
  tape.reset();
  CHECK(held.use_count() == 1);
  tape.watch(x);
  tape.gradient(x * x, x);
  CHECK(*held == 0);

  tape.reset();
  tape.watch(x);
  tape.on_gradient(x, [held](const Tensor&) { ++*held; });
  tape.gradient(x * x, x);  // spends the tape
  CHECK(*held == 1);
  CHECK(held.use_count() == 1);
}

TEST_CASE("what a hook computes is recorded by outer tapes", "[tape][hooks]") {
  const Tensor x(3.0);
  GradientTape outer;
  outer.watch(x);
  Tensor first;
  {
    GradientTape inner;
    inner.watch(x);
    inner.on_gradient(x, [](const Tensor& g) { return g * g; });
    first = inner.gradient(x * x, x);
  }
  CHECK(number(first) == 36);                     // (2x)^2
  CHECK(number(outer.gradient(first, x)) == 24);  // 8x
}

TEST_CASE("a hook that throws spends the tape, unless it is persistent", "[tape][hooks]") {
  const Tensor x(3.0);
  for (const bool persistent : {false, true}) {
    GradientTape tape{{.persistent = persistent}};
    tape.watch(x);
    const Tensor y = x * x;
    bool angry = true;
    tape.on_gradient(x, [&](const Tensor&) {
      if (angry) throw std::string("no");
    });
    CHECK_THROWS_AS(tape.gradient(y, x), std::string);
    angry = false;
    if (persistent) CHECK(number(tape.gradient(y, x)) == 6);
    else CHECK_THROWS_AS(tape.gradient(y, x), TapeError);
    tape.reset();
    CHECK(tape.recording());
  }
}

TEST_CASE("a hook that throws leaves outer tapes as they were", "[tape][hooks]") {
  const Tensor x(3.0);
  GradientTape outer, inner;
  outer.watch(x);
  inner.watch(x);
  const Tensor h = x * x, y = h * h;
  bool angry = true;
  inner.on_gradient(x, [&](const Tensor&) {
    if (angry) throw std::string("no");
  });
  const std::int64_t size = outer.size();
  CHECK_THROWS_AS(inner.gradient(y, x), std::string);
  CHECK(outer.size() == size);
  CHECK(number(outer.gradient(y, x)) == 4 * 27);
}

TEST_CASE("a hook may ask the tape again, and may end it", "[tape][hooks]") {
  const Tensor x(3.0);
  std::optional<GradientTape> tape(std::in_place, TapeOptions{.persistent = true});
  tape->watch(x);
  const Tensor h = x * x, y = h * h;
  double inside = 0;
  bool asked = false;
  tape->on_gradient(h, [&](const Tensor&) {
    if (std::exchange(asked, true)) return;
    inside = number(tape->gradient(h, x));
  });
  CHECK(number(tape->gradient(y, x)) == 4 * 27);
  CHECK(inside == 6);

  tape->on_gradient(x, [&](const Tensor&) { tape.reset(); });
  GradientTape& as_it_was = *tape;
  CHECK(number(as_it_was.gradient(y, x)) == 4 * 27);
  CHECK_FALSE(tape.has_value());
  GradientTape later;  // the thread's log is as good as before
  later.watch(x);
  CHECK(number(later.gradient(x * x, x)) == 6);
}

TEST_CASE("a hook may have another thread end the tape", "[tape][hooks][threads]") {
  const Tensor x(3.0);
  auto tape = std::make_unique<GradientTape>();
  tape->watch(x);
  const Tensor h = x * x, y = h * h;
  tape->on_gradient(h, [&](const Tensor&) {
    std::thread([&] { tape.reset(); }).join();
    const GradientTape other;  // one that begins sees to those that other threads ended
  });
  GradientTape& as_it_was = *tape;
  CHECK(number(as_it_was.gradient(y, x)) == 4 * 27);
  CHECK_FALSE(static_cast<bool>(tape));
  GradientTape later;
  later.watch(x);
  CHECK(number(later.gradient(x * x, x)) == 6);
}

TEST_CASE("copies of a Callback share the callable", "[callback]") {
  const auto held = std::make_shared<int>(1);
  Callback<int(int)> empty, add = [held, calls = 0](int x) mutable { return x + *held + calls++; };
  CHECK_FALSE(static_cast<bool>(empty));
  CHECK(static_cast<bool>(add));
  const Callback<int(int)> same_one = add;
  CHECK(held.use_count() == 2);
  CHECK(add(10) == 11);
  CHECK(same_one(10) == 12);
  empty = std::move(add);
  CHECK(empty(10) == 13);
  empty = {};
  CHECK(same_one(10) == 14);
  Callback<void(std::string&)> appends = [](std::string& text) { return text += "!"; };  // the result is dropped
  std::string text = "so";
  appends(text);
  CHECK(text == "so!");
}
