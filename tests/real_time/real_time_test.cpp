// That runs of plans call nothing that has no bound on its time: no malloc or free, no mmap, no lock, no waiting or
// waking. For each network one line with the calls of its first run after the plan was made, of a hundred more, of
// `reset`, and of the first run on a thread that has just been started: all must be 0, and those of runs whose inputs
// are not finite. The last figure, of the network itself called as usual with an empty cache, must not be: it shows
// that calls are seen.
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/real_time/calls.hpp"
#include "tests/real_time/networks.hpp"

namespace tests {
namespace {

int failures = 0;

template <class Work>
Calls calls_of(Work&& work) {
  Calls calls;
  const Watch watch(calls);
  work();
  return calls;
}

// --- the watch itself ----------------------------------------------------------------------------------------------

/// Each of these must be seen.
template <class Work>
void require_seen(const char* name, Work&& work) {
  if (calls_of(work).count > 0) return;
  std::printf("FAILED: %s is not seen\n", name);
  ++failures;
}

void check_watch() {
  require_seen("malloc", [] {
    void* volatile block = std::malloc(100);
    std::free(block);
  });
  require_seen("new", [] {
    char* volatile block = new char[100];
    delete[] block;
  });
  require_seen("aligned_alloc", [] {
    void* volatile block = std::aligned_alloc(64, 128);
    std::free(block);
  });
  require_seen("mmap", [] { munmap(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096); });
  std::mutex mutex;
  require_seen("a mutex", [&] { const std::lock_guard lock(mutex); });
  std::shared_mutex shared;
  require_seen("a shared mutex", [&] { const std::shared_lock lock(shared); });
  std::condition_variable condition;
  require_seen("a condition", [&] { condition.notify_one(); });
  sem_t semaphore;
  sem_init(&semaphore, 0, 0);
  require_seen("a semaphore", [&] { sem_post(&semaphore); });
  require_seen("a system call", [] { syscall(SYS_gettid); });
  require_seen("a tensor", [] { cs::zeros({1'000'000}); });
  if (calls_of([] {}).count == 0) return;
  std::printf("FAILED: calls are seen where there are none\n");
  ++failures;
}

// --- networks ------------------------------------------------------------------------------------------------------

template <class Net>
void call(Net& net, const std::vector<cs::Tensor>& inputs) {
  if constexpr (std::is_invocable_v<Net&, const cs::Tensor&>) net(inputs[0]);
  else net(inputs[0], net.zero_state(inputs[0].size(0)));
}

void require_none(const char* what, const Calls& calls) {
  if (calls.count == 0) return;
  std::printf("FAILED: %s calls %s\n", what, calls.first);
  ++failures;
}

template <class Net>
void check(const char* name, Net net, const cs::PlanInput& input) {
  cs::Plan plan = cs::freeze(net, {input});
  // The plan was made with zeros; other values must not take other ways.
  for (cs::Tensor x : plan.inputs())
    if (cs::is_floating(x.dtype()))
      x.assign(
          cs::reshape(cs::cast(cs::sin(cs::cast(cs::arange(x.numel()), cs::DType::float64)), x.dtype()), x.shape()));
  const Calls first = calls_of([&] { plan.run(); });
  const Calls more = calls_of([&] {
    for (int i = 0; i < 100; ++i) plan.run();
  });
  for (cs::Tensor x : plan.inputs())
    if (cs::is_floating(x.dtype()))
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        x.index_put({0}, bad);
        const Calls calls = calls_of([&] { plan.run(); });
        require_none(std::isnan(bad) ? "a run with NaN" : "a run with infinities", calls);
      }
  const Calls reset = calls_of([&] { plan.reset(); });
  Calls elsewhere;
  std::thread([&] { elsewhere = calls_of([&] { plan.run(); }); }).join();
  cs::memory::release_cache();
  const Calls eager = calls_of([&] { call(net, plan.inputs()); });
  const auto number = [](const Calls& calls) { return static_cast<long long>(calls.count); };
  std::printf("%-14s %4zu operations: %lld, %lld, %lld, %lld; as usual %lld\n", name, plan.operations(), number(first),
              number(more), number(reset), number(elsewhere), number(eager));
  require_none("the first run", first);
  require_none("a later run", more);
  require_none("reset", reset);
  require_none("a run on another thread", elsewhere);
  if (eager.count > 0) return;
  std::printf("FAILED: the calls of the network itself are not seen\n");
  ++failures;
}

void check_networks() {
  using namespace cs::nn;
  using cs::DType;
  check("mlp_tiny", Mlp(1, 4, 1), {1, 1});
  check("mlp_wide", Mlp(256, 512, 10), {64, 256});
  check("mlp_float64", [](const cs::Tensor& x) { return cs::matmul(x, cs::transpose(x)); },
        {{64, 256}, DType::float64});
  check("mlp_float16", [](const cs::Tensor& x) { return cs::tanh(cs::matmul(x, x)); }, {{40, 40}, DType::float16});
  check("images", Images(), {1, 3, 64, 64});
  check("filtered", Filtered(), {1, 16, 32, 32});
  check("convolutions", OddConvolutions(), {2, 8, 16, 16});
  check("patches", Patches(), {2, 3, 32, 32});
  check("convolution_1d", Conv1d({.in = 4, .out = 16, .kernel = 7, .dilation = 4}), {1, 4, 512});
  check("norms", Norms(), {4, 8, 16});
  check("rnn_cell", RnnCell(2, 8), {1, 2});
  check("lstm_cell", LstmCell(1, 4), {1, 1});
  check("lstm_peepholes", LstmCell(3, 16, {.peepholes = true, .projection = 8, .layer_norm = true}), {2, 3});
  check("gru_cell", GruCell(1, 64), {1, 1});
  check("gru_stack", StackedCell<ResidualCell<GruCell>>({ResidualCell(GruCell(8, 8)), ResidualCell(GruCell(8, 8))}),
        {1, 8});
  check("lstm_layer", Outputs{Lstm({.inputs = 40, .hidden = 128})}, {1, 50, 40});
  check("lstm_batch", Outputs{Lstm({.inputs = 40, .hidden = 128})}, {32, 50, 40});
  check("lstm_narrow", Outputs{Lstm({.inputs = 8, .hidden = 16})}, {32, 50, 8});
  check("gru_layers", Outputs{Gru({.inputs = 8, .hidden = 32, .layers = 2, .bidirectional = true})}, {2, 20, 8});
  check("rnn_layer", Outputs{Rnn({.inputs = 8, .hidden = 32})}, {2, 20, 8});
  check("transformer", Causal(), {1, 64, 64});
  check("words", Words(), {{2, 16}, DType::int64});
  check("orders", Orders(), {32, 300});
  check("reductions", Reductions(), {512, 600});
  check("resampling", [](const cs::Tensor& x) { return cs::interpolate(x, {.scale_factor = 2}); }, {1, 3, 32, 32});
  check("running_mean", Running(), {256});
}

}  // namespace
}  // namespace tests

int main() {
  try {
    tests::find_functions();
    std::printf("%d threads\n", tests::cs::threads());
    tests::check_watch();
    tests::check_networks();
    std::printf("%d failures\n", tests::failures);
    return tests::failures == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "real_time_test: %s\n", error.what());
    return 1;
  }
}
