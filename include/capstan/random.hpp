#pragma once
// Random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#include <cstdint>

#include <capstan/create.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// A stream of random numbers: a seed and a position. The numbers depend on these two alone, never on the number of
/// threads or on the device. Copying an Rng copies the position: both continue with the same numbers.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) noexcept : seed_(seed) {}
  std::uint64_t seed() const noexcept { return seed_; }
  std::uint64_t position() const noexcept { return position_; }  ///< in blocks of four 32-bit numbers
  void set_position(std::uint64_t position) noexcept { position_ = position; }
  /// Reserves `blocks` blocks and returns the first one's number.
  std::uint64_t take(std::uint64_t blocks) noexcept { return (position_ += blocks) - blocks; }
  /// 64 random bits.
  std::uint64_t bits() noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t position_ = 0;
};

/// The generator that functions use when they are given none. Each thread has its own, seeded with 0.
Rng& default_rng() noexcept;
/// Restarts this thread's default generator.
void seed(std::uint64_t seed) noexcept;

// Each function draws from `rng`. Types: float32 or float64 (DTypeError), int64 for the last three.

/// Uniform in [low, high).
Tensor uniform(const Shape& shape, double low, double high, Rng& rng = default_rng(), TensorOptions options = {},
               Where where = Where::current());
/// Normal, by the Box-Muller transform.
Tensor normal(const Shape& shape, double mean, double stddev, Rng& rng = default_rng(), TensorOptions options = {},
              Where where = Where::current());
Tensor normal(const Shape& shape, Rng& rng = default_rng(), TensorOptions options = {}, Where where = Where::current());
/// Normal, cut to within two standard deviations of the mean by inverting the distribution function.
Tensor truncated_normal(const Shape& shape, double mean, double stddev, Rng& rng = default_rng(),
                        TensorOptions options = {}, Where where = Where::current());
/// 1 with that probability, else 0. float32 unless asked otherwise; any type.
Tensor bernoulli(const Shape& shape, double probability, Rng& rng = default_rng(), TensorOptions options = {},
                 Where where = Where::current());
/// int64, uniform in [low, high). ShapeError unless low < high.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Rng& rng = default_rng(),
               Where where = Where::current());
/// int64: 0 .. count-1 in random order (Fisher-Yates).
Tensor permutation(std::int64_t count, Rng& rng = default_rng(), Where where = Where::current());
/// The rows of the first axis in random order.
Tensor shuffle(const Tensor& x, Rng& rng = default_rng(), Where where = Where::current());

}  // namespace capstan
