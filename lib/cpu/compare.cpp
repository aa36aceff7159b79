// Comparisons, questions, logic, bits, and selection by a condition.
#include <algorithm>
#include <atomic>
#include <type_traits>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

constexpr std::int64_t kBlock = 512;  // elements that are compared in one go

/// An operand's elements, block by block, in the type that compares them: 16-bit floating ones are widened, one value
/// against all is repeated. So one loop does for all.
template <class T>
class Blocks {
 public:
  using Number = std::conditional_t<core::kIsHalf<T>, float, T>;

  Blocks(const std::byte* data, std::int64_t step, std::int64_t count)
      : from_(reinterpret_cast<const T*>(data)), repeated_(step == 0) {
    if (repeated_) std::fill_n(block_, std::min(count, kBlock), static_cast<Number>(*from_));
  }

  /// Elements `begin` to begin + count - 1, until the next call.
  const Number* at(std::int64_t begin, std::int64_t count) {
    if (repeated_) return block_;
    if constexpr (core::kIsHalf<T>) {
      simd().of_half<T>().widen(from_ + begin, block_, count);
      return block_;
    } else {
      return from_ + begin;
    }
  }

 private:
  const T* from_;
  bool repeated_;
  Number block_[kBlock];
};

template <class T, class R, class F>
[[gnu::noinline]] void compare_block(const T* x, const T* y, R* to, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = f(x[i], y[i]);
}

/// out = f(a, b), from elements of type T to the type that f returns.
template <class T, class F>
void compare_with(const TensorImpl& a, const TensorImpl& b, TensorImpl& out, F f) {
  using Number = typename Blocks<T>::Number;
  auto* to = out.as<std::invoke_result_t<F, Number, Number>>();
  for_runs<2>(Loops<2>(out.shape, {&a, &b}), out.numel(), kCheapGrain,
              [&](std::int64_t begin, std::int64_t count, const std::byte* const* data, const std::int64_t* step) {
                Blocks<T> x(data[0], step[0], count), y(data[1], step[1], count);
                for (std::int64_t i = 0; i < count; i += kBlock) {
                  const std::int64_t n = std::min(count - i, kBlock);
                  compare_block(x.at(i, n), y.at(i, n), to + begin + i, n, f);
                }
              });
}

template <class Word>
void copy_steps(const Word* from, std::int64_t step, Word* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

/// By masks instead of branches, which random conditions would mispredict. Steps are 0 or 1.
template <class Word, std::int64_t kStepA, std::int64_t kStepB>
void select_run(const bool* c, const Word* x, const Word* y, Word* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto mask = static_cast<Word>(0 - static_cast<Word>(c[i]));
    to[i] = static_cast<Word>((x[i * kStepA] & mask) | (y[i * kStepB] & static_cast<Word>(~mask)));
  }
}

template <class Word>
void select_words(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  for_runs<3>(Loops<3>(out.shape, {&condition, &a, &b}), out.numel(), kCheapGrain,
              [&](std::int64_t begin, std::int64_t count, const std::byte* const* data, const std::int64_t* step) {
                const auto* c = reinterpret_cast<const bool*>(data[0]);
                const auto* x = reinterpret_cast<const Word*>(data[1]);
                const auto* y = reinterpret_cast<const Word*>(data[2]);
                Word* to = out.as<Word>() + begin;
                if (step[0] == 0) copy_steps(*c ? x : y, *c ? step[1] : step[2], to, count);
                else if (step[1] == 0 && step[2] == 0) select_run<Word, 0, 0>(c, x, y, to, count);
                else if (step[1] == 0) select_run<Word, 0, 1>(c, x, y, to, count);
                else if (step[2] == 0) select_run<Word, 1, 0>(c, x, y, to, count);
                else select_run<Word, 1, 1>(c, x, y, to, count);
              });
}

template <class T, class F>
void ask(const TensorImpl& x, TensorImpl& out, F holds) {
  bool* to = out.as<bool>();
  for_runs<1>(Loops<1>(out.shape, {&x}), out.numel(), kCheapGrain,
              [&](std::int64_t begin, std::int64_t count, const std::byte* const* data, const std::int64_t* step) {
                const auto* from = reinterpret_cast<const T*>(data[0]);
                const std::int64_t s = step[0];
                for (std::int64_t i = 0; i < count; ++i) to[begin + i] = holds(from[i * s]);
              });
}

// A count is read as an unsigned number, so that a negative one is as far out of range as a large one.
template <class T>
T shift_left(T x, T count) {
  using Bits = std::make_unsigned_t<T>;
  constexpr Bits width = 8 * sizeof(T);
  return static_cast<Bits>(count) < width ? static_cast<T>(static_cast<Bits>(x) << static_cast<Bits>(count)) : T(0);
}
template <class T>
T shift_right(T x, T count) {
  using Bits = std::make_unsigned_t<T>;
  constexpr Bits width = 8 * sizeof(T);
  if (static_cast<Bits>(count) < width) return static_cast<T>(x >> static_cast<Bits>(count));
  if constexpr (std::is_signed_v<T>) return x < 0 ? T(-1) : T(0);
  else return T(0);
}

