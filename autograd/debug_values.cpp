#include "autograd/debug_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>

#include <capstan/sparse.hpp>
#include <capstan/tape.hpp>

#include "autograd/ops.hpp"
#include "lib/base/text.hpp"
#include "lib/core/device_runtime.hpp"
#include "lib/core/recording.hpp"

namespace capstan::autograd {
namespace {

/// x without the axes that show one element many times.
Tensor unstretched(const Tensor& x, Where where) {
  const TensorImpl& impl = *x.impl();
  std::int64_t sizes[kMaxRank];
  for (int axis = 0; axis < impl.rank(); ++axis)
    sizes[axis] = impl.strides[axis] == 0 && impl.shape[axis] > 1 ? 1 : impl.shape[axis];
  const Shape shape(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(impl.rank())), where);
  return core::make_view(impl, shape, impl.strides, 0, where);
}

}  // namespace

bool host_looks(const TensorImpl& x) noexcept {
  return x.device().kind == DeviceKind::cpu || (core::cuda_runtime()->waits_always() && core::capturing() == nullptr);
}

Tensor on_host(const Tensor& x, Where where) {
  const NoGrad off;
  return core::whole(x, where).to(cpu(), where);
}

Tensor distinct_elements(const Tensor& x, Where where) {
  if (const Tensor rows = core::sliced_values(*x.impl()); rows.defined()) return distinct_elements(rows, where);
  const Tensor host = on_host(x, where);
  return host.impl()->contiguous ? host : dense(unstretched(host, where), where);
}

bool has_bad(const Tensor& x, Bad kind, Where where) {
  const TensorImpl& impl = *x.impl();
  const bool infinite = kind == Bad::nan_or_infinity;
  if (impl.contiguous && !has_row_slices(x)) return core::backend_of(impl.device(), where).any_bad(impl, infinite);
  const Tensor packed = distinct_elements(x, where);
  return core::backend_of(packed.impl()->device(), where).any_bad(*packed.impl(), infinite);
}

Figures figures_of(const Tensor& x, Where where) {
  const Tensor host = on_host(x, where);
  const TensorImpl& impl = *host.impl();
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Figures f{.count = impl.numel(), .low = kNone, .high = kNone, .mean = kNone, .deviation = kNone};
  double low = HUGE_VAL, high = -HUGE_VAL, total = 0;
  each_value(impl, [&](double value) {
    if (std::isnan(value)) {
      ++f.nan;
    } else if (std::isinf(value)) {
      ++f.infinite;
    } else {
      ++f.finite;
      f.zeros += value == 0;
      low = value < low ? value : low;
      high = value > high ? value : high;
      total += value;
    }
  });
  if (f.finite == 0) return f;
  const auto finite = static_cast<double>(f.finite);
  // sums of numbers near the largest would be infinite: those are divided first
  const double largest = std::max(std::fabs(low), std::fabs(high)), scale = largest > 1e150 ? largest : 1;
  if (scale != 1) {
    total = 0;
    each_value(impl, [&](double value) {
      if (std::isfinite(value)) total += value / scale;
    });
  }
  const double mean = total / finite;
  double squares = 0;
  each_value(impl, [&](double value) {
    const double distance = value / scale - mean;
    if (std::isfinite(value)) squares += distance * distance;
  });
  f.low = low;
  f.high = high;
  f.mean = mean * scale;
  f.deviation = std::sqrt(squares / finite) * scale;
  return f;
}

std::int64_t bytes_of(const TensorImpl& x) noexcept {
  if (const Tensor rows = core::sliced_values(x); rows.defined()) return bytes_of(*rows.impl());
  if (x.numel() == 0) return 0;
  std::int64_t count = 1;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.strides[axis] != 0) count *= x.shape[axis];
  return count * size_of(x.dtype);
}

}  // namespace capstan::autograd

namespace capstan {

std::string Tensor::describe(Where where) const {
  if (!defined()) return "undefined tensor";
  core::host_access("describe", *impl_, where);
  const auto number = [](double x) {
    char text[32];
    return std::string(text, std::to_chars(std::begin(text), std::end(text), x, std::chars_format::general, 3).ptr);
  };
  const autograd::Figures f = autograd::figures_of(*this, where);
  std::string text = base::join(impl_->shape, " ", impl_->dtype, " ", impl_->device());
  if (f.finite > 0)
    text += base::join("  min ", number(f.low), "  max ", number(f.high), "  mean ", number(f.mean), "  std ",
                       number(f.deviation));
  return text + base::join("  nan ", f.nan, "  inf ", f.infinite);
}

}  // namespace capstan
