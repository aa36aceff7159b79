// .npy files: those of NumPy with the values that their collection states, every spelling of a header, and files
// written here, which must be NumPy's own byte for byte.
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "io/output_file.hpp"
#include "tests/files.hpp"
#include "tests/npy_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using tests::Bytes;
using tests::npy_file;
using tests::npy_text;
using tests::TemporaryFolder;

cs::Tensor read_file(const Bytes& bytes) {
  const TemporaryFolder folder;
  return cs::io::read_npy(folder.write("values.npy", bytes));
}

/// What reading says between `read_npy: FILE: ` and the place in this source.
std::string message_for(const std::string& path) {
  const tests::Message message = tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::read_npy(path); }));
  CHECK(message.file == "npy_test.cpp");
  const std::string start = "read_npy: " + path + ": ";
  CHECK(message.text.rfind(start, 0) == 0);
  return message.text.substr(start.size());
}

std::string message_for(const Bytes& bytes) {
  const TemporaryFolder folder;
  return message_for(folder.write("values.npy", bytes));
}

/// A file of the collection; "" where it is not there.
std::string numpy_file(const std::string& name) { return tests::shared_data("npy/numpy_1_24_2/" + name); }

void check_values(const cs::Tensor& x, const cs::Shape& shape, cs::DType dtype, const std::vector<double>& expected) {
  CHECK(x.shape() == shape);
  CHECK(x.dtype() == dtype);
  CHECK(x.device() == cs::default_device());
  CHECK(x.is_contiguous());
  CHECK(tests::values(x) == expected);
}

std::vector<double> counted(int count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  return numbers;
}

struct NumpyFile {
  std::string name;
  cs::DType dtype;
  std::vector<double> values = {};
  cs::Shape shape = {2, 3};
};
/// As stated in the collection's README.
std::vector<NumpyFile> numpy_files() {
  const std::vector<double> numbers = {-3, -2, -1, 0, 1, 2}, naturals = {0, 1, 2, 3, 4, 5};
  const std::vector<double> complex = {0, 5, 1, 4, 2, 3, 3, 2, 4, 1, 5, 0};  // 0+5i, 1+4i, ...
  return {
      {"f2.npy", cs::DType::float16, numbers},
      {"f4.npy", cs::DType::float32, numbers},
      {"f8.npy", cs::DType::float64, numbers},
      {"i1.npy", cs::DType::int8, numbers},
      {"i2.npy", cs::DType::int16, numbers},
      {"i4.npy", cs::DType::int32, numbers},
      {"i8.npy", cs::DType::int64, numbers},
      {"u1.npy", cs::DType::uint8, naturals},
      {"u2.npy", cs::DType::int32, naturals},
      {"u4.npy", cs::DType::int64, naturals},
      {"u8.npy", cs::DType::int64, naturals},
      {"b1.npy", cs::DType::bool8, {1, 0, 1, 0, 1, 0}},
      {"c8.npy", cs::DType::float32, complex, {2, 3, 2}},
      {"c16.npy", cs::DType::float64, complex, {2, 3, 2}},
      {"f4_big_endian.npy", cs::DType::float32, numbers},
      {"i4_big_endian.npy", cs::DType::int32, numbers},
      {"f4_c_order.npy", cs::DType::float32, counted(24), {2, 3, 4}},
      {"f4_fortran.npy", cs::DType::float32, counted(24), {2, 3, 4}},
      {"f4_0d.npy", cs::DType::float32, {3.5}, {}},
      {"f4_empty_0x3.npy", cs::DType::float32, {}, {0, 3}},
      {"f4_format_v2.npy", cs::DType::float32, naturals},
      {"f4_format_v3.npy", cs::DType::float32, naturals},
  };
}

/// While one lives, files of this process cannot become larger: a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

