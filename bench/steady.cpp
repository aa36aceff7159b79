// steady: how often a training loop asks for memory once it runs steadily. Counts every call of malloc and its like,
// of all libraries and threads, in 100 steps after the second, for a network of two layers and for an LSTM, both with
// Adam. Prints {"mlp": calls, "lstm": calls}.
#include <capstan/capstan.hpp>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cs = capstan;

namespace {

std::atomic<std::int64_t> calls{0};

/// The functions that those below stand in front of.
struct Real {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
};
constinit Real real{};
constinit bool looking_up = false;  // the first call comes before any second thread

/// What dlsym itself asks for while it looks these up: a few blocks, never given back.
alignas(std::max_align_t) constinit char early[4096] = {};
constinit std::size_t early_used = 0;

bool is_early(const void* block) { return block >= early && block < early + sizeof early; }

void* early_block(std::size_t size) {
  const std::size_t rounded = (size + 15) / 16 * 16;
  if (rounded > sizeof early - early_used) std::abort();
  early_used += rounded;
  return early + early_used - rounded;
}

template <class Function>
void look_up(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Whether the real functions can be called: not while they are looked up.
bool ready() {
  if (real.free) return true;
  if (looking_up) return false;
  looking_up = true;
  look_up(real.malloc, "malloc");
  look_up(real.calloc, "calloc");
  look_up(real.realloc, "realloc");
  look_up(real.posix_memalign, "posix_memalign");
  look_up(real.aligned_alloc, "aligned_alloc");
  look_up(real.free, "free");
  return true;
}

void count() { calls.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

extern "C" {

void* malloc(std::size_t size) noexcept {
  count();
  return ready() ? real.malloc(size) : early_block(size);
}
void* calloc(std::size_t number, std::size_t size) noexcept {
  count();
  return ready() ? real.calloc(number, size) : early_block(number * size);  // early blocks are zero
}
void* realloc(void* block, std::size_t size) noexcept {
  count();
  if (ready() && !is_early(block)) return real.realloc(block, size);
  void* moved = ready() ? real.malloc(size) : early_block(size);
  if (moved && block) {
    const std::size_t behind = static_cast<std::size_t>(early + sizeof early - static_cast<char*>(block));
    std::memmove(moved, block, std::min(size, behind));
  }
  return moved;
}
void free(void* block) noexcept {
  if (block && !is_early(block) && ready()) real.free(block);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t size) noexcept {
  count();
  return ready() ? real.posix_memalign(block, alignment, size) : ENOMEM;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
  count();
  return ready() ? real.aligned_alloc(alignment, size) : nullptr;
}

}  // extern "C"

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

/// Calls in kSteps steps on a fixed batch, after two.
template <class Net>
std::int64_t steady_calls(const cs::Tensor& x, const cs::Tensor& labels) {
  Net net;
  cs::optim::Adam adam(cs::nn::parameters(net));
  const auto step = [&] {
    cs::GradientTape tape;
    const cs::Tensor loss = cs::mean(cs::sparse_softmax_cross_entropy(net(x), labels));
    adam.apply(tape.gradient(loss, adam.parameters()));
  };
  for (int i = 0; i < 2; ++i) step();
  const std::int64_t before = calls;
  for (int i = 0; i < kSteps; ++i) step();
  return calls - before;
}

}  // namespace

int main() {
  cs::Rng rng(1);
  const cs::Tensor rows = cs::uniform({100, 64}, -1, 1, rng), letters = cs::uniform({64, 10, 27}, -1, 1, rng);
  const cs::Tensor classes = cs::randint(0, 10, {100}, rng), next = cs::randint(0, 27, {64, 10}, rng);
  const std::int64_t mlp = steady_calls<Mlp>(rows, classes), lstm = steady_calls<Letters>(letters, next);
  std::printf("{\"mlp\": %lld, \"lstm\": %lld}\n", static_cast<long long>(mlp), static_cast<long long>(lstm));
}
