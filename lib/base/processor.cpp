#include "lib/base/processor.hpp"

#include <fstream>
#include <string>

#if CAPSTAN_SIMD_X86
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace capstan::base {
namespace {

/// The first line of a file, empty if there is none.
std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Of one group, whose folder is that, in the files of version 1 or 2 of control groups.
int quota_in(const std::string& folder, bool is_first_version) {
  if (!is_first_version) return processors_of_quota(first_line(folder + "/cpu.max"));
  return processors_of_quota(first_line(folder + "/cpu.cfs_quota_us") + ' ' +
                             first_line(folder + "/cpu.cfs_period_us"));
}

/// Of the group with that path and all that it is in. In a container the path may be the host's, of which nothing is
/// there but the root: that is the container's own group.
int least_quota(const std::string& root, std::string path, bool is_first_version) {
  int least = 0;
  while (true) {
    const int quota = quota_in(root + path, is_first_version);
    if (quota > 0 && (least == 0 || quota < least)) least = quota;
    if (path.empty()) return least;
    const std::size_t slash = path.rfind('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

/// By a line of /proc/self/cgroup: number:controllers:path.
int quota_by_line(const std::string& line) {
  const std::size_t first = line.find(':'), second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return 0;
  const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
  const std::string path = line.substr(second + 1);
  if (controllers == ",,") return least_quota("/sys/fs/cgroup", path, false);
  return controllers.find(",cpu,") == std::string::npos ? 0 : least_quota("/sys/fs/cgroup/cpu", path, true);
}

}  // namespace

int processor_quota() noexcept {
  int least = 0;
  try {
    std::ifstream groups("/proc/self/cgroup");
    for (std::string line; std::getline(groups, line);)
      if (const int quota = quota_by_line(line); quota > 0 && (least == 0 || quota < least)) least = quota;
  } catch (...) {  // no memory for a path: as if there were no limit
  }
  return least;
}

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
