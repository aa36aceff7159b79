// Safetensors files: the published ones with the values that their collection states, every type, memory that is shared
// with the file, and files written here, which must be the package's own byte for byte.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/image_parts.hpp"
#include "tests/safetensors_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using cs::DType;
using cs::NamedTensor;
using cs::Shape;
using cs::Tensor;
using cs::io::Metadata;
using cs::io::Weights;
using tests::Bytes;
using tests::from_hex;
using tests::safetensors_entry;
using tests::safetensors_file;
using tests::safetensors_header;
using tests::TemporaryFolder;

const std::string kName = "x.safetensors";

Weights read_bytes(const Bytes& bytes) {
  const TemporaryFolder folder;
  return cs::io::read_safetensors(folder.write(kName, bytes));
}

Tensor read_one(const std::string& dtype, const std::string& shape, const Bytes& elements) {
  const std::string header =
      safetensors_header('"' + dtype + '"', shape, "[0," + std::to_string(elements.size()) + "]");
  const Weights weights = read_bytes(safetensors_file(header, elements));
  REQUIRE(weights.tensors.size() == 1);
  return weights.tensors[0].value;
}

/// A file of the collection; none where it is not there.
std::optional<Weights> shared_weights(const std::string& name) {
  const std::string path = tests::shared_data("safetensors/" + name);
  if (path.empty()) return std::nullopt;
  return cs::io::read_safetensors(path);
}

const Tensor& named(const Weights& weights, const std::string& name) {
  for (const NamedTensor& tensor : weights.tensors)
    if (tensor.name == name) return tensor.value;
  FAIL("there is no tensor " << name);
  return weights.tensors.front().value;
}

void check_values(const Tensor& x, const Shape& shape, DType dtype, const std::vector<double>& expected) {
  CHECK(x.shape() == shape);
  CHECK(x.dtype() == dtype);
  CHECK(x.device() == cs::default_device());
  CHECK(x.is_contiguous());
  CHECK(tests::values(x) == expected);
}

/// The file whose pages hold that address; "" if they are no file's.
std::string file_mapped_at(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 || wanted < begin || wanted >= end) continue;
    const std::size_t path = line.find('/');
    return path == std::string::npos ? "" : line.substr(path);
  }
  return "";
}

Bytes written(const std::vector<NamedTensor>& tensors, const Metadata& metadata = {}) {
  const TemporaryFolder folder;
  cs::io::save_safetensors(folder.path(kName), tensors, metadata);
  return tests::file_bytes(folder.path(kName));
}

const std::vector<DType> kTypes = {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8,
                                   DType::bool8,   DType::float16, DType::int8,  DType::int16, DType::bfloat16};

}  // namespace

// --- reading -----------------------------------------------------------------------------------------------------

TEST_CASE("the samples of the safetensors package hold what their collection states", "[io][safetensors][host]") {
  const std::vector<double> numbers = {-3, -2, -1, 0, 1, 2};
  const struct {
    std::string name;
    DType dtype;
    std::vector<double> values;
  } samples[] = {
      {"b", DType::int8, numbers},    {"B", DType::uint8, {253, 254, 255, 0, 1, 2}},
      {"h", DType::int16, numbers},   {"H", DType::int32, {65533, 65534, 65535, 0, 1, 2}},
      {"i", DType::int32, numbers},   {"I", DType::int64, {4294967293.0, 4294967294.0, 4294967295.0, 0, 1, 2}},
      {"e", DType::float16, numbers}, {"f", DType::float32, numbers},
      {"d", DType::float64, numbers},
  };
  const auto overall = shared_weights("samples/overall.safetensors");
  if (!overall) return;
  CHECK(overall->tensors.size() == 9);
  CHECK(overall->metadata == Metadata{{"test", "a"}});
  for (const auto& sample : samples) {
    INFO(sample.name);
    const auto single = shared_weights("samples/" + sample.name + ".safetensors");
    REQUIRE(single);
    REQUIRE(single->tensors.size() == 1);
    CHECK(single->metadata == Metadata{{"test", "a"}});
    check_values(named(*single, sample.name), {6}, sample.dtype, sample.values);
    check_values(named(*overall, sample.name), {6}, sample.dtype, sample.values);
  }
}

