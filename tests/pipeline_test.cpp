// What pipelines go on with: map, filter, take, skip, repeat, zip, interleave, cache, prefetch, and all in a row.
// Batches: pipeline_batch_test.cpp. Orders: pipeline_order_test.cpp. Threads: pipeline_workers_test.cpp.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/pipelines.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

std::int64_t twice(std::int64_t x) { return 2 * x; }
bool is_even(std::int64_t x) { return x % 2 == 0; }

/// 10 * number, 10 * number + 1, ... as many as are asked for.
data::Pipeline<std::int64_t> tens(std::int64_t number, std::int64_t count) {
  return data::range(count) | data::map([number](std::int64_t i) { return 10 * number + i; });
}
/// Pipelines of those lengths, opened `cycle` at once, `block` elements from each in turn.
Integers interleaved(const Integers& lengths, std::int64_t cycle, std::int64_t block) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  return elements_of(
      data::range(count) |
      data::interleave([&lengths](std::int64_t i) { return tens(i + 1, lengths[static_cast<std::size_t>(i)]); },
                       {.cycle = cycle, .block = block}));
}

struct Labelled {
  Tensor images, labels;
};

}  // namespace

// --- one element for each ----------------------------------------------------------------------------------------

TEST_CASE("map replaces each element", "[data][pipeline][host]") {
  auto doubled = data::range(4) | data::map(twice);
  CHECK(doubled.size() == 4);
  CHECK(elements_of(doubled) == Integers{0, 2, 4, 6});
  auto texts = doubled | data::map([](std::int64_t x) { return std::to_string(x); }) |
               data::map([](const std::string& x) { return x + "!"; });
  static_assert(std::is_same_v<decltype(texts)::value_type, std::string>);
  CHECK(elements_of(texts) == Texts{"0!", "2!", "4!", "6!"});
  auto moved = texts | data::map([](std::string&& x) { return std::move(x) + "?"; }) |
               data::map([](const std::string& x) -> const std::string& { return x; });
  static_assert(std::is_same_v<decltype(moved)::value_type, std::string>);
  CHECK(elements_of(moved) == Texts{"0!?", "2!?", "4!?", "6!?"});
}

TEST_CASE("random numbers in map are the element's own and change with the pass", "[data][pipeline][host]") {
  const auto make = [] {
    seed(3);
    return data::range(5) | data::map([](std::int64_t) { return uniform({2}, 0, 1); });
  };
  auto drawn = make(), again = make();
  const Texts first = texts_of(drawn), second = texts_of(drawn);
  CHECK(std::adjacent_find(first.begin(), first.end()) == first.end());
  CHECK(first != second);
  CHECK(texts_of(again) == first);
  CHECK(texts_of(again) == second);
  auto third = make();
  seed(4);  // makes no difference to a pipeline that is there
  CHECK(texts_of(third) == first);
}

TEST_CASE("filter keeps what is wanted, in its order", "[data][pipeline][host]") {
  auto even = data::range(7) | data::filter(is_even);
  CHECK(even.size() == data::kUnknownSize);
  CHECK(elements_of(even) == Integers{0, 2, 4, 6});
  CHECK(elements_of(even | data::filter([](const std::int64_t& x) { return x > 2; })) == Integers{4, 6});
  CHECK(elements_of(even | data::filter([](std::int64_t) { return false; })).empty());
  CHECK((data::range(0) | data::filter(is_even)).size() == 0);
}

TEST_CASE("take and skip count elements", "[data][pipeline][host]") {
  const auto numbers = data::range(5);
  const auto endless = data::generate([](std::int64_t i) { return i; });
  const auto unknown = numbers | data::filter([](std::int64_t) { return true; });
  struct Case {
    std::int64_t count;
    Integers taken, rest;
  };
  for (const Case& c : {Case{0, {}, {0, 1, 2, 3, 4}}, Case{2, {0, 1}, {2, 3, 4}}, Case{5, {0, 1, 2, 3, 4}, {}},
                        Case{9, {0, 1, 2, 3, 4}, {}}, Case{data::kEndless, {0, 1, 2, 3, 4}, {}}}) {
    INFO(c.count);
    auto taken = numbers | data::take(c.count), rest = numbers | data::skip(c.count);
    CHECK(taken.size() == static_cast<std::int64_t>(c.taken.size()));
    CHECK(rest.size() == static_cast<std::int64_t>(c.rest.size()));
    CHECK(elements_of(taken) == c.taken);
    CHECK(elements_of(rest) == c.rest);
    CHECK(elements_of(unknown | data::take(c.count)) == c.taken);
    CHECK(elements_of(unknown | data::skip(c.count)) == c.rest);
  }
  CHECK((unknown | data::take(3)).size() == data::kUnknownSize);
  CHECK((unknown | data::take(0)).size() == 0);
  CHECK((unknown | data::skip(3)).size() == data::kUnknownSize);
  CHECK((endless | data::take(3)).size() == 3);
  CHECK((endless | data::skip(3)).size() == data::kEndless);
  CHECK(elements_of(endless | data::skip(1000000000000) | data::take(2)) == Integers{1000000000000, 1000000000001});
  CHECK(elements_of(numbers | data::skip(1) | data::take(3) | data::skip(1)) == Integers{2, 3});
}

