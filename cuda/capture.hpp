#pragma once
// A step that is recorded as a CUDA graph, and what must be true for it to be replayed.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda/devices.hpp"
#include "lib/core/device_runtime.hpp"

namespace capstan::on_cuda {

struct GpuStorage;

/// Numbers that kernels of a captured step read and the host computes: an image on the host that is copied to the device
/// before each replay.
class ReplayNumbers {
 public:
  explicit ReplayNumbers(int device);
  ~ReplayNumbers();
  /// Room in the image, and where the device finds it. Throws Error when it is full.
  std::size_t reserve(std::size_t bytes);
  std::byte* at(std::size_t offset) noexcept { return image_.data() + offset; }
  const std::byte* on_device(std::size_t offset) const noexcept { return memory_.impl()->data + offset; }
  /// Copies the image on the call's stream; it may be changed right away.
  void send();

 private:
  static constexpr std::size_t kBytes = 256 << 10;
  static constexpr int kCopies = 4;  // in flight
  void drop_staged() noexcept;

  int device_;
  Tensor memory_;
  std::size_t used_ = 0;
  std::vector<std::byte> image_;
  struct Staged {
    std::byte* memory = nullptr;
    cudaEvent_t sent = nullptr;
  } staged_[kCopies];
  int next_ = 0;
};

class Capture final : public core::Capturing {
 public:
  explicit Capture(int device);
  ~Capture();

  /// From here on this thread's operations on the device are recorded and not run.
  void begin();
  /// Ends it. Throws Error if a replay could not do what the step did; `results` may be held beyond it.
  void end(const Tensor* results, std::size_t count, Where where);
  /// Ends it, and undoes on the host what the step has counted.
  void abandon() noexcept;
  void replay(Where where);
  std::int64_t kernels() const noexcept { return static_cast<std::int64_t>(nodes_); }

  // what the step does
  const std::uint64_t* follow(Rng& rng) override;
  const UpdateNumbers* numbers(const UpdateNumbers& now, bool as_before, std::uint64_t change) override;
  void at_replay(Callback<void()> again, Callback<void()> undo) override;
  /// The next update's numbers, in the order of `numbers`. During the host's part of a replay.
  void replace_numbers(const UpdateNumbers& now, std::uint64_t change);

  // what the backend tells while it is recorded
  Pools* pools() noexcept { return pools_.get(); }
  void made(GpuStorage& storage, Where where);
  void gone(GpuStorage& storage) noexcept;
  void uses(GpuStorage& storage, bool writes);
  /// Bytes of the host that a recorded copy reads, kept for as long as the step.
  const void* keep(const void* bytes, std::size_t count);
  /// Workspace for cuBLAS, as large as its own: without it, each product would put an allocation into the graph.
  std::span<std::byte> blas_room();
  void keep_ticket(std::uint64_t number) { tickets_.push_back(number); }
  /// Throws: a step that is captured cannot read values on the host.
  [[noreturn]] void host_reads();
  /// Throws: it runs on one GPU, and the call is on another.
  [[noreturn]] void runs_elsewhere();
  /// Throws: what the host does for a replay must not compute on the GPU, which the recording does.
  [[noreturn]] void computes_again();

 private:
  struct Followed {
    Rng* rng;
    RngState first;       // when the step began
    std::uint64_t count;  // numbers that a step takes
    std::size_t offset;
  };
  void stop_recording() noexcept;
  void check_what_is_held(const Tensor* results, std::size_t count, Where where) const;
  void run_host_part(Where where);
  void wait_for_others(Where where);

  int device_;
  StreamId stream_ = 0, before_ = 0;  // while it is recorded
  StreamId last_;                     // that it was replayed on
  bool recording_ = false, replayed_ = false;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  std::size_t nodes_ = 0;
  std::unique_ptr<Pools> pools_;
  ReplayNumbers numbers_;
  std::vector<Followed> followed_;
  struct Numbered {
    std::size_t offset;
    std::uint64_t change;  // what they are for
  };
  std::vector<Numbered> number_places_;
  std::size_t next_number_ = 0;
  struct HostPart {
    Callback<void()> again, undo;
  };
  std::vector<HostPart> host_parts_;
  std::unordered_map<GpuStorage*, Where> made_;
  std::unordered_map<GpuStorage*, bool> used_;  // true: written
  struct FreeHost {
    void operator()(std::byte* memory) const noexcept { cudaFreeHost(memory); }
  };
  std::vector<std::unique_ptr<std::byte, FreeHost>> kept_;  // pinned memory, of which the last has room left
  std::byte* kept_next_ = nullptr;
  std::size_t kept_room_ = 0;
  Tensor blas_room_;
  std::vector<std::uint64_t> tickets_;
  std::vector<Tensor> results_;
};

/// The step that this thread captures on the device, or null. One load if nobody captures.
Capture* capture_on(int device) noexcept;
Capture* current_capture() noexcept;
/// The step whose host part this thread runs, or null.
Capture* replaying_capture() noexcept;

}  // namespace capstan::on_cuda
