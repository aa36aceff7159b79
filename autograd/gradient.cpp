#include "autograd/gradient.hpp"

#include <algorithm>
#include <memory>

#include <capstan/create.hpp>
#include <capstan/ops/elementwise.hpp>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"

namespace capstan::autograd {

// --- Replay ---

const Tensor& Replay::grad(int output) const noexcept {
  return work_.gradients[entry_.first_output + static_cast<std::uint32_t>(output) - work_.base];
}
const Tensor& Replay::saved(int i) const noexcept { return entry_.saved_values()[i].tensor; }
const void* Replay::raw_attributes() const noexcept { return entry_.attributes(); }
Where Replay::where() const noexcept { return entry_.where; }

bool Replay::needs(int input) const noexcept {
  const std::uint32_t slot = entry_.input_slots()[input];
  return slot != kNoSlot && slot >= work_.base && (work_.marks[slot - work_.base] & kDependsOnSource) != 0;
}

TensorImpl* Replay::accumulator(int input) const noexcept {
  if (listening()) return nullptr;
  TensorImpl* sum = work_.gradients[entry_.input_slots()[input] - work_.base].impl();
  return sum != nullptr && sum->contiguous && core::sole_owner(*sum) ? sum : nullptr;
}

void Replay::give(int input, Tensor gradient) {
  Tensor& sum = work_.gradients[entry_.input_slots()[input] - work_.base];
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (TensorImpl* place = accumulator(input); place != nullptr && gradient.is_contiguous()) {
    core::backend_of(place->device(), entry_.where).accumulate(*place, *gradient.impl());
  } else if (TensorImpl* other = gradient.impl();
             !listening() && other->contiguous && core::sole_owner(*other) && sum.is_contiguous()) {
    core::backend_of(other->device(), entry_.where).accumulate(*other, *sum.impl());
    sum = std::move(gradient);
  } else {
    sum = add(sum, gradient, entry_.where);
  }
}

// --- the walk ---

namespace {

constexpr const char* kOp = "GradientTape::gradient";

/// Stops a tape from recording its own replay, and lends out the buffers.
class Session {
 public:
  Session(TapeState& tape) : tape_(tape), work_(std::exchange(tape.log->spare_work, nullptr)) {
    if (work_ == nullptr) work_ = new GradientWork;
    ++tape_.paused;
    tape_.log->refresh_recording();
  }
  ~Session() {
    --tape_.paused;
    tape_.log->refresh_recording();
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

void check_floating(const char* what, const Tensor& x, Where where) {
  core::defined(kOp, x, where);
  if (!is_floating(x.dtype()))
    base::fail<DTypeError>(where, kOp, ": a ", what, " is ", x.dtype(),
                           "; gradients exist for float32 and float64 only.");
}

std::uint32_t target_slot(const TapeState& tape, const Tensor& target, Where where) {
  const std::uint32_t slot = tape.log->find(*target.impl());
  if (slot == kNoSlot || (tape.log->slots[slot].tapes & tape.bit) == 0)
    base::fail<TapeError>(
        where, kOp, ": the target of shape ", target.shape(),
        " is not on the tape; it must be computed, while the tape records, from a watched tensor or a Parameter.");
  return slot;
}

void check_output_gradient(const Tensor& target, const Tensor& gradient, Where where) {
  if (gradient.shape() != target.shape())
    base::fail<ShapeError>(where, kOp, ": the output gradient is ", gradient.shape(), " and the target ",
                           target.shape(), "; the shapes must be equal.");
  if (gradient.dtype() != target.dtype())
    base::fail<DTypeError>(where, kOp, ": the output gradient is ", gradient.dtype(), " and the target ",
                           target.dtype(), "; the types must be equal.");
  core::require_same_device(kOp, *target.impl(), *gradient.impl(), where);
}

void check_saved(const Entry& entry, Where where) {
  for (std::uint32_t i = 0; i < entry.saved; ++i) {
    const Saved& saved = entry.saved_values()[i];
    if (!saved.tensor.defined()) continue;
    const core::Storage& storage = *saved.tensor.impl()->storage;
    if (storage.version.load(std::memory_order_relaxed) != saved.version)
      base::fail<TapeError>(where, kOp, ": a value that ", entry.op, " at ", base::to_string(entry.where),
                            " saved was changed in place at ", base::to_string(storage.last_write),
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

/// Marks what depends on the sources (walking up), then what of it the targets need (walking down), checking the
/// saved values of just those entries.
void mark_paths(const TapeState& tape, GradientWork& work, std::size_t first, std::size_t last, Where where) {
  const std::vector<Entry>& entries = tape.log->entries;
  for (std::size_t i = first; i < last; ++i) {
    const Entry& entry = entries[i];
    if ((entry.tapes & tape.bit) == 0) continue;
    if (!any_input_depends(entry, work)) continue;
    for (std::uint32_t o = 0; o < entry.outputs; ++o)
      work.marks[entry.first_output + o - work.base] |= kDependsOnSource;
  }
  for (std::size_t i = last; i-- > first;) {
    const Entry& entry = entries[i];
    if ((entry.tapes & tape.bit) == 0 || !any_output_marked(entry, work, kReachesTarget) ||
        !any_input_depends(entry, work))
      continue;
    check_saved(entry, where);
    for (std::uint32_t k = 0; k < entry.inputs; ++k) {
      const std::uint32_t slot = entry.input_slots()[k];
      if (slot != kNoSlot && slot >= work.base) work.marks[slot - work.base] |= kReachesTarget;
    }
  }
}

void replay_entries(TapeState& tape, GradientWork& work, std::size_t first, std::size_t last) {
  for (std::size_t i = last; i-- > first;) {
    const Entry entry = tape.log->entries[i];  // a copy: the replay may append for outer tapes
    if ((entry.tapes & tape.bit) == 0) continue;
    bool has_gradient = false;
    for (std::uint32_t o = 0; o < entry.outputs; ++o)
      has_gradient = has_gradient || work.gradients[entry.first_output + o - work.base].defined();
    if (!has_gradient) continue;
    if (any_input_depends(entry, work)) {
      Replay replay(entry, work);
      entry.replay(replay);
    }
    for (std::uint32_t o = 0; o < entry.outputs; ++o) {
      const std::uint32_t at = entry.first_output + o - work.base;
      if ((work.marks[at] & kIsSource) == 0) work.gradients[at] = Tensor();
    }
    if (tape.spent && entry.tapes == tape.bit) tape.log->entries[i].drop_saved();
  }
}

}  // namespace

void compute_gradients(TapeState& tape, const GradientRequest& request, Tensor* result) {
  Log& log = *tape.log;
  const Where where = request.where;
  std::uint32_t lowest = kNoSlot, highest = 0;
  for (std::size_t i = 0; i < request.targets.size(); ++i) {
    check_floating("target", request.targets[i], where);
    highest = std::max(highest, target_slot(tape, request.targets[i], where));
    if (!request.output_gradients.empty() && request.output_gradients[i].defined())
      check_output_gradient(request.targets[i], request.output_gradients[i], where);
  }
  const auto slot_of = [&](const Tensor& source) {
    const std::uint32_t slot = log.find(*source.impl());
    return slot != kNoSlot && slot <= highest && (log.slots[slot].tapes & tape.bit) != 0 ? slot : kNoSlot;
  };
  for (const Tensor& source : request.sources) {
    check_floating("source", source, where);
    lowest = std::min(lowest, slot_of(source));
  }

  Session session(tape);
  GradientWork& work = session.work();
  if (lowest != kNoSlot) {
    work.base = lowest;
    work.marks.assign(highest - lowest + 1, 0);
    work.gradients.resize(highest - lowest + 1);
    for (const Tensor& source : request.sources)
      if (const std::uint32_t slot = slot_of(source); slot != kNoSlot)
        work.marks[slot - lowest] |= kDependsOnSource | kIsSource;
    for (const Tensor& target : request.targets)
      if (const std::uint32_t slot = log.find(*target.impl()); slot >= lowest)
        work.marks[slot - lowest] |= kReachesTarget;

    const auto by_output = [](const Entry& entry, std::uint32_t slot) { return entry.first_output < slot; };
    const auto at = [&](std::uint32_t slot) {
      return static_cast<std::size_t>(std::lower_bound(log.entries.begin(), log.entries.end(), slot, by_output) -
                                      log.entries.begin());
    };
    const std::size_t first = std::max(at(lowest), tape.first_entry);
    const std::size_t last = at(highest + 1);
    // the last entry may have outputs above the target
    const std::uint32_t top = last > first ? log.entries[last - 1].first_output + log.entries[last - 1].outputs : 0;
    if (top > highest + 1) {
      work.marks.resize(top - lowest);
      work.gradients.resize(top - lowest);
    }
    mark_paths(tape, work, first, last, where);

    for (std::size_t i = 0; i < request.targets.size(); ++i) {
      const std::uint32_t slot = log.find(*request.targets[i].impl());
      if (slot < lowest || (work.marks[slot - lowest] & kDependsOnSource) == 0) continue;
      const bool given = !request.output_gradients.empty() && request.output_gradients[i].defined();
      Tensor seed = given ? request.output_gradients[i] : ones_like(request.targets[i], where);
      Tensor& sum = work.gradients[slot - lowest];
      sum = sum.defined() ? add(sum, seed, where) : std::move(seed);
    }
    if (!tape.options.persistent) tape.spent = true;
    log.refresh_recording();
    replay_entries(tape, work, first, last);
  } else if (!tape.options.persistent) {
    tape.spent = true;
  }
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const Tensor& source = request.sources[i];
    const std::uint32_t slot = slot_of(source);
    if (slot != kNoSlot) result[i] = work.gradients[slot - work.base];
  }
  work.gradients.clear();
  for (std::size_t i = 0; i < request.sources.size(); ++i) {
    const Tensor& source = request.sources[i];
    // a gradient is the caller's own: neither a stretched view nor shared with another source
    if (result[i].defined() && (!result[i].is_contiguous() || !core::sole_owner(*result[i].impl())))
      result[i] = result[i].copy(where);
    if (!result[i].defined() && request.unconnected == Unconnected::zeros) result[i] = zeros_like(source, where);
  }
}

}  // namespace capstan::autograd
