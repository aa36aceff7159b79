#pragma once
// Dropout and its relatives: noise that training adds and use leaves out. nn/dropout.hpp has them as modules.
//
// All of them: floating types (DTypeError); the result has x's shape and type. They draw from `rng`, the same numbers
// for every device and number of threads, and for views and copies alike: decisions are those of `bernoulli`, in
// row-major order. A probability of 1 to keep, or no noise, gives x itself and draws nothing. Gradients are of every
// order, and the tape keeps a byte for each decision (gaussian_dropout: the noise).
// Throws  Error  unless 0 < keep <= 1
// Defined in autograd/dropout.cpp.
#include <capstan/random.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// Each element is kept with probability `keep` and divided by it, or is 0, whatever it was (as in TensorFlow).
///
///   out[i] = kept[i] ? x[i] / keep : 0
///
/// Gradient  g / keep where x was kept, else 0
/// Source    inverted dropout; Srivastava et al. 2014
Tensor dropout(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());

/// The same for whole channels: one decision for all places of a channel (Tompson et al. 2015).
/// Shapes    x [batch, channels, places...] with 1, 2 or 3 axes of places, or without a batch (ShapeError)
Tensor dropout1d(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());
Tensor dropout2d(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());
Tensor dropout3d(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());

/// Dropout beside `selu`, which keeps mean 0 and variance 1: what is dropped becomes c = -1.7581, selu's limit at
/// -infinity, and all are scaled and shifted.
///
///   out[i] = a * (kept[i] ? x[i] : c) + b  with  a = 1 / sqrt(keep * (1 + (1 - keep) * c^2)),  b = -a * (1 - keep) * c
///
/// Gradient  a * g where x was kept, else 0
/// Source    Klambauer et al., "Self-normalizing neural networks", 2017
Tensor alpha_dropout(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());
/// The same for whole channels. Shapes: x [batch, channels, ...] (ShapeError).
Tensor feature_alpha_dropout(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());

/// x times normal noise of mean 1 and standard deviation sqrt((1 - keep) / keep): mean and variance are dropout's
/// (Srivastava et al. 2014, section 10). The gradient is g times the noise.
Tensor gaussian_dropout(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());
/// x plus normal noise of mean 0. The gradient is g. Error unless stddev >= 0.
Tensor gaussian_noise(const Tensor& x, double stddev, Rng& rng = default_rng(), Where where = Where::current());

/// Stochastic depth: one decision for all of a sample; those kept are divided by `keep` (Huang et al. 2016). For the
/// branch of a residual block: x + drop_path(branch(x), keep). Shapes: x [batch, ...] (ShapeError).
Tensor drop_path(const Tensor& x, double keep, Rng& rng = default_rng(), Where where = Where::current());

}  // namespace capstan
