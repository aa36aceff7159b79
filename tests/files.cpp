#include "tests/files.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

#include <capstan/io/npy.hpp>
#include <capstan/memory.hpp>

#include "tests/catch.hpp"

namespace tests {
namespace {

std::string file_of(capstan::Where where) { return std::filesystem::path(where.file_name()).filename().string(); }

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

/// "" if it is an error as it should be, else what is wrong with it.
std::string fault_of_error(const std::string& text, const std::string& start, const std::string& source) {
  if (!starts_with(text, start)) return "it does not begin with '" + start + "'";
  const std::string place = " (" + source + ":";
  const std::size_t at = text.rfind(place);
  if (at == std::string::npos || text.back() != ')') return "it does not end with" + place + "line)";
  if (!std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at + place.size()), text.end() - 1,
                   [](char c) { return c >= '0' && c <= '9'; }))
    return "its line is no number";
  const std::string said = text.substr(start.size(), at - start.size());
  if (said.find("offset ") == std::string::npos && said.find("opened") == std::string::npos)
    return "it names no offset";
  return "";
}

/// What the IoError says; ends with a failure of the test if there is none.
std::string error_of(const ReadFile& read, const std::string& path) {
  try {
    read(path);
  } catch (const capstan::IoError& error) { return error.what(); } catch (const std::exception& error) {
    return std::string("not an IoError: ") + error.what();
  }
  return "no error";
}

std::vector<std::size_t> lengths_to_try(std::size_t size, const std::vector<std::size_t>& allowed) {
  std::set<std::size_t> lengths;
  const auto add = [&](std::size_t first, std::size_t last) {
    for (std::size_t length = first; length < std::min(last, size); ++length) lengths.insert(length);
  };
  if (size <= 2000) {
    add(0, size);
  } else {
    add(0, 64);
    add(size - 64, size);
    for (const std::size_t length : allowed) add(length == 0 ? 0 : length - 1, length + 2);
    for (std::size_t i = 0; i < 200; ++i) lengths.insert(size / 200 * i);
  }
  return {lengths.begin(), lengths.end()};
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  static std::atomic<int> count = 0;
  const std::string name = "capstan_test_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  folder_ = (std::filesystem::temp_directory_path() / name).string();
  std::filesystem::remove_all(folder_);
  REQUIRE(std::filesystem::create_directory(folder_));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string TemporaryFolder::path(const std::string& name) const { return folder_ + "/" + name; }

std::string TemporaryFolder::write(const std::string& name, const Bytes& bytes) const {
  std::ofstream file(path(name), std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  REQUIRE(file.good());
  return path(name);
}

std::string TemporaryFolder::write_text(const std::string& name, std::string_view text) const {
  return write(name, bytes_of(text));
}

Bytes file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  return Bytes(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  Bytes from = plain, packed(deflateBound(&stream, static_cast<uLong>(plain.size())) + 64);
  stream.next_in = from.data();
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  const int result = deflate(&stream, Z_FINISH);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  REQUIRE(result == Z_STREAM_END);
  return packed;
}

Bytes joined(Bytes first, const Bytes& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Bytes first_bytes(const Bytes& bytes, std::size_t count) { return Bytes(bytes.data(), bytes.data() + count); }

Bytes bytes_of(std::string_view text) { return Bytes(text.begin(), text.end()); }

void append_little(Bytes& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<unsigned char>(value >> (8 * i)));
}

void append_big(Bytes& bytes, std::uint64_t value, int count) {
  for (int i = count - 1; i >= 0; --i) bytes.push_back(static_cast<unsigned char>(value >> (8 * i)));
}

void check_malformed(const std::vector<Malformed>& rows, const std::string& op, const std::string& file_name,
                     const ReadFile& read, capstan::Where where) {
  const TemporaryFolder folder;
  for (const Malformed& row : rows) {
    INFO(row.what);
    const std::string path = folder.write(file_name, row.bytes), text = error_of(read, path);
    INFO(text);
    CHECK(fault_of_error(text, op + ": " + path + ": ", file_of(where)) == "");
    CHECK(text.find(row.reason) != std::string::npos);
  }
}

void check_prefixes(const Bytes& good, const std::string& op, const std::string& file_name, const ReadFile& read,
                    const std::vector<std::size_t>& allowed, capstan::Where where) {
  const TemporaryFolder folder;
  read(folder.write(file_name, good));  // it is good
  for (const std::size_t length : lengths_to_try(good.size(), allowed)) {
    INFO("the first " << length << " of " << good.size() << " bytes");
    const std::string path = folder.write(file_name, first_bytes(good, length)), text = error_of(read, path);
    INFO(text);
    if (std::find(allowed.begin(), allowed.end(), length) != allowed.end()) CHECK(text == "no error");
    else CHECK(fault_of_error(text, op + ": " + path + ": ", file_of(where)) == "");
  }
}

std::int64_t peak_bytes(const std::function<void()>& call) {
  capstan::memory::release_cache();
  capstan::memory::reset_peak();
  const std::int64_t before = capstan::memory::stats().reserved;
  call();
  return capstan::memory::stats().peak_reserved - before;
}

bool without_minizip() {
  try {
    capstan::io::write_npz("/no/such/folder/x.npz", {});
  } catch (const capstan::BackendError&) {
    WARN("this build has no minizip: this case checked nothing");
    return true;
  } catch (const capstan::IoError&) {}
  return false;
}

std::string shared_data(const std::string& name) {
  const std::string path = std::string(CAPSTAN_SHARED) + "/data/" + name;
  if (std::string(CAPSTAN_SHARED) != "" && std::filesystem::exists(path)) return path;
  WARN(path << " is not there: this case checked nothing");
  return "";
}

}  // namespace tests
