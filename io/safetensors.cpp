#include <capstan/io/safetensors.hpp>

#include <cstddef>
#include <cstdint>

#include <capstan/device.hpp>
#include <capstan/tape.hpp>

#include "io/elements.hpp"
#include "io/mapped_file.hpp"
#include "io/output_file.hpp"
#include "io/safetensors_format.hpp"

namespace capstan::io {
namespace {

std::int64_t bytes_in(const Tensor& x, Where where) { return x.numel(where) * size_of(x.dtype(where)); }

}  // namespace

Weights read_safetensors(const std::string& path, Where where) {
  const NoGrad off;
  const char* const op = "read_safetensors";
  Weights weights = parse_safetensors(op, MappedFile::open(op, path, where), where);
  for (NamedTensor& tensor : weights.tensors) tensor.value = tensor.value.to(default_device(), where);
  return weights;
}

void save_safetensors(const std::string& path, std::span<const NamedTensor> tensors, const Metadata& metadata,
                      Where where) {
  const NoGrad off;
  const char* const op = "save_safetensors";
  const SafetensorsLayout layout = lay_out_safetensors(op, path, tensors, metadata, where);
  auto total = static_cast<std::int64_t>(layout.head.size());
  for (const NamedTensor& tensor : tensors) total += bytes_in(tensor.value, where);
  OutputFile file(op, path, where);
  file.reserve(total);
  file.write(layout.head.data(), layout.head.size());
  for (const std::size_t index : layout.order) {
    const Tensor values = tensors[index].value.to(cpu(), where).contiguous(where);
    file.write(bytes_of(values, where), static_cast<std::size_t>(bytes_in(values, where)));
  }
  file.commit();
}

}  // namespace capstan::io
