// Several elements as one: batches of all types, padded ones, buckets of lengths, windows.
#include <cstdint>
#include <limits>
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

constexpr DType kTypes[] = {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8,
                            DType::int16,   DType::int32,   DType::int64,   DType::uint8,    DType::bool8};

struct Sentence {
  Tensor words, tags;
};
struct Row {
  int number;
  std::string name;
};

/// Batches of numbers are tensors of the type that literals of theirs have.
template <class T>
void check_numbers(DType type) {
  INFO("to " << name(type));
  auto batches = data::from(std::vector<T>{T(1), T(0), T(1)}) | data::batch(2);
  static_assert(std::is_same_v<typename decltype(batches)::value_type, Tensor>);
  const std::vector<Tensor> list = elements_of(batches);
  REQUIRE(list.size() == 2);
  CHECK(list[0].dtype() == type);
  CHECK(list[0].shape() == Shape({2}));
  CHECK(values(list[0]) == std::vector<double>{1, 0});
  CHECK(values(list[1]) == std::vector<double>{1});
}

/// int64 0, 1, ... count-1.
Tensor counted(std::int64_t count) { return arange(count); }

/// The batches of a pipeline of numbers.
std::vector<Integers> lists_of(data::Pipeline<Tensor>& batches) {
  std::vector<Integers> lists;
  for (const Tensor& batch : batches) lists.push_back(batch.to_vector<std::int64_t>());
  return lists;
}
std::vector<Integers> lists_of(data::Pipeline<Tensor>&& batches) { return lists_of(batches); }

/// Rows of different lengths: element i is [i, i, ...] of `lengths[i]`.
data::Pipeline<Tensor> ragged(std::vector<std::int64_t> lengths) {
  const auto count = static_cast<std::int64_t>(lengths.size());
  return data::range(count) | data::map([lengths](std::int64_t i) {
           return full({lengths[static_cast<std::size_t>(i)]}, i, {.dtype = DType::int64});
         });
}

}  // namespace

// --- batch -------------------------------------------------------------------------------------------------------

TEST_CASE("batches of numbers are tensors of their literals' types", "[data][pipeline][host]") {
  check_numbers<bool>(DType::bool8);
  check_numbers<char>(DType::int32);
  check_numbers<signed char>(DType::int32);
  check_numbers<unsigned char>(DType::uint8);
  check_numbers<short>(DType::int32);
  check_numbers<unsigned short>(DType::int32);
  check_numbers<int>(DType::int32);
  check_numbers<unsigned>(DType::int64);
  check_numbers<long>(DType::int64);
  check_numbers<unsigned long>(DType::int64);
  check_numbers<long long>(DType::int64);
  check_numbers<unsigned long long>(DType::int64);
  check_numbers<float>(DType::float32);
  check_numbers<double>(DType::float64);

  const std::int64_t low = std::numeric_limits<std::int64_t>::min(), high = std::numeric_limits<std::int64_t>::max();
  CHECK(lists_of(data::from(Integers{low, high}) | data::batch(2)) == std::vector<Integers>{{low, high}});
  CHECK(lists_of(data::from(std::vector<unsigned>{4294967295u}) | data::batch(2)) ==
        std::vector<Integers>{{4294967295}});
  CHECK(values(elements_of(data::from(std::vector<short>{-32768}) | data::batch(1)).at(0)) ==
        std::vector<double>{-32768});
}

TEST_CASE("batches of strings and of structs with other fields are lists", "[data][pipeline][host]") {
  auto words = data::from(Texts{"a", "b", "c"}) | data::batch(2);
  static_assert(std::is_same_v<decltype(words)::value_type, Texts>);
  CHECK(elements_of(words) == std::vector<Texts>{{"a", "b"}, {"c"}});

  auto rows = data::from(std::vector<Row>{{1, "one"}, {2, "two"}, {3, "three"}}) | data::batch(2);
  static_assert(std::is_same_v<decltype(rows)::value_type, std::vector<Row>>);
  const auto batches = elements_of(rows);
  REQUIRE(batches.size() == 2);
  REQUIRE(batches[0].size() == 2);
  CHECK(batches[0][1].number == 2);
  CHECK(batches[0][1].name == "two");
  REQUIRE(batches[1].size() == 1);
  CHECK(batches[1][0].name == "three");
}

