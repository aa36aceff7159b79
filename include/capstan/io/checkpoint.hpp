#pragma once
// Checkpoints: all that a run of training needs to go on, in one file that is there whole or not at all.
//
//   io::CheckpointManager checkpoints("runs/a", {.keep = 5});
//   const io::CheckpointParts parts = {.model = net, .optimizer = adam, .data = batches};
//   for (std::int64_t step = checkpoints.restore_latest(parts); step < 20000;) {
//     ...
//     if (++step % 100 == 0) checkpoints.save(step, parts, {.metric = loss});
//   }
//
// The file is a safetensors file (io/safetensors.hpp). Its tensors have the name of their part before their own, as in
// "model.conv1.weight" and "optimizer.0.mean"; its metadata have "capstan.checkpoint", the version 1 of this format;
// "capstan.checksum", the CRC-32C of the whole file, with zeros for its own 8 digits; "capstan.number", "capstan.step"
// and "capstan.metric"; and for each part "tensors.PART", how many there are, or "text.PART".
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/module.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {

class Rng;

namespace io {
namespace detail {

/// What a part of a run has to keep: tensors with names, or a text.
struct PartState {
  enum class Kind : std::uint8_t {
    copies,   // tensors that nobody changes
    handles,  // tensors that training goes on to change
    text
  };
  Kind kind = Kind::copies;
  std::vector<NamedTensor> tensors = {};
  std::string text = {};
};

std::string text_of(const Rng& rng);
std::string text_of(double value);  // with all of its bits
std::string text_of(std::int64_t value);
std::vector<NamedTensor> tensors_of(const Tensor& value);
std::span<const NamedTensor> tensors_in(const PartState& state);
void restore_text(Rng& rng, std::string_view text, Where where);
double read_real(std::string_view text, Where where);
/// Error unless an integer of so many bytes holds it, or, of 0 bytes, a bool.
std::int64_t read_integer(std::string_view text, std::size_t bytes, bool with_sign, Where where);
void restore_tensor(Tensor& value, std::span<const NamedTensor> tensors, Where where);
void restore_model(const nn::detail::Outline& model, std::span<const NamedTensor> tensors, Where where);

template <class T>
concept HasTensors = requires(T& object, std::span<const NamedTensor> tensors, Where where) {
  { object.state(where) } -> std::convertible_to<std::vector<NamedTensor>>;
  object.load_state(tensors, where);
};
template <class T>
concept HasText = requires(T& object, std::string_view text, Where where) {
  { object.state() } -> std::convertible_to<std::string>;
  object.restore(text, where);
};
template <class T>
inline constexpr bool kIsText = !HasTensors<T> && (HasText<T> || std::is_same_v<T, std::string> ||
                                                   std::is_same_v<T, Rng> || std::is_arithmetic_v<T>);

}  // namespace detail

/// A part of a run, held by reference:
///
///   a model, whose parameters and buffers count
///   an optimizer, an average of parameters, a loss scaler, a metric, or whatever has `state(Where)`, which gives
///   copies of named tensors, and `load_state(tensors, Where)`, which takes them in any order and throws before it
///   changes anything; models that have these as well are kept by them
///   a pipeline, or whatever has `state()`, which gives a text, and `restore(text, Where)`
///   an Rng; a bool, an integer, a float or a double; a std::string, whose text must be UTF-8
///   a Tensor, such as a carried state of a recurrent network, which is replaced by one on the same device
class CheckpointPart {
 public:
  CheckpointPart() noexcept = default;  ///< none
  template <class T>
  requires(!std::is_same_v<std::remove_const_t<T>, CheckpointPart> && !std::is_const_v<T>) CheckpointPart(T& object)
  noexcept  // NOLINT: converts
      : object_(&object), save_(&save_of<T>), load_(&load_of<T>), text_(detail::kIsText<T>) {
    static_assert(!std::is_same_v<T, long double>, "capstan: checkpoints keep float and double");
  }

  bool defined() const noexcept { return object_ != nullptr; }
  bool is_text() const noexcept { return text_; }  ///< else it consists of tensors
  detail::PartState save(Where where) const { return save_(object_, where); }
  void load(const detail::PartState& state, Where where) const { load_(object_, state, where); }

 private:
  template <class T>
  static detail::PartState save_of(void* object, [[maybe_unused]] Where where) {
    using Kind = detail::PartState::Kind;
    T& part = *static_cast<T*>(object);
    if constexpr (detail::HasTensors<T>) return {Kind::copies, part.state(where), {}};
    else if constexpr (detail::HasText<T>) return {Kind::text, {}, part.state()};
    else if constexpr (std::is_same_v<T, std::string>) return {Kind::text, {}, part};
    else if constexpr (std::is_same_v<T, Rng>) return {Kind::text, {}, detail::text_of(part)};
    else if constexpr (std::is_floating_point_v<T>) return {Kind::text, {}, detail::text_of(double{part})};
    else if constexpr (std::is_integral_v<T>) return {Kind::text, {}, detail::text_of(static_cast<std::int64_t>(part))};
    else if constexpr (std::is_same_v<T, Tensor>)
      return {part.defined() ? Kind::handles : Kind::copies, detail::tensors_of(part), {}};
    else return {Kind::handles, nn::named_state(part), {}};
  }
  template <class T>
  static void load_of(void* object, const detail::PartState& state, [[maybe_unused]] Where where) {
    T& part = *static_cast<T*>(object);
    if constexpr (detail::HasTensors<T>) part.load_state(detail::tensors_in(state), where);
    else if constexpr (detail::HasText<T>) part.restore(std::string_view(state.text), where);
    else if constexpr (std::is_same_v<T, std::string>) part = state.text;
    else if constexpr (std::is_same_v<T, Rng>) detail::restore_text(part, state.text, where);
    else if constexpr (std::is_floating_point_v<T>) part = static_cast<T>(detail::read_real(state.text, where));
    else if constexpr (std::is_integral_v<T>)
      part = static_cast<T>(
          detail::read_integer(state.text, std::is_same_v<T, bool> ? 0 : sizeof(T), std::is_signed_v<T>, where));
    else if constexpr (std::is_same_v<T, Tensor>) detail::restore_tensor(part, state.tensors, where);
    else detail::restore_model(nn::detail::outline_of(part), state.tensors, where);
  }

  void* object_ = nullptr;
  detail::PartState (*save_)(void*, Where) = nullptr;
  void (*load_)(void*, const detail::PartState&, Where) = nullptr;
  bool text_ = false;
};

/// What a checkpoint holds. The calling thread's default generator of random numbers always belongs to it, under the
/// name "default_random".
struct CheckpointParts {
  CheckpointPart model = {}, optimizer = {}, schedule = {}, ema = {}, scaler = {}, data = {}, random = {};
  /// Others, each under a name of its own: `.more = {{"critic", critic}, {"critic_optimizer", sgd}, {"best", best}}`.
  std::vector<std::pair<std::string, CheckpointPart>> more = {};
};

struct CheckpointOptions {
  std::int64_t keep = 5;       ///< of the last ones; >= 1
  std::int64_t keep_best = 1;  ///< of those that were saved with a metric, the last ones among them; >= 0
  bool maximize = false;       ///< the larger a metric is the better; NaN is never the best
  bool background = true;      ///< `save` returns when the state is copied, and a thread writes it
};

struct SaveOptions {
  std::optional<double> metric = std::nullopt;  ///< by which the best is chosen
};

/// A checkpoint in a folder.
struct Checkpoint {
  std::string path;
  std::int64_t number = 0;  ///< counts what was saved in the folder, from 1
  std::int64_t step = 0;
  std::optional<double> metric;  ///< none if the file is damaged, too
};

/// Checkpoints in a folder, in files such as `checkpoint-000012-step-1200.safetensors`: its number, by which the last
/// ones are known also where a run has gone back, and the step. Other files there are none of its business.
///
/// Threads   One manager is used from one thread at a time. Several managers, also of several processes, may use one
///           folder: numbers are different, and no checkpoint is ever overwritten
/// Throws    Error for options out of range and for the use of a manager that was moved from. All functions that throw
///           leave the parts as they were
class CheckpointManager {
 public:
  /// A relative folder stays the one of this moment. IoError if the program's own folder is gone.
  explicit CheckpointManager(const std::string& folder, CheckpointOptions options = {}, Where where = Where::current());
  CheckpointManager(CheckpointManager&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CheckpointManager& operator=(CheckpointManager&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Waits for what is being written, without a word of errors: call `wait` to hear of them.
  ~CheckpointManager();

  /// Saves the parts as they are now; makes the folder if there is none. The file is written beside its place and takes
  /// its name when the disk has it. Then the folder keeps the last `keep`, the best `keep_best` (the later one of
  /// equals), and those that `restore_` functions found damaged. Draws no random numbers; no tape records it.
  ///
  /// Cost      waits for the one before; then a copy of the state on the CPU, which is freed when it is written
  /// Throws    Error    a negative step, or one of 10^18 and more; a name of `more` that is empty, has a dot, is there
  ///                    twice, or is a field's or "default_random"; a part that is not defined there, or has nothing to
  ///                    keep; names and texts that are no UTF-8; and whatever `state` of a part throws
  ///           IoError  the folder or the file cannot be made, or the disk has no room, as far as that is known at
  ///                    once; and what went wrong in writing the one before, once, naming the line that saved it
  ///           MissingLibraryError  this build has no nlohmann-json and could not restore it
  /// Nothing is saved then, and all checkpoints stay.
  void save(std::int64_t step, const CheckpointParts& parts, SaveOptions options = {}, Where where = Where::current());
  /// Returns when the disk has what was saved. Throws what went wrong, as `save` would.
  void wait(Where where = Where::current());

  /// Restores the last checkpoint, and the calling thread's default generator with it: its step, or 0 if there is no
  /// checkpoint. Files that are damaged are passed over: see `skipped`. Parts that the file has and that are not asked
  /// for are left alone. All parts are restored or none.
  ///
  /// Throws    IoError  there are checkpoints and none of them is intact, or one cannot be opened, as without
  ///                    permission or memory, which is no damage    as `wait`
  ///           OutOfMemoryError  no room for copies: see `read_safetensors`
  ///           Error    a part is not in the file, or does not fit, such as a parameter of another shape (ShapeError,
  ///                    DTypeError); names as in `save`
  std::int64_t restore_latest(const CheckpointParts& parts, Where where = Where::current());
  /// The one of the best metric that is intact, likewise. Error if none was saved with a metric, or only with NaN.
  std::int64_t restore_best(const CheckpointParts& parts, Where where = Where::current());
  /// All of them, damaged ones too, in the order in which they were saved.
  std::vector<Checkpoint> checkpoints(Where where = Where::current()) const;
  /// The errors of files that the last `restore_` function passed over: path, offset and reason.
  const std::vector<std::string>& skipped() const noexcept;

 private:
  struct CheckpointFolder* state_;  // owned; hidden in io/checkpoint_folder.hpp
};

/// Restores one by its path: returns its step. Throws IoError if it is damaged, naming the offset, and else as
/// CheckpointManager::restore_latest.
std::int64_t restore_checkpoint(const std::string& path, const CheckpointParts& parts, Where where = Where::current());

}  // namespace io
}  // namespace capstan
