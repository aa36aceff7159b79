#pragma once
// Where bars are written, and what the environment says about them.
#include <string_view>

#include <capstan/io/progress.hpp>

namespace capstan::io {

struct TerminalSize {
  int columns = 80, rows = 24;
};

/// Tests have one of their own.
class ProgressOutput {
 public:
  virtual ~ProgressOutput() = default;
  virtual bool is_terminal() const = 0;
  virtual TerminalSize size() const = 0;          // asked at each drawing: windows change
  virtual bool has_room() const { return true; }  // else a drawing would have to wait, and is left out
  virtual void write(std::string_view text) = 0;
};

/// A file descriptor of somebody else's. What cannot be written is dropped, also if nobody reads a full pipe for 0.1 s;
/// errno stays as it was.
class DescriptorOutput final : public ProgressOutput {
 public:
  explicit DescriptorOutput(int descriptor) : descriptor_(descriptor) {}
  bool is_terminal() const override;
  TerminalSize size() const override;
  bool has_room() const override;
  void write(std::string_view text) override;

 private:
  int descriptor_;
  bool full_ = false;  // when something was to be written last
};

/// By CAPSTAN_PROGRESS; `automatic` if it says nothing, or nothing known.
ProgressMode mode_of_environment();
/// What `automatic` is there: `bar` or `plain`.
ProgressMode mode_of_surroundings(bool is_terminal);
/// Whether the locale's characters are UTF-8.
bool shows_blocks();

}  // namespace capstan::io
