// States of pipelines: after errors, short, of other pipelines, and damaged. From any place: pipeline_resume_test.cpp.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/pipelines.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// The elements before an error, which there must be.
template <class T>
Texts texts_before_error(data::Pipeline<T>& pipeline, std::string& message) {
  Texts texts;
  try {
    for (const auto& element : pipeline) texts.push_back(text_of(element));
  } catch (const IndexError& error) {
    message = error.what();
    return texts;
  }
  FAIL("no error came");
  return texts;
}

/// In the pipeline that `make` makes a function fails at the number that it is given; every number is the victim once,
/// in the first pass and in the second. What is restored goes on with the element that was not given out.
template <class Make>
void check_after_errors(const std::string& what, const Make& make, std::int64_t count) {
  std::int64_t victim = -1;  // read by workers, written between loops
  seed(1);
  auto reference = make(victim);
  const Texts passes[] = {texts_of(reference), texts_of(reference), texts_of(reference)};
  INFO(what);
  for (std::size_t pass = 0; pass < 2; ++pass)
    for (std::int64_t number = 0; number < count; ++number) {
      INFO("pass " << pass << ", fails at " << number);
      seed(1);
      auto failing = make(victim);
      if (pass == 1) texts_of(failing);
      victim = number;
      std::string message;
      const Texts before = texts_before_error(failing, message);
      CHECK(message.find(": element ") != std::string::npos);
      REQUIRE(before.size() <= passes[pass].size());
      CHECK(before == Texts(passes[pass].begin(), passes[pass].begin() + static_cast<std::ptrdiff_t>(before.size())));
      const std::string state = failing.state();
      INFO(state);

      failing.restore(state);  // it fails again, at once
      std::string again;
      CHECK(texts_before_error(failing, again).empty());
      CHECK(again == message);
      const std::string later = failing.state();
      victim = -1;
      for (const std::string& at : {state, later}) {
        seed(50);
        auto other = make(victim);
        other.restore(at);
        CHECK(texts_of(other) == rest_of(passes[pass], before.size()));
        CHECK(texts_of(other) == passes[pass + 1]);
        failing.restore(at);
        CHECK(texts_of(failing) == rest_of(passes[pass], before.size()));
        CHECK(texts_of(failing) == passes[pass + 1]);
      }
    }
}

/// Fails at the victim.
auto unless(const std::int64_t& victim) {
  return [&victim](std::int64_t x) {
    if (x == victim) throw IndexError("broken");
    return static_cast<double>(x) + uniform({}, 0, 1).item<float>();
  };
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  if (at == std::string::npos) FAIL("'" << text << "' has no '" << part << "'");
  return text.replace(at, part.size(), by);
}

/// A loop that may be refused, but has an end.
template <class T>
void walk(data::Pipeline<T>& pipeline) {
  std::int64_t count = 0;
  try {
    for ([[maybe_unused]] const auto& element : pipeline) REQUIRE(++count < 1000);
  } catch (const Error& error) { UNSCOPED_INFO(error.what()); }
}

/// Every number of a place, replaced by others: an Error, or a pass with an end.
template <class Make>
void check_numbers(const std::string& what, const Make& make) {
  INFO(what);
  seed(1);
  auto good = make();
  std::string state;
  int given = 0;
  for ([[maybe_unused]] const auto& element : good)
    if (++given == 5) {
      state = good.state();
      break;
    }
  const std::size_t place = state.find(";at ");
  REQUIRE(place != std::string::npos);
  const std::size_t end = state.rfind(";end");
  for (std::size_t from = place + 4; from < end;) {
    const std::size_t to = std::min(state.find(' ', from), end);
    for (const char* number :
         {"-1", "0", "1", "2", "3", "5", "8", "100", "4611686018427387903", "9223372036854775807"}) {
      const std::string damaged = state.substr(0, from) + number + state.substr(to);
      INFO(damaged);
      auto restored = make();
      try {
        restored.restore(damaged);
      } catch (const Error&) { continue; }
      walk(restored);
      walk(restored);
    }
    from = to + 1;
  }
  good.restore(state);
  auto other = make();
  other.restore(state);
  CHECK(texts_of(other) == texts_of(good));
}

}  // namespace

// --- errors ------------------------------------------------------------------------------------------------------

