#include "io/weights_match.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <capstan/metrics/text.hpp>
#include <capstan/nn/layers.hpp>
#include <capstan/nn/regularizer.hpp>
#include <capstan/ops/shaping.hpp>

#include "io/io_error.hpp"
#include "io/quoted.hpp"
#include "lib/base/text.hpp"

namespace capstan::io {
namespace {

using nn::detail::Leaf;
using nn::detail::Outline;

// --- names in the file ---

/// As `nn::freeze` takes patterns: the name itself, or that of a part it lies in.
bool fits(const std::string& name, const std::string& pattern) {
  return nn::matches(name, pattern) || nn::matches(name, pattern + ".*");
}

bool is_weight_of_linear(const Outline& model, const Leaf& leaf) {
  if (leaf.part == nn::detail::kNoPart) return false;
  const nn::detail::Part& part = model.parts[leaf.part];
  if (part.type != &nn::detail::kPartType<nn::Linear> && part.type != &nn::detail::kPartType<const nn::Linear>)
    return false;
  return leaf.slot == &static_cast<const nn::Linear*>(part.object)->weight;
}

bool is_transposed(const Outline& model, const Leaf& leaf, const WeightsOptions& options, Where where) {
  if (leaf.value.rank(where) != 2) return false;
  if (options.layout == Layout::pytorch && is_weight_of_linear(model, leaf)) return true;
  return std::any_of(options.transpose.begin(), options.transpose.end(),
                     [&](const std::string& pattern) { return fits(leaf.name, pattern); });
}

void check_different(const char* op, const std::vector<WantedTensor>& wanted, Where where) {
  std::vector<const WantedTensor*> order;
  for (const WantedTensor& one : wanted) order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const WantedTensor* a, const WantedTensor* b) { return a->in_file < b->in_file; });
  for (std::size_t i = 1; i < order.size(); ++i)
    if (order[i]->in_file == order[i - 1]->in_file)
      base::fail<Error>(where, op, ": ", order[i - 1]->name, " and ", order[i]->name, " of the model would both be ",
                        quoted(order[i]->in_file), " in the file; renamed names must be different.");
}

void check_renamings(const char* op, const std::vector<WantedTensor>& wanted, const WeightsOptions& options,
                     Where where) {
  for (std::size_t i = 0; i < options.rename.size(); ++i) {
    const std::string& beginning = options.rename[i].first;
    for (std::size_t j = 0; j < i; ++j)
      if (options.rename[j].first == beginning)
        base::fail<Error>(where, op, ": two renamings are of ", quoted(beginning), "; each must be of another one.");
    if (options.strict && std::none_of(wanted.begin(), wanted.end(),
                                       [&](const WantedTensor& one) { return one.name.starts_with(beginning); }))
      base::fail<Error>(where, op, ": no name of the model begins with ", quoted(beginning),
                        ", which is to be renamed; the model's names stand first in `rename`.");
  }
}

void check_patterns(const char* op, const std::vector<WantedTensor>& wanted, const WeightsOptions& options,
                    Where where) {
  if (!options.strict) return;
  for (const std::string& pattern : options.transpose)
    if (std::none_of(wanted.begin(), wanted.end(),
                     [&](const WantedTensor& one) { return one.transposed && fits(one.name, pattern); }))
      base::fail<Error>(where, op, ": no tensor of two axes in the model is named ", quoted(pattern),
                        " or lies in it; what is to be transposed must be there.");
}

// --- what is like a name ---

/// Finds, for a name that is missing, the one among others that takes the fewest changes of letters.
class Similar {
 public:
  explicit Similar(const std::vector<std::string>& names) : names_(names) {}

