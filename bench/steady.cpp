// steady: how often a training loop asks the system for memory once it runs steadily: three times 100 steps after the
// second, of a network of two layers and of an LSTM, both with Adam. Counted are the blocks that the library asks for,
// and the pages that anybody gets, those included that are given back at once. Prints {"mlp": requests, "lstm":
// requests}.
#include <capstan/capstan.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace cs = capstan;

namespace {

constexpr int kSteps = 100, kTurns = 3;

struct Mlp {
  cs::nn::Linear hidden{64, 128}, out{128, 10};

  cs::Tensor operator()(const cs::Tensor& x) const { return out(cs::relu(hidden(x))); }
};

struct Letters {
  cs::nn::Lstm lstm{{.inputs = 27, .hidden = 64}};
  cs::nn::Linear out{64, 27};

  cs::Tensor operator()(const cs::Tensor& x) {  // [batch, steps, letters]
    auto [outputs, last] = lstm(x);
    return out(outputs);
  }
};

/// Pages that the system has given so far.
std::int64_t pages() {
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

/// Requests in kTurns times kSteps steps on a fixed batch, after two. Of the turns' pages the fewest count: in some the
/// system moves one by itself.
template <class Net>
std::int64_t steady_requests(const cs::Tensor& x, const cs::Tensor& labels) {
  Net net;
  cs::optim::Adam adam(cs::nn::parameters(net));
  const auto step = [&] {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(x), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  };
  for (int i = 0; i < 2; ++i) step();
  const std::int64_t blocks_before = cs::memory::stats(cs::cpu()).system_allocations;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::int64_t before = pages();
    for (int i = 0; i < kSteps; ++i) step();
    fewest = std::min(fewest, pages() - before);
  }
  return cs::memory::stats(cs::cpu()).system_allocations - blocks_before + fewest;
}

}  // namespace

int main() {
  cs::Rng rng(1);
  const cs::Tensor rows = cs::uniform({100, 64}, -1, 1, rng), letters = cs::uniform({64, 10, 27}, -1, 1, rng);
  const cs::Tensor classes = cs::randint(0, 10, {100}, rng), next = cs::randint(0, 27, {64, 10}, rng);
  const std::int64_t mlp = steady_requests<Mlp>(rows, classes), lstm = steady_requests<Letters>(letters, next);
  std::printf("{\"mlp\": %lld, \"lstm\": %lld}\n", static_cast<long long>(mlp), static_cast<long long>(lstm));
}
