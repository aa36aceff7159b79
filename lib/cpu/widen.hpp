#pragma once
// `widen<&kernel>`: the kernel for float32 and float64, also for the 16-bit types.
//
// Every argument that is a tensor of float16 or bfloat16 is replaced by a float32 copy, and what the kernel may write is
// copied back: computed in float32, rounded once.
#include <type_traits>

#include "lib/cpu/backend.hpp"

namespace capstan::on_cpu {

/// A float32 stand-in for one argument of a kernel, if it needs one.
class Wide {
 public:
  explicit Wide(const TensorImpl* original, bool written) : original_(original), written_(written) {
    if (original == nullptr || !is_half(original->dtype)) return;
    copy_ = core::make_workspace(original->shape, DType::float32, original->device(), core::calling_place());
    on_cpu::copy(*original, *copy_.impl());
  }
  TensorImpl* get() const noexcept { return copy_.defined() ? copy_.impl() : const_cast<TensorImpl*>(original_); }
  void finish() const {
    if (written_ && copy_.defined()) on_cpu::copy(*copy_.impl(), *const_cast<TensorImpl*>(original_));
  }

 private:
  const TensorImpl* original_;
  bool written_;
  Tensor copy_;
};

/// Arguments that are no tensors pass through.
template <class A>
struct WideArgument {
  explicit WideArgument(A value) : value_(value) {}
  A pass() const { return value_; }
  void finish() const {}
  A value_;
};
template <>
struct WideArgument<const TensorImpl&> : Wide {
  explicit WideArgument(const TensorImpl& x) : Wide(&x, false) {}
  const TensorImpl& pass() const { return *get(); }
};
template <>
struct WideArgument<TensorImpl&> : Wide {
  explicit WideArgument(TensorImpl& x) : Wide(&x, true) {}
  TensorImpl& pass() const { return *get(); }
};
template <>
struct WideArgument<const TensorImpl*> : Wide {
  explicit WideArgument(const TensorImpl* x) : Wide(x, false) {}
  const TensorImpl* pass() const { return get(); }
};
template <>
struct WideArgument<TensorImpl*> : Wide {
  explicit WideArgument(TensorImpl* x) : Wide(x, true) {}
  TensorImpl* pass() const { return get(); }
};

inline bool any_half() { return false; }
template <class A, class... Rest>
bool any_half(const A& first, const Rest&... rest) {
  if constexpr (std::is_same_v<A, TensorImpl>) return is_half(first.dtype) || any_half(rest...);
  else if constexpr (std::is_same_v<std::remove_cv_t<std::remove_pointer_t<A>>, TensorImpl>)
    return (first != nullptr && is_half(first->dtype)) || any_half(rest...);
  else return any_half(rest...);
}

template <auto kernel>
struct Widened;
template <class Result, class... Args, Result (*kernel)(Args...)>
struct Widened<kernel> {
  static Result run(Args... args) {
    if (__builtin_expect(!any_half(args...), true)) return kernel(args...);
    return with(WideArgument<Args>(args)...);
  }

 private:
  static Result with(const WideArgument<Args>&... args) {
    if constexpr (std::is_void_v<Result>) {
      kernel(args.pass()...);
      (args.finish(), ...);
    } else {
      Result result = kernel(args.pass()...);
      (args.finish(), ...);
      return result;
    }
  }
};
template <auto kernel>
inline constexpr auto widen = &Widened<kernel>::run;

}  // namespace capstan::on_cpu
