// PyTorch's files: those of torch.save with the tensors that it saved, what other versions wrote otherwise, and files
// written here. tests/peers/state_dict.py lets PyTorch read the latter.
#include <string>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/pickles.hpp"
#include "tests/state_dict_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using cs::NamedTensor;
using tests::Bytes;
using tests::TemporaryFolder;
using tests::without_minizip;

std::vector<NamedTensor> read_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  return cs::io::read_state_dict(folder.write("x.pt", bytes));
}

std::vector<NamedTensor> read_saved(const std::string& name) {
  for (const tests::SavedFile& file : tests::saved_files)
    if (file.name == name) return read_file(tests::unpacked(file.bytes, file.packed));
  FAIL("there is no file " << name);
  return {};
}

cs::Tensor tensor_of(const std::vector<NamedTensor>& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return tensor.value;
  FAIL("there is no tensor " << name);
  return {};
}

/// The same names in the same order, and the same tensors.
bool same(const std::vector<NamedTensor>& actual, const std::vector<NamedTensor>& expected) {
  if (actual.size() != expected.size()) return false;
  for (std::size_t i = 0; i < actual.size(); ++i)
    if (actual[i].name != expected[i].name || !tests::same(actual[i].value, expected[i].value)) return false;
  return true;
}

/// Every type, and every kind of shape and of strides.
std::vector<NamedTensor> some_tensors() {
  const std::vector<double> numbers = {0, 1, 2, 3, 4, 5};
  std::vector<NamedTensor> tensors;
  for (const cs::DType dtype :
       {cs::DType::float32, cs::DType::float64, cs::DType::float16, cs::DType::bfloat16, cs::DType::int8,
        cs::DType::int16, cs::DType::int32, cs::DType::int64, cs::DType::uint8, cs::DType::bool8})
    tensors.push_back({std::string("types.") + cs::name(dtype), tests::from_doubles(numbers, {2, 3}, dtype)});
  tensors.push_back({"scalar", cs::Tensor(3.5)});
  tensors.push_back({"none", cs::zeros({2, 0, 3})});
  tensors.push_back({"", tests::from_doubles({1, -1}, {1, 1, 1, 1, 1, 1, 1, 2})});
  tensors.push_back(
      {"gr\xC3\xB6\xC3\x9F"
       "e",
       cs::arange(70000)});  // sizes of three bytes
  tensors.push_back({"transposed", cs::transpose(tests::from_doubles(numbers, {2, 3}))});
  return tensors;
}

}  // namespace

// --- reading -----------------------------------------------------------------------------------------------------

TEST_CASE("files of torch.save hold the tensors that were saved", "[io][state_dict][host]") {
  for (const tests::SavedFile& file : tests::saved_files) {
    INFO(file.name);
    const std::vector<NamedTensor> tensors = read_file(tests::unpacked(file.bytes, file.packed));
    REQUIRE(tensors.size() == file.tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const tests::SavedTensor& expected = file.tensors[i];
      const cs::Tensor& x = tensors[i].value;
      INFO(expected.name);
      CHECK(tensors[i].name == expected.name);
      CHECK(std::string(cs::name(x.dtype())) == expected.dtype);
      CHECK(std::vector<std::int64_t>(x.shape().begin(), x.shape().end()) == expected.sizes);
      CHECK(tests::values(x) == expected.values);
      CHECK(x.device() == cs::default_device());
      CHECK(x.is_contiguous());
    }
  }
}

TEST_CASE("names for the same elements are handles to one tensor, and other views are copies",
          "[io][state_dict][host]") {
  const std::vector<NamedTensor> tensors = read_saved("views");
  const cs::Tensor whole = tensor_of(tensors, "whole");
  CHECK(tensor_of(tensors, "tied").is_same(whole));
  for (const char* name : {"column", "transposed", "row", "inner", "stretched", "steps"})
    CHECK(!tensor_of(tensors, name).shares_storage(whole));
}

