// Einstein's summation: the equation is read, letters that repeat become diagonals, and products are taken two by two.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <capstan/ops/linalg.hpp>

#include "autograd/contract.hpp"

namespace capstan {

using autograd::IndexSet;
using autograd::Labeled;
using autograd::set_of;

namespace {

constexpr int kLetters = 52;                  // A to Z, then a to z: in the order of the characters
constexpr int kLabels = kLetters + kMaxRank;  // then the axes of "...", counted from the last
constexpr int kDots = -1;                     // in a term that was read: "..."

int label_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}
std::string name_of(int label) {
  if (label >= kLetters) return "...";
  return std::string(1, static_cast<char>(label < 26 ? 'A' + label : 'a' + label - 26));
}

/// An equation without its blanks.
class Equation {
 public:
  Equation(std::string_view text, Where where) : text_(text), where_(where) {
    text_.erase(std::remove(text_.begin(), text_.end(), ' '), text_.end());
    const std::size_t arrow = text_.find("->");
    explicit_ = arrow != std::string::npos;
    const std::string inputs = text_.substr(0, arrow);
    for (std::size_t begin = 0;;) {
      const std::size_t comma = inputs.find(',', begin);
      terms_.push_back(read(inputs.substr(begin, comma - begin)));
      if (comma == std::string::npos) break;
      begin = comma + 1;
    }
    if (explicit_) output_ = read(text_.substr(arrow + 2));
  }

  std::size_t operands() const { return terms_.size(); }
  /// The operand with its axes named, and diagonals taken.
  Labeled operand(std::size_t i, const Tensor& x) const;
  /// The indices of the result, where "..." stands for that many axes.
  std::vector<int> output(int dots) const;

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    base::fail<ShapeError>(where_, "einsum: ", parts..., " in \"", text_, "\".");
  }

 private:
  std::vector<int> read(const std::string& term) const;
  /// The letters that occur once.
  std::vector<int> single_letters() const;

  std::string text_;
  Where where_;
  bool explicit_ = false;
  std::vector<std::vector<int>> terms_;
  std::vector<int> output_;
};

std::vector<int> Equation::read(const std::string& term) const {
  std::vector<int> labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      if (std::find(labels.begin(), labels.end(), kDots) != labels.end()) fail("a term has \"...\" twice");
      labels.push_back(kDots);
      i += 2;
    } else {
      const int label = label_of(term[i]);
      if (label < 0)
        fail("'", std::string(1, term[i]), "' is neither a letter nor a part of \"...\", \",\" or one \"->\"");
      labels.push_back(label);
    }
  }
  return labels;
}

Labeled Equation::operand(std::size_t i, const Tensor& x) const {
  const std::vector<int>& term = terms_[i];
  const bool has_dots = std::find(term.begin(), term.end(), kDots) != term.end();
  const int letters = static_cast<int>(term.size()) - (has_dots ? 1 : 0), dots = x.rank() - letters;
  if (has_dots ? dots < 0 : dots != 0)
    fail("operand ", i, " is ", x.shape(), ", and its term names ", letters, " axes");
  Labeled result{x, {}};
  int axis = 0;
  for (const int label : term) {
    if (label != kDots) result.labels[axis++] = label;
    else
      for (int left = dots; left > 0; --left) result.labels[axis++] = kLetters + left - 1;
  }
  for (int second = 1; second < result.rank();) {
    const int label = result.labels[second], first = result.axis_of(label), rank = result.rank();
    if (first == second) {
      ++second;
      continue;
    }
    if (result.size(first) != result.size(second))
      fail("operand ", i, " is ", x.shape(), ", and its two axes '", name_of(label), "' differ in size");
    result.tensor = diagonal(result.tensor, 0, first, second, where_);
    int kept = 0;
    for (int k = 0; k < rank; ++k)
      if (k != first && k != second) result.labels[kept++] = result.labels[k];
    result.labels[kept] = label;
    second = 1;
  }
  return result;
}

std::vector<int> Equation::single_letters() const {
  int times[kLetters] = {};
  for (const std::vector<int>& term : terms_)
    for (const int label : term)
      if (label != kDots) ++times[label];
  std::vector<int> labels;
  for (int label = 0; label < kLetters; ++label)
    if (times[label] == 1) labels.push_back(label);
  return labels;
}

