#include <capstan/freeze.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/parallel.hpp"
#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/core/recording.hpp"

namespace capstan {
namespace detail {
namespace {

using core::RecordedCall;
using core::RecordedOperand;
using core::Storage;

constexpr std::int64_t kLine = 64;  // bytes at a multiple of which storage begins

std::vector<std::byte> bytes_of(const TensorImpl& x) { return {x.data, x.data + x.numel() * size_of(x.dtype)}; }

/// What the calls use of a storage, and its place in the plan's memory.
struct Region {
  std::int64_t first = INT64_MAX, end = INT64_MIN;  // bytes in the storage
  std::size_t from = SIZE_MAX, until = 0;           // the first call and the last that use it
  bool pinned = false;                              // holds values between runs
  std::int64_t place = 0;                           // of `first` in the plan's memory

  void cover(const RecordedOperand& x) {
    first = std::min(first, x.first);
    end = std::max(end, x.end);
  }
  /// Bytes to set aside, so that the elements are aligned as they were.
  std::int64_t room() const { return (first % kLine + end - first + kLine - 1) / kLine * kLine; }
  bool meets(const Region& other) const {
    return pinned || other.pinned || (from <= other.until && other.from <= until);
  }
};

/// Copied after each run: what becomes of a state.
struct Move {
  std::byte *to, *from;
  std::size_t bytes;
};
/// What a state, or an input, begins with.
struct Beginning {
  std::byte* to;
  std::vector<std::byte> values;
};

}  // namespace

struct PlanState {
  // while it is made
  std::optional<core::Recording> recording{std::in_place};
  std::optional<core::RecordingScope> scope;
  std::vector<Tensor> states, next;
  std::vector<std::vector<std::byte>> given, initial;  // what inputs and states hold at first

  std::vector<Tensor> inputs, outputs;
  std::vector<std::unique_ptr<RecordedCall>> calls;
  core::BlockCache blocks;
  Tensor memory;
  std::vector<Move> moves;
  std::vector<Beginning> beginnings;

  void run(bool rehearsal = false) {
    const base::RealTimeScope inline_loops(rehearsal);
    const core::BlockCache::Use own_blocks(blocks);
    for (const auto& call : calls) call->run();
    for (const Move& move : moves) std::copy_n(move.from, move.bytes, move.to);
  }
  void reset() noexcept {
    for (const Beginning& b : beginnings) std::copy(b.values.begin(), b.values.end(), b.to);
  }
};

namespace {

/// Gives everything that the calls use a place in memory of the plan's own.
class Layout {
 public:
  Layout(PlanState& plan, Where where) : plan_(plan), recording_(*plan.recording), where_(where) {}

  void operator()() {
    find_regions();
    refuse_what_stays();
    const std::int64_t bytes = place();
    plan_.memory = core::make_tensor(Shape({bytes}), DType::uint8, cpu(), where_);
    std::fill_n(plan_.memory.impl()->data, bytes, std::byte{});
    fill();
    move_operands();
    for (std::size_t i = 0; i < plan_.states.size(); ++i) {
      const TensorImpl &to = *plan_.states[i].impl(), &from = *plan_.next[i].impl();
      plan_.beginnings.push_back({address(to), std::move(plan_.initial[i])});
      plan_.moves.push_back({address(to), address(from), plan_.beginnings.back().values.size()});
    }
    for (Tensor& x : plan_.inputs) x = moved(*x.impl());
    for (Tensor& x : plan_.outputs) x = moved(*x.impl());
    begin_again();
    for (int i = 0; i < 2; ++i) {  // what kernels take for themselves is there from now on
      plan_.run(true);
      begin_again();
    }
    plan_.given.clear();
  }

 private:
  /// States, and inputs, which the network may have written to.
  void begin_again() {
    plan_.reset();
    for (std::size_t i = 0; i < plan_.inputs.size(); ++i)
      std::copy(plan_.given[i].begin(), plan_.given[i].end(), plan_.inputs[i].impl()->data);
  }
  void pin(const TensorImpl& x) {
    Region& region = regions_[x.storage];
    region.cover(RecordedOperand(x, false));
    region.pinned = true;
  }
  void find_regions() {
    for (std::size_t i = 0; i < plan_.calls.size(); ++i)
      for (const RecordedOperand& x : plan_.calls[i]->operands) {
        Region& region = regions_[x.storage];
        region.cover(x);
        region.from = std::min(region.from, i);
        region.until = i;
        region.pinned = region.pinned || !recording_.is_own(x.storage) || !recording_.changes(x.storage);
      }
    for (const auto* list : {&plan_.inputs, &plan_.states, &plan_.outputs, &plan_.next})
      for (const Tensor& x : *list) pin(*x.impl());
  }

