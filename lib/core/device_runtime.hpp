#pragma once
// What a device with memory of its own needs besides its Backend table: memory, copies, streams, and steps that are
// captured and replayed. One table, of the CUDA backend; null in builds without it.
#include <cstdint>

#include <capstan/callback.hpp>
#include <capstan/memory.hpp>
#include <capstan/ops/update_rule.hpp>
#include <capstan/random.hpp>

#include "lib/core/tensor_impl.hpp"

namespace capstan::core {

/// What a step that is being captured must do on the host whenever it is replayed: numbers that the host computes, as
/// learning rates and positions of generators, go into memory that kernels read.
class Capturing {
 public:
  /// In the device's memory: how far the generator has gone since the step was captured.
  virtual const std::uint64_t* follow(Rng& rng) = 0;
  /// In the device's memory: these numbers, and at each replay those that `replace_numbers` gives in their place.
  /// `as_before`: they will always be those of the update before, if they are now. `change` stands for the rule and the
  /// tensors that it changes, which must stay.
  virtual const UpdateNumbers* numbers(const UpdateNumbers& now, bool as_before, std::uint64_t change) = 0;
  /// `again` runs on the host before each replay, `undo` if the step cannot be captured after all.
  virtual void at_replay(Callback<void()> again, Callback<void()> undo) = 0;

 protected:
  ~Capturing() = default;
};

struct DeviceRuntime {
  int (*device_count)() noexcept;
  Storage* (*make_storage)(std::int64_t bytes, Device device, Where where);
  void (*destroy_storage)(Storage* storage) noexcept;
  /// CAPSTAN_CUDA_SYNC=1: operations wait for what they have started, and errors come where they happen.
  bool (*waits_always)() noexcept;
  /// An operation called from there begins on this thread; `op`, if not null, is its name.
  void (*call_from)(Where where, const char* op) noexcept;
  /// out = x: contiguous, of one type and shape, on two devices of which one may be the host. Waits if out is the host's.
  void (*transfer)(const TensorImpl& x, TensorImpl& out, Where where);
  /// The same without waiting.
  void (*transfer_later)(const TensorImpl& x, TensorImpl& out, Where where);
  /// A tensor of the host in memory that the device reads by itself.
  Tensor (*make_pinned)(const Shape& shape, DType dtype, Where where);
  bool (*is_pinned)(const TensorImpl& x) noexcept;

  memory::Stats (*stats)(Device device);
  std::int64_t (*total_memory)(Device device);
  void (*set_limit)(Device device, std::int64_t bytes);
  void (*set_cache_limit)(Device device, std::int64_t bytes);
  void (*release_cache)(Device device);
  void (*reset_peak)(Device device);

  // streams by number: 0 is the device's default stream
  int (*open_stream)(Device device, bool high_priority, Where where);
  void (*close_stream)(Device device, int stream) noexcept;
  void* (*native_stream)(Device device, int stream);
  bool (*stream_idle)(Device device, int stream, Where where);
  void (*synchronize_stream)(Device device, int stream, Where where);
  void (*synchronize_device)(Device device, Where where);
  int (*current_stream)(Device device) noexcept;
  void (*set_current_stream)(Device device, int stream, Where where);
  void (*restore_stream)(Device device, int stream) noexcept;
  void* (*make_event)(Device device, Where where);
  void (*drop_event)(Device device, void* event) noexcept;
  void (*record_event)(Device device, void* event, int stream, Where where);
  bool (*event_reached)(void* event, Where where);
  void (*wait_event)(Device device, void* event, Where where);                // the host waits
  void (*stream_waits)(Device device, int stream, void* event, Where where);  // the stream waits
  double (*milliseconds)(void* begin, void* end, Where where);

  void (*allow_tf32)(bool on) noexcept;
  bool (*tf32_allowed)() noexcept;

  // captured steps; `step` is a handle that the caller keeps
  void* (*begin_capture)(Device device, Where where);
  void (*end_capture)(void* step, const Tensor* results, std::size_t count, Where where);  // throws if it cannot be
  void (*abandon_capture)(void* step) noexcept;
  void (*replay)(void* step, Where where);
  std::int64_t (*kernels_of)(void* step) noexcept;
  void (*drop_capture)(void* step) noexcept;
  Capturing* (*capturing)() noexcept;  // the step that this thread captures, or null
  /// While this thread runs what a captured step does on the host: the numbers of its next update. False otherwise.
  bool (*replace_numbers)(const UpdateNumbers& now, std::uint64_t change);
  bool (*replaying)() noexcept;

  /// Looks at a result of an operation later, see debug_numerics.cpp: whether NaN (or infinities) came into it that none
  /// of the inputs had. Says so to whoever waits next.
  void (*watch_numbers)(const char* op, Where where, const TensorImpl& x, const TensorImpl* const* inputs,
                        std::size_t count, bool infinite);
  /// Throws what kernels have reported, once all is done that the current stream has to do.
  void (*throw_reports)(Device device, Where where);
};

/// Null in builds without CUDA.
const DeviceRuntime* cuda_runtime() noexcept;

/// The step that this thread captures, or null.
inline Capturing* capturing() noexcept {
  const DeviceRuntime* runtime = cuda_runtime();
  return runtime != nullptr ? runtime->capturing() : nullptr;
}

}  // namespace capstan::core
