#pragma once
// What tensors occupy, and how to bound it and give it back.
#include <concepts>
#include <cstdint>

#include <capstan/device.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace memory {

/// Blocks of 4 KiB to 4 MiB share pages of 2 MiB, of which the system counts what no block lies on, too.
struct Stats {
  std::int64_t in_use = 0;              ///< bytes of blocks that tensors, tapes and temporaries hold now
  std::int64_t cached = 0;              ///< bytes kept for reuse
  std::int64_t reserved = 0;            ///< bytes of blocks from the system: in_use + cached
  std::int64_t peak_reserved = 0;       ///< the most that `reserved` has been since `reset_peak`
  std::int64_t system_allocations = 0;  ///< times that the system was asked for memory, ever
};

/// Figures of one device, over all threads. DeviceError if it is not there.
Stats stats(Device device = cpu(), Where where = Where::current());
/// The most bytes that may be reserved; 0 for no limit, which is the default. Asking for more first gives the cache
/// back and then throws OutOfMemoryError. As the next two: Error for a negative number, DeviceError as above.
void set_limit(Device device, std::int64_t bytes, Where where = Where::current());
/// The same as a share of the device's memory, in (0, 1] (else Error). The host's is the machine's, or the part of it
/// that control groups allow, as those of containers do.
void set_limit_share(Device device, double share, Where where = Where::current());
template <std::floating_point T>
void set_limit(Device device, T share, Where where = Where::current()) {
  set_limit_share(device, static_cast<double>(share), where);
}
/// The most bytes kept for reuse by tensors that are gone; the default is a quarter of that of the machine, or of what
/// control groups allow, on a GPU all of it. The host's system gets the rest in pieces of 16 MiB. Besides, each thread
/// of the host keeps small blocks of its own, at most 11 MiB.
void set_cache_limit(Device device, std::int64_t bytes, Where where = Where::current());
/// Gives all unused memory back to the system: this thread's and the shared cache now, other threads' when they next
/// free a block, or ask for one that their cache does not have. Tensors that share a page of 2 MiB hold all of it until
/// the last one goes, and plans keep their own. On a GPU also the numbers that this thread keeps there, as the 2 of
/// `x * 2`.
void release_cache(Device device = cpu(), Where where = Where::current());
void reset_peak(Device device = cpu(), Where where = Where::current());

}  // namespace memory
}  // namespace capstan
