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
  const capstan::Tensor& tensor_option(const std::string& key) const {
    return tensors_.at(option(key).at("t").get<std::string>());
  }
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

/// Thrown for a case that cannot be expressed: why not.
struct LeftOut {
  std::string reason;
};

/// What a case computes. Throws LeftOut.
using GoldenOp = std::function<std::vector<capstan::Tensor>(const GoldenCall&)>;
using GoldenOps = std::map<std::string, GoldenOp>;
/// Operations that are left out, and why.
using GoldenReasons = std::map<std::string, std::string>;

/// What became of the cases of a subject.
class GoldenCount {
 public:
  void add(bool passed) { ++(passed ? passed_ : failed_); }
  void leave(const Json& spec, const std::string& reason);
  int ran() const { return passed_ + failed_; }
  /// `goldens of losses: 22 passed, 0 failed, 1 skipped`, and a line for each reason with the names of those skipped.
  void print(const std::string& subject) const;

 private:
  int passed_ = 0, failed_ = 0, left_ = 0;
  std::map<std::string, std::string> names_;  // by the reason
};

/// Empty if there are no golden files here; then it says so.
std::filesystem::path golden_folder();
GoldenFile open_golden(const std::string& name);

/// Runs every case of these files in float64 and float32, outputs and gradients, and prints what became of them. Fails
/// for an op that neither list knows, and if an op of `ops` never ran or one of `left` never occurred.
void run_goldens(const std::string& subject, const std::vector<std::string>& files, const GoldenOps& ops,
                 const GoldenReasons& left = {});

/// Axes from a JSON number, list or null.
capstan::Axes axes_of(const Json& dim);
/// The sizes of a shape from a JSON list, -1 filled in.
capstan::Shape shape_of(const Json& sizes, std::int64_t numel);

}  // namespace tests
