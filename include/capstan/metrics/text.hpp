#pragma once
// How well texts are foretold, translated and transcribed. What is said of all metrics is in mean.hpp.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <capstan/data/text.hpp>
#include <capstan/metrics/classification.hpp>
#include <capstan/metrics/mean.hpp>

namespace capstan CAPSTAN_PUBLIC {
namespace metrics {

/// exp of the mean loss of a token: among how many equally likely ones a model chooses. NaN if there were none.
class Perplexity : public detail::Ratio {
 public:
  Perplexity() noexcept : Ratio("Perplexity") {}
  explicit Perplexity(LabelOptions options) noexcept : Ratio("Perplexity"), options_(options) {}

  /// From logits, floating [..., tokens], and labels, integers [...]. Labels that are ignored and those of weight 0 do
  /// not count. The losses are those of cross_entropy, in float32 for 16-bit logits.
  void update(const Tensor& logits, const Tensor& labels, const Tensor& weights = Tensor(),
              Where where = Where::current());
  /// From the losses of single tokens, in nats, as cross_entropy gives them with `.reduction = Reduction::none`: those
  /// of ignored labels are 0 there, and count as tokens unless their weights are 0.
  void update_losses(const Tensor& losses, const Tensor& weights = Tensor(), Where where = Where::current());
  /// From the mean loss of some tokens, in nats.
  void update_mean(double loss, double tokens, Where where = Where::current());

  double result() const noexcept;
  double loss() const noexcept { return ratio(); }  ///< the mean loss, in nats
  void merge(const Perplexity& other) noexcept { add(other); }

 private:
  LabelOptions options_;
};

/// What becomes of orders of n-grams without a match, which make the score 0. Chen and Cherry 2014; as sacrebleu.
enum class BleuSmoothing : std::uint8_t {
  none,
  add_one,     ///< from n = 2 on, one more match and one more n-gram
  exponential  ///< half a match, a quarter for the next such order, and so on: sacrebleu's default
};
struct BleuOptions {
  int max_order = 4;  ///< the longest n-grams; in [1, 16]
  BleuSmoothing smoothing = BleuSmoothing::none;
  bool effective_order = false;  ///< leave out orders for which no candidate is long enough; for single sentences
};

/// How many n-grams of translations are in their references, over a corpus (Papineni et al. 2002). In [0, 1].
///
///   precision[n] = matches / n-grams of the candidates; an n-gram matches as often as the reference that has it most
///   bleu         = min(1, exp(1 - r / c)) * (product over n of precision[n])^(1 / max_order)
///
/// c is the length of all candidates and r that of their references, of several the one whose length is nearest, the
/// shorter at ties. Tokens are what the caller makes them: numbers, or words as data::split_words gives them. Values
/// are those of sacrebleu, over 100, for the same tokens.
///
/// Cost    of an update: L log L for each order, with L tokens in the candidate and its references
/// Throws  Error  max_order out of range; an update without a reference
class Bleu {
 public:
  explicit Bleu(BleuOptions options = {}, Where where = Where::current());
  void update(std::span<const std::int64_t> candidate, std::span<const std::vector<std::int64_t>> references,
              Where where = Where::current());
  void update(std::span<const std::string> candidate, std::span<const std::vector<std::string>> references,
              Where where = Where::current());
  void update(std::span<const std::string_view> candidate, std::span<const std::vector<std::string_view>> references,
              Where where = Where::current());

  double result() const;                   ///< 0 if nothing matches
  std::vector<double> precisions() const;  ///< by order, smoothed; zeros where nothing matches
  double brevity_penalty() const noexcept;
  void reset() noexcept;
  void merge(const Bleu& other, Where where = Where::current());  ///< Error unless both have one max_order
  /// "counts", int64 [2 * max_order + 2]: matches and n-grams of each order, c and r.
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  void add(const std::vector<std::vector<std::int64_t>>& texts);

  BleuOptions options_;
  std::vector<std::int64_t> counts_;
};

/// Levenshtein's distance: the fewest insertions, deletions and substitutions that make one sequence of the other.
/// Cost  one step for each pair of elements, without those that both begin or end with; memory for the shorter one
std::int64_t edit_distance(std::span<const std::int64_t> a, std::span<const std::int64_t> b);
std::int64_t edit_distance(std::span<const std::string> a, std::span<const std::string> b);
/// Of the code points of two texts in UTF-8. Error naming the offset of what is no UTF-8.
std::int64_t edit_distance(std::string_view a, std::string_view b, Where where = Where::current());

struct ErrorRateOptions {
  data::TokenUnit unit = data::TokenUnit::words;  ///< of texts; `characters` gives the character error rate
};

/// Edits that make the hypotheses of their references, over the length of the references: the word error rate of
/// speech recognition. Above 1 if hypotheses are longer than references; infinite if all references are empty and there
/// are edits, NaN if there are no edits either.
class ErrorRate {
 public:
  ErrorRate() noexcept = default;
  explicit ErrorRate(ErrorRateOptions options) noexcept : options_(options) {}
  /// Texts are taken apart as data::Vocabulary does it. Error for text that is no UTF-8 if characters are asked for.
  void update(std::string_view hypothesis, std::string_view reference, Where where = Where::current());
  void update(std::span<const std::int64_t> hypothesis, std::span<const std::int64_t> reference);
  void update(std::span<const std::string> hypothesis, std::span<const std::string> reference);

  double result() const noexcept { return static_cast<double>(edits_) / static_cast<double>(length_); }
  std::int64_t edits() const noexcept { return edits_; }
  std::int64_t length() const noexcept { return length_; }  ///< of all references
  void reset() noexcept { edits_ = length_ = 0; }
  void merge(const ErrorRate& other) noexcept;
  /// "edits" and "length", int64 [].
  std::vector<NamedTensor> state(Where where = Where::current()) const;
  /// Throws Error, ShapeError, DTypeError for what state() does not give; then nothing has changed.
  void load_state(std::span<const NamedTensor> state, Where where = Where::current());

 private:
  ErrorRateOptions options_;
  std::int64_t edits_ = 0, length_ = 0;
};

}  // namespace metrics
}  // namespace capstan