TEST_CASE("a PyTorch model's safetensors file has its names, shapes and numbers", "[io][safetensors][host]") {
  const auto weights = shared_weights("multi_layer.safetensors");
  if (!weights) return;
  const std::vector<std::pair<std::string, Shape>> expected = {{"norm1.num_batches_tracked", {}},
                                                               {"conv1.bias", {4}},
                                                               {"conv1.weight", {4, 3, 3, 3}},
                                                               {"fc1.bias", {16}},
                                                               {"fc1.weight", {16, 256}},
                                                               {"norm1.bias", {4}},
                                                               {"norm1.running_mean", {4}},
                                                               {"norm1.running_var", {4}},
                                                               {"norm1.weight", {4}}};
  REQUIRE(weights->tensors.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(weights->tensors[i].name == expected[i].first);
    CHECK(weights->tensors[i].value.shape() == expected[i].second);
  }
  CHECK(weights->metadata.empty());
  check_values(named(*weights, "norm1.num_batches_tracked"), {}, DType::int64, {1});
  check_values(named(*weights, "norm1.weight"), {4}, DType::float32, {1, 1, 1, 1});
  CHECK(named(*weights, "conv1.weight").at<float>(0, 0, 0, 0) == 0.09916245f);  // as NumPy prints them
  CHECK(named(*weights, "fc1.weight").at<float>(0, 0) == 0.059263416f);
}

TEST_CASE("the safetensors file of a model of MNIST has 20 tensors", "[io][safetensors][host]") {
  const auto weights = shared_weights("mnist_cnn_burn.safetensors");
  if (!weights) return;
  CHECK(weights->tensors.size() == 20);
  CHECK(named(*weights, "conv3.weight").shape() == Shape{24, 16, 3, 3});
  CHECK(named(*weights, "fc1.weight").shape() == Shape{32, 11616});
  CHECK(named(*weights, "fc2.weight").dtype() == DType::float32);
  check_values(named(*weights, "norm2.num_batches_tracked"), {}, DType::int64, {7504});
  CHECK(named(*weights, "conv1.bias").at<float>(0) == 0.10854441672563553f);  // NumPy's
  CHECK(named(*weights, "fc1.weight").at<float>(0, 0) == -0.0002291733107995242f);
}

TEST_CASE("the codes of a speech are read from a safetensors file", "[io][safetensors][host]") {
  const auto weights = shared_weights("jfk-codes.safetensors");
  if (!weights) return;
  const Tensor& codes = named(*weights, "codes");
  CHECK(codes.shape() == Shape{1, 2, 828});
  const std::vector<std::int64_t> values = codes.to_vector<std::int64_t>();
  CHECK(std::vector<std::int64_t>(values.begin(), values.begin() + 5) ==
        std::vector<std::int64_t>{865, 62, 408, 408, 475});  // NumPy's, as the sum
  std::int64_t sum = 0;
  for (const std::int64_t value : values) sum += value;
  CHECK(sum == 960640);
}

TEST_CASE("types of safetensors that Capstan does not have become wider ones", "[io][safetensors][host]") {
  check_values(read_one("U16", "[2]", {1, 0, 0xFF, 0xFF}), {2}, DType::int32, {1, 65535});
  check_values(read_one("U32", "[2]", {1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF}), {2}, DType::int64, {1, 4294967295.0});
  check_values(read_one("C64", "[1]", {0, 0, 0xC0, 0x3F, 0, 0, 0, 0xC0}), {1, 2}, DType::float32, {1.5, -2});
  Bytes largest(8, 0xFF);
  largest[7] = 0x7F;
  CHECK(read_one("U64", "[]", largest).item<std::int64_t>() == std::numeric_limits<std::int64_t>::max());
  check_values(read_one("BF16", "[2]", {0xC0, 0x3F, 0x00, 0xC0}), {2}, DType::bfloat16, {1.5, -2});
}

