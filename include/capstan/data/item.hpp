#pragma once
// Elements of a pipeline of any type behind one, and what batches of them are.
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/nn/fields.hpp>
#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace data::detail {

/// What can be done with a value whose type is not known here.
struct ItemType {
  void (*move)(void* from, void* to) noexcept;  // leaves nothing at `from`
  void (*destroy)(void* value) noexcept;
};

/// Owns one value of any movable type; small ones without an allocation.
class Item {
 public:
  Item() noexcept = default;
  template <class T>
  static Item of(T value) {
    Item item;
    if constexpr (kInside<T>) ::new (static_cast<void*>(item.room_)) T(std::move(value));
    else ::new (static_cast<void*>(item.room_)) T*(new T(std::move(value)));
    item.type_ = &kType<T>;
    return item;
  }
  Item(Item&& other) noexcept : type_(std::exchange(other.type_, nullptr)) {
    if (type_ != nullptr) type_->move(other.room_, room_);
  }
  Item& operator=(Item&& other) noexcept {
    if (this != &other) {
      reset();
      type_ = std::exchange(other.type_, nullptr);
      if (type_ != nullptr) type_->move(other.room_, room_);
    }
    return *this;
  }
  ~Item() { reset(); }

  void reset() noexcept {
    if (type_ != nullptr) std::exchange(type_, nullptr)->destroy(room_);
  }
  template <class T>
  T& as() noexcept {
    if constexpr (kInside<T>) return *std::launder(reinterpret_cast<T*>(room_));
    else return **std::launder(reinterpret_cast<T**>(room_));
  }
  template <class T>
  const T& as() const noexcept {
    return const_cast<Item*>(this)->as<T>();
  }

 private:
  static constexpr std::size_t kRoom = 48;
  template <class T>
  static constexpr bool kInside = sizeof(T) <= kRoom && alignof(T) <= 16 && std::is_nothrow_move_constructible_v<T>;

  template <class T>
  static T& at(void* room) noexcept {
    return *std::launder(reinterpret_cast<T*>(room));
  }
  template <class T>
  static void move(void* from, void* to) noexcept {
    using Held = std::conditional_t<kInside<T>, T, T*>;
    ::new (to) Held(std::move(at<Held>(from)));
    at<Held>(from).~Held();
  }
  template <class T>
  static void destroy(void* value) noexcept {
    if constexpr (kInside<T>) at<T>(value).~T();
    else delete at<T*>(value);
  }
  template <class T>
  static constexpr ItemType kType = {&move<T>, &destroy<T>};

  alignas(16) unsigned char room_[kRoom];
  const ItemType* type_ = nullptr;
};

/// Only stages that keep elements ask for copies: whether a type has some cannot be told beforehand (a vector of
/// unique_ptr says that it has).
template <class T>
Item copy_of(const Item& item) {
  return Item::of(T(item.as<T>()));
}

// --- what becomes of several elements in a batch -----------------------------------------------------------------

template <class T>
inline constexpr bool kIsPair = false;
template <class A, class B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <class T>
inline constexpr bool kIsTuple = false;
template <class... A>
inline constexpr bool kIsTuple<std::tuple<A...>> = true;

struct OnlyTensor {
  operator Tensor() const;
};
template <class T, std::size_t... I>
constexpr bool takes_tensors(std::index_sequence<I...>) {
  return requires { T{(void(I), OnlyTensor{})...}; };
}
template <class T>
constexpr bool fields_are_tensors() {
  if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && !requires(T & t) {
                  t.size();
                  t.begin();
                }) {
    constexpr std::size_t count = nn::detail::field_count<T>();
    // asked first: structs with arrays or with very many fields cannot be tied
    if constexpr (count == 0 || count > nn::detail::kMaxFields) return false;
    else if constexpr (!takes_tensors<T>(std::make_index_sequence<count>{})) return false;
    else
      return []<class I, class... F>(const nn::detail::FieldRefs<I, F...>*) {
        return (std::is_same_v<std::remove_const_t<F>, Tensor> && ...);
      }(static_cast<decltype(nn::detail::tie_fields(std::declval<T&>()))*>(nullptr));
  } else {
    return false;
  }
}
/// A struct whose fields all are tensors: a batch of them is one of its kind.
template <class T>
inline constexpr bool kIsRecord = fields_are_tensors<T>();

