#include <capstan/metrics/exact_sum.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace capstan::metrics {
namespace {

constexpr int kLowest = -1074;  // the exponent of the smallest double
constexpr std::uint64_t kMask = 0xFFFFFFFF;
constexpr std::int64_t kMostPending = std::int64_t{1} << 29;  // limbs stay below 2^62

std::int64_t part(std::uint64_t bits) noexcept { return static_cast<std::int64_t>(bits & kMask); }

}  // namespace

void ExactSum::add(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<int>(bits >> 52 & 0x7FF);
  if (exponent == 0x7FF) {
    special_ += x;
    return;
  }
  if (x == 0) return;
  constexpr std::uint64_t kLeading = std::uint64_t{1} << 52;
  const std::uint64_t digits = (bits & (kLeading - 1)) | (exponent == 0 ? 0 : kLeading);
  const int place = std::max(exponent, 1) - 1;  // x is `digits` units of 2^(place - 1074)
  const int shift = place % 32;
  const std::uint64_t low = (digits & kMask) << shift;
  const std::uint64_t high = ((digits >> 32) << shift) + (low >> 32);
  const std::int64_t sign = (bits >> 63) != 0 ? -1 : 1;
  std::int64_t* limb = limbs_ + place / 32;
  limb[0] += sign * part(low);
  limb[1] += sign * part(high);
  limb[2] += sign * static_cast<std::int64_t>(high >> 32);
  if (++pending_ >= kMostPending) carry();
}

void ExactSum::add_product(double a, double b) noexcept {
  const double product = a * b;
  add(product);
  if (std::isfinite(product)) add(std::fma(a, b, -product));
}

void ExactSum::add(const ExactSum& other) noexcept {
  ExactSum terms = other;
  terms.carry();
  carry();
  for (std::size_t i = 0; i < kLimbs; ++i) limbs_[i] += terms.limbs_[i];
  special_ += terms.special_;
  pending_ = 2;
}

/// Brings all limbs but the last, which has the sign, into [0, 2^32).
void ExactSum::carry() noexcept {
  for (std::size_t i = 0; i + 1 < kLimbs; ++i) {
    const std::int64_t above = limbs_[i] >> 32;
    limbs_[i] &= static_cast<std::int64_t>(kMask);
    limbs_[i + 1] += above;
  }
  pending_ = 1;
}

double ExactSum::value() const noexcept {
  if (special_ != 0) return special_;  // also NaN
  ExactSum sum = *this;
  sum.carry();
  if (sum.limbs_[kLimbs - 1] >= 0) return sum.magnitude();
  for (std::int64_t& limb : sum.limbs_) limb = -limb;
  sum.carry();
  return -sum.magnitude();
}

/// Of a sum that is carried and not negative.
double ExactSum::magnitude() const noexcept {
  int top = static_cast<int>(kLimbs) - 1;
  if (limbs_[top] != 0) return std::numeric_limits<double>::infinity();  // from 2^1038 on
  while (top > 0 && limbs_[top] == 0) --top;
  const auto limb = [this](int i) { return i < 0 ? std::uint64_t{0} : static_cast<std::uint64_t>(limbs_[i]); };
  if (limb(top) == 0) return 0;
  const int zeros = std::countl_zero(static_cast<std::uint32_t>(limb(top)));
  std::uint64_t window = (limb(top) << 32 | limb(top - 1)) << zeros | limb(top - 2) >> (32 - zeros);
  bool more = (limb(top - 2) << zeros & kMask) != 0;
  for (int i = top - 3; i >= 0 && !more; --i) more = limb(i) != 0;
  if (more) window |= 1;  // behind the 53 bits that stay, and the one that decides
  return std::ldexp(static_cast<double>(window), 32 * (top - 1) + kLowest - zeros);
}

double ExactSum::rest() const noexcept {
  const double nearest = value();
  if (!std::isfinite(nearest)) return 0;
  ExactSum sum = *this;
  sum.add(-nearest);
  return sum.value();
}

void ExactSum::write(std::span<std::int64_t, kNumbers> numbers) const noexcept {
  ExactSum sum = *this;
  sum.carry();
  std::copy(std::begin(sum.limbs_), std::end(sum.limbs_), numbers.begin());
  const double special = std::isnan(special_) ? std::numeric_limits<double>::quiet_NaN() : special_;
  numbers.back() = std::bit_cast<std::int64_t>(special);
}

bool ExactSum::read(std::span<const std::int64_t, kNumbers> numbers) noexcept {
  constexpr std::int64_t kTop = std::int64_t{1} << 48;  // 2^62 doubles below 2^1024, in units of the last limb
  for (std::size_t i = 0; i + 1 < kLimbs; ++i)
    if (numbers[i] < 0 || numbers[i] > static_cast<std::int64_t>(kMask)) return false;
  if (numbers[kLimbs - 1] >= kTop || numbers[kLimbs - 1] < -kTop) return false;
  const auto special = std::bit_cast<double>(numbers.back());
  if (std::isfinite(special) && numbers.back() != 0) return false;
  std::copy(numbers.begin(), numbers.end() - 1, std::begin(limbs_));
  special_ = special;
  pending_ = 1;
  return true;
}

}  // namespace capstan::metrics