TEST_CASE("behind an error a pipeline goes on with the element that failed", "[data][pipeline][threads][host]") {
  for (const int workers : {0, 3}) {
    INFO(workers << " workers");
    const data::MapOptions options = {.workers = workers};
    check_after_errors(
        "map", [&](const std::int64_t& v) { return data::range(9) | data::map(unless(v), options); }, 9);
    check_after_errors(
        "shuffle",
        [&](const std::int64_t& v) {
          return data::range(12) | data::shuffle(5) | data::map(unless(v), options) | data::prefetch(2);
        },
        12);
    check_after_errors(
        "batch",
        [&](const std::int64_t& v) {
          return data::range(11) | data::shuffle(5) | data::map(unless(v), options) | data::batch(3);
        },
        11);
    check_after_errors(
        "filter",
        [&](const std::int64_t& v) {
          return data::range(12) | data::map(unless(v), options) | data::filter([](double x) { return x > 5; });
        },
        12);
    check_after_errors(
        "shuffle behind",
        [&](const std::int64_t& v) { return data::range(12) | data::map(unless(v), options) | data::shuffle(4); }, 12);
    check_after_errors(
        "repeat",
        [&](const std::int64_t& v) {
          return data::range(5) | data::shuffle(5) | data::map(unless(v), options) | data::repeat(2);
        },
        5);
    check_after_errors(
        "take",
        [&](const std::int64_t& v) {
          return data::range(7) | data::map(unless(v), options) | data::take(7) | data::map([](double x) { return x; });
        },
        7);
    check_after_errors(
        "interleave",
        [&](const std::int64_t& v) {
          return data::range(4) | data::interleave(
                                      [&v, options](std::int64_t x) {
                                        return data::range(3) | data::map([x](std::int64_t y) { return 3 * x + y; }) |
                                               data::map(unless(v), options);
                                      },
                                      {.cycle = 2});
        },
        12);
    check_after_errors(
        "window",
        [&](const std::int64_t& v) {
          return data::range(9) | data::map(unless(v), options) | data::window(3, {.shift = 2, .drop_rest = false});
        },
        9);
  }
  check_after_errors(
      "generate", [](const std::int64_t& v) { return data::generate(9, unless(v)) | data::shuffle(4); }, 9);
  check_after_errors(
      "a predicate",
      [](const std::int64_t& v) {
        return data::range(9) | data::shuffle(9) | data::filter([&v](std::int64_t x) {
                 if (x == v) throw IndexError("broken");
                 return default_rng().bits() % 4 != 0;
               });
      },
      9);
}

