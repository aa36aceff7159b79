#pragma once
// How a recurrent sequence lies in memory on a GPU, and how its steps are taken. No CUDA headers, so that it is tested
// on the host.
//
// Every step of every row has a line in the buffers of gates and of states. Without lengths the lines are in the order
// of x, where its elements lie so. With lengths rows are put in their order, longest first, and steps stand one after
// the other: those which run at a step are the first rows, side by side.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "lib/core/backend.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

using core::RecurrentKind;

/// Blocks of `hidden` columns in a line of gates: lstm i, f, g, o; gru n, r, z and h @ wh + bn of n's; gru_before n, r,
/// z and r * h; rnn its h. Those that h multiplies begin at `from_h` and are `recurrent` blocks; gru_before's n, the
/// first one, stands last in wh.
struct GateBlocks {
  int line, from_h, recurrent;
};
constexpr bool is_gru(RecurrentKind kind) { return kind == RecurrentKind::gru || kind == RecurrentKind::gru_before; }
constexpr GateBlocks gate_blocks(RecurrentKind kind) {
  if (kind == RecurrentKind::lstm) return {4, 0, 4};
  if (is_gru(kind)) return {4, 1, 3};
  return {1, 0, 1};
}

/// The lines of a sequence, as kernels and the host see them. Pointers are null where all rows have all steps.
struct LineView {
  std::int64_t batch, time;  // time: of the longest row
  std::int64_t row_step, time_step;
  bool reverse;
  const std::int64_t *order, *lengths;  // of each row: its place among the caller's, its steps
  const std::int64_t *running, *begin;  // of each step: how many rows run, its first line

  /// The step that is taken as number s.
  CAPSTAN_HD std::int64_t at(std::int64_t s) const { return reverse ? time - 1 - s : s; }
  CAPSTAN_HD std::int64_t active(std::int64_t t) const { return order == nullptr ? batch : running[t]; }
  CAPSTAN_HD std::int64_t first(std::int64_t t) const { return order == nullptr ? t * time_step : begin[t]; }
  CAPSTAN_HD std::int64_t line(std::int64_t t, std::int64_t row) const { return first(t) + row * row_step; }
  CAPSTAN_HD std::int64_t place(std::int64_t row) const { return order == nullptr ? row : order[row]; }
  CAPSTAN_HD std::int64_t length(std::int64_t row) const { return order == nullptr ? time : lengths[row]; }
  /// The line with which a row begins; it must have steps.
  CAPSTAN_HD std::int64_t entry(std::int64_t row) const { return line(reverse ? length(row) - 1 : 0, row); }
  /// Of the rows that run at the step taken as number s, those that run at the next one too.
  CAPSTAN_HD std::int64_t carry(std::int64_t s) const {
    if (s + 1 >= time) return 0;
    const std::int64_t now = active(at(s)), then = active(at(s + 1));
    return now < then ? now : then;
  }
};

class LinePlan {
 public:
  LinePlan(const TensorImpl& x, const std::int64_t* lengths, bool reverse)
      : batch_(x.shape[0]),
        time_(x.rank() == 2 ? 1 : x.shape[1]),
        lines_(batch_ * time_),
        row_step_(time_),
        time_step_(1),
        reverse_(reverse),
        packed_(lengths != nullptr) {
    if (packed_) {
      pack(lengths);
      return;
    }
    if (holds(x)) return;
    row_step_ = 1, time_step_ = batch_;
    gathers_ = !holds(x);
  }

  std::int64_t lines() const { return lines_; }
  bool packed() const { return packed_; }
  /// Whether x must be brought into the order of the lines.
  bool gathers() const { return gathers_; }
  /// Whether the elements of a tensor [batch, time, width] or [batch, width] lie in that order.
  bool holds(const TensorImpl& t) const {
    if (packed_) return false;
    if (t.rank() == 2 || t.numel() == 0) return true;
    const std::int64_t width = t.shape[2];
    return (batch_ == 1 || t.strides[0] == row_step_ * width) && (time_ == 1 || t.strides[1] == time_step_ * width);
  }

  /// What a view reads; empty if all rows have all steps.
  const std::vector<std::int64_t>& table() const { return table_; }
  /// With the table there, in memory of the host or of the device.
  LineView view(const std::int64_t* there) const {
    LineView v{batch_, time_, row_step_, time_step_, reverse_, nullptr, nullptr, nullptr, nullptr};
    if (!packed_ || batch_ == 0) return v;
    v.order = there, v.lengths = there + batch_;
    v.running = there + 2 * batch_, v.begin = there + 2 * batch_ + time_;
    return v;
  }

