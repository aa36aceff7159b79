// Pipelines on several threads: the same elements, errors at their place, and how far ahead they are. When threads end:
// pipeline_threads_test.cpp.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "tests/pipelines.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

void sleep_for(milliseconds time) { std::this_thread::sleep_for(time); }

std::int64_t itself(std::int64_t x) { return x; }

/// A time that differs from element to element.
void dawdle(std::int64_t element) {
  std::this_thread::sleep_for(std::chrono::microseconds((element * 7919 + 13) % 300));
}

/// What one loop had, and how it ended.
struct Outcome {
  Texts elements;
  std::string type, text;         // of the error, "" without one
  std::string nested;             // what the exception said that the error holds, "" without one
  std::optional<int> nested_int;  // or which int it was
};

template <class T>
Outcome outcome_of(data::Pipeline<T>& pipeline) {
  Outcome outcome;
  try {
    for (const auto& element : pipeline) outcome.elements.push_back(text_of(element));
  } catch (const Error& error) {
    outcome.type = typeid(error).name();
    outcome.text = error.what();
    try {
      std::rethrow_if_nested(error);
    } catch (const std::exception& inner) { outcome.nested = inner.what(); } catch (int inner) {
      outcome.nested_int = inner;
    }
  }
  return outcome;
}

Texts texts_up_to(std::int64_t count) { return texts_of(data::range(count)); }

/// Element 17 of 40 fails with that exception.
template <class Thrown>
Outcome failing(int workers, const Thrown& thrown) {
  auto pipeline = data::range(40) | data::map(
                                        [thrown](std::int64_t x) {
                                          dawdle(x);
                                          if (x == 17) throw thrown;
                                          return x;
                                        },
                                        {.workers = workers});
  return outcome_of(pipeline);
}

template <class E>
void check_kept(int workers) {
  INFO(typeid(E).name() << " with " << workers << " workers");
  const Outcome outcome = failing(workers, E("op: it is broken. (user.cpp:3)"));
  CHECK(outcome.elements == texts_up_to(17));
  CHECK(outcome.type == typeid(E).name());
  CHECK(outcome.text == "map: element 17: op: it is broken. (user.cpp:3)");
  CHECK(outcome.nested.empty());
}

constexpr int kWorkers[] = {0, 1, 2, 5};

}  // namespace

// --- the same elements -------------------------------------------------------------------------------------------

TEST_CASE("the number of workers changes no element and no order", "[data][pipeline][threads][host]") {
  const auto make = [](int workers) {
    seed(7);
    const auto draw = [](std::int64_t x) {
      dawdle(x);
      return std::pair(x, uniform({x % 3 + 1}, 0, 1, default_rng(), {.dtype = DType::float64}));
    };
    const auto sum_with = [](const std::pair<std::int64_t, Tensor>& x) {
      return static_cast<double>(x.first) + sum(x.second).item<double>() + normal({}, 0, 1).item<float>();
    };
    return data::range(90) | data::shuffle(40) | data::map(draw, {.workers = workers}) |
           data::filter([](const std::pair<std::int64_t, Tensor>& x) { return x.first % 7 != 3; }) |
           data::map(sum_with, {.workers = workers}) | data::batch(8);
  };
  auto alone = make(0);
  const Texts first = texts_of(alone), second = texts_of(alone);
  CHECK(first.size() == 10);  // 90 less 13, by eights
  CHECK(first != second);
  for (const int workers : {1, 2, 5}) {
    INFO(workers << " workers");
    auto several = make(workers);
    CHECK(texts_of(several) == first);
    CHECK(texts_of(several) == second);
  }
}

