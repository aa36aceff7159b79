// SummaryWriter and its file: when records get there, from many threads, and what happens when they do not.
#include <capstan/capstan.hpp>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/summary_files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
namespace wire = tests::wire;
using cs::Tensor;
using cs::io::SummaryWriter;
using tests::message_of;
using tests::TemporaryFolder;

namespace {

constexpr double kNever = 1e9;  // seconds

/// Since the epoch, by the clock that the writer reads (std::time's is a tick behind it).
double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Waits for something that a thread does; gives up after a time in which it must have happened.
bool happens(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::size_t events_in(const SummaryWriter& log) { return cs::io::read_events(log.path()).size(); }

/// While one lives, files of this process cannot become larger: a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uintmax_t bytes) : handler_(::signal(SIGXFSZ, [](int) {})) {
    REQUIRE(getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(bytes);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  /// Whether a thread of the library was to write something that had no room. It takes no signals: this one waits.
  static bool refused() {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(thread.path() / "status");
      for (std::string line; std::getline(status, line);)
        if (line.rfind("SigPnd:", 0) == 0 && (std::stoull(line.substr(7), nullptr, 16) >> (SIGXFSZ - 1) & 1) != 0)
          return true;
    }
    return false;
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

/// Whether it throws the IoError of a file that cannot be written.
bool fails(const std::function<void()>& call) {
  try {
    call();
    return false;
  } catch (const cs::IoError& error) {
    INFO(error.what());
    CHECK(std::string(error.what()).find(": cannot be written: ") != std::string::npos);
    CHECK(std::string(error.what()).find(" at offset ") != std::string::npos);
    return true;
  }
}

/// Logs scalars until the memory of a writer, whose file takes nothing, has no room for more.
void fill_memory(SummaryWriter& log) {
  log.scalar("x", 1, 0);
  CHECK(fails([&] { log.flush(); }));  // of which nobody else hears then
  for (int i = 0; i < 1000; ++i) log.scalar("x", 1, i);
}

}  // namespace

// --- the file ------------------------------------------------------------------------------------------------------

TEST_CASE("an event file has TensorBoard's name, and begins with the version", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const double before = seconds_now();
  SummaryWriter log(folder.path("runs/a/b"), {.suffix = ".train"});
  const std::string path = log.path();
  CHECK(path == tests::only_file(folder.path("runs/a/b")));
  const std::string name = std::filesystem::path(path).filename().string();
  CHECK(std::regex_match(name, std::regex("events\\.out\\.tfevents\\.[0-9]{10}\\.[A-Za-z0-9_.-]+\\." +
                                          std::to_string(getpid()) + "\\.[0-9]+\\.train")));
  const std::vector<std::string> records = cs::io::read_tfrecords(path);  // it is there at once
  REQUIRE(records.size() == 1);
  const double time = tests::time_of(records[0]);
  CHECK(records[0] == wire::real(1, time) + wire::text(3, "brain.Event:2"));
  CHECK(time >= before);
  CHECK(time <= seconds_now());
}

TEST_CASE("each writer has a file of its own, also in the same folder", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter first(folder.path("run")), second(folder.path("run"));
  CHECK(first.path() != second.path());
  first.scalar("x", 1, 0);
  second.scalar("x", 2, 0);
  first.close();
  second.close();
  CHECK(cs::io::read_events(first.path()).at(1).values.at(0).scalar == 1);
  CHECK(cs::io::read_events(second.path()).at(1).values.at(0).scalar == 2);
}

TEST_CASE("what is flushed can be read while the file is open, and nothing before", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever});
  for (int i = 0; i < 100; ++i) log.scalar("x", i, i);
  CHECK(events_in(log) == 1);
  log.flush();
  CHECK(events_in(log) == 101);
  log.flush();
  log.scalar("x", 100, 100);
  CHECK(events_in(log) == 101);
  log.close();
  const std::vector<cs::io::Event> events = cs::io::read_events(log.path());
  REQUIRE(events.size() == 102);
  for (std::size_t i = 1; i < events.size(); ++i) {
    CHECK(events[i].step == static_cast<std::int64_t>(i) - 1);
    CHECK(events[i].wall_time >= events[i - 1].wall_time);
  }
}

TEST_CASE("a thread flushes after the time that was given", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = 0.02});
  for (std::size_t i = 1; i <= 3; ++i) {
    log.scalar("x", 1, 0);
    CHECK(happens([&] { return events_in(log) == 1 + i; }));
  }
}

