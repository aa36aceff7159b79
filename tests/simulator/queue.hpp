#pragma once
// What the handles of the simulated runtime stand for.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace simulated {

inline constexpr int kMostDevices = 4;

/// A place in a stream that an event was recorded at.
struct Mark {
  CUstream_st* stream = nullptr;
  std::uint64_t number = 0;  // of the task that reaches it
  bool reached = false;
  std::chrono::steady_clock::time_point time;
};

std::recursive_mutex& big_lock();
CUstream_st& resolve(cudaStream_t stream);
std::vector<CUstream_st*>& all_streams();
/// Runs the tasks of a stream up to that number.
void run_until(CUstream_st& stream, std::uint64_t number);
void run_everything();

}  // namespace simulated

struct CUgraph_st {
  std::vector<std::function<void()>> work;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> work;
};
struct CUstream_st {
  int device = -1;  // -1: any
  std::deque<std::function<void()>> queue;
  std::uint64_t sent = 0, done = 0;  // tasks
  CUgraph_st* capture = nullptr;
};
struct CUevent_st {
  int device = -1;
  std::shared_ptr<simulated::Mark> mark;
  CUgraph_st* capture = nullptr;
};