TEST_CASE("batches of pairs and tuples consist of the batches of their parts", "[data][pipeline][host]") {
  using Pair = std::pair<std::int64_t, std::string>;
  auto pairs = data::from(std::vector<Pair>{{1, "one"}, {2, "two"}}) | data::batch(5);
  static_assert(std::is_same_v<decltype(pairs)::value_type, std::pair<Tensor, Texts>>);
  for (const auto& [numbers, names] : pairs) {
    CHECK(numbers.to_vector<std::int64_t>() == Integers{1, 2});
    CHECK(names == Texts{"one", "two"});
  }

  using Nested = std::tuple<Tensor, std::pair<bool, float>, Row>;
  auto nested = data::range(3) | data::map([](std::int64_t i) {
                  return Nested(full({2}, i, {.dtype = DType::int64}), {i > 0, 0.5f}, Row{static_cast<int>(i), ""});
                }) |
                data::batch(3);
  static_assert(
      std::is_same_v<decltype(nested)::value_type, std::tuple<Tensor, std::pair<Tensor, Tensor>, std::vector<Row>>>);
  int count = 0;
  for (auto& [tensors, both, rows] : nested) {
    CHECK(same(tensors, Tensor{{0, 0}, {1, 1}, {2, 2}}.to(DType::int64)));
    CHECK(same(both.first, {false, true, true}));
    CHECK(same(both.second, {0.5f, 0.5f, 0.5f}));
    CHECK(rows.at(2).number == 2);
    ++count;
  }
  CHECK(count == 1);

  auto windows = data::zip(data::range(4)) | data::window(2);
  static_assert(std::is_same_v<decltype(windows)::value_type, std::tuple<Tensor>>);
  CHECK(std::get<0>(elements_of(windows).at(2)).to_vector<std::int64_t>() == Integers{2, 3});
}

TEST_CASE("batches of tensors have one more axis, whatever their type and layout", "[data][pipeline][host]") {
  for (const DType type : kTypes) {
    INFO(name(type));
    const bool floating = is_floating(type);
    const Tensor x = random_in(floating ? -3 : 0, floating ? 3 : 2, {7, 3, 2}, type, 11);
    for (const Tensor& from : {x, strided(x), transpose(transpose(x, 0, 2).copy(), 0, 2)}) {
      auto batches = data::from(from) | data::batch(3);
      CHECK(batches.size() == 3);
      std::int64_t first = 0;
      for (const Tensor& batch : batches) {
        CHECK(batch.is_contiguous());
        CHECK(same(batch, x.index({range(first, first + 3)})));
        first += 3;
      }
      CHECK(first == 9);
    }
  }
  const std::vector<Tensor> scalars = elements_of(data::from(Tensor{4, 5, 6}) | data::batch(2));
  REQUIRE(scalars.size() == 2);
  CHECK(same(scalars[0], {4, 5}));
  CHECK(same(scalars[1], {6}));
  CHECK(elements_of(data::from(zeros({5, 0, 2})) | data::batch(4)).at(0).shape() == Shape({4, 0, 2}));
  CHECK(elements_of(data::from(zeros({0, 2})) | data::batch(4)).empty());

  auto twice = data::from(counted(12)) | data::batch(2) | data::batch(3);
  CHECK(twice.size() == 2);
  CHECK(same(elements_of(twice).at(1), Tensor{{6, 7}, {8, 9}, {10, 11}}.to(DType::int64)));
}

