// What pipelines begin with: tensors, lists, numbers, producers, files.
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/pipelines.hpp"
#include "tests/support.hpp"
#include "tests/tfrecord_files.hpp"

using namespace capstan;
using namespace tests;

namespace {

struct Labelled {
  Tensor images, labels;
  std::int64_t size() const { return labels.size(0); }  // as the data sets by name have it
};

struct Alone {
  Tensor only;
};

struct Fixed {
  const Tensor x, y;
};

/// 200 bytes, too many fields to be counted, and arrays.
struct Large {
  std::int64_t numbers[24];
  char letters[8];
};
static_assert(sizeof(Large) == 200);

/// Aligned more than any allocation is by itself.
struct alignas(64) Aligned {
  std::array<double, 8> numbers;
};

template <class P>
inline constexpr bool kGivesLabelled = std::is_same_v<typename P::value_type, Labelled>;

}  // namespace

// --- tensors and lists -------------------------------------------------------------------------------------------

TEST_CASE("the rows of a tensor come in order and share its memory", "[data][pipeline][host]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}};
  auto rows = data::from(x);
  static_assert(std::is_same_v<decltype(rows)::value_type, Tensor>);
  CHECK(rows.size() == 3);
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<Tensor> list = elements_of(rows);
    REQUIRE(list.size() == 3);
    CHECK(same(list[0], {1.0f, 2.0f}));
    CHECK(same(list[1], {3.0f, 4.0f}));
    CHECK(same(list[2], {5.0f, 6.0f}));
    for (const Tensor& row : list) CHECK(row.shares_storage(x));
  }

  const std::vector<Tensor> columns = elements_of(data::from(transpose(x)));
  REQUIRE(columns.size() == 2);
  CHECK(same(columns[1], {2.0f, 4.0f, 6.0f}));

  const std::vector<Tensor> numbers = elements_of(data::from(Tensor{7, 8}));
  REQUIRE(numbers.size() == 2);
  CHECK(numbers[1].shape() == Shape());
  CHECK(numbers[1].item<int>() == 8);

  auto none = data::from(zeros({0, 3}));
  CHECK(none.size() == 0);
  CHECK(elements_of(none).empty());
  CHECK(elements_of(data::from(zeros({2, 0}))).size() == 2);
}

TEST_CASE("several tensors come row by row, as structs, tuples and pairs", "[data][pipeline][host]") {
  const Tensor images = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}}, labels = {7, 8, 9};
  auto records = data::from(Labelled{images, labels});
  static_assert(kGivesLabelled<decltype(records)>);
  CHECK(records.size() == 3);
  int row = 0;
  for (auto [image, label] : records) {
    CHECK(same(image, images[row]));
    CHECK(label.item<int>() == 7 + row);
    ++row;
  }
  CHECK(row == 3);
  row = 0;
  for (const auto& record : records) CHECK(record.labels.item<int>() == 7 + row++);
  row = 0;
  for (const auto& [image, label] : records) {
    CHECK(image.shares_storage(images));
    CHECK(label.item<int>() == 7 + row++);
  }

  auto tuples = data::from(std::tuple(images, labels, labels));
  static_assert(std::is_same_v<decltype(tuples)::value_type, std::tuple<Tensor, Tensor, Tensor>>);
  CHECK(tuples.size() == 3);
  row = 0;
  for (const auto& [image, label, again] : tuples) {
    CHECK(same(image, images[row]));
    CHECK(same(again, label));
    ++row;
  }
  CHECK(row == 3);

  auto pairs = data::from(std::pair(images, labels));
  static_assert(std::is_same_v<decltype(pairs)::value_type, std::pair<Tensor, Tensor>>);
  CHECK(pairs.size() == 3);
  const auto list = elements_of(pairs);
  REQUIRE(list.size() == 3);
  CHECK(same(list[2].first, {5.0f, 6.0f}));
  CHECK(list[2].second.item<int>() == 9);

  CHECK(same(elements_of(data::from(Alone{images})).at(1).only, {3.0f, 4.0f}));
  CHECK(same(std::get<0>(elements_of(data::from(std::tuple(labels))).at(1)), Tensor(8)));
  CHECK(elements_of(data::from(Labelled{zeros({0, 2}), zeros({0})})).empty());
}

