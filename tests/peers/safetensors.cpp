// The safetensors files of scripts/check-peers. safetensors.py beside it knows the same content.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/peers/elements.hpp"
#include "tests/peers/peers.hpp"

namespace peers {
namespace {

using capstan::DType;
using capstan::NamedTensor;
using capstan::Shape;
using capstan::Tensor;
using capstan::io::Metadata;
using capstan::io::Weights;

std::vector<Type> types() {
  return {{"F16", DType::float16},
          {"F32", DType::float32},
          {"F64", DType::float64},
          {"I8", DType::int8},
          {"I16", DType::int16},
          {"I32", DType::int32},
          {"I64", DType::int64},
          {"U8", DType::uint8, false},
          {"BOOL", DType::bool8, false},
          {"BF16", DType::bfloat16},
          {"U16", DType::int32, false, false, false},
          {"U32", DType::int64, false, false, false},
          {"U64", DType::int64, false, false, false},
          {"C64", DType::float32, true, true, false},
          {"F8_E4M3", DType::float32, true, false, false},
          {"F8_E5M2", DType::float32, true, false, false},
          {"F8_E4M3FNUZ", DType::float32, true, false, false},
          {"F8_E5M2FNUZ", DType::float32, true, false, false}};
}

std::vector<Shape> shapes() {
  return {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{2, 0, 3}, Shape{1, 2, 1, 2, 1, 2, 1}};
}

// --- the content ---------------------------------------------------------------------------------------------------

std::string name_of(std::size_t shape) { return "layer.\"gr\xC3\xB6\xC3\x9Fter\"." + std::to_string(shape); }

std::vector<NamedTensor> tensors(const Type& type, bool names_have_type) {
  std::vector<NamedTensor> list;
  for (std::size_t i = 0; i < shapes().size(); ++i)
    list.push_back({names_have_type ? type.name + name_of(i) : name_of(i), tensor_of(type, shapes()[i])});
  return list;
}

std::vector<NamedTensor> tensors_of_all_types() {
  std::vector<NamedTensor> all;
  for (const Type& type : types())
    if (type.written && type.dtype != DType::bfloat16)  // NumPy has none
      for (NamedTensor& tensor : tensors(type, true)) all.push_back(tensor);
  return all;
}

Metadata metadata() { return {{"format \"\\\n", "gr\xC3\xB6\xC3\x9Fter\x01"}}; }

// --- comparing -----------------------------------------------------------------------------------------------------

const Tensor& find(const Weights& weights, const std::string& name, const std::string& file) {
  for (const NamedTensor& tensor : weights.tensors)
    if (tensor.name == name) return tensor.value;
  require(false, file, "there is no " + name);
  return weights.tensors.front().value;
}

void check_file(const std::string& folder, const std::string& file, const std::vector<NamedTensor>& expected,
                const Metadata& texts) {
  const Weights weights = capstan::io::read_safetensors(folder + "/" + file);
  require(weights.tensors.size() == expected.size(), file, std::to_string(weights.tensors.size()) + " tensors");
  require(weights.metadata == texts, file, "the metadata differ");
  for (const auto& [name, value] : expected) check(find(weights, name, file), value, file + ": " + name);
  say(file, "equal");
}

}  // namespace

void write_safetensors_files(const std::string& folder) {
  const auto save = [&](const std::string& file, const std::vector<NamedTensor>& list, const Metadata& texts = {}) {
    capstan::io::save_safetensors(folder + "/" + file, list, texts);
    say(file, "written");
  };
  for (const Type& type : types())
    if (type.written) save(type.name + ".safetensors", tensors(type, false));
  save("all.safetensors", tensors_of_all_types());
  save("metadata.safetensors", tensors(types()[1], false), metadata());
  save("none.safetensors", {});
  const Tensor matrix = capstan::arange(6).to(DType::float32);
  save("transposed.safetensors", {{"x", capstan::transpose(capstan::reshape(matrix, {2, 3}))}});
}

void read_safetensors_files(const std::string& folder) {
  for (const Type& type : types()) {
    const std::string file = type.name + ".safetensors";
    if (std::filesystem::exists(folder + "/" + file)) check_file(folder, file, tensors(type, false), {});
    else say(file, "is left out: the other side has no such type");
  }
  check_file(folder, "all.safetensors", tensors_of_all_types(), {});
  check_file(folder, "metadata.safetensors", tensors(types()[1], false), metadata());
  check_file(folder, "none.safetensors", {}, {});
}

}  // namespace peers
