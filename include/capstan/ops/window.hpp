#pragma once
// Settings of sliding windows, which convolution, pooling and their relatives share.
#include <capstan/ops/rearranging.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Names for the zeros at the borders, as TensorFlow has them. With n inputs, kernel k, stride s and dilation d:
///   valid  none; there are ceil((n - d*(k-1)) / s) results
///   same   as many as it takes for ceil(n / s) results; if their number is odd, the odd one goes to the end
enum class PaddingRule : std::uint8_t { valid, same };

/// A number for every spatial axis: one for all of them, or one for each in the order of the axes (depth, rows,
/// columns). Converted from a number or from braces: `2`, `{2, 1}`.
class Sizes {
 public:
  constexpr Sizes() noexcept = default;  ///< none: means what the option says
  template <std::integral T>
  constexpr Sizes(T value) noexcept : values_{static_cast<std::int64_t>(value)}, count_(1) {}
  Sizes(std::initializer_list<std::int64_t> each, Where where = Where::current());  ///< ShapeError for more than 3
  explicit Sizes(std::span<const std::int64_t> each, Where where = Where::current());

  constexpr int count() const noexcept { return count_; }  ///< 0 for none, 1 for one for all
  /// The number for a spatial axis, counted from 0; no check.
  constexpr std::int64_t operator[](int axis) const noexcept { return values_[count_ == 1 ? 0 : axis]; }

 private:
  std::int64_t values_[3] = {};
  int count_ = 0;
};

/// Zeros at the borders of every spatial axis: a rule, one number for all sides, one for both sides of each axis, or one
/// for each side of each axis. `2`, `{2, 1}`, `{{0, 1}, {2, 2}}`, `PaddingRule::same`.
class Borders {
 public:
  constexpr Borders() noexcept = default;  ///< none
  template <std::integral T>
  constexpr Borders(T value) noexcept
      : values_{{static_cast<std::int64_t>(value), static_cast<std::int64_t>(value)}}, count_(1) {}
  constexpr Borders(PaddingRule rule) noexcept : count_(1), same_(rule == PaddingRule::same) {}
  Borders(std::initializer_list<std::int64_t> each, Where where = Where::current());  ///< ShapeError for more than 3
  Borders(std::initializer_list<Padding> each, Where where = Where::current());       ///< ShapeError for more than 3

  constexpr bool same() const noexcept { return same_; }
  constexpr int count() const noexcept { return count_; }  ///< 1 for one for all axes
  /// What is added to a spatial axis, counted from 0; no check. Means nothing if `same()`.
  constexpr Padding operator[](int axis) const noexcept { return values_[count_ == 1 ? 0 : axis]; }

 private:
  Padding values_[3] = {};
  int count_ = 1;
  bool same_ = false;
};

namespace nn {
inline constexpr PaddingRule valid = PaddingRule::valid, same = PaddingRule::same;
}

}  // namespace capstan
