// What becomes of the elements of units that are normalized; see norm_units.hpp.
#include "cuda/normalizing.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
struct RuleTask {
  const Compute<T>* rule;
  std::int64_t units, across, count;   // across: packs of a unit side by side; count: of all packs
  std::int64_t place_step, unit_step;  // from one pack of a thread to its next
  const T *grad, *x;
  NormNumbers weight, bias;
  T* out;
};

template <class T, int V>
__global__ void __launch_bounds__(kThreads) rule_kernel(RuleTask<T> task) {
  using C = Compute<T>;
  const C* const shift = task.rule;
  const C* const by_x = shift + task.units;
  const C* const offset = by_x + task.units;
  const C* const by_grad = offset + task.units;
  std::int64_t place = first_index() % task.across, unit = first_index() / task.across % task.units;
  for (std::int64_t i = first_index(); i < task.count; i += index_step()) {
    T values[V];
    load_run<V>(task.x + i * V, values);
    C y[V];
    for (int v = 0; v < V; ++v) y[v] = (widen(values[v]) - shift[unit]) * by_x[unit] + offset[unit];
    if (task.grad != nullptr) {
      load_run<V>(task.grad + i * V, values);
      C through[V];
      for (int v = 0; v < V; ++v) through[v] = widen(values[v]);
      scale_run<T>(task.weight, NormNumbers(), place * V, through);
      for (int v = 0; v < V; ++v) y[v] += through[v] * by_grad[unit];
    } else {
      scale_run<T>(task.weight, task.bias, place * V, y);
    }
    for (int v = 0; v < V; ++v) values[v] = narrow<T>(y[v]);
    store_run<V>(values, task.out + i * V);
    place += task.place_step;
    unit += task.unit_step;
    if (place >= task.across) {
      place -= task.across;
      ++unit;
    }
    if (unit >= task.units) unit -= task.units;
  }
}

template <class T, int V>
void start(RuleTask<T> task, const NormUnits& u) {
  task.across = u.inner / V;
  task.count = u.samples * u.units * task.across;
  const LaunchShape shape = shape_for(task.count, 4);
  const std::int64_t step = std::int64_t{shape.blocks} * shape.threads;
  task.place_step = step % task.across;
  task.unit_step = step / task.across % u.units;
  launch(rule_kernel<T, V>, shape, task);
}

}  // namespace

void apply_rule(const TensorImpl& rule, const NormUnits& units, const TensorImpl* grad, const TensorImpl& x,
                const TensorImpl* weight, const TensorImpl* bias, TensorImpl& out) {
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const RuleTask<T> task{rule.as<Compute<T>>(),
                           units.units,
                           1,
                           0,
                           0,
                           0,
                           grad == nullptr ? nullptr : grad->as<T>(),
                           x.as<T>(),
                           NormNumbers(weight),
                           NormNumbers(bias),
                           out.as<T>()};
    const bool packs = units.inner % kPack<T> == 0 &&
                       aligned16(task.grad, task.x, task.weight.address(), task.bias.address(), task.out);
    if (packs) start<T, kPack<T>>(task, units);
    else start<T, 1>(task, units);
  });
}

}  // namespace capstan::on_cuda
