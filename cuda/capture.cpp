#include "cuda/capture.hpp"

#include <cstring>

#include "cuda/context.hpp"
#include "cuda/handles.hpp"
#include "cuda/mailbox.hpp"
#include "cuda/storage.hpp"

namespace capstan::on_cuda {
namespace {

constinit thread_local Capture* recording = nullptr;
constinit thread_local int recording_device = -1;
constinit thread_local Capture* in_host_part = nullptr;

constexpr std::uint64_t bit_of(StreamId stream) noexcept { return std::uint64_t{1} << stream; }

}  // namespace

Capture* capture_on(int device) noexcept { return device == recording_device ? recording : nullptr; }
Capture* current_capture() noexcept { return recording; }
Capture* replaying_capture() noexcept { return in_host_part; }

// --- numbers ---

ReplayNumbers::ReplayNumbers(int index)
    : device_(index),
      memory_(
          core::make_workspace(Shape({static_cast<std::int64_t>(kBytes)}), DType::uint8, cuda(index), call().where)),
      image_(kBytes) {
  try {
    for (Staged& each : staged_) {
      void* memory = nullptr;
      check(cudaHostAlloc(&memory, kBytes, cudaHostAllocPortable), "allocating pinned memory");
      each.memory = static_cast<std::byte*>(memory);
      each.sent = device(index).borrow_event();
    }
  } catch (...) {
    drop_staged();
    throw;
  }
}

ReplayNumbers::~ReplayNumbers() { drop_staged(); }

void ReplayNumbers::drop_staged() noexcept {
  for (const Staged& each : staged_) {
    if (each.sent != nullptr) {
      cudaEventSynchronize(each.sent);
      device(device_).return_event(each.sent);
    }
    if (each.memory != nullptr) cudaFreeHost(each.memory);
  }
}

std::size_t ReplayNumbers::reserve(std::size_t bytes) {
  const std::size_t offset = used_;
  used_ += (bytes + 15) / 16 * 16;
  if (used_ > kBytes)
    base::fail<Error>(call().where, call().op, ": a captured step has more parameters and generators than fit ", kBytes,
                      " bytes of numbers.");
  return offset;
}

void ReplayNumbers::send() {
  if (used_ == 0) return;
  Staged& place = staged_[next_];
  next_ = (next_ + 1) % kCopies;
  check(cudaEventSynchronize(place.sent), "waiting for an event");
  std::memcpy(place.memory, image_.data(), used_);
  check(cudaMemcpyAsync(memory_.impl()->data, place.memory, used_, cudaMemcpyHostToDevice, call().stream), "a copy");
  check(cudaEventRecord(place.sent, call().stream), "recording an event");
}

// --- recording ---

Capture::Capture(int index)
    : device_(index), last_(current_stream(index)), pools_(std::make_unique<Pools>()), numbers_(index) {}

Capture::~Capture() {
  if (recording_) abandon();
  choose_device(device_);
  if (executable_ != nullptr) {
    cudaStreamSynchronize(device(device_).stream(last_));
    cudaGraphExecDestroy(executable_);
  }
  if (graph_ != nullptr) cudaGraphDestroy(graph_);
  results_.clear();
  blas_room_ = Tensor();
  for (const auto& used : used_) core::release(used.first);
  forget_tickets(tickets_);
  device(device_).allocator().retire(std::move(pools_));
}

void Capture::begin() {
  GpuDevice& gpu = device(device_);
  blas();  // what is made at first use is made before
  gpu.synchronize();
  throw_reports(device_);
  stream_ = gpu.open_stream(StreamUse::recording);
  const cudaError_t begun = cudaStreamBeginCapture(gpu.stream(stream_), cudaStreamCaptureModeRelaxed);
  if (begun != cudaSuccess) gpu.close_stream(stream_);
  check(begun, "capturing");
  before_ = current_stream(device_);
  set_current_stream(device_, stream_);
  recording = this;
  recording_device = device_;
  recording_ = true;
}

void Capture::stop_recording() noexcept {
  recording = nullptr;
  recording_device = -1;
  recording_ = false;
  set_current_stream(device_, before_);
  cudaStreamEndCapture(device(device_).stream(stream_), &graph_);
  cudaGetLastError();
  device(device_).close_stream(stream_);
}

void Capture::end(const Tensor* results, std::size_t count, Where where) {
  for (std::size_t i = 0; i < count; ++i)  // elements of row slices are made in each replay
    if (results[i].defined()) core::defined("capture", results[i], where);
  stop_recording();
  begin_call("capture", device_);
  if (graph_ == nullptr)
    base::fail<Error>(where,
                      "capture: the step did something that a CUDA graph cannot hold: a library that waits for the "
                      "GPU, or work on a stream that does not come back to the step's.");
  check_what_is_held(results, count, where);
  check(cudaGraphGetNodes(graph_, nullptr, &nodes_), "counting the nodes of a graph");
  check(with_room([&] { return cudaGraphInstantiate(&executable_, graph_, 0); }), "instantiating a graph");
  // now, so that the first replay asks for no more memory
  check(with_room([&] { return cudaGraphUpload(executable_, call().stream); }), "uploading a graph");
  for (std::size_t i = 0; i < count; ++i)
    if (results[i].defined() && results[i].impl()->device() == cuda(device_)) results_.push_back(results[i]);
  for (Followed& each : followed_) each.count = each.rng->position() - each.first.position;
  made_.clear();
}

void Capture::check_what_is_held(const Tensor* results, std::size_t count, Where where) const {
  for (const auto& [storage, made_at] : made_) {
    bool result = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!results[i].defined() || !(results[i].impl()->device() == cuda(device_))) continue;
      const TensorImpl& x = *results[i].impl();
      result = result || x.storage == storage || &gpu_storage(x) == storage;
    }
    if (!result)
      base::fail<Error>(where, "capture: ", storage->block->bytes, " bytes made at ", base::to_string(made_at),
                        " are still held after the step and are not among its results; a replay would not make them "
                        "again. Assign to a tensor that was there before, as in state.assign(next).");
  }
}

