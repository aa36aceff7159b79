#include <capstan/tape.hpp>

#include <algorithm>
#include <map>
#include <ostream>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"

namespace capstan {

using autograd::Entry;
using autograd::Log;
using autograd::usable;

TapeState& autograd::usable(const char* op, TapeState* state, Where where) {
  if (state == nullptr)
    base::fail<TapeError>(where, op, ": the tape was moved from; only assigning to it and destroying it are allowed.");
  if (Log::of_this_thread_if_any() != state->log)
    base::fail<TapeError>(where, op, ": the tape was made on another thread at ", base::to_string(state->where),
                          "; a tape records its own thread and is used there.");
  return *state;
}

void autograd::end_tape(TapeState* state) noexcept {
  if (state == nullptr) return;
  Log* log = state->log;
  if (Log::of_this_thread_if_any() != log) log->end_from_elsewhere(state);
  else log->end_here(state);
}

GradientTape::GradientTape(TapeOptions options, Where where) {
  Log& log = Log::of_this_thread();
  state_ = new TapeState{.log = &log, .options = options, .where = where};
  try {
    log.open(*state_, where);
  } catch (...) {
    delete state_;
    throw;
  }
}

GradientTape::~GradientTape() { autograd::end_tape(state_); }
GradientTape::GradientTape(GradientTape&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
GradientTape& GradientTape::operator=(GradientTape&& other) noexcept {
  if (this != &other) autograd::end_tape(std::exchange(state_, std::exchange(other.state_, nullptr)));
  return *this;
}

namespace {

constexpr const char* kGradient = "GradientTape::gradient";

/// Checks that a tape can follow x.
TapeState& ready_to_watch(TapeState* state, const Tensor& x, Where where) {
  TapeState& tape = usable("GradientTape::watch", state, where);
  const TensorImpl& impl = core::defined("GradientTape::watch", x, where);
  if (!is_floating(impl.dtype))
    base::fail<DTypeError>(where, "GradientTape::watch: the tensor is ", impl.dtype,
                           "; gradients exist for floating types only.");
  if (tape.spent)
    base::fail<TapeError>(where, "GradientTape::watch: the tape has computed its gradient and records no more; ",
                          "make it persistent, or reset it.");
  return tape;
}

}  // namespace

void GradientTape::watch(const Tensor& x, Where where) {
  TapeState& tape = ready_to_watch(state_, x, where);
  tape.log->follow(*x.impl(), tape.bit);
}

void GradientTape::watch(std::initializer_list<Tensor> xs, Where where) {
  for (const Tensor& x : xs) ready_to_watch(state_, x, where);  // all of them, or none
  for (const Tensor& x : xs) state_->log->follow(*x.impl(), state_->bit);
}

void GradientTape::gradient_into(const Tensor& target, std::span<const Tensor> sources, Tensor* result,
                                 const GradientOptions& options, Where where) {
  autograd::run_gradient(
      state_, {kGradient, {&target, 1}, sources, {&options.output_gradient, 1}, options.unconnected, where}, result);
}

std::vector<Tensor> GradientTape::gradient(const Tensor& target, std::span<const Tensor> sources,
                                           const GradientOptions& options, Where where) {
  std::vector<Tensor> result(sources.size());
  gradient_into(target, sources, result.data(), options, where);
  return result;
}

std::vector<Tensor> GradientTape::gradient(const Tensor& target, const std::vector<Tensor>& sources,
                                           const GradientOptions& options, Where where) {
  return gradient(target, std::span<const Tensor>(sources), options, where);
}
std::vector<Tensor> GradientTape::gradient(const Tensor& target, std::initializer_list<Tensor> sources,
                                           const GradientOptions& options, Where where) {
  return gradient(target, std::span<const Tensor>(sources.begin(), sources.size()), options, where);
}
Tensor GradientTape::gradient(const Tensor& target, const Tensor& source, const GradientOptions& options, Where where) {
  Tensor result;
  gradient_into(target, {&source, 1}, &result, options, where);
  return result;
}

std::vector<Tensor> GradientTape::gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                                           std::span<const Tensor> output_gradients, Unconnected unconnected,
                                           Where where) {
  if (!output_gradients.empty() && output_gradients.size() != targets.size())
    base::fail<ShapeError>(where, kGradient, ": there are ", output_gradients.size(), " output gradients and ",
                           targets.size(), " targets; give one for each, or none.");
  std::vector<Tensor> result(sources.size());
  autograd::run_gradient(state_, {kGradient, targets, sources, output_gradients, unconnected, where}, result.data());
  return result;
}

std::vector<Tensor> GradientTape::gradient(std::initializer_list<Tensor> targets, std::span<const Tensor> sources,
                                           std::span<const Tensor> output_gradients, Unconnected unconnected,
                                           Where where) {
  return gradient(std::span<const Tensor>(targets.begin(), targets.size()), sources, output_gradients, unconnected,
                  where);
}

void GradientTape::add_hook(const Tensor& x, Callback<Tensor(const Tensor&)> hook, Where where) {
  constexpr const char* op = "GradientTape::on_gradient";
  TapeState& tape = usable(op, state_, where);
  const TensorImpl& impl = core::described(op, x, where);
  if (!hook) base::fail<Error>(where, op, ": the hook is empty; give it a function.");
  if (tape.spent)
    base::fail<TapeError>(where, op, ": the tape has computed its gradient and records no more; ",
                          "make it persistent, or reset it.");
  const bool parameter = tape.options.watch_parameters && impl.trainable.load(std::memory_order_relaxed);
  if ((tape.log->tapes_of(impl) & tape.bit) == 0 && !parameter)
    base::fail<TapeError>(where, op, ": the tape does not follow this tensor of shape ", impl.shape,
                          "; watch it first, or compute it from a watched tensor or a Parameter.");
  if (tape.hooks.size() == tape.hooks.capacity()) tape.hooks.reserve(tape.hooks.size() * 2 + 4);
  tape.hooks.push_back({tape.log->follow(*x.impl(), tape.bit), std::move(hook), where});
}

bool GradientTape::follows(const Tensor& x, Where where) const {
  constexpr const char* op = "GradientTape::follows";
  const TapeState& tape = usable(op, state_, where);
  return (tape.log->tapes_of(core::described(op, x, where)) & tape.bit) != 0;
}

GradientTape::Pause GradientTape::stop_recording(Where where) {
  TapeState& tape = usable("GradientTape::stop_recording", state_, where);
  ++tape.paused;
  tape.paused_at = where;
  tape.log->refresh_recording();
  return Pause(&tape);
}

GradientTape::Pause::~Pause() {
  --tape_->paused;
  if (tape_->destroyed) autograd::dispose(tape_);
  else if (Log::of_this_thread_if_any() == tape_->log) tape_->log->refresh_recording();
}

void GradientTape::reset(Where where) {
  TapeState& tape = usable("GradientTape::reset", state_, where);
  if (tape.held > 0)
    base::fail<TapeError>(where, "GradientTape::reset: the tape is being replayed; reset it behind the gradient.");
  tape.spent = true;  // for as long as functions that it owned may run operations
  autograd::recording &= ~tape.bit;
  tape.log->forget(tape);
  tape.spent = false;
  tape.log->refresh_recording();
}

namespace {

template <class F>
void for_entries(const char* op, TapeState* state, Where where, F visit) {
  if (state == nullptr) return;  // moved from: nothing recorded
  const TapeState& tape = usable(op, state, where);
  for (std::size_t i = tape.first_entry; i < tape.log->entries.size(); ++i)
    if (tape.log->entries[i].replays_on(tape.bit)) visit(tape.log->entries[i]);
}

/// Bytes that keeping a tensor costs. A stretched view has more elements than its storage.
std::int64_t bytes_of(const TensorImpl& value) {
  const std::int64_t bytes = value.numel() * size_of(value.dtype), block = value.storage->block_bytes;
  return block > 0 ? std::min(bytes, block - core::kStorageHeader) : bytes;
}

std::int64_t bytes_kept_by(const Entry& entry) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < entry.saved; ++i) {
    const TensorImpl* value = entry.saved_values()[i].tensor.impl();
    if (value == nullptr) continue;
    bool counted = false;
    for (std::uint32_t k = 0; k < i; ++k)
      counted = counted || (entry.saved_values()[k].tensor.defined() &&
                            entry.saved_values()[k].tensor.impl()->storage == value->storage);
    if (!counted) bytes += bytes_of(*value);
  }
  return bytes;
}

