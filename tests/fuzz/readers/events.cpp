// libFuzzer: event files. The first byte says whether checksums are compared, since few random bytes get past them;
// with its second bit the rest is one event, and a record is put around it.
#include <capstan/io/events.hpp>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/fuzz/readers/as_file.hpp"

namespace {

/// A length, no checksums, and the data.
std::vector<std::uint8_t> record_of(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> bytes(12);
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(size >> (8 * i));
  bytes.insert(bytes.end(), data, data + size);
  bytes.resize(bytes.size() + 4);
  return bytes;
}

void read_all(const std::string& path, capstan::io::EventReaderOptions options) {
  capstan::io::EventReader reader(path, options);
  std::int64_t before = -1;
  for (capstan::io::Event event; reader.next(event); before = reader.offset()) {
    if (reader.offset() <= before) std::abort();
    for (const capstan::io::SummaryValue& value : event.values) {
      if (value.tensor.defined() && value.kind != capstan::io::SummaryKind::tensor) std::abort();
      if (!value.histogram.empty() && value.kind != capstan::io::SummaryKind::histogram) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const bool check_crc = (data[0] & 1) != 0, growing = (data[0] & 4) == 0;
  try {
    if ((data[0] & 2) != 0) {
      const std::vector<std::uint8_t> record = record_of(data + 1, size - 1);
      read_all(fuzz::as_file(record.data(), record.size()), {.check_crc = false, .growing = false});
    } else {
      read_all(fuzz::as_file(data + 1, size - 1), {.check_crc = check_crc, .growing = growing});
      if (check_crc) capstan::io::read_scalars(fuzz::as_file(data + 1, size - 1));
    }
  } catch (const capstan::IoError&) {}
  return 0;
}
