#include "lib/cpu/recurrent.hpp"

#include <numeric>
#include <utility>

#include "lib/base/text.hpp"

namespace capstan::on_cpu {
namespace {

/// Of x [batch, time, width], or of a single step without its axis.
std::int64_t steps_of(const TensorImpl& x) { return x.rank() == 2 ? 1 : x.shape[1]; }

/// Multiplications that are worth another thread.
constexpr std::int64_t kStepWork = 1 << 18;

template <class Use>
void for_lines(const Schedule& steps, std::int64_t width, Use use) {
  constexpr std::int64_t kCall = 32;  // values that would be copied while a line's copy begins
  base::parallel_for(steps.batch, kExpensiveGrain / (steps.time * (width + kCall) + 1) + 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t row = begin; row < end; ++row)
                         for (std::int64_t t = 0; t < steps.length(row); ++t)
                           use(steps.first(t) + row, steps.place(row), t);
                     });
}

/// The lines of x [batch, time, width], valid steps only, one after the other.
template <class T>
void gather_lines(const Schedule& steps, const TensorImpl& x, T* lines) {
  const std::int64_t width = x.shape[2];
  for_lines(steps, width, [&](std::int64_t line, std::int64_t row, std::int64_t t) {
    std::copy_n(x.as<T>() + row * x.strides[0] + t * x.strides[1], width, lines + line * width);
  });
}

/// What the busiest thread has where `units` are cut into pieces of so many: columns of whole registers, of which a
/// single one behind wider tiles takes half as long again.
std::int64_t largest_share(std::int64_t units, std::int64_t piece) {
  constexpr std::int64_t kLanes = 16, kWide = 64;
  const std::int64_t pieces = (units + piece - 1) / piece;
  std::int64_t largest = 0;
  for (std::int64_t thread = 0; thread < threads(); ++thread) {
    const auto [first, last] = base::share_of(thread, pieces);
    std::int64_t share = 0;
    for (std::int64_t p = first; p < last; ++p) {
      const std::int64_t columns = (std::min(piece, units - p * piece) + kLanes - 1) / kLanes * kLanes;
      share += columns + (columns % kWide == kLanes ? kLanes / 2 : 0);
    }
    largest = std::max(largest, share);
  }
  return largest;
}

/// Columns of the pieces of `units`, of which the busiest thread has fewest: several for each thread, or one.
std::int64_t even_piece(std::int64_t units) {
  constexpr std::int64_t kWidest = 128;
  const std::int64_t one = ((units + threads() - 1) / threads() + 15) / 16 * 16;
  std::int64_t best = 64;
  for (const std::int64_t piece : {std::int64_t{48}, std::int64_t{32}, std::min(one, kWidest)})
    if (largest_share(units, piece) < largest_share(units, best)) best = piece;
  return best;
}

}  // namespace

Schedule::Schedule(const core::RecurrentTask& task)
    : batch(task.x.shape[0]),
      time(task.lengths == nullptr ? steps_of(task.x)
           : batch == 0            ? 0
                                   : *std::max_element(task.lengths, task.lengths + batch)),
      lines(batch * time),
      reverse(task.reverse),
      all_(task.lengths == nullptr),
      order_(all_ ? 0 : batch, core::calling_place()),
      length_(all_ ? 0 : batch, core::calling_place()),
      active_(all_ ? 0 : time, core::calling_place()),
      first_(all_ ? 0 : time, core::calling_place()) {
  if (all_) return;
  const std::int64_t* lengths = task.lengths;
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
    : b_(b),
      k_(k),
      blocks_(blocks),
      width_(width),
      piece_(piece),
      dotted_(blocks == 1 ? dotted_columns(b, width, k) : 0),
      data_(k * blocks * width, core::calling_place()) {
  constexpr std::int64_t kRows = 64;
  const std::int64_t parts = (k + kRows - 1) / kRows, cost = 4 * kRows * piece;  // of one, in values that are copied
  base::parallel_for(
      blocks_ * pieces() * parts, kExpensiveGrain / (cost + 1) + 1, [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t i = from; i < to; ++i) {
          const std::int64_t p = i / parts % pieces(), row = i % parts * kRows, count = end(p) - begin(p);
          const std::int64_t first = i / parts / pieces() * width_ + begin(p);
          pack<T>({b.data + first * b.column + row * b.row, b.row, b.column}, std::min(kRows, k - row), count,
                  data_.data() + k * first + row * count);
        }
      });
}

