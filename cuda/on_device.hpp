#pragma once
// `on_device<&kernel, "name">`: an entry of the GPU's table. It makes the operation the thread's call, on the device of
// its first operand and the thread's current stream there, and lets that stream wait for whoever used the operands.
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "cuda/backend.hpp"
#include "cuda/capture.hpp"
#include "cuda/context.hpp"
#include "cuda/storage.hpp"
#include "cuda/timing.hpp"

namespace capstan::on_cuda {

/// A name as a template's argument.
struct Name {
  char text[32] = {};
  template <std::size_t N>
  constexpr Name(const char (&name)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};

template <class... Row>
const char* row_name(const std::tuple<Row...>*, int op) noexcept {
  static constexpr const char* names[] = {Row::name...};
  return names[op];
}
/// What errors call the operation: the row's name where the entry serves a list of rows, else the entry's.
template <Name name, class First, class... Rest>
const char* op_name([[maybe_unused]] const First& op, const Rest&...) noexcept {
  constexpr std::string_view entry = name.text;
  if constexpr (!std::is_same_v<First, int>) return name.text;
  else if constexpr (entry.starts_with("unary")) return row_name(static_cast<const kernels::UnaryOps*>(nullptr), op);
  else if constexpr (entry == "binary") return row_name(static_cast<const kernels::BinaryOps*>(nullptr), op);
  else if constexpr (entry.starts_with("parametric"))
    return row_name(static_cast<const kernels::ParametricOps*>(nullptr), op);
  else if constexpr (entry.starts_with("loss")) return row_name(static_cast<const kernels::LossOps*>(nullptr), op);
  else return name.text;
}

/// Calls `use(x, written)` for every tensor among the arguments of an entry.
template <class Use>
void each_operand(const TensorImpl& x, Use&& use) {
  use(x, false);
}
template <class Use>
void each_operand(TensorImpl& x, Use&& use) {
  use(x, true);
}
template <class Use>
void each_operand(const TensorImpl* x, Use&& use) {
  if (x != nullptr) use(*x, false);
}
template <class Use>
void each_operand(TensorImpl* x, Use&& use) {
  if (x != nullptr) use(*x, true);
}
template <class Use>
void each_operand(const core::RnnForward& t, Use&& use) {
  for (const TensorImpl* x : {&t.x, &t.h0, &t.wx, &t.wh, &t.b}) use(*x, false);
}
template <class Use>
void each_operand(const core::RnnBackward& t, Use&& use) {
  for (const TensorImpl* x : {&t.x, &t.h0, &t.wx, &t.wh, &t.h, t.grad, t.grad_last}) each_operand(x, use);
  for (TensorImpl* x : {t.dx, &t.dh0, &t.dwx, &t.dwh, &t.db}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::RecurrentTask& t, Use&& use) {
  for (const TensorImpl* x : {&t.x, &t.h0, t.c0, &t.wx, &t.wh, t.b, t.bn, t.projection}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::RecurrentResults& t, Use&& use) {
  for (TensorImpl* x : {t.outputs, &t.h, t.c, t.gates, t.entering_h, t.entering_c}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::RecurrentGradients& t, Use&& use) {
  for (const TensorImpl* x : {&t.gates, t.entering_h, t.entering_c, t.outputs, t.last_h, t.last_c})
    each_operand(x, use);
  for (TensorImpl* x : {t.x, t.h0, t.c0, t.wx, t.wh, t.b, t.bn, t.projection}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::AttentionTask& t, Use&& use) {
  for (const TensorImpl* x : {&t.query, &t.key, &t.value, t.mask, t.bias}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::AttentionGradients& t, Use&& use) {
  for (const TensorImpl* x : {&t.out, &t.statistics, &t.grad}) use(*x, false);
  for (TensorImpl* x : {t.query, t.key, t.value}) each_operand(x, use);
}
template <class Use>
void each_operand(const core::CtcTask& t, Use&& use) {
  for (const TensorImpl* x : {&t.x, &t.steps, &t.labels, &t.bounds}) use(*x, false);
}
template <class Use>
void each_operand(const core::CtcDecodeTask& t, Use&& use) {
  for (const TensorImpl* x : {&t.x, &t.steps}) use(*x, false);
}
/// Everything else holds no tensors.
template <class T, class Use>
void each_operand(const T&, Use&&) {}

/// In place of DeviceTiming, for what the host computes.
struct NoTiming {
  NoTiming() {}
};

[[noreturn]] inline void fail_on_host(const TensorImpl& x) {
  const Call& now = call();
  base::fail<DeviceError>(now.where, now.op, ": an operand ", x.shape, " is on cpu and another on cuda:", now.device,
                          ". Move one with x.to(device).");
}

template <auto kernel, Name name, class Timing>
struct OnDevice;
template <class Result, class... Args, Result (*kernel)(Args...), Name name, class Timing>
struct OnDevice<kernel, name, Timing> {
  static Result run(Args... args) {
    begin(args...);
    [[maybe_unused]] const Timing timing;
    if constexpr (std::is_void_v<Result>) {
      kernel(static_cast<Args>(args)...);
      look();
    } else {
      const Result result = kernel(static_cast<Args>(args)...);
      look();
      return result;
    }
  }

 private:
  /// With CAPSTAN_CUDA_SYNC=1 what a library started is checked too.
  static void look() {
    if (waits_always() && current_capture() == nullptr) check(cudaStreamSynchronize(call().stream), "what it started");
  }
  template <class... A>
  static void begin(A&... args) {
    bool begun = false;
    const auto start = [&](const TensorImpl& x, bool) {
      if (x.storage == nullptr) return;  // a geometry without elements
      if (!begun) begin_call(op_name<name>(args...), x.device().index);
      begun = true;
    };
    const auto use = [](const TensorImpl& x, bool written) {
      if (x.storage == nullptr) return;
      if (x.device().kind == DeviceKind::cpu) fail_on_host(x);
      if (written) writes(const_cast<TensorImpl&>(x));
      else reads(x);
    };
    (each_operand(args, start), ...);
    (each_operand(args, use), ...);
  }
};
template <auto kernel, Name name, class Timing = DeviceTiming>
inline constexpr auto on_device = &OnDevice<kernel, name, Timing>::run;

}  // namespace capstan::on_cuda
