#pragma once
// Derivatives beside the tape's own: gradients by hand, memory traded for time, products with Jacobians and Hessians,
// and the check of a gradient by differences.
//
// A function is any callable. It takes one tensor (`const Tensor&`) where it is given one, and all of them
// (`const std::vector<Tensor>&` or `std::span<const Tensor>`) where it is given a list; it returns a Tensor or a
// std::vector<Tensor>. What outlives the call (in `custom_gradient`, `recompute`) is copied, so take models by
// reference: `[&](const Tensor& x) { return net.block(x); }`. A copied model is an independent one.
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/callback.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// The results of `jvp`: values of the function and how they change along the tangents.
struct Jvp {
  Tensor value, tangent;
};
struct JvpList {
  std::vector<Tensor> values, tangents;
};
/// The results of `vjp`: values of the function and gradients of their sum weighted by the cotangents.
struct Vjp {
  Tensor value, gradient;
};
struct VjpList {
  std::vector<Tensor> values, gradients;
};

struct GradientCheck {
  double step = 1e-5;      ///< of the differences, relative to max(1, |x|)
  double relative = 1e-6;  ///< |tape - differences| may be absolute + relative * max(|tape|, |differences|)
  double absolute = 1e-6;
  int order = 1;           ///< 2 checks the gradient of the gradient too
  std::uint64_t seed = 0;  ///< of the random weights of the results
};

/// What `check_gradient` found: whether all is well, and the worst element.
struct [[nodiscard]] GradientReport {
  bool ok = true;
  double worst = 0;          ///< the largest error, in units of what is allowed: at most 1 is well
  int order = 0;             ///< 1 if that is in the gradient, 2 in the gradient's gradient; 0: there was no element
  std::size_t input = 0;     ///< the input that it is in
  std::int64_t element = 0;  ///< its place there, in row-major order
  Shape shape = {};          ///< that input's shape
  double by_tape = 0, by_differences = 0, value = 0;  ///< its gradient, twice, and the input there
  std::string problem = {};                           ///< a gradient of the wrong shape or type

  /// One line that says it all.
  std::string text() const;
};

namespace detail {

using Tensors = std::vector<Tensor>;
using Function = Callback<Tensors(const Tensors&)>;
using Backward = Callback<Tensors(const Tensors&, const Tensors&, const Tensors&)>;

Tensors listed(Tensor one);
inline Tensors listed(Tensors many) { return many; }

/// A callable of one tensor or of many as a function of many. F may be a reference.
template <class F, bool kOne>
struct Listed {
  F function;
  Tensors operator()(const Tensors& xs) {
    if constexpr (kOne) return listed(function(xs[0]));
    else return listed(function(xs));
  }
};
template <class F, class Argument>
inline constexpr bool gives_one = std::is_convertible_v<std::invoke_result_t<F&, const Argument&>, Tensor>;

/// The one tensor of a list, or the list: as the function returns it.
template <bool kOne>
auto as_returned(Tensors list) {
  if constexpr (kOne) return std::move(list[0]);
  else return list;
}

inline std::span<const Tensor> span_of(std::initializer_list<Tensor> list) { return {list.begin(), list.size()}; }
inline std::span<const Tensor> span_of(const Tensor& one) { return {&one, 1}; }

Tensors custom_gradient(const Function& forward, const Backward& backward, std::span<const Tensor> inputs, Where where);
Tensors recompute(const Function& function, std::span<const Tensor> inputs, Where where);
/// Whether this thread is in a second run of `recompute`: what layers count was counted in the first.
bool recomputing() noexcept;
JvpList jvp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> tangents, Where where);
VjpList vjp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> cotangents, Where where);
Tensors hvp(const Function& function, std::span<const Tensor> inputs, std::span<const Tensor> vectors, Where where);
GradientReport check_gradient(const Function& function, std::span<const Tensor> inputs, const GradientCheck& options,
                              Where where);

}  // namespace detail

