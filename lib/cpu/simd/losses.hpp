// Losses of pairs of values and their gradients, for the rows of lib/kernels/loss_ops.hpp. Included by kernels_*.cpp
// behind rule_loops.hpp.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// out[i] = f(grad[i * grad_step], x[i], target[i]); the step is 0 or 1, and there is at least one value.
template <Evaluate kind, class T, class F>
CAPSTAN_INLINE void each_loss_gradient(const T* grad, std::int64_t grad_step, const T* x, const T* target, T* out,
                                       std::int64_t count, F f) {
  std::int64_t i = 0;
  if constexpr (kind == Evaluate::lanes) {
    using L = Lanes<T>;
    const L one(*grad);
    for (; i + L::size <= count; i += L::size)
      f(grad_step == 0 ? one : L::load(grad + i), L::load(x + i), L::load(target + i)).store(out + i);
    if (const std::int64_t rest = count - i; rest > 0) {
      const L g = grad_step == 0 ? one : load_part(grad + i, rest);
      store_part(f(g, load_part(x + i, rest), load_part(target + i, rest)), out + i, rest);
    }
  } else if constexpr (kind == Evaluate::precise) {
    float part_grad[kPreciseSize] = {}, part_x[kPreciseSize] = {}, part_target[kPreciseSize] = {};
    const Precise one(static_cast<double>(*grad));
    for (; i < count; i += kPreciseSize) {
      const bool whole = i + kPreciseSize <= count;
      for (std::int64_t k = 0; !whole && i + k < count; ++k) {
        part_grad[k] = grad[(i + k) * grad_step];
        part_x[k] = x[i + k];
        part_target[k] = target[i + k];
      }
      const Precise g = grad_step == 0 ? one : load_precise(whole ? grad + i : part_grad);
      const Precise result = f(g, load_precise(whole ? x + i : part_x), load_precise(whole ? target + i : part_target));
      store_precise(result, whole ? out + i : part_x);
      for (std::int64_t k = 0; !whole && i + k < count; ++k) out[i + k] = part_x[k];
    }
  } else {
    for (; i < count; ++i) out[i] = f(grad[i * grad_step], x[i], target[i]);
  }
}

template <class Op, class T> void loss(const T* x, const T* target, double p, T* y, std::int64_t count) {
  each_pair<how<Op, T>()>(x, target, y, count, [p]<class V>(V a, V b) { return Op::forward(a, b, V(p)); });
}

template <class Op, class T>
void loss_left(const T* grad, std::int64_t grad_step, const T* x, const T* target, double p, T* out,
               std::int64_t count) {
  each_loss_gradient<how<Op, T>()>(grad, grad_step, x, target, out, count,
                                   [p]<class V>(V g, V a, V b) { return Op::left(g, a, b, V(p)); });
}

template <class Op, class T>
void loss_right(const T* grad, std::int64_t grad_step, const T* x, const T* target, double p, T* out,
                std::int64_t count) {
  each_loss_gradient<how<Op, T>()>(grad, grad_step, x, target, out, count,
                                   [p]<class V>(V g, V a, V b) { return Op::right(g, a, b, V(p)); });
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
