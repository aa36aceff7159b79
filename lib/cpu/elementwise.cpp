// Unary and binary rows: SIMD kernels for floating types, plain loops for integers (compiled with -fwrapv: integers
// wrap around, as NumPy's do).
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

template <class T>
auto unary_kernel(int op) {
  if constexpr (std::is_floating_point_v<T>) return simd().of<T>().unary[op];
  else return WholeTables<T>::unary(static_cast<kernels::UnaryOps*>(nullptr))[op];
}
template <class T>
auto binary_kernel(int op) {
  if constexpr (std::is_floating_point_v<T>) return simd().of<T>().binary[op];
  else return WholeTables<T>::binary(static_cast<kernels::BinaryOps*>(nullptr))[op];
}

bool is_expensive(int op) {
  using namespace kernels;
  return op == kUnaryId<Exp> || op == kUnaryId<Log> || op == kUnaryId<Sigmoid> || op == kUnaryId<Tanh>;
}

template <class F>
void visit_numbers(DType dtype, F&& f) {
  core::visit(dtype, [&]<class T>(core::Type<T> type) {
    if constexpr (!std::is_same_v<T, bool>) f(type);
  });
}

}  // namespace

void unary(int op, const TensorImpl& x, TensorImpl& out) {
  visit_numbers(out.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = unary_kernel<T>(op);
    const std::int64_t count = out.numel();
    if (x.contiguous && count <= kExpensiveGrain) return kernel(x.as<T>(), out.as<T>(), count);
    T* to = out.as<T>();
    for_runs<1>(Loops<1>(out.shape, {&x}), count, is_expensive(op) ? kExpensiveGrain : kCheapGrain,
                [&](std::int64_t begin, std::int64_t run, const std::byte* const* data, const std::int64_t* step) {
                  if (step[0] != 0) return kernel(reinterpret_cast<const T*>(data[0]), to + begin, run);
                  kernel(reinterpret_cast<const T*>(data[0]), to + begin, 1);  // one value for all
                  for (std::int64_t i = 1; i < run; ++i) to[begin + i] = to[begin];
                });
  });
}

void unary_backward(int op, const TensorImpl& grad, const TensorImpl& saved, TensorImpl& out) {
  core::visit_floating(out.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = simd().of<T>().unary_backward[op];
    T* to = out.as<T>();
    base::parallel_for(out.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
      kernel(grad.as<T>() + begin, saved.as<T>() + begin, to + begin, end - begin);
    });
  });
}

void binary(int op, const TensorImpl& a, const TensorImpl& b, TensorImpl& out) {
  visit_numbers(out.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = binary_kernel<T>(op);
    const std::int64_t count = out.numel();
    const bool a_whole = a.contiguous && a.numel() == count, b_whole = b.contiguous && b.numel() == count;
    if (count <= kCheapGrain && (a_whole || a.numel() == 1) && (b_whole || b.numel() == 1))
      return kernel(a.as<T>(), a_whole, b.as<T>(), b_whole, out.as<T>(), count);
    T* to = out.as<T>();
    for_runs<2>(Loops<2>(out.shape, {&a, &b}), count,
                op == kernels::kBinaryId<kernels::Pow> ? kExpensiveGrain / 4 : kCheapGrain,
                [&](std::int64_t begin, std::int64_t run, const std::byte* const* data, const std::int64_t* step) {
                  kernel(reinterpret_cast<const T*>(data[0]), step[0], reinterpret_cast<const T*>(data[1]), step[1],
                         to + begin, run);
                });
  });
}

void accumulate(TensorImpl& a, const TensorImpl& b) {
  core::visit_floating(a.dtype, [&]<class T>(core::Type<T>) {
    const auto kernel = simd().of<T>().binary[kernels::kBinaryId<kernels::Add>];
    base::parallel_for(a.numel(), kCheapGrain, [&](std::int64_t begin, std::int64_t end) {
      kernel(a.as<T>() + begin, 1, b.as<T>() + begin, 1, a.as<T>() + begin, end - begin);
    });
  });
}

}  // namespace capstan::on_cpu
