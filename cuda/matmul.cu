// Products of matrices with leading axes that broadcast.
//
// Operands are multiplied where they are if their rows or columns are contiguous, else copied. The leading axes become
// one product where that is possible (rows that follow each other, one right operand), or one call for matrices with a
// regular step; what remains goes as a few calls, or as one with a list of addresses.
#include "cuda/backend.hpp"
#include "cuda/gemm.hpp"
#include "cuda/launch.cuh"
#include "cuda/matrices.hpp"
#include "cuda/product_plan.hpp"
#include "cuda/values.cuh"

namespace capstan::on_cuda {
namespace {

/// Whether matrices stand in reverse order, which cuBLAS does not promise to take.
bool steps_back(const TensorImpl& x) {
  for (int axis = 0; axis < x.rank() - 2; ++axis)
    if (x.shape[axis] > 1 && x.strides[axis] < 0) return true;
  return false;
}

/// The operand itself if it can be multiplied as it stands, else a contiguous copy, which `copied` holds. Leading axes
/// along which it is stretched are not copied out.
const TensorImpl& usable(const TensorImpl& x, Tensor& copied) {
  if (layout_of(x).fits && !steps_back(x)) return x;
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < x.rank(); ++axis)
    sizes[axis] = axis < x.rank() - 2 && x.strides[axis] == 0 ? 1 : x.shape[axis];
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(x.rank())), call().where);
  copied = temporary(shape, x.dtype);
  copy(*core::make_view(x, shape, x.strides, 0, call().where).impl(), *copied.impl());
  return *copied.impl();
}

void multiply_by_steps(const ProductPlan& plan, const TensorImpl& x, const TensorImpl& y, TensorImpl& out,
                       bool accumulate) {
  const int along = plan.longest();
  const bool many = along >= 0;
  const Leading<3>& batch = plan.batch;
  const Leading<3> outer = many ? batch.without(along) : batch;
  const std::int64_t element = size_of(out.dtype);
  for (std::int64_t i = 0; i < outer.count; ++i) {
    std::int64_t at[3];
    outer.find(i, at);
    gemm_strided_batched(out.dtype, plan.a.transposed, plan.b.transposed, plan.m, plan.n, plan.k,
                         x.data + at[0] * element, plan.a.lead, many ? batch.strides[0][along] : 0,
                         y.data + at[1] * element, plan.b.lead, many ? batch.strides[1][along] : 0,
                         out.data + at[2] * element, plan.n, many ? batch.strides[2][along] : 0,
                         many ? batch.sizes[along] : 1, accumulate);
  }
}

__global__ void product_addresses_kernel(Leading<3> batch, std::int64_t element, const char* a, const char* b, char* c,
                                         const void** left, const void** right, void** result) {
  for (std::int64_t i = first_index(); i < batch.count; i += index_step()) {
    std::int64_t at[3];
    batch.find(i, at);
    left[i] = a + at[0] * element;
    right[i] = b + at[1] * element;
    result[i] = c + at[2] * element;
  }
}

void multiply_by_addresses(const ProductPlan& plan, const TensorImpl& x, const TensorImpl& y, TensorImpl& out,
                           bool accumulate) {
  const std::int64_t count = plan.batch.count;
  const Tensor addresses = workspace(3 * count, DType::int64);
  const void** const left = addresses.impl()->as<const void*>();
  const void** const right = left + count;
  void** const result = addresses.impl()->as<void*>() + 2 * count;
  launch(product_addresses_kernel, shape_for(count), plan.batch, size_of(out.dtype), x.as<const char>(),
         y.as<const char>(), out.as<char>(), left, right, result);
  gemm_batched(out.dtype, plan.a.transposed, plan.b.transposed, plan.m, plan.n, plan.k, left, plan.a.lead, right,
               plan.b.lead, result, plan.n, count, accumulate);
}

/// Whether every matrix begins at a multiple of 16 bytes, of which cuBLAS cannot convince itself in a list.
bool all_aligned(const ProductPlan& plan, const TensorImpl& x, const TensorImpl& y, const TensorImpl& out) {
  if (!aligned16(x.data, y.data, out.data)) return false;
  for (int axis = 0; axis < plan.batch.rank; ++axis)
    for (int n = 0; n < 3; ++n)
      if (plan.batch.strides[n][axis] * size_of(out.dtype) % 16 != 0) return false;
  return true;
}

}  // namespace

void matmul(const TensorImpl& a, const TensorImpl& b, const TensorImpl* bias, TensorImpl& out, bool accumulate) {
  if (out.numel() == 0) return;
  if (bias != nullptr) {
    copy(*bias, out);
    accumulate = true;
  }
  if (a.shape[a.rank() - 1] == 0) {
    if (!accumulate) fill(out, 0);
    return;
  }
  constexpr std::int64_t kMostCalls = 4;
  Tensor left, right;
  const TensorImpl &x = usable(a, left), &y = usable(b, right);
  const ProductPlan plan(x, y, out);
  const int along = plan.longest();
  const std::int64_t calls = along >= 0 ? plan.batch.count / plan.batch.sizes[along] : 1;
  if (calls > kMostCalls && all_aligned(plan, x, y, out)) multiply_by_addresses(plan, x, y, out, accumulate);
  else multiply_by_steps(plan, x, y, out, accumulate);
}

}  // namespace capstan::on_cuda
