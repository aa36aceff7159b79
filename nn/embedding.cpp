#include <capstan/nn/embedding.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {
namespace {

/// The table; the row of the padding, if there is one, is 0.
Parameter make_table(const char* name, std::int64_t count, std::int64_t size, std::optional<std::int64_t> padding,
                     const Initializer& recipe, DType dtype, Rng& rng, Where where) {
  if (count < 1 || size < 1)
    base::fail<ShapeError>(where, name, ": ", count, " rows of ", size, " values were asked for; both must be >= 1.");
  if (padding && (*padding < -count || *padding >= count))
    base::fail<IndexError>(where, name, ": the padding index is ", *padding, "; with ", count, " rows it must be in [",
                           -count, ", ", count, ").");
  Parameter table(recipe(Shape({count, size}), rng, {dtype, cpu()}, where), where);
  if (padding) table.index_put({*padding}, 0, {}, where);
  return table;
}

}  // namespace

Embedding::Embedding(const EmbeddingOptions& options, Rng& rng, Where where)
    : weight(make_table("Embedding", options.count, options.size, options.padding_index, options.weight_init,
                        options.dtype, rng, where)),
      options_{.padding_index = options.padding_index,
               .max_norm = options.max_norm,
               .norm = options.norm,
               .scale_by_frequency = options.scale_by_frequency} {}

Tensor Embedding::operator()(const Tensor& indices, Where where) const {
  return embedding(indices, weight, options_, where);
}

EmbeddingBag::EmbeddingBag(const EmbeddingBagOptions& options, Rng& rng, Where where)
    : weight(make_table("EmbeddingBag", options.count, options.size, options.padding_index, options.weight_init,
                        options.dtype, rng, where)),
      options_{.mode = options.mode,
               .padding_index = options.padding_index,
               .include_last_offset = options.include_last_offset,
               .max_norm = options.max_norm,
               .norm = options.norm,
               .scale_by_frequency = options.scale_by_frequency} {}

Tensor EmbeddingBag::operator()(const Tensor& indices, Where where) const {
  return embedding_bag(indices, weight, options_, where);
}

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets, Where where) const {
  return (*this)(indices, offsets, Tensor(), where);
}

Tensor EmbeddingBag::operator()(const Tensor& indices, const Tensor& offsets, const Tensor& factors,
                                Where where) const {
  capstan::EmbeddingBagOptions options = options_;
  options.offsets = offsets;
  options.weights = factors;
  return embedding_bag(indices, weight, options, where);
}

}  // namespace capstan::nn
