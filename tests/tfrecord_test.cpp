// TFRecord files: those that TensorFlow wrote, round trips of every size, and the ways through a file.
#include <capstan/capstan.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "io/crc32c.hpp"
#include "tests/catch.hpp"
#include "tests/files.hpp"
#include "tests/support.hpp"
#include "tests/tfrecord_files.hpp"

namespace cs = capstan;
using cs::io::TfRecordReader;
using cs::io::TfRecordWriter;
using tests::Bytes;
using tests::TemporaryFolder;

namespace {

using Records = std::vector<std::string>;

/// magenta's tfrecord_iterator_test.tfrecord, written by TensorFlow: `hello world`, `12345`, `success`.
const Bytes kTensorFlowFile = {0x0b, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x86, 0x15, 0xf5, 0x04, 0x68, 0x65, 0x6c,
                               0x6c, 0x6f, 0x20, 0x77, 0x6f, 0x72, 0x6c, 0x64, 0x00, 0x7e, 0xd8, 0x6d, 0x05, 0x00, 0x00,
                               0x00, 0x00, 0x00, 0x00, 0x00, 0xea, 0xb2, 0x04, 0x3e, 0x31, 0x32, 0x33, 0x34, 0x35, 0x7a,
                               0x1c, 0xed, 0xe8, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbb, 0xd7, 0x9f, 0x11,
                               0x73, 0x75, 0x63, 0x63, 0x65, 0x73, 0x73, 0x04, 0x6b, 0x6b, 0x99};
const Records kTensorFlowRecords = {"hello world", "12345", "success"};

/// Bytes of every value, other ones for every size.
std::string data_of(std::size_t size) {
  std::string data(size, '\0');
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>((i * 7 + i / 256 + size) & 0xFF);
  return data;
}

/// Sizes around those of the reader's and the writer's buffers.
Records many_sizes() {
  Records records;
  for (const std::size_t size : {0,     1,     2,     3,     7,     8,     9,     15, 16,     17,      255, 4096,
                                 32767, 32768, 32769, 65523, 65535, 65536, 65537, 0,  262145, 1 << 20, 5})
    records.push_back(data_of(size));
  return records;
}

void write_all(const std::string& path, const Records& records, cs::io::TfRecordWriterOptions options = {}) {
  TfRecordWriter writer(path, options);
  for (const std::string& record : records) writer.write(record);
  writer.close();
}

/// 1000 records of 0 to 40 bytes.
Records small_records() {
  Records records;
  for (std::size_t i = 0; i < 1000; ++i) records.push_back(data_of(i * 37 % 41));
  return records;
}

bool starts_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

}  // namespace

TEST_CASE("the checksum of TFRecord has the values of RFC 3720", "[io][tfrecord][host]") {
  using cs::io::crc32c_by_table;
  Bytes ascending, descending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<unsigned char>(i));
  descending.assign(ascending.rbegin(), ascending.rend());
  CHECK(crc32c_by_table(Bytes(32, 0x00)) == 0x8A9136AA);  // appendix B.4, there in the order of the wire
  CHECK(crc32c_by_table(Bytes(32, 0xFF)) == 0x62A8AB43);
  CHECK(crc32c_by_table(ascending) == 0x46DD794E);
  CHECK(crc32c_by_table(descending) == 0x113FDB5C);
  CHECK(crc32c_by_table(tests::bytes_of("123456789")) == 0xE3069283);  // the polynomial's check value
  CHECK(crc32c_by_table(Bytes()) == 0);
  for (std::size_t size = 0; size < 70; ++size) {
    const Bytes bytes = tests::bytes_of(data_of(size));
    CHECK(crc32c_by_table(bytes) == tests::plain_crc32c(bytes));
  }
}

TEST_CASE("a TFRecord file that TensorFlow wrote is read, plain and gzip", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  CHECK(cs::io::read_tfrecords(folder.write("plain", kTensorFlowFile)) == kTensorFlowRecords);
  CHECK(cs::io::read_tfrecords(folder.write("packed", tests::gzip(kTensorFlowFile))) == kTensorFlowRecords);
}

TEST_CASE("the writer writes the bytes that TensorFlow writes", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  write_all(folder.path("file"), kTensorFlowRecords);
  CHECK(tests::file_bytes(folder.path("file")) == kTensorFlowFile);
}

