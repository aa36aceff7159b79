// Cross entropy over the softmax of rows, against labels: one pass through the logits, and one on the way back.
// Labels that are out of range have been reported by check_indices; here they give NaN, and no gradient of their own.
#include "cuda/map_rows.cuh"
#include "cuda/positions.cuh"
#include "cuda/rows.cuh"

namespace capstan::on_cuda {
namespace {

template <class T>
struct CrossEntropy : SoftmaxRule<T> {
  using C = Compute<T>;

  const T* x;
  PositionList labels;
  std::int64_t columns;
  T* loss;
  C* sums;

  CrossEntropy(const T* logits, const PositionList& given, std::int64_t classes, T* losses, C* shifts)
      : x(logits), labels(given), columns(classes), loss(losses), sums(shifts) {}

  __device__ void store(std::int64_t i, const SoftmaxSums<C>& row) const {
    const C shift = finite_or_zero(row.largest);
    const std::int64_t label = labels[i];
    const bool known = label >= 0 && label < columns;
    const C own = known ? widen(x[i * columns + label]) : std::numeric_limits<C>::quiet_NaN();
    sums[2 * i] = shift;
    sums[2 * i + 1] = static_cast<C>(row.total);
    // the logarithm is never added to the largest logit: beside a large one it would lose its digits
    const double distance = static_cast<double>(shift) - static_cast<double>(own);
    loss[i] = narrow<T>(static_cast<C>(distance + kernels::log(row.total)));
  }
};

template <class T>
struct CrossEntropyGradient {
  using Value = T;
  using C = Compute<T>;
  struct Row {
    const T* from;
    T* base;
    C shift, factor, scale;
    std::int64_t label;
  };

  const T *x, *grad;
  std::int64_t grad_step;
  PositionList labels;
  const C* sums;
  std::int64_t columns;
  T* out;

  __device__ Row row(std::int64_t i) const {
    const C scale = widen(grad[i * grad_step]);
    return {x + i * columns, out + i * columns, sums[2 * i], scale / sums[2 * i + 1], scale, labels[i]};
  }
  template <int N>
  __device__ Pack<T, N> load(const Row& row, std::int64_t column) const {
    return read_pack<N>(row.from + column);
  }
  template <int N>
  __device__ void take(Row& row, const Pack<T, N>& values, std::int64_t column) const {
    Pack<T, N> result;
    CAPSTAN_UNROLL
    for (int i = 0; i < N; ++i) {
      C share = kernels::exp(widen(values.values[i]) - row.shift) * row.factor;
      if (column + i == row.label) share -= row.scale;
      result.values[i] = narrow<T>(row.scale == C(0) ? C(0) : share);  // a row that does not count, whatever it holds
    }
    write_pack(result, row.base + column);
  }
  __device__ void close(const Row&, std::int64_t, bool, int, int) const {}
};

}  // namespace

void cross_entropy(const TensorImpl& x, const TensorImpl& labels, TensorImpl& loss, TensorImpl& sums) {
  const int last = x.rank() - 1;
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    reduce_by(CrossEntropy<T>(x.as<T>(), position_list(labels), x.shape[last], loss.as<T>(), sums.as<Compute<T>>()), x,
              1u << last);
  });
}

void cross_entropy_backward(const TensorImpl& grad, const TensorImpl& x, const TensorImpl& labels,
                            const TensorImpl& sums, TensorImpl& out) {
  if (x.numel() == 0) return;
  const std::int64_t columns = x.shape[x.rank() - 1], rows = x.numel() / columns;
  // of a contiguous gradient the last axis may have size 1, and then any stride
  const std::int64_t grad_step = grad.contiguous ? 1 : grad.strides[grad.rank() - 1];
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    const CrossEntropyGradient<T> map{x.as<T>(), grad.as<T>(), grad_step, position_list(labels), sums.as<Compute<T>>(),
                                      columns,   out.as<T>()};
    map_rows(map, MapPlan(rows, columns, kPack<T>, lie_alike(out.data, x.data)));
  });
}

}  // namespace capstan::on_cuda