TEST_CASE("the tensors of a struct may be const", "[data][pipeline][threads][host]") {
  const Tensor x = {{1.0f, 2.0f}, {3.0f, 4.0f}, {5.0f, 6.0f}}, y = {7, 8, 9};
  auto rows = data::from(Fixed{x, y});
  static_assert(std::is_same_v<decltype(rows)::value_type, Fixed>);
  CHECK(rows.size() == 3);
  int row = 0;
  for (const auto& [some_x, some_y] : rows) {
    CHECK(same(some_x, x[row]));
    CHECK(some_y.item<int>() == 7 + row);
    ++row;
  }
  CHECK(row == 3);
  CHECK_THROWS_AS(data::from(Fixed{x, zeros({2})}), ShapeError);

  auto batches = rows | data::cache() | data::batch(2) | data::prefetch(2, cpu());
  static_assert(std::is_same_v<decltype(batches)::value_type, Fixed>);
  const std::vector<Fixed> list = elements_of(batches);
  REQUIRE(list.size() == 2);
  CHECK(same(list[0].x, {{1.0f, 2.0f}, {3.0f, 4.0f}}));
  CHECK(same(list[0].y, {7, 8}));
  CHECK(same(list[1].x, {{5.0f, 6.0f}}));
  CHECK(same(list[1].y, {9}));
}

TEST_CASE("const tensors of an element can be replaced, as prefetch does", "[data][pipeline][host]") {
  const Tensor a = {1, 2}, b = {3};
  std::pair<Fixed, std::vector<Fixed>> element(Fixed{a, b}, std::vector<Fixed>(1, Fixed{b, a}));
  int count = 0;
  data::detail::for_each_tensor(element, [&count](const Tensor& tensor) {
    data::detail::remake(tensor, tensor * 10);
    ++count;
  });
  CHECK(count == 4);
  CHECK(same(element.first.x, {10, 20}));
  CHECK(same(element.first.y, {30}));
  CHECK(same(element.second.at(0).x, {30}));
  CHECK(same(element.second.at(0).y, {10, 20}));
  CHECK(same(a, {1, 2}));
}

TEST_CASE("the values of a list come as copies", "[data][pipeline][host]") {
  auto words = data::from(std::vector<std::string>{"a", "bc", ""});
  CHECK(words.size() == 3);
  for (std::string& word : words) word += " changed";
  CHECK(elements_of(words) == Texts{"a", "bc", ""});
  CHECK(elements_of(data::from(std::vector<bool>{true, false, true})) == std::vector<bool>{true, false, true});
  CHECK(elements_of(data::from(std::vector<double>{})).empty());
  CHECK(data::from(std::vector<double>{}).size() == 0);
}

TEST_CASE("elements may be large and aligned in any way", "[data][pipeline][host]") {
  std::vector<Large> list(5);
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t k = 0; k < 24; ++k) list[i].numbers[k] = static_cast<std::int64_t>(100 * i + k);
    for (char& letter : list[i].letters) letter = static_cast<char>('a' + i);
  }
  auto large = data::from(list) | data::map([](Large x) {
                 ++x.numbers[23];
                 return x;
               }) |
               data::shuffle(3) | data::filter([](const Large& x) { return x.numbers[0] != 200; }) | data::cache() |
               data::prefetch(2) | data::batch(10);
  std::vector<bool> seen(5, false);
  for (const std::vector<Large>& batch : large) {
    REQUIRE(batch.size() == 4);
    for (const Large& x : batch) {
      const auto i = static_cast<std::size_t>(x.numbers[0] / 100);
      CHECK(x.numbers[22] == static_cast<std::int64_t>(100 * i + 22));
      CHECK(x.numbers[23] == static_cast<std::int64_t>(100 * i + 24));
      CHECK(x.letters[7] == static_cast<char>('a' + i));
      seen.at(i) = true;
    }
  }
  CHECK(seen == std::vector<bool>{true, true, false, true, true});

  auto aligned = data::range(20) | data::map([](std::int64_t i) {
                   Aligned x{};
                   x.numbers[7] = static_cast<double>(i);
                   return x;
                 }) |
                 data::shuffle(7) | data::prefetch(3);
  double sum_of = 0;
  for (const Aligned& x : aligned) {
    CHECK(reinterpret_cast<std::uintptr_t>(&x) % 64 == 0);
    sum_of += x.numbers[7];
  }
  CHECK(sum_of == 190);  // 0 + 1 + ... + 19
}

