// Dropout: decisions from a stream of random numbers, and the elements that they keep.
#include <algorithm>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kPiece = 4096;  // decisions that stay in the nearest cache: whole blocks of four

/// One piece of the decisions.
void decide(const core::RandomTask& draw, std::int64_t piece, bool* kept, std::int64_t count) {
  const std::int64_t first = piece * kPiece;
  const auto threshold = static_cast<std::uint32_t>(draw.a * 0x1p32);  // a probability below 1
  simd().random.decide({draw.seed, draw.stream, draw.first_block + static_cast<std::uint64_t>(first / 4), threshold,
                        kept + first, std::min(kPiece, count - first)});
}

/// How decisions become values.
template <class T>
struct Fate {
  T scale, shift, dropped;
};

/// Elements begin .. end - 1, one decision for each `group` of them.
template <class T>
void keep_groups(const bool* kept, std::int64_t group, const Fate<T>& fate, const T* x, T* y, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t number = at / group, stop = std::min((number + 1) * group, end);
    if (!kept[number]) std::fill(y + at, y + stop, fate.dropped);
    else
      for (std::int64_t i = at; i < stop; ++i) y[i] = fate.scale * x[i] + fate.shift;
    at = stop;
  }
}

template <class T>
void keep_all(const bool* kept, std::int64_t group, const Fate<T>& fate, const T* x, T* y, std::int64_t count) {
  base::parallel_for(count, kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
    if (group > 1) return keep_groups(kept, group, fate, x, y, begin, end);
    simd().of<T>().keep(x + begin, kept + begin, fate.scale, fate.shift, fate.dropped, y + begin, end - begin);
  });
}

}  // namespace

void dropout(const core::DropoutTask& task, const TensorImpl& x, TensorImpl& kept, TensorImpl& out) {
  const std::int64_t decisions = kept.numel(), pieces = (decisions + kPiece - 1) / kPiece;
  bool* const decided = kept.as<bool>();
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const Fate<T> fate{static_cast<T>(task.scale), static_cast<T>(task.shift), static_cast<T>(task.dropped)};
    base::parallel_for(pieces, kExpensiveGrain / kPiece, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        decide(task.draw, piece, decided, decisions);
        if (task.group != 1) continue;
        const std::int64_t first = piece * kPiece;  // while the decisions are at hand
        simd().of<T>().keep(x.as<T>() + first, decided + first, fate.scale, fate.shift, fate.dropped,
                            out.as<T>() + first, std::min(kPiece, decisions - first));
      }
    });
    if (task.group > 1) keep_all(decided, task.group, fate, x.as<T>(), out.as<T>(), out.numel());
  });
}

void keep(const TensorImpl& kept, std::int64_t group, double scale, const TensorImpl& x, TensorImpl& out) {
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    keep_all(kept.as<bool>(), group, Fate<T>{static_cast<T>(scale), 0, 0}, x.as<T>(), out.as<T>(), out.numel());
  });
}

}  // namespace capstan::on_cpu
