#pragma once
// Reflection over the fields of plain structs: their number, their values and their names, with C++20 alone.
//
// The number is the largest n for which T{any, ..., any} compiles; the values come from structured bindings; a name is
// read from the compiler's text for a pointer to the field of an object that is declared and never defined.
//
// Pointers, optionals, variants, reference wrappers and containers are known by what they can do, so that none of their
// headers is needed here.
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/tensor.hpp>

/// Lists the fields of a model that is no aggregate. Put it anywhere in the class.
#define CAPSTAN_FIELDS(...)                                                            \
  static constexpr std::string_view capstan_field_names() { return #__VA_ARGS__; }     \
  auto capstan_fields() { return ::capstan::nn::detail::refer_to(__VA_ARGS__); }       \
  auto capstan_fields() const { return ::capstan::nn::detail::refer_to(__VA_ARGS__); } \
  static_assert(true)

namespace capstan CAPSTAN_PUBLIC {
namespace nn::detail {

/// References to fields, in their order: what std::tie gives, of which a compiler needs a tenth of the time, and
/// `capstan.hpp` has many.
template <std::size_t I, class T>
struct FieldRef {
  T& field;
};
template <class Indices, class... T>
struct FieldRefs;
template <std::size_t... I, class... T>
struct FieldRefs<std::index_sequence<I...>, T...> : FieldRef<I, T>... {};

template <class... T>
constexpr auto refer_to(T&... fields) {
  return FieldRefs<std::index_sequence_for<T...>, T...>{{fields}...};
}
template <std::size_t I, class T>
constexpr T& field_of(const FieldRef<I, T>& fields) {
  return fields.field;
}
/// What `use` returns for (fields...).
template <std::size_t... I, class... T, class Use>
decltype(auto) with_fields(const FieldRefs<std::index_sequence<I...>, T...>& fields, Use&& use) {
  return use(detail::field_of<I>(fields)...);
}

inline constexpr std::size_t kMaxFields = 24;

struct AnyField {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(void(I), AnyField{})...}; };
}
template <class T, std::size_t N = kMaxFields + 1>
constexpr std::size_t field_count() {
  if constexpr (N == 0) return 0;
  else if constexpr (takes_fields<T>(std::make_index_sequence<N>{})) return N;
  else return field_count<T, N - 1>();
}

/// References to all fields of an aggregate.
template <class T>
constexpr auto tie_fields(T& object) {
  constexpr std::size_t n = field_count<std::remove_const_t<T>>();
  static_assert(n <= kMaxFields, "capstan: a model with more than 24 fields must list them with CAPSTAN_FIELDS");
  // clang-format off
  if constexpr (n == 0) return detail::refer_to();
  else if constexpr (n == 1) { auto& [f0] = object; return detail::refer_to(f0); }
  else if constexpr (n == 2) { auto& [f0, f1] = object; return detail::refer_to(f0, f1); }
  else if constexpr (n == 3) { auto& [f0, f1, f2] = object; return detail::refer_to(f0, f1, f2); }
  else if constexpr (n == 4) { auto& [f0, f1, f2, f3] = object; return detail::refer_to(f0, f1, f2, f3); }
  else if constexpr (n == 5) { auto& [f0, f1, f2, f3, f4] = object; return detail::refer_to(f0, f1, f2, f3, f4); }
  else if constexpr (n == 6) { auto& [f0, f1, f2, f3, f4, f5] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5); }
  else if constexpr (n == 7) { auto& [f0, f1, f2, f3, f4, f5, f6] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6); }
  else if constexpr (n == 8) { auto& [f0, f1, f2, f3, f4, f5, f6, f7] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7); }
  else if constexpr (n == 9) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8); }
  else if constexpr (n == 10) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9); }
  else if constexpr (n == 11) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10); }
  else if constexpr (n == 12) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11); }
  else if constexpr (n == 13) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12); }
  else if constexpr (n == 14) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13); }
  else if constexpr (n == 15) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14); }
  else if constexpr (n == 16) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15); }
  else if constexpr (n == 17) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16); }
  else if constexpr (n == 18) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17); }
  else if constexpr (n == 19) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18); }
  else if constexpr (n == 20) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19); }
  else if constexpr (n == 21) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20); }
  else if constexpr (n == 22) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21); }
  else if constexpr (n == 23) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22); }
  else if constexpr (n == 24) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23] = object; return detail::refer_to(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23); }
  // clang-format on
}

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif

template <class T>
struct Phantom {
  T value;
};
template <class T>
extern const Phantom<T> phantom;  // never defined: only the addresses of its fields are named

/// A field's address as an argument of templates; the pointer alone would not do before clang 18.
template <class T>
struct FieldAddress {
  const T* field;
};
template <class T>
FieldAddress(const T*) -> FieldAddress<T>;