TEST_CASE("all numbers of 8 bits of safetensors are those of their specification", "[io][safetensors][host]") {
  Bytes every(256);
  for (std::size_t i = 0; i < every.size(); ++i) every[i] = static_cast<unsigned char>(i);
  const auto check = [&](const std::string& dtype, auto expected) {
    const std::vector<float> numbers = read_one(dtype, "[256]", every).to_vector<float>();
    for (int byte = 0; byte < 256; ++byte) {
      INFO(dtype << " " << byte);
      const double wanted = expected(byte);
      const float number = numbers[static_cast<std::size_t>(byte)];
      if (std::isnan(wanted)) CHECK(std::isnan(number));
      else CHECK((number == wanted && std::signbit(number) == std::signbit(wanted)));
    }
  };
  // OCP 8-bit Floating Point Specification 1.0, table 1: bias 7, no infinity; 448 is the largest
  check("F8_E4M3", [](int byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    if (exponent == 15 && mantissa == 7) return tests::kNaN;
    const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return byte < 128 ? size : -size;
  });
  check("F8_E5M2", [](int byte) {  // bias 15, with infinity and NaN as in IEEE 754; 57344 is the largest
    const int exponent = byte >> 2 & 31, mantissa = byte & 3;
    if (exponent == 31 && mantissa != 0) return tests::kNaN;
    const double size = exponent == 31  ? tests::kInfinity
                        : exponent == 0 ? std::ldexp(mantissa, -16)
                                        : std::ldexp(4 + mantissa, exponent - 17);
    return byte < 128 ? size : -size;
  });
  // OCP Microscaling Formats 1.0, 5.4.1: powers of two
  check("F8_E8M0", [](int byte) { return byte == 255 ? tests::kNaN : std::ldexp(1.0, byte - 127); });
  // arXiv:2206.02915: biases 8 and 16, and NaN where -0 would be; 240 and 57344 are the largest
  check("F8_E4M3FNUZ", [](int byte) {
    const int exponent = byte >> 3 & 15, mantissa = byte & 7;
    if (byte == 128) return tests::kNaN;
    const double size = exponent == 0 ? std::ldexp(mantissa, -10) : std::ldexp(8 + mantissa, exponent - 11);
    return byte < 128 ? size : -size;
  });
  check("F8_E5M2FNUZ", [](int byte) {
    const int exponent = byte >> 2 & 31, mantissa = byte & 3;
    if (byte == 128) return tests::kNaN;
    const double size = exponent == 0 ? std::ldexp(mantissa, -17) : std::ldexp(4 + mantissa, exponent - 18);
    return byte < 128 ? size : -size;
  });
  check_values(read_one("F8_E4M3FNUZ", "[3]", {0x7F, 0x01, 0xC0}), {3}, DType::float32, {240, 0x1p-10, -1});
  check_values(read_one("F8_E5M2FNUZ", "[2]", {0x7F, 0x01}), {2}, DType::float32, {57344, 0x1p-17});
  check_values(read_one("F8_E4M3", "[3]", {0x7E, 0x01, 0xB8}), {3}, DType::float32, {448, 0x1p-9, -1});
  check_values(read_one("F8_E5M2", "[2]", {0x7B, 0x01}), {2}, DType::float32, {57344, 0x1p-16});
}

TEST_CASE("any byte but zero is true in a safetensors file", "[io][safetensors][host]") {
  const Tensor x = read_one("BOOL", "[4]", {0, 1, 2, 255});
  check_values(x, {4}, DType::bool8, {0, 1, 1, 1});
  CHECK(*reinterpret_cast<const unsigned char*>(x.data<bool>() + 3) == 1);
  check_values(read_one("BOOL", "[2]", {1, 0}), {2}, DType::bool8, {1, 0});
}

