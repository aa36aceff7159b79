#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include <capstan/metrics/text.hpp>

#include "lib/base/text.hpp"
#include "metrics/state.hpp"
#include "metrics/tokens.hpp"

namespace capstan::metrics {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr int kMostOrders = 16;

/// Numbers of the n-grams of several texts: what begins at place i of a text has number grams[text][i].
class Grams {
 public:
  explicit Grams(const std::vector<Ids>& texts) : texts_(texts) {
    for (const Ids& text : texts) grams_.emplace_back(text.size(), 0);
  }

  /// From n-grams to those that are one token longer; the first time to single tokens.
  void lengthen() {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> numbers;
    for (std::size_t t = 0; t < texts_.size(); ++t) {
      Ids& grams = grams_[t];
      const std::size_t count = texts_[t].size() - std::min(texts_[t].size(), length_);
      for (std::size_t i = 0; i < count; ++i) {
        const auto next = static_cast<std::int64_t>(numbers.size());
        grams[i] = numbers.try_emplace({grams[i], texts_[t][i + length_]}, next).first->second;
      }
      grams.resize(count);
    }
    ++length_;
    distinct_ = numbers.size();
  }

  std::int64_t count(std::size_t text) const { return static_cast<std::int64_t>(grams_[text].size()); }

  /// How many of those of the first text are in one of the others, each as often as there at most.
  std::int64_t matches() const {
    Ids most(distinct_, 0), here(distinct_, 0);
    for (std::size_t t = 1; t < grams_.size(); ++t) {
      for (const std::int64_t gram : grams_[t]) {
        auto& count = here[static_cast<std::size_t>(gram)];
        auto& limit = most[static_cast<std::size_t>(gram)];
        limit = std::max(limit, ++count);
      }
      for (const std::int64_t gram : grams_[t]) here[static_cast<std::size_t>(gram)] = 0;
    }
    std::int64_t found = 0;
    for (const std::int64_t gram : grams_[0])
      if (most[static_cast<std::size_t>(gram)]-- > 0) ++found;
    return found;
  }

 private:
  const std::vector<Ids>& texts_;
  std::vector<Ids> grams_;
  std::size_t length_ = 0, distinct_ = 0;
};

/// The length of the reference that is nearest to that of the candidate, the shorter one at ties.
std::int64_t nearest_length(const std::vector<Ids>& texts) {
  const auto length = [&](std::size_t t) { return static_cast<std::int64_t>(texts[t].size()); };
  std::int64_t best = length(1);
  for (std::size_t t = 2; t < texts.size(); ++t)
    best = std::min(std::pair(std::abs(best - length(0)), best), std::pair(std::abs(length(t) - length(0)), length(t)))
               .second;
  return best;
}

void require_references(std::size_t count, Where where) {
  if (count == 0) base::fail<Error>(where, "Bleu::update: there is no reference; give one or more.");
}

}  // namespace

Bleu::Bleu(BleuOptions options, Where where) : options_(options) {
  if (options.max_order < 1 || options.max_order > kMostOrders)
    base::fail<Error>(where, "Bleu: max_order is ", options.max_order, "; it must be in [1, ", kMostOrders, "].");
  counts_.assign(2 * static_cast<std::size_t>(options.max_order) + 2, 0);
}

void Bleu::update(std::span<const std::int64_t> candidate, std::span<const std::vector<std::int64_t>> references,
                  Where where) {
  require_references(references.size(), where);
  std::vector<Ids> texts{Ids(candidate.begin(), candidate.end())};
  texts.insert(texts.end(), references.begin(), references.end());
  add(texts);
}

void Bleu::update(std::span<const std::string> candidate, std::span<const std::vector<std::string>> references,
                  Where where) {
  require_references(references.size(), where);
  detail::TokenNumbers numbers;
  std::vector<Ids> texts{numbers.of(candidate)};
  for (const std::vector<std::string>& reference : references)
    texts.push_back(numbers.of(std::span<const std::string>(reference)));
  add(texts);
}

