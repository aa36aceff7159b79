#include "autograd/log.hpp"

#include <algorithm>
#include <bit>
#include <exception>
#include <new>

#include "autograd/autocast.hpp"
#include "autograd/gradient.hpp"
#include "autograd/scopes.hpp"
#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"

namespace capstan::autograd {

constinit thread_local TapeBits recording = 0;

namespace {

constexpr std::uint32_t kChunkBytes = 64 << 10;

constinit thread_local Log* this_threads_log = nullptr;

/// A capacity for a few more, doubling.
template <class T>
std::size_t grown(const std::vector<T>& list) {
  constexpr std::size_t kSpare = 4;
  return list.size() + kSpare <= list.capacity() ? list.capacity() : list.size() * 2 + 64;
}

struct LogHolder {
  ~LogHolder() {
    if (this_threads_log == nullptr) return;
    this_threads_log->end_thread();
    this_threads_log->release();
    this_threads_log = nullptr;
    recording = 0;
  }
};

std::uint64_t new_block_of_serials() noexcept {
  static constinit std::atomic<std::uint64_t> blocks{1};
  return blocks.fetch_add(1, std::memory_order_relaxed) << kSerialBits;
}

}  // namespace

// --- Arena ---

Arena::~Arena() {
  for (const Chunk& chunk : chunks_) core::deallocate(chunk.data, chunk.size);
}

std::byte* Arena::take(std::size_t bytes, Where where) {
  bytes = (bytes + 7) & ~std::size_t{7};
  while (at_.chunk < chunks_.size()) {
    const Chunk& chunk = chunks_[at_.chunk];
    if (at_.used + bytes <= chunk.size) {
      std::byte* place = chunk.data + at_.used;
      at_.used += static_cast<std::uint32_t>(bytes);
      return place;
    }
    ++at_.chunk;
    at_.used = 0;
  }
  const auto size = std::max(kChunkBytes, static_cast<std::uint32_t>(bytes));
  chunks_.push_back({nullptr, 0});  // first: what follows may throw
  try {
    chunks_.back() = {static_cast<std::byte*>(core::allocate(size, where)), size};
  } catch (...) {
    chunks_.pop_back();
    throw;
  }
  at_.used = static_cast<std::uint32_t>(bytes);
  return chunks_.back().data;
}

void Entry::drop_saved() noexcept {
  // What a value owns may record when it goes, and end tapes: then entries move, but their payloads stay.
  Saved* const values = saved_values();
  for (std::uint32_t i = 0, count = saved; i < count; ++i)
    if (values[i].tensor.defined()) values[i].tensor = Tensor();
}

// --- Log ---

Log::Log() : next_serial_(new_block_of_serials()) {}

Log::~Log() {
  for (Entry& entry : entries) entry.drop_saved();
  for (const Slot& slot : slots)
    if (slot.leaf != nullptr) core::release(slot.leaf);
  delete spare_work;
}

Log* Log::of_this_thread_if_any() noexcept { return this_threads_log; }

Log& Log::of_this_thread() {
  if (this_threads_log == nullptr) {
    thread_local LogHolder holder;
    (void)holder;
    this_threads_log = new Log;
  }
  return *this_threads_log;
}

std::uint32_t Log::find_in_runs(const TensorImpl& tensor, std::uint64_t serial) const noexcept {
  auto next = runs_.end();  // the first run above it; runs come in ascending order
  if (!runs_.empty() && serial < runs_.back().first_serial) {
    const auto above = [](std::uint64_t wanted, const Run& run) { return wanted < run.first_serial; };
    next = std::upper_bound(runs_.begin(), next - 1, serial, above);
  }
  if (next != runs_.begin()) {
    const Run& run = *(next - 1);
    const std::uint32_t end = next == runs_.end() ? static_cast<std::uint32_t>(slots.size()) : next->first_slot;
    const std::uint64_t offset = serial - run.first_serial;
    if (offset < end - run.first_slot) return run.first_slot + static_cast<std::uint32_t>(offset);
  }
  if (foreign_.empty() || is_own(serial)) return kNoSlot;
  const auto found = foreign_.find(&tensor);
  return found == foreign_.end() ? kNoSlot : found->second;
}

TapeBits Log::tapes_of(const TensorImpl& tensor) const noexcept {
  const std::uint32_t slot = find(tensor);
  return slot == kNoSlot ? 0 : slots[slot].tapes;
}

bool Log::follows_use(TapeBits tape, const Entry& entry, std::uint32_t slot) const noexcept {
  if ((slots[slot].tapes & tape) == 0) return false;
  return std::none_of(late_watches.begin(), late_watches.end(), [&](const LateWatch& watch) {
    return watch.tape == tape && watch.slot == slot && entry.first_output < watch.since;
  });
}

std::size_t Log::first_from(std::uint32_t slot) const noexcept {
  const auto before = [](const Entry& entry, std::uint32_t wanted) { return entry.first_output < wanted; };
  return static_cast<std::size_t>(std::lower_bound(entries.begin(), entries.end(), slot, before) - entries.begin());
}

const Entry* Log::maker(std::uint32_t slot) const noexcept {
  const std::size_t next = first_from(slot + 1);
  if (next == 0) return nullptr;
  const Entry& entry = entries[next - 1];
  return slot - entry.first_output < entry.outputs ? &entry : nullptr;
}

TapeBits Log::open_tapes() const noexcept {
  TapeBits bits = 0;
  for (const TapeState* tape : tapes_)
    if (tape != nullptr) bits |= tape->bit;
  return bits;
}

TapeBits Log::heard() const noexcept { return recording | (probe_ != nullptr ? probe_->listeners() : 0); }

void Log::set_probe(Probe* probe) noexcept {
  const std::lock_guard lock(orphan_mutex_);
  probe_ = probe;
  attention_.store(probe_ != nullptr || orphans_ != nullptr, std::memory_order_relaxed);
}

/// Makes a slot and returns its serial number. Room for the slot and for a run must be there.
std::uint64_t Log::add_slot(Bits bits, TensorImpl* leaf) {
  if ((next_serial_ + 1) >> kSerialBits != next_serial_ >> kSerialBits) next_serial_ = new_block_of_serials();
  const std::uint64_t serial = ++next_serial_;
  const auto slot = static_cast<std::uint32_t>(slots.size());
  if (runs_.empty() || serial != runs_.back().first_serial + (slot - runs_.back().first_slot))
    runs_.push_back({serial, slot});
  slots.push_back({bits.tapes, bits.severed, leaf});
  return serial;
}

void Log::set_bits(std::uint32_t slot, TapeBits tapes) {
  TapeBits added = tapes & ~slots[slot].tapes;
  for (TapeBits rest = added; rest != 0; rest &= rest - 1) {
    TapeState& tape = *tapes_[std::countr_zero(rest)];
    if (slot < tape.first_slot) tape.early_slots.push_back(slot);
    if ((partly_ & tape.bit) != 0 && has_used(tape, slot))
      late_watches.push_back({tape.bit, slot, static_cast<std::uint32_t>(slots.size())});
  }
  slots[slot].tapes |= tapes;
}

std::uint32_t Log::follow(TensorImpl& tensor, TapeBits tapes) {
  std::uint32_t slot = find(tensor);
  if (slot == kNoSlot || is_loose(slot)) {
    slots.reserve(grown(slots));
    runs_.reserve(grown(runs_));
    slot = static_cast<std::uint32_t>(slots.size());
    // Another log's number stays: that log may be using it now. Of two threads that come first at once, one wins.
    std::uint64_t seen = tensor.serial.load(std::memory_order_relaxed);
    const bool ours = is_own(seen) || (seen == 0 && tensor.serial.compare_exchange_strong(seen, next_serial_,
                                                                                          std::memory_order_relaxed));
    if (!ours) foreign_.emplace(&tensor, slot);
    const std::uint64_t serial = add_slot({}, &tensor);
    if (ours) tensor.serial.store(serial, std::memory_order_relaxed);
    core::retain(&tensor);
  }
  set_bits(slot, tapes);
  return slot;
}

Log::Bits Log::bits_of(std::span<const Tensor* const> inputs, TapeBits among) const noexcept {
  Bits bits;
  const TapeBits parameters = watching_parameters_ & among;
  for (const Tensor* input : inputs) {
    const TensorImpl* tensor = input->impl();
    if (tensor == nullptr) continue;
    if (parameters != 0 && tensor->trainable.load(std::memory_order_relaxed)) bits.tapes |= parameters;
    const std::uint32_t slot = find(*tensor);
    if (slot == kNoSlot) continue;
    bits.tapes |= slots[slot].tapes;
    bits.severed |= slots[slot].severed;
  }
  return {bits.tapes & among, bits.severed & among & ~bits.tapes};
}

/// Everything of an entry that can fail: room for it, for its slots and its payload, and slots for parameters that are
/// used for the first time.
Log::Room Log::make_room(std::span<const Tensor* const> inputs, std::size_t outputs, std::size_t payload_bytes,
                         Where where) {
  entries.reserve(grown(entries));
  runs_.reserve(grown(runs_));
  const std::size_t new_slots = inputs.size() + outputs;
  if (slots.capacity() - slots.size() < new_slots) slots.reserve(slots.size() * 2 + new_slots + 64);
  if (const TapeBits parameters = watching_parameters_ & recording; parameters != 0)
    for (const Tensor* input : inputs)
      if (input->impl() != nullptr && input->impl()->trainable.load(std::memory_order_relaxed))
        follow(*input->impl(), parameters);
  const Arena::Mark before = arena_.mark();
  return {before, arena_.take(payload_bytes, where)};
}

/// The inputs' slots and the sizes of the first output. Before the outputs get their slots: one may be an input too.
void Log::fill_in(const Entry& entry, std::span<const Tensor* const> inputs, const Shape& shape) const noexcept {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const TensorImpl* input = inputs[i]->impl();
    entry.input_slots()[i] = input == nullptr ? kNoSlot : find(*input);
  }
  std::copy(shape.begin(), shape.end(), entry.sizes());
}

