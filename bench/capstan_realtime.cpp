// One step of a small cell for one sample, as in a callback of audio: by a plan, and by loops written by hand with the
// same weights. Nobody else is compared with.
#include <capstan/capstan.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/loops.hpp"
#include "bench/rows.hpp"

namespace cs = capstan;

namespace bench {
namespace {

constexpr float kSample = 0.5F;

template <class Cell>
struct PlanStep {
  cs::Plan plan;

  explicit PlanStep(const Cell& cell) : plan(cs::freeze(cell, {{1, 1}})) {}
  float operator()() {
    plan.input<float>()[0] = kSample;
    plan.run();
    return plan.output<float>()[0];
  }
};

template <class Loops>
struct LoopsStep {
  Loops loops;
  float operator()() { return loops.step(kSample)[0]; }
};

template <std::size_t kCount>
void take(const cs::Tensor& weights, std::array<float, kCount>& numbers) {
  const std::vector<float> taken = weights.to_vector<float>();
  if (taken.size() != kCount) throw std::logic_error("loops: weights of another size");
  std::copy(taken.begin(), taken.end(), numbers.begin());
}

LstmLoops<4> loops_of(const cs::nn::LstmCell& cell) {
  LstmLoops<4> loops;
  take(cell.wx, loops.wx);
  take(cell.wh, loops.wh);
  take(cell.b, loops.b);
  return loops;
}

GruLoops<64> loops_of(const cs::nn::GruCell& cell) {
  GruLoops<64> loops;
  take(cell.wx, loops.wx);
  take(cell.wh, loops.wh);
  take(cell.b, loops.b);
  take(cell.bn, loops.bn);
  return loops;
}

/// Loops that compute something else would be a wrong measure.
template <class Cell>
void check_same(const Cell& cell) {
  PlanStep<Cell> plan(cell);
  LoopsStep<decltype(loops_of(cell))> loops{loops_of(cell)};
  for (int i = 0; i < 16; ++i) {
    if (!(std::abs(plan() - loops()) < 1e-5F)) throw std::logic_error("loops: not what the cell computes");
  }
}

template <class Cell>
void cell_rows(const std::string& name, std::int64_t units) {
  const auto make = [units] { return Cell(1, units); };
  row("plan_" + name, [make] {
    const Cell cell = make();
    check_same(cell);
    return PlanStep<Cell>(cell);
  });
  row("loops_" + name, [make] {
    const Cell cell = make();
    return LoopsStep<decltype(loops_of(cell))>{loops_of(cell)};
  });
}

}  // namespace

void realtime_rows() {
  cell_rows<cs::nn::LstmCell>("lstm4", 4);
  cell_rows<cs::nn::GruCell>("gru64", 64);
}

}  // namespace bench