std::size_t files_in(const std::string& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

// --- reading -----------------------------------------------------------------------------------------------------

TEST_CASE("the files that NumPy wrote hold what their collection states", "[io][npy][host]") {
  if (numpy_file("").empty()) return;
  for (const NumpyFile& file : numpy_files()) {
    INFO(file.name);
    check_values(cs::io::read_npy(numpy_file(file.name)), file.shape, file.dtype, file.values);
  }
}

TEST_CASE("NaN, infinities, -0 and subnormal numbers of a .npy file keep their bits", "[io][npy][host]") {
  const std::string path = numpy_file("f4_special.npy");
  if (path.empty()) return;
  const cs::Tensor x = cs::io::read_npy(path);
  REQUIRE(x.shape() == cs::Shape{7});
  CHECK(std::isnan(x.at<float>(0)));
  using Limits = std::numeric_limits<float>;
  const std::vector<float> rest = {Limits::infinity(), -Limits::infinity(), -0.0f,
                                   Limits::min(),      Limits::max(),       1e-45f};
  CHECK(tests::same_bits(std::vector<float>(x.data<float>() + 1, x.data<float>() + 7), rest));
}

TEST_CASE("the .npy files of xtensor's and candle's tests are read", "[io][npy][host]") {
  if (tests::shared_data("npy/xtensor").empty()) return;
  const auto file = [](const std::string& name) { return cs::io::read_npy(tests::shared_data("npy/" + name)); };
  for (const std::string type : {"bool", "double"}) {
    const cs::Tensor plain = file("xtensor/" + type + ".npy"), fortran = file("xtensor/" + type + "_fortran.npy");
    CHECK(plain.shape() == cs::Shape{3, 3, 3});
    CHECK(plain.dtype() == (type == "bool" ? cs::DType::bool8 : cs::DType::float64));
    CHECK(tests::same(plain, fortran));
  }
  check_values(file("xtensor/int.npy"), {5}, cs::DType::int32, {3, 4, 5, 6, 7});
  check_values(file("xtensor/unsignedlong.npy"), {5}, cs::DType::int64, {12, 14, 16, 18, 1234321});
  check_values(file("candle/test.npy"), {10}, cs::DType::int64, counted(10));
}

TEST_CASE("a .npy file of objects, records or text, and a short one, are errors that say so",
          "[io][npy][host][errors]") {
  if (tests::shared_data("npy/must_reject").empty()) return;
  const auto message = [](const std::string& name) {
    return message_for(tests::shared_data("npy/must_reject/" + name));
  };
  const std::string types = "; it must be one of f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 b1 c8 c16.";
  CHECK(message("py3-objarr.npy") == "element type '|O' at offset 20: Python objects are not supported" + types);
  CHECK(message("structured.npy") ==
        "the element type at offset 20 is a list: structured types are not supported" + types);
  CHECK(message("unicode.npy") == "element type '<U3' at offset 20: text is not supported" + types);
  CHECK(message("truncated_f4.npy") ==
        "the elements end at offset 147; sizes [2, 3] of float32 need 24 bytes from offset 128.");
}

TEST_CASE("the header of a .npy file may be spelled in all ways that Python has", "[io][npy][host]") {
  const Bytes elements = {1, 2, 3, 4, 5, 6};
  for (const std::string text : {
           "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }",
           "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}",
           "{'shape': (2, 3), 'fortran_order': False, 'descr': '|u1'}",
           "{\"descr\": \"|u1\", \"fortran_order\": False, \"shape\": (2, 3,)}",
           "{'descr':'|u1','fortran_order':False,'shape':(2,3)}",
           "  { 'descr' :\t'|u1' ,\n'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \f\r\n ",
           "{'shape': (2L, 3L), 'descr': '|u1', 'fortran_order': False}",  // Python 2
           "{'descr': 'u1', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': '<u1', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': '>u1', 'fortran_order': False, 'shape': (2, 3)}",
           "{'descr': '=u1', 'fortran_order': False, 'shape': (2, 3)}",
       }) {
    INFO(text);
    for (const int version : {1, 2, 3})
      check_values(read_file(npy_file(text, elements, version)), {2, 3}, cs::DType::uint8, {1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("the header of a .npy file may have 1 MiB", "[io][npy][host]") {
  std::string text = npy_text("|u1", "(6,)");
  text.resize(1 << 20, ' ');
  check_values(read_file(npy_file(text, Bytes{0, 1, 2, 3, 4, 5}, 2)), {6}, cs::DType::uint8, counted(6));
}

TEST_CASE("a .npy file has 0 to 8 axes, of any size and none", "[io][npy][host]") {
  const auto read = [](const std::string& shape, std::size_t count) {
    return read_file(npy_file(npy_text("|i1", shape), Bytes(count, 0xFF)));
  };
  check_values(read("()", 1), {}, cs::DType::int8, {-1});
  check_values(read("(1,)", 1), {1}, cs::DType::int8, {-1});
  check_values(read("(1, 2, 1, 1, 1, 1, 1, 2)", 4), {1, 2, 1, 1, 1, 1, 1, 2}, cs::DType::int8, {-1, -1, -1, -1});
  check_values(read("(0,)", 0), {0}, cs::DType::int8, {});
  check_values(read("(2, 0, 3)", 0), {2, 0, 3}, cs::DType::int8, {});
  check_values(read("(0, 4611686018427387904)", 0), {0, std::int64_t{1} << 62}, cs::DType::int8, {});
}

TEST_CASE("unsigned numbers of a .npy file keep their values in a wider type", "[io][npy][host]") {
  const Bytes ones(8, 0xFF);
  const auto read = [&](const std::string& type, std::size_t bytes) {
    return read_file(npy_file(npy_text(type, "(1,)"), tests::first_bytes(ones, bytes)));
  };
  check_values(read("<u2", 2), {1}, cs::DType::int32, {65535});
  check_values(read("<u4", 4), {1}, cs::DType::int64, {4294967295.0});
  Bytes largest = ones;
  largest[7] = 0x7F;  // little-endian 2^63 - 1
  CHECK(read_file(npy_file(npy_text("<u8", "(1,)"), largest)).item<std::int64_t>() ==
        std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("an unsigned number of 2^63 or more in a .npy file is an error that names it", "[io][npy][host][errors]") {
  Bytes elements;
  for (const std::uint64_t value : {std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}})
    tests::append_big(elements, value, 8);
  const std::string text = npy_text(">u8", "(3,)");
  CHECK(message_for(npy_file(text, elements)) == "the unsigned number 9223372036854775808 at offset " +
                                                     std::to_string(10 + text.size() + 8) +
                                                     " does not fit in int64; it must be below 2^63.");
}

TEST_CASE("big-endian elements of all sizes of a .npy file are read as they are", "[io][npy][host]") {
  const auto read = [](const std::string& type, std::uint64_t bits, int bytes) {
    Bytes elements;
    tests::append_big(elements, bits, bytes);
    return tests::number(read_file(npy_file(npy_text(type, "()"), elements)));
  };
  CHECK(read(">i2", 0x0102, 2) == 258);
  CHECK(read(">u2", 0xFFFE, 2) == 65534);
  CHECK(read(">u4", 0xFFFFFFFE, 4) == 4294967294.0);
  CHECK(read(">i8", 0x0000000100000002, 8) == 4294967298.0);
  CHECK(read(">f2", 0x3E00, 2) == 1.5);
  CHECK(read(">f8", 0xBFF8000000000000, 8) == -1.5);
  Bytes complex;
  tests::append_big(complex, 0x3FC00000, 4);  // 1.5
  tests::append_big(complex, 0xC0000000, 4);  // -2
  check_values(read_file(npy_file(npy_text(">c8", "()"), complex)), {2}, cs::DType::float32, {1.5, -2});
}

TEST_CASE("complex numbers in Fortran order keep their pairs together", "[io][npy][host]") {
  Bytes elements;
  for (const std::uint32_t bits : {0x3F800000u, 0x40000000u, 0x40400000u, 0x40800000u, 0x40A00000u, 0x40C00000u,
                                   0x40E00000u, 0x41000000u})  // 1 to 8: by columns 1+2i 3+4i, 5+6i 7+8i
    tests::append_little(elements, bits, 4);
  check_values(read_file(npy_file(npy_text("<c8", "(2, 2)", "True"), elements)), {2, 2, 2}, cs::DType::float32,
               {1, 2, 5, 6, 3, 4, 7, 8});
}

TEST_CASE("any byte but zero is true in a .npy file, as in NumPy", "[io][npy][host]") {
  const cs::Tensor x = read_file(npy_file(npy_text("|b1", "(4,)"), {0, 1, 2, 255}));
  check_values(x, {4}, cs::DType::bool8, {0, 1, 1, 1});
  CHECK(*reinterpret_cast<const unsigned char*>(x.data<bool>() + 3) == 1);
}

TEST_CASE("a .npy file is unpacked if it is gzip", "[io][npy][host]") {
  check_values(read_file(tests::gzip(tests::npy_count(6))), {6}, cs::DType::uint8, counted(6));
}

TEST_CASE("a .npy file that is missing is an error that says so", "[io][npy][host][errors]") {
  CHECK(message_for("/no/such/folder/x.npy") ==
        "cannot be opened: No such file or directory; it must exist and be readable.");
}

// --- writing -----------------------------------------------------------------------------------------------------

TEST_CASE("a .npy file written here is NumPy's byte for byte", "[io][npy][host]") {
  if (numpy_file("").empty()) return;
  const TemporaryFolder folder;
  for (const std::string name :
       {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "b1", "f4_0d", "f4_c_order", "f4_empty_0x3", "f4_special"}) {
    INFO(name);
    const std::string theirs = numpy_file(name + ".npy"), ours = folder.path(name + ".npy");
    cs::io::write_npy(ours, cs::io::read_npy(theirs));
    CHECK(tests::file_bytes(ours) == tests::file_bytes(theirs));
  }
}

TEST_CASE("what is written as .npy is read again, for every type and rank", "[io][npy][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  using cs::DType;
  for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::int64, DType::uint8, DType::bool8,
                            DType::float16, DType::int8, DType::int16}) {
    for (const cs::Shape& shape : {cs::Shape{}, cs::Shape{5}, cs::Shape{0}, cs::Shape{2, 3}, cs::Shape{2, 0, 3},
                                   cs::Shape{2, 1, 2, 1, 2, 1, 2, 1}, cs::Shape{123457}}) {
      const cs::Tensor x = tests::random_in(0, 100, shape, dtype);
      cs::io::write_npy(path, x);
      CHECK(tests::same(cs::io::read_npy(path), x));
    }
  }
}

TEST_CASE("the elements of a written .npy file begin at a multiple of 64", "[io][npy][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  for (int rank = 0; rank <= 8; ++rank) {
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank), 1);
    cs::io::write_npy(path, cs::zeros(cs::Shape(sizes), {.dtype = cs::DType::uint8}));
    const Bytes bytes = tests::file_bytes(path);
    CHECK(bytes.size() % 64 == 1);  // one element
    CHECK(10u + bytes[8] + 256u * bytes[9] == bytes.size() - 1);
  }
}

TEST_CASE("views are written to .npy files row-major", "[io][npy][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  const cs::Tensor x = cs::arange(6).to(cs::DType::float32);
  const cs::Tensor transposed = cs::transpose(cs::reshape(x, {2, 3}));
  cs::io::write_npy(path, transposed);
  check_values(cs::io::read_npy(path), {3, 2}, cs::DType::float32, {0, 3, 1, 4, 2, 5});
  cs::io::write_npy(path, x.index({cs::range(5, -7, -2)}));
  check_values(cs::io::read_npy(path), {3}, cs::DType::float32, {5, 3, 1});
  cs::io::write_npy(path, cs::broadcast_to(cs::Tensor(2.0f), {2, 2}));
  check_values(cs::io::read_npy(path), {2, 2}, cs::DType::float32, {2, 2, 2, 2});
}

TEST_CASE("writing a .npy file records nothing on a tape", "[io][npy][host]") {
  const TemporaryFolder folder;
  const cs::Parameter weight(cs::ones({2, 3}));
  cs::GradientTape tape;
  const cs::Tensor transposed = cs::transpose(weight);
  const std::int64_t before = tape.size();
  CHECK(before > 0);
  cs::io::write_npy(folder.path("x.npy"), transposed);
  CHECK(tape.size() == before);
}

// A row's __LINE__ must stand on the line of its call.
// clang-format off
TEST_CASE("tensors that NumPy cannot hold are not written", "[io][npy][host][errors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  const cs::Tensor half = cs::zeros({2}, {.dtype = cs::DType::bfloat16}), none;
  tests::check_errors({
      {__LINE__, tests::message_of<cs::DTypeError>, [&] { cs::io::write_npy(path, half); },
       "write_npy: the tensor is bfloat16, which NumPy does not have; cast it first, for example by x.to(DType::float32)."},
      {__LINE__, tests::message_of<cs::Error>, [&] { cs::io::write_npy(path, none); },
       "write_npy: the tensor is undefined; give it a value first."},
  }, "npy_test.cpp");
  CHECK_FALSE(std::filesystem::exists(path));
}
// clang-format on

TEST_CASE("a .npy file that cannot be made is an error that says why", "[io][npy][host][errors]") {
  const TemporaryFolder folder;
  const auto message = [](const std::string& path) {
    return tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::write_npy(path, cs::zeros({2})); })).text;
  };
  CHECK(message("/no/such/folder/x.npy") ==
        "write_npy: /no/such/folder/x.npy: cannot be made: No such file or directory; its folder must exist and be "
        "writable.");
  CHECK(message("") == "write_npy: the name of the file is empty; it must have one.");
  CHECK(message(folder.path("")) ==
        "write_npy: " + folder.path("") +
            ": cannot be made: something else stands there; it must be a regular file, or none.");
  CHECK(message("/dev/null") ==
        "write_npy: /dev/null: cannot be made: something else stands there; it must be a regular file, or none.");
}

