#include "samples/support/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <utility>

namespace support {
namespace {

constexpr int kBarWidth = 24;
constexpr int kLines = 10;  // on something that is not a terminal
constexpr std::chrono::milliseconds kInterval{100};

std::string minutes(double seconds) {
  const auto whole = static_cast<long long>(std::llround(seconds));
  char text[32];
  if (whole >= 3600) std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  else std::snprintf(text, sizeof text, "%02lld:%02lld", whole / 60, whole % 60);
  return text;
}

std::string bar(double share) {
  const int full = static_cast<int>(share * kBarWidth);
  std::string text(static_cast<std::size_t>(full), '=');
  if (full < kBarWidth) text += '>';
  text.resize(kBarWidth, ' ');
  return text;
}

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string title, std::int64_t total)
    : title_(std::move(title)),
      total_(std::max<std::int64_t>(total, 1)),
      terminal_(isatty(STDOUT_FILENO) == 1),
      start_(Clock::now()),
      last_(start_ - kInterval) {}

Progress::~Progress() {
  if (!line_open_) return;
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

bool Progress::due(std::int64_t done) const {
  if (done >= total_) return shown_ < total_;
  if (terminal_) return Clock::now() - last_ >= kInterval;
  return done * kLines / total_ > std::max<std::int64_t>(shown_, 0) * kLines / total_;
}

void Progress::show(std::int64_t done, std::initializer_list<Figure> figures) {
  shown_ = done;
  last_ = Clock::now();
  std::string text = line(done, figures);
  if (terminal_) {
    const std::size_t width = terminal_width();
    if (text.size() >= width) text.resize(width - 1);  // a line that wraps could not be rewritten
    std::printf("\r%s\x1b[K", text.c_str());           // the escape clears what an older, longer line left
    line_open_ = true;
  } else {
    std::printf("%s\n", text.c_str());
  }
  std::fflush(stdout);
}

void Progress::clear() {
  if (!line_open_) return;
  std::fputs("\r\x1b[K", stdout);
  std::fflush(stdout);
  line_open_ = false;
}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

std::string Progress::line(std::int64_t done, std::initializer_list<Figure> figures) const {
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total_), 0.0, 1.0);
  char text[64];
  std::snprintf(text, sizeof text, " %3d%% ", static_cast<int>(share * 100));
  std::string result = title_ + text;
  if (terminal_) result += '[' + bar(share) + "] ";
  result += std::to_string(done) + '/' + std::to_string(total_);
  for (const Figure& figure : figures) {
    std::snprintf(text, sizeof text, "  %s %.4g", figure.name, figure.value);
    result += text;
  }
  const double spent = seconds();
  result += "  " + minutes(spent) + " elapsed";
  if (done > 0 && done < total_) result += ", " + minutes(spent / share * (1 - share)) + " left";
  return result;
}

}  // namespace support
