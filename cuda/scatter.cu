// Writing elements by positions. Where the target stands still along a loop positions choose, and sources may meet.
#include <algorithm>

#include "cuda/atomics.cuh"
#include "cuda/choosing.hpp"
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"

namespace capstan::on_cuda {
namespace {

using core::Combine;

// --- who comes last ---

/// For each place that is written to, the number of its last source plus one. Places are found by their numbers; or,
/// if there are far more of them than sources, by the hash of those, at the first free entry from there on.
struct Winners {
  unsigned long long* last;
  unsigned long long* keys;  // numbers plus one, 0 for free entries; null without hashing
  unsigned long long mask;

  __device__ unsigned long long* entry(unsigned long long place) const {
    if (keys == nullptr) return last + place;
    const unsigned long long key = place + 1, mixed = place * 0x9E3779B97F4A7C15ull;
    for (unsigned long long i = (mixed ^ (mixed >> 32)) & mask;; i = (i + 1) & mask) {
      if (keys[i] == key) return last + i;
      const unsigned long long found = atomicCAS(keys + i, 0ull, key);
      if (found == 0 || found == key) return last + i;
    }
  }
};

/// Positions, and what PlaceNumbers adds to them.
template <class I>
struct Sources {
  PositionList at;
  Places<I, 2> places;
  std::int64_t count;
  PositionRule rule;

  /// The place of source i; false if it has none.
  __device__ bool find(std::int64_t i, unsigned long long& place) const {
    I offset[2];
    places.find(static_cast<I>(i), offset);
    std::int64_t position = at[offset[0]];
    if (!inside(position, rule)) return false;
    place = static_cast<unsigned long long>(position + offset[1]);
    return true;
  }
};

template <class I>
__global__ void claim_kernel(Sources<I> sources, Winners winners) {
  for (std::int64_t i = first_index(); i < sources.count; i += index_step()) {
    unsigned long long place = 0;
    if (!sources.find(i, place)) continue;
    unsigned long long* const entry = winners.entry(place);
    const unsigned long long number = static_cast<unsigned long long>(i) + 1;
    if (*entry < number) atomicMax(entry, number);
  }
}
template <class I>
__global__ void mark_winners_kernel(Sources<I> sources, Winners winners, bool* last) {
  for (std::int64_t i = first_index(); i < sources.count; i += index_step()) {
    unsigned long long place = 0;
    last[i] = sources.find(i, place) && *winners.entry(place) == static_cast<unsigned long long>(i) + 1;
  }
}

/// Whether what is set stays; `last`, contiguous, has the positions' axes, of size 1 where nothing can meet.
void mark_last(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule, TensorImpl& last) {
  const PlaceNumbers numbers(target, last.shape, rule);
  const Walk<2> walk(last.shape, {&positions, &numbers.geometry});
  constexpr std::int64_t kSmall = 1 << 18, kFewer = 8;
  const bool hashed = numbers.count > std::max(kSmall, kFewer * walk.count);
  std::int64_t entries = numbers.count;
  if (hashed)
    for (entries = 1; entries < 2 * walk.count;) entries *= 2;
  const Tensor table = workspace(hashed ? 2 * entries : entries, DType::int64);
  fill(*table.impl(), 0);
  auto* const words = table.impl()->as<unsigned long long>();
  const Winners winners{words, hashed ? words + entries : nullptr, static_cast<unsigned long long>(entries - 1)};
  with_places(walk, [&]<class I>(const Places<I, 2>& places) {
    const Sources<I> sources{position_list(positions), places, walk.count, rule};
    launch(claim_kernel<I>, shape_for(walk.count), sources, winners);
    launch(mark_winners_kernel<I>, shape_for(walk.count), sources, winners, last.as<bool>());
  });
}

// --- set ---

/// Operands: positions, `last` (may be null), values, target.
template <class Word, class I>
__global__ void __launch_bounds__(kThreads)
    set_kernel(PositionList at, const bool* last, const Word* values, Word* target, Places<I, 4> places,
               std::int64_t count, PositionRule rule, Report report) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    I offset[4];
    places.find(static_cast<I>(i), offset);
    const std::int64_t given = at[offset[0]];
    std::int64_t position = given;
    if (!inside(position, rule)) complain(report, places, i, given);
    else if (last == nullptr || last[offset[1]]) target[offset[3] + position * rule.scale] = values[offset[2]];
  }
}

