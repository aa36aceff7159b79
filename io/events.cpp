#include <capstan/io/events.hpp>

#include <filesystem>
#include <system_error>

#include "io/event_records.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

std::int64_t size_of_file(const std::string& path) {
  std::error_code unknown;
  const std::uintmax_t size = std::filesystem::file_size(path, unknown);
  return unknown ? -1 : static_cast<std::int64_t>(size);
}

}  // namespace

// The size is asked for before the file is opened: what is added meanwhile makes it another one at the next call.
EventRecords::EventRecords(const char* op_of_errors, const std::string& file, EventReaderOptions chosen, Where where)
    : op(op_of_errors),
      path(file),
      start_of_errors(base::join(op, ": ", path)),
      options(chosen),
      size(size_of_file(path)),
      records(std::make_unique<TfRecordFile>(op, path, options.check_crc, where)) {
  records->cut_is_end = options.growing;
}

/// Opens a file that has grown once more, where this one has ended. Whether it has.
bool EventRecords::reopen(Where where) {
  const std::int64_t size_now = size_of_file(path);
  if (size_now < 0 || size_now == size) return false;
  auto fresh = std::make_unique<TfRecordFile>(op, path, options.check_crc, where);
  fresh->cut_is_end = true;
  fresh->offset = records->offset;
  fresh->count = records->count;
  records = std::move(fresh);
  size = size_now;
  return true;
}

bool EventRecords::next(Event& event, Where where) {
  if (ended && (!options.growing || !reopen(where))) return false;
  ended = false;
  const std::int64_t offset = records->offset, count = records->count;
  if (!records->next(record, where)) {
    ended = true;
    return false;
  }
  constexpr std::int64_t kHeadBytes = 12;  // a length and its checksum
  try {
    event = parse_event(start_of_errors, record, offset + kHeadBytes, plugins, where);
  } catch (...) {
    records->offset = offset;
    records->count = count;
    throw;
  }
  return true;
}

namespace {

EventRecords& opened(EventRecords* file, const char* op, Where where) {
  if (file == nullptr) base::fail<Error>(where, op, ": this reader was moved from; it must hold a file.");
  return *file;
}

}  // namespace

EventReader::EventReader(const std::string& path, EventReaderOptions options, Where where)
    : file_(new EventRecords("EventReader", path, options, where)) {}

EventReader::~EventReader() { delete file_; }

bool EventReader::next(Event& event, Where where) {
  return opened(file_, "EventReader::next", where).next(event, where);
}

std::int64_t EventReader::offset() const noexcept { return file_ != nullptr ? file_->records->offset : 0; }

std::vector<Event> read_events(const std::string& path, Where where) {
  EventRecords file("read_events", path, {}, where);
  std::vector<Event> events;
  for (Event event; file.next(event, where);) events.push_back(std::move(event));
  return events;
}

}  // namespace capstan::io
