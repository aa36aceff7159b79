#pragma once
// Work that is done while the program goes on.
#include <exception>
#include <functional>
#include <thread>

namespace capstan::io {

/// One task at a time, on a thread that exists only as long as the task. Used from one thread.
class BackgroundTask {
 public:
  BackgroundTask() = default;
  ~BackgroundTask() { join(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// Behind `finish`. Where no thread can be had, the task is done at once.
  void start(std::function<void()> task);
  /// Waits for the end of the task.
  void join() noexcept;
  /// The same, and throws what the task has thrown, once.
  void finish();

 private:
  std::thread thread_;
  std::exception_ptr error_;
};

}  // namespace capstan::io
