#pragma once
// Running means. What all metrics have in common is told here.
//
//     metrics::Accuracy accuracy;
//     metrics::Mean loss;
//     for (const auto& [images, labels] : batches) {
//       const Tensor logits = net(images);
//       accuracy.update(logits, labels);
//       loss.update(cross_entropy(logits, labels), static_cast<double>(labels.numel()));
//     }
//     std::cout << accuracy.result() << ' ' << loss.result() << '\n';
//
// A metric is a value. `update` takes in a batch, on any device, with any strides and of any size, also 0; `result` is
// that of all batches so far; `reset` begins anew; `merge` takes in what another one has seen, such as that of another
// worker. Counts are exact and sums are not rounded (ExactSum), so that how examples are cut into batches, their order,
// and merging change no bit of a result. `state` and `load_state` are what checkpoints ask for: a run goes on exactly.
//
// Weights   tensors of the labels' shape and any type, finite and >= 0; bool is a mask. Elements of weight 0 are not
//           looked at, whatever they are. `Tensor()` stands for 1 each
// Cost      of an update: one pass over the predictions on their device, and a copy of a number or two an element
// Throws    of an update: Error for undefined tensors and weights out of range, ShapeError, DTypeError; NumericError
//           for NaN that is to be compared; IndexError for labels out of range, naming the first and its place. Then
//           the metric is as before. No tape records anything
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/metrics/exact_sum.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

namespace detail {

/// A sum of weighted terms over the sum of their weights: what most metrics are.
class Ratio {
 public:
  /// The sum of the weights so far; without weights the number of examples.
  double weight() const noexcept { return weight_.value(); }
  void reset() noexcept;
  /// "sum" and "weight", int64 [68] each.
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Goes on from a state. Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has
  /// changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 protected:
  explicit Ratio(const char* name) noexcept : name_(name) {}
  double ratio() const noexcept { return sum_.value() / weight_.value(); }
  void add(const Ratio& other) noexcept;
  void add(double value, double weight) noexcept;
  void add_exact(double sum, double weight) noexcept;

 private:
  ExactSum sum_, weight_;
  const char* name_;
};

}  // namespace detail

/// The weighted mean of numbers: sum(weight * value) / sum(weight). NaN if there are none, or one of them is NaN.
class Mean : public detail::Ratio {
 public:
  Mean() noexcept : Ratio("Mean") {}
  void update(double value, double weight = 1, Where where = Where::current());
  /// All elements of a tensor, of any type. With a number as weight it counts for each of them.
  void update(const Tensor& values, double weight, Where where = Where::current());
  void update(const Tensor& values, const Tensor& weights = Tensor(), Where where = Where::current());
  double result() const noexcept { return ratio(); }
  void merge(const Mean& other) noexcept { add(other); }
};

}  // namespace metrics
}  // namespace capstan