TEST_CASE("records are put together field by field", "[data][pipeline][host]") {
  const Tensor words = random_in(0, 1, {5, 3}), tags = counted(5);
  auto batches = data::from(Sentence{words, tags}) | data::batch(2);
  static_assert(std::is_same_v<decltype(batches)::value_type, Sentence>);
  std::int64_t first = 0;
  for (const auto& [some_words, some_tags] : batches) {
    CHECK(same(some_words, words.index({range(first, first + 2)})));
    CHECK(same(some_tags, tags.index({range(first, first + 2)})));
    first += 2;
  }
  CHECK(first == 6);
}

TEST_CASE("the last batch may be smaller, or dropped", "[data][pipeline][host]") {
  struct Case {
    std::int64_t count, size, whole, all;
  };
  for (const Case& c : {Case{0, 3, 0, 0}, Case{2, 3, 0, 1}, Case{3, 3, 1, 1}, Case{7, 3, 2, 3}, Case{5, 1, 5, 5}}) {
    INFO(c.count << " by " << c.size);
    auto kept = data::range(c.count) | data::batch(c.size);
    auto dropped = data::range(c.count) | data::batch(c.size, {.drop_rest = true});
    CHECK(kept.size() == c.all);
    CHECK(dropped.size() == c.whole);
    CHECK(static_cast<std::int64_t>(elements_of(kept).size()) == c.all);
    CHECK(static_cast<std::int64_t>(elements_of(dropped).size()) == c.whole);
  }
  CHECK(lists_of(data::range(5) | data::batch(2)) == std::vector<Integers>{{0, 1}, {2, 3}, {4}});
  CHECK(lists_of(data::range(5) | data::batch(2, {.drop_rest = true})) == std::vector<Integers>{{0, 1}, {2, 3}});
}

// --- padded_batch ------------------------------------------------------------------------------------------------

TEST_CASE("padded batches are as large as their largest element along every axis", "[data][pipeline][host]") {
  auto elements = data::from(std::vector<Tensor>{{{1.0f, 2.0f, 3.0f}}, {{4.0f}, {5.0f}}, {{6.0f, 7.0f}}});
  const std::vector<Tensor> batches = elements_of(elements | data::padded_batch(2));
  REQUIRE(batches.size() == 2);
  CHECK(same(batches[0], {{{1.0f, 2.0f, 3.0f}, {0.0f, 0.0f, 0.0f}}, {{4.0f, 0.0f, 0.0f}, {5.0f, 0.0f, 0.0f}}}));
  CHECK(same(batches[1], {{{6.0f, 7.0f}}}));  // by itself it needs none
  CHECK(same(elements_of(elements | data::padded_batch(2, {.value = -1.5})).at(0),
             {{{1.0f, 2.0f, 3.0f}, {-1.5f, -1.5f, -1.5f}}, {{4.0f, -1.5f, -1.5f}, {5.0f, -1.5f, -1.5f}}}));
  CHECK(elements_of(elements | data::padded_batch(2, {.multiple_of = 4})).at(0).shape() == Shape({2, 4, 4}));
  CHECK(elements_of(elements | data::padded_batch(2, {.multiple_of = 4})).at(1).shape() == Shape({1, 4, 4}));
  CHECK(elements_of(elements | data::padded_batch(2, {.drop_rest = true})).size() == 1);
  CHECK((elements | data::padded_batch(2)).size() == 2);
  CHECK((elements | data::padded_batch(2, {.drop_rest = true})).size() == 1);
}

TEST_CASE("padding goes with every type", "[data][pipeline][host]") {
  for (const DType type : kTypes) {
    INFO(name(type));
    auto elements = data::from(std::vector<Tensor>{from_doubles({1, 0}, {2}, type), from_doubles({0}, {1}, type)});
    const Tensor zeroed = elements_of(elements | data::padded_batch(2)).at(0);
    CHECK(same(zeroed, from_doubles({1, 0, 0, 0}, {2, 2}, type)));
    const Tensor with_ones = elements_of(elements | data::padded_batch(2, {.value = 1})).at(0);
    CHECK(same(with_ones, from_doubles({1, 0, 0, 1}, {2, 2}, type)));
    if (type == DType::bool8) continue;
    const double most = type == DType::uint8 ? 255 : 127;
    const Tensor padded = elements_of(elements | data::padded_batch(2, {.value = most})).at(0);
    CHECK(same(padded, from_doubles({1, 0, 0, most}, {2, 2}, type)));
  }
}

