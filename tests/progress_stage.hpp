#pragma once
// What tests of progress bars share: an environment, a terminal or file, and a clock of their own.
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/progress_display.hpp"

namespace tests {

/// An environment variable for a while; without a value it is taken away.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    assign(value);
  }
  ~Variable() { assign(before_ ? before_->c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void assign(const char* value) {
    if (value != nullptr) setenv(name_, value, 1);
    else unsetenv(name_);
  }
  const char* name_;
  std::optional<std::string> before_;
};

/// A terminal on which nothing says that it is none, and characters are ASCII.
struct PlainEnvironment {
  Variable term{"TERM", "xterm"}, locale{"LC_ALL", "C"}, mode{"CAPSTAN_PROGRESS", nullptr}, ci{"CI", nullptr};
  Variable github{"GITHUB_ACTIONS", nullptr}, gitlab{"GITLAB_CI", nullptr}, jenkins{"JENKINS_URL", nullptr};
  Variable teamcity{"TEAMCITY_VERSION", nullptr}, buildkite{"BUILDKITE", nullptr}, azure{"TF_BUILD", nullptr};
  Variable columns{"COLUMNS", nullptr};
};

/// What stands on a terminal: ASCII, ends of lines, carriage returns, and of escapes those that move up (A) and clear
/// the rest of a line (K) or of the screen (J).
class Screen {
 public:
  explicit Screen(std::size_t columns = 80) : columns_(columns) {}

  void write(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') column_ = 0;
      else if (text[i] == '\n') ++row_, column_ = 0;
      else if (text[i] == '\x1b') i = escape(text, i + 2);
      else put(text[i]);
    }
  }
  /// Without blanks at the ends of lines, and without empty lines at the end.
  std::vector<std::string> lines() const {
    std::vector<std::string> result = rows_;
    for (std::string& line : result) line.erase(line.find_last_not_of(' ') + 1);
    while (!result.empty() && result.back().empty()) result.pop_back();
    return result;
  }

 private:
  std::string& row() {
    rows_.resize(std::max(rows_.size(), row_ + 1));
    return rows_[row_];
  }
  void put(char c) {
    if (column_ == columns_) ++row_, column_ = 0;
    row().resize(std::max(row().size(), column_ + 1), ' ');
    row()[column_++] = c;
  }
  std::size_t escape(std::string_view text, std::size_t i) {
    std::size_t number = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])) != 0; ++i)
      number = 10 * number + static_cast<std::size_t>(text[i] - '0');
    const char letter = i < text.size() ? text[i] : '?';
    if (letter == 'A') row_ -= std::min(row_, std::max<std::size_t>(number, 1));
    else row().resize(std::min(row().size(), column_));
    if (letter == 'J') rows_.resize(row_ + 1);
    return i;
  }

  std::size_t columns_, row_ = 0, column_ = 0;
  std::vector<std::string> rows_;
};

/// While one lives, bars are written here, and time stands still but for what tests make of it.
class Stage {
 public:
  explicit Stage(bool terminal, int columns = 80)
      : is_terminal(terminal), size{columns, 24}, screen_(static_cast<std::size_t>(columns)) {
    now = 1000;
    looks = 0;
    capstan::io::set_progress_clock([] {
      ++looks;
      return now.load();
    });
    before_ = capstan::io::ProgressDisplay::instance().exchange(std::make_unique<Output>(*this));
  }
  ~Stage() {
    capstan::io::ProgressDisplay::instance().exchange(std::move(before_));
    capstan::io::set_progress_clock(nullptr);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  static void wait(double seconds) { now += seconds; }
  /// What stands there: on a terminal after all escapes, else all lines.
  std::vector<std::string> lines() const { return screen_.lines(); }

  static inline std::atomic<double> now = 0;
  static inline std::atomic<int> looks = 0;  // at the clock

  bool is_terminal;
  capstan::io::TerminalSize size;
  std::string text;  // all that was written
  int writes = 0;
  bool has_memory = true;  // for what is written

 private:
  class Output final : public capstan::io::ProgressOutput {
   public:
    explicit Output(Stage& stage) : stage_(stage) {}
    bool is_terminal() const override { return stage_.is_terminal; }
    capstan::io::TerminalSize size() const override { return stage_.size; }
    void write(std::string_view text) override {
      if (!stage_.has_memory) throw std::bad_alloc();
      stage_.text += text;
      stage_.screen_.write(text);
      ++stage_.writes;
    }

   private:
    Stage& stage_;
  };

  PlainEnvironment environment_;
  Screen screen_;
  std::unique_ptr<capstan::io::ProgressOutput> before_;
};

}  // namespace tests