TEST_CASE("workers keep the order of fast and slow elements, however many", "[data][pipeline][threads][host]") {
  for (const int workers : kWorkers) {
    INFO(workers << " workers");
    for (const std::int64_t count : {0, 1, 3, 1000, 20000})
      CHECK(elements_of(data::range(count) | data::map(itself, {.workers = workers})) ==
            elements_of(data::range(count)));
    auto slow = data::range(60) | data::map(
                                      [](std::int64_t x) {
                                        if (x % 20 == 0) sleep_for(milliseconds(5));
                                        return x;
                                      },
                                      {.workers = workers});
    CHECK(elements_of(slow) == elements_of(data::range(60)));
    auto first = slow | data::skip(15) | data::take(10);
    CHECK(elements_of(first).at(9) == 24);
  }
}

TEST_CASE("workers are called at the same time", "[data][pipeline][threads][host]") {
  std::atomic<int> inside = 0, most = 0;
  auto pipeline = data::range(30) | data::map(
                                        [&](std::int64_t x) {
                                          const int now = ++inside;
                                          for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
                                          }
                                          sleep_for(milliseconds(5));
                                          --inside;
                                          return x;
                                        },
                                        {.workers = 3});
  CHECK(elements_of(pipeline).size() == 30);
  CHECK(most.load() >= 2);
  CHECK(most.load() <= 3);
}

TEST_CASE("the loop's own generator stays as it is", "[data][pipeline][threads][host]") {
  for (const int workers : kWorkers) {
    INFO(workers << " workers");
    auto pipeline = data::generate(20, [](std::int64_t) { return default_rng().bits(); }) |
                    data::map([](std::uint64_t x) { return x ^ default_rng().bits(); }, {.workers = workers}) |
                    data::shuffle(5) | data::prefetch(2);
    seed(99);
    const RngState before = default_rng().state();
    for ([[maybe_unused]] const std::uint64_t x : pipeline) CHECK(default_rng().state() == before);
    CHECK(default_rng().state() == before);
  }
}

// --- errors ------------------------------------------------------------------------------------------------------

TEST_CASE("what a function of map throws comes at its element and keeps its type", "[data][pipeline][threads][host]") {
  for (const int workers : kWorkers) {
    check_kept<Error>(workers);
    check_kept<ShapeError>(workers);
    check_kept<DTypeError>(workers);
    check_kept<DeviceError>(workers);
    check_kept<IndexError>(workers);
    check_kept<TapeError>(workers);
    check_kept<NumericError>(workers);
    check_kept<IoError>(workers);
    check_kept<OutOfMemoryError>(workers);
    check_kept<BackendError>(workers);
  }
}

TEST_CASE("exceptions of others are nested in an Error", "[data][pipeline][threads][host]") {
  for (const int workers : kWorkers) {
    INFO(workers << " workers");
    const Outcome standard = failing(workers, std::runtime_error("no such luck"));
    CHECK(standard.elements == texts_up_to(17));
    CHECK(standard.text == "map: element 17: no such luck");
    CHECK(standard.nested == "no such luck");
    const Outcome number = failing(workers, 42);
    CHECK(number.elements == texts_up_to(17));
    CHECK(number.text == "map: element 17: an exception that is no std::exception");
    CHECK(number.nested_int == 42);
  }
}

