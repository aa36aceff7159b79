#include "io/checkpoint_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include "io/io_error.hpp"
#include "io/quoted.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "checkpoint-", kMiddle = "-step-", kEnd = ".safetensors", kPart = ".part";

std::string file_name(std::int64_t number, std::int64_t step) {
  constexpr std::size_t width = 6;
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return base::join(kStart, digits, kMiddle, step, kEnd);
}

/// Takes digits off the beginning; -1 if there are none, or too many.
std::int64_t take_number(std::string_view& text) {
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostNumber) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

/// The name of a checkpoint that a file's name begins with, and `rest` behind it.
std::optional<CheckpointName> parse_name(std::string_view text, std::string_view& rest) {
  CheckpointName name;
  rest = text;
  if (!take(rest, kStart) || (name.number = take_number(rest)) < 0) return std::nullopt;
  if (!take(rest, kMiddle) || (name.step = take_number(rest)) < 0 || !take(rest, kEnd)) return std::nullopt;
  name.file = file_name(name.number, name.step);
  if (!text.starts_with(name.file) || name.file.size() + rest.size() != text.size()) return std::nullopt;
  return name;
}

/// Whether that ends the name of a temporary file, as OutputFile makes them: ".part4711-0".
bool is_temporary(std::string_view rest) {
  return take(rest, kPart) && take_number(rest) >= 0 && take(rest, "-") && take_number(rest) >= 0 && rest.empty();
}

/// Calls `use(file name, whether it is a regular file)` for what lies in a folder.
template <class Use>
void each_file(const std::string& folder, std::error_code& error, Use use) {
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unknown;
    use(at->path().filename().string(), at->is_regular_file(unknown));
  }
}

