#pragma once
// Models are plain structs: their parameters and the parameters' names are found by walking the fields.
//
// A field takes part if it is a Parameter, a Buffer (a state that is not trained), a model itself, or holds one: as a
// container (vector, array, tuple, pair, a map in the order of its keys), as an optional or variant, by a pointer
// (plain, unique, shared) or a reference wrapper. A model is an aggregate (its fields are found by themselves, up to
// 24) or a class that lists its fields, as one with a reference among them must:
//
//   class Block { public: Block(int n); CAPSTAN_FIELDS(conv, norm)  private: Conv2d conv; BatchNorm norm; };
//
// Other fields (numbers, strings, plain tensors) are passed over. Names join with dots: `conv1.weight`, `layers.0.bias`,
// `heads.left.weight` for a key of a map; what a pointer points to has the name of the pointer. They and their order
// depend on the fields alone, so they are the same in every run.
//
// Sharing   A module that is found twice counts once, under its first name; so pointers may form cycles. Everything here
//     acts on it once and leaves it shared.
// Tying     Two Parameters never share elements, as copies are independent. To use one twice, use it twice: an
//     embedding's table as the last layer is `matmul(h, transpose(embed.weight))`, and its gradient is the sum.
// Copying   `Net copy = net;` copies the elements of parameters and buffers. What is held by shared or plain pointers
//     stays shared: `clone` copies what shared pointers hold as well.
// Moving    `Net other = std::move(net);` takes the tensors along, so that optimizers stay connected.
// Assigning `a = b` for models copies into a's parameters in place, so that optimizers stay connected, too; but what
//     stands in maps, and in vectors that grow, may be made anew, and no optimizer knows that. If a parameter does not
//     fit, those before it have been assigned. `copy_parameters` always writes in place, and checks all of them before.
// Cost      linear in the number of fields, parameters and modules
// Defined in nn/outline.cpp.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <capstan/nn/outline.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

// --- parameters and buffers ------------------------------------------------------------------------------------

/// All parameters with their names, in the order of the fields; untrainable ones are included, undefined ones are not.
template <class Model>
std::vector<NamedTensor> named_parameters(Model& model) {
  return detail::outline_of(model).named(true, false);
}

/// The trainable parameters, in the order of the fields: what an optimizer takes.
template <class Model>
std::vector<Tensor> parameters(Model& model) {
  return detail::outline_of(model).trainable();
}

/// The states that are no parameters, such as running means, likewise.
template <class Model>
std::vector<NamedTensor> named_buffers(Model& model) {
  return detail::outline_of(model).named(false, true);
}
template <class Model>
std::vector<Tensor> buffers(Model& model) {
  return detail::outline_of(model).buffers();
}

/// Parameters and buffers together, in the order of the fields: what a checkpoint keeps. Handles; not recorded.
template <class Model>
std::vector<NamedTensor> named_state(Model& model) {
  return detail::outline_of(model).named(true, true);
}

/// Elements of all parameters, the frozen ones included.
template <class Model>
std::int64_t parameter_count(Model& model) {
  return detail::outline_of(model).parameter_count();
}

// --- loading and copying ---------------------------------------------------------------------------------------

struct LoadOptions {
  bool strict = true;  ///< whether the names must be the same; otherwise those that both have are taken
};
/// What was left out because `strict` is off.
struct LoadReport {
  std::vector<std::string> missing;     ///< names of the model that the state has not; they keep their values
  std::vector<std::string> unexpected;  ///< names of the state that the model has not
};

namespace detail {
LoadReport load(const char* op, const Outline& to, std::span<const NamedTensor> state, LoadOptions options,
                Where where);
}

/// Copies values into a model's parameters and buffers by their names, in place, so that optimizers stay connected.
/// From other devices, too. Never recorded.
///
/// Throws Error       names that only one of the two has, if `strict`; a name twice, or an undefined tensor
///        ShapeError, DTypeError  of another shape or type, strict or not; the message has all that does not fit
/// Then nothing has changed. A tape that saved the values before says so at its replay.
template <class Model>
LoadReport load_state(Model& model, std::span<const NamedTensor> state, LoadOptions options = {},
                      Where where = Where::current()) {
  return detail::load("load_state", detail::outline_of(model), state, options, where);
}

