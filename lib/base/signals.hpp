#pragma once
// Threads of the library's own, and the signals of the program.
#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace capstan::base {

/// Threads that are started meanwhile take no signals that are sent to the program: these are for its own threads, of
/// which one may wait for them. What a thread does to itself, by a fault or abort(), stays, and so does a profiler's
/// clock.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t sent;
    sigfillset(&sent);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF}) sigdelset(&sent, own);
    changed_ = pthread_sigmask(SIG_BLOCK, &sent, &before_) == 0;
  }
  ~NoSignals() {
    if (changed_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
  bool changed_ = false;
};

}  // namespace capstan::base
