// Determinants, of LU factors.
#include <cmath>
#include <limits>

#include "cuda/backend.hpp"
#include "cuda/blocks.cuh"
#include "cuda/launch.cuh"
#include "cuda/lu.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {
namespace {

/// `count` matrices [n, n]; results that nobody needs are null.
template <class T>
struct Determinants {
  const T* lu;
  const int *pivots, *infos, *broken;
  std::int64_t n, count;
  T *det, *sign, *logabs;
};

struct Multiply {
  __device__ double operator()(double a, double b) const { return a * b; }
};

/// A warp for each matrix. The determinant is product * 2^exponent: nothing overflows on the way.
template <class T>
__global__ void determinant_kernel(Determinants<T> task) {
  for (std::int64_t i = blockIdx.x; i < task.count; i += gridDim.x) {
    double product = 1, sum = 0;
    std::int64_t exponent = 0;
    int turns = 0;
    for (std::int64_t j = threadIdx.x; j < task.n; j += kWarp) {
      const double pivot = static_cast<double>(task.lu[(i * task.n + j) * task.n + j]);
      int of_pivot = 0, of_product = 0;
      product = ::frexp(product * ::frexp(kernels::abs(pivot), &of_pivot), &of_product);
      exponent += of_pivot + of_product;
      sum += kernels::log(kernels::abs(pivot));
      turns += (task.pivots[i * task.n + j] != j + 1) != (pivot < 0) ? 1 : 0;
    }
    product = warp_reduce(product, Multiply{});
    sum = warp_reduce(sum, Add{});
    exponent = warp_reduce(exponent, Add{});
    double direction = warp_reduce(turns, Add{}) % 2 != 0 ? -1 : 1;
    if (threadIdx.x != 0) continue;
    product = direction * ::scalbln(product, static_cast<long>(exponent));
    if (task.broken[i] != 0) {
      product = sum = direction = std::numeric_limits<double>::quiet_NaN();
    } else if (task.n > 0 && task.infos[i] != 0) {
      product = direction = 0;
      sum = -std::numeric_limits<double>::infinity();
    }
    if (task.det != nullptr) task.det[i] = static_cast<T>(product);
    if (task.sign != nullptr) task.sign[i] = static_cast<T>(direction);
    if (task.logabs != nullptr) task.logabs[i] = static_cast<T>(sum);
  }
}

}  // namespace

void determinant(const TensorImpl& x, TensorImpl* det, TensorImpl* sign, TensorImpl* logabs) {
  const std::int64_t n = x.shape[x.rank() - 1], count = (det != nullptr ? det : sign)->numel();
  if (count == 0) return;
  const int order = lapack::to_int(n);
  const Tensor lu = by_columns(x, x.shape);
  const Broken broken(*lu.impl(), count);
  const Tensor pivots = workspace(count * n, DType::int32);
  const Infos infos(count);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    T* const matrices = lu.impl()->as<T>();
    int* const places = pivots.impl()->as<int>();
    if (n > 0) lapack::factor(order, count, matrices, places, infos);
    const auto of = [](const TensorImpl* result) { return result != nullptr ? result->as<T>() : nullptr; };
    const Determinants<T> task{matrices, places, infos.at(0), broken.flags(), n, count, of(det), of(sign), of(logabs)};
    launch(determinant_kernel<T>, block_each(count, kWarp), task);
  });
}

}  // namespace capstan::on_cuda
