#pragma once
// What decoding and beam search check and read alike.
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <capstan/parameter.hpp>
#include <capstan/tensor.hpp>

namespace capstan::nn::decoding {

/// What the rows of a decoding are.
struct Batch {
  std::int64_t rows = -1;  // negative if not known
  Device device = cpu();
};
/// From the tensors of the initial state, which must agree; not known if it has none with axes.
Batch batch_of(const char* op, std::span<const NamedTensor> state, Where where);

/// The first input of each row. Whether they are below the size of the vocabulary is not known yet. Completes a batch
/// that is not known.
std::vector<std::int64_t> first_inputs(const char* op, std::int64_t start, const Tensor& start_tokens, Batch& batch,
                                       Where where);
/// Throws unless steps and tokens are possible with any vocabulary.
void check_limits(const char* op, std::int64_t max_steps, std::optional<std::int64_t> end, Where where);
/// Throws unless the logits are floating and [rows, vocabulary]; returns the size of the vocabulary. With rows < 0 they
/// may have any number of rows.
std::int64_t check_logits(const char* op, const Tensor& logits, std::int64_t rows, Where where);
/// Throws unless all tokens are below the size of the vocabulary. `own_starts`: whether each row has its own.
void check_tokens(const char* op, const std::vector<std::int64_t>& starts, bool own_starts,
                  std::optional<std::int64_t> end, std::int64_t vocabulary, Where where);

/// float32 in the place of 16-bit types.
Tensor widened(const Tensor& logits, Where where);
/// All elements, row-major.
std::vector<double> doubles(const Tensor& x, Where where);
std::vector<std::int64_t> integers(const Tensor& x, Where where);
/// int64, [size].
Tensor tokens_on(Device device, const std::vector<std::int64_t>& tokens, Where where);
/// How messages write a number that is not finite; the sign of NaN means nothing.
inline const char* text_of(double x) { return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"; }
/// Of one token: the difference may be a rounding above 0.
inline double log_probability(double logit, double total) { return std::fmin(0, logit - total); }

}  // namespace capstan::nn::decoding