  /// A tensor that follows from the inputs and is no result, but held by somebody, would never change again.
  void refuse_what_stays() {
    std::map<const Storage*, std::unordered_set<const TensorImpl*>> known;
    for (const auto* list : {&plan_.inputs, &plan_.states, &plan_.outputs, &plan_.next})
      for (const Tensor& x : *list) known[x.impl()->storage].insert(x.impl());
    const auto stays = [&](const Storage* storage) {
      return recording_.is_own(storage) && recording_.changes(storage);
    };
    for (const auto& call : plan_.calls)
      for (const RecordedOperand& x : call->operands) {
        const auto found = known.find(x.storage);
        const std::size_t holders = 1 + (found == known.end() ? 0 : found->second.size());  // the recording is one
        if (stays(x.storage) && x.storage->references.load() > holders) fail_kept(x.impl.shape, call->where);
      }
    // handles of the very tensors that are results
    std::map<const TensorImpl*, std::uint32_t> handles;
    for (const auto* list : {&plan_.inputs, &plan_.states, &plan_.outputs, &plan_.next})
      for (const Tensor& x : *list) ++handles[x.impl()];
    for (const auto& [x, count] : handles)
      if (stays(x->storage) &&
          (x->references.load() > count || x->storage->references.load() > 1 + known[x->storage].size()))
        fail_kept(x->shape, where_);
  }
  [[noreturn]] static void fail_kept(const Shape& shape, Where where) {
    base::fail<Error>(where, "freeze: a tensor ", shape,
                      " that depends on the inputs is kept by the network; runs of a plan would not change it. Assign "
                      "it to a tensor that was there before.");
  }

  /// Pinned regions side by side, the others where at their time nobody is, the largest first.
  std::int64_t place() {
    std::vector<Region*> order;
    for (auto& [storage, region] : regions_) order.push_back(&region);
    std::stable_sort(order.begin(), order.end(), [](const Region* a, const Region* b) {
      return a->pinned != b->pinned ? a->pinned : a->room() > b->room();
    });
    std::int64_t all = 0;
    std::vector<const Region*> placed;
    for (Region* region : order) {
      std::int64_t at = region->pinned ? all : 0;
      for (bool moved = !region->pinned; moved;) {
        moved = false;
        for (const Region* other : placed) {
          const std::int64_t begin = other->place - other->first % kLine, end = begin + other->room();
          if (at < end && begin < at + region->room() && region->meets(*other)) at = end, moved = true;
        }
      }
      region->place = at + region->first % kLine;
      all = std::max(all, at + region->room());
      placed.push_back(region);
    }
    return all;
  }

  /// Constants, inputs and states get their values.
  void fill() {
    for (const auto& [storage, region] : regions_)
      if (region.pinned && region.end > region.first)
        std::memcpy(at(region, region.first), storage->data + region.first,
                    static_cast<std::size_t>(region.end - region.first));
    for (const auto& written : recording_.written()) {
      const auto found = regions_.find(written.storage);
      if (found == regions_.end()) continue;
      const Region& region = found->second;
      const std::byte* const before = written.before.data();
      plan_.beginnings.push_back({at(region, region.first), {before + region.first, before + region.end}});
    }
  }

  void move_operands() {
    for (const auto& call : plan_.calls)
      for (RecordedOperand& x : call->operands) {
        x.impl.data = address(x.impl);
        x.impl.storage = plan_.memory.impl()->storage;
      }
  }

  std::byte* at(const Region& region, std::int64_t byte) const {
    return plan_.memory.impl()->data + region.place + byte - region.first;
  }
  /// Where the first element of a tensor is in the plan's memory.
  std::byte* address(const TensorImpl& x) const { return at(regions_.at(x.storage), x.data - x.storage->data); }

  Tensor moved(const TensorImpl& x) const {
    std::byte* const data = address(x);
    Tensor result = core::make_view(*plan_.memory.impl(), x.shape, x.strides, 0, where_);
    result.impl()->dtype = x.dtype;
    result.impl()->data = data;
    return result;
  }

