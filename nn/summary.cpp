// What runs in a model, and which layer it belongs to.
//
// Layers have no base class and do not say that they run. But each operation tells the place that it was called from,
// and layers hand that of their own call on; so neighbours with the same place are one call, and those among them that
// use parameters tell whose call it is.
#include <capstan/nn/summary.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include <capstan/random.hpp>
#include <capstan/tape.hpp>

#include "nn/summary_steps.hpp"
#include "nn/summary_text.hpp"

namespace capstan::nn::detail {
namespace {

constexpr std::size_t kNone = kNoPart;

bool same_place(const Where& a, const Where& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::string_view(a.file_name()) == std::string_view(b.file_name());
}

// --- whose it is ------------------------------------------------------------------------------------------------

/// Who holds whom.
class Family {
 public:
  explicit Family(const Outline& outline)
      : parts_(outline.parts), depth_(parts_.size(), 0), busy_(parts_.size(), false), children_(parts_.size()) {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].parent == kNone) continue;
      depth_[i] = depth_[parts_[i].parent] + 1;
      children_[parts_[i].parent].push_back(i);
    }
    for (const Leaf& leaf : outline.leaves)
      for (std::size_t part = leaf.part; part != kNone && !busy_[part]; part = parts_[part].parent) busy_[part] = true;
  }

  /// The model itself, if it is one module.
  std::size_t root() const {
    for (std::size_t i = 1; i < parts_.size(); ++i)
      if (parts_[i].parent == kNone) return kNone;
    return parts_.empty() ? kNone : 0;
  }
  std::size_t parent(std::size_t part) const { return part == kNone ? kNone : parts_[part].parent; }
  bool is_layer(std::size_t part) const { return part != kNone && parts_[part].type->layer; }

  std::size_t common(std::size_t a, std::size_t b) const {
    while (a != b) {
      if (a == kNone || b == kNone) return kNone;
      if (depth_[a] >= depth_[b]) a = parts_[a].parent;
      else b = parts_[b].parent;
    }
    return a;
  }

  /// The Sequential around a part in which a module without parameters stands behind it (or before it), if there is one.
  std::size_t list_around(std::size_t part, bool behind) const {
    for (; part != kNone && parts_[part].parent != kNone; part = parts_[part].parent) {
      const std::size_t list = parts_[part].parent;
      if (!parts_[list].type->list) continue;
      const std::vector<std::size_t>& all = children_[list];
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] != part) continue;
        if (behind ? i + 1 < all.size() && !busy_[all[i + 1]] : i > 0 && !busy_[all[i - 1]]) return list;
      }
    }
    return kNone;
  }

 private:
  const std::vector<Part>& parts_;
  std::vector<std::size_t> depth_;
  std::vector<bool> busy_;  // it has parameters or buffers, or a part of it
  std::vector<std::vector<std::size_t>> children_;
};

/// Tells the steps of one call which module they belong to: those between two of its layers to the module around both.
void sort_call(std::span<Step> call, std::size_t whole, const Family& family) {
  std::size_t next_with_part = 0, before = kNone;
  for (std::size_t i = 0; i < call.size(); ++i) {
    Step& step = call[i];
    step.in_call = true;
    if (step.part != kNone) {
      step.target = before = step.part;
      continue;
    }
    next_with_part = next_with_part > i ? next_with_part : i;
    while (next_with_part < call.size() && call[next_with_part].part == kNone) ++next_with_part;
    const bool last = next_with_part == call.size();
    if (before != kNone && !last) {
      step.target = family.common(before, call[next_with_part].part);
    } else {
      const std::size_t list = family.list_around(whole, last);
      step.target = list != kNone ? list : whole;
    }
  }
}

