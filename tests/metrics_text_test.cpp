// Perplexity, BLEU and edit distances: random examples that other software has judged, and cases judged by hand.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/metrics_support.hpp"
#include "tests/metrics_values.hpp"

using namespace capstan;
using namespace tests;
using Catch::Matchers::ContainsSubstring;
using metrics::BleuSmoothing;

namespace {

using Words = std::vector<std::string>;

double bleu_of(const BleuRow& row, metrics::BleuOptions options) {
  options.max_order = row.max_order;
  metrics::Bleu bleu(options);
  for (std::size_t i = 0; i < row.candidates.size(); ++i) bleu.update(row.candidates[i], row.references[i]);
  return bleu.result();
}

Words words_of(std::string_view text) {
  const std::vector<std::string_view> words = data::split_words(text);
  return {words.begin(), words.end()};
}

double sentence_bleu(std::string_view candidate, const std::vector<std::string>& references,
                     metrics::BleuOptions options = {}) {
  std::vector<Words> lists;
  for (const std::string& reference : references) lists.push_back(words_of(reference));
  metrics::Bleu bleu(options);
  bleu.update(words_of(candidate), lists);
  return bleu.result();
}

}  // namespace

TEST_CASE("perplexity is that of TensorFlow's losses", "[metrics]") {
  for (const PerplexityRow& row : perplexity_rows) {
    INFO(row.tokens << " tokens");
    const Tensor logits = table_of(row.logits, row.tokens), labels = list_of(row.labels);
    const Tensor weights = list_of(row.weights);
    metrics::Perplexity plain, weighted, from_losses, from_means;
    plain.update(strided(logits), cast(labels, DType::int32));
    weighted.update(logits, labels, weights);
    const Tensor losses = cross_entropy(logits, labels, {.reduction = Reduction::none});
    from_losses.update_losses(losses, weights);
    from_means.update_mean(number(mean(losses)), static_cast<double>(row.labels.size()));
    CHECK(near(plain.result(), row.perplexity));
    CHECK(near(plain.loss(), std::log(row.perplexity)));
    CHECK(near(weighted.result(), row.weighted));
    CHECK(near(from_losses.result(), row.weighted));
    CHECK(near(from_means.result(), row.perplexity));
  }
}

TEST_CASE("perplexity counts equally likely tokens, and leaves padding out", "[metrics]") {
  const Tensor flat = zeros({2, 3, 8}, {.dtype = DType::float16});
  metrics::Perplexity perplexity, none;
  perplexity.update(flat, from_vector(Ids{0, 7, 3, kIgnoredLabel, 1, kIgnoredLabel}, {2, 3}));
  CHECK(perplexity.weight() == 4);
  CHECK(relative_error(std::vector<double>{perplexity.result()}, {8}) <= tolerance::roundings32);  // losses in float32
  perplexity.update(flat, full({2, 3}, 99, {.dtype = DType::int64}), zeros({2, 3}));  // no token, whatever it is
  CHECK(perplexity.weight() == 4);
  none.update(zeros({0, 8}), zeros({0}, {.dtype = DType::int64}));
  CHECK(std::isnan(none.result()));
  none.update_mean(kInfinity, 1);
  CHECK(none.result() == kInfinity);
  none.update_losses(Tensor{kNaN});
  CHECK(std::isnan(none.result()));
}

TEST_CASE("BLEU is sacrebleu's, for several references and all smoothings", "[metrics][host]") {
  for (const BleuRow& row : bleu_rows) {
    INFO(row.candidates.size() << " candidates, up to " << row.max_order << " tokens");
    CHECK(near(bleu_of(row, {}), row.none));
    CHECK(near(bleu_of(row, {.smoothing = BleuSmoothing::add_one}), row.add_one));
    CHECK(near(bleu_of(row, {.smoothing = BleuSmoothing::exponential}), row.exponential));
    CHECK(near(bleu_of(row, {.effective_order = true}), row.effective));
  }
}

TEST_CASE("BLEU counts an n-gram as often as one reference has it", "[metrics][host]") {
  metrics::Bleu bleu({.max_order = 2});
  bleu.update(words_of("the the the the the the the"),
              std::vector<Words>{words_of("the cat is on the mat"), words_of("there is a cat on the mat")});
  CHECK(bleu.precisions() == std::vector<double>{2.0 / 7, 0});  // Papineni et al. 2002, example 2
  CHECK(bleu.brevity_penalty() == 1);                           // 7 tokens and a reference of 7
  CHECK(bleu.result() == 0);
}

TEST_CASE("where nothing matches there is nothing to smooth", "[metrics][host]") {
  for (const BleuSmoothing smoothing : {BleuSmoothing::none, BleuSmoothing::add_one, BleuSmoothing::exponential}) {
    metrics::Bleu bleu({.smoothing = smoothing});
    bleu.update(words_of("a b"), std::vector<Words>{words_of("c d")});
    CHECK(bleu.precisions() == std::vector<double>{0, 0, 0, 0});
    CHECK(bleu.result() == 0);
  }
}

