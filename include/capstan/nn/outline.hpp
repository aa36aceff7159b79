#pragma once
// What a model consists of, found once by walking its fields: the ground on which the functions of module.hpp stand.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/fields.hpp>
#include <capstan/parameter.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn::detail {

/// What is known of a module's type.
struct PartType {
  const char* text;                   // the compiler's, which has the type's name in it
  void (*set_training)(void*, bool);  // null if it has none
  bool cannot_be_told;                // it has one, but is held as const
  bool layer;                         // a class that lists its fields, as all layers do
  bool list;                          // a Sequential
};

inline constexpr std::size_t kNoPart = ~std::size_t{0};

/// A module. The first is the model itself.
struct Part {
  std::string name;
  const PartType* type;
  void* object;
  std::size_t parent;  // kNoPart for the first
};

/// A Parameter or Buffer. One that shares its tensor with an earlier one points back to it.
struct Leaf {
  std::string name;
  Tensor value;  // may be undefined
  Tensor* slot;
  std::size_t part, first;  // whose field it is; the earliest leaf with this tensor, as a rule itself
  bool parameter, constant;

  bool trainable() const;
  void set_trainable(bool trainable) const;
};

/// Everything in the order of the fields. What is found twice stands here once.
struct Outline {
  std::vector<Part> parts;
  std::vector<Leaf> leaves;

  Outline() noexcept;
  Outline(Outline&& other) noexcept;
  ~Outline();

  std::vector<NamedTensor> named(bool with_parameters, bool with_buffers) const;
  std::vector<Tensor> trainable() const;
  std::vector<Tensor> buffers() const;
  std::int64_t parameter_count() const;
  void set_training(bool training, Where where) const;
  void set_trainable(bool trainable) const;
  /// Of the parameters whose name is like the pattern, or begins with it and a dot. Error if there is none.
  void set_trainable(const char* op, bool trainable, std::string_view pattern, Where where) const;
  void move_to(Device device, Where where) const;
  void cast(DType dtype, Where where) const;
};

/// Walks a model. Remembers what it has seen, so that sharing and cycles do no harm.
class Explorer {
 public:
  Explorer();
  ~Explorer();
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  /// False if that module was entered before.
  bool enter(const void* object, const PartType& type);
  void leave() noexcept;
  void leaf(const Tensor& tensor, bool parameter, bool constant);
  /// Adds a field to the name, and takes it away again: `pop(push("weight"))`.
  std::size_t push(std::string_view field);
  void pop(std::size_t length);
  Outline take();  ///< what was found; it has no more then

 private:
  Outline outline_;
  struct Seen* seen_;  // owned; hidden in nn/outline.cpp
  std::string name_;
  std::size_t part_ = kNoPart;
};

template <class T>
constexpr const char* type_text() {
  return __PRETTY_FUNCTION__;
}

template <class T>
concept HearsOfTraining = requires(T& module) {
  module.set_training(true);
};

template <class T>
constexpr auto set_training_of() -> void (*)(void*, bool) {
  if constexpr (HearsOfTraining<T>)
    return [](void* module, bool training) { static_cast<T*>(module)->set_training(training); };
  else return nullptr;
}

/// One for each type: its address stands for the type.
template <class T>
inline constexpr PartType kPartType = {type_text<std::remove_const_t<T>>(), set_training_of<T>(),
                                       HearsOfTraining<std::remove_const_t<T>> && !HearsOfTraining<T>, ListsFields<T>,
                                       IsList<T>};

template <class T>
void explore(T& object, Explorer& explorer) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_base_of_v<Parameter, Plain> || std::is_base_of_v<Buffer, Plain>) {
    explorer.leaf(object, std::is_base_of_v<Parameter, Plain>, std::is_const_v<T>);
  } else if constexpr (!kIsTensor<Plain>) {
    if constexpr (kIsModule<Plain>)
      if (!explorer.enter(__builtin_addressof(object), kPartType<T>)) return;
    for_each_field(object, [&](std::string_view field, auto& value) {
      using Value = std::remove_cvref_t<decltype(value)>;
      static_assert(!kHidesModel<Value>,
                    "capstan: the parameters of this field would not be found: it or its `forward` can be called with "
                    "tensors and it is no plain struct (list its fields with CAPSTAN_FIELDS, or those of the struct "
                    "around it without "
                    "this one), or it is a map without an order (take std::map)");
      if constexpr (kTakesPart<Value>) {
        const std::size_t length = explorer.push(field);
        explore(value, explorer);
        explorer.pop(length);
      }
    });
    if constexpr (kIsModule<Plain>) explorer.leave();
  }
}

template <class Model>
Outline outline_of(Model& model) {
  Explorer explorer;
  explore(model, explorer);
  return explorer.take();
}

/// Where the copies of shared objects are, by what they are copies of.
class Copies {
 public:
  Copies();
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;
  void*& of(const void* object, const PartType& holder);  ///< null at first

 private:
  struct CopyTable* table_;  // owned; hidden in nn/outline.cpp
};

/// Of a shared pointer the one that holds the same object as const, and the other way round.
template <class T>
struct OtherHolder {
  using type = T;
};
template <template <class> class Holder, class X>
struct OtherHolder<Holder<X>> {
  using type = Holder<std::conditional_t<std::is_const_v<X>, std::remove_const_t<X>, const X>>;
};

/// Gives a copied model its own copies of what its shared pointers point to, each once.
template <class T>
void separate(T& object, Copies& copies) {
  if constexpr (kIsTensor<T> || RefersToOne<T>) {
    // values, and what belongs to somebody else
  } else if constexpr (PointsToOne<T> && !ListsFields<T> && !IsList<T>) {
    if (!static_cast<bool>(object)) return;
    if constexpr (requires { object.use_count(); }) {
      using Shared = Pointee<T>;
      static_assert(!std::is_polymorphic_v<Shared> || std::is_final_v<Shared>,
                    "capstan: clone cannot know what a pointer to a base class points to");
      const void* const original = __builtin_addressof(*object);
      void*& copied = copies.of(original, kPartType<T>);
      if (copied != nullptr) {
        object = *static_cast<T*>(copied);
        return;
      }
      using Other = typename OtherHolder<T>::type;
      if constexpr (requires(Other & other, Shared * own) { T(other, own); }) {
        if (void* const other = copies.of(original, kPartType<Other>); other != nullptr) {
          Other& holder = *static_cast<Other*>(other);
          object = T(holder, const_cast<Shared*>(__builtin_addressof(*holder)));  // which was not made as const
          copied = __builtin_addressof(object);
          return;
        }
      }
      auto* own = new Shared(*object);
      object.reset(own);
      copied = __builtin_addressof(object);
      separate(*own, copies);
    } else if constexpr (requires { object.has_value(); }) {
      separate(*object, copies);
    }
  } else {
    for_each_field(object, [&](std::string_view, auto& value) {
      using Field = std::remove_reference_t<decltype(value)>;
      if constexpr (!std::is_const_v<Field> && kTakesPart<Field>) separate(value, copies);
    });
  }
}

}  // namespace nn::detail
}  // namespace capstan
