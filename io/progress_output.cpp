#include "io/progress_output.hpp"

#include <sys/ioctl.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace capstan::io {
namespace {

constexpr int kPatience = 100;  // ms for an output that does not wait, and is full

class KeepErrno {
 public:
  KeepErrno() = default;
  ~KeepErrno() { errno = before_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int before_ = errno;
};

/// While one lives, a pipe that nobody reads is an error code on this thread, and no signal that ends the program.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    if (!is_pending()) blocks_ = pthread_sigmask(SIG_BLOCK, &pipe_, &before_) == 0;
  }
  ~NoBrokenPipe() {
    if (!blocks_) return;
    int taken = 0;
    if (is_pending()) sigwait(&pipe_, &taken);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  static bool is_pending() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
  }

  sigset_t pipe_{}, before_{};
  bool blocks_ = false;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_ci() {
  const std::string ci = variable("CI");
  if (!ci.empty() && ci != "false" && ci != "0") return true;
  const auto names = {"GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TEAMCITY_VERSION", "BUILDKITE", "TF_BUILD"};
  return std::any_of(names.begin(), names.end(), [](const char* name) { return !variable(name).empty(); });
}

/// COLUMNS, where the terminal does not say how wide it is.
int columns_of_environment() {
  const long columns = std::strtol(variable("COLUMNS").c_str(), nullptr, 10);
  return columns > 0 && columns < 10000 ? static_cast<int>(columns) : TerminalSize().columns;
}

}  // namespace

bool DescriptorOutput::is_terminal() const {
  const KeepErrno keep;
  return isatty(descriptor_) == 1;
}

TerminalSize DescriptorOutput::size() const {
  const KeepErrno keep;
  winsize window{};
  const bool known = ioctl(descriptor_, TIOCGWINSZ, &window) == 0;
  TerminalSize result;
  result.columns = known && window.ws_col > 0 ? window.ws_col : columns_of_environment();
  if (known && window.ws_row > 0) result.rows = window.ws_row;
  return result;
}

void DescriptorOutput::write(std::string_view text) {
  const KeepErrno keep;
  const NoBrokenPipe quiet;
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written < 0 && errno == EAGAIN) {
      pollfd room{};
      room.fd = descriptor_;
      room.events = POLLOUT;
      if (poll(&room, 1, kPatience) <= 0) return;
    } else if (written == 0 || errno != EINTR) {
      return;
    }
  }
}

ProgressMode mode_of_environment() {
  const std::string mode = variable("CAPSTAN_PROGRESS");
  if (mode == "off") return ProgressMode::off;
  if (mode == "plain") return ProgressMode::plain;
  return mode == "bar" ? ProgressMode::bar : ProgressMode::automatic;
}

ProgressMode mode_of_surroundings(bool is_terminal) {
  const std::string terminal = variable("TERM");
  return is_terminal && !terminal.empty() && terminal != "dumb" && !is_ci() ? ProgressMode::bar : ProgressMode::plain;
}

bool shows_blocks() {
  std::string locale;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (locale.empty()) locale = variable(name);
  std::transform(locale.begin(), locale.end(), locale.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace capstan::io
