// Attention in one pass over the keys, with nothing of the size queries x keys in memory: the weights of a tile of keys
// are taken relative to the largest score so far, and what has been added up is scaled when a larger one comes (Milakov
// and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
#include "cuda/attention_tiles.cuh"
#include "cuda/backend.hpp"
#include "cuda/launch.cuh"
#include "lib/core/dispatch.hpp"

namespace capstan::on_cuda {
namespace tiles {
namespace {

template <class T>
struct ForwardTask {
  Leading<6> heads;  // query, key, value, out, mask, bias
  Rows<T> query, key, value;
  T* out;
  std::int64_t out_step;
  T* statistics;  // [heads, queries, 2]
  Scores<T> scores;
  std::int64_t width, value_width;
  std::int64_t tiles, windows;  // of a head
  std::int64_t items;           // of all heads
};

struct Greater {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

/// The values of the 16 threads that share a row combined, in all of them.
template <class T, class Combine>
__device__ __forceinline__ T combine_row(T value, Combine combine) {
  for (int away = kSide / 2; away > 0; away /= 2) value = combine(value, __shfl_xor_sync(kAllLanes, value, away));
  return value;
}

/// What is left of -infinity as the largest score: a row that has seen nothing.
template <class T>
__device__ __forceinline__ T shift_of(T largest) {
  return largest == -std::numeric_limits<T>::infinity() ? T(0) : largest;
}

/// The sums of a row's weights so far: one part in each thread.
template <class T, int kRows>
struct Totals {
  T largest[kRows];  // score so far. A NaN does not count, and shows in the total
  double total[kRows];

