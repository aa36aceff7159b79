#pragma once
// What the samples share: the flags that all have, where data lies, and the checks at the end. Programs that use
// Capstan need none of it.
#include <capstan/capstan.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace CLI {
class App;
}

namespace sample {

/// The flags of all samples; a sample's own struct derives from it.
struct Flags {
  bool quick = false;
  std::uint64_t seed = 1;
  int threads = 0;
  std::string picture;  ///< none if empty
  std::string log;      ///< folder for TensorBoard's events; none if empty
};

constexpr int kFailed = 1, kError = 2, kSkipped = 77;

struct NoData : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Whether there are files in it, but for what scripts/get-data has begun to fetch.
inline bool has_files(const std::string& folder) {
  std::error_code none;  // no folder, or one that may not be read
  for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder, none))
    if (entry.path().extension() != ".part") return true;
  return false;
}

/// The folder of a data set: `given` if it is not empty, else data/NAME, where scripts/get-data puts it, else
/// $CAPSTAN_SHARED/data/NAME. Empty if none of them is there.
inline std::string find_data_folder(const std::string& name, const std::string& given = "") {
  if (!given.empty()) return given;
  std::string folder = "data/" + name;
  if (has_files(folder)) return folder;
  const char* const shared = std::getenv("CAPSTAN_SHARED");
  folder = (shared != nullptr && *shared != '\0' ? std::string(shared) : "../shared") + "/data/" + name;
  return has_files(folder) ? folder : "";
}

/// The same. Throws NoData, which ends the program with kSkipped, where that is empty.
inline std::string data_folder(const std::string& name, const std::string& given = "") {
  std::string folder = find_data_folder(name, given);
  if (!folder.empty()) return folder;
  throw NoData("data/" + name + " is not there: fetch it with scripts/get-data, whose --list shows what it has, or " +
               "name its folder by the sample's option for it, which --help shows");
}

/// The first 7,475,756 bytes of text8, a fourteenth of it, which the samples' results are for: letters a to z and
/// single blanks. From the whole, or from a file of that part alone.
inline std::string text8_part(const std::string& folder) {
  const std::string part = folder + "/text8.first7475756.gz";
  if (std::filesystem::exists(part)) return capstan::io::read_text(part);
  return capstan::data::text8(folder).substr(0, 7475756);
}

/// An empty folder that goes away with all that is in it.
struct TemporaryFolder {
  std::string path = (std::filesystem::temp_directory_path() / "capstan-XXXXXX").string();
  TemporaryFolder() {
    if (mkdtemp(path.data()) == nullptr) throw std::runtime_error("cannot make a folder in " + path);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

/// Curves for TensorBoard, if the user wants them.
class Log {
 public:
  explicit Log(const Flags& flags) {
    if (!flags.log.empty()) writer_.emplace(flags.log);
  }
  void scalar(const char* tag, double value, std::int64_t step) {
    if (writer_) writer_->scalar(tag, value, step);
  }
  /// For histograms, pictures and what else there is; none without --log.
  capstan::io::SummaryWriter* writer() { return writer_ ? &*writer_ : nullptr; }

 private:
  std::optional<capstan::io::SummaryWriter> writer_;
};

/// What must be so at the end. Says what is not.
class Checks {
 public:
  void expect(bool right, const std::string& what) {
    if (right) return;
    std::printf("not so: %s\n", what.c_str());
    failed_ = true;
  }
  int exit_code() const { return failed_ ? kFailed : 0; }

 private:
  bool failed_ = false;
};

/// The options of a command line, each of which stands for a variable that has its default. --help shows them.
class CommandLine {
 public:
  static constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

  CommandLine(CLI::App& app, Flags& flags) : app_(app), flags_(flags) {}

  void add(const char* name, bool& to, const char* what);
  void add(const char* name, double& to, const char* what);
  /// From `least` to `most`, both included.
  void add(const char* name, std::int64_t& to, const char* what, std::int64_t least, std::int64_t most = kUnlimited);
  /// One of `choices`; any text if there are none.
  void add(const char* name, std::string& to, const char* what, const std::vector<std::string>& choices = {});
  /// --picture, for samples that draw one.
  void add_picture(const char* file);
  /// Another one, into `to`: its ending and its folder are looked at before anything is computed.
  void add_picture(const char* name, std::string& to, const char* file, const char* what);
  const std::vector<const std::string*>& pictures() const { return pictures_; }

 private:
  CLI::App& app_;
  Flags& flags_;
  std::vector<const std::string*> pictures_;
};

/// Reads the command line into `flags`, seeds the library and calls `body`, which returns the exit code.
/// `add` adds the sample's own options.
int run(int argc, char** argv, const char* what, Flags& flags, const std::function<void(CommandLine&)>& add,
        const std::function<int()>& body);
inline int run(int argc, char** argv, const char* what, Flags& flags, const std::function<int()>& body) {
  return run(
      argc, argv, what, flags, [](CommandLine&) {}, body);
}

}  // namespace sample
