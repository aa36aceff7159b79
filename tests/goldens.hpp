#pragma once
// Golden files: values and gradients computed by PyTorch in float64, kept as safetensors, and how to run against them.
//
// A file holds an eight-byte little-endian length, a JSON header of that length (names, types, sizes, offsets, and under
// __metadata__ the list of cases), then the elements. https://github.com/huggingface/safetensors, "Format".
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <capstan/capstan.hpp>

namespace tests {

using Json = nlohmann::ordered_json;  // ordered: the error figures of a case follow the order of its gradients

class GoldenFile {
 public:
  /// Throws std::runtime_error if the file is missing or malformed.
  explicit GoldenFile(const std::filesystem::path& path);

  const Json& cases() const noexcept { return cases_; }
  /// A tensor of the file. Floating elements are converted to `floating`, all others keep their type.
  capstan::Tensor tensor(const std::string& name, capstan::DType floating) const;

 private:
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> sizes;
    std::size_t begin = 0, end = 0;
  };
  std::map<std::string, Entry> entries_;
  std::string bytes_;
  Json cases_;
};

/// The arguments of one case, as tensors of the type under test.
class GoldenCall {
 public:
  GoldenCall(const Json& spec, const std::map<std::string, capstan::Tensor>& tensors)
      : spec_(spec), tensors_(tensors) {}

  std::size_t count() const { return spec_.at("args").size(); }
  const Json& arg(std::size_t i) const { return spec_.at("args").at(i); }
  bool is_tensor(std::size_t i) const { return i < count() && arg(i).is_object() && arg(i).contains("t"); }
  const capstan::Tensor& tensor(std::size_t i) const { return tensors_.at(arg(i).at("t").get<std::string>()); }
  /// All positional arguments from that one on.
  std::vector<capstan::Tensor> tensors(std::size_t first = 0) const;

  bool has(const std::string& key) const { return spec_.at("kwargs").contains(key); }
  const Json& option(const std::string& key) const { return spec_.at("kwargs").at(key); }
  template <class T>
  T option(const std::string& key, T otherwise) const {
    return has(key) ? option(key).get<T>() : otherwise;
  }
  /// A further entry of the case, such as "config".
  const Json& field(const std::string& key) const { return spec_.at(key); }

 private:
  const Json& spec_;
  const std::map<std::string, capstan::Tensor>& tensors_;
};

/// What a case computes; nothing if it cannot be expressed yet.
using GoldenOp = std::function<std::vector<capstan::Tensor>(const GoldenCall&)>;
using GoldenOps = std::map<std::string, GoldenOp>;

/// Empty if there are no golden files here; then it says so.
std::filesystem::path golden_folder();
GoldenFile open_golden(const std::string& name);

/// Runs every case of these files in float64 and float32, outputs and gradients. Cases whose op is not in `ops`, or whose
/// op returns nothing, are counted and left to later. Fails if an op of the table never ran.
void run_goldens(const std::string& subject, const std::vector<std::string>& files, const GoldenOps& ops);

/// Axes from a JSON number, list or null.
capstan::Axes axes_of(const Json& dim);
/// The sizes of a shape from a JSON list, -1 filled in.
capstan::Shape shape_of(const Json& sizes, std::int64_t numel);
/// torch's "reduction" option.
capstan::Tensor reduced(const capstan::Tensor& losses, const GoldenCall& call);

}  // namespace tests
