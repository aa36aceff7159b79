// Reading elements by positions.
#include <cstring>

#include "lib/core/scalars.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/positions.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

/// The first position outside [low, high), looked for one by one.
template <class I>
BadIndex first_outside(const Loops<1>& loops, std::int64_t total, std::int64_t low, std::int64_t high) {
  const auto* at = reinterpret_cast<const I*>(loops.data[0]);
  const std::int64_t inner = loops.inner(), step = loops.strides[loops.rank - 1][0];
  Place<1> place(loops, 0);
  for (std::int64_t row = 0; row < total; row += inner, place.next())
    for (std::int64_t i = 0; i < inner; ++i) {
      const std::int64_t value = at[place.offset[0] + i * step];
      if (value < low || value >= high) return {row + i, value};
    }
  return {};
}

/// Elements that each have a position of their own, as long as positions lie in [0, size): how many it took.
/// `adjacent`: what they choose from is one row, in one piece. The row after it stands at `next`, if that is not 0, and
/// is fetched meanwhile: the processor, which sees a row asked for in any order, would not know.
template <bool adjacent, class Word, class I>
std::int64_t take_forward(const I* at, const Word* from, std::int64_t step, Word* to, std::int64_t count,
                          const PositionRule& rule, std::uintptr_t next) {
  const auto end = static_cast<std::uint64_t>(rule.size);
  const std::int64_t scale = rule.scale;
  const auto take_one = [=](std::int64_t i) {
    const auto position = static_cast<std::int64_t>(at[i]);
    if (static_cast<std::uint64_t>(position) >= end) return false;
    to[i] = adjacent ? from[position] : from[i * step + position * scale];
    return true;
  };
  constexpr std::int64_t kBlock = 8;
  std::int64_t i = 0;
  for (; i + kBlock <= count; i += kBlock) {
    if (adjacent && next != 0)
      __builtin_prefetch(reinterpret_cast<const void*>(next + sizeof(Word) * static_cast<std::uintptr_t>(i)));
    if (!(take_one(i) && take_one(i + 1) && take_one(i + 2) && take_one(i + 3) && take_one(i + 4) && take_one(i + 5) &&
          take_one(i + 6) && take_one(i + 7)))
      return i;
  }
  while (i < count && take_one(i)) ++i;
  return i;
}

/// Elements that each have a position of their own. False if one is out of range.
template <class Word, class I>
bool take_elements(const I* at, std::int64_t at_step, const Word* from, std::int64_t step, Word* to, std::int64_t count,
                   const PositionRule& rule, std::uintptr_t next) {
  const std::int64_t scale = rule.scale;
  std::int64_t i = 0;
  if (at_step == 1)
    i = step == 0 && scale == 1 ? take_forward<true>(at, from, step, to, count, rule, next)
                                : take_forward<false>(at, from, step, to, count, rule, next);
  bool inside = true;
  for (; i < count; ++i) {
    std::int64_t position = at[i * at_step];
    const bool dropped = position < 0 && rule.drop;
    if (position < 0) position += rule.size;
    const bool fits = position >= 0 && position < rule.size && !dropped;
    inside = inside && (fits || dropped);
    to[i] = fits ? from[i * step + position * scale] : Word(0);
  }
  return inside;
}

/// A row that has one position. False if it is out of range.
template <class Word>
bool take_row(std::int64_t position, const Word* from, std::int64_t step, Word* to, std::int64_t count,
              const PositionRule& rule) {
  const auto bytes = sizeof(Word) * static_cast<std::size_t>(count);
  if (position < 0 && rule.drop) {
    std::memset(to, 0, bytes);
    return true;
  }
  if (position < 0) position += rule.size;
  if (position < 0 || position >= rule.size) return false;
  from += position * rule.scale;
  if (step == 1) copy_run(from, to, count);
  else
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  return true;
}

