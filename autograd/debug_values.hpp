#pragma once
// What debugging reads out of tensors. Nothing here is recorded, and watchers do not see it.
#include <cstdint>
#include <string>

#include "lib/core/dispatch.hpp"
#include "lib/core/tensor_impl.hpp"

namespace capstan::autograd {

/// What is looked for in a tensor.
enum class Bad : std::uint8_t { nan_or_infinity, nan };

/// Whether the host looks at numbers as soon as they are there. A GPU that nobody waits for looks by itself.
bool host_looks(const TensorImpl& x) noexcept;
/// Whether a tensor of floating type holds such a value. One pass, without branches; in parallel if it is large.
bool has_bad(const Tensor& x, Bad kind, Where where);

/// The elements as they can be read here: on the host and row-major, without the axes that are stretched over one
/// element. Row slices give their values.
Tensor distinct_elements(const Tensor& x, Where where);

/// x where it can be read by strides: on the host, with its elements. Row slices stay what they are: lazy optimizers go
/// by them.
Tensor on_host(const Tensor& x, Where where);

/// Calls `use(value)` for each element of a tensor on the host, in row-major order, with the value as double.
template <class Use>
void each_value(const TensorImpl& x, Use&& use) {
  const int rank = x.rank();
  const std::int64_t inner = rank > 0 ? x.shape[rank - 1] : 1, step = rank > 0 ? x.strides[rank - 1] : 1;
  if (x.numel() == 0) return;
  core::visit(x.dtype, [&]<class T>(core::Type<T>) {
    std::int64_t index[kMaxRank] = {};
    const T* row = x.as<T>();
    for (std::int64_t rows = x.numel() / inner; rows > 0; --rows) {
      for (std::int64_t i = 0; i < inner; ++i) use(static_cast<double>(row[i * step]));
      for (int axis = rank - 2; axis >= 0; --axis) {
        row += x.strides[axis];
        if (++index[axis] < x.shape[axis]) break;
        row -= x.strides[axis] * x.shape[axis];
        index[axis] = 0;
      }
    }
  });
}

/// Figures of a tensor. `low`, `high`, `mean` and `deviation` (of the population) are of the finite values, and NaN if
/// there are none.
struct Figures {
  std::int64_t count = 0, finite = 0, nan = 0, infinite = 0, zeros = 0;
  double low, high, mean, deviation;
};
Figures figures_of(const Tensor& x, Where where);

/// Bytes of the elements that a tensor shows; those of stretched axes count once.
std::int64_t bytes_of(const TensorImpl& x) noexcept;

}  // namespace capstan::autograd
