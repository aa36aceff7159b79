// Recurrent sequences forward: the inputs of all steps are multiplied at once, the states step by step.
#include "cuda/backend.hpp"
#include "cuda/recurrent.hpp"
#include "cuda/recurrent_resident.hpp"
#include "cuda/recurrent_tiles.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace {

/// Goes over the gates of a step; `product` [rows, blocks * hidden] is h times their weights.
template <class T>
__global__ void forward_step_kernel(ForwardStep<T> s, const T* product, int lanes) {
  const std::int64_t unit = std::int64_t{blockIdx.x} * lanes + static_cast<int>(threadIdx.x) % lanes;
  const int in_block = static_cast<int>(blockDim.x) / lanes, blocks = s.products();
  if (unit >= s.hidden) return;
  for (std::int64_t row = std::int64_t{blockIdx.y} * in_block + static_cast<int>(threadIdx.x) / lanes; row < s.rows;
       row += std::int64_t{gridDim.y} * in_block) {
    const T* from = product + row * blocks * s.hidden + unit;
    T products[4] = {};
    CAPSTAN_UNROLL
    for (int q = 0; q < 4; ++q)
      if (q < blocks) products[q] = from[q * s.hidden];
    finish_forward(s, row, unit, products);
  }
}

/// The same, and the product before it.
template <class T>
__global__ void __launch_bounds__(kTileThreads) tiled_forward_kernel(ForwardStep<T> s, TileProduct<T> p) {
  __shared__ T totals[kTileRows<T> * kTileColumns];
  multiply_tile(p, totals);
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows<T> * p.units_each(); i += static_cast<int>(kTileThreads)) {
    const TileItem item = tile_item(p, i);
    if (item.row >= s.rows || item.unit >= s.hidden) continue;
    T products[4] = {};
    CAPSTAN_UNROLL
    for (int q = 0; q < 4; ++q)
      if (q < p.blocks) products[q] = totals[item.total + q];
    finish_forward(s, item.row, item.unit, products);
  }
}

/// Projected states [rows, width] to the next step, to the last states and to the caller.
template <class T>
__global__ void deliver_kernel(const T* from, std::int64_t rows, std::int64_t width, StateRows<T> to, T* out,
                               std::int64_t out_row, const std::int64_t* order) {
  for (std::int64_t i = first_index(); i < rows * width; i += index_step()) {
    const std::int64_t row = i / width, unit = i - row * width, place = order == nullptr ? row : order[row];
    to.at(row, place, width, unit) = from[i];
    if (out != nullptr) out[place * out_row + unit] = from[i];
  }
}

/// The states that steps begin with: lines that are kept, or two buffers [batch, width] by turns.
template <class T>
struct EnteringStates {
  T* data;
  std::int64_t width;
  bool kept;

  T* at(const LineView& lines, std::int64_t s) const {
    return data + (kept ? lines.first(lines.at(s)) : s % 2 * lines.batch) * width;
  }
  std::int64_t row(const LineView& lines) const { return (kept ? lines.row_step : 1) * width; }
};

template <class T>
class Forward {
 public:
  Forward(const core::RecurrentTask& task, const core::RecurrentResults& out)
      : task_(task),
        out_(out),
        plan_(task.x, task.lengths, task.reverse),
        table_(plan_.table().empty() ? Tensor() : upload(plan_.table())),
        lines_(plan_.view(plan_.table().data())),
        device_lines_(plan_.view(table_.defined() ? table_.impl()->as<std::int64_t>() : nullptr)),
        blocks_(gate_blocks(task.kind)),
        inputs_(task.wx.shape[0]),
        hidden_(task.wx.shape[1] / (is_gru(task.kind) ? 3 : blocks_.line)),
        units_(task.wh.shape[0]),
        line_(blocks_.line * hidden_),
        width_(blocks_.recurrent * hidden_),
        way_(choose_way(lines_.batch, lines_.time, hidden_, width_, task.projection != nullptr, sizeof(T),
                        kTileRows<T>)),
        own_gates_(out.gates == nullptr ? plan_.lines() * line_ : 0),
        gates_(out.gates == nullptr ? own_gates_.data() : out.gates->as<T>()) {}

  void run() {
    multiply_inputs();
    if (way_ == RecurrentWay::resident) take_all_steps();
    else take_steps();
    if (out_.outputs != nullptr && plan_.packed()) scatter_lines<T>(device_lines_, nullptr, *out_.outputs);
  }

