#pragma once
// Parameter: a tensor that training changes. Buffer: one that belongs to a model and is not trained.
#include <string>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// A tensor that every tape on the using thread watches by itself (unless told not to), and that `nn::parameters` finds.
///
/// A Parameter is a value: copying one copies its elements, so copying a model gives an independent model. As a Tensor
/// (`const Tensor& t = parameter`, or `Tensor t = parameter`) it is a handle to the same elements; optimizers hold
/// such handles. Assigning one parameter to another copies the elements into it in place, so that an optimizer that
/// holds it stays connected; ShapeError or DTypeError if they do not fit. Moving one into another replaces it: an
/// optimizer that holds the old one goes on changing the old one.
class Parameter : public Tensor {
 public:
  Parameter() noexcept = default;
  /// Takes the elements of `initial` (not shared if another tensor uses them). Floating types only (DTypeError).
  explicit Parameter(Tensor initial, Where where = Where::current());
  /// A single value, shape [].
  template <class T>
  requires std::is_arithmetic_v<T>
  explicit Parameter(T value, Where where = Where::current()) : Parameter(Tensor(value), where) {}

  Parameter(const Parameter& other);
  Parameter(Parameter&& other) noexcept = default;
  Parameter& operator=(const Parameter& other);
  Parameter& operator=(Parameter&& other) noexcept = default;

  /// Whether tapes watch it by themselves and `nn::parameters` returns it. True from the start.
  bool trainable(Where where = Where::current()) const;
  void set_trainable(bool trainable, Where where = Where::current());
};

/// A state of a model that is no parameter, such as a running mean: no tape watches it, no optimizer changes it, and it
/// is named, saved, copied and moved like a parameter. A value in the same sense: copying copies the elements, assigning
/// copies them in place (ShapeError, DTypeError), moving replaces. Any type.
class Buffer : public Tensor {
 public:
  Buffer() noexcept = default;
  /// Takes the elements of `initial` (not shared if another tensor uses them).
  explicit Buffer(Tensor initial, Where where = Where::current());

  Buffer(const Buffer& other);
  Buffer(Buffer&& other) noexcept = default;
  Buffer& operator=(const Buffer& other);
  Buffer& operator=(Buffer&& other) noexcept = default;
};

/// A tensor and its name: what the states of models, optimizers and averages are, and what files hold.
struct NamedTensor {
  std::string name;
  Tensor value;  ///< a handle to the elements
};

}  // namespace capstan
