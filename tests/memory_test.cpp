// The allocator: steady training, limits and recovery, caches, peaks, threads.
#include "tests/support.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <optional>
#include <thread>

#include "tests/address_limit.hpp"

using namespace capstan;
using namespace tests;

namespace {

std::atomic<std::int64_t> heap_allocations{0};  // by `new`, of the whole program

constexpr std::int64_t kMegabyte = 1 << 20;

/// float32 [count * 2^18]: that many megabytes.
Tensor megabytes(std::int64_t count) { return zeros({count << 18}); }

struct Net {
  nn::Linear hidden{32, 64}, out{64, 10};
  Tensor operator()(const Tensor& x) { return out(tanh(hidden(x))); }
};

/// Figures of every step of a training loop.
template <class Optimizer>
struct Steps {
  std::vector<std::int64_t> system, heap, in_use;

  Steps(Optimizer optimizer, Net& net, int count) {
    const Tensor x = random_in(-1, 1, {20, 32}, DType::float32, 131);
    const Tensor labels = random_in(0, 10, {20}, DType::int64, 132);
    system.reserve(static_cast<std::size_t>(count));
    heap.reserve(static_cast<std::size_t>(count));
    in_use.reserve(static_cast<std::size_t>(count));
    for (int step = 0; step < count; ++step) {
      const std::int64_t before = heap_allocations;
      {
        GradientTape tape;
        const Tensor loss = mean(sparse_softmax_cross_entropy(net(x), labels));
        optimizer.apply(tape.gradient(loss, optimizer.parameters()));
      }
      heap.push_back(heap_allocations - before);
      const memory::Stats now = memory::stats();
      system.push_back(now.system_allocations);
      in_use.push_back(now.in_use);
    }
  }
};

/// work(0) to work(3), at once.
template <class Work>
void on_four_threads(const Work& work) {
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < 4; ++i) workers.emplace_back([&work, i] { work(i); });
  for (std::thread& worker : workers) worker.join();
}

/// Lifts a limit when it goes.
struct Limit {
  explicit Limit(std::int64_t bytes) { memory::set_limit(cpu(), bytes); }
  ~Limit() { memory::set_limit(cpu(), 0); }
};

}  // namespace

// The whole program's, so that allocations anywhere are seen. The other forms of `new` end here too.
void* operator new(std::size_t size) {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* block = std::malloc(size > 0 ? size : 1)) return block;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  heap_allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size > 0 ? size : 1);
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept { return operator new(size, tag); }
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete[](void* block) noexcept { std::free(block); }
void operator delete[](void* block, std::size_t) noexcept { std::free(block); }

TEST_CASE("a training loop asks the system for nothing after its second step", "[memory]") {
  for (const int threads_to_use : {1, 2}) {
    const ThreadCount count(threads_to_use);
    Net net;
    const Steps<optim::Sgd> sgd(optim::Sgd(nn::parameters(net), {.momentum = 0.9}), net, 40);
    const Steps<optim::Adam> adam(optim::Adam(nn::parameters(net)), net, 40);
    INFO(threads_to_use << " threads");
    CHECK(sgd.system[39] == sgd.system[1]);
    CHECK(adam.system[39] == adam.system[1]);
    CHECK(sgd.in_use[39] == sgd.in_use[1]);  // and nothing is left behind
    CHECK(adam.in_use[39] == adam.in_use[1]);
  }
}

TEST_CASE("the heap use of a training step does not grow", "[memory]") {
  Net net;
  const Steps<optim::Adam> steps(optim::Adam(nn::parameters(net)), net, 60);
  const std::int64_t third = steps.heap[2];
  INFO("the third step allocates " << third << " times, the last " << steps.heap[59]);
  CHECK(*std::max_element(steps.heap.begin() + 2, steps.heap.end()) <= third);
  CHECK(third < 200);
}

TEST_CASE("figures follow what tensors occupy", "[memory]") {
  const memory::Stats before = memory::stats();
  CHECK(before.reserved == before.in_use + before.cached);
  {
    const Tensor x = megabytes(3);
    const memory::Stats during = memory::stats();
    CHECK(during.in_use - before.in_use >= 3 * kMegabyte);
    CHECK(during.in_use - before.in_use < 4 * kMegabyte);  // classes are at most a quarter too large
    const Tensor view = x.index({range(0, 10)});
    CHECK(memory::stats().in_use - during.in_use < 1024);  // a view has no elements of its own
    CHECK(during.peak_reserved >= during.reserved);
  }
  CHECK(memory::stats().in_use == before.in_use);
}

