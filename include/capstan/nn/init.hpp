#pragma once
// Starting values of parameters.
#include <capstan/random.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// A recipe for starting values: a plain value, made by one of the functions below.
class Initializer {
 public:
  enum class Kind : std::uint8_t { constant, uniform, normal, truncated_normal, scaled_uniform, scaled_normal };
  constexpr Initializer(Kind kind, double a, double b) noexcept : a_(a), b_(b), kind_(kind) {}

  /// A new tensor. For the scaled kinds `fan_in` and `fan_out` are the last two sizes of the shape, each times the
  /// product of the sizes before them (a kernel's window); both are the size itself for rank 1, and 1 for rank 0.
  Tensor operator()(const Shape& shape, Rng& rng = default_rng(), TensorOptions options = {},
                    Where where = Where::current()) const;

 private:
  double a_, b_;
  Kind kind_;
};

namespace init {
constexpr Initializer constant(double value) noexcept { return {Initializer::Kind::constant, value, 0}; }
constexpr Initializer zeros() noexcept { return constant(0); }
constexpr Initializer ones() noexcept { return constant(1); }
/// Uniform in [low, high).
constexpr Initializer uniform(double low, double high) noexcept { return {Initializer::Kind::uniform, low, high}; }
constexpr Initializer normal(double mean, double stddev) noexcept { return {Initializer::Kind::normal, mean, stddev}; }
/// Normal, cut at two standard deviations.
constexpr Initializer truncated_normal(double mean, double stddev) noexcept {
  return {Initializer::Kind::truncated_normal, mean, stddev};
}
/// Uniform in +-sqrt(6 / (fan_in + fan_out)), normal with stddev sqrt(2 / (fan_in + fan_out)). Glorot, Bengio 2010.
constexpr Initializer glorot_uniform() noexcept { return {Initializer::Kind::scaled_uniform, 0.5, 0.5}; }
constexpr Initializer glorot_normal() noexcept { return {Initializer::Kind::scaled_normal, 0.5, 0.5}; }
/// Uniform in +-sqrt(6 / fan_in), normal with stddev sqrt(2 / fan_in). He et al. 2015.
constexpr Initializer he_uniform() noexcept { return {Initializer::Kind::scaled_uniform, 0.5, 0}; }
constexpr Initializer he_normal() noexcept { return {Initializer::Kind::scaled_normal, 0.5, 0}; }
}  // namespace init

}  // namespace nn
}  // namespace capstan
