// Captured steps: the same numbers as without capturing, whatever changes between the calls.
#include <capstan/capture.hpp>
#include <capstan/stream.hpp>

#include <array>
#include <tuple>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

constexpr std::int64_t kBatch = 8, kClasses = 5;

struct Net {
  explicit Net(Rng& rng)
      : conv({.in = 1, .out = 4, .kernel = 3, .padding = nn::same}, rng),
        hidden(4 * 6 * 6, 16, {}, rng),
        out(16, kClasses, {}, rng) {}
  Tensor operator()(const Tensor& x, Rng& rng) const {
    const Tensor seen = max_pool2d(relu(conv(x)), 2);
    const Tensor flat = reshape(seen, {x.size(0), -1});
    return out(dropout(tanh(hidden(flat)), 0.8, rng));
  }

  nn::Conv2d conv;
  nn::Linear hidden, out;
  CAPSTAN_FIELDS(conv, hidden, out);
};

Net net_on_gpu(Rng& rng) {
  const DeviceScope scope(kGpu);
  return Net(rng);
}

/// A classifier of images and all that its training needs.
struct Training {
  Rng rng{11};
  Net net;
  optim::Adam adam;

  Training() : net(net_on_gpu(rng)), adam(nn::parameters(net), {.learning_rate = 0.02}) {
    adam.attach(optim::cosine_decay(0.02, {.steps = 15}));
  }
  Tensor step(const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    const Tensor loss = cross_entropy(net(x, rng), labels);
    adam.apply(optim::clip_by_global_norm(tape.gradient(loss, adam.parameters()), 0.7).gradients);
    return loss;
  }
};

struct Batch {
  Tensor x, labels;
};
Batch batch(std::uint64_t number) {
  return {random_on_gpu({kBatch, 1, 12, 12}, 100 + number),
          random_in(0, static_cast<double>(kClasses), {kBatch}, DType::int64, 200 + number).to(kGpu)};
}

bool same_tensors(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  bool all_same = a.size() == b.size();
  for (std::size_t i = 0; i < a.size() && all_same; ++i) all_same = same_bits(values(a[i]), values(b[i]));
  return all_same;
}
bool same_state(const optim::Optimizer& a, const optim::Optimizer& b) {
  std::vector<Tensor> of_a, of_b;
  for (const NamedTensor& each : a.state()) of_a.push_back(each.value);
  for (const NamedTensor& each : b.state()) of_b.push_back(each.value);
  return same_tensors(of_a, of_b);
}

}  // namespace

// --- the same numbers --------------------------------------------------------------------------------------------

TEST_CASE("a captured training step gives the same bits as the step itself", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Training eager, captured;
  auto step = cuda::capture([&](const Tensor& x, const Tensor& labels) { return captured.step(x, labels); });
  for (std::uint64_t i = 0; i < 10; ++i) {
    INFO("step " << i);
    const auto [x, labels] = batch(i);
    const std::vector<double> expected = values(eager.step(x, labels)), actual = values(step(x, labels));
    CHECK(same_bits(actual, expected));
    CHECK(same_tensors(captured.adam.parameters(), eager.adam.parameters()));
    CHECK(captured.rng.position() == eager.rng.position());
    CHECK(captured.adam.steps() == eager.adam.steps());
    CHECK(captured.adam.learning_rate() == eager.adam.learning_rate());
    CHECK((step.kernels() > 0) == (i > 0));
  }
  CHECK(same_state(captured.adam, eager.adam));
  // and on without it
  const auto [x, labels] = batch(10);
  CHECK(same_bits(values(captured.step(x, labels)), values(eager.step(x, labels))));
  CHECK(same_bits(values(step(x, labels)), values(eager.step(x, labels))));
  CHECK(same_tensors(captured.adam.parameters(), eager.adam.parameters()));
}

