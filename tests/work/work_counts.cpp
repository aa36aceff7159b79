// What work costs that does not depend on the machine:
//
//   work_counts ROW STEPS      does the row's work STEPS times, after three times of warm-up, on one thread
//   work_counts                prints the names of the rows
//
// prints one line of JSON. Of the STEPS times together: `heap_calls` and `heap_bytes`, the calls of malloc and its like
// in the whole program and the bytes they ask for, and `system_allocations`, those of Capstan's allocator alone. Of one
// time more: `tensors`, the tensors made; `kept_bytes`, what the tape keeps for the replay; `peak_bytes`, the most that
// Capstan's allocator holds above what stays. Instructions are for work_counts_test.py to count, from outside.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "tests/work/works.hpp"

namespace {

std::atomic<std::int64_t> heap_calls{0}, heap_bytes{0};

void count_call(std::size_t bytes) noexcept {
  heap_calls.fetch_add(1, std::memory_order_relaxed);
  heap_bytes.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
}

}  // namespace

// In place of the standard library's, so that calls from anywhere are seen, and passed on by the names that glibc has
// for this. What it does inside of them is not seen.
extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* block, std::size_t bytes) noexcept;             // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;  // NOLINT(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) noexcept {
  count_call(bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  count_call(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  count_call(bytes);
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  count_call(bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  void* made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}
void* mmap(void* place, std::size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  count_call(bytes);
  return reinterpret_cast<void*>(syscall(SYS_mmap, place, bytes, long{access}, long{flags}, long{file}, offset));
}
void* mmap64(void* place, std::size_t bytes, int access, int flags, int file, off64_t offset) noexcept {
  return mmap(place, bytes, access, flags, file, offset);
}
}

namespace tests {
namespace {

struct Counts {
  std::int64_t system_allocations = 0, heap_calls = 0, heap_bytes = 0, tensors = 0, kept_bytes = 0, peak_bytes = 0;
};

/// A function of its own, in which valgrind counts.
template <class Work>
__attribute__((noinline)) void measured_steps(Work& work, int steps) {
  for (int i = 0; i < steps; ++i) work();
}

template <class Work>
void count_steps(Work& work, int steps, Counts& counts) {
  const std::int64_t system = cs::memory::stats().system_allocations, calls = heap_calls, bytes = heap_bytes;
  measured_steps(work, steps);
  counts.heap_calls = heap_calls - calls;
  counts.heap_bytes = heap_bytes - bytes;
  counts.system_allocations = cs::memory::stats().system_allocations - system;
}

/// Once more, from an empty cache.
template <class Work>
void measure_peak(Work& work, Counts& counts) {
  cs::memory::release_cache();
  cs::memory::reset_peak();
  const std::int64_t before = cs::memory::stats().reserved;
  tape_bytes.wanted = true;
  work();
  tape_bytes.wanted = false;
  counts.kept_bytes = tape_bytes.kept;
  counts.peak_bytes = cs::memory::stats().peak_reserved - before;
}

template <class Work>
void count_tensors(Work& work, Counts& counts) {
  const cs::debug::MemoryTimeline timeline({.max_events = 2});
  work();
  for (const cs::debug::MemoryLine& line : timeline.table()) counts.tensors += line.blocks;
}

template <class Work>
Counts counts_of(int steps) {
  Work work;
  for (int i = 0; i < 3; ++i) work();  // the first calls pay for pages, pools and lazy starts
  Counts counts;
  count_steps(work, steps, counts);
  measure_peak(work, counts);
  count_tensors(work, counts);
  return counts;
}

struct Row {
  const char* name;
  Counts (*counts)(int steps);
};

constexpr Row kRows[] = {
    {"add_1", &counts_of<Add<1>>},
    {"add_64", &counts_of<Add<64>>},
    {"chain_32_backward", &counts_of<Chain>},
    {"softmax", &counts_of<Softmax>},
    {"exp_small", &counts_of<Of<Function<&cs::exp>>>},
    {"tanh_small", &counts_of<Of<Function<&cs::tanh>>>},
    {"sigmoid_small", &counts_of<Of<Function<&cs::sigmoid>>>},
    {"sum_axis0_small", &counts_of<Of<Sum<0>>>},
    {"sum_axis1_small", &counts_of<Of<Sum<1>>>},
    {"sum_all_small", &counts_of<Of<Sum<-1>>>},
    {"transposed_copy_small", &counts_of<Of<TransposedCopy>>},
    {"matmul_64", &counts_of<Of<Product<64>>>},
    {"matmul_256", &counts_of<Of<Product<256>>>},
    {"linear_single_row", &counts_of<Of<SingleRow>>},
    {"layer_norm", &counts_of<WithGradients<LayerNorm>>},
    {"batch_norm_small", &counts_of<WithGradients<SmallBatchNorm>>},
    {"attention_small", &counts_of<WithGradients<SmallAttention>>},
    {"conv3x3_small", &counts_of<WithGradients<SmallConvolution<2, 64, 14>>>},
    {"conv3x3_few_places", &counts_of<WithGradients<SmallConvolution<1, 128, 7>>>},
    {"depthwise_small", &counts_of<WithGradients<SmallDepthwise>>},
    {"max_pool2d_small", &counts_of<WithGradients<SmallMaxPool>>},
    {"gru_small", &counts_of<SmallRecurrent<cs::nn::Gru, 64, false>>},
    {"bilstm_small", &counts_of<SmallRecurrent<cs::nn::Lstm, 32, true>>},
    {"adam_small", &counts_of<SmallAdam>},
    {"parity_step", &counts_of<AdamStep<Parity<1000>>>},
    {"parity_small", &counts_of<AdamStep<Parity<36>>>},
    {"char_lstm_fused", &counts_of<ClippedStep<Letters>>},
    {"char_lstm_cell", &counts_of<ClippedStep<LettersByHand>>},
    {"seq2seq_step", &counts_of<AdamStep<Translation<64, 24, 13>>>},
    {"seq2seq_small", &counts_of<AdamStep<Translation<16, 6, 4>>>},
    {"ptb_small", &counts_of<ClippedStep<Words<200, 10000, 20, 20>>>},
    {"ptb_tiny", &counts_of<ClippedStep<Words<96, 500, 10, 6>>>},
    {"mnist_cnn_step", &counts_of<AdamStep<Digits<50>>>},
    {"mnist_cnn_small", &counts_of<AdamStep<Digits<2>>>},
    {"plan_lstm4", &counts_of<PlannedStep<cs::nn::LstmCell, 4>>},
    {"plan_gru64", &counts_of<PlannedStep<cs::nn::GruCell, 64>>},
};

void print(const Counts& counts, int steps) {
  const auto field = [](const char* name, std::int64_t value) {
    std::printf(", \"%s\": %lld", name, static_cast<long long>(value));
  };
  std::printf("{\"steps\": %d", steps);
  field("system_allocations", counts.system_allocations);
  field("heap_calls", counts.heap_calls);
  field("heap_bytes", counts.heap_bytes);
  field("tensors", counts.tensors);
  field("kept_bytes", counts.kept_bytes);
  field("peak_bytes", counts.peak_bytes);
  std::printf("}\n");
}

int run(int argc, char** argv) {
  if (argc == 1) {
    for (const Row& row : kRows) std::printf("%s\n", row.name);
    return 0;
  }
  const int steps = argc == 3 ? std::atoi(argv[2]) : 0;
  for (const Row& row : kRows) {
    if (steps < 1 || std::strcmp(row.name, argv[1]) != 0) continue;
    cs::set_threads(1);
    print(row.counts(steps), steps);
    return 0;
  }
  std::fprintf(stderr, "usage: work_counts [ROW STEPS]\n");
  return 2;
}

}  // namespace
}  // namespace tests

int main(int argc, char** argv) {
  try {
    return tests::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "work_counts: %s\n", error.what());
    return 1;
  }
}