/// Nothing was saved for the gradient of an input that none of the entry's tapes follows. That they follow it later on
/// has nothing to do with this use of it.
void Log::forget_unfollowed(const Entry& entry) noexcept {
  for (std::uint32_t i = 0; i < entry.inputs; ++i) {
    std::uint32_t& slot = entry.input_slots()[i];
    if (slot == kNoSlot) continue;
    if (((slots[slot].tapes | slots[slot].severed) & entry.tapes) == 0) slot = kNoSlot;
    else partly_ |= entry.tapes & ~slots[slot].tapes;
  }
}

/// Whether an entry of the tape has that input, which the tape does not follow.
bool Log::has_used(const TapeState& tape, std::uint32_t slot) const noexcept {
  for (std::size_t i = entries.size(); i-- > tape.first_entry && entries[i].first_output > slot;) {
    const std::span<const std::uint32_t> inputs(entries[i].input_slots(), entries[i].inputs);
    if (entries[i].replays_on(tape.bit) && std::find(inputs.begin(), inputs.end(), slot) != inputs.end()) return true;
  }
  return false;
}

void Log::append(const Record& record) {
  if (attention_.load(std::memory_order_relaxed)) attend(record.inputs);
  const Bits bits = bits_of(record.inputs, recording);
  if (bits.tapes == 0) {
    if (bits.severed != 0)
      append_break(record.op, record.where, record.inputs, record.followed_results(), bits.severed, true);
    return;
  }
  const TensorImpl& first = *record.outputs[0]->impl();
  const std::size_t saved_bytes = record.saved.size() * sizeof(Saved), slot_bytes = (record.inputs.size() + 1) / 2 * 8;
  const Room room = make_room(
      record.inputs, record.outputs.size(),
      saved_bytes + slot_bytes + static_cast<std::size_t>(first.rank()) * 8 + record.attribute_bytes, record.where);
  const Entry entry{record.op,
                    record.where,
                    record.replay,
                    room.payload,
                    room.before,
                    bits.tapes,
                    static_cast<std::uint32_t>(slots.size()),
                    static_cast<std::uint32_t>(record.inputs.size()),
                    static_cast<std::uint32_t>(record.outputs.size()),
                    static_cast<std::uint32_t>(record.saved.size()),
                    static_cast<std::uint8_t>(first.rank()),
                    first.dtype,
                    false};
  fill_in(entry, record.inputs, first.shape);
  forget_unfollowed(entry);
  for (Tensor* output : record.outputs)
    output->impl()->serial.store(add_slot(bits, nullptr), std::memory_order_relaxed);
  for (std::size_t i = 0; i < record.saved.size(); ++i) {
    const Tensor& value = *record.saved[i];
    new (entry.saved_values() + i)
        Saved{value, value.defined() ? value.impl()->storage->version.load(std::memory_order_relaxed) : 0};
  }
  if (record.attribute_bytes > 0) std::memcpy(entry.attributes(), record.attributes, record.attribute_bytes);
  entries.push_back(entry);
}

