#include "io/background_task.hpp"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace capstan::io {
namespace {

/// Threads that are started meanwhile take no signals of the program.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t every;
    sigfillset(&every);
    changed_ = pthread_sigmask(SIG_SETMASK, &every, &before_) == 0;
  }
  ~NoSignals() {
    if (changed_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
  bool changed_ = false;
};

}  // namespace

void BackgroundTask::start(std::function<void()> task) {
  const auto guarded = [this, work = std::move(task)] {
    try {
      work();
    } catch (...) { error_ = std::current_exception(); }
  };
  try {
    const NoSignals none;
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
