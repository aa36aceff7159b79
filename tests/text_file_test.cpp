// Text files: whole, and line by line, forwards and from a place that was noted.
#include "tests/catch.hpp"

#include <capstan/capstan.hpp>

#include <sys/stat.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/files.hpp"
#include "tests/support.hpp"

namespace cs = capstan;
using namespace std::string_literals;

namespace {

using tests::Bytes;
using tests::bytes_of;
using tests::gzip;
using tests::TemporaryFolder;
using Lines = std::vector<std::string>;

const std::string kMark = "\xEF\xBB\xBF";  // UTF-8's byte order mark

Lines rest_of(cs::io::LineReader& reader) {
  Lines lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

Lines lines_of(const std::string& path, cs::io::LineReaderOptions options = {}) {
  cs::io::LineReader reader(path, options);
  return rest_of(reader);
}

/// Lines of 0 to 996 letters, about 1.5 MB: many times the reader's buffer, and never in step with it.
Lines many_lines() {
  Lines lines;
  for (std::size_t i = 0; i < 3000; ++i) lines.emplace_back(i * 7919 % 997, static_cast<char>('a' + i % 26));
  return lines;
}

std::string joined_with_newlines(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// A pipe with a name, into which a thread writes a text.
class Pipe {
 public:
  explicit Pipe(std::string text) : path_(folder_.path("pipe")) {
    REQUIRE(mkfifo(path_.c_str(), 0600) == 0);
    writer_ = std::thread([this, all = std::move(text)] { std::ofstream(path_, std::ios::binary) << all; });
  }
  ~Pipe() { writer_.join(); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
  std::thread writer_;
};

std::string text_of_error(const tests::Call& call) {
  return tests::split_message(tests::message_of<cs::IoError>(call)).text;
}

}  // namespace

TEST_CASE("read_text gives all bytes of a file, zeros among them, plain and gzip", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const Lines texts = {"", "a", "one\ntwo\r\n", "zero\0byte\n"s, std::string(200000, 'x') + "\nend", "\xFF\xFE\x80"};
  for (const std::string& text : texts) {
    CHECK(cs::io::read_text(folder.write_text("plain.txt", text)) == text);
    CHECK(cs::io::read_text(folder.write("packed.txt.gz", gzip(bytes_of(text)))) == text);
  }
}

TEST_CASE("read_text leaves out a byte order mark at the beginning, and no other", "[io][text_file][host]") {
  const TemporaryFolder folder;
  CHECK(cs::io::read_text(folder.write_text("a.txt", kMark + "word " + kMark)) == "word " + kMark);
  CHECK(cs::io::read_text(folder.write("a.txt", gzip(bytes_of(kMark)))) == "");
  CHECK(cs::io::read_text(folder.write_text("a.txt", "\xEF\xBB")) == "\xEF\xBB");
}

TEST_CASE("texts are written whole, and over files alone", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.txt"), other = folder.write_text("a.txt.part", "somebody else's");
  for (const std::string& text : {"a\r\nb\0c"s, ""s, joined_with_newlines(many_lines())}) {
    cs::io::write_text(path, text);
    CHECK((tests::file_bytes(path) == bytes_of(text)));
  }
  CHECK(tests::file_bytes(other) == bytes_of("somebody else's"));

  const std::string pipe = folder.path("pipe");  // for a device, say, it would be as bad
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(text_of_error([&] { cs::io::write_text(pipe, "x"); }) ==
        "write_text: " + pipe + ": cannot be made: something else stands there; it must be a regular file, or none.");
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(text_of_error([&] { cs::io::write_text(path + "\0.txt"s, "x"); }) ==
        "write_text: " + path + ": cannot be made: the name goes on behind a zero byte; no file's does.");
  CHECK(text_of_error([] { cs::io::write_text("", "x"); }) ==
        "write_text: the name of the file is empty; it must have one.");
  CHECK((tests::file_bytes(path) == bytes_of(joined_with_newlines(many_lines()))));
}

TEST_CASE("lines end with a newline, with a carriage return before it, or with the file", "[io][text_file][host]") {
  const std::vector<std::pair<std::string, Lines>> cases = {
      {"", {}},
      {"a", {"a"}},
      {"a\n", {"a"}},
      {"\n", {""}},
      {"\n\na", {"", "", "a"}},
      {"a\nb", {"a", "b"}},
      {"a\r\nb\r\n", {"a", "b"}},
      {"\r\n", {""}},
      {"a\rb\nc\r", {"a\rb", "c\r"}},  // alone, it ends nothing
      {"a\r\r\n", {"a\r"}},
      {"\0a\0\n\0"s, {"\0a\0"s, "\0"s}},
      {kMark + "a\nb\n", {"a", "b"}},
      {kMark, {}},
      {kMark + "\n", {""}},
      {"a\n" + kMark + "b\n", {"a", kMark + "b"}},
      {"\xEF\xBB\n", {"\xEF\xBB"}},
  };
  const TemporaryFolder folder;
  for (const auto& [text, lines] : cases) {
    INFO(text);
    CHECK(lines_of(folder.write_text("plain.txt", text)) == lines);
    CHECK(lines_of(folder.write("packed.txt.gz", gzip(bytes_of(text)))) == lines);
  }
}

TEST_CASE("lines are whole wherever the reader's buffer ends", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const Lines lines = many_lines();
  const std::string text = joined_with_newlines(lines);
  CHECK(lines_of(folder.write_text("plain.txt", text)) == lines);
  CHECK(lines_of(folder.write("packed.txt.gz", gzip(bytes_of(text)))) == lines);
  for (const std::size_t size : {262142u, 262143u, 262144u, 262145u, 3000001u}) {  // the buffer's size, and far more
    const Lines two = {std::string(size, 'x'), "after"};
    CHECK(lines_of(folder.write_text("plain.txt", two[0] + "\r\n" + two[1])) == two);
  }
}

TEST_CASE("gzip streams one after another are one text", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const Bytes nothing = gzip({});
  const Bytes packed = tests::joined(tests::joined(gzip(bytes_of("one\ntw")), nothing), gzip(bytes_of("o\nthree")));
  CHECK(lines_of(folder.write("a.gz", packed)) == Lines{"one", "two", "three"});
  CHECK(lines_of(folder.write("a.gz", nothing)) == Lines{});
}

TEST_CASE("offset and line tell where the next line begins", "[io][text_file][host]") {
  const TemporaryFolder folder;
  cs::io::LineReader reader(folder.write_text("a.txt", kMark + "ab\r\n\nc"));
  CHECK(reader.offset() == 3);
  CHECK(reader.line() == 0);
  std::string line;
  for (const std::int64_t offset : {7, 8, 9}) {  // 3 of the mark, 4 of the first line, 1, 1
    REQUIRE(reader.next(line));
    CHECK(reader.offset() == offset);
  }
  CHECK(reader.line() == 3);
  line = "as before";
  CHECK_FALSE(reader.next(line));
  CHECK_FALSE(reader.next(line));
  CHECK(line == "as before");
  CHECK(reader.offset() == 9);
  CHECK(reader.line() == 3);
}

TEST_CASE("a reader goes on from any place that was noted, plain and gzip", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const Lines lines = many_lines();
  const Bytes text = bytes_of(joined_with_newlines(lines));
  for (const Bytes& bytes : {text, gzip(text)}) {
    cs::io::LineReader reader(folder.write("a.txt", bytes));
    std::vector<std::int64_t> offsets;
    for (std::string line; offsets.push_back(reader.offset()), reader.next(line);) {}
    REQUIRE(offsets.size() == lines.size() + 1);
    for (const std::size_t at : {2999u, 0u, 1500u, 1501u, 3000u, 10u, 2000u}) {
      reader.seek(offsets[at], static_cast<std::int64_t>(at));
      CHECK(reader.offset() == offsets[at]);
      CHECK(reader.line() == static_cast<std::int64_t>(at));
      CHECK((rest_of(reader) == Lines(lines.begin() + static_cast<std::ptrdiff_t>(at), lines.end())));
      CHECK(reader.line() == 3000);
    }
  }
}

TEST_CASE("going to the beginning passes over the byte order mark again", "[io][text_file][host]") {
  const TemporaryFolder folder;
  for (const std::string& rest : {std::string("a\n"), joined_with_newlines(many_lines())}) {
    cs::io::LineReader reader(folder.write_text("a.txt", kMark + rest));
    const Lines lines = rest_of(reader);
    reader.seek(0, 0);
    CHECK((rest_of(reader) == lines));
  }
}

TEST_CASE("a reader can be moved, and what is left of it says so", "[io][text_file][host]") {
  const TemporaryFolder folder;
  cs::io::LineReader first(folder.write_text("a.txt", "a\nb\n"));
  std::string line;
  REQUIRE(first.next(line));
  cs::io::LineReader second(std::move(first));
  CHECK(second.line() == 1);
  CHECK(rest_of(second) == Lines{"b"});
  CHECK(tests::split_message(tests::message_of<cs::Error>([&] { first.next(line); })).text ==
        "LineReader::next: this reader was moved from; use the one it was moved to.");
  first = std::move(second);
  CHECK(first.line() == 2);
}

TEST_CASE("a line may be as long as the options allow, and the reader stays before one that is longer",
          "[io][text_file][errors][host]") {
  const TemporaryFolder folder;
  for (const char* end : {"\n", "\r\n", ""}) {
    const std::string longest = folder.write_text("longest.txt", std::string("12345678") + end);
    CHECK(lines_of(longest, {.max_line_bytes = 8}) == Lines{"12345678"});
    const std::string path = folder.write_text("longer.txt", std::string("1\n123456789") + end);
    cs::io::LineReader reader(path, {.max_line_bytes = 8});
    std::string line;
    REQUIRE(reader.next(line));
    for (int i = 0; i < 2; ++i) {  // again and again
      CHECK(text_of_error([&] { reader.next(line); }) ==
            "LineReader: " + path +
                ": line 2 at offset 2 is longer than 8 bytes; LineReaderOptions::max_line_bytes must allow for the "
                "longest line.");
      CHECK(line == "1");
      CHECK(reader.offset() == 2);
      CHECK(reader.line() == 1);
    }
    reader.seek(6, 1);
    CHECK(rest_of(reader) == Lines{"56789"});
  }
}

TEST_CASE("a line that never ends is an error before it fills the memory", "[io][text_file][errors][host]") {
  if (!std::filesystem::exists("/dev/zero")) return;
  cs::io::LineReader reader("/dev/zero", {.max_line_bytes = 1 << 20});
  std::string line;
  CHECK(text_of_error([&] { reader.next(line); }) ==
        "LineReader: /dev/zero: line 1 at offset 0 is longer than 1048576 bytes; LineReaderOptions::max_line_bytes "
        "must allow for the longest line.");
}

TEST_CASE("pipes are read as files are, but cannot go back", "[io][text_file][errors][host]") {
  const Lines lines = many_lines();
  const std::string text = joined_with_newlines(lines);
  {
    const Pipe pipe(text);
    CHECK((cs::io::read_text(pipe.path()) == text));
  }
  {
    const Bytes packed = gzip(bytes_of(text));
    const Pipe pipe(std::string(packed.begin(), packed.end()));
    CHECK((lines_of(pipe.path()) == lines));
  }
  const Pipe pipe(text);
  cs::io::LineReader reader(pipe.path());
  CHECK((rest_of(reader) == lines));
  CHECK(text_of_error([&] { reader.seek(0, 0); }) ==
        "LineReader: " + pipe.path() + ": a pipe cannot go back from offset " + std::to_string(text.size()) +
            " to offset 0; it must be a file.");
  CHECK(reader.line() == 3000);
}

TEST_CASE("a line is there when the pipe has given it, whatever may follow", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("pipe");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::mutex mutex;
  std::condition_variable answered;
  std::size_t answers = 0;
  const Lines questions = {"\xEF\xBB\xBFone", "two", "three"};
  std::thread writer([&] {
    std::ofstream file(path, std::ios::binary);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      for (const char letter : questions[i]) file << letter << std::flush;
      file << "\n" << std::flush;
      std::unique_lock lock(mutex);
      answered.wait_for(lock, std::chrono::seconds(20), [&] { return answers > i; });
    }
  });
  cs::io::LineReader reader(path);
  Lines lines;
  const auto begin = std::chrono::steady_clock::now();
  for (std::string line; reader.next(line);) {
    lines.push_back(line);
    const std::lock_guard lock(mutex);
    ++answers;
    answered.notify_one();
  }
  const auto taken = std::chrono::steady_clock::now() - begin;
  writer.join();
  CHECK(lines == Lines{"one", "two", "three"});
  CHECK(taken < std::chrono::seconds(15));  // nobody waited for the other in vain
}

TEST_CASE("a stream of gzip that ended in a pipe is handed out before the next", "[io][text_file][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("pipe.gz");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  std::promise<void> first_came;
  std::future<void> came = first_came.get_future();
  bool in_time = false;
  std::thread writer([&] {
    std::ofstream file(path, std::ios::binary);
    const auto send = [&](const char* text) {
      const Bytes packed = gzip(bytes_of(text));
      file.write(reinterpret_cast<const char*>(packed.data()), static_cast<std::streamsize>(packed.size()));
      file.flush();
    };
    send("one\n");
    in_time = came.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    send("two\n");
  });
  cs::io::LineReader reader(path);
  std::string line;
  CHECK(reader.next(line));
  CHECK(line == "one");
  first_came.set_value();
  CHECK(rest_of(reader) == Lines{"two"});
  writer.join();
  CHECK(in_time);
}

TEST_CASE("lines before the damage of a gzip file come first", "[io][text_file][errors][host]") {
  const TemporaryFolder folder;
  const Lines lines = many_lines();
  const Bytes good = gzip(bytes_of(joined_with_newlines(lines)));
  Bytes cut = good, wrong = good;
  cut.resize(good.size() - 8);  // without its checksum and length
  wrong[good.size() - 8] ^= 1;
  for (const Bytes& packed : {cut, wrong}) {
    cs::io::LineReader reader(folder.write("text.gz", packed));
    Lines found;
    CHECK_THROWS_AS(
        [&] {
          for (std::string line; reader.next(line);) found.push_back(line);
        }(),
        cs::IoError);
    CHECK((found == lines));
  }
}

TEST_CASE("files whose size the system does not tell are read to their end", "[io][text_file][host]") {
  const std::string path = "/proc/version";
  if (!std::filesystem::exists(path)) return;
  std::string expected;
  std::ifstream file(path);
  REQUIRE(std::getline(file, expected));
  CHECK(cs::io::read_text(path) == expected + "\n");
  CHECK(lines_of(path) == Lines{expected});
}

TEST_CASE("going beyond the end is an error, and the reader stays where it is", "[io][text_file][errors][host]") {
  const TemporaryFolder folder;
  const Lines lines = many_lines();
  const Bytes text = bytes_of(joined_with_newlines(lines));
  const std::string size = std::to_string(text.size()), far = std::to_string(text.size() + 1);
  for (const bool packed : {false, true}) {
    const std::string path = folder.write("a.txt", packed ? gzip(text) : text);
    cs::io::LineReader reader(path);
    std::string line;
    REQUIRE(reader.next(line));
    CHECK(text_of_error([&] { reader.seek(static_cast<std::int64_t>(text.size()) + 1, 0); }) ==
          "LineReader: " + path + ": the file ends at offset " + size + (packed ? " of the unpacked data" : "") +
              "; it must reach to offset " + far + ".");
    CHECK(reader.line() == 1);
    CHECK((rest_of(reader) == Lines(lines.begin() + 1, lines.end())));
    reader.seek(static_cast<std::int64_t>(text.size()), 3000);
    CHECK_FALSE(reader.next(line));
  }
}

TEST_CASE("wrong arguments of readers of text are errors", "[io][text_file][errors][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.write_text("a.txt", "a\n");
  cs::io::LineReader reader(path);
  tests::check_errors(
      {{__LINE__, tests::message_of<cs::Error>, [&] { cs::io::LineReader(path, {.max_line_bytes = 0}); },
        "LineReader: max_line_bytes is 0; it must be at least 1."},
       {__LINE__, tests::message_of<cs::IndexError>, [&] { reader.seek(-1, 0); },
        "LineReader::seek: offset -1 and line 0; neither may be negative."},
       {__LINE__, tests::message_of<cs::IndexError>, [&] { reader.seek(0, -2); },
        "LineReader::seek: offset 0 and line -2; neither may be negative."},
       {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::LineReader("/no/such/file"); },
        "LineReader: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
       {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::read_text("/no/such/file"); },
        "read_text: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable."},
       {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::read_text("/no/such\0file"s); },
        "read_text: /no/such: cannot be opened: the name goes on behind a zero byte; no file's does."},
       {__LINE__, tests::message_of<cs::IoError>, [&] { cs::io::read_text("/"); },
        "read_text: /: cannot be read: Is a directory at offset 0; it must be a readable file."}},
      "text_file_test.cpp");
}