TEST_CASE("a safetensors file has 0 to 8 axes, of any size and none", "[io][safetensors][host]") {
  check_values(read_one("I8", "[]", {0xFF}), {}, DType::int8, {-1});
  check_values(read_one("I8", "[1,2,1,1,1,1,1,2]", Bytes(4, 0xFF)), {1, 2, 1, 1, 1, 1, 1, 2}, DType::int8,
               {-1, -1, -1, -1});
  check_values(read_one("F64", "[0]", {}), {0}, DType::float64, {});
  check_values(read_one("F64", "[2,0,3]", {}), {2, 0, 3}, DType::float64, {});
  check_values(read_one("I8", "[0,4611686018427387904]", {}), {0, std::int64_t{1} << 62}, DType::int8, {});
  check_values(read_one("C64", "[1,1,1,1,1,1,1]", Bytes(8)), {1, 1, 1, 1, 1, 1, 1, 2}, DType::float32, {0, 0});
  CHECK(read_bytes(safetensors_file("{}")).tensors.empty());
  CHECK(read_bytes(safetensors_file("{}      ")).tensors.empty());
}

TEST_CASE("tensors of a safetensors file come in the order of its header, wherever their elements are",
          "[io][safetensors][host]") {
  const auto weights = read_bytes(safetensors_file("{\"b\":" + safetensors_entry("\"U8\"", "[2]", "[1,3]") +
                                                       ",\"none\":" + safetensors_entry("\"F32\"", "[0]", "[1,1]") +
                                                       ",\"a\":" + safetensors_entry("\"U8\"", "[]", "[0,1]") + "}",
                                                   {7, 8, 9}));
  REQUIRE(weights.tensors.size() == 3);
  CHECK(weights.tensors[0].name == "b");
  check_values(weights.tensors[0].value, {2}, DType::uint8, {8, 9});
  CHECK(weights.tensors[1].name == "none");
  check_values(weights.tensors[1].value, {0}, DType::float32, {});
  CHECK(weights.tensors[2].name == "a");
  check_values(weights.tensors[2].value, {}, DType::uint8, {7});
}

TEST_CASE("the header of a safetensors file may be spelled in all ways that JSON has", "[io][safetensors][host]") {
  for (const std::string& header : std::vector<std::string>{
           R"({"a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"},"__metadata__":{"k":"v"}})",
           R"({ "__metadata__" : {"k" : "v"} , "a" : {"dtype" : "U8", "shape" : [ 2 ],)"
           R"( "data_offsets" : [ 0 , 2 ] } } )",
           "{\t\"__metadata__\":\r\n{\"k\":\"v\"},\"a\":" + safetensors_entry("\"U8\"", "[2]", "[0,2]") + "}\n \t\r",
           R"({"\u005f_metadata__":{"\u006B":"\u0076"},"\u0061":{"dtyp\u0065":"U\u0038","shape":[2],)"
           R"("data_offsets":[0,2]}})",
       }) {
    INFO(header);
    const Weights weights = read_bytes(safetensors_file(header, {1, 2}));
    CHECK(weights.metadata == Metadata{{"k", "v"}});
    REQUIRE(weights.tensors.size() == 1);
    CHECK(weights.tensors[0].name == "a");
    check_values(weights.tensors[0].value, {2}, DType::uint8, {1, 2});
  }
}

TEST_CASE("names and metadata of safetensors files are any text", "[io][safetensors][host]") {
  const Tensor x = cs::zeros({1});
  const std::string zero("a\0b", 3);
  const std::vector<std::string> names = {
      "gr\xC3\xB6\xC3\x9Fter", "\xF0\x9F\x98\x80", "\"\\/\b\f\n\r\t\x01\x1F\x7F", zero, " ", "dtype", "a.b.0",
      "\xEF\xBB\xBF"};
  std::vector<NamedTensor> tensors;
  Metadata metadata;
  for (const std::string& name : names) {
    tensors.push_back({name, x});
    metadata.emplace_back(name, name + name);
  }
  metadata.emplace_back("", "");
  const Weights weights = read_bytes(written(tensors, metadata));
  CHECK(weights.metadata == metadata);
  CHECK(weights.tensors.size() == names.size());
  for (const std::string& name : names) CHECK(named(weights, name).numel() == 1);
}

