#pragma once
// What the operations that normalize share: checks, and the same mathematics in public operations, for gradients that
// are themselves recorded.
#include <capstan/ops/normalization.hpp>

#include "autograd/linalg.hpp"

namespace capstan::autograd {

/// Throws Error unless it is finite and >= 0.
void check_epsilon(const char* op, double epsilon, Where where);
/// Throws unless the tensor, if it is defined, has that shape, x's type (or float32 beside 16 bits) and x's device.
void check_beside(const char* op, const char* what, const Tensor& tensor, const TensorImpl& x, const Shape& shape,
                  Where where);
/// Throws ShapeError for fewer axes than that. Returns [channels].
Shape channels_of(const char* op, const TensorImpl& x, int least, Where where);

/// Contiguous, or undefined as it is.
inline Tensor dense_or_none(const Tensor& x, Where where) { return x.defined() ? dense(x, where) : x; }
/// The type of a bias, or any.
inline DType type_or_any(const Tensor& x) { return x.defined() ? x.impl()->dtype : DType::float32; }

/// The last `count` axes; all but the second one.
Axes last_axes(int count, Where where);
Axes all_but_channels(int rank, Where where);
/// [channels] as [channels, 1, ...], to go with [batch, channels, ...] of that rank.
Tensor along_channels(const Tensor& numbers, int rank, Where where);

/// x less its mean over axes (or less nothing), divided by the root of variance (or mean square) + epsilon.
struct Standardized {
  Axes axes;
  bool centered;
  Tensor distance, inverse, value;  // value = distance * inverse

  Standardized(const Tensor& x, const Axes& over, double epsilon, bool less_mean, Where where);
  /// The gradient for x, from that for `value`.
  Tensor back(const Tensor& grad, Where where) const;
};

}  // namespace capstan::autograd
