// measure COMMAND...: runs a command, its output thrown away, and prints its wall time in ns and its peak memory in kB.
// A program of its own, and a small one, because Linux counts the memory of whoever starts a process as that process's.
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: measure COMMAND [ARGUMENT...]\n");
    return 2;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);

  const auto start = std::chrono::steady_clock::now();
  pid_t child = 0;
  if (const int error = posix_spawnp(&child, argv[1], &actions, nullptr, argv + 1, environ)) {
    std::fprintf(stderr, "measure: cannot start %s: %s\n", argv[1], std::strerror(error));
    return 1;
  }
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  const std::chrono::nanoseconds wall = std::chrono::steady_clock::now() - start;

  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "measure: %s failed\n", argv[1]);
    return 1;
  }
  std::printf("%lld %ld\n", static_cast<long long>(wall.count()), usage.ru_maxrss);
}
