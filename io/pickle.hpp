#pragma once
// Pickles of weights, as torch.save writes them. Python's pickletools describes the opcodes, torch/_utils.py and
// torch/serialization.py what tensors are made of.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "io/byte_source.hpp"
#include "io/torch_types.hpp"

namespace capstan::io {

/// The bytes that tensors share, which stand elsewhere under this key.
struct PickledStorage {
  std::string_view key;
  const TorchType* type;  // of what `numel` counts
  std::int64_t numel;
  std::size_t offset;  // where in the pickle it is named
};

/// A view of a storage: element [i, j] is that at start + i*strides[0] + j*strides[1].
struct PickledTensor {
  std::uint32_t storage;  // among `storages`
  const TorchType* type;
  std::int64_t start;
  std::vector<std::int64_t> sizes, strides;  // up to 8; all numbers are as the file has them
  std::size_t offset;                        // where in the pickle it is made
};

struct PickledName {
  std::string name;
  std::uint32_t tensor;  // among `tensors`; the same one may have several names
};

struct PickledWeights {
  std::deque<PickledStorage> storages;
  std::deque<PickledTensor> tensors;
  std::deque<PickledName> names;  // in their order; all differ
};

/// No pickle may be longer.
inline constexpr std::int64_t kLongestPickle = std::int64_t{1} << 26;

/// The tensors of a pickle by their names: keys of dictionaries and positions in lists and tuples, joined by dots; a
/// single tensor has the name "". Other values are passed over. Nothing that is named in the pickle is called, or can
/// be. Time and memory are in proportion to its bytes, of which the caller has checked that there are at most
/// kLongestPickle: 16 bytes of values and 4 of names for each, and 2 MiB. No recursion.
///
/// `pickle` must stay where it is as long as the result is used. Fails by `source`, whose bytes they are.
PickledWeights read_pickle(std::string_view pickle, const ByteSource& source);

}  // namespace capstan::io
