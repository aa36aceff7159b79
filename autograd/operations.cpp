// GradientTape::operations: what was recorded, as a graph.
#include <capstan/tape.hpp>

#include <vector>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"

namespace capstan {

using autograd::Entry;
using autograd::kNoSlot;
using autograd::Log;

namespace {

/// What a log tells of the tensors of its slots.
class Known {
 public:
  explicit Known(const TapeState& tape);
  RecordedValue value(std::uint32_t slot) const;
  /// As the entry's input.
  RecordedValue input(const Entry& entry, std::uint32_t slot) const {
    RecordedValue known = value(slot);
    if (known.id >= 0 && !tape_.log->follows_use(tape_.bit, entry, slot)) known.id = -1;
    return known;
  }

 private:
  void add(std::uint32_t slot, const Shape& shape, DType dtype) {
    if (shapes_[slot]) return;
    shapes_[slot] = shape;
    dtypes_[slot] = dtype;
  }

  const TapeState& tape_;
  std::vector<std::optional<Shape>> shapes_;
  std::vector<std::optional<DType>> dtypes_;
};

/// Entries tell of their first results, slots of watched tensors, and of other results those operations that saved them.
Known::Known(const TapeState& tape) : tape_(tape), shapes_(tape.log->slots.size()), dtypes_(tape.log->slots.size()) {
  const Log& log = *tape.log;
  for (std::size_t slot = 0; slot < log.slots.size(); ++slot)
    if (const TensorImpl* leaf = log.slots[slot].leaf; leaf != nullptr)
      add(static_cast<std::uint32_t>(slot), leaf->shape, leaf->dtype);
  for (const Entry& entry : log.entries)
    add(entry.first_output, Shape(std::span<const std::int64_t>(entry.sizes(), entry.rank)), entry.dtype);
  for (const Entry& entry : log.entries)
    for (std::uint32_t i = 0; i < entry.saved; ++i) {
      const TensorImpl* saved = entry.saved_values()[i].tensor.impl();
      const std::uint32_t slot = saved != nullptr ? log.find(*saved) : kNoSlot;
      if (slot != kNoSlot) add(slot, saved->shape, saved->dtype);
    }
}

RecordedValue Known::value(std::uint32_t slot) const {
  if (slot == kNoSlot) return {};
  const bool followed = (tape_.log->slots[slot].tapes & tape_.bit) != 0;
  return {followed ? std::int64_t{slot} : -1, shapes_[slot], dtypes_[slot]};
}

}  // namespace

std::vector<RecordedOperation> GradientTape::operations(Where where) const {
  const TapeState& tape = autograd::usable("GradientTape::operations", state_, where);
  const Known known(tape);
  const std::vector<Entry>& entries = tape.log->entries;
  std::vector<RecordedOperation> result;
  for (std::size_t i = tape.first_entry; i < entries.size(); ++i) {
    const Entry& entry = entries[i];
    if (!entry.replays_on(tape.bit)) continue;
    RecordedOperation operation{entry.op, base::to_string(entry.where), {}, {}};
    for (std::uint32_t k = 0; k < entry.inputs; ++k)
      operation.inputs.push_back(known.input(entry, entry.input_slots()[k]));
    for (std::uint32_t o = 0; o < entry.outputs; ++o) operation.outputs.push_back(known.value(entry.first_output + o));
    result.push_back(std::move(operation));
  }
  return result;
}

std::int64_t GradientTape::id_of(const Tensor& x, Where where) const {
  constexpr const char* op = "GradientTape::id_of";
  const TapeState& tape = autograd::usable(op, state_, where);
  const std::uint32_t slot = tape.log->find(core::described(op, x, where));
  return slot != kNoSlot && (tape.log->slots[slot].tapes & tape.bit) != 0 ? std::int64_t{slot} : -1;
}

}  // namespace capstan
