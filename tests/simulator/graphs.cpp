// Graphs of the simulated runtime: the work that a stream was given while it was captured, in the order it came.
#include <cstdint>

#include "tests/simulator/queue.hpp"
#include "tests/simulator/runtime.hpp"

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(simulated::big_lock());
  if (stream == nullptr || stream->capture != nullptr) return cudaErrorIllegalState;
  stream->capture = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(simulated::big_lock());
  *status = simulated::resolve(stream).capture != nullptr ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(simulated::big_lock());
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  *graph = stream->capture;
  for (CUstream_st* other : simulated::all_streams())
    if (other->capture == *graph) other->capture = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, std::size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::lock_guard lock(simulated::big_lock());
  simulated::run_everything();
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(simulated::big_lock());
  simulated::enqueue(stream, [executable] {
    for (const auto& work : executable->work) work();
  });
  return cudaSuccess;
}
