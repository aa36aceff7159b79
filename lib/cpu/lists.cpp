// What the tools of training do with whole tensors: scale, blend, exchange, and add up powers for norms.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/reducing.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kPiece = 4096;  // values, or bytes, that stay in the first cache

/// Sums of `term(x)` in double, eight side by side.
template <class T, class Term>
double sum_of_terms(const T* x, std::int64_t count, Term term) {
  constexpr int kSide = 8;
  double parts[kSide] = {};
  std::int64_t i = 0;
  for (; i + kSide <= count; i += kSide)
    for (int k = 0; k < kSide; ++k) parts[k] += term(static_cast<double>(x[i + k]));
  for (; i < count; ++i) parts[0] += term(static_cast<double>(x[i]));
  for (int width = kSide / 2; width > 0; width /= 2)
    for (int k = 0; k < width; ++k) parts[k] += parts[k + width];
  return parts[0];
}

double larger(double a, double b) { return a > b || a != a ? a : b; }  // NaN if one is

/// count >= 1
template <class T>
double powers_of(const T* x, std::int64_t count, double order) {
  const FloatKernels<T>& k = simd().of<T>();
  if (std::isinf(order))
    return larger(std::fabs(static_cast<double>(k.max(x, count))), std::fabs(static_cast<double>(k.min(x, count))));
  if (order == 1) return sum_of_terms(x, count, [](double value) { return std::fabs(value); });
  if (order == 2) return k.sum_of_squares(x, count);
  return sum_of_terms(x, count, [=](double value) { return std::pow(std::fabs(value), order); });
}

/// By way of a block of their own, since `to` may be where they are.
template <class T>
void multiply_in_double(const T* from, double factor, T* to, std::int64_t count) {
  constexpr std::int64_t kBlock = 256;
  T products[kBlock];
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t here = std::min(kBlock, count - begin);
    for (std::int64_t i = 0; i < here; ++i) products[i] = static_cast<T>(factor * static_cast<double>(from[begin + i]));
    std::copy_n(products, here, to + begin);
  }
}

}  // namespace

void scale(const TensorImpl& x, const TensorImpl& factor, TensorImpl& out, TensorImpl* bad) {
  std::atomic<bool> any{false};
  const double number = *factor.as<double>();
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const FloatKernels<T>& k = simd().of<T>();
    const T by = static_cast<T>(number);
    const bool exact = static_cast<double>(by) == number;
    base::parallel_for(x.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
      bool seen = false;
      for (std::int64_t at = begin; at < end; at += kPiece) {
        const std::int64_t count = std::min(kPiece, end - at);
        const T* const from = x.as<T>() + at;
        T* const to = out.as<T>() + at;
        if (bad != nullptr) seen = k.any_bad(from, count, true) || seen;
        if (exact) k.binary[kernels::kBinaryId<kernels::Mul>](from, 1, &by, 0, to, count);
        else multiply_in_double(from, number, to, count);
      }
      if (seen) any.store(true, std::memory_order_relaxed);
    });
  });
  if (any.load(std::memory_order_relaxed)) *bad->as<bool>() = true;
}

void blend(const TensorImpl& value, double weight, TensorImpl& average) {
  core::visit_floating(average.dtype, [&]<class T>(core::Type<T>) {
    base::parallel_for(average.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
      const T* __restrict__ from = value.as<T>();
      T* __restrict__ to = average.as<T>();
      for (std::int64_t i = begin; i < end; ++i) {
        const auto old = static_cast<double>(to[i]), next = static_cast<double>(from[i]);
        const double moved = old + weight * (next - old);
        to[i] = static_cast<T>(old == next ? old : moved);  // infinities have no difference
      }
    });
  });
}

void exchange(TensorImpl& a, TensorImpl& b) {
  base::parallel_for(a.numel() * size_of(a.dtype), 4 * kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
    std::byte held[kPiece];
    for (std::int64_t at = begin; at < end; at += kPiece) {
      const auto bytes = static_cast<std::size_t>(std::min(kPiece, end - at));
      std::memcpy(held, a.data + at, bytes);
      std::memcpy(a.data + at, b.data + at, bytes);
      std::memcpy(b.data + at, held, bytes);
    }
  });
}

void add_powers(const TensorImpl& x, double order, TensorImpl& total) {
  const std::int64_t count = x.numel();
  if (count == 0) return;
  const bool largest = std::isinf(order);
  core::visit_floating(x.dtype, [&]<class T>(core::Type<T>) {
    const T* from = x.as<T>();
    double& sum = *total.as<double>();
    reduce_rows<double>(
        1, count, [=](std::int64_t) { return from; },
        [=](const T* piece, std::int64_t length) { return powers_of(piece, length, order); },
        [=](double a, double b) { return largest ? larger(a, b) : a + b; },
        [&](std::int64_t, double value) { sum = largest ? larger(sum, value) : sum + value; });
  });
}

}  // namespace capstan::on_cpu
