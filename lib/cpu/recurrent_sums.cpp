#include "lib/cpu/recurrent_sums.hpp"

#include <bit>

namespace capstan::on_cpu {
namespace {

/// Terms of a block of a sum: what the first-level cache holds of both operands; and rows of a result beside them.
constexpr std::int64_t kTerms = 96, kBand = 96;

}  // namespace

std::int64_t parts_of_sums(const Schedule& steps, const RecurrentCut& cut, std::int64_t weights) {
  constexpr std::int64_t kRows = 24, kLines = 128, kMostParts = 8;  // rows and lines of a part are as many, or more
  if (cut.by_units || steps.order() != nullptr) return 1;
  // what all parts but one write beside the result is at most half of what they read
  const std::int64_t most = std::min({steps.batch / kRows, steps.lines / kLines, 1 + steps.lines / (2 * weights + 1)});
  return static_cast<std::int64_t>(
      std::bit_floor(static_cast<std::uint64_t>(std::clamp(most, std::int64_t{1}, kMostParts))));
}

template <class T>
void PartSums<T>::add_product(const T* left, std::int64_t left_row, std::int64_t width, bool from_zero,
                              const Columns& columns) {
  const std::int64_t bands = (width + kBand - 1) / kBand, panel = simd().of<T>().panel;
  const std::int64_t panels = (columns.count + panel - 1) / panel;
  sums_[count_++] = {columns, width, bands, panels, left, left_row, from_zero, nullptr, nullptr, nullptr};
}
template <class T>
void PartSums<T>::add_terms(const SingleTerm<T>* terms, std::int64_t rows, const Columns& columns) {
  if (rows > 0) sums_[count_++] = {columns, rows, 1, 1, nullptr, 0, false, terms, nullptr, nullptr};
}
template <class T>
void PartSums<T>::add_lines(const Columns& columns) {
  sums_[count_++] = {columns, 1, 1, 1, nullptr, 0, false, nullptr, nullptr, nullptr};
}

template <class T>
void PartSums<T>::run() {
  std::int64_t pieces = 0, others = 0, totals = 0;
  for (int i = 0; i < count_; ++i) {
    const Sum& sum = sums_[i];
    pieces += sum.bands * sum.panels;
    if (is_of_lines(sum)) totals += parts_ * sum.columns.count;
    else others += (parts_ - 1) * sum.rows * sum.columns.count;
  }
  core::Scratch<T> other(others, core::calling_place());
  core::Scratch<double> total(totals, core::calling_place());
  T* next = other.data();
  double* next_total = total.data();
  for (int i = 0; i < count_; ++i) {
    Sum& sum = sums_[i];
    sum.other = next, sum.totals = next_total;
    if (is_of_lines(sum)) next_total += parts_ * sum.columns.count;
    else next += (parts_ - 1) * sum.rows * sum.columns.count;
  }
  base::parallel_for(parts_ * pieces, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) make(i / pieces, i % pieces);
  });
  add_parts();
}

template <class T>
void PartSums<T>::make(std::int64_t part, std::int64_t piece) const {
  const Sum* sum = sums_;
  for (; piece >= sum->bands * sum->panels; ++sum) piece -= sum->bands * sum->panels;
  if (sum->left != nullptr) make_product(*sum, part, piece);
  else if (sum->terms != nullptr) make_terms(*sum, part);
  else make_lines(*sum, part);
}

template <class T>
auto PartSums<T>::result(const Sum& sum, std::int64_t part) const -> Result {
  const Columns& columns = sum.columns;
  if (part == 0) return {columns.to, columns.to_row};
  return {sum.other + (part - 1) * sum.rows * columns.count, columns.count};
}

