#pragma once
// Rows of a table looked up by integers, one by one or added up by bags. nn/embedding.hpp has them as modules.
//
// Gradients for the table hold the rows that were looked up and nothing else (sparse.hpp), unless there are as many of
// them as rows or an outer tape listens; they exist to any order. Indices are integers in [0, rows); unlike gather's
// they do not count from the end, as in TensorFlow and PyTorch. Defined in autograd/embedding.cpp.
#include <optional>

#include <capstan/tensor.hpp>

namespace capstan CAPSTAN_PUBLIC {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_index = {};  ///< its row gets no gradient; negative counts from the end
  /// Rows that are looked up and longer than this are scaled to it first, in place: the table is changed, as in
  /// PyTorch, and the gradient takes no notice.
  std::optional<double> max_norm = {};
  double norm = 2;                  ///< order of the norm that max_norm means
  bool scale_by_frequency = false;  ///< divide gradients by how often the index occurs among the indices
};

/// The rows of a table at the indices.
///
/// Shapes    indices [i...], table [rows, width]; result [i..., width]
/// Types     floating for the table, integers for the indices
/// Gradient  for the table: the sums of those for its rows
/// Throws    IndexError  an index outside [0, rows), a padding index outside [-rows, rows)     DTypeError, DeviceError
///           ShapeError  the table is no matrix, or the result has more than 8 axes
///           Error       max_norm or norm not above 0
///           TapeError   with max_norm, of a table that a tape follows as a result
Tensor embedding(const Tensor& indices, const Tensor& table, const EmbeddingOptions& options = {},
                 Where where = Where::current());

enum class BagMode : std::uint8_t { sum, mean, max };

struct EmbeddingBagOptions {
  Tensor offsets = {};           ///< [bags]: where in the indices each bag begins, ascending from 0
  Tensor weights = {};           ///< of the indices' shape and the table's type: factors of the rows; for sums
  BagMode mode = BagMode::mean;  ///< PyTorch's default
  std::optional<std::int64_t> padding_index = {};  ///< counts as if it was not there; negative counts from the end
  bool include_last_offset = false;                ///< the last offset is where the last bag ends; [bags + 1] of them
  std::optional<double> max_norm = {};             ///< as for `embedding`
  double norm = 2;
  bool scale_by_frequency = false;  ///< as for `embedding`; not with max
};

/// The rows at the indices of each bag made one: their sum, their mean, or the largest values of each column, without
/// the rows themselves as a tensor (but for max). 0 for a bag without indices.
///
/// Shapes    indices [bags, length], or [n] with offsets; table [rows, width]; result [bags, width]
/// Types     floating for the table, integers for indices and offsets; sums are taken in double
/// Gradient  for the table and the weights; equal largest values share it
/// Cost      each row is read once; the gradient is n rows
/// Throws    as `embedding`, and    IndexError  offsets that do not ascend from 0 to at most n
///           Error  weights with another mode than sum, scale_by_frequency with max     ShapeError, DTypeError
Tensor embedding_bag(const Tensor& indices, const Tensor& table, const EmbeddingBagOptions& options = {},
                     Where where = Where::current());

}  // namespace capstan
