// No thread outlives its loop, however that ends. What threads do: pipeline_workers_test.cpp.
#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/pipelines.hpp"
#include "tests/support.hpp"

using namespace capstan;
using namespace tests;

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

void sleep_for(milliseconds time) { std::this_thread::sleep_for(time); }

/// Threads of this process.
int threads_now() {
  int count = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; !error && at != end; at.increment(error))
    ++count;
  return count;
}
/// The same when threads that were joined before are surely forgotten.
int settled_threads() {
  sleep_for(milliseconds(30));
  return threads_now();
}
/// Whether there are no more than `before`; the system takes a moment to forget a thread that was joined.
bool are_gone(int before) {
  for (int i = 0; i < 500 && threads_now() > before; ++i) sleep_for(milliseconds(10));
  UNSCOPED_INFO(threads_now() << " threads, " << before << " before");
  return threads_now() <= before;
}
/// Waits until there are more threads than that, which must not take long.
bool are_there(int before) {
  for (int i = 0; i < 500 && threads_now() <= before; ++i) sleep_for(milliseconds(10));
  return threads_now() > before;
}

std::int64_t itself(std::int64_t x) { return x; }

/// Elements before the error that must come.
Integers before_error(data::Pipeline<std::int64_t>& pipeline) {
  Integers seen;
  try {
    for (const std::int64_t x : pipeline) seen.push_back(x);
  } catch (const Error&) { return seen; }
  FAIL("no error came");
  return seen;
}

}  // namespace

TEST_CASE("leaving a loop ends its threads", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  auto slow = data::generate([](std::int64_t x) { return x; }) |
              data::map(
                  [](std::int64_t x) {
                    sleep_for(milliseconds(1));
                    return x;
                  },
                  {.workers = 3}) |
              data::map(itself, {.workers = 2}) | data::prefetch(4);
  for (int pass = 0; pass < 3; ++pass) {
    int count = 0;
    for ([[maybe_unused]] const std::int64_t x : slow) {
      CHECK(are_there(before));
      if (++count == 3) break;
    }
    CHECK(are_gone(before));
  }
  CHECK(elements_of(slow | data::take(9)).size() == 9);
  CHECK(are_gone(before));
  const auto ends_by_throwing = [&] {
    for (const std::int64_t x : slow)
      if (x == 4) throw std::logic_error("the body's own");
  };
  CHECK_THROWS_AS(ends_by_throwing(), std::logic_error);
  CHECK(are_gone(before));
}

TEST_CASE("errors end all threads", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  for (const std::int64_t place : {0, 1, 50}) {
    auto failing_map = data::range(1000) |
                       data::map(
                           [place](std::int64_t x) {
                             if (x == place) throw Error("broken");
                             return x;
                           },
                           {.workers = 4}) |
                       data::prefetch(3);
    CHECK(before_error(failing_map) == elements_of(data::range(place)));
    CHECK(are_gone(before));
    auto at_begin = failing_map | data::skip(place);  // fails in begin(), not in an iterator's ++
    CHECK_THROWS_AS(at_begin.begin(), Error);
    CHECK(are_gone(before));
  }
}

TEST_CASE("threads end with the pass, though the pipeline is gone before", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  {
    auto pipeline = std::make_unique<data::Pipeline<std::int64_t>>(
        data::range(100) | data::map(itself, {.workers = 3}) | data::prefetch(2));
    auto at = pipeline->begin();
    const auto end = pipeline->end();
    pipeline.reset();
    Integers seen;
    for (; !(at == end); ++at) {
      seen.push_back(*at);
      if (seen.size() == 40) break;
    }
    CHECK(seen == elements_of(data::range(40)));
    CHECK(threads_now() > before);
  }
  CHECK(are_gone(before));
}

