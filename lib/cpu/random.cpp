// Random numbers: element i comes from block i / n of the stream, n values a block, whoever computes it. The formulas
// are those of every backend, so this file is compiled without contraction.
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/kernels/draws.hpp"

namespace capstan::on_cpu {
namespace {

/// Calls `draw(block, values)` for every block and stores its PerBlock values, the last block's as far as they fit.
template <int PerBlock, class T, class Draw>
void for_blocks(T* to, std::int64_t count, Draw draw) {
  base::parallel_for((count + PerBlock - 1) / PerBlock, 2048, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      T values[PerBlock];
      draw(static_cast<std::uint64_t>(block), values);
      for (std::int64_t i = 0; i < PerBlock && block * PerBlock + i < count; ++i) to[block * PerBlock + i] = values[i];
    }
  });
}

}  // namespace

void random(const RandomTask& task, TensorImpl& out) {
  const std::int64_t count = out.numel();
  if (task.kind == core::RandomKind::integers) {
    core::visit_integers(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<2>(out.as<T>(), count, [&](std::uint64_t block, T* pair) {
        kernels::draw_integers(task, task.first_block + block, pair);
      });
    });
  } else if (task.kind == core::RandomKind::bernoulli) {
    const std::uint64_t threshold = kernels::threshold_of(task.a);
    core::visit(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<4>(out.as<T>(), count, [&](std::uint64_t block, T* values) {
        const auto bits = kernels::random_block(task.seed, task.first_block + block, task.stream);
        for (std::size_t i = 0; i < 4; ++i) values[i] = static_cast<T>(bits[i] < threshold);
      });
    });
  } else {
    core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
      for_blocks<2>(out.as<T>(), count,
                    [&](std::uint64_t block, T* pair) { kernels::draw_pair(task, task.first_block + block, pair); });
    });
  }
}

void bernoulli(const RandomTask& task, const TensorImpl& probability, TensorImpl& out) {
  const std::int64_t count = out.numel();
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const T* p = probability.as<T>();
    for_blocks<4>(out.as<T>(), count, [&](std::uint64_t block, T* values) {
      const auto bits = kernels::random_block(task.seed, task.first_block + block, task.stream);
      for (std::size_t i = 0; i < 4; ++i) {
        const auto at = static_cast<std::int64_t>(4 * block + i);
        values[i] = static_cast<T>(at < count && bits[i] < kernels::threshold_of(static_cast<double>(p[at])));
      }
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
      const kernels::UnitPair u = kernels::unit_pair(task, task.first_block + static_cast<std::uint64_t>(i / 2));
      to[i] = kernels::class_of(i % 2 == 0 ? u.first : u.second, steps.data() + i / count * classes, classes);
    }
  });
}

}  // namespace capstan::on_cpu
