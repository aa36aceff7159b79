#pragma once
// Numbers and tables as text for reports. They do not depend on the program's locale.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/core/observe.hpp"

namespace capstan::autograd {

/// Six significant digits: "0.1", "-inf", "nan".
std::string short_text(double value);
/// With that many digits behind the point: "12.30".
std::string fixed_text(double value, int digits);
/// "512 B", "1.5 KiB", "20.0 MiB".
std::string bytes_text(std::int64_t bytes);
/// Nanoseconds as microseconds, exactly: "12.345".
std::string microseconds_text(std::int64_t nanoseconds);

/// "[64, 128] [128, 10] -> [64, 10]". Of a long list the first few.
std::string shapes_text(const core::Operation& operation);

/// Rows of cells in columns as wide as they must be, the first row as heading. Words stand on the left of their
/// column and figures on the right: `words` has a bit for each column of words.
std::string table_text(const std::vector<std::vector<std::string>>& rows, unsigned words);

}  // namespace capstan::autograd