template <FieldAddress Address>
consteval std::string_view field_name() {
  // g++: "... Address = ...{(& phantom<Net>.Phantom<Net>::value.Net::conv1)}; ...]", clang: "...value.conv1}]"
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find("; std::"));
  const std::size_t end = text.find_last_not_of(")}];");
  const std::size_t begin = text.find_last_of(":.>", end);
  return text.substr(begin + 1, end - begin);
}
template <class T, std::size_t I>
consteval auto field_address() {
  return FieldAddress{&detail::field_of<I>(tie_fields(phantom<T>.value))};
}

#if defined(__clang__)
#pragma clang diagnostic pop
#endif

/// One name of the list that CAPSTAN_FIELDS keeps as text: "conv, norm".
constexpr std::string_view listed_name(std::string_view list, std::size_t index) {
  for (; index > 0; --index) list.remove_prefix(list.find(',') + 1);
  list = list.substr(0, list.find(','));
  while (!list.empty() && list.front() == ' ') list.remove_prefix(1);
  while (!list.empty() && (list.back() == ' ' || list.back() == '_')) list.remove_suffix(1);
  return list;
}

template <class T>
concept ListsFields = requires(T& t) {
  t.capstan_fields();
};
template <class T>
concept IsList = requires(T& t) {
  t.capstan_parts();
};  // its parts are its fields, named by position
template <class T>
inline constexpr bool kIsTensor = std::is_base_of_v<Tensor, T>;
template <class T>
concept IsComplete = requires {
  sizeof(T);
};

/// A pointer of any kind, or an optional: `*p` is an object if `p` is true.
template <class T>
concept PointsToOne = requires(T& p) {
  static_cast<bool>(p);
  requires std::is_lvalue_reference_v<decltype(*p)>;
  requires std::is_class_v<std::remove_reference_t<decltype(*p)>>;
};
/// std::reference_wrapper.
template <class T>
concept RefersToOne = requires(T& r) {
  typename T::type;
  { r.get() } -> std::same_as<typename T::type&>;
};
/// std::variant.
template <class T>
concept IsVariant = requires(T& v) {
  v.index();
  v.valueless_by_exception();
};
/// A map whose order does not depend on hashes.
template <class T>
concept IsOrderedMap = requires(T& m) {
  typename T::key_compare;
  typename T::mapped_type;
  m.begin()->second;
  m.end();
};
template <class T>
concept IsUnorderedMap = requires {
  typename T::hasher;
  typename T::mapped_type;
};
template <class T>
concept HasKeys = requires {
  typename T::key_type;
};
template <class T>
concept IsSequence = !HasKeys<T> && requires(T & s) {
  typename T::value_type;
  requires !std::is_same_v<typename T::value_type, T>;
  requires std::is_lvalue_reference_v<decltype(*s.begin())>;
  s.end();
};
template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool kIsTuple<std::pair<A, B>> = true;

template <class T>
using Pointee = std::remove_cvref_t<decltype(*std::declval<T&>())>;

/// Whether it is a model itself, and nothing that holds models.
template <class T>
inline constexpr bool kIsModule = ListsFields<T> || IsList<T> ||
                                  !(kIsTensor<T> || PointsToOne<T> || RefersToOne<T> || IsVariant<T> ||
                                    IsOrderedMap<T> || IsSequence<T> || kIsTuple<T>);

/// Whether a field of this type is looked into.
template <class T>
inline constexpr bool kTakesPart = [] {
  if constexpr (kIsTensor<T> || ListsFields<T> || IsList<T>) return true;
  else if constexpr (PointsToOne<T>) {
    // behind pointers stand all kinds of structs, of C libraries too: those with too many fields are no models
    if constexpr (!IsComplete<Pointee<T>>) return false;
    else if constexpr (kIsModule<Pointee<T>> && std::is_aggregate_v<Pointee<T>> && !ListsFields<Pointee<T>>)
      return field_count<Pointee<T>>() <= kMaxFields;
    else return kTakesPart<Pointee<T>>;
  } else if constexpr (RefersToOne<T>) {
    if constexpr (!IsComplete<typename T::type>) return false;
    else return kTakesPart<std::remove_cv_t<typename T::type>>;
  } else if constexpr (IsOrderedMap<T>) return kTakesPart<typename T::mapped_type>;
  else if constexpr (IsSequence<T>) return kTakesPart<std::remove_cv_t<typename T::value_type>>;
  else if constexpr (IsVariant<T> || kIsTuple<T>) return true;
  else return std::is_class_v<T> && std::is_aggregate_v<T>;
}();

/// std::function or Callback: what it holds may be a function and no more.
template <class T>
concept IsFunction = requires(T& f) {
  typename T::result_type;
  static_cast<bool>(f);
};
template <class T>
concept HasState = requires {
  typename T::State;
};
template <class T>
concept IsCell = HasState<T> && std::is_invocable_v<T&, const Tensor&, const typename T::State&>;