/// Finds the module that each step belongs to.
void find_targets(std::vector<Step>& steps, const Family& family) {
  struct Call {
    std::size_t begin, end, whole;
  };
  std::vector<Call> calls;
  for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
    std::size_t whole = kNone;
    bool any = false;
    for (end = begin; end < steps.size() && same_place(steps[begin].where, steps[end].where); ++end) {
      const std::size_t part = steps[end].part;
      if (part == kNone) continue;
      whole = any ? family.common(whole, part) : part;
      any = true;
    }
    if (any) sort_call(std::span(steps).subspan(begin, end - begin), whole, family);
    if (any) calls.push_back({begin, end, whole});
  }
  // what stands between two calls belongs to what holds both of the modules called, all else to the model
  const std::size_t root = family.root();
  for (Step& step : steps)
    if (!step.in_call) step.target = root;
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) {
    const std::size_t around = family.common(family.parent(calls[i].whole), family.parent(calls[i + 1].whole));
    for (std::size_t s = calls[i].end; s < calls[i + 1].begin && around != kNone; ++s) steps[s].target = around;
  }
  std::size_t previous = kNone;
  for (Step& step : steps) {
    step.previous = previous;
    if (step.part != kNone) previous = step.part;
  }
}

// --- rows -------------------------------------------------------------------------------------------------------

/// Adds up steps to rows.
class Table {
 public:
  Table(const Outline& outline, const std::vector<bool>& trainable, const Family& family)
      : outline_(outline), trainable_(trainable), family_(family), counted_(outline.leaves.size(), false) {}

  void add(const Step& step) {
    const bool of_layer = step.in_call && family_.is_layer(step.target);
    const Key key(step.target, of_layer ? "" : step.name, step.where.line(), step.where.column(),
                  step.where.file_name(), of_layer ? kNone : step.previous,
                  of_layer ? std::string() : to_string(step.output));
    auto found = numbers_.find(key);
    if (found == numbers_.end()) {
      if (of_layer && step.view && step.part == kNone) return;  // on the way into the layer
      found = numbers_.emplace(key, rows_.size()).first;
      start(step, of_layer);
    }
    Row& row = rows_[found->second];
    row.summary.output = step.output;
    row.summary.operations += step.operations;
    row.summary.bytes += step.bytes;
    row.tell(step);
    if (of_layer) return;
    for (const std::size_t leaf : step.leaves) count(leaf, row.summary);
  }

  /// All rows, those of parameters that were not used behind the others.
  std::vector<SummaryRow> finish() {
    for (std::size_t i = 0; i < outline_.leaves.size(); ++i) {
      const Leaf& leaf = outline_.leaves[i];
      if (counted_[i] || !leaf.parameter || !leaf.value.defined() || leaf.first != i) continue;
      SummaryRow row{.name = leaf.name, .type = "Parameter"};
      if (family_.is_layer(leaf.part)) {
        row.name = outline_.parts[leaf.part].name;
        row.type = type_name(outline_.parts[leaf.part].type->text);
        count_part(leaf.part, row);
      } else {
        count(i, row);
      }
      rows_.push_back({.summary = std::move(row)});
    }
    std::vector<SummaryRow> all;
    for (Row& row : rows_) {
      row.summary.calls = row.calls();
      all.push_back(std::move(row.summary));
    }
    return all;
  }

 private:
  struct Row {
    SummaryRow summary = {};
    std::map<std::string, std::int64_t> runs = {};  // of each operation
    std::string first = {};                         // operation that uses parameters, which those are, and its runs
    std::vector<std::size_t> leaves = {};
    std::int64_t first_runs = 0;

    void tell(const Step& step) {
      ++runs[step.name];
      if (leaves.empty()) {
        first = step.name;
        leaves = step.leaves;
      }
      if (!leaves.empty() && first == step.name && leaves == step.leaves) ++first_runs;
    }
    /// A layer may run an operation several times in a call, but hardly all of them.
    std::int64_t calls() const {
      if (first_runs > 0) return first_runs;
      std::int64_t least = 0;
      for (const auto& [name, count] : runs) least = least == 0 ? count : std::min(least, count);
      return least;
    }
  };
  using Key = std::tuple<std::size_t, std::string, std::uint_least32_t, std::uint_least32_t, std::string, std::size_t,
                         std::string>;

