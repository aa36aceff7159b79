#pragma once
// Copies to another element type, as `core::convert` defines them. Compiled by the type that they come from.
#include "lib/core/tensor_impl.hpp"

namespace capstan::on_cuda {

/// out = x, broadcast and converted; any strides on both sides. out is of another type.
template <class From>
void convert_from(const TensorImpl& x, TensorImpl& out);

}  // namespace capstan::on_cuda
