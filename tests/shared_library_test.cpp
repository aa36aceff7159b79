// Libraries that are loaded while a program runs.
#include "lib/base/shared_library.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support.hpp"

using namespace capstan;
using namespace tests;
using base::SharedLibrary;

namespace {

const Where kHere = Where::current();

/// Where the process has a library whose name begins so, or nothing.
std::string path_of(const std::string& beginning) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto name = line.rfind('/');
    if (name != std::string::npos && line.compare(name + 1, beginning.size(), beginning) == 0)
      return line.substr(line.find('/'));
  }
  return "";
}

}  // namespace

TEST_CASE("a shared library is found by its name or in its folder, and so are its functions", "[host]") {
  const SharedLibrary by_name("/no/such/folder", "libm.so.6", "numbers", "do so", kHere);
  CHECK(by_name.was_there());
  CHECK(by_name.has("floor"));
  CHECK_FALSE(by_name.has("no_such_name"));
  CHECK(by_name.function<double (*)(double)>("floor", kHere)(2.5) == 2);

  const std::filesystem::path place = path_of("libm.so.6");
  REQUIRE(!place.empty());
  const auto folder = std::filesystem::temp_directory_path() / ("capstan_shared_library_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(place, folder / "libno-such-name.so.1");
  const SharedLibrary by_folder(folder.string(), "libno-such-name.so.1", "numbers", "do so", kHere);
  std::filesystem::remove_all(folder);
  CHECK_FALSE(by_folder.was_there());
  CHECK(by_folder.function<double (*)(double)>("floor", kHere)(2.5) == 2);
}

TEST_CASE("a shared library or a function that is missing is an error that says what to do", "[host][errors]") {
  const auto missing = message_of<MissingLibraryError>(
      [] { SharedLibrary("/no/such/folder", "libno-such-name.so.1", "numbers", "install some", kHere); });
  CHECK(missing.find("numbers: libno-such-name.so.1: cannot open shared object file") == 0);
  CHECK(missing.find("; install some. (shared_library_test.cpp:") != std::string::npos);

  const SharedLibrary m("/no/such/folder", "libm.so.6", "numbers", "do so", kHere);
  const auto nameless = message_of<MissingLibraryError>([&] { m.function<void (*)()>("no_such_name", kHere); });
  CHECK(nameless.find("libm.so.6 has no no_such_name. (shared_library_test.cpp:") == 0);
}