TEST_CASE("nested loops over one pipeline are passes of their own", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  auto numbers = data::range(5) | data::shuffle(5, {.seed = 2}) | data::map(itself, {.workers = 2}) | data::prefetch(2);
  auto alone = data::range(5) | data::shuffle(5, {.seed = 2});
  std::vector<Integers> passes;
  for (int pass = 0; pass < 6; ++pass) passes.push_back(elements_of(alone));
  Integers outer;
  std::size_t inner = 1;
  for (const std::int64_t x : numbers) {
    outer.push_back(x);
    Integers seen;
    for (const std::int64_t y : numbers) {
      seen.push_back(y);
      if (inner % 2 == 0 && seen.size() == 2) break;
    }
    if (inner % 2 != 0) CHECK(seen == passes[inner]);
    else CHECK(seen == Integers(passes[inner].begin(), passes[inner].begin() + 2));
    ++inner;
  }
  CHECK(outer == passes[0]);
  CHECK(are_gone(before));
}

TEST_CASE("workers that wait or work when their loop ends come to an end", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  const auto start = Clock::now();
  {
    auto waiting = data::range(100000) | data::map(itself, {.workers = 3}) | data::prefetch(2);
    for ([[maybe_unused]] const std::int64_t x : waiting) {
      sleep_for(milliseconds(30));  // all of them have run ahead as far as they may
      break;
    }
    auto working = data::range(1000) | data::map(
                                           [](std::int64_t x) {
                                             sleep_for(milliseconds(x == 0 ? 1 : 40));
                                             return x;
                                           },
                                           {.workers = 3});
    for ([[maybe_unused]] const std::int64_t x : working) break;
    auto never_asked = data::range(10) | data::map(itself, {.workers = 3}) | data::prefetch(2) | data::take(0);
    CHECK(elements_of(never_asked).empty());
  }
  CHECK(are_gone(before));
  CHECK(Clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("leaving a loop waits for one element at most", "[data][pipeline][threads][timing][host]") {
  // pieces have grown to 64 elements when the source becomes slow
  auto pipeline = data::generate([](std::int64_t x) {
                    if (x >= 150) sleep_for(milliseconds(20));
                    return x;
                  }) |
                  data::map(itself, {.workers = 1});
  Clock::time_point left;
  for (const std::int64_t x : pipeline)
    if (x == 100) {
      sleep_for(milliseconds(100));  // the worker is at the slow ones
      left = Clock::now();
      break;
    }
  CHECK(Clock::now() - left < milliseconds(400));
}

TEST_CASE("an iterator is at its end behind an error, and its threads are gone", "[data][pipeline][threads][host]") {
  const int before = settled_threads();
  auto failing = data::range(10) |
                 data::map(
                     [](std::int64_t x) {
                       if (x == 2) throw Error("broken");
                       return x;
                     },
                     {.workers = 2}) |
                 data::prefetch(2);
  auto at = failing.begin();
  ++at;
  CHECK_THROWS_AS(++at, Error);
  CHECK((at == failing.end()));
  CHECK(are_gone(before));
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which lay out stacks, too
namespace {

/// While one lives no thread can be started: each is to have a stack larger than memory can be.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    is_on_ = pthread_getattr_default_np(&before_) == 0 && pthread_attr_setstacksize(&huge, std::size_t{1} << 62) == 0 &&
             pthread_setattr_default_np(&huge) == 0;
    pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  bool is_on() const noexcept { return is_on_; }

 private:
  pthread_attr_t before_{};
  bool is_on_ = false;
};

void check_without_threads(const std::string& stage, data::Pipeline<std::int64_t> pipeline) {
  INFO(stage);
  {
    const NoThreads none;
    REQUIRE(none.is_on());
    const std::string what = message_of<BackendError>([&] { elements_of(pipeline); });
    CHECK(what.starts_with(stage + ": no thread can be started: "));
    CHECK(split_message(what).file == "pipeline_threads_test.cpp");
  }
  CHECK(elements_of(pipeline) == elements_of(data::range(5)));
}

}  // namespace

TEST_CASE("where no thread can be had a loop says so, and the next one has all elements", "[data][pipeline][host]") {
  check_without_threads("map", data::range(5) | data::map(itself, {.workers = 2}));
  check_without_threads("prefetch", data::range(5) | data::prefetch(2));
}
#endif
