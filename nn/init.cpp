#include <capstan/nn/init.hpp>

#include <cmath>

namespace capstan::nn {
namespace {

struct Fans {
  double in = 1, out = 1;
};

Fans fans_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double window = 1;
  for (int axis = 0; axis < rank - 2; ++axis) window *= static_cast<double>(shape[axis]);
  return {window * static_cast<double>(shape[rank - 2]), window * static_cast<double>(shape[rank - 1])};
}

}  // namespace

Tensor Initializer::operator()(const Shape& shape, Rng& rng, TensorOptions options, Where where) const {
  const Fans fans = fans_of(shape);
  // a and b weigh the fans: the variance is 1 / (a*in + b*out)
  const double scale = std::sqrt(1 / std::fmax(a_ * fans.in + b_ * fans.out, 1e-300));
  switch (kind_) {
    case Kind::uniform: return capstan::uniform(shape, a_, b_, rng, options, where);
    case Kind::normal: return capstan::normal(shape, a_, b_, rng, options, where);
    case Kind::truncated_normal: return capstan::truncated_normal(shape, a_, b_, rng, options, where);
    case Kind::scaled_uniform:
      return capstan::uniform(shape, -std::sqrt(3) * scale, std::sqrt(3) * scale, rng, options, where);
    case Kind::scaled_normal: return capstan::normal(shape, 0, scale, rng, options, where);
    case Kind::constant: break;
  }
  return full(shape, a_, options, where);
}

}  // namespace capstan::nn
