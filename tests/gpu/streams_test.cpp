// Streams and events: what they are, and that tensors may be used on any of them.
#include <capstan/stream.hpp>

#include <algorithm>
#include <random>
#include <thread>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

std::vector<Stream> new_streams(int count, Device device = kGpu) {
  std::vector<Stream> streams;
  for (int i = 0; i < count; ++i) streams.push_back(Stream::create(device, {.high_priority = i % 3 == 2}));
  return streams;
}

/// "this machine has 2 GPUs; their numbers begin with 0."
std::string count_text() {
  const int count = cuda::count();
  return "this machine has " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
         "; their numbers begin with 0.";
}

constexpr std::int64_t kLong = 20000;  // elements: several blocks of threads, several packs each

}  // namespace

// --- what they are -----------------------------------------------------------------------------------------------

TEST_CASE("a stream is a handle, and its copies are the same stream", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream a = Stream::create(kGpu), b = Stream::create(kGpu, {.high_priority = true});
  Stream copy = a;
  CHECK(copy == a);
  CHECK(copy.native() == a.native());
  CHECK_FALSE(a == b);
  CHECK(a.native() != b.native());
  CHECK(a.native() != nullptr);
  CHECK(to_string(a.device()) == "cuda:0");
  copy = b;
  CHECK(copy == b);
  copy = Stream();
  CHECK(to_string(copy.device()) == "cpu");
  a.synchronize();
  CHECK(a.idle());
}

TEST_CASE("a scope chooses the current stream of its thread, and gives the one before back", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream before = Stream::current(kGpu), a = Stream::create(kGpu), b = Stream::create(kGpu);
  {
    const StreamScope outer(a);
    CHECK(Stream::current(kGpu) == a);
    {
      const StreamScope inner(b);
      CHECK(Stream::current(kGpu) == b);
      bool other_thread_is_not_concerned = false;
      std::thread([&] { other_thread_is_not_concerned = !(Stream::current(kGpu) == b); }).join();
      CHECK(other_thread_is_not_concerned);
    }
    CHECK(Stream::current(kGpu) == a);
  }
  CHECK(Stream::current(kGpu) == before);
}

TEST_CASE("on the CPU streams and events are there and do nothing", "[gpu][stream]") {
  const Stream stream, other = Stream::create(cpu());
  CHECK(stream.idle());
  CHECK(stream.native() == nullptr);
  CHECK(stream == Stream::current(cpu()));
  const StreamScope scope(other);
  const Event earlier(stream), later(cpu());
  stream.wait(earlier);
  stream.synchronize();
  later.synchronize();
  synchronize(cpu());
  CHECK(earlier.reached());
  CHECK(later.milliseconds_since(earlier) >= 0);
}

TEST_CASE("an event is reached when all before it is done", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Stream stream = Stream::create(kGpu);
  Tensor x = full_on_gpu({kLong}, 1);
  const StreamScope scope(stream);
  Event begin(stream);
  for (int i = 0; i < 10; ++i) x = x * 1.5f;
  Event end(kGpu);  // of the current stream
  end.synchronize();
  CHECK(end.reached());
  CHECK(begin.reached());
  CHECK(end.milliseconds_since(begin) >= 0);
  Event moved = std::move(end);
  CHECK(moved.milliseconds_since(begin) >= 0);
  begin = std::move(moved);
  CHECK(begin.reached());
}

TEST_CASE("a stream waits for an event of another, and the host does not", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(2);
  Tensor x = full_on_gpu({kLong}, 3);
  {
    const StreamScope scope(streams[0]);
    x = x * 2.0f;
  }
  const Event made(streams[0]);
  streams[1].wait(made);
  streams[1].synchronize();
  CHECK(made.reached());
  CHECK(values(x) == repeated(kLong, 6));
}

TEST_CASE("devices that are not there are named", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Device absent = cuda(cuda::count() + 5);  // cuda(7) of two
  const std::string behind = ": " + to_string(absent) + " was asked for, but " + count_text();
  const Tensor x = ones({2}, {.device = cpu()});
  check_errors(
      {
          {__LINE__, &message_of<DeviceError>, [&] { zeros({2}, {.device = absent}); }, "zeros" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { x.to(absent); }, "Tensor::to" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { Stream::create(absent); }, "Stream::create" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { Stream::current(absent); }, "Stream::current" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { Event event(absent); }, "Stream::current" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { synchronize(absent); }, "synchronize" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { DeviceScope scope(absent); }, "DeviceScope" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { memory::stats(absent); }, "memory::stats" + behind},
          {__LINE__, &message_of<DeviceError>, [&] { zeros({2}, {.device = cuda(-1)}); },
           "zeros: cuda:-1 was asked for, but " + count_text()},
      },
      "streams_test.cpp");
}

