// Recurrent sequences: the inputs of all steps are multiplied at once, and step by step the states; the gates of a step
// are gone over once, where they lie in the cache.
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
      : own_(kept == nullptr ? count : 0, Where::current()), data_(kept == nullptr ? own_.data() : kept->as<T>()) {}
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
        hidden_(task.wx.shape[1] / (task.kind == RecurrentKind::gru ? 3 : blocks_.line)),
        units_(task.wh.shape[0]),
        line_(blocks_.line * hidden_),
        added_(task.kind == RecurrentKind::gru ? 2 : blocks_.recurrent),
        gates_(out.gates, steps.lines * line_) {}

  /// A single step of all rows: weights are used once, so nothing is packed.
  void step() {
    multiply_inputs();
    const std::int64_t batch = steps_.batch, width = blocks_.recurrent * hidden_;
    const auto product = [&](std::int64_t from, std::int64_t count, bool added) {
      multiply<T>({task_.h0.as<T>(), units_, 1}, {task_.wh.as<T>() + from, width, 1},
                  gates_.data() + blocks_.from_h * hidden_ + from, line_, batch, count, units_, added);
    };
    product(0, added_ * hidden_, true);
    if (added_ < blocks_.recurrent) product(added_ * hidden_, hidden_, false);
    core::Scratch<T> unprojected(task_.projection == nullptr ? 0 : batch * hidden_, Where::current());
    unprojected_ = unprojected.data();
    base::parallel_for(batch, kExpensiveGrain / (line_ + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      run_gates(gate_rows(0, begin, end - begin, 0, hidden_, task_.h0.as<T>(), values<T>(task_.c0)));
    });
    if (task_.projection == nullptr) return;
    multiply<T>({unprojected.data(), hidden_, 1}, {task_.projection->as<T>(), units_, 1}, out_.h.as<T>(), units_, batch,
                units_, hidden_, false);
    if (out_.outputs != nullptr)
      for (std::int64_t row = 0; row < batch; ++row)
        std::copy_n(out_.h.as<T>() + row * units_, units_, out_.outputs->as<T>() + row * out_.outputs->strides[0]);
  }

  void sequence() {
    const Kept<T> entering(out_.entering_h, steps_.lines * units_);
    const Kept<T> entering_c(out_.entering_c, task_.c0 == nullptr ? 0 : steps_.lines * hidden_);
    h_ = entering.data(), c_ = task_.c0 == nullptr ? nullptr : entering_c.data();
    multiply_inputs();
    enter(task_.h0, out_.h, h_, units_);
    if (task_.c0 != nullptr) enter(*task_.c0, *out_.c, c_, hidden_);

    const std::int64_t width = blocks_.recurrent * hidden_;
    const RecurrentCut cut = cut_recurrent(steps_, width * units_, sizeof(T));
    const bool cut_blocks = cut.by_units || added_ < blocks_.recurrent;
    const Panels<T> panels({task_.wh.as<T>(), width, 1}, units_, cut_blocks ? blocks_.recurrent : 1,
                           cut_blocks ? hidden_ : width, cut.piece);
    const std::int64_t projected = task_.projection == nullptr ? 0 : steps_.batch;
    core::Scratch<T> unprojected(projected * hidden_, Where::current()), product(projected * units_, Where::current());
    unprojected_ = unprojected.data(), product_ = product.data();
    if (cut.by_units && projected > 0) sequence_by_phases(panels);
    else
      run_steps(cut, steps_.time, steps_.batch, panels.pieces(),
                [&](std::int64_t s, std::int64_t first, std::int64_t count, std::int64_t p) {
                  const std::int64_t rows = std::min(count, steps_.active(steps_.at(s)) - first);
                  if (rows <= 0) return;
                  gates(panels, s, first, rows, p);
                  if (projected > 0) project(first, rows, 0, units_), deliver(s, first, rows);
                });
    if (out_.outputs != nullptr) clear_padding<T>(steps_, *out_.outputs);
  }

 private:
  /// With a projection every step is three meetings of the threads: gates, products, and where these go.
  void sequence_by_phases(const Panels<T>& panels) {
    constexpr std::int64_t kPiece = 32;
    for (std::int64_t s = 0; s < steps_.time; ++s) {
      const std::int64_t rows = steps_.active(steps_.at(s));
      base::parallel_for(panels.pieces(), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) gates(panels, s, 0, rows, p);
      });
      base::parallel_for((units_ + kPiece - 1) / kPiece, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p)  // one by one: how products are cut shows in the last digits
          project(0, rows, p * kPiece, std::min((p + 1) * kPiece, units_));
      });
      deliver(s, 0, rows);
    }
  }

  /// The first lines of every gate: x @ wx.
  void multiply_inputs() {
    const std::int64_t lines = steps_.lines, columns = task_.wx.shape[1];
    const bool gather = steps_.order() != nullptr || !in_lines(task_.x);
    core::Scratch<T> gathered(gather ? lines * inputs_ : 0, Where::current());
    if (gather) gather_lines(steps_, task_.x, gathered.data());
    const T* x = gather ? gathered.data() : task_.x.as<T>();
    const T* wx = task_.wx.as<T>();
    const auto product = [&](std::int64_t from, std::int64_t count, std::int64_t to) {
      multiply<T>({x, inputs_, 1}, {wx + from, columns, 1}, gates_.data() + to, line_, lines, count, inputs_, false);
    };
    if (task_.kind != RecurrentKind::gru) return product(0, columns, 0);
    product(2 * hidden_, hidden_, 0);
    product(0, 2 * hidden_, hidden_);
  }

  /// Initial states go where their rows begin; those of rows without steps are their last ones, too.
  void enter(const TensorImpl& initial, TensorImpl& last, T* entering, std::int64_t width) const {
    for (std::int64_t row = 0; row < steps_.batch; ++row) {
      const std::int64_t place = steps_.place(row) * width;
      T* to = steps_.length(row) == 0 ? last.as<T>() + place : entering + steps_.entry(row) * width;
      std::copy_n(initial.as<T>() + place, width, to);
    }
  }

  /// The product of piece p, or of all, and the gates of its units.
  void gates(const Panels<T>& panels, std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t p) const {
    const std::int64_t line = steps_.first(steps_.at(s)) + first;
    T* to = gates_.data() + line * line_ + blocks_.from_h * hidden_;
    for (std::int64_t i = p < 0 ? 0 : p; i < (p < 0 ? panels.pieces() : p + 1); ++i)
      panels.multiply(h_ + line * units_, units_, rows, i, to, line_, panels.blocks() == 1 ? 1 : added_);
    const std::int64_t begin = p < 0 ? 0 : panels.begin(p), end = p < 0 ? hidden_ : panels.end(p);
    const std::int64_t t_line = steps_.first(steps_.at(s));
    run_gates(
        gate_rows(s, first, rows, begin, end, h_ + t_line * units_, c_ == nullptr ? nullptr : c_ + t_line * hidden_));
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
    g.bias = values<T>(task_.b), g.bn = values<T>(task_.bn);
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

  void run_gates(const GateRows<T>& g) const {
    const auto& kernels = simd().of<T>();
    switch (task_.kind) {
      case RecurrentKind::rnn_tanh: return kernels.tanh_gates(g);
      case RecurrentKind::rnn_relu: return kernels.relu_gates(g);
      case RecurrentKind::gru: return kernels.gru_gates(g);
      case RecurrentKind::lstm: return kernels.lstm_gates(g);
    }
  }

  void project(std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end) const {
    simd().of<T>().small_gemm({unprojected_ + first * hidden_, hidden_, 1, task_.projection->as<T>() + begin, units_,
                               product_ + first * units_ + begin, units_, rows, end - begin, hidden_, false});
  }
  /// Projected states to the next step, to the last states, and to the caller.
  void deliver(std::int64_t s, std::int64_t first, std::int64_t rows) const {
    const std::int64_t t = steps_.at(s), carry = steps_.carry(s);
    for (std::int64_t row = first; row < first + rows; ++row) {
      const T* h = product_ + row * units_;
      T* to = row < carry ? h_ + (steps_.first(steps_.at(s + 1)) + row) * units_
                          : out_.h.as<T>() + steps_.place(row) * units_;
      std::copy_n(h, units_, to);
      if (out_.outputs != nullptr)
        std::copy_n(
            h, units_,
            out_.outputs->as<T>() + t * out_.outputs->strides[1] + steps_.place(row) * out_.outputs->strides[0]);
    }
  }

  const core::RecurrentTask& task_;
  const core::RecurrentResults& out_;
  const Schedule& steps_;
  GateBlocks blocks_;
  std::int64_t inputs_, hidden_, units_, line_;
  std::int64_t added_;  // blocks in which products of x and h meet; gru's last one keeps that of h
  Kept<T> gates_;
  T *h_ = nullptr, *c_ = nullptr;  // that steps begin with
  T *unprojected_ = nullptr, *product_ = nullptr;
};

}  // namespace

void recurrent_forward(const core::RecurrentTask& task, const core::RecurrentResults& out) {
  if (is_small_lstm_step(task)) {
    core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) { small_lstm_step<T>(task, out); });
    return;
  }
  const Schedule steps(task.x.shape[0], task.x.rank() == 2 ? 1 : task.x.shape[1], task.lengths, task.reverse);
  require_blas_sizes("recurrent sequence", {steps.lines, task.wx.shape[0], 4 * task.wx.shape[1]});
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) {
    Forward<T> forward(task, out, steps);
    if (steps.time == 1 && task.lengths == nullptr) forward.step();
    else forward.sequence();
  });
}

}  // namespace capstan::on_cpu
