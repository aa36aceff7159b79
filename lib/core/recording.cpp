#include "lib/core/recording.hpp"

#include <algorithm>

#include "lib/base/text.hpp"

namespace capstan::core {

constinit std::atomic<int> recordings{0};

namespace {

constinit thread_local Recording* recording_of_thread = nullptr;

/// Bytes behind the first element, and before it, that a tensor reaches over.
std::int64_t reach(const TensorImpl& x, bool forward) {
  std::int64_t elements = 0;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t step = x.strides[axis] * (x.shape[axis] - 1);
    if ((step > 0) == forward) elements += step;
  }
  return elements * size_of(x.dtype);
}

[[noreturn]] void fail_host_access(const char* op, const Shape& shape, Where where) {
  base::fail<Error>(where, op, ": the values of ", shape,
                    " depend on the inputs of the plan that is being made, or on a state; a network that reads them on "
                    "the host cannot be frozen.");
}

}  // namespace

RecordedOperand::RecordedOperand(const TensorImpl& x, bool is_written)
    : impl(x.shape, x.dtype), storage(x.storage), written(is_written) {
  impl.contiguous = x.contiguous;
  impl.data = x.data;
  impl.storage = x.storage;
  std::copy_n(x.strides, x.rank(), impl.strides);
  // of its own memory all counts: positions lead to elements that the geometry does not name
  if (x.storage->block_bytes > 0) {
    first = 0, end = x.storage->block_bytes - kStorageHeader;
    return;
  }
  const std::int64_t offset = x.data - x.storage->data;
  first = offset + (x.numel() == 0 ? 0 : reach(x, false));
  end = x.numel() == 0 ? first : offset + reach(x, true) + size_of(x.dtype);
}

Recording* Recording::current() noexcept { return recording_of_thread; }

Recording::~Recording() {
  for (const Written& w : written_) {
    std::copy(w.before.begin(), w.before.end(), w.storage->data);
    w.storage->version.store(w.version);
    w.storage->last_write.store(w.last_write);
  }
  for (const Storage* storage : kept_) release(const_cast<Storage*>(storage));
}

void Recording::keep(Storage* storage) {
  if (kept_.insert(storage).second) retain(storage);
}

void Recording::will_change(Storage* storage) {
  keep(storage);
  changing_.insert(storage);
}

void Recording::about_to(RecordedCall& call) {
  for (const RecordedOperand& x : call.operands) {
    if (x.storage->device.kind != DeviceKind::cpu)
      base::fail<DeviceError>(where_, "freeze: an operand ", x.impl.shape, " is on ", x.storage->device,
                              "; plans run on the CPU. Move the network there first.");
    keep(x.storage);
    if (!x.written || is_own(x.storage) || changes(x.storage)) continue;
    if (x.storage->block_bytes == 0)
      base::fail<Error>(where_, "freeze: the network writes to a tensor ", x.impl.shape,
                        " over memory that Capstan does not own; a plan cannot keep a state there.");
    const std::byte* const data = x.storage->data;
    written_.push_back({x.storage,
                        x.storage->version.load(),
                        x.storage->last_write.load(),
                        {data, data + x.storage->block_bytes - kStorageHeader}});
    changing_.insert(x.storage);
  }
}

void Recording::add(std::unique_ptr<RecordedCall> call) {
  const auto changing = [this](const RecordedOperand& x) { return changes(x.storage); };
  if (std::any_of(call->operands.begin(), call->operands.end(), changing))
    for (const RecordedOperand& x : call->operands)
      if (x.written) changing_.insert(x.storage);
  call->where = where_;
  calls_.push_back(std::move(call));
}

void Recording::host_reads(const char* op, const TensorImpl& x, Where where) {
  if (changes(x.storage)) fail_host_access(op, x.shape, where);
  keep(x.storage);  // no other may take its address
  host_reads_.push_back({op, x.shape, x.storage, where});
}

void Recording::host_wrote(const TensorImpl& x) {
  if (!is_own(x.storage)) return;  // a constant of the program's
  const Tensor values = make_tensor(x.shape, x.dtype, x.device(), where_);
  cpu_backend().copy(x, *values.impl());
  recording_backend().copy(*values.impl(), const_cast<TensorImpl&>(x));
}

/// One pass over the calls; true if something was found to change that was not known to.
bool Recording::spread() {
  const std::size_t before = changing_.size();
  std::unordered_set<const Storage*> read;  // by calls that are repeated
  for (const auto& call : calls_) {
    bool repeated = false;
    for (const RecordedOperand& x : call->operands) repeated = repeated || changes(x.storage);
    for (const RecordedOperand& x : call->operands) {
      // what is written after it was read is not the same at the beginning of the next run
      if (x.written && (repeated || read.contains(x.storage))) changing_.insert(x.storage);
      if (repeated) read.insert(x.storage);
    }
  }
  return changing_.size() > before;
}

std::vector<std::unique_ptr<RecordedCall>> Recording::finish() {
  while (spread()) {}
  for (const HostRead& read : host_reads_)
    if (changes(read.storage)) fail_host_access(read.op, read.shape, read.where);
  std::erase_if(calls_, [this](const std::unique_ptr<RecordedCall>& call) {
    const auto is_written = [](const RecordedOperand& x) { return x.written; };
    const bool checks = std::none_of(call->operands.begin(), call->operands.end(), is_written);  // indices
    return std::none_of(call->operands.begin(), call->operands.end(),
                        [&](const RecordedOperand& x) { return (checks || x.written) && changes(x.storage); });
  });
  return std::move(calls_);
}

RecordingScope::RecordingScope(Recording& recording, Where where) {
  if (recording_of_thread != nullptr)
    base::fail<Error>(where,
                      "freeze: this thread is making a plan already; a network cannot make one while it is frozen.");
  recording.begins(where);
  recording_of_thread = &recording;
  recordings.fetch_add(1, std::memory_order_relaxed);
}
RecordingScope::~RecordingScope() {
  recordings.fetch_sub(1, std::memory_order_relaxed);
  recording_of_thread = nullptr;
}

}  // namespace capstan::core
