#include "autograd/gradient.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/shaping.hpp>

#include "autograd/debug_values.hpp"
#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/recording.hpp"

namespace capstan::autograd {

// --- Replay ---

const Tensor& Replay::grad(int output) const {
  const Tensor& sum = work_.gradients[entry_.first_output + static_cast<std::uint32_t>(output) - work_.base];
  if (has_row_slices(sum)) core::fill_in(*sum.impl(), entry_.where);
  return sum;
}
const Tensor& Replay::saved(int i) const noexcept { return entry_.saved_values()[i].tensor; }
const void* Replay::raw_attributes() const noexcept { return entry_.attributes(); }
Where Replay::where() const noexcept { return entry_.where; }

bool Replay::needs(int input) const noexcept {
  const std::uint32_t slot = entry_.input_slots()[input];
  return slot != kNoSlot && slot >= work_.base && (work_.marks[slot - work_.base] & kDependsOnSource) != 0;
}

namespace {

/// A sum that goes on in another tensor takes with it that nobody is to blame for its values.
void pass_excuse(const Tensor& from, const Tensor& to) noexcept {
  if (from.impl()->excused.load(std::memory_order_relaxed)) to.impl()->excused.store(true, std::memory_order_relaxed);
}

}  // namespace

TensorImpl* Replay::accumulator(int input) const {
  if (listening()) return nullptr;
  TensorImpl* sum = sum_of(input).impl();
  return sum != nullptr && sum->contiguous && core::sole_owner(*sum) ? sum : nullptr;
}

Tensor& Replay::sum_of(int input) const {
  const std::uint32_t at = entry_.input_slots()[input] - work_.base;
  if ((work_.marks[at] & kIsBeside) != 0) {
    work_.beside.finish();
    work_.marks[at] &= static_cast<std::uint8_t>(~kIsBeside);
  }
  return work_.gradients[at];
}

std::optional<Replay> Replay::behind(int input, ReplayFunction rule) const {
  if (!needs(input) || work_.hooked || listening() || core::observed()) return std::nullopt;
  const std::uint32_t slot = entry_.input_slots()[input];
  if ((work_.marks[slot - work_.base] & kIsSource) != 0) return std::nullopt;
  const Entry* maker = Log::of_this_thread().maker(slot);
  if (maker == nullptr || maker->replay != rule) return std::nullopt;
  return Replay(*maker, work_);
}

void Replay::settle() const { work_.beside.finish(); }

bool Replay::give_beside(int input, const Tensor& a, const Tensor& b) {
  const std::uint32_t at = entry_.input_slots()[input] - work_.base;
  if ((work_.marks[at] & kIsUnseen) == 0 || listening() || core::observed() || core::recording() != nullptr)
    return false;
  Tensor& sum = work_.gradients[at];
  const bool begun = sum.defined();
  if (begun && (!sum.impl()->contiguous || !core::sole_owner(*sum.impl()) || has_row_slices(sum))) return false;
  if (!work_.beside.takes(a, b)) return false;
  if (!begun) sum = core::make_tensor(Shape({a.size(0), b.size(1)}, entry_.where), a.dtype(), a.device(), entry_.where);
  work_.beside.give(a, b, *sum.impl(), begun);
  work_.marks[at] |= kIsBeside;
  return true;
}

void Replay::give(int input, Tensor gradient) {
  Tensor& sum = sum_of(input);
  if (has_row_slices(sum)) core::fill_in(*sum.impl(), entry_.where);
  if (sum.defined() && has_row_slices(gradient)) core::fill_in(*gradient.impl(), entry_.where);
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (TensorImpl* place = accumulator(input); place != nullptr && gradient.is_contiguous()) {
    core::backend_of(place->device(), entry_.where).accumulate(*place, *gradient.impl());
  } else if (TensorImpl* other = gradient.impl();
             !listening() && other->contiguous && core::sole_owner(*other) && sum.is_contiguous()) {
    core::backend_of(other->device(), entry_.where).accumulate(*other, *sum.impl());
    pass_excuse(sum, gradient);
    sum = std::move(gradient);
  } else {
    sum = add(sum, gradient, entry_.where);
  }
  core::note_own();
}

void Replay::give_rows(int input, const RowSlices& slices, const Shape& shape) {
  Tensor& sum = sum_of(input);
  const Where where = entry_.where;
  RowSlices all = slices;
  if (const std::optional<RowSlices> before = find_row_slices(sum, where)) {
    all = {concat({before->indices, slices.indices}, 0, where), concat({before->values, slices.values}, 0, where)};
  } else if (TensorImpl* place = sum.defined() ? accumulator(input) : nullptr; place != nullptr) {
    core::backend_of(place->device(), where).gather_backward(*slices.values.impl(), *slices.indices.impl(), *place);
    core::note_own();
    return;
  }
  Tensor rows = core::make_sliced(std::move(all), shape, where);
  if (sum.defined()) pass_excuse(sum, rows);
  if (row_slices(rows, where).indices.numel() >= shape[0]) core::fill_in(*rows.impl(), where);
  if (sum.defined() && !has_row_slices(sum)) give(input, std::move(rows));
  else sum = std::move(rows);
}

// --- the walk ---

Held::Held(TapeState& tape) noexcept : tape_(tape) { ++tape_.held; }
Held::~Held() {
  if (--tape_.held == 0 && tape_.ended) end_tape(&tape_);
}

namespace {

/// Stops a tape from recording its own replay, and lends out the buffers.
class Session {
 public:
  Session(TapeState& tape) : tape_(tape), work_(std::exchange(tape.log->spare_work, nullptr)) {
    if (work_ == nullptr) work_ = new GradientWork;
    ++tape_.paused;
    ++tape_.replaying;
    tape_.log->refresh_recording();
  }
  ~Session() {
    --tape_.replaying;
    --tape_.paused;
    tape_.log->refresh_recording();
    work_->beside.end();
    work_->gradients.clear();
    delete std::exchange(tape_.log->spare_work, work_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  GradientWork& work() noexcept { return *work_; }

 private:
  TapeState& tape_;
  GradientWork* work_;
};

void check_floating(const char* op, const char* what, const Tensor& x, Where where) {
  core::described(op, x, where);
  if (!is_floating(x.dtype()))
    base::fail<DTypeError>(where, op, ": a ", what, " is ", x.dtype(), "; gradients exist for floating types only.");
}

std::uint32_t target_slot(const char* op, const TapeState& tape, const Tensor& target, Where where) {
  const std::uint32_t slot = tape.log->find(*target.impl());
  if (slot == kNoSlot || (tape.log->slots[slot].tapes & tape.bit) == 0)
    base::fail<TapeError>(
        where, op, ": the target of shape ", target.shape(),
        " is not on the tape; it must be computed, while the tape records, from a watched tensor or a Parameter.");
  return slot;
}

void check_output_gradient(const char* op, const Tensor& target, const Tensor& gradient, Where where) {
  if (gradient.shape() != target.shape())
    base::fail<ShapeError>(where, op, ": the output gradient is ", gradient.shape(), " and the target ", target.shape(),
                           "; the shapes must be equal.");
  if (gradient.dtype() != target.dtype())
    base::fail<DTypeError>(where, op, ": the output gradient is ", gradient.dtype(), " and the target ", target.dtype(),
                           "; the types must be equal.");
  core::require_same_device(op, *target.impl(), *gradient.impl(), where);
}

void check_saved(const char* op, const Entry& entry, Where where) {
  for (std::uint32_t i = 0; i < entry.saved; ++i) {
    const Saved& saved = entry.saved_values()[i];
    if (!saved.tensor.defined()) continue;
    const core::Storage& storage = *saved.tensor.impl()->storage;
    if (storage.version.load(std::memory_order_relaxed) == saved.version) continue;
    const Where written = storage.last_write.load(std::memory_order_relaxed);
    base::fail<TapeError>(where, op, ": a value that ", entry.op, " at ", base::to_string(entry.where),
                          " saved was changed in place at ", base::to_string(written),
                          "; change a copy, or change it after the gradient.");
  }
}

/// Whether a gradient must flow through an entry: some input depends on a source. (An entry that only makes a source
/// need not be replayed.)
bool any_input_depends(const Entry& entry, const GradientWork& work) {
  for (std::uint32_t i = 0; i < entry.inputs; ++i) {
    const std::uint32_t slot = entry.input_slots()[i];
    if (slot != kNoSlot && slot >= work.base && (work.marks[slot - work.base] & kDependsOnSource) != 0) return true;
  }
  return false;
}

bool any_output_marked(const Entry& entry, const GradientWork& work, std::uint8_t mark) {
  for (std::uint32_t i = 0; i < entry.outputs; ++i)
    if ((work.marks[entry.first_output + i - work.base] & mark) != 0) return true;
  return false;
}

/// An entry that used a source before it was watched does not depend on it.
void mark_late_sources(const Entry& entry, GradientWork& work) {
  for (const LateWatch& watch : work.late) {
    std::uint8_t& mark = work.marks[watch.slot - work.base];
    mark = static_cast<std::uint8_t>(entry.first_output >= watch.since ? mark | kDependsOnSource
                                                                       : mark & ~kDependsOnSource);
  }
}

/// Marks what depends on the sources (walking up), then what of it the targets need (walking down), checking the
/// saved values of just those entries.
void mark_paths(const TapeState& tape, const GradientRequest& request, GradientWork& work, std::size_t first,
                std::size_t last) {
  const std::vector<Entry>& entries = tape.log->entries;
  for (std::size_t i = first; i < last; ++i) {
    const Entry& entry = entries[i];
    mark_late_sources(entry, work);
    if (!entry.replays_on(tape.bit) || !any_input_depends(entry, work)) continue;
    for (std::uint32_t o = 0; o < entry.outputs; ++o)
      work.marks[entry.first_output + o - work.base] |= kDependsOnSource;
  }
  for (std::size_t i = last; i-- > first;) {
    const Entry& entry = entries[i];
    mark_late_sources(entry, work);
    if (!entry.replays_on(tape.bit) || !any_output_marked(entry, work, kReachesTarget) ||
        !any_input_depends(entry, work))
      continue;
    check_saved(request.op, entry, request.where);
    for (std::uint32_t k = 0; k < entry.inputs; ++k) {
      const std::uint32_t slot = entry.input_slots()[k];
      if (slot != kNoSlot && slot >= work.base) work.marks[slot - work.base] |= kReachesTarget;
    }
  }
}

/// The hooks of one replay, those of later tensors first. A hook may add hooks: these wait for the next replay.
class Hooks {
 public:
  explicit Hooks(const TapeState& tape) : list_(tape.hooks) {
    const auto later = [](const GradientHook& a, const GradientHook& b) { return a.slot > b.slot; };
    std::stable_sort(list_.begin(), list_.end(), later);
  }
  /// Runs those of the slots from `lowest` on, whose gradients are complete by now.
  void run_down_to(std::uint32_t lowest, GradientWork& work) {
    for (; next_ < list_.size() && list_[next_].slot >= lowest; ++next_) {
      const std::uint32_t at = list_[next_].slot - work.base;
      if (at < work.gradients.size()) run(list_[next_], work, at);
    }
  }

 private:
  static void run(const GradientHook& hook, GradientWork& work, std::uint32_t at) {
    const Tensor gradient = work.gradients[at];  // a handle of its own: the hook may do anything
    if (!gradient.defined()) return;
    Tensor replacement = hook.run(gradient);
    if (!replacement.defined()) return;
    constexpr const char* op = "GradientTape::on_gradient";
    if (replacement.shape() != gradient.shape())
      base::fail<ShapeError>(hook.where, op, ": the hook returned ", replacement.shape(), " for a gradient of ",
                             gradient.shape(), "; the shapes must be equal.");
    if (replacement.dtype() != gradient.dtype())
      base::fail<DTypeError>(hook.where, op, ": the hook returned ", replacement.dtype(), " for a gradient of ",
                             gradient.dtype(), "; the types must be equal.");
    core::require_same_device(op, *gradient.impl(), *replacement.impl(), hook.where);
    work.gradients[at] = std::move(replacement);
  }

  std::vector<GradientHook> list_;
  std::size_t next_ = 0;
};

/// Watchers see the gradients that came in, what had been saved, and the gradients given.
__attribute__((noinline)) void replay_watched(const Entry& entry, Replay& replay, const GradientWork& work) {
  constexpr std::size_t kFew = 16;
  const std::size_t most = std::size_t{entry.outputs} + entry.saved + entry.inputs;
  const Tensor* few[kFew] = {};
  std::vector<const Tensor*> many(most > kFew ? most : 0);
  const Tensor** const list = most > kFew ? many.data() : few;
  std::size_t count = 0;
  for (std::uint32_t o = 0; o < entry.outputs; ++o) list[count++] = &work.gradients[entry.first_output + o - work.base];
  for (std::uint32_t i = 0; i < entry.saved; ++i) list[count++] = &entry.saved_values()[i].tensor;
  const std::size_t read = count;
  for (std::uint32_t i = 0; i < entry.inputs; ++i) {
    if (!replay.needs(static_cast<int>(i))) continue;
    const Tensor* gradient = &work.gradients[entry.input_slots()[i] - work.base];
    if (std::find(list + read, list + count, gradient) == list + count) list[count++] = gradient;
  }
  const std::span<const Tensor*const> inputs(list, read), outputs(list + read, count - read);
  core::ReplayWatch watch(entry.op);
  entry.replay(replay);
  replay.settle();
  watch.ends({entry.op, entry.where, inputs, outputs, true, entry.outputs});
}

void replay_entries(TapeState& tape, GradientWork& work, std::size_t first, std::size_t last) {
  Hooks hooks(tape);
  for (std::size_t i = last; i-- > first;) {
    const Entry entry = tape.log->entries[i];  // a copy: the replay may append for outer tapes
    hooks.run_down_to(entry.first_output, work);
    if (!entry.replays_on(tape.bit)) continue;
    bool has_gradient = false;
    for (std::uint32_t o = 0; o < entry.outputs; ++o)
      has_gradient = has_gradient || work.gradients[entry.first_output + o - work.base].defined();
    if (!has_gradient) continue;
    mark_late_sources(entry, work);
    if (any_input_depends(entry, work)) {
      Replay replay(entry, work);
      if (core::observed()) replay_watched(entry, replay, work);
      else entry.replay(replay);
    }
    for (std::uint32_t o = 0; o < entry.outputs; ++o) {
      const std::uint32_t at = entry.first_output + o - work.base;
      if ((work.marks[at] & kIsSource) == 0) work.gradients[at] = Tensor();
    }
    if (tape.spent && entry.tapes == tape.bit) tape.log->entries[i].drop_saved();
  }
  hooks.run_down_to(work.base, work);
}

/// The gradients that the walk begins with, at the targets.
void place_seeds(const Log& log, const GradientRequest& request, GradientWork& work) {
  for (std::size_t i = 0; i < request.targets.size(); ++i) {
    const std::uint32_t slot = log.find(*request.targets[i].impl());
    if (slot < work.base || (work.marks[slot - work.base] & (kDependsOnSource | kIsSource)) == 0) continue;
    const bool given = !request.output_gradients.empty() && request.output_gradients[i].defined();
    Tensor seed = given ? request.output_gradients[i] : ones_like(request.targets[i], request.where);
    const bool looked_at = core::watched(core::kWatchResults) && given && host_looks(*seed.impl());
    if (looked_at && has_bad(seed, Bad::nan_or_infinity, request.where))
      seed.impl()->excused.store(true, std::memory_order_relaxed);
    Tensor& sum = work.gradients[slot - work.base];
    sum = sum.defined() ? add(sum, seed, request.where) : std::move(seed);
  }
}

/// A gradient is the caller's own: neither a stretched view nor shared with another source.
Tensor own_gradient(Tensor gradient, Where where) {
  const TensorImpl& impl = *gradient.impl();
  if (has_row_slices(gradient)) {
    if (impl.references.load(std::memory_order_acquire) == 1) return gradient;
    if (std::optional<RowSlices> slices = find_row_slices(gradient, where))
      return core::make_sliced(*std::move(slices), impl.shape, where);
  }
  if (impl.contiguous && core::sole_owner(impl)) return gradient;
  return gradient.copy(where);
}

/// Fills `result`, one tensor for each source.
void compute_gradients(TapeState& tape, const GradientRequest& request, Tensor* result) {
  Log& log = *tape.log;
  const char* op = request.op;
  const Where where = request.where;
  std::uint32_t lowest = kNoSlot, highest = 0;
  for (std::size_t i = 0; i < request.targets.size(); ++i) {
    check_floating(op, "target", request.targets[i], where);
    highest = std::max(highest, target_slot(op, tape, request.targets[i], where));
    if (!request.output_gradients.empty() && request.output_gradients[i].defined())
      check_output_gradient(op, request.targets[i], request.output_gradients[i], where);
  }
  const auto slot_of = [&](const Tensor& source) {
    const std::uint32_t slot = log.find(*source.impl());
    return slot != kNoSlot && slot <= highest && (log.slots[slot].tapes & tape.bit) != 0 ? slot : kNoSlot;
  };
  for (const Tensor& source : request.sources) {
    check_floating(op, "source", source, where);
    lowest = std::min(lowest, slot_of(source));
  }
  const auto spend = [&] {
    if (tape.options.persistent || request.keep) return;
    tape.spent = true;
    tape.spent_at = where;
  };

  Session session(tape);
  GradientWork& work = session.work();
  if (lowest != kNoSlot) {
    work.base = lowest;
    work.hooked = !tape.hooks.empty();
    work.marks.assign(highest - lowest + 1, 0);
    work.gradients.resize(highest - lowest + 1);
    for (const Tensor& source : request.sources)
      if (const std::uint32_t slot = slot_of(source); slot != kNoSlot) {
        const bool unseen = log.slots[slot].leaf != nullptr && !work.hooked;
        work.marks[slot - lowest] |= kDependsOnSource | kIsSource | (unseen ? kIsUnseen : 0);
      }
    work.late.clear();
    for (const LateWatch& watch : log.late_watches)
      if (watch.tape == tape.bit && watch.slot >= lowest && watch.slot <= highest &&
          (work.marks[watch.slot - lowest] & kIsSource) != 0)
        work.late.push_back(watch);
    for (const Tensor& target : request.targets)
      if (const std::uint32_t slot = log.find(*target.impl()); slot >= lowest)
        work.marks[slot - lowest] |= kReachesTarget;

    const std::size_t first = std::max(log.first_from(lowest), tape.first_entry);
    const std::size_t last = log.first_from(highest + 1);
    // the last entry may have outputs above the target
    const std::uint32_t top = last > first ? log.entries[last - 1].first_output + log.entries[last - 1].outputs : 0;
    if (top > highest + 1) {
      work.marks.resize(top - lowest);
      work.gradients.resize(top - lowest);
    }
    mark_paths(tape, request, work, first, last);
    place_seeds(log, request, work);
    spend();
    log.refresh_recording();
    replay_entries(tape, work, first, last);
    work.beside.finish();
  } else {
    spend();
  }
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const Tensor& source = request.sources[i];
    const std::uint32_t slot = slot_of(source);
    if (slot != kNoSlot) result[i] = work.gradients[slot - work.base];
  }
  work.gradients.clear();
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const Tensor& source = request.sources[i];
    if (result[i].defined()) result[i] = own_gradient(std::move(result[i]), where);
    else if (request.unconnected == Unconnected::zeros) result[i] = zeros_like(source, where);
  }
}

/// At the end a tape that is spent gives back what it holds, also if the replay threw.
class Release {
 public:
  explicit Release(TapeState& tape) : tape_(tape) {}
  ~Release() {
    if (!tape_.spent) return;
    tape_.log->forget(tape_);
    tape_.log->refresh_recording();
  }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;

 private:
  TapeState& tape_;
};

}  // namespace

void run_gradient(TapeState* state, const GradientRequest& request, Tensor* result) {
  TapeState& tape = usable(request.op, state, request.where);
  if (tape.spent || (tape.replaying > 0 && !tape.options.persistent))
    base::fail<TapeError>(request.where, request.op, ": gradient was called before on this tape, made at ",
                          base::to_string(tape.where),
                          "; only a persistent tape ({.persistent = true}) allows a second call.");
  const Held held(tape);
  const Release release(tape);
  const Rollback rollback;  // of what outer tapes record; autocast is off, as the results' own types are to be used
  compute_gradients(tape, request, result);
}

}  // namespace capstan::autograd