template <class T>
struct Batching {
  using type = std::vector<T>;
};
template <class T>
requires(std::is_same_v<T, Tensor> || std::is_arithmetic_v<T>) struct Batching<T> {
  using type = Tensor;
};
template <class T>
requires kIsRecord<T>
struct Batching<T> {
  using type = T;
};
template <class A, class B>
struct Batching<std::pair<A, B>> {
  using type = std::pair<typename Batching<A>::type, typename Batching<B>::type>;
};
template <class... A>
struct Batching<std::tuple<A...>> {
  using type = std::tuple<typename Batching<A>::type...>;
};

/// How tensors are made one: side by side as they are, or padded.
struct Joining {
  const char* op = "batch";
  Where where;
  bool pad = false;
  double value = 0;
  std::int64_t multiple_of = 1;
};
Tensor join(std::span<const Tensor*> parts, const Joining& joining);

template <class T>
using Number =
    std::conditional_t<std::is_same_v<T, bool> || std::is_floating_point_v<T>, T,
                       std::conditional_t<std::is_same_v<T, std::uint8_t>, T,
                                          std::conditional_t<sizeof(T) < 4 || (sizeof(T) == 4 && std::is_signed_v<T>),
                                                             std::int32_t, std::int64_t>>>;
[[noreturn]] void fail_large(std::size_t element, std::uint64_t value, const Joining& joining);
Tensor numbers(std::span<const bool> values);
Tensor numbers(std::span<const std::uint8_t> values);
Tensor numbers(std::span<const std::int32_t> values);
Tensor numbers(std::span<const std::int64_t> values);
Tensor numbers(std::span<const float> values);
Tensor numbers(std::span<const double> values);

/// The batch of `count` values, of which `part(i)` is the i-th. What becomes part of a std::vector is moved there.
template <class T, class Part>
typename Batching<T>::type batch_of(std::size_t count, const Joining& joining, const Part& part) {
  if constexpr (std::is_same_v<T, Tensor>) {
    std::vector<const T*> parts(count);  // of T, so that it is compiled where it is used
    for (std::size_t i = 0; i < count; ++i) parts[i] = &part(i);
    return join(std::span<const T*>(parts), joining);
  } else if constexpr (std::is_arithmetic_v<T>) {
    auto* values = new Number<T>[count];  // std::vector<bool> has no span
    struct Owner {
      Number<T>* values;
      ~Owner() { delete[] values; }
    } const owner{values};
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = static_cast<Number<T>>(part(i));
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
        if (values[i] < 0) fail_large(i, part(i), joining);
    }
    return numbers(std::span<const Number<T>>(values, count));
  } else if constexpr (kIsPair<T> || kIsTuple<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return typename Batching<T>::type{batch_of<std::tuple_element_t<I, T>>(
          count, joining, [&](std::size_t i) -> auto& { return std::get<I>(part(i)); })...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>{});
  } else if constexpr (kIsRecord<T>) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return T{batch_of<Tensor>(count, joining, [&](std::size_t i) -> const Tensor& {
        return nn::detail::field_of<I>(nn::detail::tie_fields(part(i)));
      })...};
    }
    (std::make_index_sequence<nn::detail::field_count<T>()>{});
  } else {
    std::vector<T> values;
    values.reserve(count);
    for (std::size_t i = 0; i < count; ++i) values.push_back(std::move(part(i)));
    return values;
  }
}
template <class T>
Item collate(std::span<Item> items, const Joining& joining) {
  return Item::of(batch_of<T>(items.size(), joining, [&](std::size_t i) -> T& { return items[i].as<T>(); }));
}

// --- tensors inside of elements -----------------------------------------------------------------------------------

/// Calls `f(tensor)` for every tensor of a value, as const as it is: itself, or in pairs, tuples, records and vectors.
template <class T, class F>
void for_each_tensor(T& value, const F& f) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Tensor>) f(value);
  else if constexpr (kIsPair<T> || kIsTuple<T>)
    std::apply([&](auto&... parts) { (for_each_tensor(parts, f), ...); }, value);
  else if constexpr (kIsRecord<T>)
    nn::detail::with_fields(nn::detail::tie_fields(value), [&](auto&... parts) { (for_each_tensor(parts, f), ...); });
  else if constexpr (requires {
                       value.push_back(*value.begin());
                       requires std::is_class_v<typename T::value_type>;
                     })
    for (auto& part : value) for_each_tensor(part, f);
}
/// Puts another tensor where a const field of a struct is.
void remake(const Tensor& field, Tensor by) noexcept;
template <class T>
void move_to(Item& item, Device device, Where where) {
  for_each_tensor(item.as<T>(), [&]<class X>(X& tensor) {
    if (!tensor.defined()) return;
    if constexpr (std::is_const_v<X>) remake(tensor, tensor.to(device, where));
    else tensor = tensor.to(device, where);
  });
}

}  // namespace data::detail
}  // namespace capstan