template <class T>
void Panels<T>::multiply(const T* a, std::int64_t a_row, std::int64_t rows, std::int64_t p, T* c, std::int64_t c_row,
                         std::int64_t added, bool zero) const {
  if (rows == 0) return;
  const Range pieces = range(p);
  for (std::int64_t i = pieces.first; i < pieces.last; ++i)
    for (std::int64_t block = 0; block < blocks_; ++block) {
      const std::int64_t count = end(i) - begin(i), column = block * width_ + begin(i);
      const std::int64_t dotted = end(i) == width_ ? dotted_ : 0, k = zero ? 0 : k_, last = width_ - dotted;
      simd().of<T>().small_gemm(
          {a, a_row, 1, data_.data() + k_ * column, count, c + column, c_row, rows, count - dotted, k, block < added});
      if (dotted > 0)
        simd().of<T>().dot_columns(
            {a, a_row, 1, b_.data + last * b_.column, b_.column, c + last, c_row, rows, dotted, k, block < added});
    }
}

template <class T>
void Panels<T>::multiply_both(const Panels& other, const T* x, std::int64_t x_row, const T* a, std::int64_t a_row,
                              std::int64_t rows, T* c, std::int64_t c_row, bool zero) const {
  TwoProducts<T> g = product_with(a, a_row, rows, c_row, zero);
  g.x = x, g.x_row = x_row, g.inputs = other.k_;
  for (std::int64_t p = 0; p < pieces(); ++p) {
    g.wx = other.data_.data() + other.k_ * begin(p);
    multiply_piece(g, p, c);
  }
}

template <class T>
void Panels<T>::multiply_onto(const TermRows<T>& start, const T* a, std::int64_t a_row, std::int64_t rows, T* c,
                              std::int64_t c_row, bool zero) const {
  TwoProducts<T> g = product_with(a, a_row, rows, c_row, zero);
  g.start = start;
  for (std::int64_t p = 0; p < pieces(); ++p) {
    g.start.b = start.b + begin(p);
    multiply_piece(g, p, c);
  }
}

template <class T>
TwoProducts<T> Panels<T>::product_with(const T* a, std::int64_t a_row, std::int64_t rows, std::int64_t c_row,
                                       bool zero) const {
  TwoProducts<T> g{};
  g.h = a, g.h_row = a_row, g.units = zero ? 0 : k_;
  g.x = a, g.wx = data_.data();  // of no inputs, but no null pointers
  g.m = rows, g.c_row = c_row;
  return g;
}
template <class T>
void Panels<T>::multiply_piece(TwoProducts<T>& g, std::int64_t p, T* c) const {
  g.wh = data_.data() + k_ * begin(p), g.c = c + begin(p), g.n = end(p) - begin(p);
  simd().of<T>().two_products(g);
}

RecurrentCut cut_recurrent(const Schedule& steps, std::int64_t weights, std::int64_t units, std::int64_t bytes) {
  // a thread keeps all weights in its second-level cache, or its share of them; and a step must be worth a meeting
  constexpr std::int64_t kManyRows = 48, kWidePiece = 64;
  const bool by_units =
      steps.batch * weights >= kStepWork && (steps.batch < kManyRows || weights * bytes > kCachedBytes);
  // Only tiles of a single row add in an order of their own. Even numbers of rows make none, so pieces may be as wide as
  // suits the threads.
  const bool even = steps.order() == nullptr && steps.batch % 2 == 0;
  if (by_units) return {true, steps.batch, even ? even_piece(units) : 32};
  const std::int64_t share = steps.batch * weights * steps.time < kStepWork ? 1 : threads();
  const std::int64_t parts = steps.order() == nullptr ? share : 2 * share;  // rows of equal lengths lie side by side
  // Of other numbers a block that begins at a multiple of six, the rows of the widest tiles, makes the one that the
  // whole makes.
  const std::int64_t unit = even ? 2 : 6;
  const std::int64_t rows = (steps.batch + parts - 1) / parts;
  return {false, std::max((rows + unit - 1) / unit, std::int64_t{1}) * unit, kWidePiece};
}