template <class Word>
void start_set(const Walk<4>& walk, const TensorImpl& values, const TensorImpl& positions, const TensorImpl& last,
               const PositionRule& rule, const Report& report, TensorImpl& target) {
  with_places(walk, [&]<class I>(const Places<I, 4>& places) {
    launch(set_kernel<Word, I>, shape_for(walk.count), position_list(positions), last.as<const bool>(),
           values.as<const Word>(), target.as<Word>(), places, walk.count, rule, report);
  });
}

void set(const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule, const Report& report,
         TensorImpl& target) {
  const bool ordered = can_clash(values, target);
  TensorImpl last(ordered ? meeting_shape(positions, target) : target.shape, DType::bool8);
  last.data = nullptr;
  std::fill_n(last.strides, kMaxRank, 0);
  Tensor room;
  if (ordered) {
    room = workspace(last.numel(), DType::bool8);
    last.data = room.impl()->data;
    core::row_major_strides(last.shape, last.strides);
    mark_last(target, positions, rule, last);
  }
  Walk<4> walk(target.shape, {&positions, &last, &values, &target});
  PositionRule in_words = rule;
  const std::int64_t element = size_of(target.dtype);
  const std::int64_t joined = join_elements<2>(walk, in_words, element, {values.data, target.data});
  visit_words(element * joined, [&]<class Word>(core::Type<Word>) {
    start_set<Word>(walk, values, positions, last, in_words, report, target);
  });
}

// --- add, min, max ---

/// Operands: positions, values, target. Floating numbers that meet are added in whatever order the threads come: the
/// last bits of such sums may differ from run to run.
template <class T, class I>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Combine kind, PositionList at, const T* values, T* target, Places<I, 3> places, std::int64_t count,
                  PositionRule rule, Report report) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    I offset[3];
    places.find(static_cast<I>(i), offset);
    const std::int64_t given = at[offset[0]];
    std::int64_t position = given;
    if (inside(position, rule)) update(kind, target + offset[2] + position * rule.scale, values[offset[1]]);
    else complain(report, places, i, given);
  }
}

template <class T>
void start_update(Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
                  const Report& report, TensorImpl& target) {
  const Walk<3> walk(target.shape, {&positions, &values, &target});
  with_places(walk, [&]<class I>(const Places<I, 3>& places) {
    launch(update_kernel<T, I>, shape_for(walk.count), kind, position_list(positions), values.as<const T>(),
           target.as<T>(), places, walk.count, rule, report);
  });
}

void combine_reporting(Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
                       const Report& report, TensorImpl& target) {
  if (target.numel() == 0) return;
  if (kind == Combine::set) return set(values, positions, rule, report, target);
  core::visit_native(target.dtype, [&]<class T>(core::Type<T>) {
    if constexpr (!std::is_same_v<T, bool>) start_update<T>(kind, values, positions, rule, report, target);
  });
}

}  // namespace

void combine(Combine kind, const TensorImpl& values, const TensorImpl& positions, const PositionRule& rule,
             TensorImpl& target) {
  combine_reporting(kind, values, positions, rule, Report{}, target);
}

bool scatter(Combine kind, const TensorImpl& x, const TensorImpl& values, const TensorImpl& positions,
             const PositionRule& rule, TensorImpl& target, TensorImpl& out) {
  copy(x, out);
  const Report report = report_of(rule);
  combine_reporting(kind, values, positions, rule, report, target);
  return nothing_reported(report);
}

/// True without waiting to see whether some go.
bool find_last(const TensorImpl& target, const TensorImpl& positions, const PositionRule& rule, std::int64_t,
               TensorImpl& last) {
  if (last.numel() == 0) return false;
  mark_last(target, positions, rule, last);
  return true;
}

}  // namespace capstan::on_cuda
