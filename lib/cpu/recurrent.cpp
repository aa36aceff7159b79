#include "lib/cpu/recurrent.hpp"

#include <numeric>

namespace capstan::on_cpu {
namespace {

/// Blocks of rows begin at multiples of this: then their tiles are those of the whole, and round alike.
constexpr std::int64_t kTileRows = 12;

template <class Use>
void for_lines(const Schedule& steps, std::int64_t width, Use use) {
  base::parallel_for(steps.batch, kCheapGrain / (steps.time * width + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row)
                         for (std::int64_t t = 0; t < steps.length(row); ++t)
                           use(steps.first(t) + row, steps.place(row), t);
                     });
}

}  // namespace

Schedule::Schedule(std::int64_t rows, std::int64_t steps, const std::int64_t* lengths, bool backwards)
    : batch(rows),
      time(lengths == nullptr ? steps
           : rows == 0        ? 0
                              : *std::max_element(lengths, lengths + rows)),
      lines(rows * steps),
      reverse(backwards),
      all_(lengths == nullptr),
      order_(all_ ? 0 : rows, Where::current()),
      length_(all_ ? 0 : rows, Where::current()),
      active_(all_ ? 0 : time, Where::current()),
      first_(all_ ? 0 : time, Where::current()) {
  if (all_) return;
  std::iota(order_.data(), order_.data() + batch, std::int64_t{0});
  std::sort(order_.data(), order_.data() + batch, [lengths](std::int64_t a, std::int64_t b) {  // a stable one allocates
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  for (std::int64_t row = 0; row < batch; ++row) length_[row] = lengths[order_[row]];
  lines = 0;
  std::int64_t running = batch;
  for (std::int64_t t = 0; t < time; ++t) {
    while (running > 0 && length_[running - 1] <= t) --running;
    active_[t] = running;
    first_[t] = lines;
    lines += running;
  }
}

template <class T>
Panels<T>::Panels(const Matrix<const T>& b, std::int64_t k, std::int64_t blocks, std::int64_t width, std::int64_t piece)
    : k_(k), blocks_(blocks), width_(width), piece_(piece), data_(k * blocks * width, Where::current()) {
  base::parallel_for(blocks_ * pieces(), kCheapGrain / (k * piece + 1) + 1, [&](std::int64_t from, std::int64_t to) {
    for (std::int64_t i = from; i < to; ++i) {
      const std::int64_t p = i % pieces(), first = i / pieces() * width_ + begin(p), count = end(p) - begin(p);
      T* out = data_.data() + k_ * first;
      const T* in = b.data + first * b.column;
      if (b.column == 1) {
        for (std::int64_t row = 0; row < k_; ++row) std::copy_n(in + row * b.row, count, out + row * count);
        continue;
      }
      constexpr std::int64_t kTile = 16;
      for (std::int64_t row = 0; row < k_; row += kTile)
        for (std::int64_t column = 0; column < count; column += kTile)
          if (b.row == 1 && row + kTile <= k_ && column + kTile <= count)
            simd().of<T>().transpose_tile(in + column * b.column + row, b.column, out + row * count + column, count);
          else
            for (std::int64_t r = row; r < std::min(row + kTile, k_); ++r)
              for (std::int64_t c = column; c < std::min(column + kTile, count); ++c)
                out[r * count + c] = in[r * b.row + c * b.column];
    }
  });
}

template <class T>
void Panels<T>::multiply(const T* a, std::int64_t a_row, std::int64_t rows, std::int64_t p, T* c, std::int64_t c_row,
                         std::int64_t added) const {
  if (rows == 0) return;
  const Range pieces = range(p);
  for (std::int64_t i = pieces.first; i < pieces.last; ++i)
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t count = end(i) - begin(i), column = block * width_ + begin(i);
      simd().of<T>().small_gemm(
          {a, a_row, 1, data_.data() + k_ * column, count, c + column, c_row, rows, count, k_, block < added});
    }
}

RecurrentCut cut_recurrent(const Schedule& steps, std::int64_t weights, std::int64_t bytes) {
  // a thread keeps all weights in its second-level cache, or its share of them; and a step must be worth a meeting
  constexpr std::int64_t kCachedBytes = 512 << 10, kStepWork = 1 << 18;
  const bool by_units =
      steps.batch * weights >= kStepWork && (steps.batch < 4 * kTileRows || weights * bytes > kCachedBytes);
  if (by_units) return {true, steps.batch, 32};
  const std::int64_t share = steps.batch * weights * steps.time < kStepWork ? 1 : threads();
  const std::int64_t parts = steps.order() == nullptr ? share : 2 * share;  // rows of equal lengths lie side by side
  const std::int64_t rows = (steps.batch + parts - 1) / parts;
  return {false, std::max((rows + kTileRows - 1) / kTileRows, std::int64_t{1}) * kTileRows, 64};
}

bool in_lines(const TensorImpl& x) {
  if (x.rank() == 2) return true;
  const std::int64_t batch = x.shape[0], time = x.shape[1], width = x.shape[2];
  return (width == 1 || x.strides[2] == 1) && (batch == 1 || x.strides[0] == width) &&
         (time == 1 || x.strides[1] == batch * width);
}

template <class T>
void gather_lines(const Schedule& steps, const TensorImpl& x, T* lines) {
  const std::int64_t width = x.shape[2];
  for_lines(steps, width, [&](std::int64_t line, std::int64_t row, std::int64_t t) {
    std::copy_n(x.as<T>() + row * x.strides[0] + t * x.strides[1], width, lines + line * width);
  });
}

template <class T>
void scatter_lines(const Schedule& steps, const T* lines, const TensorImpl& x) {
  const std::int64_t width = x.shape[2];
  for_lines(steps, width, [&](std::int64_t line, std::int64_t row, std::int64_t t) {
    std::copy_n(lines + line * width, width, x.as<T>() + row * x.strides[0] + t * x.strides[1]);
  });
  clear_padding<T>(steps, x);
}

template <class T>
void clear_padding(const Schedule& steps, const TensorImpl& x) {
  for (std::int64_t row = 0; row < steps.batch; ++row)
    for (std::int64_t t = steps.length(row); t < x.shape[1]; ++t)
      std::fill_n(x.as<T>() + steps.place(row) * x.strides[0] + t * x.strides[1], x.shape[2], T(0));
}

#define CAPSTAN_INSTANTIATE(T)                                               \
  template class Panels<T>;                                                  \
  template void gather_lines(const Schedule&, const TensorImpl&, T*);        \
  template void scatter_lines(const Schedule&, const T*, const TensorImpl&); \
  template void clear_padding<T>(const Schedule&, const TensorImpl&);
CAPSTAN_INSTANTIATE(float)
CAPSTAN_INSTANTIATE(double)
#undef CAPSTAN_INSTANTIATE

}  // namespace capstan::on_cpu
