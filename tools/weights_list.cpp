// capstan-weights list.
#include "tools/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>

namespace cs = capstan;

namespace weights_tool {

std::string shown(const std::string& name) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string text;
  bool in_control = false;  // U+0080 to U+009F: C2 80 to C2 9F
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const auto next = static_cast<unsigned char>(i + 1 < name.size() ? name[i + 1] : 0);
    const bool begins_control = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    if (byte >= ' ' && byte != 0x7F && !begins_control && !in_control) text += name[i];
    else text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    in_control = begins_control;
  }
  return text;
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::size_t width_of(const std::vector<cs::NamedTensor>& tensors) {
  constexpr std::size_t widest = 60;
  std::size_t width = 4;
  for (const cs::NamedTensor& tensor : tensors) width = std::max(width, shown(tensor.name).size());
  return std::min(width, widest);
}

namespace {

std::int64_t bytes_of(const cs::Tensor& x) { return x.numel() * cs::size_of(x.dtype()); }

struct Statistics {
  double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0;
  std::int64_t count = 0, not_a_number = 0;

  void add(double value) {
    if (std::isnan(value)) {
      ++not_a_number;
      return;
    }
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    ++count;
  }
};

void print_values(const cs::Tensor& x) {
  Statistics statistics;
  each_piece<double>(x, [&](std::span<const double> values) {
    for (const double value : values) statistics.add(value);
  });
  if (statistics.count > 0)
    std::printf("  min %-12.6g max %-12.6g mean %-12.6g", statistics.least, statistics.most,
                statistics.sum / static_cast<double>(statistics.count));
  if (statistics.not_a_number > 0) std::printf("  nan %lld", static_cast<long long>(statistics.not_a_number));
}

/// Texts may be long: the state of a pipeline, a training log.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 200;
  if (text.size() <= longest) return shown(text);
  return shown(text.substr(0, longest)) + "... (" + with_commas(static_cast<std::int64_t>(text.size())) + " bytes)";
}

/// What stands before the first dot of the names: the parts of a checkpoint.
void print_parts(const std::vector<cs::NamedTensor>& tensors) {
  std::map<std::string, std::int64_t> parts;
  for (const cs::NamedTensor& tensor : tensors) ++parts[tensor.name.substr(0, tensor.name.find('.'))];
  std::printf("a checkpoint of:");
  for (const auto& [part, count] : parts)
    std::printf("%s %s (%s)", part == parts.begin()->first ? "" : ",", shown(part).c_str(), with_commas(count).c_str());
  std::printf("\n");
}

}  // namespace

void list(const std::string& path, bool with_values) {
  const cs::io::Weights weights = cs::io::read_weights(path);
  const int width = static_cast<int>(width_of(weights.tensors));
  std::int64_t elements = 0, bytes = 0;
  for (const cs::NamedTensor& tensor : weights.tensors) {
    const cs::Tensor& x = tensor.value;
    std::printf("%-*s  %-8s  %-20s  %14s bytes", width, shown(tensor.name).c_str(), cs::name(x.dtype()),
                cs::to_string(x.shape()).c_str(), with_commas(bytes_of(x)).c_str());
    if (with_values) print_values(x);
    std::printf("\n");
    elements += x.numel();
    bytes += bytes_of(x);
  }
  std::printf("%s tensors, %s elements, %s bytes\n",
              with_commas(static_cast<std::int64_t>(weights.tensors.size())).c_str(), with_commas(elements).c_str(),
              with_commas(bytes).c_str());
  const bool checkpoint = std::any_of(weights.metadata.begin(), weights.metadata.end(),
                                      [](const auto& entry) { return entry.first == "capstan.checkpoint"; });
  if (checkpoint) print_parts(weights.tensors);
  for (const auto& [key, text] : weights.metadata)
    std::printf("%s: %s\n", shortened(key).c_str(), shortened(text).c_str());
}

}  // namespace weights_tool