TEST_CASE("errors name the stage where they were thrown, and the element there", "[data][pipeline][threads][host]") {
  const auto fails_at = [](std::int64_t number) {
    return [number](std::int64_t x) {
      if (x == number) throw IndexError("broken");
      return x;
    };
  };
  const auto check = [](auto pipeline, std::int64_t before, const std::string& text) {
    const Outcome outcome = outcome_of(pipeline);
    CHECK(static_cast<std::int64_t>(outcome.elements.size()) == before);
    CHECK(outcome.text == text);
    CHECK(outcome.type == typeid(IndexError).name());
  };
  for (const int workers : kWorkers) {
    INFO(workers << " workers");
    const data::MapOptions options = {.workers = workers};
    const auto numbers = data::range(30);
    // the fifth of the odd ones, 9, in the pass over these
    const auto odd = numbers | data::filter([](std::int64_t x) { return x % 2 == 1; });
    check(odd | data::map(fails_at(9), options), 4, "map: element 4: broken");
    check(numbers | data::map(fails_at(9), options) | data::map(itself, options), 9, "map: element 9: broken");
    check(numbers | data::map(itself, options) | data::map(fails_at(0), options), 0, "map: element 0: broken");
    check(numbers | data::map(fails_at(9), options) | data::prefetch(4), 9, "map: element 9: broken");
    check(numbers | data::map(fails_at(9), options) | data::batch(4), 2, "map: element 9: broken");
    check(numbers | data::map(fails_at(9), options) | data::filter([](std::int64_t x) { return x % 3 == 0; }), 3,
          "map: element 9: broken");
    check(data::generate(30, fails_at(9)) | data::map(itself, options), 9, "generate: element 9: broken");
    const auto walked = data::generator([] {
      return [n = 0]() mutable -> std::optional<std::int64_t> {
        if (n == 5) throw IndexError("broken");
        return n++;
      };
    });
    check(walked, 5, "generator: element 5: broken");
    check(walked | data::map(itself, options), 5, "generator: element 5: broken");
    check(walked | data::prefetch(3), 5, "generator: element 5: broken");
    check(walked | data::map(itself, options) | data::prefetch(100), 5, "generator: element 5: broken");
    const auto picky = [](std::int64_t x) {
      if (x == 6) throw IndexError("broken");
      return true;
    };
    check(numbers | data::filter(picky) | data::map(itself, options), 6, "filter: element 6: broken");
    const auto open = [](std::int64_t x) {
      if (x == 2) throw IndexError("broken");
      return data::range(3);
    };
    check(numbers | data::interleave(open) | data::map(itself, options), 6, "interleave: element 2: broken");
    const auto length = [](std::int64_t x) {
      if (x == 7) throw IndexError("broken");
      return std::int64_t{1};
    };
    check(numbers | data::map(itself, options) | data::bucket_by_length(length, {5}, {3}), 2,
          "bucket_by_length: element 7: broken");
  }
}

TEST_CASE("a producer that cannot be made is an error of element 0", "[data][pipeline][host]") {
  bool missing = true;
  auto pipeline = data::generator([&missing] {
    if (missing) throw IoError("no file");
    return [n = 0]() mutable { return n < 2 ? std::optional(n++) : std::nullopt; };
  });
  const Outcome outcome = outcome_of(pipeline);
  CHECK(outcome.text == "generator: element 0: no file");
  CHECK(outcome.type == typeid(IoError).name());
  missing = false;
  CHECK(elements_of(pipeline) == std::vector<int>{0, 1});
}

TEST_CASE("after an error the next loop is the next pass", "[data][pipeline][threads][host]") {
  for (const int workers : kWorkers) {
    INFO(workers << " workers");
    bool broken = true;  // read by workers, written between loops
    auto pipeline = data::range(20) |
                    data::map(
                        [&broken](std::int64_t x) {
                          if (broken && x == 3) throw Error("broken");
                          return x;
                        },
                        {.workers = workers}) |
                    data::prefetch(2);
    CHECK(outcome_of(pipeline).elements == texts_up_to(3));
    CHECK(outcome_of(pipeline).elements == texts_up_to(3));
    broken = false;
    CHECK(outcome_of(pipeline).elements == texts_up_to(20));
  }
}

// --- how far ahead -----------------------------------------------------------------------------------------------

