// What progress bars say, without time and terminals: numbers, times, rates, and lines in every width.
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "io/progress_bar.hpp"
#include "io/progress_text.hpp"
#include "tests/support.hpp"

namespace io = capstan::io;

namespace {

/// 37 % of an hour and 40 minutes.
io::ProgressFacts some_facts() {
  io::ProgressFacts facts;
  facts.title = "training";
  facts.unit = "it";
  facts.done = 7400;
  facts.total = 20000;
  facts.elapsed = 2220;
  facts.rate = 10.0 / 3;
  facts.left = 3780;
  facts.figures = "loss 0.1234";
  return facts;
}

}  // namespace

TEST_CASE("numbers have three digits and a letter", "[io][progress][host]") {
  struct Row {
    double value;
    std::string text;
  };
  for (const Row& row : std::vector<Row>{{0.05, "0.05"},
                                         {1, "1.00"},
                                         {9.994, "9.99"},
                                         {9.996, "10.0"},
                                         {99.94, "99.9"},
                                         {99.96, "100"},
                                         {999.4, "999"},
                                         {999.6, "1.00k"},
                                         {1234, "1.23k"},
                                         {45678, "45.7k"},
                                         {999600, "1.00M"},
                                         {2.5e9, "2.50G"},
                                         {-1234, "-1.23k"},
                                         {tests::kInfinity, "inf"}})
    CHECK(io::short_number(row.value) == row.text);
}

TEST_CASE("figures that are whole numbers are written in full, others with four digits", "[io][progress][host]") {
  CHECK(io::figure_text(0) == "0");
  CHECK(io::figure_text(123456789) == "123456789");
  CHECK(io::figure_text(-3) == "-3");
  CHECK(io::figure_text(0.123456) == "0.1235");
  CHECK(io::figure_text(3e-5) == "3e-05");
  CHECK(io::figure_text(1e12) == "1e+12");
  CHECK(io::figure_text(tests::kNaN).find("nan") != std::string::npos);  // or -nan
  CHECK(io::figure_text(-tests::kInfinity) == "-inf");
}

TEST_CASE("numbers have a point in every locale", "[io][progress][metrics][host]") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  bool found = false;
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"})
    found = found || std::setlocale(LC_NUMERIC, name) != nullptr;
  if (!found) WARN("no locale with a decimal comma is installed: this case checked nothing");
  io::ProgressFacts facts = some_facts();
  facts.state = io::ProgressState::complete;
  facts.elapsed = 3.25;
  const std::string line = io::progress_line(facts, {}), figure = io::figure_text(0.25);
  const std::string table = to_string(capstan::metrics::ConfusionMatrix(1, {.zero_division = 0.5}));
  std::setlocale(LC_NUMERIC, before.c_str());
  CHECK(line == "training  37%  7400/20000  3.33 it/s  in 3.2 s  loss 0.1234");
  CHECK(figure == "0.25");
  CHECK(table.find("0.5000") != std::string::npos);
}

TEST_CASE("times are minutes and seconds, then hours, then days", "[io][progress][host]") {
  struct Row {
    double seconds;
    std::string text;
  };
  for (const Row& row : std::vector<Row>{{0, "0:00"},
                                         {-1, "0:00"},
                                         {4.4, "0:04"},
                                         {59.6, "1:00"},
                                         {754, "12:34"},  // 12*60 + 34
                                         {3599, "59:59"},
                                         {3600, "1:00:00"},
                                         {86399, "23:59:59"},
                                         {183900, "2d 03:05"},  // 2*86400 + 3*3600 + 5*60
                                         {1e300, "?"},
                                         {tests::kNaN, "?"}})
    CHECK(io::time_text(row.seconds) == row.text);
}

TEST_CASE("rates below one a second are told as seconds a step", "[io][progress][host]") {
  CHECK(io::rate_text(1234, "it") == "1.23k it/s");
  CHECK(io::rate_text(1, "images") == "1.00 images/s");
  CHECK(io::rate_text(0.4, "it") == "2.50 s/it");
  CHECK(io::rate_text(0, "it").empty());
  CHECK(io::rate_text(tests::kNaN, "it").empty());
}

