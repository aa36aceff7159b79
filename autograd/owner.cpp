#include "autograd/owner.hpp"

#include "lib/base/text.hpp"

namespace capstan::autograd {

void record_owning(const OwningRecord& record, std::vector<Tensor>& outputs) {
  for (Tensor& output : outputs) {
    const TensorImpl& impl = *output.impl();
    output = core::make_view(impl, impl.shape, impl.strides, 0, record.where);
  }
  std::vector<const Tensor*> inputs, saved{&record.owner}, integers;
  std::vector<Tensor*> floating;
  for (const Tensor& input : record.inputs) inputs.push_back(&input);
  saved.insert(saved.end(), inputs.begin(), inputs.end());
  for (Tensor& output : outputs) {
    if (record.saves_outputs) saved.push_back(&output);
    if (is_floating(output.dtype())) floating.push_back(&output);
    else integers.push_back(&output);
  }
  if (!floating.empty()) append({record.op, record.where, record.replay, inputs, floating, saved});
  if (!integers.empty()) append_note(record.op, record.where, inputs, integers);
}

std::vector<Tensor> checked_results(const char* op, std::vector<Tensor> results, Where where) {
  if (results.empty()) base::fail<Error>(where, op, ": the function returned nothing; it must return a tensor.");
  for (const Tensor& result : results)
    if (!result.defined())
      base::fail<Error>(where, op, ": the function returned an undefined tensor; give it a value first.");
  return results;
}

}  // namespace capstan::autograd
