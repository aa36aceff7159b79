#include "cuda/watch.hpp"

#include "cuda/backend.hpp"
#include "cuda/context.hpp"
#include "cuda/mailbox.hpp"
#include "cuda/numbers.hpp"
#include "cuda/storage.hpp"

namespace capstan::on_cuda {

void watch_numbers(const char* op, Where where, const TensorImpl& x, const TensorImpl* const* inputs, std::size_t count,
                   bool infinite) {
  call_from(where);
  begin_call(op, x.device().index);
  const Tensor word = workspace(1, DType::int32);
  auto* flag = word.impl()->as<unsigned>();
  check(cudaMemsetAsync(flag, 0, sizeof *flag, call().stream), "clearing a flag");
  reads(x);
  check_numbers(x, infinite, flag);
  for (std::size_t i = 0; i < count; ++i) {
    const TensorImpl& input = *inputs[i];
    reads(input);
    if (input.contiguous) {
      confirm_numbers(input, infinite, flag);
      continue;
    }
    const Tensor dense = core::make_workspace(input.shape, input.dtype, input.device(), where);
    on_cuda::copy(input, *dense.impl());
    confirm_numbers(*dense.impl(), infinite, flag);
  }
  report_numbers(flag, start_report(ReportKind::numbers));
}

}  // namespace capstan::on_cuda
