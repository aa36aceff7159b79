// Reading elements by positions.
#include <cstring>

#include "cuda/blocks.cuh"
#include "cuda/choosing.hpp"
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"
#include "cuda/unroll.hpp"
#include "lib/core/scalars.hpp"

namespace capstan::on_cuda {
namespace {

constexpr std::int64_t kNone = INT64_MAX;
constexpr int kElementsAtOnce = 4;  // elements of a thread that are under way together

// --- checking ---

/// With `lowest` finds the first position out of range; without, reports one of them.
template <class I>
__global__ void check_kernel(PositionList at, Places<I, 1> places, std::int64_t count, std::int64_t low,
                             std::int64_t high, unsigned long long* lowest, Report report) {
  std::int64_t first = kNone;
  for (std::int64_t i = first_index(); i < count && first == kNone; i += index_step()) {
    I offset[1];
    places.find(static_cast<I>(i), offset);
    const std::int64_t value = at[offset[0]];
    if (value < low || value >= high) first = i;
  }
  first = block_reduce<static_cast<int>(kThreads)>(first, Smaller{});
  if (threadIdx.x != 0 || first == kNone) return;
  if (lowest != nullptr) {
    atomicMin(lowest, static_cast<unsigned long long>(first));
  } else {
    I offset[1];
    places.find(static_cast<I>(first), offset);
    send(report, first, at[offset[0]]);
  }
}

template <class I>
__global__ void send_lowest_kernel(PositionList at, Places<I, 1> places, const unsigned long long* lowest,
                                   Report report) {
  const auto first = static_cast<std::int64_t>(*lowest);
  if (first == kNone) return;
  I offset[1];
  places.find(static_cast<I>(first), offset);
  send(report, first, at[offset[0]]);
}

// --- taking ---

template <class Word, class I>
__device__ Word word_at(const PositionList& at, const Word* from, const Places<I, 2>& places, std::int64_t i,
                        const PositionRule& rule, const Report& report) {
  I offset[2];
  places.find(static_cast<I>(i), offset);
  const std::int64_t given = at[offset[0]];
  std::int64_t position = given;
  if (inside(position, rule)) return from[offset[1] + position * rule.scale];
  complain(report, places, i, given);
  return Word{};
}

template <class Word, class I>
__global__ void __launch_bounds__(kThreads)
    take_kernel(PositionList at, const Word* __restrict__ from, Word* __restrict__ to, Places<I, 2> places,
                std::int64_t count, PositionRule rule, Report report) {
  const std::int64_t step = index_step();
  for (std::int64_t i = first_index(); i < count; i += kElementsAtOnce * step) {
    Word words[kElementsAtOnce] = {};
    CAPSTAN_UNROLL
    for (int k = 0; k < kElementsAtOnce; ++k)
      if (i + k * step < count) words[k] = word_at(at, from, places, i + k * step, rule, report);
    CAPSTAN_UNROLL
    for (int k = 0; k < kElementsAtOnce; ++k)
      if (i + k * step < count) to[i + k * step] = words[k];
  }
}

template <class Word>
void start_take(const TensorImpl& x, const TensorImpl& positions, const Walk<2>& walk, const PositionRule& rule,
                const Report& report, TensorImpl& out) {
  with_places(walk, [&]<class I>(const Places<I, 2>& places) {
    launch(take_kernel<Word, I>, shape_for(walk.count, kElementsAtOnce), position_list(positions), x.as<const Word>(),
           out.as<Word>(), places, walk.count, rule, report);
  });
}

// --- the rest ---

/// Positions out of range, which have been reported, count as the first.
template <class I>
__global__ void locate_kernel(PositionList at, Places<I, 1> places, core::LocateTask task, std::int64_t size,
                              std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    I offset[1];
    places.find(static_cast<I>(i), offset);
    std::int64_t position = at[offset[0]], place = task.shift;
    if (inside(position, {1, size, false})) {
      for (int axis = task.axes - 1; axis > 0; --axis) {
        place += position % task.sizes[axis] * task.strides[axis];
        position /= task.sizes[axis];
      }
      if (task.axes > 0) place += position * task.strides[0];
    }
    out[i] = task.add ? out[i] + place : place;
  }
}

template <class Word, class I>
__global__ void one_hot_kernel(PositionList at, Places<I, 1> places, std::int64_t count, Word on, std::int64_t depth,
                               Word* out) {
  for (std::int64_t i = first_index(); i < count; i += index_step()) {
    I offset[1];
    places.find(static_cast<I>(i), offset);
    const std::int64_t index = at[offset[0]];
    if (index >= 0 && index < depth) out[i * depth + index] = on;
  }
}

template <class Word>
void start_one_hot(const TensorImpl& indices, const core::Element& on, std::int64_t depth, TensorImpl& out) {
  Word word;
  std::memcpy(&word, on.bytes, sizeof word);
  const Walk<1> walk(indices.shape, {&indices});
  with_places(walk, [&]<class I>(const Places<I, 1>& places) {
    launch(one_hot_kernel<Word, I>, shape_for(walk.count), position_list(indices), places, walk.count, word, depth,
           out.as<Word>());
  });
}

}  // namespace

BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high) {
  if (indices.numel() == 0) return {};
  const Walk<1> walk(indices.shape, {&indices});
  const PositionList at = position_list(indices);
  const Report report = start_report(ReportKind::index, low, high);
  Tensor lowest;
  unsigned long long* word = nullptr;
  if (waits_always()) {  // then somebody waits for the first of all
    lowest = workspace(1, DType::int64);
    fill(*lowest.impl(), kNone);
    word = lowest.impl()->as<unsigned long long>();
  }
  with_places(walk, [&]<class I>(const Places<I, 1>& places) {
    launch(check_kernel<I>, shape_for(walk.count, kElementsAtOnce), at, places, walk.count, low, high, word, report);
    if (word != nullptr) launch(send_lowest_kernel<I>, LaunchShape{1, 1}, at, places, word, report);
  });
  return finish_report(report);
}

bool take(const TensorImpl& x, const TensorImpl& positions, const PositionRule& rule, TensorImpl& out) {
  if (out.numel() == 0) return true;
  Walk<2> walk(out.shape, {&positions, &x});
  PositionRule in_words = rule;
  const std::int64_t element = size_of(x.dtype);
  const std::int64_t joined = join_elements<1>(walk, in_words, element, {x.data, out.data});
  const Report report = report_of(rule);
  visit_words(element * joined,
              [&]<class Word>(core::Type<Word>) { start_take<Word>(x, positions, walk, in_words, report, out); });
  return nothing_reported(report);
}

void locate(const TensorImpl& indices, const LocateTask& task, TensorImpl& out) {
  std::int64_t size = 1;
  for (int axis = 0; axis < task.axes; ++axis) size *= task.sizes[axis];
  if (out.numel() == 0) return;
  const Walk<1> walk(out.shape, {&indices});
  with_places(walk, [&]<class I>(const Places<I, 1>& places) {
    launch(locate_kernel<I>, shape_for(walk.count), position_list(indices), places, task, size, walk.count,
           out.as<std::int64_t>());
  });
}

void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out) {
  fill(out, off);
  if (out.numel() == 0) return;
  const core::Element value = core::to_element("one_hot", on, out.dtype, call().where);
  const std::int64_t depth = out.shape[out.rank() - 1];
  visit_unsigned(size_of(out.dtype),
                 [&]<class Word>(core::Type<Word>) { start_one_hot<Word>(indices, value, depth, out); });
}

}  // namespace capstan::on_cuda
