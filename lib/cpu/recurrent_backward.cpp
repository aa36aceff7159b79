// Gradients of recurrent sequences: step by step back through the gates and the recurrent weights; then those of inputs
// and weights as products over all steps at once.
#include "lib/core/dispatch.hpp"
#include "lib/cpu/recurrent.hpp"
#include "lib/cpu/recurrent_sums.hpp"

namespace capstan::on_cpu {
namespace {

/// Columns worth a turn of a thread; products are cut there whatever the number of threads, for they round so.
constexpr std::int64_t kPiece = 32;

/// The sums of the columns of [lines, width], in double.
template <class T>
void sum_columns(const T* from, std::int64_t row, std::int64_t lines, std::int64_t width, T* to) {
  constexpr std::int64_t kColumns = 128;
  base::parallel_for((width + kColumns - 1) / kColumns, kCheapGrain / (lines * kColumns + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t first = begin * kColumns; first < std::min(end * kColumns, width);
                            first += kColumns) {
                         const std::int64_t count = std::min(kColumns, width - first);
                         double sums[kColumns] = {};
                         simd().of<T>().add_rows(sums, from + first, row, lines, count);
                         for (std::int64_t i = 0; i < count; ++i) to[first + i] = static_cast<T>(sums[i]);
                       }
                     });
}

template <class T>
class Backward {
 public:
  Backward(const core::RecurrentTask& task, const core::RecurrentGradients& to, const Schedule& steps)
      : task_(task),
        to_(to),
        steps_(steps),
        blocks_(gate_blocks(task.kind)),
        gru_(is_gru(task.kind)),
        reset_before_(task.kind == RecurrentKind::gru_before),
        projected_(task.projection != nullptr),
        inputs_(task.wx.shape[0]),
        columns_(task.wx.shape[1]),
        hidden_(columns_ / (gru_ ? 3 : blocks_.line)),
        units_(task.wh.shape[0]),
        line_(blocks_.line * hidden_),
        width_(blocks_.recurrent * hidden_),
        entering_h_((to.entering_h == nullptr ? task.h0 : *to.entering_h).template as<T>()),
        entering_c_(task.c0 == nullptr ? nullptr
                                       : (to.entering_c == nullptr ? *task.c0 : *to.entering_c).template as<T>()),
        pre_(std::max(steps.lines * line_, std::int64_t{1}), core::calling_place()),
        dh_(steps.batch * units_, core::calling_place()),
        dc_(task.c0 == nullptr ? 0 : steps.batch * hidden_, core::calling_place()),
        total_(projected_ ? steps.lines * units_ : 0, core::calling_place()),
        unprojected_(projected_ ? steps.lines * hidden_ : 0, core::calling_place()),
        inner_(projected_ || reset_before_ ? steps.batch * hidden_ : 0, core::calling_place()),
        turned_(projected_ ? hidden_ * units_ : 0, core::calling_place()),
        zeros_(projected_ || to.outputs == nullptr ? hidden_ : 0, core::calling_place()) {
    if (zeros_.data() != nullptr) std::fill_n(zeros_.data(), hidden_, T(0));
    for (std::int64_t i = 0; projected_ && i < hidden_; ++i)
      for (std::int64_t j = 0; j < units_; ++j) turned_[j * hidden_ + i] = task.projection->as<T>()[i * units_ + j];
  }

  void run() {
    leave(to_.last_h, dh_.data(), units_);
    if (task_.c0 != nullptr) leave(to_.last_c, dc_.data(), hidden_);
    if (steps_.time == 1 && steps_.order() == nullptr) step();
    else sequence();
    enter(dh_.data(), to_.h0, units_);
    if (task_.c0 != nullptr) enter(dc_.data(), to_.c0, hidden_);
    if (to_.projection != nullptr)
      multiply<T>({unprojected_.data(), 1, hidden_}, {total_.data(), units_, 1}, to_.projection->as<T>(), units_,
                  hidden_, units_, steps_.lines);
    if (parts_ > 1) return in_parts();
    weights();
    if (needs_table()) through_table();
    else if (to_.wx != nullptr) input_weights();
    if (to_.x != nullptr) inputs();
  }

