// What only the simulated GPU can tell: how many kernels an operation starts, what the driver is asked for, and that
// the simulation itself notices kernels and programs that would go wrong on a GPU.
#include <capstan/capture.hpp>
#include <capstan/memory.hpp>
#include <capstan/stream.hpp>

#include <algorithm>
#include <stdexcept>

#include "tests/gpu/gpu.hpp"
#include "tests/simulator/block.hpp"
#include "tests/simulator/runtime.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// Kernels that a call starts.
std::int64_t launches_of(const Call& call) {
  const std::int64_t before = simulated::launches();
  call();
  return simulated::launches() - before;
}

struct Net {
  nn::Linear hidden, out;
  explicit Net(Rng& rng) : hidden(12, 20, {}, rng), out(20, 4, {}, rng) {}
  CAPSTAN_FIELDS(hidden, out);
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};
Net net_on_gpu(Rng& rng) {
  const DeviceScope scope(kGpu);
  return Net(rng);
}

struct Training {
  Rng rng{2};
  Net net;
  optim::Adam adam;
  Training() : net(net_on_gpu(rng)), adam(nn::parameters(net), {.learning_rate = 0.01}) {}
  Tensor step(const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = cross_entropy(dropout(net(x), 0.9, rng), labels);
    adam.apply(optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 1).gradients);
    return loss;
  }
};

Tensor images() { return random_on_gpu({16, 12}, 31); }
Tensor labels() { return random_in(0, 4, {16}, DType::int64, 32).to(kGpu); }

std::vector<Tensor> many(std::size_t count) {
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(random_on_gpu({static_cast<std::int64_t>(3 + i), 5}, 50 + i));
  return all;
}

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

}  // namespace

// --- launches ----------------------------------------------------------------------------------------------------

TEST_CASE("a small elementwise operation is one launch", "[gpu][simulated]") {
  const Tensor a = random_on_gpu({10, 12}, 1), b = random_on_gpu({10, 12}, 2), row = random_on_gpu({12}, 3);
  CHECK(launches_of([&] { a + b; }) == 1);
  CHECK(launches_of([&] { mul(a, row); }) == 1);
  CHECK(launches_of([&] { exp(a); }) == 1);
  CHECK(launches_of([&] { zeros({10}, {.device = kGpu}); }) <= 1);
  CHECK(launches_of([&] { a.copy(); }) <= 1);
  CHECK(launches_of([&] { a.index({range(2, 5)}); }) == 0);
  const Tensor nothing = zeros({0, 3}, {.device = kGpu});
  CHECK(launches_of([&] { exp(nothing) + nothing; }) == 0);
}

TEST_CASE("an optimizer changes thirty parameters in one launch", "[gpu][simulated]") {
  const std::vector<Tensor> gradients = many(30);
  optim::Adam adam(many(30), {.learning_rate = 0.1});
  adam.apply(gradients);  // makes the states
  CHECK(launches_of([&] { adam.apply(gradients); }) == 1);
  optim::Sgd sgd(many(30), {.learning_rate = 0.1, .momentum = 0.9});
  sgd.apply(gradients);
  CHECK(launches_of([&] { sgd.apply(gradients); }) == 1);
}

TEST_CASE("groups of parameters share a launch unless their numbers differ", "[gpu][simulated]") {
  std::vector<optim::Group<optim::AdamOptions>> groups(2);
  for (auto& group : groups) group.parameters = many(5);
  optim::Adam adam(std::move(groups));
  std::vector<Tensor> gradients = many(5);
  for (const Tensor& x : many(5)) gradients.push_back(x);
  adam.apply(gradients);
  CHECK(launches_of([&] { adam.apply(gradients); }) == 1);
  adam.set_learning_rate(0.5, 1);
  CHECK(launches_of([&] { adam.apply(gradients); }) == 2);
}

TEST_CASE("a replay starts a graph and no kernel of its own", "[gpu][simulated][capture]") {
  Training training;
  const Tensor x = images(), y = labels();
  auto step = cuda::capture([&](const Tensor& a, const Tensor& b) { return training.step(a, b); });
  step(x, y);
  const std::int64_t in_eager = launches_of([&] { training.step(x, y); });
  step(x, y);
  // inputs are copied to where the graph reads them
  CHECK(launches_of([&] { step(x, y); }) <= 2);
  CHECK(step.kernels() >= in_eager);
}

// --- what the driver is asked for --------------------------------------------------------------------------------

TEST_CASE("a training loop asks the driver for nothing once it runs", "[gpu][simulated][memory]") {
  Training training;
  const Tensor x = images(), y = labels();
  const Stream other = Stream::create(kGpu);
  const auto step = [&] {
    Tensor loss = training.step(x, y);
    const StreamScope scope(other);
    return loss.to(cpu()).item<float>();
  };
  for (int i = 0; i < 5; ++i) step();
  const std::int64_t asked = memory::stats(kGpu).system_allocations, bytes = simulated::allocated(),
                     handles = simulated::handles(), in_use = memory::stats(kGpu).in_use;
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory::stats(kGpu).system_allocations == asked);
  CHECK(memory::stats(kGpu).in_use == in_use);
  CHECK(simulated::allocated() == bytes);
  CHECK(simulated::handles() == handles);
}

TEST_CASE("all memory of GPUs is the allocators'", "[gpu][simulated][memory]") {
  Training training;
  const Tensor x = images(), y = labels();
  auto step = cuda::capture([&](const Tensor& a, const Tensor& b) { return training.step(a, b); });
  for (int i = 0; i < 3; ++i) step(x, y);
  std::int64_t reserved = 0;
  for (int i = 0; i < cuda::count(); ++i) reserved += memory::stats(cuda(i)).reserved;
  CHECK(simulated::allocated() == reserved);
}