TEST_CASE("a thread flushes when there are as many bytes as were given", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever, .flush_bytes = 1000});
  log.text("x", std::string(500, '.'), 0);
  CHECK(events_in(log) == 1);
  log.text("x", std::string(500, '.'), 1);
  CHECK(happens([&] { return events_in(log) == 3; }));
}

TEST_CASE("records larger than all buffers are written, in their order", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever, .flush_bytes = 1});
  for (std::int64_t i = 0; i < 50; ++i) {
    log.scalar("x", 0.5, 2 * i);
    log.text("t", std::string(static_cast<std::size_t>(i) * 1000, 'x'), 2 * i + 1);
  }
  log.close();
  const std::vector<cs::io::Event> events = cs::io::read_events(log.path());
  REQUIRE(events.size() == 101);
  for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i].step == static_cast<std::int64_t>(i) - 1);
  CHECK(events[100].values.at(0).bytes.at(0).size() == 49000);
}

TEST_CASE("a writer that goes away closes its file, and one that moved goes on", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  std::string path;
  {
    SummaryWriter first(folder.path("run"), {.flush_seconds = kNever});
    path = first.path();
    first.scalar("x", 1, 0);
    SummaryWriter second(std::move(first));
    second.scalar("x", 2, 1);
    CHECK_THROWS_AS(first.scalar("x", 3, 2), cs::Error);  // NOLINT: what is moved from says so
    SummaryWriter third(folder.path("other"));
    third = std::move(second);
    third.scalar("x", 4, 3);
    CHECK(third.path() == path);
  }
  CHECK(cs::io::read_events(path).size() == 4);
}

// --- threads -------------------------------------------------------------------------------------------------------

TEST_CASE("many threads log at once, and each record is whole", "[io][summary][host][threads]") {
  if (!wire::has_events()) return;
  constexpr int kThreads = 4, kScalars = 1000;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = 0, .flush_bytes = 4096});
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&log, thread] {
      const std::string tag = "thread" + std::to_string(thread);
      for (int i = 0; i < kScalars; ++i) {
        log.scalar(tag, thread + i * 0.5, i);
        if (i % 100 == 0) log.text(tag + "/text", std::string(static_cast<std::size_t>(i), 'x'), i);
        if (i % 250 == 0) log.flush();
      }
    });
  for (std::thread& thread : threads) thread.join();
  log.close();
  std::map<std::string, std::vector<double>> scalars;
  std::size_t texts = 0;
  for (const cs::io::Event& event : cs::io::read_events(log.path()))
    for (const cs::io::SummaryValue& value : event.values) {
      if (value.kind == cs::io::SummaryKind::scalar) scalars[value.tag].push_back(value.scalar);
      else ++texts;
    }
  CHECK(texts == std::size_t{kThreads * kScalars / 100});
  CHECK(scalars.size() == std::size_t{kThreads});
  for (int thread = 0; thread < kThreads; ++thread) {
    std::vector<double> expected;
    for (int i = 0; i < kScalars; ++i) expected.push_back(thread + i * 0.5);
    CHECK((scalars["thread" + std::to_string(thread)] == expected));  // in the thread's order
  }
}

// --- what goes wrong -----------------------------------------------------------------------------------------------

#if !defined(__SANITIZE_THREAD__)  // which cannot start a thread behind a fork
TEST_CASE("what was flushed survives kill -9", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      SummaryWriter log(folder.path("run"), {.flush_seconds = kNever});
      for (int i = 0; i < 100; ++i) log.scalar("x", i, i);
      log.flush();
      for (int i = 100; i < 200; ++i) log.scalar("x", i, i);
      kill(getpid(), SIGKILL);
    } catch (...) {}
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  const std::vector<cs::io::Event> events = cs::io::read_events(tests::only_file(folder.path("run")));
  REQUIRE(events.size() == 101);
  CHECK(events.back().step == 99);
}
#endif