namespace {

/// Two optimizers, one with groups, that begin with equal rates.
struct TwoOptimizers {
  Rng rng{5};
  nn::Linear first, second;
  optim::Adam adam;
  optim::Sgd sgd;

  static nn::Linear linear(std::int64_t inputs, std::int64_t outputs, Rng& rng) {
    const DeviceScope scope(kGpu);
    return nn::Linear(inputs, outputs, {}, rng);
  }
  static std::vector<optim::Group<optim::AdamOptions>> groups_of(nn::Linear& layer) {
    std::vector<optim::Group<optim::AdamOptions>> groups(2);
    groups[0].parameters.push_back(layer.weight);
    groups[1].parameters.push_back(layer.bias);
    for (auto& group : groups) group.options.learning_rate = 0.01;
    return groups;
  }
  TwoOptimizers()
      : first(linear(6, 7, rng)),
        second(linear(7, 3, rng)),
        adam(groups_of(first)),
        sgd(nn::parameters(second), {.learning_rate = 0.01, .momentum = 0.9}) {}
  Tensor step(const Tensor& x) {
    GradientTape tape;
    const Tensor y = second(tanh(first(x)));
    const Tensor loss = mean(y * y);
    std::vector<Tensor> sources = adam.parameters();
    for (const Tensor& p : sgd.parameters()) sources.push_back(p);
    const std::vector<Tensor> all = tape.gradient(loss, sources);
    adam.apply(std::vector<Tensor>(all.begin(), all.begin() + 2));
    sgd.apply(std::vector<Tensor>(all.begin() + 2, all.end()));
    return loss;
  }
  /// What a program does between steps.
  void change_rates(int after) {
    if (after == 3) adam.set_learning_rate(0.002, 1);
    if (after == 4) sgd.set_learning_rate(0.03);
    if (after == 5) adam.set_learning_rate(0.005);
    if (after == 6) adam.options(1).beta2 = 0.99;
    if (after == 7) adam.attach(optim::exponential(0.004, 0.9), 0);
  }
};

}  // namespace

TEST_CASE("several optimizers and groups change their rates between replays", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  TwoOptimizers eager, captured;
  auto step = cuda::capture([&](const Tensor& x) { return captured.step(x); });
  for (int i = 0; i < 12; ++i) {
    INFO("step " << i);
    const Tensor x = random_on_gpu({9, 6}, 300 + static_cast<std::uint64_t>(i));
    CHECK(same_bits(values(step(x)), values(eager.step(x))));
    CHECK(same_tensors(captured.adam.parameters(), eager.adam.parameters()));
    CHECK(same_tensors(captured.sgd.parameters(), eager.sgd.parameters()));
    eager.change_rates(i);
    captured.change_rates(i);
  }
  CHECK(same_state(captured.adam, eager.adam));
  CHECK(same_state(captured.sgd, eager.sgd));
}

TEST_CASE("a captured step may take several steps of one optimizer", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto twice = [](Training& training, const Tensor& x, const Tensor& labels) {
    const Tensor first = training.step(x, labels);
    return std::pair<Tensor, Tensor>(first, training.step(x, labels));
  };
  Training eager, captured;
  auto step = cuda::capture([&](const Tensor& x, const Tensor& labels) { return twice(captured, x, labels); });
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto [x, labels] = batch(i);
    const auto [first, second] = twice(eager, x, labels);
    const auto [captured_first, captured_second] = step(x, labels);
    CHECK(same_bits(values(captured_first), values(first)));
    CHECK(same_bits(values(captured_second), values(second)));
  }
  CHECK(captured.adam.steps() == 10);
  CHECK(captured.rng.position() == eager.rng.position());
  CHECK(same_tensors(captured.adam.parameters(), eager.adam.parameters()));
}

