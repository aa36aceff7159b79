// Recurrent sequences: the inputs of all steps are multiplied at once, or, where they are few, with the states step by
// step; the gates of a step are gone over where they lie in the cache.
#include <optional>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/recurrent.hpp"

namespace capstan::on_cpu {
namespace {

template <class T>
const T* values(const TensorImpl* x) {
  return x == nullptr ? nullptr : x->as<T>();
}

/// What the forward pass keeps for the gradient, or scratch in its place.
template <class T>
class Kept {
 public:
  Kept(TensorImpl* kept, std::int64_t count)
      : own_(kept == nullptr ? count : 0, core::calling_place()),
        data_(kept == nullptr ? own_.data() : kept->as<T>()) {}
  T* data() const { return data_; }

 private:
  core::Scratch<T> own_;
  T* data_;
};

/// Up to this many multiplications an lstm's step is a matter of nanoseconds, of which calls would be the most.
constexpr std::int64_t kSmallStep = 2048;

template <class T>
void small_lstm_step(const core::RecurrentTask& task, const core::RecurrentResults& out) {
  const std::int64_t hidden = task.wh.shape[0];
  GateRows<T> g{};
  g.rows = task.x.shape[0], g.hidden = hidden, g.end = hidden;
  g.gates = out.gates == nullptr ? nullptr : out.gates->as<T>();
  g.bias = values<T>(task.b);
  g.h = task.h0.as<T>(), g.c = task.c0->as<T>();
  g.to_h = {nullptr, out.h.as<T>(), 0}, g.to_c = {nullptr, out.c->as<T>(), 0};
  if (out.outputs != nullptr) g.out = out.outputs->as<T>(), g.out_row = out.outputs->strides[0];
  simd().of<T>().lstm_step(g, {task.x.as<T>(), task.wx.as<T>(), task.wh.as<T>(), task.wx.shape[0]});
}

bool is_small_lstm_step(const core::RecurrentTask& task) {
  const bool one = task.x.rank() == 2 || (task.x.shape[1] == 1 && in_lines(task.x));
  return task.kind == RecurrentKind::lstm && one && task.lengths == nullptr && task.projection == nullptr &&
         task.x.shape[0] * (task.wx.shape[0] + task.wh.shape[0]) * task.wh.shape[1] <= kSmallStep;
}

template <class T>
class Forward {
 public:
  Forward(const core::RecurrentTask& task, const core::RecurrentResults& out, const Schedule& steps)
      : task_(task),
        out_(out),
        steps_(steps),
        blocks_(gate_blocks(task.kind)),
        inputs_(task.wx.shape[0]),
        hidden_(task.wx.shape[1] / (is_gru(task.kind) ? 3 : blocks_.line)),
        units_(task.wh.shape[0]),
        line_(blocks_.line * hidden_),
        added_(is_gru(task.kind) ? 2 : blocks_.recurrent),
        zeros_(task.b == nullptr || (is_gru(task.kind) && task.bn == nullptr) ? task.wx.shape[1] : 0,
               core::calling_place()),
        bias_(task.b == nullptr ? zeros_.data() : task.b->as<T>()),
        bn_(task.bn == nullptr ? zeros_.data() : task.bn->as<T>()),
        gates_(out.gates, steps.lines * line_) {
    if (zeros_.data() != nullptr) std::fill_n(zeros_.data(), task.wx.shape[1], T(0));
  }

