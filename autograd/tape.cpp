#include <capstan/tape.hpp>

#include <ostream>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"

namespace capstan {

using autograd::Log;

namespace {

/// The state of a tape that is used on its own thread and was not moved from.
TapeState& usable(const char* op, TapeState* state, Where where) {
  if (state == nullptr)
    base::fail<TapeError>(where, op, ": the tape was moved from; only assigning to it and destroying it are allowed.");
  if (Log::of_this_thread_if_any() != state->log)
    base::fail<TapeError>(where, op, ": the tape was made on another thread at ", base::to_string(state->where),
                          "; a tape records its own thread and is used there.");
  return *state;
}

void destroy(TapeState* state) noexcept {
  if (state == nullptr) return;
  Log* log = state->log;
  if (Log::of_this_thread_if_any() == log) {
    log->close(*state);
    autograd::dispose(state);
    log->release();
  } else {
    log->end_from_elsewhere(state);
  }
}

}  // namespace

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

GradientTape::~GradientTape() { destroy(state_); }
GradientTape::GradientTape(GradientTape&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
GradientTape& GradientTape::operator=(GradientTape&& other) noexcept {
  if (this != &other) destroy(std::exchange(state_, std::exchange(other.state_, nullptr)));
  return *this;
}

void GradientTape::watch(const Tensor& x, Where where) {
  TapeState& tape = usable("GradientTape::watch", state_, where);
  const TensorImpl& impl = core::defined("GradientTape::watch", x, where);
  if (!is_floating(impl.dtype))
    base::fail<DTypeError>(where, "GradientTape::watch: the tensor is ", impl.dtype,
                           "; gradients exist for float32 and float64 only.");
  if (tape.spent)
    base::fail<TapeError>(where, "GradientTape::watch: the tape has computed its gradient and records no more; ",
                          "make it persistent, or reset it.");
  tape.log->follow(*x.impl(), tape.bit);
}

void GradientTape::watch(std::initializer_list<Tensor> xs, Where where) {
  for (const Tensor& x : xs) watch(x, where);
}

namespace {

void run_gradient(TapeState* state, std::span<const Tensor> targets, std::span<const Tensor> sources,
                  std::span<const Tensor> output_gradients, Unconnected unconnected, Tensor* result, Where where) {
  constexpr const char* op = "GradientTape::gradient";
  TapeState& tape = usable(op, state, where);
  if (tape.spent)
    base::fail<TapeError>(where, op, ": gradient was called before on this tape, made at ", base::to_string(tape.where),
                          "; only a persistent tape ({.persistent = true}) allows a second call.");
  autograd::compute_gradients(tape, {targets, sources, output_gradients, unconnected, where}, result);
  if (tape.spent) {
    tape.log->forget(tape);
    tape.log->refresh_recording();
  }
}

}  // namespace

void GradientTape::gradient_into(const Tensor& target, std::span<const Tensor> sources, Tensor* result,
                                 const GradientOptions& options, Where where) {
  run_gradient(state_, {&target, 1}, sources, {&options.output_gradient, 1}, options.unconnected, result, where);
}

std::vector<Tensor> GradientTape::gradient(const Tensor& target, std::span<const Tensor> sources,
                                           const GradientOptions& options, Where where) {
  std::vector<Tensor> result(sources.size());
  gradient_into(target, sources, result.data(), options, where);
  return result;
}

Tensor GradientTape::gradient(const Tensor& target, const Tensor& source, const GradientOptions& options, Where where) {
  Tensor result;
  gradient_into(target, {&source, 1}, &result, options, where);
  return result;
}

std::vector<Tensor> GradientTape::gradient(std::initializer_list<Tensor> targets, std::span<const Tensor> sources,
                                           std::span<const Tensor> output_gradients, Unconnected unconnected,
                                           Where where) {
  if (!output_gradients.empty() && output_gradients.size() != targets.size())
    base::fail<ShapeError>(where, "GradientTape::gradient: there are ", output_gradients.size(),
                           " output gradients and ", targets.size(), " targets; give one for each, or none.");
  std::vector<Tensor> result(sources.size());
  run_gradient(state_, {targets.begin(), targets.size()}, sources, output_gradients, unconnected, result.data(), where);
  return result;
}

GradientTape::Pause GradientTape::stop_recording(Where where) {
  TapeState& tape = usable("GradientTape::stop_recording", state_, where);
  ++tape.paused;
  tape.log->refresh_recording();
  return Pause(&tape);
}

GradientTape::Pause::~Pause() {
  if (tape_ == nullptr) return;
  --tape_->paused;
  if (tape_->destroyed) autograd::dispose(tape_);
  else if (Log::of_this_thread_if_any() == tape_->log) tape_->log->refresh_recording();
}

void GradientTape::reset(Where where) {
  TapeState& tape = usable("GradientTape::reset", state_, where);
  tape.log->forget(tape);
  tape.spent = false;
  tape.log->refresh_recording();
}

namespace {

template <class F>
void for_entries(const char* op, TapeState* state, F visit) {
  if (state == nullptr) return;  // moved from: nothing recorded
  const TapeState* tape = &usable(op, state, Where::current());
  for (std::size_t i = tape->first_entry; i < tape->log->entries.size(); ++i)
    if ((tape->log->entries[i].tapes & tape->bit) != 0) visit(tape->log->entries[i]);
}

std::int64_t bytes_kept_by(const autograd::Entry& entry) {
  std::int64_t bytes = 0;
  for (std::uint32_t i = 0; i < entry.saved; ++i) {
    const TensorImpl* value = entry.saved_values()[i].tensor.impl();
    if (value == nullptr) continue;
    bool counted = false;
    for (std::uint32_t k = 0; k < i; ++k)
      counted = counted || (entry.saved_values()[k].tensor.defined() &&
                            entry.saved_values()[k].tensor.impl()->storage == value->storage);
    if (!counted) bytes += value->numel() * size_of(value->dtype);
  }
  return bytes;
}

}  // namespace

std::int64_t GradientTape::size() const {
  std::int64_t count = 0;
  for_entries("GradientTape::size", state_, [&](const autograd::Entry&) { ++count; });
  return count;
}

std::int64_t GradientTape::bytes_kept() const {
  std::int64_t bytes = 0;
  for_entries("GradientTape::bytes_kept", state_, [&](const autograd::Entry& entry) { bytes += bytes_kept_by(entry); });
  return bytes;
}

bool GradientTape::recording() const noexcept {
  return state_ != nullptr && Log::of_this_thread_if_any() == state_->log && (autograd::recording & state_->bit) != 0;
}

std::ostream& operator<<(std::ostream& out, const GradientTape& tape) {
  for_entries("operator<<", tape.state_, [&](const autograd::Entry& entry) {
    const Shape shape(std::span<const std::int64_t>(entry.sizes(), entry.rank));
    out << base::join(entry.op, "  ", shape, "  keeps ", bytes_kept_by(entry), " bytes  ", base::to_string(entry.where),
                      "\n");
  });
  return out;
}

NoGrad::NoGrad() {
  Log& log = Log::of_this_thread();
  ++log.no_grad;
  log.refresh_recording();
}
NoGrad::~NoGrad() {
  Log& log = *Log::of_this_thread_if_any();
  --log.no_grad;
  log.refresh_recording();
}

Tensor stop_gradient(const Tensor& x, Where where) {
  const TensorImpl& impl = core::defined("stop_gradient", x, where);
  return core::make_view(impl, impl.shape, impl.strides, 0, where);
}

}  // namespace capstan
