// Stands in place of functions of the C library, so that calls from anywhere in the program are seen, and hands them
// on. What the C library does inside of itself is not seen.
#include "tests/real_time/calls.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <ctime>

namespace tests {
namespace {

constinit thread_local Calls* watched = nullptr;

void count(const char* function) noexcept {
  if (watched == nullptr) return;
  if (watched->count++ == 0) watched->first = function;
}

void* find(const char* name) noexcept {
  // by the library's handle, which gives the version of today; RTLD_NEXT may give the oldest
  void* const library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  return found != nullptr ? found : dlsym(RTLD_NEXT, name);
}

/// A function that one of ours stands in place of.
template <class Function>
class Behind {
 public:
  constexpr explicit Behind(const char* name) noexcept : name_(name) {}
  template <class... Args>
  auto operator()(Args... args) {
    count(name_);
    return get()(args...);
  }
  Function* get() noexcept {
    Function* function = function_.load(std::memory_order_relaxed);
    if (function == nullptr) function_.store(function = reinterpret_cast<Function*>(find(name_)));
    return function;
  }

 private:
  const char* name_;
  std::atomic<Function*> function_{nullptr};
};

using MutexFunction = int(pthread_mutex_t*);
using RwlockFunction = int(pthread_rwlock_t*);
using ConditionFunction = int(pthread_cond_t*);
using SemaphoreFunction = int(sem_t*);

constinit Behind<MutexFunction> mutex_lock("pthread_mutex_lock"), mutex_trylock("pthread_mutex_trylock");
constinit Behind<RwlockFunction> rwlock_rdlock("pthread_rwlock_rdlock"), rwlock_wrlock("pthread_rwlock_wrlock");
constinit Behind<RwlockFunction> rwlock_tryrdlock("pthread_rwlock_tryrdlock");
constinit Behind<RwlockFunction> rwlock_trywrlock("pthread_rwlock_trywrlock");
constinit Behind<int(pthread_cond_t*, pthread_mutex_t*)> cond_wait("pthread_cond_wait");
constinit Behind<int(pthread_cond_t*, pthread_mutex_t*, const timespec*)> cond_timedwait("pthread_cond_timedwait");
constinit Behind<ConditionFunction> cond_signal("pthread_cond_signal"), cond_broadcast("pthread_cond_broadcast");
constinit Behind<SemaphoreFunction> semaphore_wait("sem_wait"), semaphore_post("sem_post");
constinit Behind<void*(void*, std::size_t, int, int, int, off_t)> map_memory("mmap");
constinit Behind<int(void*, std::size_t)> unmap_memory("munmap");
constinit Behind<long(long, ...)> system_call("syscall");

}  // namespace

Watch::Watch(Calls& calls) noexcept { watched = &calls; }
Watch::~Watch() { watched = nullptr; }

void find_functions() {
  const auto find_each = [](auto&... functions) { (functions.get(), ...); };
  find_each(mutex_lock, mutex_trylock, rwlock_rdlock, rwlock_wrlock, rwlock_tryrdlock, rwlock_trywrlock, cond_wait,
            cond_timedwait, cond_signal, cond_broadcast, semaphore_wait, semaphore_post, map_memory, unmap_memory,
            system_call);
}

}  // namespace tests

// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
void* __libc_malloc(std::size_t bytes) noexcept;
void* __libc_calloc(std::size_t count, std::size_t bytes) noexcept;
void* __libc_realloc(void* block, std::size_t bytes) noexcept;
void* __libc_memalign(std::size_t alignment, std::size_t bytes) noexcept;
void __libc_free(void* block) noexcept;
}
// NOLINTEND(bugprone-reserved-identifier)

// All but cond_wait, cond_timedwait and sem_wait, at which a thread may be cancelled, are noexcept in the C library.
extern "C" {
void* malloc(std::size_t bytes) noexcept {
  tests::count("malloc");
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) noexcept {
  tests::count("calloc");
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) noexcept {
  tests::count("realloc");
  return __libc_realloc(block, bytes);
}
void free(void* block) noexcept {
  tests::count("free");
  __libc_free(block);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  tests::count("memalign");
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept { return memalign(alignment, bytes); }
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) noexcept {
  void* const made = memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *block = made;
  return 0;
}

void* mmap(void* place, std::size_t bytes, int access, int flags, int file, off_t offset) noexcept {
  return tests::map_memory(place, bytes, access, flags, file, offset);
}
void* mmap64(void* place, std::size_t bytes, int access, int flags, int file, off64_t offset) noexcept {
  return tests::map_memory(place, bytes, access, flags, file, offset);
}
int munmap(void* place, std::size_t bytes) noexcept { return tests::unmap_memory(place, bytes); }

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept { return tests::mutex_lock(mutex); }
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept { return tests::mutex_trylock(mutex); }
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept { return tests::rwlock_rdlock(lock); }
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept { return tests::rwlock_wrlock(lock); }
int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept { return tests::rwlock_tryrdlock(lock); }
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept { return tests::rwlock_trywrlock(lock); }
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) { return tests::cond_wait(condition, mutex); }
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return tests::cond_timedwait(condition, mutex, until);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept { return tests::cond_signal(condition); }
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept { return tests::cond_broadcast(condition); }
int sem_wait(sem_t* semaphore) { return tests::semaphore_wait(semaphore); }
int sem_post(sem_t* semaphore) noexcept { return tests::semaphore_post(semaphore); }

/// Futexes go this way; six arguments are the most that a system call has.
long syscall(long number, ...) noexcept {
  long arguments[6];
  std::va_list list;
  va_start(list, number);
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  return tests::system_call(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}
}
