#include "lib/base/control_groups.hpp"

#include <fstream>

namespace capstan::base {
namespace {

/// The first line of a file, empty if there is none.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// A limit and where groups keep it: version 1 has a tree of folders for each controller, version 2 one for all.
struct Limit {
  const char* controller;
  std::int64_t (*first_version)(const std::string& folder);
  std::int64_t (*second_version)(const std::string& folder);
};
constexpr Limit kProcessors = {
    "cpu",
    [](const std::string& folder) -> std::int64_t {
      return processors_of_quota(first_line(folder + "/cpu.cfs_quota_us") + ' ' +
                                 first_line(folder + "/cpu.cfs_period_us"));
    },
    [](const std::string& folder) -> std::int64_t { return processors_of_quota(first_line(folder + "/cpu.max")); }};
constexpr Limit kMemory = {
    "memory", [](const std::string& folder) { return bytes_of_limit(first_line(folder + "/memory.limit_in_bytes")); },
    [](const std::string& folder) { return bytes_of_limit(first_line(folder + "/memory.max")); }};

void lower(std::int64_t& least, std::int64_t limit) {
  if (limit > 0 && (least == 0 || limit < least)) least = limit;
}

/// Of the group with that path and all that it is in. In a container the path may be the host's, of which nothing is
/// there but the root: that is the container's own group.
std::int64_t least_on_path(const std::string& root, std::string path, std::int64_t (*read)(const std::string&)) {
  std::int64_t least = 0;
  while (true) {
    lower(least, read(root + path));
    if (path.empty()) return least;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

/// By a line of the list: number:controllers:path.
std::int64_t limit_by_line(const std::string& root, const Limit& limit, const std::string& line) {
  const std::size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return 0;
  const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',', name = limit.controller;
  const std::string path = line.substr(second + 1);
  if (controllers == ",,") return least_on_path(root, path, limit.second_version);
  if (controllers.find(',' + name + ',') == std::string::npos) return 0;
  return least_on_path(root + '/' + name, path, limit.first_version);
}

std::int64_t least_of(const ControlGroups& groups, const Limit& limit) noexcept {
  std::int64_t least = 0;
  try {
    std::ifstream list(groups.list);
    for (std::string line; std::getline(list, line);) lower(least, limit_by_line(groups.root, limit, line));
  } catch (...) {  // no memory for a path: as if there were no limit
  }
  return least;
}

}  // namespace

std::int64_t ControlGroups::processors() const noexcept { return least_of(*this, kProcessors); }
std::int64_t ControlGroups::memory_bytes() const noexcept { return least_of(*this, kMemory); }

}  // namespace capstan::base
