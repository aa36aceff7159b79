#pragma once
// TensorBoard's event files: what a training run wrote down, and when.
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

enum class SummaryKind { scalar, histogram, image, audio, text, tensor, other };

/// One value under a tag, in the forms of TensorFlow 1 and PyTorch (simple_value, histo, image, audio) and in those of
/// TensorFlow 2 (a tensor, and the name of the plugin that shows it). Both forms read the same.
struct SummaryValue {
  std::string tag;
  std::string plugin;   ///< "scalars", "histograms", "images", "audio", "text", "hparams", ...; empty in older forms
  std::string content;  ///< what the plugin keeps beside it: of "hparams" the message HParamsPluginData
  SummaryKind kind = SummaryKind::other;
  double scalar = 0;
  std::vector<std::array<double, 3>> histogram;  ///< left and right end of each bin, and how many lie in it
  std::vector<std::string> bytes;                ///< files of images (PNG as a rule) and sounds (WAV); texts; strings
  std::int64_t width = 0, height = 0;            ///< of images, as declared
  Tensor tensor;                                 ///< numbers of a kind `tensor`, on the default device
};

/// One record. What of it does not occur is empty.
struct Event {
  double wall_time = 0;  ///< seconds since 1970
  std::int64_t step = 0;
  std::string file_version;    ///< "brain.Event:2" in the first record
  bool session_start = false;  ///< a run goes on from here: what was logged for this step and later ones is void
  std::vector<SummaryValue> values;
  std::string graph;  ///< a message GraphDef
};

struct EventReaderOptions {
  bool check_crc = true;  ///< compare the checksums of records
  bool growing = true;    ///< a last record that is not all there is the end so far; else an error
};

/// Reads the events of a file in order. Event files are TFRecord files whose records are messages `tensorflow.Event`:
/// tensorflow/core/util/event.proto, framework/summary.proto and framework/tensor.proto.
///
/// A run that is still going on, or was killed, leaves a file whose last record may be cut short. That is the end of
/// what was flushed; once there is more, `next` goes on from there.
///
/// Types   numbers of all types but complex, quantised, float8 and 4-bit ones, whose kind is `other`. Those of kind
///         `tensor` keep their type, but for u2 -> int32; u4, u8 -> int64
/// Throws  IoError naming file, offset and reason: missing; what TfRecordReader refuses, but for the cut of the last
///         record; a message that is damaged, or has a field of another wire type; tensors whose shape is negative,
///         has more than 8 axes, or needs more or fewer values than there are; a scalar that is no single number; a
///         histogram that is not [bins, 3]; a u8 of 2^63 or more in a tensor; an event of several values with fewer
///         than 10 bytes each on average, which is less than a scalar with a tag of one letter needs. The reader then
///         stays where it was.
///         Error for a reader that was moved from    MissingLibraryError  no protozero
class EventReader {
 public:
  explicit EventReader(const std::string& path, EventReaderOptions options = {}, Where where = Where::current());
  EventReader(EventReader&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  EventReader& operator=(EventReader&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~EventReader();

  /// The next event; false at the end, where `event` stays as it is.
  bool next(Event& event, Where where = Where::current());
  /// Where the next record begins.
  std::int64_t offset() const noexcept;

 private:
  struct EventRecords* file_;  // owned; hidden in io/event_records.hpp
};

/// All events of a file, up to a last record that is cut short; throws as EventReader.
std::vector<Event> read_events(const std::string& path, Where where = Where::current());

/// The scalars of one tag, in the order in which they were written.
struct ScalarCurve {
  std::string tag;
  std::vector<std::int64_t> steps;
  std::vector<double> values, wall_times;
};

/// The curves of a run, in the order in which their tags first appear. `path` is an event file, or a folder, of which
/// all files are read whose name contains "tfevents", in the order of their first records' times, then of their names.
/// Folders within are other runs.
///
/// A run that was resumed wrote some steps twice: of each tag, points of earlier files count no more from the first
/// step on that a later file has for it; and of all tags, from the step of an event with `session_start` on, as in
/// TensorBoard.
/// Throws  as EventReader; IoError for a folder without event files
std::vector<ScalarCurve> read_scalars(const std::string& path, Where where = Where::current());

}  // namespace io
}  // namespace capstan