  void start(const Step& step, bool of_layer) {
    Row row;
    const std::string name = step.target == kNone ? std::string() : outline_.parts[step.target].name;
    if (of_layer) {
      row.summary.name = name;
      row.summary.type = type_name(outline_.parts[step.target].type->text);
      count_part(step.target, row.summary);
    } else {
      row.summary.name = name.empty() ? step.name : name + "." + step.name;
    }
    rows_.push_back(std::move(row));
  }

  /// A parameter's elements, once.
  void count(std::size_t i, SummaryRow& row) {
    const Leaf& leaf = outline_.leaves[i];
    if (counted_[i] || !leaf.parameter || !leaf.value.defined() || leaf.first != i) return;
    counted_[i] = true;
    (trainable_[i] ? row.trainable : row.frozen) += leaf.value.numel();
  }

  void count_part(std::size_t part, SummaryRow& row) {
    if (leaves_of_.empty()) {
      leaves_of_.resize(outline_.parts.size());
      for (std::size_t i = 0; i < outline_.leaves.size(); ++i)
        if (outline_.leaves[i].part != kNone) leaves_of_[outline_.leaves[i].part].push_back(i);
    }
    for (const std::size_t leaf : leaves_of_[part]) count(leaf, row);
  }

  const Outline& outline_;
  const std::vector<bool>& trainable_;
  const Family& family_;
  std::map<Key, std::size_t> numbers_;
  std::vector<Row> rows_;
  std::vector<bool> counted_;  // leaves
  std::vector<std::vector<std::size_t>> leaves_of_;
};

/// Puts buffers and the default generator back.
class Restorer {
 public:
  explicit Restorer(const Outline& outline) : rng_(default_rng().state()) {
    for (const Leaf& leaf : outline.leaves)
      if (!leaf.parameter && leaf.value.defined())
        saved_.push_back({leaf.value, leaf.value.copy(), leaf.value.version()});
  }
  ~Restorer() {
    default_rng().restore(rng_);
    for (Saved& saved : saved_) {
      if (saved.buffer.version() == saved.version) continue;
      try {
        saved.buffer.assign(saved.copy);
      } catch (...) {
        // shape, type and device are the same: nothing that could fail
      }
    }
  }
  Restorer(const Restorer&) = delete;
  Restorer& operator=(const Restorer&) = delete;

 private:
  struct Saved {
    Tensor buffer, copy;
    std::uint32_t version;
  };
  std::vector<Saved> saved_;
  RngState rng_;
};

}  // namespace

struct SummaryState {
  explicit SummaryState(Outline all)
      : outline(std::move(all)),
        restorer(outline),
        recorder(outline),
        observer([this](const debug::Operation& op) { recorder.see(op); }) {
    for (const Leaf& leaf : outline.leaves) trainable.push_back(leaf.trainable());
  }

  Outline outline;
  std::vector<bool> trainable;  // each leaf
  NoGrad off;
  Restorer restorer;
  Recorder recorder;
  debug::Observer observer;
};

SummaryRun::SummaryRun(Outline outline) : state_(new SummaryState(std::move(outline))) {}
SummaryRun::~SummaryRun() { delete state_; }

Summary SummaryRun::finish() const {
  const Outline& outline = state_->outline;
  std::vector<Step> steps = state_->recorder.steps;
  remove_bookkeeping(steps);
  const Family family(outline);
  find_targets(steps, family);
  Table table(outline, state_->trainable, family);
  Summary summary;
  for (const Step& step : steps) {
    table.add(step);
    summary.operations += step.operations;
    summary.result_bytes += step.bytes;
  }
  summary.rows = table.finish();
  for (std::size_t i = 0; i < outline.leaves.size(); ++i) {
    const Leaf& leaf = outline.leaves[i];
    if (!leaf.value.defined() || leaf.first != i) continue;
    const std::int64_t count = leaf.value.numel(), bytes = count * size_of(leaf.value.dtype());
    (leaf.parameter ? summary.parameter_bytes : summary.buffer_bytes) += bytes;
    if (leaf.parameter) (state_->trainable[i] ? summary.trainable : summary.frozen) += count;
  }
  return summary;
}

}  // namespace capstan::nn::detail
