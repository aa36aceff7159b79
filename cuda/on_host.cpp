#include "cuda/on_host.hpp"

#include <mutex>
#include <unordered_map>

#include "cuda/backend.hpp"
#include "cuda/transfer.hpp"

namespace capstan::on_cuda {
namespace {

/// "svd on the host", kept for as long as the program runs.
const char* host_name(const char* op) {
  static std::mutex mutex;
  static auto* const names = new std::unordered_map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  std::string& name = (*names)[op];
  if (name.empty()) name = std::string(op) + " on the host";
  return name.c_str();
}

}  // namespace

Tensor& HostCopies::copy_of(const TensorImpl& x, bool filled) {
  const Call now = call();
  Tensor host = core::make_workspace(x.shape, x.dtype, cpu(), now.where);
  if (filled) {
    Tensor dense;
    const TensorImpl* from = &x;
    if (!x.contiguous) {
      dense = core::make_workspace(x.shape, x.dtype, x.device(), now.where);
      on_cuda::copy(x, *dense.impl());
      from = dense.impl();
    }
    to_host(*from, *host.impl());
  }
  copies_.push_back(std::move(host));
  return copies_.back();
}

TensorImpl& HostCopies::write(TensorImpl& x) {
  TensorImpl& host = *copy_of(x, true).impl();
  written_.push_back({&x, copies_.size() - 1});
  return host;
}

void HostCopies::finish() const {
  for (const Written& each : written_) {
    const TensorImpl& host = *copies_[each.copy].impl();
    if (each.target->contiguous) {
      to_device(host, *each.target);
      continue;
    }
    const Tensor dense = core::make_workspace(host.shape, host.dtype, each.target->device(), call().where);
    to_device(host, *dense.impl());
    on_cuda::copy(*dense.impl(), *each.target);
  }
}

void fail_without_kernel() {
  base::fail<BackendError>(call().where, call().op,
                           ": it is computed on the host, and this build has no LAPACK; install "
                           "libopenblas-pthread-dev and configure again.");
}

void note_on_host(const HostCopies& copies) {
  if (core::observed()) core::note_made(host_name(call().op), copies.first(), call().where);
}

}  // namespace capstan::on_cuda
