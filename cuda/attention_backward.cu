// The gradients of attention, of which each is made by itself: a block works on some rows of one gradient, goes along
// all that they meet and computes the weights again. No two blocks add to one place, so results are the same in every
// run.
#include "cuda/attention_tiles.cuh"
#include "cuda/backend.hpp"
#include "cuda/launch.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace tiles {
namespace {

enum class Target { query, key, value };

template <class T>
struct BackwardTask {
  Leading<7> heads;  // query, key, value, grad, mask, bias, target
  Rows<T> query, key, value, grad;
  const T *statistics, *means;  // [heads, queries, 2]; [heads, queries]: the gradient of a result times the result
  T* target;
  std::int64_t target_step;
  Scores<T> scores;
  std::int64_t width, value_width, columns;  // of the target
  std::int64_t tiles, windows, items;
};

/// A warp for each query.
template <class T>
__global__ void attention_means_kernel(Leading<2> heads, Rows<T> out, Rows<T> grad, std::int64_t width, T* means) {
  const std::int64_t rows = heads.count * out.count, lane = threadIdx.x % kWarp;
  for (std::int64_t row = first_index() / kWarp; row < rows; row += index_step() / kWarp) {
    const std::int64_t head = row / out.count, query = row - head * out.count;
    std::int64_t at[2];
    heads.find(head, at);
    const T *a = out.data + at[0] + query * out.step, *b = grad.data + at[1] + query * grad.step;
    T sum = T(0);
    for (std::int64_t i = lane; i < width; i += kWarp) sum += a[i] * b[i];
    sum = warp_reduce(sum, Add{});
    if (lane == 0) means[row] = sum;
  }
}

/// What is known of a query: its weights are exp(score - shift) * share, and the mean of their gradients is `mean`.
template <class T>
struct QueryNumbers {
  T shift, share, mean;
};
template <Target kTarget, class T>
__device__ __forceinline__ QueryNumbers<T> numbers_of(const BackwardTask<T>& task, std::int64_t head,
                                                      std::int64_t query) {
  if (query >= task.query.count) return {T(0), T(0), T(0)};
  const std::int64_t place = head * task.query.count + query;
  return {task.statistics[2 * place], task.statistics[2 * place + 1],
          kTarget == Target::value ? T(0) : task.means[place]};
}

/// The weight of a key for a query, or its score's gradient times the scale.
template <Target kTarget, class T>
__device__ __forceinline__ T factor_of(T score, T slope, T scale, const QueryNumbers<T>& numbers) {
  if (score == -std::numeric_limits<T>::infinity()) return T(0);
  const T weight = kernels::exp(score - numbers.shift) * numbers.share;
  return kTarget == Target::value ? weight : (slope - numbers.mean) * weight * scale;
}

/// A head's operands as a target sees them: `own` has the target's rows, `met` what they meet, `slopes` those whose
/// products are the gradients of weights, and `added` is multiplied with the factors.
template <class T>
struct Sides {
  Rows<T> own, met, own_slopes, met_slopes, added;
};
template <Target kTarget, class T>
__device__ __forceinline__ Sides<T> sides_of(const BackwardTask<T>& task, const std::int64_t (&at)[7]) {
  const Rows<T> query{task.query.data + at[0], task.query.step, task.query.count};
  const Rows<T> key{task.key.data + at[1], task.key.step, task.key.count};
  const Rows<T> value{task.value.data + at[2], task.value.step, task.value.count};
  const Rows<T> grad{task.grad.data + at[3], task.grad.step, task.grad.count};
  if constexpr (kTarget == Target::query) return {query, key, grad, value, key};
  else return {key, query, value, grad, kTarget == Target::key ? query : grad};
}

/// Products become weights or their gradients: 0 behind the last row and the last column. `numbers` are the queries',
/// which are the rows or the columns.
template <Target kTarget, class T>
__device__ __forceinline__ void make_factors(const Scores<T>& scores, const QueryNumbers<T> (&numbers)[kPack<T>],
                                             std::int64_t row, std::int64_t rows, std::int64_t column,
                                             std::int64_t columns, const T (&slopes)[kPack<T>][kPack<T>],
                                             T (&tile)[kPack<T>][kPack<T>]) {
  constexpr bool kByQuery = kTarget == Target::query;
  CAPSTAN_UNROLL
  for (int i = 0; i < kPack<T>; ++i) {
    CAPSTAN_UNROLL
    for (int j = 0; j < kPack<T>; ++j) {
      const std::int64_t query = kByQuery ? row + i : column + j, key = kByQuery ? column + j : row + i;
      const bool there = row + i < rows && column + j < columns;
      const T score = there ? scores.of(tile[i][j], query, key) : -std::numeric_limits<T>::infinity();
      tile[i][j] = factor_of<kTarget>(score, slopes[i][j], scores.scale, numbers[kByQuery ? i : j]);
    }
  }
}

template <Target kTarget, class T>
__device__ __forceinline__ void load_numbers(const BackwardTask<T>& task, std::int64_t head, std::int64_t query,
                                             QueryNumbers<T> (&numbers)[kPack<T>]) {
  CAPSTAN_UNROLL
  for (int i = 0; i < kPack<T>; ++i) numbers[i] = numbers_of<kTarget>(task, head, query + i);
}

/// Some rows of the target in one head, and a window of its features.
template <Target kTarget, class T>
__device__ __forceinline__ void add_up(const BackwardTask<T>& task, std::int64_t item,
                                       TileMemory<T, kPack<T>>& memory) {
  constexpr bool kByQuery = kTarget == Target::query;
  const std::int64_t window = item % task.windows * kWindow, tile_number = item / task.windows % task.tiles;
  const std::int64_t head = item / task.windows / task.tiles;
  // causal ones: the longest go first
  const std::int64_t first = (kByQuery ? task.tiles - 1 - tile_number : tile_number) * kTile<T>,
                     last = first + kTile<T>;
  std::int64_t at[7];
  task.heads.find(head, at);
  const Sides<T> sides = sides_of<kTarget>(task, at);
  const Scores<T> scores = task.scores.of_head(at[4], at[5]);
  const bool causal = task.scores.causal;
  const std::int64_t own_row = first + tile_row() * kPack<T>, met = sides.met.count;
  const std::int64_t begin = causal && !kByQuery ? first : 0, end = causal && kByQuery && last < met ? last : met;
  QueryNumbers<T> numbers[kPack<T>];
  if constexpr (kByQuery) load_numbers<kTarget>(task, head, own_row, numbers);
  Sums<T, kPack<T>> sums;
  sums.clear();
  for (std::int64_t from = begin; from < end; from += kTile<T>) {
    T tile[kPack<T>][kPack<T>], slopes[kPack<T>][kPack<T>] = {};
    multiply_rows(sides.own, first, sides.met, from, task.width, memory, tile);
    if constexpr (kTarget != Target::value)
      multiply_rows(sides.own_slopes, first, sides.met_slopes, from, task.value_width, memory, slopes);
    const std::int64_t own_column = from + tile_column() * kPack<T>;
    if constexpr (!kByQuery) load_numbers<kTarget>(task, head, own_column, numbers);
    make_factors<kTarget>(scores, numbers, own_row, sides.own.count, own_column, end, slopes, tile);
    keep_weights(tile, memory);
    // queries and keys whose scores are not allowed may be anything; of others that are not finite the factors are NaN
    add_rows<kTarget != Target::value>(sides.added, from, window, task.columns, memory, sums);
  }
  CAPSTAN_UNROLL
  for (int i = 0; i < kPack<T>; ++i)
    if (own_row + i < sides.own.count)
      sums.store(i, task.target + at[6] + (own_row + i) * task.target_step, window, task.columns);
}

template <Target kTarget, class T>
__global__ void __launch_bounds__(kTileThreads) attention_backward_kernel(BackwardTask<T> task) {
  __shared__ TileMemory<T, kPack<T>> memory;
  for (std::int64_t item = blockIdx.x; item < task.items; item += gridDim.x) add_up<kTarget>(task, item, memory);
}

template <Target kTarget, class T>
void start(const core::AttentionTask& task, const core::AttentionGradients& g, TensorImpl* target, const T* means) {
  if (target == nullptr || target->numel() == 0) return;
  const Leading<7> heads(task.query.shape,
                         {&task.query, &task.key, &task.value, &g.grad, task.mask, task.bias, target});
  const std::int64_t columns = width_of(*target), tiles = pieces(rows_of(*target), kTile<T>);
  const std::int64_t windows = pieces(columns, kWindow), items = heads.count * tiles * windows;
  const BackwardTask<T> b{heads,
                          rows_in<T>(task.query),
                          rows_in<T>(task.key),
                          rows_in<T>(task.value),
                          rows_in<T>(g.grad),
                          g.statistics.as<const T>(),
                          means,
                          target->as<T>(),
                          row_step(*target),
                          scores_in<T>(task),
                          width_of(task.query),
                          width_of(task.value),
                          columns,
                          tiles,
                          windows,
                          items};
  launch(attention_backward_kernel<kTarget, T>, block_each(items, kTileThreads), b);
}

template <class T>
void all_gradients(const core::AttentionTask& task, const core::AttentionGradients& g) {
  const Leading<2> heads(task.query.shape, {&g.out, &g.grad});
  const std::int64_t queries = heads.count * rows_of(task.query);
  Tensor means;
  if (g.query != nullptr || g.key != nullptr) {
    means = workspace(queries, task.query.dtype);
    launch(attention_means_kernel<T>, shape_for(queries * kWarp), heads, rows_in<T>(g.out), rows_in<T>(g.grad),
           width_of(task.value), means.impl()->as<T>());
  }
  const T* const of_queries = means.defined() ? means.impl()->as<const T>() : nullptr;
  start<Target::query>(task, g, g.query, of_queries);
  start<Target::key>(task, g, g.key, of_queries);
  start<Target::value>(task, g, g.value, of_queries);
}

}  // namespace
}  // namespace tiles

void attention_backward(const core::AttentionTask& task, const core::AttentionGradients& gradients) {
  core::visit_floating(task.query.dtype, [&]<class T>(core::Type<T>) { tiles::all_gradients<T>(task, gradients); });
}

}  // namespace capstan::on_cuda
