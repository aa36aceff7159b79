// An epoch that is interrupted anywhere and restored goes on with exactly the elements that remain. Errors and damaged
// states: pipeline_states_test.cpp.
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/pipelines.hpp"
#include "tests/support.hpp"
#include "tests/tfrecord_files.hpp"

using namespace capstan;
using namespace tests;

namespace {

/// The place behind element `count` of the next pass, where the loop is then left; 0: before a pass that is not begun.
template <class T>
std::string state_behind(data::Pipeline<T>& pipeline, std::size_t count) {
  if (count == 0) return pipeline.state();
  std::size_t given = 0;
  for ([[maybe_unused]] const auto& element : pipeline)
    if (++given == count) return pipeline.state();
  FAIL("a pass has no " << count << " elements");
  return {};
}

/// What remains of a pass behind `count` elements, and then the whole of the next one.
template <class T>
void check_rest(data::Pipeline<T>& pipeline, const Texts& pass, std::size_t count, const Texts& next) {
  CHECK(texts_of(pipeline) == rest_of(pass, count));
  CHECK(texts_of(pipeline) == next);
}

/// Interrupts the first and the second pass at every element, and goes on in another pipeline, whose own seeds are
/// others, and in the same.
template <class Make, class MakeOther>
void check_resume(const std::string& what, const Make& make, const MakeOther& make_other) {
  seed(1);
  auto reference = make();
  const Texts passes[] = {texts_of(reference), texts_of(reference), texts_of(reference)};
  INFO(what);
  REQUIRE(passes[0].size() > 2);
  for (std::size_t pass = 0; pass < 2; ++pass)
    for (std::size_t count = 0; count <= passes[pass].size(); ++count) {
      INFO("pass " << pass << ", behind " << count << " elements");
      seed(1);
      auto interrupted = make();
      if (pass == 1) texts_of(interrupted);
      const std::string state = state_behind(interrupted, count);
      INFO(state);
      CHECK(interrupted.state() == state);  // the loop was left there

      seed(1000 + count);
      auto other = make_other();
      other.restore(state);
      CHECK(other.state() == state);
      check_rest(other, passes[pass], count, passes[pass + 1]);
      interrupted.restore(state);
      check_rest(interrupted, passes[pass], count, passes[pass + 1]);
    }
}
template <class Make>
void check_resume(const std::string& what, const Make& make) {
  check_resume(what, make, make);
}

double drawn(std::int64_t x) {
  return static_cast<double>(x) + uniform({}, 0, 1, default_rng(), {.dtype = DType::float64}).item<double>();
}
bool is_wanted(std::int64_t x) { return x % 3 != 1; }
std::int64_t length_of(std::int64_t x) { return x * 7 % 11; }

auto walked(int count) {
  return data::generator([count] {
    return [count, n = 0]() mutable -> std::optional<std::int64_t> {
      if (n == count) return std::nullopt;
      return n++;
    };
  });
}
/// Rows of 0 to 4 numbers.
auto ragged(std::int64_t count) {
  return data::range(count) | data::map([](std::int64_t x) { return full({x * 7 % 5}, x, {.dtype = DType::int64}); });
}
/// Every number opened as a shuffled and mapped pipeline of 0 to 4 elements.
auto opened(std::int64_t x) {
  return data::range(x * 3 % 5) | data::shuffle(3) | data::map([x](std::int64_t y) { return drawn(100 * x + y); });
}

}  // namespace

TEST_CASE("sources go on where they stood", "[data][pipeline][host]") {
  check_resume("rows of a tensor", [] { return data::from(random_in(0, 1, {11, 2})); });
  check_resume("rows of pairs", [] { return data::from(std::pair(random_in(0, 1, {7, 2}), arange(7))); });
  check_resume("list", [] { return data::from(Texts{"a", "b", "c", "d"}); });
  check_resume("range", [] { return data::range(9); });
  check_resume("generate", [] { return data::generate(9, drawn); });
  check_resume("generate without an end", [] { return data::generate(drawn) | data::take(9); });
  check_resume("generator", [] { return walked(9); });
  check_resume("generator that draws", [] {
    return data::generator(
        [] { return [n = 0]() mutable { return ++n < 9 ? std::optional(default_rng().bits()) : std::nullopt; }; });
  });
}