/// What the entries of one line keep.
struct Line {
  Where where = {};
  std::int64_t operations = 0, bytes = 0;
  std::unordered_set<const core::Storage*> storages = {};
};

}  // namespace

std::int64_t GradientTape::size(Where where) const {
  std::int64_t count = 0;
  for_entries("GradientTape::size", state_, where, [&](const Entry&) { ++count; });
  return count;
}

std::int64_t GradientTape::bytes_kept(Where where) const {
  std::int64_t bytes = 0;
  for_entries("GradientTape::bytes_kept", state_, where, [&](const Entry& entry) { bytes += bytes_kept_by(entry); });
  return bytes;
}

std::vector<LineMemory> GradientTape::memory_by_line(Where where) const {
  std::map<std::pair<std::string_view, std::uint32_t>, Line> lines;
  for_entries("GradientTape::memory_by_line", state_, where, [&](const Entry& entry) {
    Line& line = lines[{entry.where.file_name(), entry.where.line()}];
    line.where = entry.where;
    ++line.operations;
    for (std::uint32_t i = 0; i < entry.saved; ++i) {
      const TensorImpl* value = entry.saved_values()[i].tensor.impl();
      if (value != nullptr && line.storages.insert(value->storage).second) line.bytes += bytes_of(*value);
    }
  });
  std::vector<LineMemory> result;
  for (const auto& [place, line] : lines) result.push_back({base::to_string(line.where), line.operations, line.bytes});
  const auto larger = [](const LineMemory& a, const LineMemory& b) { return a.bytes > b.bytes; };
  std::stable_sort(result.begin(), result.end(), larger);
  return result;
}