TEST_CASE("memory is kept for reuse, and given back when asked", "[memory]") {
  { const Tensor x = megabytes(5); }
  const memory::Stats kept = memory::stats();
  CHECK(kept.cached >= 5 * kMegabyte);
  { const Tensor again = megabytes(5); }
  CHECK(memory::stats().system_allocations == kept.system_allocations);
  memory::release_cache();
  const memory::Stats released = memory::stats();
  CHECK(released.cached <= kept.cached - 5 * kMegabyte);
  CHECK(released.reserved <= kept.reserved - 5 * kMegabyte);
  CHECK(released.in_use == kept.in_use);
}

TEST_CASE("a tensor of a power of two takes little more than its elements", "[memory]") {
  for (const std::int64_t bytes : {4 * kMegabyte, kMegabyte, kMegabyte / 4, kMegabyte / 256}) {
    memory::release_cache();
    const std::int64_t before = memory::stats().reserved;
    const Tensor x = zeros({bytes}, {.dtype = DType::uint8});
    CHECK(memory::stats().reserved - before >= bytes);
    CHECK(memory::stats().reserved - before <= bytes + 512);
  }
}

TEST_CASE("the peak is the most that was reserved since it was reset", "[memory]") {
  memory::release_cache();
  memory::reset_peak();
  const std::int64_t base = memory::stats().reserved;
  CHECK(memory::stats().peak_reserved == base);
  { const Tensor x = megabytes(7); }
  memory::release_cache();
  CHECK(memory::stats().peak_reserved >= base + 7 * kMegabyte);
  CHECK(memory::stats().reserved < base + 7 * kMegabyte);
  memory::reset_peak();
  CHECK(memory::stats().peak_reserved == memory::stats().reserved);
}

TEST_CASE("a limit is an exception, and everything works on after it", "[memory]") {
  const Tensor x = random_in(-1, 1, {2 << 18}, DType::float32, 133);  // 2 MB
  const std::vector<float> elements = x.to_vector<float>();
  GradientTape tape;
  tape.watch(x);
  const Tensor y = x * 2;
  const std::int64_t size = tape.size();
  memory::release_cache();
  const std::int64_t in_use = memory::stats().in_use;
  {
    const Limit limit(memory::stats().reserved + kMegabyte);
    CHECK_THROWS_AS(zeros({3 << 18}), OutOfMemoryError);
    CHECK_THROWS_AS(exp(y), OutOfMemoryError);
    CHECK_THROWS_AS(y.copy(), OutOfMemoryError);
    CHECK_THROWS_AS(concat({y, y}), OutOfMemoryError);
    CHECK_NOTHROW(zeros({100}));
    CHECK(memory::stats().in_use == in_use);
    CHECK(tape.size() == size);
    const std::string what = message_of<OutOfMemoryError>([] { zeros({3 << 18}); });
    CHECK(split_message(what).file == "memory_test.cpp");
    CHECK(what.find("the limit is") != std::string::npos);
  }
  CHECK(same_bits(x.to_vector<float>(), elements));
  CHECK(same(tape.gradient(exp(y), x), exp(y) * 2));  // without the limit
}