/// `load_state(to, named_state(from))`: for a target network beside the one that learns. Models of different types will
/// do if their names and shapes are the same.
template <class From, class To>
void copy_parameters(From& from, To& to, Where where = Where::current()) {
  detail::load("copy_parameters", detail::outline_of(to), detail::outline_of(from).named(true, true), {}, where);
}

/// A copy of all parameters, buffers and modules that the model owns: like `Net copy = net;`, and what shared pointers
/// hold is copied as well, each object once, though some may hold it as const: so the copy shares within itself what
/// the model shares. Plain pointers and references still name the model's objects, and plain tensors are handles to its
/// elements. Models with unique pointers cannot be copied.
template <class Model>
std::remove_const_t<Model> clone(Model& model) {
  std::remove_const_t<Model> copy = model;
  detail::Copies copies;
  detail::separate(copy, copies);
  return copy;
}

// --- training, or not ------------------------------------------------------------------------------------------

/// Tells every module that behaves differently in training (dropout, batch norm) which it is. Modules start in training.
/// Throws Error for one that is held as const; then nothing has changed.
template <class Model>
void set_training(Model& model, bool training, Where where = Where::current()) {
  detail::outline_of(model).set_training(training, where);
}

/// Makes parameters untrainable: tapes do not watch them by themselves, and `parameters` leaves them out. Optimizers that
/// hold them keep them, and get undefined gradients. Buffers are not concerned: to stop the running statistics of a part
/// `set_training(part, false)`.
template <class Model>
void freeze(Model& model) {
  detail::outline_of(model).set_trainable(false);
}
/// Of the parameters that have this name, or whose name begins with it and a dot: `freeze(net, "encoder.layers.0")`.
/// `*` stands for any text and `?` for any character, as in `matches`. Error if there is none.
template <class Model>
void freeze(Model& model, std::string_view name, Where where = Where::current()) {
  detail::outline_of(model).set_trainable("freeze", false, name, where);
}
/// Of the parameters whose name `chosen(std::string_view)` is true for.
template <class Model, class Choice>
requires std::is_invocable_r_v<bool, Choice&, std::string_view>
void freeze(Model& model, Choice chosen) {
  const detail::Outline outline = detail::outline_of(model);
  for (const detail::Leaf& leaf : outline.leaves)
    if (leaf.parameter && chosen(std::string_view(leaf.name))) leaf.set_trainable(false);
}

/// The reverse of `freeze`.
template <class Model>
void unfreeze(Model& model) {
  detail::outline_of(model).set_trainable(true);
}
template <class Model>
void unfreeze(Model& model, std::string_view name, Where where = Where::current()) {
  detail::outline_of(model).set_trainable("unfreeze", true, name, where);
}
template <class Model, class Choice>
requires std::is_invocable_r_v<bool, Choice&, std::string_view>
void unfreeze(Model& model, Choice chosen) {
  const detail::Outline outline = detail::outline_of(model);
  for (const detail::Leaf& leaf : outline.leaves)
    if (leaf.parameter && chosen(std::string_view(leaf.name))) leaf.set_trainable(true);
}

// --- devices and types -----------------------------------------------------------------------------------------

/// Moves every parameter and buffer to a device. Make optimizers afterwards. Throws DeviceError, and Error for one that
/// is held as const; then nothing has changed.
template <class Model>
void move_to(Model& model, Device device, Where where = Where::current()) {
  detail::outline_of(model).move_to(device, where);
}

/// Converts every parameter to a floating type, and every floating buffer: to float32 for the 16-bit types, in which
/// running statistics would get lost. Make optimizers afterwards. Throws DTypeError if the type is not floating, and Error
/// for one that is held as const; then nothing has changed.
template <class Model>
requires(!detail::kIsTensor<std::remove_const_t<Model>>)  // those have a `cast` of their own
    void cast(Model& model, DType dtype, Where where = Where::current()) {
  detail::outline_of(model).cast(dtype, where);
}

}  // namespace nn
}  // namespace capstan