TEST_CASE("a cache that met an error goes on where it was", "[data][pipeline][host]") {
  std::vector<int> calls(8, 0);
  bool broken = true;
  auto cached = data::range(8) | data::map([&](std::int64_t x) {
                  if (broken && x == 5) throw IndexError("broken");
                  ++calls[static_cast<std::size_t>(x)];
                  return x;
                }) |
                data::cache();
  std::string message;
  CHECK(texts_before_error(cached, message).size() == 5);
  CHECK(message == "map: element 5: broken");
  const std::string state = cached.state();
  broken = false;
  cached.restore(state);
  CHECK(elements_of(cached) == Integers{5, 6, 7});
  CHECK(elements_of(cached) == Integers{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(calls == std::vector<int>(8, 1));
}

// --- what a state is ---------------------------------------------------------------------------------------------

TEST_CASE("a state is short, however much a buffer holds", "[data][pipeline][host]") {
  auto pipeline = data::range(200000) | data::shuffle(100000) | data::batch(10);
  std::string state;
  int given = 0;
  for ([[maybe_unused]] const Tensor& batch : pipeline)
    if (++given == 7000) {
      state = pipeline.state();
      break;
    }
  CHECK(state.size() < 200);
  pipeline.restore(state);
  auto cached = data::range(3000) | data::cache() | data::repeat();
  given = 0;
  for ([[maybe_unused]] const std::int64_t x : cached)
    if (++given == 4000) break;
  CHECK(cached.state().size() < 200);

  auto again = data::range(200000) | data::shuffle(100000) | data::batch(10);
  again.restore(state);
  int compared = 0;
  auto a = pipeline.begin(), b = again.begin();
  for (; compared < 20; ++compared, ++a, ++b) CHECK(same(*a, *b));
}

TEST_CASE("a state brings its seeds, and a restored pipeline keeps them", "[data][pipeline][host]") {
  auto five = data::range(30) | data::shuffle(30, {.seed = 5}), six = data::range(30) | data::shuffle(30, {.seed = 6});
  const std::string at_start = five.state();
  const Integers first = elements_of(five), second = elements_of(five), third = elements_of(five);
  six.restore(at_start);
  CHECK(elements_of(six) == first);
  auto copy = six;
  CHECK(elements_of(six) == second);
  const std::string state = six.state();
  CHECK(elements_of(six) == third);
  CHECK(elements_of(copy) == second);
  five.restore(state);
  CHECK(elements_of(five) == third);
  CHECK(elements_of(data::range(30) | data::shuffle(30, {.seed = 6})) != first);
}

TEST_CASE("a state in a loop is behind the element of its body", "[data][pipeline][host]") {
  auto numbers = data::range(5) | data::map([](std::int64_t x) { return x; });
  std::vector<std::string> states;
  for ([[maybe_unused]] const std::int64_t x : numbers) {
    states.push_back(numbers.state());
    CHECK(numbers.state() == states.back());  // asking changes nothing
  }
  REQUIRE(states.size() == 5);
  const std::string behind_all = numbers.state();
  for (std::size_t i = 0; i < 5; ++i) {
    numbers.restore(states[i]);
    CHECK(numbers.state() == states[i]);
    CHECK(elements_of(numbers).size() == 4 - i);
  }
  CHECK(numbers.state() == behind_all);  // before pass 1
  CHECK(behind_all.find(";pass 1;") != std::string::npos);
  CHECK(elements_of(numbers).size() == 5);

  auto copied = data::range(5) | data::map([](std::int64_t x) { return x; });
  for (const std::int64_t x : copied)
    if (x == 2) {
      auto copy = copied;  // stands where the loop stands
      CHECK(copy.state() == copied.state());
      CHECK(elements_of(copy) == Integers{0, 1, 2, 3, 4});  // and its next loop is the next pass
      break;
    }
}

TEST_CASE("a loop goes on as it was when its pipeline is restored", "[data][pipeline][threads][host]") {
  auto numbers = data::range(8) | data::prefetch(2);
  std::string state;
  Integers seen;
  for (const std::int64_t x : numbers) {
    seen.push_back(x);
    if (x == 2) state = numbers.state();
    if (x == 5) numbers.restore(state);
  }
  CHECK(seen == Integers{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(elements_of(numbers) == Integers{3, 4, 5, 6, 7});
  CHECK(elements_of(numbers).size() == 8);
}

// --- damaged -----------------------------------------------------------------------------------------------------

TEST_CASE("a text that is no state changes nothing", "[data][pipeline][host]") {
  const auto make = [] { return data::range(23) | data::shuffle(7, {.seed = 77}) | data::batch(4); };
  auto reference = make();
  const Texts first = texts_of(reference), second = texts_of(reference);
  auto pipeline = make();
  std::string good;
  for ([[maybe_unused]] const Tensor& batch : pipeline) {
    good = pipeline.state();
    break;
  }
  // this is what the table below damages
  REQUIRE(good == "capstan pipeline 1;from shuffle(7) batch;pass 0;seeds 77;skipped 0;at 1 4 0;end");
  const std::string start = make().state();
  REQUIRE(start == "capstan pipeline 1;from shuffle(7) batch;pass 0;seeds 77;end");

  std::vector<std::string> texts = {"",
                                    "\n",
                                    "capstan",
                                    good + ";",
                                    good + " ",
                                    good + good,
                                    good + ";end",
                                    ' ' + good,
                                    std::string(100000, ';'),
                                    std::string(1000, '\0')};
  for (const std::string& whole : {good, start})
    for (std::size_t size = 0; size < whole.size(); ++size) texts.push_back(whole.substr(0, size));
  const std::pair<const char*, const char*> changes[] = {
      {"pipeline 1", "pipeline 2"},
      {"capstan", "Capstan"},
      {"shuffle(7)", "shuffle(8)"},
      {"from shuffle", "shuffle"},
      {"batch", "batch batch"},
      {"batch", "window(4,1,1)"},
      {"pass 0", "pass"},
      {"pass 0", "pass -1"},
      {"pass 0", "pass 0 0"},
      {"pass 0", "pass x"},
      {"pass 0", "pass 0x1"},
      {"pass 0", "pass 1.5"},
      {"pass 0", "pass 9223372036854775807"},
      {"pass 0", "pass 9223372036854775808"},
      {"pass 0", "pass 99999999999999999999999"},
      {"pass 0", "past 0"},
      {"seeds 77", "seeds"},
      {"seeds 77", "seeds 77 78"},
      {"seeds 77", "seeds -77"},
      {"seeds 77", "seeds 18446744073709551616"},
      {"seeds 77", "seeds +77"},
      {"seeds 77;", ""},
      {"skipped 0", "skipped"},
      {"skipped 0", "skipped -1"},
      {"skipped 0", "skipped 0 0"},
      {"skipped 0", "skipped 1"},  // after an error the size of batches is named
      {"skipped 0;", ""},
      {"at 1 4 0", "at 1 4,0"},
      {"at 1 4 0", "at 1 4 0x"},
      {"at 1 4 0", "at 1 99999999999999999999 0"},
      {"at 1 4 0", "at 1 4\t0"},
      {";at 1 4 0", ""},
      {"end", "END"},
  };
  for (const auto& [part, by] : changes) texts.push_back(replaced(good, part, by));
  for (const std::string& text : texts) {
    INFO(text.substr(0, 200));
    CHECK_THROWS_AS(pipeline.restore(text), Error);
    REQUIRE(pipeline.state() == good);
  }
  CHECK(texts_of(pipeline) == second);
  pipeline.restore(good);
  CHECK(texts_of(pipeline) == rest_of(first, 1));
}

TEST_CASE("a place that a pipeline does not have is an error of the loop", "[data][pipeline][host]") {
  const auto make = [] { return data::range(23) | data::shuffle(7, {.seed = 77}) | data::batch(4); };
  auto pipeline = make();
  const Texts first = texts_of(make());
  const std::string good = "capstan pipeline 1;from shuffle(7) batch;pass 0;seeds 77;skipped 0;at 2 8 0;end";
  for (const char* at : {"at", "at 2 8", "at 2 8 24", "at 2 8 -1", "at 2 -1 0", "at -1 8 0", "at 2 8 0 0",
                         "at 2 8 0 5 5 5", "at 2 9223372036854775807 0", "at 2 8 9223372036854775807"}) {
    INFO(at);
    pipeline.restore(replaced(good, "at 2 8 0", at));
    try {
      pipeline.begin();
      FAIL("no error came");
    } catch (const Error& error) { CHECK(std::string(error.what()).substr(0, 19) == "Pipeline::restore: "); }
    pipeline.restore(good);
    CHECK(texts_of(pipeline) == rest_of(first, 2));
  }
}

TEST_CASE("no number in a place does harm", "[data][pipeline][threads][host]") {
  const auto draw = [](std::int64_t x) { return static_cast<double>(x) + uniform({}, 0, 1).item<float>(); };
  const auto length = [](std::int64_t x) { return x * 7 % 11; };
  const auto open = [](std::int64_t x) { return data::range(x % 4) | data::shuffle(2); };
  const auto walked = [] {
    return data::generator([] {
      return [n = 0]() mutable -> std::optional<std::int64_t> {
        return n < 20 ? std::optional<std::int64_t>(n++) : std::nullopt;
      };
    });
  };
  check_numbers("map and filter", [&] {
    return data::range(30) | data::map(draw) | data::filter([](double x) { return x > 3; }) |
           data::map(draw, {.workers = 2});
  });
  check_numbers("shuffle", [&] { return walked() | data::shuffle(6) | data::prefetch(2); });
  check_numbers("buckets", [&] {
    return data::range(40) | data::shuffle(5) | data::bucket_by_length(length, {3, 7}, {2, 3, 4});
  });
  check_numbers("windows",
                [&] { return data::range(30) | data::window(4, {.shift = 2, .stride = 2, .drop_rest = false}); });
  check_numbers("windows with gaps", [&] { return walked() | data::window(2, {.shift = 3}); });
  check_numbers("interleave", [&] { return data::range(20) | data::interleave(open, {.cycle = 3, .block = 2}); });
  check_numbers("repeat, skip and take",
                [&] { return data::range(6) | data::shuffle(6) | data::skip(1) | data::repeat(4) | data::take(15); });
  check_numbers("zip of caches", [&] {
    return data::zip(walked() | data::cache(), data::range(15) | data::cache() | data::skip(2),
                     data::range(9) | data::repeat(2));
  });
}
