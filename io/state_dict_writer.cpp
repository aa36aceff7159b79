// Files as torch.save writes them: an OrderedDict of tensors, with one storage for those of the same elements.
#include <capstan/io/state_dict.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <capstan/device.hpp>
#include <capstan/tape.hpp>

#include "io/elements.hpp"
#include "io/pickle.hpp"
#include "io/quoted.hpp"
#include "io/torch_types.hpp"
#include "io/utf8.hpp"
#include "io/zip.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::size_t kLongestName = 65535;
constexpr const char* kFolder = "archive/";

void check_tensors(std::span<const NamedTensor> tensors, Where where) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    if (!is_utf8(tensor.name))
      base::fail<Error>(where, "save_state_dict: the name ", quoted(tensor.name), " is no UTF-8; it must be.");
    if (tensor.name.size() > kLongestName)
      base::fail<Error>(where, "save_state_dict: the name ", quoted(tensor.name), " has ", tensor.name.size(),
                        " bytes; it must have at most ", kLongestName, ".");
    if (!tensor.value.defined())
      base::fail<Error>(where, "save_state_dict: tensor ", quoted(tensor.name),
                        " is undefined; give it a value first.");
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    base::fail<Error>(where, "save_state_dict: two tensors are called ", quoted(*twice), "; names must be different.");
}

// --- the storages ----------------------------------------------------------------------------------------------------

/// Where the elements of a tensor are and how they follow each other: equal for tensors whose storages are the same.
using Elements = std::tuple<const unsigned char*, DType, std::vector<std::int64_t>>;

Elements elements_of(const Tensor& x, Where where) {
  std::vector<std::int64_t> view = {x.numel(where)};  // is enough if there are no gaps
  if (!x.is_contiguous(where)) {
    view.assign(x.shape(where).begin(), x.shape(where).end());
    for (int axis = 0; axis < x.rank(where); ++axis) view.push_back(x.stride(axis, where));
  }
  return {bytes_of(x, where), x.dtype(where), view};
}

/// Of each tensor the number of its storage. These are counted from 0 on, as they are first met.
std::vector<std::size_t> storages_of(std::span<const NamedTensor> tensors, Where where) {
  std::vector<std::size_t> storages;
  std::map<Elements, std::size_t> numbers;
  std::size_t count = 0;
  for (const NamedTensor& tensor : tensors) {
    std::size_t number = count;
    if (tensor.value.numel(where) > 0)
      number = numbers.try_emplace(elements_of(tensor.value, where), count).first->second;
    if (number == count) ++count;
    storages.push_back(number);
  }
  return storages;
}

// --- the pickle, of protocol 2 ----------------------------------------------------------------------------------------

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  return text;
}

std::string pickled(std::string_view text) { return "X" + little(text.size(), 4) + std::string(text); }

std::string pickled(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  if (bits < (1u << 8)) return "K" + little(bits, 1);
  if (bits < (1u << 16)) return "M" + little(bits, 2);
  if (bits < (1u << 31)) return "J" + little(bits, 4);
  return "\x8a\x08" + little(bits, 8);
}

std::string pickled(const std::vector<std::int64_t>& numbers) {
  if (numbers.empty()) return ")";
  std::string text = "(";
  for (const std::int64_t number : numbers) text += pickled(number);
  return text + "t";
}

std::string named(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}

std::string empty_dictionary() { return named("collections", "OrderedDict") + ")R"; }

std::string_view storage_name(DType dtype) {
  return std::find_if(std::begin(kTorchTypes), std::end(kTorchTypes),
                      [&](const TorchType& type) { return type.given == dtype; })
      ->storage;
}

/// A call of _rebuild_tensor_v2, whose storage is a persistent id.
std::string pickled(const Tensor& x, std::string_view key, Where where) {
  const std::vector<std::int64_t> sizes(x.shape(where).begin(), x.shape(where).end());
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t axis = sizes.size(); axis-- > 0; stride *= std::max(sizes[axis], std::int64_t{1}))
    strides[axis] = stride;
  const std::string storage = "(" + pickled("storage") + named("torch", storage_name(x.dtype(where))) + pickled(key) +
                              pickled("cpu") + pickled(x.numel(where)) + "tQ";
  const std::string needs_no_gradient = "\x89";
  return named("torch._utils", "_rebuild_tensor_v2") + "(" + storage + pickled(std::int64_t{0}) + pickled(sizes) +
         pickled(strides) + needs_no_gradient + empty_dictionary() + "tR";
}

std::string pickle_of(std::span<const NamedTensor> tensors, const std::vector<std::size_t>& storages, Where where) {
  std::string text = "\x80\x02" + empty_dictionary() + "(";
  for (std::size_t i = 0; i < tensors.size(); ++i)
    text += pickled(tensors[i].name) + pickled(tensors[i].value, std::to_string(storages[i]), where);
  return text + "u.";
}

}  // namespace

void save_state_dict(const std::string& path, std::span<const NamedTensor> tensors, Where where) {
  const NoGrad off;
  check_tensors(tensors, where);
  const std::vector<std::size_t> storages = storages_of(tensors, where);
  const std::string pickle = pickle_of(tensors, storages, where);
  if (pickle.size() > static_cast<std::size_t>(kLongestPickle))  // could not be read again
    base::fail<Error>(where, "save_state_dict: the names and shapes of ", tensors.size(), " tensors need ",
                      pickle.size(), " bytes; they must need at most ", kLongestPickle, ".");
  ZipWriter archive("save_state_dict", path, where);
  const auto add_text = [&](const std::string& name, const std::string& text) {
    archive.add(kFolder + name, text, nullptr, 0, false);
  };
  add_text("data.pkl", pickle);
  add_text("byteorder", "little");
  std::size_t written = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (storages[i] < written) continue;
    const Tensor values = tensors[i].value.to(cpu(), where).contiguous(where);
    archive.add(kFolder + ("data/" + std::to_string(written++)), {}, bytes_of(values, where),
                values.numel(where) * size_of(values.dtype(where)), false);
  }
  add_text("version", "3\n");
  archive.commit();
}

}  // namespace capstan::io
