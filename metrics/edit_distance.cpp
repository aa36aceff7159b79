#include <algorithm>
#include <numeric>
#include <utility>

#include <capstan/metrics/text.hpp>

#include "metrics/state.hpp"
#include "metrics/tokens.hpp"

namespace capstan::metrics {
namespace {

using Ids = std::span<const std::int64_t>;

/// Takes off what both begin with and what both end with: no edits are needed there.
void trim(Ids& a, Ids& b) {
  const auto front = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const auto same = static_cast<std::size_t>(front.first - a.begin());
  a = a.subspan(same);
  b = b.subspan(same);
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a = a.first(a.size() - 1);
    b = b.first(b.size() - 1);
  }
}

template <class Text>
std::int64_t distance_of_tokens(std::span<const Text> a, std::span<const Text> b) {
  detail::TokenNumbers numbers;
  const std::vector<std::int64_t> x = numbers.of(a), y = numbers.of(b);
  return edit_distance(Ids(x), Ids(y));
}

std::vector<std::string_view> split(std::string_view text, data::TokenUnit unit, Where where) {
  if (unit == data::TokenUnit::words) return data::split_words(text);
  if (unit == data::TokenUnit::characters) return data::split_characters(text, where);
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
  return bytes;
}

}  // namespace

std::int64_t edit_distance(Ids a, Ids b) {
  trim(a, b);
  if (a.size() < b.size()) std::swap(a, b);
  // distance[j]: from the elements of a so far to the first j of b
  std::vector<std::int64_t> distance(b.size() + 1);
  std::iota(distance.begin(), distance.end(), std::int64_t{0});
  for (const std::int64_t element : a) {
    std::int64_t diagonal = distance[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t substituted = diagonal + (element == b[j] ? 0 : 1);
      diagonal = distance[j + 1];
      distance[j + 1] = std::min(substituted, std::min(diagonal, distance[j]) + 1);
    }
  }
  return distance.back();
}

std::int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b) {
  return distance_of_tokens(a, b);
}

std::int64_t edit_distance(std::string_view a, std::string_view b, Where where) {
  using Views = std::span<const std::string_view>;
  const auto x = data::split_characters(a, where), y = data::split_characters(b, where);
  return distance_of_tokens(Views(x), Views(y));
}

void ErrorRate::update(std::string_view hypothesis, std::string_view reference, Where where) {
  using Views = std::span<const std::string_view>;
  const auto h = split(hypothesis, options_.unit, where), r = split(reference, options_.unit, where);
  edits_ += distance_of_tokens(Views(h), Views(r));
  length_ += static_cast<std::int64_t>(r.size());
}

void ErrorRate::update(std::span<const std::int64_t> hypothesis, std::span<const std::int64_t> reference) {
  edits_ += edit_distance(hypothesis, reference);
  length_ += static_cast<std::int64_t>(reference.size());
}

void ErrorRate::update(std::span<const std::string> hypothesis, std::span<const std::string> reference) {
  edits_ += edit_distance(hypothesis, reference);
  length_ += static_cast<std::int64_t>(reference.size());
}

void ErrorRate::merge(const ErrorRate& other) noexcept {
  edits_ += other.edits_;
  length_ += other.length_;
}

std::vector<NamedTensor> ErrorRate::state(Where where) const {
  return {{"edits", detail::state_of(edits_, where)}, {"length", detail::state_of(length_, where)}};
}

void ErrorRate::load_state(std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader("ErrorRate", state, where);
  const std::int64_t edits = reader.count("edits"), length = reader.count("length");
  reader.finish();
  edits_ = edits;
  length_ = length;
}

}  // namespace capstan::metrics