template <class T>
void PartSums<T>::make_product(const Sum& sum, std::int64_t part, std::int64_t piece) const {
  const std::int64_t panel = simd().of<T>().panel, band = piece / sum.panels, column = piece % sum.panels * panel;
  const std::int64_t row = sum.rows * band / sum.bands;
  const std::int64_t rows = begin(part + 1) - begin(part);
  const Result to = result(sum, part);
  SmallGemm<T> g{};
  g.a_row = 1, g.a_column = sum.left_row, g.b_row = line_, g.c_row = to.row;
  g.c = to.data + row * to.row + column;
  g.m = sum.rows * (band + 1) / sum.bands - row, g.n = std::min(panel, sum.columns.count - column);
  const std::int64_t blocks = (rows + kTerms - 1) / kTerms;  // of a step
  for (std::int64_t s = 0; s < steps_.time; ++s) {
    const std::int64_t line = steps_.first(steps_.at(s)) + begin(part);
    const T* const pre = pre_ + line * line_ + sum.columns.from + column;
    if (s == 0 && sum.from_zero && is_zero(sum.left + line * sum.left_row, rows * sum.left_row) &&
        are_finite(pre, line_, rows, g.n))
      continue;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const std::int64_t first = rows * i / blocks;
      g.a = sum.left + (line + first) * sum.left_row + row, g.b = pre + first * line_;
      g.k = rows * (i + 1) / blocks - first;
      simd().of<T>().small_gemm(g);
      g.accumulate = true;
    }
  }
}

template <class T>
void PartSums<T>::make_terms(const Sum& sum, std::int64_t part) const {
  const std::int64_t rows = begin(part + 1) - begin(part);
  const Result to = result(sum, part);
  for (std::int64_t i = 0; i < sum.rows; ++i) std::fill_n(to.data + i * to.row, sum.columns.count, T(0));
  SingleTerm<T> block[kSumBlock];
  std::int64_t count = 0;
  const auto give = [&] {
    put_in_order(block, count, sum.rows);
    simd().of<T>().give_terms({block, count, pre_ + sum.columns.from, line_, to.data, to.row, sum.columns.count, true});
    count = 0;
  };
  for (std::int64_t t = 0; t < steps_.time; ++t)
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t line = steps_.first(t) + begin(part) + row;
      block[count++] = {sum.terms[line].place, static_cast<std::int32_t>(line), sum.terms[line].value};
      if (count == kSumBlock) give();
    }
  give();
}

template <class T>
void PartSums<T>::make_lines(const Sum& sum, std::int64_t part) const {
  const std::int64_t width = sum.columns.count, rows = begin(part + 1) - begin(part);
  double* const totals = sum.totals + part * width;
  std::fill_n(totals, width, 0.0);
  for (std::int64_t t = 0; t < steps_.time; ++t)
    simd().of<T>().add_rows(totals, pre_ + (steps_.first(t) + begin(part)) * line_ + sum.columns.from, line_, rows,
                            width);
}

/// Rows of all results, or their totals, a thread some.
template <class T>
void PartSums<T>::add_parts() const {
  constexpr std::int64_t kGrain = 4096;  // additions worth a thread: half of what is added comes from another one
  std::int64_t rows = 0, additions = 0;
  for (int i = 0; i < count_; ++i) rows += sums_[i].rows, additions += sums_[i].rows * sums_[i].columns.count;
  base::parallel_for(rows, kGrain * rows / (additions + 1) + 1, [&](std::int64_t first, std::int64_t last) {
    const Sum* sum = sums_;
    for (std::int64_t row = first, before = 0; row < last; ++row) {
      for (; row - before >= sum->rows; ++sum) before += sum->rows;
      add_parts(*sum, row - before);
    }
  });
}

template <class T>
void PartSums<T>::add_parts(const Sum& sum, std::int64_t row) const {
  const Columns& columns = sum.columns;
  T* const to = columns.to + row * columns.to_row;
  if (is_of_lines(sum)) {
    for (std::int64_t i = 0; i < columns.count; ++i) {
      double total = 0;
      for (std::int64_t part = 0; part < parts_; ++part) total += sum.totals[part * columns.count + i];
      to[i] = static_cast<T>(total);
    }
  } else {
    const T one = T(1);
    simd().of<T>().small_gemm({&one, 0, 0, sum.other + row * columns.count, sum.rows * columns.count, to, 0, 1,
                               columns.count, parts_ - 1, true});
  }
}

template class PartSums<float>;
template class PartSums<double>;

}  // namespace capstan::on_cpu
