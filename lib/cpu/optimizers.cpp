#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements: the pieces of a loop begin at whole registers and cache lines

std::int64_t blocks_of(std::int64_t count) { return (count + kBlock - 1) / kBlock; }

/// `body(begin, count)` for pieces of [0, count).
template <class Body>
void for_blocks(std::int64_t count, Body body) {
  base::parallel_for(blocks_of(count), kExpensiveGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    body(begin * kBlock, std::min(end * kBlock, count) - begin * kBlock);
  });
}

/// What a parameter is computed in, and its states are kept in: its own type, float for 16 bits.
template <class P>
using Computed = std::conditional_t<core::kIsHalf<P>, float, P>;
/// Elements of 16 bits that are converted at a time: whole parts of `lamb_norms`.
template <class P>
constexpr std::int64_t kPart = core::kIsHalf<P> ? 1024 : 1;

/// Elements as what is computed in: themselves, or converted into `room`.
template <class P>
const Computed<P>* computed(const P* x, [[maybe_unused]] std::int64_t count, [[maybe_unused]] Computed<P>* room) {
  if constexpr (std::is_same_v<P, Computed<P>>) {
    return x;
  } else {
    for (std::int64_t i = 0; i < count; ++i) room[i] = static_cast<float>(x[i]);
    return room;
  }
}

/// The elements of a parameter and of its states.
template <class P>
struct Elements {
  using T = Computed<P>;
  P* p;
  T* states[kMostStates];

  Elements(const TensorImpl& parameter, const TensorImpl* first, const TensorImpl* second, const TensorImpl* third)
      : p(parameter.as<P>()), states{of(first), of(second), of(third)} {}

  /// `body(x, at, count)` for `count` elements from `at` on, as what is computed in, 16 bits a part after the other;
  /// with `written` what it makes of x is rounded and kept.
  template <class Body>
  void in_parts(std::int64_t at, std::int64_t count, [[maybe_unused]] bool written, Body body) const {
    if constexpr (std::is_same_v<P, T>) {
      body(p + at, at, count);
    } else {
      T room[kPart<P>];
      for (const std::int64_t end = at + count; at < end; at += kPart<P>) {
        const std::int64_t part = std::min(kPart<P>, end - at);
        computed(p + at, part, room);
        body(room, at, part);
        for (std::int64_t i = 0; written && i < part; ++i) p[at + i] = P(room[i]);
      }
    }
  }

  /// One step of `count` elements from `begin` on.
  void step(UpdateRule rule, std::int64_t begin, const P* g, std::int64_t count, const UpdateNumbers& numbers) const {
    in_parts(begin, count, true, [&](T* x, std::int64_t at, std::int64_t part) {
      T room[kPart<P>];
      T* from[kMostStates];
      for (int k = 0; k < kMostStates; ++k) from[k] = states[k] != nullptr ? states[k] + at : nullptr;
      simd().of<T>().steps.rule[static_cast<int>(rule)](x, computed(g + (at - begin), part, room), from, part, numbers);
    });
  }

 private:
  static T* of(const TensorImpl* x) { return x != nullptr ? x->as<T>() : nullptr; }
};

/// `update(at, gradient, count)` for elements of a parameter [rows, width] whose gradient is zero but for some rows.
template <class P, class Update>
void for_rows(const TensorImpl& p, const TensorImpl& indices, const TensorImpl& values, bool touched, Update update) {
  constexpr std::int64_t kZeros = 1024;
  if (p.numel() == 0) return;
  const std::int64_t width = p.numel() / p.shape[0], *first = indices.as<std::int64_t>();
  const std::int64_t* last = first + indices.numel();
  base::parallel_for(p.shape[0], kExpensiveGrain / width + 1, [&](std::int64_t begin, std::int64_t end) {
    static const P zeros[kZeros] = {};
    const auto gap = [&](std::int64_t from, std::int64_t to) {  // rows without a gradient
      for (std::int64_t at = from * width; !touched && at < to * width; at += kZeros)
        update(at, zeros, std::min(kZeros, to * width - at));
    };
    std::int64_t row = begin;
    for (const std::int64_t* index = std::lower_bound(first, last, begin); index != last && *index < end; ++index) {
      gap(row, *index);
      update(*index * width, values.as<P>() + (index - first) * width, width);
      row = *index + 1;
    }
    gap(row, end);
  });
}

