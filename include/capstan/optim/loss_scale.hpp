#pragma once
// Loss scaling: keeps the small gradients of float16 computations from vanishing.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

struct LossScaleOptions {
  double scale = 65536;          ///< at the start; a normal float32 number above 0; it never leaves these
  bool dynamic = true;           ///< else the scale stays
  double growth = 2;             ///< >= 1: what the scale is multiplied with after `interval` good steps in a row
  double backoff = 0.5;          ///< in (0, 1): and after each step whose gradients were not finite
  std::int64_t interval = 2000;  ///< >= 1
};

struct UnscaledGradients {
  std::vector<Tensor> gradients;
  bool finite = true;  ///< no element is NaN or infinite; if false, leave out the step
};

/// Multiplies the loss, so that its gradients are in the range of float16, and divides the gradients again; looks for
/// the largest scale at which they do not overflow. PyTorch's GradScaler, rule for rule. Micikevicius et al. 2018.
///
///   optim::LossScaler scaler;
///   ...
///   cs::GradientTape tape;
///   auto loss = ...;
///   auto [gradients, finite] = scaler.unscale(tape.gradient(scaler.scale(loss), adam.parameters()));
///   if (finite) adam.apply(gradients);
///   scaler.update();
///
/// Parameters in float32 that are converted to float16 where they are used get float32 gradients, in which nothing is
/// lost. Gradients of parameters that are float16 themselves are float16 after `unscale`, too, and what is too small
/// for it then is lost; bfloat16 has the range of float32 and needs no scaling.
class LossScaler {
 public:
  /// Throws Error for options out of range.
  explicit LossScaler(LossScaleOptions options = {}, Where where = Where::current());

  /// loss * scale, in float32 for 16-bit losses, which the product would overflow. Recorded: its gradient is the scaled
  /// one. Throws DTypeError if the loss is not floating.
  Tensor scale(const Tensor& loss, Where where = Where::current()) const;
  /// Gradients / scale, each in its own type, in place where nobody else holds them, and whether all are finite: one
  /// pass. Undefined ones stay undefined, row slices slices. Several calls count together until the next `update`, so
  /// that several optimizers can share one scaler. Clip behind it. Throws DTypeError, DeviceError.
  [[nodiscard]] UnscaledGradients unscale(std::vector<Tensor> gradients, Where where = Where::current());
  /// Ends a step: if all its gradients were finite, the scale grows when it is time, else it shrinks, and the step
  /// counts as skipped. Throws Error if nothing was unscaled since the last update.
  void update(Where where = Where::current());

  double scale() const noexcept { return scale_; }
  std::int64_t skipped() const noexcept { return skipped_; }  ///< steps with gradients that were not finite

  /// Everything that changes from step to step: "scale", "good" (steps in a row), "skipped".
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Goes on from a state. Throws Error, ShapeError, DTypeError for one that state() does not give; then nothing has
  /// changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  LossScaleOptions options_;
  double scale_;
  std::int64_t good_ = 0, skipped_ = 0;
  bool unscaled_ = false, finite_ = true;  // since the last update
};

}  // namespace optim
}  // namespace capstan
