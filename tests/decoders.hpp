#pragma once
// A small random decoder: as a cell of a user's own with functions beside it, and once more in plain numbers.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/support.hpp"

namespace tests {

/// h' = tanh(table[token] + h @ turn); logits = h' @ out; alignments = softmax(h' @ look). float64.
struct RandomDecoder {
  struct State {
    capstan::Tensor h, alignments;
  };
  std::int64_t vocabulary, units, memory;
  capstan::Tensor table, turn, out, look;

  RandomDecoder(std::int64_t words, std::int64_t width, std::int64_t places, std::uint64_t seed)
      : vocabulary(words),
        units(width),
        memory(places),
        table(random_in(-2, 2, {words, width}, capstan::DType::float64, seed)),
        turn(random_in(-1, 1, {width, width}, capstan::DType::float64, seed + 1)),
        out(random_in(-2, 2, {width, words}, capstan::DType::float64, seed + 2)),
        look(random_in(-2, 2, {width, places}, capstan::DType::float64, seed + 3)) {}

  std::pair<capstan::Tensor, State> operator()(const capstan::Tensor& x, const State& s) const {
    const capstan::Tensor h = tanh(x + matmul(s.h, turn));
    return {h, State{h, softmax(matmul(h, look))}};
  }
  State zero_state(std::int64_t batch) const {
    const capstan::TensorOptions type{.dtype = capstan::DType::float64};
    return {capstan::zeros({batch, units}, type), capstan::zeros({batch, memory}, type)};
  }
  State random_state(std::int64_t batch, std::uint64_t seed) const {
    State state = zero_state(batch);
    state.h = random_in(-1, 1, {batch, units}, capstan::DType::float64, seed);
    return state;
  }
  auto embed() const {
    return [this](const capstan::Tensor& tokens) { return gather(table, tokens); };
  }
  auto project() const {
    return [this](const capstan::Tensor& h) { return matmul(h, out); };
  }
};

/// exp(x) / sum(exp(x)), or its logarithm.
inline std::vector<double> plain_softmax(std::vector<double> x, bool logarithm) {
  double sum = 0;
  for (const double value : x) sum += std::exp(value);
  for (double& value : x) value = logarithm ? value - std::log(sum) : std::exp(value) / sum;
  return x;
}

/// The same decoder without tensors, for one row.
class PlainDecoder {
 public:
  struct Step {
    std::vector<double> h, log_probabilities, alignments;
  };
  explicit PlainDecoder(const RandomDecoder& decoder)
      : units_(static_cast<std::size_t>(decoder.units)),
        table_(values(decoder.table)),
        turn_(values(decoder.turn)),
        out_(values(decoder.out)),
        look_(values(decoder.look)) {}

  Step operator()(const std::vector<double>& h, std::int64_t token) const {
    Step step;
    step.h = times(h, turn_);
    for (std::size_t i = 0; i < units_; ++i)
      step.h[i] = std::tanh(step.h[i] + table_[static_cast<std::size_t>(token) * units_ + i]);
    step.log_probabilities = plain_softmax(times(step.h, out_), true);
    step.alignments = plain_softmax(times(step.h, look_), false);
    return step;
  }
  /// Row `row` of a state's h.
  std::vector<double> row_of(const capstan::Tensor& h, std::int64_t row) const {
    const std::vector<double> all = values(h);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(units_);
    return {begin, begin + static_cast<std::ptrdiff_t>(units_)};
  }

 private:
  std::vector<double> times(const std::vector<double>& h, const std::vector<double>& matrix) const {
    const std::size_t columns = matrix.size() / units_;
    std::vector<double> product(columns, 0.0);
    for (std::size_t i = 0; i < units_; ++i)
      for (std::size_t j = 0; j < columns; ++j) product[j] += h[i] * matrix[i * columns + j];
    return product;
  }
  std::size_t units_;
  std::vector<double> table_, turn_, out_, look_;
};

/// The first `count` of a row of tokens.
inline std::vector<std::int64_t> first_tokens(const capstan::Tensor& row, std::int64_t count) {
  std::vector<std::int64_t> list = row.to_vector<std::int64_t>();
  list.resize(static_cast<std::size_t>(count));
  return list;
}

}  // namespace tests
