#include "nn/decoding.hpp"

#include <string>

#include <capstan/create.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn::decoding {

namespace {

std::string title(const NamedTensor& tensor) { return tensor.name.empty() ? "a tensor" : tensor.name; }

}  // namespace

Batch batch_of(const char* op, std::span<const NamedTensor> state, Where where) {
  const NamedTensor* first = nullptr;
  bool any = state.empty();
  for (const NamedTensor& tensor : state) {
    if (!tensor.value.defined()) continue;
    any = true;
    if (tensor.value.rank() == 0) continue;
    if (first == nullptr) first = &tensor;
    else if (tensor.value.size(0) != first->value.size(0))
      base::fail<ShapeError>(where, op, ": in the initial state ", title(*first), " is ", first->value.shape(), " and ",
                             title(tensor), " is ", tensor.value.shape(), "; all must be [batch, ...] with one batch.");
  }
  if (!any)
    base::fail<Error>(where, op,
                      ": the initial state is undefined; give it values first, such as the cell's zero_state.");
  if (first == nullptr) return {};
  return {first->value.size(0), first->value.device()};
}

std::vector<std::int64_t> first_inputs(const char* op, std::int64_t start, const Tensor& start_tokens, Batch& batch,
                                       Where where) {
  if (!start_tokens.defined()) {
    if (start < 0)
      base::fail<IndexError>(where, op, ": the start token is ", start,
                             "; it must be >= 0, or start_tokens must be given.");
    if (batch.rows < 0)
      base::fail<Error>(where, op,
                        ": the initial state has no tensor [batch, ...]; give start_tokens, which tell the batch.");
    return std::vector<std::int64_t>(static_cast<std::size_t>(batch.rows), start);
  }
  if (start_tokens.dtype() != DType::int32 && start_tokens.dtype() != DType::int64)
    base::fail<DTypeError>(where, op, ": the start tokens are ", start_tokens.dtype(),
                           "; they must be int32 or int64.");
  if (start_tokens.rank() != 1)
    base::fail<ShapeError>(where, op, ": the start tokens are ", start_tokens.shape(), "; they must be [batch].");
  if (batch.rows < 0) batch = {start_tokens.size(0), start_tokens.device()};
  if (start_tokens.size(0) != batch.rows)
    base::fail<ShapeError>(where, op, ": the start tokens are ", start_tokens.shape(), "; for a batch of ", batch.rows,
                           " they must be [", batch.rows, "].");
  std::vector<std::int64_t> tokens = integers(start_tokens, where);
  for (std::size_t row = 0; row < tokens.size(); ++row)
    if (tokens[row] < 0)
      base::fail<IndexError>(where, op, ": the start token of row ", row, " is ", tokens[row], "; it must be >= 0.");
  return tokens;
}

void check_limits(const char* op, std::int64_t max_steps, std::optional<std::int64_t> end, Where where) {
  if (max_steps < 1) base::fail<Error>(where, op, ": max_steps is ", max_steps, "; it must be >= 1.");
  if (end && *end < 0) base::fail<IndexError>(where, op, ": the end token is ", *end, "; it must be >= 0.");
}

std::int64_t check_logits(const char* op, const Tensor& logits, std::int64_t rows, Where where) {
  if (!logits.defined()) base::fail<Error>(where, op, ": the logits are undefined; give them a value first.");
  if (!is_floating(logits.dtype()))
    base::fail<DTypeError>(where, op, ": the logits are ", logits.dtype(), "; they must be of a floating type.");
  if (logits.rank() != 2 || logits.size(1) < 1)
    base::fail<ShapeError>(where, op, ": the logits are ", logits.shape(),
                           "; they must be [rows, vocabulary] with one token or more.");
  if (rows >= 0 && logits.size(0) != rows)
    base::fail<ShapeError>(where, op, ": the logits are ", logits.shape(), " for ", rows, " rows; they must be [", rows,
                           ", vocabulary].");
  return logits.size(1);
}

void check_tokens(const char* op, const std::vector<std::int64_t>& starts, bool own_starts,
                  std::optional<std::int64_t> end, std::int64_t vocabulary, Where where) {
  if (end && *end >= vocabulary)
    base::fail<IndexError>(where, op, ": the end token is ", *end, "; it must be below ", vocabulary,
                           ", the size of the vocabulary.");
  for (std::size_t row = 0; row < starts.size(); ++row) {
    if (starts[row] < vocabulary) continue;
    if (own_starts)
      base::fail<IndexError>(where, op, ": the start token of row ", row, " is ", starts[row], "; it must be below ",
                             vocabulary, ", the size of the vocabulary.");
    base::fail<IndexError>(where, op, ": the start token is ", starts[row], "; it must be below ", vocabulary,
                           ", the size of the vocabulary.");
  }
}

Tensor widened(const Tensor& logits, Where where) {
  return is_half(logits.dtype()) ? logits.to(DType::float32, where) : logits;
}
std::vector<double> doubles(const Tensor& x, Where where) {
  return x.to(DType::float64, where).to_vector<double>(where);
}
std::vector<std::int64_t> integers(const Tensor& x, Where where) {
  return x.to(DType::int64, where).to_vector<std::int64_t>(where);
}
Tensor tokens_on(Device device, const std::vector<std::int64_t>& tokens, Where where) {
  return from_vector(tokens, Shape({static_cast<std::int64_t>(tokens.size())}, where), where).to(device, where);
}

}  // namespace capstan::nn::decoding
