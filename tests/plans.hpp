#pragma once
// Plans beside the networks that they were made of.
#include <cstdint>
#include <type_traits>
#include <vector>

#include "tests/support.hpp"

namespace tests {

using Tensors = std::vector<capstan::Tensor>;

/// Numbers for an input: in [-1, 1), whole ones in [0, 5).
inline capstan::Tensor fresh_like(const capstan::Tensor& x, std::uint64_t seed) {
  const bool floating = is_floating(x.dtype());
  return random_in(floating ? -1 : 0, floating ? 1 : 5, x.shape(), x.dtype(), seed);
}

/// Writes such numbers to all inputs of a plan.
inline void refill(const capstan::Plan& plan, std::uint64_t seed) {
  for (capstan::Tensor x : plan.inputs()) x.assign(fresh_like(x, seed++));
}

/// What the network itself gives, as a list.
template <class Net>
Tensors results_of(Net& net, const Tensors& inputs) {
  Tensors list;
  const auto keep = [&list](const auto& results) {
    capstan::nn::detail::for_each_tensor(results, [&list](const capstan::Tensor& x) {
      if (x.defined()) list.push_back(x);
    });
  };
  if constexpr (std::is_invocable_v<Net&, const capstan::Tensor&>) keep(net(inputs[0]));
  else keep(net(inputs[0], inputs[1]));
  return list;
}

/// Without a tolerance: bit for bit, but for the sign of 0.
inline bool agree(const capstan::Tensor& actual, const capstan::Tensor& expected, double tolerance) {
  if (tolerance == 0) return same(actual, expected);
  return actual.dtype() == expected.dtype() && close(actual, expected, tolerance);
}

/// Whether a plan, run for several inputs one after another, gives what the network gives.
template <class Net>
bool plan_agrees(Net&& net, const std::vector<capstan::PlanInput>& inputs, double tolerance = 0) {
  capstan::Plan plan = capstan::freeze(net, inputs);
  bool all_agree = true;
  for (std::uint64_t run = 0; run < 4; ++run) {
    refill(plan, 1 + 10 * run);
    const Tensors expected = results_of(net, plan.inputs());
    plan.run();
    all_agree = all_agree && plan.outputs().size() == expected.size();
    for (std::size_t i = 0; i < expected.size() && all_agree; ++i)
      all_agree = agree(plan.outputs()[i], expected[i], tolerance);
  }
  return all_agree;
}

/// The same for a cell, over twenty steps, and from the beginning again after `reset`.
template <class Cell>
bool cell_agrees(Cell cell, const capstan::PlanInput& input, double tolerance = 0) {
  capstan::Plan plan = capstan::freeze(cell, {input});
  bool all_agree = true;
  for (const std::uint64_t round : {1u, 2u}) {
    auto state = cell.zero_state(input.shape[0]);
    for (std::uint64_t step = 0; step < 20 && all_agree; ++step) {
      refill(plan, 100 * round + step);
      auto [output, after] = capstan::nn::detail::step(cell, plan.inputs()[0], state, capstan::Where::current());
      plan.run();
      all_agree = agree(plan.outputs()[0], output, tolerance);
      state = after;
    }
    plan.reset();
  }
  return all_agree;
}

}  // namespace tests
