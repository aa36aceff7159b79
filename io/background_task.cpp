#include "io/background_task.hpp"

#include <system_error>
#include <utility>

#include "lib/base/signals.hpp"

namespace capstan::io {

void BackgroundTask::start(std::function<void()> task) {
  const auto guarded = [this, work = std::move(task)] {
    try {
      work();
    } catch (...) { error_ = std::current_exception(); }
  };
  try {
    const base::NoSignals none;
    thread_ = std::thread(guarded);
    return;
  } catch (const std::system_error&) {}
  guarded();
}

void BackgroundTask::join() noexcept {
  if (thread_.joinable()) thread_.join();
}

void BackgroundTask::finish() {
  join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace capstan::io
