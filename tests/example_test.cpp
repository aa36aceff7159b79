// Example and SequenceExample: TensorFlow's bytes both ways, protobuf's rules for what comes in parts, and tensors.
#include <capstan/capstan.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/example_files.hpp"
#include "tests/files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
using cs::io::Example;
using cs::io::Feature;
using cs::io::FeatureSpec;
using cs::io::parse_example;
using cs::io::parse_sequence_example;
using cs::io::SequenceExample;
using cs::io::serialize;
using tests::from_hex;
using tests::has_examples;

namespace {

using Integers = std::vector<std::int64_t>;
using Floats = std::vector<float>;
using Strings = std::vector<std::string>;

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

/// What tests::kTensorFlowExample holds, but for the NaN among the floats.
Example tensorflow_example() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  return {{{"bytes", Strings{"", std::string("a\0b", 3), "\xFF\x80"}},
           {"floats", Floats{0.0f, -0.0f, 1.5f, nan, infinity, -infinity, 1e-45f}},
           {"int", Integers{0, 1, -1, 300, kLargest, kSmallest}},
           {"no_bytes", Strings{}},
           {"no_floats", Floats{}},
           {"no_ints", Integers{}},
           {"none", Feature()}}};
}

SequenceExample tensorflow_sequence() {
  return {
      {{{"id", Integers{7}}}},
      {{"frames", {Floats{0.5f}, Floats{1.5f, 2.5f}, Floats{}}}, {"none", {}}, {"words", {Strings{"x"}, Feature()}}}};
}

/// How often each class occurs, and the sums of the others.
struct Penguins {
  std::array<int, 3> species{};
  double flipper = 0, culmen_depth = 0, culmen_length = 0, mass = 0;
  std::int64_t count = 0;
};

Penguins count_penguins(const std::string& path) {
  Penguins found;
  for (const std::string& record : cs::io::read_tfrecords(path)) {
    const Example example = parse_example(record);
    REQUIRE(example.features.size() == 5);
    ++found.species.at(static_cast<std::size_t>(example.at("species").integers.at(0)));
    const auto value = [&](std::string_view name) {
      REQUIRE(example.at(name).floats.size() == 1);
      const double x = example.at(name).floats[0];
      REQUIRE((x >= 0 && x <= 1));
      return x;
    };
    found.flipper += value("flipper_length_mm");
    found.culmen_depth += value("culmen_depth_mm");
    found.culmen_length += value("culmen_length_mm");
    found.mass += value("body_mass_g");
    ++found.count;
  }
  return found;
}

}  // namespace

TEST_CASE("an Example that TensorFlow wrote is parsed", "[io][example][host]") {
  if (!has_examples()) return;
  const Example parsed = parse_example(from_hex(tests::kTensorFlowExample)), expected = tensorflow_example();
  REQUIRE(parsed.features.size() == expected.features.size());
  for (std::size_t i = 0; i < expected.features.size(); ++i) {
    const auto& [name, feature] = expected.features[i];
    CHECK(parsed.features[i].first == name);
    CHECK(parsed.features[i].second.kind == feature.kind);
    CHECK(parsed.features[i].second.bytes == feature.bytes);
    CHECK(parsed.features[i].second.integers == feature.integers);
    CHECK(tests::same_bits(parsed.features[i].second.floats, feature.floats));
  }
  CHECK(parsed.at("none").kind == Feature::Kind::none);
  CHECK(parsed.at("no_ints").kind == Feature::Kind::integers);
}

TEST_CASE("an Example is serialized to the bytes that TensorFlow writes", "[io][example][host]") {
  if (!has_examples()) return;
  CHECK(serialize(tensorflow_example()) == from_hex(tests::kTensorFlowExample));
}

TEST_CASE("a SequenceExample is parsed from, and serialized to, the bytes of TensorFlow", "[io][example][host]") {
  if (!has_examples()) return;
  const std::string bytes = from_hex(tests::kTensorFlowSequence);
  const SequenceExample parsed = parse_sequence_example(bytes), expected = tensorflow_sequence();
  CHECK(parsed == expected);
  CHECK(serialize(expected) == bytes);
  CHECK(parsed.context.at("id") == Feature(Integers{7}));
  CHECK(parsed.at("frames").size() == 3);
  CHECK(parsed.find("none")->empty());
  CHECK(parsed.find("nothing") == nullptr);
}