/// What most operations need not do: an orphan to bury, a probe to tell.
void Log::attend(std::span<const Tensor* const> inputs) {
  if (probe_ != nullptr) probe_->see(inputs);
  bury_orphans();
}

/// Whether a result may be given a new slot's number: no tape follows it, no other thread's log has numbered it.
bool Log::may_renumber(const TensorImpl& tensor) const noexcept {
  const std::uint64_t serial = tensor.serial.load(std::memory_order_relaxed);
  if (tensor.trainable.load(std::memory_order_relaxed) || (serial != 0 && !is_own(serial))) return false;
  const std::uint32_t slot = find(tensor);
  return slot == kNoSlot || is_loose(slot);
}

void Log::append_break(const char* op, Where where, std::span<const Tensor* const> inputs,
                       std::span<const Tensor* const> outputs, TapeBits tapes, bool behind) {
  if (outputs.empty() || outputs[0]->impl() == nullptr) return;
  const TensorImpl& first = *outputs[0]->impl();
  const Room room = make_room(inputs, outputs.size(),
                              (inputs.size() + 1) / 2 * 8 + static_cast<std::size_t>(first.rank()) * 8, where);
  const Entry entry{op,
                    where,
                    nullptr,
                    room.payload,
                    room.before,
                    tapes,
                    static_cast<std::uint32_t>(slots.size()),
                    static_cast<std::uint32_t>(inputs.size()),
                    static_cast<std::uint32_t>(outputs.size()),
                    0,
                    static_cast<std::uint8_t>(first.rank()),
                    first.dtype,
                    behind};
  fill_in(entry, inputs, first.shape);
  for (const Tensor* output : outputs) {
    TensorImpl* impl = output->impl();
    const bool ours = impl != nullptr && may_renumber(*impl);
    const std::uint64_t serial = add_slot({0, tapes}, nullptr);
    if (ours) impl->serial.store(serial, std::memory_order_relaxed);
  }
  entries.push_back(entry);
}

