// Memory by the line of the program that holds it.
#include "tests/support.hpp"

#include <thread>

using namespace capstan;
using namespace tests;

namespace {

std::string at(int line) { return "debug_memory_test.cpp:" + std::to_string(line); }

/// The line of that name, or one that holds nothing.
debug::MemoryLine line_of(const debug::MemoryTimeline& memory, const std::string& where) {
  for (const debug::MemoryLine& line : memory.table())
    if (line.where == where) return line;
  return {};
}

}  // namespace

TEST_CASE("a tensor counts from its making to its end, on the line that made it", "[debug][memory]") {
  const debug::MemoryTimeline memory;
  CHECK(memory.current_bytes() == 0);
  const int line = __LINE__ + 2;
  for (int i = 0; i < 3; ++i) {
    const Tensor x = zeros({1000});
    CHECK(memory.current_bytes() == 4000);
    const Tensor view = x.index({range(0, 10)}), same_again = x;
    CHECK(memory.current_bytes() == 4000);
  }
  CHECK(memory.current_bytes() == 0);
  CHECK(memory.peak_bytes() == 4000);
  const debug::MemoryLine row = line_of(memory, at(line));
  CHECK(row.blocks == 3);
  CHECK(row.current == 0);
  CHECK(row.peak == 4000);
  CHECK(row.at_peak == 4000);
}

TEST_CASE("the table says what each line held at the peak", "[debug][memory]") {
  const debug::MemoryTimeline memory;
  const int early = __LINE__ + 1;
  Tensor a = zeros({1000});
  const int large = __LINE__ + 1;
  Tensor b = zeros({3000});
  b = Tensor();
  a = Tensor();
  const int late = __LINE__ + 1;
  Tensor c = zeros({2000});
  CHECK(memory.peak_bytes() == 16000);
  CHECK(memory.current_bytes() == 8000);
  const std::vector<debug::MemoryLine> table = memory.table();
  REQUIRE(table.size() == 3u);
  CHECK(table[0].where == at(large));
  CHECK(table[0].at_peak == 12000);
  CHECK(table[1].where == at(early));
  CHECK(table[1].at_peak == 4000);
  CHECK(table[2].where == at(late));
  CHECK(table[2].at_peak == 0);
  CHECK(table[2].current == 8000);
  const std::string report = memory.report();
  INFO(report);
  CHECK(report.rfind("peak 15.6 KiB, now 7.8 KiB\n", 0) == 0);  // 16000 / 1024
  CHECK(report.find(at(large)) != std::string::npos);
}

TEST_CASE("results of operations and gradients belong to the lines that computed them", "[debug][memory][tape]") {
  const Tensor x = ones({500});
  const debug::MemoryTimeline memory;
  GradientTape tape;
  tape.watch(x);
  const int line = __LINE__ + 1;
  const Tensor y = exp(x);
  CHECK(line_of(memory, at(line)).current == 2000);
  const Tensor g = tape.gradient(y, x);
  CHECK(line_of(memory, at(line)).peak == 4000);  // its gradient as well
  CHECK(memory.current_bytes() == 4000);          // y and g
}

TEST_CASE("workspace inside of operations does not count", "[debug][memory]") {
  const Tensor x = ones({64, 64}, {.dtype = DType::float16}), order = transpose(ones({64, 64}));
  const debug::MemoryTimeline memory;
  const int line = __LINE__ + 1;
  const Tensor a = exp(x), b = matmul(order, x.to(DType::float32)), c = topk(order, 3, 0).values;
  for (const debug::MemoryLine& row : memory.table()) CHECK(row.where == at(line));
}

TEST_CASE("memory from before does not count, nor memory that is lent", "[debug][memory]") {
  Tensor before = zeros({1000});
  float lent[4] = {1, 2, 3, 4};
  const debug::MemoryTimeline memory;
  const Tensor borrowed = from_memory(lent, {4});
  before = Tensor();
  CHECK(memory.current_bytes() == 0);
  CHECK(memory.peak_bytes() == 0);
}

TEST_CASE("a timeline that is over leaves tensors alone", "[debug][memory]") {
  Tensor x;
  {
    const debug::MemoryTimeline memory;
    x = zeros({1000});
  }
  const debug::MemoryTimeline later;
  x = Tensor();
  CHECK(later.current_bytes() == 0);
}

TEST_CASE("timelines inside of others count for themselves", "[debug][memory]") {
  const debug::MemoryTimeline outer;
  Tensor first = zeros({100});
  const debug::MemoryTimeline inner;
  Tensor second = zeros({200});
  first = Tensor();
  CHECK(outer.current_bytes() == 800);
  CHECK(inner.current_bytes() == 800);
  CHECK(outer.peak_bytes() == 1200);
  CHECK(inner.peak_bytes() == 800);
}

TEST_CASE("the course over time is thinned out, the table is not", "[debug][memory]") {
  const debug::MemoryTimeline memory({.max_events = 4});
  const int line = __LINE__ + 1;
  for (int i = 0; i < 100; ++i) zeros({10});
  CHECK(line_of(memory, at(line)).blocks == 100);
  CHECK(memory.peak_bytes() == 40);
}

TEST_CASE("memory is followed across threads", "[debug][memory][threads]") {
  const debug::MemoryTimeline memory;
  std::vector<Tensor> kept(4);
  std::vector<std::thread> workers;
  for (Tensor& tensor : kept)
    workers.emplace_back([&tensor] {
      for (int i = 0; i < 200; ++i) tensor = zeros({100});
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(memory.current_bytes() == 4 * 400);
  CHECK(memory.peak_bytes() >= 4 * 400);
  kept.clear();  // made elsewhere, gone here
  CHECK(memory.current_bytes() == 0);
}

TEST_CASE("a timeline needs room for two events", "[debug][memory][errors]") {
  // A row's __LINE__ must stand on the line of its call.
  // clang-format off
  check_errors({
      {__LINE__, message_of<Error>, [] { debug::MemoryTimeline bad({.max_events = 1}); },
       "MemoryTimeline: max_events is 1; it must be >= 2."},
      {__LINE__, message_of<OutOfMemoryError>, [] { debug::MemoryTimeline bad({.max_events = INT64_MAX}); },
       "MemoryTimeline: there is no memory for 9223372036854775807 events; keep fewer with max_events."},
  }, "debug_memory_test.cpp");
  // clang-format on
}