// --- numbers and producers ---------------------------------------------------------------------------------------

TEST_CASE("range counts", "[data][pipeline][host]") {
  auto numbers = data::range(4);
  static_assert(std::is_same_v<decltype(numbers)::value_type, std::int64_t>);
  CHECK(numbers.size() == 4);
  CHECK(elements_of(numbers) == Integers{0, 1, 2, 3});
  CHECK(elements_of(numbers) == Integers{0, 1, 2, 3});
  CHECK(data::range(0).size() == 0);
  CHECK(elements_of(data::range(0)).empty());
  int sum_of = 0;
  for (const std::int64_t x : data::range(5)) sum_of += static_cast<int>(x);  // the pipeline lives as long as the loop
  CHECK(sum_of == 10);
}

TEST_CASE("generate asks a function for each number", "[data][pipeline][host]") {
  auto squares = data::generate(5, [](std::int64_t i) { return i * i; });
  CHECK(squares.size() == 5);
  CHECK(elements_of(squares) == Integers{0, 1, 4, 9, 16});
  CHECK(elements_of(data::generate(0, [](std::int64_t i) { return i; })).empty());

  auto endless = data::generate([](std::int64_t i) { return std::to_string(i); });
  CHECK(endless.size() == data::kEndless);
  for (int pass = 0; pass < 2; ++pass) {
    Texts seen;
    for (const std::string& text : endless) {
      seen.push_back(text);
      if (seen.size() == 3) break;
    }
    CHECK(seen == Texts{"0", "1", "2"});
  }
}

TEST_CASE("random numbers in generate are the element's own", "[data][pipeline][host]") {
  const auto make = [](std::uint64_t number) {
    seed(number);
    return data::generate(6, [](std::int64_t i) { return uniform({i % 3 + 1}, 0, 1); });
  };
  auto numbers = make(5), again = make(5), other = make(6);
  const Texts first = texts_of(numbers), second = texts_of(numbers);
  CHECK(texts_of(again) == first);
  CHECK(texts_of(again) == second);
  CHECK(first != second);  // each pass draws anew
  CHECK(texts_of(other) != first);
  CHECK(first[0] != first[3]);

  seed(9);
  const RngState before = default_rng().state();
  elements_of(numbers);
  CHECK(default_rng().state() == before);
}

TEST_CASE("a generator makes a new producer for each pass", "[data][pipeline][host]") {
  int made = 0;
  auto counts = data::generator([&made] {
    ++made;
    return [n = 0]() mutable { return n < 3 ? std::optional(n++) : std::nullopt; };
  });
  static_assert(std::is_same_v<decltype(counts)::value_type, int>);
  CHECK(counts.size() == data::kUnknownSize);
  CHECK(made == 0);
  CHECK(elements_of(counts) == std::vector<int>{0, 1, 2});
  CHECK(elements_of(counts) == std::vector<int>{0, 1, 2});
  CHECK(made == 2);

  CHECK(elements_of(data::generator([] { return [] { return std::optional<int>(); }; })).empty());
  auto unique = data::generator(
      [] { return [n = 0]() mutable { return ++n <= 3 ? std::optional<Unique>(Unique(n)) : std::nullopt; }; });
  Integers seen;
  for (const Unique& x : unique) seen.push_back(*x.number);
  CHECK(seen == Integers{1, 2, 3});
}

