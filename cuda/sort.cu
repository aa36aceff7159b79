// Sorting along an axis: short rows in shared memory, several in a block; long ones by CUB, many rows at once, with the
// row above the key. Equal elements keep their order, so there is one result.
#include <bit>

#include "cuda/device_wide.hpp"
#include "cuda/sorting.cuh"
#include "cuda/sorting.hpp"

namespace capstan::on_cuda {
namespace {

constexpr std::int64_t kGroup = std::int64_t{1}
                                << 27;  // elements of rows that CUB sorts together, if there are several

/// The least n with 2^n >= count.
int log2_above(std::int64_t count) { return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count - 1))); }

/// Writes what is number `rank` in a row's result: the element that stood at `place` there.
__device__ inline void put_result(const SortTask& task, std::int64_t row, std::int64_t rank, std::int64_t place) {
  const Lines& lines = task.lines;
  const std::int64_t to = Lines::start_of(row, task.kept, lines.inner) + rank * lines.inner;
  if (task.indices != nullptr) task.indices[to] = place;
  if (task.values == nullptr) return;
  const std::uint64_t bits = read_bits(task.x, task.order.bytes, lines.start(row) + place * lines.inner);
  write_bits(task.values, task.order.bytes, to, bits);
}

/// Rows of up to 2^run_log elements, as many at once as fit. Where elements of a row are not neighbours, those of
/// neighbouring rows are: threads then go across the rows.
template <class Entry>
__global__ void __launch_bounds__(kThreads) sort_short_kernel(SortTask task, int run_log) {
  __shared__ Entry entries[kTile];
  const Lines& lines = task.lines;
  const int rows_log = 11 - run_log, run = 1 << run_log, tile_rows = 1 << rows_log;
  static_assert(kTile == 1 << 11);
  const bool across = lines.inner > 1;
  for (std::int64_t first = std::int64_t{blockIdx.x} * tile_rows; first < lines.rows;
       first += std::int64_t{gridDim.x} * tile_rows) {
    const int rows = lines.rows - first < tile_rows ? static_cast<int>(lines.rows - first) : tile_rows;
    const int used = across ? kTile : rows * run;
    for (int e = static_cast<int>(threadIdx.x); e < used; e += static_cast<int>(kThreads)) {
      const int own = across ? e & (tile_rows - 1) : e >> run_log, step = across ? e >> rows_log : e & (run - 1);
      Entry entry = Entry::last();
      if (own < rows && step < lines.count) {
        const std::int64_t at = lines.start(first + own) + step * lines.inner;
        const std::uint64_t key = task.order.key(read_bits(task.x, task.order.bytes, at)) ^ task.flip;
        entry = Entry::make(key, static_cast<std::uint32_t>(step));
      }
      entries[own * run + step] = entry;
    }
    __syncthreads();
    sort_runs(entries, used, run);
    for (int e = static_cast<int>(threadIdx.x); e < used; e += static_cast<int>(kThreads)) {
      const int own = across ? e & (tile_rows - 1) : e >> run_log, rank = across ? e >> rows_log : e & (run - 1);
      if (own < rows && rank < task.kept) put_result(task, first + own, rank, entries[own * run + rank].place());
    }
    __syncthreads();
  }
}

/// Keys of the rows from `first` on, below the row's number if it counts, and their places among all of these elements.
template <class Key, class Place>
__global__ void __launch_bounds__(kThreads) sort_keys_kernel(SortTask task, std::int64_t first, std::int64_t elements,
                                                             bool with_row, Key* keys, Place* places) {
  const Lines& lines = task.lines;
  const int key_bits = 8 * task.order.bytes;
  for (std::int64_t i = first_index(); i < elements; i += index_step()) {
    const std::int64_t row = i / lines.count, step = i - row * lines.count;
    const std::int64_t at = lines.start(first + row) + step * lines.inner;
    std::uint64_t key = task.order.key(read_bits(task.x, task.order.bytes, at)) ^ task.flip;
    if (with_row) key |= static_cast<std::uint64_t>(row) << key_bits;
    keys[i] = static_cast<Key>(key);
    places[i] = static_cast<Place>(i);
  }
}

template <class Place>
__global__ void __launch_bounds__(kThreads)
    sort_row_numbers_kernel(const Place* places, std::int64_t elements, std::int64_t count, std::uint32_t* rows) {
  for (std::int64_t i = first_index(); i < elements; i += index_step())
    rows[i] = static_cast<std::uint32_t>(static_cast<std::int64_t>(places[i]) / count);
}

