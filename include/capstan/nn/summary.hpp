#pragma once
// What a model is made of and what it costs: its layers in the order in which they run, with shapes, parameters, memory
// and operations. `std::cout << nn::summary(net, images);`.
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/outline.hpp>
#include <capstan/shape.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// A layer, or an operation that belongs to none.
struct SummaryRow {
  std::string name;   ///< "conv1", "encoder.layers.0.norm1"; of an operation its own, behind its part's: "body.relu"
  std::string type;   ///< "Conv2d": the type without namespaces; empty for an operation
  Shape output = {};  ///< of the last result
  std::int64_t calls = 0;                  ///< how often it ran there; 0: it has parameters and did not run
  std::int64_t trainable = 0, frozen = 0;  ///< elements of its parameters, in the first of its rows
  std::int64_t operations = 0;
  std::int64_t bytes = 0;  ///< of its results; views have none
};

/// A summary as a value: what the table says, and the totals of the model.
struct Summary {
  std::vector<SummaryRow> rows;
  std::int64_t trainable = 0, frozen = 0;  ///< elements of parameters
  std::int64_t parameter_bytes = 0, buffer_bytes = 0;
  std::int64_t result_bytes = 0;  ///< of all rows: what a tape could keep at most
  std::int64_t operations = 0;    ///< of all rows

  /// A table with a line for each row, and the totals below it.
  std::string text() const;
};
std::ostream& operator<<(std::ostream& out, const Summary& summary);

namespace detail {

/// While one lives, operations of this thread are taken down for a summary, and no tape records them. In the end
/// buffers and the default generator are as they were.
class SummaryRun {
 public:
  explicit SummaryRun(Outline outline);
  ~SummaryRun();
  SummaryRun(const SummaryRun&) = delete;
  SummaryRun& operator=(const SummaryRun&) = delete;
  Summary finish() const;

 private:
  struct SummaryState* state_;  // owned; hidden in nn/summary.cpp
};

}  // namespace detail

/// Runs the model once, as `model(inputs...)`, in whatever mode it is, and tells what ran. A model that cannot be called
/// is run by a function: `nn::summary(lm, [&] { return nn::unroll(lm.cell, lm.embed(words)); })`.
///
/// Nothing is recorded; buffers (running statistics) and this thread's default generator are as before, also after an
/// exception, which comes out as it is. Random generators and plain tensors of the model's own are its own affair.
///
/// Rows        A layer is known by its parameters: an operation that has one among its operands belongs to the module
///             whose field it is; what the same call computes besides (the rest of a cell, the softmax of attention)
///             belongs to that module, or to the one around all of them. Any other operation has a row of its own.
///             Layers that run at several places have a row for each, with their parameters in the first; what runs
///             again at the same place, as in a loop, is added up in its row. Parameters that were not used come last.
/// Operations  of floating numbers, where a product and a sum are two:
///               convolution  2 * results * in/groups * kernel, padding included, and results for the bias
///               transposed   2 * elements of x * out/groups * kernel, likewise
///               product      2 * results * inner size; linear adds results for the bias
///               attention    scores * (2*features + 2*value features + 5), scores = batch * heads * queries * keys; one
///                            more each with a floating mask
///               recurrence   batch * time * (2*columns of wx*(inputs + units) + 2*hidden*units with a projection
///                            + 3*hidden for rnn, 15*hidden for gru, 17*hidden for lstm), padding included
///               norms        6 for an element (mean 1, variance 3, result 2), rms 3, with given statistics 2; one more
///                            each for weight and bias
///               pooling      one for each element of each window
///               reductions   one for each element of the operand; views none; all others one for each result
///             What only changes buffers (running statistics) does not count.
template <class Model, class... Inputs>
Summary summary(Model& model, Inputs&&... inputs) {
  const detail::SummaryRun run(detail::outline_of(model));
  if constexpr (std::is_invocable_v<Model&, Inputs...>) static_cast<void>(model(std::forward<Inputs>(inputs)...));
  else {
    static_assert(sizeof...(Inputs) == 1 && (std::is_invocable_v<Inputs> && ...),
                  "capstan: the model cannot be called with these inputs; give those, or a function that runs it");
    (static_cast<void>(std::forward<Inputs>(inputs)()), ...);
  }
  return run.finish();
}

}  // namespace nn
}  // namespace capstan