  /// A single step of all rows: weights are used once, so nothing is packed.
  void step() {
    multiply_inputs(InputLines<T>(steps_, task_.x).data());
    const std::int64_t batch = steps_.batch, width = blocks_.recurrent * hidden_;
    const auto product = [&](const T* a, std::int64_t a_row, std::int64_t from, std::int64_t count, std::int64_t to,
                             bool added) {
      multiply<T>({a, a_row, 1}, {task_.wh.as<T>() + from, width, 1}, gates_.data() + to, line_, batch, count, units_,
                  {nullptr, added});
    };
    const auto gates = [&](auto kernel) {
      base::parallel_for(batch, kExpensiveGrain / (line_ + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        kernel(gate_rows(0, begin, end - begin, 0, hidden_, task_.h0.as<T>(), values<T>(task_.c0)));
      });
    };
    core::Scratch<T> unprojected(task_.projection == nullptr ? 0 : batch * hidden_, core::calling_place());
    unprojected_ = unprojected.data();
    const std::int64_t from_h = blocks_.from_h * hidden_, sums = added_ * hidden_;
    product(task_.h0.as<T>(), units_, 0, sums, from_h, true);
    if (task_.kind == RecurrentKind::gru_before) {
      gates(simd().of<T>().gru_resets);
      product(gates_.data() + 3 * hidden_, line_, sums, hidden_, 0, true);
    } else if (sums < width) {
      product(task_.h0.as<T>(), units_, sums, hidden_, from_h + sums, false);
    }
    gates(last_pass());
    if (task_.projection == nullptr) return;
    multiply<T>({unprojected.data(), hidden_, 1}, {task_.projection->as<T>(), units_, 1}, out_.h.as<T>(), units_, batch,
                units_, hidden_);
    if (out_.outputs != nullptr)
      for (std::int64_t row = 0; row < batch; ++row)
        std::copy_n(out_.h.as<T>() + row * units_, units_, out_.outputs->as<T>() + row * out_.outputs->strides[0]);
  }

  void sequence() {
    const Kept<T> entering(out_.entering_h, steps_.lines * units_);
    const Kept<T> entering_c(out_.entering_c, task_.c0 == nullptr ? 0 : steps_.lines * hidden_);
    h_ = entering.data(), c_ = task_.c0 == nullptr ? nullptr : entering_c.data();
    enter(task_.h0, out_.h, h_, units_);
    if (task_.c0 != nullptr) enter(*task_.c0, *out_.c, c_, hidden_);

    const std::int64_t width = blocks_.recurrent * hidden_;
    from_zero_ = steps_.order() == nullptr && task_.kind != RecurrentKind::gru_before &&
                 is_zero(task_.h0.as<T>(), steps_.batch * units_) && are_finite(task_.wh.as<T>(), width, units_, width);
    const RecurrentCut cut = cut_recurrent(steps_, width * units_, hidden_, sizeof(T));
    std::optional<InputLines<T>> lines;
    if (task_.index != nullptr) {
      multiply_table(cut);
    } else if (takes_inputs(cut)) {
      if (steps_.order() != nullptr) x_ = lines.emplace(steps_, task_.x).data();
      find_terms();
      if (!terms_.has_value())
        input_panels_.emplace(Matrix<const T>{task_.wx.as<T>(), width, 1}, inputs_, 1, width, cut.piece);
    } else {
      multiply_inputs(InputLines<T>(steps_, task_.x).data());
    }
    if (task_.kind == RecurrentKind::gru_before) reset_before(cut);
    else if (task_.projection != nullptr) projected(cut);
    else run_steps(cut, steps_.time, steps_.batch, gates_phase(recurrent_panels(cut)));
    if (out_.outputs != nullptr) clear_padding<T>(steps_, *out_.outputs);
  }

