#include "autograd/owner.hpp"

#include "lib/base/text.hpp"

namespace capstan::autograd {

void record_owning(const OwningRecord& record, std::vector<Tensor>& outputs) {
  for (Tensor& output : outputs) {
    const TensorImpl& impl = core::defined(record.op, output, record.where);  // fills in row slices
    output = core::make_view(impl, impl.shape, impl.strides, 0, record.where);
  }
  std::vector<const Tensor*> inputs, saved{&record.owner}, results;
  std::vector<Tensor*> floating;
  for (const Tensor& input : record.inputs) inputs.push_back(&input);
  saved.insert(saved.end(), inputs.begin(), inputs.end());
  for (Tensor& output : outputs) {
    if (record.saves_outputs) saved.push_back(&output);
    if (is_floating(output.dtype())) floating.push_back(&output);
    results.push_back(&output);
  }
  if (floating.empty()) return append_note(record.op, record.where, inputs, results);
  Record entry{record.op, record.where, record.replay, inputs, floating, saved};
  if (floating.size() < results.size()) entry.all_results = results;
  append(entry);
}

std::vector<Tensor> checked_results(const char* op, std::vector<Tensor> results, Where where) {
  if (results.empty()) base::fail<Error>(where, op, ": the function returned nothing; it must return a tensor.");
  for (const Tensor& result : results)
    if (!result.defined())
      base::fail<Error>(where, op, ": the function returned an undefined tensor; give it a value first.");
  return results;
}

}  // namespace capstan::autograd