TEST_CASE("a file without an order of bytes, as versions before 2.0 wrote them, is little-endian",
          "[io][state_dict][host]") {
  const std::string program = tests::pickle(tests::pickled_dictionary(tests::pickled_tensor()));
  const cs::Tensor expected = tests::from_doubles({0, 1, 2, 3, 4, 5}, {2, 3}, cs::DType::float32);
  const auto tensors = read_file(tests::torch_archive(program, {{"0", tests::six_floats()}}, "").bytes);
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name == "w");
  CHECK(tests::same(tensors[0].value, expected));
}

TEST_CASE("a file of a big-endian machine has the values that were saved", "[io][state_dict][host]") {
  const std::string shorts = tests::pickled_tensor({.storage = tests::pickled_storage("1", 2, "Short"),
                                                    .sizes = tests::pickled_tuple({2}),
                                                    .strides = tests::pickled_tuple({1})});
  const std::string program = tests::pickle("](" + tests::pickled_tensor() + shorts + "e");
  Bytes floats = tests::six_floats();
  for (std::size_t i = 0; i < floats.size(); i += 4) {
    std::swap(floats[i], floats[i + 3]);
    std::swap(floats[i + 1], floats[i + 2]);
  }
  const auto tensors =
      read_file(tests::torch_archive(program, {{"0", floats}, {"1", {1, 2, 0xFF, 0xFE}}}, "big").bytes);
  REQUIRE(tensors.size() == 2);
  CHECK(tests::values(tensors[0].value) == std::vector<double>{0, 1, 2, 3, 4, 5});
  CHECK(tests::values(tensors[1].value) == std::vector<double>{258, -2});  // 0x0102, 0xFFFE
}

TEST_CASE("a storage that is deflated reads as one that is stored", "[io][state_dict][host]") {
  const std::string program = tests::pickle(tests::pickled_dictionary(tests::pickled_tensor()));
  const std::vector<std::pair<std::string, Bytes>> storages = {{"0", tests::six_floats()}};
  CHECK(same(read_file(tests::torch_archive(program, storages, "little", true).bytes),
             read_file(tests::torch_archive(program, storages).bytes)));
}

TEST_CASE("strides of axes of size 1 and of empty tensors may be anything", "[io][state_dict][host]") {
  const std::int64_t most = INT64_MAX;
  const std::string one =
      tests::pickled_tensor({.sizes = tests::pickled_tuple({1, 3}), .strides = tests::pickled_tuple({most, 2})});
  const std::string none = tests::pickled_tensor({.start = tests::pickled_number(most),
                                                  .sizes = tests::pickled_tuple({5, 0}),
                                                  .strides = tests::pickled_tuple({most, most})});
  const auto tensors = read_file(tests::torch_file(tests::pickle("](" + one + none + "e")));
  REQUIRE(tensors.size() == 2);
  CHECK(tests::values(tensors[0].value) == std::vector<double>{0, 2, 4});
  CHECK(tensors[1].value.shape() == cs::Shape{5, 0});
}

TEST_CASE("bytes of a bool that are neither 0 nor 1 are true", "[io][state_dict][host]") {
  const std::string flags = tests::pickled_tensor({.storage = tests::pickled_storage("0", 3, "Bool"),
                                                   .sizes = tests::pickled_tuple({3}),
                                                   .strides = tests::pickled_tuple({1})});
  const auto tensors = read_file(tests::torch_archive(tests::pickle(flags), {{"0", {0, 2, 255}}}).bytes);
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].value.to(cs::cpu()).to(cs::DType::uint8).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{0, 1, 1});
}

TEST_CASE("tuples may stand in each other 100000 deep", "[io][state_dict][host]") {
  CHECK(read_file(tests::torch_file(tests::pickle("N" + std::string(100000, '\x85')))).empty());
  const auto tensors = read_file(tests::torch_file(tests::pickle(tests::pickled_tensor() + std::string(50, '\x85'))));
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].name.size() == 50 + 49);  // 0.0.0...
}