TEST_CASE("an Example without features has no bytes, and the other way round", "[io][example][host]") {
  if (!has_examples()) return;
  CHECK(serialize(Example{}).empty());
  CHECK(serialize(SequenceExample{}).empty());
  CHECK(parse_example("").features.empty());
  CHECK(parse_example(std::string_view()).features.empty());
  CHECK(parse_example(from_hex("0a00")).features.empty());  // features, but none
  CHECK(parse_sequence_example("") == SequenceExample{});
  CHECK(parse_sequence_example(from_hex("0a001200")) == SequenceExample{});
}

TEST_CASE("what comes in parts is joined by protobuf's rules", "[io][example][host]") {
  if (!has_examples()) return;
  const struct {
    const char* what;
    const char* hex;
    Example expected;  // what Google's protobuf 7.36 for Python makes of the bytes
  } rows[] = {
      {"integers packed and not", "0a130a110a0161120c1a0a080108020a0203040805", {{{"a", Integers{1, 2, 3, 4, 5}}}}},
      {"floats packed and not", "0a180a160a01611211120f0d0000803f0a080000004000004040", {{{"a", Floats{1, 2, 3}}}}},
      {"another kind takes its place", "0a130a110a0161120c12060a040000803f1a020801", {{{"a", Integers{1}}}}},
      {"the first kind again", "0a170a150a016112101a02080112060a040000803f1a020802", {{{"a", Integers{2}}}}},
      {"two lists of one kind", "0a0f0a0d0a016112081a0208011a020802", {{{"a", Integers{1, 2}}}}},
      {"a name twice",
       "0a210a090a016112041a0208010a090a016212041a0208030a090a016112041a020802",
       {{{"a", Integers{2}}, {"b", Integers{3}}}}},
      {"features twice",
       "0a0b0a090a016212041a0208010a0b0a090a016112041a020802",
       {{{"a", Integers{2}}, {"b", Integers{1}}}}},
      {"a value twice", "0a110a0f0a016112041a02080112041a020802", {{{"a", Integers{1, 2}}}}},
      {"a value twice, of two kinds", "0a150a130a016112041a020801120812060a040000803f", {{{"a", Floats{1}}}}},
      {"two names in an entry", "0a0e0a0c0a01610a016212041a020801", {{{"b", Integers{1}}}}},
      {"the value before the name", "0a0b0a0912041a0208010a0162", {{{"b", Integers{1}}}}},
      {"an entry without a value", "0a050a030a0161", {{{"a", Feature()}}}},
      {"an entry without anything", "0a020a00", {{{"", Feature()}}}},
      {"a tenth byte with bits too many", "0a140a120a0161120d1a0b08ffffffffffffffffff7f", {{{"a", Integers{-1}}}}},
      {"a tag of more bytes than it needs", "8a8080800000", {}},
  };
  for (const auto& row : rows) {
    INFO(row.what);
    CHECK(parse_example(from_hex(row.hex)) == row.expected);
  }
}

TEST_CASE("lists of empty features, in however many parts, have room for no more than come", "[io][example][host]") {
  if (!has_examples()) return;
  constexpr std::size_t count = 100000;
  const std::string serialized = serialize(SequenceExample{{}, {{"steps", std::vector<Feature>(count)}}});
  const SequenceExample whole = parse_sequence_example(serialized);
  CHECK(whole.at("steps").size() == count);
  CHECK(whole.at("steps").capacity() == count);
  // an entry: the name a, a value of one feature and another of two, the last of which is the integer 7
  const SequenceExample parts = parse_sequence_example(from_hex("12140a120a016112020a0012090a000a051a030a0107"));
  CHECK(parts.at("a") == std::vector<Feature>{Feature(), Feature(), Feature(Integers{7})});
  CHECK(parts.at("a").capacity() == 3);
}

TEST_CASE("unknown fields of every wire type are passed over", "[io][example][host]") {
  if (!has_examples()) return;
  // in the Example: 2 varint, 3 fixed64, 4 fixed32, 5 bytes; in Features 2; in the Feature 4; in the list 2
  const std::string bytes = from_hex(
      "1005"
      "193132333435363738"
      "2561626364"
      "2a026869"
      "0a11"
      "1001"
      "0a0d"
      "0a0161"
      "1208"
      "2001"
      "1a04"
      "1009"
      "0804");
  CHECK(parse_example(bytes) == Example{{{"a", Integers{4}}}});
  CHECK(parse_sequence_example(from_hex("1a026869")) == SequenceExample{});
}

