#pragma once
// Random programs: a handful of tensors, and steps that make new ones from them, look at them from elsewhere, or change
// them in place.
#include <string>
#include <vector>

#include "tests/fuzz/plain.hpp"

namespace fuzz {

class Program {
 public:
  explicit Program(std::uint64_t seed) : random_(seed) {}
  /// Runs so many steps. Throws std::runtime_error, with the steps that led there, if the library and the reference
  /// disagree, or the library refuses what is allowed.
  void run(int steps);

 private:
  // steps.cpp: each returns false if it does not apply to what was drawn
  bool create();
  bool unary();
  bool binary();
  bool compare();
  bool choose();   // where
  bool convert();  // cast
  bool reduce();
  bool scan();  // cumulative, sort
  bool multiply();
  // views.cpp
  bool view();
  bool reshape();
  bool join();
  bool rearrange();  // flip, roll, tile, repeat, pad
  bool look_up();
  bool write();  // in place

  int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  const Pair& any() { return pairs_[static_cast<std::size_t>(below(static_cast<int>(pairs_.size())))]; }
  Pair& any_mutable() { return pairs_[static_cast<std::size_t>(below(static_cast<int>(pairs_.size())))]; }
  Sizes sizes(int most_rank = 4);
  DType dtype();
  double value(DType dtype);
  /// Compares, and keeps the result for later steps in place of an older one.
  void keep(Pair pair, double ulps, double absolute = 0);

  std::mt19937_64 random_;
  std::vector<Pair> pairs_;
  std::vector<std::string> history_;
};

std::string text_of(const Sizes& sizes);

}  // namespace fuzz
