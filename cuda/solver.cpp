#include "cuda/solver.hpp"

#include "cuda/handles.hpp"

namespace capstan::on_cuda {
namespace {

const char* name_of(cusolverStatus_t status) {
  switch (status) {
    case CUSOLVER_STATUS_NOT_INITIALIZED: return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_ALLOC_FAILED: return "CUSOLVER_STATUS_ALLOC_FAILED";
    case CUSOLVER_STATUS_INVALID_VALUE: return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH: return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED: return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR: return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_NOT_SUPPORTED: return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default: return nullptr;
  }
}

}  // namespace

void check(cusolverStatus_t status, const char* what) {
  if (status == CUSOLVER_STATUS_SUCCESS) return;
  const Call& now = call();
  const char* name = name_of(status);
  base::fail<BackendError>(now.where, now.op, " on cuda:", now.device, ": ", what, " failed: ",
                           name != nullptr ? name : base::join("status ", static_cast<int>(status)).c_str(), ".");
}

cusolverDnHandle_t solver() {
  thread_local ThreadHandles<cusolverDnHandle_t> handles;
  const Call& now = call();
  cusolverDnHandle_t& handle = handles[now.device];
  if (handle == nullptr) check(with_room([&] { return cusolverDnCreate(&handle); }), "starting cuSOLVER");
  check(cusolverDnSetStream(handle, now.stream), "choosing the stream of cuSOLVER");
  return handle;
}

}  // namespace capstan::on_cuda
