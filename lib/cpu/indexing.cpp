// Choosing elements by index tensors. Indices are contiguous and were checked to be in range.
#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/core/scalars.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

template <class F>
void visit_index(const TensorImpl& indices, F&& f) {
  if (indices.dtype == DType::int32) f(indices.as<std::int32_t>());
  else f(indices.as<std::int64_t>());
}

std::int64_t wrap(std::int64_t index, std::int64_t size) { return index < 0 ? index + size : index; }

}  // namespace

BadIndex check_indices(const TensorImpl& indices, std::int64_t low, std::int64_t high) {
  BadIndex bad;
  visit_index(indices, [&](const auto* index) {
    for (std::int64_t i = 0; i < indices.numel(); ++i)
      if (index[i] < low || index[i] >= high) {
        bad = {i, index[i]};
        return;
      }
  });
  return bad;
}

void gather(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out) {
  if (out.numel() == 0) return;
  const std::int64_t row = x.numel() / x.shape[0] * size_of(x.dtype);
  visit_index(indices, [&](const auto* index) {
    base::parallel_for(indices.numel(), kCheapGrain * 4 / row + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        std::memcpy(out.data + i * row, x.data + wrap(index[i], x.shape[0]) * row, static_cast<std::size_t>(row));
    });
  });
}

void gather_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out) {
  if (out.numel() == 0 || grad.numel() == 0) return;
  const std::int64_t row = out.numel() / out.shape[0], count = indices.numel();
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const auto add = simd().of<T>().binary[kernels::kBinaryId<kernels::Add>];
    visit_index(indices, [&](const auto* index) {
      // by columns: rows may repeat, and each sum must be taken in order
      base::parallel_for(row, kCheapGrain / count + 64, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = 0; i < count; ++i) {
          T* to = out.as<T>() + wrap(index[i], out.shape[0]) * row + begin;
          add(to, 1, grad.as<T>() + i * row + begin, 1, to, end - begin);
        }
      });
    });
  });
}

void pick(const TensorImpl& x, const TensorImpl& indices, TensorImpl& out) {
  const std::int64_t columns = x.shape[x.rank() - 1], element = size_of(x.dtype);
  visit_index(indices, [&](const auto* index) {
    for (std::int64_t i = 0; i < out.numel(); ++i)
      std::memcpy(out.data + i * element, x.data + (i * columns + index[i]) * element,
                  static_cast<std::size_t>(element));
  });
}

void pick_backward(const TensorImpl& grad, const TensorImpl& indices, TensorImpl& out) {
  const std::int64_t columns = out.shape[out.rank() - 1], element = size_of(out.dtype);
  std::memset(out.data, 0, static_cast<std::size_t>(out.numel() * element));
  visit_index(indices, [&](const auto* index) {
    for (std::int64_t i = 0; i < grad.numel(); ++i)
      std::memcpy(out.data + (i * columns + index[i]) * element, grad.data + i * element,
                  static_cast<std::size_t>(element));
  });
}

void one_hot(const TensorImpl& indices, Scalar on, Scalar off, TensorImpl& out) {
  fill(out, off);
  if (out.numel() == 0) return;
  const std::int64_t depth = out.shape[out.rank() - 1], element = size_of(out.dtype);
  const core::Element value = core::to_element("one_hot", on, out.dtype, Where::current());
  visit_index(indices, [&](const auto* index) {
    for (std::int64_t i = 0; i < indices.numel(); ++i)
      if (index[i] >= 0 && index[i] < depth)
        std::memcpy(out.data + (i * depth + index[i]) * element, value.bytes, static_cast<std::size_t>(element));
  });
}

}  // namespace capstan::on_cpu
