#include <algorithm>
#include <cmath>
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

/// The elements of a parameter and of its states.
template <class T>
struct Elements {
  T* p;
  T* states[kMostStates];

  Elements(const TensorImpl& parameter, const TensorImpl* first, const TensorImpl* second, const TensorImpl* third)
      : p(parameter.as<T>()), states{of(first), of(second), of(third)} {}

  /// One step of `count` elements from `at` on.
  void step(UpdateRule rule, std::int64_t at, const T* g, std::int64_t count, const UpdateNumbers& numbers) const {
    T* from[kMostStates];
    for (int k = 0; k < kMostStates; ++k) from[k] = states[k] != nullptr ? states[k] + at : nullptr;
    simd().of<T>().steps.rule[static_cast<int>(rule)](p + at, g, from, count, numbers);
  }

 private:
  static T* of(const TensorImpl* x) { return x != nullptr ? x->as<T>() : nullptr; }
};

/// `update(at, gradient, count)` for elements of a parameter [rows, width] whose gradient is zero but for some rows.
template <class T, class Update>
void for_rows(const TensorImpl& p, const TensorImpl& indices, const TensorImpl& values, bool touched, Update update) {
  constexpr std::int64_t kZeros = 1024;
  if (p.numel() == 0) return;
  const std::int64_t width = p.numel() / p.shape[0], *first = indices.as<std::int64_t>();
  const std::int64_t* last = first + indices.numel();
  base::parallel_for(p.shape[0], kExpensiveGrain / width + 1, [&](std::int64_t begin, std::int64_t end) {
    static constexpr T zeros[kZeros] = {};
    const auto gap = [&](std::int64_t from, std::int64_t to) {  // rows without a gradient
      for (std::int64_t at = from * width; !touched && at < to * width; at += kZeros)
        update(at, zeros, std::min(kZeros, to * width - at));
    };
    std::int64_t row = begin;
    for (const std::int64_t* index = std::lower_bound(first, last, begin); index != last && *index < end; ++index) {
      gap(row, *index);
      update(*index * width, values.as<T>() + (index - first) * width, width);
      row = *index + 1;
    }
    gap(row, end);
  });
}

/// Room for the sums of squares that lamb needs; two for each block, so that threads cannot matter.
std::vector<double> room_for_norms(UpdateRule rule, std::int64_t count) {
  return std::vector<double>(rule == UpdateRule::lamb ? 2 * static_cast<std::size_t>(blocks_of(count)) : 0);
}

/// The second half of lamb's step: the parameter goes as far as it is long, in relation to the direction.
template <class T>
void finish_lamb(const Elements<T>& x, std::int64_t count, UpdateNumbers numbers, std::vector<double>& squares) {
  const FloatKernels<T>& fast = simd().of<T>();
  base::parallel_for(blocks_of(count), kExpensiveGrain / kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t at = block * kBlock;
      fast.lamb_norms(x.p + at, x.states[0] + at, x.states[1] + at, std::min(kBlock, count - at), numbers,
                      squares.data() + 2 * block);
    }
  });
  double parameter = 0, direction = 0;
  for (std::size_t i = 0; i < squares.size(); i += 2) parameter += squares[i], direction += squares[i + 1];
  if (parameter > 0 && direction > 0) numbers.rate *= std::sqrt(parameter) / std::sqrt(direction);
  for_blocks(count, [&](std::int64_t at, std::int64_t part) {
    fast.lamb_move(x.p + at, x.states[0] + at, x.states[1] + at, part, numbers);
  });
}

}  // namespace

void optimizer_step(UpdateRule rule, TensorImpl& p, const TensorImpl& g, TensorImpl* first, TensorImpl* second,
                    TensorImpl* third, const UpdateNumbers& numbers) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    std::vector<double> squares = room_for_norms(rule, p.numel());
    const Elements<T> elements(p, first, second, third);
    for_blocks(p.numel(),
               [&](std::int64_t at, std::int64_t count) { elements.step(rule, at, g.as<T>() + at, count, numbers); });
    if (rule == UpdateRule::lamb) finish_lamb(elements, p.numel(), numbers, squares);
  });
}

void optimizer_rows(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                    TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                    bool touched) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    std::vector<double> squares = room_for_norms(rule, p.numel());
    const Elements<T> elements(p, first, second, third);
    for_rows<T>(p, indices, values, touched,
                [&](std::int64_t at, const T* g, std::int64_t count) { elements.step(rule, at, g, count, numbers); });
    if (rule == UpdateRule::lamb) finish_lamb(elements, p.numel(), numbers, squares);
  });
}

}  // namespace capstan::on_cpu
