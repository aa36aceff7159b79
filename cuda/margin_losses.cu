// The loss of rows that have several labels. Those that are out of range have been reported by check_indices; here they
// are passed over.
#include "cuda/groups.cuh"
#include "cuda/launch.cuh"
#include "cuda/positions.cuh"

namespace capstan::on_cuda {
namespace {

/// A row: its scores, its labels, of which the first `count` are some, and a flag for each class that is one of them.
template <class T>
struct LabelledRow {
  const T* x;
  const bool* is_label;
  PositionList labels;
  std::int64_t first, classes, count;  // first: the row's place in labels

  __device__ double margin(std::int64_t label, std::int64_t i) const {
    return 1 - static_cast<double>(widen(x[label])) + static_cast<double>(widen(x[i]));
  }
  /// A NaN counts.
  __device__ static bool adds(double margin) { return !(margin <= 0); }

  /// Of class i, which is no label: the sum of its margins; `hits` is how many there are.
  __device__ double margins(std::int64_t i, std::int64_t& hits) const {
    double total = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t label = labels[first + k];
      if (label >= classes) continue;
      const double distance = margin(label, i);
      if (!adds(distance)) continue;
      total += distance;
      ++hits;
    }
    return total;
  }
  /// How many margins label i takes part in; as often as it is named.
  __device__ std::int64_t hits_of_label(std::int64_t i) const {
    std::int64_t hits = 0, named = 0;
    for (std::int64_t j = 0; j < classes; ++j) hits += !is_label[j] && adds(margin(i, j)) ? 1 : 0;
    for (std::int64_t k = 0; k < count; ++k) named += labels[first + k] == i ? 1 : 0;
    return hits * named;
  }
};

/// is_label [rows, classes] is room; slope may be null.
template <class T>
__global__ void __launch_bounds__(kThreads)
    multilabel_margin_kernel(const T* x, PositionList labels, std::int64_t rows, std::int64_t classes, int lanes,
                             bool* is_label, T* out, T* slope) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t side = kRowThreads / lanes;
  for (std::int64_t base = blockIdx.x * side; base < rows; base += gridDim.x * side) {
    const std::int64_t row = base + group, width = row < rows ? classes : 0, first = row * classes;
    std::int64_t count = width;  // labels in front of the first -1
    for (std::int64_t k = width - 1 - lane; k >= 0; k -= lanes)
      if (labels[first + k] < 0) count = k;
    for (std::int64_t i = lane; i < width; i += lanes) is_label[first + i] = false;
    count = group_reduce(count, lanes, Least{});
    __syncthreads();
    for (std::int64_t k = lane; k < count; k += lanes)
      if (const std::int64_t label = labels[first + k]; label < classes) is_label[first + label] = true;
    __syncthreads();
    const LabelledRow<T> labelled{x + first, is_label + first, labels, first, width, count};
    double total = 0;
    for (std::int64_t i = lane; i < width; i += lanes) {
      const bool own = is_label[first + i];
      std::int64_t hits = 0;
      if (!own) total += labelled.margins(i, hits);
      else if (slope != nullptr) hits = -labelled.hits_of_label(i);
      if (slope != nullptr) slope[first + i] = narrow<T>(static_cast<C>(hits) / static_cast<C>(classes));
    }
    total = group_reduce(total, lanes, Add{});
    if (lane == 0 && row < rows) out[row] = narrow<T>(static_cast<C>(total / static_cast<double>(classes)));
  }
}

}  // namespace

void multilabel_margin(const TensorImpl& x, const TensorImpl& labels, TensorImpl& out, TensorImpl* slope) {
  const std::int64_t classes = x.shape[x.rank() - 1], rows = out.numel();
  if (rows == 0) return;
  const int lanes = classes <= 8 * kWarp ? kWarp : kRowThreads;
  const Tensor room = workspace(x.numel(), DType::bool8);
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    T* const to = slope == nullptr ? nullptr : slope->as<T>();
    launch(multilabel_margin_kernel<T>, block_each(quotient_up(rows, kRowThreads / lanes)), x.as<T>(),
           position_list(labels), rows, classes, lanes, room.impl()->as<bool>(), out.as<T>(), to);
  });
}

}  // namespace capstan::on_cuda
