// The k best elements along an axis. For small k a pass over the row keeps only what beats the k-th best so far, and
// most blocks hold nothing that does; for large k the rows are sorted.
#include <algorithm>
#include <type_traits>
#include <utility>

#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/keys.hpp"
#include "lib/cpu/radix.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kBlock = 16;      // elements that are compared before any of them is looked at
constexpr std::int64_t kShortList = 32;  // candidates that are kept in order
// Fewer rows than this, as long as that, are cut into so many parts: whatever the number of threads, on which the order
// of unordered results must not depend.
constexpr std::int64_t kFewRows = 16, kLongRow = 1 << 16, kParts = 16;
// Rows are sorted if k is above one part in so many of them; the second if they are cut.
constexpr std::int64_t kShareOfRow = 8, kShareOfLong = 128;

template <class Order>
struct Selection {
  using Word = typename Order::Word;
  const Word* x;  // [rows, count]
  std::int64_t rows, count, k;
  Word flip;  // all ones if the largest are wanted: then their keys are the smallest
  bool ordered;
  Word* values;  // [rows, k]
  std::int64_t* indices;

  Word key(Word bits) const noexcept { return static_cast<Word>(Order::encode(bits) ^ flip); }
};

/// Candidates that are held at most.
std::int64_t room_for(std::int64_t k) { return 2 * k + 2 * kBlock; }

/// Brings the k smallest entries to the front and returns the key of the largest of them.
template <class Entry>
std::uint64_t keep_smallest(Entry* entries, std::int64_t count, std::int64_t k) {
  std::nth_element(entries, entries + (k - 1), entries + count);
  return entries[k - 1].key();
}

/// Whether an element may have a key below a limit: never wrong if it says no. Without keys where the processor can
/// compare the elements themselves.
template <class Order>
class MayBeat {
 public:
  using Word = typename Order::Word;
  using Native = typename Order::Native;

  MayBeat(Word limit, Word flip) : limit_(limit), flip_(flip) {
    if constexpr (!std::is_void_v<Native>)
      bound_ = __builtin_bit_cast(Native, Order::decode(static_cast<Word>(limit ^ flip)));
  }
  /// For one direction of the order; NaN counts as largest.
  template <bool kLargest>
  bool one(Word x) const noexcept {
    if constexpr (std::is_void_v<Native>) return static_cast<Word>(Order::encode(x) ^ flip_) < limit_;
    else if constexpr (kLargest) return !(__builtin_bit_cast(Native, x) <= bound_);
    else return !(__builtin_bit_cast(Native, x) >= bound_);
  }
  template <bool kLargest>
  bool any(const Word* x, std::int64_t count) const noexcept {
    int found = 0;
    for (std::int64_t i = 0; i < count; ++i) found |= one<kLargest>(x[i]);
    return found != 0;
  }

 private:
  Word limit_, flip_;
  std::conditional_t<std::is_void_v<Native>, Word, Native> bound_{};
};

/// Puts an entry into a sorted list of k, of which the last falls out.
template <class Entry>
void insert_sorted(Entry* kept, std::int64_t k, Entry entry) {
  std::int64_t i = k - 1;
  for (; i > 0 && entry < kept[i - 1]; --i) kept[i] = kept[i - 1];
  kept[i] = entry;
}

/// The k smallest entries of x[begin..end), or all if there are fewer; returns how many there are. A short list is kept
/// in order, so that its limit is always the tightest; a long one is thinned out when it is full.
template <class Entry, bool kLargest, class Order>
std::int64_t keep_best(const Selection<Order>& task, const typename Order::Word* x, std::int64_t begin,
                       std::int64_t end, Entry* kept) {
  using Word = typename Order::Word;
  const bool in_order = task.k <= kShortList;
  const std::int64_t k = task.k, room = in_order ? k : room_for(k);
  std::int64_t i = begin, count = 0;
  for (; i < end && count < room; ++i) kept[count++] = Entry::make(task.key(x[i]), i);
  if (count < k || i == end) {
    if (count > k) keep_smallest(kept, count, k);
    return std::min(count, k);
  }
  Word limit;
  if (in_order) {
    std::sort(kept, kept + k);
    limit = static_cast<Word>(kept[k - 1].key());
  } else {
    limit = static_cast<Word>(keep_smallest(kept, count, k));
  }
  count = k;
  MayBeat<Order> may_beat(limit, task.flip);
  for (std::int64_t stop; i < end; i = stop) {
    stop = std::min(i + kBlock, end);
    if (stop - i == kBlock && !may_beat.template any<kLargest>(x + i, kBlock)) continue;
    for (std::int64_t j = i; j < stop; ++j) {
      if (!may_beat.template one<kLargest>(x[j])) continue;
      const Word key = task.key(x[j]);
      if (key >= limit) continue;  // an equal one comes later and loses
      if (in_order) {
        insert_sorted(kept, k, Entry::make(key, j));
        limit = static_cast<Word>(kept[k - 1].key());
        may_beat = {limit, task.flip};
      } else {
        kept[count++] = Entry::make(key, j);
      }
    }
    if (!in_order && count + kBlock > room) {
      limit = static_cast<Word>(keep_smallest(kept, count, k));
      count = k;
      may_beat = {limit, task.flip};
    }
  }
  if (count > k) keep_smallest(kept, count, k);
  return k;
}

