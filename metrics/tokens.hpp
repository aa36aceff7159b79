#pragma once
// Tokens of texts as numbers.
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace capstan::metrics::detail {

/// Gives equal tokens equal numbers. The tokens must live as long.
class TokenNumbers {
 public:
  template <class Text>
  std::vector<std::int64_t> of(std::span<const Text> tokens) {
    std::vector<std::int64_t> list;
    list.reserve(tokens.size());
    for (const Text& token : tokens)
      list.push_back(
          numbers_.try_emplace(std::string_view(token), static_cast<std::int64_t>(numbers_.size())).first->second);
    return list;
  }

 private:
  std::map<std::string_view, std::int64_t> numbers_;
};

}  // namespace capstan::metrics::detail
