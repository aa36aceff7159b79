// Tensors on a GPU: where they are made, how they get there and back, what they show, and the memory that they take.
#include <capstan/memory.hpp>

#include <sstream>
#include <thread>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

const DType kAllTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                           DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

std::string place_of(const Tensor& x) { return to_string(x.device()); }

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

Tensor bytes_on_gpu(std::int64_t count, Where where = Where::current()) {
  return empty({count}, {.dtype = DType::uint8, .device = kGpu}, where);
}

/// A limit that goes with its object.
class Limited {
 public:
  explicit Limited(std::int64_t bytes) { memory::set_limit(kGpu, bytes); }
  ~Limited() { memory::set_limit(kGpu, std::int64_t{0}); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;
};

}  // namespace

// --- where tensors are made --------------------------------------------------------------------------------------

TEST_CASE("in a device scope everything is made there that names no device", "[gpu][device]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  CHECK(place_of(zeros({2})) == "cpu");
  Tensor made;
  {
    const DeviceScope scope(kGpu);
    CHECK(to_string(default_device()) == "cuda:0");
    Rng rng(1);
    const nn::Linear layer(3, 2, {}, rng);
    const nn::Conv2d conv({.in = 1, .out = 2, .kernel = 3}, rng);
    for (const Tensor& x :
         {zeros({2}), ones({2}), empty({2}), full({2}, 5), arange(0, 4), arange(3), linspace(0, 1, 5), eye(3),
          Tensor{{1.0f, 2.0f}, {3.0f, 4.0f}}, Tensor(2.5f), from_vector(std::vector<double>{1, 2}),
          uniform({4}, 0, 1, rng), normal({4}, rng), bernoulli({4}, 0.5, rng), randint(0, 5, {4}, rng),
          permutation(5, rng), Tensor(layer.weight), Tensor(layer.bias), Tensor(conv.weight)})
      CHECK(place_of(x) == "cuda:0");
    CHECK(place_of(zeros({2}, {.device = cpu()})) == "cpu");
    float own[] = {1, 2};
    CHECK(place_of(from_memory(own, {2})) == "cpu");
    CHECK(place_of(zeros({2}, {.dtype = DType::int64})) == "cuda:0");
    {
      const DeviceScope inner(cpu());
      CHECK(place_of(ones({2})) == "cpu");
    }
    CHECK(place_of(ones({2})) == "cuda:0");
    std::string of_other_thread;
    std::thread([&] { of_other_thread = place_of(ones({2})); }).join();
    CHECK(of_other_thread == "cpu");
    made = Tensor{1.0f, 2.0f, 3.0f};
  }
  CHECK(place_of(zeros({2})) == "cpu");
  CHECK(place_of(zeros_like(made)) == "cuda:0");
  CHECK(place_of(full_like(made, 2)) == "cuda:0");
  CHECK(values(made) == std::vector<double>{1, 2, 3});
  CHECK_THROWS_AS([] { DeviceScope scope(cuda(100)); }(), DeviceError);
  CHECK(to_string(default_device()) == "cpu");
}

TEST_CASE("what is made on a GPU has the numbers of the CPU", "[gpu][device][random]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto all_of = [](Device device) {
    const DeviceScope scope(device);
    Rng rng(17);
    return std::vector<Tensor>{arange(0, 10, 3),
                               linspace(-1, 1, 7),
                               eye(2, 3),
                               full({3}, 2.5),
                               uniform({33}, -1, 1, rng),
                               bernoulli({33}, 0.3, rng),
                               randint(-5, 9, {33}, rng),
                               permutation(9, rng),
                               Tensor{{1, 2}, {3, 4}}};
  };
  const std::vector<Tensor> there = all_of(kGpu), here = all_of(cpu());
  for (std::size_t i = 0; i < here.size(); ++i) {
    INFO(i);
    CHECK(same(there[i], here[i]));
  }
}

// --- getting there and back --------------------------------------------------------------------------------------

