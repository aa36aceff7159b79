#pragma once
// Models are plain structs: their parameters and the parameters' names are found by walking the fields.
//
// A field takes part if it is a Parameter, a model itself, or a vector, array or tuple of models. A model is an
// aggregate (its fields are found by themselves, up to 24) or a class that lists its fields:
//
//   class Block { public: Block(int n); CAPSTAN_FIELDS(conv, norm)  private: Conv2d conv; BatchNorm norm; };
//
// Other fields (numbers, strings, plain tensors) are passed over. Names join with dots: `conv1.weight`, `layers.0.bias`.
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <capstan/nn/fields.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct NamedParameter {
  std::string name;
  Tensor value;  ///< a handle to the parameter's elements
};

namespace detail {

/// Calls `parameter(name, Parameter&)` for every parameter and `module(module&)` for every module, in the order of the
/// fields. `name` is the full dotted name; it is lent, and grows and shrinks on the way.
template <class T, class OnParameter, class OnModule>
void walk(T& object, std::string& name, OnParameter& parameter, OnModule& module) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_base_of_v<Parameter, Plain>) {
    parameter(name, object);
  } else if constexpr (!kIsTensor<Plain>) {
    module(object);
    for_each_field(object, [&](std::string_view field, auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      static_assert(!std::is_invocable_v<Value&, const Tensor&> || kTakesPart<Value> || std::is_empty_v<Value> ||
                        std::is_pointer_v<Value>,
                    "capstan: this field is callable on tensors but is no plain struct; list its fields with "
                    "CAPSTAN_FIELDS so that its parameters are found");
      if constexpr (kTakesPart<Value>) {
        const std::size_t length = name.size();
        if (length > 0) name += '.';
        name += field;
        walk(value, name, parameter, module);
        name.resize(length);
      }
    });
  }
}

template <class Model, class OnParameter>
void for_each_parameter(Model& model, OnParameter parameter) {
  std::string name;
  auto no_module = [](auto&) {};
  walk(model, name, parameter, no_module);
}

}  // namespace detail

/// All parameters with their names, in the order of the fields. One that is found twice counts once, under its first
/// name; untrainable ones are included.
template <class Model>
std::vector<NamedParameter> named_parameters(Model& model) {
  std::vector<NamedParameter> found;
  detail::for_each_parameter(model, [&](const std::string& name, const Parameter& value) {
    if (!value.defined()) return;
    for (const NamedParameter& other : found)
      if (other.value.is_same(value)) return;
    found.push_back({name, value});
  });
  return found;
}

/// The trainable parameters, in the order of the fields: what an optimizer takes.
template <class Model>
std::vector<Tensor> parameters(Model& model) {
  std::vector<Tensor> found;
  detail::for_each_parameter(model, [&](const std::string&, const Parameter& value) {
    if (!value.defined() || !value.trainable()) return;
    for (const Tensor& other : found)
      if (other.is_same(value)) return;
    found.push_back(value);
  });
  return found;
}

/// Tells every module that behaves differently in training (dropout) which it is. Modules start in training.
template <class Model>
void set_training(Model& model, bool training) {
  std::string name;
  auto no_parameter = [](const std::string&, auto&) {};
  auto set = [training]<class M>(M& module) {
    if constexpr (requires { module.set_training(training); }) module.set_training(training);
  };
  detail::walk(model, name, no_parameter, set);
}

/// Moves every parameter to a device. Make optimizers afterwards. Throws DeviceError.
template <class Model>
void move_to(Model& model, Device device, Where where = Where::current()) {
  detail::for_each_parameter(model, [&](const std::string&, Parameter& p) {
    if (!p.defined() || p.device() == device) return;
    const bool trainable = p.trainable();
    p = Parameter(p.to(device, where), where);
    p.set_trainable(trainable);
  });
}

}  // namespace nn
}  // namespace capstan
