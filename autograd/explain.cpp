// GradientTape::explain: how a target was computed from a source, or where that chain ends.
#include <capstan/tape.hpp>

#include <vector>

#include "autograd/gradient.hpp"
#include "lib/base/text.hpp"

namespace capstan {

using autograd::Entry;
using autograd::kNoSlot;
using autograd::Log;

namespace {

constexpr std::uint32_t kUnreached = ~std::uint32_t{0};
constexpr std::size_t kShown = 50;  // of a chain, at each of its ends

/// The way from the target down to one slot that has the fewest breaks, and of these the fewest operations.
struct Way {
  std::uint32_t breaks = kUnreached, length = kUnreached;
  std::uint32_t through = 0;  // the operation that uses the slot on this way ...
  std::uint32_t to = 0;       // ... and the slot of its output

  bool better_than(const Way& other) const noexcept {
    return breaks != other.breaks ? breaks < other.breaks : length < other.length;
  }
};

/// The operations from the source up to the target, or none. Slots are numbered in the order in which they were made,
/// so one pass down the log sees every use of a slot before the operation that made it.
std::vector<std::size_t> chain_between(const TapeState& tape, std::uint32_t source, std::uint32_t target) {
  const Log& log = *tape.log;
  std::vector<Way> ways(target - source + 1);
  ways.back() = {0, 0, 0, target};
  for (std::size_t i = log.first_from(target + 1); i-- > 0;) {
    const Entry& entry = log.entries[i];
    if (entry.first_output <= source) break;
    Way best;
    for (std::uint32_t o = 0; o < entry.outputs && entry.first_output + o <= target; ++o) {
      Way way = ways[entry.first_output + o - source];
      way.to = entry.first_output + o;
      if (way.better_than(best)) best = way;
    }
    if (best.length == kUnreached) continue;
    best.breaks += entry.replays_on(tape.bit) ? 0 : 1;
    ++best.length;
    best.through = static_cast<std::uint32_t>(i);
    for (std::uint32_t k = 0; k < entry.inputs; ++k) {
      const std::uint32_t slot = entry.input_slots()[k];
      if (slot == kNoSlot || slot < source || slot >= entry.first_output) continue;
      if (slot == source && !log.follows_use(tape.bit, entry, slot)) continue;  // used before it was watched
      if (best.better_than(ways[slot - source])) ways[slot - source] = best;
    }
  }
  std::vector<std::size_t> chain;
  if (ways[0].length == kUnreached) return chain;
  chain.reserve(ways[0].length);
  for (std::uint32_t slot = source; slot != target; slot = ways[slot - source].to)
    chain.push_back(ways[slot - source].through);
  return chain;
}

std::string line_of(const Entry& entry) {
  const Shape shape(std::span<const std::int64_t>(entry.sizes(), entry.rank));
  std::string text = base::join(entry.op, " ", shape);
  if (!is_floating(entry.dtype)) base::append(text, base::join(" ", entry.dtype));
  return base::join(text, " at ", base::to_string(entry.where));
}

bool ends_chain(const Entry& entry) { return entry.replay == nullptr && !entry.behind; }

/// One line an operation, from the target back to the source.
std::string lines_of(const Log& log, const std::vector<std::size_t>& chain) {
  std::string text;
  for (std::size_t i = chain.size(); i-- > 0;) {
    if (chain.size() > 2 * kShown && i == chain.size() - kShown - 1) {
      base::append(text, base::join("  ... ", chain.size() - 2 * kShown, " more operations\n"));
      i = kShown;
      continue;
    }
    const Entry& entry = log.entries[chain[i]];
    base::append(text, base::join("  ", line_of(entry), ends_chain(entry) ? "  <- no gradient\n" : "\n"));
  }
  return text;
}

/// Why the tape did not record an operation on something it follows.
std::string reason(const TapeState& tape, std::size_t index) {
  const Entry& entry = tape.log->entries[index];
  const std::string place = base::join(entry.op, " at ", base::to_string(entry.where));
  if (ends_chain(entry))
    return is_floating(entry.dtype)
               ? base::join(place, ", which lets no gradient through:\n")
               : base::join(entry.dtype, " from ", place, ", and only floating values carry gradients:\n");
  if (index < tape.first_entry) return base::join(place, ", which ran before the tape began:\n");
  std::string text = base::join(place, ", which ran while the tape did not record");
  if (tape.paused_at.line() != 0)
    base::append(text, base::join(" (stop_recording was last called at ", base::to_string(tape.paused_at), ")"));
  return base::join(text, ", or before it watched what goes in:\n");
}

std::string of_chain(const TapeState& tape, const std::vector<std::size_t>& chain, const Shape& target,
                     const Shape& source) {
  const Log& log = *tape.log;
  for (const std::size_t index : chain)
    if (!log.entries[index].replays_on(tape.bit))
      return base::join("The chain ends at ", reason(tape, index), lines_of(log, chain));
  return base::join("The target ", target, " depends on the source ", source, ":\n", lines_of(log, chain));
}

std::string of_unwatched_source(const TapeState& tape, const TensorImpl& source) {
  if (!is_floating(source.dtype))
    return base::join("The source is ", source.dtype, "; gradients exist for floating types only.\n");
  if (source.trainable.load(std::memory_order_relaxed))
    return tape.options.watch_parameters
               ? "The source is a Parameter that no operation has used while the tape recorded.\n"
               : "The source is a Parameter, and the tape was made with .watch_parameters = false: watch it.\n";
  const std::string text = base::join("The source ", source.shape, " is not watched: ");
  const std::uint32_t slot = tape.log->find(source);
  if (slot != kNoSlot && (tape.log->slots[slot].severed & tape.bit) != 0)
    if (const Entry* entry = tape.log->maker(slot); entry != nullptr)
      return base::join(text, "it is the result of ", entry->op, " at ", base::to_string(entry->where),
                        ", where the chain had ended.\n");
  return base::join(text, "watch it before it is used.\n");
}

std::string of_unknown_target(const TapeState& tape, const TensorImpl& target) {
  std::string text = base::join("The target ", target.shape,
                                " is not on the tape: it was made before the tape watched what it comes from, from "
                                "nothing that the tape watches (as by zeros), or while the tape did not record");
  if (tape.paused_at.line() != 0)
    base::append(text, base::join(" (stop_recording was last called at ", base::to_string(tape.paused_at), ")"));
  return text + ".\n";
}

}  // namespace

std::string GradientTape::explain(const Tensor& target, const Tensor& source, Where where) const {
  constexpr const char* op = "GradientTape::explain";
  const TapeState& tape = autograd::usable(op, state_, where);
  const TensorImpl &end = core::described(op, target, where), &begin = core::described(op, source, where);
  const Log& log = *tape.log;
  if (tape.spent)
    return base::join("The tape is spent: its gradient at ", base::to_string(tape.spent_at),
                      " used up what was recorded. Explain before that, or make the tape persistent.\n");
  const std::uint32_t from = log.find(begin), to = log.find(end);
  if (from == kNoSlot || (log.slots[from].tapes & tape.bit) == 0) return of_unwatched_source(tape, begin);
  if (to == from) return "The target is the source.\n";
  if (to == kNoSlot) return of_unknown_target(tape, end);
  const std::vector<std::size_t> chain = to > from ? chain_between(tape, from, to) : std::vector<std::size_t>();
  if (!chain.empty()) return of_chain(tape, chain, end.shape, begin.shape);
  if (((log.slots[to].tapes | log.slots[to].severed) & tape.bit) == 0) return of_unknown_target(tape, end);
  return base::join("The target ", end.shape, " was not computed from the source ", begin.shape, ".\n");
}

}  // namespace capstan
