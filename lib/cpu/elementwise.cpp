// Unary and binary rows: SIMD kernels for floating types, plain loops for integers (compiled with -fwrapv: integers
// wrap around, as NumPy's do).
#include <algorithm>
#include <array>

#include "lib/core/dispatch.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/simd/kernels.hpp"

namespace capstan::on_cpu {
namespace {

using kernels::Domain;

template <class T>
using WholeUnary = void (*)(const T* x, T* y, std::int64_t count);
template <class T>
using WholeBinary = void (*)(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
                             std::int64_t count);

template <class Op, class T>
constexpr WholeUnary<T> whole_unary() {
  if constexpr (Op::domain == Domain::numbers)
    return [](const T* x, T* y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = Op::forward(x[i]);
    };
  else return nullptr;
}
template <class Op, class T>
constexpr WholeBinary<T> whole_binary() {
  if constexpr (Op::domain == Domain::numbers)
    return [](const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = Op::forward(a[i * a_step], b[i * b_step]);
    };
  else return nullptr;
}

template <class T>
struct WholeTables {
  template <class... Op>
  static const WholeUnary<T>* unary(std::tuple<Op...>*) {
    static constexpr WholeUnary<T> table[] = {whole_unary<Op, T>()...};
    return table;
  }
  template <class... Op>
  static const WholeBinary<T>* binary(std::tuple<Op...>*) {
    static constexpr WholeBinary<T> table[] = {whole_binary<Op, T>()...};
    return table;
  }
};

// 16-bit floating types: in float32, as many values at a time as stay in the first cache.
constexpr std::int64_t kHalfPiece = 1024;

/// `kernel(floats, result, count)` for pieces of `count` values of x.
template <class T, class Kernel>
void by_pieces(const T* x, T* y, std::int64_t count, Kernel kernel) {
  const HalfKernels<T>& half = simd().of_half<T>();
  float wide[kHalfPiece], result[kHalfPiece];
  for (std::int64_t i = 0; i < count; i += kHalfPiece) {
    const std::int64_t n = std::min(kHalfPiece, count - i);
    half.widen(x + i, wide, n);
    kernel(wide, result, n);
    half.round(result, y + i, n);
  }
}
/// The same for two operands, whose steps are 0 or 1.
template <class T, class Kernel>
void by_pieces(const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y, std::int64_t count,
               Kernel kernel) {
  const HalfKernels<T>& half = simd().of_half<T>();
  float wide_a[kHalfPiece], wide_b[kHalfPiece], result[kHalfPiece];
  for (std::int64_t i = 0; i < count; i += kHalfPiece) {
    const std::int64_t n = std::min(kHalfPiece, count - i);
    half.widen(a + i * a_step, wide_a, a_step == 0 ? 1 : n);
    half.widen(b + i * b_step, wide_b, b_step == 0 ? 1 : n);
    kernel(wide_a, a_step, wide_b, b_step, result, n);
    half.round(result, y + i, n);
  }
}

template <class T>
auto unary_kernel(int op) {
  if constexpr (std::is_floating_point_v<T>) return simd().of<T>().unary[op];
  else if constexpr (core::kIsHalf<T>)
    return [kernel = simd().f32.unary[op]](const T* x, T* y, std::int64_t count) { by_pieces(x, y, count, kernel); };
  else return WholeTables<T>::unary(static_cast<kernels::UnaryOps*>(nullptr))[op];
}
template <class T>
auto binary_kernel(int op) {
  if constexpr (std::is_floating_point_v<T>) return simd().of<T>().binary[op];
  else if constexpr (core::kIsHalf<T>)
    return [kernel = simd().f32.binary[op]](const T* a, std::int64_t a_step, const T* b, std::int64_t b_step, T* y,
                                            std::int64_t count) { by_pieces(a, a_step, b, b_step, y, count, kernel); };
  else return WholeTables<T>::binary(static_cast<kernels::BinaryOps*>(nullptr))[op];
}

template <class Op, class... Others>
constexpr bool kIsOneOf = (std::is_same_v<Op, Others> || ...);

/// Bounded by arithmetic. Signs are copied one value after the other, which the compiler vectorizes.
template <class Op>
constexpr bool kIsExpensive =
    kIsOneOf<Op, kernels::Cos, kernels::Exp, kernels::Log, kernels::Sigmoid, kernels::Sin, kernels::Tanh> ||
    (kernels::evaluate_of<Op>() != kernels::Evaluate::lanes && !kIsOneOf<Op, kernels::Copysign>);

template <class... Op>
constexpr std::array<bool, sizeof...(Op)> expensive_rows(std::tuple<Op...>*) {
  return {kIsExpensive<Op>...};
}
constexpr auto kExpensiveUnary = expensive_rows(static_cast<kernels::UnaryOps*>(nullptr));
constexpr auto kExpensiveBinary = expensive_rows(static_cast<kernels::BinaryOps*>(nullptr));
constexpr auto kExpensiveParametric = expensive_rows(static_cast<kernels::ParametricOps*>(nullptr));

std::int64_t unary_grain(int op) {
  return kExpensiveUnary[static_cast<std::size_t>(op)] ? kExpensiveGrain : kCheapGrain;
}
std::int64_t binary_grain(int op) {  // some of float64, and integers, one value after the other
  return kExpensiveBinary[static_cast<std::size_t>(op)] ? kExpensiveGrain / 4 : kCheapGrain;
}
std::int64_t parametric_grain(int op) {
  return kExpensiveParametric[static_cast<std::size_t>(op)] ? kExpensiveGrain : kCheapGrain;
}

// Small tensors take one call of a kernel. What has a large frame is kept away from them: loops, and pieces of 16-bit
// values.

/// Whether values that follow one another in the result do not in the operand, as in one that is transposed: it is copied
/// to the result first, which tiles do faster than rows, and computed with there. No other operand may overlap that.
template <int N>
bool is_scattered(const Loops<N>& loops, int operand) {
  constexpr std::int64_t kFew = 16;
  const std::int64_t step = loops.strides[loops.rank - 1][operand];
  return step != 0 && step != 1 && loops.inner() >= kFew;
}

template <class T, class Kernel>
__attribute__((noinline)) void unary_runs(const TensorImpl& x, TensorImpl& out, std::int64_t grain, Kernel kernel) {
  T* to = out.as<T>();
  const Loops<1> loops(out.shape, {&x});
  const bool scattered = is_scattered(loops, 0);
  if (scattered) copy(x, out);
  for_runs<1>(scattered ? Loops<1>(out.shape, {&out}) : loops, out.numel(), grain,
              [&](std::int64_t begin, std::int64_t run, const std::byte* const* data, const std::int64_t* step) {
                if (step[0] != 0) return kernel(reinterpret_cast<const T*>(data[0]), to + begin, run);
                kernel(reinterpret_cast<const T*>(data[0]), to + begin, 1);  // one value for all
                for (std::int64_t i = 1; i < run; ++i) to[begin + i] = to[begin];
              });
}
/// `kernel(from, to, count)` for the runs of x.
template <class T, class Kernel>
__attribute__((noinline)) void run_unary(const TensorImpl& x, TensorImpl& out, std::int64_t grain, Kernel kernel) {
  if (x.contiguous && out.numel() <= kExpensiveGrain) return kernel(x.as<T>(), out.as<T>(), out.numel());
  unary_runs<T>(x, out, grain, kernel);
}

template <class T, class Kernel>
__attribute__((noinline)) void binary_runs(const TensorImpl& a, const TensorImpl& b, TensorImpl& out,
                                           std::int64_t grain, Kernel kernel) {
  T* to = out.as<T>();
  const Loops<2> loops(out.shape, {&a, &b});
  const bool a_scattered = is_scattered(loops, 0), b_scattered = is_scattered(loops, 1);
  const bool moves = a_scattered != b_scattered && (a_scattered ? b : a).data != out.data;
  if (moves) copy(a_scattered ? a : b, out);
  for_runs<2>(moves ? Loops<2>(out.shape, {a_scattered ? &out : &a, b_scattered ? &out : &b}) : loops, out.numel(),
              grain, [&](std::int64_t begin, std::int64_t run, const std::byte* const* data, const std::int64_t* step) {
                kernel(reinterpret_cast<const T*>(data[0]), step[0], reinterpret_cast<const T*>(data[1]), step[1],
                       to + begin, run);
              });
}
/// The same for two operands.
template <class T>
__attribute__((noinline)) void run_binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  const auto kernel = binary_kernel<T>(op);
  const std::int64_t count = out.numel(), grain = binary_grain(op);
  const bool a_whole = a.contiguous && a.numel() == count, b_whole = b.contiguous && b.numel() == count;
  if (count <= grain && (a_whole || a.numel() == 1) && (b_whole || b.numel() == 1))
    return kernel(a.as<T>(), a_whole, b.as<T>(), b_whole && b.numel() != 1, out.as<T>(), count);
  binary_runs<T>(a, b, out, grain, kernel);
}

/// `kernel(grad, saved, to, count)` for pieces; float32 kernels serve the 16-bit types. All are contiguous.
template <class T, class Kernel>
void run_backward(const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out, std::int64_t grain, Kernel kernel) {
  T* to = out.as<T>();
  base::parallel_for(out.numel(), grain, [&](std::int64_t begin, std::int64_t end) {
    const T *g = grad.as<T>() + begin, *s = saved.as<T>() + begin;
    if constexpr (core::kIsHalf<T>)
      by_pieces(g, 1, s, 1, to + begin, end - begin,
                [&](const float* a, std::int64_t, const float* b, std::int64_t, float* y, std::int64_t count) {
                  kernel(a, b, y, count);
                });
    else kernel(g, s, to + begin, end - begin);
  });
}

template <class T>
using Native = std::conditional_t<core::kIsHalf<T>, float, T>;

}  // namespace

