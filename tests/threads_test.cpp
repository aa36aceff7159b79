// Results do not depend on the number of threads, bit for bit; and threads of the user's own do not disturb each other.
#include "tests/support.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string_view>
#include <thread>

using namespace capstan;
using namespace tests;

namespace {

using Compute = std::function<std::vector<Tensor>()>;

/// All elements of all results, as bytes would compare.
std::vector<std::vector<double>> bits_with(int count, const Compute& compute) {
  const ThreadCount threads_for_now(count);
  std::vector<std::vector<double>> bits;
  for (const Tensor& result : compute()) bits.push_back(values(result));
  return bits;
}

void check_independence(const char* what, const Compute& compute) {
  const auto one = bits_with(1, compute);
  for (const int count : {2, 3, 4}) {
    INFO(what << " with " << count << " threads");
    const auto several = bits_with(count, compute);
    REQUIRE(several.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(same_bits(several[i], one[i]));
  }
}

Tensor random32(const Shape& shape, std::uint64_t seed_of) { return random_in(-1, 1, shape, DType::float32, seed_of); }

/// Gradients of sum(y * y) with respect to the inputs.
std::vector<Tensor> gradients_of(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                                 const std::vector<Tensor>& inputs) {
  GradientTape tape;
  for (const Tensor& x : inputs) tape.watch(x);
  const Tensor y = f(inputs);
  std::vector<Tensor> results = tape.gradient(sum(y * y), inputs);
  results.push_back(y);
  return results;
}

struct Net {
  explicit Net(Rng& rng) : hidden(64, 128, {}, rng), out(128, 10, {}, rng) {}
  nn::Linear hidden, out;
  CAPSTAN_FIELDS(hidden, out);
  Tensor operator()(const Tensor& x) const { return out(relu(hidden(x))); }
};

std::vector<Tensor> trained() {
  Rng rng(5);
  Net net(rng);
  const Tensor x = uniform({257, 64}, -1, 1, rng), labels = randint(0, 10, {257}, rng);
  optim::Adam adam(nn::parameters(net), {.learning_rate = 0.01});
  std::vector<Tensor> results;
  for (int step = 0; step < 10; ++step) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(dropout(net(x), 0.9, rng), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
    results.push_back(loss);
  }
  for (const Tensor& p : adam.parameters()) results.push_back(p);
  return results;
}

}  // namespace

TEST_CASE("elementwise results do not depend on the number of threads", "[threads]") {
  const Tensor a = random32({300007}, 141), b = random32({300007}, 142), grid = random32({701, 431}, 143);
  check_independence("contiguous", [&] {
    return std::vector<Tensor>{
        exp(a),           tanh(a), sigmoid(a), a * b + 1, a / (b + 2), maximum(a, b), where(a < b, a, b),
        sigmoid(a * 16.3)};  // beyond 16, one value in fifty, by another formula
  });
  check_independence("strided and broadcast", [&] {
    return std::vector<Tensor>{exp(transpose(grid)),
                               grid + grid[0],
                               grid * grid.index({all, range(0, 1)}),
                               transpose(grid).copy(),
                               grid.index({from(-1, -1), from(0, 2)}) * 2,
                               cast(transpose(grid), DType::float64)};
  });
}

TEST_CASE("reductions do not depend on the number of threads", "[threads]") {
  const Tensor flat = random32({1000003}, 144), tall = random32({100003, 7}, 145), wide = random32({7, 100003}, 146);
  const Tensor cube = random32({61, 67, 71}, 147);
  check_independence("sums", [&] {
    return std::vector<Tensor>{sum(flat),    mean(flat),   sum(tall, 0),      sum(tall, 1),   sum(wide, 0),
                               sum(wide, 1), sum(cube, 1), sum(cube, {0, 2}), mean(cube, -1), sum(transpose(cube), 0)};
  });
  check_independence("norms", [&] {
    return std::vector<Tensor>{vector_norm(flat), vector_norm(tall, 2, 0), vector_norm(tall, 2, 1),
                               vector_norm(wide, 2, 1), vector_norm(cube, 2, {0, 2})};
  });
  check_independence("extremes", [&] {
    return std::vector<Tensor>{max(flat),         min(flat),    max(tall, 0),    min(wide, 1),
                               max(cube, {0, 1}), argmax(flat), argmax(tall, 0), argmax(wide, 1)};
  });
  check_independence("softmax", [&] {
    return std::vector<Tensor>{softmax(tall), softmax(wide), log_softmax(wide, 0), logsumexp(flat), logsumexp(cube, 1)};
  });
}

TEST_CASE("products of matrices do not depend on the number of threads", "[threads]") {
  const std::int64_t sizes[][3] = {{1, 1000, 1000}, {1000, 1000, 1}, {257, 509, 131}, {64, 64, 64},
                                   {513, 3, 517},   {3, 5003, 5},    {400, 400, 400}};
  for (const auto& [m, k, n] : sizes) {
    const Tensor a = random32({m, k}, 148), b = random32({k, n}, 149), turned = transpose(random32({n, k}, 150));
    INFO(m << " x " << k << " x " << n);
    check_independence("matmul", [&a, &b, &turned] { return std::vector<Tensor>{matmul(a, b), matmul(a, turned)}; });
  }
  const Tensor a = random32({17, 33, 65}, 151), b = random32({17, 65, 31}, 152), w = random32({65, 40}, 153);
  const Tensor bias = random32({40}, 154);
  check_independence("batched", [&] { return std::vector<Tensor>{matmul(a, b), matmul(a, w), linear(a, w, bias)}; });
}

TEST_CASE("gradients do not depend on the number of threads", "[threads]") {
  const Tensor x = random32({311, 203}, 155), w = random32({203, 97}, 156), b = random32({97}, 157);
  check_independence("linear", [&] {
    return gradients_of([](const std::vector<Tensor>& in) { return tanh(linear(in[0], in[1], in[2])); }, {x, w, b});
  });
  check_independence("broadcast", [&] {
    return gradients_of([](const std::vector<Tensor>& in) { return in[0] * in[1]; }, {x, random32({203}, 158)});
  });
  const Tensor rows = random_in(0, 50, {20011}, DType::int64, 159);
  check_independence("gather with repeated rows", [&] {
    return gradients_of([&](const std::vector<Tensor>& in) { return gather(in[0], rows); }, {random32({50, 33}, 160)});
  });
  check_independence("softmax", [&] {
    return gradients_of([](const std::vector<Tensor>& in) { return softmax(in[0]) + log_softmax(in[0], 0); }, {x});
  });
}

namespace {

/// What a worker multiplies beside the replay: products for weights that many steps share.
struct Steps {
  Tensor a = random32({64, 64}, 171), b = random32({64, 64}, 172), bias = random32({64}, 173);
  Tensor x = random32({64, 64}, 174);
  Tensor letters = one_hot(random_in(0, 27, {64}, DType::int64, 175), 27), from_letters = random32({27, 64}, 176);

