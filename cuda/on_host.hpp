#pragma once
// `on_host<&core::Backend::svd>`: an entry of the GPU's table that the CPU computes. Its operands are copied there, and
// what it writes is copied back. The trace shows it as an operation of its own: "svd on the host".
#include <string>
#include <type_traits>
#include <vector>

#include "cuda/context.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/observe.hpp"

namespace capstan::on_cuda {

/// The CPU's stand-ins for tensors of a GPU, during one operation.
class HostCopies {
 public:
  const TensorImpl& read(const TensorImpl& x) { return *copy_of(x, true).impl(); }
  TensorImpl& write(TensorImpl& x);
  /// Copies what was written back to the device.
  void finish() const;
  const Tensor& first() const { return copies_.front(); }

 private:
  Tensor& copy_of(const TensorImpl& x, bool filled);
  struct Written {
    TensorImpl* target;
    std::size_t copy;
  };
  std::vector<Tensor> copies_;
  std::vector<Written> written_;
};

inline const TensorImpl& stand_in(HostCopies& copies, const TensorImpl& x) { return copies.read(x); }
inline TensorImpl& stand_in(HostCopies& copies, TensorImpl& x) { return copies.write(x); }
inline const TensorImpl* stand_in(HostCopies& copies, const TensorImpl* x) {
  return x != nullptr ? &copies.read(*x) : nullptr;
}
inline TensorImpl* stand_in(HostCopies& copies, TensorImpl* x) { return x != nullptr ? &copies.write(*x) : nullptr; }
inline core::CtcDecodeTask stand_in(HostCopies& copies, const core::CtcDecodeTask& t) {
  return {copies.read(t.x), copies.read(t.steps), t.blank, t.merge_repeated, t.beams};
}
template <class T>
const T& stand_in(HostCopies&, const T& other) {
  return other;
}

/// Throws BackendError: this build's CPU cannot compute it either.
[[noreturn]] void fail_without_kernel();
/// Tells watchers that an operation ran on the host.
void note_on_host(const HostCopies& copies);

template <auto slot>
struct OnHost;
template <class Result, class... Args, Result (*core::Backend::*slot)(Args...)>
struct OnHost<slot> {
  static Result run(Args... args) {
    HostCopies copies;
    const auto kernel = core::cpu_backend().*slot;
    if (kernel == nullptr) fail_without_kernel();
    if constexpr (std::is_void_v<Result>) {
      kernel(stand_in(copies, args)...);
      copies.finish();
      note_on_host(copies);
    } else {
      const Result result = kernel(stand_in(copies, args)...);
      copies.finish();
      note_on_host(copies);
      return result;
    }
  }
};
template <auto slot>
inline constexpr auto on_host = &OnHost<slot>::run;

}  // namespace capstan::on_cuda
