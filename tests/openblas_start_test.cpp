// That OpenBLAS is loaded by the first decomposition alone, from whatever thread, and brings no threads of its own. A
// program by itself: any other case may have loaded it.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <capstan/capstan.hpp>

namespace cs = capstan;

namespace {

int failures = 0;

void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("does not hold: %s\n", what);
  ++failures;
}

bool process_has(const std::string& library) {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("/" + library) != std::string::npos;
}

std::ptrdiff_t threads_now() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

float largest_error(const cs::Tensor& a, const cs::Tensor& b) { return cs::max(cs::abs(a - b)).item<float>(); }

}  // namespace

int main() {
  cs::set_threads(1);  // no threads but those that OpenBLAS might start
  const cs::Tensor x = cs::uniform({300, 300}, -1, 1) + 10 * cs::eye(300), y = cs::uniform({300, 2}, -1, 1);
  const cs::Tensor before = cs::matmul(x, y);
  check(!process_has("libopenblas"), "products do not load it");
  check(!process_has("libgfortran"), "nor what it loads");

  std::thread([] {}).join();  // with the first one thread sanitizers start one of their own
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  const auto threads_before = threads_now();
  cs::Tensor solutions[4];
  std::vector<std::thread> threads;
  for (cs::Tensor& solution : solutions) threads.emplace_back([&] { solution = cs::solve(x, before); });
  for (std::thread& thread : threads) thread.join();
  for (const cs::Tensor& solution : solutions) check(largest_error(solution, y) < 1e-3f, "systems are solved");
  check(process_has("libopenblas"), "decompositions load it");

  for (int i = 0; i < 100 && threads_now() > threads_before; ++i)  // those that were joined are forgotten soon
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  check(threads_now() == threads_before, "its threads are gone");
  return failures == 0 ? 0 : 1;
}
