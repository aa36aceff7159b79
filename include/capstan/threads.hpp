#pragma once
// The thread budget, which all kernels share.
#include <capstan/error.hpp>

namespace capstan CAPSTAN_PUBLIC {

/// The most threads that one operation may use, the calling one included; at least 1 (Error otherwise), at most 1024. 1
/// means that operations start no thread; pipelines with workers or `prefetch`, event files and checkpoints in the
/// background have their own. Results do not depend on it, bit for bit. Also read once, at the first use, from the
/// environment variable CAPSTAN_NUM_THREADS. The default is the number of processors that the thread may then run on
/// (taskset, numactl), or fewer if control groups, a container's for example, allow the time of fewer, rounded up.
/// Threads that Capstan starts block the signals that are sent to the process. A forked child starts its own.
void set_threads(int count, Where where = Where::current());
int threads() noexcept;

}  // namespace capstan
