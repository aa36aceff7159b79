#pragma once
// Connectionist temporal classification by its definition: every path by itself.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "tests/support.hpp"

namespace tests::ctc {

using Numbers = std::vector<double>;
using Labels = std::vector<std::int64_t>;

/// What a path stands for.
inline Labels labels_of(const Labels& path, std::int64_t blank) {
  Labels labels;
  std::int64_t before = -1;
  for (const std::int64_t c : path) {
    if (c != before && c != blank) labels.push_back(c);
    before = c;
  }
  return labels;
}

struct PathSum {
  double probability = 0;
  Numbers shares = {};  // of the paths that have a class at a step, [steps, classes]
};

/// Every path through log-probabilities [steps, classes], added up by what it stands for.
inline std::map<Labels, PathSum> all_paths(const Numbers& logs, std::size_t steps, std::size_t classes,
                                           std::int64_t blank) {
  std::map<Labels, PathSum> sums;
  Labels path(steps, 0);
  while (true) {
    double total = 0;
    for (std::size_t t = 0; t < steps; ++t) total += logs[t * classes + static_cast<std::size_t>(path[t])];
    PathSum& found = sums[labels_of(path, blank)];
    found.shares.resize(steps * classes);
    found.probability += std::exp(total);
    for (std::size_t t = 0; t < steps; ++t)
      found.shares[t * classes + static_cast<std::size_t>(path[t])] += std::exp(total);
    std::size_t t = 0;
    while (t < steps && ++path[t] == static_cast<std::int64_t>(classes)) path[t++] = 0;
    if (t == steps) return sums;
  }
}

/// A batch, and what its losses and their gradients are by the definition.
struct Batch {
  capstan::Tensor logs;  // [batch, time, classes]
  std::vector<Labels> targets;
  Labels steps;
  std::int64_t blank = 0;

  std::size_t size() const { return steps.size(); }
  std::size_t time() const { return static_cast<std::size_t>(logs.size(1)); }
  std::size_t classes() const { return static_cast<std::size_t>(logs.size(2)); }
  Numbers logs_of(std::size_t b) const {
    const Numbers list = values(logs);
    const auto first = list.begin() + static_cast<std::ptrdiff_t>(b * time() * classes());
    return Numbers(first, first + static_cast<std::ptrdiff_t>(time() * classes()));
  }
  std::map<Labels, PathSum> paths_of(std::size_t b) const {
    return all_paths(logs_of(b), static_cast<std::size_t>(steps[b]), classes(), blank);
  }

  capstan::Tensor input_lengths() const { return capstan::from_vector(steps); }
  capstan::Tensor target_lengths() const {
    Labels list;
    for (const Labels& labels : targets) list.push_back(static_cast<std::int64_t>(labels.size()));
    return capstan::from_vector(list);
  }
  /// [batch, labels], with `filler` behind the labels.
  capstan::Tensor padded(std::int64_t filler = 0) const {
    std::size_t longest = 0;
    for (const Labels& labels : targets) longest = std::max(longest, labels.size());
    Labels list;
    for (const Labels& labels : targets) {
      list.insert(list.end(), labels.begin(), labels.end());
      list.insert(list.end(), longest - labels.size(), filler);
    }
    return capstan::from_vector(list, {static_cast<std::int64_t>(size()), static_cast<std::int64_t>(longest)});
  }
  capstan::Tensor joined() const {
    Labels list;
    for (const Labels& labels : targets) list.insert(list.end(), labels.begin(), labels.end());
    return capstan::from_vector(list);
  }

  capstan::Tensor losses() const {
    Numbers list;
    for (std::size_t b = 0; b < size(); ++b) list.push_back(-std::log(paths_of(b)[targets[b]].probability));
    return from_doubles(list, {static_cast<std::int64_t>(size())});
  }
  /// Of sum(weight * losses).
  capstan::Tensor gradient(const Numbers& weight) const {
    Numbers list(size() * time() * classes());
    for (std::size_t b = 0; b < size(); ++b) {
      const PathSum found = paths_of(b)[targets[b]];
      for (std::size_t i = 0; i < found.shares.size(); ++i)
        list[b * time() * classes() + i] = -weight[b] * found.shares[i] / found.probability;
    }
    return from_doubles(list, logs.shape());
  }
};

/// Labels that are equal, or different, or none; rows that end early.
inline Batch batch_of(std::int64_t blank, capstan::DType dtype = capstan::DType::float64) {
  const std::int64_t a = blank == 0 ? 1 : 0, b = 3;
  return {random_in(-3, 1, {5, 6, 4}, dtype, 501), {{a, b}, {b, b}, {}, {b, a, b}, {a, a, b}}, {6, 5, 4, 3, 6}, blank};
}

}  // namespace tests::ctc
