#include <capstan/optim/accumulate.hpp>

#include <utility>

#include <capstan/ops/lists.hpp>
#include <capstan/sparse.hpp>

#include "lib/base/text.hpp"

namespace capstan::optim {
namespace {

/// The same numbers in another floating type; slices stay slices.
Tensor converted(const Tensor& x, DType dtype, Where where) {
  if (!x.defined() || x.dtype(where) == dtype) return x;
  if (!has_row_slices(x)) return x.to(dtype, where);
  const RowSlices slices = row_slices(x, where);
  return from_row_slices({slices.indices, slices.values.to(dtype, where)}, x.shape(where), where);
}

DType wide(DType dtype) { return is_half(dtype) ? DType::float32 : dtype; }

}  // namespace

GradientAccumulator::GradientAccumulator(AccumulateOptions options, Where where) : options_(options) {
  if (options.batches < 1)
    base::fail<Error>(where, "GradientAccumulator: batches is ", options.batches, "; it must be >= 1.");
}

void GradientAccumulator::add(std::vector<Tensor> gradients, Where where) {
  constexpr const char* op = "GradientAccumulator::add";
  if (added_ > 0 && gradients.size() != totals_.size())
    base::fail<ShapeError>(where, op, ": there are ", gradients.size(), " gradients and there were ", totals_.size(),
                           " before; give one for each parameter, in their order.");
  std::vector<DType> types = added_ > 0 ? types_ : std::vector<DType>(gradients.size(), DType::float32);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const DType dtype = gradients[i].dtype(where);
    if (!is_floating(dtype))
      base::fail<DTypeError>(where, op, ": gradient ", i, " is ", dtype, "; it must be a floating type.");
    const bool again = added_ > 0 && totals_[i].defined();
    if (again && dtype != types[i])
      base::fail<DTypeError>(where, op, ": gradient ", i, " is ", dtype, " and was ", types[i],
                             " before; the types must be equal.");
    if (again && gradients[i].shape(where) != totals_[i].shape(where))
      base::fail<ShapeError>(where, op, ": gradient ", i, " is ", gradients[i].shape(where), " and was ",
                             totals_[i].shape(where), " before; the shapes must be equal.");
    types[i] = dtype;
    gradients[i] = converted(std::exchange(gradients[i], Tensor()), wide(dtype), where);
  }
  std::vector<Tensor> totals = added_ > 0 ? std::vector<Tensor>() : std::vector<Tensor>(gradients.size());
  add_each(added_ > 0 ? totals_ : totals, std::move(gradients), where);
  if (added_ == 0) totals_ = std::move(totals);
  types_ = std::move(types);
  ++added_;
}

std::vector<Tensor> GradientAccumulator::take(Where where) {
  if (added_ == 0)
    base::fail<Error>(where, "GradientAccumulator::take: nothing was added since the last time; call add first.");
  std::vector<Tensor> gradients = std::exchange(totals_, {});
  const std::vector<DType> types = std::exchange(types_, {});
  const auto batches = static_cast<double>(std::exchange(added_, 0));
  if (options_.mean && batches > 1) gradients = scale_each(std::move(gradients), 1 / batches, where).tensors;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = converted(std::exchange(gradients[i], Tensor()), types[i], where);
  return gradients;
}

void GradientAccumulator::reset() noexcept {
  totals_.clear();
  types_.clear();
  added_ = 0;
}

}  // namespace capstan::optim
