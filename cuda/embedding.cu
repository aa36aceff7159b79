// Sums and means of rows of a table, by bags.
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"

namespace capstan::on_cuda {
namespace {

constexpr int kRowsAtOnce = 4;  // rows that are under way together

template <class T>
struct Bags {
  const T *table, *weights;  // weights may be null
  PositionList indices;
  const std::int64_t* bounds;
  std::int64_t count, rows, width, padding;
  bool mean;
  T* out;
};

/// Some columns of one bag: sums in double, as on the CPU.
template <class T, int N>
struct BagSums {
  double sums[N] = {};
  std::int64_t members = 0;

  __device__ void add(const Bags<T>& bags, std::int64_t begin, std::int64_t end, std::int64_t column) {
    Pack<T, N> rows[kRowsAtOnce];
    double weights[kRowsAtOnce];
    bool counts[kRowsAtOnce];
    for (int k = 0; k < kRowsAtOnce; ++k) {
      const std::int64_t i = begin + k < end ? begin + k : begin, index = bags.indices[i];
      const bool there = index >= 0 && index < bags.rows;  // any other has been reported
      counts[k] = begin + k < end && there && index != bags.padding;
      weights[k] = bags.weights != nullptr ? static_cast<double>(widen(bags.weights[i])) : 1;
      rows[k] = *reinterpret_cast<const Pack<T, N>*>(bags.table + (there ? index : 0) * bags.width + column);
    }
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (!counts[k]) continue;
      ++members;
      for (int n = 0; n < N; ++n) sums[n] += weights[k] * static_cast<double>(widen(rows[k].values[n]));
    }
  }
};

/// N columns of one bag for each thread.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) bag_kernel(Bags<T> bags) {
  const std::int64_t parts = bags.width / N;
  for (std::int64_t item = first_index(); item < bags.count * parts; item += index_step()) {
    const std::int64_t bag = item / parts, column = item % parts * N, end = bags.bounds[bag + 1];
    BagSums<T, N> bag_sums;
    for (std::int64_t i = bags.bounds[bag]; i < end; i += kRowsAtOnce) bag_sums.add(bags, i, end, column);
    const double divisor = bags.mean && bag_sums.members > 0 ? static_cast<double>(bag_sums.members) : 1;
    Pack<T, N> result;
    for (int n = 0; n < N; ++n) result.values[n] = static_cast<T>(bag_sums.sums[n] / divisor);
    *reinterpret_cast<Pack<T, N>*>(bags.out + bag * bags.width + column) = result;
  }
}

}  // namespace

void embedding_bag(const TensorImpl& table, const TensorImpl& indices, const TensorImpl& bounds,
                   const TensorImpl* weights, std::int64_t padding, bool mean, TensorImpl& out) {
  if (out.numel() == 0) return;
  if (table.numel() == 0) return fill(out, 0);
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    const Bags<T> bags{table.as<const T>(),
                       weights != nullptr ? weights->as<const T>() : nullptr,
                       position_list(indices),
                       bounds.as<const std::int64_t>(),
                       out.shape[0],
                       table.shape[0],
                       out.shape[1],
                       padding,
                       mean,
                       out.as<T>()};
    constexpr int kWide = kPack<T>;
    const bool wide = bags.width % kWide == 0 && aligned16(table.data, out.data);
    if (wide) launch(bag_kernel<T, kWide>, shape_for(out.numel() / kWide), bags);
    else launch(bag_kernel<T, 1>, shape_for(out.numel()), bags);
  });
}

}  // namespace capstan::on_cuda
