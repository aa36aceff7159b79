#pragma once
// Event files for readers of events.
#include <cstdint>
#include <memory>
#include <string>

#include <capstan/error.hpp>
#include <capstan/io/events.hpp>

#include "io/event_values.hpp"
#include "io/tfrecord_file.hpp"

namespace capstan::io {

/// A file of events, and where in it the next one begins.
struct EventRecords {
  /// `op` must live as long as this.
  EventRecords(const char* op, const std::string& path, EventReaderOptions options, Where where);

  /// False at the end, where `event` stays as it is. After an error the same event is next.
  bool next(Event& event, Where where);
  bool reopen(Where where);

  const char* op;
  std::string path, start_of_errors;
  EventReaderOptions options;
  std::int64_t size = -1;  // of the file when it was opened; -1: nobody knows
  std::unique_ptr<TfRecordFile> records;
  bool ended = false;  // there was nothing left
  std::string record;  // the last one
  TagPlugins plugins;
};

}  // namespace capstan::io
