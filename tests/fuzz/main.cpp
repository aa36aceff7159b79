// fuzz [--seconds N] [--seed S]: random programs against a plain reference until the time is over. One seed a program:
// a failure prints its seed and its steps, and `fuzz --seed S --programs 1` runs it again.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "tests/fuzz/programs.hpp"

int main(int argc, char** argv) {
  double seconds = 10;
  std::uint64_t seed = 1;
  long programs = -1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = std::atof(argv[i + 1]);
    else if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 10);
    else if (std::strcmp(argv[i], "--programs") == 0) programs = std::atol(argv[i + 1]);
    else {
      std::cerr << "usage: fuzz [--seconds N] [--seed S] [--programs N]\n";
      return 2;
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  long count = 0;
  for (; programs < 0 ? passed() < seconds : count < programs; ++count) {
    try {
      fuzz::Program(seed + static_cast<std::uint64_t>(count)).run(60);
    } catch (const std::exception& error) {
      std::cerr << "seed " << seed + static_cast<std::uint64_t>(count) << ": " << error.what() << '\n';
      return 1;
    }
  }
  std::cout << count << " programs of 60 steps agree with the reference (seeds from " << seed << ", " << passed()
            << " s)\n";
}
