#include "autograd/autocast.hpp"

#include "lib/base/text.hpp"

namespace capstan {
namespace autograd {

constinit thread_local DType autocast_type = DType::float32;

namespace {

bool takes_part(const TensorImpl& x) noexcept { return x.dtype == DType::float32 || is_half(x.dtype); }

}  // namespace

bool can_become(DType type, std::initializer_list<const TensorImpl*> operands) noexcept {
  bool some_differ = false;
  for (const TensorImpl* x : operands) {
    if (x == nullptr) continue;
    if (!takes_part(*x)) return false;
    some_differ = some_differ || x->dtype != type;
  }
  return some_differ;
}

bool have_several_types(std::initializer_list<const TensorImpl*> operands) noexcept {
  const TensorImpl* first = nullptr;
  for (const TensorImpl* x : operands)
    if (first == nullptr) first = x;
  return first != nullptr && can_become(first->dtype, operands);
}

Tensor in_type(const Tensor& x, DType type, Where where) {
  return x.defined() && takes_part(*x.impl()) ? x.to(type, where) : x;
}

}  // namespace autograd

AutocastScope::AutocastScope(DType dtype, bool on, Where where) : before_(autograd::autocast_type) {
  if (!is_half(dtype))
    base::fail<DTypeError>(where, "AutocastScope: the type is ", dtype, "; it must be float16 or bfloat16.");
  autograd::autocast_type = on ? dtype : DType::float32;
}

AutocastScope::~AutocastScope() { autograd::autocast_type = before_; }

std::optional<DType> autocast_dtype() noexcept {
  if (!autograd::autocasting()) return std::nullopt;
  return autograd::autocast_type;
}

}  // namespace capstan
