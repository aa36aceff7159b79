#pragma once
// Tables of vectors that are looked up by number, such as those of words.
#include <optional>

#include <capstan/nn/init.hpp>
#include <capstan/nn/module.hpp>
#include <capstan/ops/embedding.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace nn {

struct EmbeddingOptions {
  std::int64_t count = 0;                          ///< rows, such as words of a vocabulary; >= 1
  std::int64_t size = 0;                           ///< of each row; >= 1
  std::optional<std::int64_t> padding_index = {};  ///< its row starts at 0 and gets no gradient; negative from the end
  std::optional<double> max_norm = {};             ///< longer rows are scaled to it when they are looked up, in place
  double norm = 2;                                 ///< order of the norm that max_norm means
  bool scale_by_frequency = false;                 ///< divide gradients by how often an index occurs in the batch
  Initializer weight_init = init::uniform(-0.05, 0.05);  ///< as in Keras
  DType dtype = DType::float32;
};

/// `embedding`: the rows of a table that is learned. `Embedding words{10000, 200};`.
///
/// Shapes  indices [i...], weight [count, size]; result [i..., size]
/// Throws  ShapeError unless count and size are >= 1     IndexError  a padding index or an index out of range
///         Error  max_norm or norm not above 0            DTypeError  a type that is not floating
class Embedding {
 public:
  explicit Embedding(const EmbeddingOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  Embedding(std::int64_t count, std::int64_t size, Rng& rng = default_rng(), Where where = Where::current())
      : Embedding({.count = count, .size = size}, rng, where) {}
  Tensor operator()(const Tensor& indices, Where where = Where::current()) const;

  Parameter weight;
  CAPSTAN_FIELDS(weight);

 private:
  capstan::EmbeddingOptions options_;
};

struct EmbeddingBagOptions {
  std::int64_t count = 0;  ///< rows; >= 1
  std::int64_t size = 0;   ///< of each row; >= 1
  BagMode mode = BagMode::mean;
  std::optional<std::int64_t> padding_index = {};  ///< its row starts at 0, and it counts as if it was not there
  bool include_last_offset = false;                ///< the last offset is where the last bag ends
  std::optional<double> max_norm = {};             ///< as for Embedding
  double norm = 2;
  bool scale_by_frequency = false;
  Initializer weight_init = init::uniform(-0.05, 0.05);
  DType dtype = DType::float32;
};

/// `embedding_bag`: sums, means or largest values of rows of a table that is learned.
///
/// Shapes  indices [bags, length], or [n] with offsets [bags]; factors as the indices; weight [count, size];
///         result [bags, size]
/// Throws  as Embedding; Error for factors with another mode than sum, and for scale_by_frequency with max
class EmbeddingBag {
 public:
  explicit EmbeddingBag(const EmbeddingBagOptions& options, Rng& rng = default_rng(), Where where = Where::current());
  EmbeddingBag(std::int64_t count, std::int64_t size, Rng& rng = default_rng(), Where where = Where::current())
      : EmbeddingBag({.count = count, .size = size}, rng, where) {}
  Tensor operator()(const Tensor& indices, Where where = Where::current()) const;
  Tensor operator()(const Tensor& indices, const Tensor& offsets, Where where = Where::current()) const;
  /// `offsets` may be undefined for indices of two axes.
  Tensor operator()(const Tensor& indices, const Tensor& offsets, const Tensor& factors,
                    Where where = Where::current()) const;

  Parameter weight;
  CAPSTAN_FIELDS(weight);

 private:
  capstan::EmbeddingBagOptions options_;
};

}  // namespace nn
}  // namespace capstan
