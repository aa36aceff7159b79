#include "autograd/debug_values.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include <capstan/sparse.hpp>
#include <capstan/tape.hpp>

#include "autograd/ops.hpp"
#include "lib/base/parallel.hpp"

namespace capstan::autograd {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements that are scanned faster than a thread wakes

/// The bits of a floating type: all but the sign, and the lowest bit of the exponent.
template <class Bits>
struct Layout {
  Bits magnitude, exponent_one;
};

/// A magnitude with an exponent of ones, plus one in the exponent, overflows into the sign's place; one less than that
/// leaves infinity (which has no bits below the exponent) just short of it.
template <class Bits>
bool any_overflows(const Bits* values, std::int64_t count, Bits magnitude, Bits add) noexcept {
  Bits seen = 0;
  for (std::int64_t i = 0; i < count; ++i)
    seen = static_cast<Bits>(seen | static_cast<Bits>((values[i] & magnitude) + add));
  return (seen >> (8 * sizeof(Bits) - 1)) != 0;
}

template <class Bits>
bool scan(const TensorImpl& x, Bad kind, Layout<Bits> layout) noexcept {
  const Bits* values = x.as<Bits>();
  const auto add = static_cast<Bits>(kind == Bad::nan ? layout.exponent_one - 1 : layout.exponent_one);
  if (x.numel() <= kGrain) return any_overflows(values, x.numel(), layout.magnitude, add);
  std::atomic<bool> found{false};
  base::parallel_for(x.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (any_overflows(values + begin, end - begin, layout.magnitude, add)) found.store(true, std::memory_order_relaxed);
  });
  return found.load(std::memory_order_relaxed);
}

/// The same for elements that stand one behind the other on the host.
bool scan_packed(const TensorImpl& x, Bad kind) noexcept {
  switch (x.dtype) {
    case DType::float64: return scan<std::uint64_t>(x, kind, {~std::uint64_t{0} >> 1, std::uint64_t{1} << 52});
    case DType::float16: return scan<std::uint16_t>(x, kind, {0x7FFF, 0x0400});
    case DType::bfloat16: return scan<std::uint16_t>(x, kind, {0x7FFF, 0x0080});
    default: return scan<std::uint32_t>(x, kind, {0x7FFFFFFFu, 0x00800000u});
  }
}

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

Tensor on_host(const Tensor& x, Where where) {
  core::defined("debug", x, where);  // fills in row slices
  if (x.impl()->device().kind == DeviceKind::cpu) return x;
  const NoGrad off;
  return x.to(cpu(), where);
}

Tensor distinct_elements(const Tensor& x, Where where) {
  if (has_row_slices(x)) return distinct_elements(row_slices(x, where).values, where);
  const Tensor host = on_host(x, where);
  return host.impl()->contiguous ? host : dense(unstretched(host, where), where);
}

bool has_bad(const Tensor& x, Bad kind, Where where) {
  const TensorImpl& impl = *x.impl();
  if (impl.contiguous && !has_row_slices(x) && impl.device().kind == DeviceKind::cpu) return scan_packed(impl, kind);
  return scan_packed(*distinct_elements(x, where).impl(), kind);
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
  if (RowSlices* slices = x.slices.load(std::memory_order_acquire); slices != nullptr)
    return bytes_of(*slices->values.impl());
  if (x.numel() == 0) return 0;
  std::int64_t count = 1;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (x.strides[axis] != 0) count *= x.shape[axis];
  return count * size_of(x.dtype);
}

}  // namespace capstan::autograd
