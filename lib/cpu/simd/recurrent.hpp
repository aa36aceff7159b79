// The gates of recurrent cells, forward and backward. Included by kernels_*.cpp behind products.hpp.
//
// Blocks of `hidden` columns in a row of gates: lstm i, f, g, o; gru n, r, z and h @ wh + bn of n's; gru_before n, r, z
// and r * h; rnn its h.
namespace capstan::on_cpu::CAPSTAN_ISA {
namespace {

/// use(unit, count) for every register of a row's units; the count is `Whole` for all but the last.
template <class T, class Rows, class Use> CAPSTAN_INLINE void for_units(const Rows& g, Use use) {
  constexpr int size = Lanes<T>::size;
  const std::int64_t end = g.end;  // what a register is stored to might be anything, so nothing of g is read in loops
  std::int64_t j = g.begin;
  for (; j + size <= end; j += size) use(j, Whole());
  if (j < end) use(j, static_cast<int>(end - j));
}

/// The row of the caller's tensors.
template <class Rows> CAPSTAN_INLINE std::int64_t place(const Rows& g, std::int64_t row) {
  return g.order == nullptr ? row : g.order[row];
}
template <class T> CAPSTAN_INLINE T* destination(const GateRows<T>& g, const StateRows<T>& to, std::int64_t row) {
  return row < to.carry ? to.next + row * g.hidden : to.last + place(g, row) * g.hidden;
}
/// Where the h of a row goes: twice to the same place if the caller wants no outputs.
template <class T> struct Delivery {
  T *state, *out;
  CAPSTAN_INLINE Delivery(const GateRows<T>& g, std::int64_t row)
      : state(destination(g, g.to_h, row)), out(g.out == nullptr ? state : g.out + place(g, row) * g.out_row) {}
  template <class Count> CAPSTAN_INLINE void take(Lanes<T> h, std::int64_t unit, Count count) const {
    store_part(h, state + unit, count);
    store_part(h, out + unit, count);
  }
};

template <class T> struct FromTerms {
  TermRows<T> rows;
  CAPSTAN_INLINE Lanes<T> operator()(std::int64_t row, std::int64_t column, int count) const {
    if (rows.terms == nullptr) return Lanes<T>(0);
    const SingleTerm<T>& term = rows.terms[row * rows.step];
    return fma(Lanes<T>(term.value), load_part(rows.b + term.place * rows.b_row + column, count), Lanes<T>(0));
  }
};

template <class T> void two_products(const TwoProducts<T>& g) {
  const Factors<T> input{g.x, g.x_row, 1, g.wx, g.n, g.inputs}, recurrent{g.h, g.h_row, 1, g.wh, g.n, g.units};
  for_tiles<T>(g.m, g.n, FromTerms<T>{g.start}, ToMatrix<T>{g.c, g.c_row}, input, recurrent);
}

template <class Op, class T> void rnn_gates(const GateRows<T>& g) {
  const T* bias = g.bias;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    T* gates = g.gates + row * g.hidden;
    const Delivery<T> to(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const Lanes<T> h = Op::forward(load_part(gates + j, count) + load_part(bias + j, count));
          store_part(h, gates + j, count);
          to.take(h, j, count);
        });
  }
}

// An activation that waits for another keeps a register's units for as long as both take. So a row is gone over twice,
// and each time its registers are worked on side by side.

/// What the first time leaves in memory for the second. The last register, of which a part was stored, is kept: to load
/// a part back would take until all stores before it are done.
template <class T> struct Stored {
  Lanes<T> last = Lanes<T>(0);
  CAPSTAN_INLINE void store(Lanes<T> x, T* to, Whole count) { store_part(x, to, count); }
  CAPSTAN_INLINE void store(Lanes<T> x, T* to, int count) { store_part(last = x, to, count); }
  CAPSTAN_INLINE Lanes<T> load(const T* from, Whole count) const { return load_part(from, count); }
  CAPSTAN_INLINE Lanes<T> load(const T*, int) const { return last; }
};
/// The same, stored some time ago.
template <class T> struct StoredBefore {
  template <class Count> CAPSTAN_INLINE Lanes<T> load(const T* from, Count count) const {
    return load_part(from, count);
  }
};

/// n, from its sum, and the state.
template <class T, class From>
CAPSTAN_INLINE void finish_gru(const GateRows<T>& g, std::int64_t row, const From& sums, const From& updates) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  T* gates = g.gates + row * 4 * hidden;
  const T *h = g.h + row * hidden, *bias = g.bias + 2 * hidden;
  const Delivery<T> to(g, row);
  for_units<T>(
      g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
        const L n = tanh(sums.load(gates + j, count) + load_part(bias + j, count));
        const L z = updates.load(gates + 2 * hidden + j, count);
        store_part(n, gates + j, count);
        to.take((L(1) - z) * n + z * load_part(h + j, count), j, count);
      });
}

