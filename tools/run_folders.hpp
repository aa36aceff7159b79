#pragma once
// Which runs there are, and what they are called.
#include <string>
#include <vector>

namespace tools {

/// The runs among and below these files and folders, in order: a file of events, or a folder that directly holds some.
/// Throws std::runtime_error for a path where there is none.
std::vector<std::string> find_runs(const std::vector<std::string>& paths);

/// Short names for runs: their paths without the folders that all of them share.
std::vector<std::string> names_of(const std::vector<std::string>& runs);

}  // namespace tools