TEST_CASE("memory that a kernel needs for itself is refused to the line of its operation", "[memory][host]") {
  const Tensor x = random_in(-1, 1, {1 << 20}, DType::float32, 134), half = x.to(DType::bfloat16);
  const auto refused = [&](std::int64_t room, auto&& operation) {
    memory::release_cache();
    const Limit limit(memory::stats().reserved + room);
    return split_message(message_of<OutOfMemoryError>(operation)).file;
  };
  CHECK(refused(13 * kMegabyte, [&] { sort_with_indices(x); }) == "memory_test.cpp");  // room for the results alone
  CHECK(refused(kMegabyte, [&] { sum(half); }) == "memory_test.cpp");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own memory has no end
TEST_CASE("a limit that was not reached is not what refuses", "[memory][host]") {
  const Limit limit(std::int64_t{1} << 46);
  const AddressLimit addresses(rlim_t{1} << 28);
  const std::string what = message_of<OutOfMemoryError>([] { empty({1 << 28}); });  // 1 GiB
  CHECK(what.find("the system has no more.") != std::string::npos);
}
#endif

TEST_CASE("a product without memory for its packed operand is an exception", "[memory]") {
  const Tensor right = random_in(-1, 1, {4, 600, 200}, DType::float32, 136);
  for (const std::int64_t rows : {4, 40}) {  // matrices among the threads; each among all of them, if those are many
    const Tensor left = random_in(-1, 1, {4, rows, 600}, DType::float32, 135);
    const std::vector<float> expected = matmul(left, right).to_vector<float>();
    for (const int count : {1, 2, 5})
      for (std::int64_t room = 0; room <= 3 * kMegabyte; room += kMegabyte / 8) {
        INFO(count << " threads, " << room << " bytes left");
        const ThreadCount threads_for_now(count);
        memory::release_cache();
        const Limit limit(memory::stats().reserved + room);
        Tensor product;
        try {
          product = matmul(left, right);
        } catch (const OutOfMemoryError&) {
          CHECK(room < 3 * kMegabyte);
          continue;
        }
        CHECK(same_bits(product.to_vector<float>(), expected));
      }
  }
}

TEST_CASE("a gradient that runs out of memory leaves a persistent tape as it was", "[memory]") {
  const Tensor x = random_in(-1, 1, {2 << 18}, DType::float32, 134);
  GradientTape tape{{.persistent = true}};
  tape.watch(x);
  const Tensor y = exp(x) * x;
  memory::release_cache();
  {
    const Limit limit(memory::stats().reserved + kMegabyte);
    CHECK_THROWS_AS(tape.gradient(y, x), OutOfMemoryError);
  }
  CHECK(close(tape.gradient(y, x), exp(x) * (x + 1), tolerance::roundings32));
}

TEST_CASE("before a limit is an error, the cache is given back", "[memory]") {
  memory::release_cache();
  { const Tensor x = megabytes(8); }
  const Limit limit(memory::stats().reserved);  // 8 MB of it are cached, in a block of another size
  CHECK_NOTHROW(megabytes(5));
  CHECK_THROWS_AS(megabytes(20), OutOfMemoryError);
}

TEST_CASE("a cache limit bounds what is kept", "[memory]") {
  memory::release_cache();
  memory::set_cache_limit(cpu(), 0);
  const std::int64_t cached = memory::stats().cached;
  { const Tensor x = megabytes(6); }
  CHECK(memory::stats().cached - cached < kMegabyte);
  const auto machine = static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  memory::set_cache_limit(cpu(), machine / 4);  // the default
  { const Tensor x = megabytes(6); }
  CHECK(memory::stats().cached - cached >= 6 * kMegabyte);
}

TEST_CASE("memory that one thread took can be freed by another", "[memory][threads]") {
  const std::int64_t before = memory::stats().in_use;
  std::vector<Tensor> tensors;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) tensors.push_back(zeros({i}));
  }).join();
  CHECK(number(sum(tensors[999])) == 0);
  tensors.clear();
  CHECK(memory::stats().in_use == before);
  std::thread([] {
    for (int i = 0; i < 1000; ++i) zeros({i});
  }).join();
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("figures stay right when threads free what others took", "[memory][threads]") {
  const std::int64_t before = memory::stats().in_use;
  std::vector<std::vector<Tensor>> lists(4);
  on_four_threads([&](std::size_t i) {
    for (int k = 0; k < 1000; ++k) lists[i].push_back(zeros({1}));    // more than a thread keeps
    for (int k = 0; k < 10; ++k) lists[i].push_back(zeros({20000}));  // larger than any that a thread keeps
  });
  CHECK(memory::stats().in_use - before >= 4 * (1000 * 4 + 10 * 80000));
  on_four_threads([&](std::size_t i) { lists[(i + 1) % 4].clear(); });
  CHECK(memory::stats().in_use == before);
  memory::release_cache();
  const memory::Stats released = memory::stats();
  CHECK(released.in_use == before);
  CHECK(released.reserved == released.in_use + released.cached);
}