TEST_CASE("flush and close say that the disk is full, and what was logged is kept until it is not",
          "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever});
  const auto log_some = [&](int from) {
    for (int i = from; i < from + 20; ++i) log.scalar("x", i, i);
  };
  log_some(0);
  log.flush();
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()) + 30);  // in the middle of a record
    log_some(20);
    CHECK(fails([&] { log.flush(); }));
    log_some(40);  // they do not say it again
    CHECK(fails([&] { log.flush(); }));
    CHECK(events_in(log) == 21);  // the part of a record at the end is no event
  }
  log_some(60);
  log.flush();
  const std::vector<cs::io::Event> events = cs::io::read_events(log.path());
  REQUIRE(events.size() == 81);
  for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i].step == static_cast<std::int64_t>(i) - 1);
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()));
    log_some(80);
    CHECK(fails([&] { log.close(); }));
  }
  log.close();  // it is closed
  CHECK(events_in(log) == 81);
}

TEST_CASE("an error of the thread is thrown by the next call, once, and memory stays bounded", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = 0, .flush_bytes = 100});
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()));
    std::int64_t step = 0;
    CHECK(happens([&] { return fails([&] { log.scalar("x", 1, step++); }); }));
    for (int i = 0; i < 10000; ++i) log.scalar("x", 1, step++);  // no error, and no waiting
    CHECK(fails([&] { log.flush(); }));
  }
  log.flush();                         // there is room again,
  CHECK(fails([&] { log.close(); }));  // but not all is in the file
  log.close();
  const std::size_t events = events_in(log);
  CHECK(events > 1);
  CHECK(events < 1000);  // 32 times 100 bytes, and what one record has
}

TEST_CASE("a run ends well in its file also if the disk was full until it was closed", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = 0});
  log.hparams({{"layers", 3}});
  log.flush();
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()));
    log.scalar("x", 1, 0);
    CHECK(happens([] { return FileSizeLimit::refused(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // at the second try nobody has heard of the first
  }
  log.close();
  const std::vector<cs::io::Event> events = cs::io::read_events(log.path());
  REQUIRE(events.size() == 5);
  CHECK(events.back().values.at(0).tag == "_hparams_/session_end_info");
}

TEST_CASE("a run ends well in its file also if memory was full until it was closed", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever, .flush_bytes = 100});
  log.hparams({{"layers", 3}});
  log.flush();
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()));
    fill_memory(log);
  }
  CHECK(fails([&] { log.close(); }));  // for the scalars that are lost
  CHECK(cs::io::read_events(log.path()).back().values.at(0).tag == "_hparams_/session_end_info");
}

TEST_CASE("texts, graphs and hyper-parameters are errors while memory is full, and never dropped",
          "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"), {.flush_seconds = kNever, .flush_bytes = 100});
  const Tensor x = cs::ones({2});
  cs::GradientTape tape;
  tape.watch(x);
  const Tensor y = cs::exp(x);
  const std::vector<std::function<void()>> calls = {[&] {
                                                      log.hparams({{"layers", 3}});
                                                    },
                                                    [&] { log.text("notes", "a text", 0); }, [&] { log.graph(tape); }};
  {
    const FileSizeLimit limit(std::filesystem::file_size(log.path()));
    fill_memory(log);
    for (int times = 0; times < 2; ++times)
      for (const std::function<void()>& call : calls) CHECK(fails(call));
  }
  for (const std::function<void()>& call : calls) call();  // there is room again
  CHECK(fails([&] { log.close(); }));                      // for the scalars that are lost
  const std::vector<cs::io::Event> events = cs::io::read_events(log.path());
  REQUIRE(events.size() > 5);
  const std::size_t end = events.size();
  CHECK(events[end - 5].values.at(0).tag == "_hparams_/experiment");
  CHECK(events[end - 4].values.at(0).tag == "_hparams_/session_start_info");
  CHECK(events[end - 3].values.at(0).tag == "notes");
  CHECK(!events[end - 2].graph.empty());
  CHECK(events[end - 1].values.at(0).tag == "_hparams_/session_end_info");
  for (std::size_t i = 1; i < end - 5; ++i) CHECK(events[i].values.at(0).tag == "x");
}

TEST_CASE("tags and texts for which messages have no room are errors, and nothing is logged", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  SummaryWriter log(folder.path("run"));
  constexpr std::size_t bytes = std::size_t{1} << 30;  // twice as many are more than protobuf's 2^31 - 1
  void* const zeros = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(zeros != MAP_FAILED);
  const std::string_view large(static_cast<const char*>(zeros), bytes);
  const auto text_of = [](const std::function<void()>& call) {
    return tests::split_message(message_of<cs::Error>(call)).text;
  };
  const std::string most = " has 1073741824 bytes; it may have 1073676288.";
  CHECK(text_of([&] { log.scalar(large, 1, 0); }) == "SummaryWriter::scalar: the tag" + most);
  CHECK(text_of([&] { log.text(large, large, 0); }) == "SummaryWriter::text: the tag" + most);
  CHECK(text_of([&] { log.text("x", large, 0); }) == "SummaryWriter::text: the text" + most);
  CHECK(munmap(zeros, bytes) == 0);
  log.close();
  CHECK(events_in(log) == 1);
}