TEST_CASE("long lists of small values beside the tensors are passed over", "[io][state_dict][host]") {
  const auto list = [](const std::string& item) {
    std::string program = tests::pickled_text("list") + "](";
    for (int i = 0; i < 300000; ++i) program += item;
    return program + "es";
  };
  const std::string memoize = tests::opcode(0x94);
  const std::string shared = ")N" + tests::opcode(0x85) + tests::keep_as(0) + "00";
  const std::string items = list(")") + list("N") + list("K7") + list(tests::kept(0)) + list("]" + memoize) +
                            list("}" + memoize) + list("N" + tests::opcode(0x88) + "M77");
  for (const std::string& values : {items, tests::pickled_text("laughs") + tests::pickled_laughs("N") + "s"}) {
    const std::string program = shared + "}" + tests::pickled_text("w") + tests::pickled_tensor() + "s" + values;
    const auto tensors = read_file(tests::torch_file(tests::pickle(program)));
    REQUIRE(tensors.size() == 1);
    CHECK(tensors[0].name == "w");
  }
}

TEST_CASE("integers of every opcode are read as they are", "[io][state_dict][host]") {
  const std::string keys[] = {"K" + tests::opcode(200),
                              "M" + tests::little_text(50000, 2),
                              "J" + tests::little_text(0xFFFFFFFE, 4),
                              tests::opcode(0x8a) + tests::opcode(0),
                              tests::opcode(0x8a) + tests::opcode(1) + tests::opcode(0x80),
                              tests::opcode(0x8b) + tests::little_text(3, 4) + tests::little_text(0x7FFFFF, 3),
                              tests::pickled_number(INT64_MIN)};
  std::string program = "}" + tests::pickled_tensor() + tests::keep_as(0) + "0";
  for (const std::string& key : keys) program += key + tests::kept(0) + "s";
  std::vector<std::string> names;
  for (const NamedTensor& tensor : read_file(tests::torch_file(tests::pickle(program)))) names.push_back(tensor.name);
  CHECK(names == std::vector<std::string>{"200", "50000", "-2", "0", "-128", "8388607", std::to_string(INT64_MIN)});
}

// --- writing -----------------------------------------------------------------------------------------------------

TEST_CASE("what save_state_dict writes reads as it was, in its order", "[io][state_dict][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.pt");
  cs::io::save_state_dict(path, some_tensors());
  CHECK(same(cs::io::read_state_dict(path), some_tensors()));
  cs::io::save_state_dict(path, {});
  CHECK(cs::io::read_state_dict(path).empty());
}

TEST_CASE("a file is read that has the magic of a tar archive in a name", "[io][state_dict][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.pt");
  int hits = 0;
  std::string again;
  for (int i = 0; i < 60; ++i) again += "ustar";
  for (std::size_t before = 0; before < 5; ++before) {
    const std::vector<NamedTensor> tensors = {{std::string(before, 'x') + again, tests::from_doubles({1, 2}, {2})}};
    cs::io::save_state_dict(path, tensors);
    const Bytes bytes = tests::file_bytes(path);
    if (std::string(bytes.begin() + 257, bytes.begin() + 262) == "ustar") ++hits;
    CHECK(same(cs::io::read_state_dict(path), tensors));
  }
  CHECK(hits == 1);
}

TEST_CASE("tied weights are written once and read as one tensor", "[io][state_dict][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.pt");
  const cs::Tensor x = tests::random_in(-1, 1, {100, 200}, cs::DType::float32), turned = cs::transpose(x);
  const std::vector<NamedTensor> tensors = {{"in", x},
                                            {"out", x},
                                            {"copy", x.copy()},
                                            {"turned", turned},
                                            {"again", turned},
                                            {"none", cs::zeros({0})},
                                            {"nothing", cs::zeros({0})}};
  cs::io::save_state_dict(path, tensors);
  const std::vector<NamedTensor> read = cs::io::read_state_dict(path);
  CHECK(same(read, tensors));
  CHECK(tensor_of(read, "in").is_same(tensor_of(read, "out")));
  CHECK(tensor_of(read, "turned").is_same(tensor_of(read, "again")));
  CHECK(!tensor_of(read, "in").is_same(tensor_of(read, "copy")));
  CHECK(!tensor_of(read, "in").is_same(tensor_of(read, "turned")));
  const Bytes bytes = tests::file_bytes(path);
  const std::string text(bytes.begin(), bytes.end());
  CHECK(text.find("archive/data/4") != std::string::npos);  // x, its copy, turned and two empty ones
  CHECK(text.find("archive/data/5") == std::string::npos);
  CHECK(bytes.size() < 4 * 100 * 200 * 4);
}

