#pragma once
// Entries of the tape that own an object: a function to call in the replay, say.
#include <memory>
#include <utility>

#include "autograd/tape.hpp"

namespace capstan::autograd {

/// A tensor without elements whose storage owns an object. Kept among an entry's saved tensors, it goes when they go.
template <class T>
Tensor owning(T object, Where where) {
  auto held = std::make_unique<T>(std::move(object));
  Tensor owner = core::make_borrowed(
      held.get(), Shape{0}, DType::uint8, [](void* place) { delete static_cast<T*>(place); }, held.get(), where);
  held.release();
  return owner;
}
template <class T>
T& owned(const Tensor& owner) noexcept {
  return *static_cast<T*>(owner.impl()->storage->context);
}

/// An operation that runs functions of the user's. Its entry saves the owner, the inputs, and the outputs if asked.
struct OwningRecord {
  const char* op;
  Where where;
  ReplayFunction replay;
  const Tensor& owner;
  std::span<const Tensor> inputs;
  bool saves_outputs;
};

/// Records it. A function may return tensors that somebody holds or a tape follows already, so each output is replaced
/// by a view, which is the operation's own. The entry's outputs are the floating ones; the chains of others end here.
void record_owning(const OwningRecord& record, std::vector<Tensor>& outputs);

/// What a function returned, if there is something and all of it is defined. Throws Error.
std::vector<Tensor> checked_results(const char* op, std::vector<Tensor> results, Where where);

}  // namespace capstan::autograd
