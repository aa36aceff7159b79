#pragma once
// A folder with checkpoints: what lies in it, what is new and what has to go.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/background_task.hpp"
#include "io/checkpoint_file.hpp"

namespace capstan::io {

/// The largest number, and the largest step, that file names have.
inline constexpr std::int64_t kMostNumber = 999'999'999'999'999'999;

/// What a file's name says.
struct CheckpointName {
  std::int64_t number = 0;
  std::int64_t step = 0;
  std::string file;  ///< "checkpoint-000012-step-1200.safetensors"
};

/// A checkpoint whose number is taken and whose file is made.
struct BegunCheckpoint {
  BegunCheckpoint(const char* op, const std::string& path, CheckpointName taken, const CheckpointHead& its_head,
                  PartContents contents, Where where)
      : name(std::move(taken)), head(its_head), output(op, path, head, std::move(contents), where) {}

  CheckpointName name;
  CheckpointHead head;
  CheckpointOutput output;
};

struct CheckpointFolder {
  CheckpointFolder(std::string folder, CheckpointOptions checked) : path(std::move(folder)), options(checked) {}

  /// In the order of their numbers; none if there is no such folder. Names that only look alike are left out. IoError
  /// if the folder cannot be read.
  std::vector<CheckpointName> names(const char* op, Where where) const;
  /// Those that have a metric, the best first. Damaged ones are left out, and said to `errors`. What cannot be opened
  /// goes to `unopened`; IoError if that is null.
  std::vector<CheckpointName> by_metric(const char* op, std::vector<std::string>& errors,
                                        std::set<std::string>* unopened, Where where);
  std::string path_of(const std::string& file) const;
  /// Read once. IoError.
  const CheckpointHead& head_of(const char* op, const std::string& file, Where where);

  /// Makes the folder, and in it the file of the next number.
  std::shared_ptr<BegunCheckpoint> begin(const char* op, std::int64_t step, std::optional<double> metric,
                                         PartContents contents, Where where);
  /// Writes it, and removes what is not to be kept beside it.
  void write(BegunCheckpoint& begun);
  /// Restores the first that is intact of those that `list` gives, which is asked again if one is removed meanwhile:
  /// its step, or none if there are none. IoError if none is intact, or one cannot be opened: that is no damage.
  std::optional<std::int64_t> restore(const char* op, const std::function<std::vector<CheckpointName>()>& list,
                                      std::span<const NamedPart> parts, Where where);

  const std::string path;
  const CheckpointOptions options;
  std::vector<std::string> skipped;             // errors; not touched by `writer`: users read them meanwhile
  std::map<std::string, CheckpointHead> heads;  // by the files' names
  std::set<std::string> damaged;                // files that were found so: neither counted nor removed
  bool tidied = false;
  BackgroundTask writer;  // last: it uses the others

 private:
  void skip(const std::string& file, const Error& error, std::vector<std::string>& errors);
  bool still_opens(const char* op, const std::string& file, std::set<std::string>* unopened, Where where) const;
  std::optional<CheckpointContents> read(const char* op, const std::string& file, std::set<std::string>& gone,
                                         Where where);
  void make(const char* op, Where where) const;
  void tidy() const noexcept;
  void remove_old(const std::string& newest);
};

}  // namespace capstan::io
