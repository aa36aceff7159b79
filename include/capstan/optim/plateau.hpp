#pragma once
// A learning rate that follows a metric.
#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

struct PlateauOptions {
  bool maximize = false;       ///< the metric is better the larger it is
  double factor = 0.1;         ///< in [0, 1): what the rate is multiplied with
  std::int64_t patience = 10;  ///< updates without improvement that are borne; the next one lowers the rate
  double threshold = 1e-4;     ///< what counts as better: best * (1 - threshold), or 1 + where it is maximized
  bool absolute = false;       ///< best - threshold instead, or +
  std::int64_t cooldown = 0;   ///< updates behind a lowering that do not count as bad
  double least = 0;            ///< the rate goes no lower
  double epsilon = 1e-8;       ///< changes of the rate that are not larger are left out
};

/// Lowers a learning rate when a metric has stopped improving: PyTorch's ReduceLROnPlateau, update for update.
///
///   ReduceOnPlateau plateau(0.1, {.factor = 0.5, .patience = 3});
///   ...
///   adam.set_learning_rate(plateau.update(validation_loss));
///
/// A metric that is NaN is not better. Copies are independent.
class ReduceOnPlateau {
 public:
  /// Throws Error for options out of range.
  explicit ReduceOnPlateau(double rate, PlateauOptions options = {}, Where where = Where::current());
  /// Looks at a metric, once an epoch as a rule, and gives the rate to go on with.
  double update(double metric) noexcept;
  double rate() const noexcept { return rate_; }

  /// Everything that changes: "rate", "best", "bad" (updates in a row), "cooldown" (updates of it that are left).
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Goes on from a state. Throws Error, ShapeError, DTypeError for one that state() does not give; then nothing has
  /// changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  bool is_better(double metric) const noexcept;

  PlateauOptions options_;
  double rate_, best_;
  std::int64_t bad_ = 0, cooldown_ = 0;
};

}  // namespace optim
}  // namespace capstan