TEST_CASE("files go on at the next line or record", "[data][pipeline][host]") {
  const TemporaryFolder folder;
  const std::vector<std::string> texts = {
      folder.write_text("1.txt", "\xEF\xBB\xBFone\ntwo\r\n\nthree"), folder.write_text("2.txt", ""),
      folder.write("3.txt", gzip(bytes_of("four\nfive\nsix\n"))), folder.write_text("4.txt", "seven\n")};
  check_resume("lines", [&] { return data::lines(texts); });
  check_resume("shuffled lines", [&] { return data::lines(texts) | data::shuffle(3) | data::batch(2); });
  check_resume("files", [&] { return data::files(folder.path("*.txt")) | data::shuffle(4); });
  check_resume("interleaved files", [&] {
    return data::files(folder.path("*.txt")) | data::shuffle(4) |
           data::interleave([](const std::string& path) { return data::lines(path); }, {.cycle = 2, .block = 2});
  });
  const Bytes records = joined(record_of(bytes_of("one")), joined(record_of({}), record_of(bytes_of("three"))));
  const std::vector<std::string> paths = {folder.write("a", records), folder.write("b", gzip(records))};
  check_resume("records", [&] { return data::records(paths); });
  check_resume("prefetched records", [&] { return data::records(paths) | data::prefetch(2); });
}

TEST_CASE("every stage by itself goes on where it stood", "[data][pipeline][host]") {
  check_resume("map", [] { return data::range(9) | data::map(drawn); });
  check_resume("filter", [] { return data::range(13) | data::filter(is_wanted); });
  check_resume("filter that draws", [] {
    return data::range(20) | data::filter([](std::int64_t) { return default_rng().bits() % 4 != 0; });
  });
  check_resume("shuffle", [] { return data::range(20) | data::shuffle(7); });
  check_resume("shuffle of all", [] { return data::range(12) | data::shuffle(12); });
  check_resume("shuffle of more than all", [] { return data::range(12) | data::shuffle(100); });
  check_resume("shuffle by one", [] { return data::range(6) | data::shuffle(1); });
  check_resume("shuffle, each pass the same",
               [] { return data::range(9) | data::shuffle(4, {.every_pass_anew = false}); });
  check_resume("shuffle with a seed", [] { return data::range(9) | data::shuffle(4, {.seed = 9}); });
  check_resume("batch", [] { return data::range(14) | data::batch(4); });
  check_resume("batch without the rest", [] { return data::range(14) | data::batch(4, {.drop_rest = true}); });
  check_resume("padded_batch", [] { return ragged(14) | data::padded_batch(4); });
  check_resume("bucket_by_length", [] {
    return data::range(40) | data::bucket_by_length(length_of, {3, 7}, {2, 3, 4});
  });
  check_resume("bucket_by_length without the rest", [] {
    return data::range(40) | data::bucket_by_length(length_of, {3, 7}, {3}, {.drop_rest = true});
  });
  check_resume("window", [] { return data::range(9) | data::window(3); });
  check_resume("windows in steps",
               [] { return data::range(20) | data::window(4, {.shift = 3, .stride = 2, .drop_rest = false}); });
  check_resume("windows with gaps", [] { return data::range(20) | data::window(2, {.shift = 5}); });
  check_resume("repeat", [] { return data::range(5) | data::repeat(3); });
  check_resume("repeat without an end", [] { return data::range(5) | data::repeat() | data::take(17); });
  check_resume("take", [] { return data::range(9) | data::take(5); });
  check_resume("skip", [] { return data::range(9) | data::skip(4); });
  check_resume("cache", [] { return data::range(9) | data::map(drawn) | data::cache(); });
  check_resume("cache of unknown size", [] { return walked(9) | data::cache(); });
  check_resume("prefetch", [] { return data::range(9) | data::prefetch(3); });
  check_resume("zip", [] { return data::zip(data::range(9), walked(7), data::generate(drawn)); });
  check_resume("interleave", [] { return data::range(8) | data::interleave(opened); });
  check_resume("interleave in turns",
               [] { return data::range(9) | data::interleave(opened, {.cycle = 3, .block = 2}); });
}

