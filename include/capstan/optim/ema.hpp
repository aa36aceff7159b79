#pragma once
// Averages of parameters over the steps of training, and putting them in the parameters' place for a while.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <capstan/optim/optimizer.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace optim {

struct EmaOptions {
  double decay = 0.999;  ///< in [0, 1): how much of the average stays in each update
  bool warm_up = false;  ///< update n = 1, 2, ... decays by min(decay, (1 + n) / (10 + n)) only, as TensorFlow's does
  bool debias = false;   ///< the values at the start do not count: TensorFlow's zero_debias
  bool equal = false;    ///< the mean of all updates instead: stochastic weight averaging
};

/// Exponential moving averages of parameters.
///
///   average = decay * average + (1 - decay) * parameter       from the values that the parameters have at the start
///
/// With `debias` an average is the mean of what the updates saw, weighted by the same powers of the decay, and the
/// first update is a copy; with `equal` all weights are equal (Izmailov et al. 2018): update once an epoch then.
///
///   optim::Ema ema(nn::parameters(net), {.decay = 0.9999});
///   ...
///   adam.apply(gradients);
///   ema.update();
///   ...
///   { auto averaged = ema.swap();  evaluate(net); }           the net has its own values back from here on
///
/// Types     any; tensors that are not floating are not averaged, but follow. So a model's buffers can be put into the
///           list as well: running means are averaged like parameters then. 16-bit averages lose small updates
/// Cost      the memory of the parameters; one pass over them an update, no pass or memory to build a graph
/// Copies would share averages, so there are none; moving is allowed while no swap is on.
class Ema {
 public:
  /// Throws Error        a decay that is not in [0, 1), options that exclude each other, an undefined tensor, one given
  ///                     twice        ShapeError  a tensor that is not contiguous
  explicit Ema(std::vector<Tensor> parameters, EmaOptions options = {}, Where where = Where::current());
  Ema(Ema&&) noexcept = default;
  Ema& operator=(Ema&&) noexcept = default;

  /// Takes in the parameters' present values. Never recorded by a tape. Throws Error while a swap is on.
  void update(Where where = Where::current());

  /// While one lives, averages and parameters have changed places. Uses no memory. The Ema must live as long, and not
  /// be moved. What changes the parameters meanwhile, such as a step of an optimizer, changes the averages.
  class Swap {
   public:
    Swap(Swap&& other) noexcept : ema_(std::exchange(other.ema_, nullptr)) {}
    Swap& operator=(Swap&&) = delete;
    ~Swap();

   private:
    friend class Ema;
    explicit Swap(Ema* ema) noexcept : ema_(ema) {}
    Ema* ema_;
  };
  /// Puts the averages into the parameters, until what it returns is destroyed, also by an exception. Counts as a write
  /// to the parameters both times: a tape that saved their values says so at its replay. Throws Error while a swap is
  /// on.
  [[nodiscard]] Swap swap(Where where = Where::current());

  /// Writes the averages to other tensors, such as another model's parameters, or to its own for good. Throws Error
  /// while a swap is on, ShapeError, DTypeError, DeviceError for tensors that do not fit; then nothing has changed.
  void copy_to(std::span<const Tensor> targets, Where where = Where::current()) const;

  const std::vector<Tensor>& parameters() const noexcept { return parameters_; }
  const std::vector<Tensor>& averages() const noexcept { return averages_; }  ///< in the parameters' order
  std::int64_t updates() const noexcept { return updates_; }

  /// Everything that changes, as copies: "updates", "remaining" (the share of the values at the start), and "average.0"
  /// and so on. Throws Error while a swap is on.
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Goes on from a state, whose elements it copies. Throws Error, ShapeError, DTypeError for one that is not of the
  /// same parameters, and Error while a swap is on; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  void require_no_swap(const char* what, Where where) const;

  std::vector<Tensor> parameters_, averages_;
  EmaOptions options_;
  std::int64_t updates_ = 0;
  double remaining_ = 1;  // the product of all decays
  bool swapped_ = false;
};

}  // namespace optim
}  // namespace capstan
