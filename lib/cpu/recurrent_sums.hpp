#pragma once
// Sums over the lines of a recurrent sequence, which are the gradients of its weights, by parts of the batch: whoever
// goes through all steps of some rows has what they gave in its cache, and other threads would have to fetch it there.
#include "lib/cpu/recurrent.hpp"

namespace capstan::on_cpu {

/// Into how many parts of the batch the sums are cut for so many rows of weights. It follows from the task alone, and
/// is 1 where threads do not go through rows, or where rows have lengths.
std::int64_t parts_of_sums(const Schedule& steps, const RecurrentCut& cut, std::int64_t weights);

/// Sums of `pre` [lines, line] times something: asked for first, then made all at once.
template <class T>
class PartSums {
 public:
  PartSums(const Schedule& steps, std::int64_t parts, const T* pre, std::int64_t line)
      : steps_(steps), parts_(parts), pre_(pre), line_(line) {}

  /// Columns of `pre`, and where their sums go.
  struct Columns {
    std::int64_t from, count;
    T* to;
    std::int64_t to_row;
  };
  /// left^T [width, lines] times columns. `from_zero`: the step that is taken first may have zeros on the left, whose
  /// lines stand one behind the other then.
  void add_product(const T* left, std::int64_t left_row, std::int64_t width, bool from_zero, const Columns& columns);
  /// Row i of the result: the lines whose terms have this place, times their values.
  void add_terms(const SingleTerm<T>* terms, std::int64_t rows, const Columns& columns);
  /// All lines, added up in double.
  void add_lines(const Columns& columns);

  /// Throws OutOfMemoryError.
  void run();

 private:
  struct Sum {
    Columns columns;
    std::int64_t rows;           // of the result
    std::int64_t bands, panels;  // its pieces: some rows, some columns
    const T* left;               // of a product,
    std::int64_t left_row;
    bool from_zero;
    const SingleTerm<T>* terms;  // or of terms, or of neither
    T* other;                    // results of all parts but the first: [parts - 1, rows, columns]
    double* totals;              // of lines: [parts, columns]
  };
  struct Result {
    T* data;
    std::int64_t row;
  };

  /// An even number of rows, as the threads have in the steps.
  std::int64_t begin(std::int64_t part) const {
    return std::min((steps_.batch * part / parts_ + 1) / 2 * 2, steps_.batch);
  }
  Result result(const Sum& sum, std::int64_t part) const;
  void make(std::int64_t part, std::int64_t piece) const;
  void make_product(const Sum& sum, std::int64_t part, std::int64_t piece) const;
  void make_terms(const Sum& sum, std::int64_t part) const;
  void make_lines(const Sum& sum, std::int64_t part) const;
  void add_parts() const;
  void add_parts(const Sum& sum, std::int64_t row) const;
  static bool is_of_lines(const Sum& sum) { return sum.left == nullptr && sum.terms == nullptr; }

  static constexpr int kMost = 8;  // of h two products, three biases, of x two

  const Schedule& steps_;
  std::int64_t parts_;
  const T* pre_;
  std::int64_t line_;
  Sum sums_[kMost];
  int count_ = 0;
};

}  // namespace capstan::on_cpu
