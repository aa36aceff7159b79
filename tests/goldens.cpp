#include "tests/goldens.hpp"

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "tests/support.hpp"

#ifndef CAPSTAN_SHARED
#define CAPSTAN_SHARED ""
#endif

namespace tests {

using namespace capstan;

namespace {

template <class T>
std::vector<double> read_numbers(const std::string& bytes, std::size_t begin, std::size_t end) {
  std::vector<T> list((end - begin) / sizeof(T));
  if (!list.empty()) std::memcpy(list.data(), bytes.data() + begin, list.size() * sizeof(T));
  std::vector<double> numbers;
  numbers.reserve(list.size());
  for (const T x : list) numbers.push_back(static_cast<double>(x));
  return numbers;
}

void collect_names(const Json& argument, std::vector<std::string>& names) {
  if (argument.is_object() && argument.contains("t")) {
    names.push_back(argument.at("t").get<std::string>());
  } else if (argument.is_structured()) {
    for (const auto& item : argument) collect_names(item, names);
  }
}

/// What an error may be: PyTorch's figure at that place of the case decides in float32. Negative for no verdict.
double allowed_error(const Json& spec, const char* kind, std::size_t index, DType floating) {
  if (floating == DType::float64) return tolerance::golden64;
  const Json& figure = spec.at("f32").at(kind).at(index);
  if (figure.is_null() || figure.get<double>() > tolerance::golden32_no_verdict) return -1;
  return tolerance::golden32_factor * figure.get<double>() + tolerance::golden32_floor;
}

/// False if they differ, and then the test fails.
bool compare(const Tensor& actual, const Tensor& expected, double allowed) {
  REQUIRE(actual.defined());
  CHECK(actual.shape() == expected.shape());
  CHECK(actual.dtype() == expected.dtype());
  const bool alike = allowed < 0 || close(actual, expected, allowed);
  CHECK(alike);
  return alike && actual.shape() == expected.shape() && actual.dtype() == expected.dtype();
}

std::map<std::string, Tensor> load_inputs(const GoldenFile& file, const Json& spec, DType floating) {
  std::vector<std::string> names;
  collect_names(spec.at("args"), names);
  collect_names(spec.at("kwargs"), names);
  std::map<std::string, Tensor> inputs;
  for (const std::string& name : names) inputs.emplace(name, file.tensor(name, floating));
  if (spec.contains("noncontig"))
    for (const auto& [name, strides] : spec.at("noncontig").items()) {
      (void)strides;  // the test brings a layout of its own
      Tensor& x = inputs.at(name);
      x = strided(x);
      CHECK_FALSE(x.is_contiguous());
    }
  return inputs;
}

bool compare_gradients(const GoldenFile& file, const Json& spec, const std::map<std::string, Tensor>& inputs,
                       const std::vector<Tensor>& outputs, GradientTape& tape, DType floating) {
  bool passed = true;
  std::vector<Tensor> targets, weights, sources, expected;
  for (std::size_t k = 0; k < spec.at("cots").size(); ++k) {
    if (spec.at("cots").at(k).is_null()) continue;
    targets.push_back(outputs.at(k));
    weights.push_back(file.tensor(spec.at("cots").at(k).get<std::string>(), floating));
  }
  for (const auto& [input, gradient] : spec.at("grads").items()) {
    sources.push_back(inputs.at(input));
    expected.push_back(file.tensor(gradient.get<std::string>(), floating));
  }
  std::vector<Tensor> gradients;
  if (targets.size() == 1) {
    gradients = tape.gradient(targets[0], sources, {.output_gradient = weights[0], .unconnected = Unconnected::zeros});
  } else {
    Tensor total = sum(targets[0] * weights[0]);
    for (std::size_t k = 1; k < targets.size(); ++k) total = total + sum(targets[k] * weights[k]);
    gradients = tape.gradient(total, sources, {.unconnected = Unconnected::zeros});
  }
  REQUIRE(gradients.size() == expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    INFO("gradient " << k);
    passed = compare(gradients[k], expected[k], allowed_error(spec, "grad", k, floating)) && passed;
  }
  return passed;
}

/// Whether everything is as expected. Throws LeftOut.
bool run_case(const GoldenFile& file, const Json& spec, const GoldenOp& op, DType floating) {
  INFO(spec.at("op").get<std::string>() << " " << spec.at("id").get<std::string>() << " in " << name(floating));
  const std::map<std::string, Tensor> inputs = load_inputs(file, spec, floating);
  const bool has_gradients = spec.contains("grads") && !spec.at("grads").empty();

  GradientTape tape;
  if (has_gradients)
    for (const auto& [input, gradient] : spec.at("grads").items()) tape.watch(inputs.at(input));
  const std::vector<Tensor> outputs = op(GoldenCall(spec, inputs));

  bool passed = true;
  const Json& names = spec.at("outs");
  REQUIRE(outputs.size() == names.size());
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    INFO("output " << k);
    const Tensor expected = file.tensor(names.at(k).get<std::string>(), floating);
    passed = compare(outputs[k], expected, allowed_error(spec, "out", k, floating)) && passed;
  }
  if (has_gradients) passed = compare_gradients(file, spec, inputs, outputs, tape, floating) && passed;
  return passed;
}

}  // namespace