TEST_CASE("features whose names are no UTF-8 are read and not written", "[io][example][errors][host]") {
  if (!has_examples()) return;
  const Example example = parse_example(from_hex("0a0b0a090a01ff12041a020801"));
  CHECK(example == Example{{{"\xFF", Integers{1}}}});
  const auto message = [](const tests::Call& call) {
    return tests::split_message(tests::message_of<cs::Error>(call)).text;
  };
  const std::string first = "serialize: the name of feature '\\xFF' is no UTF-8 from byte 0 on; it must be.";
  CHECK(message([&] { serialize(example); }) == first);
  CHECK(message([&] { serialize(SequenceExample{example, {}}); }) == first);
  const SequenceExample sequence{{}, {{"ab\xC3", std::vector<Feature>(1)}}};
  CHECK(message([&] { serialize(sequence); }) ==
        "serialize: the name of feature 'ab\\xC3' is no UTF-8 from byte 2 on; it must be.");
}

TEST_CASE("features are found by name, and errors list the names", "[io][example][host]") {
  const Example example{{{"b", Integers{1}}, {"a", Integers{2}}, {"b", Integers{3}}}};
  CHECK(*example.find("b") == Feature(Integers{3}));  // the last one counts
  CHECK(example.find("c") == nullptr);
  CHECK(example.at("a") == Feature(Integers{2}));
  const unsigned line = __LINE__ + 1;
  const tests::Message message = tests::split_message(tests::message_of<cs::IndexError>([&] { example.at("c"); }));
  CHECK(message.text == "Example::at: there is no 'c'; the names are 'b', 'a', 'b'.");
  CHECK(message.file == "example_test.cpp");
  CHECK(message.line == line);
  CHECK(tests::split_message(tests::message_of<cs::IndexError>([] { SequenceExample{}.at("x"); })).text ==
        "SequenceExample::at: there is no 'x'; the names are none.");
  Example wild{{{std::string(1 << 20, 'x') + "\n", Integers{1}}}};  // names come from files: no message is as long
  for (int i = 0; i < 24; ++i) wild.features.emplace_back("\x1B[31m", Integers{i});
  const std::string said = tests::message_of<cs::IndexError>([&] { wild.at("c"); });
  CHECK(said.size() < 1000);
  CHECK(said.find("xx...', '\\x1B[31m', '\\x1B[31m'") != std::string::npos);
  CHECK(said.find(" and 5 more. (") != std::string::npos);
  if (has_examples()) CHECK(parse_example(serialize(example)) == Example{{{"a", Integers{2}}, {"b", Integers{3}}}});
}

TEST_CASE("large Examples come back as they were", "[io][example][host]") {
  if (!has_examples()) return;
  Integers integers;
  Floats floats;
  for (std::int64_t i = 0; i < 100000; ++i) {
    integers.push_back(i % 3 == 0 ? i : i % 3 == 1 ? -i * i : kSmallest + i);
    floats.push_back(static_cast<float>(i) / 8);
  }
  Example example{{{"floats", floats}, {"image", Strings{std::string(1 << 20, '\0')}}, {"integers", integers}}};
  for (int i = 1000; i < 6000; ++i) example.features.emplace_back("name_" + std::to_string(i), Integers{i});
  CHECK((parse_example(serialize(example)) == example));  // in parentheses: not to be printed

  SequenceExample sequence{example, {{"steps", std::vector<Feature>(3000, Floats{1, 2})}}};
  CHECK((parse_sequence_example(serialize(sequence)) == sequence));
}

TEST_CASE("a list of numbers becomes a tensor", "[io][example][host]") {
  const cs::Tensor integers = cs::io::to_tensor(Integers{1, -2, kLargest});
  CHECK(integers.dtype() == cs::DType::int64);
  CHECK(integers.shape() == cs::Shape{3});
  CHECK(integers.to_vector<std::int64_t>() == Integers{1, -2, kLargest});
  CHECK(cs::io::to_tensor(Floats{0.5f, 2}).to_vector<float>() == Floats{0.5f, 2});
  CHECK(cs::io::to_tensor(Floats{}).shape() == cs::Shape{0});
  CHECK(tests::split_message(tests::message_of<cs::DTypeError>([] { cs::io::to_tensor(Strings{"a"}); })).text ==
        "to_tensor: the feature holds bytes; it must hold float32 or int64.");
  CHECK(tests::split_message(tests::message_of<cs::DTypeError>([] { cs::io::to_tensor(Feature()); })).text ==
        "to_tensor: the feature holds nothing; it must hold float32 or int64.");
}