TEST_CASE("BLEU asks for the nearest length, and for the shorter at ties", "[metrics][host]") {
  CHECK(near(sentence_bleu("a b c d", {"a b c d e"}), std::exp(1 - 5.0 / 4)));
  CHECK(sentence_bleu("a b c d", {"a b c d e", "x y z"}) == 1);                // 3 and 5 are as near: 3
  CHECK(near(sentence_bleu("a b c d", {"a b c d e", "x"}), std::exp(-0.25)));  // 5 is nearer than 1
}

TEST_CASE("BLEU of numbers, of words and of views of them is one", "[metrics][host]") {
  const std::string candidate = "4 2 9 4 2", reference = "4 2 9 9 4 2 7";
  metrics::Bleu words, views, numbers;
  words.update(words_of(candidate), std::vector<Words>{words_of(reference)});
  views.update(data::split_words(candidate), std::vector<std::vector<std::string_view>>{data::split_words(reference)});
  numbers.update(Ids{4, 2, 9, 4, 2}, std::vector<Ids>{{4, 2, 9, 9, 4, 2, 7}});
  CHECK(same(words.state()[0].value, numbers.state()[0].value));
  CHECK(same(views.state()[0].value, numbers.state()[0].value));
  CHECK(numbers.state()[0].value.to_vector<std::int64_t>() == Ids{5, 4, 2, 0, 5, 4, 3, 2, 5, 7});
}

TEST_CASE("BLEU of nothing is 0, and short sentences have one by their effective order", "[metrics][host]") {
  CHECK(metrics::Bleu().result() == 0);
  CHECK(sentence_bleu("", {"a b"}) == 0);
  CHECK(sentence_bleu("a", {""}) == 0);
  CHECK(sentence_bleu("a b", {"a b"}) == 0);
  CHECK(sentence_bleu("a b", {"a b"}, {.effective_order = true}) == 1);
}

TEST_CASE("edit distances are NLTK's, of code points, in both directions", "[metrics][host]") {
  for (const EditRow& row : edit_rows) {
    INFO(row.a << " and " << row.b);
    CHECK(metrics::edit_distance(row.a, row.b) == row.distance);
    CHECK(metrics::edit_distance(row.b, row.a) == row.distance);
    CHECK(metrics::edit_distance(row.a, row.a) == 0);
  }
  CHECK(metrics::edit_distance("kitten", "sitting") == 3);
  CHECK(metrics::edit_distance(Ids{1, 2, 3}, Ids{}) == 3);
  CHECK(metrics::edit_distance(Words{"to", "be", "or"}, Words{"or", "to", "be"}) == 2);
}

TEST_CASE("what texts begin and end with costs an edit distance nothing", "[metrics][host]") {
  Ids a(1'000'000, 5), b = a;
  a[400'000] = 1;
  b[400'001] = 2;
  b.insert(b.begin() + 400'001, 3);
  CHECK(metrics::edit_distance(a, b) == 3);  // what is left is 1 5 and 5 3 2
}

TEST_CASE("error rates divide all edits by the length of all references", "[metrics][host]") {
  metrics::ErrorRate words, characters({.unit = data::TokenUnit::characters}), bytes({.unit = data::TokenUnit::bytes});
  words.update("the  cat sat", "the cat sat\n");
  CHECK(words.result() == 0);
  words.update("on a mat", "on the mat too");
  CHECK(words.edits() == 2);  // "a" for "the", and "too" is missing
  CHECK(words.length() == 7);
  CHECK(words.result() == 2.0 / 7);
  characters.update("\u00e9t\u00e9", "ete");
  CHECK(characters.result() == 2.0 / 3);
  bytes.update("\u00e9", "e");
  CHECK(bytes.result() == 2);  // two bytes in the place of one
  metrics::ErrorRate numbers, empty;
  numbers.update(Ids{1, 2}, Ids{1, 3, 2});
  numbers.update(Words{"x"}, Words{"x"});
  CHECK(numbers.result() == 0.25);
  CHECK(std::isnan(empty.result()));
  empty.update("", "");
  CHECK(std::isnan(empty.result()));
  empty.update("a", "");
  CHECK(empty.result() == kInfinity);
}

TEST_CASE("text that is no UTF-8 has no characters to count edits of", "[metrics][errors][host]") {
  metrics::ErrorRate rate({.unit = data::TokenUnit::characters});
  rate.update("ab", "abc");
  CHECK_THROWS_WITH(rate.update("a\xff", "abc"), ContainsSubstring("offset 1") && ContainsSubstring("UTF-8"));
  CHECK_THROWS_AS(metrics::edit_distance("a", "\xed\xa0\x80"), Error);  // a surrogate
  CHECK(rate.edits() == 1);
  CHECK(rate.length() == 3);
}