  /// "" if none is like it, or if all of this would take long.
  std::string to(const std::string& wanted) {
    const Letters letters(wanted.begin(), wanted.end());
    std::size_t least = wanted.size();
    const std::string* best = nullptr;
    for (const std::string& name : names_) {
      const std::size_t longer = std::max(name.size(), wanted.size()), shorter = std::min(name.size(), wanted.size());
      if (longer - shorter >= least) continue;
      const std::size_t steps = longer * shorter;
      if (steps > steps_left_) return "";
      steps_left_ -= steps;
      const Letters others(name.begin(), name.end());
      const auto changes = static_cast<std::size_t>(metrics::edit_distance(letters, others));
      if (changes >= least) continue;
      least = changes;
      best = &name;
    }
    return best == nullptr ? "" : *best;
  }

 private:
  using Letters = std::vector<std::int64_t>;  // bytes: names need not be UTF-8

  const std::vector<std::string>& names_;
  std::size_t steps_left_ = 20'000'000;  // a file may have many names, and long ones
};

// --- matching ---

/// Positions in a file by name.
class NameIndex {
 public:
  explicit NameIndex(const std::vector<NamedTensor>& file) : file_(file), order_(file.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return file_[a].name < file_[b].name; });
  }
  /// A name that is there twice, or null.
  const std::string* twice() const {
    const auto found = std::adjacent_find(order_.begin(), order_.end(),
                                          [&](std::size_t a, std::size_t b) { return file_[a].name == file_[b].name; });
    return found == order_.end() ? nullptr : &file_[*found].name;
  }
  /// As many as the file has tensors if it is not there.
  std::size_t find(const std::string& name) const {
    const auto at = std::lower_bound(order_.begin(), order_.end(), name,
                                     [&](std::size_t i, const std::string& wanted) { return file_[i].name < wanted; });
    return at != order_.end() && file_[*at].name == name ? *at : file_.size();
  }

 private:
  const std::vector<NamedTensor>& file_;
  std::vector<std::size_t> order_;
};

std::string shape_misfit(const WantedTensor& wanted, const Tensor& given, const Tensor& turned) {
  const Shape &is = given.shape(), &must = wanted.value.shape();
  std::string text = base::join(wanted.name, " is ", is);
  if (!given.is_same(turned)) text += base::join(", transposed ", turned.shape(), ",");
  text += base::join(" and must be ", must);
  if (!given.is_same(turned)) return is == must ? text + " (as it is it would fit)" : text;
  const bool would_fit = is.rank() == 2 && must.rank() == 2 && is[0] == must[1] && is[1] == must[0];
  return would_fit ? text + " (transposed it would fit)" : text;
}

/// Throws if some of a view's elements are one and the same, so that `assign` would refuse it. Not so if along every
/// axis a step is longer than what the axes of smaller steps reach.
void check_places(const char* op, const WantedTensor& wanted, Where where) {
  const Tensor& x = wanted.value;
  if (x.numel(where) == 0) return;
  for (int axis = 0; axis < x.rank(where); ++axis) {
    const std::int64_t step = std::abs(x.stride(axis, where));
    std::int64_t reach = 0;
    for (int other = 0; other < x.rank(where); ++other) {
      const std::int64_t smaller = std::abs(x.stride(other, where));
      if (smaller < step || (smaller == step && other > axis)) reach += (x.size(other, where) - 1) * smaller;
    }
    if (x.size(axis, where) > 1 && (step == 0 || reach >= step))
      base::fail<ShapeError>(where, op, ": elements of ", wanted.name, ", a view of shape ", x.shape(),
                             ", share their places (broadcast_to, sliding_window); each must have its own.");
  }
}

/// Adds a pair of the same name, or what keeps it from being one.
void match_one(const char* op, const WantedTensor& wanted, const Tensor& given, WeightsMatch& match, Where where) {
  const Tensor turned = wanted.transposed && given.rank(where) == 2 ? transpose(given, 0, 1, where) : given;
  const DType is = given.dtype(where), must = wanted.value.dtype(where);
  if (turned.shape(where) != wanted.value.shape(where)) {
    match.shapes.push_back(shape_misfit(wanted, given, turned));
    match.report.mismatched.push_back(match.shapes.back());
  } else if (is != must && !(is_floating(is) && is_floating(must))) {
    match.types.push_back(base::join(wanted.name, " is ", is, " and must be ", must));
    match.report.mismatched.push_back(match.types.back());
  } else {
    check_places(op, wanted, where);
    match.pairs.push_back({wanted.value, turned});
  }
}