TEST_CASE("the rate is a moving average whose past fades", "[io][progress][host]") {
  io::RateMeter meter;
  meter.start(0, 50);
  CHECK(meter.rate() == 0);
  CHECK(meter.left(100, 50) < 0);  // nothing is known
  meter.sample(100, 60);           // 100 in 10 s
  CHECK(meter.rate() == Approx(10));
  meter.sample(400, 70);  // 300 in 10 s, and the past fades by 1/e
  const double fade = std::exp(-1.0);
  CHECK(meter.rate() == Approx((100 * fade + 300) / (10 * fade + 10)));
}

TEST_CASE("a tenth of a long time is what the rate remembers", "[io][progress][host]") {
  io::RateMeter meter;
  meter.start(0, 0);
  meter.sample(900, 900);    // 1 a second
  meter.sample(1100, 1000);  // 2 a second for 100 s, a tenth of 1000 s: the past fades by 1/e
  const double fade = std::exp(-1.0);
  CHECK(meter.rate() == Approx((900 * fade + 200) / (900 * fade + 100)));
}

TEST_CASE("time left falls between two slow steps, but not below the steps behind the next", "[io][progress][host]") {
  io::RateMeter meter;
  meter.start(0, 0);
  meter.sample(1, 60);  // a minute a step
  CHECK(meter.left(3, 60) == Approx(180));
  meter.sample(1, 80);  // no step since: the rate is as it was
  CHECK(meter.rate() == Approx(1.0 / 60));
  CHECK(meter.left(3, 80) == Approx(160));
  CHECK(meter.left(3, 500) == Approx(120));
  CHECK(meter.left(0, 80) == 0);
  CHECK(meter.left(-5, 80) < 0);  // more are done than there were to be
}

TEST_CASE("a count that is taken back starts a new stretch of the rate", "[io][progress][host]") {
  io::RateMeter meter;
  meter.start(0, 0);
  meter.sample(100, 10);
  meter.sample(50, 11);
  CHECK(meter.rate() == Approx(10));
  meter.sample(60, 12);  // 10 in the second since
  CHECK(meter.rate() == Approx(10));
}

TEST_CASE("steps between two looks at the clock take a millisecond, and at most double", "[io][progress][host]") {
  io::Pace pace;
  pace.start(0, 0);
  std::int64_t done = 1;
  std::vector<std::int64_t> looks;
  for (int i = 0; i < 12; ++i) {
    looks.push_back(done);
    done = pace.next(done, static_cast<double>(done) * 1e-5);  // 10 us a step: 100 in a millisecond
  }
  const std::vector<std::int64_t> expected = {1, 3, 7, 15, 31, 63, 127, 227, 327, 427, 527, 627};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(looks[i] - expected[i]) <= 12);  // of rounding
  CHECK(pace.next(done, 1000) == done + 1);  // slow steps: each one
  pace.start(0, 0);
  CHECK(pace.next(std::numeric_limits<std::int64_t>::max() - 1, 0) == io::kNever);  // and no overflow
}

TEST_CASE("a line of a file has no bar and says everything", "[io][progress][host]") {
  io::ProgressFacts facts = some_facts();
  CHECK(io::progress_line(facts, {}) == "training  37%  7400/20000  3.33 it/s  37:00, 1:03:00 left  loss 0.1234");
  facts.state = io::ProgressState::stopped;
  CHECK(io::progress_line(facts, {}) == "training  37%  7400/20000  3.33 it/s  stopped after 37:00  loss 0.1234");
  facts.state = io::ProgressState::complete;
  facts.done = facts.total;
  facts.elapsed = 3.25;
  CHECK(io::progress_line(facts, {}) == "training 100%  20000/20000  3.33 it/s  in 3.2 s  loss 0.1234");  // to even
  facts = some_facts();
  facts.total = -1;
  facts.left = -1;
  facts.depth = 1;
  CHECK(io::progress_line(facts, {}) == "  training  7400 it  3.33 it/s  37:00  loss 0.1234");
}