TEST_CASE("surrogates of names in safetensors files become one character", "[io][safetensors][host]") {
  const Weights weights =
      read_bytes(safetensors_file(R"({"\ud83d\ude00":)" + safetensors_entry("\"U8\"", "[1]", "[0,1]") + "}", {5}));
  CHECK(named(weights, "\xF0\x9F\x98\x80").numel() == 1);
}

// --- pages of the file -------------------------------------------------------------------------------------------

TEST_CASE("tensors of a safetensors file share its pages, and writing to them leaves it as it was",
          "[io][safetensors][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path(kName);
  const std::int64_t count = 1 << 20;
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"flags", cs::ones({5}, {.dtype = DType::bool8})},
                                                          {"numbers", cs::ones({4, count})}});
  const Bytes before = tests::file_bytes(path);
  Tensor numbers, flags;
  const std::int64_t peak = tests::peak_bytes([&] {
    const Weights weights = cs::io::read_safetensors(path);
    numbers = named(weights, "numbers");
    flags = named(weights, "flags");
  });
  CHECK(peak < 1 << 22);  // the elements are 16 MB
  CHECK(file_mapped_at(numbers.data<float>()) == path);
  CHECK(file_mapped_at(flags.data<bool>()) == path);
  numbers.fill(2);  // what was read with it is gone
  CHECK(numbers.at<float>(3, count - 1) == 2);
  CHECK(cs::sum(numbers).item<float>() == 8.0f * static_cast<float>(count));
  CHECK(tests::file_bytes(path) == before);
  CHECK(named(cs::io::read_safetensors(path), "numbers").at<float>(3, 0) == 1);
}

TEST_CASE("a safetensors file may be replaced or removed while its tensors are used", "[io][safetensors][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path(kName);
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", cs::full({1000}, 3)}});
  const Tensor old = cs::io::read_safetensors(path).tensors.at(0).value;
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", old * 2}});
  const Tensor replaced = cs::io::read_safetensors(path).tensors.at(0).value;
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", replaced}});  // over the very file it comes from
  std::filesystem::remove(path);
  CHECK(tests::values(old) == std::vector<double>(1000, 3));
  CHECK(tests::values(replaced) == std::vector<double>(1000, 6));
}

TEST_CASE("elements of a safetensors file that are not aligned are copied", "[io][safetensors][host]") {
  const TemporaryFolder folder;
  for (std::size_t blanks = 0; blanks < 8; ++blanks) {
    INFO(blanks);
    const Bytes elements = {0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0};
    const std::string header = safetensors_header("\"F32\"", "[2]", "[0,8]") + std::string(blanks, ' ');
    const std::string path = folder.write(kName, safetensors_file(header, elements));
    const Tensor x = cs::io::read_safetensors(path).tensors.at(0).value;
    check_values(x, {2}, DType::float32, {1, -2});
    CHECK((file_mapped_at(x.data<float>()) == path) == ((8 + header.size()) % 4 == 0));
  }
}

TEST_CASE("a safetensors file of 100,000 tensors is written and read in linear time", "[io][safetensors][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path(kName);
  const std::int64_t count = 100000;
  const Tensor numbers = cs::arange(count).to(DType::float32);
  std::vector<NamedTensor> tensors;
  for (std::int64_t i = 0; i < count; ++i) tensors.push_back({"layer." + std::to_string(i), numbers[i]});
  const auto start = std::chrono::steady_clock::now();
  cs::io::save_safetensors(path, tensors);
  const Weights weights = cs::io::read_safetensors(path);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  REQUIRE(weights.tensors.size() == tensors.size());
  std::size_t right = 0;
  for (const NamedTensor& tensor : weights.tensors)
    if (tensor.value.item<float>() == std::stof(tensor.name.substr(6))) ++right;
  CHECK(right == tensors.size());
  CHECK(seconds.count() < 10);  // with sanitizers; comparing each with each would be 5e9 comparisons of names
}