TEST_CASE("figures add up while other threads take and free memory", "[memory][threads]") {
  const std::int64_t before = memory::stats().in_use;
  std::atomic<bool> is_over{false};
  bool is_sound = true;
  on_four_threads([&](std::size_t i) {
    if (i != 0) {
      while (!is_over)
        for (const std::int64_t count : {0, 10, 1000, 100000}) zeros({count});
      return;
    }
    for (int k = 0; k < 1000; ++k) {
      const memory::Stats now = memory::stats();
      is_sound = is_sound && now.cached >= 0 && now.in_use >= before && now.reserved == now.in_use + now.cached;
      if (k % 100 == 0) memory::release_cache();
    }
    is_over = true;
  });
  CHECK(is_sound);
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a view keeps the elements of a tensor that has gone with its thread", "[memory][threads]") {
  const std::int64_t before = memory::stats().in_use;
  Tensor row;
  std::thread([&row] {
    const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}};
    row = x[1];
  }).join();
  std::vector<Tensor> others;  // in whatever is free
  for (int i = 0; i < 100; ++i) others.push_back(full({2, 2}, 9));
  CHECK(same(row, {3.0f, 4.0f}));
  others.clear();
  std::thread([&row] { row = Tensor(); }).join();
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("a tensor and its views may go at once, on several threads", "[memory][threads]") {
  const std::int64_t before = memory::stats().in_use;
  for (int round = 0; round < 50; ++round) {
    std::vector<Tensor> handles(4);
    handles[0] = full({4, 64}, round, {.dtype = DType::float64});
    for (std::int64_t i = 1; i < 4; ++i) handles[static_cast<std::size_t>(i)] = handles[0][i];
    std::vector<double> sums(4);
    on_four_threads([&](std::size_t i) {
      sums[i] = sum(handles[i]).item<double>();
      handles[i] = Tensor();
    });
    CHECK(sums == std::vector<double>{256.0 * round, 64.0 * round, 64.0 * round, 64.0 * round});
  }
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("row slices give all their memory back, read or not", "[memory][sparse]") {
  const std::int64_t before = memory::stats().in_use;
  for (const bool is_read : {false, true}) {
    Tensor row;
    {
      const Tensor x = from_row_slices({arange(2), ones({2, 3})}, {5, 3});
      CHECK(has_row_slices(x));
      if (is_read) row = x[1];
    }
    if (is_read) CHECK(same(row, {1.0f, 1.0f, 1.0f}));
  }
  CHECK(memory::stats().in_use == before);
}

TEST_CASE("the smallest share of memory is a limit, too", "[memory][host]") {
  const Limit lifted_in_the_end(1);
  memory::set_limit_share(cpu(), 1e-30);
  CHECK_THROWS_AS(empty({1 << 22}), OutOfMemoryError);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose own locks may be held at a fork
namespace {

/// In a forked child: every way to the shared cache, and a thread in the place of one that is no more.
bool can_allocate() {
  alarm(60);  // instead of waiting for ever for a lock
  const debug::MemoryTimeline blocks;
  const debug::Profiler operations;
  const std::int64_t before = memory::stats().in_use;
  for (int i = 0; i < 100; ++i) zeros({20000});
  std::thread([] {
    for (int i = 0; i < 100; ++i) zeros({i});
  }).join();
  memory::release_cache();
  const memory::Stats now = memory::stats();
  return now.in_use == before && now.cached >= 0;
}

}  // namespace

TEST_CASE("a forked child allocates, whatever other threads were at", "[memory][threads][host]") {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> workers;
  for (int i = 0; i < 3; ++i)
    workers.emplace_back([&is_over] {
      while (!is_over)
        for (const std::int64_t count : {10, 20000}) zeros({count});  // the second always from the shared cache
    });
  int failed = 0;
  std::optional<debug::MemoryTimeline> blocks;
  std::optional<debug::Profiler> operations;
  for (int round = 0; round < 100; ++round) {
    if (round == 50) {
      blocks.emplace();
      operations.emplace();
    }
    const pid_t child = fork();
    if (child == 0) _exit(can_allocate() ? 0 : 1);
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) ++failed;
  }
  is_over = true;
  for (std::thread& worker : workers) worker.join();
  CHECK(failed == 0);
}
#endif
