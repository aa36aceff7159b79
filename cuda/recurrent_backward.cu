// Gradients of recurrent sequences: step by step back through the gates and the recurrent weights; then those of inputs
// and weights as products over all steps at once.
#include "cuda/backend.hpp"
#include "cuda/recurrent.hpp"
#include "cuda/recurrent_resident.hpp"
#include "cuda/recurrent_tiles.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace {

/// Calls use(row, unit) for the units of a step's rows: see cut_units.
template <class Use>
__device__ inline void for_units(std::int64_t rows, std::int64_t width, int lanes, Use use) {
  const std::int64_t unit = std::int64_t{blockIdx.x} * lanes + static_cast<int>(threadIdx.x) % lanes;
  const int in_block = static_cast<int>(blockDim.x) / lanes;
  if (unit >= width) return;
  for (std::int64_t row = std::int64_t{blockIdx.y} * in_block + static_cast<int>(threadIdx.x) / lanes; row < rows;
       row += std::int64_t{gridDim.y} * in_block)
    use(row, unit);
}

/// Back through the gates of a step; `grad` [rows, hidden] is that of the states after.
template <class T>
struct ThroughGates {
  const BackwardStep<T>& s;
  const T* grad;
  __device__ void operator()(std::int64_t row, std::int64_t unit) const {
    finish_backward(s, row, unit, grad[row * s.hidden + unit]);
  }
};
template <class T>
__global__ void backward_step_kernel(BackwardStep<T> s, const T* grad, int lanes) {
  for_units(s.rows, s.hidden, lanes, ThroughGates<T>{s, grad});
}

/// Of gru_before, through the reset gate; `grad` is that of r * h.
template <class T>
struct ThroughReset {
  const BackwardStep<T>& s;
  const T* grad;
  __device__ void operator()(std::int64_t row, std::int64_t unit) const {
    finish_reset(s, row, unit, grad[row * s.hidden + unit]);
  }
};
template <class T>
__global__ void reset_step_kernel(BackwardStep<T> s, const T* grad, int lanes) {
  for_units(s.rows, s.hidden, lanes, ThroughReset<T>{s, grad});
}

/// With a projection: the whole gradient of a step's outputs [rows, width], of later steps and of the caller.
template <class T>
struct Total {
  const T* later;
  std::int64_t width;
  const T* given;
  std::int64_t given_row;
  const std::int64_t* order;
  T* to;
  std::int64_t to_row;
  __device__ void operator()(std::int64_t row, std::int64_t unit) const {
    const std::int64_t place = order == nullptr ? row : order[row];
    to[row * to_row + unit] = later[row * width + unit] + (given == nullptr ? T(0) : given[place * given_row + unit]);
  }
};
template <class T>
__global__ void total_kernel(Total<T> total, std::int64_t rows, int lanes) {
  for_units(rows, total.width, lanes, total);
}

/// Through the weights of the step that comes after, and the gates of this one.
template <class T>
__global__ void __launch_bounds__(kTileThreads) tiled_backward_kernel(BackwardStep<T> s, TileProduct<T> p) {
  __shared__ T totals[kTileRows<T> * kTileColumns];
  multiply_tile(p, totals);
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows<T> * p.units_each(); i += static_cast<int>(kTileThreads)) {
    const TileItem item = tile_item(p, i);
    if (item.unit >= s.hidden || (item.row >= s.rows && item.row >= p.rows)) continue;
    T& own = s.dh[item.row * s.hidden + item.unit];
    T dh = item.row >= p.rows || is_gru(s.kind) ? own : T(0);
    if (item.row < p.rows) dh += totals[item.total];
    if (item.row < s.rows) finish_backward(s, item.row, item.unit, dh);
    else own = dh;  // of a row that has no more steps
  }
}

