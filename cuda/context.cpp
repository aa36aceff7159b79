#include "cuda/context.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda/capture.hpp"
#include "cuda/devices.hpp"
#include "cuda/handles.hpp"
#include "cuda/mailbox.hpp"

namespace capstan::on_cuda {
namespace {

constinit std::atomic<bool> tf32{false};

const char* name_of(cublasStatus_t status) {
  const char* name = cublasGetStatusName(status);
  return name != nullptr ? name : "unknown";
}

}  // namespace

Call& call() noexcept {
  thread_local Call now;
  return now;
}

void call_from(Where where, const char* op) noexcept {
  call().where = where;
  call().announced = op;
}

void begin_call(const char* op, int index) {
  Call& now = call();
  now.op = now.announced != nullptr ? std::exchange(now.announced, nullptr) : op;
  now.device = index;
  if (Capture* capture = current_capture(); capture != nullptr && capture_on(index) == nullptr)
    capture->runs_elsewhere();
  if (Capture* capture = replaying_capture()) capture->computes_again();
  use_device(index);
  now.id = current_stream(index);
  now.stream = device(index).stream(now.id);
}

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // it has been reported
  const Call& now = call();
  base::fail<BackendError>(now.where, now.op, " on cuda:", now.device, ": ", what,
                           " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ").");
}

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const Call& now = call();
  base::fail<BackendError>(now.where, now.op, " on cuda:", now.device, ": ", what, " failed: ", name_of(status), ".");
}

bool made_room(cudaError_t status) {
  if (status != cudaErrorMemoryAllocation) return false;
  cudaGetLastError();
  device(call().device).allocator().release();
  return true;
}

void check_launch(cudaError_t status, dim3 blocks, dim3 threads) {
  const bool waiting = waits_always() && capture_on(call().device) == nullptr;
  if (status == cudaSuccess && waiting) status = cudaStreamSynchronize(call().stream);
  if (status == cudaSuccess) return;
  const auto text = [](dim3 size) {
    std::string all = std::to_string(size.x);
    if (size.y > 1 || size.z > 1) all += " x " + std::to_string(size.y);
    if (size.z > 1) all += " x " + std::to_string(size.z);
    return all;
  };
  check(status, base::join("a launch of ", text(blocks), " blocks of ", text(threads), " threads").c_str());
}

bool waits_always() noexcept {
  static const bool on = [] {
    const char* asked = std::getenv("CAPSTAN_CUDA_SYNC");
    return asked != nullptr && std::strcmp(asked, "0") != 0 && *asked != '\0';
  }();
  return on;
}

bool tf32_allowed() noexcept { return tf32.load(std::memory_order_relaxed); }
void allow_tf32(bool on) noexcept { tf32.store(on, std::memory_order_relaxed); }

Tensor workspace(std::int64_t count, DType dtype) {
  const Call& now = call();
  return core::make_workspace(Shape({count}), dtype, cuda(now.device), now.where);
}

Tensor upload(std::span<const std::int64_t> values) {
  const Call& now = call();
  Tensor made = workspace(static_cast<std::int64_t>(values.size()), DType::int64);
  const void* from = values.data();
  if (Capture* capture = capture_on(now.device)) from = capture->keep(from, values.size_bytes());
  if (!values.empty())
    check(cudaMemcpyAsync(made.impl()->data, from, values.size_bytes(), cudaMemcpyHostToDevice, now.stream),
          "a copy to the device");
  return made;
}

void read_back(const void* from, void* host, std::size_t bytes) {
  const Call& now = call();
  if (Capture* capture = capture_on(now.device)) capture->host_reads();
  if (bytes > 0) check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, now.stream), "a copy to the host");
  wait();
}

void wait() {
  const Call& now = call();
  if (Capture* capture = capture_on(now.device)) capture->host_reads();
  check(cudaStreamSynchronize(now.stream), "waiting for the stream");
  throw_reports(now.device);
}

cublasHandle_t blas() {
  thread_local ThreadHandles<cublasHandle_t> handles;
  const Call& now = call();
  cublasHandle_t& handle = handles[now.device];
  if (handle == nullptr) {
    check(with_room([&] { return cublasCreate(&handle); }), "starting cuBLAS");
    // sums of 16-bit products stay in float32 however the work is split
    const int mode = CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    check(cublasSetMathMode(handle, static_cast<cublasMath_t>(mode)), "setting up cuBLAS");
  }
  check(cublasSetStream(handle, now.stream), "choosing the stream of cuBLAS");  // which also takes its own workspace
  if (Capture* capture = capture_on(now.device)) {
    const std::span<std::byte> room = capture->blas_room();
    check(cublasSetWorkspace(handle, room.data(), room.size()), "giving cuBLAS its workspace");
  }
  return handle;
}

}  // namespace capstan::on_cuda
