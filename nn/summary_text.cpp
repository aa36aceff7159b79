// A summary as text. Numbers do not depend on the program's locale.
#include "nn/summary_text.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ostream>
#include <vector>

#include <capstan/nn/summary.hpp>

#include "lib/base/text.hpp"

namespace capstan::nn {
namespace detail {
namespace {

/// A type without namespaces and template arguments, and those.
struct TypeParts {
  std::string_view name, arguments;
};

TypeParts parts_of(std::string_view type) {
  std::size_t begin = 0, end = type.size(), depth = 0;
  for (std::size_t i = 0; i < type.size(); ++i) {
    const char c = type[i];
    if (c == '<' && depth == 0) end = i;
    if (c == '<' || c == '(') ++depth;
    else if ((c == '>' || c == ')') && depth > 0) --depth;
    else if (c == ':' && depth == 0) begin = i + 1, end = type.size();
  }
  const std::string_view behind = type.substr(end);
  return {type.substr(begin, end - begin),
          behind.size() > 2 ? behind.substr(1, behind.size() - 2) : std::string_view()};
}

}  // namespace

std::string type_name(std::string_view compiler_text) {
  // g++: "... type_text() [with T = capstan::nn::Conv<2>]", clang: "... [T = capstan::nn::Conv<2>]"
  const std::size_t begin = compiler_text.find("T = ");
  if (begin == std::string_view::npos) return std::string(compiler_text);
  compiler_text.remove_prefix(begin + 4);
  const TypeParts type = parts_of(compiler_text.substr(0, compiler_text.rfind(']')));
  std::string name(type.name);
  // layers for 1, 2 and 3 axes are templates: Conv<2> is known as Conv2d, BatchNormLayer<0> as BatchNorm
  if (type.arguments.size() != 1 || type.arguments[0] < '0' || type.arguments[0] > '9') return name;
  constexpr std::string_view kLayer = "Layer";
  if (name.size() > kLayer.size() && name.ends_with(kLayer)) name.resize(name.size() - kLayer.size());
  return type.arguments == "0" ? name : name + std::string(type.arguments) + "d";
}

}  // namespace detail

namespace {

/// "1234", "1.23 M": a number below a thousand as it is, others with three digits and a unit.
std::string short_number(std::int64_t value, std::int64_t unit, const char* const* units) {
  if (value < unit) return std::to_string(value) + units[0];
  double size = static_cast<double>(value);
  int step = 0;
  for (; size >= static_cast<double>(unit) && step < 4; ++step) size /= static_cast<double>(unit);
  char digits[64];
  const int precision = size < 10 ? 2 : size < 100 ? 1 : 0;
  const auto end = std::to_chars(digits, digits + sizeof digits, size, std::chars_format::fixed, precision).ptr;
  return std::string(digits, end) + units[step];
}

std::string count_text(std::int64_t count) {
  constexpr const char* kUnits[] = {"", " K", " M", " G", " T"};
  return short_number(count, 1000, kUnits);
}

std::string bytes_text(std::int64_t bytes) {
  constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return short_number(bytes, 1024, kUnits);
}

std::string or_dash(std::int64_t value, const std::string& text) { return value == 0 ? "-" : text; }

/// "832", "832 frozen", "832 and 64 frozen", "-".
std::string parameters_text(std::int64_t trainable, std::int64_t frozen) {
  if (frozen == 0) return or_dash(trainable, std::to_string(trainable));
  const std::string still = std::to_string(frozen) + " frozen";
  return trainable == 0 ? still : std::to_string(trainable) + " and " + still;
}

using Cells = std::vector<std::string>;

Cells cells_of(const SummaryRow& row) {
  return {row.calls > 1 ? row.name + " x" + std::to_string(row.calls) : row.name,
          row.type,
          row.calls > 0 ? to_string(row.output) : "not run",
          parameters_text(row.trainable, row.frozen),
          or_dash(row.operations, count_text(row.operations)),
          or_dash(row.bytes, bytes_text(row.bytes))};
}

/// Columns as wide as they must be; the first three stand on the left and figures on the right.
std::string table_text(const std::vector<Cells>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const Cells& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  std::string text;
  for (const Cells& line : lines) {
    std::string whole;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string space(widths[i] - line[i].size(), ' ');
      if (i > 0) whole += "  ";
      whole += i < 3 ? line[i] + space : space + line[i];
    }
    whole.resize(whole.find_last_not_of(' ') + 1);
    text += whole + "\n";
  }
  return text;
}

}  // namespace

std::string Summary::text() const {
  std::vector<Cells> lines = {{"layer", "type", "output", "parameters", "operations", "results"}};
  for (const SummaryRow& row : rows) lines.push_back(cells_of(row));
  return table_text(lines) + "parameters: " + parameters_text(trainable, frozen) + ", " + bytes_text(parameter_bytes) +
         "; buffers: " + bytes_text(buffer_bytes) + "; results: " + bytes_text(result_bytes) +
         "; operations: " + count_text(operations) + "\n";
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) { return out << summary.text(); }

}  // namespace capstan::nn
