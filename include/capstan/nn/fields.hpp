#pragma once
// Reflection over the fields of plain structs: their number, their values and their names, with C++20 alone.
//
// The number is the largest n for which T{any, ..., any} compiles; the values come from structured bindings; a name is
// read from the compiler's text for a pointer to the field of an object that is declared and never defined.
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <capstan/tensor.hpp>

/// Lists the fields of a model that is no aggregate. Put it anywhere in the class.
#define CAPSTAN_FIELDS(...)                                                        \
  static constexpr std::string_view capstan_field_names() { return #__VA_ARGS__; } \
  auto capstan_fields() { return std::tie(__VA_ARGS__); }                          \
  auto capstan_fields() const { return std::tie(__VA_ARGS__); }                    \
  static_assert(true)

namespace capstan CAPSTAN_PUBLIC {
namespace nn::detail {

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

/// All fields of an aggregate as a tuple of references.
template <class T>
constexpr auto tie_fields(T& object) {
  constexpr std::size_t n = field_count<std::remove_const_t<T>>();
  static_assert(n <= kMaxFields, "capstan: a model with more than 24 fields must list them with CAPSTAN_FIELDS");
  // clang-format off
  if constexpr (n == 0) return std::tuple<>();
  else if constexpr (n == 1) { auto& [f0] = object; return std::tie(f0); }
  else if constexpr (n == 2) { auto& [f0, f1] = object; return std::tie(f0, f1); }
  else if constexpr (n == 3) { auto& [f0, f1, f2] = object; return std::tie(f0, f1, f2); }
  else if constexpr (n == 4) { auto& [f0, f1, f2, f3] = object; return std::tie(f0, f1, f2, f3); }
  else if constexpr (n == 5) { auto& [f0, f1, f2, f3, f4] = object; return std::tie(f0, f1, f2, f3, f4); }
  else if constexpr (n == 6) { auto& [f0, f1, f2, f3, f4, f5] = object; return std::tie(f0, f1, f2, f3, f4, f5); }
  else if constexpr (n == 7) { auto& [f0, f1, f2, f3, f4, f5, f6] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6); }
  else if constexpr (n == 8) { auto& [f0, f1, f2, f3, f4, f5, f6, f7] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7); }
  else if constexpr (n == 9) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8); }
  else if constexpr (n == 10) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9); }
  else if constexpr (n == 11) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10); }
  else if constexpr (n == 12) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11); }
  else if constexpr (n == 13) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12); }
  else if constexpr (n == 14) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13); }
  else if constexpr (n == 15) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14); }
  else if constexpr (n == 16) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15); }
  else if constexpr (n == 17) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16); }
  else if constexpr (n == 18) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17); }
  else if constexpr (n == 19) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18); }
  else if constexpr (n == 20) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19); }
  else if constexpr (n == 21) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20); }
  else if constexpr (n == 22) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21); }
  else if constexpr (n == 23) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22); }
  else if constexpr (n == 24) { auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23] = object; return std::tie(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20, f21, f22, f23); }
  // clang-format on
}

template <class T>
struct Phantom {
  T value;
};
template <class T>
extern const Phantom<T> phantom;  // never defined: only the addresses of its fields are named

template <auto Field>
consteval std::string_view field_name() {
  // g++: "... [with auto Field = (& phantom<Net>.Phantom<Net>::value.Net::conv1); ...]", clang: "...value.conv1]"
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.find("; std::"));
  const std::size_t end = text.find_last_not_of(")];");
  const std::size_t begin = text.find_last_of(":.>", end);
  return text.substr(begin + 1, end - begin);
}
template <class T, std::size_t I>
consteval auto field_address() {
  return &std::get<I>(tie_fields(phantom<T>.value));
}

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
inline constexpr bool kIsVector = false;
template <class T, class A>
inline constexpr bool kIsVector<std::vector<T, A>> = true;
template <class T, std::size_t N>
inline constexpr bool kIsVector<std::array<T, N>> = true;
template <class T>
inline constexpr bool kIsTuple = false;
template <class... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;

/// Whether a field of this type is looked into.
template <class T>
inline constexpr bool kTakesPart = [] {
  if constexpr (kIsTensor<T>) return true;
  else if constexpr (kIsVector<T>) return kTakesPart<typename T::value_type>;
  else if constexpr (kIsTuple<T> || ListsFields<T> || IsList<T>) return true;
  else return std::is_class_v<T> && std::is_aggregate_v<T>;
}();

/// Calls `use(name, field)` for every field of a model, or every element of a container with its index as the name.
template <class T, class F>
void for_each_field(T& object, F&& use) {
  using Plain = std::remove_const_t<T>;
  if constexpr (kIsTensor<Plain>) {
    // a leaf
  } else if constexpr (kIsVector<Plain>) {
    std::size_t i = 0;
    for (auto& item : object) use(std::string_view(std::to_string(i++)), item);
  } else if constexpr (kIsTuple<Plain>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(std::string_view(std::to_string(I)), std::get<I>(object)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Plain>>{});
  } else if constexpr (IsList<T>) {
    for_each_field(object.capstan_parts(), use);
  } else if constexpr (ListsFields<T>) {
    auto fields = object.capstan_fields();
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(listed_name(Plain::capstan_field_names(), I), std::get<I>(fields)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>{});
  } else {
    static_assert(std::is_aggregate_v<Plain>,
                  "capstan: this type is no plain struct; list its fields with CAPSTAN_FIELDS");
    auto fields = tie_fields(object);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (use(field_name<field_address<Plain, I>()>(), std::get<I>(fields)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<decltype(fields)>>{});
  }
}

}  // namespace nn::detail
}  // namespace capstan