TEST_CASE("records of any size have the checksums of the definition, and come back", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  const Records records = many_sizes();
  const std::string plain = folder.path("plain"), packed = folder.path("packed"), stored = folder.path("stored");
  write_all(plain, records);
  write_all(packed, records, {.gzip = true});
  write_all(stored, records, {.gzip = true, .level = 0});

  Bytes expected;
  for (const std::string& record : records)
    expected = tests::joined(expected, tests::record_of(tests::bytes_of(record)));
  CHECK((tests::file_bytes(plain) == expected));  // in parentheses: megabytes need not be printed
  CHECK(std::filesystem::file_size(packed) < expected.size());
  CHECK(std::filesystem::file_size(stored) > expected.size());
  for (const std::string& path : {plain, packed, stored}) CHECK((cs::io::read_tfrecords(path) == records));
}

TEST_CASE("a plain TFRecord file is read whose first length has the first bytes of gzip", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  for (const std::size_t size : {0x8B1F, 0x088B1F}) {  // 1F 8B, and with 8, the only method of gzip, behind them
    const Records records = {data_of(size), "second"};
    const std::string plain = folder.path("plain"), packed = folder.path("packed");
    write_all(plain, records);
    write_all(packed, records, {.gzip = true});
    for (const std::string& path : {plain, packed}) {
      CHECK((cs::io::read_tfrecords(path) == records));
      TfRecordReader reader(path, {.check_crc = false});
      CHECK(reader.skip(1) == 1);
      std::string record;
      CHECK(reader.next(record));
      CHECK(record == "second");
    }
  }
}

TEST_CASE("a TFRecord file without bytes has no records, plain and gzip", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  CHECK(cs::io::read_tfrecords(folder.write("none", {})).empty());
  write_all(folder.path("plain"), {});
  write_all(folder.path("packed"), {}, {.gzip = true});
  CHECK(std::filesystem::file_size(folder.path("plain")) == 0);
  CHECK(std::filesystem::file_size(folder.path("packed")) > 0);
  CHECK(cs::io::read_tfrecords(folder.path("plain")).empty());
  CHECK(cs::io::read_tfrecords(folder.path("packed")).empty());
}

TEST_CASE("the reader says where it is, and leaves the record alone at the end", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  for (const Bytes& bytes : {kTensorFlowFile, tests::gzip(kTensorFlowFile)}) {
    TfRecordReader reader(folder.write("file", bytes));
    std::vector<std::int64_t> offsets;
    std::string record;
    do offsets.push_back(reader.offset());
    while (reader.next(record));
    CHECK(offsets == std::vector<std::int64_t>{0, 27, 48, 71});  // 16 more than the 11, 5 and 7 bytes of data
    CHECK(reader.count() == 3);
    CHECK(record == "success");
    CHECK_FALSE(reader.next(record));
    CHECK(record == "success");
    CHECK(reader.offset() == 71);
  }
}

TEST_CASE("seek comes back to any record, plain and gzip", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  const Records records = small_records();
  write_all(folder.path("plain"), records);
  write_all(folder.path("packed"), records, {.gzip = true});
  for (const char* name : {"plain", "packed"}) {
    TfRecordReader reader(folder.path(name));
    std::vector<std::int64_t> offsets;
    std::string record;
    do offsets.push_back(reader.offset());
    while (reader.next(record));
    for (const std::size_t place : {500, 3, 999, 0, 1000, 999, 998, 1}) {
      reader.seek(offsets.at(place), static_cast<std::int64_t>(place));
      CHECK(reader.offset() == offsets.at(place));
      CHECK(reader.next(record) == (place < 1000));
      if (place < 1000) CHECK(record == records.at(place));
      CHECK(reader.count() == static_cast<std::int64_t>(std::min<std::size_t>(place + 1, 1000)));
    }
    const std::int64_t end = offsets.back(), before = reader.offset();
    CHECK(starts_with(tests::message_of<cs::IoError>([&] { reader.seek(end + 1, 1001); }),
                      "TfRecordReader: " + folder.path(name) + ": the file ends at offset " + std::to_string(end)));
    CHECK(reader.offset() == before);
    CHECK(reader.next(record));
    CHECK(record == records.at(2));
  }
}