TEST_CASE("a slow loop keeps workers from running far ahead", "[data][pipeline][threads][host]") {
  for (const int workers : {1, 3}) {
    std::atomic<std::int64_t> calls = 0;
    auto pipeline = data::range(1000000) | data::map(
                                               [&calls](std::int64_t x) {
                                                 ++calls;
                                                 return x;
                                               },
                                               {.workers = workers});
    std::int64_t given = 0, most_ahead = 0;
    for ([[maybe_unused]] const std::int64_t x : pipeline) {
      ++given;
      if (given % 500 == 0) sleep_for(milliseconds(20));
      most_ahead = std::max(most_ahead, calls - given);
      if (given == 5000) break;
    }
    CHECK(most_ahead > 0);
    CHECK(most_ahead <= 64 * (2 * workers + 1));  // pieces of 64 elements: two for each worker, and the loop's
  }
}

TEST_CASE("prefetch makes no more elements than it was asked for", "[data][pipeline][threads][host]") {
  std::atomic<std::int64_t> calls = 0;
  auto pipeline = data::range(1000) | data::map([&calls](std::int64_t x) {
                    ++calls;
                    return x;
                  }) |
                  data::prefetch(5);
  CHECK(calls.load() == 0);
  std::int64_t given = 0;
  for ([[maybe_unused]] const std::int64_t x : pipeline) {
    ++given;
    if (given % 10 == 0) sleep_for(milliseconds(20));
    CHECK(calls.load() <= given + 5);
    if (given % 10 == 0) CHECK(calls.load() >= given + 1);
    if (given == 100) break;
  }
}

TEST_CASE("prefetch works while the loop does", "[data][pipeline][threads][timing][host]") {
  constexpr int kCount = 40;
  const milliseconds step(5);
  auto ahead = data::range(kCount) | data::map([step](std::int64_t x) {
                 sleep_for(step);
                 return x;
               }) |
               data::prefetch(2);
  const auto limit = 2 * kCount * step * 3 / 4;  // one after the other takes 2 * kCount * step
  auto fastest = Clock::duration::max();
  for (int attempt = 0; attempt < 3 && fastest >= limit; ++attempt) {  // machines with much to do sleep longer
    const auto start = Clock::now();
    for ([[maybe_unused]] const std::int64_t x : ahead) sleep_for(step);
    fastest = std::min(fastest, Clock::now() - start);
    CHECK(fastest >= kCount * step);
  }
  CHECK(fastest < limit);
}

TEST_CASE("a source that takes long is asked for single elements", "[data][pipeline][threads][host]") {
  std::atomic<std::int64_t> calls = 0;
  auto slow = data::generate([&calls](std::int64_t x) {
                ++calls;
                sleep_for(milliseconds(2));
                return x;
              }) |
              data::map(itself, {.workers = 1});
  std::int64_t given = 0, most_ahead = 0;
  for ([[maybe_unused]] const std::int64_t x : slow) {
    ++given;
    most_ahead = std::max(most_ahead, calls - given);
    if (given == 30) break;
  }
  CHECK(most_ahead <= 4);  // two pieces that wait, and one that is being made
}

TEST_CASE("what filters and generators draw does not depend on the thread that they run on",
          "[data][pipeline][threads][host]") {
  const auto make = [](int workers) {
    seed(12);
    return data::generator([] {
             return [n = 0]() mutable { return n++ < 200 ? std::optional(default_rng().bits()) : std::nullopt; };
           }) |
           data::filter([](std::uint64_t) { return default_rng().bits() % 2 == 0; }) |
           data::map([](std::uint64_t x) { return x; }, {.workers = workers});
  };
  auto alone = make(0);
  const auto first = elements_of(alone), second = elements_of(alone);
  CHECK(first.size() > 50);
  CHECK(first.size() < 150);
  CHECK(first != second);
  for (const int workers : {1, 3}) {
    INFO(workers << " workers");
    auto several = make(workers);
    CHECK(elements_of(several) == first);
    CHECK(elements_of(several | data::prefetch(2)) == first);
    std::string state;
    for (const std::uint64_t x : several)
      if (x == second[20]) {
        state = several.state();
        break;
      }
    auto restored = make(workers);
    seed(77);
    restored.restore(state);
    CHECK(elements_of(restored) == rest_of(second, 21));
  }
}
