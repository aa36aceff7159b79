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

#ifdef __AVX512F__
constexpr std::size_t kLanes = 16, kRegisters = 32;
#else
constexpr std::size_t kLanes = 8, kRegisters = 16;
#endif
constexpr std::size_t kSumChains = kRegisters / 2, kCopyVectors = 4, kMultiplyAddChains = 12;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

float sum_of_lanes(const Lanes& lanes) {
  float total = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

/// On some processors faster than their own prefetching where values come from the last cache, on others slower. Beyond
/// the end it does no harm.
void fetch_ahead(const float* values) {
  constexpr std::size_t kBytesAhead = 8192;
  __builtin_prefetch(reinterpret_cast<const char*>(values) + kBytesAhead);
}

/// Independent sums hide the latency of additions.
template <bool kAhead, std::size_t... kChain>
float sum_by_chains(const float* values, std::size_t count, std::index_sequence<kChain...>) {
  Lanes sums[sizeof...(kChain)] = {};
  for (const float* end = values + count; values < end; values += kLanes * sizeof...(kChain)) {
    if constexpr (kAhead) (fetch_ahead(values + kChain * kLanes), ...);
    ((sums[kChain] += reinterpret_cast<const Lanes*>(values)[kChain]), ...);
  }
  return sum_of_lanes((sums[kChain] + ...));
}

/// Several at once: of a loop over single ones the compiler makes a call of memcpy.
template <std::size_t... kVector>
void copy_by_groups(const float* from, float* to, std::size_t count, std::index_sequence<kVector...>) {
  constexpr std::size_t kGroup = kLanes * sizeof...(kVector);
  for (const float* end = from + count; from < end; from += kGroup, to += kGroup) {
    (fetch_ahead(from + kVector * kLanes), ...);
    const Lanes group[] = {reinterpret_cast<const Lanes*>(from)[kVector]...};
    ((reinterpret_cast<Lanes*>(to)[kVector] = group[kVector]), ...);
  }
}

/// Independent chains hide the latency here as well. They begin with different numbers, or the compiler would compute
/// one for all; they all go to 2, far from overflow and from denormal numbers.
template <std::size_t... kChain>
float multiply_adds_by_chains(std::size_t count, std::index_sequence<kChain...>) {
  const Lanes half = Lanes{} + 0.5F, one = Lanes{} + 1.0F;
  Lanes chains[] = {(Lanes{} + static_cast<float>(kChain))...};
  for (std::size_t done = 0; done < count; done += kLanes * sizeof...(kChain)) {
    ((chains[kChain] = chains[kChain] * half + one), ...);
  }
  return sum_of_lanes((chains[kChain] + ...));
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
  return sum_by_chains<false>(values, count, std::make_index_sequence<kSumChains>());
}
float sum_with_fetching(const float* values, std::size_t count) {
  return sum_by_chains<true>(values, count, std::make_index_sequence<kSumChains>());
}

void copy_by_vectors(const float* from, float* to, std::size_t count) {
  copy_by_groups(from, to, count, std::make_index_sequence<kCopyVectors>());
}

float multiply_adds(std::size_t count) {
  return multiply_adds_by_chains(count, std::make_index_sequence<kMultiplyAddChains>());
}

}  // namespace bench
