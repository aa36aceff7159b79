// Files of torch.save: which entry is the pickle, and from its storages the tensors that it describes.
#include <capstan/io/state_dict.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <capstan/create.hpp>

#include "io/elements.hpp"
#include "io/pickle.hpp"
#include "io/quoted.hpp"
#include "io/state_dict_file.hpp"
#include "io/zip.hpp"

namespace capstan::io {
namespace {

constexpr std::string_view kPickle = "/data.pkl";
constexpr std::int64_t kSmallPickle = 1 << 20;  // bytes; one that is deflated may be larger than its archive up to here
constexpr std::int64_t kMostPerByte = 4;        // bytes of overlapping tensors for each of the pickle and its storages

using Bytes = std::vector<unsigned char>;

// --- the archive -----------------------------------------------------------------------------------------------------

/// Fails for what torch.save wrote before version 1.6, and for pipes, which cannot be read twice.
void check_format(const char* op, const std::string& path, Where where) {
  ByteReader file(op, path, where, ByteReader::Gzip::off);
  if (!file.most_left_is_exact())
    file.fail("its size is not known at ", file.place(0), "; a zip archive must be a regular file.");
  // A pickle of the number 0x1950a86a20f9469cfc6c; the second byte is the protocol.
  constexpr std::array<unsigned char, 12> magic = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                   0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
  constexpr std::string_view tar = "ustar", zip = "PK\x03\x04";
  constexpr std::size_t tar_at = 257;
  std::array<unsigned char, tar_at + tar.size()> head{};
  const std::size_t count = file.read(head.data(), head.size());
  const bool is_pickle =
      count > magic.size() + 2 && head[0] == 0x80 && std::equal(magic.begin(), magic.end(), &head[2]);
  const bool is_zip = std::equal(zip.begin(), zip.end(), head.begin());  // in which any bytes may stand there
  const bool is_tar = !is_zip && count == head.size() && std::equal(tar.begin(), tar.end(), &head[tar_at]);
  if (is_pickle || is_tar)
    file.fail("the file has the format of PyTorch before version 1.6 (", is_tar ? "a tar archive" : "a pickle", " at ",
              file.place(0), "); load it with PyTorch, and save it anew by torch.save.");
}

/// What reading needs of an archive.
struct Archive {
  Archive(const char* op, const std::string& path, Where where) : zip(op, path, where) {
    for (const ZipEntry& entry : zip.entries()) {
      entries.emplace(entry.name, &entry);
      packed += entry.packed;
    }
  }
  const ZipEntry* find(const std::string& name) const {
    const auto found = entries.find(name);
    return found == entries.end() ? nullptr : found->second;
  }

