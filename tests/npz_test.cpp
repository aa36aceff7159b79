// .npz files: NumPy's, every form that a zip archive may have, and files written here.
#include <sys/resource.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/files.hpp"
#include "tests/npy_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using cs::NamedTensor;
using tests::Bytes;
using tests::TemporaryFolder;
using tests::without_minizip;
using tests::ZipPart;

std::vector<NamedTensor> read_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  return cs::io::read_npz(folder.write("values.npz", bytes));
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

bool is_count(const cs::Tensor& x, int count) { return tests::same(x, cs::arange(count).to(cs::DType::uint8)); }

bool same(const std::vector<NamedTensor>& actual, const std::vector<NamedTensor>& expected) {
  if (names_of(actual) != names_of(expected)) return false;
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (!tests::same(actual[i].value, expected[i].value)) return false;
  return true;
}

std::vector<NamedTensor> some_tensors() {
  return {{"w", tests::random_in(-1, 1, {3, 4}, cs::DType::float32)},
          {"layer1/bias", tests::random_in(-1, 1, {5}, cs::DType::float64)},
          {"step", cs::Tensor(std::int64_t{12})},
          {"none", cs::zeros({0, 3})},
          {"w:0", cs::Tensor{true, false}},
          {"\xC3\xBC", cs::arange(100000)}};  // u with two dots, in UTF-8
}

}  // namespace

// --- reading -----------------------------------------------------------------------------------------------------

TEST_CASE("the .npz files that NumPy wrote hold what their collection states", "[io][npz][host]") {
  if (tests::shared_data("npy/numpy_1_24_2").empty()) return;
  for (const std::string name : {"arrays_stored.npz", "arrays_deflated.npz"}) {
    INFO(name);
    const std::vector<NamedTensor> arrays = cs::io::read_npz(tests::shared_data("npy/numpy_1_24_2/" + name));
    REQUIRE(names_of(arrays) == std::vector<std::string>{"w", "b", "labels"});
    CHECK(tests::same(arrays[0].value, cs::reshape(cs::arange(12).to(cs::DType::float32) / 4, {3, 4})));
    CHECK(tests::same(arrays[1].value, cs::Tensor{-1.0, 0.0, 1.0}));
    CHECK(tests::same(arrays[2].value, cs::Tensor{7, 2, 1}.to(cs::DType::uint8)));
  }
}

TEST_CASE("the .npz files of candle and of the ONNX model zoo are read", "[io][npz][host]") {
  if (const std::string path = tests::shared_data("npy/candle/test.npz"); !path.empty()) {
    const std::vector<NamedTensor> arrays = cs::io::read_npz(path);
    REQUIRE(names_of(arrays) == std::vector<std::string>{"x", "x_plus_one"});
    CHECK(tests::same(arrays[0].value, cs::arange(10)));
    CHECK(tests::same(arrays[1].value, cs::arange(1, 11)));
  }
  for (const std::string number : {"0", "1", "2"}) {
    const std::string path = tests::shared_data("onnx/mnist_cntk/test_data_" + number + ".npz");
    if (path.empty()) return;
    const std::vector<NamedTensor> arrays = cs::io::read_npz(path);
    REQUIRE(names_of(arrays) == std::vector<std::string>{"outputs", "inputs"});  // the order of the archive
    CHECK(arrays[0].value.shape() == cs::Shape{1, 10});
    CHECK(arrays[1].value.shape() == cs::Shape{1, 28, 28});
    CHECK(tests::number(cs::max(arrays[1].value)) == 1);  // README: 0..1
    CHECK(tests::number(cs::min(arrays[1].value)) == 0);
  }
}

TEST_CASE("archives are read in all forms: deflated, with data descriptors, with ZIP64, with comments",
          "[io][npz][host]") {
  const Bytes long_content = tests::npy_count(200);
  std::vector<ZipPart> parts;
  for (const bool deflated : {false, true})
    for (const bool zip64 : {false, true})
      for (const bool zip64_directory : {false, true})
        for (const int descriptor : {0, 12, 16, 20, 24}) {
          const std::string name = std::to_string(parts.size()) + ".npy";
          parts.push_back({name, long_content, deflated, descriptor, zip64, zip64_directory, "a comment"});
        }
  for (const bool zip64_end : {false, true}) {
    for (const std::string& comment : {std::string(), std::string("of the archive"), std::string(60000, 'c')}) {
      const std::vector<NamedTensor> arrays = read_file(tests::zip_archive(parts, zip64_end, comment).bytes);
      REQUIRE(arrays.size() == parts.size());
      for (std::size_t i = 0; i < arrays.size(); ++i) {
        INFO(i);
        CHECK(arrays[i].name == std::to_string(i));
        CHECK(is_count(arrays[i].value, 200));
      }
    }
  }
}