TEST_CASE("shuffle goes on over whatever comes before it", "[data][pipeline][host]") {
  check_resume("map", [] { return data::range(15) | data::map(drawn) | data::shuffle(6); });
  check_resume("filter", [] { return data::range(20) | data::filter(is_wanted) | data::shuffle(6); });
  check_resume("shuffle", [] { return data::range(15) | data::shuffle(5) | data::shuffle(4); });
  check_resume("batch", [] { return data::range(31) | data::shuffle(9) | data::batch(3) | data::shuffle(4); });
  check_resume("bucket_by_length", [] {
    return data::range(40) | data::shuffle(9) | data::bucket_by_length(length_of, {5}, {3}) | data::shuffle(4);
  });
  check_resume("window",
               [] { return data::range(15) | data::shuffle(5) | data::window(3, {.shift = 2}) | data::shuffle(3); });
  check_resume("repeat", [] { return data::range(6) | data::shuffle(6) | data::repeat(3) | data::shuffle(4); });
  check_resume("cache", [] { return walked(12) | data::map(drawn) | data::cache() | data::shuffle(5); });
  check_resume("zip", [] { return data::zip(data::range(12) | data::shuffle(5), walked(10)) | data::shuffle(5); });
  check_resume("interleave", [] { return data::range(8) | data::interleave(opened, {.cycle = 2}) | data::shuffle(5); });
  check_resume("take",
               [] { return data::range(30) | data::shuffle(8) | data::skip(3) | data::take(11) | data::shuffle(5); });
  check_resume("zip of one that never ends", [] {
    const auto endless = data::generator([] { return [n = std::int64_t{0}]() mutable { return std::optional(n++); }; });
    return data::zip(endless, data::range(7)) | data::shuffle(data::kEndless);
  });
}

TEST_CASE("long pipelines go on where they stood", "[data][pipeline][threads][host]") {
  check_resume("as for training", [] {
    return data::range(15) | data::shuffle(15) | data::repeat() | data::batch(4) | data::prefetch(2) | data::take(13);
  });
  check_resume("repeat of unknown sizes",
               [] { return data::range(9) | data::shuffle(5) | data::filter(is_wanted) | data::repeat(3); });
  check_resume("repeat of repeat",
               [] { return data::range(4) | data::shuffle(4) | data::repeat(2) | data::map(drawn) | data::repeat(2); });
  check_resume("a cache of shuffled ones, shuffled",
               [] { return data::range(10) | data::shuffle(10) | data::cache() | data::shuffle(4) | data::repeat(2); });
  check_resume("a cache behind a cache",
               [] { return data::range(8) | data::map(drawn) | data::cache() | data::shuffle(8) | data::cache(); });
  check_resume("windows of batches", [] {
    return data::range(25) | data::shuffle(7) | data::batch(2, {.drop_rest = true}) | data::window(2, {.shift = 2});
  });
  check_resume("buckets of ragged rows", [] {
    return ragged(40) | data::shuffle(8) |
           data::bucket_by_length([](const Tensor& x) { return x.size(0); }, {2, 4}, {2, 3, 4}) | data::prefetch(2);
  });
  check_resume("interleave of interleave", [] {
    return data::range(4) | data::shuffle(4) |
           data::interleave(
               [](std::int64_t x) {
                 return data::range(3) |
                        data::interleave([x](std::int64_t y) { return opened(3 * x + y); }, {.cycle = 2});
               },
               {.cycle = 2, .block = 3});
  });
  check_resume("repeat of interleave",
               [] { return data::range(4) | data::interleave(opened, {.cycle = 3}) | data::repeat(2); });
  check_resume("zip of many kinds", [] {
    return data::zip(data::range(30) | data::shuffle(6) | data::batch(2),
                     data::range(40) | data::bucket_by_length(length_of, {5}, {2}),
                     data::range(20) | data::map(drawn) | data::window(2), data::range(3) | data::repeat());
  });
  check_resume("prefetch of prefetch", [] {
    return data::range(9) | data::map(drawn) | data::prefetch(2) | data::filter([](double x) { return x > 2; }) |
           data::prefetch(1);
  });
}

TEST_CASE("pipelines with workers go on with any number of them", "[data][pipeline][threads][host]") {
  const auto make = [](int workers) {
    return [workers] {
      return data::range(22) | data::shuffle(8) | data::map(drawn, {.workers = workers}) |
             data::filter([](double x) { return x > 3; }) | data::prefetch(2) |
             data::map([](double x) { return x + drawn(1); }, {.workers = workers});
    };
  };
  for (const int workers : {0, 2})
    for (const int others : {0, 3}) {
      if (workers == 0 && others == 0) continue;
      check_resume(std::to_string(workers) + " workers, then " + std::to_string(others), make(workers), make(others));
    }
  check_resume("shuffled behind workers",
               [] { return data::range(20) | data::map(drawn, {.workers = 3}) | data::shuffle(6) | data::batch(3); });
  check_resume("opened with workers", [] {
    return data::range(5) | data::interleave(
                                [](std::int64_t x) {
                                  return data::range(4) |
                                         data::map([x](std::int64_t y) { return drawn(10 * x + y); }, {.workers = 2});
                                },
                                {.cycle = 2});
  });
  check_resume("cached and repeated behind workers",
               [] { return data::range(7) | data::map(drawn, {.workers = 2}) | data::cache() | data::repeat(2); });
}

