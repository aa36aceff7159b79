// What the machine gives, by plain loops without Capstan, on one thread and on two: a copy and a sum of 2^20 numbers,
// and multiply-adds in registers.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "bench/loops.hpp"
#include "bench/rows.hpp"

namespace bench {
namespace {

constexpr std::size_t kCount = 1 << 20;
constexpr std::size_t kMultiplyAdds = 1 << 26;  // of each thread

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

/// Which of how many threads.
struct Turn {
  std::size_t thread, threads;
};

/// part(turn) by this thread alone.
template <class Part>
struct Alone {
  Part part;
  void operator()() { part({0, 1}); }
};

/// By two threads at once.
template <class Part>
struct Together {
  Part part;
  SecondThread second{[this] { part({1, 2}); }};

  void operator()() {
    second.start();
    part({0, 2});
    second.wait();
  }
};

struct Free {
  void operator()(void* block) const { std::free(block); }
};
using Numbers = std::unique_ptr<float[], Free>;

/// As many numbers as all threads share, in huge pages, where tensors of this size are, too.
Numbers numbers() {
  constexpr std::size_t kHugePage = 2 << 20, kBytes = kCount * sizeof(float);
  void* block = std::aligned_alloc(kHugePage, kBytes);
  if (block == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  madvise(block, kBytes, MADV_HUGEPAGE);
#endif
  Numbers made(static_cast<float*>(block));
  std::fill_n(made.get(), kCount, 0.5F);
  return made;
}

void copy_by_memcpy(const float* from, float* to, std::size_t count) { std::memcpy(to, from, count * sizeof(float)); }

template <void (*kCopy)(const float*, float*, std::size_t)>
struct Copy {
  Numbers from = numbers(), to = numbers();

  void operator()(Turn turn) const {
    const std::size_t count = kCount / turn.threads, begin = turn.thread * count;
    kCopy(from.get() + begin, to.get() + begin, count);
    benchmark::ClobberMemory();
  }
};

template <float (*kSum)(const float*, std::size_t)>
struct Read {
  Numbers from = numbers();

  void operator()(Turn turn) const {
    const std::size_t count = kCount / turn.threads;
    float sum = kSum(from.get() + turn.thread * count, count);
    benchmark::DoNotOptimize(sum);
  }
};

/// Every thread does all of them.
struct MultiplyAdds {
  void operator()(Turn) const {
    float result = multiply_adds(kMultiplyAdds);
    benchmark::DoNotOptimize(result);
  }
};

template <class Part>
void rows_of_part(const std::string& name) {
  row(with_suffix(name, "_t1"), [] { return Alone<Part>{}; });
  row(with_suffix(name, "_t2"), [] { return Together<Part>{}; });
}

}  // namespace

void stream_rows() {
  rows_of_part<Copy<copy_by_memcpy>>("stream_copy/memcpy");
  rows_of_part<Copy<copy_by_vectors>>("stream_copy/vectors");
  rows_of_part<Read<sum_of>>("stream_read/plain");
  rows_of_part<Read<sum_with_fetching>>("stream_read/fetching");
  rows_of_part<MultiplyAdds>("peak_fma");
}

}  // namespace bench