void Bleu::update(std::span<const std::string_view> candidate,
                  std::span<const std::vector<std::string_view>> references, Where where) {
  require_references(references.size(), where);
  detail::TokenNumbers numbers;
  std::vector<Ids> texts{numbers.of(candidate)};
  for (const std::vector<std::string_view>& reference : references)
    texts.push_back(numbers.of(std::span<const std::string_view>(reference)));
  add(texts);
}

/// The candidate and its references.
void Bleu::add(const std::vector<Ids>& texts) {
  Ids counts = counts_;
  const auto orders = static_cast<std::size_t>(options_.max_order);
  Grams grams(texts);
  for (std::size_t n = 0; n < orders && texts[0].size() > n; ++n) {
    grams.lengthen();
    counts[n] += grams.matches();
    counts[orders + n] += grams.count(0);
  }
  counts[2 * orders] += static_cast<std::int64_t>(texts[0].size());
  counts[2 * orders + 1] += nearest_length(texts);
  counts_ = std::move(counts);
}

namespace {
bool all_zero(const std::int64_t* counts, int count) {
  return std::all_of(counts, counts + count, [](std::int64_t n) { return n == 0; });
}
}  // namespace

std::vector<double> Bleu::precisions() const {
  const auto orders = static_cast<std::size_t>(options_.max_order);
  std::vector<double> precisions(orders, 0.0);
  if (all_zero(counts_.data(), options_.max_order)) return precisions;
  double smallest = 1;
  for (std::size_t n = 0; n < orders; ++n) {
    auto matches = static_cast<double>(counts_[n]), grams = static_cast<double>(counts_[orders + n]);
    if (options_.smoothing == BleuSmoothing::add_one && n > 0) {
      ++matches;
      ++grams;
    }
    if (grams == 0) break;
    if (matches == 0 && options_.smoothing == BleuSmoothing::exponential) matches = smallest /= 2;
    precisions[n] = matches / grams;
  }
  return precisions;
}

double Bleu::brevity_penalty() const noexcept {
  const auto candidates = static_cast<double>(counts_[counts_.size() - 2]);
  const auto references = static_cast<double>(counts_.back());
  if (candidates >= references) return 1;
  return candidates > 0 ? std::exp(1 - references / candidates) : 0;
}

double Bleu::result() const {
  const auto orders = static_cast<std::size_t>(options_.max_order);
  if (all_zero(counts_.data(), options_.max_order)) return 0;
  std::size_t used = orders;
  if (options_.effective_order && options_.smoothing != BleuSmoothing::add_one)
    while (used > 1 && counts_[orders + used - 1] == 0) --used;
  double sum = 0;
  const std::vector<double> each = precisions();
  for (std::size_t n = 0; n < used; ++n) {
    if (each[n] == 0) return 0;
    sum += std::log(each[n]);
  }
  return brevity_penalty() * std::exp(sum / static_cast<double>(used));
}

void Bleu::reset() noexcept { std::fill(counts_.begin(), counts_.end(), 0); }

void Bleu::merge(const Bleu& other, Where where) {
  if (other.counts_.size() != counts_.size())
    base::fail<Error>(where, "Bleu::merge: max_order is ", options_.max_order, " and that of the other ",
                      other.options_.max_order, "; they must be equal.");
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
}

std::vector<NamedTensor> Bleu::state(Where where) const {
  return {{"counts", detail::state_of(counts_, Shape({static_cast<std::int64_t>(counts_.size())}, where), where)}};
}

void Bleu::load_state(std::span<const NamedTensor> state, Where where) {
  detail::StateReader reader("Bleu", state, where);
  std::vector<std::int64_t> counts = reader.counts("counts", Shape({static_cast<std::int64_t>(counts_.size())}, where));
  reader.finish();
  counts_ = std::move(counts);
}

}  // namespace capstan::metrics
