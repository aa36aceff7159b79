// Matrix products of tensors.
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/multiply.hpp"
#include "lib/cpu/single_terms.hpp"
#include "lib/cpu/tasks.hpp"

namespace capstan::on_cpu {
namespace {

/// Multiplications for which a product takes all threads.
constexpr std::int64_t kLargeProduct = 1 << 22;

/// The operand itself if rows or columns of its matrices are contiguous, else a contiguous copy.
Tensor usable(const TensorImpl& x) {
  const int r = x.rank();
  if (x.strides[r - 1] == 1 || x.strides[r - 2] == 1)
    return core::make_view(x, x.shape, x.strides, 0, core::calling_place());
  const Tensor result = core::make_workspace(x.shape, x.dtype, x.device(), core::calling_place());
  copy(x, *result.impl());
  return result;
}

/// Where matrix number `index` of the result's leading axes begins in an operand that broadcasts to them.
std::int64_t batch_offset(const TensorImpl& x, const TensorImpl& out, std::int64_t index) {
  std::int64_t offset = 0;
  for (int axis = out.rank() - 3; axis >= 0; --axis) {
    const int own = axis - (out.rank() - x.rank());
    if (own >= 0 && x.shape[own] != 1) offset += index % out.shape[axis] * x.strides[own];
    index /= out.shape[axis];
  }
  return offset;
}

}  // namespace

void matmul(const TensorImpl& a, const TensorImpl& b, const TensorImpl* bias, TensorImpl& out, bool accumulate) {
  if (out.numel() == 0) return;
  const int r = out.rank();
  const std::int64_t m = out.shape[r - 2], n = out.shape[r - 1], k = a.shape[a.rank() - 1];
  const Tensor left = usable(a), right = usable(b);
  const TensorImpl &x = *left.impl(), &y = *right.impl();
  const std::int64_t batch = out.numel() / (m * n);
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const auto matrix = [&](const TensorImpl& of, std::int64_t i) {
      return Matrix<const T>{of.as<T>() + batch_offset(of, out, i), of.strides[of.rank() - 2],
                             of.strides[of.rank() - 1]};
    };
    const Start<T> start{bias == nullptr ? nullptr : bias->as<T>(), accumulate};
    if (batch == 1) return multiply_sparse<T>(matrix(x, 0), matrix(y, 0), out.as<T>(), n, m, n, k, start);
    // few but large products are split one by one, others among the threads
    if (batch < threads() && m * n * k >= kLargeProduct) {
      for (std::int64_t i = 0; i < batch; ++i)
        multiply<T>(matrix(x, i), matrix(y, i), out.as<T>() + i * m * n, n, m, n, k, start);
      return;
    }
    const Tasks all(batch, static_cast<double>(out.numel()) * static_cast<double>(k + 1), 2.0 * kCheapGrain);
    const std::int64_t room = product_room<T>(m, n, k);
    core::Scratch<T> scratch(all.slots() * room, core::calling_place());
    all.run([&](std::int64_t i, std::int64_t slot) {
      multiply_within<T>(scratch.data() + slot * room, matrix(x, i), matrix(y, i), out.as<T>() + i * m * n, n, m, n, k,
                         start);
    });
  });
}

}  // namespace capstan::on_cpu