TEST_CASE("padded batches take elements without anything in them, and views", "[data][pipeline][host]") {
  const std::vector<Integers> expected = {{7, 7, 7}, {1, 7, 7}, {2, 2, 2}};
  const Tensor batch = elements_of(ragged({0, 1, 3}) | data::padded_batch(3, {.value = 7})).at(0);
  CHECK(batch.shape() == Shape({3, 3}));
  for (std::size_t i = 0; i < 3; ++i) CHECK(batch[i].to_vector<std::int64_t>() == expected[i]);
  CHECK(elements_of(ragged({0, 0}) | data::padded_batch(2)).at(0).shape() == Shape({2, 0}));
  CHECK(elements_of(ragged({0, 0}) | data::padded_batch(2, {.multiple_of = 8})).at(0).shape() == Shape({2, 0}));
  CHECK(elements_of(ragged({3, 5}) | data::padded_batch(2, {.multiple_of = 5})).at(0).shape() == Shape({2, 5}));
  CHECK(elements_of(ragged({3, 6}) | data::padded_batch(2, {.multiple_of = 5})).at(0).shape() == Shape({2, 10}));

  const Tensor x = {{1, 2}, {3, 4}, {5, 6}};
  auto views = data::from(std::vector<Tensor>{transpose(x), x.index({range(0, 3, 2)})});
  CHECK(same(elements_of(views | data::padded_batch(2)).at(0), {{{1, 3, 5}, {2, 4, 6}}, {{1, 2, 0}, {5, 6, 0}}}));
  CHECK(elements_of(data::from(Tensor{1, 2}) | data::padded_batch(2)).at(0).shape() == Shape({2}));  // no axes to pad
}

TEST_CASE("batches of tensors that a tape follows are copies that it does not record", "[data][pipeline][host]") {
  const Tensor a = {1.0f, 2.0f, 3.0f}, b = {{4.0f, 5.0f}, {6.0f, 7.0f}};
  GradientTape tape;
  tape.watch({a, b});
  const Tensor row = a * 2, column = transpose(b)[0];
  REQUIRE(tape.follows(row));
  REQUIRE(tape.follows(column));
  REQUIRE_FALSE(column.is_contiguous());
  const std::int64_t recorded = tape.size();

  const auto unequal = data::from(std::vector<Tensor>{row, column});
  const auto equal = data::from(std::vector<Tensor>{column, column});
  const auto length_of = [](const Tensor& x) { return x.size(0); };
  const Tensor padded = elements_of(unequal | data::padded_batch(2)).at(0);
  const Tensor bucket = elements_of(unequal | data::bucket_by_length(length_of, {}, {2}, {.value = -1})).at(0);
  const Tensor batch = elements_of(equal | data::batch(2)).at(0);
  CHECK(same(padded, {{2.0f, 4.0f, 6.0f}, {4.0f, 6.0f, 0.0f}}));
  CHECK(same(bucket, {{2.0f, 4.0f, 6.0f}, {4.0f, 6.0f, -1.0f}}));
  CHECK(same(batch, {{4.0f, 6.0f}, {4.0f, 6.0f}}));
  CHECK(tape.size() == recorded);
  for (const Tensor& x : {padded, bucket, batch}) CHECK_FALSE(tape.follows(x));
}

