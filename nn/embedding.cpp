#include <capstan/nn/embedding.hpp>

#include "lib/base/text.hpp"
#include "nn/mixed_types.hpp"

namespace capstan::nn {
namespace {

/// The table, from options of either kind; the row of the padding, if there is one, is 0.
template <class Options>
Parameter make_table(const char* name, const Options& o, Rng& rng, Where where) {
  check_floating(name, o.dtype, where);
  const std::int64_t count = o.count;
  if (count < 1 || o.size < 1)
    base::fail<ShapeError>(where, name, ": ", count, " rows of ", o.size, " values were asked for; both must be >= 1.");
  if (o.padding_index && (*o.padding_index < -count || *o.padding_index >= count))
    base::fail<IndexError>(where, name, ": the padding index is ", *o.padding_index, "; with ", count,
                           " rows it must be in [", -count, ", ", count, ").");
  if (o.max_norm && !(*o.max_norm > 0))
    base::fail<Error>(where, name, ": max_norm is ", *o.max_norm, "; it must be above 0.");
  if (o.max_norm && !(o.norm > 0))
    base::fail<Error>(where, name, ": the order of the norm is ", o.norm, "; it must be above 0.");
  Parameter table(o.weight_init(Shape({count, o.size}, where), rng, {o.dtype}, where), where);
  if (o.padding_index) table.index_put({*o.padding_index}, 0, {}, where);
  return table;
}

const EmbeddingBagOptions& checked(const EmbeddingBagOptions& o, Where where) {
  if (o.mode == BagMode::max && o.scale_by_frequency)
    base::fail<Error>(where, "EmbeddingBag: scale_by_frequency goes with sums and means, and the mode is max.");
  return o;
}

}  // namespace

Embedding::Embedding(const EmbeddingOptions& options, Rng& rng, Where where)
    : weight(make_table("Embedding", options, rng, where)),
      options_{.padding_index = options.padding_index,
               .max_norm = options.max_norm,
               .norm = options.norm,
               .scale_by_frequency = options.scale_by_frequency} {}

Tensor Embedding::operator()(const Tensor& indices, Where where) const {
  return embedding(indices, weight, options_, where);
}

EmbeddingBag::EmbeddingBag(const EmbeddingBagOptions& options, Rng& rng, Where where)
    : weight(make_table("EmbeddingBag", checked(options, where), rng, where)),
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