/// The results of `forward(inputs)` with a gradient of your own: the tape does not look into `forward`, and calls
/// `backward(output_gradients, inputs, outputs)`, which returns one gradient for each input, undefined for none.
///
/// Shapes    each gradient has its input's shape and type; output_gradients has one of each floating result's shape,
///           zeros if nothing used that result
/// Gradient  what `backward` says; it runs as ordinary operations, so gradients of gradients exist where its operations
///           are differentiable. Only `inputs` get gradients: tensors that `forward` captured are constants
/// Cost      keeps inputs and results until the tape has used them
/// Throws    Error  no results, or an undefined one. `GradientTape::gradient` throws ShapeError or DTypeError, naming
///           this line, if `backward` returns a wrong number of gradients or one that does not fit
/// Defined in autograd/custom_gradient.cpp.
template <class F, class B>
auto custom_gradient(F&& forward, B&& backward, std::span<const Tensor> inputs, Where where = Where::current()) {
  return detail::as_returned<detail::gives_one<std::decay_t<F>, detail::Tensors>>(detail::custom_gradient(
      detail::Listed<std::decay_t<F>, false>{std::forward<F>(forward)}, std::forward<B>(backward), inputs, where));
}
template <class F, class B>
auto custom_gradient(F&& forward, B&& backward, std::initializer_list<Tensor> inputs, Where where = Where::current()) {
  return custom_gradient(std::forward<F>(forward), std::forward<B>(backward), detail::span_of(inputs), where);
}
/// One input and one result: `forward(x)` gives y, `backward(gradient, x, y)` the gradient for x.
///
///   custom_gradient(x, [](const Tensor& t) { return sign(t); },                       // straight through
///                   [](const Tensor& g, const Tensor&, const Tensor&) { return g; });
template <class F, class B>
Tensor custom_gradient(const Tensor& x, F&& forward, B&& backward, Where where = Where::current()) {
  return detail::custom_gradient(
      detail::Listed<std::decay_t<F>, true>{std::forward<F>(forward)},
      [rule = std::forward<B>(backward)](const detail::Tensors& gradients, const detail::Tensors& inputs,
                                         const detail::Tensors& outputs) mutable {
        return detail::listed(rule(gradients[0], inputs[0], outputs[0]));
      },
      detail::span_of(x), where)[0];
}

/// The results of `function(inputs)`, of which the tape keeps nothing but the inputs: for the gradient the function
/// runs once more. Trades time for memory in deep models.
///
/// Gradient  for the inputs and for whatever else the function used and tapes follow: Parameters, captured tensors. To
///           any order. What it used is found in the first run; both runs must use the same
/// Random    default_rng starts the second run where it started the first, so that dropout drops the same elements, and
///           is then put back. Other generators should be made inside the function
/// Layers    running statistics of batch and instance norm move in the first run alone
/// Cost      one more run of the function for each replay, and during it what recording it would have kept
/// Throws    Error  no results, or an undefined one. `GradientTape::gradient` throws ShapeError or DTypeError, naming
///           this line, if the second run returns other shapes or types than the first; TapeError, as ever, if an
///           input or a Parameter was changed in place in between, or if the function itself changes in place what it
///           has computed, which the first run lets pass. If the function throws, default_rng is where it was
/// Source    T. Chen et al., "Training deep nets with sublinear memory cost", 2016
/// Defined in autograd/recompute.cpp.
template <class F>
auto recompute(F&& function, std::span<const Tensor> inputs, Where where = Where::current()) {
  return detail::as_returned<detail::gives_one<std::decay_t<F>, detail::Tensors>>(
      detail::recompute(detail::Listed<std::decay_t<F>, false>{std::forward<F>(function)}, inputs, where));
}
template <class F>
auto recompute(F&& function, std::initializer_list<Tensor> inputs, Where where = Where::current()) {
  return recompute(std::forward<F>(function), detail::span_of(inputs), where);
}
template <class F>
auto recompute(F&& function, const Tensor& input, Where where = Where::current()) {
  return detail::as_returned<detail::gives_one<std::decay_t<F>, Tensor>>(detail::recompute(
      detail::Listed<std::decay_t<F>, true>{std::forward<F>(function)}, detail::span_of(input), where));
}

// The next three differentiate a function by themselves, with no tape around them, also while a NoGrad is on. Tapes
// that record see all of it, so that the results can be differentiated further. Inputs must be floating (DTypeError);
// vectors have the shapes and types of what they stand beside (ShapeError, DTypeError), and an undefined one stands for
// zeros. A tensor that is given several times is several inputs. An input that the function also reaches by its own
// handle, as a model does its Parameters, is that input wherever it is used; `stop_gradient(x)` is a constant. Other
// tensors that the function captures, Parameters too, are constants. Results that do not depend on the inputs have
// derivatives of zeros; those that are not floating have undefined ones. If it throws, tapes are as they were. Defined
// in autograd/jacobian_products.cpp.