void Capture::abandon() noexcept {
  if (recording_) stop_recording();
  try {
    for (auto part = host_parts_.rbegin(); part != host_parts_.rend(); ++part)  // the last step first
      if (part->undo) part->undo();
    for (const Followed& each : followed_) each.rng->set_position(each.first.position);
  } catch (...) {  // what undoes only counts back
  }
  host_parts_.clear();
  followed_.clear();
  made_.clear();
}

void Capture::made(GpuStorage& storage, Where where) { made_[&storage] = where; }
void Capture::gone(GpuStorage& storage) noexcept { made_.erase(&storage); }

void Capture::uses(GpuStorage& storage, bool writes) {
  if (made_.contains(&storage)) return;
  const auto [place, added] = used_.try_emplace(&storage, writes);
  if (added) core::retain(&storage);
  else place->second = place->second || writes;
}

const void* Capture::keep(const void* bytes, std::size_t count) {
  constexpr std::size_t kChunk = 64 << 10;
  const std::size_t size = (count + 15) / 16 * 16;
  if (kept_.empty() || size > kept_room_) {
    const std::size_t chunk = size > kChunk ? size : kChunk;
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, chunk, cudaHostAllocPortable), "allocating pinned memory");
    kept_next_ = static_cast<std::byte*>(memory);
    kept_room_ = chunk;
    kept_.emplace_back(kept_next_);
  }
  std::byte* const kept = kept_next_;
  if (count > 0) std::memcpy(kept, bytes, count);
  kept_next_ += size;
  kept_room_ -= size;
  return kept;
}

std::span<std::byte> Capture::blas_room() {
  if (!blas_room_.defined()) {
    int major = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device_), "asking about the device");
    const std::int64_t bytes = std::int64_t{major >= 9 ? 32 : 4} << 20;
    blas_room_ = core::make_workspace(Shape({bytes}), DType::uint8, cuda(device_), call().where);
    gone(gpu_storage(*blas_room_.impl()));  // the step holds it and not the function
  }
  return {blas_room_.impl()->data, static_cast<std::size_t>(blas_room_.numel())};
}

void Capture::host_reads() {
  base::fail<Error>(call().where, "capture: ", call().op,
                    " reads values on the host; a captured step cannot wait for them. Return the tensor from the step "
                    "and read it outside.");
}

void Capture::runs_elsewhere() {
  base::fail<Error>(call().where, "capture: ", call().op, " runs on cuda:", call().device,
                    ", which a replay would not repeat: the step is captured on cuda:", device_, ".");
}

void Capture::computes_again() {
  base::fail<Error>(call().where, "captured step: ", call().op,
                    " computes on the GPU before a replay, in what the host does for it; only optimizers whose steps "
                    "are fused (apply_updates) can be captured, with the states that they had.");
}

// --- what the host does at replays ---