TEST_CASE("an Example becomes tensors in the order of the specs", "[io][example][host]") {
  if (!has_examples()) return;
  const std::string bytes = serialize(Example{{{"id", Integers{7}},
                                               {"matrix", Floats{1, 2, 3, 4, 5, 6}},
                                               {"pixels", Strings{std::string("\x00\xFF\x7F\x01", 4)}},
                                               {"unset", Feature()},
                                               {"words", Integers{4, 5, 6}}}});
  const std::vector<FeatureSpec> specs = {
      {.name = "words", .dtype = cs::DType::int64},
      {.name = "matrix", .shape = cs::Shape{2, 3}},
      {.name = "id", .dtype = cs::DType::int64, .shape = cs::Shape{}},
      {.name = "pixels", .dtype = cs::DType::uint8, .shape = cs::Shape{2, 2}},
      {.name = "absent", .dtype = cs::DType::int64},
      {.name = "unset", .shape = cs::Shape{2}, .default_value = 0.5},
      {.name = "also_absent", .dtype = cs::DType::int64, .shape = cs::Shape{}, .default_value = -1},
      {.name = "pixels", .dtype = cs::DType::uint8},
  };
  const std::vector<cs::Tensor> tensors = parse_example(bytes, specs);
  REQUIRE(tensors.size() == specs.size());
  CHECK(tests::same(tensors[0], cs::from_vector<std::int64_t>({4, 5, 6})));
  CHECK(tests::same(tensors[1], cs::from_vector<float>({1, 2, 3, 4, 5, 6}, cs::Shape{2, 3})));
  CHECK(tests::same(tensors[2], cs::from_vector<std::int64_t>({7}, cs::Shape{})));
  CHECK(tests::same(tensors[3], cs::from_vector<std::uint8_t>({0, 255, 127, 1}, cs::Shape{2, 2})));
  CHECK(tests::same(tensors[4], cs::from_vector<std::int64_t>(Integers{})));
  CHECK(tests::same(tensors[5], cs::from_vector<float>({0.5f, 0.5f})));
  CHECK(tests::same(tensors[6], cs::from_vector<std::int64_t>({-1}, cs::Shape{})));
  CHECK(tests::same(tensors[7], cs::from_vector<std::uint8_t>({0, 255, 127, 1})));
  CHECK(parse_example(bytes, std::vector<FeatureSpec>()).empty());
}

TEST_CASE("an Example that is not as its specs say is an error that says how", "[io][example][errors][host]") {
  if (!has_examples()) return;
  const std::string bytes =
      serialize(Example{{{"floats", Floats{1, 2, 3}}, {"integers", Integers{1}}, {"strings", Strings{"a", "b"}}}});
  const auto message = [&](const FeatureSpec& spec) {
    const std::vector<FeatureSpec> specs = {{.name = "integers", .dtype = cs::DType::int64}, spec};
    return tests::split_message(tests::message_of<cs::IoError>([&] { parse_example(bytes, specs); })).text;
  };
  CHECK(message({.name = "floats", .shape = cs::Shape{2, 2}}) ==
        "parse_example: feature 'floats' has 3 values; shape [2, 2] needs 4.");
  CHECK(message({.name = "strings", .dtype = cs::DType::uint8}) ==
        "parse_example: feature 'strings' has 2 strings of bytes; as a tensor of uint8 it must have one.");
  CHECK(message({.name = "floats", .dtype = cs::DType::int64, .shape = cs::Shape{3}}) ==
        "parse_example: feature 'floats' holds float32; its spec says int64.");
  CHECK(message({.name = "strings", .shape = cs::Shape{2}}) ==
        "parse_example: feature 'strings' holds bytes; its spec says float32.");
  CHECK(message({.name = "absent", .shape = cs::Shape{2}}) ==
        "parse_example: feature 'absent' is missing; it must be there, or its spec must have a default.");
}

TEST_CASE("specs that no feature can meet are errors of whoever wrote them", "[io][example][errors][host]") {
  if (!has_examples()) return;
  const std::vector<FeatureSpec> type = {{.name = "x", .dtype = cs::DType::float64}};
  CHECK(tests::split_message(tests::message_of<cs::DTypeError>([&] { parse_example("", type); })).text ==
        "parse_example: the spec of 'x' has type float64; it must be float32, int64, or uint8 for bytes.");
  const std::vector<FeatureSpec> shapeless = {{.name = "x", .default_value = 1}};
  CHECK(tests::split_message(tests::message_of<cs::Error>([&] { parse_example("", shapeless); })).text ==
        "parse_example: the spec of 'x' has a default and no shape; without a shape a missing feature has no "
        "elements.");
  const std::vector<FeatureSpec> unfit = {
      {.name = "x", .dtype = cs::DType::int64, .shape = cs::Shape{1}, .default_value = 0.5}};
  CHECK_THROWS_AS(parse_example("", unfit), cs::DTypeError);
  CHECK_THROWS_AS(parse_example(serialize(Example{{{"x", Integers{1}}}}), unfit),
                  cs::DTypeError);  // though it is there
}

