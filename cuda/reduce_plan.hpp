#pragma once
// How a reduction is dealt to threads. The host looks at shape and strides; the kernels of reduce.cuh do as the plan
// says. No CUDA headers, so that it is tested on the host.
#include <cstdint>

#include "cuda/row_plan.hpp"
#include "lib/core/tensor_impl.hpp"
#include "lib/kernels/host_device.hpp"

namespace capstan::on_cuda {

/// Axes that are walked together in row-major order, as few as their strides allow.
struct AxisWalk {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t sizes[kMaxRank] = {}, strides[kMaxRank] = {};  // strides in elements
  double shares[kMaxRank] = {};                               // 1 / size

  void append(std::int64_t size, std::int64_t stride) {
    count *= size;
    if (size == 1) return;
    const bool joined = rank > 0 && strides[rank - 1] == stride * size;
    if (joined) --rank;
    sizes[rank] = joined ? sizes[rank] * size : size;
    strides[rank] = stride;
    shares[rank] = 1 / static_cast<double>(sizes[rank]);
    ++rank;
  }
  std::int64_t inner_step() const {
    if (rank == 0) return 0;
    return strides[rank - 1] < 0 ? -strides[rank - 1] : strides[rank - 1];
  }
  /// Whether the steps of the first `axes` are multiples of `pack`.
  bool steps_by(int pack, int axes) const {
    for (int axis = 0; axis < axes; ++axis)
      if (strides[axis] % pack != 0) return false;
    return true;
  }
  bool steps_by(int pack) const { return steps_by(pack, rank); }

  /// Where element `index`, below 2^50, lies.
  CAPSTAN_HD std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      const std::int64_t next = quotient(index, axis);
      result += (index - next * sizes[axis]) * strides[axis];
      index = next;
    }
    return result + index * strides[0];
  }

 private:
  /// index / sizes[axis]. A GPU has no division of 64 bits; the product in double is off by one at most.
  CAPSTAN_HD std::int64_t quotient(std::int64_t index, int axis) const {
    const auto about = static_cast<std::int64_t>(static_cast<double>(index) * shares[axis]);
    const std::int64_t rest = index - about * sizes[axis];
    return rest < 0 ? about - 1 : rest >= sizes[axis] ? about + 1 : about;
  }
};

/// By rows: groups of threads share what becomes one element, wherever that stands.
/// By columns: neighbouring threads take neighbouring elements of the result, which stand side by side; what is reduced
/// is shared out among blocks and in them.
struct ReducePlan {
  AxisWalk kept, reduced;                                // by columns: kept without its innermost axis
  std::int64_t columns = 1, column_step = 0, tiles = 1;  // tiles: blocks side by side for all columns
  bool by_columns = false;
  bool packed = false;                 // several elements are loaded at once: of a row, or of neighbouring columns
  int lanes = 1;                       // threads of a row, or those of a block side by side
  std::int64_t pieces = 1, slice = 0;  // of what is reduced: packs of a row if packed, else elements

  /// `row_pack` and `column_pack`: elements that can be loaded at once; column_pack 0: never by columns.
  ReducePlan(const TensorImpl& x, unsigned mask, int row_pack, int column_pack) {
    split(x, mask);
    if (outputs() == 0) return;
    const std::int64_t along = reduced.inner_step(), across = kept.inner_step();
    const bool near = across == 0 || (along != 0 && along <= across);
    const std::int64_t width = kept.rank > 0 ? kept.sizes[kept.rank - 1] : 1;
    const bool enough = width >= kRowThreads || width * reduced.count >= 8 * kRowThreads;
    if (column_pack > 0 && !near && enough) deal_columns(x, column_pack);
    else deal_rows(x, row_pack, near);
  }

  std::int64_t outputs() const { return kept.count * columns; }
  LaunchShape shape() const {
    return block_each(by_columns ? kept.count * tiles * pieces : quotient_up(kept.count * pieces, kRowThreads / lanes));
  }

 private:
  /// The order of what is reduced does not matter: the longest steps, and none, outside.
  void split(const TensorImpl& x, unsigned mask) {
    int order[kMaxRank], rank = 0;
    const auto step = [&](int axis) {
      const std::int64_t stride = x.strides[axis];
      return stride == 0 ? INT64_MAX : stride < 0 ? -stride : stride;
    };
    for (int axis = 0; axis < x.rank(); ++axis) {
      if ((mask >> axis & 1u) == 0) {
        kept.append(x.shape[axis], x.strides[axis]);
        continue;
      }
      int at = rank++;
      for (; at > 0 && step(order[at - 1]) < step(axis); --at) order[at] = order[at - 1];
      order[at] = axis;
    }
    for (int i = 0; i < rank; ++i) reduced.append(x.shape[order[i]], x.strides[order[i]]);
  }

  static bool lies_at(const TensorImpl& x, int pack) {
    return reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(pack * size_of(x.dtype)) == 0;
  }

  /// One row in one piece may begin and end anywhere; rows in several must be whole packs everywhere.
  bool rows_can_pack(const TensorImpl& x, int pack) const {
    if (pack <= 1 || reduced.rank == 0 || reduced.strides[reduced.rank - 1] != 1) return false;
    if (reduced.rank == 1) return reduced.count >= 16 * pack;
    return reduced.sizes[reduced.rank - 1] % pack == 0 && reduced.steps_by(pack, reduced.rank - 1) &&
           kept.steps_by(pack) && lies_at(x, pack);
  }
  void deal_rows(const TensorImpl& x, int pack, bool near) {
    packed = rows_can_pack(x, pack);
    const RowDeal deal(kept.count, packed ? reduced.count / pack : reduced.count, near);
    lanes = deal.lanes;
    pieces = deal.pieces;
    slice = deal.slice;
  }

  void deal_columns(const TensorImpl& x, int pack) {
    by_columns = true;
    columns = kept.sizes[--kept.rank];
    column_step = kept.strides[kept.rank];
    kept.count /= columns;
    packed = pack > 1 && column_step == 1 && columns % pack == 0 && kept.steps_by(pack) && reduced.steps_by(pack) &&
             lies_at(x, pack);
    const std::int64_t width = packed ? columns / pack : columns;
    lanes = kRowThreads;
    while (lanes > 1 && lanes / 2 >= width) lanes /= 2;
    while (lanes > kWarp && reduced.count >= 32 * (kRowThreads / lanes)) lanes /= 2;
    tiles = quotient_up(width, lanes);
    const std::int64_t side = kRowThreads / lanes, most = kFullBlocks / (kept.count * tiles);
    const std::int64_t useful = reduced.count >= 64 * side ? reduced.count / (16 * side) : 1;
    const std::int64_t wanted = most < useful ? most : useful;
    pieces = wanted < 1 ? 1 : wanted;
    slice = quotient_up(reduced.count, pieces);
  }
};

}  // namespace capstan::on_cuda
