#pragma once
// Starting values of parameters.
#include <utility>

#include <capstan/callback.hpp>
#include <capstan/random.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// How many values one unit of a layer reads, and how many units read one: the scaled initializers divide by them.
struct Fans {
  double in = 1, out = 1;
};

/// A recipe for starting values: a plain value, made by one of the functions below.
class Initializer {
 public:
  /// Makes a tensor of that shape; type and device are converted if they are others.
  using Function = Callback<Tensor(const Shape&, Rng&, TensorOptions)>;
  enum class Kind : std::uint8_t {
    constant,
    uniform,
    normal,
    truncated_normal,
    scaled_uniform,
    scaled_normal,
    scaled_truncated_normal,
    orthogonal,
    identity,
    sparse,
    function
  };
  constexpr Initializer(Kind kind, double a, double b) noexcept : a_(a), b_(b), kind_(kind) {}
  explicit Initializer(Function function) noexcept : function_(std::move(function)), kind_(Kind::function) {}

  /// A new tensor of a shape [window..., in, out], TensorFlow's order: the fans are the last two sizes, each times the
  /// product of the sizes before them; both are the size itself for rank 1, and 1 for rank 0.
  /// Throws DTypeError  a type that is not floating     ShapeError  a shape that the recipe is not for
  Tensor operator()(const Shape& shape, Rng& rng = default_rng(), TensorOptions options = {},
                    Where where = Where::current()) const;
  /// The same for a shape whose fans are not the last two sizes: a kernel [out, in, window...], whose matrix, where the
  /// recipe needs one, has a row for each output. Error for fans that a variance cannot be divided by.
  Tensor operator()(const Shape& shape, Fans fans, Rng& rng = default_rng(), TensorOptions options = {},
                    Where where = Where::current()) const;

 private:
  Tensor make(const Shape& shape, Fans fans, bool outputs_first, Rng& rng, TensorOptions options, Where where) const;

  Function function_;
  double a_ = 0, b_ = 0;
  Kind kind_;
};

namespace init {

namespace detail {
/// Throws Error: `what` is `value`; it must be `rule`.
[[noreturn]] void refuse(const char* what, double value, const char* rule, Where where);
}  // namespace detail

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

// --- scaled by the fans --------------------------------------------------------------------------------------------

/// Uniform in +-sqrt(6 / (fan_in + fan_out)), normal with stddev sqrt(2 / (fan_in + fan_out)). Glorot, Bengio 2010.
constexpr Initializer glorot_uniform() noexcept { return {Initializer::Kind::scaled_uniform, 0.5, 0.5}; }
constexpr Initializer glorot_normal() noexcept { return {Initializer::Kind::scaled_normal, 0.5, 0.5}; }
/// Uniform in +-sqrt(6 / fan_in), normal with stddev sqrt(2 / fan_in). He et al. 2015.
constexpr Initializer he_uniform() noexcept { return {Initializer::Kind::scaled_uniform, 0.5, 0}; }
constexpr Initializer he_normal() noexcept { return {Initializer::Kind::scaled_normal, 0.5, 0}; }
/// Uniform in +-sqrt(3 / fan_in), normal with stddev sqrt(1 / fan_in). LeCun et al. 1998.
constexpr Initializer lecun_uniform() noexcept { return {Initializer::Kind::scaled_uniform, 1, 0}; }
constexpr Initializer lecun_normal() noexcept { return {Initializer::Kind::scaled_normal, 1, 0}; }

enum class FanMode : std::uint8_t { in, out, average };
enum class Distribution : std::uint8_t {
  uniform,
  normal,
  truncated_normal  ///< cut at two standard deviations, of a normal wide enough that the variance is right after it
};
/// Mean 0 and variance scale / fan, by TensorFlow's name. Its glorot_normal, he_normal and lecun_normal are truncated
/// ones; those above are not, as in PyTorch. A gain of PyTorch's is a scale of gain*gain. Error unless scale > 0.
constexpr Initializer variance_scaling(double scale = 1, FanMode mode = FanMode::in,
                                       Distribution distribution = Distribution::truncated_normal,
                                       Where where = Where::current()) {
  if (!(scale > 0)) detail::refuse("variance_scaling: the scale", scale, "above 0", where);
  const double in = mode == FanMode::in ? 1 / scale : mode == FanMode::out ? 0 : 0.5 / scale;
  const double out = mode == FanMode::out ? 1 / scale : mode == FanMode::in ? 0 : 0.5 / scale;
  const Initializer::Kind kind = distribution == Distribution::uniform  ? Initializer::Kind::scaled_uniform
                                 : distribution == Distribution::normal ? Initializer::Kind::scaled_normal
                                                                        : Initializer::Kind::scaled_truncated_normal;
  return {kind, in, out};
}

/// What an activation's fans are scaled by to keep the variance of the signal: PyTorch's calculate_gain.
enum class Nonlinearity : std::uint8_t { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// 1, 1, 5/3, sqrt(2), sqrt(2 / (1 + slope^2)) and 3/4; `slope` is leaky_relu's.
double calculate_gain(Nonlinearity kind, double slope = 0.01) noexcept;

// --- matrices ------------------------------------------------------------------------------------------------------

/// `gain` times a matrix with orthonormal rows or columns, whichever are fewer, uniformly distributed among those: from
/// the QR decomposition of a normal one (Saxe, McClelland, Ganguli 2014; Mezzadri 2007). A shape of more than two axes
/// stands for the matrix [window * in, out], or [out, in * window] where the fans are given. MissingLibraryError
/// without LAPACK.
constexpr Initializer orthogonal(double gain = 1) noexcept { return {Initializer::Kind::orthogonal, gain, 0}; }
/// `gain` on the diagonal, 0 elsewhere; of kernels, in the middle of the window: a convolution that passes on its input
/// (PyTorch's dirac). Two axes or more. Of a convolution in groups say how many, as to the layer: the outputs (of a
/// transposed one the inputs) fall into as many equal parts, ShapeError if they do not, with a diagonal each.
constexpr Initializer identity(double gain = 1, std::int64_t groups = 1, Where where = Where::current()) {
  if (groups < 1 || groups > INT32_MAX)
    detail::refuse("identity: the number of groups", static_cast<double>(groups), "in [1, 2^31)", where);
  return {Initializer::Kind::identity, gain, static_cast<double>(groups)};
}
/// A matrix of normal numbers with the share `sparsity` of each column, rounded up, set to 0 (Martens 2010). Error
/// unless 0 <= sparsity <= 1.
constexpr Initializer sparse(double sparsity, double stddev = 0.01, Where where = Where::current()) {
  if (!(sparsity >= 0 && sparsity <= 1)) detail::refuse("sparse: the sparsity", sparsity, "in [0, 1]", where);
  return {Initializer::Kind::sparse, sparsity, stddev};
}

// --- given ---------------------------------------------------------------------------------------------------------

/// A copy of these values, converted to the parameter's type. ShapeError, when it is used, unless the shapes are equal.
Initializer values(const Tensor& elements, Where where = Where::current());
/// Whatever a function of yours makes of (shape, rng, options).
Initializer function(Initializer::Function make, Where where = Where::current());

}  // namespace init

}  // namespace nn
}  // namespace capstan
