#pragma once
// The replay of a tape.
#include <vector>

#include "autograd/log.hpp"

namespace capstan::autograd {

/// Buffers of one replay, kept from step to step. All are indexed by slot, from the first one that matters.
struct GradientWork {
  std::uint32_t base = 0;
  std::vector<Tensor> gradients;
  std::vector<std::uint8_t> marks;  // bits: kDependsOnSource, kIsSource, kReachesTarget
};
enum Mark : std::uint8_t { kDependsOnSource = 1, kIsSource = 2, kReachesTarget = 4 };

struct GradientRequest {
  std::span<const Tensor> targets, sources, output_gradients;  // of the last none, or one for each target
  Unconnected unconnected;
  Where where;
};

/// Fills `result`, one tensor for each source.
void compute_gradients(TapeState& tape, const GradientRequest& request, Tensor* result);

}  // namespace capstan::autograd