template <class Place>
__global__ void __launch_bounds__(kThreads)
    sort_store_kernel(SortTask task, std::int64_t first, std::int64_t rows, const Place* places) {
  const std::int64_t count = task.lines.count, results = rows * task.kept;
  for (std::int64_t i = first_index(); i < results; i += index_step()) {
    const std::int64_t row = i / task.kept, rank = i - row * task.kept;
    const auto place = static_cast<std::int64_t>(places[row * count + rank]);
    put_result(task, first + row, rank, place - row * count);
  }
}

template <class T>
Tensor room_for(std::int64_t count) {
  return workspace(count, sizeof(T) == 4 ? DType::int32 : DType::int64);
}

/// `rows` rows from `first` on, whose keys and numbers fit Key together unless keys fill it.
template <class Key, class Place>
void sort_group(const SortTask& task, std::int64_t first, std::int64_t rows) {
  const std::int64_t elements = rows * task.lines.count;
  const int key_bits = 8 * task.order.bytes, row_bits = log2_above(rows);
  const bool together = key_bits + row_bits <= 8 * static_cast<int>(sizeof(Key));
  const Tensor key_room = room_for<Key>(elements), sorted_key_room = room_for<Key>(elements);
  const Tensor place_room = room_for<Place>(elements), sorted_place_room = room_for<Place>(elements);
  auto *const keys = key_room.impl()->as<Key>(), *const sorted_keys = sorted_key_room.impl()->as<Key>();
  auto *places = place_room.impl()->as<Place>(), *sorted_places = sorted_place_room.impl()->as<Place>();
  const LaunchShape shape = shape_for(elements);
  launch(sort_keys_kernel<Key, Place>, shape, task, first, elements, together && rows > 1, keys, places);
  sort_pairs(keys, sorted_keys, places, sorted_places, elements, together ? key_bits + row_bits : key_bits);
  if constexpr (sizeof(Key) == 8 && sizeof(Place) == 4) {
    if (!together) {  // by rows behind that: the order in each of them stays
      auto *const numbers = key_room.impl()->as<std::uint32_t>(), *const sorted = numbers + elements;
      launch(sort_row_numbers_kernel<Place>, shape, sorted_places, elements, task.lines.count, numbers);
      sort_pairs(numbers, sorted, sorted_places, places, elements, row_bits);
      sorted_places = places;
    }
  }
  launch(sort_store_kernel<Place>, shape_for(rows * task.kept), task, first, rows, sorted_places);
}

void sort_long_rows(const SortTask& task) {
  const std::int64_t rows = task.lines.rows, count = task.lines.count,
                     group = std::max<std::int64_t>(1, kGroup / count);
  for (std::int64_t first = 0; first < rows; first += group) {
    const std::int64_t here = std::min(group, rows - first);
    if (here * count > UINT32_MAX) sort_group<std::uint64_t, std::int64_t>(task, first, here);
    else if (8 * task.order.bytes + log2_above(here) > 32) sort_group<std::uint64_t, std::uint32_t>(task, first, here);
    else sort_group<std::uint32_t, std::uint32_t>(task, first, here);
  }
}

}  // namespace

void sort_rows(const SortTask& task) {
  if (task.lines.rows == 0 || task.kept == 0) return;
  if (task.lines.count > kTile) return sort_long_rows(task);
  const int run_log = log2_above(task.lines.count);
  const std::int64_t tile_rows = kTile >> run_log;
  const LaunchShape shape = block_each((task.lines.rows + tile_rows - 1) / tile_rows);
  if (task.order.bytes <= 4) launch(sort_short_kernel<ShortEntry>, shape, task, run_log);
  else launch(sort_short_kernel<LongEntry>, shape, task, run_log);
}

void sort(const TensorImpl& x, int axis, bool descending, TensorImpl* values, TensorImpl* indices) {
  if (x.numel() == 0) return;
  const Tensor dense = packed(x);
  const ElementOrder order(x.dtype);
  sort_rows({dense.impl()->data, Lines(x.shape, axis), order, descending ? order.last : 0, x.shape[axis],
             values != nullptr ? values->data : nullptr, indices != nullptr ? indices->as<std::int64_t>() : nullptr});
}

}  // namespace capstan::on_cuda