TEST_CASE("an archive without entries is no tensors", "[io][npz][host]") {
  CHECK(read_file(tests::zip_archive({}).bytes).empty());
  CHECK(read_file(tests::zip_archive({}, true).bytes).empty());
}

TEST_CASE("tensors come in the order of the directory, wherever their data are", "[io][npz][host]") {
  const tests::ZipArchive zip = tests::zip_archive(
      {{.name = "a.npy", .content = tests::npy_count(1)}, {.name = "b.npy", .content = tests::npy_count(2)}});
  const auto at = [&](std::size_t offset) { return zip.bytes.begin() + static_cast<std::ptrdiff_t>(offset); };
  Bytes bytes(zip.bytes.begin(), at(zip.directory));
  bytes.insert(bytes.end(), at(zip.record[1]), at(zip.end));
  bytes.insert(bytes.end(), at(zip.record[0]), at(zip.record[1]));
  bytes.insert(bytes.end(), at(zip.end), zip.bytes.end());
  const std::vector<NamedTensor> arrays = read_file(bytes);
  REQUIRE(names_of(arrays) == std::vector<std::string>{"b", "a"});
  CHECK(is_count(arrays[0].value, 2));
  CHECK(is_count(arrays[1].value, 1));
}

TEST_CASE("names in archives may have folders, dots, colons and letters of all languages", "[io][npz][host]") {
  const std::vector<std::string> names = {"encoder/layer.0/w", "w:0", "..w", "a b", ".hidden", "\xE5\xB1\xA4"};
  std::vector<ZipPart> parts;
  for (const std::string& name : names) parts.push_back({.name = name + ".npy"});
  CHECK(names_of(read_file(tests::zip_archive(parts).bytes)) == names);
}

TEST_CASE("many small entries are read in time that grows with their number", "[io][npz][host]") {
  std::vector<ZipPart> parts;
  for (int i = 0; i < 3000; ++i) parts.push_back({.name = std::to_string(i) + ".npy"});
  CHECK(read_file(tests::zip_archive(parts).bytes).size() == 3000);
}

// --- writing -----------------------------------------------------------------------------------------------------

TEST_CASE("what is written as .npz is read again, stored and deflated", "[io][npz][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string stored = folder.path("stored.npz"), deflated = folder.path("deflated.npz");
  const std::vector<NamedTensor> tensors = some_tensors();
  cs::io::write_npz(stored, tensors);
  cs::io::write_npz(deflated, tensors, {.compress = true});
  CHECK(same(cs::io::read_npz(stored), tensors));
  CHECK(same(cs::io::read_npz(deflated), tensors));
  CHECK(std::filesystem::file_size(deflated) * 2 < std::filesystem::file_size(stored));
  cs::io::write_npz(stored, {});
  CHECK(cs::io::read_npz(stored).empty());
}

TEST_CASE("equal tensors give equal .npz files", "[io][npz][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string first = folder.path("first.npz"), second = folder.path("second.npz");
  for (const bool compress : {false, true}) {
    cs::io::write_npz(first, some_tensors(), {.compress = compress});
    cs::io::write_npz(second, some_tensors(), {.compress = compress});
    CHECK(tests::file_bytes(first) == tests::file_bytes(second));
  }
}

TEST_CASE("views are written to .npz files row-major", "[io][npz][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const cs::Tensor x = tests::random_in(-1, 1, {3, 4}, cs::DType::float32);
  const std::vector<NamedTensor> tensors = {{"x", cs::transpose(x)}, {"y", cs::broadcast_to(x[0], {2, 4})}};
  cs::io::write_npz(folder.path("x.npz"), tensors);
  CHECK(same(cs::io::read_npz(folder.path("x.npz")), tensors));
}

TEST_CASE("writing an .npz file records nothing on a tape", "[io][npz][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const cs::Parameter weight(cs::ones({2, 3}));
  cs::GradientTape tape;
  const std::vector<NamedTensor> tensors = {{"transposed", cs::transpose(weight)}};
  const std::int64_t before = tape.size();
  CHECK(before > 0);
  cs::io::write_npz(folder.path("x.npz"), tensors);
  CHECK(tape.size() == before);
}

