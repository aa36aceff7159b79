// The profiler: what it counts, where it puts it, and the trace that it writes.
#include "tests/support.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

using namespace capstan;
using namespace tests;

namespace {

const std::string file = "debug_profile_test.cpp";
std::string at(int line) { return file + ":" + std::to_string(line); }

using Rows = std::vector<debug::ProfileRow>;

/// The row of that name, or one that counts nothing.
debug::ProfileRow row_of(const Rows& rows, const std::string& name, bool backward = false) {
  for (const debug::ProfileRow& row : rows)
    if (row.name == name && row.backward == backward) return row;
  return {};
}

/// A file of this process that is gone with its object.
class TemporaryPath {
 public:
  explicit TemporaryPath(const std::string& name)
      : path_((std::filesystem::temp_directory_path() / (name + std::to_string(::getpid()))).string()) {}
  ~TemporaryPath() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Json = nlohmann::json;

/// The host's events of a trace, by their kind ("X": operations, "C": counters, "M": names).
std::vector<Json> events_of(const debug::Profiler& profiler, const std::string& kind,
                            const debug::MemoryTimeline* memory = nullptr) {
  const TemporaryPath target("capstan_profile_test.json.");
  profiler.write_chrome_trace(target.path(), memory);
  std::ifstream in(target.path());
  const Json document = Json::parse(in);
  std::vector<Json> events;
  for (const Json& event : document.at("traceEvents"))
    if (event.at("ph").get<std::string>() == kind && event.at("pid").get<int>() == 1) events.push_back(event);
  return events;
}

}  // namespace

TEST_CASE("operations are counted by name, and by line with their names", "[debug]") {
  const Tensor a = ones({100, 10}), b = ones({10, 20});
  const debug::Profiler profiler;
  const int first = __LINE__ + 1;
  for (int i = 0; i < 3; ++i) matmul(a, b);
  const int second = __LINE__ + 1;
  matmul(a, b), exp(a);

  const Rows by_name = profiler.table();
  CHECK(by_name.size() == 2u);
  CHECK(row_of(by_name, "matmul").count == 4);
  CHECK(row_of(by_name, "exp").count == 1);
  const Rows by_line = profiler.table(debug::ProfileBy::line);
  CHECK(by_line.size() == 2u);
  CHECK(row_of(by_line, at(first)).count == 3);
  CHECK(row_of(by_line, at(first)).what == "matmul");
  CHECK(row_of(by_line, at(second)).count == 2);
  CHECK(row_of(by_line, at(second)).what == "exp, matmul");
}

TEST_CASE("times add up: shares to one, means to totals, the longest first", "[debug]") {
  const Tensor large = ones({1 << 20}), small = ones({2});
  const debug::Profiler profiler;
  for (int i = 0; i < 5; ++i) exp(large), square(small);
  const Rows rows = profiler.table();
  REQUIRE(rows.size() == 2u);
  CHECK(rows[0].name == "exp");  // half a million times as much
  double share = 0;
  for (const debug::ProfileRow& row : rows) {
    share += row.share;
    CHECK(row.total_us > 0);
    CHECK(row.mean_us == Approx(row.total_us / 5));
  }
  CHECK(share == Approx(1));
}

TEST_CASE("bytes are those of operands and results, of views none", "[debug]") {
  const Tensor x = ones({1000}), row = ones({10, 1});
  const debug::Profiler profiler;
  x + x;
  reshape(x, {10, 100});
  exp(broadcast_to(row, {10, 50}));
  const Rows rows = profiler.table();
  CHECK(row_of(rows, "add").bytes == 3 * 4000);
  CHECK(row_of(rows, "reshape").bytes == 0);
  CHECK(row_of(rows, "broadcast_to").bytes == 0);
  CHECK(row_of(rows, "exp").bytes == 10 * 4 + 500 * 4);  // a stretched operand is read as what it is
}

TEST_CASE("what is made of others moves no bytes of its own", "[debug]") {
  const Tensor x = ones({1000});
  const debug::Profiler profiler;
  vector_norm(x, 3);
  std::int64_t bytes = 0;
  for (const debug::ProfileRow& row : profiler.table()) bytes += row.bytes;
  const Rows rows = profiler.table();
  CHECK(row_of(rows, "vector_norm").count == 1);
  CHECK(row_of(rows, "vector_norm").bytes == 0);
  CHECK(row_of(rows, "abs").bytes == 2 * 4000);
  CHECK(bytes > 0);
  vector_norm(x);  // of order 2: one operation
  CHECK(row_of(profiler.table(), "vector_norm").bytes == 4000 + 4);
}

TEST_CASE("what a replay computes by itself is its own time, not that of a view behind it", "[debug][tape]") {
  const Tensor a = ones({400, 400}), b = ones({400, 400});
  GradientTape tape;
  tape.watch(a);
  tape.watch(b);
  const Tensor y = sum(matmul(a, b)) + sum(matmul(a, b));  // the second replay adds to what the first one has given
  const debug::Profiler profiler;
  tape.gradient(y, a, b);
  const Rows rows = profiler.table();
  CHECK(row_of(rows, "permute", true).total_us < 0.1 * row_of(rows, "matmul", true).total_us);
}

TEST_CASE("replays count apart, and nothing in them counts twice", "[debug][tape]") {
  const Tensor x = ones({1 << 16});
  GradientTape tape;
  tape.watch(x);
  const Tensor y = exp(x) / (x + 2);
  const debug::Profiler profiler;
  const std::int64_t before = std::chrono::steady_clock::now().time_since_epoch().count();
  tape.gradient(y, x);
  const std::int64_t after = std::chrono::steady_clock::now().time_since_epoch().count();
  const Rows rows = profiler.table();
  CHECK(row_of(rows, "exp", true).count == 1);
  CHECK(row_of(rows, "div", true).count >= 1);  // its replay, and what divides in it
  CHECK(row_of(rows, "exp").count == 0);
  double total = 0;
  for (const debug::ProfileRow& row : rows) total += row.total_us;
  CHECK(total * 1000 <= static_cast<double>(after - before));
}

TEST_CASE("a stopped profiler keeps what it has, a reset one forgets it", "[debug]") {
  const Tensor x = ones({2});
  debug::Profiler profiler;
  exp(x);
  profiler.stop();
  exp(x);
  profiler.stop();
  CHECK(row_of(profiler.table(), "exp").count == 1);
  profiler.start();
  exp(x);
  CHECK(row_of(profiler.table(), "exp").count == 2);
  profiler.reset();
  CHECK(profiler.table().empty());
  CHECK(events_of(profiler, "X").empty());
}

TEST_CASE("two profilers do not disturb each other", "[debug]") {
  const Tensor x = ones({2});
  const debug::Profiler outer;
  exp(x);
  {
    const debug::Profiler inner;
    exp(x);
    CHECK(row_of(inner.table(), "exp").count == 1);
  }
  exp(x);
  CHECK(row_of(outer.table(), "exp").count == 3);
}

TEST_CASE("the report names operations and lines", "[debug]") {
  const Tensor x = ones({2});
  const debug::Profiler profiler({.max_events = 1});
  const int line = __LINE__ + 1;
  exp(x), log(x), exp(x);
  const std::string report = profiler.report();
  INFO(report);
  CHECK(report.rfind("operation", 0) == 0);
  CHECK(report.find("\nexp ") != std::string::npos);
  CHECK(report.find(at(line)) != std::string::npos);
  CHECK(report.find("\n2 operations are not in the trace: max_events is 1.") != std::string::npos);
}

TEST_CASE("a trace holds every operation with its time, shapes and place", "[debug]") {
  const Tensor a = ones({3, 2}), b = ones({2, 4});
  GradientTape tape;
  tape.watch(a);
  const debug::Profiler profiler;
  const int line = __LINE__ + 1;
  const Tensor y = matmul(a, b);
  tape.gradient(y, a);
  const std::vector<Json> events = events_of(profiler, "X");
  REQUIRE(!events.empty());
  CHECK(events[0].at("name").get<std::string>() == "matmul");
  CHECK(events[0].at("cat").get<std::string>() == "forward");
  CHECK(events[0].at("args").at("shapes").get<std::string>() == "[3, 2] [2, 4] -> [3, 4]");
  CHECK(events[0].at("args").at("at").get<std::string>() == at(line));
  CHECK(events[0].at("ts").get<double>() == 0);  // the first one
  double begin = kInfinity, end = 0;
  Json replay;  // stands behind what it called, and lies around it in time
  for (const Json& event : events) {
    CHECK(event.at("dur").get<double>() >= 0);
    CHECK(event.at("tid").get<int>() == events[0].at("tid").get<int>());
    if (event.at("cat").get<std::string>() != "backward") continue;
    replay = event;
    begin = std::min(begin, event.at("ts").get<double>());
    end = std::max(end, event.at("ts").get<double>() + event.at("dur").get<double>());
  }
  REQUIRE(!replay.is_null());
  CHECK(replay.at("name").get<std::string>() == "matmul");
  CHECK(replay.at("args").at("shapes").get<std::string>() == "[3, 4] -> [3, 2]");
  CHECK(replay.at("ts").get<double>() == begin);
  CHECK(replay.at("ts").get<double>() + replay.at("dur").get<double>() == end);
}

TEST_CASE("a trace has the course of the memory beside the operations", "[debug][memory]") {
  const debug::MemoryTimeline memory;
  const debug::Profiler profiler;
  { const Tensor x = zeros({1000}); }
  const std::vector<Json> counters = events_of(profiler, "C", &memory);
  REQUIRE(counters.size() == 2u);
  CHECK(counters[0].at("args").at("bytes").get<std::int64_t>() == 4000);
  CHECK(counters[1].at("args").at("bytes").get<std::int64_t>() == 0);
  CHECK(counters[0].at("ts").get<double>() <= counters[1].at("ts").get<double>());
  CHECK(events_of(profiler, "C").empty());
}

TEST_CASE("only so many operations are kept for the trace, and all are counted", "[debug]") {
  const Tensor x = ones({2});
  for (const std::int64_t most : {0, 3}) {
    const debug::Profiler profiler({.max_events = most});
    for (int i = 0; i < 5; ++i) exp(x);
    CHECK(events_of(profiler, "X").size() == static_cast<std::size_t>(most));
    CHECK(row_of(profiler.table(), "exp").count == 5);
  }
}

TEST_CASE("operations of several threads have their thread's number and name", "[debug][threads]") {
  const Tensor x = ones({2});
  const debug::Profiler profiler;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker)
    workers.emplace_back([&x] {
      for (int i = 0; i < 100; ++i) exp(x);
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(row_of(profiler.table(), "exp").count == 300);
  std::set<int> threads_seen, threads_named;
  for (const Json& event : events_of(profiler, "X")) threads_seen.insert(event.at("tid").get<int>());
  for (const Json& event : events_of(profiler, "M"))
    if (event.at("name").get<std::string>() == "thread_name") threads_named.insert(event.at("tid").get<int>());
  CHECK(threads_seen.size() == 3u);
  CHECK(threads_named == threads_seen);
}

TEST_CASE("profilers refuse what they cannot do", "[debug][errors]") {
  const debug::Profiler profiler;
  // A row's __LINE__ must stand on the line of its call.
  // clang-format off
  check_errors({
      {__LINE__, message_of<Error>, [] { debug::Profiler bad({.max_events = -1}); },
       "Profiler: max_events is -1; it must be >= 0."},
      {__LINE__, message_of<IoError>, [&] { profiler.write_chrome_trace("/no/such/folder/trace.json"); },
       "Profiler::write_chrome_trace: /no/such/folder/trace.json cannot be written: No such file or directory."},
  }, file);
  // clang-format on
}

// From here on this file has another name, which JSON cannot hold as it is.
#line 7 "folder/a \"quoted\"\tname.cpp"
TEST_CASE("names of files are escaped in a trace", "[debug]") {
  const Tensor x = ones({2});
  const debug::Profiler profiler;
  exp(x);
  const std::vector<Json> events = events_of(profiler, "X");
  REQUIRE(events.size() == 1u);
  CHECK(events[0].at("args").at("at").get<std::string>() == "a \"quoted\"\tname.cpp:10");
}
