#include "tools/run_folders.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <system_error>

namespace tools {
namespace {

namespace fs = std::filesystem;

/// Links to folders are not followed: they could lead back.
std::set<std::string> folders_with_events(const std::string& folder) {
  std::set<std::string> folders;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    const bool named = entry->path().filename().string().find("tfevents") != std::string::npos;
    if (named && entry->is_regular_file(unknown)) folders.insert(entry->path().parent_path().string());
  }
  if (error) throw std::runtime_error(folder + ": cannot be looked through: " + error.message() + ".");
  return folders;
}

std::vector<std::string> parts_of(const std::string& run) {
  fs::path path = fs::absolute(run).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "runs/" is "runs"
  std::vector<std::string> parts;
  for (const fs::path& part : path) parts.push_back(part.string());
  return parts;
}

}  // namespace

std::vector<std::string> find_runs(const std::vector<std::string>& paths) {
  std::vector<std::string> runs;
  const auto add = [&](const std::string& run) {
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  };
  for (const std::string& path : paths) {
    std::error_code unknown;
    if (!fs::exists(path, unknown)) throw std::runtime_error(path + ": there is no such file or folder.");
    if (!fs::is_directory(path, unknown)) {
      add(path);
      continue;
    }
    const std::set<std::string> folders = folders_with_events(path);
    if (folders.empty())
      throw std::runtime_error(path +
                               ": no event file is in the folder or below it; their names contain \"tfevents\".");
    for (const std::string& folder : folders) add(folder);
  }
  return runs;
}

std::vector<std::string> names_of(const std::vector<std::string>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& run : runs) parts.push_back(parts_of(run));
  std::size_t shared = 0;
  const auto all_share = [&](std::size_t place) {
    return std::all_of(parts.begin(), parts.end(), [&](const std::vector<std::string>& own) {
      return place + 1 < own.size() && own[place] == parts.front()[place];
    });
  };
  while (!parts.empty() && all_share(shared)) ++shared;
  std::vector<std::string> names;
  for (const std::vector<std::string>& own : parts) {
    std::string name;
    for (std::size_t i = shared; i < own.size(); ++i) name += (name.empty() ? "" : "/") + own[i];
    names.push_back(name);
  }
  return names;
}

}  // namespace tools