// --- writing -----------------------------------------------------------------------------------------------------

// Expected bytes: safetensors 0.8.0, safetensors.torch.save and safetensors.numpy.save with PyTorch 2.15 and NumPy 2.4.
TEST_CASE("a safetensors file written here is the package's byte for byte", "[io][safetensors][host]") {
  const auto tensor = [](const std::vector<double>& numbers, const Shape& shape, DType dtype) {
    return tests::from_doubles(numbers, shape, dtype);
  };
  const std::vector<NamedTensor> types = {
      {"b", tensor({1, 0, 1}, {3}, DType::bool8)},         {"u1", tensor({0, 1, 255}, {3}, DType::uint8)},
      {"i1", tensor({-128, 0, 127}, {3}, DType::int8)},    {"i2", tensor({-32768, 1}, {2}, DType::int16)},
      {"i4", tensor({-1, 2}, {1, 2}, DType::int32)},       {"i8", tensor({-2, 0x1p62}, {2}, DType::int64)},
      {"f2", tensor({1.5, -2}, {2}, DType::float16)},      {"bf", tensor({1.5, -2}, {2}, DType::bfloat16)},
      {"f4", tensor({1.5, -0.1}, {2, 1}, DType::float32)}, {"f8", tensor({0.1}, {}, DType::float64)},
  };
  CHECK(written(types, {{"format", "pt"}}) ==
        from_hex("58020000000000007b225f5f6d657461646174615f5f223a7b22666f726d6174223a227074227d2c226938223a7b22647479"
                 "7065223a22493634222c227368617065223a5b325d2c22646174615f6f666673657473223a5b302c31365d7d2c226638223a"
                 "7b226474797065223a22463634222c227368617065223a5b5d2c22646174615f6f666673657473223a5b31362c32345d7d2c"
                 "226634223a7b226474797065223a22463332222c227368617065223a5b322c315d2c22646174615f6f666673657473223a5b"
                 "32342c33325d7d2c226934223a7b226474797065223a22493332222c227368617065223a5b312c325d2c22646174615f6f66"
                 "6673657473223a5b33322c34305d7d2c226266223a7b226474797065223a2242463136222c227368617065223a5b325d2c22"
                 "646174615f6f666673657473223a5b34302c34345d7d2c226632223a7b226474797065223a22463136222c22736861706522"
                 "3a5b325d2c22646174615f6f666673657473223a5b34342c34385d7d2c226932223a7b226474797065223a22493136222c22"
                 "7368617065223a5b325d2c22646174615f6f666673657473223a5b34382c35325d7d2c226931223a7b226474797065223a22"
                 "4938222c227368617065223a5b335d2c22646174615f6f666673657473223a5b35322c35355d7d2c227531223a7b22647479"
                 "7065223a225538222c227368617065223a5b335d2c22646174615f6f666673657473223a5b35352c35385d7d2c2262223a7b"
                 "226474797065223a22424f4f4c222c227368617065223a5b335d2c22646174615f6f666673657473223a5b35382c36315d7d"
                 "7d20202020202020feffffffffffffff00000000000000409a9999999999b93f0000c03fcdccccbdffffffff02000000c03f"
                 "00c0003e00c00080010080007f0001ff010001"));
  const std::vector<NamedTensor> names = {
      {"b", cs::zeros({1})},
      {"B", cs::ones({1})},
      {"\xC3\xA4\"\\/\n\x01\x7F\xE2\x82\xAC\xF0\x9F\x98\x80\b\f\r\t", cs::full({}, 2)}};
  CHECK(written(names) ==
        from_hex("c0000000000000007b2242223a7b226474797065223a22463332222c227368617065223a5b315d2c22646174615f6f666673"
                 "657473223a5b302c345d7d2c2262223a7b226474797065223a22463332222c227368617065223a5b315d2c22646174615f6f"
                 "666673657473223a5b342c385d7d2c22c3a45c225c5c2f5c6e5c75303030317fe282acf09f98805c625c665c725c74223a7b"
                 "226474797065223a22463332222c227368617065223a5b5d2c22646174615f6f666673657473223a5b382c31325d7d7d2020"
                 "0000803f0000000000000040"));
  const std::vector<NamedTensor> sizes = {{"z", cs::zeros({0, 3}, {.dtype = DType::float64})},
                                          {"a", tensor({7, 8}, {2}, DType::uint8)},
                                          {"s", tensor({-5}, {}, DType::int32)},
                                          {"y", cs::zeros({2, 0}, {.dtype = DType::uint8})}};
  CHECK(written(sizes) ==
        from_hex("d8000000000000007b227a223a7b226474797065223a22463634222c227368617065223a5b302c335d2c22646174615f6f66"
                 "6673657473223a5b302c305d7d2c2273223a7b226474797065223a22493332222c227368617065223a5b5d2c22646174615f"
                 "6f666673657473223a5b302c345d7d2c2261223a7b226474797065223a225538222c227368617065223a5b325d2c22646174"
                 "615f6f666673657473223a5b342c365d7d2c2279223a7b226474797065223a225538222c227368617065223a5b322c305d2c"
                 "22646174615f6f666673657473223a5b362c365d7d7d2020fbffffff0708"));
  CHECK(written({}) == from_hex("08000000000000007b7d202020202020"));
}