 private:
  void step() {
    const std::int64_t batch = steps_.batch;
    const auto pass = [&](auto kernel, const T* dh) {
      base::parallel_for(batch, kCheapGrain / (line_ + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
        kernel(gate_rows(0, begin, end - begin, 0, hidden_, dh));
      });
    };
    const auto product = [&](std::int64_t from, std::int64_t column, std::int64_t count, T* to, bool added) {
      multiply<T>({pre_.data() + from, line_, 1}, {task_.wh.as<T>() + column, 1, width_}, to, units_, batch, units_,
                  count, {nullptr, added});
    };
    total(0, 0, batch, 0, units_);
    if (projected_)
      multiply<T>({total_.data(), units_, 1}, {turned_.data(), hidden_, 1}, inner_.data(), hidden_, batch, hidden_,
                  units_);
    pass(first_pass(), projected_ ? inner_.data() : dh_.data());
    if (reset_before_) {
      product(0, 2 * hidden_, hidden_, inner_.data(), false);
      pass(simd().of<T>().gru_reset_gradients, inner_.data());
    }
    if (to_.h0 == nullptr) return;
    product(blocks_.from_h * hidden_, 0, reset_before_ ? 2 * hidden_ : width_, dh_.data(), gru_);
  }

  /// Turn k: through the weights of the step that turn k-1 took, then the gates of the step before it.
  void sequence() {
    const RecurrentCut cut = cut_recurrent(steps_, width_ * units_, units_, sizeof(T));
    parts_ = parts_of_sums(steps_, cut, units_ + (needs_table() ? task_.table_rows : inputs_)), cut_ = cut;
    const std::int64_t back = reset_before_ ? 2 * hidden_ : width_;
    const Panels<T> panels({task_.wh.as<T>(), 1, width_}, back, 1, units_, cut.piece);
    const auto run = [&](const auto&... phases) { run_steps(cut, steps_.time + 1, steps_.batch, phases...); };
    if (projected_)
      run(Phase{panels.pieces(),
                [&](std::int64_t k, std::int64_t first, std::int64_t count, std::int64_t p) {
                  const std::int64_t s = steps_.time - 1 - k, begin = p < 0 ? 0 : panels.begin(p);
                  if (k > 0) products(panels, s + 1, first, count, p);
                  total(s, first, rows_of(s, first, count), begin, p < 0 ? units_ : panels.end(p));
                }},
          Phase{(hidden_ + kPiece - 1) / kPiece,
                [&](std::int64_t k, std::int64_t first, std::int64_t count, std::int64_t p) {
                  const std::int64_t s = steps_.time - 1 - k, rows = rows_of(s, first, count);
                  if (rows <= 0) return;
                  const std::int64_t begin = p < 0 ? 0 : p * kPiece,
                                     end = p < 0 ? hidden_ : std::min(begin + kPiece, hidden_);
                  unproject(s, first, rows, begin, end);
                  first_pass()(gate_rows(s, first, rows, begin, end, inner_.data()));
                }});
    else if (reset_before_) {
      const Panels<T> news({task_.wh.as<T>() + 2 * hidden_, 1, width_}, hidden_, 1, units_, cut.piece);
      run(through_gates(panels),
          Phase{news.pieces(), [&](std::int64_t k, std::int64_t first, std::int64_t count, std::int64_t p) {
                  const std::int64_t s = steps_.time - 1 - k, rows = rows_of(s, first, count);
                  if (rows <= 0) return;
                  news.multiply(pre_.data() + line_of(s, first) * line_, line_, rows, p, inner_.data() + first * units_,
                                units_, 0);
                  simd().of<T>().gru_reset_gradients(gate_rows(s, first, rows, p < 0 ? 0 : news.begin(p),
                                                               p < 0 ? hidden_ : news.end(p), inner_.data()));
                }});
    } else {
      run(through_gates(panels));
    }
  }

  auto through_gates(const Panels<T>& panels) {
    return Phase{
        panels.pieces(), [this, &panels](std::int64_t k, std::int64_t first, std::int64_t count, std::int64_t p) {
          const std::int64_t s = steps_.time - 1 - k;
          if (k > 0) products(panels, s + 1, first, count, p);
          const std::int64_t rows = rows_of(s, first, count);
          if (rows <= 0) return;
          first_pass()(
              gate_rows(s, first, rows, p < 0 ? 0 : panels.begin(p), p < 0 ? hidden_ : panels.end(p), dh_.data()));
        }};
  }

  /// Of `count` rows from `first` on those that step s has; none before the first step.
  std::int64_t rows_of(std::int64_t s, std::int64_t first, std::int64_t count) const {
    return s < 0 ? 0 : std::min(count, steps_.active(steps_.at(s)) - first);
  }
  std::int64_t line_of(std::int64_t s, std::int64_t first) const { return steps_.first(steps_.at(s)) + first; }

