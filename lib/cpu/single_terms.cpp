#include "lib/cpu/single_terms.hpp"

#include <algorithm>
#include <atomic>

#include "lib/core/allocator.hpp"
#include "lib/cpu/iterate.hpp"

namespace capstan::on_cpu {
namespace {

/// Whether holds(begin, end) for all pieces of [0, count).
template <class Holds>
bool every(std::int64_t count, std::int64_t grain, Holds holds) {
  std::atomic<bool> all = true;
  base::parallel_for(count, std::max(grain, std::int64_t{1}), [&](std::int64_t begin, std::int64_t end) {
    if (!holds(begin, end)) all.store(false, std::memory_order_relaxed);
  });
  return all.load(std::memory_order_relaxed);
}

/// Whether give(column, width) for parts of `columns` columns of so many rows that are added up: one for each thread, as
/// wide as can be. Rows are read piece by piece else, and their pages many times.
template <class T, class Give>
bool every_part(std::int64_t rows, std::int64_t columns, Give give) {
  const std::int64_t lanes = simd().of<T>().lanes, units = (columns + lanes - 1) / lanes;
  const std::int64_t most = std::clamp(units, std::int64_t{1}, std::int64_t{threads()});
  const std::int64_t parts = std::clamp(2 * rows * columns / kCheapGrain, std::int64_t{1}, most);
  return every(parts, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t column = units * first / parts * lanes;
    return give(column, std::min(units * last / parts * lanes, columns) - column);
  });
}

template <class T>
class SingleTermProduct {
 public:
  SingleTermProduct(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
                    std::int64_t n, std::int64_t k, const Start<T>& start)
      : a_(a.data),
        b_(b),
        c_(c),
        c_row_(c_row),
        m_(m),
        n_(n),
        by_rows_(a.column == 1),
        contiguous_(by_rows_ || a.row == 1),
        start_(start),
        lines_(by_rows_ ? m : k),
        width_(by_rows_ ? k : m),
        step_(by_rows_ ? a.row : a.column) {}

  bool done() const {
    constexpr std::int64_t kLines = 4, kWidth = 4, kColumns = 16;  // of fewer nothing is saved
    if (lines_ < kLines || width_ < kWidth || n_ < kColumns || !contiguous_ || b_.column != 1) return false;
    if (a_[0] != T(0) && a_[1] != T(0)) return false;  // as in most products
    // Lines are looked at as they are taken, and if one turns out to have more values, what has been written is written
    // again. All are looked at first where rows are long, and where they are added to something.
    const bool first = by_rows_ && (start_.accumulate || (lines_ > kPiece && lines_ <= n_));
    if (!are_single_terms(a_, step_, first ? lines_ : 1, width_)) return false;
    if (by_rows_) return are_finite(b_.data, b_.row, width_, n_) && take();
    return (!start_.accumulate || are_finite(b_.data, b_.row, lines_, n_)) && give();
  }

 private:
  static constexpr std::int64_t kPiece = 64;  // lines whose terms are at hand

  /// Terms of the lines [line, end), of which the first is number 0; false if a line has more than one.
  bool find(std::int64_t line, std::int64_t end, SingleTerm<T>* terms) const {
    return simd().of<T>().single_terms(a_ + line * step_, step_, end - line, width_, terms);
  }

  /// Lines are rows: each takes one of b.
  bool take() const {
    return every(lines_, kCheapGrain / (n_ + width_), [&](std::int64_t begin, std::int64_t end) {
      SingleTerm<T> terms[kPiece];
      for (std::int64_t line = begin; line < end; line += kPiece) {
        const std::int64_t count = std::min(kPiece, end - line);
        if (!find(line, line + count, terms)) return false;
        T* c = c_ + line * c_row_;
        const bool onto = start_.accumulate || start_.bias != nullptr;
        for (std::int64_t i = 0; onto && i < count; ++i) begin_row(start_, c + i * c_row_, n_);
        simd().of<T>().take_terms({terms, count, b_.data, b_.row, c, c_row_, n_, onto});
      }
      return true;
    });
  }

