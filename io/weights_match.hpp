#pragma once
// Which tensor of a file belongs to which tensor of a model, and what they do not have in common.
#include <string>
#include <vector>

#include <capstan/io/weights.hpp>

namespace capstan::io {

/// A tensor of a model, and how a file has it.
struct WantedTensor {
  std::string name, in_file;  // what the model and the file call it
  Tensor value;               // the model's
  bool transposed;            // in the file
};

/// Everything that a model holds, each tensor once, in the order of its fields.
///
/// Throws Error for two tensors of one name in the file and two renamings of the same beginning; if `strict` also for
/// renamings and patterns that fit no name of the model.
std::vector<WantedTensor> wanted_tensors(const char* op, const nn::detail::Outline& model,
                                         const WeightsOptions& options, Where where);

struct WeightsPair {
  Tensor target, value;  // of the model, and of the file, turned as the model has it
};

struct WeightsMatch {
  std::vector<WeightsPair> pairs;  // of the same shape; of the same type, or both floating
  WeightsReport report;
  std::vector<const WantedTensor*> missing;
  std::vector<std::string> shapes, types;  // report.mismatched, taken apart
};

/// IoError if the file has a name twice; ShapeError if a pair's target has elements that share their places, which
/// cannot be written. `wanted` must live as long as the result.
WeightsMatch match_weights(const char* op, const std::string& path, const std::vector<WantedTensor>& wanted,
                           const std::vector<NamedTensor>& file, Where where);

/// Throws the Error that has all of it; ShapeError and DTypeError if shapes or types are among it. Nothing if the two
/// fit each other.
void require_complete(const char* op, const std::string& path, const WeightsMatch& match, Where where);

}  // namespace capstan::io
