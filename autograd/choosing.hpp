#pragma once
// What operations share that choose elements along an axis, such as sort and cummax.
#include "autograd/ops.hpp"

namespace capstan::autograd {

/// Where the elements were chosen from.
struct Chosen {
  Shape full;
  int axis;
};
/// Adds the gradient to the elements that were chosen. Saved: their indices along the axis, in the shape of the result
/// with that axis kept.
void chosen_replay(Replay& r);

/// Records `values`, chosen from x at `indices`, and tells of `told`, the indices as the caller gets them.
void record_choice(const char* op, Where where, const Tensor& x, int axis, Tensor& values, const Tensor& indices,
                   const Tensor& told);

}  // namespace capstan::autograd
