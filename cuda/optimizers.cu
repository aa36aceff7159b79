// Steps of optimizers. One launch changes many parameters: a block of threads has a piece of one of them.
#include <cstring>
#include <vector>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/lookup.cuh"
#include "cuda/values.cuh"
#include "lib/kernels/optimizer_steps.hpp"

namespace capstan::on_cuda {
namespace {

constexpr int kMostTensors = 40;       // of one launch: they have to fit among its arguments
constexpr std::int64_t kPiece = 8192;  // elements of a block
constexpr int kBlock = static_cast<int>(kThreads);

/// Gradients of some rows of a parameter [height, width]; all others are zero, or stay as they are. Null indices: the
/// gradient is whole.
struct GradientRows {
  const std::int64_t* indices;
  std::int64_t count, height, width;
  bool touched;  // only those rows change
};

/// A parameter, its gradient and its states; `count` elements have a step to do, in packs if all lie well.
struct Item {
  void* p;
  const void* g;
  void* states[kMostStates];
  std::int64_t count;
  bool packs;
};

/// Parameters that take the same step.
struct Batch {
  Item items[kMostTensors];
  int pieces_before[kMostTensors + 1];  // and all of them in the last
  int size;
  int rule;
  UpdateNumbers numbers;
  const UpdateNumbers* replayed;  // not null: these count
  GradientRows rows;              // of the only item, if it has such
};
static_assert(sizeof(Batch) < 4000, "the arguments of a launch have room for 4 KB");

// --- on the device ---

/// What a block has to do.
template <class P>
struct Piece {
  using T = Compute<P>;
  P* p;
  const P* g;
  T* states[kMostStates];
  std::int64_t begin, end;
  bool packs;
};

__device__ int item_of(const Batch& batch) {
  const int piece = static_cast<int>(blockIdx.x);
  int item = 0;
  while (batch.pieces_before[item + 1] <= piece) ++item;
  return item;
}
template <class P>
__device__ Piece<P> piece_of(const Batch& batch, int number) {
  const Item& item = batch.items[number];
  const std::int64_t begin = (static_cast<std::int64_t>(blockIdx.x) - batch.pieces_before[number]) * kPiece;
  Piece<P> piece{static_cast<P*>(item.p), static_cast<const P*>(item.g), {}, begin, begin + kPiece, item.packs};
  for (int k = 0; k < kMostStates; ++k) piece.states[k] = static_cast<Compute<P>*>(item.states[k]);
  if (piece.end > item.count) piece.end = item.count;
  return piece;
}
__device__ UpdateNumbers numbers_of(const Batch& batch) {
  return batch.replayed != nullptr ? *batch.replayed : batch.numbers;
}

/// Where the i-th element stands that has a step to do, -1 for nowhere; and its gradient, null for zero.
template <class P>
struct Place {
  std::int64_t at;
  const P* g;
};
template <class P>
__device__ Place<P> place_of(const GradientRows& rows, const P* g, std::int64_t i) {
  if (rows.indices == nullptr) return {i, g + i};
  const std::int64_t line = i / rows.width, column = i - line * rows.width;
  if (rows.touched) {
    const std::int64_t row = rows.indices[line];
    return {row >= 0 && row < rows.height ? row * rows.width + column : -1, g + i};
  }
  const std::int64_t given = count_below(rows.indices, rows.count, line);
  const bool found = given < rows.count && rows.indices[given] == line;
  return {i, found ? g + given * rows.width + column : nullptr};
}

/// What happens to an element x whose gradient is g: the step of a rule.
template <class Rule>
struct Step {
  static constexpr int states = Rule::states;
  static constexpr bool moves = true;
  const UpdateNumbers& n;
  template <class T>
  __device__ void operator()(T& x, T g, T* s) {
    Rule::step(x, g, s, n);
  }
};
/// The first half of lamb's: the states move, and the squares of x and of its direction are added up.
struct LambMoments {
  static constexpr int states = 2;
  static constexpr bool moves = false;
  const UpdateNumbers& n;
  double parameter = 0, direction = 0;
  template <class T>
  __device__ void operator()(T& x, T g, T* s) {
    kernels::LambStep::step(x, g, s, n);
    const auto d = static_cast<double>(kernels::LambStep::direction(x, s[0], s[1], n)), p = static_cast<double>(x);
    parameter += p * p;
    direction += d * d;
  }
};

/// N elements side by side.
template <int N, class P, class Body>
__device__ void change(const Piece<P>& piece, const Place<P>& place, Body& body) {
  using T = Compute<P>;
  using Packed = Pack<P, N>;
  using State = Pack<T, N>;
  Packed x = *reinterpret_cast<const Packed*>(piece.p + place.at), g;
  State states[kMostStates];
  if (place.g != nullptr) g = *reinterpret_cast<const Packed*>(place.g);
  else
    for (int n = 0; n < N; ++n) g.values[n] = narrow<P>(T(0));
  for (int k = 0; k < Body::states; ++k) states[k] = *reinterpret_cast<const State*>(piece.states[k] + place.at);
  for (int n = 0; n < N; ++n) {
    T value = widen(x.values[n]), own[kMostStates] = {};
    for (int k = 0; k < Body::states; ++k) own[k] = states[k].values[n];
    body(value, widen(g.values[n]), own);
    x.values[n] = narrow<P>(value);
    for (int k = 0; k < Body::states; ++k) states[k].values[n] = own[k];
  }
  if constexpr (Body::moves) *reinterpret_cast<Packed*>(piece.p + place.at) = x;
  for (int k = 0; k < Body::states; ++k) *reinterpret_cast<State*>(piece.states[k] + place.at) = states[k];
}

template <int N, class P, class Body>
__device__ void change_all(const Piece<P>& piece, std::int64_t begin, std::int64_t end, const GradientRows& rows,
                           Body& body) {
  for (std::int64_t i = begin + N * static_cast<int>(threadIdx.x); i < end; i += N * kBlock) {
    const Place<P> place = place_of(rows, piece.g, i);
    if (place.at >= 0) change<N>(piece, place, body);
  }
}

template <class P>
constexpr int kAside = 16 / static_cast<int>(sizeof(Compute<P>));

template <class P, class Body>
__device__ void run_piece(const Piece<P>& piece, const GradientRows& rows, Body& body) {
  constexpr int N = kAside<P>;
  const std::int64_t whole = piece.packs ? (piece.end - piece.begin) / N * N : 0;
  change_all<N>(piece, piece.begin, piece.begin + whole, rows, body);
  change_all<1>(piece, piece.begin + whole, piece.end, rows, body);
}

template <class Rule, class P>
__device__ void run_if(bool wanted, const Piece<P>& piece, const GradientRows& rows, const UpdateNumbers& n) {
  if (!wanted) return;
  Step<Rule> step{n};
  run_piece(piece, rows, step);
}
template <class P, class... Rules>
__device__ void run_rule(int rule, const Piece<P>& piece, const GradientRows& rows, const UpdateNumbers& n,
                         std::tuple<Rules...>*) {
  int number = 0;
  (run_if<Rules>(number++ == rule, piece, rows, n), ...);
}

/// One kernel holds all rules: choosing among them costs nothing beside the memory, and compiles once.
template <class P>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ Batch batch) {
  const Piece<P> piece = piece_of<P>(batch, item_of(batch));
  run_rule(batch.rule, piece, batch.rows, numbers_of(batch), static_cast<kernels::StepRules*>(nullptr));
}

/// squares [pieces, 2]
template <class P>
__global__ void __launch_bounds__(kThreads) lamb_moments_kernel(const __grid_constant__ Batch batch, double* squares) {
  const Piece<P> piece = piece_of<P>(batch, item_of(batch));
  const UpdateNumbers n = numbers_of(batch);
  LambMoments body{n};
  run_piece(piece, batch.rows, body);
  const double parameter = block_reduce<kBlock>(body.parameter, Add{});
  const double direction = block_reduce<kBlock>(body.direction, Add{});
  if (threadIdx.x != 0) return;
  squares[2 * static_cast<std::int64_t>(blockIdx.x)] = parameter;
  squares[2 * static_cast<std::int64_t>(blockIdx.x) + 1] = direction;
}

/// A block for each parameter: how long it is in relation to its direction.
__global__ void __launch_bounds__(kThreads)
    lamb_ratio_kernel(const __grid_constant__ Batch batch, const double* squares, double* ratios) {
  const int item = static_cast<int>(blockIdx.x);
  double parameter = 0, direction = 0;
  for (int i = batch.pieces_before[item] + static_cast<int>(threadIdx.x); i < batch.pieces_before[item + 1];
       i += kBlock) {
    parameter += squares[2 * static_cast<std::int64_t>(i)];
    direction += squares[2 * static_cast<std::int64_t>(i) + 1];
  }
  parameter = block_reduce<kBlock>(parameter, Add{});
  direction = block_reduce<kBlock>(direction, Add{});
  if (threadIdx.x == 0)
    ratios[item] = parameter > 0 && direction > 0 ? kernels::sqrt(parameter) / kernels::sqrt(direction) : 1;
}

template <int N, class P>
__device__ void move_all(const Piece<P>& piece, std::int64_t begin, std::int64_t end, const UpdateNumbers& n) {
  using T = Compute<P>;
  using State = Pack<T, N>;
  for (std::int64_t i = begin + N * static_cast<int>(threadIdx.x); i < end; i += N * kBlock) {
    auto* const to = reinterpret_cast<Pack<P, N>*>(piece.p + i);
    const State mean = *reinterpret_cast<const State*>(piece.states[0] + i);
    const State square = *reinterpret_cast<const State*>(piece.states[1] + i);
    Pack<P, N> x = *to;
    for (int k = 0; k < N; ++k) {
      const T value = widen(x.values[k]);
      x.values[k] =
          narrow<P>(value - T(n.rate) * kernels::LambStep::direction(value, mean.values[k], square.values[k], n));
    }
    *to = x;
  }
}

template <class P>
__global__ void __launch_bounds__(kThreads)
    lamb_move_kernel(const __grid_constant__ Batch batch, const double* ratios) {
  const int item = item_of(batch);
  const Piece<P> piece = piece_of<P>(batch, item);
  UpdateNumbers n = numbers_of(batch);
  n.rate *= ratios[item];
  constexpr int N = kAside<P>;
  const std::int64_t whole = piece.packs ? (piece.end - piece.begin) / N * N : 0;
  move_all<N>(piece, piece.begin, piece.begin + whole, n);
  move_all<1>(piece, piece.begin + whole, piece.end, n);
}

// --- on the host ---

void add_item(Batch& batch, TensorImpl& p, const TensorImpl& g, TensorImpl* const (&states)[kMostStates],
              std::int64_t count) {
  Item& item = batch.items[batch.size];
  item.p = p.data;
  item.g = g.data;
  for (int k = 0; k < kMostStates; ++k) item.states[k] = states[k] != nullptr ? states[k]->data : nullptr;
  item.count = count;
  item.packs = aligned16(p.data, g.data, item.states[0], item.states[1], item.states[2]);
  const auto pieces = static_cast<int>((count + kPiece - 1) / kPiece);
  batch.pieces_before[batch.size + 1] = batch.pieces_before[batch.size] + pieces;
  ++batch.size;
}

void run(const Batch& batch, DType dtype) {
  const LaunchShape shape{static_cast<unsigned>(batch.pieces_before[batch.size]), kThreads};
  core::visit_real(dtype, [&]<class P>(core::Type<P>) {
    if (batch.rule != static_cast<int>(UpdateRule::lamb)) {
      launch(step_kernel<P>, shape, batch);
      return;
    }
    const Tensor room = workspace(2 * std::int64_t{shape.blocks} + batch.size, DType::float64);
    double* const squares = room.impl()->as<double>();
    double* const ratios = squares + 2 * std::int64_t{shape.blocks};
    launch(lamb_moments_kernel<P>, shape, batch, squares);
    launch(lamb_ratio_kernel, LaunchShape{static_cast<unsigned>(batch.size), kThreads}, batch, squares, ratios);
    launch(lamb_move_kernel<P>, shape, batch, ratios);
  });
}

/// Whether two steps can go together.
bool alike(const core::OptimizerStep& a, const core::OptimizerStep& b) {
  return a.rule == b.rule && a.p.dtype == b.p.dtype && a.replayed == b.replayed &&
         std::memcmp(&a.numbers, &b.numbers, sizeof a.numbers) == 0;
}

}  // namespace