 private:
  /// The weights of h for all gates. Where every gate has units of its own at hand they are cut gate by gate.
  Panels<T>& recurrent_panels(const RecurrentCut& cut) {
    const std::int64_t width = blocks_.recurrent * hidden_;
    const bool by_gate = cut.by_units || added_ < blocks_.recurrent;
    return panels_.emplace(Matrix<const T>{task_.wh.as<T>(), width, 1}, units_, by_gate ? blocks_.recurrent : 1,
                           by_gate ? hidden_ : width, cut.piece);
  }
  /// Whether a step multiplies its inputs, too: few of them, in as many rows as make tiles, and the same gates as h.
  bool takes_inputs(const RecurrentCut& cut) const {
    constexpr std::int64_t kFewInputs = 64, kEnoughRows = 24;
    return !cut.by_units && added_ == blocks_.recurrent && inputs_ > 0 && inputs_ <= kFewInputs &&
           steps_.batch >= kEnoughRows;
  }
  /// Multiplies the rows of the table that inputs were looked up in. Steps take them, or gates begin with them, as they
  /// would multiply inputs: sums are the same where both products are made alike.
  void multiply_table(const RecurrentCut& cut) {
    const LookedUp<T>& from = looked_up_.emplace(steps_, task_);
    const std::int64_t rows = from.rows(), columns = task_.wx.shape[1];
    T* products = products_.emplace(rows * columns, core::calling_place()).data();
    multiply<T>({from.table(), inputs_, 1}, {task_.wx.as<T>(), columns, 1}, products, columns, rows, columns, inputs_);
    if (takes_inputs(cut)) return;
    for_gates([&](std::int64_t column, std::int64_t count, std::int64_t to) {
      base::parallel_for(steps_.lines, kCheapGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        simd().of<T>().take_terms(
            {from.terms() + begin, end - begin, products + column, columns, gates_.data() + to, line_, count, false});
      });
    });
    products_.reset();
  }
  /// Finds the terms of inputs that are one-hot: then a step takes rows of wx instead of a product.
  void find_terms() {
    const auto& strides = task_.x.strides;
    const bool even = x_ != nullptr || strides[0] == steps_.time * strides[1];
    const T* x = x_ != nullptr ? x_ : task_.x.as<T>();
    const std::int64_t step = x_ != nullptr ? inputs_ : strides[1], columns = task_.wx.shape[1];
    if (steps_.lines == 0 || !are_single_terms(x, step, 1, inputs_)) return;  // as in most sequences
    SingleTerm<T>* terms = terms_.emplace(steps_.lines, core::calling_place()).data();
    bool found = are_finite(task_.wx.as<T>(), columns, inputs_, columns);
    if (even) found = found && are_single_terms(x, step, steps_.lines, inputs_, terms);
    for (std::int64_t row = 0; found && !even && row < steps_.batch; ++row)
      found = are_single_terms(x + row * strides[0], step, steps_.time, inputs_, terms + row * steps_.time);
    if (!found) terms_.reset();
  }
  /// The rows of wx, or of the table's product, for some rows of step s.
  TermRows<T> terms_of(std::int64_t s, std::int64_t first) const {
    const T* wx = task_.wx.as<T>();
    const std::int64_t columns = task_.wx.shape[1];
    if (products_.has_value()) return {looked_up_->terms() + line_of(s, first), 1, products_->data(), columns};
    if (x_ != nullptr) return {terms_->data() + line_of(s, first), 1, wx, columns};
    return {terms_->data() + first * steps_.time + steps_.at(s), steps_.time, wx, columns};
  }
  /// The inputs of some rows of step s, from their lines, or, where all rows run, as the caller has them.
  Matrix<const T> inputs_of(std::int64_t s, std::int64_t first) const {
    if (x_ != nullptr) return {x_ + line_of(s, first) * inputs_, inputs_, 1};
    const auto& strides = task_.x.strides;
    return {task_.x.as<T>() + steps_.at(s) * strides[1] + first * strides[0], strides[0], 1};
  }
  auto gates_phase(const Panels<T>& panels) {
    return Phase{panels.pieces(),
                 [this, &panels](std::int64_t s, std::int64_t first, std::int64_t count, std::int64_t p) {
                   const std::int64_t rows = rows_of(s, first, count);
                   if (rows <= 0) return;
                   const std::int64_t line = line_of(s, first);
                   const T* h = h_ + line * units_;
                   T* gates = gates_.data() + line * line_ + blocks_.from_h * hidden_;
                   const bool zero = from_zero_ && s == 0;
                   if (terms_.has_value() || products_.has_value()) {
                     panels.multiply_onto(terms_of(s, first), h, units_, rows, gates, line_, zero);
                   } else if (input_panels_.has_value()) {
                     const Matrix<const T> x = inputs_of(s, first);
                     panels.multiply_both(*input_panels_, x.data, x.row, h, units_, rows, gates, line_, zero);
                   } else {
                     panels.multiply(h, units_, rows, p, gates, line_, panels.blocks() == 1 ? 1 : added_, zero);
                   }
                   last_pass()(gate_rows(s, first, rows, p, panels));
                 }};
  }

  /// Behind the gates of a step comes their projection.
  void projected(const RecurrentCut& cut) {
    constexpr std::int64_t kPiece = 32;  // products are cut there whatever the number of threads, for they round so
    core::Scratch<T> unprojected(steps_.batch * hidden_, core::calling_place()),
        product(steps_.batch * units_, core::calling_place());
    unprojected_ = unprojected.data(), product_ = product.data();
    run_steps(cut, steps_.time, steps_.batch, gates_phase(recurrent_panels(cut)),
              Phase{(units_ + kPiece - 1) / kPiece,
                    [this](std::int64_t s, std::int64_t first, std::int64_t count, std::int64_t p) {
                      const std::int64_t rows = rows_of(s, first, count);
                      if (rows <= 0) return;
                      const std::int64_t begin = p < 0 ? 0 : p * kPiece;
                      const std::int64_t end = p < 0 ? units_ : std::min(begin + kPiece, units_);
                      project(first, rows, begin, end);
                      deliver(s, first, rows, begin, end);
                    }});
  }

