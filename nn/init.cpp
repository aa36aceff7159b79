#include <capstan/nn/init.hpp>

#include <cmath>
#include <vector>

#include <capstan/ops/decompose.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/index.hpp>
#include <capstan/ops/linalg.hpp>
#include <capstan/ops/order.hpp>
#include <capstan/ops/rearranging.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {
namespace {

/// The standard deviation of a normal distribution cut at two of its own: sqrt(1 - 4 phi(2) / (2 Phi(2) - 1)).
constexpr double kCutDeviation = 0.87962566103423978;

bool is_scaled(Initializer::Kind kind) {
  return kind == Initializer::Kind::scaled_uniform || kind == Initializer::Kind::scaled_normal ||
         kind == Initializer::Kind::scaled_truncated_normal;
}

Fans fans_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double window = 1;
  for (int axis = 0; axis < rank - 2; ++axis) window *= static_cast<double>(shape[axis]);
  return {window * static_cast<double>(shape[rank - 2]), window * static_cast<double>(shape[rank - 1])};
}

void require_floating(const char* name, DType dtype, Where where) {
  if (!is_floating(dtype))
    base::fail<DTypeError>(where, name, ": the type is ", dtype, "; it must be a floating type.");
}

void require_matrix(const char* name, const Shape& shape, Where where) {
  if (shape.rank() < 2)
    base::fail<ShapeError>(where, name, ": the shape is ", shape, "; it must have two axes or more.");
}

Tensor orthogonal(const Shape& shape, bool outputs_first, double gain, Rng& rng, TensorOptions options, Where where) {
  require_matrix("orthogonal", shape, where);
  require_floating("orthogonal", options.dtype, where);
  std::int64_t rows = 1, columns = 1;
  const int cut = outputs_first ? 1 : shape.rank() - 1;
  for (int axis = 0; axis < shape.rank(); ++axis) (axis < cut ? rows : columns) *= shape[axis];
  const bool wide = rows < columns;
  const Shape tall({wide ? columns : rows, wide ? rows : columns}, where);
  const QrResult factors = qr(normal(tall, 0, 1, rng, {DType::float64, options.device}, where), QrMode::reduced, where);
  // with a positive diagonal of r the factors are unique, and q is distributed uniformly
  const Tensor diagonals = diagonal(factors.r, 0, -2, -1, where);
  const Tensor signs = copysign(full_like(diagonals, 1, where), diagonals, where);
  const Tensor q = mul(factors.q, mul(signs, gain, where), where);
  return reshape(wide ? transpose(q, where) : q, shape, where).contiguous(where).to(options.dtype, where);
}

/// `groups` diagonals behind one another on the axis of the outputs.
Tensor diagonals_of(std::int64_t rows, std::int64_t columns, bool outputs_first, std::int64_t groups,
                    TensorOptions options, Where where) {
  if (groups == 1) return eye(rows, columns, options, where);
  if (outputs_first) return tile(eye(rows / groups, columns, options, where), {groups, 1}, where);
  return tile(eye(rows, columns / groups, options, where), {1, groups}, where);
}

Tensor identity(const Shape& shape, bool outputs_first, double gain, std::int64_t groups, TensorOptions options,
                Where where) {
  require_matrix("identity", shape, where);
  const int row = outputs_first ? 0 : shape.rank() - 2;
  if (const std::int64_t outputs = shape[outputs_first ? row : row + 1]; outputs % groups != 0)
    base::fail<ShapeError>(where, "identity: the shape is ", shape, "; its ", outputs, " outputs do not divide into ",
                           groups, " groups.");
  const Tensor diagonal_of_gain =
      mul(diagonals_of(shape[row], shape[row + 1], outputs_first, groups, options, where), gain, where);
  if (shape.rank() == 2) return diagonal_of_gain;
  Tensor kernel = zeros(shape, options, where);
  if (shape.numel() == 0) return kernel;
  std::vector<Index> middle;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis == row || axis == row + 1) middle.emplace_back(all);
    else middle.emplace_back(shape[axis] / 2);
  }
  kernel.index_put(std::span<const Index>(middle), diagonal_of_gain, {}, where);
  return kernel;
}

