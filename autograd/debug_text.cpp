#include "autograd/debug_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace capstan::autograd {
namespace {

constexpr std::size_t kMostShapes = 6;  // of one side; optimizers have hundreds of parameters

/// Characters of UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

void append_shapes(std::string& text, std::span<const Tensor* const> tensors) {
  std::size_t shown = 0, more = 0;
  for (const Tensor* tensor : tensors) {
    if (!tensor->defined()) continue;
    if (shown == kMostShapes) {
      ++more;
      continue;
    }
    if (shown++ > 0) text += ' ';
    text += to_string(tensor->impl()->shape);
  }
  if (more > 0) text += " and " + std::to_string(more) + " more";
}

}  // namespace

std::string short_text(double value) {
  if (std::isnan(value)) return "nan";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 6).ptr;
  return std::string(digits, end);
}

std::string fixed_text(double value, int digits) {
  if (!std::isfinite(value)) return short_text(value);
  char text[512];
  const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits).ptr;
  return std::string(text, end);
}

std::string bytes_text(std::int64_t bytes) {
  if (bytes < 1024) return std::to_string(bytes) + " B";
  constexpr const char* kUnits[] = {" KiB", " MiB", " GiB", " TiB"};
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit < 3; ++unit) size /= 1024;
  return fixed_text(size, 1) + kUnits[unit];
}

std::string microseconds_text(std::int64_t nanoseconds) {
  const bool negative = nanoseconds < 0;
  const std::int64_t size = negative ? -nanoseconds : nanoseconds;
  std::string rest = std::to_string(size % 1000);
  rest.insert(0, 3 - rest.size(), '0');
  return (negative ? "-" : "") + std::to_string(size / 1000) + "." + rest;
}

std::string shapes_text(const core::Operation& operation) {
  std::string text;
  append_shapes(text, operation.backward ? operation.inputs.first(operation.incoming) : operation.inputs);
  text += text.empty() ? "-> " : " -> ";
  append_shapes(text, operation.outputs);
  return text;
}

std::string table_text(const std::vector<std::vector<std::string>>& rows, unsigned words) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width_of(row[i]), ' ');
      if (i > 0) line += "  ";
      line += (words >> i & 1u) != 0 ? row[i] + space : space + row[i];
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace capstan::autograd
