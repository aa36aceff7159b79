#pragma once
// What tests of SummaryWriter share: the records it wrote, and the times in them.
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <capstan/io/summary.hpp>
#include <capstan/io/tfrecord.hpp>

#include "tests/event_files.hpp"

namespace tests {

/// The records behind the first, which names the version.
inline std::vector<std::string> records_of(const std::string& path) {
  std::vector<std::string> records = capstan::io::read_tfrecords(path);
  REQUIRE(!records.empty());
  records.erase(records.begin());
  return records;
}

/// An Event begins with its time: a key and a double.
inline double time_of(const std::string& record) {
  REQUIRE(record.size() >= 9);
  double time = 0;
  std::memcpy(&time, record.data() + 1, sizeof time);
  return time;
}

/// The only file in a folder.
inline std::string only_file(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path().string());
  REQUIRE(paths.size() == 1);
  return paths.front();
}

}  // namespace tests