TEST_CASE("folders and files that cannot be made are errors", "[io][summary][host]") {
  if (!wire::has_events()) return;
  const TemporaryFolder folder;
  const std::string file = folder.write_text("file", "a file");
  const auto text_of = [](const std::string& path) {
    return tests::split_message(message_of<cs::IoError>([&] { const SummaryWriter log(path); })).text;
  };
  CHECK(text_of(file) ==
        "SummaryWriter: " + file + ": cannot be made: Not a directory; it must be a folder, or become one.");
  CHECK(text_of(file + "/run").find("SummaryWriter: " + file + "/run: cannot be made: Not a directory") == 0);
  CHECK(text_of("").find("SummaryWriter: : cannot be made: ") == 0);
  CHECK(text_of(std::string("a\0b", 3)).find("SummaryWriter: a: cannot be made: the name goes on") == 0);
  CHECK(tests::file_bytes(file) == tests::bytes_of("a file"));
  const FileSizeLimit limit(0);
  CHECK(text_of(folder.path("run")).find("cannot be written: File too large at offset 0") != std::string::npos);
  CHECK(std::filesystem::is_empty(folder.path("run")));
}

// A row's __LINE__ must stand on the line of its call.
// clang-format off

TEST_CASE("what cannot be logged is an error, and nothing is logged", "[io][summary][errors]") {
  if (!wire::has_events()) return;
  using cs::DType;
  using cs::DTypeError;
  using cs::Error;
  using cs::ShapeError;
  const std::string op = "SummaryWriter", file = "summary_writer_test.cpp";
  const TemporaryFolder folder;
  const std::string place = folder.path("run"), none = folder.path("none");
  SummaryWriter log(place), closed(place), moved(place);
  closed.close();
  const SummaryWriter other = std::move(moved);
  const Tensor x = cs::ones({2, 3}), integers = {1, 2}, nothing;
  const cs::GradientTape tape;
  const std::string undefined = ": the tensor is undefined; give it a value first.";
  const std::string is_closed = ": " + closed.path() + " is closed; a run is logged before that.";
  const std::string sizes = "; it must be [height, width], [channels, height, width] or [n, channels, height, width], "
                            "with 1 to 4 channels and no size of 0.";
  const std::string frames = "; they must be [frames] or [channels, frames] with 1 to 64 channels, and no size 0.";
  log.hparams({{"layers", 3}});
  tests::check_errors({
      {__LINE__, message_of<Error>, [&] { const SummaryWriter w(none, {.flush_seconds = -1}); },
       op + ": flush_seconds is -1; it must be 0 or more."},
      {__LINE__, message_of<Error>, [&] { const SummaryWriter w(none, {.flush_seconds = tests::kNaN}); },
       op + ": flush_seconds is nan; it must be 0 or more."},
      {__LINE__, message_of<Error>, [&] { const SummaryWriter w(none, {.flush_bytes = 0}); },
       op + ": flush_bytes is 0; it must be 1 or more."},
      {__LINE__, message_of<Error>, [&] { const SummaryWriter w(none, {.suffix = "/x"}); },
       op + ": the suffix is '/x'; it must be a part of a file's name."},
      {__LINE__, message_of<Error>, [&] { log.scalar("", 1, 0); },
       op + "::scalar: the tag is empty; it must have a name to be shown under."},
      {__LINE__, message_of<Error>, [&] { log.scalar("a\xFF", 1, 0); },
       op + "::scalar: the tag 'a\\xFF' is no UTF-8 at offset 1; it must be."},
      {__LINE__, message_of<Error>, [&] { log.scalar("x", nothing, 0); }, op + "::scalar" + undefined},
      {__LINE__, message_of<ShapeError>, [&] { log.scalar("x", x, 0); },
       op + "::scalar: the value is [2, 3]; it must have one element."},
      {__LINE__, message_of<Error>, [&] { log.histogram("", x, 0); },
       op + "::histogram: the tag is empty; it must have a name to be shown under."},
      {__LINE__, message_of<Error>, [&] { log.histogram("x", nothing, 0); }, op + "::histogram" + undefined},
      {__LINE__, message_of<Error>, [&] { log.histogram("x", x, 0, {.bins = 0}); },
       op + "::histogram: 0 bins were asked for; there must be at least 1."},
      {__LINE__, message_of<Error>, [&] { log.image("x", nothing, 0); }, op + "::image" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { log.image("x", integers, 0); },
       op + "::image: the image is int32; it must be uint8, or of a floating type with values of 0 to 1."},
      {__LINE__, message_of<ShapeError>, [&] { log.image("x", cs::ones({3}), 0); },
       op + "::image: the image is [3]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { log.image("x", cs::ones({5, 2, 2}), 0); },
       op + "::image: the image is [5, 2, 2]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { log.image("x", cs::ones({0, 1, 2, 2}), 0); },
       op + "::image: the image is [0, 1, 2, 2]" + sizes},
      {__LINE__, message_of<ShapeError>, [&] { log.image("x", cs::ones({1, 1, 1, 2, 2}), 0); },
       op + "::image: the image is [1, 1, 1, 2, 2]" + sizes},
      {__LINE__, message_of<Error>, [&] { log.audio("x", nothing, 0); }, op + "::audio" + undefined},
      {__LINE__, message_of<DTypeError>, [&] { log.audio("x", integers, 0); },
       op + "::audio: the samples are int32; they must be of a floating type, with values of -1 to 1."},
      {__LINE__, message_of<Error>, [&] { log.audio("x", x, 0, {.rate = 0}); },
       op + "::audio: the rate is 0; it must be 1 to 16777216 frames a second."},
      {__LINE__, message_of<ShapeError>, [&] { log.audio("x", cs::ones({65, 1}), 0); },
       op + "::audio: the samples are [65, 1]" + frames},
      {__LINE__, message_of<ShapeError>, [&] { log.audio("x", cs::ones({2, 0}), 0); },
       op + "::audio: the samples are [2, 0]" + frames},
      {__LINE__, message_of<ShapeError>, [&] { log.audio("x", cs::ones({}), 0); },
       op + "::audio: the samples are []" + frames},
      {__LINE__, message_of<Error>, [&] { log.text("x", "\xC0\x80", 0); },
       op + "::text: the text '\\xC0\\x80' is no UTF-8 at offset 0; it must be."},
      {__LINE__, message_of<cs::TapeError>, [&] { log.graph(tape); },
       op + "::graph: the tape has recorded nothing, or `gradient` has spent it; it must hold the operations of a "
            "forward pass."},
      {__LINE__, message_of<Error>, [&] { log.hparams({{"layers", 3}}); },
       op + "::hparams: the hyper-parameters of this run are known; they are given once."},
      {__LINE__, message_of<Error>, [&] { log.hparams({{"layers", 3}, {"layers", "x"}}); },
       op + "::hparams: 'layers' is there twice; it must have one value."},
      {__LINE__, message_of<Error>, [&] { log.hparams({{"", 3}}); },
       op + "::hparams: the hyper-parameter's name is empty; it must have a name to be shown under."},
      {__LINE__, message_of<Error>, [&] { log.hparams({}, {"a\xFF"}); },
       op + "::hparams: the metric's tag 'a\\xFF' is no UTF-8 at offset 1; it must be."},
      {__LINE__, message_of<Error>, [&] { closed.scalar("x", 1, 0); }, op + "::scalar" + is_closed},
      {__LINE__, message_of<Error>, [&] { closed.text("x", "", 0); }, op + "::text" + is_closed},
      {__LINE__, message_of<Error>, [&] { closed.flush(); }, op + "::flush" + is_closed},
      {__LINE__, message_of<Error>, [&] { moved.scalar("x", 1, 0); },
       op + "::scalar: this writer was moved from; it must hold a file."},
      {__LINE__, message_of<Error>, [&] { moved.close(); },
       op + "::close: this writer was moved from; it must hold a file."},
  }, file);
  closed.close();
  log.close();
  CHECK(cs::io::read_events(log.path()).size() == 4);  // the version, and what hparams and close have written
  CHECK_FALSE(std::filesystem::exists(none));
}
