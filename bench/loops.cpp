#include "bench/loops.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace bench {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

/// sums += h @ w, row by row, so that the inner loop runs along memory.
template <std::size_t kRows, std::size_t kColumns>
void add_product(const std::array<float, kRows>& h, const std::array<float, kRows * kColumns>& w,
                 std::array<float, kColumns>& sums) {
  for (std::size_t row = 0; row < kRows; ++row) {
    for (std::size_t column = 0; column < kColumns; ++column) sums[column] += h[row] * w[row * kColumns + column];
  }
}

constexpr std::size_t kLanes = 8;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

/// Independent sums hide the latency of additions.
template <std::size_t... kChain>
float sum_by_chains(const float* values, std::size_t count, std::index_sequence<kChain...>) {
  Lanes sums[sizeof...(kChain)] = {};
  for (const float* end = values + count; values < end; values += kLanes * sizeof...(kChain)) {
    ((sums[kChain] += reinterpret_cast<const Lanes*>(values)[kChain]), ...);
  }
  const Lanes all = (sums[kChain] + ...);
  float total = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) total += all[lane];
  return total;
}

}  // namespace

template <std::size_t kUnits>
const float* LstmLoops<kUnits>::step(float x) {
  std::array<float, 4 * kUnits> gates;
  for (std::size_t i = 0; i < gates.size(); ++i) gates[i] = b[i] + x * wx[i];
  add_product(h_, wh, gates);
  for (std::size_t i = 0; i < kUnits; ++i) {
    const float kept = sigmoid(gates[kUnits + i]) * c_[i];
    c_[i] = kept + sigmoid(gates[i]) * std::tanh(gates[2 * kUnits + i]);
    h_[i] = sigmoid(gates[3 * kUnits + i]) * std::tanh(c_[i]);
  }
  return h_.data();
}

template <std::size_t kUnits>
const float* GruLoops<kUnits>::step(float x) {
  std::array<float, 3 * kUnits> inputs, states{};
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = b[i] + x * wx[i];
  for (std::size_t i = 0; i < kUnits; ++i) states[2 * kUnits + i] = bn[i];
  add_product(h_, wh, states);
  for (std::size_t i = 0; i < kUnits; ++i) {
    const float r = sigmoid(inputs[i] + states[i]);
    const float z = sigmoid(inputs[kUnits + i] + states[kUnits + i]);
    const float n = std::tanh(inputs[2 * kUnits + i] + r * states[2 * kUnits + i]);
    h_[i] = (1 - z) * n + z * h_[i];
  }
  return h_.data();
}

template class LstmLoops<4>;
template class GruLoops<64>;

float sum_of(const float* values, std::size_t count) {
  return sum_by_chains(values, count, std::make_index_sequence<8>());
}

}  // namespace bench
