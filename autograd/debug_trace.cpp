// A line for every operation as it runs.
#include <capstan/debug.hpp>

#include <mutex>
#include <ostream>
#include <string>

#include "autograd/debug_text.hpp"
#include "lib/base/text.hpp"
#include "lib/core/observe.hpp"

namespace capstan {
namespace autograd {
namespace {

/// "float32 cpu" of the first tensor there is.
std::string type_text(const core::Operation& operation) {
  for (const auto& tensors : {operation.outputs, operation.inputs})
    for (const Tensor* tensor : tensors)
      if (const TensorImpl* impl = tensor->impl(); impl != nullptr) return base::join(impl->dtype, " ", impl->device());
  return "nothing";
}

std::string line_of(const core::Event& event) {
  const core::Operation& operation = event.operation;
  const std::string time = microseconds_text(event.own);
  std::string line = base::join(operation.backward ? "backward " : "", operation.op, "  ", shapes_text(operation), "  ",
                                type_text(operation), "  ", time.substr(0, time.size() - 2), " us  ",
                                base::to_string(operation.where));
  if (event.inside != nullptr) line += base::join("  in the gradient of ", event.inside);
  return line + "\n";
}

class Tracer final : public core::Watcher {
 public:
  void see(const core::Event& event) override {
    const std::string line = line_of(event);
    const std::lock_guard lock(mutex_);
    if (out_ == nullptr) return;
    if (first_thread_ == 0) first_thread_ = event.thread;
    if (event.thread != first_thread_) several_threads_ = true;
    const std::string prefix = several_threads_ ? base::join("thread ", event.thread, "  ") : "";
    *out_ << prefix + line << std::flush;  // what ran before a crash is to be seen
  }

  void write_to(std::ostream* out) {
    const std::lock_guard lock(mutex_);
    out_ = out;
    first_thread_ = 0;
    several_threads_ = false;
  }

 private:
  std::mutex mutex_;
  std::ostream* out_ = nullptr;
  int first_thread_ = 0;
  bool several_threads_ = false;
};

struct Tracing {
  std::mutex mutex;  // of starting and stopping; never taken while an operation is told of
  Tracer tracer;
  bool on = false;
};

Tracing& tracing() {
  static auto* const instance = new Tracing;  // never destroyed: operations run until the end
  return *instance;
}

}  // namespace
}  // namespace autograd

namespace debug {

void trace(std::ostream& out) {
  autograd::Tracing& state = autograd::tracing();
  const std::lock_guard lock(state.mutex);
  state.tracer.write_to(&out);
  if (!state.on) core::add_watcher(state.tracer);
  state.on = true;
}

void stop_trace() {
  autograd::Tracing& state = autograd::tracing();
  const std::lock_guard lock(state.mutex);
  if (state.on) core::remove_watcher(state.tracer);
  state.on = false;
  state.tracer.write_to(nullptr);
}

}  // namespace debug
}  // namespace capstan
