// The profiler on a GPU: device times in its tables and its trace. How long they are only a real GPU can say.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/gpu/gpu.hpp"

using namespace capstan;
using namespace tests;

namespace {

using Json = nlohmann::json;

/// Everything that a profiler writes.
std::vector<Json> trace_of(const debug::Profiler& profiler) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("capstan_gpu_profile_test.json." + std::to_string(::getpid()));
  profiler.write_chrome_trace(path.string());
  std::ifstream in(path);
  const Json document = Json::parse(in);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return document.at("traceEvents").get<std::vector<Json>>();
}

/// The operations that a process of the trace shows.
std::vector<Json> operations_of(const std::vector<Json>& trace, int process) {
  std::vector<Json> found;
  for (const Json& event : trace)
    if (event.at("ph").get<std::string>() == "X" && event.at("pid").get<int>() == process) found.push_back(event);
  return found;
}

/// The processes of a trace by name.
std::map<std::string, int> processes_of(const std::vector<Json>& trace) {
  std::map<std::string, int> found;
  for (const Json& event : trace)
    if (event.at("ph").get<std::string>() == "M" && event.at("name").get<std::string>() == "process_name")
      found[event.at("args").at("name").get<std::string>()] = event.at("pid").get<int>();
  return found;
}

double end_of(const Json& event) { return event.at("ts").get<double>() + event.at("dur").get<double>(); }

debug::ProfileRow row_of(const debug::Profiler& profiler, const std::string& name, bool backward = false) {
  for (const debug::ProfileRow& row : profiler.table())
    if (row.name == name && row.backward == backward) return row;
  return {};
}

// Times of the GPU's clock beside those of the host's, in microseconds.
constexpr double kClocks = 2;

}  // namespace

TEST_CASE("a profiler knows what a GPU takes, which is a part of the time waited", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor a = random_on_gpu({256, 256}, 1), b = random_on_gpu({256, 256}, 2);
  matmul(a, b);  // what is made at first use is made
  synchronize(kGpu);
  const debug::Profiler profiler;
  for (int i = 0; i < 3; ++i) exp(matmul(a, b));
  for (const char* name : {"matmul", "exp"}) {
    INFO(name);
    const debug::ProfileRow row = row_of(profiler, name);
    CHECK(row.count == 3);
    CHECK(row.device_us > 0);
    CHECK(row.device_us <= row.total_us + 3 * kClocks);
  }
  const std::string report = profiler.report();
  INFO(report);
  CHECK(contains(report, "device us"));
}

TEST_CASE("device times of lines are those of their operations, forward and backward apart", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({64, 64}, 3);
  GradientTape tape;
  tape.watch(x);
  const debug::Profiler profiler;
  const Tensor y = tanh(x);
  tape.gradient(y, x);
  CHECK(row_of(profiler, "tanh").device_us > 0);
  CHECK(row_of(profiler, "tanh", true).device_us > 0);
  double by_operation = 0, by_line = 0;
  for (const debug::ProfileRow& row : profiler.table()) by_operation += row.device_us;
  for (const debug::ProfileRow& row : profiler.table(debug::ProfileBy::line)) by_line += row.device_us;
  CHECK(by_line == Approx(by_operation));
}

TEST_CASE("operations on the CPU have no device time, beside a GPU that has", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const DeviceScope on_host(cpu());
  const Tensor x = ones({64});
  const debug::Profiler profiler;
  exp(x);
  CHECK(row_of(profiler, "exp").count == 1);
  CHECK(row_of(profiler, "exp").device_us == 0);
  CHECK_FALSE(contains(profiler.report(), "device us"));
  CHECK(processes_of(trace_of(profiler)).size() == 1u);

  square(x.to(kGpu));
  CHECK(row_of(profiler, "exp").device_us == 0);
  CHECK(row_of(profiler, "square").device_us > 0);
}

TEST_CASE("views take no device time", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = full_on_gpu({8, 8}, 1);
  const debug::Profiler profiler;
  transpose(x);
  exp(x);
  reshape(x, {64});
  for (const debug::ProfileRow& row : profiler.table()) {
    INFO(row.name);
    CHECK((row.device_us > 0) == (row.name == "exp"));
  }
}

TEST_CASE("what a GPU leaves to the host has no device time", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor scores = random_on_gpu({2, 6, 4}, 5);
  const debug::Profiler profiler;
  ctc_beam_search_decode(scores, {}, {.beams = 3});
  debug::ProfileRow on_host;
  for (const debug::ProfileRow& row : profiler.table())
    if (contains(row.name, "on the host")) on_host = row;
  CHECK(on_host.name == "ctc_beam_search on the host");
  CHECK(on_host.total_us > 0);
  CHECK(on_host.device_us == 0);
}

TEST_CASE("a trace has a GPU as a process of its own, with what it did for each operation", "[gpu][debug]") {
  CAPSTAN_NEEDS_GPUS(1);
  const Tensor x = random_on_gpu({128, 128}, 4);
  GradientTape tape;
  tape.watch(x);
  const debug::Profiler profiler;
  const Tensor y = exp(matmul(x, x));
  tape.gradient(y, x);
  const std::vector<Json> trace = trace_of(profiler);
  const std::map<std::string, int> processes = processes_of(trace);
  REQUIRE(processes.count("capstan") == 1u);
  REQUIRE(processes.count("cuda:0") == 1u);
  const std::vector<Json> host = operations_of(trace, processes.at("capstan"));
  const std::vector<Json> gpu = operations_of(trace, processes.at("cuda:0"));
  REQUIRE(gpu.size() >= 4u);  // two operations and their replays
  CHECK(gpu.size() <= host.size());

  std::size_t at = 0;
  double free_from = 0;
  for (const Json& part : gpu) {
    INFO(part.dump());
    // each belongs to an operation of the host that has its name and place, and lies in its time
    while (at < host.size() && !(host[at].at("name") == part.at("name") && host[at].at("args") == part.at("args") &&
                                 end_of(part) <= end_of(host[at]) + kClocks))
      ++at;
    REQUIRE(at < host.size());
    CHECK(part.at("ts").get<double>() >= host[at].at("ts").get<double>());
    CHECK(part.at("tid").get<int>() == host[at].at("tid").get<int>());
    CHECK(part.at("cat").get<std::string>() == host[at].at("cat").get<std::string>());
    CHECK(part.at("dur").get<double>() > 0);
    // and a thread that waits has one at a time
    CHECK(part.at("ts").get<double>() >= free_from - kClocks);
    free_from = end_of(part);
    ++at;
  }
}