/// Room for the sums of squares that lamb needs, two for each block, so that threads cannot matter.
std::vector<double> room_for_norms(std::int64_t count) {
  return std::vector<double>(2 * static_cast<std::size_t>(blocks_of(count)));
}

/// The second half of lamb's step: the parameter goes as far as it is long, in relation to the direction.
template <class P>
void finish_lamb(const Elements<P>& x, std::int64_t count, UpdateNumbers numbers, std::vector<double>& squares) {
  using T = Computed<P>;
  const std::int64_t sums = 2 * blocks_of(count);
  std::fill_n(squares.begin(), sums, 0.0);
  const FloatKernels<T>& fast = simd().of<T>();
  base::parallel_for(blocks_of(count), kExpensiveGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t begin_of_block = block * kBlock;
      x.in_parts(begin_of_block, std::min(kBlock, count - begin_of_block), false,
                 [&](const T* p, std::int64_t at, std::int64_t part) {
                   fast.lamb_norms(p, x.states[0] + at, x.states[1] + at, part, numbers, squares.data() + 2 * block);
                 });
    }
  });
  double parameter = 0, direction = 0;
  for (auto sum = squares.begin(); sum != squares.begin() + sums; sum += 2) parameter += sum[0], direction += sum[1];
  if (parameter > 0 && direction > 0) numbers.rate *= std::sqrt(parameter) / std::sqrt(direction);
  for_blocks(count, [&](std::int64_t begin, std::int64_t size) {
    x.in_parts(begin, size, true, [&](T* p, std::int64_t at, std::int64_t part) {
      fast.lamb_move(p, x.states[0] + at, x.states[1] + at, part, numbers);
    });
  });
}

}  // namespace

void optimizer_steps(const core::OptimizerStep* steps, std::size_t count) {
  const core::OptimizerStep* const last = steps + count;
  std::int64_t blocks = 0, elements = 0, largest_lamb = 0;
  for (const core::OptimizerStep* step = steps; step != last; ++step) {
    blocks += blocks_of(step->p.numel());
    elements += step->p.numel();
    if (step->rule == UpdateRule::lamb) largest_lamb = std::max(largest_lamb, step->p.numel());
  }
  std::vector<double> squares = room_for_norms(largest_lamb);  // what can fail does so before anything changes
  // the blocks of all parameters, one after the other: those of small ones are shared, too, if together they are worth it
  const std::int64_t grain = elements < kExpensiveGrain ? std::max(blocks, std::int64_t{1}) : kExpensiveGrain / kBlock;
  base::parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t before = 0;
    for (const core::OptimizerStep* step = steps; before < end; ++step) {
      const std::int64_t size = step->p.numel(), at = std::max(begin - before, std::int64_t{0}) * kBlock;
      const std::int64_t to = std::min((end - before) * kBlock, size);
      before += blocks_of(size);
      if (at >= to) continue;
      core::visit_real(step->p.dtype, [&]<class P>(core::Type<P>) {
        const Elements<P> some(step->p, step->first, step->second, step->third);
        some.step(step->rule, at, step->g.as<P>() + at, to - at, step->numbers);
      });
    }
  });
  for (const core::OptimizerStep* step = steps; step != last; ++step) {
    if (step->rule != UpdateRule::lamb) continue;
    core::visit_real(step->p.dtype, [&]<class P>(core::Type<P>) {
      const std::int64_t size = step->p.numel();
      finish_lamb(Elements<P>(step->p, step->first, step->second, step->third), size, step->numbers, squares);
    });
  }
}

void optimizer_rows(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                    TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                    bool touched) {
  core::visit_real(p.dtype, [&]<class P>(core::Type<P>) {
    std::vector<double> squares = room_for_norms(rule == UpdateRule::lamb ? p.numel() : 0);
    const Elements<P> elements(p, first, second, third);
    for_rows<P>(p, indices, values, touched,
                [&](std::int64_t at, const P* g, std::int64_t count) { elements.step(rule, at, g, count, numbers); });
    if (rule == UpdateRule::lamb) finish_lamb(elements, p.numel(), numbers, squares);
  });
}

}  // namespace capstan::on_cpu
