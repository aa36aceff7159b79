#pragma once
// Sequences of few units in one launch: a block takes some rows through all steps, with the weights in registers and
// the states in shared memory. For hidden <= kResidentUnits and without a projection.
#include "cuda/recurrent_plan.hpp"

namespace capstan::on_cuda {

template <class T>
struct ResidentForward {
  RecurrentKind kind;
  bool keeps;  // the gates, for the gradient
  int hidden;
  ResidentCut cut;
  LineView lines;        // in the device's memory
  T* gates;              // on entry what x gives to their sums
  const T *wh, *b, *bn;  // biases may be null
  const T *h0, *c0;      // c0 null but for an lstm
  T *last_h, *last_c;
  T *entering_h, *entering_c;  // states that steps begin with; null if nobody keeps them
  T* out;                      // may be null
  std::int64_t out_row, out_step;
};
template <class T>
void run_resident(const ResidentForward<T>& s);

template <class T>
struct ResidentBackward {
  RecurrentKind kind;
  int hidden;
  ResidentCut cut;
  LineView lines;
  const T *gates, *wh;
  const T *entering_h, *entering_c;  // c null but for an lstm
  const T* given;                    // gradients of the outputs; may be null
  std::int64_t given_row, given_step;
  const T *last_h, *last_c;  // gradients of the last states; may be null
  T* sums;                   // gradients before the activations, lines like the gates
  T *dh0, *dc0;              // may be null
};
template <class T>
void run_resident(const ResidentBackward<T>& s);

}  // namespace capstan::on_cuda