/// Blocks 1 and 2 of a row of gates: r, which is given, and z.
template <class T, class Count>
CAPSTAN_INLINE Lanes<T> gru_reset_and_update(const T* bias, std::int64_t hidden, T* gates, std::int64_t j, Count count,
                                             Stored<T>& updates) {
  const auto sum = [&](int block) __attribute__((always_inline)) {
    return load_part(gates + (block + 1) * hidden + j, count) + load_part(bias + block * hidden + j, count);
  };
  const Lanes<T> r = kernels::Sigmoid::forward(sum(0)), z = kernels::Sigmoid::forward(sum(1));
  store_part(r, gates + hidden + j, count);
  updates.store(z, gates + 2 * hidden + j, count);
  return r;
}

template <class T> void gru_gates(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  const T *bias = g.bias, *bn = g.bn;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    T* gates = g.gates + row * 4 * hidden;
    Stored<T> sums, updates;
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L r = gru_reset_and_update(bias, hidden, gates, j, count, updates);
          const L from_h = load_part(gates + 3 * hidden + j, count) + load_part(bn + j, count);
          store_part(from_h, gates + 3 * hidden + j, count);
          sums.store(load_part(gates + j, count) + r * from_h, gates + j, count);
        });
    finish_gru(g, row, sums, updates);
  }
}

/// The reset gate before the product: first r, z and r * h, then, with the product of that, n and the state.
template <class T> void gru_resets(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  const T* bias = g.bias;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    T* gates = g.gates + row * 4 * hidden;
    const T* h = g.h + row * hidden;
    Stored<T> updates;
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L r = gru_reset_and_update(bias, hidden, gates, j, count, updates);
          store_part(r * load_part(h + j, count), gates + 3 * hidden + j, count);
        });
  }
}
template <class T> void gru_states(const GateRows<T>& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) finish_gru(g, row, StoredBefore<T>(), StoredBefore<T>());
}

/// An lstm's gates and its c, from the sums of the gates and c as it was.
template <class T> struct CellValues {
  Lanes<T> in, forget, fresh, out, c;
  CAPSTAN_INLINE CellValues(const Lanes<T> (&sums)[4], Lanes<T> before) {
    Group<T, 3> gates;
    gates.at[0] = sums[0], gates.at[1] = sums[1], gates.at[2] = sums[3];
    gates = sigmoid(gates);
    in = gates.at[0], forget = gates.at[1], out = gates.at[2];
    fresh = tanh(sums[2]);
    c = forget * before + in * fresh;
  }
  template <class Count>
  CAPSTAN_INLINE void store_gates(T* to, std::int64_t hidden, Count count, Stored<T>& outs) const {
    store_part(in, to, count);
    store_part(forget, to + hidden, count);
    store_part(fresh, to + 2 * hidden, count);
    outs.store(out, to + 3 * hidden, count);
  }
};

template <class T> void lstm_gates(const GateRows<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  const T* bias = g.bias;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    T *gates = g.gates + row * 4 * hidden, *to_c = destination(g, g.to_c, row);
    const T* before = g.c + row * hidden;
    Stored<T> outs, cells;
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          L sums[4];
          unrolled<4>([&](auto q) __attribute__((always_inline)) {
            sums[q] = load_part(gates + q * hidden + j, count) + load_part(bias + q * hidden + j, count);
          });
          const CellValues<T> cell(sums, load_part(before + j, count));
          cell.store_gates(gates + j, hidden, count, outs);
          cells.store(cell.c, to_c + j, count);
        });
    const Delivery<T> to(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L bent = tanh(cells.load(to_c + j, count));
          to.take(outs.load(gates + 3 * hidden + j, count) * bent, j, count);
        });
  }
}

/// A whole step of a cell so small that calls would cost more than it: products and gates in registers.
template <class T> void lstm_step(const GateRows<T>& g, const SmallStep<T>& s) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    T* to_c = destination(g, g.to_c, row);
    const Delivery<T> to(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
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
          if (g.bias != nullptr)
            unrolled<4>([&](auto q) __attribute__((always_inline)) {
              sums[q] = sums[q] + load_part(g.bias + q * hidden + j, count);
            });
          const CellValues<T> cell(sums, load_part(g.c + row * hidden + j, count));
          Stored<T> outs;
          if (g.gates != nullptr) cell.store_gates(g.gates + row * 4 * hidden + j, hidden, count, outs);
          store_part(cell.c, to_c + j, count);
          to.take(cell.out * tanh(cell.c), j, count);
        });
  }
}

/// The gradient of a row's h: of later steps, and of the caller's output at this one.
template <class T> struct StateGradient {
  const T *later, *out;
  CAPSTAN_INLINE StateGradient(const GateGradients<T>& g, std::int64_t row)
      : later(g.dh + row * g.hidden), out(g.out + place(g, row) * g.out_row) {}
  template <class Count> CAPSTAN_INLINE Lanes<T> of(std::int64_t unit, Count count) const {
    return load_part(later + unit, count) + load_part(out + unit, count);
  }
};