template <class T>
__global__ void __launch_bounds__(kTileThreads) tiled_reset_kernel(BackwardStep<T> s, TileProduct<T> p) {
  __shared__ T totals[kTileRows<T> * kTileColumns];
  multiply_tile(p, totals);
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows<T> * p.units_each(); i += static_cast<int>(kTileThreads)) {
    const TileItem item = tile_item(p, i);
    if (item.row < s.rows && item.unit < s.hidden) finish_reset(s, item.row, item.unit, totals[item.total]);
  }
}

template <class T>
class Backward {
 public:
  Backward(const core::RecurrentTask& task, const core::RecurrentGradients& to)
      : task_(task),
        to_(to),
        plan_(task.x, task.lengths, task.reverse),
        table_(plan_.table().empty() ? Tensor() : upload(plan_.table())),
        lines_(plan_.view(plan_.table().data())),
        device_lines_(plan_.view(table_.defined() ? table_.impl()->as<std::int64_t>() : nullptr)),
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
        back_(reset_before_ ? 2 * hidden_ : width_),
        way_(choose_way(lines_.batch, lines_.time, hidden_, width_, projected_, sizeof(T), kTileRows<T>)),
        entering_h_((to.entering_h == nullptr ? task.h0 : *to.entering_h).template as<T>()),
        entering_c_(to.entering_c == nullptr ? data_of<T>(task.c0) : to.entering_c->as<T>()),
        sums_(plan_.lines() * line_),
        totals_(projected_ ? plan_.lines() * units_ : 0),
        unprojected_(projected_ ? plan_.lines() * hidden_ : 0) {}

  void run() {
    if (way_ == RecurrentWay::resident) take_all_steps();
    else if (lines_.batch > 0) take_steps();
    weights();
    inputs();
  }

 private:
  void take_all_steps() {
    ResidentBackward<T> s{};
    s.kind = task_.kind, s.hidden = static_cast<int>(hidden_);
    s.cut = cut_resident(lines_.batch, width_), s.lines = device_lines_;
    s.gates = to_.gates.as<T>(), s.wh = task_.wh.as<T>();
    s.entering_h = entering_h_, s.entering_c = entering_c_;
    s.given = data_of<T>(to_.outputs);
    if (s.given != nullptr) s.given_row = to_.outputs->strides[0], s.given_step = to_.outputs->strides[1];
    s.last_h = data_of<T>(to_.last_h), s.last_c = data_of<T>(to_.last_c);
    s.sums = sums_.data(), s.dh0 = data_of<T>(to_.h0), s.dc0 = data_of<T>(to_.c0);
    run_resident(s);
  }

  void take_steps() {
    // rows that are in the caller's order can be where he wants them
    const bool own_h = to_.h0 == nullptr || plan_.packed(), own_c = to_.c0 == nullptr || plan_.packed();
    const DeviceArray<T> dh(own_h ? lines_.batch * units_ : 0),
        dc(own_c && task_.c0 != nullptr ? lines_.batch * hidden_ : 0),
        inner(projected_ || reset_before_ ? lines_.batch * hidden_ : 0);
    dh_ = own_h ? dh.data() : to_.h0->as<T>();
    dc_ = own_c ? dc.data() : to_.c0->as<T>();
    inner_ = inner.data();
    order_rows<T>(device_lines_, data_of<T>(to_.last_h), units_, false, dh_);
    if (task_.c0 != nullptr) order_rows<T>(device_lines_, data_of<T>(to_.last_c), hidden_, false, dc_);
    for (std::int64_t s = lines_.time - 1; s >= 0; --s) {
      if (way_ == RecurrentWay::tiled) take_tiled_step(s);
      else take_step(s);
    }
    if (way_ == RecurrentWay::tiled && lines_.time > 0) multiply_back(0);
    if (own_h && to_.h0 != nullptr) order_rows<T>(device_lines_, dh_, units_, true, to_.h0->as<T>());
    if (own_c && to_.c0 != nullptr) order_rows<T>(device_lines_, dc_, hidden_, true, to_.c0->as<T>());
  }