TEST_CASE("rows of a table are looked up and learned in a captured step", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  struct Table {
    Parameter rows{random_on_gpu({20, 6}, 1)};
    optim::Sgd sgd{{rows}, {.learning_rate = 0.1, .momentum = 0.9}};
    Tensor step(const Tensor& indices) {
      GradientTape tape;
      const Tensor seen = gather(rows, indices);
      const Tensor loss = mean(seen * seen);
      sgd.apply(tape.gradient(loss, sgd.parameters()));
      return loss;
    }
  };
  Table eager, captured;
  auto step = cuda::capture([&](const Tensor& indices) { return captured.step(indices); });
  for (std::int64_t i = 0; i < 6; ++i) {
    std::vector<std::int64_t> list;  // different rows, and one of them again
    for (std::int64_t k = 0; k < 12; ++k) list.push_back((7 * k + i) % 20);
    list.push_back(i);
    const Tensor indices = from_vector(list).to(kGpu);
    CHECK(same_bits(values(step(indices)), values(eager.step(indices))));
  }
  CHECK(same_bits(values(captured.rows), values(eager.rows)));
}

TEST_CASE("random numbers of replays go on where the generator stands", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Rng eager(3), captured(3), own(4), own_eager(4);
  const auto draw = [](Rng& rng, Rng& second, const Tensor& x) {
    const DeviceScope scope(kGpu);
    return x + uniform({5}, 0, 1, rng) + normal({5}, rng) * cast(randint(0, 9, {5}, second), DType::float32) +
           dropout(x, 0.5, rng);
  };
  auto step = cuda::capture([&](const Tensor& x) { return draw(captured, own, x); });
  const Tensor x = full_on_gpu({5}, 1);
  for (int i = 0; i < 6; ++i) {
    if (i == 4) captured.bits(), eager.bits();
    if (i == 5) captured.set_position(2), eager.set_position(2);
    CHECK(same_bits(values(step(x)), values(draw(eager, own_eager, x))));
    CHECK(captured.position() == eager.position());
    CHECK(own.position() == own_eager.position());
  }
}

// --- what goes in and what comes out -----------------------------------------------------------------------------

TEST_CASE("results are the same tensors at every call, with new values", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  auto step = cuda::capture([](const Tensor& x) { return x * 2.0f; });
  step(full_on_gpu({3}, 1));
  const Tensor second = step(full_on_gpu({3}, 2));
  CHECK(values(second) == repeated(3, 4));
  const Tensor kept = second.copy(), derived = second + 1.0f;
  const Tensor third = step(full_on_gpu({3}, 3));
  CHECK(third.is_same(second));
  CHECK(values(second) == repeated(3, 6));
  CHECK(values(kept) == repeated(3, 4));
  CHECK(values(derived) == repeated(3, 5));
  CHECK(values(step(third)) == repeated(3, 12));  // a result as the next input
}

TEST_CASE("results outlive their step", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor last;
  {
    auto step = cuda::capture([](const Tensor& x) { return x * 2.0f; });
    for (int i = 0; i < 3; ++i) last = step(full_on_gpu({1000}, i));
  }
  const Tensor other = full_on_gpu({1000}, -1);
  CHECK(values(last) == repeated(1000, 4));
}

TEST_CASE("results are of many kinds, and there may be none", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({2}, 3);
  auto tuple = cuda::capture([](const Tensor& t) { return std::tuple<Tensor, Tensor, Tensor>(t + 1.0f, t, Tensor()); });
  auto list = cuda::capture([](const Tensor& t) { return std::vector<Tensor>{t * 2.0f, t * 3.0f}; });
  auto array = cuda::capture([](const Tensor& t) { return std::array<Tensor, 2>{t * 4.0f, t * 5.0f}; });
  auto nested =
      cuda::capture([](const Tensor& t) { return std::pair<Tensor, std::vector<Tensor>>(t * 6.0f, {t * 7.0f}); });
  Tensor total = full_on_gpu({2}, 0);
  auto none = cuda::capture([&](const Tensor& t) { total += t; });
  auto nothing_in = cuda::capture([&] { return total * 10.0f; });
  for (int i = 1; i <= 4; ++i) {
    const auto [plus, itself, undefined] = tuple(x);
    CHECK(values(plus) == repeated(2, 4));
    CHECK(values(itself) == repeated(2, 3));
    CHECK_FALSE(undefined.defined());
    const std::vector<Tensor> listed = list(x);
    REQUIRE(listed.size() == 2u);
    CHECK(values(listed[1]) == repeated(2, 9));
    CHECK(values(array(x)[1]) == repeated(2, 15));
    CHECK(values(nested(x).second[0]) == repeated(2, 21));
    none(x);
    CHECK(values(total) == repeated(2, 3 * i));
    CHECK(values(nothing_in()) == repeated(2, 30 * i));
  }
}

