// PyTorch's files of scripts/check-peers. state_dict.py beside it knows the same content.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/peers/peers.hpp"

namespace peers {
namespace {

using capstan::DType;
using capstan::NamedTensor;
using capstan::Shape;
using capstan::Tensor;

/// A type of PyTorch's and what it is here.
struct Type {
  std::string name;
  DType dtype;
  bool is_signed = true, complex = false;
};
/// Those that Capstan writes come first.
constexpr std::size_t kWritten = 10;
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
          {"uint16", DType::int32, false},
          {"uint32", DType::int64, false},
          {"uint64", DType::int64, false},
          {"complex64", DType::float32, true, true},
          {"complex128", DType::float64, true, true}};
}

std::vector<Shape> shapes() {
  return {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{2, 0, 3}, Shape{300, 2}, Shape{1, 2, 1, 2, 1, 2, 1}};
}

/// Element i, row-major. Pairs of complex numbers are elements i and i+1.
double number(const Type& type, std::int64_t i) {
  const std::int64_t value = i * 7 % 23;
  if (type.dtype == DType::bool8) return static_cast<double>(value % 2);
  return static_cast<double>(type.is_signed ? value - 11 : value);
}

std::vector<double> numbers(const Type& type, const Shape& shape) {
  std::vector<double> list;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    list.push_back(number(type, i));
    if (type.complex) list.push_back(number(type, i + 1));
  }
  return list;
}

Tensor tensor(const Type& type, const Shape& shape) {
  return capstan::from_vector(numbers(type, shape), shape).to(type.dtype);
}

std::string name_of(const Type& type) { return "layer.gr\xC3\xB6\xC3\x9Fter_" + type.name; }

void check(const NamedTensor& actual, const std::string& name, const Type& type, const Shape& shape,
           const std::string& file) {
  std::vector<std::int64_t> sizes(shape.begin(), shape.end());
  if (type.complex) sizes.push_back(2);
  const Tensor& x = actual.value;
  require(actual.name == name, file, "it holds '" + actual.name + "' in place of '" + name + "'");
  require(x.dtype() == type.dtype, file, name + ": the type is " + capstan::name(x.dtype()));
  require(x.shape() == Shape(sizes), file, name + ": the shape is " + capstan::to_string(x.shape()));
  require(x.to(DType::float64).to_vector<double>() == numbers(type, shape), file, name + ": the elements differ");
}

/// All types, in the order of the list.
void check_all(const std::vector<NamedTensor>& tensors, const std::string& prefix, const Shape& shape,
               const std::string& file) {
  const std::vector<Type> all = types();
  require(tensors.size() == all.size(), file, "it holds " + std::to_string(tensors.size()) + " tensors");
  for (std::size_t i = 0; i < all.size(); ++i) check(tensors[i], prefix + name_of(all[i]), all[i], shape, file);
  say(file, "equal");
}

}  // namespace

void write_state_dict_files(const std::string& folder) {
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    std::vector<NamedTensor> tensors;
    for (std::size_t type = 0; type < kWritten; ++type)
      tensors.push_back({name_of(types()[type]), tensor(types()[type], shapes()[i])});
    const std::string file = "shape" + std::to_string(i) + ".pt";
    capstan::io::save_state_dict(folder + "/" + file, tensors);
    say(file, "written");
  }
  const std::vector<NamedTensor> transposed = {{"t", capstan::transpose(tensor(types()[2], {2, 3}))}};
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