/// Where the rows begin that positions choose. False if one is out of range.
template <class I>
bool locate_rows(const I* at, std::int64_t at_step, std::int64_t step, std::int64_t count, const PositionRule& rule,
                 std::int64_t* offsets) {
  const auto size = static_cast<std::uint64_t>(rule.size), scale = static_cast<std::uint64_t>(rule.scale);
  bool inside = true;
  for (std::int64_t i = 0; i < count; ++i) {
    auto position = static_cast<std::uint64_t>(static_cast<std::int64_t>(at[i * at_step]));
    if (position >= size) position += size;  // one that counts from the end: wraps around
    inside = position < size && inside;
    offsets[i] = static_cast<std::int64_t>(position * scale + static_cast<std::uint64_t>(i * step));
  }
  return inside;
}

/// Whether rows of x, in one piece, become rows of the result, with one position each.
bool takes_rows(const Loops<3>& loops, const PositionRule& rule) {
  constexpr std::int64_t kWidest = 4096, kFewest = 8;
  const int last = loops.rank - 1;
  const std::int64_t* step = loops.strides[last];
  return last > 0 && step[0] == 0 && step[1] == 1 && step[2] == 1 && loops.inner() <= kWidest &&
         loops.sizes[last - 1] >= kFewest && !rule.drop;
}

/// Rows of elements as large as float or double. Operands as for take_all.
template <class Word, class I>
bool take_rows(const Loops<3>& loops, std::int64_t total, const PositionRule& rule) {
  using Float = std::conditional_t<sizeof(Word) == 4, float, double>;  // only moved, never computed with
  constexpr std::int64_t kRows = 512;
  const auto* at = reinterpret_cast<const I*>(loops.data[0]);
  const auto* from = reinterpret_cast<const Float*>(loops.data[1]);
  auto* to = reinterpret_cast<Float*>(const_cast<std::byte*>(loops.data[2]));
  const int outer = loops.rank - 2;
  const std::int64_t *step = loops.strides[outer], width = loops.inner();
  std::atomic<bool> inside{true};
  base::parallel_for(total / width, kCheapGrain / 4 / width + 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t offsets[kRows], count = 0;
    for (std::int64_t row = begin; row < end; row += count) {
      const Place<3> place(loops, row);
      const std::int64_t left = loops.sizes[outer] - place.index[outer];
      count = end - row < left ? end - row : left;
      count = count < kRows ? count : kRows;
      if (!locate_rows(at + place.offset[0], step[0], step[1], count, rule, offsets)) {
        inside.store(false, std::memory_order_relaxed);
        return;
      }
      simd().of<Float>().copy_rows(from + place.offset[1], offsets, count, to + place.offset[2], width);
    }
  });
  return inside.load(std::memory_order_relaxed);
}

/// Operands of the loops: the positions, what is read, the result.
template <class Word, class I>
bool take_all(const Loops<3>& loops, std::int64_t total, const PositionRule& rule) {
  if (total == 0) return true;
  if constexpr (sizeof(Word) >= 4) {
    if (takes_rows(loops, rule)) return take_rows<Word, I>(loops, total, rule);
  }
  const auto* at = reinterpret_cast<const I*>(loops.data[0]);
  const auto* from = reinterpret_cast<const Word*>(loops.data[1]);
  auto* to = reinterpret_cast<Word*>(const_cast<std::byte*>(loops.data[2]));
  const std::int64_t* step = loops.strides[loops.rank - 1];
  const int outer = loops.rank - 2;
  const std::int64_t next_position = outer >= 0 ? loops.strides[outer][0] : 0;
  const std::int64_t next_row = outer >= 0 ? loops.strides[outer][1] : 0;
  constexpr std::int64_t element = sizeof(Word), kMost = (16 << 10) / element;  // stays in the nearest cache
  const bool fetches = next_row != 0 && loops.inner() <= kMost && rule.size <= kMost;
  std::atomic<bool> inside{true};
  for_pieces(loops, total, [&](const Place<3>& place, std::int64_t first, std::int64_t count) {
    const I* position = at + place.offset[0] + first * step[0];
    const Word* x = from + place.offset[1] + first * step[1];
    Word* y = to + place.offset[2] + first * step[2];
    bool fits;
    if (step[0] == 0) {
      if (next_position != 0 && step[1] == 1 && place.index[outer] + kAhead < loops.sizes[outer])
        prefetch_row<false>(x, kAhead * loops.strides[outer][1], position[kAhead * next_position], rule.scale, element,
                            count);
      fits = take_row<Word>(*position, x, step[1], y, count, rule);
    } else {
      const std::uintptr_t next = reinterpret_cast<std::uintptr_t>(x) + static_cast<std::uintptr_t>(next_row * element);
      fits = take_elements(position, step[0], x, step[1], y, count, rule, fetches ? next : 0);
    }
    if (!fits) inside.store(false, std::memory_order_relaxed);
  });
  return inside.load(std::memory_order_relaxed);
}

}  // namespace

BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high) {
  const Loops<1> loops(indices.shape, {&indices});
  return visit_positions(indices, [&]<class I>(const I*) -> BadIndex {
    const auto* at = reinterpret_cast<const I*>(loops.data[0]);
    const std::int64_t step = loops.strides[loops.rank - 1][0];
    std::atomic<bool> doubtful{false};
    for_pieces(loops, indices.numel(), [&](const Place<1>& place, std::int64_t first, std::int64_t count) {
      if (!surely_between(at + place.offset[0] + first * step, step, count, low, high - 1))
        doubtful.store(true, std::memory_order_relaxed);
    });
    if (!doubtful.load(std::memory_order_relaxed)) return {};
    return first_outside<I>(loops, indices.numel(), low, high);
  });
}

bool take(const TensorImpl& x, const TensorImpl& positions, const PositionRule& rule, TensorImpl& out) {
  const Loops<3> loops(out.shape, {&positions, &x, &out});
  return visit_words(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
    return visit_positions(positions, [&]<class I>(const I*) { return take_all<Word, I>(loops, out.numel(), rule); });
  });
}

void locate(const TensorImpl& indices, const LocateTask& task, TensorImpl& out) {
  const Loops<2> loops(out.shape, {&indices, &out});
  std::int64_t size = 1;
  for (int axis = 0; axis < task.axes; ++axis) size *= task.sizes[axis];
  visit_positions(indices, [&]<class I>(const I*) {
    const auto* at = reinterpret_cast<const I*>(loops.data[0]);
    const std::int64_t* step = loops.strides[loops.rank - 1];
    for_pieces(loops, out.numel(), [&](const Place<2>& place, std::int64_t first, std::int64_t count) {
      const I* from = at + place.offset[0] + first * step[0];
      std::int64_t* to = out.as<std::int64_t>() + place.offset[1] + first * step[1];
      for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t position = from[i * step[0]], offset = task.shift;
        if (position < 0) position += size;
        for (int axis = task.axes - 1; axis > 0; --axis) {
          offset += position % task.sizes[axis] * task.strides[axis];
          position /= task.sizes[axis];
        }
        if (task.axes > 0) offset += position * task.strides[0];
        to[i * step[1]] = task.add ? to[i * step[1]] + offset : offset;
      }
    });
  });
}

void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out) {
  fill(out, off);
  if (out.numel() == 0) return;
  const std::int64_t depth = out.shape[out.rank() - 1], element = size_of(out.dtype);
  const core::Element value = core::to_element("one_hot", on, out.dtype, core::calling_place());
  const Loops<1> loops(indices.shape, {&indices});
  const std::int64_t inner = loops.inner(), step = loops.strides[loops.rank - 1][0];
  visit_positions(indices, [&]<class I>(const I*) {
    const auto* at = reinterpret_cast<const I*>(loops.data[0]);
    Place<1> place(loops, 0);
    for (std::int64_t row = 0; row < indices.numel(); row += inner, place.next())
      for (std::int64_t i = 0; i < inner; ++i) {
        const std::int64_t index = at[place.offset[0] + i * step];
        if (index >= 0 && index < depth)
          std::memcpy(out.data + ((row + i) * depth + index) * element, value.bytes, static_cast<std::size_t>(element));
      }
  });
}

}  // namespace capstan::on_cpu
