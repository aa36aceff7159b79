#include "io/progress_output.hpp"

#include <sys/ioctl.h>
#include <sys/poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <string>

namespace capstan::io {
namespace {

constexpr int kPatience = 100;  // ms for an output that is full

class KeepErrno {
 public:
  KeepErrno() = default;
  ~KeepErrno() { errno = before_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int before_ = errno;
};

/// While one lives, a pipe whose reader is gone and a file that may not grow are error codes on this thread, and no
/// signals that end the program. Signals that were pending before are left to whoever blocks them.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    sigemptyset(&ours_);
    for (const int number : {SIGPIPE, SIGXFSZ})
      if (sigismember(&pending, number) == 0) sigaddset(&ours_, number);
    blocks_ = pthread_sigmask(SIG_BLOCK, &ours_, &before_) == 0;
  }
  ~NoWriteSignals() {
    if (!blocks_) return;
    const std::timespec at_once{};
    while (sigtimedwait(&ours_, nullptr, &at_once) > 0) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

 private:
  sigset_t ours_{}, before_{};
  bool blocks_ = false;
};

/// Whether a write returns at once, also with an error; in a pipe that is so for up to PIPE_BUF bytes.
bool takes_text(int descriptor, int milliseconds) {
  pollfd room{};
  room.fd = descriptor;
  room.events = POLLOUT;
  sigset_t all;
  sigfillset(&all);  // their handlers run behind the wait, which they would end
  const std::timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  return ppoll(&room, 1, &time, &all) > 0;
}

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

bool DescriptorOutput::has_room() const {
  const KeepErrno keep;
  return takes_text(descriptor_, 0);
}

/// An output that nobody reads costs the patience once, and no more until it takes text again.
void DescriptorOutput::write(std::string_view text) {
  const KeepErrno keep;
  const NoWriteSignals quiet;
  while (!text.empty()) {
    full_ = !takes_text(descriptor_, full_ ? 0 : kPatience);
    if (full_) return;
    const ssize_t written = ::write(descriptor_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    else if (written == 0 || (errno != EINTR && errno != EAGAIN)) return;
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