 private:
  void pack(const std::int64_t* lengths) {
    gathers_ = true;
    row_step_ = 1;
    std::vector<std::int64_t> order(static_cast<std::size_t>(batch_));
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [lengths](std::int64_t a, std::int64_t b) { return lengths[a] > lengths[b]; });
    time_ = batch_ == 0 ? 0 : lengths[order[0]];
    time_step_ = batch_;
    table_ = order;
    for (const std::int64_t row : order) table_.push_back(lengths[row]);
    std::vector<std::int64_t> begin;
    lines_ = 0;
    std::int64_t active = batch_;
    for (std::int64_t t = 0; t < time_; ++t) {
      while (active > 0 && lengths[order[static_cast<std::size_t>(active - 1)]] <= t) --active;
      table_.push_back(active);
      begin.push_back(lines_);
      lines_ += active;
    }
    table_.insert(table_.end(), begin.begin(), begin.end());
  }

  std::int64_t batch_, time_, lines_, row_step_, time_step_;
  bool reverse_, packed_, gathers_ = false;
  std::vector<std::int64_t> table_;  // order, lengths, running, begin
};

/// How the steps are taken.
///   resident  one launch: a block takes some rows through all steps, with the recurrent weights in registers
///   tiled     a launch a step, which multiplies tiles of a few rows and units and goes over their gates
///   products  a product of matrices a step, and a launch for the gates
enum class RecurrentWay : std::uint8_t { resident, tiled, products };

inline constexpr std::int64_t kMultiprocessors = 132;  // of an H100; what is cut suits others as well

// Blocks of threads that own rows: a thread multiplies one column of the weights, for a few rows.
inline constexpr int kResidentUnits = 64, kResidentRows = 8, kResidentEach = 4, kResidentThreads = 256;

struct ResidentCut {
  int columns;    // of the recurrent weights
  int groups;     // of so many threads
  int rows_each;  // rows of a group
  std::int64_t blocks;

  CAPSTAN_HD int rows() const { return groups * rows_each; }
  unsigned threads() const { return static_cast<unsigned>((groups * columns + 31) / 32 * 32); }
};
/// As few rows in a block as it takes to occupy the GPU: a step takes the time of its rows.
inline ResidentCut cut_resident(std::int64_t batch, std::int64_t columns) {
  const auto part = [](std::int64_t count, std::int64_t of) { return (count + of - 1) / of; };
  const std::int64_t most = std::min<std::int64_t>(kResidentRows, kResidentThreads / columns);
  const std::int64_t groups = std::clamp<std::int64_t>(part(batch, kMultiprocessors), 1, most);
  const std::int64_t each = std::clamp<std::int64_t>(part(batch, kMultiprocessors * groups), 1,
                                                     std::min<std::int64_t>(kResidentEach, kResidentRows / groups));
  return {static_cast<int>(columns), static_cast<int>(groups), static_cast<int>(each), part(batch, groups * each)};
}

// Tiles: all threads of a block share out the length of the product and add up in shared memory.
inline constexpr unsigned kTileThreads = 64;
inline constexpr int kTileColumns = 4;
template <class T>
inline constexpr int kTileRows = sizeof(T) == 4 ? 20 : 16;

/// The size of a step's product decides, and with it how often tiles read the weights.
inline RecurrentWay choose_way(std::int64_t batch, std::int64_t time, std::int64_t hidden, std::int64_t width,
                               bool projection, std::int64_t element, std::int64_t tile_rows) {
  constexpr std::int64_t kFewestSteps = 3;  // the weights are turned first
  constexpr std::int64_t kMostWork = 48 << 20, kMostBytes = 24 << 20;
  if (projection) return RecurrentWay::products;
  if (hidden <= kResidentUnits) return RecurrentWay::resident;
  const std::int64_t tiles = (batch + tile_rows - 1) / tile_rows, weights = hidden * width;
  const bool small = batch * weights <= kMostWork && tiles * weights * element <= kMostBytes;
  return time >= kFewestSteps && small ? RecurrentWay::tiled : RecurrentWay::products;
}

/// Launches over rows and units: `lanes` threads side by side take units, the others of a block further rows.
struct UnitCut {
  int lanes;
  unsigned across, down;
};
inline UnitCut cut_units(std::int64_t rows, std::int64_t width, std::int64_t threads = 256) {
  std::int64_t lanes = 32;
  while (lanes < threads && lanes < width) lanes *= 2;
  const std::int64_t in_block = threads / lanes;
  return {static_cast<int>(lanes), static_cast<unsigned>((width + lanes - 1) / lanes),
          static_cast<unsigned>(std::min<std::int64_t>((rows + in_block - 1) / in_block, 65535))};
}

/// Sums over lines: blocks of 32 columns, the lines in chunks whose sums are added up after.
struct ColumnCut {
  std::int64_t tiles, chunks, lines_each;
};
inline ColumnCut cut_columns(std::int64_t lines, std::int64_t width) {
  constexpr std::int64_t kColumns = 32, kFewestLines = 256;
  const std::int64_t tiles = (width + kColumns - 1) / kColumns;
  const std::int64_t wanted = std::max<std::int64_t>(1, 2 * kMultiprocessors / std::max<std::int64_t>(1, tiles));
  const std::int64_t chunks = std::clamp<std::int64_t>(lines / kFewestLines, 1, wanted);
  return {tiles, chunks, (lines + chunks - 1) / chunks};
}

}  // namespace capstan::on_cuda