TEST_CASE("skip passes over records, and says how many there were", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  const Records records = small_records();
  write_all(folder.path("plain"), records);
  write_all(folder.path("packed"), records, {.gzip = true});
  for (const char* name : {"plain", "packed"}) {
    TfRecordReader reader(folder.path(name));
    std::string record;
    CHECK(reader.skip(0) == 0);
    CHECK(reader.skip(7) == 7);
    CHECK(reader.next(record));
    CHECK(record == records.at(7));
    CHECK(reader.skip(982) == 982);
    CHECK(reader.count() == 990);
    CHECK(reader.next(record));
    CHECK(record == records.at(990));
    CHECK(reader.skip(100) == 9);
    CHECK(reader.skip(1) == 0);
    CHECK_FALSE(reader.next(record));
    CHECK(reader.count() == 1000);
    CHECK(tests::split_message(tests::message_of<cs::IndexError>([&] { reader.skip(-1); })).text ==
          "TfRecordReader::skip: -1 records cannot be passed over; it must be 0 or more.");
    CHECK(tests::split_message(tests::message_of<cs::IndexError>([&] { reader.seek(-4, 0); })).text ==
          "TfRecordReader::seek: offset -4 and count 0 are no place in a file; both must be 0 or more.");
  }
}

TEST_CASE("a reader stays before the record that it cannot read", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  Bytes damaged = kTensorFlowFile;
  damaged.at(27 + 12) ^= 1;  // the first digit of 12345
  for (const Bytes& bytes : {damaged, tests::gzip(damaged)}) {
    TfRecordReader reader(folder.write("file", bytes));
    std::string record;
    REQUIRE(reader.next(record));
    for (int attempt = 0; attempt < 3; ++attempt) {
      CHECK_THROWS_AS(reader.next(record), cs::IoError);
      CHECK(reader.offset() == 27);
      CHECK(reader.count() == 1);
      CHECK(record == "hello world");
    }
    CHECK(reader.skip(1) == 1);  // its length is whole
    CHECK(reader.next(record));
    CHECK(record == "success");
    CHECK(reader.count() == 3);
  }
}

TEST_CASE("a reader of gzip loses nothing to an error, and goes on when the rest of the file has come",
          "[io][tfrecord][host]") {
  Records large(3, std::string(200000, ' '));  // that no packing makes smaller
  cs::Rng rng(1);
  for (std::string& record : large)
    for (char& byte : record) byte = static_cast<char>(rng.bits());
  const TemporaryFolder folder;
  for (const Records& records : {small_records(), large}) {
    const std::string path = folder.path("whole");
    write_all(path, records, {.gzip = true});
    const Bytes whole = tests::file_bytes(path);
    const std::size_t step = whole.size() / 160;
    for (std::size_t cut = 20; cut < whole.size(); cut += step) {
      INFO("the first " << cut << " of " << whole.size() << " bytes");
      TfRecordReader reader(folder.write("growing", tests::first_bytes(whole, cut)));
      Records read;
      const auto read_on = [&] {
        for (std::string record; reader.next(record);) read.push_back(record);
      };
      CHECK_THROWS_AS(read_on(), cs::IoError);
      CHECK_THROWS_AS(read_on(), cs::IoError);
      folder.write("growing", whole);
      read_on();
      CHECK(read == records);
    }
  }
}

TEST_CASE("checksums are not compared where that is not wanted, and lengths still are", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  Bytes damaged = kTensorFlowFile;
  damaged.at(8) ^= 1;        // the checksum of the first length
  damaged.at(27 + 12) ^= 1;  // the first digit of 12345
  const std::string path = folder.write("file", damaged);
  CHECK_THROWS_AS(cs::io::read_tfrecords(path), cs::IoError);
  TfRecordReader reader(path, {.check_crc = false});
  std::string record;
  CHECK(reader.next(record));
  CHECK(record == "hello world");
  CHECK(reader.next(record));
  CHECK(record == "02345");  // '1' ^ 1 is '0'

  damaged.at(48 + 1) = 1;  // the length of the last record is 256 more
  TfRecordReader longer(folder.write("file", damaged), {.check_crc = false});
  CHECK(longer.skip(2) == 2);
  CHECK_THROWS_AS(longer.next(record), cs::IoError);
  CHECK_THROWS_AS(longer.skip(1), cs::IoError);
  CHECK(longer.offset() == 48);
}

