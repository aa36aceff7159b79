// Weights of models: files of several formats, told apart by their first bytes.
#include <capstan/io/weights.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <capstan/device.hpp>
#include <capstan/ops/shaping.hpp>
#include <capstan/tape.hpp>

#include "io/byte_reader.hpp"
#include "io/io_error.hpp"
#include "io/mapped_file.hpp"
#include "io/npy_data.hpp"
#include "io/quoted.hpp"
#include "io/safetensors_format.hpp"
#include "io/state_dict_file.hpp"
#include "io/weights_match.hpp"
#include "io/zip.hpp"

namespace capstan::io {
namespace {

using namespace std::string_view_literals;

enum class Format : std::uint8_t { safetensors, npy, npz, state_dict };

constexpr std::string_view kNumpy = "\x93NUMPY"sv;
constexpr const char* kSupported =
    "; weights are read from safetensors, .npz, .npy and the zip archives of torch.save.";

// --- telling formats apart ---

/// A file that is known, but not read: "" if it is none of those.
std::string_view foreign_format(std::string_view head) {
  if (head.starts_with("\x89HDF\r\n\x1a\n"sv)) return "HDF5, as Keras writes it";
  if (head.starts_with("GGUF"sv)) return "GGUF";
  return "";
}

/// The same for formats whose first bytes a safetensors file may have, too.
std::string_view vague_format(std::string_view head) {
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return "a pickle without an archive, as pickle.dump and torch.save before version 1.6 write it";
  if (head.size() >= 3 && head[0] == '\x08' && head[1] >= 1 && head[1] <= 32 && head[2] == '\x12') return "ONNX";
  return "";
}

[[noreturn]] void fail_foreign(const char* op, const std::string& path, Where where, std::string_view what) {
  fail_io(op, path, where, "the bytes at offset 0 are those of " + std::string(what) + kSupported);
}

Format format_of_archive(const char* op, const std::string& path, Where where) {
  const ZipReader archive(op, path, where);
  const auto named = [&](std::string_view ending) {
    return std::count_if(archive.entries().begin(), archive.entries().end(),
                         [&](const ZipEntry& entry) { return std::string_view(entry.name).ends_with(ending); });
  };
  if (named("/data.pkl") > 0) return Format::state_dict;
  const auto arrays = static_cast<std::size_t>(named(".npy"));
  if (arrays > 0 || archive.entries().empty()) return Format::npz;
  fail_foreign(op, path, where, "a zip archive without data.pkl and without .npy files");
}

/// Only .npy files are packed as a whole.
Format format_of_gzip(const char* op, const std::string& path, Where where) {
  ByteReader file(op, path, where);
  unsigned char head[kNumpy.size()] = {};
  const std::size_t count = file.read(head, sizeof head);
  if (std::string_view(reinterpret_cast<const char*>(head), count) == kNumpy) return Format::npy;
  fail_foreign(op, path, where, "gzip, around something that is no .npy");
}

Format format_of(const char* op, const MappedFile& file, Where where) {
  const auto size = static_cast<std::size_t>(std::min<std::int64_t>(file.size(), 16));
  if (size == 0) fail_io(op, file.path(), where, "is empty, from offset 0 on" + std::string(kSupported));
  const std::string_view head(reinterpret_cast<const char*>(file.bytes()), size);
  if (head.size() > 8 && head.substr(4, 5) == "\0\0\0\0{"sv) return Format::safetensors;  // whatever the length says
  if (head.starts_with("PK\x03\x04"sv) || head.starts_with("PK\x05\x06"sv))
    return format_of_archive(op, file.path(), where);
  if (head.starts_with(kNumpy)) return Format::npy;
  if (head.starts_with("\x1f\x8b"sv)) return format_of_gzip(op, file.path(), where);
  if (const std::string_view foreign = foreign_format(head); !foreign.empty())
    fail_foreign(op, file.path(), where, foreign);
  if (head.size() > 8 && head[8] == '{') return Format::safetensors;
  if (const std::string_view foreign = vague_format(head); !foreign.empty())
    fail_foreign(op, file.path(), where, foreign);
  fail_foreign(op, file.path(), where, "no format that is known, " + quoted(head));
}

// --- reading and copying ---

/// All tensors of a file; on the CPU, and those of safetensors without a copy.
Weights read_file(const char* op, detail::WeightsFormat wanted, const std::string& path, TensorUse use, Where where) {
  if (wanted == detail::WeightsFormat::npz) return {read_npz_file(op, path, where), {}};
  if (wanted == detail::WeightsFormat::state_dict) return {read_state_dict_file(op, path, where), {}};
  std::shared_ptr<const MappedFile> file = MappedFile::open(op, path, where);
  const Format format =
      wanted == detail::WeightsFormat::safetensors ? Format::safetensors : format_of(op, *file, where);
  switch (format) {
    case Format::safetensors: return parse_safetensors(op, std::move(file), where, use);
    case Format::npz: return {read_npz_file(op, path, where), {}};
    case Format::state_dict: return {read_state_dict_file(op, path, where), {}};
    case Format::npy: break;
  }
  Weights weights;
  weights.tensors.push_back({"", read_npy_file(op, path, where)});
  return weights;
}

/// Whatever needs memory is done before the first value changes; that the values can be written is known by then. The
/// copies run on all threads, and are what reads the pages of a mapped file.
void copy_all(std::vector<WeightsPair>& pairs, Where where) {
  for (WeightsPair& pair : pairs) pair.value = pair.value.to(pair.target.device(where), where);
  for (WeightsPair& pair : pairs) {
    pair.target.assign(pair.value, where);
    pair.value = {};
  }
}

}  // namespace

std::string to_string(const WeightsReport& report) {
  std::string text;
  for (const std::string& name : report.missing) text += "missing: " + name + '\n';
  for (const std::string& name : report.unexpected) text += "unexpected: " + quoted(name) + '\n';
  for (const std::string& misfit : report.mismatched) text += "mismatched: " + misfit + '\n';
  return text;
}

Weights read_weights(const std::string& path, Where where) {
  const NoGrad off;
  Weights weights = read_file("read_weights", detail::WeightsFormat::any, path, TensorUse::any, where);
  std::map<const TensorImpl*, Tensor> moved;  // so that handles to one tensor stay that
  for (NamedTensor& tensor : weights.tensors) {
    Tensor& there = moved[tensor.value.impl()];
    if (!there.defined()) there = tensor.value.to(default_device(), where);
    tensor.value = there;
  }
  return weights;
}

namespace detail {

WeightsReport load_weights(const char* op, WeightsFormat format, const std::string& path,
                           const nn::detail::Outline& model, const WeightsOptions& options, Where where) {
  const NoGrad off;
  const std::vector<WantedTensor> wanted = wanted_tensors(op, model, options, where);
  const Weights weights = read_file(op, format, path, TensorUse::read_only, where);  // copy_all reads them
  WeightsMatch match = match_weights(op, path, wanted, weights.tensors, where);
  if (options.strict) require_complete(op, path, match, where);
  copy_all(match.pairs, where);
  return std::move(match.report);
}

std::vector<NamedTensor> weights_of(const nn::detail::Outline& model, const WeightsOptions& options, Where where) {
  const NoGrad off;
  std::vector<NamedTensor> tensors;
  for (const WantedTensor& wanted : wanted_tensors("weights_of", model, options, where))
    tensors.push_back({wanted.in_file, wanted.transposed ? transpose(wanted.value, 0, 1, where) : wanted.value});
  return tensors;
}

}  // namespace detail
}  // namespace capstan::io
