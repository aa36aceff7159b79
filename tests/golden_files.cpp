// Whether every golden file is run, or holds what comes later.
#include <fstream>
#include <iostream>
#include <iterator>

#include "tests/goldens.hpp"
#include "tests/support.hpp"

using namespace tests;

namespace {

// Files that nobody runs yet, by what they hold.
const std::map<std::string, std::vector<std::string>> later = {};

/// The texts of all golden tests but this one.
std::string golden_tests() {
  const std::filesystem::path folder = std::filesystem::path(__FILE__).parent_path();
  if (!std::filesystem::is_directory(folder)) return {};
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("golden_", 0) != 0 || name == "golden_files.cpp") continue;
    std::ifstream in(entry.path());
    text.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return text;
}

}  // namespace

TEST_CASE("every golden file is run, or holds what comes later", "[golden]") {
  const std::filesystem::path folder = golden_folder();
  if (folder.empty()) return;
  const std::string texts = golden_tests();
  if (texts.empty()) {
    WARN("the sources are not beside the tests: this case checked nothing");
    return;
  }
  std::map<std::string, std::string> reasons;
  for (const auto& [reason, files] : later)
    for (const std::string& name : files) reasons.emplace(name, reason);
  std::size_t run = 0, left = 0;
  const std::string front = "hand.";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    if (entry.path().extension() != ".safetensors" || stem.rfind(front, 0) != 0) continue;
    const std::string name = stem.substr(front.size());
    INFO(name << " is named in the golden tests or among those of later, and not in both");
    const bool comes_later = reasons.count(name) == 1, named = texts.find('"' + name + '"') != std::string::npos;
    CHECK(named != comes_later);
    ++(comes_later ? left : run);
  }
  std::cout << "golden files: " << run << " run, " << left << " left to later\n";
  for (const auto& [reason, files] : later) {
    std::cout << "  " << reason << ":";
    for (const std::string& name : files) std::cout << " " << name;
    std::cout << "\n";
  }
  CHECK(left == reasons.size());  // each of them is there
}