void unary(int op, const TensorImpl& x, TensorImpl& out) {
  core::visit_numbers(out.dtype,
                      [&]<class T>(core::Type<T>) { run_unary<T>(x, out, unary_grain(op), unary_kernel<T>(op)); });
}

void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    run_backward<T>(grad, saved, out, unary_grain(op), simd().of<Native<T>>().unary_backward[op]);
  });
}

void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  core::visit_numbers(out.dtype, [&]<class T>(core::Type<T>) { run_binary<T>(op, a, b, out); });
}

void parametric(int op, double p, double q, const TensorImpl& x, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = [=, row = simd().of<Native<T>>().parametric[op]](const T* from, T* to, std::int64_t count) {
      const auto native = [=](const Native<T>* v, Native<T>* y, std::int64_t n) { row(v, p, q, y, n); };
      if constexpr (core::kIsHalf<T>) by_pieces(from, to, count, native);
      else native(from, to, count);
    };
    run_unary<T>(x, out, parametric_grain(op), kernel);
  });
}

void parametric_backward(int op, double p, double q, const TensorImpl& grad, const TensorImpl& x, TensorImpl& out) {
  core::visit_real(out.dtype, [&]<class T>(core::Type<T>) {
    using V = Native<T>;
    run_backward<T>(grad, x, out, parametric_grain(op),
                    [=, row = simd().of<V>().parametric_backward[op]](const V* g, const V* v, V* y, std::int64_t n) {
                      row(g, v, p, q, y, n);
                    });
  });
}

void accumulate(TensorImpl& a, const TensorImpl& b) {
  core::visit_real(a.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = binary_kernel<T>(kernels::kBinaryId<kernels::Add>);
    base::parallel_for(a.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
      kernel(a.as<T>() + begin, 1, b.as<T>() + begin, 1, a.as<T>() + begin, end - begin);
    });
  });
}

}  // namespace capstan::on_cpu