TEST_CASE("parameters that a tape watches are saved without being recorded", "[io][state_dict][host]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const cs::Parameter weight(tests::from_doubles({1, 2, 3, 4}, {2, 2}));
  cs::GradientTape tape;
  const std::vector<NamedTensor> tensors = {{"w", cs::transpose(weight)}};
  const std::int64_t before = tape.size();
  cs::io::save_state_dict(folder.path("x.pt"), tensors);
  CHECK(tape.size() == before);  // though the transpose had to be copied
  CHECK(tests::values(cs::io::read_state_dict(folder.path("x.pt"))[0].value) == std::vector<double>{1, 3, 2, 4});
}

TEST_CASE("tensors that PyTorch's dictionary cannot hold are errors, and the old file stays",
          "[io][state_dict][host][errors]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("x.pt");
  cs::io::save_state_dict(path, some_tensors());
  const Bytes before = tests::file_bytes(path);
  const cs::Tensor x(1.0f);
  const std::vector<NamedTensor> undefined = {{"a", x}, {"b", cs::Tensor()}}, twice = {{"a", x}, {"b", x}, {"a", x}},
                                 bytes = {{"\xFF", x}}, longest = {{std::string(65536, 'a'), x}};
  const auto message = [&](const std::vector<NamedTensor>& tensors) {
    return tests::split_message(tests::message_of<cs::Error>([&] { cs::io::save_state_dict(path, tensors); })).text;
  };
  CHECK(message(undefined) == "save_state_dict: tensor 'b' is undefined; give it a value first.");
  CHECK(message(twice) == "save_state_dict: two tensors are called 'a'; names must be different.");
  CHECK(message(bytes) == "save_state_dict: the name '\\xFF' is no UTF-8; it must be.");
  CHECK(message(longest).find("' has 65536 bytes; it must have at most 65535.") != std::string::npos);
  CHECK(tests::file_bytes(path) == before);
}

TEST_CASE("names that need a longer pickle than can be read are errors", "[io][state_dict][host][errors]") {
  const std::size_t longest = 65535;
  const cs::Tensor x(1.0f);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 1025; ++i) tensors.push_back({std::to_string(10000 + i) + std::string(longest - 5, 'a'), x});
  const TemporaryFolder folder;
  const std::string text = tests::split_message(tests::message_of<cs::Error>([&] {
                             cs::io::save_state_dict(folder.path("x.pt"), tensors);
                           })).text;
  CHECK(text.rfind("save_state_dict: the names and shapes of 1025 tensors need ", 0) == 0);
  CHECK(text.find(" bytes; they must need at most 67108864.") != std::string::npos);
}

TEST_CASE("a state_dict file that cannot be made is an IoError", "[io][state_dict][host][errors]") {
  if (without_minizip()) return;
  const TemporaryFolder folder;
  const std::string path = folder.path("none/x.pt");
  const auto message =
      tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::save_state_dict(path, some_tensors()); }));
  CHECK(message.text.rfind("save_state_dict: " + path + ": ", 0) == 0);
  CHECK(message.file == "state_dict_test.cpp");
  const std::string unnamed = tests::message_of<cs::IoError>([&] { cs::io::save_state_dict("", some_tensors()); });
  CHECK(tests::split_message(unnamed).text == "save_state_dict: the name of the file is empty; it must have one.");
}

TEST_CASE("a build without minizip says which package save_state_dict needs", "[io][state_dict][host][errors]") {
  try {
    cs::io::save_state_dict("/no/such/folder/x.pt", {});
    FAIL("there is no error");
  } catch (const cs::BackendError& error) {
    CHECK(tests::split_message(error.what()).text ==
          "save_state_dict: this build has no minizip; install libminizip-dev (Debian, Ubuntu) and build again.");
  } catch (const cs::IoError& error) {
    CHECK(tests::split_message(error.what()).text.rfind("save_state_dict: /no/such/folder/x.pt: ", 0) == 0);
  }
}
