#pragma once
// What a good programmer writes without a library: cells of recurrent networks, a sample at a time, a sum and a copy
// of memory, and multiply-adds in registers, as loops. Compiled for the processor that measures, -O3 -march=native.
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

/// The sum of `count` numbers, a multiple of 256, as fast as memory gives them; the second fetches them ahead.
float sum_of(const float* values, std::size_t count);
float sum_with_fetching(const float* values, std::size_t count);

/// Copies `count` numbers, a multiple of 256, register by register.
void copy_by_vectors(const float* from, float* to, std::size_t count);

/// `count` multiply-adds, rounded up to whole rounds of all registers, that wait for nothing but the processor's units
/// for them: what its peak is. Their result is to be used.
float multiply_adds(std::size_t count);

}  // namespace bench
