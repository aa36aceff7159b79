#pragma once
// Normalization of what no block holds in its registers: channels, groups and long rows, here called units, of
// x [samples, units, inner]. Three steps: sums over parts of the units (norm_sums.cu); from those what becomes of a
// unit's elements, in which layers differ; and that (norm_rule.cu). No CUDA headers.
#include <cstdint>

#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

inline std::int64_t parts_of(std::int64_t count, std::int64_t share) { return count / share + (count % share != 0); }

struct NormUnits {
  std::int64_t samples, units, inner;

  std::int64_t count() const { return samples * inner; }  // elements of a unit
};

/// x [samples, channels, ...] by its channels.
inline NormUnits channels_of(const TensorImpl& x) {
  std::int64_t inner = 1;
  for (int axis = 2; axis < x.rank(); ++axis) inner *= x.shape[axis];
  return {x.shape[0], x.shape[1], inner};
}

/// How units are cut into parts, of packs of elements that are read at once. Threads share the elements of a unit; or,
/// where few of these stand side by side, the rows of [samples, columns], columns = units * inner.
struct NormCut {
  static constexpr std::int64_t kWanted = 132 * 8;    // blocks that keep a GPU busy
  static constexpr std::int64_t kLeastValues = 4096;  // of a unit in a part, unless there is one part only
  static constexpr std::int64_t kLeastRows = 64;
  static constexpr std::int64_t kFewInside = 32;
  static constexpr std::int64_t kColumns = 32;  // that a block works on

  bool columns;
  std::int64_t width;         // sums of a unit in each part: one, or one of each column
  std::int64_t parts, share;  // share: packs of a unit, or rows, in a part

  NormCut(const NormUnits& u, std::int64_t pack) : columns(u.samples > 1 && u.inner < kFewInside), width(1) {
    if (columns) width = u.inner;
    const std::int64_t all = columns ? u.samples : u.count() / pack;
    const std::int64_t side_by_side = columns ? parts_of(u.units * u.inner, kColumns) : u.units;
    const std::int64_t most = columns ? u.samples / kLeastRows : u.count() / kLeastValues;
    const std::int64_t wanted = parts_of(kWanted, side_by_side), some = wanted < most ? wanted : most;
    share = parts_of(all, some < 1 ? 1 : some);
    parts = parts_of(all, share);
  }
};

/// [parts, kinds, units * width] on the device: what has been summed up.
struct PartSums {
  const double* data = nullptr;
  std::int64_t parts = 0, units = 0, width = 1;
};
/// The same, with its memory.
struct NormSums {
  Tensor memory;
  PartSums sums;
};

/// What becomes of a unit's elements:
///   out = by_grad * grad * weight + by_x * (x - shift) + offset, or
///   out = (by_x * (x - shift) + offset) * weight + bias
/// with weight and bias by the place inside. These numbers stand in a tensor [4, units], in the type that the elements
/// are computed in.
enum class NormRule : std::uint8_t { shift, by_x, offset, by_grad };
inline constexpr std::int64_t kNormRules = 4;

/// Sums of x - base and of its square, base being the first value of the unit (0 unless `centered`, and if that value
/// is not finite).
NormSums distance_sums(const TensorImpl& x, const NormUnits& units, bool centered);
/// Sums of g, of g * (x - mean) and of x - mean, where g = grad, or grad * weight [inner]. `share` units side by side
/// have one mean; null means 0.
NormSums product_sums(const TensorImpl& grad, const TensorImpl& x, const TensorImpl* weight, const TensorImpl* mean,
                      std::int64_t share, const NormUnits& units);
/// The first form if there is a grad. Weight and bias [inner] may be null.
void apply_rule(const TensorImpl& rule, const NormUnits& units, const TensorImpl* grad, const TensorImpl& x,
                const TensorImpl* weight, const TensorImpl* bias, TensorImpl& out);

}  // namespace capstan::on_cuda
