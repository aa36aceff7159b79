#pragma once
// A cell as users write them, with none of the optional parts, and what it computes in plain C++.
#include <utility>
#include <vector>

#include "tests/support.hpp"

namespace tests {

/// a' = tanh(x @ w + b);  b' = a / 2 + x @ v;  the output is a' - b'. All of width 2.
struct PlainCell {
  struct State {
    capstan::Tensor a, b;
  };
  capstan::Parameter w, v;  // [inputs, 2]

  std::pair<capstan::Tensor, State> operator()(const capstan::Tensor& x, const State& s) {
    const capstan::Tensor a = tanh(matmul(x, w) + s.b), b = s.a * 0.5 + matmul(x, v);
    return {a - b, State{a, b}};
  }
  State zero_state(std::int64_t batch) const {
    const capstan::TensorOptions options{.dtype = capstan::DType::float64};
    return {capstan::zeros({batch, 2}, options), capstan::zeros({batch, 2}, options)};
  }
};

inline PlainCell plain_cell(std::int64_t inputs, std::uint64_t seed) {
  const auto weight = [&](std::uint64_t s) {
    return capstan::Parameter(random_in(-1, 1, {inputs, 2}, capstan::DType::float64, s));
  };
  return PlainCell{weight(1000 + seed), weight(2000 + seed)};
}

/// Outputs [batch, time, 2] and last state of a PlainCell over x [batch, time, inputs], by loops over doubles. Without
/// lengths all rows have all steps.
struct PlainRun {
  capstan::Tensor outputs, a, b;
};
inline PlainRun plain_run(const PlainCell& cell, const capstan::Tensor& x, const std::vector<std::int64_t>& lengths,
                          bool reverse, const PlainCell::State& start) {
  const std::vector<double> in = values(x), w = values(cell.w), v = values(cell.v);
  std::vector<double> a = values(start.a), b = values(start.b);
  const auto batch = static_cast<std::size_t>(x.size(0)), time = static_cast<std::size_t>(x.size(1)),
             inputs = static_cast<std::size_t>(x.size(2));
  std::vector<double> outputs(batch * time * 2, 0.0);
  for (std::size_t row = 0; row < batch; ++row) {
    const std::size_t length = lengths.empty() ? time : static_cast<std::size_t>(lengths[row]);
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t place = row * time + (reverse ? length - 1 - i : i);
      double next_a[2], next_b[2];
      for (std::size_t k = 0; k < 2; ++k) {
        double p = b[row * 2 + k], q = a[row * 2 + k] / 2;
        for (std::size_t j = 0; j < inputs; ++j) {
          p += in[place * inputs + j] * w[j * 2 + k];
          q += in[place * inputs + j] * v[j * 2 + k];
        }
        next_a[k] = std::tanh(p);
        next_b[k] = q;
      }
      for (std::size_t k = 0; k < 2; ++k) {
        outputs[place * 2 + k] = next_a[k] - next_b[k];
        a[row * 2 + k] = next_a[k];
        b[row * 2 + k] = next_b[k];
      }
    }
  }
  return {from_doubles(outputs, {x.size(0), x.size(1), 2}), from_doubles(a, {x.size(0), 2}),
          from_doubles(b, {x.size(0), 2})};
}

}  // namespace tests
