// SummaryWriter: what it checks, and what goes into which event.
#include <capstan/io/summary.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <set>

#include "io/event_output.hpp"
#include "io/quoted.hpp"
#include "io/summary_parts.hpp"
#include "io/utf8.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {

/// A file, and whether a session has begun in it.
struct SummaryFile {
  SummaryFile(const char* op, const std::string& folder, const EventOutputOptions& options, Where where)
      : output(op, folder, options, where) {}

  void start_session(const std::string& experiment, const std::string& start, double time, Where where);
  void end_session(const char* op, RunStatus status, Where where);

  EventOutput output;
  std::atomic<bool> started{false}, in_session{false};
  const int exceptions = std::uncaught_exceptions();  // under way when it was made
};

namespace {

/// Of a tag, and of what is under it, so that both and what stands around them stay below protobuf's 2 GiB.
constexpr std::size_t kMostBytes = (std::size_t{1} << 30) - (std::size_t{1} << 16);

SummaryFile& opened(SummaryFile* file, const char* op, Where where) {
  if (file == nullptr) base::fail<Error>(where, op, ": this writer was moved from; it must hold a file.");
  return *file;
}

void check_size(const char* op, const char* what, std::size_t bytes, Where where) {
  if (bytes > kMostBytes)
    base::fail<Error>(where, op, ": the ", what, " has ", bytes, " bytes; it may have ", kMostBytes, ".");
}

void check_text(const char* op, const char* what, std::string_view text, Where where) {
  check_size(op, what, text.size(), where);
  if (!is_utf8(text))
    base::fail<Error>(where, op, ": the ", what, " ", quoted(text), " is no UTF-8 at offset ", utf8_bytes(text),
                      "; it must be.");
}

void check_name(const char* op, const char* what, std::string_view name, Where where) {
  if (name.empty()) base::fail<Error>(where, op, ": the ", what, " is empty; it must have a name to be shown under.");
  check_text(op, what, name, where);
}

EventOutputOptions checked(const char* op, const SummaryOptions& options, Where where) {
  if (!(options.flush_seconds >= 0))
    base::fail<Error>(where, op, ": flush_seconds is ", options.flush_seconds, "; it must be 0 or more.");
  if (options.flush_bytes < 1)
    base::fail<Error>(where, op, ": flush_bytes is ", options.flush_bytes, "; it must be 1 or more.");
  if (options.suffix.find('/') != std::string::npos || options.suffix.find('\0') != std::string::npos)
    base::fail<Error>(where, op, ": the suffix is ", quoted(options.suffix), "; it must be a part of a file's name.");
  return {options.flush_seconds, options.flush_bytes, options.suffix};
}

/// The one element of a tensor.
double number_in(const char* op, const Tensor& value, Where where) {
  check_defined(op, value, where);
  if (value.numel(where) != 1)
    base::fail<ShapeError>(where, op, ": the value is ", value.shape(where), "; it must have one element.");
  const NoGrad off;
  if (value.dtype(where) == DType::float32) return static_cast<double>(value.item<float>(where));
  return value.to(DType::float64, where).item<double>(where);
}

/// A record of its own, put together while others log: `encode(std::string&)` appends its data.
template <class Encode>
std::string record_of(const Encode& encode) {
  std::string record;
  append_record(record, encode);
  return record;
}

}  // namespace

void check_defined(const char* op, const Tensor& x, Where where) {
  if (!x.defined()) base::fail<Error>(where, op, ": the tensor is undefined; give it a value first.");
}

// --- the file ------------------------------------------------------------------------------------------------------

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryOptions& options, Where where) {
  constexpr const char* op = "SummaryWriter";
  const EventOutputOptions output = checked(op, options, where);
  require_event_wire(op, where);
  file_ = std::make_unique<SummaryFile>(op, folder, output, where).release();
}

SummaryWriter::~SummaryWriter() {
  if (file_ == nullptr) return;
  const bool failed = std::uncaught_exceptions() > file_->exceptions;
  try {
    file_->end_session("SummaryWriter", failed ? RunStatus::failure : RunStatus::success, Where::current());
  } catch (...) {}  // NOLINT(bugprone-empty-catch): who wants to hear of errors calls close()
  delete file_;
}

void SummaryWriter::flush(Where where) {
  constexpr const char* op = "SummaryWriter::flush";
  opened(file_, op, where).output.flush(op, where);
}

void SummaryWriter::close(Where where) {
  constexpr const char* op = "SummaryWriter::close";
  SummaryFile& file = opened(file_, op, where);
  try {
    file.end_session(op, RunStatus::success, where);
  } catch (const IoError&) {}  // NOLINT(bugprone-empty-catch): it was there before, and is told of next
  file.output.close(op, where);
}

const std::string& SummaryWriter::path(Where where) const {
  return opened(file_, "SummaryWriter::path", where).output.path();
}

// --- values --------------------------------------------------------------------------------------------------------

void SummaryWriter::scalar(std::string_view tag, double value, std::int64_t step, Where where) {
  constexpr const char* op = "SummaryWriter::scalar";
  SummaryFile& file = opened(file_, op, where);
  check_name(op, "tag", tag, where);
  file.output.add(op, where, [&](std::string& out) {
    append_scalar_event(out, {wall_time(), step}, tag, static_cast<float>(value));
  });
}

