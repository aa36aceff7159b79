#include "lib/base/processor.hpp"

#if CAPSTAN_SIMD_X86
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace capstan::base {

bool may_use_tiles() noexcept {
#if CAPSTAN_SIMD_X86 && defined(__linux__)
  constexpr unsigned kBfloat16 = 1u << 22, kTiles = 1u << 24, kExtendedState = 1u << 27;
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned unused = 0, features = 0;
  if (__get_cpuid(1, &unused, &unused, &features, &unused) == 0 || (features & kExtendedState) == 0) return false;
  if (__get_cpuid_count(7, 0, &unused, &unused, &unused, &features) == 0) return false;
  if ((features & kBfloat16) == 0 || (features & kTiles) == 0) return false;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

bool has_whole_cores() noexcept {
#if CAPSTAN_SIMD_X86
  constexpr unsigned kHypervisor = 1u << 31, kTopology = 0xb, kThreads = 0xffff;
  unsigned unused = 0, features = 0, threads = 0;
  if (__get_cpuid(1, &unused, &unused, &features, &unused) == 0 || (features & kHypervisor) == 0) return true;
  // the first level is that of a core's threads
  if (__get_cpuid_count(kTopology, 0, &unused, &threads, &unused, &unused) == 0) return true;
  return (threads & kThreads) != 1;
#else
  return true;
#endif
}

}  // namespace capstan::base
