// Losses: rows over pairs of elements, and the one of rows that have several labels.
#include <array>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

template <class... Row>
constexpr std::array<std::int64_t, sizeof...(Row)> grains_of(std::tuple<Row...>*) {
  return {(kernels::evaluate_of<Row>() == kernels::Evaluate::lanes ? kCheapGrain : kExpensiveGrain)...};
}
constexpr auto kGrains = grains_of(static_cast<kernels::LossOps*>(nullptr));

/// The sum over the row's labels and the classes that are none of max(0, 1 - x[label] + x[class]). `is_label` is room
/// for the classes; `slope`, the derivative of the sum's mean over the classes, may be null.
template <class T, class Label>
double margins_of_row(const T* x, const Label* labels, std::int64_t classes, std::uint8_t* is_label, T* slope) {
  for (std::int64_t i = 0; i < classes; ++i) is_label[i] = 0;
  std::int64_t count = 0;
  for (; count < classes && labels[count] >= 0; ++count) is_label[labels[count]] = 1;
  for (std::int64_t i = 0; slope != nullptr && i < classes; ++i) slope[i] = T(0);
  double total = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto label = static_cast<std::int64_t>(labels[k]);
    for (std::int64_t i = 0; i < classes; ++i) {
      const double margin = 1 - static_cast<double>(x[label]) + static_cast<double>(x[i]);
      if (is_label[i] != 0 || margin <= 0) continue;
      total += margin;
      if (slope != nullptr) slope[i] += T(1), slope[label] -= T(1);
    }
  }
  for (std::int64_t i = 0; slope != nullptr && i < classes; ++i) slope[i] /= static_cast<T>(classes);
  return total;
}

}  // namespace

void loss(int op, double p, const TensorImpl& x, const TensorImpl& target, TensorImpl& out) {
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const auto row = simd().of<T>().loss[op];
    base::parallel_for(out.numel(), kGrains[static_cast<std::size_t>(op)], [&](std::int64_t begin, std::int64_t end) {
      row(x.as<T>() + begin, target.as<T>() + begin, p, out.as<T>() + begin, end - begin);
    });
  });
}

void loss_backward(int op, bool right, double p, const TensorImpl& grad, const TensorImpl& x, const TensorImpl& target,
                   TensorImpl& out) {
  const std::int64_t step = grad.contiguous ? 1 : 0;
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const FloatKernels<T>& k = simd().of<T>();
    const auto row = right ? k.loss_right[op] : k.loss_left[op];
    base::parallel_for(out.numel(), kGrains[static_cast<std::size_t>(op)], [&](std::int64_t begin, std::int64_t end) {
      row(grad.as<T>() + begin * step, step, x.as<T>() + begin, target.as<T>() + begin, p, out.as<T>() + begin,
          end - begin);
    });
  });
}

void multilabel_margin(const TensorImpl& x, const TensorImpl& labels, TensorImpl& out, TensorImpl* slope) {
  const std::int64_t classes = x.shape[x.rank() - 1];
  const Tensor room = core::make_workspace(x.shape, DType::uint8, x.device(), core::calling_place());
  auto* const is_label = room.impl()->as<std::uint8_t>();
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(out.numel(), kExpensiveGrain / (classes + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int64_t first = row * classes;
        const T* const from = x.as<T>() + first;
        T* const to = slope == nullptr ? nullptr : slope->as<T>() + first;
        const double total =
            labels.dtype == DType::int32
                ? margins_of_row(from, labels.as<std::int32_t>() + first, classes, is_label + first, to)
                : margins_of_row(from, labels.as<std::int64_t>() + first, classes, is_label + first, to);
        out.as<T>()[row] = static_cast<T>(total / static_cast<double>(classes));
      }
    });
  });
}

}  // namespace capstan::on_cpu
