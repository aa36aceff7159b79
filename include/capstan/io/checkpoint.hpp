#pragma once
// Checkpoints: all that a run of training needs to go on, in one file that is there whole or not at all.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/io/safetensors.hpp>
#include <capstan/nn/module.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct RngState;
class Rng;

namespace io {
namespace detail {

/// What a part of a run has to keep: tensors with names, or a text.
struct PartState {
  std::vector<NamedTensor> tensors;
  std::string text;
};

std::string text_of(const Rng& rng);
void restore_text(Rng& rng, std::string_view text, Where where);
std::string text_of(double value);           // enough digits for the same bits
std::string text_of(std::int64_t value);
void restore_text(double& value, std::string_view text, Where where);
void restore_text(std::int64_t& value, std::string_view text, Where where);
void load_model(const nn::detail::Outline& model, const PartState& state, Where where);

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

}  // namespace detail

/// A part of a run, held by reference: a model; an optimizer, an average of parameters, a loss scaler, a metric, or
/// whatever has `state(Where)` that gives named tensors and `load_state(tensors, Where)`; a pipeline, or whatever has
/// `state()` that gives a text and `restore(text, Where)`; an Rng; a number (bool, integer or floating); a std::string.
class CheckpointPart {
 public:
  CheckpointPart() noexcept = default;  ///< none
  template <class T>
  requires(!std::is_same_v<std::remove_const_t<T>, CheckpointPart> && !std::is_const_v<T>)
  CheckpointPart(T& object) noexcept  // NOLINT: converts
      : object_(&object), save_(&save_of<T>), load_(&load_of<T>) {}

  bool defined() const noexcept { return object_ != nullptr; }
  /// Tensors may be handles to what training goes on to change.
  detail::PartState save(Where where) const { return save_(object_, where); }
  void load(const detail::PartState& state, Where where) const { load_(object_, state, where); }

 private:
  template <class T>
  static detail::PartState save_of(void* object, Where where) {
    T& part = *static_cast<T*>(object);
    if constexpr (detail::HasTensors<T>) return {part.state(where), {}};
    else if constexpr (detail::HasText<T>) return {{}, part.state()};
    else if constexpr (std::is_same_v<T, std::string>) return {{}, part};
    else if constexpr (std::is_same_v<T, Rng>) return {{}, detail::text_of(part)};
    else if constexpr (std::is_floating_point_v<T>) return {{}, detail::text_of(static_cast<double>(part))};
    else if constexpr (std::is_integral_v<T>) return {{}, detail::text_of(static_cast<std::int64_t>(part))};
    else return {nn::named_state(part), {}};
  }
  template <class T>
  static void load_of(void* object, const detail::PartState& state, Where where) {
    T& part = *static_cast<T*>(object);
    if constexpr (detail::HasTensors<T>) part.load_state(state.tensors, where);
    else if constexpr (detail::HasText<T>) part.restore(state.text, where);
    else if constexpr (std::is_same_v<T, std::string>) part = state.text;
    else if constexpr (std::is_same_v<T, Rng>) detail::restore_text(part, state.text, where);
    else if constexpr (std::is_floating_point_v<T>) {
      double value = 0;
      detail::restore_text(value, state.text, where);
      part = static_cast<T>(value);
    } else if constexpr (std::is_integral_v<T>) {
      std::int64_t value = 0;
      detail::restore_text(value, state.text, where);
      part = static_cast<T>(value);
    } else detail::load_model(nn::detail::outline_of(part), state, where);
  }

  void* object_ = nullptr;
  detail::PartState (*save_)(void*, Where) = nullptr;
  void (*load_)(void*, const detail::PartState&, Where) = nullptr;
};

/// What a checkpoint holds. The calling thread's default generator of random numbers always belongs to it.
struct CheckpointParts {
  CheckpointPart model = {}, optimizer = {}, schedule = {}, ema = {}, scaler = {}, data = {}, random = {};
  /// Others, each under a name of its own: `.more = {{"critic", critic}, {"critic_optimizer", sgd}, {"best", best}}`.
  std::vector<std::pair<std::string, CheckpointPart>> more = {};
};

struct CheckpointOptions {
  std::int64_t keep = 5;       ///< of the last ones; >= 1
  std::int64_t keep_best = 1;  ///< of those saved with a metric, besides
  bool maximize = false;       ///< the larger a metric is the better; NaN is never the best
  bool background = true;      ///< `save` returns when the state is copied, and a thread writes it
};

struct SaveOptions {
  std::optional<double> metric = std::nullopt;  ///< by which the best is chosen
};

/// A checkpoint in a folder.
struct Checkpoint {
  std::string path;
  std::int64_t number = 0;  ///< how many were saved in this folder before it
  std::int64_t step = 0;
  std::optional<double> metric;
};

// The contract of the manager: see below.
class CheckpointManager {
 public:
  explicit CheckpointManager(const std::string& folder, CheckpointOptions options = {}, Where where = Where::current());
  CheckpointManager(CheckpointManager&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  CheckpointManager& operator=(CheckpointManager&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~CheckpointManager();

  void save(std::int64_t step, const CheckpointParts& parts, SaveOptions options = {}, Where where = Where::current());
  void wait(Where where = Where::current());
  std::int64_t restore_latest(const CheckpointParts& parts, Where where = Where::current());
  std::int64_t restore_best(const CheckpointParts& parts, Where where = Where::current());
  std::vector<Checkpoint> checkpoints(Where where = Where::current()) const;
  const std::vector<std::string>& skipped() const noexcept;

 private:
  struct CheckpointFolder* state_;  // owned; hidden in io/checkpoint.cpp
};

/// One by its path: returns its step.
std::int64_t restore_checkpoint(const std::string& path, const CheckpointParts& parts, Where where = Where::current());

}  // namespace io
}  // namespace capstan
