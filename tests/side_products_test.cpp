// Products that a worker does beside a replay: that they are done when somebody looks, and what they throw.
// That results do not depend on them is in threads_test.cpp.
#include "tests/support.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "autograd/side_products.hpp"

using namespace capstan;
using namespace tests;

namespace {

Tensor random32(const Shape& shape, std::uint64_t seed_of) { return random_in(-1, 1, shape, DType::float32, seed_of); }

/// Many products for one weight, whose replays come at once, and behind them that of `first`.
struct ManyProducts {
  Tensor weight = random32({64, 64}, 1), bias = random32({64}, 2);
  std::vector<Tensor> factors;
  ManyProducts() {
    for (std::uint64_t i = 0; i < 14; ++i) factors.push_back(random32({64, 64}, 3 + i));
  }
  template <class First>
  std::vector<double> gradient_with(First first) const {
    GradientTape tape;
    tape.watch(weight);
    tape.watch(bias);
    const Tensor scale = first(bias * 1);
    Tensor total = zeros({64, 64});
    for (const Tensor& factor : factors) total = total + matmul(factor, weight);
    return values(tape.gradient(sum(total * scale), {weight, bias})[0]);
  }
};

void fill(Tensor x) { x.fill(0.5); }

}  // namespace

TEST_CASE("a backward function may change the factors of products that came before", "[tape][threads]") {
  const ThreadCount two(2);
  const std::vector<double> expected = ManyProducts().gradient_with([](const Tensor& b) { return b; });
  const ManyProducts net;
  CHECK(same_bits(net.gradient_with([&](const Tensor& b) {
    return custom_gradient(
        b, [](const Tensor& x) { return x * 1; },
        [&](const Tensor& gradient, const Tensor&, const Tensor&) {
          for (const Tensor& factor : net.factors) fill(factor);
          return gradient;
        });
  }),
                  expected));
}

TEST_CASE("a function that runs again may change the factors of products that came before", "[tape][threads]") {
  const ThreadCount two(2);
  const std::vector<double> expected = ManyProducts().gradient_with([](const Tensor& b) { return b; });
  const ManyProducts net;
  int runs = 0;
  CHECK(same_bits(net.gradient_with([&](const Tensor& b) {
    return recompute(
        [&](const Tensor& x) {
          for (const Tensor& factor : net.factors)
            if (runs > 0) fill(factor);
          ++runs;
          return x * 1;
        },
        b);
  }),
                  expected));
  CHECK(runs == 2);
}

TEST_CASE("a product that runs out of memory beside a replay throws when all are asked for",
          "[tape][threads][errors]") {
  const ThreadCount two(2);
  const Tensor letters = transpose(one_hot(random_in(0, 64, {64}, DType::int64, 1), 64)),
               gradient = random32({64, 64}, 2);
  const Tensor sum = zeros({64, 64});
  autograd::SideProducts beside;
  memory::release_cache();
  memory::set_limit(cpu(), memory::stats().reserved + 1);  // terms are sorted in memory of their own
  REQUIRE(beside.takes(letters, gradient));
  beside.give(letters, gradient, *sum.impl(), false);
  CHECK_THROWS_AS(beside.finish(), OutOfMemoryError);
  memory::set_limit(cpu(), 0);
  REQUIRE(beside.takes(letters, gradient));
  beside.give(letters, gradient, *sum.impl(), false);
  CHECK_NOTHROW(beside.finish());
  CHECK(same_bits(values(sum), values(matmul(letters, gradient))));
  beside.end();
}

TEST_CASE("products for which a worker has no memory are made of what the replay's thread has", "[tape][threads]") {
  const ThreadCount two(2);
  const Tensor letters = transpose(one_hot(random_in(0, 64, {64}, DType::int64, 1), 64)), other = random32({64, 64}, 3);
  const Tensor gradient = random32({64, 64}, 2), sum = zeros({64, 64});
  const Tensor expected = matmul(letters, gradient) + matmul(other, gradient) + matmul(letters, gradient);
  autograd::SideProducts beside;
  memory::release_cache();
  (void)matmul(letters, gradient);  // leaves blocks in this thread's cache
  memory::set_limit(cpu(), memory::stats().reserved + 1);
  bool accumulate = false;
  for (const Tensor& factor : {letters, other, letters}) {
    REQUIRE(beside.takes(factor, gradient));
    beside.give(factor, gradient, *sum.impl(), std::exchange(accumulate, true));
  }
  CHECK_NOTHROW(beside.finish());
  memory::set_limit(cpu(), 0);
  CHECK(same_bits(values(sum), values(expected)));
  beside.end();
}