  PlanState& plan_;
  core::Recording& recording_;
  Where where_;
  std::map<Storage*, Region> regions_;
};

void require_host(const Tensor& x, Where where) {
  if (x.device(where).kind != DeviceKind::cpu)
    base::fail<DeviceError>(where, "freeze: a tensor ", x.shape(where), " is on ", x.device(where),
                            "; plans run on the CPU. Move the network there first.");
}

bool shares_any(const Tensor& x, const std::vector<Tensor>& others) {
  return std::any_of(others.begin(), others.end(), [&](const Tensor& other) { return other.shares_storage(x); });
}

const Tensor& tensor_at(const std::vector<Tensor>& list, std::size_t number, const char* op, Where where) {
  if (number >= list.size())
    base::fail<IndexError>(where, op, ": number ", number, " was asked for; the plan has ", list.size(), ".");
  return list[number];
}

}  // namespace

PlanRecorder::PlanRecorder(const std::vector<PlanInput>& inputs, Where where) : state_(new PlanState), where_(where) {
  std::unique_ptr<PlanState> owner(state_);  // until nothing can fail
  for (const PlanInput& input : inputs) {
    Tensor x = core::make_tensor(input.shape, input.dtype, cpu(), where);
    if (input.example.defined()) x.assign(input.example, where);
    else std::fill_n(x.impl()->data, x.numel() * size_of(input.dtype), std::byte{});
    state_->recording->made(x.impl()->storage);
    state_->recording->will_change(x.impl()->storage);
    state_->given.push_back(bytes_of(*x.impl()));
    state_->inputs.push_back(std::move(x));
  }
  state_->scope.emplace(*state_->recording, where);
  owner.release();
}
PlanRecorder::~PlanRecorder() { delete state_; }

const std::vector<Tensor>& PlanRecorder::inputs() const noexcept { return state_->inputs; }

Tensor PlanRecorder::state(const Tensor& initial) {
  require_host(initial, where_);
  Tensor x = core::make_tensor(initial.shape(), initial.dtype(), cpu(), where_);
  core::cpu_backend().copy(core::defined("freeze", initial, where_), *x.impl());  // no part of a run
  state_->recording->will_change(x.impl()->storage);
  state_->initial.push_back(bytes_of(*x.impl()));
  state_->states.push_back(x);
  return x;
}

void PlanRecorder::result(const Tensor& x) {
  if (!x.defined()) return;
  require_host(x, where_);
  // what shares a state's memory would change when the next state is moved there
  const bool shared = shares_any(x, state_->states);
  state_->outputs.push_back(shared ? x.copy(where_) : x.contiguous(where_));
}

void PlanRecorder::next_state(const Tensor& x) {
  if (!x.defined()) return;
  require_host(x, where_);
  const std::size_t number = state_->next.size();
  if (number >= state_->states.size() || x.shape() != state_->states[number].shape() ||
      x.dtype() != state_->states[number].dtype())
    base::fail<ShapeError>(where_, "freeze: tensor ", number, " of the next state is ", x.shape(), " ", x.dtype(),
                           "; it must have the shape and type of that of the state before.");
  const bool shared = shares_any(x, state_->states) || shares_any(x, state_->inputs);
  state_->next.push_back(shared ? x.copy(where_) : x.contiguous(where_));
}

Plan PlanRecorder::finish() {
  if (state_->next.size() != state_->states.size())
    base::fail<ShapeError>(where_, "freeze: the next state has ", state_->next.size(), " tensors and the state before ",
                           state_->states.size(), "; they must have the same.");
  state_->scope.reset();
  state_->calls = state_->recording->finish();
  Layout(*state_, where_)();
  state_->states.clear();
  state_->next.clear();
  state_->recording.reset();
  return Plan(std::exchange(state_, nullptr));
}

void fail_plan_state(Where where) {
  base::fail<Error>(where,
                    "freeze: a step changes what the cell's state holds beside tensors; runs of a plan would not. "
                    "Keep such a number in a tensor.");
}

void fail_plan_inputs(std::size_t given, Where where) {
  base::fail<ShapeError>(where, "freeze: the network cannot be called with ", given,
                         given == 1 ? " tensor" : " tensors",
                         "; give a shape for each of its inputs, for a cell that of x alone, [batch, ...].");
}

}  // namespace detail

Plan::~Plan() { delete state_; }

const std::vector<Tensor>& Plan::inputs() const noexcept { return state_->inputs; }
const std::vector<Tensor>& Plan::outputs() const noexcept { return state_->outputs; }
void Plan::run(Where where) {
  if (core::recording() != nullptr) [[unlikely]]
    base::fail<Error>(where, "Plan::run: a network that is frozen cannot run a plan. Call the plan's network.");
  state_->run();
  core::note_write(*state_->memory.impl(), where);
}
void Plan::reset() noexcept { state_->reset(); }
std::size_t Plan::operations() const noexcept { return state_->calls.size(); }
std::int64_t Plan::bytes() const noexcept { return state_->memory.numel(); }

template <class T>
std::span<T> Plan::input(std::size_t number, Where where) {
  const std::span<const T> values = detail::tensor_at(state_->inputs, number, "Plan::input", where).span<T>(where);
  return {const_cast<T*>(values.data()), values.size()};
}
template <class T>
std::span<const T> Plan::output(std::size_t number, Where where) const {
  return detail::tensor_at(state_->outputs, number, "Plan::output", where).span<T>(where);
}

#define CAPSTAN_FOR_TYPE(T)                                 \
  template std::span<T> Plan::input<T>(std::size_t, Where); \
  template std::span<const T> Plan::output<T>(std::size_t, Where) const;
CAPSTAN_EVERY_ELEMENT(CAPSTAN_FOR_TYPE)
#undef CAPSTAN_FOR_TYPE

}  // namespace capstan