std::vector<int> Equation::output(int dots) const {
  std::vector<int> list = output_;
  if (!explicit_) {
    list = single_letters();
    list.insert(list.begin(), kDots);
  } else if (dots > 0 && std::find(list.begin(), list.end(), kDots) == list.end()) {
    fail("the operands have axes for \"...\", and the result does not");
  }
  std::vector<int> labels;
  for (const int label : list) {
    if (label == kDots) {
      for (int left = dots; left > 0; --left) labels.push_back(kLetters + left - 1);
      continue;
    }
    bool known = false;
    for (const std::vector<int>& t : terms_) known = known || std::find(t.begin(), t.end(), label) != t.end();
    if (!known) fail("the result names '", name_of(label), "', and no operand does");
    if (std::find(labels.begin(), labels.end(), label) != labels.end())
      fail("the result names '", name_of(label), "' twice");
    labels.push_back(label);
  }
  return labels;
}

/// The size of every index. Fails if an axis is neither of that size nor of size 1.
void check_sizes(const Equation& equation, const std::vector<Labeled>& operands, std::int64_t (&sizes)[kLabels]) {
  std::fill(std::begin(sizes), std::end(sizes), std::int64_t{1});
  for (const Labeled& x : operands)
    for (int axis = 0; axis < x.rank(); ++axis) {
      std::int64_t& size = sizes[x.labels[axis]];
      if (size == 1) size = x.size(axis);
      if (x.size(axis) != size && x.size(axis) != 1)
        equation.fail("axes '", name_of(x.labels[axis]), "' of sizes ", size, " and ", x.size(axis),
                      " must be equal or 1");
    }
}

/// The two operands whose product takes the fewest multiplications; the first such pair.
std::pair<std::size_t, std::size_t> cheapest_pair(const std::vector<Labeled>& operands,
                                                  const std::int64_t (&sizes)[kLabels]) {
  std::pair<std::size_t, std::size_t> best{0, 1};
  double least = __builtin_inf();
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (std::size_t j = i + 1; j < operands.size(); ++j) {
      const IndexSet both = operands[i].set() | operands[j].set();
      double cost = 1;
      for (int label = 0; label < kLabels; ++label)
        if ((both & set_of(label)) != 0) cost *= static_cast<double>(sizes[label]);
      if (cost >= least) continue;
      least = cost;
      best = {i, j};
    }
  return best;
}

/// The axes in the order asked for; those of other indices are summed over.
Tensor arranged(const Labeled& x, const std::vector<int>& output, IndexSet wanted, Where where) {
  const Labeled kept = autograd::sum_over(x, x.set() & ~wanted, where);
  int order[kMaxRank];
  bool moved = false;
  for (int i = 0; i < kept.rank(); ++i) {
    order[i] = kept.axis_of(output[static_cast<std::size_t>(i)]);
    moved = moved || order[i] != i;
  }
  if (!moved) return kept.tensor;
  return permute(kept.tensor, std::span<const int>(order, static_cast<std::size_t>(kept.rank())), where);
}

}  // namespace

Tensor einsum(std::string_view text, std::span<const Tensor> operands, Where where) {
  const Equation equation(text, where);
  if (equation.operands() != operands.size())
    equation.fail("there are ", operands.size(), " operands, and ", equation.operands(), " terms");
  for (const Tensor& x : operands) {
    autograd::require_floating("einsum", core::defined("einsum", x, where), where);
    core::require_same_device("einsum", *operands[0].impl(), *x.impl(), where);
  }
  DType dtype = operands[0].dtype();
  for (const Tensor& x : operands) dtype = promote(dtype, x.dtype(), where);
  if (operands.size() > 1) dtype = autograd::product_type(dtype);
  const autograd::Rollback rollback;
  std::vector<Labeled> list;
  for (std::size_t i = 0; i < operands.size(); ++i) list.push_back(equation.operand(i, operands[i].to(dtype, where)));
  std::int64_t sizes[kLabels];
  check_sizes(equation, list, sizes);
  IndexSet named = 0, wanted = 0;
  for (const Labeled& x : list) named |= x.set();
  int dots = 0;
  while (dots < kMaxRank && (named & set_of(kLetters + dots)) != 0) ++dots;
  const std::vector<int> output = equation.output(dots);
  for (const int label : output) wanted |= set_of(label);

  while (list.size() > 1) {
    const auto [i, j] = cheapest_pair(list, sizes);
    IndexSet needed = wanted;
    for (std::size_t k = 0; k < list.size(); ++k)
      if (k != i && k != j) needed |= list[k].set();
    list[i] = autograd::contract("einsum", list[i], list[j], needed, where);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(j));
  }
  return arranged(list[0], output, wanted, where);
}
Tensor einsum(std::string_view text, std::initializer_list<Tensor> operands, Where where) {
  return einsum(text, std::span<const Tensor>(operands.begin(), operands.size()), where);
}

}  // namespace capstan