// A row's __LINE__ must stand on the line of its call.
// clang-format off
TEST_CASE("tensors and names that an .npz file cannot hold are not written", "[io][npz][host][errors]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npz"), relative = "; names must be relative paths.";
  const cs::Tensor x = cs::ones({2});
  const auto write = [&](const std::vector<NamedTensor>& tensors) { cs::io::write_npz(path, tensors); };
  write({{"x", x}});
  const Bytes before = tests::file_bytes(path);
  const auto message = [&](const std::vector<NamedTensor>& tensors) {
    const auto text = tests::message_of<cs::Error>([&] { write(tensors); });
    return tests::split_message(text).text;
  };
  CHECK(message({{"", x}}) == "write_npz: a tensor has no name; give it one.");
  CHECK(message({{"/x", x}}) == "write_npz: tensor '/x' has an absolute path as its name" + relative);
  CHECK(message({{"C:\\x", x}}) == "write_npz: tensor 'C:\\x5Cx' has an absolute path as its name" + relative);
  CHECK(message({{"../x", x}}) == "write_npz: tensor '../x' leads out of its folder" + relative);
  CHECK(message({{"a/../x", x}}) == "write_npz: tensor 'a/../x' leads out of its folder" + relative);
  CHECK(message({{std::string("a\0b", 3), x}}) == "write_npz: tensor 'a\\x00b' has a zero byte in its name" + relative);
  CHECK(message({{"\xC3", x}}) == "write_npz: the name '\\xC3' is no UTF-8; it must be.");
  CHECK(message({{"a", x}, {"b", x}, {"a", x}}) == "write_npz: two tensors are called 'a'; names must be different.");
  CHECK(message({{std::string(65532, 'n'), x}}) ==
        "write_npz: the name of tensor '" + std::string(60, 'n') + "...' has 65532 bytes; it must have at most 65531.");
  CHECK(message({{"x", {}}}) == "write_npz: tensor 'x': the tensor is undefined; give it a value first.");
  const std::vector<NamedTensor> half = {{"x", x}, {"y", cs::zeros({2}, {.dtype = cs::DType::bfloat16})}};
  tests::check_errors({
      {__LINE__, tests::message_of<cs::DTypeError>, [&] { cs::io::write_npz(path, half); },
       "write_npz: tensor 'y': the tensor is bfloat16, which NumPy does not have; cast it first, for example by x.to(DType::float32)."},
      {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::write_npz("/no/such/folder/x.npz", {}); },
       "write_npz: /no/such/folder/x.npz: cannot be made: No such file or directory; its folder must exist and be writable."},
      {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::write_npz("", {}); },
       "write_npz: the name of the file is empty; it must have one."},
  }, "npz_test.cpp");
  CHECK(tests::file_bytes(path) == before);
}
// clang-format on

TEST_CASE("the longest name that an .npz file can hold is written and read", "[io][npz][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors = {{std::string(65531, 'n'), cs::ones({2})}};
  cs::io::write_npz(folder.path("x.npz"), tensors);
  CHECK(same(cs::io::read_npz(folder.path("x.npz")), tensors));
}

TEST_CASE("a disk that is full leaves the old .npz file as it was", "[io][npz][host][errors]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npz");
  cs::io::write_npz(path, some_tensors());
  const std::vector<NamedTensor> large = {{"large", tests::random_in(0, 1, {1 << 18})}};  // 2 MB, also deflated
  const Bytes before = tests::file_bytes(path);
  for (const bool compress : {false, true}) {
    rlimit all{};
    REQUIRE(getrlimit(RLIMIT_FSIZE, &all) == 0);
    rlimit little = all;
    little.rlim_cur = 1 << 20;
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
    std::string text;
    try {
      cs::io::write_npz(path, large, {.compress = compress});
    } catch (const cs::IoError& error) { text = error.what(); }
    setrlimit(RLIMIT_FSIZE, &all);
    std::signal(SIGXFSZ, handler);
    CHECK(tests::split_message(text).text.rfind("write_npz: " + path + ": cannot be written: ", 0) == 0);
    CHECK(tests::file_bytes(path) == before);
  }
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path(""))) files += file.exists() ? 1 : 0;
  CHECK(files == 1);
}

TEST_CASE("a build without minizip says which package brings it", "[io][npz][host][errors]") {
  try {
    cs::io::write_npz("/no/such/folder/x.npz", {});
  } catch (const cs::BackendError& error) {
    CHECK(tests::split_message(error.what()).text ==
          "write_npz: this build has no minizip; install libminizip-dev (Debian, Ubuntu) and build again.");
  } catch (const cs::IoError& error) {
    CHECK(tests::split_message(error.what()).text.rfind("write_npz: /no/such/folder/x.npz: ", 0) == 0);
  }
}