/// Of templates nothing is known before they are called.
template <class T>
concept HasForward = requires {
  &T::forward;
}
&&requires(T& t, const Tensor& x) {
  { t.forward(x) } -> std::convertible_to<Tensor>;
};

/// Whether it is called as layers, cells and decoders are: with one to four tensors, or a tensor and its state; or as
/// PyTorch's modules are.
template <class T>
inline constexpr bool kIsCalledAsModel = [] {
  using X = const Tensor&;
  if constexpr (std::is_invocable_v<T&, X> || HasForward<T>) return true;
  else if constexpr (IsFunction<T>) return false;
  else if constexpr (IsCell<T>) return true;
  else return std::is_invocable_v<T&, X, X> || std::is_invocable_v<T&, X, X, X> || std::is_invocable_v<T&, X, X, X, X>;
}();

/// Whether a type surely has parameters, or is meant to.
template <class T>
inline constexpr bool kIsSurelyModel = [] {
  if constexpr (ListsFields<T> || IsList<T>) return true;
  else if constexpr (std::is_pointer_v<T>) return false;  // it owns nothing
  else if constexpr (PointsToOne<T>) {
    if constexpr (!IsComplete<Pointee<T>>) return false;
    else return kIsSurelyModel<Pointee<T>>;
  } else return std::is_class_v<T> && !std::is_empty_v<T> && kIsCalledAsModel<T>;
}();

/// std::span, which owns nothing.
template <class T>
concept IsSpan = requires {
  T::extent;
};

/// Whether a field of this type looks like a model whose parameters nobody would find.
template <class T>
inline constexpr bool kHidesModel = [] {
  if constexpr (kTakesPart<T>) return false;
  else if constexpr (IsUnorderedMap<T>) return kIsSurelyModel<typename T::mapped_type>;
  else if constexpr (IsOrderedMap<T>)
    return !IsFunction<typename T::mapped_type> && kHidesModel<typename T::mapped_type>;
  else if constexpr (IsSequence<T>)
    return !IsSpan<T> && !IsFunction<typename T::value_type> && kHidesModel<std::remove_cv_t<typename T::value_type>>;
  else return kIsSurelyModel<T>;
}();

/// A key as a name: text and numbers as they are, others by their position.
template <class Key>
std::string key_text([[maybe_unused]] const Key& key, [[maybe_unused]] std::size_t position) {
  if constexpr (std::is_convertible_v<const Key&, std::string_view>) return std::string(std::string_view(key));
  else if constexpr (std::is_integral_v<Key>) return std::to_string(key);
  else return std::to_string(position);
}

/// Calls `use(name, field)` for every field of a model, or every element of a container with its index or key as the
/// name. What a pointer, an optional, a variant or a reference wrapper holds has no name of its own.
template <class T, class F>
void for_each_field(T& object, F&& use) {
  using Plain = std::remove_const_t<T>;
  if constexpr (kIsTensor<Plain>) {
    // a leaf
  } else if constexpr (IsList<T>) {
    for_each_field(object.capstan_parts(), use);
  } else if constexpr (ListsFields<T>) {
    detail::with_fields(object.capstan_fields(), [&](auto&... fields) {
      std::size_t i = 0;
      (use(listed_name(Plain::capstan_field_names(), i++), fields), ...);
    });
  } else if constexpr (PointsToOne<T>) {
    if (static_cast<bool>(object)) use(std::string_view(), *object);
  } else if constexpr (RefersToOne<T>) {
    use(std::string_view(), object.get());
  } else if constexpr (IsVariant<T>) {
    if (!object.valueless_by_exception()) visit([&](auto& held) { use(std::string_view(), held); }, object);
  } else if constexpr (IsOrderedMap<T>) {
    std::size_t i = 0;
    for (auto& entry : object) use(std::string_view(key_text(entry.first, i++)), entry.second);
  } else if constexpr (IsSequence<T>) {
    std::size_t i = 0;
    for (auto& item : object) use(std::string_view(std::to_string(i++)), item);
  } else if constexpr (kIsTuple<Plain>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(std::string_view(std::to_string(I)), std::get<I>(object)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Plain>>{});
  } else {
    static_assert(std::is_aggregate_v<Plain>,
                  "capstan: this type is no plain struct; list its fields with CAPSTAN_FIELDS");
    static_assert(field_count<Plain>() > 0 || std::is_empty_v<Plain>,
                  "capstan: the fields of this struct cannot be counted, for example because one is a reference; list "
                  "them with CAPSTAN_FIELDS");
    const auto fields = tie_fields(object);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(field_name<field_address<Plain, I>()>(), detail::field_of<I>(fields)), ...);
    }
    (std::make_index_sequence<field_count<Plain>()>{});
  }
}

}  // namespace nn::detail
}  // namespace capstan