// --- the message ---

constexpr std::size_t kMost = 20;  // names of a kind

void append_list(std::string& text, const char* heading, const std::vector<std::string>& list) {
  if (list.empty()) return;
  if (!text.empty()) text += "; ";
  text += heading;
  for (std::size_t i = 0; i < list.size() && i < kMost; ++i) text += (i > 0 ? ", " : "") + list[i];
  if (list.size() > kMost) text += base::join(" and ", list.size() - kMost, " more");
}

std::vector<std::string> missing_texts(const WeightsMatch& match) {
  Similar similar(match.report.unexpected);
  std::vector<std::string> texts;
  for (const WantedTensor* wanted : match.missing) {
    std::string text = wanted->name;
    if (wanted->in_file != wanted->name) text += " as " + quoted(wanted->in_file);
    const std::string like = texts.size() < kMost ? similar.to(wanted->in_file) : "";
    if (!like.empty()) text += " (the most similar is " + quoted(like) + ")";
    texts.push_back(text);
  }
  return texts;
}

}  // namespace

std::string detail::name_in_file(const std::string& name,
                                 const std::vector<std::pair<std::string, std::string>>& rename) {
  const std::pair<std::string, std::string>* longest = nullptr;
  for (const auto& entry : rename)
    if (name.starts_with(entry.first) && (longest == nullptr || entry.first.size() > longest->first.size()))
      longest = &entry;
  return longest == nullptr ? name : longest->second + name.substr(longest->first.size());
}

std::vector<WantedTensor> wanted_tensors(const char* op, const Outline& model, const WeightsOptions& options,
                                         Where where) {
  std::vector<WantedTensor> wanted;
  for (std::size_t i = 0; i < model.leaves.size(); ++i) {
    const Leaf& leaf = model.leaves[i];
    if (!leaf.value.defined() || leaf.first != i) continue;
    wanted.push_back({leaf.name, detail::name_in_file(leaf.name, options.rename), leaf.value,
                      is_transposed(model, leaf, options, where)});
  }
  check_renamings(op, wanted, options, where);
  check_patterns(op, wanted, options, where);
  check_different(op, wanted, where);
  return wanted;
}

WeightsMatch match_weights(const char* op, const std::string& path, const std::vector<WantedTensor>& wanted,
                           const std::vector<NamedTensor>& file, Where where) {
  const NameIndex index(file);
  if (const std::string* twice = index.twice(); twice != nullptr)
    fail_io(op, path, where, "two tensors are called " + quoted(*twice) + "; names must be different.");
  WeightsMatch match;
  std::vector<bool> used(file.size(), false);
  for (const WantedTensor& one : wanted) {
    const std::size_t at = index.find(one.in_file);
    if (at == file.size()) {
      match.missing.push_back(&one);
      match.report.missing.push_back(one.name);
      continue;
    }
    used[at] = true;
    match_one(op, one, file[at].value, match, where);
  }
  for (std::size_t i = 0; i < file.size(); ++i)
    if (!used[i]) match.report.unexpected.push_back(file[i].name);
  return match;
}

void require_complete(const char* op, const std::string& path, const WeightsMatch& match, Where where) {
  if (match.report.complete()) return;
  std::vector<std::string> unexpected;
  for (const std::string& name : match.report.unexpected) unexpected.push_back(quoted(name));
  std::string text;
  append_list(text, "missing: ", missing_texts(match));
  append_list(text, "unexpected: ", unexpected);
  append_list(text, "of another shape: ", match.shapes);
  append_list(text, "of another type: ", match.types);
  const char* start = ": the file does not fit the model: ";
  if (!match.shapes.empty()) base::fail<ShapeError>(where, op, ": ", path, start, text, ".");
  if (!match.types.empty()) base::fail<DTypeError>(where, op, ": ", path, start, text, ".");
  base::fail<Error>(where, op, ": ", path, start, text, ".");
}

}  // namespace capstan::io