TEST_CASE("times between events of two devices make no sense", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Event on_cpu(cpu()), on_gpu(kGpu);
  check_errors({{__LINE__, &message_of<Error>, [&] { on_gpu.milliseconds_since(on_cpu); },
                 "Event::milliseconds_since: the events are of cpu and cuda:0; they must be of one device."}},
               "streams_test.cpp");
}

TEST_CASE("there are so many streams at a time, and closed ones are had again", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  std::string text;
  std::size_t most = 0;
  {
    std::vector<Stream> streams;
    try {
      for (int i = 0; i < 100; ++i) streams.push_back(Stream::create(kGpu));
    } catch (const DeviceError& error) { text = split_message(error.what()).text; }
    most = streams.size();
  }
  CHECK(text == "Stream: cuda:0 has 56 streams already; that is the most.");
  CHECK(most <= 55u);
  CHECK(most >= 45u);
  const Tensor one = full_on_gpu({kLong}, 1);
  auto step = cuda::capture([&](const Tensor& x) { return x + 1.0f; });  // steps have streams of their own
  for (int i = 0; i < 3; ++i) CHECK(values(step(one)) == repeated(kLong, 2));
  Tensor x = full_on_gpu({kLong}, 1);
  for (int i = 0; i < 200; ++i) {
    const Stream stream = Stream::create(kGpu, {.high_priority = i % 2 == 1});
    const StreamScope scope(stream);
    x = x + 1.0f;
  }
  CHECK(values(x) == repeated(kLong, 201));
}

// --- tensors on several streams ----------------------------------------------------------------------------------

TEST_CASE("what one stream makes another reads", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(2);
  Tensor x, y;
  {
    const StreamScope scope(streams[0]);
    x = full_on_gpu({kLong}, 1);
    for (int i = 0; i < 5; ++i) x = x + 1.0f;
  }
  {
    const StreamScope scope(streams[1]);
    y = x * 2.0f;
  }
  streams[1].synchronize();
  CHECK(values(y) == repeated(kLong, 12));
  CHECK(values(x + y) == repeated(kLong, 18));  // on a third
}

TEST_CASE("a stream that writes waits for those that read, and for the one that wrote", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(4);
  Tensor x = full_on_gpu({kLong}, 1);
  std::vector<Tensor> read;
  for (int i = 0; i < 3; ++i) {
    const StreamScope scope(streams[static_cast<std::size_t>(i)]);
    read.push_back(x + static_cast<float>(i));
  }
  {
    const StreamScope scope(streams[3]);
    x.fill(50);
  }
  streams[3].synchronize();  // the readers come first all the same
  for (int i = 0; i < 3; ++i) CHECK(values(read[static_cast<std::size_t>(i)]) == repeated(kLong, 1 + i));
  {
    const StreamScope scope(streams[0]);
    x.fill(60);
  }
  {
    const StreamScope scope(streams[1]);
    x.fill(70);
  }
  streams[1].synchronize();
  streams[0].synchronize();
  CHECK(values(x) == repeated(kLong, 70));
}

TEST_CASE("views belong to the tensor that they are of", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(2);
  Tensor x = full_on_gpu({4, kLong}, 1), y;
  {
    const StreamScope scope(streams[0]);
    Tensor row = x[1];
    row.fill(5);
  }
  {
    const StreamScope scope(streams[1]);
    y = sum(x, 0);
  }
  CHECK(values(y) == repeated(kLong, 8));
}

TEST_CASE("memory that other streams still use is not given to anybody else", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(3);
  std::vector<Tensor> results;
  for (int i = 0; i < 40; ++i) {
    Tensor x;
    {
      const StreamScope scope(streams[0]);
      x = full_on_gpu({kLong}, i);
    }
    {
      const StreamScope scope(streams[i % 2 == 0 ? 1u : 2u]);
      results.push_back(x * 2.0f);
    }
    x = Tensor();  // the other stream has hardly begun
    const StreamScope scope(streams[0]);
    const Tensor next = full_on_gpu({kLong}, -1);
    streams[0].synchronize();
  }
  for (int i = 0; i < 40; ++i) CHECK(values(results[static_cast<std::size_t>(i)]) == repeated(kLong, 2 * i));
}

