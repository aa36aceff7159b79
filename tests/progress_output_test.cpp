// Progress bars: where they are shown and how, by options, environment and what the output is; pipes and terminals of
// the system.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/progress_stage.hpp"
#include "tests/support.hpp"

namespace cs = capstan;

namespace {

using tests::Stage;
using tests::Variable;

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// Whether a short loop writes a bar, plain lines, or nothing.
std::string shown(bool terminal, cs::ProgressOptions options = {}, const char* variable = nullptr,
                  const char* value = nullptr) {
  Stage stage(terminal);
  std::optional<Variable> changed;
  if (variable != nullptr) changed.emplace(variable, value);
  for ([[maybe_unused]] auto i : cs::progress(2, "x", std::move(options))) Stage::wait(1);
  if (stage.text.empty()) return "off";
  return contains(stage.text, "\x1b[") ? "bar" : "plain";
}

/// Reading does not wait; a write would wait forever, as pipes do.
void make_full_pipe(int (&ends)[2]) {
  REQUIRE(pipe(ends) == 0);
  REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
  REQUIRE(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  const std::string filling(4096, '#');
  while (::write(ends[1], filling.data(), filling.size()) > 0) {}
  REQUIRE(fcntl(ends[1], F_SETFL, 0) == 0);
}

}  // namespace

TEST_CASE("bars are for terminals, and the environment can change that", "[io][progress][host]") {
  using Mode = cs::ProgressMode;
  CHECK(shown(true) == "bar");
  CHECK(shown(false) == "plain");
  CHECK(shown(true, {}, "TERM", "dumb") == "plain");
  CHECK(shown(true, {}, "TERM", nullptr) == "plain");
  for (const char* name :
       {"CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TEAMCITY_VERSION", "BUILDKITE", "TF_BUILD"})
    CHECK(shown(true, {}, name, "true") == "plain");
  CHECK(shown(true, {}, "CI", "false") == "bar");
  CHECK(shown(true, {}, "CAPSTAN_PROGRESS", "off") == "off");
  CHECK(shown(true, {}, "CAPSTAN_PROGRESS", "plain") == "plain");
  CHECK(shown(false, {}, "CAPSTAN_PROGRESS", "bar") == "bar");
  CHECK(shown(false, {}, "CAPSTAN_PROGRESS", "?") == "plain");
  CHECK(shown(true, {.mode = Mode::off}) == "off");
  CHECK(shown(true, {.mode = Mode::plain}) == "plain");
  CHECK(shown(true, {.mode = Mode::plain}, "CAPSTAN_PROGRESS", "bar") == "plain");  // what is nearest counts
  CHECK(shown(true, {.mode = Mode::bar}, "CAPSTAN_PROGRESS", "off") == "off");      // but for off
}

TEST_CASE("the mode of the process counts before the environment", "[io][progress][host]") {
  using Mode = cs::ProgressMode;
  CHECK(cs::progress_mode() == Mode::automatic);
  cs::set_progress_mode(Mode::off);
  CHECK(cs::progress_mode() == Mode::off);
  CHECK(shown(true, {}, "CAPSTAN_PROGRESS", "bar") == "off");
  CHECK(shown(true, {.mode = Mode::bar}) == "off");
  cs::set_progress_mode(Mode::plain);
  CHECK(shown(true) == "plain");
  CHECK(shown(true, {.mode = Mode::bar}) == "bar");
  cs::set_progress_mode(Mode::automatic);
  CHECK(shown(true) == "bar");
}

TEST_CASE("a bar that is off counts, and prints what it is told to", "[io][progress][host]") {
  Stage stage(true);
  cs::Progress bar(2, "silent", {.mode = cs::ProgressMode::off});
  bar.advance(2);
  bar.set("loss", 1);
  bar.print("text");
  Stage::wait(3);
  bar.finish();
  CHECK(bar.done() == 2);
  CHECK(bar.seconds() == Approx(3));
  CHECK(stage.text == "text\n");
  CHECK(Stage::looks.load() <= 3);
}

TEST_CASE("bars are of blocks where the locale is UTF-8", "[io][progress][host]") {
  Stage stage(true);
  const Variable locale("LC_ALL", "C.UTF-8");
  const cs::Progress bar(2, "x", {.start = 1});
  CHECK(contains(stage.text, "|\xE2\x96\x88\xE2\x96\x88"));
}

// --- real outputs ----------------------------------------------------------------------------------------------------

TEST_CASE("a pipe has whole lines", "[io][progress][host]") {
  Stage stage(false);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  cs::set_progress_output(ends[1]);
  for ([[maybe_unused]] auto i : cs::progress(2, "piped")) Stage::wait(1);
  close(ends[1]);
  std::string text(1000, '\0');
  const ssize_t count = read(ends[0], text.data(), text.size());
  close(ends[0]);
  text.resize(static_cast<std::size_t>(count > 0 ? count : 0));
  CHECK(text == "piped  50%  1/2  1.00 it/s  0:01, 0:01 left\npiped 100%  2/2  1.00 it/s  in 2.0 s\n");
}

TEST_CASE("a pipe that nobody reads, and a descriptor that is closed, are ignored", "[io][progress][host]") {
  Stage stage(false);
  const auto before = std::signal(SIGPIPE, SIG_DFL);  // which would end this program
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  close(ends[0]);
  cs::set_progress_output(ends[1]);
  errno = 0;
  for ([[maybe_unused]] auto i : cs::progress(3, "unheard")) Stage::wait(1);
  close(ends[1]);
  for ([[maybe_unused]] auto i : cs::progress(3, "unheard")) Stage::wait(1);
  CHECK(errno == 0);
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  CHECK(sigismember(&pending, SIGPIPE) == 0);
  std::signal(SIGPIPE, before);
}

TEST_CASE("a full pipe does not hold up who writes, and lines go on when it is read", "[io][progress][host]") {
  Stage stage(false);
  int ends[2];
  make_full_pipe(ends);
  cs::set_progress_output(ends[1]);
  {
    cs::Progress bar(4, "drawn", {.mode = cs::ProgressMode::bar});
    bar.print("dropped");
    Stage::wait(1);
    bar.advance(4);
  }
  std::string text(1 << 17, '\0');
  while (::read(ends[0], text.data(), text.size()) > 0) {}
  cs::Progress bar(2, "heard");
  bar.print("text");
  bar.advance(2);
  bar.finish();
  const ssize_t count = ::read(ends[0], text.data(), text.size());
  close(ends[0]);
  close(ends[1]);
  text.resize(static_cast<std::size_t>(count > 0 ? count : 0));
  CHECK(text == "text\nheard 100%  2/2  in 0.0 s\n");
}

TEST_CASE("signals do not end the wait for a full pipe", "[io][progress][host]") {
  Stage stage(false);
  int ends[2];
  make_full_pipe(ends);
  cs::set_progress_output(ends[1]);
  std::string text;
  const auto read_all = [&] {
    char letters[4096];
    for (ssize_t count = 0; (count = ::read(ends[0], letters, sizeof letters)) > 0;)
      text.append(letters, static_cast<std::size_t>(count));
  };
  struct sigaction passed {
  }, before{};
  passed.sa_handler = [](int) {};
  REQUIRE(sigaction(SIGALRM, &passed, &before) == 0);
  itimerval ticks{};
  ticks.it_value.tv_usec = ticks.it_interval.tv_usec = 2000;
  const bool ticking = setitimer(ITIMER_REAL, &ticks, nullptr) == 0;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    read_all();
  });
  cs::Progress bar(1, "x", {.mode = cs::ProgressMode::off});
  bar.print("heard");
  reader.join();
  ticks = {};
  setitimer(ITIMER_REAL, &ticks, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  read_all();
  close(ends[0]);
  close(ends[1]);
  CHECK(ticking);
  CHECK(text.ends_with("#heard\n"));
}