// --- several passes ----------------------------------------------------------------------------------------------

TEST_CASE("repeat gives one pass after another", "[data][pipeline][host]") {
  const auto numbers = data::range(2);
  CHECK(elements_of(numbers | data::repeat(3)) == Integers{0, 1, 0, 1, 0, 1});
  CHECK((numbers | data::repeat(3)).size() == 6);
  CHECK((numbers | data::repeat()).size() == data::kEndless);
  CHECK(elements_of(numbers | data::repeat() | data::take(5)) == Integers{0, 1, 0, 1, 0});
  CHECK(elements_of(numbers | data::repeat(0)).empty());
  CHECK((numbers | data::repeat(0)).size() == 0);
  CHECK(elements_of(numbers | data::repeat(1)) == Integers{0, 1});
  CHECK(elements_of(data::range(0) | data::repeat(1000)).empty());
  CHECK((data::range(0) | data::repeat()).size() == 0);
  CHECK(elements_of(numbers | data::repeat(2) | data::repeat(2)) == Integers{0, 1, 0, 1, 0, 1, 0, 1});
  CHECK((data::range(1000) | data::repeat(INT64_MAX / 10)).size() == data::kEndless);
  CHECK(elements_of(numbers | data::repeat() | data::skip(1000000000001) | data::take(3)) == Integers{1, 0, 1});

  auto odd = data::range(4) | data::filter([](std::int64_t x) { return x % 2 == 1; });
  CHECK(elements_of(odd | data::repeat(2)) == Integers{1, 3, 1, 3});
  CHECK((odd | data::repeat(2)).size() == data::kUnknownSize);
  CHECK((odd | data::repeat()).size() == data::kEndless);
  CHECK(elements_of(odd | data::repeat() | data::take(3)) == Integers{1, 3, 1});
  CHECK((odd | data::repeat(0)).size() == 0);
}

TEST_CASE("repeat gives the passes that loops would", "[data][pipeline][host]") {
  const auto make = [] { return data::range(20) | data::shuffle(7, {.seed = 5}); };
  auto loops = make();
  Integers expected;
  for (int pass = 0; pass < 3; ++pass)
    for (const std::int64_t x : loops) expected.push_back(x);
  CHECK(elements_of(make() | data::repeat(3)) == expected);
  const Integers first(expected.begin(), expected.begin() + 20), second(expected.begin() + 20, expected.begin() + 40);
  CHECK(first != second);
  auto repeated = make() | data::repeat(3);
  CHECK(elements_of(repeated) == expected);
  CHECK(elements_of(repeated) != expected);  // its own next pass has other orders
}

TEST_CASE("a loop is a pass, and one that was left early has been one", "[data][pipeline][host]") {
  const auto make = [] { return data::range(12) | data::shuffle(12, {.seed = 8}); };
  auto whole = make(), left = make();
  elements_of(whole);
  const Integers second = elements_of(whole);
  for ([[maybe_unused]] const std::int64_t x : left) break;
  CHECK(elements_of(left) == second);

  auto copy = make();
  elements_of(copy);
  auto other = copy;  // stands where the original stands, and goes its own way
  CHECK(elements_of(other) == second);
  CHECK(elements_of(copy) == second);
  auto longer = copy | data::take(12);  // begins with pass 0
  CHECK(elements_of(longer) == elements_of(make()));
}

