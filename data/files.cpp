// Sources that read files: lines, records, and the names of files themselves.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <capstan/data/sources.hpp>

#include "data/fail.hpp"
#include "data/stage.hpp"
#include "lib/base/pattern.hpp"

namespace capstan::data {
namespace detail {
namespace {

struct Lines {
  using Reader = io::LineReader;
  static constexpr const char* kName = "lines";
  static std::int64_t count(const Reader& reader) { return reader.line(); }
  io::LineReaderOptions options;
};
struct Records {
  using Reader = io::TfRecordReader;
  static constexpr const char* kName = "records";
  static std::int64_t count(const Reader& reader) { return reader.count(); }
  io::TfRecordReaderOptions options;
};

template <class Kind>
class Files : public Stage {
 public:
  Files(std::vector<std::string> paths, Kind kind, Where where)
      : paths_(std::move(paths)), kind_(kind), where_(where) {}

  std::unique_ptr<Cursor> open(const Pass&) const override { return std::make_unique<Walk>(*this); }
  std::int64_t size() const override { return paths_.empty() ? 0 : kUnknownSize; }
  std::string name() const override { return Kind::kName; }

 private:
  class Walk : public Cursor {
   public:
    explicit Walk(const Files& stage) : stage_(stage) {}
    bool next(Item& item) override {
      for (; file_ < stage_.paths_.size(); ++file_, reader_.reset()) {
        if (!reader_) open();
        std::string text;
        if (reader_->next(text, stage_.where_)) {
          item = Item::of(std::move(text));
          return true;
        }
      }
      return false;
    }
    void save(State& state) const override {
      state.push_back(static_cast<std::int64_t>(file_));
      state.push_back(reader_ ? reader_->offset() : 0);
      state.push_back(reader_ ? Kind::count(*reader_) : 0);
    }
    void load(StateReader& state) override {
      file_ = static_cast<std::size_t>(state.take(0, static_cast<std::int64_t>(stage_.paths_.size())));
      const std::int64_t offset = state.take(), count = state.take();
      if (file_ == stage_.paths_.size() || offset == 0) return;
      open();
      reader_->seek(offset, count, stage_.where_);
    }

   private:
    void open() { reader_.emplace(stage_.paths_[file_], stage_.kind_.options, stage_.where_); }
    const Files& stage_;
    std::size_t file_ = 0;
    std::optional<typename Kind::Reader> reader_;  // of that file, once it is opened
  };

  std::vector<std::string> paths_;
  Kind kind_;
  Where where_;
};

}  // namespace
}  // namespace detail

Pipeline<std::string> lines(std::vector<std::string> paths, io::LineReaderOptions options, Where where) {
  if (options.max_line_bytes < 1)
    fail<Error>(where, "lines: max_line_bytes is ", options.max_line_bytes, "; it must be 1 or more.");
  return Pipeline<std::string>(
      detail::make_stage<detail::Files<detail::Lines>>(std::move(paths), detail::Lines{options}, where));
}
Pipeline<std::string> lines(std::string path, io::LineReaderOptions options, Where where) {
  return lines(std::vector<std::string>{std::move(path)}, options, where);
}

Pipeline<std::string> records(std::vector<std::string> paths, io::TfRecordReaderOptions options, Where where) {
  return Pipeline<std::string>(
      detail::make_stage<detail::Files<detail::Records>>(std::move(paths), detail::Records{options}, where));
}
Pipeline<std::string> records(std::string path, io::TfRecordReaderOptions options, Where where) {
  return records(std::vector<std::string>{std::move(path)}, options, where);
}

Pipeline<std::string> files(const std::string& pattern, Where where) {
  namespace fs = std::filesystem;
  const fs::path path(pattern);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().filename().string();
    if (at->is_regular_file(ignored) && base::matches(name, path.filename().string()))
      found.push_back((path.has_parent_path() ? folder / name : fs::path(name)).string());
  }
  if (error) fail<IoError>(where, "files: ", pattern, ": the folder cannot be read: ", error.message(), '.');
  if (found.empty()) fail<IoError>(where, "files: ", pattern, ": no file has such a name; there must be one.");
  std::sort(found.begin(), found.end());
  return from(std::move(found));
}

}  // namespace capstan::data
