#pragma once
// Sizes of a tensor along its axes.
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>

#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {

class Shape;

/// The most axes a tensor can have.
inline constexpr int kMaxRank = 8;

namespace detail {
/// Instead of a span, to which each copy of a shape and each list might convert: to find out takes compilers long.
template <class Sizes>
concept IsSizes = !std::is_same_v<std::remove_cvref_t<Sizes>, Shape> &&
                  !std::is_same_v<std::remove_cvref_t<Sizes>, std::initializer_list<std::int64_t>> &&
                  std::is_convertible_v<Sizes&&, std::span<const std::int64_t>>;
}  // namespace detail

/// 0 to 8 sizes, each >= 0, whose product (of those above 0) is below 2^63. Rank 0 is a single value.
///
/// Throws ShapeError from its constructors for negative sizes, more than 8 sizes, and products of 2^63 and more.
class Shape {
 public:
  constexpr Shape() noexcept = default;
  Shape(std::initializer_list<std::int64_t> sizes, Where where = Where::current());
  /// Of a vector, array or span of int64, or whatever else converts to std::span<const std::int64_t>.
  template <class Sizes>
  requires detail::IsSizes<Sizes>
  explicit Shape(Sizes&& sizes, Where where = Where::current()) { assign(sizes, where); }

  int rank() const noexcept { return rank_; }
  /// Number of elements: the product of the sizes, 1 for rank 0.
  std::int64_t numel() const noexcept { return numel_; }
  /// Size of one axis, negative counts from the end; no check.
  std::int64_t operator[](int axis) const noexcept {
    return sizes_[static_cast<unsigned>(axis < 0 ? axis + rank_ : axis) % kMaxRank];
  }
  /// Size of one axis, negative counts from the end. Throws IndexError.
  std::int64_t size(int axis, Where where = Where::current()) const;

  const std::int64_t* begin() const noexcept { return sizes_; }
  const std::int64_t* end() const noexcept { return sizes_ + rank_; }

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.rank_ != b.rank_ || a.numel_ != b.numel_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }

 private:
  void assign(std::span<const std::int64_t> sizes, Where where);  // to a new one
  friend struct DebugLayout;  // tells debuggers where the fields are: lib/core/debug_layout.hpp
  std::int64_t sizes_[kMaxRank] = {};
  std::int64_t numel_ = 1;
  int rank_ = 0;
};

/// "[64, 128]", "[]" for rank 0.
std::string to_string(const Shape& shape);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace capstan