  ZipReader zip;
  std::unordered_map<std::string_view, const ZipEntry*> entries;
  std::int64_t packed = 0;  // bytes of all entries
  std::string folder;       // of the pickle
  ByteOrder order = ByteOrder::little;
};

/// The entry FOLDER/data.pkl.
const ZipEntry& find_pickle(const Archive& archive) {
  const ZipEntry* pickle = nullptr;
  for (const ZipEntry& entry : archive.zip.entries()) {
    if (!std::string_view(entry.name).ends_with(kPickle)) continue;
    if (entry.name.find('/') != entry.name.size() - kPickle.size()) continue;
    if (pickle != nullptr)
      archive.zip.file().fail("there are two pickles, entry ", quoted(pickle->name), " and entry ", quoted(entry.name),
                              " at offset ", entry.header, "; there must be one.");
    pickle = &entry;
  }
  if (pickle == nullptr)
    archive.zip.file().fail("none of its ", archive.zip.entries().size(),
                            " entries, which begin at offset 0, is called FOLDER/data.pkl; torch.save writes one.");
  return *pickle;
}

void check_for_torchscript(const Archive& archive) {
  const std::string constants = archive.folder + "/constants.pkl", code = archive.folder + "/code/";
  for (const ZipEntry& entry : archive.zip.entries())
    if (entry.name == constants || entry.name.starts_with(code))
      archive.zip.file().fail(
          "it is a TorchScript archive (entry ", quoted(entry.name), " at offset ", entry.header,
          "); load it with PyTorch, and save its weights by torch.save(module.state_dict(), path).");
}

Bytes read_entry(ZipStream& stream, std::int64_t size) {
  Bytes bytes(static_cast<std::size_t>(size));
  if (stream.read(bytes.data(), bytes.size()) < bytes.size() || !stream.at_end())
    stream.fail("the entry ends at ", stream.place(stream.position()), "; it must have ", size, " bytes.");
  return bytes;
}

/// From the entry that newer versions write.
ByteOrder read_order(Archive& archive) {
  const ZipEntry* const entry = archive.find(archive.folder + "/byteorder");
  if (entry == nullptr) return ByteOrder::little;
  constexpr std::int64_t longest = 16;
  ZipStream stream(archive.zip, *entry);
  if (entry->size > longest) stream.fail("the order of bytes has ", entry->size, " letters at ", stream.place(0), '.');
  const Bytes bytes = read_entry(stream, entry->size);
  const std::string order(bytes.begin(), bytes.end());
  if (order != "little" && order != "big")
    stream.fail("the order of bytes is ", quoted(order), " at ", stream.place(0), "; it must be 'little' or 'big'.");
  return order == "big" ? ByteOrder::big : ByteOrder::little;
}

Bytes read_pickle_entry(const Archive& archive, ZipStream& stream, const ZipEntry& entry) {
  std::int64_t most = kLongestPickle;
  if (entry.deflated) most = std::min(most, std::max(archive.packed, kSmallPickle));
  if (entry.size > most)
    stream.fail("the pickle at ", stream.place(0), " has ", entry.size, " bytes; it may have ", most, '.');
  return read_entry(stream, entry.size);
}

// --- the tensors -----------------------------------------------------------------------------------------------------

/// A view, counted in the numbers of its storage: of complex elements there are two each.
struct View {
  std::int64_t start;
  std::vector<std::int64_t> sizes, strides;

  std::int64_t numel() const {
    std::int64_t count = 1;
    for (const std::int64_t size : sizes) count *= size;
    return count;
  }
  /// Whether its elements follow each other, row-major.
  bool is_contiguous() const {
    std::int64_t expected = 1;
    for (std::size_t axis = sizes.size(); axis-- > 0; expected *= sizes[axis])
      if (sizes[axis] > 1 && strides[axis] != expected) return false;
    return true;
  }
};

/// Elements of so many bytes.
template <std::size_t Element>
void gather(const unsigned char* from, const View& view, std::int64_t count, unsigned char* to) {
  std::vector<std::int64_t> index(view.sizes.size());
  std::int64_t place = view.start;
  for (std::int64_t i = 0; i < count; ++i, to += Element) {
    std::memcpy(to, from + place * static_cast<std::int64_t>(Element), Element);
    for (std::size_t axis = view.sizes.size(); axis-- > 0;) {
      place += view.strides[axis];
      if (++index[axis] < view.sizes[axis]) break;
      place -= view.strides[axis] * view.sizes[axis];
      index[axis] = 0;
    }
  }
}

/// The elements of a view, in memory of their own. The storage has one axis.
Tensor gathered(const Tensor& storage, const View& view, Where where) {
  const DType dtype = storage.dtype(where);
  Tensor result = empty(Shape(view.sizes, where), {.dtype = dtype, .device = cpu()}, where);
  const std::int64_t count = result.numel(where), element = size_of(dtype);
  if (count == 0) return result;
  const unsigned char* const from = bytes_of(storage, where);
  unsigned char* const to = mutable_bytes_of(result, where);
  if (view.is_contiguous()) std::memcpy(to, from + view.start * element, static_cast<std::size_t>(count * element));
  else if (element == 1) gather<1>(from, view, count, to);
  else if (element == 2) gather<2>(from, view, count, to);
  else if (element == 4) gather<4>(from, view, count, to);
  else gather<8>(from, view, count, to);
  return result;
}

class Loader {
 public:
  /// `pickle` is that of the weights, for messages; it has so many bytes in the file.
  Loader(Archive& archive, const PickledWeights& weights, const ZipStream& pickle, std::int64_t packed)
      : archive_(archive), weights_(weights), pickle_(pickle), bytes_(packed) {
    for (const PickledStorage& storage : weights.storages) {
      const ZipEntry& entry = find_entry(storage);
      entries_.push_back(&entry);
      if (own_.try_emplace(&entry, entry.size).second) bytes_ += entry.packed;
    }
    left_ = bytes_ * kMostPerByte;
  }