/// The derivative of `function` at the inputs along the tangents: J v, forward mode.
///
/// Gradient  to any order
/// Cost      about four times the function: it is made of two reverse passes, of which the second differentiates the
///           first with respect to its weights; memory as for a second-order gradient
/// Source    J. Townsend, "A new trick for calculating Jacobian vector products", 2017
template <class F>
JvpList jvp(F&& function, std::span<const Tensor> inputs, std::span<const Tensor> tangents,
            Where where = Where::current()) {
  return detail::jvp(detail::Listed<F&, false>{function}, inputs, tangents, where);
}
template <class F>
JvpList jvp(F&& function, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> tangents,
            Where where = Where::current()) {
  return detail::jvp(detail::Listed<F&, false>{function}, detail::span_of(inputs), detail::span_of(tangents), where);
}
/// One input, one result.
template <class F>
Jvp jvp(F&& function, const Tensor& x, const Tensor& tangent, Where where = Where::current()) {
  JvpList list = detail::jvp(detail::Listed<F&, true>{function}, detail::span_of(x), detail::span_of(tangent), where);
  return {std::move(list.values[0]), std::move(list.tangents[0])};
}

/// The gradient of the results weighted by the cotangents: u^T J, reverse mode, the function's values beside it.
template <class F>
VjpList vjp(F&& function, std::span<const Tensor> inputs, std::span<const Tensor> cotangents,
            Where where = Where::current()) {
  return detail::vjp(detail::Listed<F&, false>{function}, inputs, cotangents, where);
}
template <class F>
VjpList vjp(F&& function, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> cotangents,
            Where where = Where::current()) {
  return detail::vjp(detail::Listed<F&, false>{function}, detail::span_of(inputs), detail::span_of(cotangents), where);
}
template <class F>
Vjp vjp(F&& function, const Tensor& x, const Tensor& cotangent, Where where = Where::current()) {
  VjpList list = detail::vjp(detail::Listed<F&, true>{function}, detail::span_of(x), detail::span_of(cotangent), where);
  return {std::move(list.values[0]), std::move(list.gradients[0])};
}

/// The Hessian of a function of one value (ShapeError otherwise) times vectors, without the Hessian: H v.
///
/// Cost      about four times the function
/// Source    B. Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6, 1994
template <class F>
std::vector<Tensor> hvp(F&& function, std::span<const Tensor> inputs, std::span<const Tensor> vectors,
                        Where where = Where::current()) {
  return detail::hvp(detail::Listed<F&, false>{function}, inputs, vectors, where);
}
template <class F>
std::vector<Tensor> hvp(F&& function, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> vectors,
                        Where where = Where::current()) {
  return detail::hvp(detail::Listed<F&, false>{function}, detail::span_of(inputs), detail::span_of(vectors), where);
}
template <class F>
Tensor hvp(F&& function, const Tensor& x, const Tensor& v, Where where = Where::current()) {
  return detail::hvp(detail::Listed<F&, true>{function}, detail::span_of(x), detail::span_of(v), where)[0];
}

/// Compares the tape's gradient of sum(w * function(inputs)), w random, with central differences
/// (f(x + h) - f(x - h)) / 2h, element by element; with order 2 also the gradient of sum(u * that gradient).
///
///   const cs::GradientReport report = cs::check_gradient([](const cs::Tensor& x) { return cs::tanh(x); }, x);
///   if (!report.ok) std::cerr << report.text();
///
/// Types     float64 inputs and results (DTypeError): in float32 differences say little
/// Cost      two runs of the function for each element of the inputs; with order 2 as many gradients
/// Random    default_rng stands at the same place in every run, and in the end where it was
/// Throws    Error  a step that is not positive, a tolerance that is negative or NaN, an order other than 1 and 2
///           ShapeError  the function returns another number of tensors in another run
/// Defined in autograd/check_gradient.cpp.
template <class F>
GradientReport check_gradient(F&& function, std::span<const Tensor> inputs, const GradientCheck& options = {},
                              Where where = Where::current()) {
  return detail::check_gradient(detail::Listed<F&, false>{function}, inputs, options, where);
}
template <class F>
GradientReport check_gradient(F&& function, std::initializer_list<Tensor> inputs, const GradientCheck& options = {},
                              Where where = Where::current()) {
  return detail::check_gradient(detail::Listed<F&, false>{function}, detail::span_of(inputs), options, where);
}
template <class F>
GradientReport check_gradient(F&& function, const Tensor& input, const GradientCheck& options = {},
                              Where where = Where::current()) {
  return detail::check_gradient(detail::Listed<F&, true>{function}, detail::span_of(input), options, where);
}

}  // namespace capstan