TEST_CASE("row slices that become whole on one stream are whole on another, and are not lost",
          "[gpu][stream][sparse]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(3);
  const Tensor indices = from_vector(std::vector<std::int64_t>{1, 3, 1}).to(kGpu);
  std::vector<Tensor> results;
  for (int i = 1; i <= 10; ++i) {
    Tensor sliced;
    {
      const StreamScope scope(streams[0]);
      sliced = from_row_slices({indices, full_on_gpu({3, 1000}, i)}, {4, 1000});
    }
    {
      const StreamScope scope(streams[1]);
      const Tensor once = sliced + 0.0f;  // now it has elements
    }
    {
      const StreamScope scope(streams[2]);
      results.push_back(sum(sliced, 1));
    }
    sliced = Tensor();
    const StreamScope scope(streams[1]);
    const Tensor next = full_on_gpu({4, 1000}, -1);
    streams[1].synchronize();
  }
  for (int i = 1; i <= 10; ++i)
    CHECK(values(results[static_cast<std::size_t>(i - 1)]) == std::vector<double>{0, 2000.0 * i, 0, 1000.0 * i});
}

namespace {

/// A tensor on the GPU, and the same numbers on the host.
struct Twin {
  Tensor gpu;
  std::vector<double> host;
};

/// A program of random steps on random streams. No two twins share elements.
class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed), streams_(new_streams(6)) {
    for (unsigned i = 0; i < 7; ++i) {
      const Tensor x = random_on_gpu({kCount}, seed * 100 + i, DType::float64);
      twins_.push_back({x, values(x)});
    }
  }
  /// False if a tensor was looked at and had other numbers than its twin.
  bool step() {
    const StreamScope scope(streams_[pick(streams_.size())]);
    Twin& to = any();
    const Twin a = any(), b = any();
    switch (pick(7)) {
      case 0: to = mean_of(a, b); return true;
      case 1: add_quarter(to, b); return true;
      case 2: {
        const double value = static_cast<double>(pick(1000)) / 1000;
        to.gpu.fill(value);
        to.host.assign(to.host.size(), value);
        return true;
      }
      case 3: to = {a.gpu.copy(), a.host}; return true;
      case 4:
        if (to.gpu.is_same(a.gpu)) return true;
        to.gpu.assign(a.gpu);
        to.host = a.host;
        return true;
      case 5: streams_[pick(streams_.size())].synchronize(); return true;
      default: return pick(4) != 0 || same_bits(values(to.gpu), to.host);
    }
  }
  bool all_same() const {
    return std::all_of(twins_.begin(), twins_.end(),
                       [](const Twin& twin) { return same_bits(values(twin.gpu), twin.host); });
  }

 private:
  static constexpr std::int64_t kCount = 3000;
  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(random_() % count); }
  Twin& any() { return twins_[pick(twins_.size())]; }
  static Twin mean_of(const Twin& a, const Twin& b) {
    Twin result{(a.gpu + b.gpu) * 0.5, a.host};
    for (std::size_t i = 0; i < result.host.size(); ++i) result.host[i] = (a.host[i] + b.host[i]) * 0.5;
    return result;
  }
  /// to = to / 2 + b / 4, in place. If b is `to` it has been halved by then.
  static void add_quarter(Twin& to, const Twin& b) {
    const bool itself = to.gpu.is_same(b.gpu);
    to.gpu *= 0.5;
    to.gpu += b.gpu * 0.25;
    for (std::size_t i = 0; i < to.host.size(); ++i) {
      const double half = to.host[i] * 0.5;
      to.host[i] = half + (itself ? half : b.host[i]) * 0.25;
    }
  }

  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<Twin> twins_;
};

}  // namespace

TEST_CASE("random programs on many streams compute what the host computes", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(1);
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    RandomProgram program(seed);
    for (int i = 0; i < 250; ++i) {
      INFO("seed " << seed << ", step " << i);
      REQUIRE(program.step());
    }
    CHECK(program.all_same());
  }
}

