// steady: how often a training loop asks the system for memory once it runs steadily: 100 steps after the second, of a
// network of two layers and of an LSTM, both with Adam. Counted are the blocks that the library asks for, and pages that
// malloc gets for everybody else. Prints {"mlp": requests, "lstm": requests}.
#include <capstan/capstan.hpp>

#include <malloc.h>

#include <cstdint>
#include <cstdio>

namespace cs = capstan;

namespace {

constexpr int kSteps = 100;

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

/// Blocks that the library has asked for so far, and pages that malloc holds.
std::int64_t requests() {
  const struct mallinfo2 heap = mallinfo2();
  return cs::memory::stats(cs::cpu()).system_allocations + static_cast<std::int64_t>((heap.arena + heap.hblkhd) / 4096);
}

/// Requests in kSteps steps on a fixed batch, after two.
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
  const std::int64_t before = requests();
  for (int i = 0; i < kSteps; ++i) step();
  return requests() - before;
}

}  // namespace

int main() {
  cs::Rng rng(1);
  const cs::Tensor rows = cs::uniform({100, 64}, -1, 1, rng), letters = cs::uniform({64, 10, 27}, -1, 1, rng);
  const cs::Tensor classes = cs::randint(0, 10, {100}, rng), next = cs::randint(0, 27, {64, 10}, rng);
  const std::int64_t mlp = steady_requests<Mlp>(rows, classes), lstm = steady_requests<Letters>(letters, next);
  std::printf("{\"mlp\": %lld, \"lstm\": %lld}\n", static_cast<long long>(mlp), static_cast<long long>(lstm));
}
