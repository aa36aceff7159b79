// Attention, head by head: the scores of a block of queries with all keys stay in the cache, become weights there and
// are used up. Nothing of the size queries x keys is kept; the way back computes the weights again.
//
// Blocks follow from the shapes alone, so results do not depend on the number of threads.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "lib/base/text.hpp"
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {

using core::AttentionGradients;
using core::AttentionTask;

namespace {

constexpr std::int64_t kTileRows = 6;                    // of the product kernel
constexpr std::int64_t kLeastRows = 24, kMostRows = 72;  // queries of a block,
constexpr std::int64_t kBlockScores = 32768;             // and their scores, unless that were too few queries
constexpr std::int64_t kTaskRows = 192;                  // queries of one head that stay on one thread
constexpr std::int64_t kDepth = 128;                     // of a product whose right side is to stay in the cache
constexpr std::int64_t kAlignment = 16;                  // elements
constexpr double kThreadWork = 1 << 19;                  // multiplications worth a thread
constexpr std::int64_t kExpWork = 16;                    // multiplications in whose time a weight is made
constexpr double kMostScratch = 0x1p45;                  // elements: more than any machine has

std::int64_t rounded_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

struct Sizes {
  std::int64_t heads = 1, queries, keys, width, value_width;  // heads: of all leading axes
  std::int64_t block;                                         // queries at a time
  std::int64_t line;  // from a row of scores to the next: not a power of 2, whose multiples share a place in the cache

  explicit Sizes(const AttentionTask& task) {
    const Shape &q = task.query.shape, &v = task.value.shape;
    const int rank = q.rank();
    for (int axis = 0; axis < rank - 2; ++axis) heads *= q[axis];
    queries = q[rank - 2], width = q[rank - 1];
    keys = v[rank - 2], value_width = v[rank - 1];
    const std::int64_t most = std::clamp(kBlockScores / std::max<std::int64_t>(keys, 1), kLeastRows, kMostRows);
    const std::int64_t blocks = std::max<std::int64_t>((queries + most - 1) / most, 1);
    block = std::max(rounded_up((queries + blocks - 1) / blocks, kTileRows), kTileRows);
    require_scratch();
    line = rounded_up(keys, kAlignment) + kAlignment;
  }
  /// Views that repeat a few elements may have any number of keys: below, sums of sizes must not overflow.
  void require_scratch() const {
    const double columns = static_cast<double>(width) + static_cast<double>(value_width) + static_cast<double>(block);
    if (heads > 0 && queries > 0 && columns * static_cast<double>(keys) > kMostScratch)
      base::fail<OutOfMemoryError>(core::calling_place(), "attention: ", keys, " keys of ", width, " and values of ",
                                   value_width, " features would take more scratch memory than there is.");
  }
  /// Of the queries of one head, in multiplications.
  double work() const {
    return static_cast<double>(queries) * static_cast<double>(keys) *
           static_cast<double>(width + value_width + kExpWork);
  }
};

/// Where head number `index` of the leading axes of `like` begins in an operand that broadcasts to them.
std::int64_t head_offset(const TensorImpl& x, const TensorImpl& like, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = like.rank() - 3; axis >= 0; --axis) {
    const int own = axis - (like.rank() - x.rank());
    if (own >= 0 && x.shape[own] != 1) offset += index % like.shape[axis] * x.strides[own];
    index /= like.shape[axis];
  }
  return offset;
}

/// The step along an axis, counted from the end; 0 if the operand is stretched along it.
std::int64_t step_of(const TensorImpl& x, int from_end) {
  const int axis = x.rank() - from_end;
  return axis >= 0 && x.shape[axis] != 1 ? x.strides[axis] : 0;
}
std::int64_t row_of(const TensorImpl& x) { return x.strides[x.rank() - 2]; }

/// The operands of one head.
template <class T>
struct Head {
  const T *query, *key, *value;
  std::int64_t query_row, key_row, value_row;
  AttentionRows<T> rows{};

  Head(const AttentionTask& task, std::int64_t index)
      : query(task.query.as<T>() + head_offset(task.query, task.query, index)),
        key(task.key.as<T>() + head_offset(task.key, task.query, index)),
        value(task.value.as<T>() + head_offset(task.value, task.query, index)),
        query_row(row_of(task.query)),
        key_row(row_of(task.key)),
        value_row(row_of(task.value)) {
    rows.scale = static_cast<T>(task.scale);
    if (task.bias != nullptr) {
      rows.bias = task.bias->as<T>() + head_offset(*task.bias, task.query, index);
      rows.bias_row = step_of(*task.bias, 2), rows.bias_column = step_of(*task.bias, 1);
    }
    if (task.mask != nullptr) {
      rows.allowed = task.mask->as<bool>() + head_offset(*task.mask, task.query, index);
      rows.allowed_row = step_of(*task.mask, 2), rows.allowed_column = step_of(*task.mask, 1);
    }
  }

  /// What the kernels are told of `count` queries from `first` on.
  AttentionRows<T> block(const Sizes& s, bool causal, std::int64_t first, std::int64_t count) const {
    AttentionRows<T> r = rows;
    r.row = s.line, r.rows = count;
    r.count = causal ? std::min(s.keys, first + count) : s.keys;
    r.first = causal ? first : s.keys;
    if (r.bias != nullptr) r.bias += first * r.bias_row;
    if (r.allowed != nullptr) r.allowed += first * r.allowed_row;
    return r;
  }
};

/// c (+)= a b as `small_gemm` has it, in pieces of which each has so few rows of b that they stay in the cache.
template <class T>
void product(const SmallGemm<T>& whole) {
  const std::int64_t pieces = std::max<std::int64_t>((whole.k + kDepth - 1) / kDepth, 1);
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t first = whole.k * piece / pieces, last = whole.k * (piece + 1) / pieces;
    SmallGemm<T> part = whole;
    part.a += first * whole.a_column;
    part.b += first * whole.b_row;
    part.k = last - first;
    part.accumulate = whole.accumulate || piece > 0;
    simd().of<T>().small_gemm(part);
  }
}