/// While one lives, no other manager takes a number or tidies up in the folder.
class FolderLock {
 public:
  FolderLock(const char* op, const std::string& folder, Where where)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (descriptor_ < 0)
      fail_io(op, folder, where,
              "cannot be opened: " + std::generic_category().message(errno) + "; it must be a readable folder.");
    // Others hold it for milliseconds. Where locks do not work, or somebody never lets go, it is no use to wait.
    for (int tries = 0; flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK && tries < 500; ++tries)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ~FolderLock() { close(descriptor_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Whether the file that could not be opened is just not there.
bool is_gone(const std::string& path) { return access(path.c_str(), F_OK) != 0 && errno == ENOENT; }

/// Removes a temporary file unless somebody has it locked, who then writes it.
void remove_if_left(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
  close(file);
}

}  // namespace

// --- what lies there ---

std::string CheckpointFolder::path_of(const std::string& file) const { return (fs::path(path) / file).string(); }

std::vector<CheckpointName> CheckpointFolder::names(const char* op, Where where) const {
  std::vector<CheckpointName> found;
  std::error_code error;
  each_file(path, error, [&](const std::string& file, bool regular) {
    std::string_view rest;
    if (auto name = parse_name(file, rest); regular && name && rest.empty()) found.push_back(std::move(*name));
  });
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) fail_io(op, path, where, "cannot be opened: " + error.message() + "; it must be a readable folder.");
  std::sort(found.begin(), found.end(), [](const CheckpointName& a, const CheckpointName& b) {
    return a.number != b.number ? a.number < b.number : a.step < b.step;
  });
  return found;
}

const CheckpointHead& CheckpointFolder::head_of(const char* op, const std::string& file, Where where) {
  if (const auto known = heads.find(file); known != heads.end()) return known->second;
  return heads.emplace(file, read_checkpoint_head(op, path_of(file), where)).first->second;
}

void CheckpointFolder::skip(const std::string& file, const Error& error, std::vector<std::string>& errors) {
  errors.emplace_back(error.what());
  damaged.insert(file);
}

/// Behind an error of a file: whether it can be opened, so that what is in it is wrong. False if it was removed.
bool CheckpointFolder::still_opens(const char* op, const std::string& file, std::set<std::string>* unopened,
                                   Where where) const {
  try {
    MappedFile::file_size(op, path_of(file), where);
    return true;
  } catch (const IoError&) {
    if (is_gone(path_of(file))) return false;
    if (unopened == nullptr) throw;
    unopened->insert(file);
    return false;
  }
}

std::vector<CheckpointName> CheckpointFolder::by_metric(const char* op, std::vector<std::string>& errors,
                                                        std::set<std::string>* unopened, Where where) {
  std::vector<std::pair<double, CheckpointName>> found;
  for (const CheckpointName& name : names(op, where)) {
    try {
      const std::optional<double> metric = head_of(op, name.file, where).metric;
      if (metric && !std::isnan(*metric)) found.emplace_back(*metric, name);
    } catch (const IoError& error) {
      if (still_opens(op, name.file, unopened, where)) skip(name.file, error, errors);
    }
  }
  std::reverse(found.begin(), found.end());  // of equals the last
  std::stable_sort(found.begin(), found.end(), [this](const auto& a, const auto& b) {
    return options.maximize ? a.first > b.first : a.first < b.first;
  });
  std::vector<CheckpointName> best;
  for (auto& [metric, name] : found) best.push_back(std::move(name));
  return best;
}

// --- saving ---

/// Temporary files of processes that were killed.
void CheckpointFolder::tidy() const noexcept {
  try {
    std::vector<std::string> left;
    std::error_code error;
    each_file(path, error, [&](const std::string& file, bool regular) {
      std::string_view rest;
      if (regular && parse_name(file, rest) && is_temporary(rest)) left.push_back(file);
    });
    for (const std::string& file : left) remove_if_left(path_of(file));
  } catch (...) {  // no memory: they stay
  }
}

/// With the folders that it lies in, each so that it lasts. IoError.
void CheckpointFolder::make(const char* op, Where where) const {
  std::error_code error;
  std::vector<fs::path> added;
  for (fs::path at = path; at.has_relative_path() && !fs::exists(at, error); at = at.parent_path()) added.push_back(at);
  fs::create_directories(path, error);
  if (error) fail_io(op, path, where, "cannot be made: " + error.message() + "; it must be a folder, or none yet.");
  for (const fs::path& folder : added) sync_parent_of(folder.string());
}

std::shared_ptr<BegunCheckpoint> CheckpointFolder::begin(const char* op, std::int64_t step,
                                                         std::optional<double> metric, PartContents contents,
                                                         Where where) {
  make(op, where);
  const FolderLock lock(op, path, where);
  if (!std::exchange(tidied, true)) tidy();
  CheckpointHead head{1, step, metric};
  std::error_code error;
  const auto count = [&](const std::string& file, bool) {
    std::string_view rest;  // one that is being written has its number already
    if (const auto name = parse_name(file, rest)) head.number = std::max(head.number, name->number + 1);
  };
  each_file(path, error, count);
  if (!error) each_file(path, error, count);  // a file that is just renamed may be missed once
  if (error) fail_io(op, path, where, "cannot be read: " + error.message() + "; it must be a readable folder.");
  if (head.number > kMostNumber)
    fail_io(op, path, where, base::join("holds a checkpoint with the number ", kMostNumber, "; none can follow it."));
  CheckpointName name{head.number, step, file_name(head.number, step)};
  const std::string file_path = path_of(name.file);
  return std::make_shared<BegunCheckpoint>(op, file_path, std::move(name), head, std::move(contents), where);
}

void CheckpointFolder::write(BegunCheckpoint& begun) {
  begun.output.write();
  try {
    heads.insert_or_assign(begun.name.file, begun.head);
    damaged.erase(begun.name.file);  // somebody has removed that one, and its name was free again
    remove_old(begun.name.file);
  } catch (...) {  // it is saved; what has to go goes next time
  }
}

void CheckpointFolder::remove_old(const std::string& newest) {
  const char* const op = "CheckpointManager::save";
  std::vector<std::string> untold;
  std::set<std::string> kept = {newest}, unopened;
  std::int64_t best = options.keep_best;
  for (const CheckpointName& name : by_metric(op, untold, &unopened, Where::current()))
    if (damaged.count(name.file) == 0 && best-- > 0) kept.insert(name.file);
  const std::vector<CheckpointName> all = names(op, Where::current());
  std::int64_t last = options.keep;
  for (auto name = all.rbegin(); name != all.rend(); ++name) {
    if (damaged.count(name->file) != 0 || unopened.count(name->file) != 0) continue;
    if (last-- > 0 || kept.count(name->file) != 0) continue;
    unlink(path_of(name->file).c_str());
    heads.erase(name->file);
  }
}

// --- restoring ---

/// Nothing if it is damaged, or gone.
std::optional<CheckpointContents> CheckpointFolder::read(const char* op, const std::string& file,
                                                         std::set<std::string>& gone, Where where) {
  std::shared_ptr<const MappedFile> mapped;
  try {
    mapped = MappedFile::open(op, path_of(file), where);
    return read_checkpoint(op, mapped, where);
  } catch (const IoError& error) {
    if (mapped == nullptr && !is_gone(path_of(file))) throw;
    if (still_opens(op, file, nullptr, where)) skip(file, error, skipped);
    else gone.insert(file);
    return std::nullopt;
  }
}

std::optional<std::int64_t> CheckpointFolder::restore(const char* op,
                                                      const std::function<std::vector<CheckpointName>()>& list,
                                                      std::span<const NamedPart> parts, Where where) {
  std::set<std::string> gone;
  for (bool again = true; again;) {
    again = false;
    skipped.clear();
    std::vector<CheckpointName> candidates = list();
    std::erase_if(candidates, [&](const CheckpointName& name) { return gone.count(name.file) != 0; });
    if (candidates.empty() && skipped.empty()) return std::nullopt;
    for (std::size_t i = 0; i < candidates.size() && !again; ++i) {
      const std::string& file = candidates[i].file;
      const std::optional<CheckpointContents> contents = read(op, file, gone, where);
      again = gone.count(file) != 0;  // whoever removed it has saved others
      if (!contents) continue;
      damaged.erase(file);
      restore_parts(op, path_of(file), contents->parts, parts, where);
      return contents->head.step;
    }
  }
  constexpr std::size_t most = 3;
  std::string reasons;
  for (std::size_t i = 0; i < std::min(skipped.size(), most); ++i) reasons += skipped[i] + "; ";
  if (skipped.size() > most) reasons += base::join("and ", skipped.size() - most, " more; ");
  fail_io(op, path, where,
          base::join("no checkpoint that is intact was found: ", reasons, "at least one must be there."));
}

}  // namespace capstan::io
