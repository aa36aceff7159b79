#pragma once
// What both directions of a recurrent sequence share: which rows run at which step, and the weights as panels.
//
// Rows are put in the order of their lengths, longest first, so that those which run at a step are the first ones. The
// steps of all rows stand one after the other: row i of step t is line `first(t) + i` of every buffer with a line a step.
#include <algorithm>
#include <cstring>

#include "lib/core/allocator.hpp"
#include "lib/cpu/backend.hpp"
#include "lib/cpu/iterate.hpp"
#include "lib/cpu/multiply.hpp"
#include "lib/cpu/simd/kernels.hpp"
#include "lib/cpu/single_terms.hpp"

namespace capstan::on_cpu {

using core::RecurrentKind;

/// Columns of the gates: all blocks of a line; those that h multiplies begin at `from_h` and are `recurrent` blocks.
struct GateBlocks {
  std::int64_t line, from_h, recurrent;
};
inline bool is_gru(RecurrentKind kind) { return kind == RecurrentKind::gru || kind == RecurrentKind::gru_before; }
inline GateBlocks gate_blocks(RecurrentKind kind) {
  if (kind == RecurrentKind::lstm) return {4, 0, 4};
  if (is_gru(kind)) return {4, 1, 3};
  return {1, 0, 1};
}

/// Columns of wx, and where they stand in a line.
struct GateColumns {
  std::int64_t wx, line, count;
};
/// Calls `use` for the gates that x reaches.
template <class Use>
void for_gates_of_x(RecurrentKind kind, std::int64_t hidden, Use use) {
  const GateColumns all = {0, 0, gate_blocks(kind).line * hidden};
  const GateColumns of_gru[] = {{0, hidden, 2 * hidden}, {2 * hidden, 0, hidden}};
  const GateColumns* const columns = is_gru(kind) ? of_gru : &all;
  for (int i = 0; i < (is_gru(kind) ? 2 : 1); ++i) use(columns[i]);
}

/// The rows of every step.
class Schedule {
 public:
  explicit Schedule(const core::RecurrentTask& task);

  std::int64_t batch, time;  // time: of the longest row
  std::int64_t lines;        // steps of all rows
  bool reverse;

  /// The step that is taken as number s.
  std::int64_t at(std::int64_t s) const { return reverse ? time - 1 - s : s; }
  std::int64_t active(std::int64_t t) const { return all_ ? batch : active_.data()[t]; }
  std::int64_t first(std::int64_t t) const { return all_ ? t * batch : first_.data()[t]; }
  /// Rows that the step after number s has, of those that run at it.
  std::int64_t carry(std::int64_t s) const { return s + 1 == time ? 0 : std::min(active(at(s)), active(at(s + 1))); }
  std::int64_t length(std::int64_t row) const { return all_ ? time : length_.data()[row]; }
  /// The caller's place of every row; null where they are the same.
  const std::int64_t* order() const { return all_ ? nullptr : order_.data(); }
  std::int64_t place(std::int64_t row) const { return all_ ? row : order_.data()[row]; }
  /// The line with which a row begins; it must have steps.
  std::int64_t entry(std::int64_t row) const { return first(reverse ? length(row) - 1 : 0) + row; }

 private:
  bool all_;
  core::Scratch<std::int64_t> order_, length_, active_, first_;
};

/// A matrix [k, blocks * width] cut into pieces of `piece` columns, none of which crosses a block; each is contiguous.
/// The matrix must outlive them.
template <class T>
class Panels {
 public:
  Panels(const Matrix<const T>& b, std::int64_t k, std::int64_t blocks, std::int64_t width, std::int64_t piece);

  std::int64_t blocks() const { return blocks_; }
  std::int64_t pieces() const { return (width_ + piece_ - 1) / piece_; }
  std::int64_t begin(std::int64_t p) const { return p * piece_; }
  std::int64_t end(std::int64_t p) const { return std::min(width_, (p + 1) * piece_); }
  /// Pieces [first, last): p alone, or all if it is -1; and their columns.
  struct Range {
    std::int64_t first, last, begin, end;
  };
  Range range(std::int64_t p) const {
    if (p < 0) return {0, pieces(), 0, width_};
    return {p, p + 1, begin(p), end(p)};
  }
  /// a [rows, k] times piece p of every block, or all if it is -1, to the columns of c that it belongs to: added to what
  /// is there in the first `added` blocks. `zero`: all of a is, and is not looked at.
  void multiply(const T* a, std::int64_t a_row, std::int64_t rows, std::int64_t p, T* c, std::int64_t c_row,
                std::int64_t added, bool zero = false) const;
  /// x [rows, k of the other] times the other + a [rows, k] times this to c. Both are cut alike, into a single block.
  void multiply_both(const Panels& other, const T* x, std::int64_t x_row, const T* a, std::int64_t a_row,
                     std::int64_t rows, T* c, std::int64_t c_row, bool zero) const;
  /// start + a [rows, k] times this to c; this has a single block.
  void multiply_onto(const TermRows<T>& start, const T* a, std::int64_t a_row, std::int64_t rows, T* c,
                     std::int64_t c_row, bool zero) const;