  /// Lines are columns: each gives its row of b to one of c. The terms of a block are put in the order of their places
  /// first; those of a place are then added up in registers. Threads share the columns of b.
  bool give() const {
    core::Scratch<SingleTerm<T>> terms(lines_, core::calling_place());
    const std::int64_t blocks = (lines_ + kSumBlock - 1) / kSumBlock, size = (lines_ + blocks - 1) / blocks;
    const bool found = every(blocks, kCheapGrain / (8 * size * width_), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t line = first * size; line < std::min(last * size, lines_); line += size) {
        const std::int64_t end = std::min(line + size, lines_);
        if (!find(line, end, terms.data() + line)) return false;
        put_in_order(terms.data() + line, end - line, m_);
      }
      return true;
    });
    if (!found) return false;
    return every_part<T>(lines_, n_, [&](std::int64_t begin, std::int64_t width) {
      return give_columns(terms.data(), size, begin, width);
    });
  }
  bool give_columns(const SingleTerm<T>* terms, std::int64_t size, std::int64_t begin, std::int64_t width) const {
    const Start<T> start{start_.bias == nullptr ? nullptr : start_.bias + begin, start_.accumulate};
    for (std::int64_t i = 0; i < m_; ++i) begin_row(start, c_ + i * c_row_ + begin, width);
    for (std::int64_t line = 0; line < lines_; line += size)
      simd().of<T>().give_terms({terms + line, std::min(size, lines_ - line), b_.data + line * b_.row + begin, b_.row,
                                 c_ + begin, c_row_, width, true});
    return start_.accumulate || are_finite(c_ + begin, c_row_, m_, width);  // where b is not, some sum is not
  }

  const T* a_;
  Matrix<const T> b_;
  T* c_;
  std::int64_t c_row_, m_, n_;
  bool by_rows_, contiguous_;
  Start<T> start_;
  std::int64_t lines_, width_, step_;
};

}  // namespace

template <class T>
bool are_single_terms(const T* lines, std::int64_t step, std::int64_t count, std::int64_t width, SingleTerm<T>* terms) {
  const auto look = [&](std::int64_t begin, std::int64_t end) {
    return simd().of<T>().single_terms(lines + begin * step, step, end - begin, width,
                                       terms == nullptr ? nullptr : terms + begin);
  };
  if (base::in_real_time() || !look(0, std::min(count, std::int64_t{1}))) return false;
  return every(count, kCheapGrain / (8 * width + 1), look);
}

template <class T>
void put_in_order(SingleTerm<T>* terms, std::int64_t count, std::int64_t places) {
  if (places > kSumBlock)  // too many to count
    return std::sort(terms, terms + count, [](const SingleTerm<T>& x, const SingleTerm<T>& y) {
      return x.place != y.place ? x.place < y.place : x.line < y.line;
    });
  std::int16_t next[kSumBlock + 1] = {};
  SingleTerm<T> sorted[kSumBlock];
  for (std::int64_t i = 0; i < count; ++i) ++next[terms[i].place + 1];
  for (std::int64_t place = 0; place < places; ++place)
    next[place + 1] = static_cast<std::int16_t>(next[place + 1] + next[place]);
  for (std::int64_t i = 0; i < count; ++i) sorted[next[terms[i].place]++] = terms[i];
  std::copy_n(sorted, count, terms);
}

template <class T>
void give_in_blocks(const SingleTerm<T>* terms, std::int64_t count, const Matrix<const T>& b, T* c, std::int64_t c_row,
                    std::int64_t width, bool one_by_one) {
  every_part<T>(count, width, [&](std::int64_t column, std::int64_t columns) {
    for (std::int64_t i = 0; i < count; i += kSumBlock)
      simd().of<T>().give_terms({terms + i, std::min(kSumBlock, count - i), b.data + column, b.row, c + column, c_row,
                                 columns, true, one_by_one});
    return true;
  });
}

template <class T>
bool are_finite(const T* rows, std::int64_t step, std::int64_t count, std::int64_t width) {
  const auto look = [](const T* from, std::int64_t size) { return !simd().of<T>().any_bad(from, size, true); };
  return every(count, kCheapGrain / (width + 1), [&](std::int64_t begin, std::int64_t end) {
    if (step == width) return look(rows + begin * width, (end - begin) * width);
    for (; begin < end; ++begin)
      if (!look(rows + begin * step, width)) return false;
    return true;
  });
}

template <class T>
void multiply_sparse(const Matrix<const T>& a, const Matrix<const T>& b, T* c, std::int64_t c_row, std::int64_t m,
                     std::int64_t n, std::int64_t k, const Start<T>& start) {
  if (!SingleTermProduct<T>(a, b, c, c_row, m, n, k, start).done()) multiply<T>(a, b, c, c_row, m, n, k, start);
}

#define CAPSTAN_INSTANTIATE(T)                                                                                  \
  template bool are_single_terms(const T*, std::int64_t, std::int64_t, std::int64_t, SingleTerm<T>*);           \
  template void put_in_order(SingleTerm<T>*, std::int64_t, std::int64_t);                                       \
  template void give_in_blocks(const SingleTerm<T>*, std::int64_t, const Matrix<const T>&, T*, std::int64_t,    \
                               std::int64_t, bool);                                                             \
  template bool are_finite(const T*, std::int64_t, std::int64_t, std::int64_t);                                 \
  template void multiply_sparse(const Matrix<const T>&, const Matrix<const T>&, T*, std::int64_t, std::int64_t, \
                                std::int64_t, std::int64_t, const Start<T>&);
CAPSTAN_INSTANTIATE(float)
CAPSTAN_INSTANTIATE(double)
#undef CAPSTAN_INSTANTIATE

}  // namespace capstan::on_cpu
