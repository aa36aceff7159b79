// The .npy and .npz files of scripts/check-peers. npy.py beside it knows the same content.
#include <capstan/capstan.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
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

std::vector<Type> types() {
  return {{"f2", DType::float16},
          {"f4", DType::float32},
          {"f8", DType::float64},
          {"i1", DType::int8},
          {"i2", DType::int16},
          {"i4", DType::int32},
          {"i8", DType::int64},
          {"u1", DType::uint8, false},
          {"b1", DType::bool8, false},
          {"u2", DType::int32, false, false, false},
          {"u4", DType::int64, false, false, false},
          {"u8", DType::int64, false, false, false},
          {"c8", DType::float32, true, true, false},
          {"c16", DType::float64, true, true, false}};
}

std::vector<Shape> shapes() {
  return {Shape{}, Shape{5}, Shape{0}, Shape{2, 3}, Shape{2, 0, 3}, Shape{2, 3, 4}, Shape{1, 2, 1, 2, 1, 2, 1}};
}

/// Names that archives hold, all of shape [2, 3].
std::string name_in_archive(const Type& type) { return "layer/gr\xC3\xB6\xC3\x9Fter_" + type.name; }

const std::vector<std::string> kArchives = {"stored.npz", "deflated.npz"};
constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

void read_archive(const std::string& folder, const std::string& file) {
  const std::vector<NamedTensor> tensors = capstan::io::read_npz(folder + "/" + file);
  const std::vector<Type> all = types();
  require(tensors.size() == all.size(), file, "it holds " + std::to_string(tensors.size()) + " tensors");
  for (std::size_t i = 0; i < all.size(); ++i) {
    require(tensors[i].name == name_in_archive(all[i]), file, "it holds '" + tensors[i].name + "'");
    check(tensors[i].value, tensor_of(all[i], {2, 3}), file + ": " + tensors[i].name);
  }
  say(file, "equal");
}

}  // namespace

void write_npy_files(const std::string& folder) {
  std::vector<NamedTensor> named;
  for (const Type& type : types()) {
    if (!type.written) continue;
    for (std::size_t i = 0; i < shapes().size(); ++i) {
      const std::string file = type.name + "_" + std::to_string(i) + ".npy";
      capstan::io::write_npy(folder + "/" + file, tensor_of(type, shapes()[i]));
      say(file, "written");
    }
    named.push_back({name_in_archive(type), tensor_of(type, {2, 3})});
  }
  const Tensor matrix = tensor_of(types()[1], {2, 3});
  capstan::io::write_npy(folder + "/transposed.npy", capstan::transpose(matrix));
  capstan::io::write_npy(folder + "/extremes.npy",
                         capstan::from_vector(std::vector<std::int64_t>{-kLargest - 1, kLargest}));
  for (const std::string& file : kArchives) {
    capstan::io::write_npz(folder + "/" + file, named, {.compress = file == "deflated.npz"});
    say(file, "written");
  }
}

void read_npy_files(const std::string& folder) {
  const auto read = [&](const std::string& file) { return capstan::io::read_npy(folder + "/" + file); };
  for (const Type& type : types())
    for (std::size_t i = 0; i < shapes().size(); ++i)
      for (const std::string order : {"little", "big"})
        for (const std::string layout : {"c", "fortran"}) {
          const std::string file = type.name + "_" + order + "_" + layout + "_" + std::to_string(i) + ".npy";
          check(read(file), tensor_of(type, shapes()[i]), file);
          say(file, "equal");
        }
  for (const std::string version : {"1", "2", "3"}) {
    const std::string file = "version" + version + ".npy";
    check(read(file), tensor_of(types()[1], {2, 3}), file);
    say(file, "equal");
  }
  const Tensor largest = read("extremes_u8.npy");
  require(largest.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, kLargest}, "extremes_u8.npy", "it differs");
  say("extremes_u8.npy", "equal");
  for (const std::string& file : kArchives) read_archive(folder, file);
}

}  // namespace peers