const std::uint64_t* Capture::follow(Rng& rng) {
  for (const Followed& each : followed_)
    if (each.rng == &rng) return reinterpret_cast<const std::uint64_t*>(numbers_.on_device(each.offset));
  const std::size_t offset = numbers_.reserve(sizeof(std::uint64_t));
  followed_.push_back({&rng, rng.state(), 0, offset});
  return reinterpret_cast<const std::uint64_t*>(numbers_.on_device(offset));
}

const UpdateNumbers* Capture::numbers(const UpdateNumbers& now, bool as_before, std::uint64_t change) {
  // equal numbers share a place, so that one launch serves all parameters of a group
  const bool again = as_before && !number_places_.empty() &&
                     std::memcmp(numbers_.at(number_places_.back().offset), &now, sizeof now) == 0;
  const std::size_t offset = again ? number_places_.back().offset : numbers_.reserve(sizeof now);
  std::memcpy(numbers_.at(offset), &now, sizeof now);
  number_places_.push_back({offset, change});
  return reinterpret_cast<const UpdateNumbers*>(numbers_.on_device(offset));
}

void Capture::replace_numbers(const UpdateNumbers& now, std::uint64_t change) {
  const std::size_t k = next_number_++;
  if (k >= number_places_.size())
    base::fail<Error>(call().where, "captured step: the optimizer changes more parameters than when it was captured.");
  if (number_places_[k].change != change)
    base::fail<Error>(call().where, "captured step: parameter ", k,
                      ", its states or its rule are others than when the "
                      "step was captured; capture it anew.");
  std::byte* place = numbers_.at(number_places_[k].offset);
  if (k > 0 && number_places_[k - 1].offset == number_places_[k].offset && std::memcmp(place, &now, sizeof now) != 0)
    base::fail<Error>(call().where, "captured step: parameter ", k,
                      " takes other numbers than the one before it, and took "
                      "the same when the step was captured; capture it anew.");
  std::memcpy(place, &now, sizeof now);
}

void Capture::at_replay(Callback<void()> again, Callback<void()> undo) {
  host_parts_.push_back({std::move(again), std::move(undo)});
}

void Capture::run_host_part(Where where) {
  for (const Followed& each : followed_) {  // before anything has counted
    const RngState now = each.rng->state();
    if (now.seed != each.first.seed || now.stream != each.first.stream)
      base::fail<Error>(where, "captured step: a generator has seed ", now.seed, " and stream ", now.stream,
                        ", and had ", each.first.seed, " and ", each.first.stream,
                        " when the step was captured; capture it anew.");
  }
  next_number_ = 0;
  in_host_part = this;
  try {
    for (const HostPart& part : host_parts_)
      if (part.again) part.again();
  } catch (...) {
    in_host_part = nullptr;
    throw;
  }
  in_host_part = nullptr;
  for (Followed& each : followed_) {
    const std::uint64_t advance = each.rng->position() - each.first.position;
    std::memcpy(numbers_.at(each.offset), &advance, sizeof advance);
    each.rng->set_position(each.rng->position() + each.count);
  }
}

/// A replay runs behind whoever has used its tensors, and whoever uses them next behind it.
void Capture::wait_for_others(Where where) {
  const StreamId now = call().id;
  std::uint64_t others = bit_of(last_);
  last_ = now;
  const auto meet = [&](GpuStorage& storage, bool writes) {
    const StreamId writer = storage.writer.load(std::memory_order_relaxed);
    others |= bit_of(writer);
    if (!writes) {
      if (writer != now) storage.readers.fetch_or(bit_of(now), std::memory_order_relaxed);
      return;
    }
    others |= storage.readers.exchange(0, std::memory_order_relaxed);
    storage.writer.store(now, std::memory_order_relaxed);
    storage.version.fetch_add(1, std::memory_order_relaxed);  // as note_write does
    storage.last_write.store(where, std::memory_order_relaxed);
  };
  for (const auto& [storage, writes] : used_) meet(*storage, writes);
  for (const Tensor& result : results_) meet(gpu_storage(*result.impl()), true);
  others &= ~bit_of(now);
  for (StreamId other = 0; others != 0; ++other, others >>= 1)
    if ((others & 1) != 0) device(device_).order(other, now);
}

void Capture::replay(Where where) {
  if (recording != nullptr)
    base::fail<Error>(where,
                      "captured step: this thread captures another step, which cannot hold a replay; call the "
                      "function itself there.");
  call_from(where);
  begin_call("captured step", device_);
  if (replayed_) run_host_part(where);  // recording it has done that for the first time
  wait_for_others(where);
  numbers_.send();
  check(cudaGraphLaunch(executable_, call().stream), "launching a graph");
  replayed_ = true;
  if (waits_always()) wait();
}

}  // namespace capstan::on_cuda