/// What is true becomes false. As bytes, for compilers do not vectorize this in bools.
void invert(const TensorImpl& x, TensorImpl& out) {
  compare_with<std::uint8_t>(x, x, out, [](std::uint8_t v, std::uint8_t) { return static_cast<std::uint8_t>(v ^ 1); });
}

template <class T>
void bits(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  using kernels::Bitwise;
  switch (op) {
    case Bitwise::both: return compare_with<T>(a, b, out, [](T x, T y) { return static_cast<T>(x & y); });
    case Bitwise::either: return compare_with<T>(a, b, out, [](T x, T y) { return static_cast<T>(x | y); });
    case Bitwise::one: return compare_with<T>(a, b, out, [](T x, T y) { return static_cast<T>(x ^ y); });
    case Bitwise::inverse: break;
    case Bitwise::left_shift:
      if constexpr (!std::is_same_v<T, bool>)
        return compare_with<T>(a, b, out, [](T x, T n) { return shift_left(x, n); });
      break;
    case Bitwise::right_shift:
      if constexpr (!std::is_same_v<T, bool>)
        return compare_with<T>(a, b, out, [](T x, T n) { return shift_right(x, n); });
      break;
  }
  if constexpr (std::is_same_v<T, bool>) invert(a, out);
  else compare_with<T>(a, b, out, [](T x, T) { return static_cast<T>(~x); });
}

}  // namespace

namespace {

/// Of a 16-bit type, whose infinity has these bits.
bool any_bad_half(const std::uint16_t* x, std::int64_t count, unsigned infinity, bool infinite) {
  const unsigned limit = infinite ? infinity : infinity + 1;
  unsigned bad = 0;
  for (std::int64_t i = 0; i < count; ++i) bad |= (x[i] & 0x7FFFu) >= limit ? 1u : 0u;
  return bad != 0;
}

}  // namespace

bool any_bad(const TensorImpl& x, bool infinite) {
  const auto look = [&](std::int64_t begin, std::int64_t count) {
    switch (x.dtype) {
      case DType::float16: return any_bad_half(x.as<std::uint16_t>() + begin, count, 0x7C00, infinite);
      case DType::bfloat16: return any_bad_half(x.as<std::uint16_t>() + begin, count, 0x7F80, infinite);
      case DType::float64: return simd().f64.any_bad(x.as<double>() + begin, count, infinite);
      default: return simd().f32.any_bad(x.as<float>() + begin, count, infinite);
    }
  };
  if (x.numel() <= kCheapGrain) return look(0, x.numel());
  std::atomic<bool> found{false};
  base::parallel_for(x.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
    if (look(begin, end - begin)) found.store(true, std::memory_order_relaxed);
  });
  return found.load(std::memory_order_relaxed);
}

void predicate(kernels::Predicate op, const TensorImpl& x, TensorImpl& out) {
  using kernels::Predicate;
  if (!is_floating(x.dtype)) return fill(out, op == Predicate::finite);
  core::visit_real(x.dtype, [&]<class T>(core::Type<T>) {
    using Number = std::conditional_t<core::kIsHalf<T>, float, T>;
    switch (op) {
      case Predicate::nan: return ask<T>(x, out, [](Number v) { return v != v; });
      case Predicate::infinite: return ask<T>(x, out, [](Number v) { return v == v && v - v != Number(0); });
      case Predicate::finite: return ask<T>(x, out, [](Number v) { return v - v == Number(0); });
    }
  });
}

void bitwise(kernels::Bitwise op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (a.dtype == DType::bool8) return bits<bool>(op, a, b, out);
  core::visit_integers(a.dtype, [&]<class T>(core::Type<T>) { bits<T>(op, a, b, out); });
}

void compare(kernels::Compare op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  using kernels::Compare;
  core::visit(a.dtype, [&]<class T>(core::Type<T>) {
    using Number = typename Blocks<T>::Number;
    switch (op) {
      case Compare::equal: return compare_with<T>(a, b, out, [](Number x, Number y) { return x == y; });
      case Compare::not_equal: return compare_with<T>(a, b, out, [](Number x, Number y) { return x != y; });
      case Compare::less: return compare_with<T>(a, b, out, [](Number x, Number y) { return x < y; });
      case Compare::less_equal: return compare_with<T>(a, b, out, [](Number x, Number y) { return x <= y; });
    }
  });
}

void logical(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  if (op == 0) compare_with<bool>(a, b, out, [](bool x, bool y) { return x && y; });
  else if (op == 1) compare_with<bool>(a, b, out, [](bool x, bool y) { return x || y; });
  else if (op == 3) compare_with<bool>(a, b, out, [](bool x, bool y) { return x != y; });
  else invert(a, out);
}

void select(const TensorImpl& condition, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  const std::int64_t element = size_of(out.dtype);
  if (element == 4) select_words<std::uint32_t>(condition, a, b, out);
  else if (element == 8) select_words<std::uint64_t>(condition, a, b, out);
  else if (element == 2) select_words<std::uint16_t>(condition, a, b, out);
  else select_words<std::uint8_t>(condition, a, b, out);
}

}  // namespace capstan::on_cpu