// --- files -------------------------------------------------------------------------------------------------------

TEST_CASE("lines come from one file after another", "[data][pipeline][host]") {
  const TemporaryFolder folder;
  const std::string first = folder.write_text("a.txt", "one\ntwo\r\n\nthree");
  const std::string nothing = folder.write_text("b.txt", "");
  const std::string packed = folder.write("c.txt.gz", gzip(bytes_of("four\nfive\n")));
  auto lines = data::lines({first, nothing, packed});
  CHECK(lines.size() == data::kUnknownSize);
  const Texts expected = {"one", "two", "", "three", "four", "five"};
  CHECK(elements_of(lines) == expected);
  CHECK(elements_of(lines) == expected);
  CHECK(elements_of(data::lines(packed)) == Texts{"four", "five"});
  CHECK(elements_of(data::lines(nothing)).empty());

  auto none = data::lines(std::vector<std::string>{});
  CHECK(none.size() == 0);
  CHECK(elements_of(none).empty());
}

TEST_CASE("records come from one file after another", "[data][pipeline][host]") {
  const TemporaryFolder folder;
  const std::string first =
      folder.write("a.tfrecord", joined(record_of(bytes_of("one")), record_of(bytes_of(std::string("t\0o", 3)))));
  const std::string packed = folder.write("b.tfrecord.gz", gzip(joined(record_of({}), record_of(bytes_of("four")))));
  auto records = data::records({first, packed});
  CHECK(records.size() == data::kUnknownSize);
  const Texts expected = {"one", std::string("t\0o", 3), "", "four"};
  CHECK(elements_of(records) == expected);
  CHECK(elements_of(records) == expected);
  CHECK(elements_of(data::records(packed)) == Texts{"", "four"});

  Bytes damaged = record_of(bytes_of("five"));
  damaged.back() ^= 1;  // of the checksum of the data
  const std::string unchecked = folder.write("c.tfrecord", damaged);
  CHECK(elements_of(data::records(unchecked, {.check_crc = false})) == Texts{"five"});
}

TEST_CASE("files are found by a pattern and sorted by name", "[data][pipeline][host]") {
  const TemporaryFolder folder;
  for (const char* name : {"train-2.txt", "train-10.txt", "train-1.txt", "test-1.txt", "train-1.csv", "train-.txt"})
    folder.write_text(name, name);
  const auto found = [&](const std::string& pattern) {
    Texts names;
    const std::string start = folder.path("");
    for (const std::string& path : data::files(folder.path(pattern))) {
      REQUIRE(path.substr(0, start.size()) == start);
      names.push_back(path.substr(start.size()));
    }
    return names;
  };
  CHECK(found("train-*.txt") == Texts{"train-.txt", "train-1.txt", "train-10.txt", "train-2.txt"});
  CHECK(found("train-?.txt") == Texts{"train-1.txt", "train-2.txt"});
  CHECK(found("*1.t*") == Texts{"test-1.txt", "train-1.txt"});
  CHECK(found("*") == Texts{"test-1.txt", "train-.txt", "train-1.csv", "train-1.txt", "train-10.txt", "train-2.txt"});
  CHECK(found("train-1.csv") == Texts{"train-1.csv"});
  CHECK(data::files(folder.path("train-?.txt")).size() == 2);
  folder.write_text("train-ä.png", "x");
  CHECK(found("train-?.png") == Texts{"train-ä.png"});

  auto lines = data::files(folder.path("t*-1.txt")) |
               data::interleave([](const std::string& path) { return data::lines(path); });
  CHECK(elements_of(lines) == Texts{"test-1.txt", "train-1.txt"});
}

TEST_CASE("wrong arguments of sources are errors where they are made", "[data][pipeline][host]") {
  CHECK_THROWS_AS(data::lines("no such file", {.max_line_bytes = 0}), Error);
  CHECK_THROWS_AS(data::range(-1), ShapeError);
  CHECK_THROWS_AS(data::generate(-1, [](std::int64_t i) { return i; }), ShapeError);
}
