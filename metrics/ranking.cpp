#include <capstan/metrics/ranking.hpp>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include <capstan/tape.hpp>

#include "lib/base/text.hpp"
#include "metrics/reading.hpp"
#include "metrics/state.hpp"

namespace capstan::metrics {

namespace detail {

struct Ranking::Entry {
  double score, weight;
  unsigned char label;
};

/// The weights of the examples of both classes that have one score.
struct Ranking::Ties {
  double positive = 0, negative = 0;
};

void Ranking::update(const Tensor& scores, const Tensor& labels, const Tensor& weights, Where where) {
  const std::string op = std::string(name_) + "::update";
  const NoGrad off;
  const BinaryPredictions read =
      read_binary(op.c_str(), "scores", scores, labels, weights, options_.ignored_label, where);
  Ranking more(name_, options_);
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (!read.counts(i)) continue;
    more.scores_.push_back(read.scores.values[i]);
    more.labels_.push_back(read.labels.values[i] == 1 ? 1 : 0);
    if (!read.weights.all_one()) more.weights_.push_back(read.weights[i]);
  }
  add(more);
}

void Ranking::add(const Ranking& other) {
  const std::size_t before = scores_.size(), count = other.scores_.size();  // `other` may be this one
  const bool weighted = !weights_.empty() || !other.weights_.empty(), other_weighted = !other.weights_.empty();
  const auto room = [](auto& list, std::size_t size) {
    if (list.capacity() < size) list.reserve(std::max(size, 2 * list.capacity()));
  };
  room(scores_, before + count);
  room(labels_, before + count);
  if (weighted) room(weights_, before + count);
  // from here on there is memory, and nothing fails
  if (weighted && weights_.empty()) weights_.resize(before, 1);
  for (std::size_t i = 0; i < count; ++i) {
    scores_.push_back(other.scores_[i]);
    labels_.push_back(other.labels_[i]);
    if (weighted) weights_.push_back(other_weighted ? other.weights_[i] : 1);
  }
}

void Ranking::reset() noexcept {
  scores_.clear();
  labels_.clear();
  weights_.clear();
}

/// The highest score first. Examples are added up in an order that depends on nothing but what they are.
std::vector<Ranking::Ties> Ranking::by_score() const {
  std::vector<Entry> entries(scores_.size());
  for (std::size_t i = 0; i < entries.size(); ++i)
    entries[i] = {scores_[i], weights_.empty() ? 1 : weights_[i], labels_[i]};
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(b.score, a.label, a.weight) < std::tie(a.score, b.label, b.weight);
  });
  std::vector<Ties> groups;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].score != entries[i - 1].score) groups.emplace_back();
    (entries[i].label != 0 ? groups.back().positive : groups.back().negative) += entries[i].weight;
  }
  return groups;
}

std::vector<NamedTensor> Ranking::state(Where where) const {
  return {{"scores", state_of(scores_, where)},
          {"labels", state_of(labels_, where)},
          {"weights", state_of(weights_, where)}};
}

void Ranking::load_state(std::span<const NamedTensor> state, Where where) {
  StateReader reader(name_, state, where);
  std::vector<double> scores = reader.numbers("scores");
  std::vector<unsigned char> labels = reader.truths("labels");
  std::vector<double> weights = reader.numbers("weights");
  reader.finish();
  if (labels.size() != scores.size() || (!weights.empty() && weights.size() != scores.size()))
    base::fail<ShapeError>(where, name_, "::load_state: there are ", scores.size(), " scores, ", labels.size(),
                           " labels and ", weights.size(), " weights; there must be as many of each, or no weights.");
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] != scores[i] || (!weights.empty() && !(weights[i] > 0 && weights[i] - weights[i] == 0)))
      base::fail<Error>(where, name_, "::load_state: score ", i, " is ", scores[i], " and its weight ",
                        weights.empty() ? 1 : weights[i], "; scores must be numbers, and weights finite and > 0.");
  scores_ = std::move(scores);
  labels_ = std::move(labels);
  weights_ = std::move(weights);
}

}  // namespace detail

double Auc::result(Where where) const {
  double positive = 0, negative = 0, area = 0;
  for (const Ties& ties : by_score()) {
    area += ties.negative * (positive + ties.positive / 2);
    positive += ties.positive;
    negative += ties.negative;
  }
  if (!(positive > 0 && negative > 0))
    base::fail<Error>(where, "Auc::result: there are ", count(), " examples, none of them of class ",
                      positive > 0 ? 0 : 1, "; there must be some of both classes.");
  return area / (positive * negative);
}

double AveragePrecision::result(Where where) const {
  double positive = 0, negative = 0, sum = 0;
  for (const Ties& ties : by_score()) {
    positive += ties.positive;
    negative += ties.negative;
    sum += ties.positive == 0 ? 0 : ties.positive * (positive / (positive + negative));
  }
  if (!(positive > 0))
    base::fail<Error>(where, "AveragePrecision::result: there are ", count(),
                      " examples, none of them of class 1; there must be some.");
  return sum / positive;
}

}  // namespace capstan::metrics