  Tensor operator()(const std::function<Tensor(const Tensor&)>& between) const {
    Tensor h = x;
    for (int step = 0; step < 20; ++step) {
      const Tensor gate = sigmoid(linear(letters, from_letters, bias) + matmul(h, a));
      h = gate * tanh(matmul(h, b)) + (1 - gate) * h;
      if (step % 5 == 2) h = between(h);
    }
    return h;
  }
  std::vector<Tensor> gradients(const std::function<Tensor(const Tensor&)>& between) const {
    return gradients_of([&](const std::vector<Tensor>&) { return (*this)(between); }, {a, b, bias, from_letters, x});
  }
};

}  // namespace

TEST_CASE("gradients for weights that many steps share do not depend on the number of threads", "[threads]") {
  const Steps steps;
  check_independence("products alone", [&] { return steps.gradients([](const Tensor& h) { return h; }); });
  check_independence("weights that are used otherwise too", [&] {
    return steps.gradients([&](const Tensor& h) { return h + steps.a * 0.1 + gather(steps.b, argmax(h, 1)); });
  });
  check_independence("weights of different sizes", [&] {
    const Tensor wide = random32({64, 96}, 177), narrow = random32({96, 64}, 178), vector = random32({64}, 179);
    return gradients_of(
        [&](const std::vector<Tensor>& in) {
          Tensor h = steps.x;
          for (int step = 0; step < 12; ++step) h = tanh(matmul(matmul(h, in[0]), in[1]) + matmul(h, in[2]));
          return h;
        },
        {wide, narrow, vector});
  });
  check_independence("with a hook", [&] {
    std::vector<Tensor> seen;
    GradientTape tape;
    tape.watch(steps.a);
    tape.watch(steps.b);
    tape.on_gradient(steps.a, [&](const Tensor& gradient) {
      seen.push_back(gradient.copy());
      return gradient * 2;
    });
    for (const Tensor& gradient : tape.gradient(sum(steps([](const Tensor& h) { return h; })), {steps.a, steps.b}))
      seen.push_back(gradient);
    return seen;
  });
  check_independence("gradients of gradients", [&] {
    GradientTape outer, inner;
    outer.watch(steps.a);
    inner.watch(steps.a);
    const Tensor first = inner.gradient(sum(steps([](const Tensor& h) { return h; })), steps.a);
    return std::vector<Tensor>{first, outer.gradient(sum(first * first), steps.a)};
  });
}

TEST_CASE("recurrent sequences do not depend on the number of threads", "[threads]") {
  for (const std::int64_t batch : {1, 7, 129, 1000}) {
    const std::vector<Tensor> inputs = {random32({batch, 11, 3}, 161), random32({batch, 24}, 162),
                                        random32({3, 24}, 163), random32({24, 24}, 164), random32({24}, 165)};
    INFO("batch " << batch);
    check_independence("rnn", [&] {
      return gradients_of(
          [](const std::vector<Tensor>& in) {
            return rnn(in[0], in[1], {in[2], in[3], in[4]}, Activation::relu).outputs * 0.1;
          },
          inputs);
    });
  }
}

TEST_CASE("training does not depend on the number of threads", "[threads]") { check_independence("training", trained); }

TEST_CASE("threads of the user's own compute side by side", "[threads]") {
  const ThreadCount two(2);
  const std::vector<Tensor> expected = trained();
  const Tensor a = random32({200, 300}, 166), b = random32({300, 100}, 167);
  const std::vector<float> product = matmul(a, b).to_vector<float>(), sums = sum(a, 0).to_vector<float>();
  std::vector<std::thread> workers;
  std::vector<int> wrong(4, 0);
  for (std::size_t i = 0; i < wrong.size(); ++i)
    workers.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        if (!same_bits(matmul(a, b).to_vector<float>(), product)) ++wrong[i];
        if (!same_bits(sum(a, 0).to_vector<float>(), sums)) ++wrong[i];
      }
      const std::vector<Tensor> own = trained();
      for (std::size_t k = 0; k < own.size(); ++k)
        if (!same_bits(values(own[k]), values(expected[k]))) ++wrong[i];
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(wrong == std::vector<int>{0, 0, 0, 0});
}

