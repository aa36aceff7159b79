#pragma once
// Fused steps of optimizers: one pass over each parameter, in place. `optim::Sgd` and `optim::Adam` are built on them.
#include <span>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct SgdUpdate {
  double learning_rate = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
  bool lazy = false;  ///< of a gradient held as row slices only the rows in it count; see below
};

struct AdamUpdate {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0;
  std::int64_t step = 1;  ///< counts from 1; corrects the moments' start at zero
  bool lazy = false;      ///< of a gradient held as row slices only the rows in it count; see below
};

// All parameters at once. The spans have equal lengths (ShapeError); an undefined gradient leaves its parameter and
// state alone; gradients have the shapes, types and devices of their parameters (ShapeError, DTypeError, DeviceError);
// parameters and states are contiguous (ShapeError). If one does not fit, nothing has changed. Counts as a write to
// parameters and states; never recorded, and as for other changes in place no tape may follow them as results of
// operations (TapeError).
//
// Gradients held as row slices (sparse.hpp) are used as they are: nothing of the parameter's size is made. The result is
// that of the whole gradient, zeros included. With `lazy`, rows that have no slice keep their value and their state, as
// in PyTorch's SparseAdam: faster for large tables, and not the same.

/// p -= learning_rate * v with v = momentum*v + g + weight_decay*p; `velocity` starts at zero, and may be empty if the
/// momentum is 0.
void sgd_update(std::span<const Tensor> parameters, std::span<const Tensor> gradients, std::span<const Tensor> velocity,
                const SgdUpdate& update, Where where = Where::current());
/// Adam, Kingma and Ba 2015, algorithm 1, with `mean` and `square` as its moments.
void adam_update(std::span<const Tensor> parameters, std::span<const Tensor> gradients, std::span<const Tensor> mean,
                 std::span<const Tensor> square, const AdamUpdate& update, Where where = Where::current());

}  // namespace capstan
