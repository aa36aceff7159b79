// capstan_csv FILE ROUNDS: times read_csv on a file, as bench/csv_pandas.py times pandas. Prints one line of JSON: the
// median of the rounds in milliseconds. The file is in the page cache after a first round, which does not count. The
// header is the file's first line.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

int main(int argc, char** argv) {
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (rounds < 1) {
    std::fprintf(stderr, "usage: capstan_csv FILE ROUNDS\n");
    return 2;
  }
  try {
    std::vector<double> times;
    for (int turn = 0; turn <= rounds; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      static_cast<void>(capstan::io::read_csv(argv[1]));
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      if (turn > 0) times.push_back(took.count());
    }
    std::sort(times.begin(), times.end());
    std::printf("{\"median_ms\": %.6f}\n", times[times.size() / 2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "capstan_csv: %s\n", error.what());
    return 1;
  }
}
