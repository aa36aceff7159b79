#pragma once
// Random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
#include <cstdint>
#include <string>
#include <string_view>

#include <capstan/create.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Where a generator stands: all that its numbers depend on.
struct RngState {
  std::uint64_t seed = 0, stream = 0, position = 0;
  friend bool operator==(const RngState&, const RngState&) = default;
};
/// "philox4x32-10 seed=42 stream=0 position=17".
std::string to_string(const RngState& state);
/// The reverse. Throws Error for any other text.
RngState parse_rng_state(std::string_view text, Where where = Where::current());

/// A stream of random numbers: a seed, a stream's number and a position. The numbers depend on these three alone, never
/// on the number of threads or on the device. Copying an Rng copies the position: both continue with the same numbers.
class Rng {
 public:
  explicit Rng(std::uint64_t seed) noexcept : seed_(seed) {}
  std::uint64_t seed() const noexcept { return seed_; }
  /// The beginning of another stream of the same seed, of which there are 2^64; a new generator is number 0. Streams
  /// never overlap: the number is the upper half of Philox's counter, the position the lower, and a cipher gives
  /// different blocks for different counters. Numbers count from the seed, not from this stream: give each worker, or
  /// whoever must not depend on the others, one of its own.
  Rng stream(std::uint64_t number) const noexcept {
    Rng other(seed_);
    other.stream_ = number;
    return other;
  }
  RngState state() const noexcept { return {seed_, stream_, position_}; }
  /// Continues where the generator stood whose state that was.
  void restore(const RngState& state) noexcept {
    seed_ = state.seed;
    stream_ = state.stream;
    position_ = state.position;
  }
  std::uint64_t position() const noexcept { return position_; }  ///< in blocks of four 32-bit numbers
  void set_position(std::uint64_t position) noexcept { position_ = position; }
  /// Reserves `blocks` blocks and returns the first one's number.
  std::uint64_t take(std::uint64_t blocks) noexcept { return (position_ += blocks) - blocks; }
  /// 64 random bits.
  std::uint64_t bits() noexcept;

 private:
  std::uint64_t seed_;
  std::uint64_t stream_ = 0;
  std::uint64_t position_ = 0;
};

/// The generator that functions use when they are given none. Each thread has its own, seeded with 0.
Rng& default_rng() noexcept;
/// Restarts this thread's default generator.
void seed(std::uint64_t seed) noexcept;

// Each function draws from `rng`. Types: floating (DTypeError) unless the entry says otherwise; those of 16 bits are
// drawn in float64 and rounded once. A tensor that is drawn in one go has the same numbers whatever its shape.

/// Uniform in [low, high). Error unless low <= high, and both and their difference are finite.
Tensor uniform(const Shape& shape, double low, double high, Rng& rng = default_rng(), TensorOptions options = {},
               Where where = Where::current());
/// Normal, by the Box-Muller transform. Error unless stddev >= 0.
Tensor normal(const Shape& shape, double mean, double stddev, Rng& rng = default_rng(), TensorOptions options = {},
              Where where = Where::current());
Tensor normal(const Shape& shape, Rng& rng = default_rng(), TensorOptions options = {}, Where where = Where::current());
/// Normal, cut to within two standard deviations of the mean by inverting the distribution function. Error as above.
Tensor truncated_normal(const Shape& shape, double mean, double stddev, Rng& rng = default_rng(),
                        TensorOptions options = {}, Where where = Where::current());
/// Exponential with that mean: -scale * log(1 - u). Error unless scale >= 0.
Tensor exponential(const Shape& shape, double scale = 1, Rng& rng = default_rng(), TensorOptions options = {},
                   Where where = Where::current());
/// Gumbel: location - scale * log(-log(1 - u)), finite. Error unless scale >= 0.
Tensor gumbel(const Shape& shape, double location = 0, double scale = 1, Rng& rng = default_rng(),
              TensorOptions options = {}, Where where = Where::current());
/// 1 with that probability, else 0. float32 unless asked otherwise; any type. Error unless it is in [0, 1].
Tensor bernoulli(const Shape& shape, double probability, Rng& rng = default_rng(), TensorOptions options = {},
                 Where where = Where::current());
/// 1 with the probability at that place, else 0: shape, floating type and device of `probability`, and the same numbers
/// as above if all are equal. Error if one is outside [0, 1]. No gradient. Defined in autograd/random.cpp.
Tensor bernoulli(const Tensor& probability, Rng& rng = default_rng(), Where where = Where::current());
/// `count` classes for each row, with replacement; class k of row i with probability softmax(logits[i])[k], whose sums
/// are taken in double. TensorFlow's random.categorical.
///
/// Shapes    logits [batch, classes]; result [batch, count]
/// Types     floating for logits; the result is int64; no gradient
/// Throws    ShapeError  not of rank 2, no classes, or count < 0     DTypeError  logits not floating
///           Error       a row has NaN, +infinity or nothing but -infinity
/// Defined in autograd/random.cpp.
Tensor categorical(const Tensor& logits, std::int64_t count, Rng& rng = default_rng(), Where where = Where::current());
/// Uniform in [low, high); int64 unless another integer type is asked for, which gives the same numbers. ShapeError
/// unless low < high, DTypeError for another type and for a range that does not fit it.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, Rng& rng = default_rng(),
               TensorOptions options = {.dtype = DType::int64}, Where where = Where::current());
/// int64: 0 .. count-1 in random order (Fisher-Yates). ShapeError unless count >= 0; Error while a step is captured or a
/// plan made, since it is drawn on the host.
Tensor permutation(std::int64_t count, Rng& rng = default_rng(), Where where = Where::current());
/// The rows of the first axis in random order. ShapeError if there is none; else as `permutation`.
Tensor shuffle(const Tensor& x, Rng& rng = default_rng(), Where where = Where::current());

}  // namespace capstan