TEST_CASE("streams, events, pinned memory and captured steps leave nothing behind", "[gpu][simulated][memory]") {
  Training training;
  const Tensor x = images(), y = labels();
  training.step(x, y);
  std::int64_t handles = 0, bytes = 0, in_use = 0;
  for (int i = 0; i < 8; ++i) {
    {
      const Stream a = Stream::create(kGpu), b = Stream::create(kGpu);
      const Event event(a);
      b.wait(event);
      auto step = cuda::capture([&](const Tensor& s, const Tensor& t) { return training.step(s, t); });
      Tensor loss;
      for (int k = 0; k < 4; ++k) {
        const StreamScope scope(k % 2 == 0 ? a : b);
        loss = step(x, y);
      }
      const Tensor there = pinned(x);
      copy_async(there, full_on_gpu(x.shape(), 0)).synchronize();
      CHECK(std::isfinite(number(loss)));
      auto refused = cuda::capture([&](const Tensor& t) { return t * number(sum(t)); });
      refused(x);
      CHECK_THROWS_AS(refused(x), Error);
    }
    synchronize(kGpu);
    memory::release_cache(kGpu);
    if (i == 3) {
      handles = simulated::handles();
      bytes = simulated::allocated();
      in_use = memory::stats(kGpu).in_use;
    }
  }
  CHECK(simulated::handles() == handles);
  CHECK(simulated::allocated() == bytes);
  CHECK(memory::stats(kGpu).in_use == in_use);
}

// --- the simulation itself ---------------------------------------------------------------------------------------

TEST_CASE("threads of a block that wait in vain are found", "[gpu][simulated]") {
  for (std::uint64_t order = 0; order < 6; ++order) {
    const auto half_a_warp = [] {
      if (simulated::lane() < 16) simulated::share_in_warp(1);
    };
    CHECK_THROWS_AS(simulated::run_block(dim3(64), half_a_warp, order), std::runtime_error);
    int through = 0;
    const auto all_threads = [&] {
      simulated::wait_for_block();
      simulated::share_in_warp(1);
      ++through;
    };
    simulated::run_block(dim3(70), all_threads, order);
    CHECK(through == 70);
  }
}

TEST_CASE("what an operation forgot to order goes wrong", "[gpu][simulated][stream]") {
  const Stream a = Stream::create(kGpu), b = Stream::create(kGpu);
  int value = 0, seen = -1;
  simulated::enqueue(native(a), [&] { value = 1; });
  simulated::enqueue(native(b), [&] { seen = value; });
  CHECK_FALSE(a.idle());
  b.synchronize();
  CHECK(seen == 0);
  a.synchronize();
  CHECK(a.idle());
  simulated::enqueue(native(a), [&] { value = 2; });
  const Event made(a);
  CHECK_FALSE(made.reached());
  b.wait(made);
  simulated::enqueue(native(b), [&] { seen = value; });
  b.synchronize();
  CHECK(seen == 2);
  CHECK(made.reached());
}

TEST_CASE("nothing runs before somebody waits", "[gpu][simulated][stream]") {
  if (waits_always()) return;
  const Stream stream = Stream::create(kGpu);
  const StreamScope scope(stream);
  const Tensor x = full_on_gpu({10}, 3);
  const Tensor y = x * 2.0f;
  CHECK_FALSE(stream.idle());
  CHECK(values(y) == repeated(10, 6));
  CHECK(stream.idle());
}

TEST_CASE("pinned memory of others is copied when `to` returns", "[gpu][simulated][stream]") {
  for (const std::int64_t count : {100, (64 << 20) / 4 + 1}) {  // in between the backend stages copies itself
    void* memory = nullptr;
    REQUIRE(cudaHostAlloc(&memory, static_cast<std::size_t>(count) * sizeof(float), cudaHostAllocPortable) ==
            cudaSuccess);
    auto* const numbers = static_cast<float*>(memory);
    std::fill_n(numbers, count, 3.0f);
    const Tensor x = from_memory(numbers, {count}).to(kGpu);
    std::fill_n(numbers, count, 4.0f);
    const std::vector<double> seen = values(x);
    CHECK(std::count(seen.begin(), seen.end(), 3.0) == count);
    cudaFreeHost(memory);
  }
}

TEST_CASE("extremes that meet in one place are the same bits in any order", "[gpu][simulated]") {
  const Tensor ids = Tensor{0, 0}.to(kGpu);
  for (const bool turned : {false, true})
    for (const DType type : {DType::float32, DType::float64}) {
      const Tensor data = from_doubles(turned ? std::vector{-0.0, 0.0} : std::vector{0.0, -0.0}, {2}, type).to(kGpu);
      CHECK_FALSE(std::signbit(values(segment_max(data, ids, 1))[0]));
      CHECK(std::signbit(values(segment_min(data, ids, 1))[0]));
    }
}

TEST_CASE("tensors are ordered by the streams that used them, and by no others", "[gpu][simulated][stream]") {
  if (waits_always()) return;
  const Stream a = Stream::create(kGpu), b = Stream::create(kGpu), idle = Stream::create(kGpu);
  Tensor x, stranger;
  {
    const StreamScope scope(a);
    x = full_on_gpu({10}, 3);
  }
  {
    const StreamScope scope(idle);
    stranger = full_on_gpu({10}, 4);
  }
  const StreamScope scope(b);
  CHECK(values(x * 2.0f) == repeated(10, 6));
  CHECK(a.idle());
  CHECK_FALSE(idle.idle());
  CHECK(values(stranger) == repeated(10, 4));
}
