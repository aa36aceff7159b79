#pragma once
// Fused steps of optimizers: one pass over each parameter, in place. The classes of optim/ are built on them.
#include <cstdint>
#include <span>

#include <capstan/ops/update_rule.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// A parameter's part in a step.
struct ParameterUpdate {
  UpdateRule rule = UpdateRule::sgd;
  Tensor parameter;
  Tensor gradient;                  ///< undefined: parameter and states stay as they are
  Tensor states[kMostStates] = {};  ///< as many as the rule has
  UpdateNumbers numbers = {};
  bool lazy = false;       ///< of a gradient held as row slices only its rows count; not for lamb, whose norms need all
  std::int64_t group = 0;  ///< neighbours of one group that have the same numbers now have them in every step
};

/// One step of several parameters, none of which is given twice. `name` is the optimizer's, for errors and traces.
///
/// Parameters and states are contiguous, a gradient may have any strides. It may be one of the parameters, or a view of
/// one, and counts as it was before the step. A gradient has the shape, type and device of its parameter; so do states,
/// but those of a 16-bit parameter are float32: it is computed with in float32 and rounded once. Counts as a write to
/// parameters and states; never recorded, and as for other changes in place no tape may follow them as results of
/// operations. The result does not depend on the number of threads.
///
/// Gradients held as row slices (sparse.hpp) are used as they are: nothing of the parameter's size is made. The result
/// is that of the whole gradient, zeros included. With `lazy`, rows that have no slice keep their value and their
/// state, as in PyTorch's SparseAdam: faster for large tables, and not the same.
///
/// Cost    one pass over parameter, gradient and states; lamb two
/// Throws  ShapeError, DTypeError, DeviceError for what does not fit, TapeError; then nothing has changed
void apply_updates(const char* name, std::span<const ParameterUpdate> updates, Where where = Where::current());

/// What every optimizer asks of its parameters: defined, floating, contiguous, and no element given twice.
/// Throws Error, DTypeError, ShapeError
void check_parameters(const char* name, std::span<const Tensor> parameters, Where where = Where::current());

/// What every step asks of its gradients: one for each parameter, undefined or of its shape, type and device.
/// Throws ShapeError, DTypeError, DeviceError
void check_gradients(const char* name, std::span<const Tensor> parameters, std::span<const Tensor> gradients,
                     Where where = Where::current());

}  // namespace capstan
