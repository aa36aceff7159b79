#pragma once
// The replay of a tape.
#include <vector>

#include "autograd/log.hpp"
#include "autograd/side_products.hpp"

namespace capstan::autograd {

/// Buffers of one replay, kept from step to step. All are indexed by slot, from the first one that matters.
struct GradientWork {
  std::uint32_t base = 0;
  std::vector<Tensor> gradients;
  std::vector<std::uint8_t> marks;  // bits: of Mark
  std::vector<LateWatch> late;      // of the sources
  bool hooked = false;              // hooks see gradients
  SideProducts beside;
};
enum Mark : std::uint8_t {
  kDependsOnSource = 1,
  kIsSource = 2,
  kReachesTarget = 4,
  kIsUnseen = 8,   // nobody reads the gradient before the replay ends
  kIsBeside = 16,  // products are added to it beside the replay
};

struct GradientRequest {
  const char* op;                                              // for messages
  std::span<const Tensor> targets, sources, output_gradients;  // of the last none, or one for each target
  Unconnected unconnected;
  Where where;
  bool keep = false;  // more replays follow: nothing is spent or freed
};

/// The state of a tape that is used on its own thread and was not moved from.
TapeState& usable(const char* op, TapeState* state, Where where);

/// While one lives, a tape that ends goes on existing.
class Held {
 public:
  explicit Held(TapeState& tape) noexcept;
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  TapeState& tape_;
};

/// Checks that the tape is not spent, and fills `result`, one tensor for each source. A tape that this spends has then
/// forgotten everything.
void run_gradient(TapeState* state, const GradientRequest& request, Tensor* result);

}  // namespace capstan::autograd