namespace {

/// Something that takes a while, on a stream of its own.
std::vector<double> computed(std::uint64_t seed, Device device, bool own_stream) {
  const DeviceScope here(device);
  const StreamScope scope(own_stream ? Stream::create(device) : Stream::current(device));
  Rng rng(seed);
  Tensor a = uniform({24, 24}, -1, 1, rng);
  for (int i = 0; i < 15; ++i) {
    const Tensor noise = uniform({24, 24}, -0.1, 0.1, rng);
    a = tanh(matmul(a, a) + noise);
    if (i % 4 == 3) a = a + mean(a);
  }
  return values(a);
}

}  // namespace

TEST_CASE("threads with streams of their own do not disturb each other", "[gpu][stream][threads]") {
  CAPSTAN_NEEDS_GPUS(1);
  constexpr std::size_t kThreads = 4;
  std::vector<std::vector<double>> expected, actual(kThreads);
  for (std::size_t i = 0; i < kThreads; ++i) expected.push_back(computed(i, kGpu, false));
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kThreads; ++i)
      threads.emplace_back([&actual, i] { actual[i] = computed(i, kGpu, true); });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < kThreads; ++i) CHECK(same_bits(actual[i], expected[i]));
  }
}

TEST_CASE("what one thread made another may read on its own stream", "[gpu][stream][threads]") {
  CAPSTAN_NEEDS_GPUS(1);
  const std::vector<Stream> streams = new_streams(3);
  Tensor x;
  std::thread([&] {
    const StreamScope scope(streams[0]);
    x = full_on_gpu({kLong}, 1);
    for (int i = 0; i < 20; ++i) x = x + 1.0f;
  }).join();
  std::vector<Tensor> read(2);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 2; ++i)
    threads.emplace_back([&, i] {
      const StreamScope scope(streams[i + 1]);
      read[i] = x * 2.0f;
    });
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& y : read) CHECK(values(y) == repeated(kLong, 42));
}

// --- two GPUs ----------------------------------------------------------------------------------------------------

TEST_CASE("tensors go from one GPU to another, and each computes", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(2);
  const Tensor x = random_on_gpu({64, 30}, 5);
  const Tensor y = x.to(cuda(1));
  CHECK(to_string(y.device()) == "cuda:1");
  CHECK(same(y, x));
  CHECK(same(transpose(x).to(cuda(1)), transpose(y)));
  CHECK(same(y.to(cpu()), x.to(cpu())));
  CHECK(zeros({0, 3}, {.device = kGpu}).to(cuda(1)).numel() == 0);
  CHECK(same_bits(computed(3, kGpu, false), computed(3, cuda(1), true)));

  const Tensor on_host = x.to(cpu());
  check_errors({{__LINE__, &message_of<DeviceError>, [&] { add(x, y); },
                 "add: operands are on different devices: a on cuda:0, b on cuda:1. Move one with x.to(device)."},
                {__LINE__, &message_of<DeviceError>, [&] { add(y, on_host); },
                 "add: operands are on different devices: a on cuda:1, b on cpu. Move one with x.to(device)."}},
               "streams_test.cpp");
}

TEST_CASE("copies between GPUs are ordered with what both do", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(2);
  const Stream source = Stream::create(kGpu), target = Stream::create(cuda(1));
  std::vector<Tensor> results;
  for (int i = 0; i < 12; ++i) {
    const StreamScope on_source(source), on_target(target);
    Tensor x = full_on_gpu({kLong}, i);
    x = x + 1.0f;
    Tensor y = x.to(cuda(1));
    x.fill(-1);  // behind the copy
    results.push_back(y * 2.0f);
    const Tensor back = y.to(kGpu);
    y.fill(-2);
    y = Tensor();
    const Tensor next = full({kLong}, -3.0f, {.device = cuda(1)});
    target.synchronize();
    CHECK(values(back) == repeated(kLong, i + 1));
    CHECK(values(x) == repeated(kLong, -1));
  }
  for (int i = 0; i < 12; ++i) CHECK(values(results[static_cast<std::size_t>(i)]) == repeated(kLong, 2 * (i + 1)));
}

TEST_CASE("streams of two GPUs wait for each other's events", "[gpu][stream]") {
  CAPSTAN_NEEDS_GPUS(2);
  const Stream first = Stream::create(kGpu), second = Stream::create(cuda(1));
  CHECK_FALSE(first == second);
  const StreamScope on_first(first), on_second(second);
  const Tensor x = full_on_gpu({kLong}, 2);
  const Tensor y = x * 3.0f;
  second.wait(Event(first));
  second.synchronize();
  CHECK(first.idle());
  CHECK(values(y) == repeated(kLong, 6));
}