void SummaryWriter::scalar(std::string_view tag, const Tensor& value, std::int64_t step, Where where) {
  scalar(tag, number_in("SummaryWriter::scalar", value, where), step, where);
}

void SummaryWriter::histogram(std::string_view tag, const Tensor& values, std::int64_t step,
                              HistogramSummaryOptions options, Where where) {
  constexpr const char* op = "SummaryWriter::histogram";
  SummaryFile& file = opened(file_, op, where);
  check_name(op, "tag", tag, where);
  const HistogramSummary summary = summarize_histogram(op, values, options.bins, where);
  check_size(op, "histogram", 2 * sizeof(double) * summary.counts.size(), where);
  file.output.add(op, where, [&](std::string& out) { append_histogram_event(out, {wall_time(), step}, tag, summary); });
}

void SummaryWriter::image(std::string_view tag, const Tensor& pixels, std::int64_t step, Where where) {
  constexpr const char* op = "SummaryWriter::image";
  SummaryFile& file = opened(file_, op, where);
  check_name(op, "tag", tag, where);
  const ImageSummary summary = summarize_image(op, pixels, where);
  check_size(op, "picture's file", summary.png.size(), where);
  file.output.add_records(op, where, WhenFull::drop, record_of([&](std::string& out) {
                            append_image_event(out, {wall_time(), step}, tag, summary);
                          }));
}

void SummaryWriter::audio(std::string_view tag, const Tensor& samples, std::int64_t step, AudioSummaryOptions options,
                          Where where) {
  constexpr const char* op = "SummaryWriter::audio";
  SummaryFile& file = opened(file_, op, where);
  check_name(op, "tag", tag, where);
  const AudioSummary summary = summarize_audio(op, samples, options.rate, where);
  file.output.add_records(op, where, WhenFull::drop, record_of([&](std::string& out) {
                            append_audio_event(out, {wall_time(), step}, tag, summary);
                          }));
}

void SummaryWriter::text(std::string_view tag, std::string_view markdown, std::int64_t step, Where where) {
  constexpr const char* op = "SummaryWriter::text";
  SummaryFile& file = opened(file_, op, where);
  check_name(op, "tag", tag, where);
  check_text(op, "text", markdown, where);
  file.output.add_records(op, where, WhenFull::fail, record_of([&](std::string& out) {
                            append_text_event(out, {wall_time(), step}, tag, markdown);
                          }));
}

void SummaryWriter::graph(const GradientTape& tape, std::span<const NamedTensor> names, Where where) {
  constexpr const char* op = "SummaryWriter::graph";
  SummaryFile& file = opened(file_, op, where);
  const std::string graph = encode_graph(graph_nodes(op, tape, names, where));
  check_size(op, "graph", graph.size(), where);
  file.output.add_records(op, where, WhenFull::fail,
                          record_of([&](std::string& out) { append_graph_event(out, wall_time(), graph); }));
}

// --- hyper-parameters ----------------------------------------------------------------------------------------------

void SummaryFile::start_session(const std::string& experiment, const std::string& start, double time, Where where) {
  constexpr const char* op = "SummaryWriter::hparams";
  std::string records =
      record_of([&](std::string& out) { append_hparams_event(out, time, "_hparams_/experiment", experiment); });
  append_record(records,
                [&](std::string& out) { append_hparams_event(out, time, "_hparams_/session_start_info", start); });
  if (started.exchange(true))
    base::fail<Error>(where, op, ": the hyper-parameters of this run are known; they are given once.");
  try {
    output.add_records(op, where, WhenFull::fail, records);
  } catch (...) {
    started = false;
    throw;
  }
  in_session = true;
}

void SummaryFile::end_session(const char* op, RunStatus status, Where where) {
  if (!in_session.exchange(false)) return;
  const double now = wall_time();
  const std::string record = record_of([&](std::string& out) {
    append_hparams_event(out, now, "_hparams_/session_end_info", encode_session_end(status, now));
  });
  const auto add = [&] { output.add_records(op, where, WhenFull::fail, record); };
  try {
    add();
  } catch (const IoError&) { add(); }  // the first call hears of what failed before, and logs nothing
}

void SummaryWriter::hparams(const std::vector<HyperParameter>& values, const std::vector<std::string>& metrics,
                            Where where) {
  constexpr const char* op = "SummaryWriter::hparams";
  SummaryFile& file = opened(file_, op, where);
  std::set<std::string_view> names;
  std::size_t bytes = 0;
  for (const HyperParameter& value : values) {
    check_name(op, "hyper-parameter's name", value.name, where);
    check_text(op, "hyper-parameter", value.text, where);
    if (!names.insert(value.name).second)
      base::fail<Error>(where, op, ": ", quoted(value.name), " is there twice; it must have one value.");
    bytes += value.name.size() + value.text.size();
  }
  for (const std::string& metric : metrics) {
    check_name(op, "metric's tag", metric, where);
    bytes += metric.size();
  }
  check_size(op, "list of hyper-parameters", bytes, where);  // before protozero, whose lengths have 32 bits
  const double now = wall_time();
  const std::string experiment = encode_experiment(values, metrics, now), start = encode_session_start(values, now);
  check_size(op, "list of hyper-parameters", std::max(experiment.size(), start.size()), where);
  file.start_session(experiment, start, now, where);
}

}  // namespace capstan::io
