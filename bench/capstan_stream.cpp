// What memory gives: a copy and a sum of 2^20 numbers by plain loops, without Capstan, on one thread and on two.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/loops.hpp"
#include "bench/rows.hpp"

namespace bench {
namespace {

constexpr std::size_t kCount = 1 << 20;

/// A thread that does its part of a work as often as it is asked to. It never sleeps: waking it would take longer than
/// what is measured.
class SecondThread {
 public:
  explicit SecondThread(std::function<void()> part)
      : part_(std::move(part)), thread_([this](const std::stop_token& stop) { serve(stop); }) {}

  void start() { asked_.fetch_add(1, std::memory_order_release); }
  void wait() const {
    while (done_.load(std::memory_order_acquire) != asked_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }

 private:
  void serve(const std::stop_token& stop) {
    for (unsigned round = 0; !stop.stop_requested();) {
      if (asked_.load(std::memory_order_acquire) == round) {
        std::this_thread::yield();
        continue;
      }
      part_();
      done_.store(++round, std::memory_order_release);
    }
  }

  std::function<void()> part_;
  std::atomic<unsigned> asked_{0}, done_{0};
  std::jthread thread_;  // the last: it uses the others
};

/// part(begin, count) for all numbers, by this thread alone.
template <class Part>
struct Alone {
  Part part;
  void operator()() { part(0, kCount); }
};

/// By two threads, a half each.
template <class Part>
struct Halved {
  Part part;
  SecondThread second{[this] { part(kCount / 2, kCount / 2); }};

  void operator()() {
    second.start();
    part(0, kCount / 2);
    second.wait();
  }
};

struct Copy {
  std::vector<float> from = std::vector<float>(kCount, 0.5F), to = std::vector<float>(kCount);

  void operator()(std::size_t begin, std::size_t count) {
    std::memcpy(to.data() + begin, from.data() + begin, count * sizeof(float));
    benchmark::ClobberMemory();
  }
};

struct Read {
  std::vector<float> from = std::vector<float>(kCount, 0.5F);

  void operator()(std::size_t begin, std::size_t count) const {
    float sum = sum_of(from.data() + begin, count);
    benchmark::DoNotOptimize(sum);
  }
};

template <class Part>
void stream_row(const std::string& name) {
  row(name + "_t1", [] { return Alone<Part>{}; });
  row(name + "_t2", [] { return Halved<Part>{}; });
}

}  // namespace

void stream_rows() {
  stream_row<Copy>("stream_copy");
  stream_row<Read>("stream_read");
}

}  // namespace bench