std::string to_string(const std::vector<LineMemory>& lines) {
  std::string text;
  for (const LineMemory& line : lines)
    text += base::join(line.line, "  ", line.operations, line.operations == 1 ? " operation  " : " operations  ",
                       line.bytes, " bytes\n");
  return text;
}

bool GradientTape::recording() const noexcept {
  return state_ != nullptr && Log::of_this_thread_if_any() == state_->log && (autograd::recording & state_->bit) != 0;
}

std::ostream& operator<<(std::ostream& out, const GradientTape& tape) {
  for_entries("operator<<", tape.state_, Where::current(), [&](const Entry& entry) {
    const Shape shape(std::span<const std::int64_t>(entry.sizes(), entry.rank));
    out << base::join(entry.op, "  ", shape, "  keeps ", bytes_kept_by(entry), " bytes  ", base::to_string(entry.where),
                      "\n");
  });
  return out;
}

NoGrad::NoGrad() {
  Log& log = Log::of_this_thread();
  log_ = &log;
  ++log.no_grad;
  log.refresh_recording();
}
NoGrad::~NoGrad() {
  Log* log = Log::of_this_thread_if_any();
  if (log == nullptr || log != log_) return;  // a static one outlives its thread's log
  --log->no_grad;
  log->refresh_recording();
}

Tensor stop_gradient(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("stop_gradient", x, where);
  Tensor out = core::make_view(impl, impl.shape, impl.strides, 0, where);
  autograd::note("stop_gradient", where, {&x}, {&out});
  return out;
}

}  // namespace capstan
