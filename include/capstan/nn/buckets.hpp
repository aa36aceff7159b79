#pragma once
// Batches of sequences of tokens: padding, and buckets of lengths, as TensorFlow's sequence-to-sequence models have
// them: sequences of similar lengths go together and are padded to the sizes of their bucket, so that little is computed
// in vain.
//
//     const nn::Buckets buckets({{5, 10}, {10, 15}, {20, 25}, {40, 50}});
//     const auto members = buckets.group(sources, targets);                          // numbers of examples
//     const nn::BucketBatch batch = buckets.batch(2, sources, targets, members[2]);
//
// Tokens are integers >= 0 (IndexError). Defined in nn/buckets.cpp.
#include <cstdint>
#include <span>
#include <vector>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

/// The first tokens of a vocabulary, as TensorFlow's tutorials number them: padding, the begin and the end of what a
/// decoder says, and words that are not in the vocabulary.
inline constexpr std::int64_t kPadToken = 0, kGoToken = 1, kEndToken = 2, kUnknownToken = 3;

using TokenLists = std::vector<std::vector<std::int64_t>>;

struct PaddedTokens {
  Tensor tokens;   ///< [batch, length] int64
  Tensor lengths;  ///< [batch] int64
};
/// Sequences side by side, with `pad` (any number) behind the end of each. `length` is that of the longest if negative.
/// Throws ShapeError for a sequence that is longer than `length`.
PaddedTokens pad_tokens(const TokenLists& sequences, std::int64_t length = -1, std::int64_t pad = kPadToken,
                        Where where = Where::current());

/// How many steps there are for each side.
struct BucketSize {
  std::int64_t source = 0;  ///< tokens of a source; >= 1
  std::int64_t target = 0;  ///< tokens of a target and one more, its end token; >= 1
};

/// What becomes of an example that fits no bucket.
enum class TooLong : std::uint8_t {
  error,    ///< ShapeError, naming its lengths
  drop,     ///< it is left out
  truncate  ///< it is cut to the sizes of the last bucket; a target that is cut has no end token
};

struct BucketsOptions {
  TooLong too_long = TooLong::error;
  bool reverse_source = false;  ///< the first token last (Sutskever et al. 2014); padding stays behind the end
  std::int64_t pad = kPadToken, go = kGoToken, end = kEndToken;
};

/// What a sequence-to-sequence model is trained on.
///
///     source   w1 w2 w3 pad ...      decoder_inputs  go y1 y2 pad ...
///     weights   1  1  1   0 ...      targets         y1 y2 end pad ...
struct BucketBatch {
  Tensor source;          ///< [batch, source size] int64
  Tensor source_lengths;  ///< [batch] int64
  Tensor decoder_inputs;  ///< [batch, target size] int64
  Tensor targets;         ///< [batch, target size] int64
  Tensor target_lengths;  ///< [batch] int64: of decoder inputs and targets alike
  Tensor weights;         ///< [batch, target size] float32: 1 for targets, 0 for padding; what losses take
};

/// Buckets of lengths, the smallest first.
class Buckets {
 public:
  /// Throws Error for no sizes, sizes below 1, sizes that are not each at least as large as those before in both and
  /// larger in one, or negative tokens.
  explicit Buckets(std::vector<BucketSize> sizes, const BucketsOptions& options = {}, Where where = Where::current());

  std::int64_t count() const noexcept { return static_cast<std::int64_t>(sizes_.size()); }
  /// IndexError.
  const BucketSize& size(std::int64_t bucket, Where where = Where::current()) const;

  /// The first bucket in which there is room for a source and a target of so many tokens, go and end tokens not
  /// counted; -1 for an example that is dropped.
  std::int64_t find(std::int64_t source, std::int64_t target, Where where = Where::current()) const;
  /// The numbers of the examples in each bucket, in their order. ShapeError unless there is a target for each source.
  std::vector<std::vector<std::int64_t>> group(const TokenLists& sources, const TokenLists& targets,
                                               Where where = Where::current()) const;
  /// These examples, padded to the sizes of a bucket. IndexError for a bucket, example or token out of range,
  /// ShapeError for an example that is longer, unless the bucket is the last and too long ones are cut.
  BucketBatch batch(std::int64_t bucket, const TokenLists& sources, const TokenLists& targets,
                    std::span<const std::int64_t> examples, Where where = Where::current()) const;

 private:
  bool fits(std::int64_t bucket, std::int64_t source, std::int64_t target) const noexcept;

  std::vector<BucketSize> sizes_;
  BucketsOptions options_;
};

}  // namespace nn
}  // namespace capstan