TEST_CASE("inputs come from anywhere, with any strides", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor w = random_on_gpu({4, 3}, 8);
  auto step = cuda::capture([&](const Tensor& x) { return matmul(x, w); });
  for (std::uint64_t i = 0; i < 8; ++i) {
    INFO("call " << i);
    const Tensor host = random_in(-1, 1, {5, 4}, DType::float32, 500 + i).to(cpu()), there = host.to(kGpu);
    const Tensor expected = matmul(there, w);
    switch (i % 4) {
      case 0: CHECK(same(step(host), expected)); break;
      case 1: CHECK(same(step(pinned(host)), expected)); break;
      case 2: CHECK(same(step(strided(there)), expected)); break;
      default: CHECK(same(step(strided(host)), expected)); break;
    }
  }
}

TEST_CASE("an input may be changed as soon as the call returns", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor host = pinned(full({2000}, 0.0f, {.device = cpu()})), there = full_on_gpu({2000}, 0);
  auto step = cuda::capture([](const Tensor& a, const Tensor& b) { return a.to(kGpu) + b; });
  for (int i = 0; i < 5; ++i) {
    host.fill(i);
    there.fill(10 * i);
    const Tensor sums = step(host, there);
    host.fill(-1);
    there.fill(-1);
    CHECK(values(sums) == repeated(2000, 11 * i));
  }
}

TEST_CASE("carried state is assigned, and read where it was", "[gpu][capture]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor eager = full_on_gpu({6}, 0), captured = full_on_gpu({6}, 0);
  auto step = cuda::capture([&](const Tensor& x) {
    captured.assign(tanh(captured + x));
    return sum(captured);
  });
  for (std::uint64_t i = 0; i < 7; ++i) {
    const Tensor x = random_on_gpu({6}, 600 + i);
    const std::uint32_t version = captured.version();
    step(x);
    CHECK(captured.version() > version);
    eager.assign(tanh(eager + x));
    if (i == 4) captured.fill(0.5), eager.fill(0.5);
    CHECK(same_bits(values(captured), values(eager)));
  }
}

// --- streams -----------------------------------------------------------------------------------------------------

TEST_CASE("a replay runs on the current stream, in order with all others", "[gpu][capture][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream streams[] = {Stream::create(kGpu), Stream::create(kGpu), Stream::current(kGpu)};
  constexpr std::int64_t kLong = 20000;
  Tensor scale = full_on_gpu({kLong}, 1), total = full_on_gpu({kLong}, 0);
  auto step = cuda::capture([&](const Tensor& x) {
    total += x * scale;
    return total * 2.0f;
  });
  double expected = 0;
  std::vector<Tensor> results, copies;
  for (int i = 0; i < 18; ++i) {
    Tensor x;
    {
      const StreamScope scope(streams[(i + 1) % 3]);
      x = full_on_gpu({kLong}, i);
      scale.fill(i % 4);
    }
    {
      const StreamScope scope(streams[i % 3]);
      results.push_back(step(x));
    }
    x = Tensor();
    const StreamScope scope(streams[(i + 2) % 3]);
    const Tensor next = full_on_gpu({kLong}, -1);
    copies.push_back(results.back().copy());
    if (i % 5 == 4) results.back().fill(-7);  // the next replay comes behind it
    if (i % 2 == 0) streams[(i + 2) % 3].synchronize();
  }
  for (int i = 0; i < 18; ++i) {
    expected += i * (i % 4);
    CHECK(values(copies[static_cast<std::size_t>(i)]) == repeated(kLong, 2 * expected));
  }
}