  /// dh of the rows that step s has = what lies before its activations @ wh^T.
  void products(const Panels<T>& panels, std::int64_t s, std::int64_t first, std::int64_t count, std::int64_t p) {
    if (s == 0 && to_.h0 == nullptr) return;
    const std::int64_t rows = rows_of(s, first, count);
    if (rows <= 0) return;
    const T* pre = pre_.data() + line_of(s, first) * line_ + blocks_.from_h * hidden_;
    panels.multiply(pre, line_, rows, p, dh_.data() + first * units_, units_, gru_ ? 1 : 0);
  }

  /// The caller's gradients of step s; null if there are none.
  const T* given(std::int64_t s, std::int64_t first) const {
    if (to_.outputs == nullptr) return nullptr;
    return to_.outputs->as<T>() + steps_.at(s) * to_.outputs->strides[1] +
           (steps_.order() == nullptr ? first * to_.outputs->strides[0] : 0);
  }
  const std::int64_t* order(std::int64_t first) const {
    return steps_.order() == nullptr ? nullptr : steps_.order() + first;
  }

  /// With a projection: the whole gradient of h at step s, which that of the projection needs too.
  void total(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    if (!projected_ || rows <= 0) return;
    const T* add = given(s, first);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* later = dh_.data() + (first + row) * units_;
      T* to = total_.data() + (line_of(s, first) + row) * units_;
      const std::int64_t place = steps_.order() == nullptr ? row : steps_.place(first + row);
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = later[i] + (add == nullptr ? T(0) : add[place * to_.outputs->strides[0] + i]);
    }
  }
  /// And back through the projection.
  void unproject(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t begin, std::int64_t end) {
    if (!projected_) return;
    simd().of<T>().small_gemm({total_.data() + line_of(s, first) * units_, units_, 1, turned_.data() + begin, hidden_,
                               inner_.data() + first * hidden_ + begin, hidden_, rows, end - begin, units_, false});
  }

  /// Some rows and units of step s; dh begins with the batch's first row.
  GateGradients<T> gate_rows(std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t begin,
                             std::int64_t end, const T* dh) {
    const std::int64_t line = line_of(s, first);
    GateGradients<T> g{};
    g.rows = rows, g.hidden = hidden_, g.begin = begin, g.end = end;
    g.gates = to_.gates.as<T>() + line * line_;
    g.h = entering_h_ + line * units_;
    g.c = entering_c_ == nullptr ? nullptr : entering_c_ + line * hidden_;
    g.dh = dh + first * hidden_;
    const bool none = projected_ || to_.outputs == nullptr;
    g.out = none ? zeros_.data() : given(s, first);
    g.out_row = none ? 0 : to_.outputs->strides[0];
    g.order = order(first);
    g.dc = entering_c_ == nullptr ? nullptr : dc_.data() + first * hidden_;
    g.pre = pre_.data() + line * line_;
    g.dh_before = dh_.data() + first * hidden_;
    g.unprojected = projected_ ? unprojected_.data() + line * hidden_ : nullptr;
    return g;
  }

  /// The kernel that begins with the state.
  auto first_pass() const -> void (*)(const GateGradients<T>&) {
    const auto& kernels = simd().of<T>();
    switch (task_.kind) {
      case RecurrentKind::rnn_tanh: return kernels.tanh_gradients;
      case RecurrentKind::rnn_relu: return kernels.relu_gradients;
      case RecurrentKind::gru: return kernels.gru_gradients;
      case RecurrentKind::gru_before: return kernels.gru_state_gradients;
      case RecurrentKind::lstm: break;
    }
    return kernels.lstm_gradients;
  }

  /// Between the caller's places and those of the schedule.
  void leave(const TensorImpl* from, T* to, std::int64_t width) const {
    if (from == nullptr) return void(std::fill_n(to, steps_.batch * width, T(0)));
    if (steps_.order() == nullptr) return void(std::copy_n(from->as<T>(), steps_.batch * width, to));
    for (std::int64_t row = 0; row < steps_.batch; ++row)
      std::copy_n(from->as<T>() + steps_.place(row) * width, width, to + row * width);
  }
  void enter(const T* from, TensorImpl* to, std::int64_t width) const {
    if (to == nullptr) return;
    if (steps_.order() == nullptr) return void(std::copy_n(from, steps_.batch * width, to->as<T>()));
    for (std::int64_t row = 0; row < steps_.batch; ++row)
      std::copy_n(from + row * width, width, to->as<T>() + steps_.place(row) * width);
  }

