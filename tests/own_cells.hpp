#pragma once
// Cells of a user's own, with no more than a cell must have: no places, no sequences, operators that are not const.
#include <capstan/capstan.hpp>

namespace tests {

/// [batch, 2] -> [batch, 2] with two states of that shape, float64.
struct OwnCell {
  struct State {
    capstan::Tensor h, c;
  };
  capstan::Parameter w{capstan::Tensor{{0.5, -0.25}, {1.0, 0.75}}};

  std::pair<capstan::Tensor, State> operator()(const capstan::Tensor& x, const State& s) {
    const capstan::Tensor sum = matmul(x, w) + s.h;
    const capstan::Tensor c = s.c * 0.5 + x, h = tanh(sum + c);
    return {h - c, State{h, c}};
  }
  State zero_state(std::int64_t batch) const {
    const capstan::TensorOptions options{.dtype = capstan::DType::float64};
    return {capstan::zeros({batch, 2}, options), capstan::zeros({batch, 2}, options)};
  }
};

/// A cell that gives its input, and tells its sizes, true or not.
struct SizedCell {
  struct State {
    capstan::Tensor h;
  };
  std::int64_t in = 1, out = 1;

  std::pair<capstan::Tensor, State> operator()(const capstan::Tensor& x, const State&) { return {x, State{x}}; }
  State zero_state(std::int64_t batch) const {
    return {capstan::zeros({batch, in}, {.dtype = capstan::DType::float64})};
  }
  std::int64_t inputs() const { return in; }
  std::int64_t outputs() const { return out; }
};

}  // namespace tests