TEST_CASE("two captured steps share what they read and write", "[gpu][capture][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream first = Stream::create(kGpu), second = Stream::create(kGpu);
  Tensor shared = full_on_gpu({5000}, 1);
  auto grow = cuda::capture([&] { shared += 1.0f; });
  auto read = cuda::capture([&] { return shared * 10.0f; });
  std::vector<Tensor> seen;
  for (int i = 0; i < 8; ++i) {
    {
      const StreamScope scope(first);
      grow();
    }
    const StreamScope scope(second);
    seen.push_back(read().copy());
  }
  first.synchronize();
  for (int i = 0; i < 8; ++i) CHECK(values(seen[static_cast<std::size_t>(i)]) == repeated(5000, 10 * (i + 2)));
}

// --- memory ------------------------------------------------------------------------------------------------------

TEST_CASE("when a captured step is gone its memory is given back", "[gpu][capture][memory]") {
  CAPSTAN_NEEDS_GPUS(1);
  Training training;
  const auto [x, labels] = batch(0);
  training.step(x, labels);  // states are made
  synchronize(kGpu);
  memory::release_cache(kGpu);
  const memory::Stats before = memory::stats(kGpu);
  for (int repeat = 0; repeat < 3; ++repeat) {
    {
      auto step = cuda::capture([&](const Tensor& a, const Tensor& b) { return training.step(a, b); });
      Tensor loss;
      for (int i = 0; i < 4; ++i) loss = step(x, labels);
      CHECK(memory::stats(kGpu).in_use > before.in_use);
      const std::int64_t asked = memory::stats(kGpu).system_allocations;
      for (int i = 0; i < 4; ++i) loss = step(x, labels);
      CHECK(memory::stats(kGpu).system_allocations == asked);
    }
    memory::release_cache(kGpu);  // the thread keeps numbers like the 1 of 1 - x
    CHECK(memory::stats(kGpu).in_use == before.in_use);
  }
  CHECK(memory::stats(kGpu).reserved == before.reserved);
}

TEST_CASE("tensors made before a captured step and dropped in it stay as long as it needs them",
          "[gpu][capture][memory]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor total = full_on_gpu({4000}, 0);
  synchronize(kGpu);
  const std::int64_t before = memory::stats(kGpu).in_use;
  {
    Tensor given;
    auto step = cuda::capture([&] {
      total += given;
      given = Tensor();
    });
    for (int i = 0; i < 2; ++i) {  // runs, and is captured
      given = full_on_gpu({4000}, 3);
      step();
    }
    const Tensor other = full_on_gpu({4000}, -100);
    for (int i = 0; i < 3; ++i) step();
    CHECK(values(total) == repeated(4000, 15));
  }
  CHECK(memory::stats(kGpu).in_use == before);
}

// --- without a GPU -----------------------------------------------------------------------------------------------

TEST_CASE("for the CPU every call runs the function", "[gpu][capture]") {
  int calls = 0;
  auto step = cuda::capture(
      [&](const Tensor& x) {
        ++calls;
        return x.item<float>() > 0 ? x * 2.0f : x;
      },
      cpu());
  for (int i = 0; i < 4; ++i) CHECK(values(step(full({1}, i, {.device = cpu()}))) == repeated(1, 2 * i));
  CHECK(values(step(full({1, 1}, 5.0f, {.device = cpu()}))) == repeated(1, 10));  // of another shape
  CHECK(calls == 5);
  CHECK(step.kernels() == 0);
}