TEST_CASE("the penguins of TFX are what they should be, plain and gzip", "[io][example][host]") {
  const std::string folder = tests::shared_data("tfrecord");
  if (folder.empty() || !has_examples()) return;
  // counts and sums by an independent parser, in Python
  for (const char* name : {"/penguin_train.tfrecord", "/penguin_train.tfrecord.gz"}) {
    const Penguins train = count_penguins(folder + name);
    CHECK(train.count == 234);
    CHECK(train.species == std::array<int, 3>{99, 46, 89});
    CHECK(std::abs(train.flipper - 116.91525414958596) < 1e-9);
    CHECK(std::abs(train.culmen_depth - 109.11904774140567) < 1e-9);
    CHECK(std::abs(train.culmen_length - 103.11999986693263) < 1e-9);
    CHECK(std::abs(train.mass - 98.94444434344769) < 1e-9);
  }
  const Penguins eval = count_penguins(folder + "/penguin_eval.tfrecord.gz");
  CHECK(eval.count == 100);
  CHECK(eval.species == std::array<int, 3>{47, 22, 31});
  CHECK(std::abs(eval.flipper - 47.338983088731766) < 1e-9);

  const std::vector<FeatureSpec> specs = {{.name = "species", .dtype = cs::DType::int64, .shape = cs::Shape{}},
                                          {.name = "body_mass_g", .shape = cs::Shape{1}}};
  const std::vector<cs::Tensor> first =
      parse_example(cs::io::read_tfrecords(folder + "/penguin_train.tfrecord").at(0), specs);
  CHECK(first.at(0).item<std::int64_t>() == 0);
  CHECK(first.at(1).item<float>() == 0.2916666567325592f);
}

TEST_CASE("the taxi trips of TFX have integers, floats, bytes and features without anything", "[io][example][host]") {
  const std::string path = tests::shared_data("tfrecord/chicago_taxi_eval-00009-of-00012.tfrecord.gz");
  if (path.empty() || !has_examples()) return;
  int companies = 0, without_company = 0, without_tract = 0;
  double fares = 0;
  const std::vector<std::string> records = cs::io::read_tfrecords(path);
  REQUIRE(records.size() == 424);
  for (const std::string& record : records) {
    const Example example = parse_example(record);
    REQUIRE(example.features.size() == 18);
    const Feature& company = example.at("company");
    companies += company.kind == Feature::Kind::bytes && company.bytes.size() == 1;
    without_company += company.kind == Feature::Kind::none;
    without_tract += example.at("pickup_census_tract").kind == Feature::Kind::none;
    fares += example.at("fare").floats.at(0);
  }
  CHECK(companies == 281);  // these by an independent parser, in Python
  CHECK(without_company == 143);
  CHECK(without_tract == 424);
  CHECK(std::abs(fares - 4886.169995546341) < 1e-9);

  const Example first = parse_example(records[0]);
  CHECK(first.at("company").bytes == Strings{"Taxi Affiliation Services"});
  CHECK(first.at("dropoff_census_tract").integers == Integers{17031832500});
  CHECK(first.at("fare").floats == Floats{9.85f});
  CHECK(first.at("trip_start_timestamp").integers == Integers{1437169500});
}

TEST_CASE("the sequences of TFX count on from 10500", "[io][example][host]") {
  const std::string path = tests::shared_data("tfrecord/sequence_eval.tfrecord.gz");
  if (path.empty() || !has_examples()) return;
  const std::vector<std::string> records = cs::io::read_tfrecords(path);
  REQUIRE(records.size() == 4500);
  int without = 0, wrong = 0;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const SequenceExample example = parse_sequence_example(records[i]);
    const std::int64_t number = 10500 + static_cast<std::int64_t>(i);
    const std::vector<Feature> words = {Strings{std::to_string(number)}, Strings{std::to_string(number + 1)}};
    wrong += example.at("s") != words;
    if (example.context.at("i").kind == Feature::Kind::none) {
      ++without;
      wrong += example.context.at("f").kind != Feature::Kind::none;
    } else {
      wrong += example.context.at("i") != Feature(Integers{number});
      wrong += example.context.at("f") != Feature(Floats{static_cast<float>(number)});
    }
  }
  CHECK(wrong == 0);
  CHECK(without == 450);  // every tenth, as an independent parser found
}