TEST_CASE("errors of TFRecord files name what was called, and where", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  Bytes damaged = kTensorFlowFile;
  damaged.at(23) ^= 0x10;
  const std::string path = folder.write("file", damaged);
  TfRecordReader reader(path);
  std::string record;
  const unsigned line = __LINE__ + 1;
  const tests::Message next = tests::split_message(tests::message_of<cs::IoError>([&] { reader.next(record); }));
  CHECK(next.text == "TfRecordReader: " + path +
                         ": the checksum of a record's data is wrong at offset 23: it is 0x6DD87E10, and of these 11 "
                         "bytes 0x6DD87E00; the masked CRC-32C must be the same.");
  CHECK(next.file == "tfrecord_test.cpp");
  CHECK(next.line == line);
  CHECK(starts_with(tests::message_of<cs::IoError>([&] { cs::io::read_tfrecords(path); }), "read_tfrecords: " + path));
  CHECK(tests::split_message(tests::message_of<cs::IoError>([] { TfRecordReader("/no/such/file"); })).text ==
        "TfRecordReader: /no/such/file: cannot be opened: No such file or directory; it must exist and be readable.");
}

TEST_CASE("readers and writers move", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  TfRecordWriter first(folder.path("file"));
  first.write("one");
  TfRecordWriter second(std::move(first));
  second.write("two");
  second.close();
  TfRecordReader reader(folder.path("file"));
  std::string record;
  CHECK(reader.next(record));
  TfRecordReader other(folder.write("none", {}));
  other = std::move(reader);
  CHECK(other.next(record));
  CHECK(record == "two");
  CHECK(other.count() == 2);
  TfRecordReader third(std::move(other));
  CHECK_FALSE(third.next(record));
  CHECK_THROWS_AS(other.next(record), cs::Error);  // NOLINT: what is moved from says so
  CHECK_THROWS_AS(first.write("three"), cs::Error);
}

TEST_CASE("programs that are started meanwhile do not get the file of a reader", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("file", kTensorFlowFile);
  const TfRecordReader reader(path);
  int found = 0;
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (error) {
    WARN("there is no /proc here: this case checked nothing");
    return;
  }
  for (const auto& entry : descriptors) {
    if (!std::filesystem::equivalent(entry.path(), path, error)) continue;
    ++found;
    CHECK((fcntl(std::stoi(entry.path().filename().string()), F_GETFD) & FD_CLOEXEC) != 0);
  }
  CHECK(found == 1);
}

TEST_CASE("what is flushed can be read before the file is closed", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  for (const bool gzip : {false, true}) {
    const std::string path = folder.path(gzip ? "packed" : "plain");
    TfRecordWriter writer(path, {.gzip = gzip});
    writer.write("first");
    writer.write("second");
    writer.flush();
    TfRecordReader reader(path);
    std::string record;
    CHECK(reader.next(record));
    CHECK(reader.next(record));
    CHECK(record == "second");
    writer.write("third");
    writer.close();
    CHECK(cs::io::read_tfrecords(path) == Records{"first", "second", "third"});
  }
}

TEST_CASE("a writer closes once, by itself too, and takes nothing afterwards", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  const std::string path = folder.path("file");
  { TfRecordWriter(path).write("kept"); }
  CHECK(cs::io::read_tfrecords(path) == Records{"kept"});
  TfRecordWriter writer(path);  // over the old file
  writer.close();
  writer.close();
  CHECK(tests::split_message(tests::message_of<cs::Error>([&] { writer.write("late"); })).text ==
        "TfRecordWriter::write: " + path + " is closed; records are written before that.");
  CHECK_THROWS_AS(writer.flush(), cs::Error);
  CHECK(std::filesystem::file_size(path) == 0);
}

