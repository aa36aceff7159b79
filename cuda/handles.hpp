#pragma once
// Handles of libraries, each for one thread at a time.
#include <mutex>
#include <vector>

#include "cuda/context.hpp"
#include "cuda/devices.hpp"

namespace capstan::on_cuda {

/// What a function of the driver or of a library returns, whose memory is the driver's: if it fails the cache, which may
/// have all of it, gives up what nobody uses, and it is called once more. Success is 0 for all of them.
template <class Make>
auto with_room(Make make) {
  auto status = make();
  if (status == decltype(status){}) return status;
  device(call().device).allocator().release();
  cudaGetLastError();
  return make();
}

/// A thread's handles of a library, one for each device. When the thread ends, threads that come later take them over:
/// to make one takes long, and to destroy one waits for the device, which spoils the steps that other threads capture.
template <class Handle>
class ThreadHandles {
 public:
  ThreadHandles() = default;
  ThreadHandles(const ThreadHandles&) = delete;
  ThreadHandles& operator=(const ThreadHandles&) = delete;
  ~ThreadHandles() {
    const std::lock_guard lock(idle().mutex);
    for (int i = 0; i < kMostDevices; ++i)
      if (of_[i] != nullptr) idle().of[i].push_back(of_[i]);
  }
  /// Null if it has to be made.
  Handle& operator[](int device) {
    Handle& own = of_[device];
    if (own == nullptr) own = take(device);
    return own;
  }

 private:
  struct Idle {
    std::mutex mutex;
    std::vector<Handle> of[kMostDevices];
  };
  static Idle& idle() {
    static auto* const instance = new Idle;
    return *instance;
  }
  static Handle take(int device) {
    const std::lock_guard lock(idle().mutex);
    std::vector<Handle>& left = idle().of[device];
    if (left.empty()) return nullptr;
    const Handle handle = left.back();
    left.pop_back();
    return handle;
  }

  Handle of_[kMostDevices] = {};
};

}  // namespace capstan::on_cuda
