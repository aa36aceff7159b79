#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {

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

}  // namespace capstan::on_cpu
