#include "autograd/scopes.hpp"

namespace capstan::autograd {

Awake::Awake(Others others)
    : log_(Log::of_this_thread()), no_grad_(std::exchange(log_.no_grad, 0)), silenced_(log_.silenced) {
  if (others == Others::silent || no_grad_ > 0) log_.silenced |= log_.open_tapes();
  log_.refresh_recording();
}

Awake::~Awake() {
  log_.no_grad = no_grad_;
  log_.silenced = silenced_;
  log_.refresh_recording();
}

std::vector<Tensor> told_apart(std::span<const Tensor> inputs, Where where) {
  std::unordered_set<const TensorImpl*> seen;
  std::vector<Tensor> list;
  list.reserve(inputs.size());
  for (const Tensor& input : inputs) list.push_back(seen.insert(input.impl()).second ? input : input.copy(where));
  return list;
}

Probe::Probe(std::span<const Tensor> known, Where where)
    : log_(Log::of_this_thread()),
      outer_(log_.probe()),
      listeners_(log_.heard()),
      silenced_(log_.silenced),
      others_(log_.open_tapes()),
      ear_({.watch_parameters = false}, where) {
  for (const Tensor& tensor : known) known_.insert(tensor.impl());
  log_.silenced |= others_;
  log_.set_probe(this);
  log_.refresh_recording();
}

Probe::~Probe() {
  log_.set_probe(outer_);
  log_.silenced = silenced_;  // the end of ear_ refreshes what records
}

void Probe::see(std::span<const Tensor* const> tensors) {
  const bool parameters = (log_.watching_parameters() & listeners_) != 0;
  for (const Tensor* tensor : tensors) {
    const TensorImpl* impl = tensor->impl();
    if (impl == nullptr) continue;
    const bool followed =
        (log_.tapes_of(*impl) & listeners_) != 0 || (parameters && impl->trainable.load(std::memory_order_relaxed));
    if (followed && known_.insert(impl).second) found_.push_back(*tensor);
  }
}

}  // namespace capstan::autograd