TEST_CASE("a cache keeps the first pass", "[data][pipeline][host]") {
  std::vector<int> calls(10, 0);
  const auto count_calls = [&calls](std::int64_t x) {
    ++calls[static_cast<std::size_t>(x)];
    return x * x;
  };
  const Integers expected = {0, 1, 4, 9, 16, 25, 36, 49, 64, 81};
  auto squares = data::range(10) | data::map(count_calls) | data::cache();
  CHECK(squares.size() == 10);
  for (int pass = 0; pass < 3; ++pass) CHECK(elements_of(squares) == expected);
  CHECK(calls == std::vector<int>(10, 1));

  calls.assign(10, 0);
  auto partly = data::range(10) | data::map(count_calls) | data::cache();
  int seen = 0;
  for ([[maybe_unused]] const std::int64_t x : partly)
    if (++seen == 4) break;
  CHECK(calls == std::vector<int>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(elements_of(partly) == expected);
  auto copy = partly;
  CHECK(elements_of(copy | data::skip(7)) == Integers{49, 64, 81});
  CHECK(calls == std::vector<int>(10, 1));

  auto shuffled = data::range(30) | data::shuffle(30, {.seed = 2}) | data::cache();
  const Integers order = elements_of(shuffled);
  CHECK(elements_of(shuffled) == order);
  auto reshuffled = shuffled | data::shuffle(30, {.seed = 3}) | data::repeat(2);
  const Integers both = elements_of(reshuffled);
  CHECK(Integers(both.begin(), both.begin() + 30) != rest_of(both, 30));
  CHECK(elements_of(data::range(0) | data::cache()).empty());
}

TEST_CASE("what a loop does to an element of a cache stays with the loop", "[data][pipeline][host]") {
  auto words = data::from(Texts{"a", "b"}) | data::cache();
  for (int pass = 0; pass < 2; ++pass)
    for (std::string& word : words) word += "changed";
  CHECK(elements_of(words) == Texts{"a", "b"});
}

// --- several pipelines -------------------------------------------------------------------------------------------

TEST_CASE("zip ends with the shortest", "[data][pipeline][host]") {
  auto pairs = data::zip(data::range(3), data::from(Texts{"a", "b", "c", "d"}));
  static_assert(std::is_same_v<decltype(pairs)::value_type, std::tuple<std::int64_t, std::string>>);
  CHECK(pairs.size() == 3);
  const std::vector<std::tuple<std::int64_t, std::string>> expected = {{0, "a"}, {1, "b"}, {2, "c"}};
  CHECK((elements_of(pairs) == expected));
  CHECK((elements_of(pairs) == expected));
  Texts texts;
  for (const auto& [number, text] : pairs) texts.push_back(text + std::to_string(number));
  CHECK(texts == Texts{"a0", "b1", "c2"});

  const auto endless = data::generate([](std::int64_t i) { return -i; });
  CHECK(data::zip(endless, endless).size() == data::kEndless);
  CHECK(data::zip(endless, data::range(4), data::range(2)).size() == 2);
  CHECK(texts_of(data::zip(endless, data::range(4), data::range(2))) == Texts{"(0)(0)(0)", "(-1)(1)(1)"});
  auto unknown = data::range(9) | data::filter(is_even);
  CHECK(data::zip(unknown, data::range(3)).size() == data::kUnknownSize);
  CHECK(texts_of(data::zip(unknown, data::range(3))) == Texts{"(0)(0)", "(2)(1)", "(4)(2)"});
  CHECK(texts_of(data::zip(data::range(0), data::range(3))).empty());
  const auto numbers = data::range(3);
  CHECK(texts_of(data::zip(numbers, numbers)) == Texts{"(0)(0)", "(1)(1)", "(2)(2)"});  // each walks by itself
}

TEST_CASE("interleave takes turns as tf.data does", "[data][pipeline][host]") {
  // Dataset.interleave's own example: five elements, six times each, cycle_length 2, block_length 4
  auto example =
      data::range(5) |
      data::interleave([](std::int64_t i) { return data::range(6) | data::map([i](std::int64_t) { return i + 1; }); },
                       {.cycle = 2, .block = 4});
  CHECK(example.size() == data::kUnknownSize);
  CHECK(elements_of(example) ==
        Integers{1, 1, 1, 1, 2, 2, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5});

  CHECK(interleaved({2, 0, 1, 3}, 1, 1) == Integers{10, 11, 30, 40, 41, 42});
  CHECK(interleaved({2, 0, 1, 3}, 1, 5) == Integers{10, 11, 30, 40, 41, 42});
  CHECK(interleaved({3, 3}, 2, 1) == Integers{10, 20, 11, 21, 12, 22});
  CHECK(interleaved({3, 3}, 9, 2) == Integers{10, 11, 20, 21, 12, 22});
  // the second is at its end: its turn goes to the first, and the third takes its place behind it
  CHECK(interleaved({3, 1, 2}, 2, 1) == Integers{10, 20, 11, 12, 30, 31});
  CHECK(interleaved({1, 3, 3}, 2, 1) == Integers{10, 20, 21, 30, 22, 31, 32});
  // places a b c: 10 20 30, a leaves, 21 31, d in a: 40, b leaves, 32, 41, e in b: 50 51
  CHECK(interleaved({1, 2, 3, 2, 2}, 3, 1) == Integers{10, 20, 30, 21, 31, 40, 32, 41, 50, 51});
  // an empty one costs its place a turn: 10 20, a leaves, 21, the third is empty, 22, the fourth comes into a
  CHECK(interleaved({1, 4, 0, 2}, 2, 1) == Integers{10, 20, 21, 22, 40, 23, 41});
  CHECK(interleaved({0, 0, 2}, 2, 2) == Integers{30, 31});
  CHECK(interleaved({0, 0}, 3, 2).empty());
  CHECK(interleaved({}, 3, 2).empty());
  // blocks that end with their pipeline: 10 11, 20 21, 12, then 22 and 30 31 in the place of the first
  CHECK(interleaved({3, 3, 2}, 2, 2) == Integers{10, 11, 20, 21, 12, 22, 30, 31});
  CHECK(interleaved({5, 2}, 2, 3) == Integers{10, 11, 12, 20, 21, 13, 14});
}

TEST_CASE("pipelines that are opened are themselves of any kind", "[data][pipeline][host]") {
  auto nested = data::range(3) | data::interleave([](std::int64_t i) {
                  return data::range(i + 1) |
                         data::map([i](std::int64_t k) { return std::to_string(i) + "." + std::to_string(k); });
                });
  static_assert(std::is_same_v<decltype(nested)::value_type, std::string>);
  CHECK(elements_of(nested) == Texts{"0.0", "1.0", "1.1", "2.0", "2.1", "2.2"});
  CHECK(elements_of(nested | data::skip(2) | data::take(3)) == Texts{"1.1", "2.0", "2.1"});
  CHECK((data::range(0) | data::interleave([](std::int64_t i) { return data::range(i); })).size() == 0);

  const auto make = [] {
    seed(6);
    return data::range(4) |
           data::interleave([](std::int64_t i) { return tens(i, 9) | data::shuffle(9); }, {.cycle = 2});
  };
  auto once = make(), again = make();
  const Integers first = elements_of(once), second = elements_of(once);
  CHECK(elements_of(again) == first);  // what is drawn when they are opened hangs on the seed
  CHECK(elements_of(again) == second);
  CHECK(first != second);
  Integers sorted = first;
  std::sort(sorted.begin(), sorted.end());
  Integers all_of_them;
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t k = 0; k < 9; ++k) all_of_them.push_back(10 * i + k);
  CHECK(sorted == all_of_them);
}

