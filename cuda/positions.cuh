#pragma once
// Positions, integers that choose elements: int32 or int64, negative ones counting from the end; and elements as words
// that are only moved.
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/backend.hpp"
#include "cuda/geometry.hpp"
#include "cuda/report.cuh"
#include "cuda/values.cuh"
#include "cuda/words.hpp"

namespace capstan::on_cuda {

/// Integers of either type: what they are asked for is worth so much more than the branch.
struct PositionList {
  const void* data;
  bool wide;
  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i] : std::int64_t{static_cast<const std::int32_t*>(data)[i]};
  }
};
inline PositionList position_list(const TensorImpl& x) { return {x.data, x.dtype == DType::int64}; }

/// Makes a position count from the front; false if it chooses nothing.
__device__ inline bool inside(std::int64_t& position, const PositionRule& rule) {
  if (position < 0 && !rule.drop) position += rule.size;
  return position >= 0 && position < rule.size;
}

/// The number, in row-major order, of the position that element `index` asks: its place in the tensor that the user
/// gave, unless that one was stretched along axes between.
template <class I, int N>
__device__ std::int64_t position_number(const Places<I, N>& places, I index) {
  std::int64_t number = 0, weight = 1;
  for (int axis = places.rank - 1; axis >= 0; --axis) {
    const I next = axis > 0 ? places.by[axis].quotient(index) : I(0);
    if (places.strides[0][axis] != 0) {
      number += weight * (index - next * places.sizes[axis]);
      weight *= places.sizes[axis];
    }
    index = next;
  }
  return number;
}

/// Reports the position `value` that element `index` asks, if it is asked for and not to be passed over.
template <class I, int N>
__device__ void complain(const Report& report, const Places<I, N>& places, std::int64_t index, std::int64_t value) {
  if (report.box != nullptr) send(report, position_number(places, static_cast<I>(index)), value);
}
/// Positions that may be passed over are not reported.
inline Report report_of(const PositionRule& rule) {
  return rule.drop ? Report{} : start_report(ReportKind::index, -rule.size, rule.size);
}
inline bool nothing_reported(const Report& report) {
  return report.box == nullptr || finish_report(report).position < 0;
}

/// Calls `f(core::Type<Word>{})` with a word of that many bytes, up to 16.
template <class F>
void visit_words(std::int64_t bytes, F&& f) {
  if (bytes == 16) f(core::Type<Pack<std::uint32_t, 4>>{});
  else visit_unsigned(bytes, f);
}

}  // namespace capstan::on_cuda
