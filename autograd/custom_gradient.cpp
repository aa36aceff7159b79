// Gradients that the user writes.
#include <capstan/create.hpp>
#include <capstan/differentiate.hpp>
#include <capstan/tape.hpp>

#include "autograd/owner.hpp"
#include "autograd/scopes.hpp"
#include "lib/base/text.hpp"

namespace capstan::detail {

namespace {

using autograd::Replay;

/// What the entry owns. It saves the owner, the inputs, the outputs.
struct Custom {
  Backward backward;
  std::size_t inputs, outputs;
};

void check_gradient_of(std::size_t i, const Tensor& input, const Tensor& gradient, Where where) {
  if (gradient.shape() != input.shape())
    base::fail<ShapeError>(where, "custom_gradient: gradient ", i, " is ", gradient.shape(), " and its input ",
                           input.shape(), "; the shapes must be equal.");
  if (gradient.dtype() != input.dtype())
    base::fail<DTypeError>(where, "custom_gradient: gradient ", i, " is ", gradient.dtype(), " and its input ",
                           input.dtype(), "; the types must be equal.");
  core::require_same_device("custom_gradient", *input.impl(), *gradient.impl(), where);
}

void custom_replay(Replay& r) {
  const Where where = r.where();
  const Custom custom = autograd::owned<Custom>(r.saved(0));  // a copy: the function may end the tape
  Tensors inputs, outputs, incoming;
  for (std::size_t i = 0; i < custom.inputs; ++i) inputs.push_back(r.saved(static_cast<int>(1 + i)));
  int floating = 0;
  for (std::size_t i = 0; i < custom.outputs; ++i) {
    outputs.push_back(r.saved(static_cast<int>(1 + custom.inputs + i)));
    if (!is_floating(outputs.back().dtype())) {
      incoming.emplace_back();
      continue;
    }
    const Tensor& gradient = r.grad(floating++);
    incoming.push_back(gradient.defined() ? gradient : zeros_like(outputs.back(), where));
  }
  r.settle();
  Tensors gradients = custom.backward(incoming, inputs, outputs);
  if (gradients.size() != inputs.size())
    base::fail<ShapeError>(where, "custom_gradient: the backward function returned ", gradients.size(),
                           " gradients for ", inputs.size(), " inputs; return one for each, undefined for none.");
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined()) check_gradient_of(i, inputs[i], gradients[i], where);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined() && r.needs(static_cast<int>(i))) r.give(static_cast<int>(i), std::move(gradients[i]));
}

}  // namespace

Tensors listed(Tensor one) {
  Tensors list;
  list.push_back(std::move(one));
  return list;
}

Tensors custom_gradient(const Function& forward, const Backward& backward, std::span<const Tensor> inputs,
                        Where where) {
  constexpr const char* op = "custom_gradient";
  const Tensors given(inputs.begin(), inputs.end());
  for (const Tensor& input : given) core::defined(op, input, where);
  Tensors outputs;
  {
    const autograd::Awake own_tapes(autograd::Others::silent);  // the function's; nothing else records it
    outputs = autograd::checked_results(op, forward(given), where);
  }
  if (!autograd::attended()) return outputs;
  const Tensor owner = autograd::owning(Custom{backward, given.size(), outputs.size()}, where);
  autograd::record_owning({op, where, &custom_replay, owner, given, /*saves_outputs=*/true}, outputs);
  return outputs;
}

}  // namespace capstan::detail