TEST_CASE("parts of an element are padded by themselves", "[data][pipeline][host]") {
  auto sentences = data::range(2) | data::map([](std::int64_t i) {
                     return std::pair(Sentence{full({i + 1}, i + 1, {.dtype = DType::int64}), full({3 - i}, 0.5)}, i);
                   });
  auto batches = sentences | data::padded_batch(2, {.value = -1});
  static_assert(std::is_same_v<decltype(batches)::value_type, std::pair<Sentence, Tensor>>);
  int count = 0;
  for (const auto& [sentence, numbers] : batches) {
    CHECK(same(sentence.words, Tensor{{1, -1}, {2, 2}}.to(DType::int64)));
    CHECK(same(sentence.tags, {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, -1.0f}}));
    CHECK(numbers.to_vector<std::int64_t>() == Integers{0, 1});
    ++count;
  }
  CHECK(count == 1);
}

// --- bucket_by_length --------------------------------------------------------------------------------------------

TEST_CASE("buckets collect elements of similar lengths", "[data][pipeline][host]") {
  const auto itself = [](std::int64_t length) { return length; };
  const Integers lengths = {1, 5, 2, 9, 3, 4, 6, 7, 12, 3, 0, 8};
  // below 4: 1 2 3, then 3 0; from 4 to 8: 5 4 6 7, then 8; from 9 on: 9 12
  auto buckets = data::from(lengths) | data::bucket_by_length(itself, {4, 9}, {3, 4, 2});
  CHECK(buckets.size() == data::kUnknownSize);
  const std::vector<Integers> expected = {{1, 2, 3}, {5, 4, 6, 7}, {9, 12}, {3, 0}, {8}};
  CHECK(lists_of(buckets) == expected);
  CHECK(lists_of(buckets) == expected);  // and again in the next pass
  CHECK(lists_of(data::from(lengths) | data::bucket_by_length(itself, {4, 9}, {3, 4, 2}, {.drop_rest = true})) ==
        std::vector<Integers>{{1, 2, 3}, {5, 4, 6, 7}, {9, 12}});
  CHECK(lists_of(data::from(lengths) | data::bucket_by_length(itself, {4, 9}, {2})) ==
        std::vector<Integers>{{1, 2}, {5, 4}, {6, 7}, {9, 12}, {3, 3}, {0}, {8}});
  CHECK(lists_of(data::from(Integers{3, 4, 5}) | data::bucket_by_length(itself, {}, {2})) ==
        std::vector<Integers>{{3, 4}, {5}});
  auto none = data::range(0) | data::bucket_by_length(itself, {4}, {2});
  CHECK(none.size() == 0);
  CHECK(elements_of(none).empty());
}

TEST_CASE("the batches of buckets are padded", "[data][pipeline][host]") {
  auto batches = ragged({1, 5, 2, 6}) | data::bucket_by_length([](const Tensor& x) { return x.size(0); }, {4}, {2},
                                                               {.value = -1, .multiple_of = 4});
  const std::vector<Tensor> list = elements_of(batches);
  REQUIRE(list.size() == 2);
  CHECK(same(list[0], Tensor{{0, -1, -1, -1}, {2, 2, -1, -1}}.to(DType::int64)));
  CHECK(list[1].shape() == Shape({2, 8}));
  auto words = data::from(Texts{"a", "four", "bc"}) |
               data::bucket_by_length([](const std::string& word) { return word.size(); }, {4}, {2});
  CHECK(elements_of(words) == std::vector<Texts>{{"a", "bc"}, {"four"}});
}

// --- window ------------------------------------------------------------------------------------------------------

