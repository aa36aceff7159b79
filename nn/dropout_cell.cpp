#include <capstan/nn/dropout_cell.hpp>

#include <capstan/create.hpp>
#include <capstan/ops/dropout.hpp>
#include <capstan/ops/elementwise.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn::detail {
namespace {

void check_keep(const char* option, double keep, Where where) {
  if (!(keep > 0 && keep <= 1))
    base::fail<Error>(where, "DropoutCell: ", option, " is ", keep, "; it must be in (0, 1].");
}

/// The option, or the cell's size in its place. Masks of unknown size are refused if they are needed.
std::int64_t size_of(const char* name, std::int64_t given, std::int64_t known, bool needed, Where where) {
  if (!needed && given == 0) return 0;
  return agreed_size("DropoutCell", name, given, name, known, where);
}

}  // namespace

// --- masks ---

CellDropout::CellDropout(const DropoutCellOptions& options, CellSizes cell, Where where) : options_(options) {
  check_keep("input_keep", options.input_keep, where);
  check_keep("state_keep", options.state_keep, where);
  check_keep("output_keep", options.output_keep, where);
  const bool masks = options.variational;
  options_.inputs = size_of("inputs", options.inputs, cell.inputs, masks && options.input_keep < 1, where);
  options_.outputs = size_of("outputs", options.outputs, cell.outputs, masks && options.output_keep < 1, where);
}

DropoutMasks CellDropout::draw(std::int64_t batch, const std::vector<Tensor>& floating,
                               const std::vector<Tensor>& dropped, Where where) const {
  const NoGrad off;
  const Rewind rewind(default_rng());
  const auto mask = [&](const Shape& shape, double keep, const TensorOptions& type) {
    return dropout(ones(shape, type, where), training ? keep : 1, default_rng(), where);
  };
  const auto like = [&](const Tensor& tensor) { return TensorOptions{tensor.dtype(where), tensor.device(where)}; };
  const Tensor* first = nullptr;
  for (const Tensor& tensor : floating)
    if (first == nullptr && tensor.rank(where) > 0) first = &tensor;
  if (batch == kUnknownSize) {
    if (first == nullptr)
      base::fail<Error>(where,
                        "DropoutCell: the state has no floating tensor [batch, ...], so that the batch is unknown; "
                        "begin with one of zero_state.");
    batch = first->size(0);
  }
  const TensorOptions type = first != nullptr ? like(*first) : TensorOptions();
  DropoutMasks masks;
  if (options_.input_keep < 1)
    masks.input.push_back(mask(Shape({batch, options_.inputs}, where), options_.input_keep, type));
  if (options_.state_keep < 1)
    for (const Tensor& tensor : dropped) masks.state.push_back(mask(tensor.shape(), options_.state_keep, like(tensor)));
  if (options_.output_keep < 1)
    masks.output.push_back(mask(Shape({batch, options_.outputs}, where), options_.output_keep, type));
  return masks;
}

void CellDropout::refuse_sequence(Where where) const {
  base::fail<Error>(where, "DropoutCell: state_keep is ", options_.state_keep,
                    "; in training a sequence must be made of steps then, as unroll does.");
}

Tensor CellDropout::apply(const char* part, const Tensor& x, double keep, const std::vector<Tensor>& masks,
                          std::size_t index, int time_axis, Where where) const {
  if (!training || keep == 1) return x;
  if (!options_.variational) return dropout(x, keep, default_rng(), where);
  if (!is_floating(x.dtype(where)))
    base::fail<DTypeError>(where, "DropoutCell: the ", part, " is ", x.dtype(), "; it must be a floating type.");
  if (index >= masks.size())
    base::fail<Error>(where, "DropoutCell: the state has no mask for the ", part,
                      "; begin with one of zero_state or redraw.");
  const Tensor wide = time_axis == kOneStep ? masks[index] : expand_dims(masks[index], time_axis, where);
  bool fits = x.rank() == wide.rank();
  for (int axis = 0; fits && axis < x.rank(); ++axis) fits = axis == time_axis || x.size(axis) == wide.size(axis);
  if (!fits)
    base::fail<ShapeError>(where, "DropoutCell: the ", part, " is ", x.shape(), " and its mask for each step ",
                           masks[index].shape(), "; the sizes must be equal.");
  return mul(x, wide.to(x.dtype(), where), where);
}

}  // namespace capstan::nn::detail
