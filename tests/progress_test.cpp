// Progress bars: the elements that loops over them have, what stands on a terminal, what in a file, and what it costs.
// Time is the tests' own; rates and times in the expected lines are done by hand from it.
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/progress_stage.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using tests::Stage;
using Lines = std::vector<std::string>;

/// "title  50% [=====>     ] " for a bar of 30 cells.
std::string start_of(const std::string& head, int filled) {
  std::string cells(static_cast<std::size_t>(filled), '=');
  if (filled < 30) cells += '>';
  cells.resize(30, ' ');
  return head + " [" + cells + "] ";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

// --- loops -----------------------------------------------------------------------------------------------------------

TEST_CASE("a loop over a number of steps has each number once", "[io][progress][host]") {
  Stage stage(false);
  std::vector<std::int64_t> numbers, expected(20000);
  for (auto i : cs::progress(20000, "training")) numbers.push_back(i);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(numbers == expected);
  numbers.clear();
  for (auto i : cs::progress(5, "resumed", {.start = 3})) numbers.push_back(i);
  CHECK(numbers == std::vector<std::int64_t>{3, 4});
  for (auto i : cs::progress(0)) FAIL("an element of an empty loop: " << i);
}

TEST_CASE("a loop over a range has its elements themselves", "[io][progress][host]") {
  Stage stage(false);
  std::vector<int> numbers = {1, 2, 3};
  for (auto& number : cs::progress(numbers, "doubled")) number *= 2;
  CHECK(numbers == std::vector<int>{2, 4, 6});
  int array[] = {5, 6}, sum = 0;
  for (const int number : cs::progress(array)) sum += number;
  for (const int number : cs::progress(std::vector<int>{7, 8})) sum += number;  // which lives as long as the loop
  CHECK(sum == 26);
}

TEST_CASE("a loop over a pipeline has its elements, and its size as the total", "[io][progress][host]") {
  Stage stage(false);
  auto numbers = cs::data::range(10) | cs::data::batch(4);
  std::vector<std::int64_t> sizes;
  for (auto&& batch : cs::progress(numbers, "epoch")) sizes.push_back(batch.numel());
  CHECK(sizes == std::vector<std::int64_t>{4, 4, 2});
  REQUIRE(stage.lines().size() == 1);
  CHECK(stage.lines()[0].rfind("epoch 100%  3/3", 0) == 0);

  auto odd = cs::data::range(10) | cs::data::filter([](std::int64_t i) { return i % 2 == 1; });
  std::int64_t sum = 0;
  for (const std::int64_t i : cs::progress(odd, "odd")) sum += i;
  for (const std::int64_t i : cs::progress(cs::data::generate([](std::int64_t i) { return i; }), "endless")) {
    if (i == 3) break;
    sum += i;
  }
  CHECK(sum == 28);  // 1+3+5+7+9 and 1+2
  REQUIRE(stage.lines().size() == 3);
  CHECK(stage.lines()[1] == "odd  5 it  in 0.0 s");  // who filters knows no size
  CHECK(stage.lines()[2] == "endless  3 it  stopped after 0.0 s");
}

TEST_CASE("a loop over a range with a start has all its elements, and counts on from there", "[io][progress][host]") {
  Stage stage(false);
  const std::vector<int> list = {1, 2, 3, 4, 5};
  auto steps = cs::progress(list, "all", {.start = 3});
  std::vector<int> seen;
  for (const int number : steps) seen.push_back(number);
  CHECK(seen == list);
  CHECK(steps.done() == 8);  // as tqdm's `initial` has it

  const auto make = [] { return cs::data::range(10) | cs::data::batch(2); };
  auto first = make();
  std::int64_t done = 0;
  for ([[maybe_unused]] auto&& batch : first)
    if (++done == 2) break;
  auto rest = make();
  rest.restore(first.state());
  auto resumed = cs::progress(rest, "rest", {.start = done});
  for (auto&& batch : resumed) seen.push_back(static_cast<int>(batch.numel()));
  CHECK(seen.size() == list.size() + 3);  // 5 batches of a pass, two of which were done
  CHECK(resumed.done() == 5);
  REQUIRE_FALSE(stage.lines().empty());
  CHECK(stage.lines().back() == "rest 100%  5/5  in 0.0 s");
}

TEST_CASE("the same bar may be looped over again, and begins anew", "[io][progress][host]") {
  Stage stage(false);
  auto steps = cs::progress(4, "pass");
  for (int pass = 0; pass < 2; ++pass) {
    std::int64_t sum = 0;
    for (const std::int64_t i : steps) {
      sum += i;
      Stage::wait(0.5);
    }
    CHECK(sum == 6);
    CHECK(steps.done() == 4);
    CHECK(steps.seconds() == Approx(2));
  }
  for (const std::int64_t i : steps)
    if (i == 1) break;
  for (const std::int64_t i : steps) Stage::wait(static_cast<double>(i));
  CHECK(contains(stage.text, "pass 100%  4/4  2.00 it/s  in 2.0 s\n"));
  CHECK(contains(stage.text, "pass  25%  1/4  stopped after 0.0 s\n"));
  REQUIRE_FALSE(stage.lines().empty());
  CHECK(stage.lines().back() == "pass 100%  4/4  1.50 s/it  in 6.0 s");  // 0+1+2+3 s
}

// --- files -----------------------------------------------------------------------------------------------------------

TEST_CASE("a file has a line for each tenth, and one at the end", "[io][progress][host]") {
  Stage stage(false);
  for ([[maybe_unused]] auto i : cs::progress(100, "training")) Stage::wait(0.5);
  const Lines expected = {
      "training  10%  10/100  2.00 it/s  0:05, 0:45 left", "training  20%  20/100  2.00 it/s  0:10, 0:40 left",
      "training  30%  30/100  2.00 it/s  0:15, 0:35 left", "training  40%  40/100  2.00 it/s  0:20, 0:30 left",
      "training  50%  50/100  2.00 it/s  0:25, 0:25 left", "training  60%  60/100  2.00 it/s  0:30, 0:20 left",
      "training  70%  70/100  2.00 it/s  0:35, 0:15 left", "training  80%  80/100  2.00 it/s  0:40, 0:10 left",
      "training  90%  90/100  2.00 it/s  0:45, 0:05 left", "training 100%  100/100  2.00 it/s  in 0:50"};
  CHECK(stage.lines() == expected);
  CHECK(stage.text.find_first_of("\r\x1b") == std::string::npos);
  CHECK(stage.text.back() == '\n');
}

TEST_CASE("tenths that are done within a second of the line before have none of their own", "[io][progress][host]") {
  Stage stage(false);
  for ([[maybe_unused]] auto i : cs::progress(100, "fast")) Stage::wait(0.03125);  // a tenth in 0.31 s, all in 3.1 s
  REQUIRE(stage.lines().size() == 4);  // after 1, 2 and 3 s, of 32 steps each, and at the end
  CHECK(stage.lines()[0].rfind("fast  32%", 0) == 0);
  CHECK(stage.lines()[1].rfind("fast  64%", 0) == 0);
  CHECK(stage.lines()[2].rfind("fast  96%", 0) == 0);
  CHECK(stage.lines()[3].rfind("fast 100%", 0) == 0);
}

TEST_CASE("a file whose tenths take long has a line every half minute, later on fewer", "[io][progress][host]") {
  Stage stage(false);
  {
    cs::Progress bar(std::nullopt, "reading");
    for (int i = 0; i < 20; ++i) {
      Stage::wait(7);
      bar.advance();
    }
    bar.finish();
  }
  const Lines expected = {"reading  5 it  7.00 s/it  0:35", "reading  10 it  7.00 s/it  1:10",
                          "reading  15 it  7.00 s/it  1:45", "reading  20 it  7.00 s/it  2:20",
                          "reading  20 it  7.00 s/it  in 2:20"};
  CHECK(stage.lines() == expected);
  Stage day(false);
  for ([[maybe_unused]] auto i : cs::progress(24 * 3600, "day")) Stage::wait(1);
  CHECK(day.lines().size() > 100);  // 300 s apart at the end, which are 288 in a day
  CHECK(day.lines().size() < 400);
}

TEST_CASE("a file hears of an inner loop only when it is a minute old", "[io][progress][host]") {
  Stage stage(false);
  for ([[maybe_unused]] auto epoch : cs::progress(1, "epochs")) {
    for ([[maybe_unused]] auto step : cs::progress(10, "short")) Stage::wait(5);
    for ([[maybe_unused]] auto step : cs::progress(10, "long")) Stage::wait(10);
  }
  const Lines expected = {
      "  long  60%  6/10  10.0 s/it  1:00, 0:40 left", "  long  70%  7/10  10.0 s/it  1:10, 0:30 left",
      "  long  80%  8/10  10.0 s/it  1:20, 0:20 left", "  long  90%  9/10  10.0 s/it  1:30, 0:10 left",
      "  long 100%  10/10  10.0 s/it  in 1:40",        "epochs 100%  1/1  150 s/it  in 2:30"};
  CHECK(stage.lines() == expected);
}

TEST_CASE("a loop that is left early says where it stopped and never 100 %", "[io][progress][host]") {
  for (const bool terminal : {false, true}) {
    Stage stage(terminal);
    for (auto i : cs::progress(1000, "broken")) {
      Stage::wait(0.004);
      if (i == 999) break;  // in the last step, which is not done
    }
    const auto train = [] {
      for (auto i : cs::progress(8, "thrown")) {
        Stage::wait(1);
        if (i == 2) throw std::runtime_error("a reason");
      }
    };
    CHECK_THROWS_AS(train(), std::runtime_error);
    {
      cs::Progress bar(4, "by hand");
      bar.advance(3);
      bar.finish();
      bar.finish();    // once is enough
      bar.advance(1);  // and nothing comes behind it
    }
    CHECK_FALSE(contains(stage.text, "100%"));
    CHECK(contains(stage.text, "999/1000  250 it/s  stopped after 4.0 s\n"));
    CHECK(contains(stage.text, "2/8  1.50 s/it  stopped after 3.0 s\n"));
    CHECK(contains(stage.text, "3/4  stopped after 0.0 s\n"));
  }
}

// --- terminals -------------------------------------------------------------------------------------------------------

TEST_CASE("a terminal has one line that is rewritten", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress bar(20000, "training");
  CHECK(stage.lines() == Lines{start_of("training   0%", 0) + "0/20000  0:00"});
  Stage::wait(6);
  bar.advance(7400);  // 1233 a second, so 12600 more in 10.2 s; 23 cells are left, of which 8.5 are full
  CHECK(stage.lines() == Lines{"training  37% [========>              ] 7400/20000  1.23k it/s  0:06, 0:10 left"});
  bar.set("loss", 0.5);
  bar.set("phase", "warm\nup");
  Stage::wait(0.5);
  bar.advance();
  REQUIRE(stage.lines().size() == 1);
  CHECK(contains(stage.lines()[0], "left  loss 0.5  phase warm up"));
  bar.set("loss", 12345);
  Stage::wait(0.5);
  bar.advance(20000 - 7401);
  Stage::wait(1);
  bar.finish();
  const std::string last = "training 100%  20000/20000  2.50k it/s  in 8.0 s  loss 12345  phase warm up";
  CHECK(stage.lines() == Lines{last});  // of 80 columns a bar would have 2
}

TEST_CASE("the end of the steps is seen before anybody says so", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress bar(50, "bytes");
  for (int i = 0; i < 50; ++i) {
    Stage::wait(0.001);
    bar.advance();
  }
  CHECK(contains(stage.lines()[0], "bytes 100%"));
  bar.advance(10);
  Stage::wait(1);
  bar.advance(10);
  REQUIRE(stage.lines().size() == 1);
  CHECK(contains(stage.lines()[0], "bytes 100% ["));
  CHECK(contains(stage.lines()[0], "70/50"));
  CHECK_FALSE(contains(stage.lines()[0], "left"));
}

TEST_CASE("a bar without a total counts", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress bar(std::nullopt, "lines", {.unit = "lines"});
  Stage::wait(2);
  bar.advance(500);
  CHECK(stage.lines() == Lines{"lines  500 lines  250 lines/s  0:02"});
  Stage::wait(2);
  bar.finish();
  CHECK(stage.lines() == Lines{"lines  500 lines  125 lines/s  in 4.0 s"});
}

TEST_CASE("inner bars stand below outer ones and vanish", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress outer(3, "epochs");
  {
    cs::Progress inner(10, "steps");
    Stage::wait(1);
    inner.advance(5);
    CHECK(stage.lines() == Lines{start_of("epochs   0%", 0) + "0/3  0:01",
                                 start_of("  steps  50%", 15) + "5/10  5.00 it/s  0:01, 0:01 left"});
    {
      cs::Progress innermost(2, "parts");
      Stage::wait(1);
      innermost.advance();
      REQUIRE(stage.lines().size() == 3);
      CHECK(stage.lines()[2].rfind("    parts  50%", 0) == 0);
    }
    CHECK(stage.lines().size() == 2);
  }
  CHECK(stage.lines() == Lines{start_of("epochs   0%", 0) + "0/3  0:02"});
  outer.advance(3);
  outer.finish();
  CHECK(stage.lines() == Lines{start_of("epochs 100%", 30) + "3/3  1.50 it/s  in 2.0 s"});
}

TEST_CASE("a bar stays or vanishes as its options say", "[io][progress][host]") {
  Stage stage(true);
  {
    cs::Progress outer(2, "outer", {.keep = false});
    for (int i = 0; i < 2; ++i) {
      cs::Progress inner(1, "inner", {.keep = true});
      Stage::wait(1);
      inner.advance();
    }
    REQUIRE(stage.lines().size() == 3);
    CHECK(stage.lines()[0] == start_of("  inner 100%", 30) + "1/1  1.00 it/s  in 1.0 s");
    CHECK(stage.lines()[1] == stage.lines()[0]);
    CHECK(stage.lines()[2].rfind("outer   0%", 0) == 0);
  }
  CHECK(stage.lines().size() == 2);
}

TEST_CASE("text is printed above the bars", "[io][progress][host]") {
  for (const bool terminal : {false, true}) {
    Stage stage(terminal);
    cs::Progress outer(2, "outer"), inner(2, "inner");
    Stage::wait(1);
    outer.advance();
    inner.print("one");
    outer.print("two\nthree\n");
    Lines lines;
    for (const std::string& line : stage.lines()) lines.push_back(line.substr(0, line.find('%')));
    if (terminal) CHECK(lines == Lines{"one", "two", "three", "outer  50", "  inner   0"});
    else CHECK(lines == Lines{"outer  50", "one", "two", "three"});
  }
}

TEST_CASE("a terminal that became narrower is cleared of the lines that it has broken", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress outer(100, "outer"), inner(100, "inner");
  outer.set("loss", "0.123456789");
  inner.set("loss", "0.123456789");
  Stage::wait(1);
  inner.advance(10);  // two lines of more than 40 columns
  stage.size.columns = 40;
  Stage::wait(1);
  stage.text.clear();
  inner.advance(10);
  CHECK(stage.text.rfind("\r\x1b[3A", 0) == 0);  // from the last of four rows to the first
}

TEST_CASE("a terminal with few rows has no more bars than rows", "[io][progress][host]") {
  Stage stage(true);
  stage.size.rows = 4;
  std::vector<std::unique_ptr<cs::Progress>> bars;
  for (int i = 0; i < 9; ++i) bars.push_back(std::make_unique<cs::Progress>(9, std::to_string(i)));
  Stage::wait(1);
  bars[5]->advance();
  CHECK(stage.lines().size() == 3);
  while (!bars.empty()) bars.pop_back();
  CHECK(stage.lines().size() == 1);
  CHECK(contains(stage.lines()[0], "0   0%"));
}

// --- cost, threads ---------------------------------------------------------------------------------------------------

TEST_CASE("a million steps of a microsecond cost a thousand looks at the clock and ten drawings",
          "[io][progress][host]") {
  Stage stage(true);
  for (auto i : cs::progress(1000000, "fast")) Stage::now = 1000 + 1e-6 * static_cast<double>(i + 1);
  CHECK(Stage::looks.load() < 1100);
  CHECK(Stage::looks.load() > 900);
  CHECK(stage.writes <= 13);  // at the beginning, ten times, at the last step and at the end
  CHECK(stage.writes >= 10);
}

TEST_CASE("many short inner loops do not draw more often", "[io][progress][host]") {
  Stage stage(true);
  for ([[maybe_unused]] auto epoch : cs::progress(1000, "outer"))
    for ([[maybe_unused]] auto step : cs::progress(3, "inner")) Stage::wait(1.0 / 3000);
  CHECK(stage.writes <= 13);  // a second in all
}

TEST_CASE("a loop that becomes a hundred times slower is still seen", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress bar(100000, "slow");
  for (int i = 0; i < 50000; ++i) {
    Stage::wait(1e-5);
    bar.advance();
  }
  const int before = stage.writes;
  for (int i = 0; i < 1000; ++i) {  // a second
    Stage::wait(1e-3);
    bar.advance();
  }
  CHECK(stage.writes - before >= 8);
}

TEST_CASE("any thread may advance a bar, and none of its steps is lost", "[io][progress][host][threads]") {
  Stage stage(true);
  cs::Progress bar(40000, "shared");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&bar] {
      for (int step = 0; step < 10000; ++step) {
        Stage::wait(1e-4);
        bar.advance();
        if (step % 100 == 0) bar.set("step", step);
        if (step % 5000 == 0) bar.print("half");
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(bar.done() == 40000);
}

TEST_CASE("bars of several threads do not garble each other", "[io][progress][host][threads]") {
  Stage stage(true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for ([[maybe_unused]] auto epoch : cs::progress(20, "thread"))
        for ([[maybe_unused]] auto step : cs::progress(50, "inner")) Stage::wait(1e-3);
    });
  for (std::thread& thread : threads) thread.join();
  const Lines lines = stage.lines();
  CHECK(lines.size() == 4);  // none is an inner one of another thread's
  for (const std::string& line : lines) CHECK(line.rfind("thread 100% [", 0) == 0);
}

// --- errors ----------------------------------------------------------------------------------------------------------

// A row's __LINE__ must stand on the line of its call.
// clang-format off
TEST_CASE("bars with totals that cannot be are errors", "[io][progress][host][errors]") {
  Stage stage(true);
  tests::check_errors({
      {__LINE__, tests::message_of<cs::Error>, [] { cs::progress(-1); },
       "Progress: the total is -1; it must be at least 0, or std::nullopt if it is unknown."},
      {__LINE__, tests::message_of<cs::Error>, [] { cs::Progress bar(-7, "x"); },
       "Progress: the total is -7; it must be at least 0, or std::nullopt if it is unknown."},
      {__LINE__, tests::message_of<cs::Error>, [] { cs::progress(10, "x", {.start = -2}); },
       "Progress: the start is -2; it must be at least 0."},
      {__LINE__, tests::message_of<cs::Error>, [] { cs::progress(10, "x", {.start = 11}); },
       "Progress: the start is 11 and the total is 10; the start must not be beyond the total."},
      {__LINE__, tests::message_of<cs::Error>, [] { cs::set_progress_output(-1); },
       "set_progress_output: the file descriptor is -1; it must be at least 0."},
  }, "progress_test.cpp");
  CHECK(stage.text.empty());
}
// clang-format on

TEST_CASE("a line for which there is no memory is left out, and the next one is not", "[io][progress][host]") {
  Stage stage(false);
  cs::Progress bar(100, "x");
  stage.has_memory = false;
  Stage::wait(2);
  bar.advance(10);
  stage.has_memory = true;
  Stage::wait(2);
  bar.advance(80);
  REQUIRE(stage.lines().size() == 1);
  CHECK(stage.lines()[0].rfind("x  90%  90/100", 0) == 0);
}

TEST_CASE("a bar may begin where counts end", "[io][progress][host]") {
  Stage stage(false);
  {
    const cs::Progress bar(std::nullopt, "x", {.start = INT64_MAX});  // whose next step cannot be counted
  }
  CHECK(stage.lines() == Lines{"x  9223372036854775807 it  stopped after 0.0 s"});
}

TEST_CASE("a bar of nothing is done at once", "[io][progress][host]") {
  Stage stage(false);
  for ([[maybe_unused]] auto i : cs::progress(0, "none")) FAIL("there is no step");
  CHECK(stage.lines() == Lines{"none 100%  0/0  in 0.0 s"});
}