TEST_CASE("batches, takes and prefetches may change on the way", "[data][pipeline][threads][host]") {
  const auto make = [](std::int64_t size, std::int64_t count) {
    seed(3);
    return data::range(40) | data::shuffle(10) | data::batch(size) | data::prefetch(count);
  };
  auto before = make(4, 2);
  seed(3);
  const Integers numbers = elements_of(data::range(40) | data::shuffle(10));
  const std::string state = state_behind(before, 3);
  auto behind = make(10, 5);
  behind.restore(state);
  Integers rest;
  std::vector<std::int64_t> sizes;
  for (const Tensor& batch : behind) {
    sizes.push_back(batch.size(0));
    for (const std::int64_t x : batch.to_vector<std::int64_t>()) rest.push_back(x);
  }
  CHECK(rest == rest_of(numbers, 12));
  CHECK(sizes == Integers{10, 10, 8});
}

TEST_CASE("batches may change before functions, on workers too, and not where they are counted",
          "[data][pipeline][threads][host]") {
  const auto twice = [](const Tensor& x) { return x * 2; };
  for (const int workers : {0, 2}) {
    const auto make = [&](std::int64_t size) {
      return data::range(40) | data::shuffle(10, {.seed = 3}) | data::batch(size) |
             data::map(twice, {.workers = workers});
    };
    for (const std::int64_t size : {2, 4, 10}) {
      INFO(workers << " workers, batches of " << size);
      auto before = make(4), behind = make(size);
      behind.restore(state_behind(before, 3));
      Integers rest;
      for (const Tensor& batch : behind)
        for (const std::int64_t x : batch.to_vector<std::int64_t>()) rest.push_back(x / 2);
      CHECK(rest == rest_of(elements_of(data::range(40) | data::shuffle(10, {.seed = 3})), 12));
    }
  }
  const auto refused = [&](const std::string& counted, auto behind) {
    const auto make = [&](std::int64_t size) { return behind(data::range(40) | data::batch(size)); };
    auto four = make(4), others = make(4), ten = make(10);
    const std::string state = state_behind(four, 3);
    others.restore(state);
    CHECK(texts_of(others).size() + 3 == texts_of(make(4)).size());
    CHECK(split_message(message_of<Error>([&] { ten.restore(state); })).text ==
          "Pipeline::restore: the state is that of `from batch(4) " + counted +
              "` but the pipeline is `from batch(10) " + counted +
              "`; both must have the same stages, and batches of the same size where they are counted.");
  };
  refused("shuffle(3)", [](auto batches) { return batches | data::shuffle(3); });
  refused("cache prefetch", [](auto batches) { return batches | data::cache() | data::prefetch(1); });
  refused("window(2,1,1)", [](auto batches) { return batches | data::window(2); });
  refused("map shuffle(3)", [&](auto batches) { return batches | data::map(twice) | data::shuffle(3); });
  refused("bucket_by_length(5, 2 2)", [](auto batches) {
    return batches | data::bucket_by_length([](const Tensor& x) { return x.size(0); }, {5}, {2});
  });
  auto all = data::range(10) | data::batch(4) | data::repeat(4) | data::shuffle(3);
  auto full = data::range(10) | data::batch(4, {.drop_rest = true}) | data::repeat(4) | data::shuffle(3);
  CHECK(message_of<Error>([&] { full.restore(state_behind(all, 3)); }).find("`from batch(4, full) repeat") !=
        std::string::npos);
}

TEST_CASE("after an error batches keep their size", "[data][pipeline][host]") {
  const auto make = [](std::int64_t size, std::int64_t bad) {
    return data::range(40) | data::map([bad](std::int64_t x) {
             if (x == bad) throw std::runtime_error("damaged");
             return x;
           }) |
           data::padded_batch(size);
  };
  auto before = make(4, 22);
  int given = 0;
  CHECK_THROWS_AS(
      [&] {
        for ([[maybe_unused]] const auto& batch : before) ++given;
      }(),
      Error);
  CHECK(given == 5);
  const std::string state = before.state();
  auto others = make(10, 40);
  CHECK(message_of<Error>([&] { others.restore(state); }).find("padded_batch(4)` but") != std::string::npos);
  auto again = make(4, 40);
  again.restore(state);
  CHECK(texts_of(again) == rest_of(texts_of(make(4, 40)), 5));
}
