#include "lib/base/text.hpp"

#include <cmath>
#include <cstdio>

namespace capstan::base {

constinit thread_local std::uint32_t failures = 0;

void append(std::string& text, std::string_view part) { text += part; }
void append(std::string& text, std::int64_t part) { text += std::to_string(part); }

void append(std::string& text, double part) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.9g", part);
  text += digits;
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
