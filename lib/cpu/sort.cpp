// Sorting along an axis. Equal elements keep their order, so there is one result, however the work is cut.
#include "lib/cpu/along.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/keys.hpp"
#include "lib/cpu/radix.hpp"

namespace capstan::on_cpu {
namespace {

template <class Order>
struct Sorting {
  using Word = typename Order::Word;
  const Word* x;  // [rows, count]
  std::int64_t rows, count;
  Word flip;     // all ones to sort downwards
  Word* values;  // either may be null
  std::int64_t* indices;

  Word key(Word bits) const noexcept { return static_cast<Word>(Order::encode(bits) ^ flip); }
};

/// Values alone, made from their keys; false if the keys do not tell them apart.
template <class Order>
bool sort_keys(const Sorting<Order>& task, std::int64_t row, std::byte* scratch) {
  using Word = typename Order::Word;
  const Word* x = task.x + row * task.count;
  Word* values = task.values + row * task.count;
  auto* keys = reinterpret_cast<Bare<Word>*>(scratch);
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < task.count; ++i) {
    others += Order::is_plain(x[i]) ? 0 : 1;
    keys[i].key = task.key(x[i]);
  }
  if (others > 0) return false;
  const Bare<Word>* result = radix_sort(keys, keys + task.count, task.count);
  for (std::int64_t i = 0; i < task.count; ++i) values[i] = Order::decode(static_cast<Word>(result[i].key ^ task.flip));
  return true;
}

template <class Entry, class Order>
void sort_row(const Sorting<Order>& task, std::int64_t row, std::byte* scratch) {
  if (task.indices == nullptr && sort_keys(task, row, scratch)) return;
  const std::int64_t first = row * task.count;
  const auto* x = task.x + first;
  auto* entries = reinterpret_cast<Entry*>(scratch);
  std::int64_t others = 0;
  for (std::int64_t i = 0; i < task.count; ++i) {
    others += Order::is_plain(x[i]) ? 0 : 1;
    entries[i] = Entry::make(task.key(x[i]), i);
  }
  const Entry* result = radix_sort(entries, entries + task.count, task.count);
  if (task.indices != nullptr)
    for (std::int64_t i = 0; i < task.count; ++i) task.indices[first + i] = result[i].place();
  if (task.values == nullptr) return;
  auto* values = task.values + first;
  if (others > 0)
    for (std::int64_t i = 0; i < task.count; ++i) values[i] = x[result[i].place()];
  else  // the keys say it all, and in order
    for (std::int64_t i = 0; i < task.count; ++i)
      values[i] = Order::decode(
          static_cast<typename Order::Word>(static_cast<typename Order::Word>(result[i].key()) ^ task.flip));
}

/// A row is one thread's: two that pass its parts to each other through their caches take twice the time of one.
template <class Entry, class Order>
void sort_rows(const Sorting<Order>& task) {
  const std::int64_t bytes = 2 * task.count * static_cast<std::int64_t>(sizeof(Entry));
  for_lanes(task.rows, kExpensiveGrain / task.count + 1, bytes,
            [&](std::byte* scratch, std::int64_t begin, std::int64_t end) {
              for (std::int64_t row = begin; row < end; ++row) sort_row<Entry>(task, row, scratch);
            });
}

}  // namespace

void sort(const TensorImpl& x, int axis, bool descending, TensorImpl* values, TensorImpl* indices) {
  if (x.numel() == 0) return;
  const Tensor rows = rows_along(x, axis);
  const RowsFor value_rows(values, axis), index_rows(indices, axis);
  const std::int64_t count = x.shape[axis];
  visit_order(x.dtype, [&]<class Order>(Order) {
    using Word = typename Order::Word;
    Sorting<Order> task{};
    task.x = rows.impl()->as<Word>();
    task.rows = x.numel() / count;
    task.count = count;
    task.flip = descending ? Order::kLast : Word{0};
    task.values = value_rows.data<Word>();
    task.indices = index_rows.data<std::int64_t>();
    if constexpr (sizeof(Word) <= 4) {
      if (count <= kShortPlaces) return sort_rows<ShortEntry<static_cast<int>(sizeof(Word))>>(task);
    }
    sort_rows<LongEntry>(task);
  });
  value_rows.store();
  index_rows.store();
}

}  // namespace capstan::on_cpu