TEST_CASE("writing a .npy file over another replaces it, and keeps links and rights", "[io][npy][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.write_text("x.npy", "something else"), link = folder.path("link.npy");
  std::filesystem::create_symlink(path, link);
  REQUIRE(chmod(path.c_str(), 0600) == 0);
  cs::io::write_npy(link, cs::ones({3}));
  CHECK(std::filesystem::is_symlink(link));
  check_values(cs::io::read_npy(path), {3}, cs::DType::float32, {1, 1, 1});
  CHECK(std::filesystem::status(path).permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(files_in(folder.path("")) == 2);  // nothing is left over
}

TEST_CASE("a .npy file that is written through a link to none yet is made where that leads to", "[io][npy][host]") {
  const TemporaryFolder folder;
  const std::string latest = folder.path("latest.npy"), newest = folder.path("newest.npy");
  REQUIRE(std::filesystem::create_directory(folder.path("runs")));
  std::filesystem::create_symlink("runs/run7.npy", latest);
  std::filesystem::create_symlink(latest, newest);
  for (const float value : {1.0f, 2.0f}) {  // the second time it is there
    cs::io::write_npy(newest, cs::full({3}, value));
    CHECK(std::filesystem::is_symlink(latest));
    CHECK(std::filesystem::is_symlink(newest));
    check_values(cs::io::read_npy(folder.path("runs/run7.npy")), {3}, cs::DType::float32, {value, value, value});
    CHECK(files_in(folder.path("runs")) == 1);
  }
  CHECK(files_in(folder.path("")) == 3);
}

TEST_CASE("links that lead to no place are errors of writing, and stay", "[io][npy][host][errors]") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("second.npy", folder.path("first.npy"));
  std::filesystem::create_symlink("first.npy", folder.path("second.npy"));
  std::filesystem::create_symlink("none/x.npy", folder.path("outside.npy"));
  const auto message = [&](const std::string& path) {
    return tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::write_npy(path, cs::ones({3})); })).text;
  };
  const std::string must = "; its folder must exist and be writable.", loop = folder.path("first.npy");
  CHECK(message(loop) == "write_npy: " + loop + ": cannot be made: Too many levels of symbolic links" + must);
  const std::string outside = folder.path("outside.npy");
  CHECK(message(outside) == "write_npy: " + outside + ": cannot be made: No such file or directory" + must);
  for (const std::string& path : {loop, outside}) CHECK(std::filesystem::is_symlink(path));
  CHECK(files_in(folder.path("")) == 3);
}

