// Searching among sorted elements, telling distinct ones apart, and counting into bins.
#include <algorithm>

#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/keys.hpp"

namespace capstan::on_cpu {
namespace {

/// How many of the ascending elements stand before `key`; with `right`, those equal to it too.
template <class Order>
std::int64_t place_of(typename Order::Word key, const typename Order::Word* elements, std::int64_t count, bool right) {
  std::int64_t place = 0;
  while (count > 0) {
    const std::int64_t half = count / 2;
    const typename Order::Word middle = Order::encode(elements[place + half]);
    const bool before = right ? middle <= key : middle < key;
    place = before ? place + half + 1 : place;
    count = before ? count - half - 1 : half;
  }
  return place;
}

/// Whether a new value begins at element i > 0. Every NaN is a value of its own.
template <class Order>
bool begins(const typename Order::Word* x, std::int64_t i) {
  return Order::encode(x[i]) != Order::encode(x[i - 1]) || Order::is_nan(x[i]);
}

// Counting is cut at fixed places, so that sums of weights do not depend on the number of threads.
constexpr std::int64_t kLeastPart = 1 << 16, kMostParts = 64;
constexpr std::int64_t kMostTables = 1 << 20;  // elements of all parts' tables together

/// to[bin_of(i)] += weight_of(i) for every element i; those in bin -1 do not count.
template <class Count, class BinOf, class WeightOf>
void count_into(std::int64_t elements, std::int64_t bins, Count* to, BinOf bin_of, WeightOf weight_of) {
  const std::int64_t parts = std::clamp<std::int64_t>(
      std::min(elements / kLeastPart, kMostTables / std::max<std::int64_t>(bins, 1)), 1, kMostParts);
  core::Scratch<Count> tables(parts * bins, core::calling_place());
  base::parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      Count* table = tables.data() + part * bins;
      std::fill(table, table + bins, Count(0));
      for (std::int64_t i = elements * part / parts; i < elements * (part + 1) / parts; ++i)
        if (const std::int64_t bin = bin_of(i); bin >= 0) table[bin] += weight_of(i);
    }
  });
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    Count total(0);
    for (std::int64_t part = 0; part < parts; ++part) total += tables[part * bins + bin];
    to[bin] = total;
  }
}

template <class BinOf>
void count_or_weigh(std::int64_t elements, const TensorImpl* weights, TensorImpl& out, BinOf bin_of) {
  if (weights == nullptr) {
    count_into(elements, out.numel(), out.as<std::int64_t>(), bin_of, [](std::int64_t) { return std::int64_t{1}; });
  } else {
    const double* weight = weights->as<double>();
    count_into(elements, out.numel(), out.as<double>(), bin_of, [=](std::int64_t i) { return weight[i]; });
  }
}

/// Bins between edges at equal distances: each holds its lower edge, the last one its upper edge too.
class Bins {
 public:
  Bins(const double* edges, std::int64_t count)
      : edges_(edges), count_(count), scale_(static_cast<double>(count) / (edges[count] - edges[0])) {}
  std::int64_t operator()(double x) const noexcept {
    if (!(x >= edges_[0] && x <= edges_[count_])) return -1;
    const double guess = (x - edges_[0]) * scale_;
    std::int64_t bin = 0;
    if (guess > 0) bin = guess < static_cast<double>(count_) ? static_cast<std::int64_t>(guess) : count_ - 1;
    while (bin > 0 && x < edges_[bin]) --bin;  // the edges decide
    while (bin + 1 < count_ && x >= edges_[bin + 1]) ++bin;
    return bin;
  }

 private:
  const double* edges_;
  std::int64_t count_;
  double scale_;
};

}  // namespace

void searchsorted(const TensorImpl& sorted, const TensorImpl& values, bool right, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t count = sorted.shape[sorted.rank() - 1];
  const std::int64_t in_row = sorted.rank() == 1 ? values.numel() : values.shape[values.rank() - 1];
  visit_order(sorted.dtype, [&]<class Order>(Order) {
    using Word = typename Order::Word;
    const Word *rows = sorted.as<Word>(), *x = values.as<Word>();
    std::int64_t* to = out.as<std::int64_t>();
    base::parallel_for(out.numel(), kExpensiveGrain / 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        to[i] = place_of<Order>(Order::encode(x[i]), rows + i / in_row * count, count, right);
    });
  });
}

std::int64_t count_distinct(const TensorImpl& sorted) {
  if (sorted.numel() == 0) return 0;
  std::int64_t count = 1;
  visit_order(sorted.dtype, [&]<class Order>(Order) {
    const auto* x = sorted.as<typename Order::Word>();
    for (std::int64_t i = 1; i < sorted.numel(); ++i) count += begins<Order>(x, i) ? 1 : 0;
  });
  return count;
}

void distinct(const TensorImpl& sorted, const TensorImpl* order, TensorImpl& values, TensorImpl* indices,
              TensorImpl* inverse, TensorImpl* counts) {
  const std::int64_t total = sorted.numel();
  const std::int64_t* place = order != nullptr ? order->as<std::int64_t>() : nullptr;
  visit_order(sorted.dtype, [&]<class Order>(Order) {
    using Word = typename Order::Word;
    const Word* x = sorted.as<Word>();
    std::int64_t run = -1, first = 0;
    for (std::int64_t i = 0; i < total; ++i) {
      if (i == 0 || begins<Order>(x, i)) {
        if (counts != nullptr && run >= 0) counts->as<std::int64_t>()[run] = i - first;
        ++run;
        first = i;
        values.as<Word>()[run] = x[i];
        if (indices != nullptr) indices->as<std::int64_t>()[run] = place[i];
      }
      if (inverse != nullptr) inverse->as<std::int64_t>()[place[i]] = run;
    }
    if (counts != nullptr && run >= 0) counts->as<std::int64_t>()[run] = total - first;
  });
}

void histogram(const TensorImpl& x, const TensorImpl* weights, const TensorImpl& edges, TensorImpl& out) {
  const Bins bins(edges.as<double>(), out.numel());
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const T* from = x.as<T>();
    count_or_weigh(x.numel(), weights, out, [&](std::int64_t i) { return bins(static_cast<double>(from[i])); });
  });
}

void bincount(const TensorImpl& x, const TensorImpl* weights, TensorImpl& out) {
  const std::int64_t* from = x.as<std::int64_t>();
  count_or_weigh(x.numel(), weights, out, [=](std::int64_t i) { return from[i]; });
}

}  // namespace capstan::on_cpu
