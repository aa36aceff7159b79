#pragma once
// Names and tables of summaries.
#include <string>
#include <string_view>

namespace capstan::nn::detail {

/// "Conv2d" from what the compiler says of type_text<capstan::nn::Conv<2>>.
std::string type_name(std::string_view compiler_text);

}  // namespace capstan::nn::detail