  /// Views by their storages, so that each of these is read once and is in memory alone.
  std::vector<NamedTensor> run() {
    Groups groups;
    std::vector<NamedTensor> tensors;
    for (const PickledName& name : weights_.names) {
      add(weights_.tensors[name.tensor], tensors.size(), groups);
      tensors.push_back({name.name, Tensor()});
    }
    for (const auto& [source, group] : groups) load(*source.first, *source.second, group, tensors);
    return tensors;
  }

 private:
  /// Views of one storage, and the tensors that are each of them.
  using Key = std::tuple<std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>;
  using Group = std::map<Key, std::vector<std::size_t>>;
  using Groups = std::map<std::pair<const ZipEntry*, const TorchType*>, Group>;

  std::string place(std::size_t offset) const { return pickle_.place(static_cast<std::int64_t>(offset)); }

  const ZipEntry& find_entry(const PickledStorage& storage) const {
    const std::string name = archive_.folder + "/data/" + std::string(storage.key);
    const ZipEntry* const entry = archive_.find(name);
    if (entry == nullptr)
      pickle_.fail("storage ", quoted(storage.key), " that is named at ", place(storage.offset),
                   " is not in the archive; there must be an entry ", quoted(name), '.');
    const std::int64_t element = storage.type->bytes();
    if (storage.numel < 0 || storage.numel != entry->size / element || entry->size % element != 0)
      pickle_.fail("storage ", quoted(storage.key), " that is named at ", place(storage.offset), " has ", storage.numel,
                   " elements of ", element, " bytes; its entry at offset ", entry->header, " has ", entry->size,
                   " bytes.");
    return *entry;
  }

  void add(const PickledTensor& tensor, std::size_t number, Groups& groups) {
    const ZipEntry& entry = *entries_[tensor.storage];
    const View view = checked_view(tensor, entry);
    std::vector<std::size_t>& same = groups[{&entry, tensor.type}][{view.start, view.sizes, view.strides}];
    same.push_back(number);
    if (same.size() > 1) return;  // handles to one tensor
    const std::int64_t numbers = view.numel(), stored = numbers * size_of(tensor.type->stored);
    if (std::int64_t& own = own_.at(&entry); stored <= own) {
      own -= stored;
      return;
    }
    const std::int64_t bytes = numbers * size_of(tensor.type->given);
    if (bytes > left_)
      pickle_.fail("the tensor made at ", place(tensor.offset), " needs ", bytes, " bytes; ", left_,
                   " are left of the ", kMostPerByte, " for each of the ", bytes_,
                   " of pickle and storages in the file that tensors may have beyond their storages.");
    left_ -= bytes;
  }

  /// The view, with strides of 0 where they do not matter.
  View checked_view(const PickledTensor& tensor, const ZipEntry& entry) const {
    const TorchType& type = *tensor.type;
    const auto at = static_cast<std::int64_t>(tensor.offset);
    const std::int64_t bytes = checked_bytes(pickle_, tensor.sizes, 16, at);  // the largest elements
    if (entry.size % type.bytes() != 0)
      pickle_.fail("the tensor made at ", place(tensor.offset), " has elements of ", type.bytes(),
                   " bytes; its storage ", quoted(entry.name), " has ", entry.size, ", which must be a multiple.");
    View view{bytes == 0 ? 0 : tensor.start, tensor.sizes, tensor.strides};
    std::int64_t last = tensor.start;
    bool inside = tensor.start >= 0;
    for (std::size_t axis = 0; axis < view.sizes.size(); ++axis) {
      std::int64_t& stride = view.strides[axis];
      inside = inside && stride >= 0;
      if (view.sizes[axis] <= 1 || bytes == 0) stride = 0;
      std::int64_t steps = 0;
      inside = inside && !__builtin_mul_overflow(stride, view.sizes[axis] - 1, &steps) &&
               !__builtin_add_overflow(last, steps, &last);
    }
    if (!inside || (bytes > 0 && last >= entry.size / type.bytes()))
      pickle_.fail("the tensor made at ", place(tensor.offset), ", which begins at element ", tensor.start,
                   ", is not within its storage ", quoted(entry.name), "; that has ", entry.size / type.bytes(),
                   " elements.");
    if (type.numbers == 2) add_axis(view, at);
    return view;
  }

