#include "lib/base/text.hpp"

#include <charconv>
#include <iterator>

namespace capstan::base {

constinit thread_local std::uint32_t failures = 0;

void append(std::string& text, std::string_view part) { text += part; }
void append(std::string& text, std::int64_t part) { text += std::to_string(part); }

void append(std::string& text, double part) {
  // nine digits tell a float32 from all others; a double has as many as it needs, so that 1 + 1e-12 is not shown as 1
  const int most = static_cast<double>(static_cast<float>(part)) == part ? 9 : 17;
  char digits[32];
  char* end = digits;
  for (int count = 9; count <= most; ++count) {
    end = std::to_chars(std::begin(digits), std::end(digits), part, std::chars_format::general, count).ptr;
    double again = 0;
    std::from_chars(digits, end, again);
    if (again == part) break;
  }
  text.append(digits, end);
}

void append(std::string& text, const Scalar& part) {
  if (part.kind() == Scalar::Kind::boolean) append(text, part.as_int64() != 0 ? "true" : "false");
  else if (part.kind() == Scalar::Kind::integer) append(text, part.as_int64());
  else append(text, part.as_double());
}

std::string to_string(Where where) {
  std::string_view file = where.file_name();
  if (const std::size_t slash = file.find_last_of("/\\"); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  return join(file, ":", std::int64_t{where.line()});
}

}  // namespace capstan::base