/// The transpose of [rows, columns] to [columns, line].
template <class T>
void turn(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, T* to, std::int64_t line) {
  constexpr std::int64_t kTile = 16;
  const FloatKernels<T>& table = simd().of<T>();
  for (std::int64_t i = 0; i < rows; i += kTile)
    for (std::int64_t j = 0; j < columns; j += kTile) {
      const T* tile = from + i * from_row + j;
      T* place = to + j * line + i;
      if (i + kTile <= rows && j + kTile <= columns) {
        table.transpose_tile(tile, from_row, place, line);
        continue;
      }
      const std::int64_t height = std::min(kTile, rows - i), breadth = std::min(kTile, columns - j);
      for (std::int64_t b = 0; b < breadth; ++b)
        for (std::int64_t a = 0; a < height; ++a) place[b * line + a] = tile[a * from_row + b];
    }
}

/// [rows, columns] without gaps: where it is, or copied to `to`.
template <class T>
const T* without_gaps(const T* from, std::int64_t from_row, std::int64_t rows, std::int64_t columns, T* to) {
  if (from_row == columns || rows <= 1) return from;
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * columns, from + i * from_row, sizeof(T) * static_cast<std::size_t>(columns));
  return to;
}

/// The same numbers, but 0 for NaN and infinities: where they are, or in `to` if there are any. The gradient of a score
/// that is not allowed is 0, and times those it would be NaN; that of one which they have spoiled is NaN anyhow.
template <class T>
const T* finite_ones(const T* from, std::int64_t count, T* to) {
  if (std::isfinite(simd().of<T>().sum(from, count))) return from;  // or the sum is too large, and all are as they were
  for (std::int64_t i = 0; i < count; ++i) to[i] = std::isfinite(from[i]) ? from[i] : T(0);
  return to;
}

/// Hands out pieces of scratch memory; without memory it only counts.
template <class T>
class Room {
 public:
  explicit Room(T* memory) : memory_(memory) {}
  T* take(std::int64_t count) {
    T* const place = memory_ != nullptr ? memory_ + used_ : nullptr;
    used_ += rounded_up(count, kAlignment);
    return place;
  }
  std::int64_t used() const { return used_; }

 private:
  T* memory_;
  std::int64_t used_ = 0;
};

/// Some tasks one after another, in scratch memory of their own.
template <class T>
class Forward {
 public:
  Forward(const AttentionTask& task, const Sizes& s, TensorImpl& out, TensorImpl& statistics, Room<T>& room)
      : task_(task),
        s_(s),
        out_(out),
        statistics_(statistics.as<T>()),
        keys_(room.take(s.width * s.line)),
        value_room_(room.take(s.keys * s.value_width)),
        scores_(room.take(s.block * s.line)),
        line_(room.take(s.line)) {}

