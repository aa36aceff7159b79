#include "autograd/log.hpp"

#include <algorithm>
#include <bit>
#include <new>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"

namespace capstan::autograd {

constinit thread_local TapeBits recording = 0;

namespace {

constexpr std::uint32_t kChunkBytes = 64 << 10;
constexpr int kSerialBits = 40;  // of a log's own counter; above it the log's number

constinit thread_local Log* this_threads_log = nullptr;

struct LogHolder {
  ~LogHolder() {
    if (this_threads_log == nullptr) return;
    recording = 0;
    this_threads_log->bury_orphans();
    this_threads_log->release();
    this_threads_log = nullptr;
  }
};

std::uint64_t first_serial() noexcept {
  static constinit std::atomic<std::uint64_t> logs{1};
  return (logs.fetch_add(1, std::memory_order_relaxed) << kSerialBits) + 1;
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
  chunks_.reserve(chunks_.size() + 1);
  chunks_.push_back({static_cast<std::byte*>(core::allocate(size, where)), size});
  at_.used = static_cast<std::uint32_t>(bytes);
  return chunks_.back().data;
}

void Entry::drop_saved() noexcept {
  for (int i = 0; i < saved; ++i) saved_values()[i].tensor = Tensor();
}

// --- Log ---

Log::Log() : next_serial_(first_serial()) {}

Log::~Log() {
  for (Entry& entry : entries)
    for (int i = 0; i < entry.saved; ++i) entry.saved_values()[i].~Saved();
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

std::uint32_t Log::find(const TensorImpl& tensor) const noexcept {
  const std::uint64_t serial = tensor.serial.load(std::memory_order_relaxed);
  if (serial == 0) return kNoSlot;
  const std::uint32_t slot = tensor.slot.load(std::memory_order_relaxed);
  if (slot < slots.size() && slots[slot].serial == serial) return slot;
  if (serial >> kSerialBits == next_serial_ >> kSerialBits) return kNoSlot;  // our own, from an earlier tape
  for (const std::uint32_t leaf : leaves_)  // another thread follows it too, and wrote its number over ours
    if (slots[leaf].leaf == &tensor) return leaf;
  return kNoSlot;
}

TapeBits Log::tapes_of(const TensorImpl& tensor) const noexcept {
  const std::uint32_t slot = find(tensor);
  return slot == kNoSlot ? 0 : slots[slot].tapes;
}

std::uint32_t Log::add_slot(TapeBits tapes, TensorImpl* leaf) {
  slots.push_back({next_serial_++, tapes, leaf});
  return static_cast<std::uint32_t>(slots.size() - 1);
}

void Log::set_bits(std::uint32_t slot, TapeBits tapes) {
  TapeBits added = tapes & ~slots[slot].tapes;
  for (TapeBits rest = added; rest != 0; rest &= rest - 1) {
    TapeState& tape = *tapes_[std::countr_zero(rest)];
    if (slot < tape.first_slot) tape.early_slots.push_back(slot);
  }
  slots[slot].tapes |= tapes;
}

std::uint32_t Log::follow(TensorImpl& tensor, TapeBits tapes, Where) {
  std::uint32_t slot = find(tensor);
  if (slot == kNoSlot) {
    leaves_.reserve(leaves_.size() + 1);
    slot = add_slot(0, &tensor);
    core::retain(&tensor);
    leaves_.push_back(slot);
    tensor.slot.store(slot, std::memory_order_relaxed);
    tensor.serial.store(slots[slot].serial, std::memory_order_relaxed);
  }
  set_bits(slot, tapes);
  return slot;
}

TapeBits Log::followers(std::span<const Tensor* const> inputs) {
  TapeBits tapes = 0;
  const TapeBits parameters = watching_parameters_ & recording;
  for (const Tensor* input : inputs) {
    TensorImpl* tensor = input->impl();
    if (tensor == nullptr) continue;
    if (parameters != 0 && tensor->trainable.load(std::memory_order_relaxed)) tapes |= parameters;
    tapes |= tapes_of(*tensor);
  }
  return tapes & recording;
}

void Log::append(const Record& record) {
  if (orphans_.load(std::memory_order_relaxed) != nullptr) bury_orphans();
  const TapeBits tapes = followers(record.inputs);
  if (tapes == 0) return;
  const TapeBits parameters = watching_parameters_ & recording;

  // Everything that can fail comes first.
  if (entries.size() == entries.capacity()) entries.reserve(entries.size() * 2 + 64);
  const std::size_t new_slots = record.inputs.size() + record.outputs.size();
  if (slots.capacity() - slots.size() < new_slots) slots.reserve(slots.size() * 2 + new_slots + 64);
  for (const Tensor* input : record.inputs)
    if (input->impl() != nullptr && input->impl()->trainable.load(std::memory_order_relaxed) && parameters != 0)
      follow(*input->impl(), parameters, record.where);
  const Shape& shape = record.outputs[0]->impl()->shape;
  const std::size_t saved_bytes = record.saved.size() * sizeof(Saved), slot_bytes = (record.inputs.size() + 1) / 2 * 8;
  const Arena::Mark before = arena_.mark();
  std::byte* payload = arena_.take(
      saved_bytes + slot_bytes + static_cast<std::size_t>(shape.rank()) * 8 + record.attribute_bytes, record.where);

  Entry entry{record.op, record.where, record.replay, payload, before, tapes, static_cast<std::uint32_t>(slots.size()),
              static_cast<std::uint16_t>(record.inputs.size()), static_cast<std::uint16_t>(record.outputs.size()),
              static_cast<std::uint16_t>(record.saved.size()), static_cast<std::uint16_t>(shape.rank())};
  for (std::size_t i = 0; i < record.inputs.size(); ++i) {
    const TensorImpl* input = record.inputs[i]->impl();
    entry.input_slots()[i] = input == nullptr ? kNoSlot : find(*input);
  }
  for (Tensor* output : record.outputs) {
    const std::uint32_t slot = add_slot(tapes, nullptr);
    output->impl()->slot.store(slot, std::memory_order_relaxed);
    output->impl()->serial.store(slots[slot].serial, std::memory_order_relaxed);
  }
  for (std::size_t i = 0; i < record.saved.size(); ++i) {
    const Tensor& value = *record.saved[i];
    new (entry.saved_values() + i) Saved{
        value, value.defined() ? value.impl()->storage->version.load(std::memory_order_relaxed) : 0};
  }
  std::copy(shape.begin(), shape.end(), entry.sizes());
  if (record.attribute_bytes > 0) std::memcpy(entry.attributes(), record.attributes, record.attribute_bytes);
  entries.push_back(entry);
}

void Log::open(TapeState& tape, Where where) {
  bury_orphans();
  int index = 0;
  while (index < kMostTapes && tapes_[index] != nullptr) ++index;
  if (index == kMostTapes)
    base::fail<TapeError>(where, "GradientTape: ", kMostTapes, " tapes live on this thread already; at most that many can.");
  tape.bit = TapeBits{1} << index;
  tape.first_entry = entries.size();
  tape.first_slot = slots.size();
  tapes_[index] = &tape;
  if (tape.options.watch_parameters) watching_parameters_ |= tape.bit;
  retain();
  refresh_recording();
}

void Log::refresh_recording() noexcept {
  TapeBits bits = 0;
  for (const TapeState* tape : tapes_)
    if (tape != nullptr && tape->paused == 0 && !tape->spent) bits |= tape->bit;
  recording = no_grad > 0 ? 0 : bits;
}

void Log::forget(TapeState& tape) noexcept {
  for (std::size_t i = entries.size(); i-- > tape.first_entry;) {
    Entry& entry = entries[i];
    if ((entry.tapes & tape.bit) == 0) continue;
    entry.tapes &= ~tape.bit;
    if (entry.tapes == 0) entry.drop_saved();
  }
  for (const std::uint32_t slot : tape.early_slots)
    if (slot < slots.size()) slots[slot].tapes &= ~tape.bit;
  tape.early_slots.clear();
  for (std::size_t i = tape.first_slot; i < slots.size(); ++i) slots[i].tapes &= ~tape.bit;
  pop_dead_tail();
  tape.first_entry = entries.size();
  tape.first_slot = slots.size();
}

void Log::pop_dead_tail() noexcept {
  while (!entries.empty() && entries.back().tapes == 0) {
    Entry& entry = entries.back();
    for (int i = 0; i < entry.saved; ++i) entry.saved_values()[i].~Saved();
    arena_.rewind(entry.before);
    entries.pop_back();
  }
  // A slot of tape bits 0 may still be named by an entry that another tape keeps: those keep everything below them.
  const std::size_t keep = entries.empty() ? 0 : entries.back().first_output + std::size_t{entries.back().outputs};
  while (slots.size() > keep && slots.back().tapes == 0) {
    if (slots.back().leaf != nullptr) {
      core::release(slots.back().leaf);
      leaves_.pop_back();
    }
    slots.pop_back();
  }
  for (TapeState* tape : tapes_) {
    if (tape == nullptr) continue;
    tape->first_entry = std::min(tape->first_entry, entries.size());
    tape->first_slot = std::min(tape->first_slot, slots.size());
  }
}

void Log::close(TapeState& tape) noexcept {
  forget(tape);
  tapes_[std::countr_zero(tape.bit)] = nullptr;
  watching_parameters_ &= ~tape.bit;
  refresh_recording();
}

void Log::add_orphan(TapeState* tape) noexcept {
  tape->next_orphan = orphans_.load(std::memory_order_relaxed);
  while (!orphans_.compare_exchange_weak(tape->next_orphan, tape, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void Log::bury_orphans() noexcept {
  TapeState* tape = orphans_.exchange(nullptr, std::memory_order_acquire);
  while (tape != nullptr) {
    TapeState* next = tape->next_orphan;
    close(*tape);
    delete tape;
    release();
    tape = next;
  }
}

// --- what operations call ---

TapeBits followers(std::span<const Tensor* const> inputs) {
  Log* log = Log::of_this_thread_if_any();
  return log != nullptr && listening() ? log->followers(inputs) : 0;
}

void append(const Record& record) { Log::of_this_thread().append(record); }

void check_in_place(const char* op, const Tensor& target, const Tensor* value, Where where) {
  Log* log = Log::of_this_thread_if_any();
  if (log == nullptr || !listening()) return;
  const std::uint32_t slot = log->find(*target.impl());
  if (slot != kNoSlot && (log->slots[slot].tapes & recording) != 0 && log->slots[slot].leaf == nullptr)
    base::fail<TapeError>(where, op, ": a tape follows this tensor of shape ", target.shape(),
                          ", and a change in place would go past it; change a copy, or pause the tape with stop_recording().");
  if (value != nullptr && followers(std::span<const Tensor* const>(&value, 1)) != 0)
    base::fail<TapeError>(where, op, ": a tape follows the value, and writing it into another tensor would go past it; ",
                          "build the result with where, concat or stack, or write stop_gradient(value).");
}

}  // namespace capstan::autograd
