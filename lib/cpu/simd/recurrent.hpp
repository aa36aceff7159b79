// The gates of recurrent cells, forward and backward. Included by kernels_*.cpp behind products.hpp.
//
// Blocks of `hidden` columns in a row of gates: lstm i, f, g, o; gru n, r, z and h @ wh + bn of n's; gru_before n, r, z
// and r * h; rnn its h.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

template <class T> CAPSTAN_INLINE Lanes<T> load_or_zero(const T* p, std::int64_t at, int count) {
  return p == nullptr ? Lanes<T>(0) : load_part(p + at, count);
}

/// use(row, unit, count) for every register of units, row by row.
template <class T, class Rows, class Use> CAPSTAN_INLINE void for_units(const Rows& g, Use use) {
  constexpr int size = Lanes<T>::size;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    std::int64_t j = g.begin;
    for (; j + size <= g.end; j += size) use(row, j, size);
    if (j < g.end) use(row, j, static_cast<int>(g.end - j));
  }
}

/// The row of the caller's tensors.
template <class Rows> CAPSTAN_INLINE std::int64_t place(const Rows& g, std::int64_t row) {
  return g.order == nullptr ? row : g.order[row];
}
template <class T>
CAPSTAN_INLINE T* destination(const GateRows<T>& g, const StateRows<T>& to, std::int64_t row, std::int64_t unit) {
  return (row < to.carry ? to.next + row * g.hidden : to.last + place(g, row) * g.hidden) + unit;
}
template <class T>
CAPSTAN_INLINE void deliver(const GateRows<T>& g, Lanes<T> h, std::int64_t row, std::int64_t unit, int count) {
  store_part(h, destination(g, g.to_h, row, unit), count);
  if (g.out != nullptr) store_part(h, g.out + place(g, row) * g.out_row + unit, count);
}

template <class Op, class T> void rnn_gates(const GateRows<T>& g) {
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        T* gates = g.gates + row * g.hidden + j;
        const Lanes<T> h = Op::forward(load_part(gates, count) + load_or_zero(g.bias, j, count));
        store_part(h, gates, count);
        deliver(g, h, row, j, count);
      });
}

template <class T> void gru_gates(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        T* gates = g.gates + row * 4 * hidden + j;
        const L r = kernels::Sigmoid::forward(load_part(gates + hidden, count) + load_or_zero(g.bias, j, count));
        const L z =
            kernels::Sigmoid::forward(load_part(gates + 2 * hidden, count) + load_or_zero(g.bias, hidden + j, count));
        const L from_h = load_part(gates + 3 * hidden, count) + load_or_zero(g.bn, j, count);
        const L n =
            kernels::Tanh::forward(load_part(gates, count) + load_or_zero(g.bias, 2 * hidden + j, count) + r * from_h);
        const L h = (L(1) - z) * n + z * load_part(g.h + row * hidden + j, count);
        store_part(n, gates, count);
        store_part(r, gates + hidden, count);
        store_part(z, gates + 2 * hidden, count);
        store_part(from_h, gates + 3 * hidden, count);
        deliver(g, h, row, j, count);
      });
}

/// The reset gate before the product: first r, z and r * h, then, with the product of that, n and the state.
template <class T> void gru_resets(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        T* gates = g.gates + row * 4 * hidden + j;
        const L r = kernels::Sigmoid::forward(load_part(gates + hidden, count) + load_or_zero(g.bias, j, count));
        store_part(r, gates + hidden, count);
        store_part(
            kernels::Sigmoid::forward(load_part(gates + 2 * hidden, count) + load_or_zero(g.bias, hidden + j, count)),
            gates + 2 * hidden, count);
        store_part(r * load_part(g.h + row * hidden + j, count), gates + 3 * hidden, count);
      });
}
template <class T> void gru_states(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        T* gates = g.gates + row * 4 * hidden + j;
        const L n = kernels::Tanh::forward(load_part(gates, count) + load_or_zero(g.bias, 2 * hidden + j, count));
        const L z = load_part(gates + 2 * hidden, count);
        store_part(n, gates, count);
        deliver(g, (L(1) - z) * n + z * load_part(g.h + row * hidden + j, count), row, j, count);
      });
}

/// The state of some units from the sums of their gates.
template <class T>
CAPSTAN_INLINE void finish_lstm(const GateRows<T>& g, std::int64_t row, std::int64_t j, int count,
                                const Lanes<T> (&sums)[4]) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  const L in = kernels::Sigmoid::forward(sums[0] + load_or_zero(g.bias, j, count));
  const L forget = kernels::Sigmoid::forward(sums[1] + load_or_zero(g.bias, hidden + j, count));
  const L fresh = kernels::Tanh::forward(sums[2] + load_or_zero(g.bias, 2 * hidden + j, count));
  const L out = kernels::Sigmoid::forward(sums[3] + load_or_zero(g.bias, 3 * hidden + j, count));
  const L c = forget * load_part(g.c + row * hidden + j, count) + in * fresh;
  if (g.gates != nullptr) {
    T* gates = g.gates + row * 4 * hidden + j;
    store_part(in, gates, count);
    store_part(forget, gates + hidden, count);
    store_part(fresh, gates + 2 * hidden, count);
    store_part(out, gates + 3 * hidden, count);
  }
  store_part(c, destination(g, g.to_c, row, j), count);
  deliver(g, out * kernels::Tanh::forward(c), row, j, count);
}

