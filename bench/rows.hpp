#pragma once
// How a row is measured: the same for Capstan's programs and LibTorch's, hence C++17.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>

#include "bench/sizes.hpp"

namespace bench {

/// Measures work by the wall clock. `prepare()` makes the inputs and returns the work, a function without arguments.
/// A name may end in "/variant": scripts/bench takes the fastest variant as the row's figure.
template <class Prepare>
void row(const std::string& name, Prepare prepare) {
  benchmark::RegisterBenchmark(name.c_str(), [prepare](benchmark::State& state) {
    auto work = prepare();
    for (int i = 0; i < 3; ++i) work();  // the first calls pay for pages, pools and lazy starts
    for (auto _ : state) work();
  })->UseRealTime();
}

/// name/variant -> name + suffix + /variant
inline std::string with_suffix(const std::string& name, const std::string& suffix) {
  const std::size_t slash = std::min(name.find('/'), name.size());
  return name.substr(0, slash) + suffix + name.substr(slash);
}

/// The rows name_t1 and name_t2: scripts/bench runs them in processes that may use that many threads.
template <class Prepare>
void row_by_threads(const std::string& name, Prepare prepare) {
  for (const char* threads : {"_t1", "_t2"}) row(with_suffix(name, threads), prepare);
}

/// The growth rows of a workload, from one `prepare(sizes)`.
template <class Prepare>
void growth_rows(const std::string& name, const Growing& workload, Prepare prepare) {
  for (const Axis& axis : workload.axes) {
    for (const std::int64_t value : {axis.small, axis.large}) {
      Sizes sizes = workload.base;
      sizes.*axis.size = value;
      row(with_suffix(name, std::string(".") + axis.name + "=" + std::to_string(value)),
          [prepare, sizes] { return prepare(sizes); });
    }
  }
}

/// And the row of the plain name.
template <class Prepare>
void growing_row(const std::string& name, const Growing& workload, Prepare prepare) {
  row(name, [prepare, sizes = workload.base] { return prepare(sizes); });
  growth_rows(name, workload, prepare);
}

/// And the rows by threads.
template <class Prepare>
void growing_rows(const std::string& name, const Growing& workload, Prepare prepare) {
  growing_row(name, workload, prepare);
  row_by_threads(name, [prepare, sizes = workload.base] { return prepare(sizes); });
}

/// The growth rows, and the rows by threads, without one of the plain name.
template <class Prepare>
void growing_by_threads(const std::string& name, const Growing& workload, Prepare prepare) {
  growth_rows(name, workload, prepare);
  row_by_threads(name, [prepare, sizes = workload.base] { return prepare(sizes); });
}

/// Registered by each program for itself; the last three by Capstan's alone.
void op_rows();
void layer_rows();
void recurrent_rows();
void training_rows();
void data_rows();
void realtime_rows();
void stream_rows();

}  // namespace bench