 private:
  bool single() const { return lines_.time == 1 && !plan_.packed(); }

  /// What x gives to the sums of the gates.
  void multiply_inputs() {
    const std::int64_t lines = plan_.lines(), columns = task_.wx.shape[1];
    const DeviceArray<T> gathered(plan_.gathers() ? lines * inputs_ : 0);
    if (plan_.gathers()) gather_lines<T>(device_lines_, task_.x, gathered.data());
    const T* x = plan_.gathers() ? gathered.data() : task_.x.as<T>();
    const auto multiply = [&](std::int64_t from, std::int64_t count, std::int64_t to) {
      product<T>({x, inputs_}, {task_.wx.as<T>() + from, columns}, gates_ + to, line_, lines, count, inputs_);
    };
    if (!is_gru(task_.kind)) return multiply(0, columns, 0);
    multiply(2 * hidden_, hidden_, 0);
    multiply(0, 2 * hidden_, hidden_);
  }

  void take_all_steps() {
    ResidentForward<T> s{};
    s.kind = task_.kind, s.keeps = out_.gates != nullptr, s.hidden = static_cast<int>(hidden_);
    s.cut = cut_resident(lines_.batch, width_), s.lines = device_lines_;
    s.gates = gates_, s.wh = task_.wh.as<T>(), s.b = data_of<T>(task_.b), s.bn = data_of<T>(task_.bn);
    s.h0 = task_.h0.as<T>(), s.c0 = data_of<T>(task_.c0);
    s.last_h = out_.h.as<T>(), s.last_c = data_of<T>(out_.c);
    s.entering_h = data_of<T>(out_.entering_h), s.entering_c = data_of<T>(out_.entering_c);
    s.out = data_of<T>(out_.outputs);
    if (s.out != nullptr) s.out_row = out_.outputs->strides[0], s.out_step = out_.outputs->strides[1];
    run_resident(s);
  }

  void take_steps() {
    const bool projects = task_.projection != nullptr, tiled = way_ == RecurrentWay::tiled;
    const std::int64_t states = single() || out_.entering_h != nullptr ? 0 : 2 * lines_.batch;
    const DeviceArray<T> own_h(states * units_), own_c(task_.c0 == nullptr ? 0 : states * hidden_);
    h_ = enter(task_.h0, out_.entering_h, own_h.data(), out_.h, units_);
    if (task_.c0 != nullptr) c_ = enter(*task_.c0, out_.entering_c, own_c.data(), *out_.c, hidden_);
    const DeviceArray<T> turned(tiled ? units_ * width_ : 0), products(tiled ? 0 : lines_.batch * width_),
        unprojected(projects ? lines_.batch * hidden_ : 0), projected(projects ? lines_.batch * units_ : 0);
    turned_ = turned.data(), products_ = products.data();
    unprojected_ = unprojected.data(), projected_ = projected.data();
    if (tiled) turn_weights(turned);
    for (std::int64_t s = 0; s < lines_.time; ++s)
      if (lines_.active(lines_.at(s)) > 0) take_step(s);
  }

  /// The recurrent weights with the columns as rows.
  void turn_weights(const DeviceArray<T>& turned) const {
    const std::int64_t from[] = {1, width_}, to[] = {units_, 1};
    const Shape shape({width_, units_});
    const Tensor columns = core::make_view(task_.wh, shape, from, 0, call().where),
                 rows = core::make_view(*turned.tensor().impl(), shape, to, 0, call().where);
    copy(*columns.impl(), *rows.impl());
  }

  /// Initial states go where their rows begin. A single step reads them where they are.
  EnteringStates<T> enter(const TensorImpl& initial, TensorImpl* kept, T* own, TensorImpl& last, std::int64_t width) {
    if (single() && kept == nullptr) return {initial.as<T>(), width, false};
    const EnteringStates<T> states{kept != nullptr ? kept->as<T>() : own, width, kept != nullptr};
    enter_states<T>(device_lines_, initial.as<T>(), width, states.kept, states.data, last.as<T>());
    return states;
  }

  void take_step(std::int64_t s) {
    ForwardStep<T> step = step_of(s);
    const T* h = step.h;
    if (task_.kind == RecurrentKind::gru_before) {
      step.resets = true;
      advance(step, h, step.h_row, 0);
      step.resets = false;
      advance(step, step.gates + 3 * hidden_, step.gates_row, 2);  // r * h
    } else {
      advance(step, h, step.h_row, 0);
    }
    if (task_.projection != nullptr) project(s);
  }