// --- in a row ----------------------------------------------------------------------------------------------------

TEST_CASE("prefetch changes nothing about the elements", "[data][pipeline][threads][host]") {
  for (const std::int64_t count : {1, 2, 7, 100}) {
    auto ahead = data::range(20) | data::map(twice) | data::prefetch(count);
    CHECK(ahead.size() == 20);
    for (int pass = 0; pass < 2; ++pass) CHECK(elements_of(ahead) == elements_of(data::range(20) | data::map(twice)));
  }
  CHECK(elements_of(data::range(0) | data::prefetch(3)).empty());
  const Tensor x = random_in(0, 1, {7, 2});
  auto batches = data::from(std::pair(x, x)) | data::batch(3) | data::prefetch(2, cpu());
  std::int64_t rows = 0;
  for (const auto& [a, b] : batches) {
    CHECK(a.device() == cpu());
    CHECK(same(a, x.index({range(rows, rows + 3)})));
    CHECK(same(a, b));
    rows += 3;
  }
  CHECK(rows == 9);
}

TEST_CASE("elements that cannot be copied pass through", "[data][pipeline][threads][host]") {
  for (const int workers : {0, 2}) {
    auto unique = data::generator([] {
                    return [n = 0]() mutable { return n < 30 ? std::optional<Unique>(Unique(n++)) : std::nullopt; };
                  }) |
                  data::map(
                      [](Unique x) {
                        *x.number *= 10;
                        return x;
                      },
                      {.workers = workers}) |
                  data::filter([](const Unique& x) { return *x.number % 20 == 0; }) | data::shuffle(5) |
                  data::repeat(2) | data::prefetch(3) | data::skip(2) | data::take(26);
    Integers seen;
    for (Unique& x : unique) {
      const Unique mine = std::move(x);
      seen.push_back(*mine.number);
    }
    REQUIRE(seen.size() == 26);
    std::sort(seen.begin(), seen.end());
    CHECK(std::all_of(seen.begin(), seen.end(), [](std::int64_t x) { return x % 20 == 0 && x < 300; }));
    auto joined = data::zip(data::generate(3, [](std::int64_t i) { return Unique(i); }), data::range(3));
    std::int64_t sum_of = 0;
    for (const auto& [x, i] : joined) sum_of += *x.number * i;
    CHECK(sum_of == 5);  // 0 + 1 + 4
  }
}