TEST_CASE("what is written as safetensors is read again, for every type and rank", "[io][safetensors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path(kName);
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kTypes)
    for (const Shape& shape :
         {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{2, 0, 3}, Shape{2, 1, 2, 1, 2, 1, 2, 1}, Shape{12347}})
      tensors.push_back({std::string(cs::name(dtype)) + cs::to_string(shape), tests::random_in(0, 100, shape, dtype)});
  cs::io::save_safetensors(path, tensors);
  const Weights weights = cs::io::read_safetensors(path);
  REQUIRE(weights.tensors.size() == tensors.size());
  for (const NamedTensor& tensor : tensors) {
    const Tensor& again = named(weights, tensor.name);
    CHECK(again.device() == cs::default_device());
    CHECK(tests::same(again, tensor.value));
  }
}

TEST_CASE("special floating numbers keep their bits in safetensors files", "[io][safetensors][host]") {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> numbers = {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -0.0f, 1e-45f,
                                      Limits::max()};
  const Weights weights = read_bytes(written({{"x", cs::from_vector(numbers)}}));
  CHECK(tests::same_bits(weights.tensors.at(0).value.to_vector<float>(), numbers));
}

TEST_CASE("views are written to safetensors files row-major", "[io][safetensors][host]") {
  const Tensor x = cs::arange(6).to(DType::float32);
  const Weights weights = read_bytes(written({{"transposed", cs::transpose(cs::reshape(x, {2, 3}))},
                                              {"reversed", x.index({cs::range(5, -7, -2)})},
                                              {"stretched", cs::broadcast_to(Tensor(2.0f), {2, 2})}}));
  check_values(named(weights, "transposed"), {3, 2}, DType::float32, {0, 3, 1, 4, 2, 5});
  check_values(named(weights, "reversed"), {3}, DType::float32, {5, 3, 1});
  check_values(named(weights, "stretched"), {2, 2}, DType::float32, {2, 2, 2, 2});
}

TEST_CASE("every tensor of a written safetensors file begins at a multiple of its elements' size",
          "[io][safetensors][host]") {
  const TemporaryFolder folder;
  std::vector<NamedTensor> tensors;
  for (const DType dtype : kTypes) tensors.push_back({cs::name(dtype), cs::zeros({3}, {.dtype = dtype})});
  const std::string path = folder.path(kName);
  cs::io::save_safetensors(path, tensors);
  const Weights weights = cs::io::read_safetensors(path);
  CHECK(file_mapped_at(named(weights, "float64").data<double>()) == path);
  CHECK(file_mapped_at(named(weights, "int64").data<std::int64_t>()) == path);
  CHECK(file_mapped_at(named(weights, "float32").data<float>()) == path);
  CHECK(file_mapped_at(named(weights, "bfloat16").data<cs::bfloat16>()) == path);
  CHECK(file_mapped_at(named(weights, "int16").data<std::int16_t>()) == path);
}

