// Values watched from step to step.
#include "tests/support.hpp"

#include <optional>
#include <sstream>
#include <thread>

#include "tests/event_files.hpp"
#include "tests/files.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// Forgets what was watched, before and after a test.
struct Clean {
  Clean() { debug::clear_watched(); }
  ~Clean() { debug::clear_watched(); }
};

}  // namespace

TEST_CASE("looking at a gradient of some rows changes nothing for a lazy optimizer", "[debug][sparse][host]") {
  const Clean clean;
  const TemporaryFolder folder;
  std::optional<io::SummaryWriter> log;
  if (wire::has_events()) log.emplace(folder.path("run"));
  const Tensor looked_at = random_in(-1, 1, {100, 8}), alone = looked_at.copy(), rows = {3, 5};
  for (const Tensor& table : {looked_at, alone}) {
    optim::Adam adam({table}, {.weight_decay = 0.5, .lazy = true});
    for (int step = 0; step < 3; ++step) {
      GradientTape tape;
      tape.watch(table);
      const Tensor gradient = tape.gradient(sum(square(gather(table, rows))), table);
      if (table.is_same(looked_at)) {
        debug::watch("gradient", gradient);
        if (log.has_value()) log->histogram("gradient", gradient, step);
      }
      CHECK(has_row_slices(gradient));
      adam.apply(std::vector{gradient});
    }
  }
  CHECK(same_bits(values(looked_at), values(alone)));
  const std::vector<debug::WatchedRow> history = debug::history("gradient");
  REQUIRE(history.size() == 3);
  CHECK(history[0].zero_share == 0.98);  // of all rows
}

TEST_CASE("a watched tensor leaves its figures", "[debug]") {
  const Clean clean;
  debug::watch("x", Tensor{{1.0f, 3.0f}, {0.0f, 4.0f}});
  debug::watch("x", Tensor{5, -5});
  debug::watch("x", Tensor{kNaN, kInfinity, -kInfinity, 2.0});
  debug::watch("x", strided(Tensor{{true, false}, {false, false}}));
  const std::vector<debug::WatchedRow> rows = debug::history("x");
  REQUIRE(rows.size() == 4u);
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(rows[i].step == static_cast<std::int64_t>(i));

  CHECK(rows[0].min == 0);
  CHECK(rows[0].max == 4);
  CHECK(rows[0].mean == 2);
  CHECK(rows[0].stddev == Approx(std::sqrt(2.5)));  // ((1 + 1 + 4 + 4) / 4)^0.5
  CHECK(rows[0].count == 4);
  CHECK(rows[0].zero_share == 0.25);
  CHECK(rows[1].stddev == 5);
  CHECK(rows[2].nan == 1);
  CHECK(rows[2].infinite == 2);
  CHECK(rows[2].mean == 2);  // of the finite ones
  CHECK(rows[3].mean == 0.25);
}

TEST_CASE("figures of no finite values are no numbers", "[debug]") {
  const Clean clean;
  debug::watch("nothing", zeros({0, 3}));
  debug::watch("nothing", Tensor{kNaN});
  for (const debug::WatchedRow& row : debug::history("nothing")) {
    CHECK(std::isnan(row.min));
    CHECK(std::isnan(row.mean));
    CHECK(row.zero_share == 0);
  }
}

TEST_CASE("numbers near the largest have figures too", "[debug]") {
  const Clean clean;
  debug::watch("wide", Tensor{1.7e308, 1.7e308});
  debug::watch("wide", Tensor{-1.7e308, -1.7e308});
  debug::watch("wide", Tensor{-1.7e308, 1.7e308});
  const std::vector<debug::WatchedRow> rows = debug::history("wide");
  CHECK(rows[0].mean == Approx(1.7e308));
  CHECK(rows[0].stddev == 0);
  CHECK(rows[1].mean == Approx(-1.7e308));
  CHECK(rows[2].mean == 0);
  CHECK(rows[2].stddev == Approx(1.7e308));
  CHECK_THAT(debug::watched(), Catch::Matchers::ContainsSubstring("\u2588\u2581\u2585"));
  debug::watch("narrow", Tensor{0.0});
  debug::watch("narrow", Tensor{5e-324});
  CHECK_THAT(debug::watched(), Catch::Matchers::ContainsSubstring("0 -> 4.94066e-324"));
}

TEST_CASE("of a long history rows are left out evenly, but never the first or the last", "[debug]") {
  const Clean clean;
  for (int step = 0; step < 5001; ++step) debug::watch("long", Tensor(static_cast<double>(step)));
  const std::vector<debug::WatchedRow> rows = debug::history("long");
  CHECK(rows.size() <= 257u);
  CHECK(rows.size() > 100u);
  CHECK(rows.front().step == 0);
  CHECK(rows.back().step == 5000);
  const std::int64_t stride = rows[1].step;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    CHECK(rows[i].step == static_cast<std::int64_t>(i) * stride);
    CHECK(rows[i].mean == static_cast<double>(rows[i].step));
  }
}

TEST_CASE("the table shows first and last figures and the first bad step", "[debug]") {
  const Clean clean;
  debug::watch("weights", Tensor{1.0, 3.0});
  debug::watch("weights", Tensor{0.0, kNaN});
  debug::watch("weights", Tensor{0.0, 8.0});
  debug::watch("bias", Tensor{0.5});
  const std::string table = debug::watched();
  INFO(table);
  std::istringstream in(table);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  REQUIRE(lines.size() == 3u);
  CHECK(lines[0].rfind("name", 0) == 0);
  CHECK(lines[1].rfind("bias ", 0) == 0);
  CHECK(lines[2].rfind("weights  [2] ", 0) == 0);
  CHECK_THAT(lines[2], Catch::Matchers::ContainsSubstring("1 -> 0"));              // min
  CHECK_THAT(lines[2], Catch::Matchers::ContainsSubstring("2 -> 4"));              // mean
  CHECK_THAT(lines[2], Catch::Matchers::ContainsSubstring("50.0%"));               // zeros
  CHECK_THAT(lines[2], Catch::Matchers::ContainsSubstring("\u2585\u2581\u2588"));  // 2, 0 and 4 between 0 and 4

  std::ostringstream printed;
  debug::print_watched(printed);
  CHECK(printed.str() == table);
  debug::clear_watched();
  CHECK(debug::watched().find("weights") == std::string::npos);
}

TEST_CASE("several threads watch under one name and under their own", "[debug][threads]") {
  const Clean clean;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 4; ++worker)
    workers.emplace_back([worker] {
      const Tensor x = full({10}, worker);
      for (int i = 0; i < 50; ++i) {
        debug::watch("shared", x);
        debug::watch("own " + std::to_string(worker), x);
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(debug::history("shared").back().step == 199);
  for (int worker = 0; worker < 4; ++worker) {
    const std::vector<debug::WatchedRow> rows = debug::history("own " + std::to_string(worker));
    CHECK(rows.size() == 50u);
    CHECK(rows.back().mean == worker);
  }
}

TEST_CASE("watching refuses undefined tensors and names that are not there", "[debug][errors]") {
  const Clean clean;
  // A row's __LINE__ must stand on the line of its call.
  // clang-format off
  check_errors({
      {__LINE__, message_of<Error>, [] { debug::watch("x", Tensor()); },
       "debug::watch: the tensor is undefined; give it a value first."},
      {__LINE__, message_of<Error>, [] { debug::history("y"); },
       "debug::history: nothing is watched under the name y; call debug::watch with it first."},
  }, "debug_watch_test.cpp");
  // clang-format on
}