template <class Op, class T> void rnn_gradients(const GateGradients<T>& g) {
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const T* gates = g.gates + row * g.hidden;
    T* pre = g.pre + row * g.hidden;
    const StateGradient<T> given(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          store_part(Op::backward(given.of(j, count), load_part(gates + j, count)), pre + j, count);
        });
  }
}

/// Where the values of a gru's row stand, and their gradients.
template <class T> struct GruRow {
  const T *gates, *before;
  T *pre, *dh_before;
  StateGradient<T> given;
  CAPSTAN_INLINE GruRow(const GateGradients<T>& g, std::int64_t row)
      : gates(g.gates + row * 4 * g.hidden),
        before(g.h + row * g.hidden),
        pre(g.pre + row * 4 * g.hidden),
        dh_before(g.dh_before + row * g.hidden),
        given(g, row) {}
};

template <class T> void gru_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const GruRow<T> at(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L n = load_part(at.gates + j, count), r = load_part(at.gates + hidden + j, count),
                  z = load_part(at.gates + 2 * hidden + j, count), from_h = load_part(at.gates + 3 * hidden + j, count),
                  h = load_part(at.before + j, count);
          const L dh = at.given.of(j, count);
          const L dn = kernels::Tanh::backward(dh * (L(1) - z), n);
          store_part(dn, at.pre + j, count);
          store_part(kernels::Sigmoid::backward(dn * from_h, r), at.pre + hidden + j, count);
          store_part(kernels::Sigmoid::backward(dh * (h - n), z), at.pre + 2 * hidden + j, count);
          store_part(dn * r, at.pre + 3 * hidden + j, count);
          store_part(dh * z, at.dh_before + j, count);
        });
  }
}

/// Back through the state, and, when `dh` is the gradient of r * h, through the reset gate.
template <class T> void gru_state_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const GruRow<T> at(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L n = load_part(at.gates + j, count), z = load_part(at.gates + 2 * hidden + j, count),
                  h = load_part(at.before + j, count);
          const L dh = at.given.of(j, count);
          store_part(kernels::Tanh::backward(dh * (L(1) - z), n), at.pre + j, count);
          store_part(kernels::Sigmoid::backward(dh * (h - n), z), at.pre + 2 * hidden + j, count);
          store_part(dh * z, at.dh_before + j, count);
        });
  }
}
template <class T> void gru_reset_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const T *reset = g.gates + (row * 4 + 1) * hidden, *h = g.h + row * hidden, *dh = g.dh + row * hidden;
    T *pre = g.pre + (row * 4 + 1) * hidden, *dh_before = g.dh_before + row * hidden;
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L r = load_part(reset + j, count), grad = load_part(dh + j, count);
          store_part(kernels::Sigmoid::backward(grad * load_part(h + j, count), r), pre + j, count);
          store_part(load_part(dh_before + j, count) + grad * r, dh_before + j, count);
        });
  }
}

template <class T> void lstm_gradients(const GateGradients<T>& g) {
  using L = Lanes<T>;
  const std::int64_t hidden = g.hidden;
  for (std::int64_t row = 0; row < g.rows; ++row) {
    const T *gates = g.gates + row * 4 * hidden, *c = g.c + row * hidden;
    T *pre = g.pre + row * 4 * hidden, *dc_row = g.dc + row * hidden;
    T* unprojected = g.unprojected == nullptr ? nullptr : g.unprojected + row * hidden;
    const StateGradient<T> given(g, row);
    for_units<T>(
        g, [&](std::int64_t j, auto count) __attribute__((always_inline)) {
          const L in = load_part(gates + j, count), forget = load_part(gates + hidden + j, count),
                  fresh = load_part(gates + 2 * hidden + j, count), out = load_part(gates + 3 * hidden + j, count),
                  before = load_part(c + j, count);
          const L bent = tanh(forget * before + in * fresh);
          const L dh = given.of(j, count);
          const L dc = load_part(dc_row + j, count) + kernels::Tanh::backward(dh * out, bent);
          store_part(kernels::Sigmoid::backward(dc * fresh, in), pre + j, count);
          store_part(kernels::Sigmoid::backward(dc * before, forget), pre + hidden + j, count);
          store_part(kernels::Tanh::backward(dc * in, fresh), pre + 2 * hidden + j, count);
          store_part(kernels::Sigmoid::backward(dh * bent, out), pre + 3 * hidden + j, count);
          store_part(dc * forget, dc_row + j, count);
          if (unprojected != nullptr) store_part(out * bent, unprojected + j, count);
        });
  }
}

}  // namespace
}  // namespace capstan::on_cpu::CAPSTAN_ISA
