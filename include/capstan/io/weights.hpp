#pragma once
// Weights of models: from files of several formats into a model, by name, and from a model to what files hold.
// Defined in io/weights.cpp and io/weights_match.cpp.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <capstan/io/npy.hpp>
#include <capstan/io/safetensors.hpp>
#include <capstan/io/state_dict.hpp>
#include <capstan/nn/module.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace io {

/// Whose conventions a file follows.
enum class Layout : std::uint8_t {
  capstan,  ///< as the model has them
  /// Weights of `nn::Linear`, also of those inside of attention and transformers, are [outputs, inputs]: transposed on
  /// their way. Convolutions, embeddings, norms with their statistics, Bilinear and PRelu are the same in both. Not
  /// covered, because there are other tensors: recurrent layers and cells (nn/recurrent.hpp says which), and the packed
  /// in_proj_weight of PyTorch's attention (nn/attention.hpp).
  pytorch
};

struct WeightsOptions {
  /// Beginnings of names: what the model calls "conv1.", the file calls "features.0.". Of several that fit a name the
  /// longest counts; a whole name is a beginning, too, and so is "", which stands for all.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// Names must be the same, shapes must fit, and what `rename` and `transpose` name must be there; otherwise what fits
  /// is taken.
  bool strict = true;
  Layout layout = Layout::capstan;
  /// Names of the model, or of parts, `*` and `?` as in `nn::freeze`, whose tensors of two axes are transposed besides.
  std::vector<std::string> transpose = {};
};

/// What a file and a model do not have in common. Empty if `strict`.
struct WeightsReport {
  std::vector<std::string> missing;     ///< names of the model that the file has not; they keep their values
  std::vector<std::string> unexpected;  ///< names of the file that the model has not
  std::vector<std::string> mismatched;  ///< what does not fit, with both shapes or types; they keep their values
  bool complete() const noexcept { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};
/// A line for each of them: "" if it is complete.
std::string to_string(const WeightsReport& report);

/// The tensors of a file in one of the formats below or of a .npy, which is one tensor without a name: which of them is
/// known by the first bytes, whatever the file is called. On the default device; those of safetensors as
/// `read_safetensors` has them, tied ones of torch.save as `read_state_dict`.
///
/// Throws  IoError  what the format's reader throws; a file of none of these formats, HDF5, GGUF, ONNX and pickles
///         without an archive by name     MissingLibraryError, OutOfMemoryError  as the format's reader
Weights read_weights(const std::string& path, Where where = Where::current());

namespace detail {
/// What a file calls a model's tensor, by the longest beginning.
std::string name_in_file(const std::string& name, const std::vector<std::pair<std::string, std::string>>& rename);
enum class WeightsFormat : std::uint8_t { any, safetensors, npz, state_dict };
WeightsReport load_weights(const char* op, WeightsFormat format, const std::string& path,
                           const nn::detail::Outline& model, const WeightsOptions& options, Where where);
std::vector<NamedTensor> weights_of(const nn::detail::Outline& model, const WeightsOptions& options, Where where);
}  // namespace detail

/// Copies a file's tensors into a model's parameters and buffers by their names, in place, so that optimizers stay
/// connected; frozen ones, and what the model holds as const, are loaded, too. The model may be on any device. Never
/// recorded; a tape that saved the values before says so at its replay.
///
///   io::load_safetensors("net.safetensors", net);
///   const auto report = io::load_weights("resnet.pt", net, {.rename = {{"body.", "layer1."}}, .strict = false,
///                                                           .layout = io::Layout::pytorch});
///
/// Types   floating ones are converted to the model's, rounded to the nearest; others must be the same
/// Cost    one copy, on all threads; safetensors files are not read into memory first. Models on a GPU need room there
///         for the file's tensors meanwhile
/// Throws  IoError     as `read_weights`, or as the format's reader
///         Error       if `strict`, names that only one of the two has: the message has both, the first 20 of each
///                     kind, and for each missing name the most similar one of the file. Strict or not, two names of
///                     the model that ask for the same one, and two renamings of the same beginning
///         ShapeError, DTypeError  if `strict`, of another shape or type; the message has all that does not fit. Strict
///                     or not, ShapeError for a view in the model whose elements share their places
/// Then nothing has changed.
template <class Model>
WeightsReport load_weights(const std::string& path, Model& model, const WeightsOptions& options = {},
                           Where where = Where::current()) {
  return detail::load_weights("load_weights", detail::WeightsFormat::any, path, nn::detail::outline_of(model), options,
                              where);
}
/// Of a file that must be of that format.
template <class Model>
WeightsReport load_safetensors(const std::string& path, Model& model, const WeightsOptions& options = {},
                               Where where = Where::current()) {
  return detail::load_weights("load_safetensors", detail::WeightsFormat::safetensors, path,
                              nn::detail::outline_of(model), options, where);
}
template <class Model>
WeightsReport load_npz(const std::string& path, Model& model, const WeightsOptions& options = {},
                       Where where = Where::current()) {
  return detail::load_weights("load_npz", detail::WeightsFormat::npz, path, nn::detail::outline_of(model), options,
                              where);
}
template <class Model>
WeightsReport load_state_dict(const std::string& path, Model& model, const WeightsOptions& options = {},
                              Where where = Where::current()) {
  return detail::load_weights("load_state_dict", detail::WeightsFormat::state_dict, path, nn::detail::outline_of(model),
                              options, where);
}

/// A model's parameters and buffers under the names and in the layout of a file, for `save_safetensors`, `write_npz`
/// and `save_state_dict`: the reverse of what the same options do when loading. Handles and views: nothing is copied,
/// and what the model learns later shows in them. Throws Error as `load_weights` for its options.
template <class Model>
std::vector<NamedTensor> weights_of(Model& model, const WeightsOptions& options = {}, Where where = Where::current()) {
  return detail::weights_of(nn::detail::outline_of(model), options, where);
}

}  // namespace io
}  // namespace capstan