template <class Entry, class Order>
std::int64_t keep_best_of(const Selection<Order>& task, const typename Order::Word* x, std::int64_t begin,
                          std::int64_t end, Entry* kept) {
  return task.flip != 0 ? keep_best<Entry, true>(task, x, begin, end, kept)
                        : keep_best<Entry, false>(task, x, begin, end, kept);
}

/// Writes one row's result.
template <class Entry, class Order>
void store_row(const Selection<Order>& task, std::int64_t row, Entry* kept) {
  if (task.ordered) std::sort(kept, kept + task.k);
  const auto* x = task.x + row * task.count;
  for (std::int64_t i = 0; i < task.k; ++i) {
    const std::int64_t place = kept[i].place();
    task.values[row * task.k + i] = x[place];
    task.indices[row * task.k + i] = place;
  }
}

template <class Entry, class Order>
void select_in_rows(const Selection<Order>& task) {
  const std::int64_t bytes = room_for(task.k) * static_cast<std::int64_t>(sizeof(Entry));
  for_lanes(task.rows, kExpensiveGrain / task.count + 1, bytes,
            [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
              auto* kept = reinterpret_cast<Entry*>(scratch);
              for (std::int64_t row = begin; row < end; ++row) {
                keep_best_of(task, task.x + row * task.count, 0, task.count, kept);
                store_row(task, row, kept);
              }
            });
}

/// Each part of a row by itself, then the best of the parts.
template <class Entry, class Order>
void select_in_parts(const Selection<Order>& task) {
  const std::int64_t room = room_for(task.k), items = task.rows * kParts;
  core::Scratch<Entry> all(items * room, core::calling_place());
  core::Scratch<std::int64_t> counts(items, core::calling_place());
  base::parallel_for(items, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t part = item % kParts;
      counts[item] = keep_best_of(task, task.x + item / kParts * task.count, task.count * part / kParts,
                                  task.count * (part + 1) / kParts, all.data() + item * room);
    }
  });
  for (std::int64_t row = 0; row < task.rows; ++row) {
    Entry* kept = all.data() + row * kParts * room;
    std::int64_t count = counts[row * kParts];
    for (std::int64_t part = 1; part < kParts; ++part) {
      const Entry* from = kept + part * room;
      std::copy(from, from + counts[row * kParts + part], kept + count);
      count += counts[row * kParts + part];
    }
    if (count > task.k) keep_smallest(kept, count, task.k);
    store_row(task, row, kept);
  }
}

/// The first k of everything sorted.
void select_by_sorting(const TensorImpl& x, int axis, bool largest, TensorImpl& values, TensorImpl& indices) {
  const Tensor all_values = core::make_workspace(x.shape, x.dtype, x.device(), core::calling_place());
  const Tensor all_indices = core::make_workspace(x.shape, DType::int64, x.device(), core::calling_place());
  sort(x, axis, largest, all_values.impl(), all_indices.impl());
  for (const auto& [from, to] : {std::pair{&all_values, &values}, std::pair{&all_indices, &indices}}) {
    const TensorImpl& all = *from->impl();
    const Tensor first = core::make_view(all, to->shape, all.strides, 0, core::calling_place());
    copy(*first.impl(), *to);
  }
}

}  // namespace

void topk(const TensorImpl& x, int axis, bool largest, bool ordered, TensorImpl& values, TensorImpl& indices) {
  if (values.numel() == 0) return;
  const std::int64_t count = x.shape[axis], rows = x.numel() / count, k = values.shape[axis];
  const bool cut = rows < kFewRows && count >= kLongRow;
  if (k > count / (cut ? kShareOfLong : kShareOfRow)) return select_by_sorting(x, axis, largest, values, indices);
  const Tensor x_rows = rows_along(x, axis);
  const RowsFor value_rows(&values, axis), index_rows(&indices, axis);
  visit_order(x.dtype, [&]<class Order>(Order) {
    using Word = typename Order::Word;
    Selection<Order> task{};
    task.x = x_rows.impl()->as<Word>();
    task.rows = rows;
    task.count = count;
    task.k = k;
    task.flip = largest ? Order::kLast : Word{0};
    task.ordered = ordered;
    task.values = value_rows.data<Word>();
    task.indices = index_rows.data<std::int64_t>();
    if constexpr (sizeof(Word) <= 4) {
      using Entry = ShortEntry<static_cast<int>(sizeof(Word))>;
      if (count <= kShortPlaces) return cut ? select_in_parts<Entry>(task) : select_in_rows<Entry>(task);
    }
    cut ? select_in_parts<LongEntry>(task) : select_in_rows<LongEntry>(task);
  });
  value_rows.store();
  index_rows.store();
}

}  // namespace capstan::on_cpu