template <class T> void lstm_gates(const GateRows<T>& g) {
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const T* gates = g.gates + row * 4 * hidden + j;
        const Lanes<T> sums[4] = {load_part(gates, count), load_part(gates + hidden, count),
                                  load_part(gates + 2 * hidden, count), load_part(gates + 3 * hidden, count)};
        finish_lstm(g, row, j, count, sums);
      });
}

/// A whole step of a cell so small that calls would cost more than it: products and gates in registers.
template <class T> void lstm_step(const GateRows<T>& g, const SmallStep<T>& s) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        L sums[4] = {L(0), L(0), L(0), L(0)};
        const auto add = [&](const T* a, const T* w, std::int64_t k) __attribute__((always_inline)) {
          for (std::int64_t p = 0; p < k; ++p, w += 4 * hidden) {
            const L left(a[p]);
            unrolled<4>([&](auto q) __attribute__((always_inline)) {
              sums[q] = fma(left, load_part(w + q * hidden, count), sums[q]);
            });
          }
        };
        add(s.x + row * s.inputs, s.wx + j, s.inputs);
        add(g.h + row * hidden, s.wh + j, hidden);
        finish_lstm(g, row, j, count, sums);
      });
}

/// The gradient of h: of later steps, and of the caller's output at this one.
template <class T>
CAPSTAN_INLINE Lanes<T> gradient_of_h(const GateGradients<T>& g, std::int64_t row, std::int64_t j, int count) {
  const Lanes<T> later = load_part(g.dh + row * g.hidden + j, count);
  return g.out == nullptr ? later : later + load_part(g.out + place(g, row) * g.out_row + j, count);
}

template <class Op, class T> void rnn_gradients(const GateGradients<T>& g) {
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const std::int64_t at = row * g.hidden + j;
        store_part(Op::backward(gradient_of_h(g, row, j, count), load_part(g.gates + at, count)), g.pre + at, count);
      });
}

template <class T> void gru_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const T* gates = g.gates + row * 4 * hidden + j;
        T* pre = g.pre + row * 4 * hidden + j;
        const L n = load_part(gates, count), r = load_part(gates + hidden, count),
                z = load_part(gates + 2 * hidden, count), from_h = load_part(gates + 3 * hidden, count),
                h = load_part(g.h + row * hidden + j, count);
        const L dh = gradient_of_h(g, row, j, count);
        const L dn = kernels::Tanh::backward(dh * (L(1) - z), n);
        store_part(dn, pre, count);
        store_part(kernels::Sigmoid::backward(dn * from_h, r), pre + hidden, count);
        store_part(kernels::Sigmoid::backward(dh * (h - n), z), pre + 2 * hidden, count);
        store_part(dn * r, pre + 3 * hidden, count);
        store_part(dh * z, g.dh_before + row * hidden + j, count);
      });
}

/// Back through the state, and, when `dh` is the gradient of r * h, through the reset gate.
template <class T> void gru_state_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const T* gates = g.gates + row * 4 * hidden + j;
        T* pre = g.pre + row * 4 * hidden + j;
        const L n = load_part(gates, count), z = load_part(gates + 2 * hidden, count),
                h = load_part(g.h + row * hidden + j, count);
        const L dh = gradient_of_h(g, row, j, count);
        store_part(kernels::Tanh::backward(dh * (L(1) - z), n), pre, count);
        store_part(kernels::Sigmoid::backward(dh * (h - n), z), pre + 2 * hidden, count);
        store_part(dh * z, g.dh_before + row * hidden + j, count);
      });
}
template <class T> void gru_reset_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const std::int64_t at = row * hidden + j;
        const L r = load_part(g.gates + row * 4 * hidden + hidden + j, count), grad = load_part(g.dh + at, count);
        store_part(kernels::Sigmoid::backward(grad * load_part(g.h + at, count), r),
                   g.pre + row * 4 * hidden + hidden + j, count);
        store_part(load_part(g.dh_before + at, count) + grad * r, g.dh_before + at, count);
      });
}

template <class T> void lstm_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for_units<T>(
      g, [&](std::int64_t row, std::int64_t j, int count) __attribute__((always_inline)) {
        const T* gates = g.gates + row * 4 * hidden + j;
        T* pre = g.pre + row * 4 * hidden + j;
        const std::int64_t at = row * hidden + j;
        const L in = load_part(gates, count), forget = load_part(gates + hidden, count),
                fresh = load_part(gates + 2 * hidden, count), out = load_part(gates + 3 * hidden, count),
                before = load_part(g.c + at, count);
        const L bent = kernels::Tanh::forward(forget * before + in * fresh);
        const L dh = gradient_of_h(g, row, j, count);
        const L dc = load_part(g.dc + at, count) + kernels::Tanh::backward(dh * out, bent);
        store_part(kernels::Sigmoid::backward(dc * fresh, in), pre, count);
        store_part(kernels::Sigmoid::backward(dc * before, forget), pre + hidden, count);
        store_part(kernels::Tanh::backward(dc * in, fresh), pre + 2 * hidden, count);
        store_part(kernels::Sigmoid::backward(dh * bent, out), pre + 3 * hidden, count);
        store_part(dc * forget, g.dc + at, count);
        if (g.unprojected != nullptr) store_part(out * bent, g.unprojected + at, count);
      });
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