TEST_CASE("a .npy file may have the longest name that there is, and none that is longer", "[io][npy][host]") {
  const TemporaryFolder folder;
  std::string letters = "x";
  while (letters.size() < 255) letters += "\xC3\xBC";
  for (const std::string& name : {std::string(243, 'n'), std::string(255, 'n'), letters}) {
    cs::io::write_npy(folder.path(name), cs::ones({3}));
    check_values(cs::io::read_npy(folder.path(name)), {3}, cs::DType::float32, {1, 1, 1});
  }
  const std::string longer = folder.path(std::string(256, 'n'));
  CHECK(tests::split_message(tests::message_of<cs::IoError>([&] { cs::io::write_npy(longer, cs::ones({3})); })).text ==
        "write_npy: " + longer + ": cannot be made: File name too long; its folder must exist and be writable.");
  CHECK(files_in(folder.path("")) == 3);
}

TEST_CASE("a disk that is full leaves the old .npy file as it was", "[io][npy][host][errors]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("x.npy");
  cs::io::write_npy(path, cs::ones({3}));
  const cs::Tensor large = cs::zeros({1 << 20});  // 4 MB
  std::string text;
  {
    const FileSizeLimit limit(1 << 20);
    text = tests::message_of<cs::IoError>([&] { cs::io::write_npy(path, large); });
  }
  CHECK(tests::split_message(text).text == "write_npy: " + path +
                                               ": cannot be written: File too large; the disk must have room for it. "
                                               "What was there stays.");
  check_values(cs::io::read_npy(path), {3}, cs::DType::float32, {1, 1, 1});
  CHECK(files_in(folder.path("")) == 1);
}

TEST_CASE("a file whose folder goes while it is written is an error that says nothing of room",
          "[io][npy][host][errors]") {
  const TemporaryFolder folder;
  const std::string inner = folder.path("inner"), path = folder.path("inner/x");
  REQUIRE(std::filesystem::create_directory(inner));
  cs::io::OutputFile file("write_npy", path, cs::Where::current());
  std::filesystem::remove_all(inner);
  CHECK(tests::split_message(tests::message_of<cs::IoError>([&] { file.commit(); })).text ==
        "write_npy: " + path +
            ": cannot be written: No such file or directory; its folder must be there and writable until the file is "
            "whole. What was there stays.");
}