  /// Queries first .. last - 1 of a head.
  void run(std::int64_t index, std::int64_t first, std::int64_t last) {
    const Head<T> head(task_, index);
    if (index != ready_) {
      turn(head.key, head.key_row, s_.keys, s_.width, keys_, s_.line);
      values_ = without_gaps(head.value, head.value_row, s_.keys, s_.value_width, value_room_);
      ready_ = index;
    }
    T* const out = out_.as<T>() + head_offset(out_, out_, index);
    for (; first < last; first += s_.block) block(head, index, first, std::min(s_.block, last - first), out);
  }

 private:
  void block(const Head<T>& head, std::int64_t index, std::int64_t first, std::int64_t count, T* out) {
    const FloatKernels<T>& table = simd().of<T>();
    AttentionRows<T> r = head.block(s_, task_.causal, first, count);
    r.scores = scores_, r.line = line_;
    r.statistics = statistics_ + (index * s_.queries + first) * 2;
    const std::int64_t out_row = row_of(out_);
    T* const to = out + first * out_row;
    product<T>({head.query + first * head.query_row, head.query_row, 1, keys_, s_.line, scores_, s_.line, count,
                r.count, s_.width, false});
    table.attention_weights(r);
    product<T>({scores_, s_.line, 1, values_, s_.value_width, to, out_row, count, s_.value_width, r.count, false});
    constexpr auto kMul = static_cast<std::size_t>(kernels::kBinaryId<kernels::Mul>);
    for (std::int64_t i = 0; i < count; ++i)
      table.binary[kMul](to + i * out_row, 1, r.statistics + 2 * i + 1, 0, to + i * out_row, s_.value_width);
  }

  const AttentionTask& task_;
  const Sizes& s_;
  TensorImpl& out_;
  T* statistics_;
  T *keys_, *value_room_, *scores_, *line_;  // keys: transposed
  const T* values_ = nullptr;
  std::int64_t ready_ = -1;  // the head whose keys and values these are
};

/// The same on the way back: a task is a whole head, since its queries add up to the gradients of its keys.
template <class T>
class Backward {
 public:
  Backward(const AttentionTask& task, const Sizes& s, const AttentionGradients& g, Room<T>& room)
      : task_(task),
        s_(s),
        g_(g),
        key_room_(room.take(s.keys * s.width)),
        keys_turned_(room.take(s.width * s.line)),
        values_turned_(room.take(s.value_width * s.line)),
        query_room_(room.take(s.block * s.width)),
        grad_room_(room.take(s.block * s.value_width)),
        scores_(room.take(s.block * s.line)),
        grads_(room.take(s.block * s.line)),
        line_(room.take(s.line)) {}

  void run(std::int64_t index) {
    const Head<T> head(task_, index);
    turn(head.key, head.key_row, s_.keys, s_.width, keys_turned_, s_.line);
    turn(head.value, head.value_row, s_.keys, s_.value_width, values_turned_, s_.line);
    const T* keys = without_gaps(head.key, head.key_row, s_.keys, s_.width, key_room_);
    keys = finite_ones(keys, s_.keys * s_.width, key_room_);
    const Target query(g_.query, index), key(g_.key, index), value(g_.value, index);
    const bool add = task_.causal || s_.queries == 0;  // there are keys that the first queries do not see
    if (add) key.clear(s_.keys, s_.width), value.clear(s_.keys, s_.value_width);
    for (std::int64_t first = 0; first < s_.queries; first += s_.block)
      block(head, index, first, keys, query, key, value, add || first > 0);
  }

 private:
  /// The gradient of one operand of a head, or nothing.
  struct Target {
    T* data = nullptr;
    std::int64_t row = 0;
    Target(const TensorImpl* x, std::int64_t index) {
      if (x != nullptr) data = x->as<T>() + head_offset(*x, *x, index), row = row_of(*x);
    }
    void clear(std::int64_t rows, std::int64_t columns) const {
      for (std::int64_t i = 0; data != nullptr && i < rows; ++i) std::fill_n(data + i * row, columns, T(0));
    }
  };