GoldenFile::GoldenFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path.string());
  bytes_.assign(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  std::uint64_t length = 0;
  if (bytes_.size() < sizeof(length)) throw std::runtime_error(path.string() + " is too short");
  for (std::size_t i = 0; i < sizeof(length); ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[i])) << (8 * i);
  if (length > bytes_.size() - sizeof(length)) throw std::runtime_error(path.string() + " ends within its header");
  const std::size_t data = sizeof(length) + static_cast<std::size_t>(length);
  const Json header = Json::parse(bytes_.substr(sizeof(length), static_cast<std::size_t>(length)));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      cases_ = Json::parse(entry.at("cases").get<std::string>());
      continue;
    }
    const auto offsets = entry.at("data_offsets").get<std::vector<std::size_t>>();
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > bytes_.size() - data)
      throw std::runtime_error(path.string() + ": " + name + " lies outside the file");
    entries_[name] = {entry.at("dtype").get<std::string>(), entry.at("shape").get<std::vector<std::int64_t>>(),
                      data + offsets[0], data + offsets[1]};
  }
}

Tensor GoldenFile::tensor(const std::string& name, DType floating) const {
  const Entry& entry = entries_.at(name);
  const Shape shape(std::span<const std::int64_t>(entry.sizes));
  const auto read = [&]<class T>(T, DType dtype) {
    return from_doubles(read_numbers<T>(bytes_, entry.begin, entry.end), shape, dtype);
  };
  if (entry.dtype == "F64") return read(double{}, floating);
  if (entry.dtype == "F32") return read(float{}, floating);
  if (entry.dtype == "I64") return read(std::int64_t{}, DType::int64);
  if (entry.dtype == "I32") return read(std::int32_t{}, DType::int32);
  if (entry.dtype == "U8") return read(std::uint8_t{}, DType::uint8);
  if (entry.dtype == "BOOL") return read(std::uint8_t{}, DType::bool8);
  throw std::runtime_error(name + " has the unknown type " + entry.dtype);
}

std::vector<Tensor> GoldenCall::tensors(std::size_t first) const {
  std::vector<Tensor> list;
  for (std::size_t i = first; i < count(); ++i) list.push_back(tensor(i));
  return list;
}

std::filesystem::path golden_folder() {
  const std::filesystem::path shared = CAPSTAN_SHARED;
  std::error_code ignored;
  if (!shared.empty() && std::filesystem::is_directory(shared / "goldens", ignored)) return shared / "goldens";
  WARN("there are no golden files here: this case checked nothing");
  return {};
}

GoldenFile open_golden(const std::string& name) {
  return GoldenFile(golden_folder() / ("hand." + name + ".safetensors"));
}

void GoldenCount::leave(const Json& spec, const std::string& reason) {
  std::string& names = names_[reason];
  names += (names.empty() ? "" : ", ") + spec.at("op").get<std::string>() + " " + spec.at("id").get<std::string>();
  ++left_;
}

void GoldenCount::print(const std::string& subject) const {
  std::cout << "goldens of " << subject << ": " << passed_ << " passed, " << failed_ << " failed, " << left_
            << " skipped\n";
  for (const auto& [reason, names] : names_) std::cout << "  skipped " << names << ": " << reason << "\n";
}

void run_goldens(const std::string& subject, const std::vector<std::string>& files, const GoldenOps& ops,
                 const GoldenReasons& left) {
  if (golden_folder().empty()) return;
  GoldenCount count;
  std::map<std::string, int> met;  // how often each op ran, or was left out by its name
  for (const std::string& name : files) {
    INFO("golden file " << name);
    const GoldenFile file = open_golden(name);
    for (const Json& spec : file.cases()) {
      const std::string op = spec.at("op").get<std::string>();
      if (const auto reason = left.find(op); reason != left.end()) {
        count.leave(spec, reason->second);
        ++met[op];
        continue;
      }
      const auto found = ops.find(op);
      if (found == ops.end()) FAIL("nobody computes " << op << ", and no reason is given");
      try {
        bool passed = run_case(file, spec, found->second, DType::float64);
        if (spec.contains("f32") && !spec.at("f32").is_null())
          passed = run_case(file, spec, found->second, DType::float32) && passed;
        count.add(passed);
        ++met[op];
      } catch (const LeftOut& out) { count.leave(spec, out.reason); }
    }
  }
  count.print(subject);
  for (const auto& [op, unused] : ops) {
    INFO("the table has an entry for " << op << ", but no case ran");
    CHECK(met[op] > 0);
  }
  for (const auto& [op, unused] : left) {
    INFO(op << " is left out, but no case names it");
    CHECK(met[op] > 0);
  }
  REQUIRE(count.ran() > 0);
}

Axes axes_of(const Json& dim) {
  if (dim.is_null()) return {};
  if (dim.is_number()) return Axes(dim.get<int>());
  const auto d = dim.get<std::vector<int>>();
  switch (d.size()) {
    case 1: return {d[0]};
    case 2: return {d[0], d[1]};
    case 3: return {d[0], d[1], d[2]};
    default: throw std::runtime_error("more axes than any golden case has");
  }
}

Shape shape_of(const Json& sizes, std::int64_t numel) {
  auto list = sizes.get<std::vector<std::int64_t>>();
  std::int64_t known = 1;
  for (const std::int64_t size : list) known *= size < 0 ? 1 : size;
  for (std::int64_t& size : list)
    if (size < 0) size = numel / known;
  return Shape(std::span<const std::int64_t>(list));
}

}  // namespace tests