TEST_CASE("a parameter is written to a safetensors file while a tape follows it", "[io][safetensors][host]") {
  const cs::Parameter weight(cs::ones({2, 2}));
  cs::GradientTape tape;
  const Tensor loss = cs::sum(weight * weight);
  const Weights weights = read_bytes(written({{"weight", cs::transpose(weight)}}));
  check_values(weights.tensors.at(0).value, {2, 2}, DType::float32, {1, 1, 1, 1});
  CHECK(tests::values(tape.gradient(loss, weight)) == std::vector<double>(4, 2));
}

// A row's __LINE__ must stand on the line of its call.
// clang-format off
TEST_CASE("names and tensors that no safetensors file can hold are not written", "[io][safetensors][host][errors]") {
  const std::string path = "/no/such/folder/x.safetensors", start = "save_safetensors: " + path + ": ";
  const Tensor x = cs::zeros({2}), none, large = cs::broadcast_to(Tensor(1.0), {std::int64_t{1} << 60});
  const auto save = [&](const std::vector<NamedTensor>& tensors, const Metadata& metadata, cs::Where where) {
    cs::io::save_safetensors(path, tensors, metadata, where);
  };
  using cs::Where;
  tests::check_errors({
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"", x}}, {}, Where::current()); },
       start + "a tensor has no name; give it one."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"__metadata__", x}}, {}, Where::current()); },
       start + "a tensor is called '__metadata__'; the format keeps that name."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"ab\xC3", x}}, {}, Where::current()); },
       start + "the name of tensor 'ab\\xC3' is no UTF-8 from byte 2 on; it must be."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"b", x}, {"a", x}, {"b", x}}, {}, Where::current()); },
       start + "two tensors are called 'b'; names must be different."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"a", x}, {"b", none}}, {}, Where::current()); },
       start + "tensor 'b' is undefined; give it a value first."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"a", large}}, {}, Where::current()); },
       start + "tensor 'a' of shape [1152921504606846976] makes the file larger than 2^63 bytes; no file can be."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"a", x}}, {{"k", "1"}, {"k", "2"}}, Where::current()); },
       start + "two metadata are called 'k'; names must be different."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"a", x}}, {{"\xFF", "1"}}, Where::current()); },
       start + "the name of metadata '\\xFF' is no UTF-8 from byte 0 on; it must be."},
      {__LINE__, tests::message_of<cs::Error>, [&] { save({{"a", x}}, {{"k", "\xED\xA0\x80"}}, Where::current()); },
       start + "the metadata '\\xED\\xA0\\x80' is no UTF-8 from byte 0 on; it must be."},
      {__LINE__, tests::message_of<cs::IoError>, [&] { save({{"a", x}}, {}, Where::current()); },
       start + "cannot be made: No such file or directory; its folder must exist and be writable."},
      {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::save_safetensors("", std::vector<NamedTensor>{}); },
       "save_safetensors: the name of the file is empty; it must have one."},
      {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::read_safetensors("/no/such/folder/x.safetensors"); },
       "read_safetensors: /no/such/folder/x.safetensors: cannot be opened: No such file or directory; it must exist and be readable."},
  }, "safetensors_test.cpp");
}
// clang-format on

TEST_CASE("a safetensors file that cannot be written anew stays as it was", "[io][safetensors][host][errors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path(kName);
  cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", cs::ones({3})}});
  const Bytes before = tests::file_bytes(path);
  CHECK_THROWS_AS(cs::io::save_safetensors(path, std::vector<NamedTensor>{{"x", cs::ones({3})}, {"y", Tensor()}}),
                  cs::Error);
  CHECK(tests::file_bytes(path) == before);
}
