#pragma once
// A plain reference for tensors: one double an element, and for every element the place where it is stored. Slow, short,
// and nothing in it comes from the library but the names of the types.
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <capstan/capstan.hpp>

namespace fuzz {

using capstan::DType;
using Sizes = std::vector<std::int64_t>;

std::int64_t count_of(const Sizes& sizes);
inline constexpr std::int64_t kMostElements = 4000;  ///< of one tensor

/// Views share `storage` and differ in `places`, row-major.
struct Plain {
  DType dtype = DType::float32;
  Sizes sizes;
  std::shared_ptr<std::vector<double>> storage;
  std::vector<std::size_t> places;

  static Plain fresh(DType dtype, const Sizes& sizes);
  std::int64_t count() const { return static_cast<std::int64_t>(places.size()); }
  int rank() const { return static_cast<int>(sizes.size()); }
  double& operator[](std::int64_t i) const { return (*storage)[places[static_cast<std::size_t>(i)]]; }
  /// A view of other sizes: element i of the result is element `from(i)` of this one.
  Plain view(const Sizes& sizes, const std::function<std::int64_t(const Sizes& index)>& from) const;
};

/// Positions along each axis of element number i.
Sizes index_of(std::int64_t i, const Sizes& sizes);
std::int64_t number_of(const Sizes& index, const Sizes& sizes);
/// Calls `f(index)` for every element, row-major.
void for_each_index(const Sizes& sizes, const std::function<void(const Sizes&)>& f);

/// The value as the type holds it: rounded, wrapped around, truncated.
double as_type(double x, DType dtype);
/// The distance of neighbouring numbers of the type at x; 0 for integers.
double spacing(double x, DType dtype);
bool floating(DType dtype);
/// Whether the Array API's table has a common type, and which (with NumPy's rules for the 16-bit floating types).
bool mixes(DType a, DType b);
DType promoted(DType a, DType b);

/// NumPy's broadcasting: the common sizes, empty optional-like flag false if there are none.
bool broadcast(const Sizes& a, const Sizes& b, Sizes& result);
/// x seen with larger sizes.
Plain stretched(const Plain& x, const Sizes& sizes);

/// A tensor and its reference.
struct Pair {
  capstan::Tensor tensor;
  Plain plain;
  std::string how;  ///< how it came to be, for the report
};

/// Compares the tensor with its reference; throws std::runtime_error if they differ by more than `ulps` numbers of
/// the type, or by `absolute`. Then the reference takes over the tensor's values, so that errors do not add up.
void agree(const Pair& pair, double ulps, double absolute = 0);

}  // namespace fuzz