  void block(const Head<T>& head, std::int64_t index, std::int64_t first, const T* keys, const Target& query,
             const Target& key, const Target& value, bool add) {
    const std::int64_t count = std::min(s_.block, s_.queries - first), out_row = row_of(g_.out);
    const std::int64_t grad_row = row_of(g_.grad), line = s_.line;
    const T* grad = g_.grad.as<T>() + head_offset(g_.grad, g_.grad, index) + first * grad_row;
    const T* q = without_gaps(head.query + first * head.query_row, head.query_row, count, s_.width, query_room_);
    const T* g = without_gaps(grad, grad_row, count, s_.value_width, grad_room_);
    AttentionRows<T> r = head.block(s_, task_.causal, first, count);
    r.scores = scores_, r.grads = grads_, r.line = line_;
    r.statistics = g_.statistics.as<T>() + (index * s_.queries + first) * 2;
    r.out = g_.out.as<T>() + head_offset(g_.out, g_.out, index) + first * out_row, r.out_row = out_row;
    r.out_grad = g, r.out_grad_row = s_.value_width, r.width = s_.value_width;
    product<T>({q, s_.width, 1, keys_turned_, line, scores_, line, count, r.count, s_.width, false});
    product<T>({g, s_.value_width, 1, values_turned_, line, grads_, line, count, r.count, s_.value_width, false});
    simd().of<T>().attention_backward(r);
    if (query.data != nullptr)
      product<T>({grads_, line, 1, keys, s_.width, query.data + first * query.row, query.row, count, s_.width, r.count,
                  false});
    if (key.data != nullptr)
      product<T>({grads_, 1, line, finite_ones(q, count * s_.width, query_room_), s_.width, key.data, key.row, r.count,
                  s_.width, count, add});
    if (value.data != nullptr)
      product<T>({scores_, 1, line, g, s_.value_width, value.data, value.row, r.count, s_.value_width, count, add});
  }

  const AttentionTask& task_;
  const Sizes& s_;
  const AttentionGradients& g_;
  T *key_room_, *keys_turned_, *values_turned_, *query_room_, *grad_room_, *scores_, *grads_, *line_;
};

/// Calls `run(memory, first, last)` for pieces of the tasks; those that run at a time have `scratch` elements each.
template <class T, class F>
void for_tasks(std::int64_t tasks, double work, std::int64_t scratch, F run) {
  if (tasks == 0) return;
  const auto grain =
      static_cast<std::int64_t>(std::clamp(kThreadWork / std::max(work, 1.0), 1.0, static_cast<double>(tasks)));
  const std::int64_t places = base::splits(tasks, grain) ? std::min<std::int64_t>(tasks, threads()) : 1;
  core::Scratch<T> memory(places * scratch, core::calling_place());
  core::ScratchVector<std::atomic<bool>> taken(static_cast<std::size_t>(places));
  base::parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::size_t place = 0;
    while (taken[place].exchange(true, std::memory_order_acquire)) place = (place + 1) % taken.size();
    run(memory.data() + static_cast<std::int64_t>(place) * scratch, begin, end);
    taken[place].store(false, std::memory_order_release);
  });
}

}  // namespace

void attention(const AttentionTask& task, TensorImpl& out, TensorImpl& statistics) {
  const Sizes s(task);
  if (s.heads == 0 || s.queries == 0) return;
  const std::int64_t rows = s.block * std::max<std::int64_t>(kTaskRows / s.block, 1);  // of a task
  const std::int64_t tasks_of_head = (s.queries + rows - 1) / rows;
  core::visit_floating(task.query.dtype, [&]<class T>(core::Type<T>) {
    Room<T> needed(nullptr);
    const Forward<T> measured(task, s, out, statistics, needed);
    const double work = s.work() / static_cast<double>(std::max<std::int64_t>(tasks_of_head, 1));
    for_tasks<T>(s.heads * tasks_of_head, work, needed.used(), [&](T* memory, std::int64_t first, std::int64_t last) {
      Room<T> room(memory);
      Forward<T> part(task, s, out, statistics, room);
      for (std::int64_t at = first; at < last; ++at) {
        const std::int64_t begin = at % tasks_of_head * rows;
        part.run(at / tasks_of_head, begin, std::min(begin + rows, s.queries));
      }
    });
  });
}

void attention_backward(const AttentionTask& task, const AttentionGradients& gradients) {
  std::int64_t wanted = 0;  // elements
  for (const TensorImpl* x : {gradients.query, gradients.key, gradients.value})
    if (x != nullptr) wanted = std::max(wanted, x->numel());
  if (wanted == 0) return;  // there may be any number of heads
  const Sizes s(task);
  core::visit_floating(task.query.dtype, [&]<class T>(core::Type<T>) {
    Room<T> needed(nullptr);
    const Backward<T> measured(task, s, gradients, needed);
    for_tasks<T>(s.heads, 2 * s.work(), needed.used(), [&](T* memory, std::int64_t first, std::int64_t last) {
      Room<T> room(memory);
      Backward<T> part(task, s, gradients, room);
      for (std::int64_t index = first; index < last; ++index) part.run(index);
    });
  });
}

}  // namespace capstan::on_cpu
