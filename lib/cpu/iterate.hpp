#pragma once
// Walking several strided operands together, in the row-major order of a contiguous result.
#include <cstdint>
#include <cstring>

#include <capstan/threads.hpp>

#include "lib/base/parallel.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cpu {

// Pieces below these many elements are not worth another thread.
inline constexpr std::int64_t kCheapGrain = 65536;      // bounded by memory: add, copy
inline constexpr std::int64_t kExpensiveGrain = 16384;  // bounded by arithmetic: exp, tanh

/// The loops over N operands: as few as their strides allow, sizes of 1 dropped.
template <int N>
struct Loops {
  int rank = 0;
  std::int64_t sizes[kMaxRank];
  std::int64_t strides[kMaxRank][N];
  const std::byte* data[N];
  std::int64_t element[N];  // bytes

  /// Operand `n` broadcasts to `shape`.
  void set(int n, const TensorImpl& x) {
    data[n] = x.data;
    element[n] = size_of(x.dtype);
  }

  Loops(const Shape& shape, const TensorImpl* const (&operands)[N]) {
    for (int n = 0; n < N; ++n) set(n, *operands[n]);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      std::int64_t step[N];
      for (int n = 0; n < N; ++n) {
        const int own = axis - (shape.rank() - operands[n]->rank());
        step[n] = own < 0 || operands[n]->shape[own] == 1 ? 0 : operands[n]->strides[own];
      }
      if (rank > 0 && joins(step, shape[axis])) {
        sizes[rank - 1] *= shape[axis];
        for (int n = 0; n < N; ++n) strides[rank - 1][n] = step[n];
        continue;
      }
      sizes[rank] = shape[axis];
      for (int n = 0; n < N; ++n) strides[rank][n] = step[n];
      ++rank;
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = shape.numel();
      for (int n = 0; n < N; ++n) strides[0][n] = 1;
    }
  }

  /// The innermost loop steps by 1 or stands still for every operand.
  bool simple_inside() const {
    for (int n = 0; n < N; ++n)
      if (strides[rank - 1][n] != 0 && strides[rank - 1][n] != 1) return false;
    return true;
  }
  std::int64_t inner() const { return sizes[rank - 1]; }

 private:
  bool joins(const std::int64_t* step, std::int64_t size) const {
    for (int n = 0; n < N; ++n)
      if (strides[rank - 1][n] != step[n] * size) return false;
    return true;
  }
};

/// A place in the outer loops (all but the innermost), and the operands' offsets there.
template <int N>
struct Place {
  const Loops<N>& loops;
  std::int64_t index[kMaxRank] = {};
  std::int64_t offset[N] = {};

  Place(const Loops<N>& l, std::int64_t row) : loops(l) {
    for (int axis = l.rank - 2; axis >= 0; --axis) {
      index[axis] = row % l.sizes[axis];
      row /= l.sizes[axis];
      for (int n = 0; n < N; ++n) offset[n] += index[axis] * l.strides[axis][n];
    }
  }
  void next() {
    for (int axis = loops.rank - 2; axis >= 0; --axis) {
      for (int n = 0; n < N; ++n) offset[n] += loops.strides[axis][n];
      if (++index[axis] < loops.sizes[axis]) return;
      for (int n = 0; n < N; ++n) offset[n] -= loops.sizes[axis] * loops.strides[axis][n];
      index[axis] = 0;
    }
  }
};

template <class Word>
void gather_words(const std::byte* from, std::int64_t stride, std::byte* to, std::int64_t count) {
  const auto* source = reinterpret_cast<const Word*>(from);
  auto* target = reinterpret_cast<Word*>(to);
  if (stride == 1)
    for (std::int64_t i = 0; i < count; ++i) target[i] = source[i];
  else if (stride == 0)
    for (std::int64_t i = 0; i < count; ++i) target[i] = *source;
  else
    for (std::int64_t i = 0; i < count; ++i) target[i] = source[i * stride];
}
inline void gather_elements(std::int64_t element, const std::byte* from, std::int64_t stride, std::byte* to,
                            std::int64_t count) {
  if (element == 4) gather_words<std::uint32_t>(from, stride, to, count);
  else if (element == 8) gather_words<std::uint64_t>(from, stride, to, count);
  else if (element == 2) gather_words<std::uint16_t>(from, stride, to, count);
  else gather_words<std::uint8_t>(from, stride, to, count);
}

/// Calls `run(begin, count, data, step)` for runs of the contiguous result: operand n of the run starts at data[n] and
/// steps by step[n] elements, 0 or 1. Operands with other strides are gathered into a buffer first.
template <int N, class Run>
void for_runs(const Loops<N>& loops, std::int64_t total, std::int64_t grain, Run run) {
  if (total == 0) return;
  const std::int64_t inner = loops.inner();
  if (loops.rank == 1 && loops.simple_inside()) {
    base::parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::byte* data[N];
      for (int n = 0; n < N; ++n) data[n] = loops.data[n] + begin * loops.strides[0][n] * loops.element[n];
      run(begin, end - begin, data, loops.strides[0]);
    });
    return;
  }
  const std::int64_t rows = total / inner;
  if (loops.simple_inside() && inner >= 32) {
    base::parallel_for(rows, (grain + inner - 1) / inner, [&](std::int64_t begin, std::int64_t end) {
      Place<N> place(loops, begin);
      for (std::int64_t row = begin; row < end; ++row, place.next()) {
        const std::byte* data[N];
        for (int n = 0; n < N; ++n) data[n] = loops.data[n] + place.offset[n] * loops.element[n];
        run(row * inner, inner, data, loops.strides[loops.rank - 1]);
      }
    });
    return;
  }
  constexpr std::int64_t kBlock = 512;
  base::parallel_for(total, grain, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::byte buffer[N][kBlock * 8];
    std::int64_t ones[N];
    const std::byte* data[N];
    for (int n = 0; n < N; ++n) ones[n] = 1, data[n] = buffer[n];
    Place<N> place(loops, begin / inner);
    std::int64_t column = begin % inner;
    for (std::int64_t at = begin; at < end;) {
      const std::int64_t block = end - at < kBlock ? end - at : kBlock;
      for (std::int64_t done = 0; done < block;) {
        const std::int64_t take = inner - column < block - done ? inner - column : block - done;
        for (int n = 0; n < N; ++n) {
          const std::int64_t stride = loops.strides[loops.rank - 1][n], size = loops.element[n];
          gather_elements(size, loops.data[n] + (place.offset[n] + column * stride) * size, stride,
                          buffer[n] + done * size, take);
        }
        done += take;
        column += take;
        if (column == inner) {
          column = 0;
          place.next();
        }
      }
      run(at, block, data, ones);
      at += block;
    }
  });
}

}  // namespace capstan::on_cpu