  __device__ __forceinline__ void clear() {
    CAPSTAN_UNROLL
    for (int i = 0; i < kRows; ++i) largest[i] = -std::numeric_limits<T>::infinity(), total[i] = 0;
  }
  /// Scores become weights, and what was added up before is scaled to the same measure.
  __device__ __forceinline__ void take(T (&tile)[kRows][kPack<T>], Sums<T, kRows>& sums) {
    CAPSTAN_UNROLL
    for (int i = 0; i < kRows; ++i) {
      T best = largest[i];
      CAPSTAN_UNROLL
      for (int j = 0; j < kPack<T>; ++j) best = best < tile[i][j] ? tile[i][j] : best;
      best = combine_row(best, Greater{});
      const T shift = shift_of(best), factor = kernels::exp(largest[i] - shift);
      T part = T(0);
      CAPSTAN_UNROLL
      for (int j = 0; j < kPack<T>; ++j) {
        tile[i][j] = kernels::exp(tile[i][j] - shift);
        part += tile[i][j];
      }
      total[i] = total[i] * static_cast<double>(factor) + static_cast<double>(part);
      sums.scale(i, factor);
      largest[i] = best;
    }
  }
};

/// Which queries of which head, and which of the values' features.
struct Item {
  std::int64_t head, first, window;
  template <class T>
  __device__ Item(const ForwardTask<T>& task, std::int64_t item, int height) : window(item % task.windows * kWindow) {
    const std::int64_t tile = item / task.windows;
    head = tile / task.tiles;
    first = (task.tiles - 1 - tile % task.tiles) * height;  // causal ones: the longest go first
  }
};

/// Products with the keys from `key` on become scores: -infinity behind the last one.
template <class T, int kRows>
__device__ __forceinline__ void make_scores(const Scores<T>& scores, std::int64_t query, std::int64_t queries,
                                            std::int64_t key, std::int64_t keys, T (&tile)[kRows][kPack<T>]) {
  CAPSTAN_UNROLL
  for (int i = 0; i < kRows; ++i) {
    CAPSTAN_UNROLL
    for (int j = 0; j < kPack<T>; ++j)
      tile[i][j] = query + i < queries && key + j < keys ? scores.of(tile[i][j], query + i, key + j)
                                                         : -std::numeric_limits<T>::infinity();
  }
}

/// The rows of the result, and what the way back has to know of them.
template <class T, int kRows>
__device__ __forceinline__ void finish(const ForwardTask<T>& task, const Item& item, T* out,
                                       const Totals<T, kRows>& totals, Sums<T, kRows>& sums) {
  CAPSTAN_UNROLL
  for (int i = 0; i < kRows; ++i) {
    const double total = combine_row(totals.total[i], Add{});
    const T share = total == 0 ? T(0) : static_cast<T>(1 / total);
    const std::int64_t query = item.first + tile_row() * kRows + i;
    if (query >= task.query.count) continue;
    if (item.window == 0 && tile_column() == 0) {
      T* const statistics = task.statistics + (item.head * task.query.count + query) * 2;
      statistics[0] = shift_of(totals.largest[i]);
      statistics[1] = share;
    }
    sums.scale(i, share);
    sums.store(i, out + query * task.out_step, item.window, task.value_width);
  }
}

template <class T, int kRows>
__device__ __forceinline__ void attend(const ForwardTask<T>& task, const Item& item, TileMemory<T, kRows>& memory) {
  const std::int64_t keys = task.key.count, seen = item.first + kSide * kRows;
  const std::int64_t end = task.scores.causal && seen < keys ? seen : keys;
  std::int64_t at[6];
  task.heads.find(item.head, at);
  const Rows<T> query{task.query.data + at[0], task.query.step, task.query.count};
  const Rows<T> key{task.key.data + at[1], task.key.step, end}, value{task.value.data + at[2], task.value.step, end};
  const Scores<T> scores = task.scores.of_head(at[4], at[5]);
  Sums<T, kRows> sums;
  Totals<T, kRows> totals;
  sums.clear();
  totals.clear();
  for (std::int64_t from = 0; from < end; from += kTile<T>) {
    T tile[kRows][kPack<T>];
    multiply_rows(query, item.first, key, from, task.width, memory, tile);
    make_scores(scores, item.first + tile_row() * kRows, query.count, from + tile_column() * kPack<T>, end, tile);
    totals.take(tile, sums);
    keep_weights(tile, memory);
    add_rows<false>(value, from, item.window, task.value_width, memory, sums);
  }
  finish(task, item, task.out + at[3], totals, sums);
}

template <class T, int kRows>
__global__ void __launch_bounds__(kTileThreads, 2) attention_kernel(ForwardTask<T> task) {
  __shared__ TileMemory<T, kRows> memory;
  for (std::int64_t item = blockIdx.x; item < task.items; item += gridDim.x)
    attend(task, Item(task, item, kSide * kRows), memory);
}

template <class T, int kRows>
void start(ForwardTask<T> task) {
  task.tiles = pieces(task.query.count, kSide * kRows);
  task.items = task.heads.count * task.tiles * task.windows;
  launch(attention_kernel<T, kRows>, block_each(task.items, kTileThreads), task);
}

template <class T>
void attend_all(const core::AttentionTask& task, const Leading<6>& heads, TensorImpl& out, TensorImpl& statistics) {
  const std::int64_t width = width_of(task.query), value_width = width_of(task.value);
  const std::int64_t windows = value_width > 0 ? pieces(value_width, kWindow) : 1;  // the statistics are there anyhow
  const ForwardTask<T> f{heads,
                         rows_in<T>(task.query),
                         rows_in<T>(task.key),
                         rows_in<T>(task.value),
                         out.as<T>(),
                         row_step(out),
                         statistics.as<T>(),
                         scores_in<T>(task),
                         width,
                         value_width,
                         0,
                         windows,
                         0};
  if (f.query.count <= kSide) start<T, 1>(f);
  else start<T, kPack<T>>(f);
}

}  // namespace
}  // namespace tiles

constexpr std::int64_t kMostKeys = std::int64_t{1} << 40;

void attention(const core::AttentionTask& task, TensorImpl& out, TensorImpl& statistics) {
  const Leading<6> heads(task.query.shape, {&task.query, &task.key, &task.value, &out, task.mask, task.bias});
  if (heads.count == 0 || tiles::rows_of(task.query) == 0) return;
  const std::int64_t keys = task.key.shape[task.key.rank() - 2];
  if (keys > kMostKeys)  // a view can have them, and no GPU would come to their end
    base::fail<OutOfMemoryError>(call().where, "attention: ", keys, " keys are more than memory holds.");
  core::visit_floating(task.query.dtype,
                       [&]<class T>(core::Type<T>) { tiles::attend_all<T>(task, heads, out, statistics); });
}

}  // namespace capstan::on_cuda