TEST_CASE("elements are moved through a pipeline, and all of them end", "[data][pipeline][host]") {
  Counted::living = Counted::most = 0;
  {
    auto pipeline = data::generate(1000, [](std::int64_t i) { return Counted(i); }) |
                    data::map([](Counted x) { return x; }) | data::filter([](const Counted&) { return true; }) |
                    data::shuffle(10) | data::repeat(2) | data::skip(3) | data::take(1500);
    std::int64_t count = 0;
    for ([[maybe_unused]] const Counted& x : pipeline) ++count;
    CHECK(count == 1500);
    CHECK(Counted::living == 0);
    for ([[maybe_unused]] const Counted& x : pipeline)
      if (--count == 1000) break;
    CHECK(Counted::living == 0);
  }
  CHECK(Counted::most <= 10 + 20);  // the buffer, and some on their way
}

TEST_CASE("a pipeline for training gives every row once in each epoch", "[data][pipeline][threads][host]") {
  const std::int64_t rows = 600;
  const Labelled train = {random_in(0, 1, {rows, 4}, DType::float32), arange(rows)};
  auto batches = data::from(train) | data::shuffle(rows) | data::repeat() | data::batch(50) | data::prefetch(2);
  CHECK(batches.size() == data::kEndless);
  std::vector<std::vector<double>> epochs(2);
  int step = 0;
  for (auto [images, labels] : batches) {
    REQUIRE(images.shape() == Shape({50, 4}));
    REQUIRE(labels.shape() == Shape({50}));
    CHECK(same(images, take(train.images, labels, 0)));
    for (const double label : values(labels)) epochs[static_cast<std::size_t>(step / 12)].push_back(label);
    if (++step == 24) break;
  }
  CHECK(epochs[0] != epochs[1]);
  for (std::vector<double>& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    CHECK(epoch == values(train.labels));
  }
}

TEST_CASE("assigned and moved pipelines go on where they stood", "[data][pipeline][host]") {
  const auto make = [] { return data::range(9) | data::shuffle(9, {.seed = 1}); };
  auto reference = make();
  const Integers first = elements_of(reference), second = elements_of(reference);
  auto moved_from = make();
  CHECK(elements_of(moved_from) == first);
  auto moved_to = std::move(moved_from);
  CHECK(elements_of(moved_to) == second);
  moved_to = make();
  CHECK(elements_of(moved_to) == first);
  auto at = moved_to.begin();
  const std::int64_t begun = *at;
  auto later = std::move(at);  // a pass belongs to its iterator
  Integers rest = {begun};
  while (!(++later == moved_to.end())) rest.push_back(*later);
  CHECK(rest == second);
}

TEST_CASE("a pipeline that was moved from says so", "[data][pipeline][host]") {
  auto numbers = data::range(3);
  auto other = std::move(numbers);
  const std::string what = "Pipeline: it was moved from; use the one that it was moved to.";
  // clang-format off
  check_errors({
      {__LINE__, message_of<Error>, [&] { numbers.size(); }, what},
      {__LINE__, message_of<Error>, [&] { numbers.begin(); }, what},
      {__LINE__, message_of<Error>, [&] { for (const std::int64_t each : numbers) FAIL(each); }, what},
      {__LINE__, message_of<Error>, [&] { numbers.state(); }, what},
      {__LINE__, message_of<Error>, [&] { numbers.restore(other.state()); }, what},
      {__LINE__, message_of<Error>, [&] { numbers | data::take(1); }, what},
      {__LINE__, message_of<Error>, [&] { numbers | data::filter([](std::int64_t) { return true; }); }, what},
      {__LINE__, message_of<Error>, [&] { numbers | data::cache(); }, what},
      {__LINE__, message_of<Error>, [&] { numbers | data::bucket_by_length([](std::int64_t n) { return n; }, {2}, {1}); }, what},
  }, "pipeline_test.cpp");
  // clang-format on
  CHECK_THROWS_WITH(data::Pipeline<std::int64_t>(numbers), what);
  CHECK_THROWS_AS(data::Pipeline<std::int64_t>(numbers), Error);
  numbers = other;
  CHECK(elements_of(numbers) == Integers{0, 1, 2});
}