  void take_step(std::int64_t s) {
    BackwardStep<T> step = step_of(s);
    const std::int64_t line = lines_.first(lines_.at(s));
    const T* grad = dh_;
    if (projected_) {
      T* to = totals_.data() + line * units_;
      const Total<T> total{dh_, units_, step.given, step.given_row, step.order, to, lines_.row_step * units_};
      step.given = nullptr;
      launch_units(total_kernel<T>, step.rows, units_, total, step.rows);
      product<T>({total.to, total.to_row}, {task_.projection->as<T>(), units_, true}, inner_, hidden_, step.rows,
                 hidden_, units_);
      grad = inner_;
    }
    launch_units(backward_step_kernel<T>, step.rows, hidden_, step, grad);
    if (reset_before_) {
      product<T>({step.sums, step.line_row}, {task_.wh.as<T>() + 2 * hidden_, width_, true}, inner_, hidden_, step.rows,
                 hidden_, hidden_);
      launch_units(reset_step_kernel<T>, step.rows, hidden_, step, inner_);
    }
    multiply_back(s);
  }

  void take_tiled_step(std::int64_t s) {
    const BackwardStep<T> step = step_of(s);
    const T* wh = task_.wh.as<T>();
    if (s + 1 == lines_.time) {
      launch_units(backward_step_kernel<T>, step.rows, hidden_, step, dh_);
    } else {
      const std::int64_t later = lines_.at(s + 1), rows = lines_.active(later);
      const T* from = sums_.data() + lines_.first(later) * line_ + blocks_.from_h * hidden_;
      const TileProduct<T> p{from, step.line_row, rows, back_, wh, width_, 0, 1, hidden_};
      launch(tiled_backward_kernel<T>, tile_blocks(p, std::max(rows, step.rows)), dim3(kTileThreads), step, p);
    }
    if (!reset_before_) return;
    const TileProduct<T> p{step.sums, step.line_row, step.rows, hidden_, wh + 2 * hidden_, width_, 0, 1, hidden_};
    launch(tiled_reset_kernel<T>, tile_blocks(p, step.rows), dim3(kTileThreads), step, p);
  }

  BackwardStep<T> step_of(std::int64_t s) const {
    const std::int64_t t = lines_.at(s), line = lines_.first(t);
    BackwardStep<T> step{};
    step.kind = task_.kind, step.rows = lines_.active(t), step.hidden = hidden_;
    step.gates = to_.gates.as<T>() + line * line_, step.sums = sums_.data() + line * line_;
    step.line_row = lines_.row_step * line_;
    step.h = entering_h_ + line * units_, step.h_row = lines_.row_step * units_;
    if (entering_c_ != nullptr) step.c = entering_c_ + line * hidden_, step.c_row = lines_.row_step * hidden_;
    if (to_.outputs != nullptr) {
      step.given = to_.outputs->as<T>() + t * to_.outputs->strides[1];
      step.given_row = to_.outputs->strides[0];
    }
    step.order = device_lines_.order;
    step.dh = dh_, step.dc = dc_;
    if (projected_) step.unprojected = unprojected_.data() + line * hidden_;
    step.unprojected_row = lines_.row_step * hidden_;
    return step;
  }

  template <class Kernel, class... Arguments>
  static void launch_units(Kernel kernel, std::int64_t rows, std::int64_t width, const Arguments&... arguments) {
    if (rows == 0 || width == 0) return;
    const UnitCut cut = cut_units(rows, width);
    launch(kernel, dim3(cut.across, cut.down), dim3(kThreads), arguments..., cut.lanes);
  }

  /// Through the weights of step s: dh of its rows.
  void multiply_back(std::int64_t s) const {
    if (s == 0 && to_.h0 == nullptr) return;
    const std::int64_t t = lines_.at(s);
    const T* from = sums_.data() + lines_.first(t) * line_ + blocks_.from_h * hidden_;
    product<T>({from, lines_.row_step * line_}, {task_.wh.as<T>(), width_, true}, dh_, units_, lines_.active(t), units_,
               back_, gru_);
  }