TEST_CASE("the text files of the collection have the lines that their README says", "[io][text_file][host]") {
  const std::string folder = tests::shared_data("");
  if (folder.empty()) return;
  const std::vector<std::pair<std::string, std::size_t>> counts = {{"ptb/ptb.train.txt", 42068},
                                                                   {"ptb/ptb.valid.txt", 3370},
                                                                   {"ptb/ptb.test.txt", 3761},
                                                                   {"tiny_shakespeare/input.txt", 40000},
                                                                   {"letters_sort/letters_source.txt", 10000},
                                                                   {"letters_sort/letters_target.txt", 10000},
                                                                   {"word_analogies/questions-words.txt", 19558},
                                                                   {"california_housing/cal_housing.domain", 9}};
  for (const auto& [name, count] : counts) CHECK(lines_of(folder + name).size() == count);
  CHECK(lines_of(folder + "cifar10/batches.meta.txt") ==
        Lines{"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck", ""});
  for (const std::string& line : lines_of(folder + "ptb/ptb.valid.txt")) {
    REQUIRE(line.front() == ' ');
    REQUIRE(line.back() == ' ');
  }
  CHECK(cs::io::read_text(folder + "tiny_shakespeare/input.txt").size() == 1115394);
  const std::string text8 = cs::io::read_text(folder + "text8/text8.first7475756.gz");
  CHECK(text8.size() == 7475756);
  const std::string first = " anarchism originated as a term of abuse first used against";
  const std::string last = "laws that they view ";
  CHECK(text8.substr(0, first.size()) == first);
  CHECK(text8.substr(text8.size() - last.size()) == last);
}
