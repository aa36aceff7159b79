// Matrix products of tensors.
#include "lib/core/allocator.hpp"
#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/multiply.hpp"
#include "lib/cpu/simd/kernels.hpp"
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

/// Where the operands of each product of a batch begin, one product after the other.
class Batch {
 public:
  Batch(const Loops<2>& loops, std::int64_t first)
      : loops_(loops), place_(loops, first / loops.inner()), inner_(first % loops.inner()) {}
  std::int64_t at(int operand) const {
    return place_.offset[operand] + inner_ * loops_.strides[loops_.rank - 1][operand];
  }
  void next() {
    if (++inner_ < loops_.inner()) return;
    inner_ = 0;
    place_.next();
  }

 private:
  const Loops<2>& loops_;
  Place<2> place_;
  std::int64_t inner_;
};

/// As many side by side as a register has lanes: a call for each would take longer than its few multiplications.
template <class T>
void multiply_tiny(const TinyProducts<T>& all, const Loops<2>& batch, std::int64_t count) {
  constexpr std::int64_t kMostLanes = 64 / sizeof(T);
  const FloatKernels<T>& kernels = simd().of<T>();
  const std::int64_t moved = (all.m + all.n) * all.k + all.m * all.n;
  base::parallel_for(count, kCheapGrain / moved + 1, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t a_at[kMostLanes] = {}, b_at[kMostLanes] = {};
    Batch item(batch, begin);
    TinyProducts<T> some = all;
    some.a_at = a_at, some.b_at = b_at;
    for (std::int64_t i = begin; i < end; i += some.count) {
      some.count = std::min(kernels.lanes, end - i);
      for (std::int64_t lane = 0; lane < some.count; ++lane, item.next())
        a_at[lane] = item.at(0), b_at[lane] = item.at(1);
      some.c = all.c + i * all.m * all.n;
      kernels.tiny_products(some);
    }
  });
}

/// Whether moving single elements takes less time than a product of its own, which multiplies rows of the right operand,
/// or few and long ones as dot products.
bool suits_tiny(std::int64_t m, std::int64_t n, std::int64_t k, bool in_rows) {
  const std::int64_t most = n <= 2 ? kTinyProduct * 3 / 4 : in_rows ? kTinyProduct / 2 : kTinyProduct;
  return k > 0 && (m + n) * k <= most && m * n <= most / 2;
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
    const auto matrix = [](const TensorImpl& of, std::int64_t at) {
      return Matrix<const T>{of.as<T>() + at, of.strides[of.rank() - 2], of.strides[of.rank() - 1]};
    };
    const Matrix<const T> first = matrix(x, 0), second = matrix(y, 0);
    const Start<T> start{bias == nullptr ? nullptr : bias->as<T>(), accumulate};
    if (batch == 1) return multiply_sparse<T>(first, second, out.as<T>(), n, m, n, k, start);
    const Loops<2> loops(out.shape, {&x, &y}, 2);
    // few but large products are split one by one, others among the threads
    if (batch < threads() && m * n * k >= kLargeProduct) {
      Batch item(loops, 0);
      for (std::int64_t i = 0; i < batch; ++i, item.next())
        multiply<T>(matrix(x, item.at(0)), matrix(y, item.at(1)), out.as<T>() + i * m * n, n, m, n, k, start);
      return;
    }
    if (start.bias == nullptr && !accumulate && suits_tiny(m, n, k, second.column == 1))
      return multiply_tiny<T>({.a = first.data,
                               .b = second.data,
                               .a_row = first.row,
                               .a_column = first.column,
                               .b_row = second.row,
                               .b_column = second.column,
                               .c = out.as<T>(),
                               .m = m,
                               .n = n,
                               .k = k},
                              loops, batch);
    const Tasks all(batch, static_cast<double>(out.numel()) * static_cast<double>(k + 1), 2.0 * kCheapGrain);
    const std::int64_t room = product_room<T>(m, n, k);
    core::Scratch<T> scratch(all.slots() * room, core::calling_place());
    all.run_pieces([&](std::int64_t begin, std::int64_t end, std::int64_t slot) {
      Batch item(loops, begin);
      for (std::int64_t i = begin; i < end; ++i, item.next())
        multiply_within<T>(scratch.data() + slot * room, matrix(x, item.at(0)), matrix(y, item.at(1)),
                           out.as<T>() + i * m * n, n, m, n, k, start);
    });
  });
}

}  // namespace capstan::on_cpu