bool side_by_side(const core::RecurrentTask& task) {
  constexpr std::int64_t kKeptBytes = 2 << 20;  // weights that a core's own cache keeps; of more, each takes a share
  const std::int64_t weights = task.wh.numel();
  return threads() == 2 && weights * size_of(task.wh.dtype) <= kKeptBytes &&
         task.x.shape[0] * steps_of(task.x) * (task.wx.numel() + weights) >= kStepWork;
}

bool in_lines(const TensorImpl& x) {
  if (x.rank() == 2) return true;
  const std::int64_t batch = x.shape[0], time = x.shape[1], width = x.shape[2];
  return (width == 1 || x.strides[2] == 1) && (batch == 1 || x.strides[0] == width) &&
         (time == 1 || x.strides[1] == batch * width);
}

template <class T>
InputLines<T>::InputLines(const Schedule& steps, const TensorImpl& x)
    : gathered_(steps.order() == nullptr && in_lines(x) ? 0 : steps.lines * x.shape[x.rank() - 1],
                core::calling_place()),
      data_(gathered_.data() == nullptr ? x.as<T>() : gathered_.data()) {
  if (gathered_.data() != nullptr) gather_lines(steps, x, gathered_.data());
}

template <class T>
LookedUp<T>::LookedUp(const Schedule& steps, const core::RecurrentTask& task)
    : lines_(steps.lines),
      rows_((task.table_rows + 1) / 2 * 2),
      terms_(lines_, core::calling_place()),
      table_(rows_ * task.wx.shape[0], core::calling_place()) {
  const TensorImpl &x = task.x, &index = *task.index;
  const std::int64_t width = task.wx.shape[0];
  core::Scratch<bool> seen(rows_, core::calling_place());
  std::fill_n(seen.data(), rows_, false);
  std::fill_n(table_.data(), rows_ * width, T(0));
  SingleTerm<T>* term = terms_.data();
  std::int32_t line = 0;
  for (std::int64_t t = 0; t < steps.time; ++t) {
    const std::int64_t *const indices = index.as<std::int64_t>() + t * index.strides[1], *const order = steps.order();
    const std::int64_t step = index.strides[0], rows = task.table_rows, count = steps.active(t);
    bool* const known = seen.data();
    for (std::int64_t row = 0; row < count; ++row, ++term, ++line) {
      const std::int64_t place = order == nullptr ? row : order[row], chosen = indices[place * step];
      if (chosen < 0 || chosen >= rows)  // nobody can have been told of that
        base::fail<IndexError>(core::calling_place(), "embedding: the index is ", chosen, " by now, and the table has ",
                               rows, " rows.");
      *term = {chosen, line, T(1)};
      if (std::exchange(known[chosen], true)) continue;
      std::copy_n(x.as<T>() + place * x.strides[0] + t * x.strides[1], width, table_.data() + chosen * width);
    }
  }
}

template <class T>
void LookedUp<T>::add_up(const T* from, std::int64_t width, T* sums) {
  std::fill_n(sums, rows_ * width, T(0));
  for (std::int64_t i = 0; i < lines_; i += kSumBlock)
    put_in_order(terms_.data() + i, std::min(kSumBlock, lines_ - i), rows_);
  give_in_blocks<T>(terms_.data(), lines_, {from, width, 1}, sums, width, width, false);
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
  if (steps.order() == nullptr) return;
  for (std::int64_t row = 0; row < steps.batch; ++row)
    for (std::int64_t t = steps.length(row); t < x.shape[1]; ++t)
      std::fill_n(x.as<T>() + steps.place(row) * x.strides[0] + t * x.strides[1], x.shape[2], T(0));
}

#define CAPSTAN_INSTANTIATE(T)                                               \
  template class Panels<T>;                                                  \
  template class InputLines<T>;                                              \
  template class LookedUp<T>;                                                \
  template void scatter_lines(const Schedule&, const T*, const TensorImpl&); \
  template void clear_padding<T>(const Schedule&, const TensorImpl&);
CAPSTAN_INSTANTIATE(float)
CAPSTAN_INSTANTIATE(double)
#undef CAPSTAN_INSTANTIATE

}  // namespace capstan::on_cpu