  /// The reset gate acts on h before its product: a pass for r and z, and one for n.
  void reset_before(const RecurrentCut& cut) {
    const std::int64_t width = blocks_.recurrent * hidden_;
    const Panels<T> resets({task_.wh.as<T>(), width, 1}, units_, 2, hidden_, cut.piece);
    const Panels<T> news({task_.wh.as<T>() + 2 * hidden_, width, 1}, units_, 1, hidden_, cut.piece);
    const auto phase = [this](const Panels<T>& panels, bool reset) {
      return Phase{panels.pieces(),
                   [this, &panels, reset](std::int64_t s, std::int64_t first, std::int64_t count, std::int64_t p) {
                     const std::int64_t rows = rows_of(s, first, count);
                     if (rows <= 0) return;
                     const std::int64_t line = line_of(s, first);
                     T* gates = gates_.data() + line * line_;
                     if (reset) panels.multiply(h_ + line * units_, units_, rows, p, gates + hidden_, line_, 2);
                     else panels.multiply(gates + 3 * hidden_, line_, rows, p, gates, line_, 1);
                     (reset ? simd().of<T>().gru_resets : last_pass())(gate_rows(s, first, rows, p, panels));
                   }};
    };
    run_steps(cut, steps_.time, steps_.batch, phase(resets, true), phase(news, false));
  }

  std::int64_t line_of(std::int64_t s, std::int64_t first) const { return steps_.first(steps_.at(s)) + first; }
  /// Of `count` rows from `first` on those that step s has.
  std::int64_t rows_of(std::int64_t s, std::int64_t first, std::int64_t count) const {
    return std::min(count, steps_.active(steps_.at(s)) - first);
  }

  /// The gates of all lines begin with x @ wx.
  void multiply_inputs(const T* x) {
    const std::int64_t lines = steps_.lines, columns = task_.wx.shape[1];
    const T* wx = task_.wx.as<T>();
    for_gates([&](std::int64_t from, std::int64_t count, std::int64_t to) {
      multiply_sparse<T>({x, inputs_, 1}, {wx + from, columns, 1}, gates_.data() + to, line_, lines, count, inputs_);
    });
  }
  /// use(column of wx, number of columns, column of a line) for the gates that x reaches.
  template <class Use>
  void for_gates(Use use) const {
    for_gates_of_x(task_.kind, hidden_, [&](const GateColumns& gates) { use(gates.wx, gates.count, gates.line); });
  }

  /// Initial states go where their rows begin; those of rows without steps are their last ones, too.
  void enter(const TensorImpl& initial, TensorImpl& last, T* entering, std::int64_t width) const {
    if (steps_.order() == nullptr && steps_.time > 0)  // all rows begin with the same step
      return void(std::copy_n(initial.as<T>(), steps_.batch * width, entering + line_of(0, 0) * width));
    for (std::int64_t row = 0; row < steps_.batch; ++row) {
      const std::int64_t place = steps_.place(row) * width;
      T* to = steps_.length(row) == 0 ? last.as<T>() + place : entering + steps_.entry(row) * width;
      std::copy_n(initial.as<T>() + place, width, to);
    }
  }

  /// Some rows of a sequence's step s, and the units of piece p.
  GateRows<T> gate_rows(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t p,
                        const Panels<T>& panels) const {
    const std::int64_t line = line_of(s, 0), begin = p < 0 ? 0 : panels.begin(p), end = p < 0 ? hidden_ : panels.end(p);
    return gate_rows(s, first, rows, begin, end, h_ + line * units_, c_ == nullptr ? nullptr : c_ + line * hidden_);
  }
  /// Some rows of step s, whose states begin with those of the first row at h and c.
  GateRows<T> gate_rows(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end,
                        const T* h, const T* c) const {
    const std::int64_t t = steps_.at(s), own = steps_.order() == nullptr ? first : 0;
    const std::int64_t carry = std::clamp(steps_.carry(s) - first, std::int64_t{0}, rows);
    const std::int64_t next = carry == 0 ? 0 : steps_.first(steps_.at(s + 1)) + first;
    GateRows<T> g{};
    g.rows = rows, g.hidden = hidden_, g.begin = begin, g.end = end;
    g.gates = gates_.data() + (steps_.first(t) + first) * line_;
    g.bias = bias_, g.bn = bn_;
    g.h = h + first * units_;
    g.order = steps_.order() == nullptr ? nullptr : steps_.order() + first;
    if (c != nullptr) {
      g.c = c + first * hidden_;
      g.to_c = {c_ + next * hidden_, out_.c->as<T>() + own * hidden_, carry};
    }
    if (task_.projection != nullptr) {
      g.to_h = {unprojected_ + first * hidden_, nullptr, rows};
      return g;
    }
    g.to_h = {h_ + next * units_, out_.h.as<T>() + own * units_, carry};
    if (out_.outputs != nullptr) {
      g.out_row = out_.outputs->strides[0];
      g.out = out_.outputs->as<T>() + t * out_.outputs->strides[1] + own * g.out_row;
    }
    return g;
  }

