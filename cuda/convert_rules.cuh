#pragma once
// convert_from, for the files that instantiate it.
#include <type_traits>

#include "cuda/convert.hpp"
#include "cuda/map.cuh"

namespace capstan::on_cuda {

template <class From, class To>
struct ConvertRule {
  using Numbers = NoNumbers;
  static constexpr bool kLong = false;
  __device__ static To apply(const Numbers&, From x) {
    const Compute<From> value = widen(x);
    if constexpr (core::kIsHalf<To> && std::is_same_v<Compute<From>, float>) return narrow<To>(value);
    else return core::convert<To>(value);
  }
};

template <class From>
void convert_from(const TensorImpl& x, TensorImpl& out) {
  core::visit(out.dtype, [&]<class To>(core::Type<To>) {
    if constexpr (!std::is_same_v<From, To>) row_of<ConvertRule<From, To>, To, From>().run({}, {&out, &x});
  });
}

}  // namespace capstan::on_cuda
