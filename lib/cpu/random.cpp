// Random numbers: element i comes from block i / n of the stream, n values a block, whoever computes it. The formulas
// are those of every backend, so this file is compiled without contraction.
#include <algorithm>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/kernels/draws.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kPiece = 512;  // blocks whose bits stay in the nearest cache

/// Calls use(first block, blocks) for pieces of the blocks that `count` elements need.
template <int PerBlock, class Use>
void for_pieces(std::int64_t count, Use use) {
  const std::int64_t blocks = (count + PerBlock - 1) / PerBlock;
  base::parallel_for((blocks + kPiece - 1) / kPiece, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = begin * kPiece; first < std::min(end * kPiece, blocks); first += kPiece)
      use(first, std::min(kPiece, blocks - first));
  });
}
/// Calls use(i, words) for every element with its share of a block's words.
template <int PerBlock, class Use>
void for_words(const RandomTask& task, std::int64_t count, Use use) {
  for_pieces<PerBlock>(count, [&](std::int64_t first, std::int64_t blocks) {
    std::uint32_t words[4 * kPiece];
    simd().random.words(task.seed, task.stream, task.first_block + static_cast<std::uint64_t>(first), blocks, words);
    const std::int64_t begin = first * PerBlock, end = std::min(count, begin + blocks * PerBlock);
    for (std::int64_t i = begin; i < end; ++i) use(i, words + (i - begin) * (4 / PerBlock));
  });
}

}  // namespace

void random(const RandomTask& task, TensorImpl& out) {
  const std::int64_t count = out.numel();
  if (task.kind == core::RandomKind::integers) {
    core::visit_integers(out.dtype, [&]<class T>(core::Type<T>) {
      for_words<2>(task, count, [to = out.as<T>(), &task](std::int64_t i, const std::uint32_t* words) {
        to[i] = kernels::integer_of<T>(task, words[0], words[1]);
      });
    });
  } else if (task.kind == core::RandomKind::bernoulli) {
    const bool always = task.a >= 1;  // whose threshold has 33 bits
    const auto threshold = static_cast<std::uint32_t>(kernels::threshold_of(task.a));
    core::visit(out.dtype, [&]<class T>(core::Type<T>) {
      for_pieces<4>(count, [&](std::int64_t first, std::int64_t blocks) {
        bool hits[4 * kPiece];
        const std::int64_t begin = 4 * first, here = std::min(count - begin, 4 * blocks);
        simd().random.decide(
            {task.seed, task.stream, task.first_block + static_cast<std::uint64_t>(first), threshold, hits, here});
        T* const to = out.as<T>() + begin;
        for (std::int64_t i = 0; i < here; ++i) to[i] = static_cast<T>(hits[i] | always);
      });
    });
  } else {
    core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
      // of kernels::below, for all at once
      const T low = static_cast<T>(task.a), high = static_cast<T>(task.b);
      const bool has_end = task.kind == core::RandomKind::uniform && !(low == high);
      const T last = has_end ? kernels::below(high, low, high) : high;
      for_pieces<2>(count, [&](std::int64_t first, std::int64_t blocks) {
        double numbers[2 * kPiece];
        simd().random.numbers(task, task.first_block + static_cast<std::uint64_t>(first), blocks, numbers);
        T* const to = out.as<T>() + 2 * first;
        const std::int64_t here = std::min(count - 2 * first, 2 * blocks);
        for (std::int64_t i = 0; i < here; ++i) to[i] = static_cast<T>(numbers[i]);
        if (has_end)
          for (std::int64_t i = 0; i < here; ++i) to[i] = to[i] < high ? to[i] : last;
      });
    });
  }
}

void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out) {
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    for_words<4>(task, out.numel(),
                 [to = out.as<T>(), p = probability.as<T>()](std::int64_t i, const std::uint32_t* word) {
                   to[i] = static_cast<T>(*word < kernels::threshold_of(static_cast<double>(p[i])));
                 });
  });
}

void categorical(const RandomTask& task, const TensorImpl& logits, TensorImpl& out) {
  const std::int64_t rows = logits.shape[0], classes = logits.shape[1], count = out.shape[1];
  core::Scratch<double> steps(rows * classes, core::calling_place());
  core::visit_floating(logits.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(rows, kExpensiveGrain / (classes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const T* x = logits.as<T>() + row * classes;
        const auto largest = static_cast<double>(simd().of<T>().max(x, classes));
        double before = 0, within = 0;
        for (std::int64_t k = 0; k < classes; ++k) {
          if (k % kernels::kClassesInPiece == 0) before += within, within = 0;
          within += kernels::portable::exp(static_cast<double>(x[k]) - largest);
          steps[row * classes + k] = before + within;
        }
      }
    });
  });
  std::int64_t* to = out.as<std::int64_t>();
  base::parallel_for(rows * count, 512, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const kernels::NumberPair u = kernels::unit_pair(task, task.first_block + static_cast<std::uint64_t>(i / 2));
      to[i] = kernels::class_of(i % 2 == 0 ? u.first : u.second, steps.data() + i / count * classes, classes);
    }
  });
}

}  // namespace capstan::on_cpu