TEST_CASE("tensors of every type go to the GPU and come back", "[gpu][device]") {
  CAPSTAN_NEEDS_GPUS(1);
  for (const DType dtype : kAllTypes) {
    INFO(name(dtype));
    const Tensor x = random_in(0, dtype == DType::bool8 ? 2 : 100, {4, 5}, dtype, 3).to(cpu()), y = x.to(kGpu);
    CHECK(place_of(y) == "cuda:0");
    CHECK(y.dtype() == dtype);
    CHECK(y.is_contiguous());
    CHECK(y.to(kGpu).is_same(y));
    CHECK(x.to(cpu()).is_same(x));
    CHECK(same(y.to(cpu()), x));
    CHECK(same(y, x));
    CHECK(same(transpose(x).to(kGpu), transpose(x)));
    CHECK(same(y.index({all, range(4, 0, -2)}).to(cpu()), x.index({all, range(4, 0, -2)})));
    CHECK(zeros({3, 0}, {.dtype = dtype, .device = cpu()}).to(kGpu).to(cpu()).numel() == 0);
  }
}

TEST_CASE("a tensor that was sent may be changed at once", "[gpu][device]") {
  CAPSTAN_NEEDS_GPUS(1);
  Tensor x = full({100000}, 1.0f, {.device = cpu()});
  const Tensor y = x.to(kGpu);
  x.fill(2);
  CHECK(values(y) == repeated(100000, 1));
}

TEST_CASE("gradients go the way back", "[gpu][device][tape]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_in(-1, 1, {3, 4}, DType::float64, 2).to(cpu()), w = random_in(-1, 1, {4, 2}).to(kGpu);
  GradientTape tape;
  tape.watch({x, w});
  const Tensor y = matmul(x.to(kGpu), w);
  const Tensor loss = sum(square(y).to(cpu()));
  CHECK(place_of(loss) == "cpu");
  const auto [dx, dw] = tape.gradient(loss, x, w);
  CHECK(place_of(dx) == "cpu");
  CHECK(place_of(dw) == "cuda:0");
  const Tensor host_w = w.to(cpu()), twice = matmul(x, host_w) * 2.0;
  CHECK(close(dx, matmul(twice, transpose(host_w)), 1e-14));
  CHECK(close(dw, matmul(transpose(x), twice), 1e-14));
}

TEST_CASE("models move to the GPU and back", "[gpu][device][nn]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  Rng rng(4);
  nn::Sequential net{nn::Linear(3, 8, {}, rng), nn::Linear(8, 2, {}, rng)};
  const Tensor x = random_in(-1, 1, {5, 3}, DType::float32), expected = net(x);
  nn::move_to(net, kGpu);
  for (const Tensor& p : nn::parameters(net)) CHECK(place_of(p) == "cuda:0");
  const Tensor y = net(x.to(kGpu));
  CHECK(place_of(y) == "cuda:0");
  CHECK(close(y, expected, 1e-6));
  CHECK_THROWS_AS(net(x), DeviceError);
  nn::move_to(net, cpu());
  CHECK(same(net(x), expected));
}

// --- what they show ----------------------------------------------------------------------------------------------

TEST_CASE("lengths may be on the CPU where inputs are on the GPU", "[gpu][device][nn]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_cpu(cpu());
  struct Decoder {
    nn::Embedding words{5, 4};
    nn::GruCell cell{4, 4};
    nn::Linear out{4, 5};
  } net;
  Rng rng(3);
  const Tensor inputs = randint(0, 5, {3, 4}, rng), lengths = {4, 1, 2};
  const auto logits = [&](const Tensor& given) {
    Rng own(7);
    const DeviceScope there(given.device());  // states are made here
    const auto state = net.cell.zero_state(3);
    return nn::scheduled_sampling(net.cell, net.words, net.out, given, state, {.probability = 0.5, .lengths = lengths},
                                  own)
        .logits.to(cpu());
  };
  const Tensor expected = logits(inputs);
  nn::move_to(net, kGpu);
  CHECK(close(logits(inputs.to(kGpu)), expected, tolerance::roundings32));
}

TEST_CASE("values of a GPU are read and printed like others", "[gpu][device]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor host = random_in(-3, 3, {3, 20}, DType::float32, 9).to(cpu()), x = host.to(kGpu);
  const auto moved = [](std::string text) {  // "cpu" becomes "cuda:0"
    const std::size_t at = text.rfind("cpu");
    REQUIRE(at != std::string::npos);
    return text.replace(at, 3, "cuda:0");
  };
  CHECK(to_string(x) == moved(to_string(host)));
  std::ostringstream out;
  out << x;
  CHECK(out.str() == to_string(x));
  CHECK(x.describe() == moved(host.describe()));
  CHECK(x.to_vector<float>() == host.to_vector<float>());
  CHECK(x.at<float>(2, -1) == host.at<float>(2, -1));
  CHECK(x[1].at<float>(3) == host.at<float>(1, 3));
  CHECK(full_on_gpu({}, 2.5).item<float>() == 2.5f);
  check_errors({{__LINE__, &message_of<DeviceError>, [&] { x.span<float>(); },
                 "span: the tensor is on cuda:0; its memory is not the host's. Use x.to(cpu())."},
                {__LINE__, &message_of<DTypeError>, [&] { x.to_vector<double>(); },
                 "to_vector: the tensor holds float32 and float64 was asked for; ask for the type it holds, or convert "
                 "it with x.to(dtype)."}},
               "device_test.cpp");
}