  ForwardStep<T> step_of(std::int64_t s) const {
    const std::int64_t t = lines_.at(s);
    ForwardStep<T> step{};
    step.kind = task_.kind, step.keeps = out_.gates != nullptr;
    step.rows = lines_.active(t), step.hidden = hidden_;
    step.gates = gates_ + lines_.first(t) * line_, step.gates_row = lines_.row_step * line_;
    step.b = data_of<T>(task_.b), step.bn = data_of<T>(task_.bn);
    step.h = h_.at(lines_, s), step.h_row = h_.row(lines_);
    step.order = device_lines_.order;
    if (task_.c0 != nullptr) {
      step.c = c_.at(lines_, s), step.c_row = c_.row(lines_);
      step.to_c = state_rows(c_, *out_.c, s);
    }
    if (task_.projection != nullptr) {
      step.to_h = {unprojected_, hidden_, nullptr, step.rows};
      return step;
    }
    step.to_h = state_rows(h_, out_.h, s);
    step.out = outputs(t), step.out_row = output_row();
    return step;
  }

  StateRows<T> state_rows(const EnteringStates<T>& states, const TensorImpl& last, std::int64_t s) const {
    const std::int64_t carry = lines_.carry(s);
    return {carry == 0 ? nullptr : states.at(lines_, s + 1), states.row(lines_), last.as<T>(), carry};
  }
  /// Of step t, and from row to row; null if nobody wants them.
  T* outputs(std::int64_t t) const {
    return out_.outputs == nullptr ? nullptr : out_.outputs->as<T>() + t * out_.outputs->strides[1];
  }
  std::int64_t output_row() const { return out_.outputs == nullptr ? 0 : out_.outputs->strides[0]; }

  /// Through the products of `a` with blocks of the weights, from `block` on, and the gates.
  void advance(const ForwardStep<T>& step, const T* a, std::int64_t a_row, std::int64_t block) const {
    const int blocks = step.products();
    if (way_ == RecurrentWay::tiled) {
      const T* columns = turned_ + block * hidden_ * units_;
      const TileProduct<T> p{a, a_row, step.rows, units_, columns, units_, hidden_ * units_, blocks, hidden_};
      launch(tiled_forward_kernel<T>, tile_blocks(p, step.rows), dim3(kTileThreads), step, p);
      return;
    }
    product<T>({a, a_row}, {task_.wh.as<T>() + block * hidden_, width_}, products_, blocks * hidden_, step.rows,
               blocks * hidden_, units_);
    if (hidden_ == 0) return;
    const UnitCut cut = cut_units(step.rows, hidden_);
    launch(forward_step_kernel<T>, dim3(cut.across, cut.down), dim3(kThreads), step, products_, cut.lanes);
  }

  void project(std::int64_t s) const {
    const std::int64_t t = lines_.at(s), rows = lines_.active(t);
    product<T>({unprojected_, hidden_}, {task_.projection->as<T>(), units_}, projected_, units_, rows, units_, hidden_);
    launch(deliver_kernel<T>, shape_for(rows * units_), projected_, rows, units_, state_rows(h_, out_.h, s), outputs(t),
           output_row(), device_lines_.order);
  }

  const core::RecurrentTask& task_;
  const core::RecurrentResults& out_;
  LinePlan plan_;
  Tensor table_;
  LineView lines_, device_lines_;  // the same, with tables on the host and on the device
  GateBlocks blocks_;
  std::int64_t inputs_, hidden_, units_, line_, width_;
  RecurrentWay way_;
  DeviceArray<T> own_gates_;
  T* gates_;  // [lines, line]
  EnteringStates<T> h_{}, c_{};
  T *turned_ = nullptr, *products_ = nullptr;        // [width, units]: weights by columns; [rows, width]
  T *unprojected_ = nullptr, *projected_ = nullptr;  // [rows, hidden]; [rows, units]
};

}  // namespace

void recurrent_forward(const core::RecurrentTask& task, const core::RecurrentResults& out) {
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) { Forward<T>(task, out).run(); });
}

void recurrent_both_forward(const core::RecurrentTask& a, const core::RecurrentResults& out_a,
                            const core::RecurrentTask& b, const core::RecurrentResults& out_b) {
  recurrent_forward(a, out_a);
  recurrent_forward(b, out_b);
}

}  // namespace capstan::on_cuda
