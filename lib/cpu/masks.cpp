// Masks: one pass counts the true elements of each block, so that a second pass knows where each block's share goes.
#include <cstring>

#include "lib/cpu/backend.hpp"
#include "lib/cpu/positions.hpp"
#include "lib/cpu/reducing.hpp"

namespace capstan::on_cpu {
namespace {

using core::kMaskBlock;

constexpr std::int64_t kBuffer = 512;  // elements that are gathered before they are written

/// Calls `run(block, begin, end)` for the blocks of a mask, in parallel.
template <class Run>
void for_blocks(const TensorImpl& mask, std::int64_t row, Run run) {
  const std::int64_t total = mask.numel(), grain = kCheapGrain / kMaskBlock / row + 1;
  base::parallel_for((total + kMaskBlock - 1) / kMaskBlock, grain, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * kMaskBlock, end = begin + kMaskBlock;
      run(block, begin, end < total ? end : total);
    }
  });
}

/// Calls `run(value, begin, end)` for stretches of equal elements.
template <class Run>
void for_stretches(const bool* mask, std::int64_t begin, std::int64_t end, Run run) {
  while (begin < end) {
    std::int64_t next = begin + 1;
    while (next < end && mask[next] == mask[begin]) ++next;
    run(mask[begin], begin, next);
    begin = next;
  }
}

/// What value(i) gives for the true elements i of [begin, end), one after another to `to`. Without a branch for each.
template <class Word, class Value>
void pack(const bool* mask, std::int64_t begin, std::int64_t end, Word* to, Value value) {
  Word buffer[kBuffer];
  for (std::int64_t first = begin; first < end; first += kBuffer) {
    const std::int64_t last = first + kBuffer < end ? first + kBuffer : end;
    std::int64_t count = 0;
    for (std::int64_t i = first; i < last; ++i) {
      buffer[count] = value(i);
      count += mask[i];
    }
    std::memcpy(to, buffer, sizeof(Word) * static_cast<std::size_t>(count));
    to += count;
  }
}

/// The reverse: to[i] is the next of `from` where the mask is true, else 0. `count` values are left to take.
template <class Word>
void unpack(const bool* mask, std::int64_t begin, std::int64_t end, const Word* from, std::int64_t count, Word* to) {
  std::int64_t next = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Word value = next < count ? from[next] : Word(0);
    to[i] = mask[i] ? value : Word(0);
    next += mask[i];
  }
}

}  // namespace

std::int64_t count_true(const TensorImpl& mask, TensorImpl& before) {
  const bool* values = mask.as<const bool>();
  std::int64_t* counts = before.as<std::int64_t>();
  for_blocks(mask, 1, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    counts[block] = trues_among(values + begin, end - begin);
  });
  std::int64_t total = 0;
  for (std::int64_t block = 0; block < before.numel(); ++block) {
    const std::int64_t count = counts[block];
    counts[block] = total;
    total += count;
  }
  return total;
}

void true_positions(const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  for_blocks(mask, 1, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    std::int64_t* to = out.as<std::int64_t>() + before.as<const std::int64_t>()[block];
    pack(mask.as<const bool>(), begin, end, to, [](std::int64_t i) { return i; });
  });
}

void compress(const TensorImpl& x, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  const bool* values = mask.as<const bool>();
  const std::int64_t *skipped = before.as<const std::int64_t>(), row = x.numel() / mask.numel();
  if (row == 1) {
    visit_words(size_of(x.dtype), [&]<class Word>(core::Type<Word>) {
      const Word* from = x.as<const Word>();
      for_blocks(mask, 1, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        pack(values, begin, end, out.as<Word>() + skipped[block], [from](std::int64_t i) { return from[i]; });
      });
    });
    return;
  }
  const std::int64_t bytes = row * size_of(x.dtype);
  for_blocks(mask, row, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    std::byte* to = out.data + skipped[block] * bytes;
    for_stretches(values, begin, end, [&](bool chosen, std::int64_t from, std::int64_t until) {
      if (!chosen) return;
      copy_run(x.data + from * bytes, to, (until - from) * bytes);
      to += (until - from) * bytes;
    });
  });
}

void expand(const TensorImpl& values, const TensorImpl& mask, const TensorImpl& before, TensorImpl& out) {
  if (out.numel() == 0) return;
  const bool* flags = mask.as<const bool>();
  const std::int64_t *skipped = before.as<const std::int64_t>(), row = out.numel() / mask.numel();
  if (row == 1) {
    visit_words(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
      for_blocks(mask, 1, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
        unpack(flags, begin, end, values.as<const Word>() + skipped[block], values.numel() - skipped[block],
               out.as<Word>());
      });
    });
    return;
  }
  const std::int64_t bytes = row * size_of(out.dtype);
  for_blocks(mask, row, [&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    const std::byte* from = values.data + skipped[block] * bytes;
    for_stretches(flags, begin, end, [&](bool chosen, std::int64_t first, std::int64_t until) {
      const std::int64_t size = (until - first) * bytes;
      if (chosen) copy_run(from, out.data + first * bytes, size);
      else std::memset(out.data + first * bytes, 0, static_cast<std::size_t>(size));
      if (chosen) from += size;
    });
  });
}

void unravel(const TensorImpl& flat, const Shape& shape, TensorImpl& out) {
  const std::int64_t* positions = flat.as<const std::int64_t>();
  const int last = shape.rank() - 1;
  if (last < 0) return;
  const std::int64_t row = out.strides[0], column = out.strides[1];
  base::parallel_for(flat.numel(), kCheapGrain / 4, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t at[kMaxRank] = {}, before = 0;  // coordinates of the position before: divisions are rare from there
    for (std::int64_t i = begin; i < end; ++i) {
      at[last] += positions[i] - before;
      before = positions[i];
      for (int axis = last; axis > 0 && at[axis] >= shape[axis]; --axis) {
        at[axis - 1] += at[axis] / shape[axis];
        at[axis] %= shape[axis];
      }
      for (int axis = 0; axis <= last; ++axis) out.as<std::int64_t>()[i * row + axis * column] = at[axis];
    }
  });
}

}  // namespace capstan::on_cpu