TEST_CASE("profiles and traces see operations of a GPU", "[gpu][device][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor a = random_on_gpu({40, 50}, 1), b = random_on_gpu({50, 60}, 2);
  const debug::Profiler profiler;
  std::ostringstream lines;
  debug::trace(lines);
  for (int i = 0; i < 3; ++i) exp(matmul(a, b));
  debug::stop_trace();
  CHECK(contains(lines.str(), "matmul  [40, 50] [50, 60] -> [40, 60]  float32 cuda:0  "));
  CHECK(contains(lines.str(), "exp  [40, 60] -> [40, 60]  float32 cuda:0  "));
  int found = 0;
  for (const debug::ProfileRow& row : profiler.table()) {
    if (row.name != "matmul" && row.name != "exp") continue;
    ++found;
    CHECK(row.count == 3);
    CHECK(row.total_us > 0);
  }
  CHECK(found == 2);
}

// --- memory ------------------------------------------------------------------------------------------------------

TEST_CASE("figures of a GPU's memory count what tensors hold", "[gpu][memory]") {
  CAPSTAN_NEEDS_GPUS(1);
  synchronize(kGpu);
  memory::release_cache(kGpu);
  memory::reset_peak(kGpu);
  const memory::Stats before = memory::stats(kGpu);
  CHECK(before.reserved == before.in_use + before.cached);
  CHECK(before.peak_reserved == before.reserved);
  {
    const Tensor x = bytes_on_gpu(64 * kMiB), view = x.index({from(10)});
    const memory::Stats now = memory::stats(kGpu);
    CHECK(now.in_use >= before.in_use + 64 * kMiB);
    CHECK(now.in_use < before.in_use + 65 * kMiB);
    CHECK(now.reserved == now.in_use + now.cached);
    CHECK(now.peak_reserved >= now.in_use);
    CHECK(now.system_allocations >= before.system_allocations);
  }
  memory::Stats now = memory::stats(kGpu);
  CHECK(now.in_use == before.in_use);
  CHECK(now.cached >= 64 * kMiB);
  const std::int64_t asked = now.system_allocations;
  for (int i = 0; i < 20; ++i) bytes_on_gpu(64 * kMiB - i);  // the cache serves them
  CHECK(memory::stats(kGpu).system_allocations == asked);
  memory::release_cache(kGpu);
  now = memory::stats(kGpu);
  CHECK(now.reserved == before.reserved);
  CHECK(now.in_use == before.in_use);
  if (before.cached < 64 * kMiB) CHECK(now.peak_reserved >= before.reserved + 64 * kMiB);
  memory::reset_peak(kGpu);
  CHECK(memory::stats(kGpu).peak_reserved == now.reserved);
}

TEST_CASE("a cache limit is kept", "[gpu][memory]") {
  CAPSTAN_NEEDS_GPUS(1);
  synchronize(kGpu);
  memory::release_cache(kGpu);
  const std::int64_t reserved = memory::stats(kGpu).reserved;
  memory::set_cache_limit(kGpu, 0);
  bytes_on_gpu(64 * kMiB);
  CHECK(memory::stats(kGpu).reserved == reserved);
  memory::set_cache_limit(kGpu, INT64_MAX);
}

