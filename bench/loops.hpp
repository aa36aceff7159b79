#pragma once
// What a good programmer writes without a library: cells of recurrent networks, a sample at a time, and a sum over
// memory, as loops. Compiled for the processor that measures, -O3 -march=native.
#include <array>
#include <cstddef>

namespace bench {

/// An LSTM cell of one input, with Capstan's weights: columns in blocks i, f, g, o.
template <std::size_t kUnits>
class LstmLoops {
 public:
  std::array<float, 4 * kUnits> wx, b;
  std::array<float, kUnits * 4 * kUnits> wh;  // a row for each unit

  /// The output, `kUnits` numbers that stay until the next step.
  const float* step(float x);

 private:
  std::array<float, kUnits> h_{}, c_{};
};

/// A GRU cell of one input whose reset gate acts behind the product; columns in blocks r, z, n.
template <std::size_t kUnits>
class GruLoops {
 public:
  std::array<float, 3 * kUnits> wx, b;
  std::array<float, kUnits> bn;
  std::array<float, kUnits * 3 * kUnits> wh;  // a row for each unit

  const float* step(float x);

 private:
  std::array<float, kUnits> h_{};
};

extern template class LstmLoops<4>;
extern template class GruLoops<64>;

/// The sum of `count` numbers, a multiple of 64, as fast as memory gives them.
float sum_of(const float* values, std::size_t count);

}  // namespace bench
