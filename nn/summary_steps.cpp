#include "nn/summary_steps.hpp"

#include <string_view>

#include "nn/operations.hpp"

namespace capstan::nn::detail {

Recorder::Recorder(const Outline& outline) : outline_(outline) {
  for (std::size_t i = 0; i < outline.leaves.size(); ++i)
    if (outline.leaves[i].value.defined() && outline.leaves[i].first == i)
      leaves_.emplace(outline.leaves[i].value.impl(), i);
}

namespace {

bool shows_operand(const debug::Operation& op) {
  for (const Tensor* output : op.outputs)
    for (const Tensor* input : op.inputs)
      if (output->shares_storage(*input)) return true;
  return false;
}

}  // namespace

void Recorder::see(const debug::Operation& op) {
  if (op.backward) return;
  const bool shows = shows_operand(op);
  if (op.composed && !shows && was_made(op)) return;
  Step step{.name = op.name, .where = op.where, .view = shows};
  bool any = false, all_leaves = true;
  for (const Tensor* input : op.inputs) {
    if (!input->defined()) continue;
    any = true;
    all_leaves = add_operand(step, *input) && all_leaves;
  }
  if (!any) return forget(op);  // made from nothing
  step.part = part_of(step.leaves);
  add_results(step, op);
  forget(op);
  // a view of a parameter, and one in another type, stand for it
  if (all_leaves && (shows || std::string_view(op.name) == "cast")) return stand_for(step.leaves.front(), op);
  for (std::size_t i = 0; i < op.outputs.size(); ++i)
    if (op.outputs[i]->defined()) made_.insert_or_assign(op.outputs[i]->impl(), std::pair(steps.size(), i));
  steps.push_back(std::move(step));
}

/// Whether its result is that of an operation seen before: then it was made of others.
bool Recorder::was_made(const debug::Operation& op) const {
  for (const Tensor* output : op.outputs)
    if (output->defined() && made_.count(output->impl()) != 0) return true;
  return false;
}

/// The leaf that a tensor is or stands for, or kNoPart.
std::size_t Recorder::leaf_of(const Tensor& x) const {
  if (const auto leaf = leaves_.find(x.impl()); leaf != leaves_.end()) return leaf->second;
  const auto stand_in = stand_ins_.find(x.impl());
  return stand_in != stand_ins_.end() ? stand_in->second.leaf : kNoPart;
}

/// Whether it is a leaf.
bool Recorder::add_operand(Step& step, const Tensor& input) const {
  if (const std::size_t leaf = leaf_of(input); leaf != kNoPart) {
    step.leaves.push_back(leaf);
    return true;
  }
  if (const auto maker = made_.find(input.impl()); maker != made_.end()) step.sources.push_back(maker->second);
  return false;
}

/// The part that the leaves used belong to: parameters count more than buffers.
std::size_t Recorder::part_of(const std::vector<std::size_t>& used) const {
  for (const std::size_t leaf : used)
    if (outline_.leaves[leaf].parameter) return outline_.leaves[leaf].part;
  return used.empty() ? kNoPart : outline_.leaves[used.front()].part;
}

void Recorder::add_results(Step& step, const debug::Operation& op) const {
  bool fresh = false;
  const Tensor* first = nullptr;
  step.results = op.outputs.size();
  for (const Tensor* output : op.outputs) {
    if (!output->defined()) continue;
    if (first == nullptr) step.output = output->shape();
    if (const auto leaf = leaves_.find(output->impl()); leaf != leaves_.end())
      step.changes_buffer = !outline_.leaves[leaf->second].parameter;
    const bool part_of_first = first != nullptr && output->shares_storage(*first);
    // what was written to before it came out is changed in place
    if (!step.view && !part_of_first && output->version() == 0) {
      step.bytes += output->numel() * size_of(output->dtype());
      fresh = true;
    }
    if (first == nullptr) first = output;
  }
  if (fresh) step.operations = count_operations(op);
}

/// Results of operations that are gone may have stood at these addresses.
void Recorder::forget(const debug::Operation& op) {
  for (const Tensor* output : op.outputs)
    if (output->defined()) made_.erase(output->impl());
}

void Recorder::stand_for(std::size_t leaf, const debug::Operation& op) {
  for (const Tensor* output : op.outputs)
    if (output->defined()) stand_ins_.insert_or_assign(output->impl(), StandIn{*output, leaf});
}

void remove_bookkeeping(std::vector<Step>& steps) {
  enum Use : char { kUnused, kByDead, kByAlive };
  std::vector<std::vector<Use>> uses(steps.size());  // of each result
  for (std::size_t i = 0; i < steps.size(); ++i) uses[i].assign(steps[i].results, kUnused);
  for (std::size_t i = steps.size(); i-- > 0;) {
    Step& step = steps[i];
    bool all_dead = step.results > 0;
    for (const Use one : uses[i]) all_dead = all_dead && one == kByDead;
    step.alive = !step.changes_buffer && !all_dead;
    for (const auto& [maker, result] : step.sources) {
      Use& use = uses[maker][result];
      if (step.alive) use = kByAlive;
      else if (use == kUnused) use = kByDead;
    }
  }
  std::erase_if(steps, [](const Step& step) { return !step.alive; });
}

}  // namespace capstan::nn::detail
