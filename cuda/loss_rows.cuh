#pragma once
// The losses of lib/kernels as rules, and tables of their kernels, for the files that instantiate them.
#include <tuple>

#include "cuda/losses.cuh"
#include "lib/kernels/op_list.hpp"

namespace capstan::on_cuda {

template <class Row, class T>
struct LossRule {
  using Numbers = Compute<T>;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers& p, T x, T target) {
    return narrow<T>(Row::forward(widen(x), widen(target), p));
  }
};
template <class Row, class T>
struct LossLeftRule {
  using Numbers = Compute<T>;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers& p, T grad, T x, T target) {
    return narrow<T>(Row::left(widen(grad), widen(x), widen(target), p));
  }
};
template <class Row, class T>
struct LossRightRule {
  using Numbers = Compute<T>;
  static constexpr bool kLong = false;
  __device__ static T apply(const Numbers& p, T grad, T x, T target) {
    return narrow<T>(Row::right(widen(grad), widen(x), widen(target), p));
  }
};

template <class T, class... Row>
const LossRow<T>* loss_table(std::tuple<Row...>*) {
  static const LossRow<T> table[] = {row_of<LossRule<Row, T>, T, T, T>()...};
  return table;
}
template <class T, class... Row>
const LossGradientRow<T>* loss_left_table(std::tuple<Row...>*) {
  static const LossGradientRow<T> table[] = {row_of<LossLeftRule<Row, T>, T, T, T, T>()...};
  return table;
}
template <class T, class... Row>
const LossGradientRow<T>* loss_right_table(std::tuple<Row...>*) {
  static const LossGradientRow<T> table[] = {row_of<LossRightRule<Row, T>, T, T, T, T>()...};
  return table;
}

template <class T>
const LossRow<T>& loss_row(int op) {
  return loss_table<T>(static_cast<kernels::LossOps*>(nullptr))[op];
}
template <class T>
const LossGradientRow<T>& loss_gradient_row(int op, bool right) {
  auto* const list = static_cast<kernels::LossOps*>(nullptr);
  return right ? loss_right_table<T>(list)[op] : loss_left_table<T>(list)[op];
}

}  // namespace capstan::on_cuda
