// Comparisons, questions, logic, bits, and selection by a condition. What is asked is decided when a kernel runs: all
// answers together are one instruction or two.
#include <type_traits>

#include "cuda/backend.hpp"
#include "cuda/map.cuh"
#include "cuda/numbers.hpp"
#include "cuda/words.hpp"

namespace capstan::on_cuda {
namespace {

template <class T>
struct CompareRule {
  using Numbers = kernels::Compare;
  static constexpr bool kLong = false;
  __device__ static bool apply(const Numbers& op, T a, T b) {
    const Compute<T> x = widen(a), y = widen(b);
    if (op == kernels::Compare::equal) return x == y;
    if (op == kernels::Compare::not_equal) return x != y;
    return op == kernels::Compare::less ? x < y : x <= y;
  }
};

template <class T>
struct PredicateRule {
  using Numbers = kernels::Predicate;
  static constexpr bool kLong = false;
  __device__ static bool apply(const Numbers& op, T x) {
    const Compute<T> v = widen(x);
    const bool finite = v - v == Compute<T>(0);
    if (op == kernels::Predicate::finite) return finite;
    return op == kernels::Predicate::nan ? v != v : v == v && !finite;
  }
};

// A count is read as an unsigned number, so that a negative one is as far out of range as a large one.
template <class T>
__device__ inline T shift_left(T x, T count) {
  using Bits = std::make_unsigned_t<T>;
  constexpr Bits width = 8 * sizeof(T);
  return static_cast<Bits>(count) < width ? static_cast<T>(static_cast<Bits>(x) << static_cast<Bits>(count)) : T(0);
}
template <class T>
__device__ inline T shift_right(T x, T count) {
  using Bits = std::make_unsigned_t<T>;
  constexpr Bits width = 8 * sizeof(T);
  if (static_cast<Bits>(count) < width) return static_cast<T>(x >> static_cast<Bits>(count));
  if constexpr (std::is_signed_v<T>) return x < 0 ? T(-1) : T(0);
  else return T(0);
}

template <class T>
struct BitwiseRule {
  using Numbers = kernels::Bitwise;
  static constexpr bool kLong = false;
  using Whole = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;  // nobody shifts truth values
  __device__ static T apply(const Numbers& op, T a, T b) {
    switch (op) {
      case kernels::Bitwise::both: return static_cast<T>(a & b);
      case kernels::Bitwise::either: return static_cast<T>(a | b);
      case kernels::Bitwise::one: return static_cast<T>(a ^ b);
      case kernels::Bitwise::left_shift: return static_cast<T>(shift_left<Whole>(a, b));
      case kernels::Bitwise::right_shift: return static_cast<T>(shift_right<Whole>(a, b));
      case kernels::Bitwise::inverse: break;
    }
    if constexpr (std::is_same_v<T, bool>) return !a;
    else return static_cast<T>(~a);
  }
};

struct LogicalRule {
  using Numbers = int;
  static constexpr bool kLong = false;
  __device__ static bool apply(const Numbers& op, bool a, bool b) {
    if (op == 0) return a && b;
    if (op == 1) return a || b;
    return op == 3 ? a != b : !a;
  }
};

template <class Word>
struct SelectRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = false;
  __device__ static Word apply(const Numbers&, bool condition, Word a, Word b) { return condition ? a : b; }
};

template <class T>
void bits(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  row_of<BitwiseRule<T>, T, T, T>().run(op, {&out, &a, &b});
}

}  // namespace

bool any_bad(const TensorImpl& x, bool infinite) {
  if (x.numel() == 0) return false;
  const Tensor flag = workspace(1, DType::int32);
  fill(*flag.impl(), 0);
  auto* const found = flag.impl()->as<unsigned>();
  check_numbers(x, infinite, found);
  return read_back(found) != 0;
}

void predicate(kernels::Predicate op, const TensorImpl& x, TensorImpl& out) {
  if (!is_floating(x.dtype)) return fill(out, op == kernels::Predicate::finite);
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) { row_of<PredicateRule<T>, bool, T>().run(op, {&out, &x}); });
}

void bitwise(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (a.dtype == DType::bool8) return bits<bool>(op, a, b, out);
  core::visit_integers(a.dtype, [&]<class T>(core::Type<T>) { bits<T>(op, a, b, out); });
}

void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  core::visit(a.dtype, [&]<class T>(core::Type<T>) { row_of<CompareRule<T>, bool, T, T>().run(op, {&out, &a, &b}); });
}

void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  row_of<LogicalRule, bool, bool, bool>().run(op, {&out, &a, &b});
}

void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  visit_unsigned(size_of(out.dtype), [&]<class Word>(core::Type<Word>) {
    row_of<SelectRule<Word>, Word, bool, Word, Word>().run({}, {&out, &condition, &a, &b});
  });
}

}  // namespace capstan::on_cuda