TEST_CASE("a file that may not grow ends no program", "[io][progress][host]") {
  Stage stage(false);
  const tests::TemporaryFolder folder;
  const std::string path = folder.path("log");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  REQUIRE(file >= 0);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit limit = before;
  limit.rlim_cur = 10;
  const auto handler = std::signal(SIGXFSZ, SIG_DFL);  // which would end this program
  const bool limited = setrlimit(RLIMIT_FSIZE, &limit) == 0;
  cs::set_progress_output(file);
  for ([[maybe_unused]] auto i : cs::progress(3, "cut")) Stage::wait(1);
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  close(file);
  CHECK(limited);
  CHECK(sigismember(&pending, SIGXFSZ) == 0);
  CHECK(tests::file_bytes(path) == tests::bytes_of("cut  33%  "));  // ten bytes
}

namespace {

/// A terminal of the system's, whose other end is read here.
class PseudoTerminal {
 public:
  PseudoTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
    const char* name = ptsname(master_);
    if (name != nullptr) slave_ = open(name, O_RDWR | O_NOCTTY);
  }
  ~PseudoTerminal() {
    if (slave_ >= 0) close(slave_);
    if (master_ >= 0) close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  int descriptor() const { return slave_; }  // negative where the system has none
  void resize(unsigned short columns, unsigned short rows) const {
    winsize size{};
    size.ws_col = columns;
    size.ws_row = rows;
    REQUIRE(ioctl(slave_, TIOCSWINSZ, &size) == 0);
  }
  /// What arrived since the last call: all in front of a mark that is written behind it.
  std::string arrived() const {
    REQUIRE(::write(slave_, "#", 1) == 1);
    std::string text;
    for (char c = 0; ::read(master_, &c, 1) == 1 && c != '#';) text += c;
    return text;
  }

 private:
  int master_, slave_ = -1;
};

}  // namespace

TEST_CASE("a real terminal has bars in its width, and none of the inner ones at the end", "[io][progress][host]") {
  const PseudoTerminal terminal;
  if (terminal.descriptor() < 0) {
    WARN("no pseudo-terminal: this case checked nothing");
    return;
  }
  Stage stage(true);
  terminal.resize(60, 24);
  cs::set_progress_output(terminal.descriptor());
  tests::Screen screen(60);
  {
    cs::Progress outer(4, "outer");
    cs::Progress inner(10, "inner");
    Stage::wait(1);
    inner.advance(5);
    screen.write(terminal.arrived());
    REQUIRE(screen.lines().size() == 2);
    CHECK(screen.lines()[0] == "outer   0% [>" + std::string(29, ' ') + "] 0/4  0:01");
    // 59 - 12 - 32 - 4 cells: 11, half of which are 5
    CHECK(screen.lines()[1] == "  inner  50% [=====>     ] 5/10  5.00 it/s  0:01, 0:01 left");
    inner.finish();
    terminal.resize(40, 24);
    outer.advance(4);
    Stage::wait(1);
  }
  screen.write(terminal.arrived());
  CHECK(screen.lines() == std::vector<std::string>{"outer 100%  4/4  2.00 it/s  in 2.0 s"});
}