TEST_CASE("one line is as wide as the terminal allows, with less and less in it", "[io][progress][host]") {
  const io::ProgressFacts facts = some_facts();
  struct Row {
    int columns;
    std::string line;
  };
  // 37 % of 30 cells are 11.1, of 26 9.6, of 8 2.96; the texts have 13, 10, 9, 5, 12 and 11 columns, and the blanks.
  const std::vector<Row> rows = {{120, "training  37% [===========>" + std::string(18, ' ') +
                                           "] 7400/20000  3.33 it/s  37:00, 1:03:00 left  loss 0.1234"},
                                 {99, "training  37% [=========>" + std::string(16, ' ') +
                                          "] 7400/20000  3.33 it/s  37:00, 1:03:00 left  loss 0.1234"},
                                 {74, "training  37% [==>     ] 7400/20000  3.33 it/s  1:03:00 left  loss 0.1234"},
                                 {73, "training  37%  7400/20000  3.33 it/s  37:00, 1:03:00 left  loss 0.1234"},
                                 {65, "training  37%  7400/20000  3.33 it/s  1:03:00 left  loss 0.1234"},
                                 {53, "training  37%  7400/20000  1:03:00 left  loss 0.1234"},
                                 {40, "training  37%  7400/20000  1:03:00 left"},
                                 {10, "train  37"},  // half of the columns are the title's
                                 {1, " "}};
  for (const Row& row : rows) {
    INFO(row.columns << " columns");
    CHECK(io::progress_line(facts, {.columns = row.columns}) == row.line);
  }
}

TEST_CASE("bars of blocks are filled in eighths, and full only at the end", "[io][progress][host]") {
  io::ProgressFacts facts;
  facts.total = 240;  // 30 cells of 8
  const auto bar = [&](std::int64_t done) {
    facts.done = done;
    const std::string line = io::progress_line(facts, {.columns = 100, .blocks = true});
    const std::size_t first = line.find('|');
    return line.substr(first + 1, line.find('|', first + 1) - first - 1);
  };
  const std::string full = "\xE2\x96\x88";  // U+2588
  CHECK(bar(0) == std::string(30, ' '));
  CHECK(bar(1) == "\xE2\x96\x8F" + std::string(29, ' '));  // U+258F, one eighth
  CHECK(bar(8) == full + std::string(29, ' '));
  CHECK(bar(15) == full + "\xE2\x96\x89" + std::string(28, ' '));  // U+2589, seven eighths
  std::string thirty;
  for (int i = 0; i < 30; ++i) thirty += full;
  CHECK(bar(240) == thirty);
  CHECK(bar(500) == thirty);
  facts.total = std::numeric_limits<std::int64_t>::max() - 1;
  CHECK(bar(facts.total - 1) != thirty);
  CHECK(io::progress_line(facts, {}).rfind(" 99%", 0) == 0);
}

TEST_CASE("wide characters take two columns, marks none, and what is no UTF-8 one a byte", "[io][progress][host]") {
  CHECK(io::columns_of("abc") == 3);
  CHECK(io::columns_of("\xC3\xA4") == 1);                  // a with two dots
  CHECK(io::columns_of("a\xCC\x88") == 1);                 // the same from two characters
  CHECK(io::columns_of("\xE4\xB8\xAD\xE6\x96\x87") == 4);  // two Chinese ones
  CHECK(io::columns_of("\xF0\x9F\x9A\x80") == 2);          // a rocket
  CHECK(io::columns_of("\xFF\xC3") == 2);
  CHECK(io::clipped("\xE4\xB8\xAD\xE6\x96\x87", 3) == "\xE4\xB8\xAD");
  CHECK(io::clipped("abc", 0).empty());
  CHECK(io::clipped("abc", 9) == "abc");
}

TEST_CASE("control characters never reach a terminal", "[io][progress][host]") {
  CHECK(io::printable("a\nb\tc\x1b[2J") == "a b c [2J");
  CHECK(io::printable("\xC2\x9B"
                      "2J\x9B") == " 2J ");  // U+009B begins an escape, too
  CHECK(io::printable("gr\xC3\xBC\xC3\x9F") == "gr\xC3\xBC\xC3\x9F");
}
