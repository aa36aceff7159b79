// Sums and means of rows of a table, by bags.
#include <algorithm>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/positions.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kColumns = 256;  // of sums that stay in the nearest cache

template <class T>
double in_double(T x) {
  if constexpr (core::kIsHalf<T>) return static_cast<double>(static_cast<float>(x));
  else return static_cast<double>(x);
}

template <class T, class I>
struct Bags {
  const T *table, *weights;  // weights may be null
  const I* indices;
  const std::int64_t* bounds;
  std::int64_t width, padding;
  bool mean;
  T* out;
};

/// Up to kColumns columns of one bag from `first` on, in double.
template <class T, class I>
void add_columns(const Bags<T, I>& bags, std::int64_t bag, std::int64_t first, std::int64_t count) {
  double sums[kColumns] = {};
  std::int64_t members = 0;
  for (std::int64_t i = bags.bounds[bag]; i < bags.bounds[bag + 1]; ++i) {
    const auto index = static_cast<std::int64_t>(bags.indices[i]);
    if (index == bags.padding) continue;
    ++members;
    const T* row = bags.table + index * bags.width + first;
    if (bags.weights == nullptr) {
      for (std::int64_t j = 0; j < count; ++j) sums[j] += in_double(row[j]);
    } else {
      const double weight = in_double(bags.weights[i]);
      for (std::int64_t j = 0; j < count; ++j) sums[j] += weight * in_double(row[j]);
    }
  }
  const double divisor = bags.mean && members > 0 ? static_cast<double>(members) : 1;
  T* const to = bags.out + bag * bags.width + first;
  for (std::int64_t j = 0; j < count; ++j) to[j] = static_cast<T>(sums[j] / divisor);
}

}  // namespace

void embedding_bag(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& bounds,
                   const TensorImpl* weights, std::int64_t padding, bool mean, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t count = out.shape[0], width = out.shape[1];
  const std::int64_t work = (indices.numel() / count + 1) * width;  // of an average bag
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    visit_positions(indices, [&]<class I>(const I*) {
      const Bags<T, I> bags{table.as<T>(),
                            weights != nullptr ? weights->as<T>() : nullptr,
                            indices.as<const I>(),
                            bounds.as<std::int64_t>(),
                            width,
                            padding,
                            mean,
                            out.as<T>()};
      base::parallel_for(count, kExpensiveGrain / work + 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t bag = begin; bag < end; ++bag)
          for (std::int64_t first = 0; first < width; first += kColumns)
            add_columns(bags, bag, first, std::min(kColumns, width - first));
      });
    });
  });
}

}  // namespace capstan::on_cpu