  /// Complex elements as pairs of numbers.
  void add_axis(View& view, std::int64_t at) const {
    if (view.sizes.size() >= static_cast<std::size_t>(kMaxRank))
      pickle_.fail("the complex tensor made at ", pickle_.place(at), " has ", view.sizes.size(), " axes; it may have ",
                   kMaxRank - 1, '.');
    view.start *= 2;
    for (std::int64_t& stride : view.strides) stride *= 2;
    view.sizes.push_back(2);
    view.strides.push_back(1);
  }

  void load(const ZipEntry& entry, const TorchType& type, const Group& group, std::vector<NamedTensor>& tensors) {
    const Where where = pickle_.where();
    ZipStream data(archive_.zip, entry);
    const std::int64_t numbers = entry.size / size_of(type.stored);
    const auto read = [&](const Shape& shape) {
      const Tensor stored = read_elements(data, shape, type.stored, archive_.order);
      data.at_end();  // compares the checksum
      return type.is_unsigned ? as_signed(data, stored, 0) : stored;
    };
    Tensor storage;  // read only if no tensor is all of it
    for (const auto& [key, same] : group) {
      const View view{std::get<0>(key), std::get<1>(key), std::get<2>(key)};
      Tensor value;
      if (group.size() == 1 && view.start == 0 && view.numel() == numbers && view.is_contiguous()) {
        value = read(Shape(view.sizes, where));
      } else {
        if (!storage.defined()) storage = read(Shape{numbers});
        value = gathered(storage, view, where);
      }
      for (const std::size_t number : same) tensors[number].value = value;
    }
  }

  Archive& archive_;
  const PickledWeights& weights_;
  const ZipStream& pickle_;
  std::vector<const ZipEntry*> entries_;                   // of the storages
  std::unordered_map<const ZipEntry*, std::int64_t> own_;  // bytes of each that no tensor was given yet
  std::int64_t bytes_, left_ = 0;  // of pickle and storages in the file; that tensors may have besides `own_`
};

}  // namespace

std::vector<NamedTensor> read_state_dict_file(const char* op, const std::string& path, Where where) {
  check_format(op, path, where);
  Archive archive(op, path, where);
  const ZipEntry& entry = find_pickle(archive);
  archive.folder = entry.name.substr(0, entry.name.size() - kPickle.size());
  check_for_torchscript(archive);
  archive.order = read_order(archive);
  ZipStream stream(archive.zip, entry);
  const Bytes pickle = read_pickle_entry(archive, stream, entry);
  const std::string_view text(reinterpret_cast<const char*>(pickle.data()), pickle.size());
  const PickledWeights weights = read_pickle(text, stream);
  return Loader(archive, weights, stream, entry.packed).run();
}

std::vector<NamedTensor> read_state_dict(const std::string& path, Where where) {
  std::vector<NamedTensor> tensors = read_state_dict_file("read_state_dict", path, where);
  std::map<const TensorImpl*, Tensor> moved;  // so that handles to one tensor stay that
  for (NamedTensor& tensor : tensors) {
    Tensor& there = moved[tensor.value.impl()];
    if (!there.defined()) there = tensor.value.to(default_device(), where);
    tensor.value = there;
  }
  return tensors;
}

}  // namespace capstan::io
