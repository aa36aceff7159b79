// Operations as a program of its own sees them.
#include "tests/support.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

using namespace capstan;
using namespace tests;

TEST_CASE("an observer sees every operation of its thread, with operands, results and place", "[debug]") {
  const Tensor a = ones({2, 3}), b = ones({3, 4});
  std::vector<std::string> seen;
  unsigned line = 0;
  {
    const debug::Observer observer([&](const debug::Operation& op) {
      seen.push_back(op.name);
      if (std::string(op.name) != "matmul") return;
      CHECK(op.inputs.size() == 2u);
      CHECK(op.inputs[0]->is_same(a));
      CHECK(op.outputs[0]->shape() == Shape{2, 4});
      CHECK_FALSE(op.backward);
      CHECK_FALSE(op.composed);
      line = op.where.line();
    });
    const unsigned expected = __LINE__ + 1;
    relu(matmul(a, b));
    CHECK(line == expected);
    std::thread([&] { exp(a); }).join();
  }
  sqrt(a);
  CHECK(seen == std::vector<std::string>{"matmul", "relu"});
}

TEST_CASE("an observer goes while other threads never rest", "[debug][threads]") {
  std::atomic<bool> is_over{false};
  std::atomic<std::int64_t> seen{0};
  std::vector<std::thread> workers;
  for (int i = 0; i < 8; ++i)
    workers.emplace_back([&] {
      const debug::Observer own([&](const debug::Operation&) {
        ++seen;
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // so that some thread is always being told
      });
      const Tensor a = ones({2});
      while (!is_over) exp(a);
    });
  for (int i = 0; i < 200; ++i) {
    const debug::Observer observer([](const debug::Operation&) { FAIL("this thread computes nothing"); });
    std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& worker : workers) worker.join();
  CHECK(seen > 0);
}

TEST_CASE("an observer tells replays and views from other operations", "[debug]") {
  const Tensor x = ones({2, 3});
  std::map<std::string, int> forward, backward, composed;
  const debug::Observer observer([&](const debug::Operation& op) {
    ++(op.backward ? backward : forward)[op.name];
    if (op.composed && !op.backward) ++composed[op.name];
  });
  GradientTape tape;
  tape.watch(x);
  tape.gradient(sum(exp(transpose(x))), x);
  CHECK(forward["exp"] == 1);
  CHECK(backward["exp"] == 1);
  CHECK(composed["permute"] == 1);
  CHECK(composed["exp"] == 0);
}

TEST_CASE("pooling tells how many elements its windows hold", "[debug][pooling]") {
  const Tensor x = ones({2, 3, 5, 5});
  std::vector<std::int64_t> reads;
  const debug::Observer observer([&](const debug::Operation& op) {
    if (std::string(op.name).find("pool") != std::string::npos) reads.push_back(op.reads);
  });
  max_pool2d(x, 2);                      // 2 x 2 windows of 2 x 2
  avg_pool2d(x, {3, 1}, {.stride = 1});  // 3 x 5 windows of 3 x 1
  adaptive_avg_pool2d(x, {2, 5});        // rows 0 to 2 and 2 to 4, columns one by one
  global_max_pool(x);
  adaptive_max_pool1d(x[0], 3);  // 0 1, 1 2 3, 3 4
  CHECK(reads == std::vector<std::int64_t>{6 * 16, 6 * 45, 6 * 30, 6 * 25, 3 * 5 * 7});
  bool first = true;
  std::int64_t others = 0;
  const debug::Observer other([&](const debug::Operation& op) { others += first ? 0 : op.reads, first = false; });
  max_pool2d(x, 2);
  relu(x);
  CHECK(others == 0);  // what was told is not told again
}

TEST_CASE("what an observer throws comes out of the operation, which is not recorded", "[debug][tape]") {
  const Tensor x = ones({2});
  GradientTape tape;
  tape.watch(x);
  {
    const debug::Observer observer([](const debug::Operation&) { throw IndexError("from the observer"); });
    CHECK_THROWS_AS(exp(x), IndexError);
  }
  CHECK(tape.size() == 0);
  const Tensor y = exp(x);
  CHECK(tape.size() == 1);
  CHECK(same(tape.gradient(y, x), y));
}
