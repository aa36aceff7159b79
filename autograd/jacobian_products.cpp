// Products of Jacobians and Hessians with vectors, made of reverse passes.
#include <capstan/create.hpp>
#include <capstan/differentiate.hpp>
#include <capstan/tape.hpp>

#include "autograd/owner.hpp"
#include "autograd/scopes.hpp"
#include "lib/base/text.hpp"

namespace capstan::detail {

namespace {

constexpr TapeOptions kNoParameters{.watch_parameters = false};

void check_inputs(const char* op, std::span<const Tensor> inputs, Where where) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (const DType dtype = core::defined(op, inputs[i], where).dtype; !is_floating(dtype))
      base::fail<DTypeError>(where, op, ": input ", i, " is ", dtype,
                             "; it must be a floating type. Capture other tensors in the function.");
}

/// One vector for each tensor, of its shape and type, or undefined.
void check_vectors(const char* op, const char* what, const char* beside, std::span<const Tensor> tensors,
                   std::span<const Tensor> vectors, Where where) {
  if (tensors.size() != vectors.size())
    base::fail<ShapeError>(where, op, ": there are ", vectors.size(), " ", what, "s and ", tensors.size(), " ", beside,
                           "s; give one for each, undefined for zeros.");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!vectors[i].defined()) continue;
    const TensorImpl &tensor = *tensors[i].impl(), &vector = core::defined(op, vectors[i], where);
    if (tensor.shape != vector.shape)
      base::fail<ShapeError>(where, op, ": ", what, " ", i, " is ", vector.shape, " and its ", beside, " ",
                             tensor.shape, "; the shapes must be equal.");
    if (tensor.dtype != vector.dtype)
      base::fail<DTypeError>(where, op, ": ", what, " ", i, " is ", vector.dtype, " and its ", beside, " ",
                             tensor.dtype, "; the types must be equal.");
    core::require_same_device(op, tensor, vector, where);
  }
}

void watch_all(GradientTape& tape, const Tensors& tensors, Where where) {
  for (const Tensor& tensor : tensors) tape.watch(tensor, where);
}

Tensors zeros_of(const Tensors& tensors, Where where) {
  Tensors list;
  for (const Tensor& tensor : tensors)
    list.push_back(is_floating(tensor.dtype()) ? zeros_like(tensor, where) : Tensor());
  return list;
}

/// Tensors that a tape follows, each with the vector beside it, where there is one.
struct Pairs {
  Tensors tensors, vectors;
  void add_followed(const GradientTape& tape, const Tensor& tensor, const Tensor& vector, Where where) {
    if (!tensor.defined() || !vector.defined() || !tape.follows(tensor, where)) return;
    tensors.push_back(tensor);
    vectors.push_back(vector);
  }
};

}  // namespace

VjpList vjp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> cotangents, Where where) {
  check_inputs("vjp", inputs, where);
  const autograd::Rollback rollback(autograd::Inside::user_code);
  const autograd::Awake awake;
  const Tensors given = autograd::told_apart(inputs, where);
  GradientTape tape(kNoParameters, where);
  watch_all(tape, given, where);
  Tensors values = autograd::checked_results("vjp", function(given), where);
  check_vectors("vjp", "cotangent", "result", values, cotangents, where);
  Pairs targets;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (is_floating(values[i].dtype())) targets.add_followed(tape, values[i], cotangents[i], where);
  Tensors gradients = targets.tensors.empty()
                          ? zeros_of(given, where)
                          : tape.gradient(targets.tensors, given, targets.vectors, Unconnected::zeros, where);
  return {std::move(values), std::move(gradients)};
}

// The gradient for cotangents u is J^T u: linear in u, so its derivative with respect to u along the tangents is J v,
// whatever u is.
JvpList jvp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> tangents, Where where) {
  check_inputs("jvp", inputs, where);
  check_vectors("jvp", "tangent", "input", inputs, tangents, where);
  const autograd::Rollback rollback(autograd::Inside::user_code);
  const autograd::Awake awake;
  const Tensors given = autograd::told_apart(inputs, where);
  GradientTape outer(kNoParameters, where), inner(kNoParameters, where);
  watch_all(inner, given, where);
  Tensors values = autograd::checked_results("jvp", function(given), where);
  Tensors derivatives = zeros_of(values, where), results, cotangents;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_floating(values[i].dtype()) || !inner.follows(values[i], where)) continue;
    results.push_back(values[i]);
    cotangents.push_back(zeros_like(values[i], where));
    places.push_back(i);
  }
  if (results.empty()) return {std::move(values), std::move(derivatives)};
  watch_all(outer, cotangents, where);
  const Tensors gradients = inner.gradient(results, given, cotangents, Unconnected::undefined, where);
  Pairs targets;
  for (std::size_t i = 0; i < given.size(); ++i) targets.add_followed(outer, gradients[i], tangents[i], where);
  if (targets.tensors.empty()) return {std::move(values), std::move(derivatives)};
  Tensors along = outer.gradient(targets.tensors, cotangents, targets.vectors, Unconnected::zeros, where);
  for (std::size_t i = 0; i < places.size(); ++i) derivatives[places[i]] = std::move(along[i]);
  return {std::move(values), std::move(derivatives)};
}

Tensors hvp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> vectors, Where where) {
  check_inputs("hvp", inputs, where);
  check_vectors("hvp", "vector", "input", inputs, vectors, where);
  const autograd::Rollback rollback(autograd::Inside::user_code);
  const autograd::Awake awake;
  const Tensors given = autograd::told_apart(inputs, where);
  GradientTape outer(kNoParameters, where), inner(kNoParameters, where);
  watch_all(outer, given, where);
  watch_all(inner, given, where);
  const Tensors values = autograd::checked_results("hvp", function(given), where);
  if (values.size() != 1 || values[0].numel() != 1)
    base::fail<ShapeError>(where, "hvp: the function returned ", values.size(), " tensors, the first of shape ",
                           values[0].shape(), "; it must return one value. Reduce it first, for example with sum.");
  if (!is_floating(values[0].dtype()) || !inner.follows(values[0], where)) return zeros_of(given, where);
  const Tensors gradients = inner.gradient(values, given, {}, Unconnected::undefined, where);
  Pairs targets;
  for (std::size_t i = 0; i < given.size(); ++i) targets.add_followed(outer, gradients[i], vectors[i], where);
  if (targets.tensors.empty()) return zeros_of(given, where);
  return outer.gradient(targets.tensors, given, targets.vectors, Unconnected::zeros, where);
}

}  // namespace capstan::detail
