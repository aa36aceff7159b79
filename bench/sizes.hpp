#pragma once
// The sizes of workloads that scale: the same for Capstan's programs and LibTorch's, hence C++17.
//
// The rows of a workload's plain name, and those by threads, have the base's sizes. A growth row has one of them
// smaller or larger, and says so in its name: parity_step.batch=100.
#include <cstdint>
#include <vector>

namespace bench {

/// What a workload has no use for is 0.
struct Sizes {
  std::int64_t batch = 0;
  std::int64_t steps = 0;  ///< of time, of a chain, or positions
  std::int64_t width = 0;  ///< units, channels or columns
  std::int64_t size = 0;   ///< numbers in all, or rows and columns of a square
};

/// One of the sizes, by the name that rows give it, and what it is in growth rows.
struct Axis {
  const char* name;
  std::int64_t Sizes::*size;
  std::int64_t small, large;
};

struct Growing {
  Sizes base;
  std::vector<Axis> axes;
};

/// The base's sizes alone.
inline Growing without_growth(const Growing& workload) { return {workload.base, {}}; }

inline Growing along_batch(std::int64_t base, std::int64_t small, std::int64_t large) {
  return {{base}, {{"batch", &Sizes::batch, small, large}}};
}
inline Growing along_width(std::int64_t base, std::int64_t small, std::int64_t large) {
  return {{0, 0, base}, {{"width", &Sizes::width, small, large}}};
}
inline Growing along_size(std::int64_t base, std::int64_t small, std::int64_t large) {
  return {{0, 0, 0, base}, {{"size", &Sizes::size, small, large}}};
}

// --- operations --------------------------------------------------------------------------------------------------

inline const Growing kAddOne{{0, 0, 0, 1}, {}};
inline const Growing kAdd = along_size(64, 4096, 1 << 20);
inline const Growing kElementwise = along_size(1 << 20, 4096, 1 << 24);
inline const Growing kSquare = along_size(1024, 128, 4096);
inline const Growing kProduct = along_size(1024, 64, 2048);
inline const Growing kRows = along_width(1024, 64, 8192);            // columns of 1024 rows
inline const Growing kPickedRows = along_batch(10000, 100, 100000);  // of 50,000 rows of 128 columns
inline const Growing kLong = along_size(1 << 20, 4096, 1 << 22);

// --- layers ------------------------------------------------------------------------------------------------------

inline const Growing kConv3x3{{32, 0, 64}, {{"batch", &Sizes::batch, 4, 128}, {"width", &Sizes::width, 16, 128}}};
inline const Growing kConv5x5 = along_batch(50, 5, 200);
inline const Growing kDepthwise = along_batch(16, 2, 64);
inline const Growing kMaxPool = along_batch(50, 5, 200);
inline const Growing kLayerNorm = along_width(1024, 64, 8192);  // columns of 1024 rows
inline const Growing kBatchNorm = along_batch(1024, 64, 8192);  // rows of 1024 columns
inline const Growing kImageBatches = along_batch(32, 4, 64);    // of 64 channels of 56 x 56
inline const Growing kAttentionLayer = along_batch(8, 1, 32);
inline const Growing kAttention{{8, 128}, {{"positions", &Sizes::steps, 32, 512}, {"batch", &Sizes::batch, 1, 32}}};
inline const Growing kOneSample{{1}, {}};
inline const Growing kAdam = along_size(20000000, 1000000, 100000000);  // in 20 tensors

// --- recurrent layers: width is that of inputs and units ---------------------------------------------------------

inline const Axis kSequenceBatch{"batch", &Sizes::batch, 1, 128};
inline const Growing kGru{{32, 50, 256},
                          {kSequenceBatch, {"steps", &Sizes::steps, 10, 200}, {"width", &Sizes::width, 64, 512}}};
inline const Growing kGruForward{{32, 50, 256}, {kSequenceBatch}};
inline const Growing kBilstm{{32, 50, 256}, {kSequenceBatch}};
inline const Growing kVariableLength{{32, 50, 256}, {{"batch", &Sizes::batch, 4, 128}}};
inline const Growing kTinyCell = along_width(4, 16, 64);

// --- training steps: width is that of the units ------------------------------------------------------------------

inline const Growing kChain{{0, 32}, {{"length", &Sizes::steps, 8, 128}}};
inline const Growing kParity{
    {1000, 50, 24},
    {{"batch", &Sizes::batch, 100, 10000}, {"steps", &Sizes::steps, 10, 250}, {"width", &Sizes::width, 8, 128}}};
inline const Growing kCnn = along_batch(50, 10, 250);
inline const Growing kLetters{
    {64, 10, 64},
    {{"batch", &Sizes::batch, 8, 512}, {"steps", &Sizes::steps, 5, 80}, {"width", &Sizes::width, 16, 256}}};
inline const Growing kLetterCell{{64, 10, 64}, {{"batch", &Sizes::batch, 8, 512}, {"width", &Sizes::width, 16, 256}}};
inline const Growing kSmallWords{
    {20, 20, 200},
    {{"batch", &Sizes::batch, 5, 80}, {"steps", &Sizes::steps, 5, 80}, {"width", &Sizes::width, 50, 400}}};
inline const Growing kMediumWords{{20, 35, 650}, {{"batch", &Sizes::batch, 5, 40}}};
inline const Growing kTranslator{{64, 0, 50}, {{"batch", &Sizes::batch, 8, 512}, {"width", &Sizes::width, 16, 200}}};

}  // namespace bench
