#pragma once
// Means and variances of pieces that become one (Chan, Golub and LeVeque, "Algorithms for computing the sample
// variance", The American Statistician 37, 1983).

namespace capstan::on_cpu {

struct Part {
  double count, mean, squares;  // squares: sum of squared distances from the mean
};

inline Part joined(const Part& a, const Part& b) {
  const double count = a.count + b.count, distance = b.mean - a.mean;
  const bool finite = distance - distance == 0;
  return {count,
          finite ? a.mean + distance * (b.count / count) : a.mean * (a.count / count) + b.mean * (b.count / count),
          a.squares + b.squares + distance * distance * (a.count * (b.count / count))};
}

/// From the sums of the distances from `shift` and of their squares.
inline Part part_of(double count, double shift, double first, double second) {
  const double squares = second - first * first / count;
  return {count, shift + first / count, squares < 0 ? 0 : squares};
}

/// About the mean; a value of the piece where the sum has overflowed, and 0 where that is infinite itself.
template <class T>
T shift_of(double sum, double count, T otherwise) {
  const T mean = static_cast<T>(sum / count);
  if (mean - mean == T(0)) return mean;
  return otherwise - otherwise == T(0) ? otherwise : T(0);
}

}  // namespace capstan::on_cpu
