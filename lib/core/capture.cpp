#include <capstan/capture.hpp>

#include "lib/base/text.hpp"
#include "lib/core/backend.hpp"
#include "lib/core/device_runtime.hpp"

namespace capstan::detail {

CapturedStep::CapturedStep(Device device, Where where) : device_(device) {
  if (device.kind == DeviceKind::cuda && !cuda_available()) device_ = cpu();
  core::require_device("capture", device_, where);
}

CapturedStep::~CapturedStep() {
  if (step_ != nullptr) core::cuda_runtime()->drop_capture(step_);
}

Tensor CapturedStep::here(const Tensor& x, Where where) const {
  core::described("captured step", x, where);
  return device_ == cpu() ? x : x.to(device_, where);
}

void CapturedStep::has_run() noexcept {
  if (device_.kind == DeviceKind::cuda) next_ = Next::capture;
}

std::vector<Tensor> CapturedStep::take_inputs(const Tensor* const* inputs, std::size_t count, Where where) {
  if (next_ == Next::capture) {
    inputs_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const TensorImpl& x = core::defined("captured step", *inputs[i], where);
      inputs_.push_back(core::make_tensor(x.shape, x.dtype, device_, where));
    }
  }
  if (count != inputs_.size())
    base::fail<ShapeError>(where, "captured step: there are ", count, " inputs and were ", inputs_.size(),
                           " when the step was captured; their number must stay.");
  for (std::size_t i = 0; i < count; ++i) {
    const TensorImpl& x = core::defined("captured step", *inputs[i], where);
    const TensorImpl& own = *inputs_[i].impl();
    if (x.shape != own.shape)
      base::fail<ShapeError>(where, "captured step: input ", i, " is ", x.shape, " and was ", own.shape,
                             " when the step was captured; shapes must stay. Capture another one for this shape.");
    if (x.dtype != own.dtype)
      base::fail<DTypeError>(where, "captured step: input ", i, " is ", x.dtype, " and was ", own.dtype,
                             " when the step was captured; types must stay.");
  }
  const core::DeviceRuntime& gpu = *core::cuda_runtime();
  for (std::size_t i = 0; i < count; ++i) {
    const TensorImpl& x = *inputs[i]->impl();
    TensorImpl& own = *inputs_[i].impl();
    if (x.device() == device_) {
      core::backend_of(device_, where).copy(x, own);
      continue;
    }
    const Tensor dense = inputs[i]->contiguous(where);
    gpu.transfer(*dense.impl(), own, where);
  }
  return inputs_;
}

void CapturedStep::begin(Where where) { step_ = core::cuda_runtime()->begin_capture(device_, where); }

void CapturedStep::end(const std::vector<Tensor>& results, Where where) {
  core::cuda_runtime()->end_capture(step_, results.data(), results.size(), where);
  next_ = Next::replay;
}

void CapturedStep::abandon() noexcept {
  if (step_ == nullptr) return;
  core::cuda_runtime()->abandon_capture(step_);
  core::cuda_runtime()->drop_capture(std::exchange(step_, nullptr));
}

void CapturedStep::replay(Where where) { core::cuda_runtime()->replay(step_, where); }

std::int64_t CapturedStep::kernels() const noexcept {
  return step_ != nullptr ? core::cuda_runtime()->kernels_of(step_) : 0;
}

bool capturing() noexcept { return core::capturing() != nullptr; }
void list_results(std::vector<Tensor>& all, const Tensor& x) { all.push_back(x); }
void list_results(std::vector<Tensor>& all, const std::vector<Tensor>& x) { all.insert(all.end(), x.begin(), x.end()); }

void at_replay(Callback<void()> again, Callback<void()> undo) {
  if (core::Capturing* step = core::capturing()) step->at_replay(std::move(again), std::move(undo));
}

}  // namespace capstan::detail
