#pragma once
// Weights of models: from files of several formats into a model, by name, and from a model to what files hold.
#include <initializer_list>
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
  pytorch   ///< weights of `nn::Linear` are [outputs, inputs]: transposed on their way
};

struct WeightsOptions {
  /// Beginnings of names: what the model calls "conv1.", the file calls "features.0.". Of several that fit a name the
  /// longest counts; a whole name is a beginning, too.
  std::vector<std::pair<std::string, std::string>> rename = {};
  bool strict = true;  ///< names must be the same, and shapes must fit; otherwise what fits is taken
  Layout layout = Layout::capstan;
  /// Names of the model, `*` and `?` as in `nn::freeze`, whose tensors of two axes are transposed besides.
  std::vector<std::string> transpose = {};
};

/// What a file and a model do not have in common. Empty if `strict`.
struct WeightsReport {
  std::vector<std::string> missing;     ///< names of the model that the file has not; they keep their values
  std::vector<std::string> unexpected;  ///< names of the file that the model has not
  std::vector<std::string> mismatched;  ///< what does not fit, with both shapes or types; they keep their values
  bool complete() const noexcept { return missing.empty() && unexpected.empty() && mismatched.empty(); }
};
/// One line for each.
std::string to_string(const WeightsReport& report);

/// The tensors of a file in one of the formats below, which is known by its first bytes. A name ending in .npy counts as
/// one tensor without a name.
Weights read_weights(const std::string& path, Where where = Where::current());

namespace detail {
enum class WeightsFormat : std::uint8_t { any, safetensors, npz, state_dict };
WeightsReport load_weights(const char* op, WeightsFormat format, const std::string& path,
                           const nn::detail::Outline& model, const WeightsOptions& options, Where where);
std::vector<NamedTensor> weights_of(const nn::detail::Outline& model, const WeightsOptions& options, Where where);
}  // namespace detail

/// Copies a file's tensors into a model's parameters and buffers by their names, in place, so that optimizers stay
/// connected. The model may be on any device. Floating types are converted to the model's. Never recorded.
///
///   io::load_safetensors("net.safetensors", net);
///   const auto report = io::load_weights("resnet.pt", net, {.rename = {{"body.", "layer1."}}, .strict = false,
///                                                           .layout = io::Layout::pytorch});
///
/// Throws  IoError     as the file's reader
///         Error       names, shapes or types that do not fit, if `strict`: the message has all of them, and for each
///                     missing name the most similar one of the file; two names of the model that ask for the same one
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
  return detail::load_weights("load_state_dict", detail::WeightsFormat::state_dict, path,
                              nn::detail::outline_of(model), options, where);
}

/// A model's parameters and buffers under the names and in the layout of a file, for `save_safetensors`, `write_npz` and
/// `save_state_dict`: the reverse of what the options do when loading. Handles where nothing had to be transposed.
template <class Model>
std::vector<NamedTensor> weights_of(Model& model, const WeightsOptions& options = {}, Where where = Where::current()) {
  return detail::weights_of(nn::detail::outline_of(model), options, where);
}

}  // namespace io
}  // namespace capstan
