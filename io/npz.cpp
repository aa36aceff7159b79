// .npz files: zip archives of .npy files.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/device.hpp>
#include <capstan/io/npy.hpp>
#include <capstan/tape.hpp>

#include "io/elements.hpp"
#include "io/npy_data.hpp"
#include "io/npy_header.hpp"
#include "io/quoted.hpp"
#include "io/utf8.hpp"
#include "io/zip.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::size_t kLongestName = 65535;  // 16 bits in the archive

void check_name(const std::string& name, Where where) {
  if (name.empty()) base::fail<Error>(where, "write_npz: a tensor has no name; give it one.");
  if (!is_utf8(name))  // and the archive says of such names that they are
    base::fail<Error>(where, "write_npz: the name ", quoted(name), " is no UTF-8; it must be.");
  const std::string entry = name + std::string(kSuffix);
  if (const std::string_view fault = fault_of_entry_name(entry); !fault.empty())
    base::fail<Error>(where, "write_npz: tensor ", quoted(name), " ", fault, "; names must be relative paths.");
  if (entry.size() > kLongestName)
    base::fail<Error>(where, "write_npz: the name of tensor ", quoted(name), " has ", name.size(),
                      " bytes; it must have at most ", kLongestName - kSuffix.size(), ".");
}

void check_tensors(std::span<const NamedTensor> tensors, Where where) {
  std::vector<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    check_name(tensor.name, where);
    check_for_npy("write_npz: tensor " + quoted(tensor.name), tensor.value, where);
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    base::fail<Error>(where, "write_npz: two tensors are called ", quoted(*twice), "; names must be different.");
}

}  // namespace

std::vector<NamedTensor> read_npz_file(const char* op, const std::string& path, Where where) {
  ZipReader archive(op, path, where);
  for (const ZipEntry& entry : archive.entries())
    if (entry.name.size() <= kSuffix.size() || !std::string_view(entry.name).ends_with(kSuffix))
      archive.file().fail("entry ", quoted(entry.name), " at offset ", entry.header,
                          " is no .npy file; all entries must be.");
  std::vector<NamedTensor> tensors;
  for (const ZipEntry& entry : archive.entries()) {
    ZipStream stream(archive, entry);
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    tensors.push_back({name, read_npy_data(stream)});
  }
  return tensors;
}

std::vector<NamedTensor> read_npz(const std::string& path, Where where) {
  std::vector<NamedTensor> tensors = read_npz_file("read_npz", path, where);
  for (NamedTensor& tensor : tensors) tensor.value = tensor.value.to(default_device(), where);
  return tensors;
}

void write_npz(const std::string& path, std::span<const NamedTensor> tensors, NpzOptions options, Where where) {
  const NoGrad off;
  check_tensors(tensors, where);
  ZipWriter archive("write_npz", path, where);
  for (const NamedTensor& tensor : tensors) {
    const Tensor values = tensor.value.to(cpu(), where).contiguous(where);
    const std::string header = npy_header(values.shape(where), values.dtype(where));
    archive.add(tensor.name + std::string(kSuffix), header, bytes_of(values, where),
                values.numel(where) * size_of(values.dtype(where)), options.compress);
  }
  archive.commit();
}

}  // namespace capstan::io
