// PyTorch's files of scripts/check-peers. state_dict.py beside it knows the same content.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "tests/peers/elements.hpp"
#include "tests/peers/peers.hpp"

namespace peers {
namespace {

using capstan::DType;
using capstan::NamedTensor;
using capstan::Shape;

std::vector<Type> types() {
  return {{"float16", DType::float16},
          {"bfloat16", DType::bfloat16},
          {"float32", DType::float32},
          {"float64", DType::float64},
          {"int8", DType::int8},
          {"int16", DType::int16},
          {"int32", DType::int32},
          {"int64", DType::int64},
          {"uint8", DType::uint8, false},
          {"bool", DType::bool8, false},
          {"uint16", DType::int32, false, false, false},
          {"uint32", DType::int64, false, false, false},
          {"uint64", DType::int64, false, false, false},
          {"complex64", DType::float32, true, true, false},
          {"complex128", DType::float64, true, true, false}};
}

std::vector<Shape> shapes() {
  return {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{2, 0, 3}, Shape{300, 2}, Shape{1, 2, 1, 2, 1, 2, 1}};
}

std::string name_of(const Type& type) { return "layer.gr\xC3\xB6\xC3\x9Fter_" + type.name; }

/// All types, in the order of the list.
void check_all(const std::vector<NamedTensor>& tensors, const std::string& prefix, const Shape& shape,
               const std::string& file) {
  const std::vector<Type> all = types();
  require(tensors.size() == all.size(), file, "it holds " + std::to_string(tensors.size()) + " tensors");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = prefix + name_of(all[i]);
    require(tensors[i].name == name, file, "it holds '" + tensors[i].name + "' in place of '" + name + "'");
    check(tensors[i].value, tensor_of(all[i], shape), file + ": " + name);
  }
  say(file, "equal");
}

}  // namespace

void write_state_dict_files(const std::string& folder) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    std::vector<NamedTensor> tensors;
    for (const Type& type : types())
      if (type.written) tensors.push_back({name_of(type), tensor_of(type, shapes()[i])});
    const std::string file = "shape" + std::to_string(i) + ".pt";
    capstan::io::save_state_dict(folder + "/" + file, tensors);
    say(file, "written");
  }
  const std::vector<NamedTensor> transposed = {{"t", capstan::transpose(tensor_of(types()[2], {2, 3}))}};
  capstan::io::save_state_dict(folder + "/transposed.pt", transposed);
  say("transposed.pt", "written");
  capstan::io::save_state_dict(folder + "/empty.pt", {});
  say("empty.pt", "written");
}

void read_state_dict_files(const std::string& folder) {
  const auto read = [&](const std::string& file) { return capstan::io::read_state_dict(folder + "/" + file); };
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    const std::string file = "shape" + std::to_string(i) + ".pt";
    check_all(read(file), "", shapes()[i], file);
  }
  for (const std::string protocol : {"2", "3", "4", "5"}) {
    const std::string file = "protocol" + protocol + ".pt";
    check_all(read(file), "", {2, 3}, file);
  }
  check_all(read("strided.pt"), "", {300, 2}, "strided.pt");
  check_all(read("checkpoint.pt"), "model.", {2, 3}, "checkpoint.pt");
}

}  // namespace peers