 private:
  /// What the pieces of a product have in common, and piece p of it.
  TwoProducts<T> product_with(const T* a, std::int64_t a_row, std::int64_t rows, std::int64_t c_row, bool zero) const;
  void multiply_piece(TwoProducts<T>& g, std::int64_t p, T* c) const;

  Matrix<const T> b_;
  std::int64_t k_, blocks_, width_, piece_;
  std::int64_t dotted_;  // columns at the end of b that are dot products
  core::Scratch<T> data_;
};

/// Of weights that a thread keeps in its second-level cache.
inline constexpr std::int64_t kCachedBytes = 512 << 10;

/// How the work of a sequence is cut for the threads. Results do not depend on it.
struct RecurrentCut {
  bool by_units;       // every step for itself, units among the threads; else rows, each through all steps
  std::int64_t rows;   // of a block
  std::int64_t piece;  // columns of a panel
  std::int64_t blocks(std::int64_t batch) const { return (batch + rows - 1) / rows; }
};
/// Of `weights` numbers of so many bytes, whose pieces are cut out of `units`.
RecurrentCut cut_recurrent(const Schedule& steps, std::int64_t weights, std::int64_t units, std::int64_t bytes);

/// A part of a step: run(s, first, rows, p) for some rows and piece p of `pieces`, or for all pieces if p = -1.
template <class Run>
struct Phase {
  std::int64_t pieces;
  Run run;
};
template <class Run>
Phase(std::int64_t, Run) -> Phase<Run>;

/// The phases of the steps s = 0 .. count-1 in order, each for all rows and pieces. What a phase of some rows needs of
/// the phases before it has been done then.
template <class... Run>
void run_steps(const RecurrentCut& cut, std::int64_t count, std::int64_t batch, const Phase<Run>&... phases) {
  if (cut.by_units) {
    const auto meet = [batch](std::int64_t s, const auto& phase) {
      base::parallel_for(phase.pieces, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t p = begin; p < end; ++p) phase.run(s, std::int64_t{0}, batch, p);
      });
    };
    for (std::int64_t s = 0; s < count; ++s) (meet(s, phases), ...);
    return;
  }
  base::parallel_for(cut.blocks(batch), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * cut.rows, rows = std::min(cut.rows, batch - first);
      for (std::int64_t s = 0; s < count; ++s) (phases.run(s, first, rows, std::int64_t{-1}), ...);
    }
  });
}

/// Whether two tasks like this one take a thread each, where there are two: these never meet then, nor read what the other
/// one wrote.
bool side_by_side(const core::RecurrentTask& task);
/// Calls run(0) and run(1), on a thread each if `apart`.
template <class Run>
void run_both(bool apart, Run run) {
  bool failed[2] = {};
  base::parallel_for(2, apart ? 1 : 2, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) try {
        run(i);
      } catch (...) {  // no memory
        failed[i] = true;
      }
  });
  for (std::int64_t i = 0; i < 2; ++i)
    if (failed[i]) run(i);  // alone, with all the memory that there is
}

/// Whether a state is zero. While a plan runs it is none.
template <class T>
bool is_zero(const T* state, std::int64_t count) {
  SingleTerm<T> term;
  return count > 0 && !base::in_real_time() && simd().of<T>().single_terms(state, count, 1, count, &term) &&
         term.value == T(0);
}

/// Whether the lines of [batch, time, width] are those of a schedule without lengths: nothing need be gathered.
bool in_lines(const TensorImpl& x);

/// The lines of x [batch, time, width], valid steps only, one after the other: a copy only if they do not lie so.
template <class T>
class InputLines {
 public:
  InputLines(const Schedule& steps, const TensorImpl& x);
  const T* data() const { return data_; }

 private:
  core::Scratch<T> gathered_;
  const T* data_;
};

/// Inputs that were looked up in a table: what is linear in them is made of its rows, of which there are fewer than lines.
template <class T>
class LookedUp {
 public:
  LookedUp(const Schedule& steps, const core::RecurrentTask& task);
  /// For every line its row, times 1; in the order of lines until they are added up.
  const SingleTerm<T>* terms() const { return terms_.data(); }
  /// The rows [rows(), inputs], as lines have them; zeros for those that no line has, and for one more if there would be
  /// an odd number: a tile of a single row adds in an order of its own, and sums shall not depend on the table's size.
  const T* table() const { return table_.data(); }
  std::int64_t rows() const { return rows_; }
  /// For every row the sum of what its lines have in `from` [lines, width], to `sums` [rows(), width].
  void add_up(const T* from, std::int64_t width, T* sums);

 private:
  std::int64_t lines_, rows_;
  core::Scratch<SingleTerm<T>> terms_;
  core::Scratch<T> table_;
};

/// Lines back to their places in x, with zeros elsewhere.
template <class T>
void scatter_lines(const Schedule& steps, const T* lines, const TensorImpl& x);
/// Zeros for the steps that rows have not.
template <class T>
void clear_padding(const Schedule& steps, const TensorImpl& x);

}  // namespace capstan::on_cpu