void Log::open(TapeState& tape, Where where) {
  bury_orphans();
  int index = 0;
  while (index < kMostTapes && tapes_[index] != nullptr) ++index;
  if (index == kMostTapes)
    base::fail<TapeError>(where, "GradientTape: ", kMostTapes,
                          " tapes live on this thread already; at most that many can.");
  tape.bit = TapeBits{1} << index;
  tape.first_entry = entries.size();
  tape.first_slot = slots.size();
  tapes_[index] = &tape;
  silenced &= ~tape.bit;
  if (tape.options.watch_parameters) watching_parameters_ |= tape.bit;
  retain();
  refresh_recording();
}

void Log::refresh_recording() noexcept {
  TapeBits bits = 0;
  for (const TapeState* tape : tapes_)
    if (tape != nullptr && tape->paused == 0 && !tape->spent) bits |= tape->bit;
  recording = no_grad > 0 ? 0 : bits & ~silenced;
}

void Log::forget(TapeState& tape) noexcept {
  const std::vector<GradientHook> gone = std::exchange(tape.hooks, {});
  ++emptying_;
  for (std::size_t i = entries.size(); i-- > tape.first_entry;) {
    Entry& entry = entries[i];
    if ((entry.tapes & tape.bit) == 0) continue;
    entry.tapes &= ~tape.bit;
    if (entry.tapes == 0) entry.drop_saved();
  }
  for (const std::uint32_t slot : tape.early_slots)
    if (slot < slots.size()) slots[slot].tapes &= ~tape.bit;
  tape.early_slots.clear();
  partly_ &= ~tape.bit;
  std::erase_if(late_watches, [&](const LateWatch& watch) { return watch.tape == tape.bit; });
  for (std::size_t i = tape.first_slot; i < slots.size(); ++i) {
    slots[i].tapes &= ~tape.bit;
    slots[i].severed &= ~tape.bit;
  }
  if (emptying_ == 1) pop_dead_tail();  // else somebody farther up is at these entries
  --emptying_;
  tape.first_entry = entries.size();
  tape.first_slot = slots.size();
}

