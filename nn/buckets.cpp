#include <capstan/nn/buckets.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <capstan/create.hpp>
#include <capstan/ops/rearranging.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {

namespace {

using Tokens = std::vector<std::int64_t>;

std::int64_t length_of(const Tokens& tokens) { return static_cast<std::int64_t>(tokens.size()); }

void check_tokens(const char* op, const char* what, std::int64_t number, const Tokens& tokens, Where where) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0)
      base::fail<IndexError>(where, op, ": token ", i, " of ", what, " ", number, " is ", tokens[i],
                             "; it must be >= 0.");
}

void check_pairs(const TokenLists& sources, const TokenLists& targets, Where where) {
  if (sources.size() != targets.size())
    base::fail<ShapeError>(where, "Buckets: there are ", sources.size(), " sources and ", targets.size(),
                           " targets; there must be one for each.");
}

/// Sequences after all checks.
PaddedTokens padded(const TokenLists& sequences, std::int64_t length, std::int64_t pad, Where where) {
  const auto batch = static_cast<std::int64_t>(sequences.size());
  Tensor tokens = full(Shape({batch, length}, where), pad, {.dtype = DType::int64, .device = cpu()}, where);
  const std::span<std::int64_t> all = tokens.mutable_span<std::int64_t>(where);
  Tokens lengths;
  for (std::size_t row = 0; row < sequences.size(); ++row) {
    std::copy(sequences[row].begin(), sequences[row].end(),
              all.begin() + static_cast<std::ptrdiff_t>(row) * static_cast<std::ptrdiff_t>(length));
    lengths.push_back(length_of(sequences[row]));
  }
  return {tokens.to(default_device(), where), from_vector(lengths, where)};
}

}  // namespace

PaddedTokens pad_tokens(const TokenLists& sequences, std::int64_t length, std::int64_t pad, Where where) {
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    check_tokens("pad_tokens", "sequence", static_cast<std::int64_t>(i), sequences[i], where);
    const std::int64_t own = length_of(sequences[i]);
    if (length >= 0 && own > length)
      base::fail<ShapeError>(where, "pad_tokens: sequence ", i, " has ", own, " tokens; there is room for ", length,
                             ".");
    longest = std::max(longest, own);
  }
  return padded(sequences, length < 0 ? longest : length, pad, where);
}

Buckets::Buckets(std::vector<BucketSize> sizes, const BucketsOptions& options, Where where)
    : sizes_(std::move(sizes)), options_(options) {
  if (sizes_.empty()) base::fail<Error>(where, "Buckets: no sizes were given; there must be one bucket at least.");
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const BucketSize& here = sizes_[i];
    if (here.source < 1 || here.target < 1)
      base::fail<Error>(where, "Buckets: bucket ", i, " is (", here.source, ", ", here.target,
                        "); both sizes must be >= 1.");
    if (i == 0) continue;
    const BucketSize& before = sizes_[i - 1];
    if (here.source < before.source || here.target < before.target)
      base::fail<Error>(where, "Buckets: bucket ", i, " is (", here.source, ", ", here.target, ") after (",
                        before.source, ", ", before.target, "); none may be smaller than the one before in any size.");
    if (here.source == before.source && here.target == before.target)
      base::fail<Error>(where, "Buckets: bucket ", i, " is (", here.source, ", ", here.target, ") after (",
                        before.source, ", ", before.target, "); each must be larger than the one before.");
  }
  if (options.pad < 0 || options.go < 0 || options.end < 0)
    base::fail<Error>(where, "Buckets: the tokens for padding, begin and end are ", options.pad, ", ", options.go,
                      " and ", options.end, "; they must be >= 0.");
}

const BucketSize& Buckets::size(std::int64_t bucket, Where where) const {
  if (bucket < 0 || bucket >= count())
    base::fail<IndexError>(where, "Buckets: bucket ", bucket, " is out of range; it must be in [0, ", count(), ").");
  return sizes_[static_cast<std::size_t>(bucket)];
}

bool Buckets::fits(std::int64_t bucket, std::int64_t source, std::int64_t target) const noexcept {
  const BucketSize& room = sizes_[static_cast<std::size_t>(bucket)];
  return source <= room.source && target < room.target;
}

std::int64_t Buckets::find(std::int64_t source, std::int64_t target, Where where) const {
  for (std::int64_t bucket = 0; bucket < count(); ++bucket)
    if (fits(bucket, source, target)) return bucket;
  if (options_.too_long == TooLong::drop) return -1;
  if (options_.too_long == TooLong::truncate) return count() - 1;
  base::fail<ShapeError>(where, "Buckets: a source of ", source, " and a target of ", target,
                         " tokens fit no bucket; the largest has room for ", sizes_.back().source, " and ",
                         sizes_.back().target - 1, ".");
}

std::vector<std::vector<std::int64_t>> Buckets::group(const TokenLists& sources, const TokenLists& targets,
                                                      Where where) const {
  check_pairs(sources, targets, where);
  std::vector<std::vector<std::int64_t>> members(sizes_.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::int64_t bucket = find(length_of(sources[i]), length_of(targets[i]), where);
    if (bucket >= 0) members[static_cast<std::size_t>(bucket)].push_back(static_cast<std::int64_t>(i));
  }
  return members;
}

BucketBatch Buckets::batch(std::int64_t bucket, const TokenLists& sources, const TokenLists& targets,
                           std::span<const std::int64_t> examples, Where where) const {
  const BucketSize& room = size(bucket, where);
  check_pairs(sources, targets, where);
  const bool cuts = options_.too_long == TooLong::truncate && bucket == count() - 1;
  TokenLists source, input, target;
  for (const std::int64_t example : examples) {
    if (example < 0 || example >= static_cast<std::int64_t>(sources.size()))
      base::fail<IndexError>(where, "Buckets: example ", example, " is out of range; it must be in [0, ",
                             sources.size(), ").");
    Tokens from = sources[static_cast<std::size_t>(example)], to = targets[static_cast<std::size_t>(example)];
    check_tokens("Buckets", "source", example, from, where);
    check_tokens("Buckets", "target", example, to, where);
    if (!cuts && !fits(bucket, length_of(from), length_of(to)))
      base::fail<ShapeError>(where, "Buckets: example ", example, " has ", from.size(), " and ", to.size(),
                             " tokens; bucket ", bucket, " has room for ", room.source, " and ", room.target - 1, ".");
    from.resize(std::min(from.size(), static_cast<std::size_t>(room.source)));
    if (options_.reverse_source) std::reverse(from.begin(), from.end());
    to.push_back(options_.end);
    to.resize(std::min(to.size(), static_cast<std::size_t>(room.target)));
    Tokens shifted = {options_.go};
    shifted.insert(shifted.end(), to.begin(), to.end() - 1);
    source.push_back(std::move(from));
    input.push_back(std::move(shifted));
    target.push_back(std::move(to));
  }

  const PaddedTokens sources_padded = padded(source, room.source, options_.pad, where);
  const PaddedTokens targets_padded = padded(target, room.target, options_.pad, where);
  return {sources_padded.tokens,
          sources_padded.lengths,
          padded(input, room.target, options_.pad, where).tokens,
          targets_padded.tokens,
          targets_padded.lengths,
          sequence_mask(targets_padded.lengths, room.target, DType::float32, where)};
}

}  // namespace capstan::nn