void optimizer_steps(const core::OptimizerStep* steps, std::size_t count) {
  std::vector<bool> done(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (done[i]) continue;
    Batch batch{};
    batch.rule = static_cast<int>(steps[i].rule);
    batch.numbers = steps[i].numbers;
    batch.replayed = steps[i].replayed;
    for (std::size_t k = i; k < count && batch.size < kMostTensors; ++k) {
      const core::OptimizerStep& step = steps[k];
      if (done[k] || !alike(step, steps[i])) continue;
      done[k] = true;
      if (step.p.numel() > 0) add_item(batch, step.p, step.g, {step.first, step.second, step.third}, step.p.numel());
    }
    if (batch.size > 0) run(batch, steps[i].p.dtype);
  }
}

/// Only rules that have no business with the other rows are asked for with `touched`: not lamb.
void optimizer_rows(UpdateRule rule, TensorImpl& p, const TensorImpl& indices, const TensorImpl& values,
                    TensorImpl* first, TensorImpl* second, TensorImpl* third, const UpdateNumbers& numbers,
                    bool touched) {
  if (p.numel() == 0) return;
  const std::int64_t width = p.numel() / p.shape[0], count = touched ? indices.numel() * width : p.numel();
  if (count == 0) return;
  Batch batch{};
  batch.rule = static_cast<int>(rule);
  batch.numbers = numbers;
  batch.rows = {indices.as<const std::int64_t>(), indices.numel(), p.shape[0], width, touched};
  add_item(batch, p, values, {first, second, third}, count);
  batch.items[0].packs = batch.items[0].packs && width % 4 == 0;  // a pack lies in one row
  run(batch, p.dtype);
}

}  // namespace capstan::on_cuda