void Log::pop_entry() noexcept {
  const std::size_t count = entries.size();
  entries.back().drop_saved();
  if (entries.size() != count) return;  // what went recorded something, which goes first
  arena_.rewind(entries.back().before);
  entries.pop_back();
}

void Log::pop_empty_runs() noexcept {
  while (!runs_.empty() && runs_.back().first_slot >= slots.size()) runs_.pop_back();
}

void Log::pop_slots(std::size_t keep) noexcept {
  while (slots.size() > keep) {
    TensorImpl* const leaf = slots.back().leaf;
    slots.pop_back();
    if (leaf == nullptr) continue;
    foreign_.erase(leaf);
    pop_empty_runs();
    core::release(leaf);  // last: its memory may be the user's, who is told
  }
  pop_empty_runs();
  const auto count = static_cast<std::uint32_t>(slots.size());
  std::erase_if(late_watches, [count](const LateWatch& watch) { return watch.slot >= count; });
  for (LateWatch& watch : late_watches) watch.since = std::min(watch.since, count);
  for (TapeState* tape : tapes_) {
    if (tape == nullptr) continue;
    tape->first_entry = std::min(tape->first_entry, entries.size());
    tape->first_slot = std::min(tape->first_slot, slots.size());
  }
}

void Log::pop_dead_tail() noexcept {
  while (!entries.empty() && entries.back().tapes == 0) pop_entry();
  // A slot of no tape may still be named by an entry that another tape keeps: those keep everything below them.
  std::size_t keep = entries.empty() ? 0 : entries.back().first_output + std::size_t{entries.back().outputs};
  for (std::size_t i = slots.size(); i > keep; --i)
    if ((slots[i - 1].tapes | slots[i - 1].severed) != 0) keep = i;
  pop_slots(keep);
}

void Log::rewind(std::size_t entry_count, std::size_t slot_count) noexcept {
  ++emptying_;
  while (entries.size() > entry_count) pop_entry();
  pop_slots(
      std::max(slot_count, entries.empty() ? 0 : entries.back().first_output + std::size_t{entries.back().outputs}));
  --emptying_;
  const auto gone = [this](const GradientHook& hook) { return hook.slot >= slots.size(); };
  for (TapeState* tape : tapes_) {
    if (tape == nullptr) continue;
    const Held held(*tape);  // a hook may own it
    std::erase_if(tape->hooks, gone);
  }
}

void Log::close(TapeState& tape) noexcept {
  tape.spent = true;  // first: functions that it owns may run operations when they go
  if (this_threads_log == this) refresh_recording();
  forget(tape);
  tapes_[std::countr_zero(tape.bit)] = nullptr;
  watching_parameters_ &= ~tape.bit;
}

void Log::end_here(TapeState* tape) noexcept {
  if (tape->held > 0) {
    tape->ended = true;
    return;
  }
  close(*tape);
  dispose(tape);
  release();
}

void Log::end_from_elsewhere(TapeState* tape) noexcept {
  {
    const std::lock_guard lock(orphan_mutex_);
    tape->next_orphan = orphans_;
    orphans_ = tape;
    attention_.store(true, std::memory_order_relaxed);
    if (!thread_ended_ || burying_) return;  // its own thread sees to it, or who buries for that
    burying_ = true;
  }
  retain();  // until its last tape is gone
  do bury_orphans();
  while (!is_over(burying_, false));
  release();
}

