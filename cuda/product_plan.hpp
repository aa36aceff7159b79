#pragma once
// How a product of many matrices becomes few calls of BLAS. No CUDA headers, so that it is tested on the host.
#include <algorithm>
#include <cstdint>

#include "cuda/leading.hpp"

namespace capstan::on_cuda {

/// How BLAS takes a matrix: its rows, or if `transposed` its columns, are contiguous and `lead` elements apart.
struct MatrixLayout {
  bool fits = false, transposed = false;
  std::int64_t lead = 0;
};
/// Of [rows, columns] with these strides.
inline MatrixLayout layout_of(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  const std::int64_t width = std::max<std::int64_t>(columns, 1), height = std::max<std::int64_t>(rows, 1);
  if ((column == 1 || columns <= 1) && (row >= width || rows <= 1)) return {true, false, rows <= 1 ? width : row};
  if ((row == 1 || rows <= 1) && (column >= height || columns <= 1))
    return {true, true, columns <= 1 ? height : column};
  return {};
}
inline MatrixLayout layout_of(const TensorImpl& x) {
  const std::int64_t* const strides_end = x.strides + x.rank();
  return layout_of(x.shape[-2], x.shape[-1], strides_end[-2], strides_end[-1]);
}

/// out [..., m, n] = x [..., m, k] y [..., k, n], where out is contiguous and not empty, and the layouts of x and y fit.
struct ProductPlan {
  std::int64_t m, n, k;
  MatrixLayout a, b;
  Leading<3> batch;  // of x, y and out

  ProductPlan(const TensorImpl& x, const TensorImpl& y, const TensorImpl& out)
      : m(out.shape[out.rank() - 2]),
        n(out.shape[out.rank() - 1]),
        k(x.shape[x.rank() - 1]),
        a(layout_of(x)),
        b(layout_of(y)),
        batch(out.shape, {&x, &y, &out}) {
    fold();
  }

  /// The longest of the leading axes, -1 if there are none: one call goes along it.
  int longest() const {
    int best = -1;
    for (int axis = 0; axis < batch.rank; ++axis)
      if (best < 0 || batch.sizes[axis] > batch.sizes[best]) best = axis;
    return best;
  }

 private:
  /// One product instead of many where rows that follow each other meet one right operand.
  void fold() {
    if (batch.rank == 0) return;
    const int last = batch.rank - 1;
    const std::int64_t step = batch.strides[0][last];
    const bool follow = m == 1 ? step >= std::max<std::int64_t>(k, 1) : step == m * a.lead;
    if (batch.strides[1][last] != 0 || a.transposed || !follow) return;
    if (m == 1) a.lead = step;
    m *= batch.sizes[last];
    batch = batch.without(last);
  }
};

}  // namespace capstan::on_cuda