TEST_CASE("a file that cannot be made or written is an error that says why", "[io][tfrecord][host]") {
  const TemporaryFolder folder;
  CHECK(tests::split_message(tests::message_of<cs::IoError>([] { TfRecordWriter("/no/such/file"); })).text ==
        "TfRecordWriter: /no/such/file: cannot be opened for writing: No such file or directory; its folder must exist "
        "and be writable.");
  CHECK(tests::split_message(tests::message_of<cs::IoError>([&] { TfRecordWriter(folder.path("")); })).text ==
        "TfRecordWriter: " + folder.path("") +
            ": cannot be opened for writing: Is a directory; its folder must exist and be writable.");
  CHECK(tests::split_message(tests::message_of<cs::Error>([&] {
          TfRecordWriter(folder.path("file"), {.gzip = true, .level = 10});
        })).text == "TfRecordWriter: the level of gzip is 10; it must be 0 to 9.");
  CHECK_FALSE(std::filesystem::exists(folder.path("file")));
}

TEST_CASE("a full disk is an error of whoever writes, flushes or closes", "[io][tfrecord][host]") {
  if (!std::filesystem::exists("/dev/full")) {
    WARN("/dev/full is not there: this case checked nothing");
    return;
  }
  for (const bool gzip : {false, true}) {
    TfRecordWriter writer("/dev/full", {.gzip = gzip});
    writer.write("small: it stays in the buffer");
    const std::string reason = "TfRecordWriter: /dev/full: cannot be written: No space left on device at offset ";
    CHECK(starts_with(tests::message_of<cs::IoError>([&] { writer.flush(); }), reason + "45 "));  // 29 bytes and 16
    CHECK_THROWS_AS(writer.write("more"), cs::IoError);
    CHECK_THROWS_AS(writer.close(), cs::IoError);
    writer.close();

    TfRecordWriter closed("/dev/full", {.gzip = gzip});
    closed.write("small");
    CHECK(starts_with(tests::message_of<cs::IoError>([&] { closed.close(); }), reason + "21 "));

    TfRecordWriter large("/dev/full", {.gzip = gzip});
    const std::string record = data_of(1 << 20);
    const auto write_on = [&] {
      for (int i = 0; i < 200; ++i) large.write(record);
    };
    CHECK_THROWS_AS(write_on(), cs::IoError);
    TfRecordWriter quiet("/dev/full", {.gzip = gzip});
    quiet.write("nobody asks");
  }
}

TEST_CASE("the TFRecord files of other programs have the records that they should", "[io][tfrecord][host]") {
  const std::string folder = tests::shared_data("tfrecord");
  if (folder.empty()) return;
  const auto count = [&](const std::string& name) { return cs::io::read_tfrecords(folder + "/" + name).size(); };
  CHECK(cs::io::read_tfrecords(folder + "/tfrecord_iterator_test.tfrecord") == kTensorFlowRecords);
  CHECK(count("penguin_train.tfrecord") == 234);
  CHECK(count("penguin_train.tfrecord.gz") == 234);
  CHECK(count("penguin_eval.tfrecord.gz") == 100);
  CHECK(count("chicago_taxi_eval-00009-of-00012.tfrecord.gz") == 424);
  CHECK(count("sequence_eval.tfrecord.gz") == 4500);
  CHECK((cs::io::read_tfrecords(folder + "/penguin_train.tfrecord") ==
         cs::io::read_tfrecords(folder + "/penguin_train.tfrecord.gz")));
}

TEST_CASE("TensorBoard's event files are read as TFRecord files", "[io][tfrecord][host]") {
  const std::string folder = tests::shared_data("tfevents");
  if (folder.empty()) return;
  const std::vector<std::pair<std::string, std::size_t>> counts = {
      // one for the version, and the events
      {"tf2_scalar_my_metric.out.tfevents.v2", 101},  {"keras_validation_scalars.out.tfevents.v2", 41},
      {"tf1_scalar_histogram_image.out.tfevents", 3}, {"pytorch_scalars.out.tfevents", 390},
      {"pytorch_histograms.out.tfevents", 11},        {"pytorch_images.out.tfevents", 9}};
  for (const auto& [name, count] : counts) {
    INFO(name);
    const Records records = cs::io::read_tfrecords(folder + "/" + name);
    CHECK(records.size() == count);
    CHECK(records.at(0).find("brain.Event:2") != std::string::npos);
  }
}