  /// to = left^T [width, lines] times columns of the gradients before the activations.
  void over_lines(const T* left, std::int64_t left_row, std::int64_t width, std::int64_t from, std::int64_t count,
                  T* to, std::int64_t to_row) const {
    product<T>({left, left_row, true}, {sums_.data() + from, line_}, to, to_row, width, count, plan_.lines());
  }

  void weights() const {
    if (to_.wx != nullptr) {
      const DeviceArray<T> gathered(plan_.gathers() ? plan_.lines() * inputs_ : 0);
      if (plan_.gathers()) gather_lines<T>(device_lines_, task_.x, gathered.data());
      const T* x = plan_.gathers() ? gathered.data() : task_.x.as<T>();
      for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
        over_lines(x, inputs_, inputs_, from, count, to_.wx->as<T>() + column, columns_);
      });
    }
    if (to_.wh != nullptr) {
      over_lines(entering_h_, units_, units_, blocks_.from_h * hidden_, back_, to_.wh->as<T>(), width_);
      if (reset_before_)  // n's was multiplied by r * h, the last block of its line
        over_lines(to_.gates.as<T>() + 3 * hidden_, line_, hidden_, 0, hidden_, to_.wh->as<T>() + 2 * hidden_, width_);
    }
    sum_biases<T>(task_.kind, sums_.data(), plan_.lines(), hidden_, data_of<T>(to_.b), data_of<T>(to_.bn));
    if (to_.projection != nullptr)
      product<T>({unprojected_.data(), hidden_, true}, {totals_.data(), units_}, to_.projection->as<T>(), units_,
                 hidden_, units_, plan_.lines());
  }

  void inputs() const {
    if (to_.x == nullptr) return;
    const bool scatters = plan_.packed() || !plan_.holds(*to_.x);
    const DeviceArray<T> own(scatters ? plan_.lines() * inputs_ : 0);
    T* dx = scatters ? own.data() : to_.x->as<T>();
    bool added = false;
    for_blocks([&](std::int64_t from, std::int64_t count, std::int64_t column) {
      product<T>({sums_.data() + from, line_}, {task_.wx.as<T>() + column, columns_, true}, dx, inputs_, plan_.lines(),
                 inputs_, count, added);
      added = true;
    });
    if (scatters) scatter_lines<T>(device_lines_, dx, *to_.x);
  }

  /// use(column of a line, number of columns, column of wx) for the gates that x reaches.
  template <class Use>
  void for_blocks(Use use) const {
    if (!gru_) return use(std::int64_t{0}, line_, std::int64_t{0});
    use(hidden_, 2 * hidden_, std::int64_t{0});
    use(std::int64_t{0}, hidden_, 2 * hidden_);
  }

  const core::RecurrentTask& task_;
  const core::RecurrentGradients& to_;
  LinePlan plan_;
  Tensor table_;
  LineView lines_, device_lines_;  // the same, with tables on the host and on the device
  GateBlocks blocks_;
  bool gru_, reset_before_, projected_;
  std::int64_t inputs_, columns_, hidden_, units_, line_, width_;
  std::int64_t back_;  // columns of wh through which dh comes at once
  RecurrentWay way_;
  const T *entering_h_, *entering_c_;
  DeviceArray<T> sums_;                  // [lines, line]: gradients before the activations
  DeviceArray<T> totals_, unprojected_;  // with a projection: [lines, units], of the outputs; [lines, hidden]
  T *dh_ = nullptr, *dc_ = nullptr;      // [batch, ...]: of the states that come out of the step at hand
  T* inner_ = nullptr;                   // [batch, hidden]: of what is projected, or of r * h
};

}  // namespace

void recurrent_backward(const core::RecurrentTask& task, const core::RecurrentGradients& to) {
  core::visit_floating(task.x.dtype, [&]<class T>(core::Type<T>) { Backward<T>(task, to).run(); });
}

void recurrent_both_backward(const core::RecurrentTask& a, const core::RecurrentGradients& to_a,
                             const core::RecurrentTask& b, const core::RecurrentGradients& to_b) {
  recurrent_backward(a, to_a);
  recurrent_backward(b, to_b);
}

}  // namespace capstan::on_cuda
