#include "tests/simulator/block.hpp"

#include <cstddef>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/simulator/device.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what the calling convention (System V, x86-64) asks to keep on the stack that is left, and takes it from the
// one that is entered. A jump, for a processor expects a return to go where the last call came from.
extern "C" void simulated_switch(void** left, void* entered);
asm(R"(
.text
.globl simulated_switch
.type simulated_switch, @function
simulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size simulated_switch, .-simulated_switch
)");

namespace simulated {
namespace {

constexpr std::size_t kStack = 128 << 10;

struct Fiber {
  std::unique_ptr<std::byte[]> stack{new std::byte[kStack]};
  void* at = nullptr;  // where it goes on
  void* fake_stack = nullptr;
  unsigned thread = 0;
};

struct Warp {
  Lanes lanes[2] = {};       // of the exchange that goes on and of the one before
  unsigned rounds[32] = {};  // exchanges that each lane has begun
  unsigned arrived = 0, size = 0;
  std::vector<Fiber*> waiting;
};

/// The block that this thread runs.
struct Block {
  const std::function<void()>* thread = nullptr;
  dim3 size;
  unsigned count = 0, begun = 0, over = 0;
  std::uint64_t order = 0;
  void* scheduler = nullptr;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_bottom = nullptr;
  std::size_t scheduler_size = 0;
  bool scheduler_leaves = false;  // is where the fiber that is entered came from
  Fiber* current = nullptr;
  std::deque<Fiber*> ready;
  std::vector<Fiber*> idle, at_barrier;
  std::vector<Warp> warps;
  std::vector<std::unique_ptr<Fiber>> fibers;
};
thread_local Block* block = nullptr;

Fiber* new_fiber();

/// Who goes on; null if nobody can.
Fiber* next_fiber() {
  Block& b = *block;
  Fiber* next = nullptr;
  if (b.begun < b.count) {  // all start before anybody goes on: the hardest order
    if (b.idle.empty()) return new_fiber();
    next = b.idle.back();
    b.idle.pop_back();
  } else if (!b.ready.empty()) {
    const bool last = b.order % 2 == 0;
    next = last ? b.ready.back() : b.ready.front();
    if (last) b.ready.pop_back();
    else b.ready.pop_front();
  }
  return next;
}

void enter(Fiber* fiber) {
  block->current = fiber;
#if defined(__SANITIZE_ADDRESS__)
  block->scheduler_leaves = true;
  __sanitizer_start_switch_fiber(&block->scheduler_fake_stack, fiber->stack.get(), kStack);
#endif
  simulated_switch(&block->scheduler, fiber->at);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(block->scheduler_fake_stack, nullptr, nullptr);
#endif
}

#if defined(__SANITIZE_ADDRESS__)
/// What a fiber does first that has been entered.
void arrive(void* fake_stack) {
  const bool first = std::exchange(block->scheduler_leaves, false);
  __sanitizer_finish_switch_fiber(fake_stack, first ? &block->scheduler_bottom : nullptr,
                                  first ? &block->scheduler_size : nullptr);
}
#endif

/// To the fiber that goes on, or, if none can, to the scheduler; until somebody enters this one again.
void leave() {
  Fiber *fiber = block->current, *next = next_fiber();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber->fake_stack, next == nullptr ? block->scheduler_bottom : next->stack.get(),
                                 next == nullptr ? block->scheduler_size : kStack);
#endif
  block->current = next;
  simulated_switch(&fiber->at, next == nullptr ? block->scheduler : next->at);
#if defined(__SANITIZE_ADDRESS__)
  arrive(fiber->fake_stack);
#endif
}

void become(unsigned thread) {
  const dim3 size = block->size;
  block->current->thread = thread;
  threadIdx = {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
}

/// The n-th thread to start: forwards, backwards, or with warps and lanes mixed up.
unsigned nth_thread(unsigned n) {
  const unsigned count = block->count;
  switch (block->order % 3) {
    case 0: return n;
    case 1: return count - 1 - n;
    default: return count % 7 == 0 ? n : static_cast<unsigned>(std::uint64_t{n} * 7 % count);
  }
}

[[noreturn]] void fiber_main() {
#if defined(__SANITIZE_ADDRESS__)
  arrive(nullptr);
#endif
  for (;;) {
    while (block->begun < block->count) {  // threads that wait for nobody share one fiber
      become(nth_thread(block->begun++));
      (*block->thread)();
      ++block->over;
      // threads that are over are not waited for
      if (!block->at_barrier.empty() && block->at_barrier.size() == block->count - block->over) {
        for (Fiber* fiber : block->at_barrier) block->ready.push_back(fiber);
        block->at_barrier.clear();
      }
    }
    block->idle.push_back(block->current);
    leave();
  }
}

Fiber* new_fiber() {
  block->fibers.push_back(std::make_unique<Fiber>());
  Fiber* fiber = block->fibers.back().get();
  auto* top =
      reinterpret_cast<void**>(reinterpret_cast<std::uintptr_t>(fiber->stack.get() + kStack) & ~std::uintptr_t{15});
  *--top = nullptr;  // fiber_main is entered as if called: 8 bytes past a multiple of 16
  *--top = reinterpret_cast<void*>(&fiber_main);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber->at = top;
  return fiber;
}

}  // namespace

unsigned lane() noexcept { return block->current->thread % 32; }

void wait_for_block() {
  Block& b = *block;
  b.at_barrier.push_back(b.current);
  if (b.at_barrier.size() < b.count - b.over) {
    const uint3 mine = threadIdx;
    leave();
    threadIdx = mine;
    return;
  }
  b.at_barrier.pop_back();
  for (Fiber* fiber : b.at_barrier) b.ready.push_back(fiber);
  b.at_barrier.clear();
}

const Lanes& share_in_warp(std::uint64_t value) {
  Block& b = *block;
  const unsigned thread = b.current->thread;
  Warp& warp = b.warps[thread / 32];
  const unsigned round = warp.rounds[thread % 32]++ % 2;
  Lanes& lanes = warp.lanes[round];
  if (warp.arrived == 0) lanes.present = 0;
  lanes.values[thread % 32] = value;
  lanes.present |= 1u << (thread % 32);
  if (++warp.arrived < warp.size) {
    warp.waiting.push_back(b.current);
    const uint3 mine = threadIdx;
    leave();
    threadIdx = mine;
  } else {
    warp.arrived = 0;
    for (Fiber* fiber : warp.waiting) b.ready.push_back(fiber);
    warp.waiting.clear();
  }
  return lanes;
}

void run_block(dim3 size, const std::function<void()>& thread, std::uint64_t order) {
  thread_local Block kept;  // its fibers serve all blocks
  block = &kept;
  kept.thread = &thread;
  kept.size = size;
  kept.count = size.x * size.y * size.z;
  kept.begun = kept.over = 0;
  kept.order = order;
  kept.ready.clear();
  kept.at_barrier.clear();
  kept.idle.clear();
  for (const auto& fiber : kept.fibers) kept.idle.push_back(fiber.get());
  kept.warps.assign((kept.count + 31) / 32, {});
  for (unsigned w = 0; w < kept.warps.size(); ++w)
    kept.warps[w].size = kept.count - w * 32 < 32 ? kept.count - w * 32 : 32;
  while (kept.over < kept.count) {
    Fiber* const next = next_fiber();
    if (next == nullptr) {
      kept.fibers.clear();  // those that wait in vain
      throw std::runtime_error("threads of a block wait for threads that do not come");
    }
    enter(next);
  }
}

}  // namespace simulated