  struct Lines {
    std::int64_t first, count;
  };
  /// to = left^T [width, lines] times columns of `pre`.
  void over_lines(const T* left, std::int64_t width, std::int64_t from, std::int64_t count, T* to, std::int64_t to_row,
                  Lines lines) {
    const Matrix<const T> a{left + lines.first * width, 1, width},
        b{pre_.data() + lines.first * line_ + from, line_, 1};
    multiply_sparse<T>(a, b, to, to_row, width, count, lines.count);
  }
  Lines all_lines() const { return {0, steps_.lines}; }
  /// Those that wh has a part in: without the first step if h began with zeros.
  Lines lines_of_h() const {
    if (steps_.order() != nullptr || steps_.time == 1) return all_lines();
    const std::int64_t first = line_of(0, 0);
    const T* pre = pre_.data() + first * line_ + blocks_.from_h * hidden_;
    if (!is_zero(entering_h_ + first * units_, steps_.batch * units_) ||
        !are_finite(pre, line_, steps_.batch, reset_before_ ? 2 * hidden_ : width_))
      return all_lines();
    return {first == 0 ? steps_.batch : 0, steps_.lines - steps_.batch};
  }

  void weights() {
    if (to_.wh != nullptr) {
      over_lines(entering_h_, units_, blocks_.from_h * hidden_, reset_before_ ? 2 * hidden_ : width_, to_.wh->as<T>(),
                 width_, lines_of_h());
      if (reset_before_)  // n's was multiplied by r * h, the last block of its line
        multiply<T>({to_.gates.as<T>() + 3 * hidden_, 1, line_}, {pre_.data(), line_, 1}, to_.wh->as<T>() + 2 * hidden_,
                    width_, hidden_, hidden_, steps_.lines);
    }
    if (to_.b != nullptr)
      for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
        sum_columns(pre_.data() + from, line_, steps_.lines, count, to_.b->as<T>() + column);
      });
    if (to_.bn != nullptr) sum_columns(pre_.data() + 3 * hidden_, line_, steps_.lines, hidden_, to_.bn->as<T>());
  }

  void input_weights() {
    const InputLines<T> lines(steps_, task_.x);
    for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
      over_lines(lines.data(), inputs_, from, count, to_.wx->as<T>() + column, columns_, all_lines());
    });
  }

  /// Where inputs were looked up in a table, `pre` is summed over the lines of each of its rows first.
  bool needs_table() const { return task_.index != nullptr && (to_.wx != nullptr || to_.table != nullptr); }
  void through_table() {
    LookedUp<T> from(steps_, task_);
    core::Scratch<T> sums(from.rows() * line_, core::calling_place());
    from.add_up(pre_.data(), line_, sums.data());
    through_table(from, sums);
  }
  void through_table(const LookedUp<T>& from, const core::Scratch<T>& sums) {
    bool added = false;
    for_blocks([&](std::int64_t first, std::int64_t count, std::int64_t column) {
      if (to_.wx != nullptr)
        multiply<T>({from.table(), 1, inputs_}, {sums.data() + first, line_, 1}, to_.wx->as<T>() + column, columns_,
                    inputs_, count, from.rows());
      if (to_.table != nullptr)
        multiply<T>({sums.data() + first, line_, 1}, {task_.wx.as<T>() + column, 1, columns_}, to_.table->as<T>(),
                    inputs_, task_.table_rows, inputs_, count, {nullptr, added});
      added = true;
    });
  }

  void inputs() {
    const bool scatter = steps_.order() != nullptr || !in_lines(*to_.x);
    core::Scratch<T> lines(scatter ? steps_.lines * inputs_ : 0, core::calling_place());
    T* dx = scatter ? lines.data() : to_.x->as<T>();
    bool added = false;
    for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
      multiply<T>({pre_.data() + from, line_, 1}, {task_.wx.as<T>() + column, 1, columns_}, dx, inputs_, steps_.lines,
                  inputs_, count, {nullptr, added});
      added = true;
    });
    if (scatter) scatter_lines(steps_, dx, *to_.x);
  }

  /// All of that by threads that have been through the steps of some rows, for these rows.
  void in_parts() {
    PartSums<T> sums(steps_, parts_, pre_.data(), line_);
    if (to_.wh != nullptr) {
      sums.add_product(entering_h_, units_, units_, true,
                       {blocks_.from_h * hidden_, reset_before_ ? 2 * hidden_ : width_, to_.wh->as<T>(), width_});
      if (reset_before_)
        sums.add_product(to_.gates.as<T>() + 3 * hidden_, line_, hidden_, false,
                         {0, hidden_, to_.wh->as<T>() + 2 * hidden_, width_});
    }
    if (to_.b != nullptr)
      for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
        sums.add_lines({from, count, to_.b->as<T>() + column, 0});
      });
    if (to_.bn != nullptr) sums.add_lines({3 * hidden_, hidden_, to_.bn->as<T>(), 0});
    if (needs_table()) {
      const LookedUp<T> from(steps_, task_);
      core::Scratch<T> rows(from.rows() * line_, core::calling_place());
      sums.add_terms(from.terms(), from.rows(), {0, line_, rows.data(), line_});
      sums.run();
      through_table(from, rows);
    } else if (to_.wx != nullptr) {
      input_weights(sums);
    } else {
      sums.run();
    }
    if (to_.x == nullptr) return;
    if (inputs_ * line_ * static_cast<std::int64_t>(sizeof(T)) <= kCachedBytes) inputs_by_rows();
    else inputs();
  }
  void input_weights(PartSums<T>& sums) {
    const InputLines<T> lines(steps_, task_.x);
    const bool single = inputs_ > 0 && are_single_terms(lines.data(), inputs_, 1, inputs_);
    core::Scratch<SingleTerm<T>> terms(single ? steps_.lines : 0, core::calling_place());
    const bool all_single = single && are_single_terms(lines.data(), inputs_, steps_.lines, inputs_, terms.data());
    for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
      const typename PartSums<T>::Columns columns{from, count, to_.wx->as<T>() + column, columns_};
      if (all_single) sums.add_terms(terms.data(), inputs_, columns);
      else sums.add_product(lines.data(), inputs_, inputs_, false, columns);
    });
    sums.run();
    if (all_single && !are_finite(to_.wx->as<T>(), columns_, inputs_, columns_)) input_weights();
  }
  void inputs_by_rows() {
    bool added = false;
    for_blocks([&](std::int64_t from, std::int64_t width, std::int64_t column) {
      const Panels<T> panels({task_.wx.as<T>() + column, 1, columns_}, width, 1, inputs_, cut_.piece);
      run_steps(cut_, steps_.time, steps_.batch,
                Phase{panels.pieces(), [&](std::int64_t s, std::int64_t first, std::int64_t rows, std::int64_t p) {
                        const auto& strides = to_.x->strides;
                        T* dx = to_.x->as<T>() + steps_.at(s) * strides[1] + first * strides[0];
                        panels.multiply(pre_.data() + line_of(s, first) * line_ + from, line_, rows, p, dx, strides[0],
                                        added ? 1 : 0);
                      }});
      added = true;
    });
  }

  /// use(column of a line, number of columns, column of wx) for the gates that x reaches.
  template <class Use>
  void for_blocks(Use use) const {
    for_gates_of_x(task_.kind, hidden_, [&](const GateColumns& gates) { use(gates.line, gates.count, gates.wx); });
  }

  const core::RecurrentTask& task_;
  const core::RecurrentGradients& to_;
  const Schedule& steps_;
  GateBlocks blocks_;
  bool gru_, reset_before_, projected_;
  RecurrentCut cut_{};
  std::int64_t parts_ = 1;  // of sums over lines
  std::int64_t inputs_, columns_, hidden_, units_, line_, width_;
  const T *entering_h_, *entering_c_;
  core::Scratch<T> pre_;             // [lines, line]: gradients before the activations
  core::Scratch<T> dh_, dc_;         // [batch, ...]: of the states that come out of the step at hand
  core::Scratch<T> total_;           // with a projection: [lines, units], of h as it goes out
  core::Scratch<T> unprojected_;     // [lines, hidden], o * tanh(c)
  core::Scratch<T> inner_, turned_;  // [batch, hidden], of o * tanh(c) or r * h; the projection, transposed
  core::Scratch<T> zeros_;           // [hidden], where the caller gives no gradients of steps
};

}  // namespace

void recurrent_backward(const core::RecurrentTask& task, const core::RecurrentGradients& to) {
  const Schedule steps(task);
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) { Backward<T>(task, to, steps).run(); });
}

void recurrent_both_backward(const core::RecurrentTask& a, const core::RecurrentGradients& to_a,
                             const core::RecurrentTask& b, const core::RecurrentGradients& to_b) {
  run_both(side_by_side(a),
           [&](std::int64_t i) { i == 0 ? recurrent_backward(a, to_a) : recurrent_backward(b, to_b); });
}

}  // namespace capstan::on_cpu
