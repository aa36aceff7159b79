#pragma once
// Products and their parts, for those who multiply.
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/multiply.hpp"

namespace capstan::on_cpu {

/// Values of a left operand that are copied at a time, or a few rows more, in an order that suits.
inline constexpr std::int64_t kLeftAtOnce = 1 << 20;

constexpr std::int64_t ceil_div(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

/// The terms of a block where sums of k > 0 terms are made without tiles.
constexpr std::int64_t block_terms(std::int64_t k) { return ceil_div(k, ceil_div(k, kSumBlock)); }

/// A product, or a part of one.
template <class T>
struct Product {
  Matrix<const T> a, b;
  T* c;
  std::int64_t c_row, m, n, k;
  Start<T> start;

  /// What the terms from p on are added to.
  Start<T> start_at(std::int64_t p) const { return p == 0 ? start : Start<T>{nullptr, true}; }
};

/// Some columns of a product.
template <class T>
Product<T> columns_of(Product<T> x, std::int64_t begin, std::int64_t end) {
  x.b.data += begin * x.b.column;
  x.c += begin;
  if (x.start.bias != nullptr) x.start.bias += begin;
  x.n = std::min(end, x.n) - begin;
  return x;
}
template <class T>
Product<T> rows_of(Product<T> x, std::int64_t begin, std::int64_t end) {
  x.a.data += begin * x.a.row;
  x.c += begin * x.c_row;
  x.m = std::min(end, x.m) - begin;
  return x;
}

template <class T>
Product<T> terms_of(Product<T> x, std::int64_t begin, std::int64_t end) {
  x.start = x.start_at(begin);
  x.a.data += begin * x.a.column;
  x.b.data += begin * x.b.row;
  x.k = std::min(end, x.k) - begin;
  return x;
}

/// `size` columns or rows in as many parts, of whole units, as there are threads and work for them.
struct Cut {
  static constexpr std::int64_t kGrain = 1 << 19;  // multiplications worth a thread
  std::int64_t unit, units, parts;
  template <class T>
  Cut(const Product<T>& x, std::int64_t size, std::int64_t of)
      : unit(of),
        units((size + of - 1) / of),
        parts(std::clamp(x.m * x.n * x.k / kGrain, std::int64_t{1}, std::min(units, std::int64_t{threads()}))) {}
  /// The caller, who begins before the others, takes what is left over.
  std::int64_t begin(std::int64_t part) const { return ceil_div(units * part, parts) * unit; }
  /// Calls use(part, begin, end) for all parts.
  template <class Use>
  void run(Use use) const {
    if (parts == 1) return use(0, 0, units * unit);
    base::parallel_for(parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) use(i, begin(i), begin(i + 1));
    });
  }
};

/// All of a product by one thread, which packs the right operand in blocks of `terms` terms, kSumBlock at most: in
/// n * terms elements at most.
template <class T>
void multiply_packed(const Product<T>& whole, std::int64_t terms, T* packed);

}  // namespace capstan::on_cpu