  /// The kernel that ends with the state.
  auto last_pass() const -> void (*)(const GateRows<T>&) {
    const auto& kernels = simd().of<T>();
    switch (task_.kind) {
      case RecurrentKind::rnn_tanh: return kernels.tanh_gates;
      case RecurrentKind::rnn_relu: return kernels.relu_gates;
      case RecurrentKind::gru: return kernels.gru_gates;
      case RecurrentKind::gru_before: return kernels.gru_states;
      case RecurrentKind::lstm: break;
    }
    return kernels.lstm_gates;
  }

  void project(std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end) const {
    simd().of<T>().small_gemm({unprojected_ + first * hidden_, hidden_, 1, task_.projection->as<T>() + begin, units_,
                               product_ + first * units_ + begin, units_, rows, end - begin, hidden_, false});
  }
  /// Projected states to the next step, to the last states, and to the caller.
  void deliver(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end) const {
    const std::int64_t t = steps_.at(s), carry = steps_.carry(s);
    for (std::int64_t row = first; row < first + rows; ++row) {
      const T *from = product_ + row * units_ + begin, *last = product_ + row * units_ + end;
      T* to = row < carry ? h_ + line_of(s + 1, row) * units_ : out_.h.as<T>() + steps_.place(row) * units_;
      std::copy(from, last, to + begin);
      if (out_.outputs == nullptr) continue;
      const auto& strides = out_.outputs->strides;
      std::copy(from, last, out_.outputs->as<T>() + t * strides[1] + steps_.place(row) * strides[0] + begin);
    }
  }

  const core::RecurrentTask& task_;
  const core::RecurrentResults& out_;
  const Schedule& steps_;
  GateBlocks blocks_;
  std::int64_t inputs_, hidden_, units_, line_;
  std::int64_t added_;      // blocks in which products of x and h meet; gru's last one keeps that of h
  core::Scratch<T> zeros_;  // where the caller has no bias
  const T *bias_, *bn_;
  Kept<T> gates_;
  std::optional<Panels<T>> panels_, input_panels_;     // the latter where steps multiply their inputs
  std::optional<core::Scratch<SingleTerm<T>>> terms_;  // or take rows of wx for them
  std::optional<LookedUp<T>> looked_up_;               // or, where these were looked up in a table,
  std::optional<core::Scratch<T>> products_;           // rows of its product with wx
  bool from_zero_ = false;                             // h begins with zeros: the first step has no product of it
  const T* x_ = nullptr;                               // where steps take inputs, with lengths: the lines of x
  T *h_ = nullptr, *c_ = nullptr;                      // that steps begin with
  T *unprojected_ = nullptr, *product_ = nullptr;
};

}  // namespace

void recurrent_forward(const core::RecurrentTask& task, const core::RecurrentResults& out) {
  if (is_small_lstm_step(task)) {
    core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) { small_lstm_step<T>(task, out); });
    return;
  }
  const Schedule steps(task);
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) {
    Forward<T> forward(task, out, steps);
    if (steps.time == 1 && task.lengths == nullptr) forward.step();
    else forward.sequence();
  });
}

void recurrent_both_forward(const core::RecurrentTask& a, const core::RecurrentResults& out_a,
                            const core::RecurrentTask& b, const core::RecurrentResults& out_b) {
  run_both(side_by_side(a),
           [&](std::int64_t i) { i == 0 ? recurrent_forward(a, out_a) : recurrent_forward(b, out_b); });
}

}  // namespace capstan::on_cpu