TEST_CASE("a limit in bytes is kept, and the error says who holds the memory", "[gpu][memory][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  synchronize(kGpu);
  memory::release_cache(kGpu);
  const std::int64_t before = memory::stats(kGpu).reserved;
  const unsigned first = __LINE__ + 1;
  const Tensor held = bytes_on_gpu(48 * kMiB);
  const unsigned second = __LINE__ + 1;
  const std::vector<Tensor> more{bytes_on_gpu(20 * kMiB), bytes_on_gpu(20 * kMiB)};
  const auto asked_for = [](std::int64_t bytes) { bytes_on_gpu(bytes); };
  {
    const Limited limited(before + 128 * kMiB);
    const unsigned line = __LINE__ + 1;
    const std::string what = message_of<OutOfMemoryError>([] { bytes_on_gpu(64 * kMiB); });
    const Message message = split_message(what);
    INFO(what);
    CHECK(begins_with(message.text, "allocate on cuda:0: 64.0 MiB were asked for with "));
    CHECK(contains(message.text, " in use and "));
    CHECK(contains(message.text, " cached; the limit is "));
    CHECK(contains(message.text, " (memory::set_limit). Held by: "));
    CHECK(contains(message.text, "48.0 MiB in 1 block of device_test.cpp:" + std::to_string(first)));
    CHECK(contains(message.text, "40.0 MiB in 2 blocks of device_test.cpp:" + std::to_string(second)));
    CHECK(message.file == "device_test.cpp");
    CHECK(message.line == line);
    asked_for(24 * kMiB);  // what fits is given all the same
    CHECK_THROWS_AS(asked_for(64 * kMiB), OutOfMemoryError);
    CHECK(memory::stats(kGpu).reserved <= before + 128 * kMiB);
  }
  asked_for(64 * kMiB);
  CHECK(values(full_on_gpu({3}, 1)) == repeated(3, 1));
}

TEST_CASE("what is cached makes room for what a limit would not allow beside it", "[gpu][memory]") {
  CAPSTAN_NEEDS_GPUS(1);
  synchronize(kGpu);
  memory::release_cache(kGpu);
  const std::int64_t most = memory::stats(kGpu).reserved + 100 * kMiB;
  const Limited limited(most);
  for (int i = 0; i < 3; ++i) {
    bytes_on_gpu(60 * kMiB);
    bytes_on_gpu(80 * kMiB);
    const Tensor a = bytes_on_gpu(40 * kMiB), b = bytes_on_gpu(40 * kMiB);
    CHECK(memory::stats(kGpu).reserved <= most);
  }
}

TEST_CASE("a limit may be a share of the card", "[gpu][memory][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::int64_t total = core::cuda_runtime()->total_memory(kGpu);
  REQUIRE(total > 1024 * kMiB);
  memory::set_limit(kGpu, 0.25);
  const std::string what = message_of<OutOfMemoryError>([&] { bytes_on_gpu(total / 4 + kMiB); });
  CHECK(contains(what, " cached; the limit is "));
  bytes_on_gpu(64 * kMiB);
  memory::set_limit(kGpu, std::int64_t{0});
  check_errors({{__LINE__, &message_of<Error>, [] { memory::set_limit(kGpu, 1.5); },
                 "memory::set_limit: a share of 1.5 was asked for; it must be in (0, 1]."},
                {__LINE__, &message_of<Error>, [] { memory::set_limit(kGpu, std::int64_t{-1}); },
                 "memory::set_limit: -1 bytes were asked for; the limit must be >= 0."},
                {__LINE__, &message_of<Error>, [] { memory::set_cache_limit(kGpu, -1); },
                 "memory::set_cache_limit: -1 bytes were asked for; the limit must be >= 0."}},
               "device_test.cpp");
}

TEST_CASE("more than the card has is an error after which all goes on", "[gpu][memory][errors]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor held = full_on_gpu({1000}, 3);
  for (const std::int64_t bytes : {std::int64_t{1} << 45, std::int64_t{1} << 60}) {
    const std::string what = message_of<OutOfMemoryError>([&] { bytes_on_gpu(bytes); });
    CHECK(begins_with(what, "allocate on cuda:0: "));
    CHECK(contains(what, "; the card has "));
    CHECK(contains(what, ". Held by: "));
  }
  CHECK(values(held * 2.0f) == repeated(1000, 6));
}

TEST_CASE("sums of gradients that were loaded go to the device of the next ones, and stay there", "[gpu][device]") {
  CAPSTAN_NEEDS_GPUS(1);
  const auto on_cpu = [](double value) { return full({2}, value, {.dtype = DType::float32, .device = cpu()}); };
  optim::GradientAccumulator saved({.batches = 3, .mean = false}), loaded({.batches = 3, .mean = false});
  saved.add({on_cpu(1)});
  loaded.load_state(saved.state());
  loaded.add({full_on_gpu({2}, 2)});
  const std::string text = message_of<DeviceError>([&] { loaded.add({on_cpu(4)}); });
  CHECK(!text.empty());
  const Tensor sum = loaded.take()[0];
  CHECK(place_of(sum) == "cuda:0");
  CHECK(sum.to_vector<float>() == std::vector<float>{3, 3});
}
