// Libraries that are loaded while a program runs, OpenBLAS among them.
#include "lib/base/shared_library.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;
using base::SharedLibrary;

namespace {

const Where kHere = Where::current();

bool process_has(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find(library) != std::string::npos;
}

std::ptrdiff_t threads_of_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

/// Where the process has a library, whose name begins so.
std::string path_of(const std::string& beginning) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("/" + beginning) != std::string::npos) return line.substr(line.find('/'));
  return "";
}

}  // namespace

TEST_CASE("a shared library is found by its name or in its place, and so are its functions", "[host]") {
  const SharedLibrary by_name("/no/such/place", "libm.so.6", "numbers", "do so", kHere);
  CHECK(by_name.was_there());
  CHECK(by_name.has("floor"));
  CHECK_FALSE(by_name.has("no_such_name"));
  CHECK(by_name.function<double (*)(double)>("floor", kHere)(2.5) == 2);

  const std::string place = path_of("libm.so.6");
  REQUIRE(!place.empty());
  const SharedLibrary by_place(place.c_str(), "libno-such-name.so.1", "numbers", "do so", kHere);
  CHECK_FALSE(by_place.was_there());
  CHECK(by_place.function<double (*)(double)>("floor", kHere)(2.5) == 2);
}

TEST_CASE("a shared library or a function that is missing is an error that says what to do", "[host][errors]") {
  const auto missing = message_of<MissingLibraryError>(
      [] { SharedLibrary("/no/such/place", "libno-such-name.so.1", "numbers", "install some", kHere); });
  CHECK(missing.find("numbers: libno-such-name.so.1: cannot open shared object file") != std::string::npos);
  CHECK(missing.find("; install some. (shared_library_test.cpp:") != std::string::npos);

  const SharedLibrary m("/no/such/place", "libm.so.6", "numbers", "do so", kHere);
  const auto nameless = message_of<MissingLibraryError>([&] { m.function<void (*)()>("no_such_name", kHere); });
  CHECK(nameless.find("libm.so.6 has no no_such_name. (shared_library_test.cpp:") != std::string::npos);
}

// Run by itself (unit_start): other cases may have loaded it before.
TEST_CASE("OpenBLAS is loaded by the first decomposition, and brings no threads", "[.][host]") {
  const Tensor x = random_in(-1, 1, {40, 40});
  CHECK(number(sum(matmul(x, x))) != 0);
  CHECK_FALSE(process_has("openblas"));
  CHECK_FALSE(process_has("gfortran"));
  const auto threads_before = threads_of_process();
  const Tensor y = random_in(-1, 1, {40, 3});
  CHECK(close(matmul(x, solve(x, y)), y, 1e-9));
  CHECK(process_has("openblas"));
  CHECK(threads_of_process() == threads_before);
}
