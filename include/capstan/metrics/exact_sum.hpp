#pragma once
// Sums that do not depend on the order of their terms: what metrics are made of.
#include <cstddef>
#include <cstdint>
#include <span>

#include <capstan/visibility.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

/// The sum of any doubles without rounding: a whole number of units of 2^-1074 with more digits than it can ever need,
/// as in Kulisch, "Computer Arithmetic and Validity". Batches, their order and merging do not change it.
///
/// Cost  some nanoseconds a term, 550 bytes; fewer than 2^62 terms
class ExactSum {
 public:
  /// Infinities and NaN make the sum what IEEE 754 says of them.
  void add(double x) noexcept;
  /// a*b, which is not rounded either unless it leaves the range of double.
  void add_product(double a, double b) noexcept;
  void add(const ExactSum& other) noexcept;

  double value() const noexcept;  ///< rounded once, to the nearest and to even at ties
  double rest() const noexcept;   ///< what rounding took from value(), rounded; 0 if that is not finite

  /// The sum as numbers, the same for equal sums.
  static constexpr std::size_t kNumbers = 68;
  void write(std::span<std::int64_t, kNumbers> numbers) const noexcept;
  /// False, and nothing has changed, if they are not what write() gives.
  bool read(std::span<const std::int64_t, kNumbers> numbers) noexcept;

 private:
  void carry() noexcept;
  double magnitude() const noexcept;

  static constexpr std::size_t kLimbs = kNumbers - 1;
  std::int64_t limbs_[kLimbs] = {};  // limb i counts units of 2^(32*i - 1074)
  double special_ = 0;               // the sum of what is not finite
  std::int64_t pending_ = 0;         // terms since the last carry: a limb is at most this many times 2^32
};

}  // namespace metrics
}  // namespace capstan
