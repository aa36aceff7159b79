#pragma once
// How a row of the GPU benchmarks is measured. No benchmark library: this is built on machines that have none.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "bench/sizes.hpp"

namespace bench {

inline const capstan::Device kDevice = capstan::cuda(0);

/// What work cannot do without: bytes to and from memory, multiplications and additions. 0 where nobody asks.
struct Cost {
  double bytes = 0, flops = 0;
};

struct Options {
  std::regex filter{""};
  double min_time = 0.05;  // seconds that a figure takes at least
  int repeats = 3;
  bool list = false;
};

/// Calls `add_row(name, sizes)` for the base, and for each other value of each axis by a name like "conv5x5.batch=5".
template <class AddRow>
void each_size(const std::string& name, const Growing& workload, AddRow add_row) {
  add_row(name, workload.base);
  for (const Axis& axis : workload.axes)
    for (const std::int64_t value : {axis.small, axis.large}) {
      Sizes sizes = workload.base;
      sizes.*axis.size = value;
      add_row(name + "." + axis.name + "=" + std::to_string(value), sizes);
    }
}

/// Always the same numbers, uniform in [-2, 2).
inline capstan::Tensor values(const capstan::Shape& shape, std::uint64_t seed = 1) {
  capstan::Rng rng(seed);
  return capstan::uniform(shape, -2, 2, rng, {.device = kDevice});
}
/// int64, uniform in [0, high).
inline capstan::Tensor indices(const capstan::Shape& shape, std::int64_t high, std::uint64_t seed = 1) {
  capstan::Rng rng(seed);
  return capstan::randint(0, high, shape, rng, {.dtype = capstan::DType::int64, .device = kDevice});
}
template <class Net>
Net on_gpu(Net net) {
  capstan::nn::move_to(net, kDevice);
  return net;
}

/// Runs rows and prints one line of JSON for each.
class Bench {
 public:
  using Work = std::function<void()>;

  explicit Bench(Options options) : options_(std::move(options)) {}

  /// Measures work by the clock of the host, around many runs and the wait for the GPU. `prepare()` makes the inputs
  /// and returns the work, a function without arguments.
  template <class Prepare>
  void row(const std::string& name, Cost cost, Prepare prepare) {
    print(name, cost, [&] {
      const Work work = prepare_alone(prepare);
      for (int i = 0; i < 4; ++i) work();  // the first runs make states, tables and recordings
      return median(work, name.find('.') == std::string::npos ? options_.min_time : 0.3 * options_.min_time);
    });
  }
  /// Measures how long the host takes to ask for work that the GPU does meanwhile, `calls` times before it waits.
  template <class Prepare>
  void issue_row(const std::string& name, int calls, Prepare prepare) {
    print(name, {}, [&] {
      const Work work = prepare_alone(prepare);
      std::vector<double> figures;
      for (int turn = 0; turn <= options_.repeats; ++turn) {
        capstan::synchronize(kDevice);
        const auto start = Clock::now();
        for (int i = 0; i < calls; ++i) work();
        const double seconds = since(start);
        if (turn > 0) figures.push_back(seconds / calls);
      }
      capstan::synchronize(kDevice);
      return middle(figures);
    });
  }
  bool failed() const { return failed_; }

 private:
  using Clock = std::chrono::steady_clock;
  static double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

  /// Nothing of the rows before is kept on the device, and its peak counts from when the inputs are there.
  template <class Prepare>
  static Work prepare_alone(Prepare prepare) {
    release_memory();
    Work work = prepare();
    release_memory();
    capstan::memory::reset_peak(kDevice);
    return work;
  }
  static void release_memory() {
    capstan::synchronize(kDevice);
    capstan::memory::release_cache(kDevice);
  }

  static double middle(std::vector<double> figures) {
    std::sort(figures.begin(), figures.end());
    return figures[figures.size() / 2];
  }
  static double seconds_of(const Work& work, std::int64_t runs) {
    capstan::synchronize(kDevice);
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < runs; ++i) work();
    capstan::synchronize(kDevice);
    return since(start);
  }
  double median(const Work& work, double min_time) const {
    std::int64_t runs = 1;
    for (double seconds = seconds_of(work, 1); seconds < min_time; seconds = seconds_of(work, runs)) {
      const double wanted = 1.2 * static_cast<double>(runs) * min_time / std::max(seconds, 1e-7);
      runs = std::clamp(static_cast<std::int64_t>(wanted), runs + 1, 10 * runs);
    }
    std::vector<double> figures;
    for (int i = 0; i < options_.repeats; ++i) figures.push_back(seconds_of(work, runs) / static_cast<double>(runs));
    return middle(figures);
  }

  /// A row that throws says so, and the others are measured all the same.
  template <class Measure>
  void print(const std::string& name, Cost cost, Measure measure) {
    if (!std::regex_search(name, options_.filter)) return;
    if (options_.list) {
      std::printf("%s\n", name.c_str());
      return;
    }
    try {
      const double seconds = measure();
      const auto peak = static_cast<double>(capstan::memory::stats(kDevice).peak_reserved);
      std::printf("{\"name\": \"%s\", \"us\": %.4f, \"bytes\": %.0f, \"flops\": %.0f, \"peak_reserved\": %.0f}\n",
                  name.c_str(), 1e6 * seconds, cost.bytes, cost.flops, peak);
    } catch (const std::exception& error) {
      failed_ = true;
      std::printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", name.c_str(), quoted(error.what()).c_str());
    }
    std::fflush(stdout);
  }
  static std::string quoted(const std::string& text) {
    std::string result;
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result;
  }

  Options options_;
  bool failed_ = false;
};

void op_rows(Bench& bench);
void layer_rows(Bench& bench);
void training_rows(Bench& bench);

}  // namespace bench