TEST_CASE("gradients within a function that is frozen are part of its plan", "[plan][threads]") {
  const ThreadCount two(2);
  const Tensor weight = random32({64, 64}, 1), seed = random32({64, 64}, 2);
  const auto gradient = [&](const Tensor& x) {
    return vjp([&](const Tensor& in) { return tanh(matmul(weight, in)); }, x, seed).gradient;
  };
  Plan plan = freeze(gradient, {{64, 64}});
  for (std::uint64_t i = 3; i < 6; ++i) {
    const Tensor x = random32({64, 64}, i);
    const std::vector<float> numbers = x.to_vector<float>();
    std::copy(numbers.begin(), numbers.end(), plan.input<float>().begin());
    plan.run();
    CHECK(same_bits(values(plan.outputs()[0]), values(gradient(x))));
  }
}

TEST_CASE("jobs are done in their order, whoever has the worker and however often it slept", "[threads]") {
  const ThreadCount three(3);
  struct Numbered {
    std::vector<std::uint32_t>* seen;
    std::uint32_t number;
  };
  std::vector<std::uint32_t> seen;
  const auto note = [](void* context) noexcept {
    const auto& job = *static_cast<const Numbered*>(context);
    job.seen->push_back(job.number);
  };
  for (int round = 0; round < 20; ++round) {
    Numbered given[base::JobQueue::kRoom];
    base::JobQueue jobs;
    REQUIRE(jobs.has_worker());
    CHECK_FALSE(base::JobQueue().has_worker());  // it is taken
    seen.clear();
    if (round % 5 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (std::uint32_t i = 0; i < base::JobQueue::kRoom; ++i) {
      given[i] = {&seen, i};
      jobs.give(note, &given[i]);
    }
    std::atomic<int> pieces{0};
    base::parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) { pieces += static_cast<int>(end - begin); });
    CHECK(pieces == 100);
    jobs.finish();
    CHECK(jobs.done() == base::JobQueue::kRoom);
    REQUIRE(seen.size() == base::JobQueue::kRoom);
    for (std::uint32_t i = 0; i < base::JobQueue::kRoom; ++i) CHECK(seen[i] == i);
  }
}

TEST_CASE("a worker that sleeps wakes for a job", "[threads]") {
  const ThreadCount two(2);
  base::JobQueue jobs;
  REQUIRE(jobs.has_worker());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  jobs.give([](void*) noexcept {}, nullptr);
  for (int waits = 0; jobs.done() == 0 && waits < 10000; ++waits)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(jobs.done() == 1);
}

TEST_CASE("there is no worker for jobs with one thread or in a loop, and the count may change meanwhile", "[threads]") {
  {
    const ThreadCount one(1);
    CHECK_FALSE(base::JobQueue().has_worker());
  }
  const ThreadCount two(2);
  std::atomic<int> inside{0};
  base::parallel_for(8, 1, [&](std::int64_t, std::int64_t) { inside += base::JobQueue().has_worker() ? 1 : 0; });
  CHECK(inside == 0);
  std::atomic<int> done{0};
  const auto count = [](void* context) noexcept { ++*static_cast<std::atomic<int>*>(context); };
  {
    base::JobQueue jobs;
    REQUIRE(jobs.has_worker());
    jobs.give(count, &done);
    const ThreadCount three(3);
    base::parallel_for(8, 1, [&](std::int64_t, std::int64_t) { ++inside; });  // the pool with the worker stays
    jobs.give(count, &done);
  }
  CHECK(done == 2);
  CHECK(inside > 0);
  CHECK(base::JobQueue().has_worker());
}

TEST_CASE("a worker that is late is left alone for a while", "[tape][threads]") {
  const ThreadCount two(2);
  const Tensor a = random32({80, 80}, 1), b = random32({80, 80}, 2), sum = zeros({80, 80});
  autograd::SideProducts beside;
  const auto gives = [&](int products) {
    int taken = 0;
    for (; taken < products && beside.takes(a, b); ++taken) beside.give(a, b, *sum.impl(), false);
    return taken;
  };
  CHECK(gives(1000) < 1000);  // far faster than anybody can multiply
  beside.end();
  CHECK(gives(1) == 0);
  beside.end();
  CHECK(gives(1) == 1);
  beside.end();
}