TEST_CASE("the thread count is what was set, and tells", "[threads]") {
  const ThreadCount three(3);
  CHECK(threads() == 3);
  {
    const ThreadCount one(1);
    CHECK(threads() == 1);
  }
  CHECK(threads() == 3);
  CHECK_THROWS_AS(set_threads(-1), Error);
  CHECK(threads() == 3);
}

TEST_CASE("one tensor may be read from many threads", "[threads]") {
  const Tensor x = random32({1000}, 168);
  Parameter p(2.0f);
  const std::vector<float> expected = (x * 2).to_vector<float>();
  std::vector<std::thread> workers;
  std::vector<int> right(4, 0);
  for (std::size_t i = 0; i < right.size(); ++i)
    workers.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const Tensor copy = x, view = x.index({range(0, 500)});
        GradientTape tape;  // each thread has its own, on the same parameter and the same tensor
        tape.watch(copy);
        const Tensor y = p * copy;
        const auto [dp, dx] = tape.gradient(y, p, x);
        right[i] += same_bits(y.to_vector<float>(), expected) && dx.at<float>(3) == 2 && dp.defined() ? 1 : 0;
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(right == std::vector<int>{50, 50, 50, 50});
}

#if !defined(__SANITIZE_THREAD__)  // which cannot start a thread behind a fork
namespace {

/// What waitpid says of a child that calls `run`, which must end it, within a minute.
int status_of_child(void (*run)()) {
  std::fflush(nullptr);  // or the child would write it once more
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    run();
    _exit(99);
  }
  int status = -1;
  REQUIRE(child > 0);
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

/// While another thread is inside of loops.
void exit_beside_loops() {
  static std::atomic<bool> begun{false};
  set_threads(3);
  std::thread([] {
    const Tensor x = ones({1 << 20});
    while (true) begun = number(sum(x)) > 0;
  }).detach();
  while (!begun) std::this_thread::yield();
  std::exit(0);
}

/// Exits with 0 if a signal that was sent to the process waits for this thread, which alone blocks it by itself.
void wait_for_signal() {
  set_threads(4);
  number(sum(ones({1 << 20})));
  auto numbers = data::generate([](std::int64_t x) { return x; }) |
                 data::map([](std::int64_t x) { return x + 1; }, {.workers = 2}) | data::prefetch(2);
  const auto at = numbers.begin();
  sigset_t user;
  sigemptyset(&user);
  sigaddset(&user, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &user, nullptr);  // only now: threads that are started begin with this one's mask
  kill(getpid(), SIGUSR1);                     // ends a process one of whose threads does not block it
  const timespec long_enough{10, 0};
  _exit(sigtimedwait(&user, nullptr, &long_enough) == SIGUSR1 ? 0 : 1);
}

}  // namespace

TEST_CASE("a process may exit while another thread is inside of a loop", "[threads][host]") {
  for (int round = 0; round < 20; ++round) {
    INFO("round " << round);
    CHECK(status_of_child(&exit_beside_loops) == 0);
  }
}

TEST_CASE("no thread of the library takes a signal that is sent to the process", "[threads][data][host]") {
  CHECK(status_of_child(&wait_for_signal) == 0);
}
#endif
