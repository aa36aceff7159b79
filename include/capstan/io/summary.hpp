#pragma once
// SummaryWriter: what a training run writes down for TensorBoard.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/parameter.hpp>
#include <capstan/tape.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

struct SummaryOptions {
  double flush_seconds = 5;            ///< what is logged goes to the file after that time, >= 0 ...
  std::int64_t flush_bytes = 1 << 20;  ///< ... or as soon as there is so much of it, >= 1
  std::string suffix = {};             ///< at the end of the file's name
};

struct HistogramSummaryOptions {
  std::int64_t bins = 30;  ///< >= 1
};

struct AudioSummaryOptions {
  std::int64_t rate = 44100;  ///< frames a second, 1 to 16777216
};

/// A hyper-parameter of a run and its value: a number, a text, or true or false. `{"learning_rate", 1e-3}`.
struct HyperParameter {
  enum class Kind : std::uint8_t { number, text, boolean };

  template <class T>
  requires std::is_arithmetic_v<T> HyperParameter(std::string_view of, T value)
      : name(of), kind(std::is_same_v<T, bool> ? Kind::boolean : Kind::number), number(static_cast<double>(value)) {}
  HyperParameter(std::string_view of, std::string_view value) : name(of), kind(Kind::text), text(value) {}

  std::string name;
  Kind kind;
  double number = 0;  ///< of booleans 0 or 1
  std::string text = {};
};

/// Writes TensorBoard's event files: `tensorboard --logdir runs` shows the runs in that folder, each with a line of its
/// own in the plots of a tag. Slashes in tags make groups: "train/loss".
///
/// File      `events.out.tfevents.<unix time>.<host>.<process>.<count>` with the suffix behind it, in the folder, which
///     is made if it is missing. Each writer has a file of its own, so a run that goes on writes another one beside it.
///     TFRecord files of messages `tensorflow.Event`, in the forms that TensorFlow 1 and PyTorch write, since all of
///     TensorBoard reads these: tensorflow/core/util/event.proto and framework/summary.proto.
/// Flushing  Calls put their record into memory, and a thread of the writer's own, outside the budget of threads,
///     writes it to the file after `flush_seconds` or with `flush_bytes`. A call waits for the disk only when there are
///     16 times as many; memory ends at 32 times as many and one record. What was flushed survives the end of the
///     program by any means, though not a power cut.
/// Threads   Any number may log at once. Records of a thread are in the file in its order. A process that forks keeps
///     its writers for itself: the child ends by exec or _exit.
/// Errors    If the file cannot be written, the next call throws, once, and logs nothing; calls after it go on. The
///     writer tries again from time to time, at `flush` and at `close`; once memory is full newer records are dropped,
///     of which `close` tells. Then `text`, `graph` and `hparams` try as well, and throw rather than drop anything.
///
/// Throws  IoError  naming file, offset and reason: the folder or file cannot be made, the file cannot be written
///         Error    a closed writer but for `close` and `path`, one that was moved from; tags that are empty, tags and
///                  texts that are no UTF-8 or above 1 GiB less 64 KiB, as are files of pictures; the options' limits
///         MissingLibraryError  a build without protozero    and what each function says. Then nothing was logged.
class SummaryWriter {
 public:
  explicit SummaryWriter(const std::string& folder, const SummaryOptions& options = {}, Where where = Where::current());
  SummaryWriter(SummaryWriter&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
  SummaryWriter& operator=(SummaryWriter&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  /// Closes the file without a word of errors: call `close` to hear of them.
  ~SummaryWriter();

  /// A point of a curve. Kept as float32; NaN and infinities are what they are. Below a microsecond for a number.
  void scalar(std::string_view tag, double value, std::int64_t step, Where where = Where::current());
  /// Of a tensor with one element of any type on any device; false is 0 and true 1. Waits for its value. ShapeError
  void scalar(std::string_view tag, const Tensor& value, std::int64_t step, Where where = Where::current());

  /// How many elements lie in each of `bins` equal intervals between the smallest and the largest, with their sum and
  /// sum of squares. NaN and infinities are left out and do not count; bool is 0 and 1. Equal elements, and those that
  /// float64 has no room for bins between, are one bin; without elements there is none. Computed where the tensor is.
  /// Throws  Error  bins < 1
  void histogram(std::string_view tag, const Tensor& values, std::int64_t step, HistogramSummaryOptions options = {},
                 Where where = Where::current());

  /// A picture, as PNG.
  ///
  /// Shapes  [height, width] or [channels, height, width], 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; of several,
  ///         [n, channels, height, width], a grid of ceil(sqrt(n)) columns with two black pixels around each picture,
  ///         as torchvision's make_grid; one alone has none. No size is 0
  /// Types   uint8, or floating: 0 to 1, what is beyond taken to these, NaN to 0
  /// Throws  ShapeError, DTypeError    MissingLibraryError  a build without libpng
  void image(std::string_view tag, const Tensor& pixels, std::int64_t step, Where where = Where::current());

  /// A sound, as WAV of 16 bits.
  ///
  /// Shapes  [frames], or [channels, frames] with 1 to 64 channels. No size is 0
  /// Types   floating: -1 to 1, what is beyond taken to these, NaN to 0
  /// Throws  ShapeError, DTypeError    Error  a rate outside its limits
  void audio(std::string_view tag, const Tensor& samples, std::int64_t step, AudioSummaryOptions options = {},
             Where where = Where::current());

  /// A text, which TensorBoard takes as Markdown.
  void text(std::string_view tag, std::string_view markdown, std::int64_t step, Where where = Where::current());

  /// The operations that a tape has recorded, as a graph: to be called before `gradient`, which spends the tape. Nodes
  /// are grouped by the parameters they use, `log.graph(tape, nn::named_parameters(net))`, whose dots are levels, and
  /// by lines of the program: "conv1/train.cpp_57/matmul". What the tape does not follow, data and constants, is not in
  /// it: watch the inputs to see them. A run has one graph: TensorBoard shows the last.
  /// Throws  TapeError  a tape that was moved from, of another thread, or on which nothing is recorded
  void graph(const GradientTape& tape, std::span<const NamedTensor> names = {}, Where where = Where::current());

  /// What TensorBoard's table of hyper-parameters has of this run, beside the last values of the scalars with the tags
  /// `metrics`. Once in a writer. `close` adds that the run ended well, the destructor too, unless an exception is
  /// under way: then that it failed.
  /// Throws  Error  a second call, a name twice, names, texts or tags that are no UTF-8, empty names
  void hparams(const std::vector<HyperParameter>& values, const std::vector<std::string>& metrics = {},
               Where where = Where::current());

  /// Writes what was logged, so that other programs see it. IoError if that cannot be, each time.
  void flush(Where where = Where::current());
  /// Writes the rest and closes the file; does nothing the second time. IoError if something is lost.
  void close(Where where = Where::current());
  const std::string& path(Where where = Where::current()) const;  ///< of the file

 private:
  struct SummaryFile* file_;  // owned; hidden in io/summary.cpp
};

}  // namespace io
}  // namespace capstan
