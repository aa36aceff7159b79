#pragma once
// Gradients of several small batches as that of one large batch.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

struct AccumulateOptions {
  std::int64_t batches = 1;  ///< >= 1: micro-batches that make one step
  bool mean = true;          ///< divide by their number, as fits losses that are means over equal batches; else the sum
};

/// Adds up gradients until there are enough for a step.
///
///   optim::GradientAccumulator accumulator({.batches = 4});
///   for (auto [images, labels] : micro_batches) {
///     cs::GradientTape tape;
///     accumulator.add(tape.gradient(loss(images, labels), adam.parameters()));
///     if (accumulator.ready()) adam.apply(accumulator.take());
///   }
///
/// A gradient that is undefined adds nothing, and stays undefined if it is so every time. Row slices (sparse.hpp) stay
/// slices as long as they are fewer than the table has rows. The 16-bit types are added up in float32 and rounded once,
/// when they are taken. Copies share what they have added up so far until one of them goes on.
class GradientAccumulator {
 public:
  /// Throws Error unless batches >= 1.
  explicit GradientAccumulator(AccumulateOptions options = {}, Where where = Where::current());

  /// Adds the gradients of one micro-batch, in place: hand the list over. Works beyond `batches` as well; the mean is
  /// then over all of them.
  /// Throws ShapeError  another number of gradients than before, or another shape    DTypeError  not floating, or
  ///        another type    DeviceError  another device. Then nothing has changed
  void add(std::vector<Tensor> gradients, Where where = Where::current());
  /// Whether `batches` or more have been added since the last `take`.
  bool ready() const noexcept { return added_ >= options_.batches; }
  std::int64_t added() const noexcept { return added_; }
  /// The mean or the sum of what was added, and begins again. Throws Error if nothing was added. If there is no memory
  /// for gradients of 16 bits or for row slices, all sums are still there.
  std::vector<Tensor> take(Where where = Where::current());
  /// Forgets what was added.
  void reset() noexcept;

  /// What was added up so far, as copies: "added", and for each gradient I "type.I", without elements and of the
  /// gradient's type, and "total.I" unless it was undefined; of row slices "total.I.indices", "total.I.values" and
  /// "total.I.shape".
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Goes on from a state. `add` takes the sums to the devices of its gradients. Throws Error, ShapeError, DTypeError,
  /// IndexError for one that state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  AccumulateOptions options_;
  std::vector<Tensor> totals_;
  std::vector<DType> types_;  // of the gradients that came in
  std::int64_t added_ = 0;
  std::vector<bool> loaded_;  // sums that may be on other devices than the gradients; none, or one for each
};

}  // namespace optim
}  // namespace capstan