Tensor sparse(const Shape& shape, double sparsity, double stddev, Rng& rng, TensorOptions options, Where where) {
  if (shape.rank() != 2)
    base::fail<ShapeError>(where, "sparse: the shape is ", shape, "; it must have two axes, [rows, columns].");
  const Tensor x = normal(shape, 0, stddev, rng, options, where);
  const auto none = static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(shape[0])));
  if (none == 0 || shape.numel() == 0) return x;
  const Tensor keys = uniform(shape, 0, 1, rng, {DType::float64, options.device}, where);
  return scatter(x, narrow(argsort(keys, 0, {}, where), 0, 0, none, where), 0, 0, where);
}

Tensor given(const Initializer::Function& make, const Shape& shape, Rng& rng, TensorOptions options, Where where) {
  require_floating("Initializer", options.dtype, where);
  const NoGrad off;
  const Tensor made = make(shape, rng, options);
  if (!made.defined())
    base::fail<Error>(where, "Initializer: the function gave an undefined tensor for shape ", shape,
                      "; it must give one of that shape.");
  if (made.shape() != shape)
    base::fail<ShapeError>(where, "Initializer: the values given are ", made.shape(), " and the parameter is ", shape,
                           "; the shapes must be equal.");
  return made.to(options.device, where).to(options.dtype, where).copy(where);
}

}  // namespace

Tensor Initializer::operator()(const Shape& shape, Rng& rng, TensorOptions options, Where where) const {
  return make(shape, fans_of(shape), false, rng, options, where);
}

Tensor Initializer::operator()(const Shape& shape, Fans fans, Rng& rng, TensorOptions options, Where where) const {
  return make(shape, fans, true, rng, options, where);
}

Tensor Initializer::make(const Shape& shape, Fans fans, bool outputs_first, Rng& rng, TensorOptions options,
                         Where where) const {
  // a and b weigh the fans: the variance is 1 / (a*in + b*out)
  const double fan = a_ * fans.in + b_ * fans.out, scale = std::sqrt(1 / std::fmax(fan, 1e-300));
  if (is_scaled(kind_) && shape.numel() > 0 && !(fan > 0))
    base::fail<Error>(where, "Initializer: the fans are ", fans.in, " and ", fans.out, "; they must be above 0.");
  switch (kind_) {
    case Kind::uniform: return capstan::uniform(shape, a_, b_, rng, options, where);
    case Kind::normal: return capstan::normal(shape, a_, b_, rng, options, where);
    case Kind::truncated_normal: return capstan::truncated_normal(shape, a_, b_, rng, options, where);
    case Kind::scaled_uniform:
      return capstan::uniform(shape, -std::sqrt(3) * scale, std::sqrt(3) * scale, rng, options, where);
    case Kind::scaled_normal: return capstan::normal(shape, 0, scale, rng, options, where);
    case Kind::scaled_truncated_normal:
      return capstan::truncated_normal(shape, 0, scale / kCutDeviation, rng, options, where);
    case Kind::orthogonal: return orthogonal(shape, outputs_first, a_, rng, options, where);
    case Kind::identity:
      return identity(shape, outputs_first, a_, b_ > 1 ? static_cast<std::int64_t>(b_) : 1, options, where);
    case Kind::sparse: return sparse(shape, a_, b_, rng, options, where);
    case Kind::function: return given(function_, shape, rng, options, where);
    case Kind::constant: break;
  }
  return full(shape, a_, options, where);
}

namespace init {

void detail::refuse(const char* what, double value, const char* rule, Where where) {
  base::fail<Error>(where, what, " is ", value, "; it must be ", rule, ".");
}

double calculate_gain(Nonlinearity kind, double slope) noexcept {
  switch (kind) {
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu: return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: break;
  }
  return 1;
}

Initializer values(const Tensor& elements, Where where) {
  if (!elements.defined()) base::fail<Error>(where, "init::values: the tensor is undefined; give it a value first.");
  return Initializer([elements](const Shape&, Rng&, TensorOptions) { return elements; });
}

Initializer function(Initializer::Function make, Where where) {
  if (!make) base::fail<Error>(where, "init::function: there is no function; give one.");
  return Initializer(std::move(make));
}

}  // namespace init

}  // namespace capstan::nn