void Log::bury_orphans() noexcept {
  TapeState* tape;
  {
    const std::lock_guard lock(orphan_mutex_);
    tape = std::exchange(orphans_, nullptr);
    attention_.store(probe_ != nullptr, std::memory_order_relaxed);
  }
  while (tape != nullptr) end_here(std::exchange(tape, tape->next_orphan));
}

/// If there is no orphan left, the flag gets its value, before another can come.
bool Log::is_over(bool& flag, bool value) noexcept {
  const std::lock_guard lock(orphan_mutex_);
  if (orphans_ != nullptr) return false;
  flag = value;
  return true;
}

void Log::end_thread() noexcept {
  do bury_orphans();
  while (!is_over(thread_ended_, true));
}

void dispose(TapeState* tape) noexcept {
  if (tape->paused > 0) tape->destroyed = true;  // the last Pause deletes it
  else delete tape;
}

void Rollback::begin(Inside inside) noexcept {
  autocast_ = inside == Inside::operations ? std::exchange(autocast_type, DType::float32) : DType::float32;
  log_ = listening() ? Log::of_this_thread_if_any() : nullptr;
  if (log_ == nullptr) return;
  entries_ = log_->entries.size();
  slots_ = log_->slots.size();
  exceptions_ = std::uncaught_exceptions();
}
void Rollback::end() noexcept {
  if (autocast_ != DType::float32) [[unlikely]]
    autocast_type = autocast_;
  if (log_ != nullptr && std::uncaught_exceptions() > exceptions_) log_->rewind(entries_, slots_);
}

// --- what operations call ---

TapeBits followers(std::span<const Tensor* const> inputs) {
  const Log* log = Log::of_this_thread_if_any();
  return log != nullptr && listening() ? log->bits_of(inputs, log->heard()).tapes : 0;
}

namespace {

/// A tape that follows an input remembers that the chain ended at these results.
void end_chains(Log& log, const char* op, Where where, std::span<const Tensor* const> inputs,
                std::span<const Tensor* const> results) {
  const Log::Bits bits = log.bits_of(inputs, recording);
  if (const TapeBits tapes = bits.tapes | bits.severed; tapes != 0)
    log.append_break(op, where, inputs, results, tapes, false);
}

}  // namespace

void append(const Record& record) {
  if (core::observed()) core::operation_ends({record.op, record.where, record.inputs, record.results()});
  if (!listening()) return;
  Log& log = Log::of_this_thread();
  if (record.all_results.empty()) return log.append(record);
  const Rollback rollback;
  log.append(record);
  std::vector<const Tensor*> others;
  for (const Tensor* result : record.all_results)
    if (std::find(record.outputs.begin(), record.outputs.end(), result) == record.outputs.end())
      others.push_back(result);
  end_chains(log, record.op, record.where, record.inputs, others);
}

void append_note(const char* op, Where where, std::span<const Tensor* const> inputs,
                 std::span<const Tensor* const> outputs) {
  if (core::observed()) core::operation_ends({op, where, inputs, outputs});
  if (listening()) end_chains(Log::of_this_thread(), op, where, inputs, outputs);
}

void check_in_place(const char* op, const Tensor& target, const Tensor* value, Where where) {
  Log* log = Log::of_this_thread_if_any();
  if (log == nullptr || !listening()) return;
  const TapeBits heard = log->heard();
  const std::uint32_t slot = log->find(*target.impl());
  if (slot != kNoSlot && (log->slots[slot].tapes & heard) != 0 && log->slots[slot].leaf == nullptr)
    base::fail<TapeError>(
        where, op, ": a tape follows this tensor of shape ", target.shape(),
        ", and a change in place would go past it; change a copy, or pause the tape with stop_recording().");
  if (value != nullptr && log->bits_of(std::span<const Tensor* const>(&value, 1), heard).tapes != 0)
    base::fail<TapeError>(where, op,
                          ": a tape follows the value, and writing it into another tensor would go past it; ",
                          "build the result with where, concat or stack, or write stop_gradient(value).");
}

}  // namespace capstan::autograd