TEST_CASE("windows slide over the elements", "[data][pipeline][host]") {
  struct Case {
    std::int64_t count, size;
    data::WindowOptions options;
    std::vector<Integers> expected;
  };
  const std::vector<Case> cases = {
      {5, 3, {}, {{0, 1, 2}, {1, 2, 3}, {2, 3, 4}}},
      {5, 3, {.drop_rest = false}, {{0, 1, 2}, {1, 2, 3}, {2, 3, 4}, {3, 4}, {4}}},
      {7, 3, {.shift = 3}, {{0, 1, 2}, {3, 4, 5}}},
      {7, 3, {.shift = 3, .drop_rest = false}, {{0, 1, 2}, {3, 4, 5}, {6}}},
      {9, 2, {.shift = 4}, {{0, 1}, {4, 5}}},
      {9, 2, {.shift = 4, .drop_rest = false}, {{0, 1}, {4, 5}, {8}}},
      {7, 3, {.stride = 2}, {{0, 2, 4}, {1, 3, 5}, {2, 4, 6}}},
      {6, 3, {.stride = 2, .drop_rest = false}, {{0, 2, 4}, {1, 3, 5}, {2, 4}, {3, 5}, {4}, {5}}},
      {8, 2, {.shift = 2, .stride = 3}, {{0, 3}, {2, 5}, {4, 7}}},
      {8, 2, {.shift = 5, .stride = 2, .drop_rest = false}, {{0, 2}, {5, 7}}},
      {3, 1, {}, {{0}, {1}, {2}}},
      {2, 3, {}, {}},
      {2, 3, {.drop_rest = false}, {{0, 1}, {1}}},
      {0, 3, {.drop_rest = false}, {}},
      {4, 2, {.shift = data::kEndless, .drop_rest = false}, {{0, 1}}},
      {4, 2, {.stride = data::kEndless - 1, .drop_rest = false}, {{0}, {1}, {2}, {3}}},
  };
  for (const Case& c : cases) {
    INFO(c.count << " elements, windows of " << c.size << ", shift " << c.options.shift << ", stride "
                 << c.options.stride << (c.options.drop_rest ? ", whole ones" : ", all"));
    auto windows = data::range(c.count) | data::window(c.size, c.options);
    CHECK(windows.size() == static_cast<std::int64_t>(c.expected.size()));
    CHECK(lists_of(windows) == c.expected);
    CHECK(lists_of(windows) == c.expected);
  }
}

TEST_CASE("windows of other types are those of batches", "[data][pipeline][host]") {
  auto words = data::from(Texts{"a", "b", "c"}) | data::window(2);
  CHECK(elements_of(words) == std::vector<Texts>{{"a", "b"}, {"b", "c"}});
  const Tensor x = random_in(0, 1, {6, 3});
  std::int64_t first = 0;
  for (const Tensor& window : data::from(x) | data::window(4)) {
    CHECK(same(window, x.index({range(first, first + 4)})));
    ++first;
  }
  CHECK(first == 3);
  auto unknown = data::range(4) | data::filter([](std::int64_t i) { return i != 1; }) | data::window(2);
  CHECK(unknown.size() == data::kUnknownSize);
  CHECK(lists_of(unknown) == std::vector<Integers>{{0, 2}, {2, 3}});
}

TEST_CASE("batches of elements that cannot be copied are lists of them", "[data][pipeline][threads][host]") {
  auto batches = data::generate(5, [](std::int64_t i) { return Unique(i); }) | data::batch(2) | data::shuffle(1) |
                 data::prefetch(2);
  static_assert(std::is_same_v<decltype(batches)::value_type, std::vector<Unique>>);
  std::vector<Integers> lists;
  for (const std::vector<Unique>& batch : batches) {
    lists.emplace_back();
    for (const Unique& x : batch) lists.back().push_back(*x.number);
  }
  CHECK(lists == std::vector<Integers>{{0, 1}, {2, 3}, {4}});

  auto pairs = data::range(3) | data::map([](std::int64_t i) { return std::pair(i, Unique(10 * i)); }) | data::batch(3);
  static_assert(std::is_same_v<decltype(pairs)::value_type, std::pair<Tensor, std::vector<Unique>>>);
  int count = 0;
  for (const auto& [numbers, list] : pairs) {
    CHECK(numbers.to_vector<std::int64_t>() == Integers{0, 1, 2});
    CHECK(*list.at(2).number == 20);
    ++count;
  }
  CHECK(count == 1);
}
