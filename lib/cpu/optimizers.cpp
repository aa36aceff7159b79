#include <algorithm>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

/// `update(at, gradient, count)` for the elements of a parameter [rows, width] whose gradient is zero but for some rows.
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

}  // namespace

void adam(TensorImpl& p, const TensorImpl& g, TensorImpl& m, TensorImpl& v, const kernels::AdamStep& step) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(p.numel(), kExpensiveGrain, [&](std::int64_t begin, std::int64_t end) {
      simd().of<T>().adam(p.as<T>() + begin, g.as<T>() + begin, m.as<T>() + begin, v.as<T>() + begin, end - begin,
                          step);
    });
  });
}

void sgd(TensorImpl& p, const TensorImpl& g, TensorImpl* velocity, const kernels::SgdStep& step) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(p.numel(), kExpensiveGrain, [&](std::int64_t begin, std::int64_t end) {
      simd().of<T>().sgd(p.as<T>() + begin, g.as<T>() + begin,
                         velocity != nullptr ? velocity->as<T>() + begin : nullptr, end - begin, step);
    });
  });
}

void adam_rows(TensorImpl& p, const TensorImpl& indices, const TensorImpl& values, TensorImpl& m, TensorImpl& v,
               const kernels::AdamStep& step, bool touched) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    for_rows<T>(p, indices, values, touched, [&](std::int64_t at, const T* g, std::int64_t count) {
      simd().of<T>().adam(p.as<T>() + at, g, m.as<T>() + at, v.as<T>() + at, count, step);
    });
  });
}

void sgd_rows(TensorImpl& p, const TensorImpl& indices, const TensorImpl& values, TensorImpl* velocity,
              const kernels::SgdStep& step, bool touched) {
  core::visit_floating(p.dtype, [&]<class T>(core::Type<T>) {
    for_rows<T>(p, indices, values, touched, [&](std::int64_t at, const T* g, std::int64_t count) {
      simd().of<T>().sgd(p.as<T>() + at, g, velocity != nullptr ? velocity->as<T>() + at : nullptr, count, step);
    });
  });
}

}  // namespace capstan::on_cpu
